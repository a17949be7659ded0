"""How a runner writes to the rows of jobs: only while its lease is the newest, and with an event for what happened."""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidefill.jobs import row as jobs
from tidefill.jobs.row import Job
from tidefill.jobs.steps import DoneStep
from tidefill.ports.clock import Clock
from tidefill.ports.store import Store


class Rows:
    """The rows of a store, for one runner."""

    def __init__(self, store: Store, clock: Clock, log: logging.Logger) -> None:
        self._store = store
        self._clock = clock
        self._log = log

    def change(self, job: Job, change: Callable[[Job], Job], event: str = "", *, step: DoneStep | None = None) -> Job:
        """The row after the change, which is written together with the step, if one has ended; Fenced if another runner
        has the job. The event is written after it."""
        after = self._store.change(job.id, jobs.fenced(job.lease.fence, jobs.ends_step(change)), step)
        if event:
            self.event(job, event)
        return after

    def event(self, job: Job, text: str) -> None:
        """Write down what happened, into the store and into the log."""
        self._log.info("%s: %s", job.name, text, extra={"data": {"job": job.id, "generation": job.generation}})
        self._store.add_event(job.id, self._clock.now_s(), text)

    def event_once(self, job: Job, text: str) -> None:
        """The same, unless it is among the job's events already."""
        if all(text != known for _, known in self._store.events(job.id)):
            self.event(job, text)
