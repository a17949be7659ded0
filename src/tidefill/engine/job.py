"""A handle on one job: its status, wishes for it, and waiting for it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidefill.engine.watching import watch
from tidefill.errors import JobFailed, TimedOut, UnknownJob, WrongState
from tidefill.jobs import row as jobs
from tidefill.jobs.definitions import JobDefinition, UnreadableDefinition, job_from_text
from tidefill.jobs.graph import definition_of, names_needed, newest_definition_of, published_definition_of
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job as Row
from tidefill.jobs.row import Pause
from tidefill.jobs.settings import changed_settings, check_altered
from tidefill.jobs.status import Status
from tidefill.jobs.status_html import statuses_html
from tidefill.jobs.steps import DoneStep
from tidefill.run.catch_up import stands_still
from tidefill.run.verifying import Verified, verify

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidefill.engine.engine import Engine

WAIT_POLL_S = 0.2
NEW_JOB_S = 2.0  # an idle runner sees a new job within STORE_POLL_S; one that is busy may take minutes


@dataclass(frozen=True, slots=True)
class Job:
    """A handle on one job."""

    engine: Engine
    id: str
    name: str

    def _row(self) -> Row:
        row = self.engine._store.job(self.id)
        if row is None or row.life is Life.DROPPED:
            raise UnknownJob(f"{self.name} was dropped")
        return row

    def status(self) -> Status:
        """How it stands."""
        return self.engine._status(self._row())

    def definition(self) -> JobDefinition:
        """What was created."""
        return definition_of(self._row())

    def definition_or_none(self) -> JobDefinition | None:
        """What was created; None if this release cannot read it."""
        found = job_from_text(self._row().definition)
        return None if isinstance(found, UnreadableDefinition) else found

    def asked_for(self) -> JobDefinition:
        """What its user asked for last: its definition, or the one that a CREATE OR REPLACE gives it soon."""
        return newest_definition_of(self._row())

    def earlier_definition(self) -> JobDefinition | None:
        """By which the rows were made that readers see, while it is being replaced; None if that is its definition."""
        row = self._row()
        return published_definition_of(row) if row.shown_definition else None

    def explained(self) -> dict[str, Any] | None:
        """What EXPLAIN said when the job was created, or replaced for the last time, as JSON data; None for a job of a
        release that did not keep it."""
        text = self.engine._store.explained(self._row().id)
        return json.loads(text) if text else None

    def wait(self, timeout: float | None = None, *, gone: bool = False, stop: threading.Event | None = None) -> Job:
        """Return when it is live, or when it is `gone`. JobFailed with its reason; WrongState if it stands still until
        somebody resumes it; TimedOut, also when told to stop. While a live runner has it, this only looks; if nobody
        runs it, or nobody does any more, all jobs are run here until then."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        settled, stop = self._is_gone if gone else self._is_settled, stop or threading.Event()

        def over() -> bool:
            return settled() or (deadline_s is not None and time.monotonic() >= deadline_s)

        patient_until_s = time.monotonic() + NEW_JOB_S
        while not stop.is_set() and not over():
            others_run = self.engine._others_run(self.id)
            if others_run or (others_run is None and time.monotonic() < patient_until_s):
                stop.wait(WAIT_POLL_S)
            else:
                self.engine.scheduler().run(stop, over)
        if not settled():
            what = "gone" if gone else "live"
            raise TimedOut(f"{self.name} is not {what} yet", detail=str(self.status()))
        if not gone:
            self._check_live(self._row())
        return self

    def _check_live(self, row: Row) -> None:
        if row.failure is not None and row.life is Life.FAILED:
            raise JobFailed(
                f"{self.name} has failed: {row.failure.fact}",
                detail=f"[{row.failure.code}] {row.failure.detail}",
                hint=row.failure.hint,
            )
        if row.life is not Life.LIVE and row.settings.deferred:
            raise WrongState(f"{self.name} is deferred", hint="BACKFILL INDEXES ON its table begins it.")
        if row.life is not Life.LIVE:
            raise WrongState(f"{self.name} is paused", hint=f"RESUME JOB {self.name}")

    def _is_settled(self) -> bool:
        row = self._row()
        return (row.life is Life.LIVE and not row.wants_generation and not row.wants_resume) or stands_still(row)

    def _is_gone(self) -> bool:
        row = self.engine._store.job(self.id)
        return row is None or row.life is Life.DROPPED

    def pause(self, *, fill_only: bool = False) -> None:
        """Stand still; or stop filling, and keep what is there fresh."""
        self._wish(jobs.wish_pause(Pause.FILL if fill_only else Pause.ALL))

    def resume(self) -> None:
        """Go on, after a pause or a failure."""
        self._wish(jobs.wish_resume)

    def alter(self, **settings: Any) -> None:
        """Change settings while it runs; None lifts a limit."""
        row = self._row()
        check_altered(newest_definition_of(row), row.settings, settings)
        self._wish(lambda row: jobs.wish_settings(changed_settings(row.settings, settings))(row))

    def resync(self) -> None:
        """Build it anew beside what is there, and switch when that is done."""
        self._wish(jobs.wish_resync)

    def verify(self) -> Verified:
        """Compare what it has made so far with a recompute of the same version. The job goes on meanwhile."""
        return verify(self.engine._store, self._row(), self.engine._build)

    def violations(self, part: str = "") -> list[tuple[str, int, str]]:
        """Of a unique index: the keys that several rows have (on a server: had, when the build failed), how many rows,
        and the first of them. `part`: of which one, if the job makes several."""
        return self.engine._indexes.violations(self._row(), part)

    def part_names(self) -> tuple[str, ...]:
        """The names of the things that it makes, if it makes several."""
        return self._row().part_names

    def part_named(self, name: str) -> str:
        """The name of the part that has this name, as it was written; empty if it is not one of a part."""
        return next((part for part in self.part_names() if jobs.name_key(part) == jobs.name_key(name)), "")

    def has_name(self, name: str) -> bool:
        """Whether it, or a part of it, has the name."""
        return jobs.name_key(self.name) == jobs.name_key(name) or bool(self.part_named(name))

    def drop_part(self, name: str) -> None:
        """Remove one of the things that the job makes; with the last one the job ends."""
        self._wish(jobs.wish_drop_part(name))

    def cancel(self, *, cascade: bool = False) -> list[Job]:
        """Remove it, before it is live; the rest is as for `drop`."""
        return self._end(jobs.wish_cancel, cascade)

    def drop(self, *, cascade: bool = False) -> list[Job]:
        """Remove it, whatever its state. InUse if others read it; with `cascade` they are removed too, and so is what
        reads those. Returns them, by name."""
        return self._end(jobs.wish_drop, cascade)

    def _wish(self, wish: Callable[[Row], Row]) -> None:
        self._row()
        self.engine._store.change(self.id, wish)

    def _end(self, wish: Callable[[Row], Row], cascade: bool) -> list[Job]:
        self._row()
        _, *others = self.engine._store.wish_end(self.id, wish, names_needed, cascade=cascade)
        return [Job(self.engine, row.id, row.name) for row in others]

    def events(self) -> list[tuple[float, str]]:
        """What happened, oldest first: seconds since 1970, and what."""
        return list(self.engine._store.events(self.id))

    def steps(self) -> list[DoneStep]:
        """What its steps were, oldest first: all of the newest 1,000, and some of those before.
        `pandas.DataFrame(job.steps())` makes a table of them."""
        return list(self.engine._store.steps(self.id))

    def table(self) -> DataFrame:
        """What it has made."""
        return self.engine.table(self.name)

    def __repr__(self) -> str:
        return f"<{self.status()}>"

    def watch(self, every_s: float = 1.0) -> None:
        """Show how it stands, in place in a notebook, until it is live, has failed, is paused or gone, or until Ctrl-C.
        Looking runs nothing: somebody has to `run` the job."""

        def look() -> Status | None:
            return None if self._is_gone() else self.status()

        watch(look, lambda: self._is_gone() or self._is_settled(), every_s)

    def _repr_html_(self) -> str:
        return statuses_html([self.status()])


class Jobs(list[Job]):
    """Handles on several jobs; a notebook shows a bar for each."""

    def _repr_html_(self) -> str:
        return statuses_html([job.status() for job in self])
