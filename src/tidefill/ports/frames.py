"""What travels between upstream, derivation and target: changes, writes, and what a comparison found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from tidefill.core.keys import Key
from tidefill.core.walk import Range

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class Changes(Generic[F]):
    """The net changes of covered rows, as one frame, each with a weight. +1: a new image that is covered. -1: an old
    image that was covered, or, without `images`, the key of a changed row, and nothing but the key. A row that has both
    was updated. `is_chunk`: nothing has changed; these are rows of a chunk. `kept`: they are at hand, and to read them
    again costs nothing. `removes`: some may have the weight -1. `lead`: the least and the greatest value in the first
    column of the keys, where they are known at no cost. `few`: the upstream knows that they are so few that one task
    works them off soonest. `keys`: without `images`, the keys of all changed rows, if they are few, have no NULL, and
    are at hand. `fresh`: none has the weight -1, and none of the rows was ever covered: these are messages that were
    not there before. `net`: without `images`, each changed key has one row: of weight +1 what it is
    now; -1: it is gone, and of the other columns those have values in which a target may tell one key's rows apart."""

    rows: F
    images: bool
    is_chunk: bool = False
    kept: bool = False
    removes: bool = True
    lead: tuple[int, int] | None = None
    few: bool = False
    keys: tuple[Key, ...] | None = None
    fresh: bool = False
    net: bool = False


@dataclass(frozen=True, slots=True)
class Append(Generic[F]):
    """Rows that the target does not have yet."""

    rows: F


@dataclass(frozen=True, slots=True)
class Merge(Generic[F]):
    """One row a key, marked I, U or D. `exact`: the marks say what each change will do, so the target counts them
    before it writes and puts the counts into the payload. `lead`, `few`: as of `Changes`. `read`: other jobs read the
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
    """All rows of the target, in place of those it has. `read`: other jobs read the target's changes, so a row that
    stays as it is must not be written again. Then no two rows have one key."""

    rows: F
    read: bool = False


@dataclass(frozen=True, slots=True)
class Comparable(Generic[F]):
    """Which part of a target can be compared with its input. `within`: the ranges of the target's places (mostly of its
    key) in which the input still has every row that the target may have; None: all of them. `but`: changes that came
    after the version. The keys that went by these changes are not compared: an input that keeps only the newest row of
    a key may have lost the row that the target has."""

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
