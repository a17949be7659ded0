"""All that a writer may do to the table, in each state of the index: the entries are right afterwards, and nothing that
was legal is refused."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.postgres.index.harness import Indexed, bring
from tidefill.indexes.next_action import Advance
from tidefill.indexes.states import Method, State
from tidefill.ports.machine import Wait

Make = Callable[..., Indexed]
ROWS = [(number, number % 4, f"v{number}") for number in range(1, 31)]
BUILDING = [
    (Method.BULK, State.LOGGING),
    (Method.BULK, State.MERGING),
    (Method.BULK, State.DRAINING),
    (Method.BULK, State.VALIDATING),
    (Method.INITPUT, State.DELETE_ONLY),
    (Method.INITPUT, State.WRITE_AND_DELETE),
    (Method.INITPUT, State.VALIDATING),
]
PUBLIC = [(Method.BULK, State.READ_WRITE_AND_DELETE), (Method.INITPUT, State.READ_WRITE_AND_DELETE)]
STATES = pytest.mark.parametrize(("method", "state"), [*BUILDING, *PUBLIC])
KEEPING = {State.DRAINING, State.VALIDATING, State.WRITE_AND_DELETE, State.READ_WRITE_AND_DELETE}
"""The states in which writers keep the entries themselves, so that a duplicate is refused."""

LEGAL = [
    "UPDATE {t} SET v = CASE id WHEN 1 THEN 'v2' ELSE 'v1' END WHERE id IN (1, 2)",
    "UPDATE {t} SET v = CASE id WHEN 3 THEN 'v4' WHEN 4 THEN 'v5' ELSE 'v3' END WHERE id IN (3, 4, 5)",
    "BEGIN; DELETE FROM {t} WHERE id = 6; INSERT INTO {t} (id, r, v) VALUES (60, 1, 'v6'); COMMIT",
    "WITH gone AS (DELETE FROM {t} WHERE id = 7 RETURNING v) INSERT INTO {t} (id, r, v) SELECT 70, 1, v FROM gone",
    "UPDATE {t} SET id = 80 WHERE id = 8",
    "UPDATE {t} SET r = (r + 1) % 4 WHERE id IN (9, 10)",
    "UPDATE {t} SET r = (r + 1) % 4, id = id + 100, v = v || 'm' WHERE id IN (9, 11)",
    "BEGIN; SAVEPOINT s; UPDATE {t} SET v = 'no' WHERE id = 12; ROLLBACK TO s; UPDATE {t} SET v = 'yes' WHERE id = 12; "
    "RELEASE s; COMMIT",
    "BEGIN; DELETE FROM {t} WHERE id = 13; ROLLBACK",
    "INSERT INTO {t} (id, r, v) VALUES (14, 2, 'x'), (140, 1, 'y') ON CONFLICT (id, r) DO UPDATE SET v = 'up' || {t}.v",
    "INSERT INTO {t} (id, r, v) VALUES (14, 2, 'x') ON CONFLICT DO NOTHING",
    "MERGE INTO {t} USING (VALUES (15, 3, 'm15'), (150, 1, 'm150'), (16, 0, NULL)) s (id, r, v) "
    "ON {t}.id = s.id AND {t}.r = s.r WHEN MATCHED AND s.v IS NULL THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, r, v) VALUES (s.id, s.r, s.v)",
    "INSERT INTO {t}_1 (id, r, v) VALUES (170, 1, 'leaf')",
    "UPDATE {t}_1 SET v = 'leaf17' WHERE id = 17",
    "DELETE FROM {t}_2 WHERE id = 18",
    "UPDATE {t} SET v = v WHERE id = 19",
    "UPDATE {t} SET inc = 'changed' WHERE id = 20",
    "UPDATE {t} SET b = b + 1 WHERE id = 21",
    "UPDATE {t} SET v = NULL WHERE id IN (22, 23)",
    "UPDATE {t} SET v = 'v' || id WHERE id IN (22, 24)",
    "DELETE FROM {t} WHERE id = 25; INSERT INTO {t} (id, r, v) VALUES (25, 1, 'v25')",
    "BEGIN; DELETE FROM {t} WHERE id = 26; INSERT INTO {t} (id, r, v) VALUES (26, 2, 'v26'); COMMIT",
    "BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE {t} SET v = 's27' WHERE id = 27; COMMIT",
    "BEGIN; UPDATE {t} SET v = 'p28' WHERE id = 28; PREPARE TRANSACTION '{t}'; COMMIT PREPARED '{t}'",
    "UPDATE {t} SET v = upper(v)",
]
ILLEGAL = [
    "INSERT INTO {t} (id, r, v) VALUES (900, 1, 'V19')",
    "UPDATE {t} SET v = 'V19' WHERE id = 20",
    "INSERT INTO {t} (id, r, v) VALUES (900, 1, 'twice'), (901, 2, 'twice')",
]


@STATES
def test_every_statement(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, method: Method, state: State
) -> None:  # Y1, Y7, C15
    index = bring(indexed(ROWS, method=method), monkeypatch, state, logged=29)
    writer = index.writer()
    for statement in LEGAL:
        for part in statement.split("; "):
            assert index.by(writer, part) == "ok", part
        if state in (State.VALIDATING, State.READ_WRITE_AND_DELETE):
            assert index.differences() == [], statement
    with index.owner.cursor().copy(f"COPY {index.name} (id, r, v) FROM STDIN") as copy:
        for row in ((300, 1, "c1"), (301, 2, "c2"), (302, 3, None)):
            copy.write_row(row)
    if state in KEEPING:
        for statement in ILLEGAL:
            assert index.by(writer, statement) == "23505", statement
            index.by(writer, "DELETE FROM {t} WHERE id >= 900")
            index.by(writer, "UPDATE {t} SET v = 'V20' WHERE id = 20")
    index.run()
    assert index.differences() == []


@STATES
def test_a_writer_that_began_before(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, method: Method, state: State
) -> None:  # Y2
    """A transaction that is open while the state changes is waited for, or is not in the way; its rows are there."""
    index = bring(indexed(ROWS, method=method), monkeypatch, state, logged=29)
    writer = index.begin()
    assert index.by(writer, "UPDATE {t} SET v = 'late' WHERE id = 1") == "ok"
    assert index.by(writer, "DELETE FROM {t} WHERE id = 2") == "ok"
    for _ in range(4):
        index.turn()
    assert index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (99, 3, 'later')") == "ok"
    writer.execute("COMMIT")
    index.run()
    assert index.differences() == []


@pytest.mark.parametrize("method", list(Method))
def test_a_prepared_transaction_is_waited_for(indexed: Make, method: Method) -> None:  # Y2
    index = indexed(ROWS, method=method)
    index.run_before(Advance)
    writer = index.begin()
    index.by(writer, "UPDATE {t} SET v = 'late' WHERE id = 1")
    index.turn()
    index.turn()
    writer.execute(f"PREPARE TRANSACTION '{index.name}'")
    writer.close()
    until = {Method.BULK: State.MERGING, Method.INITPUT: State.WRITE_AND_DELETE}[method]
    index.run_to(until)
    index.run_until(lambda index: isinstance(index.planned(), Wait))
    plan = index.planned()
    assert f"ROLLBACK PREPARED '{index.name}'" in plan.text
    index.sql(f"COMMIT PREPARED '{index.name}'")
    index.run()
    assert index.differences() == []


NESTED = [  # a user's trigger that writes other rows of the same statement
    "CREATE FUNCTION {t}_f () RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF pg_trigger_depth() = 1 THEN "
    "UPDATE {t} SET v = rtrim(v, 'x'), inc = 'back' WHERE v LIKE '%x' AND id <> NEW.id; "
    "INSERT INTO {t} (id, r, v) VALUES (NEW.id + 1000, 1, 'n' || NEW.id) "
    "ON CONFLICT (id, r) DO UPDATE SET inc = 'again'; "
    "DELETE FROM {t} WHERE id = 1001; END IF; RETURN NULL; END $$",
    "CREATE TRIGGER aa AFTER UPDATE ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_f ()",
]


@STATES
def test_triggers_of_users(indexed: Make, monkeypatch: pytest.MonkeyPatch, method: Method, state: State) -> None:
    index = bring(indexed(ROWS, method=method), monkeypatch, state, logged=29)
    for statement in NESTED:
        index.sql(statement)
    index.sql("UPDATE {t} SET v = v || 'x' WHERE id <= 5")
    index.sql("UPDATE {t} SET v = CASE id WHEN 6 THEN 'v7' ELSE 'v6x' END WHERE id IN (6, 7)")
    index.run()
    assert index.differences() == []


@STATES
def test_an_old_snapshot(indexed: Make, monkeypatch: pytest.MonkeyPatch, method: Method, state: State) -> None:
    """A writer with a snapshot from before the state either does right, or begins again."""
    index = indexed(ROWS, method=method)
    index.run_to({Method.BULK: State.BACKFILLING, Method.INITPUT: State.DELETE_ONLY}[method])
    writers = [index.begin(level) for level in 2 * ("REPEATABLE READ", "SERIALIZABLE")]
    if state is State.DRAINING:
        monkeypatch.setattr("tidefill.indexes.next_action.LOCK_TRIES", 0)
    if not (state is State.DELETE_ONLY or state is State.LOGGING):
        index.run_to(state)
    statements = (
        "UPDATE {t} SET v = 'v3' WHERE id = 2",
        "DELETE FROM {t} WHERE id = 4",
        "UPDATE {t} SET v = CASE id WHEN 5 THEN 'v6' ELSE 'v5' END WHERE id IN (5, 6)",
        "INSERT INTO {t} (id, r, v) VALUES (500, 2, 'new')",
    )
    for writer, statement in zip(writers, statements, strict=True):
        index.by(writer, statement)
        writer.execute("COMMIT")
    index.sql("UPDATE {t} SET v = 'v2' WHERE id = 2")
    index.run()
    assert index.differences() == []


def test_a_duplicate_names_what_it_violates(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        index.sql("UPDATE {t} SET v = 'v2' WHERE id = 1")
    told = caught.value.diag
    assert (told.constraint_name, told.table_name, told.schema_name) == (f"ix_{index.name}", index.name, "public")
    assert told.message_detail == "Key (v)=(v2) of the row (id, r)=(1, 1) belongs to the row (2, 2)."
