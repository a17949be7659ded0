"""Which commits of an upstream are in.

A version is a point of a table of one identity. Points are of two kinds: the number of a Delta version, and the
snapshot of a PostgreSQL server, which is a SET of transactions: two snapshots are ordered only by inclusion, and a
transaction's place in the log says nothing about whether a snapshot sees it.
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


Point: TypeAlias = Number | Snapshot
P = TypeVar("P", Number, Snapshot)


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
    raise StateUnreadable("the state holds a version that cannot be read", detail=repr(data))
