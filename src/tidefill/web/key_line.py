"""The key line: every split of a job over the key space, how far it is filled, and what is being read now.

All splits are drawn equally wide, because they are cut so that each has about as many rows. Inside a split a place is
told by its distance between the bounds, where keys have one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from tidefill.core.keys import key_from_json
from tidefill.core.state import Occurrence
from tidefill.core.walk import Coverage, Done, NotStarted, Range, Split, Upto
from tidefill.errors import StateUnreadable
from tidefill.jobs.row import Job
from tidefill.jobs.status import range_text, reached_text, readable_anchor, share_of

COVERED, READING, WAITING = "covered", "being read", "not yet"


@dataclass(frozen=True, slots=True)
class Segment:
    """A split. `filled`: how much of it is covered, from 0 to 1. `guessed`: nobody knows how far it is, so `filled` is
    the share of all rows that are filled. `reading`: whether the step that is under way reads some of it. `beyond`: it
    lies above all rows of the start, and was covered from the beginning."""

    of: str
    range: str
    reached: str
    state: str
    filled: float
    guessed: bool = False
    reading: bool = False
    beyond: bool = False


def key_line(row: Job, *, works: bool) -> list[Segment]:
    """The splits in walk order; none if nothing is known of them. `works`: a runner works on the step that the row
    tells of."""
    anchor = readable_anchor(row)
    if anchor is None:
        return []
    read = tuple(_being_read(row)) if works else ()
    told = row.progress if row.progress is not None and row.progress.generation == row.generation else None
    several = len(anchor.state.coverage) > 1
    return [
        segment
        for occurrence, coverage in anchor.state.coverage.items()
        for segment in _segments(occurrence if several else "", coverage, read, 0.0 if told is None else told.share)
    ]


def _segments(of: Occurrence, coverage: Coverage, read: tuple[Range, ...], share: float) -> Iterator[Segment]:
    """`share`: of all rows that are filled."""
    for at, split in enumerate(coverage):
        reading = not isinstance(split.position, Done) and any(_meets(split, each) for each in read)
        known = share_of(split)
        filled, guessed = (share, True) if known is None else (known, False)
        beyond = at == len(coverage) - 1 and len(coverage) > 1 and isinstance(split.position, Done)
        reached = reached_text(split.position)
        yield Segment(of, range_text(split), reached, _state(split, reading), filled, guessed, reading, beyond)


def _state(split: Split, reading: bool) -> str:
    match split.position:
        case Done():
            return COVERED
        case _ if reading:
            return READING
        case Upto():
            return "covered in part"
        case NotStarted():
            return WAITING


def _meets(split: Split, chunk: Range) -> bool:
    """Whether the chunk lies in the split: chunks are cut from splits, so its end tells."""
    if chunk.upto is None:
        return split.upto is None
    return (split.after is None or split.after < chunk.upto) and (split.upto is None or not split.upto < chunk.upto)


def _being_read(row: Job) -> Iterator[Range]:
    """The chunks of the step that is under way, as far as they can be read."""
    with suppress(StateUnreadable, TypeError, ValueError):
        for after, upto in json.loads(row.doing.ranges if row.doing is not None and row.doing.ranges else "[]"):
            yield Range(key_from_json(after), key_from_json(upto))
