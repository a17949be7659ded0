"""How a test opens a version of the upstream, and how it checks changes and walks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tidefill.core import walk
from tidefill.core.keys import Key, key_from_json, key_to_json
from tidefill.core.look import Changed
from tidefill.core.version import Version
from tidefill.core.walk import Coverage, Range, Split
from tidefill.ports.frames import Changes
from tidefill.ports.upstream import Upstream
from tidefill.testing.conformance.upstream.harness import F, KeyValues, Layout, Row, UpstreamHarness, Write
from tidefill.testing.conformance.upstream.rows import ORDINARY, PARTLY, assert_same, by_id, covered

CHUNKS_MAX = 100


@contextmanager
def open_first(harness: UpstreamHarness[F]) -> Iterator[tuple[Upstream[F], Version]]:
    upstream = harness.upstream()
    upstream.prepare(None)
    with upstream.open_head(first=True) as version:
        yield upstream, version


@contextmanager
def open_newest(harness: UpstreamHarness[F]) -> Iterator[tuple[Upstream[F], Version]]:
    upstream = harness.upstream()
    upstream.prepare(None)
    with upstream.open_head(first=False) as version:
        yield upstream, version


def first_version(harness: UpstreamHarness[F]) -> Version:
    with open_first(harness) as (_, version):
        return version


def assert_exact(harness: UpstreamHarness[F], before: Sequence[Row], transactions: Sequence[Sequence[Write]]) -> None:
    """The changes of these transactions, judged by any coverage, are what they have to be."""
    harness.create(ORDINARY, before)
    old = first_version(harness)
    now = by_id(before)
    for changes in transactions:
        harness.write(changes)
        for gone, _ in changes:
            now.pop(gone[0] if gone else None, None)
        now.update(by_id(new for _, new in changes if new))
    after = tuple(now.values())
    with open_newest(harness) as (upstream, head):
        for coverage in (PARTLY, walk.whole(), (Split(None, None),)):
            assert_changes(harness, upstream.read_changes(old, head, coverage), before, after, coverage)
            differ = covered(before, coverage) != covered(after, coverage)
            assert not differ or upstream.classify_changes(old, head, coverage) is not Changed.NOTHING


def assert_changes(
    harness: UpstreamHarness[F],
    changes: Changes[F],
    before: Sequence[Row],
    after: Sequence[Row],
    coverage: Coverage,
    layout: Layout = ORDINARY,
) -> None:
    old, new = covered(before, coverage, layout), covered(after, coverage, layout)
    went, came = harness.sides(changes.rows)
    added = harness.collect(came)
    if changes.images:
        kept = set(before) & set(after)
        removed = harness.collect(went)
        assert changes.removes or not removed, "it is said that there is nothing"
        assert_same(removed, [image for image in old.values() if image not in kept])
        assert_same(added, [image for image in new.values() if image not in kept])
        return
    keys = harness.collect_keys(went)
    if changes.lead is not None:
        leads = sorted(lead for lead, *_ in keys if isinstance(lead, int))
        assert changes.lead == (leads[0], leads[-1])
        assert len(leads) == len(keys)
    changed = {layout.key_of(image) for image in set(before) ^ set(after)}
    assert len(keys) == len(set(keys)), "each key once"
    assert changed <= set(keys), f"changes of {changed - set(keys)} are missing"
    assert_same(added, [image for key, image in new.items() if key in keys])


def forward_target(harness: UpstreamHarness[F], target: dict[KeyValues, Row], changes: Changes[F]) -> None:
    """Apply the changes as a replica does."""
    went, came = harness.sides(changes.rows)
    if changes.images:
        for image in harness.collect(went):
            assert target.pop(ORDINARY.key_of(image)) == image, "what is removed was there"
    else:
        for key in harness.collect_keys(went):
            target.pop(key, None)
    for image in harness.collect(came):
        assert ORDINARY.key_of(image) not in target, "what is added was not there"
        target[ORDINARY.key_of(image)] = image


def take_in(
    harness: UpstreamHarness[F],
    upstream: Upstream[F],
    coverage: Coverage,
    at: Version,
    target: dict[KeyValues, Row],
    rows: int,
) -> Coverage:
    """The coverage with the next chunk of its first unfinished split, whose rows are now in the target."""
    for split in walk.unfinished(coverage)[:1]:
        chunk = _next_chunk(upstream, split, rows, at)
        for image in harness.collect(upstream.rows((chunk,), at)):
            assert ORDINARY.key_of(image) not in target, "no row is read twice"
            target[ORDINARY.key_of(image)] = image
        return walk.union(coverage, [chunk])
    return coverage


def greatest_of(upstream: Upstream[F], at: Version) -> Key | None:
    """The key above which there is no row; None if there is no row at all."""
    last = upstream.beyond(at)[-1]
    assert last.upto is None, "the last range reaches to the end"
    return last.after


def _next_chunk(upstream: Upstream[F], split: Split, rows: int, at: Version) -> Range:
    bounds = walk.usable(split, [_through_json(bound) for bound in upstream.bounds(split, rows, at)])
    left = walk.rest(split)
    assert left is not None
    return Range(left.after, bounds[0] if bounds else left.upto)


def assert_walk(harness: UpstreamHarness[F], layout: Layout, rows: Sequence[Row], size: int) -> None:
    """Chunk by chunk to the end gives every row exactly once, each in its place."""
    found: list[Row] = []
    with open_newest(harness) as (upstream, head):
        greatest = greatest_of(upstream, head)
        coverage = walk.start(walk.above(None if greatest is None else _through_json(greatest)))
        for _ in range(CHUNKS_MAX):
            if walk.finished(coverage):
                break
            chunk = _next_chunk(upstream, walk.unfinished(coverage)[0], size, head)
            part = harness.collect(upstream.rows((chunk,), head))
            assert all(is_inside(chunk, layout.walk_of(image)) for image in part)
            found += part
            coverage = walk.union(coverage, [chunk])
    assert walk.finished(coverage), "the walk does not end"
    assert_same(found, rows)


def _through_json(key: Key) -> Key:
    """A key as the next process reads it from the state."""
    back = key_from_json(json.loads(json.dumps(key_to_json(key))))
    assert back == key
    return back


def is_inside(range_: Range, key: Key) -> bool:
    return (range_.after is None or range_.after < key) and (range_.upto is None or key <= range_.upto)
