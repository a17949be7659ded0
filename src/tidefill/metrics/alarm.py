"""Calls a command when a job fails, or lags further behind than it may.

The command is called once when that begins, and again only if it ended meanwhile. Where several runners share a store,
the one that holds the job's lease calls: each is told which leases are its own.
"""

from __future__ import annotations

import json
import logging
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidefill.jobs.lifecycle import Life
from tidefill.jobs.status import Status, status_json

FAILED, LATE = "failed", "late"
CALL_S = 60.0
"""How long the command may take: it is to send a message, not to mend the job."""

LOG = logging.getLogger("tidefill.alarm")


@dataclass(frozen=True, slots=True)
class Alarm:
    """What the command is told: `reason` is `failed` or `late`."""

    job_id: str
    reason: str
    status: Status

    def text(self) -> str:
        """One JSON object: the job's status, and the reason."""
        return json.dumps({"reason": self.reason, **status_json(self.status)}, sort_keys=True)


def reasons_of(status: Status, lag_bound_s: float) -> set[str]:
    """What is wrong with the job. A live job is late if its lag is longer than its target_lag by more than the
    bound."""
    failed = {FAILED} if status.state == Life.FAILED.value else set()
    bound_s = status.settings.target_lag_s + lag_bound_s
    late = status.state == Life.LIVE.value and status.lag_s is not None and status.lag_s > bound_s
    return failed | ({LATE} if late else set())


class Alarms:
    """Remembers what was wrong, and calls for what is new."""

    def __init__(self, lag_bound_s: float, call: Callable[[Alarm], None]) -> None:
        self._lag_bound_s = lag_bound_s
        self._call = call
        self._known: dict[str, set[str]] = {}

    def look(self, statuses: Iterable[tuple[str, Status]], mine: Callable[[str], bool]) -> None:
        """Call for what began since the last look. `mine`: whether this process is to call for the job of that id. What
        is wrong at the first look began earlier, and is not called for."""
        found = {job_id: (status, reasons_of(status, self._lag_bound_s)) for job_id, status in statuses}
        for job_id, (status, reasons) in found.items():
            for reason in sorted(reasons - self._known.get(job_id, reasons)):
                if mine(job_id):
                    self._call(Alarm(job_id, reason, status))
        self._known = {job_id: reasons for job_id, (_, reasons) in found.items()}


def caller(command: str) -> Callable[[Alarm], None]:
    """Calls the command, without a shell, in a thread: the alarm's JSON is its standard input. What it does not do is
    told in the log."""
    words = shlex.split(command)

    def call(alarm: Alarm) -> None:
        threading.Thread(target=_called, args=(words, alarm), name="tidefill-alarm", daemon=True).start()

    return call


def _called(words: list[str], alarm: Alarm) -> None:
    try:
        done = subprocess.run(words, input=alarm.text(), text=True, capture_output=True, timeout=CALL_S)
    except (OSError, subprocess.SubprocessError) as error:
        LOG.warning("on_failure could not be called for %s: %s", alarm.status.name, error)
        return
    if done.returncode:
        LOG.warning("on_failure ended with %s for %s: %s", done.returncode, alarm.status.name, done.stderr[-500:])
