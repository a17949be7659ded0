"""Bugs that only several jobs show: their versions, their ticks, and what they are built from."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tidefill.core import state
from tidefill.core.version import Version, version_to_json
from tidefill.jobs import agreement as ticks
from tidefill.jobs import row as jobs
from tidefill.jobs.agreement import InStep
from tidefill.jobs.row import Job
from tidefill.run import backfill, machine
from tidefill.run import in_step as ticking
from tidefill.run.in_step import Ticking
from tidefill.run.reporting import Reporting
from tidefill.run.runner import Runner
from tidefill.testing.simulation.plants.plant import Plant
from tidefill.testing.simulation.several.graphs import script_of_several

_truth = Runner._truth
_begin_generation = jobs.begin_generation


def _without_bases(version: Version) -> dict[str, Any]:
    return version_to_json(replace(version, bases={}))


_up_to_tick = Ticking._up_to_tick


def _up_to_a_lost_tick(self: Ticking, newest: Version, waited_for: Any, due: bool, readable: Any) -> Version:
    return _up_to_tick(self, newest, waited_for, due, lambda version: True)


def _truth_unreported(self: Runner, job: Job, active: Any) -> Any:
    with patch.object(Reporting, "report", lambda self, job, active, truth: None):
        return _truth(self, job, active)


OF_SEVERAL = (
    Plant(
        "take-what-is-newest",
        "a view takes the newest version of each input, whatever they come from",
        ("I10 one version",),
        1,
        ((backfill, "agree", lambda heads, before: dict(heads)),),
        script_of=script_of_several,
    ),
    Plant(
        "forget-the-bases",
        "a commit does not say from which versions of the tables of others it comes",
        ("I10 one version",),
        1,
        ((state, "version_to_json", _without_bases),),
        script_of=script_of_several,
    ),
    Plant(
        "no-ticks",
        "every view goes to the newest version of its table, so that those of two are never the same",
        ("I5 progress",),
        5,
        ((Ticking, "_up_to_tick", lambda self, newest, *others: newest),),
        script_of=script_of_several,
    ),
    Plant(
        "next-tick-too-early",
        "the next tick is opened before all have come to the last",
        ("I5 progress",),
        5,
        ((ticking, "_has_come", lambda job, base, tick: True),),
        script_of=script_of_several,
    ),
    Plant(
        "keep-a-lost-tick",
        "a tick is kept though its version cannot be read any more",
        ("I5 progress",),
        5,
        ((Ticking, "_up_to_tick", _up_to_a_lost_tick),),
        script_of=script_of_several,
    ),
    Plant(
        "silent-member",
        "a view that a version changes nothing of does not say that it has come to it",
        ("I5 progress",),
        12,
        ((machine, "InStep", lambda member, allowed, read: InStep(False, allowed, read)),),
        script_of=script_of_several,
    ),
    Plant(
        "wait-for-the-paused",
        "the next tick waits for a view that stands still",
        ("I5 progress",),
        10,
        ((ticks, "waited_for", lambda members, reads, rows: [rows[one] for one in members if one in rows]),),
        script_of=script_of_several,
    ),
    Plant(
        "unsaid-commit",
        "whoever finds a commit that nobody reported does not report it either",
        ("I5 progress",),
        28,
        ((Runner, "_truth", _truth_unreported),),
        script_of=script_of_several,
    ),
    Plant(
        "forget-the-source",
        "what a view is built from is not written down if it was not there when its generation began",
        ("I5 progress",),
        16,
        ((jobs, "begin_generation", lambda uuid, source: _begin_generation(uuid, "")),),
        script_of=script_of_several,
    ),
)
