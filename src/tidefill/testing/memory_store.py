"""The store in memory. Each change is a point where the process may die or the answer may be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidefill.core.jobs import Job, name_key
from tidefill.core.lifecycle import Life
from tidefill.errors import NameTaken, UnknownJob


class MemoryStore:
    """Rows in a dict. `effect` is called before and after every change."""

    def __init__(self, effect: Callable[[str], None] = lambda name: None) -> None:
        self._effect = effect
        self.rows: dict[str, Job] = {}
        self._events: dict[str, list[tuple[float, str]]] = {}

    def create(self, job: Job) -> Job:
        """The new job, or the equal one of that name."""
        self._effect("store.create")
        known = self.find(job.name)
        if known is None:
            self.rows[job.id] = job
            return job
        if known.definition != job.definition:
            raise NameTaken(f"{job.name} has another definition", hint="Drop it or take another name.")
        return known

    def job(self, job_id: str) -> Job | None:
        """The row."""
        self._effect("store.read")
        return self.rows.get(job_id)

    def find(self, name: str) -> Job | None:
        """The job that has the name."""
        wanted = name_key(name)
        held = (job for job in self.rows.values() if job.life is not Life.DROPPED and name_key(job.name) == wanted)
        return next(held, None)

    def jobs(self) -> Sequence[Job]:
        """Every row, by name."""
        return sorted(self.rows.values(), key=lambda job: (name_key(job.name), job.id))

    def change(self, job_id: str, change: Callable[[Job], Job]) -> Job:
        """Apply the change."""
        self._effect("store.change")
        job = self.rows.get(job_id)
        if job is None:
            raise UnknownJob(f"there is no job {job_id}")
        after = change(job)
        if after is not job:
            self.rows[job_id] = after
            self._effect("store.changed")
        return after

    def delete(self, job_id: str) -> None:
        """Remove the row and its events."""
        self._effect("store.delete")
        self.rows.pop(job_id, None)
        self._events.pop(job_id, None)
        self._effect("store.deleted")

    def add_event(self, job_id: str, at_s: float, text: str) -> None:
        """Write it down."""
        self._effect("store.event")
        self._events.setdefault(job_id, []).append((at_s, text))

    def events(self, job_id: str) -> Sequence[tuple[float, str]]:
        """Oldest first."""
        return tuple(self._events.get(job_id, ()))

    def backup(self) -> dict[str, Job]:
        """A copy of all rows."""
        return dict(self.rows)

    def restore(self, rows: dict[str, Job]) -> None:
        """Put an older copy in place."""
        self.rows = dict(rows)
