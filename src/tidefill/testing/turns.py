"""Takes turns of an engine's jobs one by one, for tests that have to stop between two of them."""

from __future__ import annotations

from typing import Protocol

from tidefill.errors import UnknownJob
from tidefill.jobs.lifecycle import Life
from tidefill.run.runner import Turn
from tidefill.run.scheduler import Scheduler


class HasScheduler(Protocol):
    """An `Engine`, as far as it is needed here."""

    def scheduler(self, *, hurry: bool = False) -> Scheduler:
        """A runner of all jobs."""


def turns(engine: HasScheduler, count: int, name: str = "", *, hurry: bool = False) -> list[Turn]:
    """So many turns of the job of that name, or of the only job. The lease is given back after them."""
    scheduler = engine.scheduler(hurry=hurry)
    taken: list[Turn] = []
    with scheduler.alive():
        for _ in range(count):
            rows = [row for row in scheduler.look().rows if row.life is not Life.DROPPED and name in ("", row.name)]
            if len(rows) != 1:
                raise UnknownJob(f"there are {len(rows)} jobs of that name", detail=name)
            taken.append(scheduler.turn(rows[0]))
    return taken
