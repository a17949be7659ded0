"""What CockroachDB and YugabyteDB met while they built indexes over live rows. Comments name the scenario."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.postgres.index.harness import Indexed
from tidefill.errors import DuplicateKeys, NotYet, TidefillError, VerifyFailed
from tidefill.indexes import bodies
from tidefill.indexes.leaves import CHUNKS
from tidefill.indexes.next_action import FillChunk, Validate
from tidefill.indexes.states import Body, Method, State
from tidefill.ports.machine import Round, Step
from tidefill.postgres.index import changes, filling, looking, removal
from tidefill.postgres.index.machine import IndexMachine

Make = Callable[..., Indexed]
METHODS = pytest.mark.parametrize("method", list(Method))
NOTE = [(1, 0, "a"), (3, 0, "c"), (4, 0, "e"), (6, 0, "f"), (7, 0, "g"), (9, 0, "h")]
ROWS = [(number, number % 4, f"v{number}") for number in range(1, 13)]
SCANNED = [  # the key of 'a' is computed only when nobody holds the lock: the scan has its snapshot, and waits
    "CREATE FUNCTION {t}_key (text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN "
    "IF $1 = 'a' THEN PERFORM pg_advisory_lock_shared(9); PERFORM pg_advisory_unlock_shared(9); END IF; "
    "RETURN $1; END $$"
]
FIRST = {Method.BULK: State.LOGGING, Method.INITPUT: State.DELETE_ONLY}


def after_the_scan(index: Indexed, *statements: str) -> list[str]:
    """Have the next chunk be read, then others write, then the chunk be put. Gives what the writers were told."""
    index.run_before(FillChunk)
    holder, writer = index.writer(), index.writer()
    holder.execute("SELECT pg_advisory_lock(9)")
    with index.meanwhile(index.turn, holder.info.backend_pid) as said:
        told = [index.by(writer, statement) for statement in statements]
        holder.close()
    if said and isinstance(said[0], Exception):
        raise said[0]
    return told


def note(indexed: Make, method: Method, *more: str) -> Indexed:
    """The table of CockroachDB's note, with what happens to it before the scan and after it."""
    index = indexed(NOTE, method=method, columns=("{t}_key(v)",), setup=SCANNED)
    index.run_to(FIRST[method])
    index.sql("DELETE FROM {t} WHERE id = 9")  # row of C7
    index.sql("INSERT INTO {t} (id, r, v) VALUES (9, 0, 'h')")
    if method is Method.INITPUT:
        index.run_to(State.WRITE_AND_DELETE)
    index.sql("INSERT INTO {t} (id, r, v) VALUES (2, 0, 'b')")  # row of C2
    told = after_the_scan(
        index,
        "UPDATE {t} SET v = 'd' WHERE id = 3",  # row of C3
        "UPDATE {t} SET id = 5 WHERE id = 4",  # row of C4
        "DELETE FROM {t} WHERE id = 6",  # row of C5
        *more,
    )
    assert told == ["ok"] * (3 + len(more))
    return index


@METHODS
def test_rows_1_to_9_of_the_note(indexed: Make, method: Method) -> None:  # C1, C2, C3, C4, C5, C7, Y8
    index = note(indexed, method)
    index.run()
    found = index.sql(f"SELECT k1 || p1 FROM {index.shape.entries} WHERE NOT dead ORDER BY k1")
    assert [text for (text,) in found] == ["a1", "b2", "d3", "e5", "g7", "h9"]
    assert index.count(where="dead") == 0
    assert index.differences() == []


@METHODS
def test_row_8_of_the_note_is_a_duplicate(indexed: Make, method: Method) -> None:  # C6, Y9
    with pytest.raises(DuplicateKeys) as caught:
        note(indexed, method, "INSERT INTO {t} (id, r, v) VALUES (8, 1, 'g')").run()
    assert "(g) by the rows (7,0), (8,1)" in caught.value.detail


@METHODS
def test_the_report_stays_with_the_index(indexed: Make, method: Method) -> None:  # Y9
    index = indexed([(1, 0, "a"), (2, 1, "a"), (3, 1, "b")], method=method)
    with pytest.raises(DuplicateKeys) as caught:
        index.run()
    index.machine.abandon(index.job, caught.value)
    found = index.sql("SELECT report FROM tidefill.indexes")
    assert found == [({"total": 1, "keys": [{"key": "(a)", "rows": ["(1,0)", "(2,1)"], "count": 2}]},)]
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (4, 2, 'a')") == "ok"


class Died(Exception):
    """A runner that ends at this line."""


