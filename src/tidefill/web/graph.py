"""The graph of a store: tables, replicas, views on views and indexes, and who is behind whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidefill.core.confirm import Anchor
from tidefill.core.version import Version
from tidefill.jobs.definitions import INPUT, OnServer, ServerReplicaDefinition, job_from_text
from tidefill.jobs.graph import Graph, names_read
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import Job, name_key
from tidefill.jobs.status import Status, readable_anchor

TABLE, SERVER_TABLE = "table", "table on a server"


def graph_figures(
    rows: Sequence[Job],
    tables: Sequence[Registered],
    status: Callable[[Job], Status],
    tick: Callable[[str], int | None],
) -> dict[str, dict[str, Any]]:
    """Each node by its key: what it is, how it stands, and what it reads at which version. `depth`: how many jobs lie
    below it at most; what is read stands before what reads it. `tick`: the version that the jobs in step over a base
    go to, by the base's identity."""
    jobs = [row for row in Graph(rows).order() if row.life is not Life.DROPPED]
    anchors = {row.id: readable_anchor(row) for row in jobs}
    by_name = {name_key(row.name): row for row in jobs}
    nodes = {f"table {name_key(table.name)}": _table(table.name, TABLE) for table in tables}
    for row in jobs:
        reads = list[dict[str, Any]]()
        for name in inputs_shown(row):
            below = by_name.get(name_key(name))
            key = below.id if below is not None else f"table {name_key(name)}"
            if below is None and key not in nodes:
                nodes[key] = _table(name, SERVER_TABLE)
            reads.append(_edge(key, _version(anchors[row.id], name), anchors.get(key)))
            version = _version(anchors[row.id], name)
            if below is None and version is not None:
                nodes[key]["tick"] = tick(version.identity)
        nodes[row.id] = {**_job(row, status(row), anchors[row.id]), "reads": reads, "depth": _depth(reads, nodes)}
    _move_to_readers(nodes)
    return nodes


def _move_to_readers(nodes: dict[str, dict[str, Any]]) -> None:
    """A table that only jobs further above read stands next to the first of them, so that its line crosses nobody."""
    readers: dict[str, list[int]] = {}
    for node in nodes.values():
        for edge in node["reads"]:
            readers.setdefault(edge["key"], []).append(node["depth"])
    for key, node in nodes.items():
        if not node["job"] and key in readers:
            node["depth"] = min(readers[key]) - 1


def inputs_shown(row: Job) -> tuple[str, ...]:
    """The names of what the job reads, those of tables on servers too."""
    definition = job_from_text(row.definition)
    if isinstance(definition, OnServer | ServerReplicaDefinition):
        return (definition.input,)
    return names_read(row)


def _table(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "kind": kind, "job": "", "depth": 0, "reads": [], "tick": None}


def _job(row: Job, status: Status, anchor: Anchor | None) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": status.kind,
        "job": row.id,
        "state": status.state,
        "percent": status.percent,
        "version": None if anchor is None or anchor.checked < 0 else anchor.checked,
        "lag_versions": None if row.progress is None else row.progress.lag_versions,
        "lag_s": None if row.progress is None else row.progress.lag_s,
        "waiting": status.waiting,
        "condition": status.condition,
    }


def _edge(key: str, at: Version | None, below: Anchor | None) -> dict[str, Any]:
    """`version`: of what is read, that the reader has taken in. `behind`: how many versions of it came since."""
    number = None if at is None else at.point.ordinal
    behind = None if number is None or below is None else max(0, below.checked - number)
    return {"key": key, "version": number, "behind": behind}


def _version(anchor: Anchor | None, name: str) -> Version | None:
    """The version of the input that the target stands for. A job over one table knows it by another name."""
    versions = {} if anchor is None else anchor.state.versions
    return versions.get(name) or versions.get(INPUT)


def _depth(reads: Sequence[dict[str, Any]], nodes: Mapping[str, dict[str, Any]]) -> int:
    return 1 + max((nodes[edge["key"]]["depth"] for edge in reads if edge["key"] in nodes), default=0)
