"""The rules that a runner keeps while it fills, merges and drains, each beside its negative control."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.postgres.index.harness import Indexed
from tidefill.errors import CommitConflict, Fenced, NotYet
from tidefill.indexes import bodies, merging
from tidefill.indexes.control import cut_over
from tidefill.indexes.entries import key_index
from tidefill.indexes.next_action import Advance, CutOver, Drain, FillChunk
from tidefill.indexes.shape import Shape, equal
from tidefill.indexes.states import Method, State
from tidefill.ports.machine import Round, Wait
from tidefill.postgres.index import filling, looking, removal, repair
from tidefill.postgres.index.machine import IndexMachine
from tidefill.postgres.index.session import LOCKING, IndexSession
from tidefill.postgres.server import PostgresServer

Make = Callable[..., Indexed]
RULE = pytest.mark.parametrize("holds", [True, False], ids=["rule", "without"])
ROWS = [(number, number % 4, f"v{number}") for number in range(1, 9)]
SLOW_KEY = [
    "CREATE FUNCTION {t}_key (text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN "
    "IF $1 = 'slow' THEN PERFORM pg_advisory_lock_shared(7); PERFORM pg_advisory_unlock_shared(7); END IF; "
    "RETURN $1; END $$"
]


def drained(indexed: Make, monkeypatch: pytest.MonkeyPatch, rows: list[Any], **more: Any) -> Indexed:
    """An index before its cut-over, which will not have the lock, so that its log is drained."""
    monkeypatch.setattr("tidefill.indexes.next_action.LOCK_TRIES", 0)
    index = indexed(rows, **more)
    index.run_to(State.MERGING)
    index.run_before(Advance)
    return index


def test_no_merge_comes_before_the_last_chunk(indexed: Make) -> None:
    index = indexed(ROWS, chunk_rows=3)
    index.run_to(State.BACKFILLING)
    seen = []
    while index.state is State.BACKFILLING:
        index.sql("UPDATE {t} SET v = v || 'x' WHERE id IN (1, 8)")
        seen.append(type(index.planned()).__name__)
        index.turn()
    assert seen == ["FillChunk", "FillChunk", "FillChunk", "BuildKey"]
    index.run()
    assert index.differences() == []


@RULE
def test_a_chunk_that_ends_late_is_merged_after(indexed: Make, holds: bool) -> None:
    """Without the rule: the log row is used up before the chunk that read the old row is committed."""
    index = indexed([*ROWS, (9, 1, "slow")], columns=("{t}_key(v)",), setup=SLOW_KEY)
    index.run_to(State.BACKFILLING)
    control = index.truth.control
    assert control is not None
    if not holds:
        index.sql(key_index(index.shape))
    other = IndexSession(PostgresServer("shop", index.url), index.shape, index.fence)
    holder = index.writer()
    holder.execute("SELECT pg_advisory_lock(7)")
    with index.meanwhile(index.turn, holder.info.backend_pid) as said:
        index.sql("UPDATE {t} SET v = 'changed' WHERE id = 1")
        if not holds:
            assert repair.merge(other, control, 1) == 1
        holder.close()
    other.close()
    assert not isinstance(said[0], Exception), said
    if holds:
        index.run()
    assert (index.differences() == []) is holds


@RULE
def test_only_the_insert_is_deferred(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    """Without the rule two rows that exchange their keys wait for each other for ever."""
    right = merging._deferred

    def all_deferred(shape: Shape) -> str:
        return f"{right(shape)} IF deferred > 0 THEN RAISE serialization_failure; END IF;"

    if not holds:
        monkeypatch.setattr(merging, "_deferred", all_deferred)
    monkeypatch.setattr(repair, "BATCH", 1)
    index = indexed([(1, 1, "a"), (2, 2, "b")])
    index.run_to(State.MERGING)
    index.sql("UPDATE {t} SET v = CASE id WHEN 1 THEN 'b' ELSE 'a' END")
    monkeypatch.setattr("tidefill.postgres.index.machine.LOG_ROWS_MAX", 0)
    for _ in range(8):
        try:
            index.turn()
        except NotYet:
            assert not holds
    assert (index.count(index.shape.log(1)) + index.count(index.shape.log(2)) == 0) is holds
    assert (index.differences() == []) is holds


@RULE
def test_what_is_deferred_goes_to_the_other_log(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    """Without the rule the log that is being drained is never empty, while the row in the way is in the other one."""
    right = merging._deferred
    if not holds:
        monkeypatch.setattr(merging, "_deferred", lambda shape: right(shape).replace("IF active = 1", "IF drained = 1"))
    monkeypatch.setattr("tidefill.postgres.index.machine.LOG_ROWS_MAX", 0)
    index = indexed([(1, 1, "a"), (2, 2, "b")])
    index.run_to(State.MERGING)
    index.sql("UPDATE {t} SET v = 'c' WHERE id = 1")
    index.run_until(lambda index: index.truth.control is not None and index.truth.control.body.log == 2)
    with index.owner.transaction():
        index.sql("UPDATE {t} SET v = 'd' WHERE id = 2")
        index.sql("UPDATE {t} SET v = 'b' WHERE id = 1")
    index.sql(f"INSERT INTO {index.shape.log(1)} (p1, p2) VALUES (1, 1)")
    for _ in range(4):
        if index.count(index.shape.log(1)):
            index.turn()
    assert (index.count(index.shape.log(1)) == 0) is holds


@RULE
def test_the_drain_begins_after_the_barrier(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:  # Y3
    if not holds:
        monkeypatch.setattr(IndexMachine, "_held", lambda self, control: [])
    index = drained(indexed, monkeypatch, [(1, 1, "a")])
    writer = index.begin()
    index.by(writer, "UPDATE {t} SET v = 'b' WHERE id = 1")
    index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (7, 1, 'n')")
    index.run_to(State.DRAINING)
    index.turn()
    assert (index.state is State.DRAINING) is holds
    if holds:
        plan = index.turn()
        assert isinstance(plan, Wait)
        assert str(writer.info.backend_pid) in plan.text
    writer.execute("COMMIT")
    if holds:
        index.run()
    assert (index.differences() == []) is holds


@RULE
def test_the_drain_holds_the_base_row(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    right = merging.lock_base_row
    if not holds:
        monkeypatch.setattr(merging, "lock_base_row", lambda shape, key: right(shape, key).replace(" FOR SHARE", ""))
    index = drained(indexed, monkeypatch, [(1, 1, "a")])
    index.sql("UPDATE {t} SET v = 'b' WHERE id = 1")
    index.run_before(Drain)
    writer = index.begin()
    index.by(writer, "UPDATE {t} SET v = 'c' WHERE id = 1")
    with index.meanwhile(index.turn, writer.info.backend_pid) as said:
        writer.execute("COMMIT")
    assert not isinstance(said[0], Exception), said
    assert (index.differences() == []) is holds


@RULE
def test_the_drain_looks_again_at_a_row_that_is_gone(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    if not holds:
        monkeypatch.setattr(merging, "still_gone", lambda shape: "true")
    index = drained(indexed, monkeypatch, [(1, 1, "a")])
    index.sql("DELETE FROM {t} WHERE id = 1")
    index.run_before(Drain)
    writer = index.begin()
    index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (1, 1, 'a')")
    with index.meanwhile(index.turn, writer.info.backend_pid) as said:
        writer.execute("COMMIT")
    assert not isinstance(said[0], Exception), said
    assert (index.differences() == []) is holds


@RULE
def test_the_drain_rewrites_an_identical_entry(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    """Without the rule a writer with a snapshot of LOGGING takes the key of a row that had another one in it."""

    def unless_identical(shape: Shape) -> str:
        found = f"SELECT 1 FROM {shape.entries} e WHERE {equal((*shape.k, *shape.p), 'e.', 'b.')} AND NOT dead"
        return f"PERFORM ({found}); IF NOT EXISTS ({found}) THEN {bodies.upsert(shape)} END IF;"

    if not holds:
        monkeypatch.setattr(merging, "upsert", unless_identical)
    index = drained(indexed, monkeypatch, [(1, 1, "a")])
    index.sql("UPDATE {t} SET v = 'b' WHERE id = 1")
    writer = index.begin("REPEATABLE READ")
    index.sql("UPDATE {t} SET v = 'a' WHERE id = 1")
    index.run_to(State.READ_WRITE_AND_DELETE)
    assert index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (5, 1, 'a')") == ("40001" if holds else "ok")
    writer.execute("COMMIT")
    assert index.count(index.name, "v = 'a'") == (1 if holds else 2)


@RULE
def test_entries_with_a_null_are_found_by_their_primary_key(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    if not holds:
        monkeypatch.setattr(merging, "has_null_key", lambda shape: "false")
    index = indexed([(1, 1, None), (2, 1, "b"), (3, 1, None)])
    index.run_to(State.MERGING)
    index.sql("UPDATE {t} SET v = 'x' WHERE id = 1")
    index.run_to(State.VALIDATING)
    assert (index.differences() == []) is holds


@RULE
@pytest.mark.parametrize("state", [State.LOGGING, State.BACKFILLING, State.MERGING, State.VALIDATING])
def test_a_runner_that_was_taken_over_changes_nothing(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool, state: State
) -> None:
    @contextmanager
    def unfenced(session: IndexSession, control: Any, how: str = "SHARE", isolation: str = "") -> Any:
        with session.connection.transaction():
            yield session.connection

    if not holds:
        monkeypatch.setattr(IndexSession, "transaction", unfenced)
        monkeypatch.setattr("tidefill.postgres.index.repair.cut_over", _unfenced_cut_over)
    monkeypatch.setattr(IndexSession, "end_older", lambda self: None)
    index = indexed(ROWS)
    index.run_to(state)
    index.run_until(lambda index: not isinstance(index.planned(), Wait))
    zombie, truth = index.machine, index.truth
    index.restart()
    before = index.session.control()
    step = zombie.plan(index.job, truth, Round(0.0))
    if holds:
        with pytest.raises(Fenced):
            zombie.execute(index.job, truth, step)  # type: ignore[arg-type]
    else:
        zombie.execute(index.job, truth, step)  # type: ignore[arg-type]
    assert (index.session.control() == before and index.truth.filled == filling.filled(index.session)) is holds


def _unfenced_cut_over(shape: Shape, fence: int, log_rows_max: int) -> str:
    return cut_over(shape, fence, log_rows_max).replace(f"AND fence = {fence}", "")


@RULE
def test_a_runner_that_was_taken_over_removes_nothing(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    """It has seen that the index was given up; meanwhile the next runner has removed it and begun again."""
    if not holds:
        monkeypatch.setattr(removal, "_fenced", lambda shape, fence, statement, exclusive: statement)
    monkeypatch.setattr(IndexSession, "end_older", lambda self: None)
    index = indexed(ROWS)
    index.run_to(State.BACKFILLING)
    removal.stop(index.session)
    zombie, seen = index.session, index.session.control()
    index.restart()
    index.run_to(State.BACKFILLING)
    monkeypatch.setattr(zombie, "control", lambda: seen)
    if holds:
        with pytest.raises(Fenced):
            removal.clear(zombie)
    else:
        index.unguarded()
        removal.clear(zombie)
    assert (index.sql("SELECT to_regclass(%s)", index.shape.entries) != [(None,)]) is holds


def test_a_runner_that_hangs_in_a_transaction_is_taken_over(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run_to(State.BACKFILLING)
    hanging = index.session.connection
    hanging.execute("BEGIN")
    hanging.execute("SELECT 1 FROM tidefill.indexes FOR SHARE")
    index.restart()
    with pytest.raises(psycopg.errors.AdminShutdown):
        hanging.execute("SELECT 1")
    index.run()
    assert index.differences() == []


@RULE
def test_the_checkpoint_comes_first(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    index = indexed(ROWS, unique=False)
    index.run_before(FillChunk)
    control, chunk = index.truth.control, filling.next_chunk(index.session, index.truth.filled, 100)
    assert control is not None
    index.turn()
    if holds:
        with pytest.raises(CommitConflict):
            filling.fill_chunk(index.session, control, chunk)
    else:
        monkeypatch.setattr(filling, "note", lambda *words: None)
        filling.fill_chunk(index.session, control, chunk)
    assert (index.differences() == []) is holds


@RULE
def test_the_cut_over_is_read_committed(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    """Without the rule the lock of the control row fixes the snapshot before the table is locked."""
    if not holds:
        monkeypatch.setitem(LOCKING, "default_transaction_isolation", "repeatable read")
    patient(monkeypatch)
    index = indexed([(1, 1, "a"), (2, 2, "b")])
    index.run_before(CutOver)
    writer = index.begin()
    index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (3, 3, 'late')")
    index.by(writer, "UPDATE {t} SET v = 'a2' WHERE id = 1")
    with index.meanwhile(index.turn, writer.info.backend_pid) as said:
        writer.execute("COMMIT")
    assert not isinstance(said[0], Exception), said
    assert index.state is State.VALIDATING
    assert (index.differences() == []) is holds


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table lock is waited for, so that a test can have it come right after a commit."""
    monkeypatch.setitem(LOCKING, "lock_timeout", "20s")
    monkeypatch.setitem(LOCKING, "statement_timeout", "20s")
    monkeypatch.setattr(IndexSession, "is_quiet", lambda self, exclusive="": True)


