"""From one generation of a job to the next, and which of them readers see.

A generation is made by one definition, from its beginning to its end. While another one is made beside it, readers see
the rows of the published generation, and the row keeps the definition that belongs to them. Both change in one write:
the definition with the generation, and what readers see with the definition by which they have to read it.
"""

from __future__ import annotations

from collections.abc import Callable

from tidefill.jobs.lifecycle import Event
from tidefill.jobs.row import Job, happened


def next_generation(generation_uuid: str, source: str = "") -> Callable[[Job], Job]:
    """RESYNC, CREATE OR REPLACE: the next generation with nothing of the old one but what is published. Its definition
    is the one that is wanted, if there is one. What that reads is found out when it is built, and so is the `source` of
    a job whose generation was never built."""

    def begun(job: Job) -> Job:
        replaced = bool(job.wanted_definition)
        shown = "" if job.published is None else job.published_definition
        return happened(
            Event.RESYNC,
            definition=job.newest_definition,
            wanted_definition="",
            shown_definition="" if shown == job.newest_definition else shown,
            generation=job.generation + 1,
            generation_uuid=generation_uuid,
            source="" if replaced or not job.source else source,
            wants_resync=False,
            wants_resume=False,
            anchor="",
            released="",
            learned="" if replaced else job.learned,
            failure=None,
            parts=(),
        )(job)

    return begun


def went_live(job: Job) -> Callable[[Job], Job]:
    """Readers see the generation of this row from now on. The row is unchanged if there are newer wishes than it
    has."""
    return happened(Event.VERIFIED, wish_number=job.wish_number, published=job.generation, shown_definition="")
