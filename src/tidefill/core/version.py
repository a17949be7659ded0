"""Which commits of an upstream are in.

A version is a point of a table of one identity. Points are of three kinds: the number of a Delta version; the snapshot
of a PostgreSQL server, which is a SET of transactions: two snapshots are ordered only by inclusion, and a transaction's
place in the log says nothing about whether a snapshot sees it; and the offsets of a Kafka topic, which are compared
partition by partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from tidefill.errors import StateUnreadable


@dataclass(frozen=True, slots=True)
class Number:
    """Everything up to and with commit `number`."""

    number: int

    def includes(self, other: Point) -> bool:
        """Whether everything that is in `other` is in this point."""
        return self.number >= _same_kind(self, other).number

    def lag_to(self, head: Point) -> int | None:
        """How many commits the head is ahead of this point; None where that cannot be counted."""
        return max(0, _same_kind(self, head).number - self.number)

    @property
    def ordinal(self) -> int | None:
        """The number by which a person knows the point; None if there is none."""
        return self.number

    def to_json(self) -> dict[str, Any]:
        """The fields that a version's JSON has for its point."""
        return {"number": self.number}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The transactions below xmax that had ended when it was taken: all below xmin, and all but `xip` above it."""

    xmin: int
    xmax: int
    xip: frozenset[int] = frozenset()

    def sees(self, xid: int) -> bool:
        """Whether the (64-bit) transaction had ended when the snapshot was taken."""
        return xid < self.xmin or (xid < self.xmax and xid not in self.xip)

    def includes(self, other: Point) -> bool:
        """Whether everything that is in `other` is in this point."""
        smaller = _same_kind(self, other)
        first_unseen_above = all(xid in smaller.xip for xid in range(self.xmax, smaller.xmax))
        return first_unseen_above and not any(smaller.sees(xid) for xid in self.xip)

    def lag_to(self, head: Point) -> int | None:
        """Transactions that a server has not logged cannot be counted."""
        return None

    @property
    def ordinal(self) -> int | None:
        """A set of transactions has no number."""
        return None

    def to_json(self) -> dict[str, Any]:
        """The fields that a version's JSON has for its point."""
        return {"snapshot": [self.xmin, self.xmax, sorted(self.xip)]}


@dataclass(frozen=True, slots=True)
class Offsets:
    """The messages of a topic below the next offset of each partition. `next`: partition and next offset, ascending by
    partition. A partition that is missing has the next offset 0, and `Offsets.of` leaves out such a partition: so two
    points that hold the same messages are equal."""

    next: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, offsets: Mapping[int, int]) -> Offsets:
        """The point of these next offsets, by partition."""
        return cls(tuple(sorted((partition, offset) for partition, offset in offsets.items() if offset)))

    @property
    def by_partition(self) -> dict[int, int]:
        """The next offset of each partition that has one above 0."""
        return dict(self.next)

    def at(self, partition: int) -> int:
        """The next offset of the partition."""
        return self.by_partition.get(partition, 0)

    def includes(self, other: Point) -> bool:
        """Whether everything that is in `other` is in this point."""
        mine = self.by_partition
        return all(mine.get(partition, 0) >= offset for partition, offset in _same_kind(self, other).next)

    def lag_to(self, head: Point) -> int | None:
        """How many offsets the head is ahead of this point. Not each of them needs to have a message."""
        mine = self.by_partition
        return sum(max(0, offset - mine.get(partition, 0)) for partition, offset in _same_kind(self, head).next)

    def joined(self, other: Offsets) -> Offsets:
        """The greater offset of each partition."""
        mine, theirs = self.by_partition, other.by_partition
        return Offsets.of({each: max(mine.get(each, 0), theirs.get(each, 0)) for each in {*mine, *theirs}})

    @property
    def ordinal(self) -> int | None:
        """Several offsets are no number."""
        return None

    def to_json(self) -> dict[str, Any]:
        """The fields that a version's JSON has for its point."""
        return {"offsets": {str(partition): offset for partition, offset in self.next}}


Point: TypeAlias = Number | Snapshot | Offsets
P = TypeVar("P", Number, Snapshot, Offsets)


def _same_kind(mine: P, other: Point) -> P:
    assert type(other) is type(mine), f"two kinds of versions: {mine} and {other}"
    return other


@dataclass(frozen=True, slots=True)
class Version:
    """A point in the history of the table `identity`. `carry`: a text of the upstream that is stored with the version;
    only the upstream reads it. `bases`: of a table that a job made, the versions of the bases that this version was
    computed from."""

    identity: str
    point: Point
    carry: str = field(default="", compare=False)
    bases: Mapping[str, int] = field(default_factory=dict, compare=False)


def bases_of(version: Version) -> Mapping[str, int]:
    """The versions of bases that this version was computed from: identity of the base -> number. A version of a base
    was computed from itself."""
    number = version.point.ordinal
    return version.bases if version.bases or number is None else {version.identity: number}


def bases_of_all(versions: Iterable[Version]) -> dict[str, int]:
    """`bases_of` for several versions that agree, in one mapping."""
    return {base: number for version in versions for base, number in bases_of(version).items()}


def newer(head: Version, than: Version) -> bool:
    """Whether `head` has everything that `than` has, and more. A polled head may be old: then it is not newer."""
    return head.point != than.point and head.point.includes(than.point)


def lies_between(xid: int, after: Snapshot, upto: Snapshot) -> bool:
    """Whether the transaction belongs to the changes in (after, upto]."""
    return upto.sees(xid) and not after.sees(xid)


def version_to_json(version: Version) -> dict[str, Any]:
    """A version as JSON."""
    data = {"identity": version.identity, **version.point.to_json()}
    if version.carry:
        data["carry"] = version.carry
    if version.bases:
        data["bases"] = dict(version.bases)
    return data


def version_from_json(data: Any) -> Version:
    """The inverse of `version_to_json`; StateUnreadable for what is damaged."""
    match {"carry": "", "bases": {}, **data} if isinstance(data, dict) else data:
        case {"identity": str(identity), "carry": str(carry), "number": int(number), "bases": dict(bases)} if all(
            type(base) is str and type(number) is int for base, number in bases.items()
        ):
            return Version(identity, Number(number), carry, bases)
        case {"identity": str(identity), "carry": str(carry), "snapshot": [int(xmin), int(xmax), list(xip)]} if (
            xmin <= xmax and all(type(xid) is int and xmin <= xid < xmax for xid in xip)
        ):
            return Version(identity, Snapshot(xmin, xmax, frozenset(xip)), carry)
        case {"identity": str(identity), "carry": str(carry), "offsets": dict(offsets)} if all(
            _is_offset(partition, offset) for partition, offset in offsets.items()
        ):
            return Version(identity, Offsets.of({int(each): offset for each, offset in offsets.items()}), carry)
    raise StateUnreadable("the state holds a version that cannot be read", detail=repr(data))


def _is_offset(partition: object, offset: object) -> bool:
    """Whether these are a partition, as JSON names it, and an offset."""
    return (
        type(partition) is str and partition.isascii() and partition.isdigit() and type(offset) is int and offset >= 0
    )
