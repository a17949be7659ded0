"""Bugs in CREATE OR REPLACE: of which query rows are, which of them readers see, and what becomes of a wish."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tidefill.jobs import generations
from tidefill.jobs import row as jobs
from tidefill.jobs.row import Job, Settings
from tidefill.ports.machine import Publish
from tidefill.run.making import Making
from tidefill.run.runner import Runner
from tidefill.testing.simulation.plants.plant import Plant

_next_generation = generations.next_generation
_went_live = generations.went_live
_begin_again = Runner._begin_again_if_asked
_prepare = Making.prepare


def _definition_first(self: Runner, job: Job) -> Job:
    if job.wanted_definition:
        job = self._rows.change(job, lambda row: replace(row, definition=row.newest_definition, wanted_definition=""))
        job = self._rows.change(job, jobs.wish_resync)
    return _begin_again(self, job)


def _nothing_shown(uuid: str, source: str = "") -> Callable[[Job], Job]:
    return lambda job: replace(_next_generation(uuid, source)(job), shown_definition="")


def _shown_last(uuid: str, source: str = "") -> Callable[[Job], Job]:
    """Of a view that is replaced twice, the query in between is kept as that of the published rows."""
    return lambda job: replace(
        _next_generation(uuid, source)(job), shown_definition="" if job.published is None else job.definition
    )


def _shown_for_ever(job: Job) -> Callable[[Job], Job]:
    return lambda row: replace(_went_live(job)(row), shown_definition=row.shown_definition)


def _live_in_spite_of_wishes(job: Job) -> Callable[[Job], Job]:
    return lambda row: replace(_went_live(replace(job, wish_number=row.wish_number))(row), wanted_definition="")


def _switched_at_once(self: Making, job: Job, active: Any) -> Job:
    job = _prepare(self, job, active)
    active.machine.execute(job, active.truth, Publish())
    return job


def _wish_of_the_first(definition: str, settings: Callable[[Settings], Settings]) -> Callable[[Job], Job]:
    wish = _wish_replace(definition, settings)
    return lambda job: job if job.is_being_replaced else wish(job)


_wish_replace = jobs.wish_replace

OF_REPLACING = (
    Plant(
        "definition-before-generation",
        "a view gets its new query in one write and its new generation in the next",
        ("I1 covered", "I11 one query"),
        1,
        ((Runner, "_begin_again_if_asked", _definition_first),),
    ),
    Plant(
        "shown-by-the-new-query",
        "the query of the rows that readers see is forgotten while other rows are made",
        ("I11 one query",),
        1,
        ((generations, "next_generation", _nothing_shown),),
    ),
    Plant(
        "shown-by-the-query-between",
        "of a view that is replaced twice, readers see the old rows by the first of the new queries",
        ("I11 one query",),
        1,
        ((generations, "next_generation", _shown_last),),
    ),
    Plant(
        "shown-by-the-old-query",
        "the query of the rows that readers saw stays when they see other rows",
        ("I11 one query",),
        1,
        ((generations, "went_live", _shown_for_ever),),
    ),
    Plant(
        "switched-before-live",
        "readers are switched to a generation when it begins",
        ("I11 one query", "I9 clean"),
        1,
        ((Making, "prepare", _switched_at_once),),
    ),
    Plant(
        "live-in-spite-of-a-wish",
        "a view goes live though it was asked for another query meanwhile, and forgets that",
        ("I1 covered",),
        200,
        ((generations, "went_live", _live_in_spite_of_wishes),),
    ),
    Plant(
        "first-wish-wins",
        "a view that is being replaced takes no other query",
        ("I1 covered",),
        1,
        ((jobs, "wish_replace", _wish_of_the_first),),
    ),
)
