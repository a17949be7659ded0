"""The seams. Each protocol is a contract with a conformance suite in `tidefill.testing.conformance`.

Frames are generic: a Spark DataFrame, or a list that is computed late. A frame is only a description until the target
evaluates it inside `commit`, perhaps more than once; an error in reading shows up there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from tidefill.core.budget import Kept
from tidefill.core.confirm import Entry, Payload
from tidefill.core.keys import Key
from tidefill.core.state import Occurrence
from tidefill.core.step import Changed, Shape
from tidefill.core.version import Version
from tidefill.core.walk import Coverage, Range, Split
from tidefill.jobs.namespace import NamesRead, Registered
from tidefill.jobs.row import Job

F = TypeVar("F")

EVENTS_MAX = 1000
"""How many events of a job a store keeps, the newest: a job that goes on for years tells the same again and again, and
nobody reads further back. Some hundred kilobytes a job."""


@dataclass(frozen=True, slots=True)
class Halves(Generic[F]):
    """The net changes of covered rows. `removed`: old images that were covered, or, without `images`, the keys of every
    changed row. `added`: new images that are covered. A row that is in both was updated. `kept`: they are at hand, and
    to read them again costs nothing. `removes`: there may be something in `removed`. `lead`: the least and the greatest
    value in the first column of the keys, where they are known at no cost."""

    removed: F
    added: F
    images: bool
    kept: bool = False
    removes: bool = True
    lead: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Append(Generic[F]):
    """Rows that the target does not have yet."""

    rows: F


@dataclass(frozen=True, slots=True)
class Merge(Generic[F]):
    """One row a key, marked I, U or D. `exact`: the marks say what each change will do, so the target counts them
    before it writes and puts the counts into the payload. `lead`: as of `Halves`; then there is nothing to count."""

    changes: F
    exact: bool
    lead: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Replace(Generic[F]):
    """All rows of the target, in place of those it has."""

    rows: F


@dataclass(frozen=True, slots=True)
class Compared:
    """How many rows there should be, and up to ten in which the target differs, as a person reads them. `upto`: where
    the piece ended that was compared; None at the end of the walk. `notes`: what a person has to know of the way in
    which they were compared."""

    rows: int
    differences: tuple[str, ...] = ()
    upto: Key | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged(Generic[F]):
    """What the target should be. `rows`: the columns that a user sees, by the user's own query. `hidden`: the key and
    the hidden columns, by the plan, if there are any: no query of the user's has them. `notes`: as of `Compared`."""

    rows: F
    hidden: F | None = None
    notes: tuple[str, ...] = ()


TargetWrite: TypeAlias = Append[F] | Merge[F] | Replace[F]


