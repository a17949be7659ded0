"""Bugs in the life of a job: what it makes, what it leaves behind, and the progress that it tells."""

from __future__ import annotations

from typing import Any

from tidefill.core import progress
from tidefill.jobs.row import Job
from tidefill.run import reporting
from tidefill.run.making import Making
from tidefill.run.runner import Runner, Turn
from tidefill.testing.simulation.plants.plant import Plant
from tidefill.testing.simulation.simulation import Simulation


def _sweep_nothing(self: Runner, job: Job) -> Turn:
    self._store.delete(job.id)
    return Turn(True, None)


def _prepare_before_intent(self: Making, job: Job, active: Any) -> Job:
    active.machine.prepare(job)
    return _prepare(self, job, active)


_prepare = Making.prepare


def _share_of_now(before: Any, generation: int, rows: int, estimate: int, **other: Any) -> Any:
    return _advance(None, generation, rows, estimate, **other)


_advance = progress.advance

OF_LIFECYCLE = (
    Plant(
        "namesake",
        "a recreated object lives where the dropped one of that name did",
        ("I2 monotone",),
        1,
        ((Simulation, "path", lambda self, job, generation: f"{job.name}-{generation}"),),
    ),
    Plant(
        "no-second-sweep",
        "what a sleeping runner made after a drop is not looked for again",
        ("I9 clean",),
        552,
        ((Runner, "_sweep", _sweep_nothing),),
    ),
    Plant(
        "intent-after-making",
        "things are made before their names are in the store",
        ("I9 clean",),
        4,
        ((Making, "prepare", _prepare_before_intent),),
    ),
    Plant(
        "share-of-now",
        "progress follows the rows of this process only",
        ("progress",),
        12,
        ((reporting, "advance", _share_of_now),),
    ),
)
