"""Where a backfill is: a walk is cut into splits, each with a position; all of them are the coverage.

A split is the range (after, upto] of the walk's key space; None means open on that side. A coverage is a tuple of
splits that is sorted, has no gap and no overlap, and reaches from -inf to +inf. Coverage only ever grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, assert_never

from tidefill.core.keys import Key


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Nothing of the split is covered."""


@dataclass(frozen=True, slots=True)
class Upto:
    """Everything of the split that is <= key is covered."""

    key: Key


@dataclass(frozen=True, slots=True)
class Done:
    """All of the split is covered."""


Position: TypeAlias = NotStarted | Upto | Done
NOT_STARTED = NotStarted()
DONE = Done()


@dataclass(frozen=True, slots=True)
class Split:
    """The range (after, upto] and how far it is filled."""

    after: Key | None
    upto: Key | None
    position: Position = NOT_STARTED


Coverage: TypeAlias = tuple[Split, ...]


@dataclass(frozen=True, slots=True)
class Range:
    """The keys k with after < k <= upto."""

    after: Key | None
    upto: Key | None

    def holds(self, key: Key) -> bool:
        """Whether the key lies in it."""
        return (self.after is None or self.after < key) and (self.upto is None or key <= self.upto)


def above(greatest: Key | None) -> tuple[Range, ...]:
    """The range without a row of a table with this greatest key; None: the table has no row."""
    return (Range(greatest, None),)


def start(beyond: Sequence[Range]) -> Coverage:
    """The coverage of step 1. The ranges `beyond`, in ascending order, have no row yet, so they are Done: what comes
    there later comes by forwarding, and a hot tail never chases the fill. An empty table is Done at once."""
    splits: list[Split] = []
    left = Range(None, None)  # from here on nothing was said yet
    for part in beyond:
        if part.after is not None and (left.after is None or left.after < part.after):
            splits.append(Split(left.after, part.after))
        splits.append(Split(part.after, part.upto, DONE))
        if part.upto is None:
            return tuple(splits)
        left = Range(part.upto, None)
    return (*splits, Split(left.after, None))


def whole() -> Coverage:
    """Everything is covered."""
    return (Split(None, None, DONE),)


def covers(coverage: Coverage, key: Key) -> bool:
    """Whether the row at `key` is in the target's charge: THE coverage rule for one key."""
    split = find(coverage, key)
    match split.position:
        case NotStarted():
            return False
        case Upto(last):
            return key <= last
        case Done():
            return True
        case never:
            assert_never(never)


def find(coverage: Coverage, key: Key) -> Split:
    """The split whose range holds `key`."""
    for split in coverage:
        if split.upto is None or key <= split.upto:
            return split
    raise AssertionError(f"the coverage does not reach {key}")


def rest(split: Split) -> Range | None:
    """What of the split is still to be filled; None when it is Done."""
    match split.position:
        case NotStarted():
            return Range(split.after, split.upto)
        case Upto(last):
            return Range(last, split.upto)
        case Done():
            return None
        case never:
            assert_never(never)


def unfinished(coverage: Coverage) -> list[Split]:
    """The splits that still have something to fill, in walk order."""
    return [split for split in coverage if not isinstance(split.position, Done)]


def finished(coverage: Coverage) -> bool:
    """Whether everything is covered."""
    return all(isinstance(split.position, Done) for split in coverage)


def covered_ranges(coverage: Coverage) -> tuple[Range, ...]:
    """What is covered, as few ranges as possible, in walk order."""
    ranges: list[Range] = []
    for split in coverage:
        match split.position:
            case NotStarted():
                continue
            case Upto(last):
                covered = Range(split.after, last)
            case Done():
                covered = Range(split.after, split.upto)
            case never:
                assert_never(never)
        if ranges and ranges[-1].upto is not None and ranges[-1].upto == covered.after:
            covered = Range(ranges.pop().after, covered.upto)
        ranges.append(covered)
    return tuple(ranges)


def common(ranges: Iterable[Range], piece: Range) -> tuple[Range, ...]:
    """What of the ranges lies in the piece."""
    found = []
    for part in ranges:
        after = max((end for end in (part.after, piece.after) if end is not None), default=None)
        upto = min((end for end in (part.upto, piece.upto) if end is not None), default=None)
        if after is None or upto is None or after < upto:
            found.append(Range(after, upto))
    return tuple(found)


def usable(split: Split, bounds: Iterable[Key]) -> list[Key]:
    """Of the offered bounds those that lie strictly inside of what is left of the split, ascending, each once.
    An offer is a guess by statistics: it may repeat itself, lie elsewhere, or name keys that no row has."""
    left = rest(split)
    if left is None:
        return []
    inside = {
        bound
        for bound in bounds
        if (left.after is None or left.after < bound) and (left.upto is None or bound < left.upto)
    }
    return sorted(inside)


def cut(coverage: Coverage, split: Split, bound: Key) -> Coverage:
    """The same coverage with `split` cut in two at `bound`, which lies strictly inside of what is left of it. The
    lower part keeps the position."""
    assert usable(split, [bound]), f"{bound} does not lie inside of what is left of {split}"
    lower, upper = replace(split, upto=bound), Split(bound, split.upto)
    return tuple(part for old in coverage for part in ((lower, upper) if old == split else (old,)))


def union(coverage: Coverage, chunks: Iterable[Range]) -> Coverage:
    """The coverage with these chunks taken in: each begins where its split's position is."""
    by_start = {chunk.after: chunk for chunk in chunks}
    grown = []
    for split in coverage:
        left = rest(split)
        chunk = by_start.pop(left.after, None) if left is not None else None
        grown.append(split if chunk is None else replace(split, position=_reached(split, chunk)))
    assert not by_start, f"chunks that begin at no position: {by_start}"
    return merged(tuple(grown))


def _reached(split: Split, chunk: Range) -> Position:
    if chunk.upto is None or (split.upto is not None and chunk.upto >= split.upto):
        assert chunk.upto == split.upto, f"the chunk {chunk} leaves its split {split}"
        return DONE
    return Upto(chunk.upto)


def merged(coverage: Coverage) -> Coverage:
    """The same coverage with finished neighbours made one, so that it stays as small as the work left."""
    parts: list[Split] = []
    for split in coverage:
        if parts and isinstance(parts[-1].position, Done) and isinstance(split.position, Done):
            parts[-1] = replace(parts[-1], upto=split.upto)
        else:
            parts.append(split)
    return tuple(parts)


def flaw(coverage: Coverage) -> str | None:
    """Why this is not a coverage, or None: used on what comes from outside."""
    if not coverage or coverage[0].after is not None or coverage[-1].upto is not None:
        return "it does not reach from end to end"
    for split, follower in pairwise(coverage):
        if split.upto is None or split.upto != follower.after:
            return "its splits do not touch"
    for split in coverage:
        if split.after is not None and split.upto is not None and split.after >= split.upto:
            return f"the split {split} is empty"
        if isinstance(split.position, Upto) and not _inside(split, split.position.key):
            return f"the position of {split} lies outside"
    return None


def _inside(split: Split, key: Key) -> bool:
    return (split.after is None or split.after < key) and (split.upto is None or key < split.upto)
