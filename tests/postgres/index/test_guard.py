"""With the rights of a superuser, the server refuses statements that would break an index."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.postgres.index.harness import Indexed
from tidefill.indexes.bodies import trigger_names
from tidefill.indexes.guard import guard_name
from tidefill.indexes.states import State
from tidefill.jobs.sql_names import unquoted
from tidefill.postgres.index import changes, looking, removal

Make = Callable[..., Indexed]
ROWS = [(number, number % 4, f"v{number}") for number in range(1, 9)]
REFUSED = "55006"
PASSED = (
    "ALTER TABLE {t} ADD COLUMN more int DEFAULT 1",
    "ALTER TABLE {t} RENAME COLUMN v TO w",
    "CREATE TABLE {t}_7 PARTITION OF {t} FOR VALUES IN (7)",
    "ALTER TABLE {t} DETACH PARTITION {t}_7",
    "DROP TABLE {t}_7",
    "ALTER TABLE {t} DETACH PARTITION {t}_3 CONCURRENTLY",
    "DROP TABLE {t}_3",
    "CREATE TABLE {t}_other (id int)",
    "ALTER TABLE {t}_other ADD COLUMN more int",
    "DROP TABLE {t}_other",
)


def breaking(index: Indexed) -> list[str]:
    """Statements after which writers would fail, or rows be missing."""
    row, changed = trigger_names(index.shape)
    return [
        f"ALTER TABLE {{t}} DISABLE TRIGGER {row}",
        f"ALTER TABLE {{t}}_2 DISABLE TRIGGER {changed}",
        f"ALTER TABLE {{t}} ENABLE REPLICA TRIGGER {changed}",
        "ALTER TABLE {t} DISABLE TRIGGER ALL",
        f"DROP TRIGGER {row} ON {{t}}",
        f"ALTER TRIGGER {changed} ON {{t}} RENAME TO other",
        f"DROP FUNCTION {index.shape.function('do')}",
        f"ALTER FUNCTION {index.shape.function('do')} RENAME TO other",
        f"DROP FUNCTION {index.shape.function('row')} CASCADE",
        f"DROP TABLE {index.shape.entries} CASCADE",
        f"ALTER TABLE {index.shape.entries} RENAME TO other",
    ]


@pytest.mark.parametrize("state", [State.LOGGING, State.READ_WRITE_AND_DELETE])
def test_what_would_break_it_is_refused(indexed: Make, state: State) -> None:
    index = indexed(ROWS)
    index.sql("SET client_min_messages = error")
    index.run_to(state)
    for statement in breaking(index):
        assert index.writes(statement) == REFUSED, statement
    index.sql("SET session_replication_role = replica")
    assert index.writes(breaking(index)[0]) == REFUSED
    index.sql("RESET session_replication_role")
    index.run()
    for statement in PASSED:
        assert index.writes(statement) == "ok", statement
    index.sql("ALTER TABLE {t} RENAME COLUMN w TO v")
    index.run_until(lambda one: type(one.turn()).__name__ == "Wait")
    assert index.differences() == []


def test_it_says_what_to_do(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run_to(State.MERGING)
    with pytest.raises(psycopg.errors.ObjectInUse) as refused:
        index.sql("ALTER TABLE {t} DISABLE TRIGGER ALL")
    assert refused.value.diag.message_primary == (
        f'ALTER TABLE is refused: the global index "ix_{index.name}" needs its trigger on public.{index.name}'
    )
    hint = str(refused.value.diag.message_hint)
    assert f"SELECT tidefill.stop('ix_{index.name}')" in hint
    index.sql("SELECT tidefill.stop(%s)", f"ix_{index.name}")
    assert index.writes("ALTER TABLE {t} DISABLE TRIGGER ALL") == "ok"


def test_a_role_without_rights_to_our_schema_may_alter_its_tables(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    index.sql("CREATE ROLE plain_{t} LOGIN")
    index.sql("GRANT CREATE ON SCHEMA public TO plain_{t}")
    try:
        index.sql("SET ROLE plain_{t}")
        assert index.writes("CREATE TABLE of_{t} (id int)") == "ok"
        assert index.writes("ALTER TABLE of_{t} ADD COLUMN more int") == "ok"
        assert index.writes("DROP TABLE of_{t}") == "ok"
    finally:
        index.sql("RESET ROLE")
        index.sql("DROP OWNED BY plain_{t}")
        index.sql("DROP ROLE plain_{t}")


def test_an_index_of_before_gets_its_guard(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    index.unguarded()
    index.restart()
    assert index.writes("ALTER TABLE {t} DISABLE TRIGGER ALL") == REFUSED
    index.restart()  # a second one is not made


def test_a_plain_owner_makes_none(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "_LACKS_GUARD", changes._LACKS_GUARD.replace("rolsuper", "NOT rolsuper"))
    index = indexed(ROWS)
    index.run()
    name = unquoted(guard_name(index.shape))
    assert index.sql("SELECT count(*) FROM pg_event_trigger WHERE evtname = %s", name) == [(0,)]


def test_it_goes_with_the_index(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    removal.stop(index.session)
    assert looking.writers_end(index.session, 5.0)
    removal.clear(index.session)
    removal.forget(index.session)
    assert index.sql("SELECT count(*) FROM pg_event_trigger") == [(0,)]
    assert index.sql("SELECT to_regnamespace('tidefill')") == [(None,)]


def test_two_tables_are_altered_at_once(indexed: Make) -> None:
    """The guards of both read the partitions of both tables, and wait for nobody."""
    first, second = indexed(ROWS), indexed(ROWS)
    first.run()
    second.run()
    writer = first.begin()
    first.by(writer, "ALTER TABLE {t} ADD COLUMN more int")
    assert second.writes("SET lock_timeout = '5s'") == "ok"
    assert second.writes("ALTER TABLE {t} ADD COLUMN more int") == "ok"
    writer.execute("COMMIT")


def test_an_index_that_is_broken_gets_none(indexed: Make) -> None:
    """It would refuse the first of the statements that mend it."""
    index = indexed(ROWS)
    index.run()
    index.unguarded()
    index.sql("ALTER TABLE {t} DISABLE TRIGGER ALL")
    index.restart()
    for name in trigger_names(index.shape):
        assert index.writes(f"ALTER TABLE {{t}} ENABLE ALWAYS TRIGGER {name}") == "ok"
    index.restart()
    assert index.writes("ALTER TABLE {t} DISABLE TRIGGER ALL") == REFUSED