@pytest.mark.parametrize(("method", "line"), [(Method.BULK, "_count"), (Method.INITPUT, "note")])
def test_a_runner_dies_before_its_checkpoint(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, method: Method, line: str
) -> None:  # C8
    def die(*words: Any) -> None:
        raise Died

    index = indexed(ROWS, method=method)
    index.run_before(FillChunk)
    with monkeypatch.context() as patch:
        patch.setattr(filling, line, die)
        with pytest.raises(Died):
            index.turn()
    assert index.count() == (0 if method is Method.BULK else len(ROWS))
    index.restart()
    index.run()
    assert index.differences() == []


@METHODS
def test_equal_keys_of_other_bytes_are_duplicates(indexed: Make, method: Method) -> None:  # C11
    setup = ["UPDATE {t} SET n = CASE id WHEN 1 THEN 1.0 WHEN 2 THEN 1.00 ELSE id END"]
    index = indexed(ROWS, columns=("n",), setup=setup, method=method)
    with pytest.raises(DuplicateKeys) as caught:
        index.run()
    assert "the rows (1,1), (2,2)" in caught.value.detail


@METHODS
def test_an_orphan_and_a_missing_entry_are_found(indexed: Make, method: Method) -> None:  # C12, C13
    index = indexed(ROWS, method=method)
    index.run_before(Validate)
    index.sql(f"UPDATE {index.shape.entries} SET k1 = 'planted' WHERE p1 = 1")
    with pytest.raises(VerifyFailed) as caught:
        index.run()
    assert "missing: (v1,1,1" in caught.value.detail
    assert "orphan: (planted,1,1" in caught.value.detail
    index.machine.abandon(index.job, caught.value)
    assert index.sql("SELECT to_regclass(%s)", index.shape.entries) == [(None,)]


@METHODS
def test_an_entry_is_deleted_by_hand(indexed: Make, method: Method) -> None:  # C13
    index = indexed(ROWS, method=method, chunk_rows=4)
    index.run_until(lambda index: index.truth.filled.chunks == 2)
    index.sql(f"DELETE FROM {index.shape.entries} WHERE p1 = 2")
    with pytest.raises(VerifyFailed, match=r"missing: \(v2,2,2"):
        index.run()


PARTIAL = [
    "UPDATE {t} SET st = 'void' WHERE id = 1",
    "UPDATE {t} SET st = 'ok' WHERE id = 2",
    "UPDATE {t} SET st = NULL WHERE id = 3",
    "UPDATE {t} SET v = 'stays' WHERE id = 4",
    "UPDATE {t} SET v = 'V1', st = 'ok' WHERE id = 5",
    "INSERT INTO {t} (id, r, v, st) VALUES (50, 1, 'v6', 'void')",
    "DELETE FROM {t} WHERE id = 7",
]


@METHODS
def test_rows_enter_and_leave_a_partial_index(indexed: Make, method: Method) -> None:  # C16
    columns, setup = ("lower(v)", "(100 / b)"), ["UPDATE {t} SET st = 'void', b = 0 WHERE id IN (8, 9)"]
    setup.append("UPDATE {t} SET st = 'void' WHERE id = 2")
    index = indexed(ROWS, columns=columns, where="st <> 'void'", setup=setup, method=method)
    index.run_to(FIRST[method])
    for statement in PARTIAL[:3]:
        index.sql(statement)
    index.run_before(FillChunk)
    index.turn()
    for statement in PARTIAL[3:]:
        index.sql(statement)
    index.run()
    assert index.differences() == []
    for statement in PARTIAL:
        index.sql(statement.replace("50", "51").replace("id = 7", "id = 8"))
    assert index.differences() == []
    assert index.writes("UPDATE {t} SET v = 'V6', st = 'ok' WHERE id = 50") == "23505"
    assert index.writes("UPDATE {t} SET st = 'ok' WHERE id = 9") == "22012"  # its key cannot be computed


@METHODS
def test_the_runner_begins_again_at_random_places(indexed: Make, method: Method) -> None:  # C17, Y12
    index = indexed(ROWS, method=method, chunk_rows=2)
    chance = random.Random(17)
    restarts = 0

    def sometimes(index: Indexed) -> bool:
        nonlocal restarts
        if restarts < 6 and chance.random() < 0.4:
            restarts += 1
            index.restart()
        return bool(index.truth.filled.is_done)

    index.run_until(sometimes)
    assert restarts >= 3
    bounds = [upto for (upto,) in index.sql(f"SELECT upto FROM {CHUNKS} ORDER BY chunk")]
    keys = [tuple(map(int, upto)) for upto in bounds[:-1]]
    assert bounds[-1] is None
    assert keys == sorted(set(keys))
    assert index.sql(f"SELECT sum(rows) FROM {CHUNKS}") == [(len(ROWS),)]
    index.run()
    assert index.differences() == []


