"""Coverage, against a naive model: the set of the integers that are covered.

The points that are looked at lie before, between, on and behind all bounds.
"""

import itertools
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core import walk
from tidefill.core.keys import TOP, Key
from tidefill.core.walk import DONE, NOT_STARTED, Coverage, Done, Range, Split, Upto

LAST = 20
POINTS = range(-1, LAST + 2)


def key(number: int) -> Key:
    return Key((number,))


def covered(coverage: Coverage) -> set[int]:
    """What is covered, by the definition of splits and positions alone."""
    return {number for number in POINTS for split in coverage if _holds(split, number) and _filled(split, number)}


def _holds(split: Split, number: int) -> bool:
    return in_range(Range(split.after, split.upto), number)


def _filled(split: Split, number: int) -> bool:
    if isinstance(split.position, Upto):
        return key(number) <= split.position.key
    return isinstance(split.position, Done)


def in_range(range_: Range, number: int) -> bool:
    above = range_.after is None or range_.after < key(number)
    return above and (range_.upto is None or key(number) <= range_.upto)


@st.composite
def coverages(draw: st.DrawFn) -> Coverage:
    """Any coverage: bounds anywhere, and in each split any position that it can have."""
    bounds = sorted(draw(st.sets(st.integers(0, LAST), max_size=5)))
    edges = [None, *bounds, None]
    return tuple(
        Split(_edge(after), _edge(upto), draw(_positions(after, upto))) for after, upto in itertools.pairwise(edges)
    )


def _edge(bound: int | None) -> Key | None:
    return None if bound is None else key(bound)


def _positions(after: int | None, upto: int | None) -> st.SearchStrategy[walk.Position]:
    inside = range(-1 if after is None else after + 1, LAST + 2 if upto is None else upto)
    started = [st.sampled_from(inside).map(lambda number: Upto(key(number)))] if inside else []
    return st.one_of(st.just(NOT_STARTED), st.just(DONE), *started)


def chunks_of(coverage: Coverage, data: st.DataObject) -> list[Range]:
    """For some unfinished splits the next chunk, up to a usable bound or to the split's end."""
    chunks = []
    for split in walk.unfinished(coverage):
        bounds = walk.usable(split, map(key, POINTS))
        left = walk.rest(split)
        assert left is not None
        if data.draw(st.booleans()):
            chunks.append(Range(left.after, data.draw(st.sampled_from([*bounds, left.upto]))))
    return chunks


def test_step_one_fixes_the_work() -> None:
    assert walk.start(walk.above(None)) == (Split(None, None, DONE),) == walk.whole()
    coverage = walk.start(walk.above(key(9)))
    assert not walk.covers(coverage, key(9))
    assert walk.covers(coverage, key(10)), "what comes behind the end comes by forwarding"
    assert walk.flaw(coverage) is None


def test_a_position_covers_what_is_not_above_it() -> None:
    coverage = (Split(None, key(5), Upto(key(2))), Split(key(5), None))
    assert [number for number in range(8) if walk.covers(coverage, key(number))] == [0, 1, 2]


def test_filling_chunk_by_chunk() -> None:
    coverage = walk.start(walk.above(key(9)))
    coverage = walk.union(coverage, [Range(None, key(4))])
    assert coverage == (Split(None, key(9), Upto(key(4))), Split(key(9), None, DONE))
    coverage = walk.union(coverage, [Range(key(4), key(9))])
    assert coverage == walk.whole()
    assert walk.finished(coverage)


def test_two_splits_are_filled_at_once() -> None:
    coverage = walk.cut(walk.start(walk.above(key(9))), Split(None, key(9)), key(5))
    coverage = walk.union(coverage, [Range(None, key(5)), Range(key(5), key(7))])
    assert coverage == (
        Split(None, key(5), DONE),
        Split(key(5), key(9), Upto(key(7))),
        Split(key(9), None, DONE),
    )
    assert walk.covered_ranges(coverage) == (Range(None, key(7)), Range(key(9), None))


