"""The store in memory. Each change is a point where the process may die or the answer may be lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tidefill.errors import UnknownJob, UnknownTable
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import (
    Holder,
    NamesRead,
    Registered,
    Replacement,
    attached,
    check_free,
    check_needed,
    check_replaced,
    check_unused,
    ending,
)
from tidefill.jobs.row import Job, name_key
from tidefill.jobs.steps import DoneStep, thinned
from tidefill.ports import store as ports


class MemoryStore:
    """Rows in a dict. `effect` is called before and after every change."""

    def __init__(self, effect: Callable[[str], None] = lambda name: None) -> None:
        self._effect = effect
        self.rows: dict[str, Job] = {}
        self._tables: dict[str, Registered] = {}
        self._events: dict[str, list[tuple[float, str]]] = {}
        self._explained: dict[str, str] = {}
        self._steps: dict[str, list[DoneStep]] = {}
        self.ticks: dict[str, int] = {}

    def create(self, job: Job, needs: Sequence[str] = (), explained: str = "") -> Job:
        """The new job, or the equal one of that name."""
        self._effect("store.create")
        if known := attached(job, self._holder(job.name)):
            return known
        for name in needs:
            check_needed(name, self._holder(name))
        for name in job.part_names:
            check_free(job, name, self._holder(name))
        self.rows[job.id] = job
        self._explained[job.id] = explained
        return job

    def replace(self, job_id: str, wish: Callable[[Job], Job], told: Replacement) -> Job:
        """Apply the wish for another definition."""
        self._effect("store.replace")
        for name in told.needs:
            check_needed(name, self._holder(name))
        after = wish(self._to_change(job_id))
        check_replaced(after, [job for job in self._jobs_but(Life.DROPPED) if job.id != job_id], told)
        self.rows[job_id], self._explained[job_id] = after, told.explained
        self._effect("store.replaced")
        return after

    def explained(self, job_id: str) -> str:
        """What EXPLAIN said."""
        return self._explained.get(job_id, "")

    def job(self, job_id: str) -> Job | None:
        """The row."""
        self._effect("store.read")
        return self.rows.get(job_id)

    def find(self, name: str) -> Job | None:
        """The job that has the name."""
        wanted = name_key(name)
        return next((job for job in self._jobs_but(Life.DROPPED) if wanted in map(name_key, job.names())), None)

    def jobs(self) -> Sequence[Job]:
        """Every row, by name."""
        return sorted(self.rows.values(), key=lambda job: (name_key(job.name), job.id))

    def change(self, job_id: str, change: Callable[[Job], Job], step: DoneStep | None = None) -> Job:
        """Apply the change."""
        self._effect("store.change")
        job = self._to_change(job_id)
        after = change(job)
        if step is not None:
            self._add_step(job_id, step)
        if after is not job:
            self.rows[job_id] = after
            self._effect("store.changed")
        return after

    def _add_step(self, job_id: str, step: DoneStep) -> None:
        steps = [*self._steps.get(job_id, ()), step]
        gone = set(thinned(range(len(steps))))
        self._steps[job_id] = [each for number, each in enumerate(steps) if number not in gone]

    def steps(self, job_id: str) -> Sequence[DoneStep]:
        """Oldest first."""
        return tuple(self._steps.get(job_id, ()))

    def change_each(self, job_ids: Collection[str], change: Callable[[Job], Job]) -> None:
        """Apply the change to each."""
        self._effect("store.change")
        self.rows |= {job_id: change(self.rows[job_id]) for job_id in job_ids if job_id in self.rows}

    def wish_end(
        self, job_id: str, wish: Callable[[Job], Job], reads: NamesRead, *, cascade: bool = False
    ) -> Sequence[Job]:
        """Apply the wish to what ends together: to all of it, or to nothing."""
        self._effect("store.wish end")
        together = ending(self._to_change(job_id), self._jobs_but(Life.DROPPED), reads, cascade=cascade)
        after = [wish(job) for job in together]
        self.rows |= {job.id: job for job in after}
        self._effect("store.end wished")
        return after

    def delete(self, job_id: str) -> None:
        """Remove the row, its events and its steps."""
        self._effect("store.delete")
        self.rows.pop(job_id, None)
        self._steps.pop(job_id, None)
        self._events.pop(job_id, None)
        self._explained.pop(job_id, None)
        self._effect("store.deleted")

    def add_event(self, job_id: str, at_s: float, text: str) -> None:
        """Write it down."""
        self._effect("store.event")
        self._events[job_id] = [*self._events.get(job_id, ()), (at_s, text)][-ports.EVENTS_MAX :]

    def events(self, job_id: str) -> Sequence[tuple[float, str]]:
        """Oldest first."""
        return tuple(self._events.get(job_id, ()))

    def register(self, table: Registered) -> Registered:
        """The new table, or the equal one of that name."""
        self._effect("store.register")
        if known := attached(table, self._holder(table.name)):
            return known
        self._tables[name_key(table.name)] = table
        self._effect("store.registered")
        return table

    def unregister(self, name: str, reads: NamesRead) -> None:
        """Remove the table that no job uses."""
        self._effect("store.unregister")
        table = self.table(name)
        if table is None:
            raise UnknownTable(f"there is no table {name}")
        check_unused(table.name, self._jobs_but(Life.DROPPED), reads)
        del self._tables[name_key(name)]
        self._effect("store.unregistered")

    def table(self, name: str) -> Registered | None:
        """The table that has the name."""
        return self._tables.get(name_key(name))

    def tables(self) -> Sequence[Registered]:
        """Every table, by name."""
        return [table for _, table in sorted(self._tables.items())]

    def tick(self, base: str) -> int | None:
        """The number."""
        self._effect("store.tick")
        return self.ticks.get(base)

    def open_tick(self, base: str, after: int | None, number: int) -> int:
        """Compare and set."""
        self._effect("store.open tick")
        if self.ticks.get(base) in (None, after):
            self.ticks[base] = number
            self._effect("store.tick opened")
        return self.ticks[base]

    def keep_ticks(self, bases: Collection[str]) -> None:
        """Forget the others."""
        self._effect("store.keep ticks")
        self.ticks = {base: number for base, number in self.ticks.items() if base in bases}

    def _to_change(self, job_id: str) -> Job:
        job = self.rows.get(job_id)
        if job is None:
            raise UnknownJob(f"there is no job {job_id}")
        return job

    def _holder(self, name: str) -> Holder | None:
        return self.find(name) or self.table(name)

    def _jobs_but(self, *lives: Life) -> Sequence[Job]:
        return [job for job in self.rows.values() if job.life not in lives]

    def backup(self) -> dict[str, Job]:
        """A copy of all jobs."""
        return dict(self.rows)

    def restore(self, rows: dict[str, Job]) -> None:
        """Put an older copy in place."""
        self.rows = dict(rows)