def test_a_batch_that_meets_a_lock_is_halved(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:  # C18
    sizes = list[int]()
    right = filling.upper_bound

    def counted(session: Any, after: Any, rows: int, within: Any = None) -> Any:
        sizes.append(rows)
        return right(session, after, rows, within)

    monkeypatch.setattr(filling, "upper_bound", counted)
    monkeypatch.setattr(filling, "BATCH_LOCK_MS", 10)
    index = indexed(ROWS, method=Method.INITPUT, chunk_rows=8)
    index.run_before(FillChunk)
    writer = index.begin()
    index.by(writer, "UPDATE {t} SET v = 'other' WHERE id = 1")
    with index.meanwhile(index.turn):
        index.until(lambda: sizes[-1:] == [1])
        index.until(lambda: index.waits_for(writer.info.backend_pid))
        writer.execute("COMMIT")
    assert sizes[:5] == [8, 4, 2, 1, 1], "the smaller size is kept"
    index.run()
    assert sizes[4:9] == [1, 2, 4, 4, 8], "until nobody is met"
    assert index.differences() == []


def test_without_the_barrier_a_row_is_lost(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:  # Y3, Y4
    monkeypatch.setattr(IndexMachine, "_held", lambda self, control: [])
    index = indexed(ROWS, method=Method.INITPUT)
    index.run_to(State.DELETE_ONLY)
    writer = index.begin()
    index.by(writer, "INSERT INTO {t} (id, r, v) VALUES (99, 1, 'late')")
    index.run_to(State.VALIDATING)
    writer.execute("COMMIT")
    assert index.differences() == [("missing", "(late,99,1,)")]


@pytest.mark.parametrize("holds", [True, False], ids=["rule", "without"])
def test_the_fill_does_not_overwrite_what_is_newer(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:  # Y4
    right = filling._put_if_absent
    if not holds:
        monkeypatch.setattr(
            filling,
            "_put_if_absent",
            lambda *words: right(*words).replace("NOTHING", "UPDATE SET dead = false, p1 = EXCLUDED.p1"),
        )
    index = indexed(NOTE, method=Method.INITPUT, columns=("{t}_key(v)",), setup=SCANNED)
    after_the_scan(index, "DELETE FROM {t} WHERE id = 6", "UPDATE {t} SET id = 5 WHERE id = 4")
    assert (index.differences() == []) is holds


@pytest.mark.parametrize("holds", [True, False], ids=["rule", "without"])
def test_a_row_that_goes_after_the_scan_leaves_a_tombstone(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:  # Y4
    if not holds:
        monkeypatch.setattr(bodies, "_removal", lambda shape, body: bodies.bare_delete(shape))
    index = indexed(NOTE, method=Method.INITPUT, columns=("{t}_key(v)",), setup=SCANNED)
    after_the_scan(index, "DELETE FROM {t} WHERE id = 6")
    assert index.differences() == ([] if holds else [("orphan", "(f,6,0,)")])


@pytest.mark.parametrize("holds", [True, False], ids=["rule", "without"])
def test_entries_are_removed_before_they_are_made(indexed: Make, holds: bool) -> None:  # Y4
    """A statement that has begun under ABSENT calls that body at its end. No entry may be made meanwhile that it would
    have to remove: so DELETE_ONLY comes first, and its barrier waits for the statement."""
    index = indexed([(1, 0, "a")], method=Method.INITPUT)
    index.run_to(State.DELETE_ONLY)

    def has(body: Body) -> None:
        control = index.session.control()
        assert control is not None
        changes.advance(index.session, control, control.state, body)

    has(Body.ABSENT)
    holder, writer = index.writer(), index.writer()
    gone = "DELETE FROM {t} WHERE id = %s AND pg_advisory_xact_lock_shared(9)::text IS NOT NULL"
    index.sql("INSERT INTO {t} (id, r, v) VALUES (2, 0, 'z')")
    index.by(writer, gone, 2)  # its session knows the body now
    holder.execute("SELECT pg_advisory_lock(9)")
    with index.meanwhile(lambda: index.by(writer, gone, 1), holder.info.backend_pid) as said:
        has(Body.DELETE_ONLY)
        assert index.machine._held(index.session.control()), "the barrier"
        if not holds:
            has(Body.WRITE_AND_DELETE)
        index.sql("UPDATE {t} SET v = 'b' WHERE id = 1")
        holder.close()
    assert said == ["ok"]
    assert index.count(where="NOT dead") == (0 if holds else 1)


def test_a_duplicate_that_comes_after_the_scan(indexed: Make) -> None:  # Y5
    index = indexed([(1, 0, "a"), (4, 0, "z")], method=Method.INITPUT, columns=("{t}_key(v)",), setup=SCANNED)
    index.run_to(State.DELETE_ONLY)
    index.sql("DELETE FROM {t} WHERE id = 1")
    index.sql("INSERT INTO {t} (id, r, v) VALUES (2, 1, 'a')")
    index.run_before(FillChunk)
    index.turn()
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (3, 2, 'a')") == "23505"
    index.run()
    assert index.differences() == []


@METHODS
def test_two_of_three_are_left(indexed: Make, method: Method) -> None:  # Y6
    index = indexed([(1, 0, "a"), (2, 1, "a"), (3, 2, "a")], method=method)
    index.run_to(FIRST[method])
    index.sql("DELETE FROM {t} WHERE id = 1")
    with pytest.raises(DuplicateKeys) as caught:
        index.run()
    assert "(2,1), (3,2)" in caught.value.detail


def test_tombstones_stay_until_it_is_public(indexed: Make) -> None:  # Y10
    index = indexed(ROWS, method=Method.INITPUT)
    index.run_to(State.WRITE_AND_DELETE)
    index.sql("DELETE FROM {t} WHERE id IN (1, 2)")
    index.run_to(State.READ_WRITE_AND_DELETE)
    assert index.count(where="dead") == 2
    index.restart()
    index.run()
    assert index.count(where="dead") == 0


def test_the_fill_keeps_its_rate(indexed: Make) -> None:  # Y11
    index = indexed(ROWS, chunk_rows=2, rate_limit=2)
    index.run_before(FillChunk)
    began_s, before = time.time(), index.truth.filled.rows  # on a slow machine the first chunk is filled by now
    for quarter in range(1, 17):
        plan = index.machine.plan(index.job, index.truth, Round(began_s + quarter / 4))
        if isinstance(plan, Step):
            index.truth = index.machine.execute(index.job, index.truth, plan).truth
        assert index.truth.filled.rows - before <= 2 * quarter / 4 + 2
    assert index.truth.filled.rows - before >= 6


@METHODS
def test_another_runner_takes_over_before_each_turn(indexed: Make, method: Method) -> None:  # Y12
    index = indexed(ROWS, method=method, chunk_rows=5)
    number = 0

    def again(index: Indexed) -> bool:
        nonlocal number
        number += 1
        index.restart()
        index.sql("UPDATE {t} SET v = %s WHERE id = 3", f"n{number}")
        return bool(index.truth.control and index.truth.control.is_public)

    index.run_until(again)
    assert index.differences() == []


@METHODS
def test_progress_never_goes_back(indexed: Make, method: Method) -> None:  # Y14
    index = indexed(ROWS, method=method, chunk_rows=5)
    seen = []
    while not (index.truth.control and index.truth.control.is_public):
        report = index.machine.report(index.job, index.truth)
        seen.append((report.rows_filled, report.parts[0].phase))
        assert report.rows_filled <= report.rows_of
        index.turn()
    assert [rows for rows, _ in seen] == sorted(rows for rows, _ in seen)
    assert {"BACKFILLING", "VALIDATING", "READ_WRITE_AND_DELETE"} <= {phase for _, phase in seen}


def test_one_of_five_creators_installs(indexed: Make) -> None:  # Y15
    index = indexed(ROWS)
    writer = index.begin()
    index.by(writer, "LOCK TABLE {t} IN ROW EXCLUSIVE MODE")
    machines = [index.another_machine() for _ in range(5)]
    writer.execute("COMMIT")
    said = index.at_once([lambda one=one: changes.installed(one.session, index.method) for one in machines])  # type: ignore[misc]
    assert said.count(("installed",)) == 1
    assert all(isinstance(one, (NotYet, tuple)) for one in said), said
    index.truth = index.machine.recover(index.job, None).truth
    index.run()
    assert index.differences() == []


@METHODS
def test_it_is_dropped_while_it_is_built(indexed: Make, method: Method) -> None:  # Y16
    for turns in (1, 2, 3, 5, 8):
        index = indexed(ROWS, method=method, chunk_rows=5)
        for _ in range(turns):
            index.turn()
        if index.state is None:
            continue
        other = index.another_machine()
        removal.stop(other._session)
        assert looking.writers_end(other._session, 5.0)
        removal.clear(other._session)
        removal.forget(other._session)
        assert index.sql("SELECT to_regnamespace('tidefill')") == [(None,)]
        assert index.sql("SELECT count(*) FROM pg_trigger WHERE tgrelid = %s::regclass", index.name) == [(0,)]
        with pytest.raises(TidefillError):  # a named stop, whatever it was doing
            index.turn()
