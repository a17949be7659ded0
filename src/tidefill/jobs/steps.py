"""The history of a job's steps: what each step was, how long it took, and how many of them are kept.

A store writes a step in the transaction of the report that ends it. The newest STEPS_KEPT steps are all kept. Whenever
there are more than STEPS_KEPT older ones, every second of those is removed: the further back, the fewer are left, and
no job has more than about twice STEPS_KEPT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tidefill.errors import StoreUnreadable
from tidefill.jobs.row import Doing

STEPS_KEPT = 1000
"""Nobody looks at more single steps than that; a job that takes a step every second has a quarter of an hour in them.
Some 300 kilobytes a job."""

RANGES_CHARACTERS_MAX = 2000
"""Of the chunk bounds of one step: a key may hold a page of text."""


@dataclass(frozen=True, slots=True)
class Did:
    """What a machine tells of work that it has done. `phases`: seconds by the name of the phase. `rows_in`: about how
    many rows were read; `rows_out`: how many were written; None: not known. `versions`: of each input, the version
    before and after; None: it has no number."""

    phases: Mapping[str, float] = field(default_factory=dict)
    rows_in: int | None = None
    rows_out: int | None = None
    versions: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DoneStep:
    """A step that has ended. `kind`: as of `Doing`. `chunks` and `ranges` (JSON, as of `Doing`): what was filled.
    `lag_versions`, `lag_s`: how far the target was behind when the step was planned. `error`: the code of the error
    that ended the step, which then changed nothing; empty if the step was committed. The rest is as of `Did`."""

    kind: str
    began_s: float
    took_s: float
    generation: int = 1
    phases: Mapping[str, float] = field(default_factory=dict)
    rows_in: int | None = None
    rows_out: int | None = None
    versions: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    chunks: int = 0
    ranges: str = ""
    lag_versions: int | None = None
    lag_s: float | None = None
    error: str = ""

    @property
    def ended_s(self) -> float:
        """Seconds since 1970."""
        return self.began_s + self.took_s


def done_step(doing: Doing, ended_s: float, generation: int, did: Did, error: str = "") -> DoneStep:
    """The step that `doing` told of, at its end, without the lag."""
    return DoneStep(
        doing.kind,
        doing.began_s,
        max(0.0, ended_s - doing.began_s),
        generation,
        did.phases,
        did.rows_in,
        did.rows_out,
        did.versions,
        doing.chunks,
        doing.ranges if len(doing.ranges) <= RANGES_CHARACTERS_MAX else "",
        error=error,
    )


def thinned(numbers: Sequence[int]) -> list[int]:
    """Which of these steps of a job, oldest first, are to be removed."""
    older, every = numbers[: max(0, len(numbers) - STEPS_KEPT)], 1
    while len(older) // every > STEPS_KEPT:
        every *= 2
    return [number for at, number in enumerate(older) if at % every != every - 1]


def step_to_text(step: DoneStep) -> str:
    """The step as the JSON text that a store keeps; what is unknown or empty is left out."""
    return json.dumps({name: value for name, value in asdict(step).items() if value not in (None, "", {})})


def step_from_text(text: str) -> DoneStep:
    """The inverse of `step_to_text`; StoreUnreadable for what it cannot be. Fields of a later release are passed
    over."""
    try:
        data: dict[str, Any] = json.loads(text)
        known = {name: data[name] for name in DoneStep.__dataclass_fields__ if name in data}
        versions = {table: (before, after) for table, (before, after) in known.pop("versions", {}).items()}
        return DoneStep(**known, versions=versions)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        detail = f"{type(error).__name__}: {error}"
        raise StoreUnreadable("a step in the store cannot be read", detail=detail) from error
