"""Partitions that come and go, with rows in them, while an index is built and when it is live."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from tests.postgres.index.harness import Indexed
from tidefill.errors import DuplicateKeys
from tidefill.indexes import leaves
from tidefill.indexes.control import Control
from tidefill.indexes.next_action import FillChunk, Look, next_action
from tidefill.indexes.shape import Shape
from tidefill.indexes.states import Body, Method, State
from tidefill.postgres.index import partitions

Make: TypeAlias = Callable[..., Indexed]

ROWS = [(number, number % 4, f"v{number}") for number in range(1, 13)]
BUILDING = [
    (Method.BULK, State.BACKFILLING),
    (Method.BULK, State.MERGING),
    (Method.BULK, State.VALIDATING),
    (Method.INITPUT, State.WRITE_AND_DELETE),
    (Method.INITPUT, State.BACKFILLING),
    (Method.INITPUT, State.VALIDATING),
]
STATES = pytest.mark.parametrize(("method", "state"), BUILDING)


def attach(index: Indexed, *values: str) -> None:
    """A partition that has rows with these values when it comes."""
    index.sql("CREATE TABLE {t}_9 (LIKE {t} INCLUDING ALL)")
    for number, value in enumerate(values, 90):
        index.sql(f"INSERT INTO {{t}}_9 (id, r, v) VALUES ({number}, 9, '{value}')")
    index.sql("ALTER TABLE {t} ATTACH PARTITION {t}_9 FOR VALUES IN (9)")


def idle(index: Indexed) -> bool:
    """Whether a turn finds nothing to do."""
    return type(index.turn()).__name__ == "Wait"


@STATES
def test_a_filled_partition_that_comes_late_is_taken_in(indexed: Make, method: Method, state: State) -> None:
    index = indexed(ROWS, method=method)
    index.run_to(state)
    attach(index, "nine", "ten")
    assert index.writes("UPDATE {t} SET v = 'eleven' WHERE id = 91") == "ok"
    index.run()
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (95, 1, 'nine')") == "23505"


@STATES
def test_a_partition_that_goes_takes_its_entries_along(indexed: Make, method: Method, state: State) -> None:
    index = indexed(ROWS, method=method)
    index.run_to(state)
    index.sql("ALTER TABLE {t} DETACH PARTITION {t}_3")
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (95, 1, 'v3')") == "ok"
    index.run()
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (96, 1, 'v7')") == "ok"


@pytest.mark.parametrize("method", list(Method))
def test_a_duplicate_in_a_new_partition_ends_the_build(indexed: Make, method: Method) -> None:
    index = indexed(ROWS, method=method)
    index.run_to(State.MERGING if method is Method.BULK else State.VALIDATING)
    attach(index, "nine", "v1")
    with pytest.raises(DuplicateKeys, match="1 key"):
        index.run()


def test_a_live_index_follows(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    attach(index, "nine", "ten")
    index.run_until(idle)
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (95, 1, 'nine')") == "23505"
    index.sql("ALTER TABLE {t} DETACH PARTITION {t}_9")
    index.run_until(idle)
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (95, 1, 'nine')") == "ok"


def test_a_duplicate_in_a_partition_of_a_live_index_has_no_entry(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    attach(index, "nine", "v1")
    index.run_until(idle)
    (missing,) = index.differences()
    assert missing[0] == "missing"
    assert "v1,91,9" in missing[1]
    assert index.writes("DELETE FROM {t} WHERE id = 91") == "ok"
    assert index.differences() == []


def test_truncate_of_a_new_partition_is_followed(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    attach(index, "nine", "ten")
    index.run_until(idle)
    index.sql("TRUNCATE {t}_9")
    assert index.differences() == []


def truncated_early(index: Indexed) -> None:
    """A partition is attached, gets rows by the root, and is truncated before a runner has looked."""
    attach(index, "nine")
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (92, 9, 'ten')") == "ok"
    index.sql("TRUNCATE {t}_9")
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (93, 9, 'eleven')") == "ok"


def test_a_partition_that_is_truncated_before_it_is_known_leaves_no_entry(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    truncated_early(index)
    assert [row[0] for row in index.differences()] == ["orphan"]
    index.run_until(idle)
    assert index.differences() == []


@STATES
def test_the_same_while_it_is_built(indexed: Make, method: Method, state: State) -> None:
    index = indexed(ROWS, method=method)
    index.run_to(state)
    truncated_early(index)
    index.run()
    assert index.differences() == []


def test_without_the_suspicion_an_orphan_stays(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaves, "suspect_orphans", lambda shape, leaf: "SELECT 1")
    index = indexed(ROWS)
    index.run()
    truncated_early(index)
    index.run_until(idle)
    assert [row[0] for row in index.differences()] == ["orphan"]


def test_an_entry_that_a_writer_needs_again_is_no_orphan(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The base is looked at again after the entry is locked: a row may have come back meanwhile."""
    index = indexed(ROWS)
    index.run()
    index.sql("ALTER TABLE {t} DETACH PARTITION {t}_3")
    right = leaves.is_orphan

    def comes_back(shape: Shape) -> str:
        index.writes("INSERT INTO {t} (id, r, v) VALUES (3, 1, 'v3') ON CONFLICT DO NOTHING")
        return right(shape)

    monkeypatch.setattr(leaves, "is_orphan", comes_back)
    index.run_until(idle)
    assert index.differences() == []


def test_without_the_list_of_partitions_rows_are_missing(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "changed_leaves", lambda session: partitions.Leaves())
    index = indexed(ROWS)
    index.run()
    attach(index, "nine")
    index.run_until(idle)
    assert [row[0] for row in index.differences()] == ["missing"]


def test_orphans_are_not_removed_before_the_last_chunk() -> None:
    """A later chunk, read before the partition went, would bring them back."""
    control = Control(State.BACKFILLING, Body.LOGGING_1, 1, 1, Method.BULK)
    assert next_action(Look(control, lost_leaf=True)) == FillChunk()
