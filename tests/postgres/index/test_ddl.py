"""What changes of the table mean for its index, while it is built and later."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.postgres.index.harness import Indexed
from tidefill.errors import IndexBroken, NotYet
from tidefill.indexes.bodies import trigger_names
from tidefill.indexes.shape import renamed
from tidefill.indexes.states import Method, State
from tidefill.ports.machine import Round, Step
from tidefill.postgres.index import removal

Make = Callable[..., Indexed]
ROWS = [(number, number % 4, f"v{number}") for number in range(1, 9)]
WHEN = pytest.mark.parametrize("state", [State.LOGGING, State.MERGING, State.READ_WRITE_AND_DELETE])


def brought(indexed: Make, state: State, method: Method = Method.BULK) -> Indexed:
    """An index in that state; a public one if it is the last."""
    index = indexed(ROWS, method=method)
    if state is State.READ_WRITE_AND_DELETE:
        index.run()
    else:
        index.run_to(state)
    return index


def rename(index: Indexed, statement: str) -> None:
    """Rename something; the runner begins again with the names that there are now."""
    index.sql(statement)
    query = "SELECT attnum::int, attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0"
    names = dict(index.sql(query, index.shape.relation))
    (index.name,) = index.sql("SELECT relname FROM pg_class WHERE oid = %s", index.shape.relation)[0]
    index.shape = renamed(index.shape, "public", index.name, names)


@WHEN
def test_columns_and_the_table_are_renamed(indexed: Make, state: State) -> None:
    index = brought(indexed, state)
    rename(index, "ALTER TABLE {t} RENAME COLUMN v TO vv")
    index.columns = ("vv",)
    assert index.writes("UPDATE {t} SET vv = 'a' WHERE id = 1") == "ok"
    rename(index, "ALTER TABLE {t} RENAME COLUMN id TO idd")
    assert index.writes("INSERT INTO {t} (idd, r, vv) VALUES (30, 3, 'd')") == "ok"
    assert index.writes("DELETE FROM {t} WHERE idd = 2") == "ok"
    index.restart()
    if state is not State.READ_WRITE_AND_DELETE:
        index.turn()
    rename(index, "ALTER TABLE {t} RENAME COLUMN idd TO id")
    rename(index, "ALTER TABLE {t} RENAME TO {t}_renamed")
    assert index.writes("UPDATE {t} SET vv = 'b' WHERE id = 3") == "ok"
    index.restart()
    if state is not State.READ_WRITE_AND_DELETE:
        index.run()
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, vv) VALUES (40, 3, 'd')") == "23505"


@WHEN
def test_columns_that_the_index_needs_stay(indexed: Make, state: State) -> None:
    index = brought(indexed, state)
    for column in ("v", "inc", "id"):
        assert index.writes(f"ALTER TABLE {{t}} DROP COLUMN {column}") != "ok"
        assert index.writes(f"ALTER TABLE {{t}} ALTER COLUMN {column} TYPE varchar(9)") == "0A000"
    assert index.writes("ALTER TABLE {t} DROP COLUMN b") == "ok"
    assert index.writes("ALTER TABLE {t} ADD COLUMN extra int DEFAULT 1") == "ok"
    assert index.writes("ALTER TABLE {t} ALTER COLUMN n TYPE double precision") == "ok"  # rewrites the table
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (30, 3, 'new')") == "ok"
    assert index.writes("DROP TABLE {t}") == "2BP01"
    if state is not State.READ_WRITE_AND_DELETE:
        index.run()
    assert index.differences() == []


@pytest.mark.parametrize("method", list(Method))
@pytest.mark.parametrize("table", ["{t}", "{t}_2"])
def test_truncate_is_refused_while_it_is_built(indexed: Make, method: Method, table: str) -> None:
    index = indexed(ROWS, method=method)
    index.run_to(State.BACKFILLING)
    assert index.writes(f"TRUNCATE {table}") == "55006"
    index.run()
    assert index.differences() == []


@pytest.mark.parametrize("table", ["{t}", "{t}_2"])
def test_truncate_takes_the_entries_of_a_public_index(indexed: Make, table: str) -> None:
    index = brought(indexed, State.READ_WRITE_AND_DELETE)
    index.sql("BEGIN")
    index.sql(f"TRUNCATE {table}")
    assert index.differences() == []
    index.sql("ROLLBACK")
    assert index.count() == 8
    assert index.differences() == []
    index.sql(f"TRUNCATE {table}")
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (2, 2, 'v2')") == "ok"


def test_truncate_is_free_once_the_index_is_stopped(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run_to(State.BACKFILLING)
    assert index.sql("SELECT tidefill.stop(%s)", index.shape.name) == [(1,)]
    assert index.writes("TRUNCATE {t}_2") == "ok"
    index.sql(f"DROP TABLE {index.shape.entries}")
    assert index.writes("TRUNCATE {t}") == "ok"


@pytest.mark.parametrize("state", [State.BACKFILLING, State.READ_WRITE_AND_DELETE])
def test_it_is_stopped_after_a_rename(indexed: Make, state: State) -> None:
    index = brought(indexed, state)
    rename(index, "ALTER TABLE {t} RENAME TO {t}_renamed")
    assert index.sql("SELECT tidefill.stop(%s)", index.shape.name) == [(1,)]
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (30, 1, 'v1')") == "ok"
    assert index.count(index.shape.log(1)) == 0
    removal.stop(index.session)
    removal.clear(index.session)
    removal.forget(index.session)
    assert index.sql("SELECT to_regnamespace('tidefill')") == [(None,)]


def test_a_public_index_that_is_removed_never_stands_in_the_way(indexed: Make) -> None:
    """Its entries go before its triggers, which may have to wait for the table."""
    index = brought(indexed, State.READ_WRITE_AND_DELETE)
    removal.stop(index.session)
    removal.drop_view(index.session)
    index.sql(f"DROP TABLE {index.shape.entries}")
    for statement in ("DELETE FROM {t} WHERE id = 1", "TRUNCATE {t}_2", "TRUNCATE {t}"):
        assert index.writes(statement) == "ok"


@WHEN
def test_a_new_partition_is_followed(indexed: Make, state: State) -> None:
    index = brought(indexed, state)
    index.sql("CREATE TABLE {t}_9 PARTITION OF {t} FOR VALUES IN (9)")
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (90, 9, 'nine')") == "ok"
    assert index.writes("UPDATE {t} SET r = 9 WHERE id = 1") == "ok"
    if state is not State.READ_WRITE_AND_DELETE:
        index.run()
    assert index.differences() == []
    assert index.writes("INSERT INTO {t}_9 (id, r, v) VALUES (91, 9, 'v2')") == "23505"


def test_a_detached_partition_is_left_alone(indexed: Make) -> None:
    index = brought(indexed, State.READ_WRITE_AND_DELETE)
    index.sql("ALTER TABLE {t} DETACH PARTITION {t}_3")
    for statement in ("INSERT INTO {t}_3 (id, r, v) VALUES (90, 3, 'v1')", "TRUNCATE {t}_3", "DROP TABLE {t}_3"):
        assert index.writes(statement) == "ok"
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (91, 1, 'v3')") == "ok"  # the entry is taken over


@pytest.mark.parametrize("table", ["{t}", "{t}_2"])
def test_a_disabled_trigger_is_noticed(indexed: Make, table: str) -> None:
    index = brought(indexed, State.READ_WRITE_AND_DELETE)
    index.turn()
    index.unguarded()
    index.sql(f"ALTER TABLE {table} DISABLE TRIGGER {trigger_names(index.shape)[0]}")
    with pytest.raises(IndexBroken, match="not enabled for all writers"):
        index.turn()


def test_missing_parts_are_noticed(indexed: Make) -> None:
    index = brought(indexed, State.READ_WRITE_AND_DELETE)
    index.unguarded()
    index.sql(f"DROP TRIGGER {trigger_names(index.shape)[1]} ON {{t}}")
    with pytest.raises(IndexBroken, match="is gone"):
        index.turn()


def test_a_missing_function_is_noticed(indexed: Make) -> None:
    index = brought(indexed, State.READ_WRITE_AND_DELETE)
    index.unguarded()
    index.sql(f"DROP FUNCTION {index.shape.function('do')}")
    with pytest.raises(IndexBroken, match="functions is gone"):
        index.turn()


def test_a_public_index_that_somebody_stopped_is_noticed(indexed: Make) -> None:
    index = brought(indexed, State.READ_WRITE_AND_DELETE)
    index.sql("SELECT tidefill.stop(%s)", index.shape.name)
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (91, 1, 'v3')") == "ok"
    with pytest.raises(IndexBroken, match="stopped"):
        index.turn()


@pytest.mark.parametrize("state", [State.LOGGING, State.BACKFILLING, State.MERGING, State.READ_WRITE_AND_DELETE])
def test_the_table_is_dropped(indexed: Make, state: State) -> None:  # Y16
    index = brought(indexed, state)
    index.sql("SET client_min_messages = error")
    index.sql("DROP TABLE {t} CASCADE")
    removal.stop(index.session)
    removal.clear(index.session)
    removal.forget(index.session)
    assert index.sql("SELECT to_regnamespace('tidefill')") == [(None,)]
    assert index.sql("SELECT to_regclass(%s)", f"ix_{index.name}") == [(None,)]


def test_who_may_read_the_table_may_read_the_index(indexed: Make) -> None:
    index = indexed(ROWS)
    for role in ("reader", "other"):
        index.sql(f"CREATE ROLE {{t}}_{role}")
    index.sql("GRANT SELECT ON {t} TO {t}_reader")
    index.run()
    session = index.writer()
    for role, said in (("reader", "ok"), ("other", "42501")):
        session.execute(f"SET ROLE {index.name}_{role}")
        assert index.by(session, "SELECT * FROM ix_{t} WHERE v = 'v1'") == said
        assert index.by(session, f"DELETE FROM {index.shape.entries}") == "42501"
        session.execute("RESET ROLE")
        index.sql(f"DROP OWNED BY {{t}}_{role}")
        index.sql(f"DROP ROLE {{t}}_{role}")


@pytest.mark.parametrize("method", list(Method))
def test_a_running_build_takes_new_names_by_itself(indexed: Make, method: Method) -> None:
    """No restart: the next turn reads chunks, and puts single rows right, by the names of now."""
    index = indexed(ROWS, method=method, chunk_rows=2)
    index.run_to(State.BACKFILLING)
    index.turn()
    old = index.name
    index.sql("ALTER TABLE {t} RENAME COLUMN id TO idd")
    index.sql("ALTER TABLE {t} RENAME COLUMN v TO vv")
    index.sql("ALTER TABLE {t} RENAME TO {t}_renamed")
    index.name, index.columns = f"{old}_renamed", ("vv",)
    index.run_to(State.VALIDATING)
    index.sql("CREATE TABLE {t}_9 (LIKE {t} INCLUDING ALL)")
    index.sql("INSERT INTO {t}_9 (idd, r, vv) VALUES (90, 9, 'nine'), (91, 9, 'ten')")
    index.sql("ALTER TABLE {t} ATTACH PARTITION {t}_9 FOR VALUES IN (9)")
    index.run()
    assert index.sql("SELECT idd, r FROM ix_" + old + " WHERE vv = 'nine'") == [(90, 9)]
    index.sql("ALTER TABLE {t} RENAME COLUMN idd TO id")
    assert index.differences() == []


@pytest.mark.parametrize("statement", ["RENAME COLUMN id TO idd", "RENAME TO {t}_renamed"])
def test_a_rename_between_look_and_act_is_no_failure(indexed: Make, statement: str) -> None:
    index = indexed(ROWS, chunk_rows=2)
    index.run_to(State.BACKFILLING)
    plan = index.machine.plan(index.job, index.truth, Round(time.time()))
    assert isinstance(plan, Step)
    index.sql(f"ALTER TABLE {{t}} {statement}")
    with pytest.raises(NotYet, match="renamed"):
        index.machine.execute(index.job, index.truth, plan)
    index.run()
    assert index.count() == len(ROWS)
    if "COLUMN" not in statement:
        index.name = f"{index.name}_renamed"
