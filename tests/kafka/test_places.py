"""Places of keys: partitions and ranges of hashes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.keys import Key
from tidefill.core.walk import Range, start, unfinished
from tidefill.kafka import places
from tidefill.kafka.places import HASHES, RANGES_MAX

LENGTHS = st.dictionaries(st.integers(0, 5), st.integers(0, 1000), max_size=5)
EVERYTHING = Range(None, None)


def test_an_example() -> None:
    lengths = {0: 3, 1: 10}
    assert places.bounds_in(EVERYTHING, lengths, 5) == [places.end(0), Key((1, HASHES // 2 - 1)), places.end(1)]
    assert places.beyond(lengths) == (
        Range(None, Key((0, -1))), Range(places.end(0), Key((1, -1))), Range(places.end(1), None)
    )  # fmt: skip


@given(LENGTHS, st.integers(0, 6), st.integers(0, HASHES - 1))
def test_a_place_is_to_be_filled_if_its_partition_has_messages(
    lengths: dict[int, int], partition: int, hashed: int
) -> None:
    left = unfinished(start(places.beyond(lengths)))
    place = Key((partition, hashed))
    assert any(Range(split.after, split.upto).holds(place) for split in left) == (lengths.get(partition, 0) > 0)


@given(LENGTHS, st.integers(1, 50))
def test_bounds_ascend_and_each_partition_has_few(lengths: dict[int, int], rows: int) -> None:
    bounds = list(places.bounds_in(EVERYTHING, lengths, rows))
    assert bounds == sorted(set(bounds))
    for partition, length in lengths.items():
        mine = [bound for bound in bounds if bound.values[0] == partition]
        assert len(mine) <= RANGES_MAX
        assert (len(mine) > 0) == (length > 0)
        assert not mine or mine[-1] == places.end(partition)
        assert length <= rows * max(len(mine), 1) or len(mine) == RANGES_MAX


@given(st.integers(1, 1000), st.integers(0, 1000), st.integers(1, 50))
def test_bounds_of_before_are_among_those_of_a_longer_partition(length: int, more: int, rows: int) -> None:
    before, now = (set(places.bounds_in(EVERYTHING, {0: each}, rows)) for each in (length, length + more))
    assert before <= now


@given(st.integers(0, 3), st.tuples(st.integers(0, 3), st.integers(-1, HASHES)), st.integers(0, 3))
def test_a_range_has_places_of_the_partitions_between_its_ends(
    partition: int, bound: tuple[int, int], last: int
) -> None:
    part = Range(Key(bound), places.end(last))
    hashes = (0, min(bound[1] + 1, HASHES - 1), HASHES - 1)
    assert places.is_in(part, partition) == any(part.holds(Key((partition, each))) for each in hashes)
