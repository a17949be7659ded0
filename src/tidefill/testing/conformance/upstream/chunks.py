"""Tests of the walk: bounds cut a table into chunks, and the chunks hold every row once."""

from __future__ import annotations

from tidefill.core import walk
from tidefill.core.keys import TOP, Key
from tidefill.core.walk import DONE, Range, Split, Upto
from tidefill.testing.conformance.upstream.checks import assert_walk, greatest_of, is_inside, open_first, open_newest
from tidefill.testing.conformance.upstream.harness import F, UpstreamHarness, UpstreamTest
from tidefill.testing.conformance.upstream.rows import NINE, ORDINARY, assert_same, row


def bounds_can_be_used(harness: UpstreamHarness[F]) -> None:
    rows = [row(number, number % 6) for number in range(24)]
    harness.create(ORDINARY, rows)
    with open_first(harness) as (upstream, head):
        begun = Split(Key((1, 7)), Key((5, 5)), Upto(Key((2, TOP))))
        for split in (Split(None, None), Split(None, Key((5, 23))), begun):
            left = walk.rest(split)
            assert left is not None
            bounds = list(upstream.bounds(split, 3, head))
            assert bounds, "keys that differ can be cut; else a chunk has no limit"
            assert bounds == sorted(set(bounds)), "ascending, each once"
            assert all(is_inside(left, bound) for bound in bounds)
            assert walk.usable(split, bounds)
            assert list(upstream.bounds(split, 3, head)) == bounds


def bounds_end_with_the_split(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, head):
        assert list(upstream.bounds(Split(None, None), 9, head)) == [], "the last chunk is exactly full"
        assert list(upstream.bounds(Split(None, Key((9, 9))), 1000, head)) == []
        assert list(upstream.bounds(Split(Key((20, 1)), None), 1, head)) == []
        assert list(upstream.bounds(Split(None, None, DONE), 1, head)) == []


def chunk_by_chunk_whatever_their_size(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    for size in (1, 2, 3, 9, 1000):
        assert_walk(harness, ORDINARY, NINE, size)


def one_row(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE[:1])
    assert_walk(harness, ORDINARY, NINE[:1], 1)


def many_rows_in_one_group(harness: UpstreamHarness[F]) -> None:
    """The leading walk column alone cannot cut them; the key columns behind it can."""
    rows = [row(number, 3) for number in range(8)]
    harness.create(ORDINARY, rows)
    assert_walk(harness, ORDINARY, rows, 3)
    with open_newest(harness) as (upstream, head):
        assert upstream.bounds(Split(None, None), 3, head)


def several_ranges_at_once(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, NINE)
    with open_first(harness) as (upstream, head):
        ranges = (Range(None, Key((2, TOP))), Range(Key((4, 4)), Key((5, 5))), Range(Key((7, TOP)), None))
        found = harness.collect(upstream.rows(ranges, head))
        assert_same(found, [NINE[0], NINE[1], NINE[4], NINE[7], NINE[8]])


def the_greatest_key_follows_the_rows(harness: UpstreamHarness[F]) -> None:
    harness.create(ORDINARY, (row(1, None), row(2, None)))
    with open_first(harness) as (upstream, head):
        assert greatest_of(upstream, head) == Key((None, 2))
    harness.write([(row(1, None), row(1, -5)), (None, row(3, -5))])
    with open_newest(harness) as (upstream, head):
        assert greatest_of(upstream, head) == Key((-5, 3))
    harness.write([(row(3, -5), None)])
    with open_newest(harness) as (upstream, head):
        assert greatest_of(upstream, head) == Key((-5, 1))


CHUNKS: tuple[UpstreamTest, ...] = (
    bounds_can_be_used,
    bounds_end_with_the_split,
    chunk_by_chunk_whatever_their_size,
    one_row,
    many_rows_in_one_group,
    several_ranges_at_once,
    the_greatest_key_follows_the_rows,
)