def test_a_bound_may_end_a_whole_group() -> None:
    coverage = walk.union(walk.start(walk.above(Key((3, 7)))), [Range(None, Key((2, TOP)))])
    assert walk.covers(coverage, Key((2, 10**9)))
    assert not walk.covers(coverage, Key((3, None)))


def test_offered_bounds_are_guesses() -> None:
    split = Split(key(2), key(8), Upto(key(4)))
    offered = [key(number) for number in (9, 7, 5, 5, 4, 8, 2, -3)]
    assert walk.usable(split, offered) == [key(5), key(7)]
    assert walk.usable(Split(None, None, DONE), offered) == []


def test_a_chunk_that_begins_nowhere_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="begin at no position"):
        walk.union(walk.start(walk.above(key(9))), [Range(key(1), key(2))])
    with pytest.raises(AssertionError, match="leaves its split"):
        walk.union(walk.start(walk.above(key(9))), [Range(None, key(10))])
    with pytest.raises(AssertionError, match="does not lie inside"):
        walk.cut(walk.start(walk.above(key(9))), Split(None, key(9)), key(9))


@pytest.mark.parametrize(
    "damaged",
    [
        (),
        (Split(key(1), None),),
        (Split(None, key(1)),),
        (Split(None, key(1)), Split(key(2), None)),
        (Split(None, key(2)), Split(key(1), None)),
        (Split(None, None), Split(None, None)),
        (Split(None, key(2)), Split(key(2), key(2)), Split(key(2), None)),
        (Split(None, key(2)), Split(key(2), key(1)), Split(key(1), None)),
        (Split(None, key(2), Upto(key(2))), Split(key(2), None)),
        (Split(None, key(2), Upto(key(3))), Split(key(2), None)),
        (Split(None, key(2)), Split(key(2), None, Upto(key(2)))),
    ],
)
def test_damage_is_seen(damaged: Coverage) -> None:
    assert walk.flaw(damaged)


@given(coverages())
def test_covers_is_the_model(coverage: Coverage) -> None:
    assert walk.flaw(coverage) is None
    assert {number for number in POINTS if walk.covers(coverage, key(number))} == covered(coverage)
    for number in POINTS:
        assert _holds(walk.find(coverage, key(number)), number)


@given(coverages())
def test_what_is_left_is_what_is_not_covered(coverage: Coverage) -> None:
    left = [walk.rest(split) for split in walk.unfinished(coverage)]
    uncovered = {number for number in POINTS for range_ in left if range_ is not None and in_range(range_, number)}
    assert uncovered == set(POINTS) - covered(coverage)
    assert walk.finished(coverage) == (not left)


@given(coverages(), st.data())
def test_union_adds_exactly_the_chunks(coverage: Coverage, data: st.DataObject) -> None:
    chunks = chunks_of(coverage, data)
    after = walk.union(coverage, chunks)
    assert walk.flaw(after) is None
    added = {number for number in POINTS for chunk in chunks if in_range(chunk, number)}
    assert covered(after) == covered(coverage) | added
    assert not covered(coverage) & added, "no row is read twice"


@given(coverages(), st.data())
def test_a_cut_keeps_what_is_covered(coverage: Coverage, data: st.DataObject) -> None:
    for split in walk.unfinished(coverage):
        bounds = walk.usable(split, map(key, POINTS))
        if bounds:
            after = walk.cut(coverage, split, data.draw(st.sampled_from(bounds)))
            assert walk.flaw(after) is None
            assert covered(after) == covered(coverage)
            assert len(walk.unfinished(after)) == len(walk.unfinished(coverage)) + 1


@given(coverages())
def test_merged_keeps_what_is_covered(coverage: Coverage) -> None:
    after = walk.merged(coverage)
    assert walk.flaw(after) is None
    assert covered(after) == covered(coverage)
    assert walk.unfinished(after) == walk.unfinished(coverage)
    assert walk.merged(after) == after
    assert len(after) <= 2 * len(walk.unfinished(coverage)) + 1, "it is as small as the work left"


