"""An index is built while its table is written, refuses duplicates when it is done, and leaves nothing when it goes."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.postgres.index.harness import Indexed
from tidefill.errors import DuplicateKeys
from tidefill.indexes.states import Method, State
from tidefill.postgres.index import looking, removal

ROWS = [(number, number % 4, f"v{number}") for number in range(1, 9)]
METHODS = pytest.mark.parametrize("method", list(Method))


@METHODS
def test_it_has_what_the_table_has(indexed: Callable[..., Indexed], method: Method) -> None:
    index = indexed(ROWS, method=method)
    while index.state is not State.READ_WRITE_AND_DELETE:
        index.turn()
        index.owner.execute(f"UPDATE {index.name} SET v = v || 'x' WHERE id = 3")
        index.owner.execute(f"DELETE FROM {index.name} WHERE id = 100")
        index.owner.execute(f"INSERT INTO {index.name} (id, r, v) VALUES (100, 1, 'new')")
    index.run()
    assert index.differences() == []
    found = index.owner.execute(f"SELECT id, r FROM ix_{index.name} WHERE v = 'new'").fetchall()
    assert found == [(100, 1)]


@METHODS
def test_a_duplicate_is_refused_across_partitions(indexed: Callable[..., Indexed], method: Method) -> None:
    index = indexed(ROWS, method=method)
    index.run()
    with pytest.raises(psycopg.errors.UniqueViolation, match="violates global unique index") as caught:
        index.owner.execute(f"INSERT INTO {index.name} (id, r, v) VALUES (50, 2, 'v1')")
    assert "belongs to the row (1, 1)" in str(caught.value.diag.message_detail)
    assert index.differences() == []


@METHODS
def test_duplicates_end_the_build_and_stay_allowed(indexed: Callable[..., Indexed], method: Method) -> None:
    index = indexed([*ROWS, (50, 2, "v1"), (51, 3, "v1")], method=method)
    with pytest.raises(DuplicateKeys) as caught:
        index.run()
    assert "(v1) by the rows (1,1), (50,2), (51,3)" in caught.value.detail
    index.machine.abandon(index.job, caught.value)
    assert index.state is State.ABSENT
    index.owner.execute(f"INSERT INTO {index.name} (id, r, v) VALUES (52, 2, 'v1')")
    assert index.owner.execute("SELECT to_regclass(%s)", (index.shape.entries,)).fetchone() == (None,)
    index.owner.execute(f"DELETE FROM {index.name} WHERE id >= 50")
    index.restart()
    index.run()
    assert index.differences() == []


def test_an_index_that_is_not_unique_holds_equal_keys(indexed: Callable[..., Indexed]) -> None:
    index = indexed([*ROWS, (50, 2, "v1"), (51, 3, None), (52, 0, None)], unique=False)
    index.run()
    index.owner.execute(f"UPDATE {index.name} SET v = 'v2' WHERE id IN (51, 3)")
    assert index.differences() == []


def test_all_of_it_goes(indexed: Callable[..., Indexed]) -> None:
    index = indexed(ROWS)
    index.run()
    removal.stop(index.session)
    assert looking.writers_end(index.session, 5.0)
    removal.clear(index.session)
    removal.forget(index.session)
    left = "SELECT count(*) FROM pg_trigger WHERE tgname LIKE '!%%' AND tgrelid = %s::regclass"
    assert index.owner.execute(left, (index.name,)).fetchone() == (0,)
    assert index.owner.execute("SELECT to_regnamespace('tidefill')").fetchone() == (None,)
    assert index.owner.execute("SELECT to_regclass(%s)", (f"ix_{index.name}",)).fetchone() == (None,)
