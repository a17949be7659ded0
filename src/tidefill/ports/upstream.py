"""A table that is read while others write it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tidefill.core.budget import Kept
from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.reasons import Reason
from tidefill.core.version import Version
from tidefill.core.walk import Coverage, Range, Split
from tidefill.jobs.resources import Resource
from tidefill.ports.frames import Changes, Comparable

F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class UpstreamLook:
    """How an upstream stands to a job. `readable`: rows can be read as of the job's version, now and for a while.
    `history_runs_short`: the history since that version is half way to its end. `lag_s`: for how long there have been
    changes after that version; 0 if there are none, or if it is not known. `log_kept`: how much of its log is kept for
    this reader; None if no log is. `held`: why its head is not the newest there is, and `withheld`: by how much."""

    readable: bool
    history_runs_short: bool = False
    lag_s: float = 0.0
    log_kept: Kept | None = None
    held: Reason | None = None
    withheld: int = 0


class Upstream(Protocol[F]):
    """A table that is read while others write it.

    `open_head` gives a version that can be read while the context is open; where `lasting` it can be read for long
    after that. It raises NotYet while there is none to give. `read_changes` and `rows` resolve
    the table when they are called; what they return is evaluated later. `check` is called between the two and raises if
    the table is not the one that the version belongs to, or if it no longer has the changes since then.
    """

    lasting: bool
    resources: tuple[Resource, ...]

    def prepare(self, released: Version | None) -> None:
        """Make what reading needs (a slot, a publication), named in `resources`; done again at every start. `released`
        is the version that was last released without a commit of the target."""

    def open_head(self, *, first: bool) -> AbstractContextManager[Version]:
        """The newest version, or one polled a moment ago. The `first` one has to hold whatever the changes after
        `prepare` do not tell."""

    def newest_from(self, base: str, number: int) -> Version | None:
        """The newest version of this table that was computed from version `number` of `base` or older; None if that is
        not known."""

    def readable(self, at: Version) -> bool:
        """Whether rows can be read as of this version, now and for a while."""

    def look(self, at: Version) -> UpstreamLook:
        """How the table stands to a job whose target is at this version, in one value."""

    def notices(self) -> Sequence[str]:
        """What a person should know of the table by now; the same words each time. Asked after all that was read for a
        plan: some of it is found out by reading."""

    def check(self, at: Version) -> None:
        """Raise UpstreamReplaced or HistoryGone, or return."""

    def on_unreadable(self, at: Version) -> None:
        """Reading as of this version or changes up to it failed with Unreadable: it may have become unreadable for
        good. Raise HistoryGone if no newer version can take its place."""

    def classify_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """What became of covered rows in (after, upto]; SOME where it is too costly to know."""

    def rows_written(self, after: Version, upto: Version) -> int:
        """About how many rows were written in (after, upto], each as often as it was; 0 where that is not known. Costs
        nothing."""

    def row_count(self, at: Version) -> int:
        """How many rows there are at this version, but for a few; about, where versions do not last."""

    def read_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changes[F]:
        """The net changes in (after, upto], judged by `coverage`."""

    def rows(self, ranges: Sequence[Range], at: Version) -> F:
        """The rows in these ranges of the walk as of `at`."""

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """Keys in what is left of the split, about `rows` apart; none if no more than that are left, or if it cannot be
        cut. They are guesses. Asking again for the same split is cheap."""

    def beyond(self, at: Version) -> tuple[Range, ...]:
        """Ranges of the walk that have no row as of `at`, ascending; the last one reaches to the end. A table that
        knows its greatest key gives the range above it; an empty table gives everything."""

    def comparable(self, at: Version) -> Comparable[F] | None:
        """Where a target at this version can be compared with what the table still has; None: everywhere. A topic
        forgets its oldest messages, and the target keeps their rows."""

    def row_estimate(self) -> int:
        """About how many rows there are; costs nothing."""

    def check_keys(self, at: Version) -> None:
        """Raise KeyNotUnique, naming up to ten keys, if a key is NULL or is there twice."""

    def release(self, version: Version) -> None:
        """Nothing up to this version will be asked for again. Called only after that was made durable."""