@given(coverages())
def test_covered_ranges_are_the_covered_part(coverage: Coverage) -> None:
    ranges = walk.covered_ranges(coverage)
    assert {number for number in POINTS for range_ in ranges if in_range(range_, number)} == covered(coverage)
    for lower, upper in itertools.pairwise(ranges):
        assert lower.upto is not None
        assert upper.after is not None
        assert lower.upto < upper.after, "ranges that touch are one"


@given(coverages(), st.lists(st.integers(-5, LAST + 5)))
def test_usable_bounds_cut_what_is_left(coverage: Coverage, offered: list[int]) -> None:
    for split in coverage:
        usable = walk.usable(split, map(key, offered))
        assert usable == sorted(set(usable))
        assert set(usable) == set(_strictly_left(split, offered))


def _strictly_left(split: Split, offered: Iterable[int]) -> list[Key]:
    left = walk.rest(split)
    if left is None:
        return []
    return [key(number) for number in offered if in_range(left, number) and key(number) != left.upto]


@given(st.integers(0, 9), st.data())
def test_any_order_of_chunks_and_cuts_fills_everything_once(greatest: int, data: st.DataObject) -> None:
    coverage, read = walk.start(walk.above(key(greatest))), list[int]()
    while not walk.finished(coverage):
        split = data.draw(st.sampled_from(walk.unfinished(coverage)))
        bounds = walk.usable(split, map(key, range(greatest)))
        if data.draw(st.booleans()) and bounds:
            coverage = walk.cut(coverage, split, data.draw(st.sampled_from(bounds)))
            continue
        left = walk.rest(split)
        assert left is not None
        chunk = Range(left.after, bounds[0] if bounds else left.upto)
        read += [number for number in range(greatest + 1) if in_range(chunk, number)]
        coverage = walk.union(coverage, [chunk])
    assert sorted(read) == list(range(greatest + 1))
    assert coverage == walk.whole()


@given(coverages(), st.data())
def test_damaged_coverages_are_seen(coverage: Coverage, data: st.DataObject) -> None:
    """Losing a split, doubling one or swapping two leaves no coverage, except where nothing is lost by it."""
    where = data.draw(st.integers(0, len(coverage) - 1))
    without = (*coverage[:where], *coverage[where + 1 :])
    doubled = (*coverage[: where + 1], *coverage[where:])
    assert walk.flaw(without)
    assert walk.flaw(doubled)
    if len(coverage) > 1:
        assert walk.flaw(coverage[::-1])


@given(coverages(), st.data())
def test_what_ranges_have_in_common_with_a_piece(coverage: Coverage, data: st.DataObject) -> None:
    ends = st.none() | st.sampled_from(list(map(key, POINTS)))
    after, upto = data.draw(ends), data.draw(ends)
    piece = Range(after, upto)
    ranges = walk.covered_ranges(coverage)
    common = walk.common(ranges, piece)
    for place in map(key, range(-2, LAST + 3)):
        both = piece.holds(place) and any(part.holds(place) for part in ranges)
        assert sum(part.holds(place) for part in common) == both


def test_every_range_without_a_row_is_done_at_once() -> None:
    """A table may know more than its end: two ranges without a row, and what lies between them is to be filled."""
    beyond = [Range(None, key(2)), Range(key(5), key(7)), Range(key(9), None)]
    assert walk.start(beyond) == (
        Split(None, key(2), DONE),
        Split(key(2), key(5)),
        Split(key(5), key(7), DONE),
        Split(key(7), key(9)),
        Split(key(9), None, DONE),
    )
    assert walk.start(beyond[1:2]) == (Split(None, key(5)), Split(key(5), key(7), DONE), Split(key(7), None))
    assert walk.start([Range(key(2), key(5)), Range(key(5), None)])[1:] == (
        Split(key(2), key(5), DONE),
        Split(key(5), None, DONE),
    )
    assert walk.start([]) == (Split(None, None),)
