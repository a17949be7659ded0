"""Places of keys: where the newest message of a key counts, a topic is walked by partition and by a hash of the key.

A key lives in one partition, and its hash never changes, so a row never moves along the walk. Where its messages lie
among the offsets says nothing: the newest one comes at the end. A chunk is a whole partition; of a partition with many
messages it is a range of hashes, for which the partition is read once more.

Example: partition 1 has 10 million messages, and a chunk shall have 5 million. Its first chunk ends at the place
(1, 2**31 - 1), its second one at (1, 2**32 - 1), which is the end of the partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidefill.core.keys import Key
from tidefill.core.walk import Range

HASHES = 1 << 32
"""A hash is a number from 0 to HASHES - 1: the CRC-32 of the key."""

RANGES_MAX = 16
"""Of one partition. Each of them reads the whole partition: more would cost more than large chunks do."""


def before(partition: int) -> Key:
    """The bound below all places of the partition."""
    return Key((partition, -1))


def end(partition: int) -> Key:
    """The last place of the partition."""
    return Key((partition, HASHES - 1))


def is_in(part: Range, partition: int) -> bool:
    """Whether some place of the partition lies in the range."""
    return (part.after is None or part.after < end(partition)) and (part.upto is None or before(partition) < part.upto)


def beyond(lengths: Mapping[int, int]) -> tuple[Range, ...]:
    """The ranges of the walk without a message. `lengths`: how many offsets each partition has."""
    parts: list[Range] = []
    after: Key | None = None
    for partition in sorted(number for number, length in lengths.items() if length):
        parts.append(Range(after, before(partition)))
        after = end(partition)
    return (*parts, Range(after, None))


def bounds_in(part: Range, lengths: Mapping[int, int], rows: int) -> Sequence[Key]:
    """Bounds that cut what is in the range at the ends of partitions, and a partition into even parts that have at most
    about `rows` messages. There are 1, 2, 4 ... parts: when the partition has grown, the bounds of before are among
    those of now."""
    found = []
    for partition in sorted(number for number, length in lengths.items() if length):
        parts = min(RANGES_MAX, 1 << (-(-lengths[partition] // rows) - 1).bit_length())
        found += [Key((partition, (number + 1) * HASHES // parts - 1)) for number in range(parts)]
    return [bound for bound in found if part.holds(bound) and bound != part.upto]
