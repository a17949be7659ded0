"""The rules that the triggers of an index keep, each beside its negative control: without the rule an entry is lost or
left over, a duplicate is accepted, or a legal write is refused."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import pytest

from tests.postgres.index.harness import Indexed
from tidefill.indexes import bodies, entries
from tidefill.indexes.next_action import Validate
from tidefill.indexes.shape import Shape
from tidefill.indexes.states import Body, Method, State

Make = Callable[..., Indexed]
RULE = pytest.mark.parametrize("holds", [True, False], ids=["rule", "without"])
WIDE = secrets.token_hex(4000)
NESTED = (
    "CREATE OR REPLACE FUNCTION {t}_f () RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
    "IF pg_trigger_depth() = 1 AND %s THEN %s; END IF; RETURN NULL; END $$"
)


def nested(index: Indexed, event: str, when: str, then: str) -> None:
    """A trigger of the user's, which does something else after the first row of a statement."""
    index.sql(NESTED.replace("%s", when, 1).replace("%s", then, 1))
    index.sql(f"CREATE TRIGGER zz AFTER {event} ON {{t}} FOR EACH ROW EXECUTE FUNCTION {{t}}_f ()")


@RULE
def test_the_delete_half_leaves_a_row_that_is_there_again(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    if not holds:
        monkeypatch.setattr(bodies, "unless_still_there", lambda shape: "")
    index = indexed([(1, 1, "a"), (2, 1, "b"), (3, 1, "c")])
    index.run()
    nested(index, "DELETE", "OLD.id = 1", "INSERT INTO {t} (id, r, v) VALUES (2, 1, 'b')")
    index.sql("DELETE FROM {t} WHERE id IN (1, 2)")
    assert (index.differences() == []) is holds
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (9, 2, 'b')") == ("23505" if holds else "ok")


def test_the_delete_half_leaves_a_key_that_came_back(indexed: Make) -> None:
    index = indexed([(1, 1, "a"), (2, 1, "b")])
    index.run()
    nested(index, "UPDATE", "NEW.id = 1", "UPDATE {t} SET v = 'b' WHERE id = 2")
    index.sql("UPDATE {t} SET v = v || 'x' WHERE id IN (1, 2)")
    assert index.differences() == []
    index.run_until(lambda index: index.count(where="dead") == 0)  # a live index is swept now and then


@RULE
def test_the_insert_half_puts_the_row_as_it_is_now(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    def of_event(shape: Shape) -> str:
        return f"SELECT * INTO b FROM {shape.function('of')} (new_row) z WHERE z.ok;"

    if not holds:
        monkeypatch.setattr(bodies, "new_entry", of_event)
    index = indexed([(1, 1, "a"), (2, 1, "b")])
    index.run()
    nested(index, "UPDATE", "NEW.id = 1", "UPDATE {t} SET inc = 'nested', v = 'bb' WHERE id = 2")
    index.sql("UPDATE {t} SET inc = 'outer', v = v || 'x'")
    assert (index.differences() == []) is holds


@RULE
def test_a_writer_older_than_the_entry_begins_again(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    if not holds:
        monkeypatch.setattr(bodies, "_removal", lambda shape, body: bodies.bare_delete(shape))
    index = indexed([(1, 1, "a")], method=Method.INITPUT)
    index.run_to(State.BACKFILLING)
    writer = index.begin("REPEATABLE READ")
    index.run_to(State.VALIDATING)
    assert index.by(writer, "DELETE FROM {t} WHERE id = 1") == ("40001" if holds else "ok")
    writer.execute("COMMIT")
    assert (index.differences() == []) is holds


@RULE
@pytest.mark.parametrize("where", ["", "v <> 'd'"])
def test_a_row_inserted_again_is_seen_instead_of_the_one_deleted_meanwhile(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, where: str, holds: bool
) -> None:
    """The snapshot of the writer shows both rows: the one that somebody has deleted since, and its own."""
    if not holds:
        monkeypatch.setattr(entries, "newest_version", lambda: "LIMIT 1")
    index = indexed([(1, 1, "c")], where=where)
    index.run()
    writer = index.begin("REPEATABLE READ")
    index.sql("DELETE FROM {t} WHERE id = 1")
    assert index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (1, 1, 'd')") == "ok"
    writer.execute("COMMIT")
    assert (index.differences() == []) is holds


@RULE
def test_a_tombstone_is_only_for_the_owner(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:  # C9, Y4
    right = bodies.tombstone_upsert
    if not holds:
        monkeypatch.setattr(
            bodies, "tombstone_upsert", lambda shape: right(shape).replace(bodies.if_ours_or_dead(shape), "")
        )
    index = indexed([(1, 1, "a")], method=Method.INITPUT)
    index.run_to(State.BACKFILLING)
    index.sql("INSERT INTO {t} (id, r, v) VALUES (2, 2, 'a')")
    index.sql("UPDATE {t} SET v = 'b' WHERE id = 1")
    assert (index.differences() == []) is holds
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (3, 2, 'a')") == ("23505" if holds else "ok")


@RULE
def test_logging_computes_no_key(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    right = bodies._log

    def computing(shape: Shape, number: int) -> str:
        return f"IF op <> 'INSERT' THEN PERFORM * FROM {shape.function('of')} (old_row); END IF; {right(shape, number)}"

    if not holds:
        monkeypatch.setattr(bodies, "_log", computing)
    index = indexed([(1, 1, "a"), (5, 1, "e")], columns=("(id / b)",), setup=["UPDATE {t} SET b = 0 WHERE id = 5"])
    index.run_to(State.LOGGING)
    assert index.writes("DELETE FROM {t} WHERE id = 5") == ("ok" if holds else "22012")
    if holds:
        index.run()
        assert index.differences() == []


@RULE
@pytest.mark.parametrize("state", [State.DELETE_ONLY, State.WRITE_AND_DELETE])
def test_a_row_without_a_key_can_be_deleted(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool, state: State
) -> None:
    if not holds:
        monkeypatch.setattr(
            bodies, "_old_entry", lambda shape: f"SELECT * INTO v FROM {shape.function('of')} (old_row);"
        )
    index = indexed(
        [(1, 1, "a"), (5, 1, "e")], columns=("(id / b)",), setup=["UPDATE {t} SET b = 0 WHERE id = 5"],
        method=Method.INITPUT,
    )  # fmt: skip
    index.run_to(state)
    assert index.writes("DELETE FROM {t} WHERE id = 5") == ("ok" if holds else "22012")


@RULE
def test_a_row_with_a_key_too_wide_can_be_deleted(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    if not holds:
        monkeypatch.setattr(bodies, "_tombstone_if_it_fits", bodies.tombstone_upsert)
    index = indexed([(1, 1, "a"), (2, 1, WIDE)], method=Method.INITPUT)
    index.run_to(State.WRITE_AND_DELETE)
    assert index.writes("DELETE FROM {t} WHERE id = 2") == ("ok" if holds else "54000")
    if holds:
        index.run()
        assert index.differences() == []


def test_a_wide_tombstone_counts_all_columns_of_the_key(indexed: Make) -> None:
    """The key of an index that is not unique has the primary key in it, which may be wide itself."""
    index = indexed(
        [], unique=False, include=(), method=Method.INITPUT,
        setup=["DROP TABLE {t}", "CREATE TABLE {t} (id text, r int, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r)",
               "CREATE TABLE {t}_0 PARTITION OF {t} FOR VALUES IN (0)"],
    )  # fmt: skip
    index.sql("INSERT INTO {t} VALUES (%s, 0, %s)", secrets.token_hex(500), secrets.token_hex(1200))
    index.run_to(State.WRITE_AND_DELETE)
    assert index.writes("DELETE FROM {t}") == "ok"
    index.run()
    assert index.differences() == []


@RULE
def test_an_old_snapshot_does_not_judge_while_the_log_is_drained(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    if not holds:
        monkeypatch.setattr(bodies, "_refuse_old_snapshots", lambda body: "")
    monkeypatch.setattr("tidefill.indexes.next_action.LOCK_TRIES", 0)
    index = indexed([(1, 1, "a")])
    index.run_to(State.MERGING)
    writer = index.begin("REPEATABLE READ")
    index.sql("UPDATE {t} SET v = 'b' WHERE id = 1")
    index.run_to(State.DRAINING)
    said = index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (5, 1, 'a')")
    assert said == ("40001" if holds else "23505")  # the row is no duplicate: it must not be called one


def test_initput_tells_an_old_snapshot_of_a_duplicate(indexed: Make) -> None:
    index = indexed([(1, 1, "a")], method=Method.INITPUT)
    index.run_to(State.VALIDATING)
    writer = index.begin("REPEATABLE READ")
    assert index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (5, 1, 'a')") == "23505"


@RULE
def test_other_bytes_of_an_equal_value_are_noticed(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    if not holds:
        monkeypatch.setattr(bodies, "image_differs", lambda shape: "(OLD.n, OLD.id) IS DISTINCT FROM (NEW.n, NEW.id)")
    index = indexed([(1, 1, "a")], columns=("(n::text)",), setup=["UPDATE {t} SET n = 1.0"])
    index.run()
    index.sql("UPDATE {t} SET n = 1.00")
    assert (index.differences() == []) is holds


@RULE
def test_what_a_subscription_applies_counts(indexed: Make, holds: bool) -> None:
    index = indexed([(1, 1, "a")])
    index.run()
    if not holds:
        index.unguarded()
        for name in bodies.trigger_names(index.shape):
            index.sql(f"ALTER TABLE {{t}} ENABLE TRIGGER {name}")
    writer = index.writer()
    writer.execute("SET session_replication_role = replica")
    assert index.by(writer, "UPDATE {t} SET v = 'z' WHERE id = 1") == "ok"
    assert (index.differences() == []) is holds


@RULE
@pytest.mark.parametrize("state", [State.LOGGING, State.READ_WRITE_AND_DELETE])
def test_a_plain_writer_needs_no_right_on_the_entries(indexed: Make, holds: bool, state: State) -> None:
    index = indexed([(1, 1, "a")])
    index.run_to(state)
    index.sql("CREATE ROLE {t}_app")
    index.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON {t} TO {t}_app")
    if not holds:
        index.sql(f"ALTER FUNCTION {index.shape.function('row')} () SECURITY INVOKER")
    writer = index.writer()
    writer.execute(f"SET ROLE {index.name}_app")
    assert index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (7, 2, 'z')") == ("ok" if holds else "42501")
    call = f"SELECT {index.shape.function('do')} ('DELETE', NULL, NULL)"
    assert index.by(writer, call) == "42501"
    assert index.by(writer, f"INSERT INTO {index.shape.entries} (p1, p2) VALUES (9, 9)") == "42501"
    writer.close()
    index.sql("DROP OWNED BY {t}_app")
    index.sql("DROP ROLE {t}_app")


def test_each_body_is_the_state_of_the_index(indexed: Make) -> None:
    """An old snapshot does not run an old body: a REPEATABLE READ writer from before the change keeps the entries."""
    index = indexed([(1, 1, "a")])
    index.run_to(State.MERGING)
    writer = index.begin("REPEATABLE READ")
    index.run_before(Validate)
    assert index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (5, 1, 'late')") == "ok"
    writer.execute("COMMIT")
    control = index.session.control()
    assert control is not None
    assert control.body is Body.READ_WRITE_AND_DELETE
    assert index.differences() == []
