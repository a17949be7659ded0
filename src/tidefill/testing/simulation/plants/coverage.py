"""Bugs in what is covered: which changes are applied, and at which version chunks are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tidefill.core import step, walk
from tidefill.core.keys import Key
from tidefill.core.look import Changed, Look
from tidefill.core.state import JobState
from tidefill.core.step import Knobs, Shape, Step, Wait, Write
from tidefill.core.walk import Coverage, Done, NotStarted, Upto
from tidefill.ports.frames import Append, Changes
from tidefill.run.backfill import Backfill
from tidefill.testing.memory import changes
from tidefill.testing.simulation.plants.plant import Patch, Plant


def _covers_like(started: Callable[[Key, Key], bool], *, unstarted: bool = False, done: bool = True) -> Patch:
    def covers(coverage: Coverage, key: Key) -> bool:
        match walk.find(coverage, key).position:
            case NotStarted():
                return unstarted
            case Upto(last):
                return started(key, last)
            case Done():
                return done

    return (changes, "covers", covers)


def _upto(key: Key, last: Key) -> bool:
    return key <= last


def _changes_by_new_coverage(
    self: Backfill[Any], name: str, before: JobState, plan: Step, after: JobState
) -> Changes[Any] | None:
    return _changes(self, name, replace(before, coverage=after.coverage), plan, after)


_changes = Backfill._changes
_write = Backfill._write


def _write_at_old_version(self: Backfill[Any], before: JobState, plan: Step, after: JobState) -> Any:
    if plan.write is Write.APPEND and before.versions:
        return Append(self._appended(plan, replace(after, versions=before.versions)))
    return _write(self, before, plan, after)


def _judge_old_by_new(old: Key | None, new: Key | None, coverage: Coverage) -> tuple[bool, bool]:
    place = new if new is not None else old
    covered = place is not None and walk.covers(coverage, place)
    return old is not None and covered, new is not None and covered


def _last_image(feed: Iterable[tuple[int, Any]], key_of: Callable[[Any], Any]) -> dict[Any, tuple[Any, Any]]:
    images: dict[Any, tuple[Any, Any]] = {}
    for weight, row in feed:
        old, _ = images.get(key_of(row), (None, None))
        images[key_of(row)] = (row, None) if weight < 0 else (old, row)
    return {key: pair for key, pair in images.items() if pair[0] != pair[1]}


_fill = step._fill
_apply = step.apply


def _no_changes_at_the_end(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Step | Wait:
    plan = _fill(state, replace(seen, changed=Changed.NOTHING), knobs, shape)
    if isinstance(plan, Step) and _apply(state, plan).finished():
        return plan
    return _fill(state, seen, knobs, shape)


OF_COVERAGE = (
    Plant(
        "off-by-one",
        "a change of the very row at the position is dropped",
        ("I1 covered",),
        10,
        (_covers_like(lambda key, last: key < last),),
    ),
    Plant(
        "forward-unstarted",
        "changes of splits that were not started are applied, then read again",
        ("I1 covered",),
        2,
        (_covers_like(_upto, unstarted=True),),
    ),
    Plant(
        "forget-finished",
        "changes of finished splits are dropped",
        ("I1 covered",),
        0,
        (_covers_like(_upto, done=False),),
    ),
    Plant(
        "forward-with-new-coverage",
        "changes are judged by the coverage after the step: chunk rows come twice",
        ("I7 loud",),
        154,
        ((Backfill, "_changes", _changes_by_new_coverage),),
    ),
    Plant(
        "fill-at-old-version",
        "chunks are read at the version before the step",
        ("I1 covered",),
        28,
        ((Backfill, "_write", _write_at_old_version),),
    ),
    Plant(
        "fill-at-unreadable-version",
        "the plan takes every version for readable",
        ("I5 progress",),
        2,
        ((step, "_readable", lambda glimpse: True),),
    ),
    Plant(
        "ignore-old-half",
        "a row that leaves its place is not removed there",
        ("I1 covered",),
        7,
        ((changes, "judge", lambda old, new, coverage: (False, new is not None and walk.covers(coverage, new))),),
    ),
    Plant(
        "ignore-new-half",
        "an update that comes from elsewhere is not added",
        ("I1 covered",),
        0,
        (
            (
                changes,
                "judge",
                lambda old, new, coverage: (old is not None and walk.covers(coverage, old),) * 2,
            ),
        ),
    ),
    Plant(
        "judge-old-by-new",
        "both halves of an update are judged by where the row is now",
        ("I1 covered", "I7 loud"),
        10,
        ((changes, "judge", _judge_old_by_new),),
    ),
    Plant(
        "last-image",
        "of several changes of a row only the last is looked at",
        ("I1 covered", "I7 loud"),
        5,
        ((changes, "net", _last_image),),
    ),
    Plant(
        "lose-changes-at-the-end",
        "changes that come with the last chunk are lost",
        ("I1 covered",),
        2,
        ((step, "_fill", _no_changes_at_the_end),),
    ),
)
