"""Whether a step by changes or a recompute is cheaper, learned from the job's own last steps.

Rule: each step of a live job is remembered: which way it took, how many rows had been written, how many rows the inputs
have, and how long it took. For the next step both ways are estimated from that, and the cheaper one is taken.

Example: steps after 1,000 written rows took 3 s, recomputes take 2 s. After 1,200 written rows the job recomputes. If
it has done so twenty times, it tries a step again: the machine may be another one now.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import takewhile
from statistics import median

SAMPLES_MAX = 50
"""How many steps a job remembers: enough for both ways and several sizes, and little in its row."""

SHARE_ASSUMED = 0.1
"""From this share of written rows on, a recompute is tried while nothing is known: most files of the target are touched
by then."""

FEW_ROWS = 10_000
"""Up to so many written rows, steps are taken while nothing is known: they cost little, whatever the share."""

ROW_COSTS = 5.0
"""A written row is assumed to cost as much as so many rows of a recompute, until steps of that size were seen."""

ALIKE = 3.0
"""Numbers of written rows that differ by no more than this factor cost alike; the fixed cost of a step is larger."""

NEWEST = 5
"""So many of the newest recomputes count, and of those the median: one slow moment decides nothing, and a job notices
when its tables have grown."""

NEAREST = 3
"""So many of the steps with about as many written rows count, the nearest and newest, and of those the median."""

TRY_AFTER = 20
"""After so many steps of one way the other is tried, if it is not expected to be more than WORTH_TRYING times as dear.
Of twenty steps one then costs at most twice as much: five percent."""

WORTH_TRYING = 2.0


class Way(Enum):
    """How a live target takes in changes."""

    CHANGES = "changes"
    RECOMPUTE = "recompute"


@dataclass(frozen=True, slots=True)
class Sample:
    """A step that was taken: `written` rows since the one before, `rows` in the inputs, and how long it took."""

    way: Way
    written: int
    rows: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The way to take, how long both are expected to take (None: not known), and why, as a person reads it."""

    way: Way
    changes_s: float | None
    recompute_s: float | None
    why: str


def remembered(samples: Sequence[Sample], new: Sample) -> tuple[Sample, ...]:
    """The samples with the new one, without the oldest of those that there are most of, by way and size: a rare large
    step is remembered among many small ones."""
    kept = [*samples, new]
    while len(kept) > SAMPLES_MAX:
        most, _ = Counter(map(_kind, kept)).most_common(1)[0]
        kept.remove(next(sample for sample in kept if _kind(sample) == most))
    return tuple(kept)


def _kind(sample: Sample) -> tuple[Way, int]:
    """The way, and the number of digits of the written rows; all recomputes are one kind."""
    return sample.way, len(str(sample.written)) if sample.way is Way.CHANGES else 0


def choose(samples: Sequence[Sample], written: int, rows: int, few_rows: int = FEW_ROWS) -> Choice:
    """The way that is expected to be cheaper for so many written rows, where the inputs have so many."""
    recompute_s = _recompute_s(samples, rows)
    changes_s = _changes_s(samples, written, ROW_COSTS * (recompute_s or 0.0) / max(1, rows))
    if changes_s is None or recompute_s is None:
        share = written / max(1, rows)
        way = Way.RECOMPUTE if share >= SHARE_ASSUMED and written > few_rows else Way.CHANGES
        return Choice(way, changes_s, recompute_s, f"{min(share, 1.0):.0%} of what it reads was written")
    expected = {Way.CHANGES: changes_s, Way.RECOMPUTE: recompute_s}
    way = min(Way, key=lambda one: expected[one])
    other = next(one for one in Way if one is not way)
    why = f"a step was expected to take {changes_s:.1f} s, a recompute {recompute_s:.1f} s"
    if _is_stale(samples, other) and expected[other] <= WORTH_TRYING * expected[way]:
        return Choice(other, changes_s, recompute_s, f"{why}; tried again after {TRY_AFTER} steps of the other way")
    return Choice(way, changes_s, recompute_s, why)


def _is_stale(samples: Sequence[Sample], way: Way) -> bool:
    since = sum(1 for _ in takewhile(lambda sample: sample.way is not way, reversed(samples)))
    return since >= TRY_AFTER


def _recompute_s(samples: Sequence[Sample], rows: int) -> float | None:
    """By the newest recomputes; in proportion, if the inputs have become much larger or smaller."""
    known = [sample for sample in samples if sample.way is Way.RECOMPUTE][-NEWEST:]
    if not known:
        return None
    seconds = median(sample.seconds for sample in known)
    factor = max(1, rows) / max(1, median(sample.rows for sample in known))
    return seconds if 1 / ALIKE <= factor <= ALIKE else seconds * factor


def _changes_s(samples: Sequence[Sample], written: int, row_s: float) -> float | None:
    """By the steps with about as many written rows; else between those with fewer and those with more. Beyond the
    largest that is known, each row more takes `row_s`. Steps that are much smaller than all that are known are expected
    to be cheap, so that they are tried."""
    known = [(max(1, sample.written), sample.seconds) for sample in samples if sample.way is Way.CHANGES]
    size = max(1, written)
    fixed = [seconds for rows, seconds in known if rows * ALIKE**2 <= size][-NEWEST:]
    near = [point for point in reversed(known) if size / ALIKE <= point[0] <= size * ALIKE]
    alike = sorted(near, key=lambda point: abs(math.log(point[0] / size)))[:NEAREST]
    if alike:
        return median(_resized(point, size, median(fixed) if fixed else None, row_s) for point in alike)
    fewer = max((point for point in known if point[0] < size), default=None)
    more = min((point for point in known if point[0] > size), default=None)
    if fewer is not None and more is not None:
        place = (math.log(size) - math.log(fewer[0])) / (math.log(more[0]) - math.log(fewer[0]))
        return fewer[1] + place * (more[1] - fewer[1])
    if fewer is not None:
        return fewer[1] + row_s * (size - fewer[0])
    if more is None:
        return None
    return more[1] if size * ALIKE**2 > more[0] else more[1] / ALIKE


def _resized(step: tuple[int, float], size: int, fixed_s: float | None, row_s: float) -> float:
    """How long the step would have taken with another number of rows: what it took above the fixed cost goes with the
    rows. Small steps tell the fixed cost; while there are none, `row_s` does."""
    rows, seconds = step
    fixed = min(seconds, max(seconds / 2, seconds - row_s * rows) if fixed_s is None else fixed_s)
    return fixed + (seconds - fixed) * size / rows


def recomputed_last(samples: Sequence[Sample]) -> bool:
    """Whether the newest sample is a recompute that was chosen, and not the first fill."""
    return bool(samples) and samples[-1].way is Way.RECOMPUTE and samples[-1].written > 0


def samples_to_text(samples: Sequence[Sample]) -> str:
    """For a job's row."""
    if not samples:
        return ""
    return json.dumps([[one.way.value, one.written, one.rows, round(one.seconds, 3)] for one in samples])


def samples_from_text(text: str) -> tuple[Sample, ...]:
    """The inverse of `samples_to_text`. Losing samples costs time, never rows: what cannot be read is left out."""
    try:
        data = json.loads(text) if text else ()
    except ValueError:
        return ()
    found = []
    for item in data if isinstance(data, list) else ():
        match item:
            case [str(way), int(written), int(rows), float() | int() as seconds] if way in _WAYS:
                found.append(Sample(Way(way), written, rows, float(seconds)))
    return tuple(found)


_WAYS = frozenset(way.value for way in Way)
