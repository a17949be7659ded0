"""Ranges of the walk as spans of offsets, against the naive model: a set of keys."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.keys import TOP, Key
from tidefill.core.version import Offsets
from tidefill.core.walk import Done, Range, covered_ranges, start
from tidefill.kafka.spans import Span, at_most_ahead, beyond, bounds_of, rounds, spans_in, without

EVERYTHING = Range(None, None)
PARTITIONS, OFFSETS = 4, 6

places = st.dictionaries(st.integers(0, PARTITIONS - 1), st.integers(0, OFFSETS))
keys = st.one_of(
    st.none(),
    st.tuples(st.integers(-1, PARTITIONS), st.integers(-1, OFFSETS)).map(Key),
    st.integers(0, PARTITIONS).map(lambda partition: Key((partition, TOP))),
    st.integers(0, PARTITIONS).map(lambda partition: Key((partition,))),
    st.just(Key((TOP,))),
)


def messages(ends: dict[int, int], begins: dict[int, int]) -> set[tuple[int, int]]:
    return {(number, offset) for number, end in ends.items() for offset in range(begins.get(number, 0), end)}


def held(spans: list[Span]) -> list[tuple[int, int]]:
    return [(span.partition, offset) for span in spans for offset in range(span.begin, span.end)]


def test_the_example_of_the_module() -> None:
    found = spans_in(Range(Key((0, 7)), None), Offsets.of({0: 10, 1: 5}), {})
    assert found == [Span(0, 8, 10), Span(1, 0, 5)]


@given(places, places, keys, keys)
def test_a_range_has_the_messages_whose_keys_lie_in_it(
    ends: dict[int, int], begins: dict[int, int], after: Key | None, upto: Key | None
) -> None:
    part = Range(after, upto)
    expected = sorted(each for each in messages(ends, begins) if part.holds(Key(each)))
    assert held(spans_in(part, Offsets.of(ends), begins)) == expected


@given(places, places)
def test_beyond_has_no_message_and_the_rest_has_all(ends: dict[int, int], begins: dict[int, int]) -> None:
    found = beyond(Offsets.of(ends), begins)
    there = messages(ends, begins)
    assert not [key for key in there if any(part.holds(Key(key)) for part in found)]
    coverage = start(found)
    new = [*ends.items(), (PARTITIONS, 0)]
    covered = covered_ranges(coverage)
    above = [key for key in new if key not in there]
    assert all(any(part.holds(Key(key)) for part in covered) for key in above), "what comes later is forwarded"
    filled = [split for split in coverage if not isinstance(split.position, Done)]
    assert len(filled) == len({number for number, _ in there}), "each partition is a split"


def test_an_empty_topic_is_beyond_everywhere() -> None:
    assert beyond(Offsets(), {}) == (EVERYTHING,)
    assert beyond(Offsets.of({0: 7}), {0: 7}) == (EVERYTHING,)


@given(places, st.integers(1, 4))
def test_bounds_cut_what_is_there(ends: dict[int, int], rows: int) -> None:
    spans = spans_in(EVERYTHING, Offsets.of(ends), {})
    total = sum(span.length for span in spans)
    found = bounds_of(spans, rows)
    assert found == sorted(set(found))
    assert bool(found) == (total > rows and total > 1)
    edges = [None, *found, None]
    pieces = [held(spans_in(Range(*pair), Offsets.of(ends), {})) for pair in pairwise(edges)]
    assert all(len(piece) <= rows for piece in pieces)
    assert not found or all(pieces)


@given(places, places)
def test_the_walk_without_what_expired(begins: dict[int, int], earliest: dict[int, int]) -> None:
    gone = spans_in(EVERYTHING, Offsets.of(earliest), begins)
    left = without(gone)
    every = {(number, offset) for number in range(PARTITIONS) for offset in range(OFFSETS + 2)}
    kept = every if left is None else {key for key in every if any(part.holds(Key(key)) for part in left)}
    assert kept == every - set(held(gone))


def test_one_read_takes_one_span_of_a_partition() -> None:
    spans = [Span(0, 0, 1), Span(0, 5, 9), Span(1, 0, 3), Span(0, 10, 12)]
    assert rounds(spans) == [[spans[0], spans[2]], [spans[1]], [spans[3]]]
    assert rounds([]) == []


@given(places, places, st.integers(1, 12))
def test_a_head_is_so_many_messages_ahead_at_most(at: dict[int, int], head: dict[int, int], most: int) -> None:
    known = Offsets.of(at)
    newest = known.joined(Offsets.of(head))
    found = at_most_ahead(known, newest, most)
    new = known.lag_to(newest)
    assert new is not None
    assert known.lag_to(found) == min(new, most), "no more, and no fewer"
    assert newest.includes(found)
    assert found.includes(known)


def test_a_busy_partition_leaves_the_others_their_messages() -> None:
    found = at_most_ahead(Offsets(), Offsets.of({0: 1000, 1: 3, 2: 1000}), 103)
    assert found == Offsets.of({0: 50, 1: 3, 2: 50})