class Upstream(Protocol[F]):
    """A table that is read while others write it.

    `open_head` gives a version that can be read while the context is open; where `lasting` it can be read for long
    after that. It raises NotYet while there is none to give. `changes` and `rows` resolve
    the table when they are called; what they return is evaluated later. `check` is called between the two and raises if
    the table is not the one that the version belongs to, or if it no longer has the changes since then.
    """

    lasting: bool
    resources: tuple[str, ...]

    def prepare(self, released: Version | None) -> None:
        """Make what reading needs (a slot, a publication), named in `resources`; done again at every start. `released`
        is the version that was last released without a commit of the target."""

    def open_head(self, *, first: bool) -> AbstractContextManager[Version]:
        """The newest version, or one polled a moment ago. The `first` one has to hold whatever the changes after
        `prepare` do not tell."""

    def before(self, base: str, number: int) -> Version | None:
        """The newest version that comes from at most that version of the base; None if that is not known."""

    def readable(self, at: Version) -> bool:
        """Whether rows can be read as of this version, now and for a while."""

    def pressing(self, at: Version) -> bool:
        """Whether the history since this version is half way to its end."""

    def kept(self) -> Kept | None:
        """How much of its log is kept for this reader, now; None if no log is."""

    def lag_s(self, at: Version) -> float:
        """For how long there have been changes after this version; 0 if there are none, or if it is not known."""

    def notices(self) -> Sequence[str]:
        """What a person should know of the table by now; the same words each time."""

    def check(self, at: Version) -> None:
        """Raise UpstreamReplaced or HistoryGone, or return."""

    def lost(self, at: Version) -> None:
        """Reading as of this version or changes up to it failed with Unreadable: it may have become unreadable for
        good. Raise HistoryGone if no newer version can take its place."""

    def changed(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """What became of covered rows in (after, upto]; SOME where it is too costly to know."""

    def written(self, after: Version, upto: Version) -> int:
        """About how many rows were written in (after, upto], each as often as it was; 0 where that is not known. Costs
        nothing."""

    def count(self, at: Version) -> int:
        """How many rows there are at this version, but for a few; about, where versions do not last."""

    def changes(self, after: Version, upto: Version, coverage: Coverage) -> Halves[F]:
        """The net changes in (after, upto], judged by `coverage`."""

    def rows(self, ranges: Sequence[Range], at: Version) -> F:
        """The rows in these ranges of the walk as of `at`."""

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """Keys in what is left of the split, about `rows` apart; none if no more than that are left, or if it cannot be
        cut. They are guesses. Asking again for the same split is cheap."""

    def greatest(self, at: Version) -> Key | None:
        """The greatest walk key as of `at`; None if there is no row."""

    def estimate(self) -> int:
        """About how many rows there are; costs nothing."""

    def check_keys(self, at: Version) -> None:
        """Raise KeyNotUnique, naming up to ten keys, if a key is NULL or is there twice."""

    def release(self, version: Version) -> None:
        """Nothing up to this version will be asked for again. Called only after that was made durable."""


class Derivation(Protocol[F]):
    """Q. Every output has a key; the outputs of covered rows are the target."""

    shape: Shape

    def append(self, rows: Mapping[Occurrence, F], whole: Mapping[Occurrence, F]) -> F:
        """The outputs of the rows of new chunks, where a fill is a plain append; `whole` are the inputs that are not
        walked."""

    def changes(self, halves: Mapping[Occurrence, Halves[F]], new: Mapping[Occurrence, F]) -> Merge[F]:
        """What changes of covered inputs, and chunks (as additions), do to the outputs; an input without `halves` did
        not change. `new` are all covered inputs after them. Each of those costs a look at its upstream when it is asked
        for, so ask for no more than is needed, and before returning: the upstream is checked after that."""

    def whole(self, rows: Mapping[Occurrence, F]) -> F:
        """The outputs of these inputs, from nothing."""

    def judged(self, rows: Mapping[Occurrence, F]) -> AbstractContextManager[Judged[F]]:
        """What the target should hold over these inputs, by the user's own query and not by what was made of it. Every
        occurrence of a table has the same rows. The frames can be evaluated inside of the context."""

    def with_chunk(self, halves: Halves[F], chunk: F) -> Halves[F]:
        """The halves, with the rows of new chunks among the additions."""

    def no_changes(self, name: Occurrence) -> Halves[F]:
        """Halves of this input without rows."""

    def nothing(self) -> F:
        """Outputs without rows."""


class Target(Protocol[F]):
    """The table that a job writes: a commit is atomic, carries the payload, and is fenced by generation and step: a
    step number that was committed before is skipped in silence (read the log to know), a concurrent commit raises
    CommitConflict, and Unavailable means that the outcome is unknown. A step that was planned on UNBORN makes the
    table; if somebody else has made it by then, it is skipped too or raises CommitConflict."""

    resources: tuple[str, ...]

    def prepare(self) -> None:
        """Make the table fit what will be written, if it is there."""

    def log(self, since: int | None = None) -> Sequence[Entry]:
        """What is left of the table's log, ascending; empty if there is no table. What lies before version `since` and
        before the newest payload may be left out."""

    def commit(self, write: TargetWrite[F], payload: Payload) -> None:
        """Evaluate and write, in one commit that carries the payload."""

    def compare(self, expected: F, version: int, but: F | None = None, within: Range | None = None) -> Compared:
        """The target at this version of its log with `expected`, but for rows with the keys in `but`; only rows whose
        key lies `within` a range, if one is given. (Another runner may have committed since.)"""

    def check_name(self) -> None:
        """Raise NameTaken if something that the job did not make has the name under which `publish` shows it."""

    def publish(self) -> None:
        """Show this generation under the job's name, in place of another generation of the job; NameTaken if something
        else has the name."""


class Store(Protocol):
    """Jobs, registered tables and events, safe under several processes. `change` applies a pure function to a row in
    one transaction and returns the row after it; what the function raises leaves the row as it was.

    Names of tables and of jobs that are not DROPPED are one namespace. Whatever makes a name, needs it or takes it away
    looks and writes in one transaction, so that a job never loses what it reads to somebody who did not see the job.
    Functions that are handed in may be called while the store is locked: they must not call it.
    """

    def create(self, job: Job, needs: Sequence[str] = ()) -> Job:
        """The new job; or the one that has the name already, if its definition is equal; else NameTaken. A new job
        `needs` names: UnknownTable if neither a table nor a job has one, WrongState if its job is to end."""

    def job(self, job_id: str) -> Job | None:
        """The row, if there is one."""

    def find(self, name: str) -> Job | None:
        """The job that has the name now. A dropped job has none."""

    def jobs(self) -> Sequence[Job]:
        """Every row, by name."""

    def change(self, job_id: str, change: Callable[[Job], Job]) -> Job:
        """Apply the change; UnknownJob if the row is gone."""

    def wish_end(
        self, job_id: str, wish: Callable[[Job], Job], reads: NamesRead, *, cascade: bool = False
    ) -> Sequence[Job]:
        """`change` by the wish; InUse if a job that is not to end too `reads` this one. With `cascade`: the same wish
        for all jobs that read it, or that read one of those, in one transaction. The job as it is then, and
        those, by name."""

    def delete(self, job_id: str) -> None:
        """Remove the row and its events."""

    def add_event(self, job_id: str, at_s: float, text: str) -> None:
        """Write down what happened."""

    def events(self, job_id: str) -> Sequence[tuple[float, str]]:
        """What happened, oldest first: no more than the newest EVENTS_MAX, older ones are forgotten."""

    def register(self, table: Registered) -> Registered:
        """The new table; or the one that has the name already, if its definition is equal; else NameTaken."""

    def unregister(self, name: str, reads: NamesRead) -> None:
        """Remove the table; UnknownTable if it is not there, InUse if a job that is not DROPPED `reads` it."""

    def table(self, name: str) -> Registered | None:
        """The table that has the name."""

    def tables(self) -> Sequence[Registered]:
        """Every table, by name."""

    def tick(self, base: str) -> int | None:
        """The version of the base that is being gone to; None if there is none."""

    def open_tick(self, base: str, after: int | None, number: int) -> int:
        """Go on to this version if the last one is still the one `after` which it comes; which it is then."""

    def keep_ticks(self, bases: Collection[str]) -> None:
        """Forget those of all other tables."""


class Clock(Protocol):
    """Seconds since 1970. It may jump."""

    def now_s(self) -> float:
        """Now."""


class Resources(Protocol):
    """Everything a job makes outside of the store, by name."""

    def remove(self, job: Job, resource: str) -> None:
        """Remove it if it is there. Raises RetryLater if it cannot be reached, NotOurs if it is not what this job made:
        then it is left as it is, and stays listed as residue."""

    def kept(self, resource: str) -> Kept | None:
        """How much of an upstream's log it keeps, now; None if it is no part of a log, or is not there."""