@RULE
def test_publishing_waits_for_older_snapshots(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    if not holds:
        monkeypatch.setattr(looking, "older_snapshots", lambda session: [])
    index = indexed([(1, 1, "a"), (2, 2, "b")])
    index.run_to(State.BACKFILLING)
    reader = index.begin("REPEATABLE READ")
    index.run_to(State.READ_WRITE_AND_DELETE)
    if holds:
        plan = index.turn()
        assert isinstance(plan, Wait)
        assert str(reader.info.backend_pid) in plan.text
        assert index.by(reader, "SELECT 1 FROM ix_{t}") == "42P01"
        reader.execute("ROLLBACK")
    index.run()
    if not holds:
        assert reader.execute(f"SELECT count(*) FROM ix_{index.name}").fetchone() == (0,)


@RULE
def test_a_snapshot_of_the_cut_over_itself_is_older(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    """Its oldest transaction IS the cut-over, and it does not see what that merged."""
    if not holds:
        monkeypatch.setattr(looking, "_OLDER", looking._OLDER.replace(">= age(", "> age("))
    patient(monkeypatch)
    index = indexed([(1, 1, "a"), (2, 2, "b")])
    index.run_to(State.MERGING)
    index.sql("UPDATE {t} SET v = 'c' WHERE id = 1")
    index.run_before(CutOver)
    writer = index.begin()
    index.by(writer, "LOCK TABLE {t} IN ROW EXCLUSIVE MODE")
    with index.meanwhile(index.turn, writer.info.backend_pid):
        reader = index.begin("REPEATABLE READ")
        writer.execute("COMMIT")
    index.run_to(State.READ_WRITE_AND_DELETE)
    assert isinstance(index.planned(), Wait) is holds
    if not holds:
        index.run()
        found = reader.execute(f"SELECT v FROM ix_{index.name} WHERE id = 1").fetchall()
        assert found != reader.execute(f"SELECT v FROM {index.name} WHERE id = 1").fetchall()


def test_a_plain_owner_sees_older_snapshots(indexed: Make) -> None:
    index = indexed([(1, 1, "a"), (2, 2, "b")])
    index.run_to(State.BACKFILLING)
    reader = index.begin("REPEATABLE READ")
    index.run_to(State.READ_WRITE_AND_DELETE)
    index.sql("CREATE ROLE {t}_own")
    index.sql("GRANT USAGE ON SCHEMA tidefill TO {t}_own")
    index.sql("GRANT SELECT ON ALL TABLES IN SCHEMA tidefill TO {t}_own")
    index.session.connection.execute(f"SET ROLE {index.name}_own")
    assert str(reader.info.backend_pid) in " ".join(map(str, looking.older_snapshots(index.session)))
    index.session.connection.execute("RESET ROLE")
    index.sql("DROP OWNED BY {t}_own")
    index.sql("DROP ROLE {t}_own")


def test_the_slow_path_is_read_committed_whatever_the_role_has(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    index = drained(indexed, monkeypatch, [(1, 1, "a")])
    try:
        index.sql("ALTER ROLE postgres SET default_transaction_isolation = 'repeatable read'")
        index.restart()
        shown = index.session.one("SHOW transaction_isolation")
    finally:
        index.sql("ALTER ROLE postgres RESET default_transaction_isolation")
    assert shown == ("read committed",)


def test_the_barrier_is_taken_again_by_a_new_session(indexed: Make) -> None:
    """A server that was restarted numbers its prepared transactions anew."""
    index = indexed([(1, 1, "a")], method=Method.INITPUT)
    index.run_to(State.DELETE_ONLY)
    assert isinstance(index.planned(), Advance)
    writer = index.begin()
    index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (2, 2, 'b')")
    assert isinstance(index.planned(), Advance)
    index.session.close()
    assert isinstance(index.planned(), Wait)
    writer.execute("COMMIT")
    index.run()
    assert index.differences() == []
