"""Who reads whom: the jobs of a store as a graph, by the names in their definitions.

All functions take the rows of the store as the caller has read them. A job whose definition this release cannot read
has no inputs here: it says so itself in its own turn, and stops nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import assert_never

from tidefill.jobs.agreement import Reads
from tidefill.jobs.definitions import (
    INPUT,
    FullViewDefinition,
    JobDefinition,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    Unreadable,
    job_from_text,
)
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, name_key


def definition_of(row: Job) -> JobDefinition:
    """What was created. Raises StoreUnreadable, which names the job, if this release cannot read it."""
    match job_from_text(row.definition):
        case Unreadable() as unreadable:
            raise unreadable.error(row.name)
        case definition:
            return definition


def names_read(row: Job) -> tuple[str, ...]:
    """The names of tables and jobs that a job reads. A table of another database has no name here. Of a definition that
    this release cannot read: the names that its text tells."""
    return job_from_text(row.definition).tables


def by_name(rows: Iterable[Job]) -> dict[str, Job]:
    """The jobs by the keys of their names; a dropped one has no name."""
    return {name_key(row.name): row for row in rows if row.life is not Life.DROPPED}


def in_order(rows: Sequence[Job]) -> list[Job]:
    """The same rows, such that what is read comes before what reads it. (No store makes a cycle; rows of one would come
    as they are.)"""
    named = by_name(rows)
    by_id = {row.id: row for row in rows}
    graph = {
        row.id: [named[key].id for key in map(name_key, names_read(row)) if key in named]
        if row.life is not Life.DROPPED
        else []
        for row in rows
    }
    try:
        return [by_id[job_id] for job_id in TopologicalSorter(graph).static_order()]
    except CycleError:
        return list(rows)


def share_an_input(worked: Job, other: Job) -> bool:
    """Whether the other reads what this one has made or reads too, or made what this one reads: then the other may wait
    for this one to come to the same version."""
    around = {name_key(worked.name), *map(name_key, names_read(worked))}
    return not around.isdisjoint((name_key(other.name), *map(name_key, names_read(other))))


def replicas_below(table: str, rows: Mapping[str, Job]) -> dict[str, str]:
    """The replicas from which the table or the job of that name comes, by the table of another database that each is
    made from. `rows`: as `by_name` gives them."""
    found = dict[str, str]()
    for row in (rows[name] for name in {name_key(table), *_all_below(table, rows)} if name in rows):
        definition = definition_of(row)
        if isinstance(definition, ServerReplicaDefinition):
            found[name_key(definition.input)] = row.name
    return found


def _all_below(name: str, rows: Mapping[str, Job]) -> frozenset[str]:
    """The names that it reads, however far below."""
    found, ahead = set[str](), [name_key(name)]
    while ahead:
        row = rows.get(ahead.pop())
        new = {name_key(one) for one in (() if row is None else names_read(row))} - found
        found |= new
        ahead += new
    return frozenset(found)


def inputs_of(rows: Sequence[Job], locations: Callable[[], Mapping[str, str]]) -> Reads:
    """What each of these jobs reads: other jobs by id, or tables by where they are, because two names may mean one
    table. `locations`: of the registered tables, by the keys of their names; asked for only if a job reads several."""
    ids = {name_key(row.name): row.id for row in rows}
    definitions = {row.id: job_from_text(row.definition) for row in rows}
    several = any(len(one.tables) > 1 for one in definitions.values() if not isinstance(one, Unreadable))
    places = locations() if several else {}

    def node(name: str) -> str:
        key = name_key(name)
        return ids.get(key) or places.get(key, key)

    def inputs(definition: JobDefinition) -> dict[str, str]:
        match definition:
            case ServerReplicaDefinition():
                return {}
            case ReplicaDefinition() | RowViewDefinition():
                return {INPUT: node(definition.input)}
            case PlannedViewDefinition() | FullViewDefinition():
                return {name: node(name) for name in definition.tables}
            case never:
                assert_never(never)

    return {job: inputs(one) for job, one in definitions.items() if not isinstance(one, Unreadable)}


def inputs_in_step(rows: Sequence[Job], locations: Callable[[], Mapping[str, str]]) -> Reads:
    """The same, for those who go in step. A view with `refresh = full` goes at its own pace, and nobody waits for it:
    its readers read it like a table. What it reads itself has to come to versions that it can take together."""
    outside = {row.id: f"anew {row.id}" for row in rows if _is_full(row)}
    return {
        job: {table: outside.get(node, node) for table, node in reads.items()}
        for job, reads in inputs_of(rows, locations).items()
    }


def _is_full(row: Job) -> bool:
    return isinstance(job_from_text(row.definition), FullViewDefinition)
