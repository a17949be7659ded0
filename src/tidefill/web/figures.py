"""A job as its pages show it: JSON data, worked out from its row and its steps.

Times are seconds since 1970, and no value counts on by itself: the page counts, so that what did not change is not sent
again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, assert_never

from tidefill.indexes.states import STATES, Method, State
from tidefill.jobs.amounts import seconds_text, size_text
from tidefill.jobs.definitions import (
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    JobDefinition,
    LakeIndexDefinition,
    OnServer,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
    UnreadableDefinition,
    job_from_text,
)
from tidefill.jobs.plain_json import plain
from tidefill.jobs.row import Job
from tidefill.jobs.status import Status, ranges_of
from tidefill.jobs.steps import DoneStep

EVENTS_SHOWN = 50
STEPS_SHOWN = 150
"""As many columns as a wide screen has room for."""


def line(row: Job, status: Status, lags: Sequence[float | None]) -> dict[str, Any]:
    """A job in the list of jobs. `lags`: of its last steps, in seconds, oldest first."""
    told = row.progress if row.progress is not None and row.progress.generation == row.generation else None
    return {
        "id": row.id,
        "name": status.name,
        "kind": status.kind,
        "state": status.state,
        "share": status.share,
        "percent": status.percent,
        "rows": status.rows,
        "rows_per_s": round(status.rows_per_s, 1),
        "eta_s": status.eta_s,
        "version": status.version,
        "lag_versions": None if told is None else told.lag_versions,
        "lag_s": None if told is None else told.lag_s,
        "log_bytes": status.log_bytes,
        "at_s": None if told is None else told.at_s,
        "waiting": status.waiting,
        "waits_for": status.waits_for,
        "runs": status.runs,
        "condition": status.condition,
        "phase": status.phase,
        "doing": _doing(row, status),
        "pause": status.pause,
        "wishes": list(status.wishes),
        "failure": plain(status.failure),
        "published": status.published,
        "generation": status.generation,
        "parts": plain(status.parts),
        "lags": list(lags),
    }


def _doing(row: Job, status: Status) -> dict[str, Any] | None:
    if status.doing is None or row.doing is None:
        return None
    return {"text": str(status.doing), "began_s": row.doing.began_s, "ranges": list(status.doing.ranges)}


def step_figures(step: DoneStep) -> dict[str, Any]:
    """A step in the timeline."""
    return {
        "kind": step.kind,
        "began_s": step.began_s,
        "took_s": step.took_s,
        "phases": dict(step.phases),
        "rows_in": step.rows_in,
        "rows_out": step.rows_out,
        "versions": {table: list(pair) for table, pair in step.versions.items()},
        "ranges": list(ranges_of(step.ranges)),
        "lag_s": step.lag_s,
        "lag_versions": step.lag_versions,
        "error": step.error,
    }


def definition_figures(row: Job) -> dict[str, Any]:
    """What was created: facts, and the text of the query or the index."""
    match job_from_text(row.definition):
        case UnreadableDefinition(fact, detail):
            return {"sql": "", "facts": [["cannot be read", fact], *([["detail", detail]] if detail else [])]}
        case definition:
            facts = [[name, value] for name, value in _facts(definition) if value]
            return {"sql": getattr(definition, "sql", ""), "facts": facts}


def _facts(definition: JobDefinition) -> Iterator[tuple[str, str]]:
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition():
            yield "reads", definition.input
            yield "key", ", ".join(definition.key)
            yield "walk", f"{', '.join(definition.walk)}: {definition.walk_reason}"
        case TopicReplicaDefinition():
            yield "reads", definition.input
            yield "format", definition.format
            yield "columns", ", ".join(f"{name} {kind}" for name, kind in definition.columns)
            yield "from", definition.begin
            yield "key", ", ".join(definition.key) if definition.upsert is not None else ""
        case LakeIndexDefinition():
            yield "on", definition.input
            yield "columns", ", ".join(definition.indexed)
            yield "included columns", ", ".join(definition.include)
            yield "rows with", definition.rows_with
            yield "unique", "refuses nobody's write" if definition.unique else ""
        case RowViewDefinition():
            yield "reads", definition.input
            yield "key", ", ".join(definition.key)
            yield "walk", f"{', '.join(definition.walk)}: {definition.walk_reason}"
        case PlannedViewDefinition() | FullViewDefinition():
            yield "reads", ", ".join(definition.tables)
            yield "key", ", ".join(definition.key)
        case IndexDefinition():
            yield "on", definition.input
            yield from _index_facts(definition)
        case IndexesDefinition():
            yield "on", definition.input
            for name, index in definition.by_name.items():
                yield name, "; ".join(f"{what} {value}" for what, value in _index_facts(index) if value)
        case never:
            assert_never(never)


def _index_facts(index: IndexDefinition) -> Iterator[tuple[str, str]]:
    yield "columns", ", ".join(index.columns) + (" (unique)" if index.unique else "")
    yield "included columns", ", ".join(index.include)
    yield "rows with", index.where
    yield "method", index.method


def settings_figures(row: Job) -> dict[str, Any]:
    """The settings that the page can change, and all that are not as usual, as a person reads them."""
    told = [[name, value] for name, value in _settings(row)]
    return {"rate_limit": row.settings.rate_limit, "parallelism": row.settings.parallelism, "told": told}


def _settings(row: Job) -> Iterator[tuple[str, str]]:
    """Those that say something of such a job."""
    settings, definition = row.settings, job_from_text(row.definition)
    on_server = isinstance(definition, OnServer)
    usual = "50,000, or 5,000 of initput" if on_server else "by the time that one takes"
    yield "chunk_rows", usual if settings.chunk_rows is None else str(settings.chunk_rows)
    if on_server:
        yield "wait_timeout", "none" if settings.wait_timeout_s is None else seconds_text(settings.wait_timeout_s)
        yield "abort_waiting", _on(settings.abort_waiting)
        yield "log_limit", _size(settings.log_limit)
        return
    yield "target_lag", seconds_text(settings.target_lag_s)
    yield "verify", _on(settings.verify)
    yield "vacuum", _on(settings.vacuum)
    if isinstance(definition, ServerReplicaDefinition):
        yield "wal_budget", _size(settings.wal_budget)
        yield "wal_limit", _size(settings.wal_limit)


def _on(flag: bool) -> str:
    return "on" if flag else "off"


def _size(size: int | None) -> str:
    return "none" if size is None else size_text(size)


def ladder(row: Job, phase: str) -> list[dict[str, Any]]:
    """The states of an index on a server, in order, and which of them it is in; empty for any other job."""
    definition = job_from_text(row.definition)
    match definition:
        case IndexDefinition():
            method = definition.method
        case IndexesDefinition():
            method = definition.indexes[0].method
        case _:
            return []
    states = [state.value for state in STATES[Method(method)]]
    if phase == State.DRAINING.value:
        states.insert(states.index(State.MERGING.value) + 1, phase)
    reached = states.index(phase) if phase in states else -1
    return [
        {"state": state, "is": "now" if at == reached else "done" if at < reached else "to come"}
        for at, state in enumerate(states)
    ]


def explained_figures(text: str) -> dict[str, Any] | None:
    """What EXPLAIN said at the creation: the nodes of the plan, and facts; None if nobody kept it."""
    try:
        data = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    nodes = [node for node in data.get("nodes") or () if isinstance(node, dict)]
    shown = ((name.replace("_", " "), _fact(value)) for name, value in data.items() if name not in _NOT_FACTS)
    return {"nodes": nodes, "facts": [[name, value] for name, value in shown if value]}


_NOT_FACTS = ("nodes", "sql", "name", "kind", "columns", "reads", "walks", "notices")


def _fact(value: object) -> str:
    """A value of the document as a person reads it; empty for what says nothing."""
    match value:
        case None | False | "" | [] | {}:
            return ""
        case True:
            return "yes"
        case list():
            return "; ".join(map(_fact, value))
        case dict():
            return ", ".join(f"{name} {_fact(item)}" for name, item in value.items() if _fact(item))
        case _:
            return str(value)


def newest_events(events: Sequence[tuple[float, str]]) -> list[list[Any]]:
    """The newest first."""
    return [[at_s, text] for at_s, text in reversed(events[-EVENTS_SHOWN:])]


def lag_points(steps: Iterable[DoneStep]) -> list[list[float]]:
    """How far the target was behind over time: at the plan of each step, and at its end, where a step that took changes
    in leaves none."""
    points = list[list[float]]()
    for step in steps:
        if step.lag_s is None or step.error:
            continue
        points += [[step.began_s, step.lag_s], [step.ended_s, step.lag_s + step.took_s if step.lag_s else 0.0]]
        if any(before != after for before, after in step.versions.values()):
            points.append([step.ended_s, 0.0])
    return points
