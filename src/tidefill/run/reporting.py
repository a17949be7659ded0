"""Writes into a job's row what its machine says of it: how far it is, how far behind, and what it does now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidefill.core.progress import Lag, Progress, advance
from tidefill.core.reasons import Reason
from tidefill.jobs import row as jobs
from tidefill.jobs.row import Doing, Job
from tidefill.jobs.steps import Did, DoneStep, done_step
from tidefill.ports.clock import Clock
from tidefill.run.memory import Begun, Remembered
from tidefill.run.phases import LOOK
from tidefill.run.rows import Rows

RECHECK_S = 60.0


class Reporting:
    """The reports of one runner's jobs."""

    def __init__(self, clock: Clock, rows: Rows) -> None:
        self._clock = clock
        self._rows = rows

    def report(self, job: Job, active: Remembered, truth: Any, did: Did | None = None) -> None:
        """The confirmed copy, the progress, and the step that has ended, if `did` tells of one, in one write."""
        told, lag = active.machine.report(job, truth), active.machine.standing().lag

        def reported(row: Job) -> Job:
            progress = advance(
                row.progress,
                row.generation,
                told.rows_filled,
                told.rows_of,
                finished=told.finished,
                rows_per_s=told.rows_per_s,
                lag=lag,
                at_s=self._clock.now_s(),
            )
            row = jobs.without_parts(told.gone)(replace(row, parts=told.parts))
            kept = replace(row, anchor=told.anchor, learned=told.learned, condition=told.condition or row.condition)
            return replace(kept, progress=progress, waiting="", waits_for="")

        self._rows.change(job, reported, step=None if did is None else self.ended(job, active, did))

    def ended(self, job: Job, active: Remembered, did: Did, error: str = "") -> DoneStep | None:
        """The step that was under way, for the next write; None if none was."""
        begun, active.begun = active.begun, None
        if begun is None:
            return None
        phases = {LOOK: begun.look_s, **did.phases}
        step = done_step(begun.doing, self._clock.now_s(), job.generation, replace(did, phases=phases), error)
        began_s, took_s = step.began_s - begun.look_s, step.took_s + begun.look_s
        return replace(step, began_s=began_s, took_s=took_s, lag_versions=begun.lag.versions, lag_s=begun.lag.s)

    def begin(self, job: Job, active: Remembered, doing: Doing) -> None:
        """Say what is being done, and how far the target is behind, before something that may take long. The next
        change of the row by this runner, whatever it is, takes that back."""
        lag = active.machine.standing().lag
        active.begun = Begun(doing, active.look_s, lag)
        self._rows.change(
            job, lambda row: replace(row, doing=doing, waiting="", waits_for="", progress=self._now(row, lag))
        )

    def wait(self, job: Job, active: Remembered, reason: Reason, text: str) -> None:
        """Say what the job waits for, if that is new, or if the row has told too long ago how much log is kept."""
        lag = active.machine.standing().lag
        waits = jobs.waits(reason, text)
        if (job.waiting, job.waits_for) != (waits["waiting"], waits["waits_for"]) or self._is_outdated(job, lag):
            self._rows.change(job, lambda row: replace(row, **waits, progress=self._now(row, lag)))

    def notify(self, job: Job, active: Remembered) -> None:
        """Write each notice of the machine among the job's events, once. A notice counts as told only after the store
        has taken it: if the store gives no answer, the next turn writes the notice again."""
        for notice in active.machine.standing().notices:
            if notice not in active.told:
                self._rows.event_once(job, notice)
                active.told.add(notice)

    def _now(self, job: Job, lag: Lag) -> Progress | None:
        """The progress as it was, with the lag as it is."""
        at_s = self._clock.now_s()
        return job.progress and replace(
            job.progress, lag_versions=lag.versions, lag_s=lag.s, log_bytes=lag.log_bytes, at_s=at_s
        )

    def _is_outdated(self, job: Job, lag: Lag) -> bool:
        told = job.progress
        if told is None or told.at_s is None or told.log_bytes == lag.log_bytes:
            return False
        return not 0.0 <= self._clock.now_s() - told.at_s < RECHECK_S
