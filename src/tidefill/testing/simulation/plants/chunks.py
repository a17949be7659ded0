"""Bugs in chunks: too large, too small, cut at a wrong place, or never taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidefill.core import sizing, step, walk
from tidefill.core.keys import Key
from tidefill.core.look import Look
from tidefill.core.state import JobState
from tidefill.core.step import Knobs, Shape, Step, Wait
from tidefill.core.walk import Coverage, Split
from tidefill.testing.simulation.plants.plant import Plant


def _cut_forgetting(coverage: Coverage, split: Split, bound: Key) -> Coverage:
    lower, upper = Split(split.after, bound), Split(bound, split.upto)
    return tuple(part for old in coverage for part in ((lower, upper) if old == split else (old,)))


def _cut_in_half_forgetting(coverage: Coverage, split: Split, offers: Mapping[Split, list[Key]]) -> Any:
    bounds = offers[split]
    bound = bounds[len(bounds) // 2]
    parted = {other: keys for other, keys in offers.items() if other != split}
    parted[Split(split.after, bound)] = [key for key in bounds if key < bound]
    parted[Split(bound, split.upto)] = [key for key in bounds if key > bound]
    return _cut_forgetting(coverage, split, bound), parted


_fill = step._fill


def _plan_starving(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Step | Wait:
    pace = replace(seen.glimpse.pace, forwarded_last=False)
    return _fill(state, replace(seen, glimpse=replace(seen.glimpse, pace=pace)), knobs, shape)


def _no_bound(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Step:
    bounds = {name: dict.fromkeys(splits, ()) for name, splits in seen.bounds.items()}
    return _next_chunks(state, replace(seen, bounds=bounds), knobs, shape)


_next_chunks = step._next_chunks

OF_CHUNKS = (
    Plant(
        "starve-the-fill",
        "a busy upstream makes the job forward for ever",
        ("I5 progress",),
        9,
        ((step, "_fill", _plan_starving), (step, "_forward_due", lambda *_: True)),
    ),
    Plant(
        "chase-the-tail",
        "the end of the table is not fixed at step 1",
        ("I5 progress",),
        0,
        ((walk, "start", lambda beyond: (Split(None, None),)),),
    ),
    Plant(
        "never-grow",
        "chunks stay as small as the first",
        ("I5 progress",),
        775,
        ((sizing, "after_fill", lambda size, took_s: size),),
    ),
    Plant(
        "whole-split-at-once",
        "a chunk is all that is left of its split",
        ("I4 bounded",),
        18,
        ((step, "_next_chunks", _no_bound),),
    ),
    Plant(
        "cut-forgets-position",
        "a split that is cut begins again from its start",
        ("I1 covered",),
        1,
        ((walk, "cut", _cut_forgetting), (step, "_cut_in_half", _cut_in_half_forgetting)),
    ),
    Plant(
        "group-cut",
        "a chunk ends inside of a group",
        ("I1 covered",),
        30,
        ((step, "_group_bound", lambda bound, shape: bound),),
    ),
)
