"""Makes and removes what jobs have outside of the store.

The name of everything that a job makes is in its row before the thing is made, and is forgotten only after the thing is
gone. So a runner that drops the job knows of all of it, after a crash at any line.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from tidefill.core import budget
from tidefill.core.budget import Kept
from tidefill.errors import Fenced, LogGivenUp, NotOurs, RetryLater, TidefillError
from tidefill.jobs import row as jobs
from tidefill.jobs.amounts import size_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job
from tidefill.ports.machine import Publish
from tidefill.ports.resources import Resources
from tidefill.ports.store import Store
from tidefill.run.memory import Remembered
from tidefill.run.rows import Rows


class Making:
    """The resources of one runner's jobs."""

    def __init__(self, store: Store, rows: Rows, resources: Resources) -> None:
        self._store = store
        self._rows = rows
        self._resources = resources

    def prepare(self, job: Job, active: Remembered) -> Job:
        """Make what the machine needs. A generation that is published is shown again, and older ones are removed: the
        last attempt may have been cut off."""
        machine = active.machine
        for resource in machine.resources:
            if resource not in job.resources:
                job = self._rows.change(job, jobs.intend(resource))
        machine.prepare(job)
        self.remove_if_superseded(job, machine.resources)
        if job.published == job.generation:
            machine.execute(job, active.truth, Publish())
            job = self.remove_older(job, active)
        active.prepared = True
        return job

    def remove_if_superseded(self, job: Job, made: tuple[Resource, ...]) -> None:
        """Remove what was just made, and raise Fenced, if another runner has dropped the job or begun a new generation
        meanwhile: that runner does not know of it. A published generation stays until the next one is published."""
        now = self._store.job(job.id)
        superseded = now is not None and job.generation not in (now.generation, now.published)
        if now is None or now.life in (Life.CANCELLING, Life.DROPPED) or superseded:
            for resource in made:
                self._resources.remove(job, resource)
            raise Fenced(f"{job.name} was ended by another runner")

    def remove_older(self, job: Job, active: Remembered) -> Job:
        """Remove what older generations left."""
        for resource in job.resources:
            if resource not in active.machine.resources:
                try:
                    self._resources.remove(job, resource)
                except NotOurs as error:
                    self._leave(job, error)
                    continue
                job = self._rows.change(job, jobs.forget(resource))
        return job

    def remove_all(self, job: Job) -> tuple[Resource, ...]:
        """Remove everything that the job has made; the names of what could not be removed now."""
        return tuple(resource for resource in job.resources if not self._is_removed(job, resource))

    def _is_removed(self, job: Job, resource: Resource) -> bool:
        try:
            self._resources.remove(job, resource)
        except RetryLater:
            return False
        except NotOurs as error:
            self._leave(job, error)
            return False
        return True

    def _leave(self, job: Job, error: NotOurs) -> None:
        """Say once what is left where, and why."""
        self._rows.event_once(job, f"left where it is: {error.fact}: {error.detail}")

    def remove_logs(self, job: Job) -> None:
        """Remove what keeps a log for older generations, which take in nothing more. What cannot be removed now is
        removed when the new generation is published."""
        for resource in job.resources:
            with suppress(TidefillError):
                if self._resources.kept(resource) is not None:
                    self._resources.remove(job, resource)

    def logs_to_give_up(self, job: Job, *, stands: bool, failed: int) -> Mapping[Resource, Kept]:
        """The resources that keep a log for the job, if the job has a `wal_limit`, one of them keeps more than that,
        and the job does not move; else nothing. The one that keeps too much comes first."""
        limit = job.settings.wal_limit
        if limit is None:
            return {}
        logs = {one: kept for one in job.resources if (kept := self._resources.kept(one)) is not None}
        over = [one for one, kept in logs.items() if budget.gives_up(kept, limit, stands=stands, failed=failed)]
        return {one: logs[one] for one in (over[0], *(other for other in logs if other != over[0]))} if over else {}

    def give_up(self, job: Job, logs: Mapping[Resource, Kept]) -> None:
        """First FAILED is written, so that after a crash the row says why the slot is gone; then the slot is dropped.
        It stays listed: a runner that resumes the job, or a VERIFY, makes it again."""
        limit, kept = job.settings.wal_limit, next(iter(logs.values()))
        error = LogGivenUp(
            f"{job.name} stood still, and the log that a server kept for it was given up",
            detail=f"{size_text(kept.ours)} waited to be taken in. Its wal_limit is {size_text(limit or 0)}.",
            hint="RESYNC the job to build it anew.",
        )
        self._rows.change(job, jobs.gave_up(error), f"failed: {error.fact} [{error.code}]")
        for resource in logs:
            self._resources.remove(job, resource)

    def keep_only(self, job: Job, left: tuple[Resource, ...]) -> None:
        """Forget what is gone."""
        if left != job.resources:
            self._rows.change(job, lambda row: replace(row, resources=left))
