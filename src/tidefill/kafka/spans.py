"""Offsets and ranges of the walk: a topic is walked by partition and offset, so a range of its walk is a few spans of
offsets, found by arithmetic.

Example: partition 0 has the offsets 0 to 9, partition 1 has 0 to 4. The range after (0, 7] is the offsets 8 and 9 of
partition 0, and 0 to 4 of partition 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidefill.core.keys import TOP, Key
from tidefill.core.version import Offsets
from tidefill.core.walk import Range

BOUNDS_MAX = 1000
"""How many bounds are offered at a time: more than there are chunks in a step."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The offsets from `begin` up to, and without, `end`."""

    partition: int
    begin: int
    end: int

    @property
    def length(self) -> int:
        """How many offsets it has. Not each of them needs to have a message."""
        return self.end - self.begin


def spans_in(part: Range, ends: Offsets, begins: Mapping[int, int]) -> list[Span]:
    """The offsets in a range of the walk: of each partition from its begin (0 if none is given) up to its end."""
    found = []
    for partition, end in ends.next:
        first = max(begins.get(partition, 0), _passed(part.after, partition, 0, end))
        last = min(end, _passed(part.upto, partition, end, end))
        if first < last:
            found.append(Span(partition, first, last))
    return found


def _passed(bound: Key | None, partition: int, nowhere: int, end: int) -> int:
    """The first offset of the partition that lies behind the bound, at most `end`. `nowhere`: if there is no bound."""
    if bound is None:
        return nowhere
    first, *rest = bound.values
    if first is TOP or (isinstance(first, int) and first > partition):
        return end
    if first != partition or not rest:
        return 0
    return end if not isinstance(rest[0], int) else min(end, rest[0] + 1)


def rounds(spans: Iterable[Span]) -> list[list[Span]]:
    """The spans, put together such that no partition is twice in one list: one read takes one span of a partition."""
    found: list[dict[int, Span]] = []
    for span in spans:
        free = next((one for one in found if span.partition not in one), None)
        if free is None:
            found.append({span.partition: span})
        else:
            free[span.partition] = span
    return [list(one.values()) for one in found]


def beyond(ends: Offsets, begins: Mapping[int, int]) -> tuple[Range, ...]:
    """The ranges of the walk without a message: below the begin and above the end of EACH partition."""
    parts: list[Range] = []
    after: Key | None = None
    for partition, end in ends.next:
        begin = begins.get(partition, 0)
        if begin < end:
            parts.append(Range(after, Key((partition, begin - 1))))
            after = Key((partition, end - 1))
    return (*parts, Range(after, None))


def without(gone: Iterable[Span]) -> tuple[Range, ...]:
    """The walk without these spans, which are ascending."""
    parts: list[Range] = []
    after: Key | None = None
    for span in gone:
        parts.append(Range(after, Key((span.partition, span.begin - 1))))
        after = Key((span.partition, span.end - 1))
    return (*parts, Range(after, None))


def bounds_of(spans: Sequence[Span], rows: int) -> list[Key]:
    """Keys in these spans, `rows` offsets apart; none if no more than that are in them."""
    found: list[Key] = []
    for number, span in enumerate(spans):
        ends_here = 0 if number == len(spans) - 1 else 1  # the last offset of all bounds nothing
        found += [Key((span.partition, offset)) for offset in range(span.begin + rows - 1, span.end - 1, rows)]
        found += [Key((span.partition, span.end - 1))] * ends_here
        if len(found) >= BOUNDS_MAX:
            break
    return found[:BOUNDS_MAX] if sum(span.length for span in spans) > rows else []


def at_most_ahead(at: Offsets, head: Offsets, most: int) -> Offsets:
    """The head, or a point on the way to it that is `most` messages ahead of `at`: partitions with few new messages get
    all of them, the others share what is left."""
    new = {partition: offset - at.at(partition) for partition, offset in head.next if offset > at.at(partition)}
    left, taken = most, dict[int, int]()
    for number, (partition, count) in enumerate(sorted(new.items(), key=lambda each: (each[1], each[0]))):
        taken[partition] = min(count, left // (len(new) - number))
        left -= taken[partition]
    return at.joined(Offsets.of({partition: at.at(partition) + count for partition, count in taken.items()}))
