"""NULLS NOT DISTINCT: of a unique index two NULLs are equal, in every state, for writers and for the build."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.postgres.index.harness import Indexed, bring
from tests.postgres.index.test_statements import BUILDING, KEEPING, PUBLIC
from tidefill.errors import DuplicateKeys
from tidefill.indexes.next_action import FillChunk
from tidefill.indexes.states import Method, State

Make = Callable[..., Indexed]
METHODS = pytest.mark.parametrize("method", list(Method))
FEW = [(Method.BULK, State.DRAINING), (Method.INITPUT, State.WRITE_AND_DELETE), PUBLIC[0]]
STATES = [*FEW, *(pytest.param(*one, marks=pytest.mark.full) for one in (*BUILDING, *PUBLIC) if one not in FEW)]
ROWS = [(1, 1, None), *((number, number % 4, f"v{number}") for number in range(2, 13))]
MANY = 3000
PAIRS = (  # of (v, n): every pattern of NULLs, next to many entries that have a NULL
    f"INSERT INTO {{t}} (id, r, v, n) SELECT i, i % 4, CASE WHEN i % 2 = 0 THEN 'v' || i END, "
    f"CASE WHEN i % 2 = 1 THEN i END FROM generate_series(1, {MANY}) i; "
    "INSERT INTO {t} (id, r) VALUES (9000, 0)"
)
LEGAL = [
    "UPDATE {t} SET v = CASE id WHEN 1 THEN 'v2' END WHERE id IN (1, 2)",  # NULL is with row 2
    "UPDATE {t} SET v = CASE id WHEN 2 THEN 'v3' WHEN 3 THEN 'v4' END WHERE id IN (2, 3, 4)",  # and with row 4
    "UPDATE {t} SET id = 40 WHERE id = 4",
    "UPDATE {t} SET r = (r + 1) % 4 WHERE id = 40",
    "UPDATE {t} SET inc = 'changed' WHERE id = 40",
    "BEGIN; DELETE FROM {t} WHERE id = 40; INSERT INTO {t} (id, r) VALUES (41, 1); COMMIT",
    "WITH gone AS (DELETE FROM {t} WHERE id = 41 RETURNING v) INSERT INTO {t} (id, r, v) SELECT 42, 3, v FROM gone",
    "BEGIN; UPDATE {t} SET v = 'x' WHERE id = 42; UPDATE {t} SET v = NULL WHERE id = 5; COMMIT",
    "BEGIN; UPDATE {t} SET v = 'y' WHERE id = 5; ROLLBACK",
    "DELETE FROM {t} WHERE id = 5; INSERT INTO {t} (id, r) VALUES (5, 1)",
    "BEGIN; DELETE FROM {t} WHERE id = 5; INSERT INTO {t} (id, r) VALUES (5, 1); COMMIT",
]
"""At any time one row has NULL, at the end the row 5."""


@pytest.mark.parametrize(("method", "state"), STATES)
def test_one_row_has_null(indexed: Make, monkeypatch: pytest.MonkeyPatch, method: Method, state: State) -> None:  # Y7
    index = bring(indexed(ROWS, method=method, nulls_not_distinct=True), monkeypatch, state, logged=12)
    writer = index.writer()
    for statement in LEGAL:
        for part in statement.split("; "):
            assert index.by(writer, part) == "ok", part
        if state in (State.VALIDATING, State.READ_WRITE_AND_DELETE):
            assert index.differences() == [], statement
    if state in KEEPING:
        for statement in ("INSERT INTO {t} (id, r) VALUES (900, 1)", "UPDATE {t} SET v = NULL WHERE id = 6"):
            assert index.by(writer, statement) == "23505", statement
        assert index.by(writer, "INSERT INTO {t} (id, r) VALUES (901, 1), (902, 2)") == "23505"
    index.run()
    assert index.differences() == []
    assert index.writes("UPDATE {t} SET v = NULL WHERE id = 6") == "23505"
    assert index.writes("UPDATE {t} SET v = 'free' WHERE id = 5") == "ok"
    assert index.writes("UPDATE {t} SET v = NULL WHERE id = 6") == "ok"
    assert index.differences() == []


def test_a_refusal_names_both_rows(indexed: Make) -> None:
    index = indexed(ROWS, nulls_not_distinct=True)
    index.run()
    with pytest.raises(psycopg.errors.UniqueViolation) as caught:
        index.sql("UPDATE {t} SET v = NULL WHERE id = 2")
    assert caught.value.diag.message_detail == "Key (v)=(NULL) of the row (id, r)=(2, 2) belongs to the row (1, 1)."


@METHODS
@pytest.mark.parametrize("late", [False, True], ids=["before", "while it is built"])
def test_equal_nulls_are_found_in_a_build(indexed: Make, method: Method, late: bool) -> None:  # C6, Y9
    index = indexed(ROWS, method=method, nulls_not_distinct=True)
    if late:
        index.run_to({Method.BULK: State.LOGGING, Method.INITPUT: State.DELETE_ONLY}[method])
    index.sql("UPDATE {t} SET v = NULL WHERE id = 2")
    with pytest.raises(DuplicateKeys) as caught:
        index.run()
    assert "() by the rows (1,1), (2,2)" in caught.value.detail
    index.machine.abandon(index.job, caught.value)
    assert index.writes("INSERT INTO {t} (id, r) VALUES (3, 2)") == "ok"


def test_a_null_that_comes_after_the_key_is_built(indexed: Make) -> None:
    index = indexed(ROWS, nulls_not_distinct=True)
    index.run_to(State.MERGING)
    index.sql("UPDATE {t} SET v = NULL WHERE id = 2")
    with pytest.raises(DuplicateKeys):
        index.run()
    assert index.state is State.MERGING, "the merge itself has found it"


@METHODS
def test_a_key_of_two_columns(indexed: Make, method: Method) -> None:
    """Equal where both are NULL or equal: (NULL, 1) and (NULL, 2) differ, and so do (NULL, NULL) and (NULL, 1)."""
    setup = ["UPDATE {t} SET n = CASE WHEN id % 2 = 0 THEN id END, v = CASE WHEN id % 4 > 0 THEN v END"]
    index = indexed(ROWS, columns=("v", "n"), setup=setup, method=method, nulls_not_distinct=True)
    index.run_before(FillChunk)
    assert index.writes("UPDATE {t} SET v = NULL, n = 4.0 WHERE id = 6; UPDATE {t} SET n = 5 WHERE id = 4") == "ok"
    index.run()
    assert index.differences() == []
    for values in ("NULL, NULL", "NULL, 4", "'v3', NULL", "'v2', 2.00"):
        assert index.writes(f"INSERT INTO {{t}} (id, r, v, n) VALUES (900, 1, {values})") == "23505", values
    for values in ("NULL, 1", "'v2', NULL", "'v3', 2"):
        assert index.writes(f"INSERT INTO {{t}} (id, r, v, n) VALUES (900, 1, {values})") == "ok", values
        assert index.writes("DELETE FROM {t} WHERE id = 900") == "ok"
    index.sql("UPDATE {t} SET v = NULL, n = CASE id WHEN 1 THEN 4 WHEN 6 THEN 5 END WHERE id IN (1, 4, 6)")
    assert index.differences() == []


def test_equal_pairs_are_found_in_a_build(indexed: Make) -> None:
    setup = ["UPDATE {t} SET v = NULL, n = id / 2"]
    index = indexed(ROWS[1:], columns=("v", "n"), setup=setup, nulls_not_distinct=True)
    with pytest.raises(DuplicateKeys, match="5 keys") as caught:
        index.run()
    assert "(,1) by the rows (2,2), (3,3)" in caught.value.detail


def test_a_tombstone_belongs_to_the_row_that_left_it_last(indexed: Make) -> None:
    index = indexed([(1, 1, None), (2, 2, None)], method=Method.INITPUT, nulls_not_distinct=True)
    index.run_to(State.DELETE_ONLY)
    for number in (1, 2):
        index.sql(f"DELETE FROM {{t}} WHERE id = {number}")
        found = index.sql(f"SELECT p1, p2, d1, d2, dead FROM {index.shape.entries}")
        assert found == [(number, number, number, number, True)], "it is found by the columns d"


EQUAL = "UPDATE {t} x SET v = y.v, n = y.n FROM {t} y WHERE x.id = %s AND y.id = %s"
SWAP = "UPDATE {t} x SET v = y.v, n = y.n FROM {t} y WHERE (x.id, y.id) IN ((%s, %s), (%s, %s))"


def test_a_lookup_by_null_reads_no_whole_table(indexed: Make) -> None:
    """Merge, writers and the slow path meet a key of another row, for each pattern of NULLs, beside many entries with
    the same pattern."""
    index = indexed([], columns=("v", "n"), setup=[PAIRS], nulls_not_distinct=True)
    index.run_to(State.MERGING)
    index.sql(f"ANALYZE {index.shape.entries}")
    pairs = [(2, 4), (3, 5), (2, 9000), (3, 9000)]
    for one, other in pairs:
        merge = f"SELECT {index.shape.function('merge')} (1, 2, 10)"
        assert sequential(index, EQUAL % (one, other), merge) == 0, (one, other)
    index.run()
    index.sql(f"ANALYZE {index.shape.entries}")
    for one, other in [*pairs, (2, 3)]:
        assert sequential(index, "SELECT 1", SWAP % (one, other, other, one)) == 0, (one, other)
        lose = f"UPDATE {index.shape.entries} SET p1 = 7777, d1 = 7777 WHERE p1 = {one}"
        slow = f"SELECT {index.shape.function('slow')} ({one}, {one % 4}, false)"
        assert sequential(index, lose, slow) == 0, (one, other)
    assert index.differences() == []


def sequential(index: Indexed, prepare: str, statement: str) -> int:
    """How often the statement reads the entries from end to end. Nothing of it stays."""
    query = f"SELECT seq_scan FROM pg_stat_xact_user_tables WHERE relid = '{index.shape.entries}'::regclass"
    index.sql("BEGIN")
    index.sql(prepare)
    before = index.sql(query)[0][0]
    index.sql(statement)
    after = index.sql(query)[0][0]
    index.sql("ROLLBACK")
    return int(after - before)
