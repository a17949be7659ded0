"""Where jobs, registered tables and events are kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from tidefill.jobs.namespace import NamesRead, Registered, Replacement
from tidefill.jobs.row import Job
from tidefill.jobs.steps import DoneStep

EVENTS_MAX = 1000
"""How many events of a job a store keeps, the newest: a job that goes on for years tells the same again and again, and
nobody reads further back. Some hundred kilobytes a job."""


class Store(Protocol):
    """Jobs, registered tables and events, safe under several processes. `change` applies a pure function to a row in
    one transaction and returns the row after it; what the function raises leaves the row as it was.

    Names of tables and of jobs that are not DROPPED are one namespace. Whatever makes a name, needs it or takes it away
    looks and writes in one transaction, so that a job never loses what it reads to somebody who did not see the job.
    Functions that are handed in may be called while the store is locked: they must not call it.
    """

    def create(self, job: Job, needs: Sequence[str] = (), explained: str = "") -> Job:
        """The new job; or the one that has the name already, if its definition is equal; else NameTaken. A new job
        `needs` names: UnknownTable if neither a table nor a job has one, WrongState if its job is to end. It takes all
        of its names, or none: NameTaken if somebody has one of them. `explained`: what EXPLAIN says of it (JSON), which
        is kept beside the row: it may be long, and nobody who runs the job needs it."""

    def replace(self, job_id: str, wish: Callable[[Job], Job], told: Replacement) -> Job:
        """Apply the wish for another definition, as `change` does, and keep what EXPLAIN says of that. Raises as
        `create` does for what it needs, and as `namespace.check_replaced` does."""

    def explained(self, job_id: str) -> str:
        """What EXPLAIN said when the job was created or replaced; empty if nobody kept it."""

    def job(self, job_id: str) -> Job | None:
        """The row, if there is one."""

    def find(self, name: str) -> Job | None:
        """The job that has the name now. A dropped job has none."""

    def jobs(self) -> Sequence[Job]:
        """Every row, by name."""

    def change(self, job_id: str, change: Callable[[Job], Job], step: DoneStep | None = None) -> Job:
        """Apply the change; UnknownJob if the row is gone. `step`: one that has ended, which is added to the job's
        history in the same transaction."""

    def change_each(self, job_ids: Collection[str], change: Callable[[Job], Job]) -> None:
        """Apply the change to each of these rows, in one transaction; rows that are gone are passed over."""

    def wish_end(
        self, job_id: str, wish: Callable[[Job], Job], reads: NamesRead, *, cascade: bool = False
    ) -> Sequence[Job]:
        """Apply the wish, as `change` does. Raises InUse if a job `reads` this one and is not to end too. With
        `cascade`: apply it in one transaction to all jobs above this one as well. Returns the job, then the others by
        name, as they are then."""

    def delete(self, job_id: str) -> None:
        """Remove the row, its events and its steps."""

    def steps(self, job_id: str) -> Sequence[DoneStep]:
        """The job's history of steps, oldest first: the newest of them all, of older ones some (`jobs.steps`)."""

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
        """The tick of the base: the version that the jobs in step go to now; None if there is none."""

    def open_tick(self, base: str, after: int | None, number: int) -> int:
        """Compare-and-set: move the tick from `after` to `number`; returns the current tick."""

    def keep_ticks(self, bases: Collection[str]) -> None:
        """Remove the ticks of all bases but these."""
