"""What a runner remembers of its jobs between turns. Losing it costs time, never rows."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tidefill.core.keys import Key
from tidefill.core.progress import Lag
from tidefill.errors import TidefillError, Unexplained
from tidefill.jobs.row import Doing, Job
from tidefill.ports.machine import Machine

SAME_FAILURES_MAX = 10  # over two minutes, with the back-off: longer than a lost executor is missed


@dataclass(slots=True)
class Verification:
    """How far a verification has come, and how many rows are compared at a time."""

    began_s: float
    piece_rows: int
    rows: int = 0
    upto: Key | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Begun:
    """A step that the store was told of: what it does, how long the look before it took, and how far the target was
    behind then."""

    doing: Doing
    look_s: float
    lag: Lag


@dataclass(slots=True)
class Remembered:
    """What this process remembers of a job that it runs. `truth`: what was true after the last turn, as the machine has
    it; None if that has to be found out. `told`: the notices that a person was given. `failed`: troubles in a row.
    `begun`: the step that is under way. `look_s`: how long the last look took."""

    machine: Machine[Any]
    generation: int
    fence: int
    prepared: bool = False
    truth: Any = None
    checked_s: float = 0.0
    looked_s: float = 0.0
    told: set[str] = field(default_factory=set)
    failed: int = 0
    verification: Verification | None = None
    begun: Begun | None = None
    look_s: float = 0.0


class Memory:
    """The jobs that a runner has machines for, and how often each one has failed in a row."""

    def __init__(self) -> None:
        self._jobs: dict[str, Remembered] = {}
        self._failures: dict[str, int] = {}
        self._unexplained: dict[str, tuple[str, int]] = {}

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, job_id: str) -> Remembered | None:
        """What is remembered of the job, if anything is."""
        return self._jobs.get(job_id)

    def of(self, job: Job) -> Remembered | None:
        """The same, if it is of this generation and lease. What is remembered from an earlier lease is worth nothing:
        others may have run the job since."""
        found = self._jobs.get(job.id)
        return found if found and (found.generation, found.fence) == (job.generation, job.lease.fence) else None

    def keep(self, job: Job, machine: Machine[Any]) -> Remembered:
        """Remember the machine of the job's generation and lease."""
        made = self._jobs[job.id] = Remembered(machine, job.generation, job.lease.fence)
        return made

    def forget(self, job_id: str) -> None:
        """Forget the job, and close its machine."""
        found = self._jobs.pop(job_id, None)
        if found is not None:
            found.machine.close()

    def forget_all(self) -> None:
        """Forget all jobs: nobody will ask for a turn again."""
        for job_id in tuple(self._jobs):
            with suppress(TidefillError):
                self.forget(job_id)

    def drop_dead(self) -> None:
        """Forget all jobs whose machines are of no use any more, whatever their end raises."""
        for job_id in tuple(self._jobs):
            with suppress(Exception):
                self._jobs.pop(job_id).machine.rest()

    def succeeded(self, job_id: str) -> None:
        """A turn went well: the next trouble is a first one."""
        self._failures.pop(job_id, None)
        self._unexplained.pop(job_id, None)
        if job_id in self._jobs:
            self._jobs[job_id].failed = 0

    def is_first_conflict(self, job_id: str) -> bool:
        """Whether this conflict is the first one since the last turn that went well. The runner tries again at once
        after the first, and backs off after any other."""
        if job_id in self._failures:
            return False
        self._failures[job_id] = 0
        return True

    def count_failure(self, job_id: str) -> int:
        """How many troubles in a row there have been, with this one."""
        self._failures[job_id] = self._failures.get(job_id, 0) + 1
        return self._failures[job_id]

    def is_told_too_often(self, job_id: str, error: Unexplained) -> bool:
        """Counts the error. Returns whether the job has met the same one SAME_FAILURES_MAX times in a row."""
        fact, times = self._unexplained.get(job_id, ("", 0))
        times = times + 1 if fact == error.fact else 1
        # Begins at 0 again with the one that is too many: a person may have resumed the job.
        self._unexplained[job_id] = (error.fact, times % SAME_FAILURES_MAX)
        return times == SAME_FAILURES_MAX
