"""What travels between upstream, derivation and target: changes, writes, and what a comparison found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from tidefill.core.keys import Key
from tidefill.core.walk import Range

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Halves(Generic[F]):
    """The net changes of covered rows. `removed`: old images that were covered, or, without `images`, the keys of every
    changed row. `added`: new images that are covered. A row that is in both was updated. `kept`: they are at hand, and
    to read them again costs nothing. `removes`: there may be something in `removed`. `lead`: the least and the greatest
    value in the first column of the keys, where they are known at no cost. `few`: the upstream knows that they are so
    few that one task works them off soonest. `keys`: without `images`, the keys in `removed`, if they are few, have no
    NULL, and are at hand. `fresh`: nothing is in `removed`, and no row of `added` was ever covered:
    these are messages that were not there before. `net`: without `images`, the same in one frame, where to read both
    would cost twice: a row for each changed key, as it is now and marked U, or marked D."""

    removed: F
    added: F
    images: bool
    kept: bool = False
    removes: bool = True
    lead: tuple[int, int] | None = None
    few: bool = False
    keys: tuple[Key, ...] | None = None
    fresh: bool = False
    net: F | None = None


@dataclass(frozen=True, slots=True)
class Append(Generic[F]):
    """Rows that the target does not have yet."""

    rows: F


@dataclass(frozen=True, slots=True)
class Merge(Generic[F]):
    """One row a key, marked I, U or D. `exact`: the marks say what each change will do, so the target counts them
    before it writes and puts the counts into the payload. `lead`, `few`: as of `Halves`. `read`: other jobs read the
    target's changes, so a row that stays as it is must not be written again. `touched`: of an index, the keys that the
    changed rows had and have, each at least once. `fresh`: all of them are new rows, whose keys the target cannot have,
    so it may append them without a look."""

    changes: F
    exact: bool
    lead: tuple[int, int] | None = None
    few: bool = False
    read: bool = False
    touched: F | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Put(Generic[F]):
    """Rows in place of those that have one of these few keys, none of which has a NULL: a key without a row is gone.
    No row has another key. Nothing has to be compared or counted before the write, as for a `Merge`."""

    keys: tuple[Key, ...]
    rows: F


@dataclass(frozen=True, slots=True)
class Replace(Generic[F]):
    """All rows of the target, in place of those it has."""

    rows: F


@dataclass(frozen=True, slots=True)
class Comparable(Generic[F]):
    """Which part of a target can be compared with its input. `within`: the ranges of the target's places (mostly of its
    key) in which the input still has every row that the target may have; None: all of them. `but`: the keys that were
    written after the version: an input that keeps only the newest of a key may have lost what they were."""

    within: tuple[Range, ...] | None = None
    but: F | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """How many rows there should be, and up to ten in which the target differs, as a person reads them. `upto`: where
    the piece ended that was compared; None at the end of the walk. `notes`: what a person has to know of the way in
    which they were compared. `version`: of the only input, where versions have numbers."""

    rows: int
    differences: tuple[str, ...] = ()
    upto: Key | None = None
    notes: tuple[str, ...] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Judged(Generic[F]):
    """What the target should be. `rows`: the columns that a user sees, by the user's own query. `hidden`: the key and
    the hidden columns, by the plan, if there are any: no query of the user's has them. `notes`: as of `Compared`."""

    rows: F
    hidden: F | None = None
    notes: tuple[str, ...] = ()


TargetWrite: TypeAlias = Append[F] | Merge[F] | Put[F] | Replace[F]
