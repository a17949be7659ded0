"""From filled to live: the target is compared with a recompute, piece by piece, and then shown under the job's name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tidefill.errors import Unavailable, Unreadable
from tidefill.jobs import generations
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Doing, Job
from tidefill.jobs.steps import Did
from tidefill.ports.clock import Clock
from tidefill.ports.machine import Publish, Verify
from tidefill.run.making import Making
from tidefill.run.memory import Remembered, Verification
from tidefill.run.reporting import Reporting
from tidefill.run.rows import Rows

VERIFYING = "verify"


class GoingLive:
    """The last steps of one runner's jobs before they are live."""

    def __init__(self, clock: Clock, rows: Rows, reporting: Reporting, making: Making) -> None:
        self._clock = clock
        self._rows = rows
        self._reporting = reporting
        self._making = making

    def verify(self, job: Job, active: Remembered, truth: Any, plan: Verify) -> None:
        """Compare one piece. After the last one the job is live, unless there is a wish that has not been looked at."""
        if job.settings.verify:
            done = self._verify_piece(job, active, truth, plan)
            if done.upto is not None:
                return
            active.verification, rows = None, done.rows
            took_s = self._clock.now_s() - done.began_s
            told = "; ".join((f"verified: {done.rows} rows equal a recompute, found in {took_s:.1f} s", *done.notes))
        else:
            self._reporting.begin(job, active, Doing(VERIFYING, self._clock.now_s()))
            active.machine.execute(job, truth, replace(plan, compares=False))
            told, rows = "not verified, as it was asked", None
        self._rows.event(job, told)
        self._publish(job, active, truth, Did(rows_in=rows))

    def _publish(self, job: Job, active: Remembered, truth: Any, did: Did) -> None:
        active.machine.execute(job, truth, Publish(tries=True))
        after = self._rows.change(job, generations.went_live(job), step=self._reporting.ended(job, active, did))
        if after.life is Life.LIVE:
            self._rows.event(job, "live")
            active.machine.execute(after, truth, Publish())
            self._making.remove_older(after, active)

    def _verify_piece(self, job: Job, active: Remembered, truth: Any, plan: Verify) -> Verification:
        """Every commit is right by itself, so each piece may be compared at another version; those that were compared
        before need not be again. A piece that was given up is tried again, half as large."""
        now = active.verification = active.verification or Verification(self._clock.now_s(), plan.rows)
        self._reporting.begin(job, active, Doing(VERIFYING, now.began_s, rows=now.rows))
        try:
            outcome = active.machine.execute(job, truth, replace(plan, after=now.upto, rows=now.piece_rows))
        except (Unavailable, Unreadable):
            now.piece_rows = max(1, now.piece_rows // 2)
            raise
        compared = outcome.compared
        assert compared is not None, "a machine that compares says what it found"
        now.rows += compared.rows
        now.notes = tuple(dict.fromkeys((*now.notes, *compared.notes)))
        now.upto = compared.upto
        return now
