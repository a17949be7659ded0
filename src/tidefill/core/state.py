"""The state that every commit of a target carries: where the job is, exactly.

Its JSON form is versioned. A form that this release does not know is an error with a name, never a guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

from tidefill.core.keys import Key, key_from_json, key_to_json
from tidefill.core.version import Version, version_from_json, version_to_json
from tidefill.core.walk import DONE, NOT_STARTED, Coverage, Done, NotStarted, Position, Split, Upto, finished, flaw
from tidefill.errors import StateUnreadable

FORM = 1
Table: TypeAlias = str
Occurrence: TypeAlias = str


@dataclass(frozen=True, slots=True)
class JobState:
    """Versions are per table, coverages per occurrence of a table in the query: a self join walks one occurrence and
    takes the other whole, both at one version."""

    generation: int
    step: int
    versions: Mapping[Table, Version]
    coverage: Mapping[Occurrence, Coverage]
    rows_filled: int = 0

    def finished(self) -> bool:
        """Whether every occurrence is covered to the end. (Before the first step none is known.)"""
        return bool(self.coverage) and all(finished(coverage) for coverage in self.coverage.values())


def initial(generation: int) -> JobState:
    """Before the first step."""
    return JobState(generation, 0, {}, {})


def state_to_json(state: JobState) -> dict[str, Any]:
    """The state as JSON data."""
    return {
        "form": FORM,
        "generation": state.generation,
        "step": state.step,
        "versions": {table: version_to_json(version) for table, version in state.versions.items()},
        "coverage": {name: [_split_to_json(split) for split in cover] for name, cover in state.coverage.items()},
        "rows_filled": state.rows_filled,
    }


def state_from_json(data: Any) -> JobState:
    """The inverse of `state_to_json`; StateUnreadable for what is damaged or newer."""
    form = data.get("form") if isinstance(data, dict) else None
    if isinstance(form, int) and form > FORM:
        raise StateUnreadable(
            f"the state has form {form}, this release knows {FORM}",
            hint="A newer release of Tidefill wrote it: run the job with that release.",
        )
    match data:
        case {
            "form": 1,
            "generation": int(generation),
            "step": int(step),
            "versions": dict(versions),
            "coverage": dict(coverage),
            "rows_filled": int(rows_filled),
        }:
            return JobState(
                generation,
                step,
                {table: version_from_json(version) for table, version in versions.items()},
                {name: _coverage_from_json(splits) for name, splits in coverage.items()},
                rows_filled,
            )
    raise StateUnreadable("the state cannot be read", detail=json.dumps(data, default=repr)[:200])


def _split_to_json(split: Split) -> list[Any]:
    match split.position:
        case NotStarted():
            position: Any = "not started"
        case Upto(key):
            position = key_to_json(key)
        case Done():
            position = "done"
        case never:
            assert_never(never)
    return [key_to_json(split.after), key_to_json(split.upto), position]


def _coverage_from_json(data: Any) -> Coverage:
    try:
        coverage = tuple(
            Split(key_from_json(after), key_from_json(upto), _position_from_json(position))
            for after, upto, position in data
        )
        problem = flaw(coverage)
    except (TypeError, ValueError) as error:
        raise StateUnreadable("the state holds a coverage that cannot be read", detail=repr(data)[:200]) from error
    if problem:
        raise StateUnreadable("the state holds a coverage that is none", detail=problem)
    return coverage


def _position_from_json(data: Any) -> Position:
    match data:
        case "not started":
            return NOT_STARTED
        case "done":
            return DONE
        case list():
            key = key_from_json(data)
            assert isinstance(key, Key)
            return Upto(key)
    raise ValueError(f"unknown position {data!r}")
