"""Who reads whom: the jobs of a store as a graph, by the names in their definitions.

A `Graph` is made from the rows of one read of the store and passed down to all who ask in that round. A job whose
definition this release cannot read has no inputs in it: that job says so itself in its own turn, and stops nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias, assert_never

from tidefill.jobs import agreement
from tidefill.jobs.agreement import Node, Reads
from tidefill.jobs.definitions import (
    INPUT,
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    JobDefinition,
    OnServer,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TopicReplicaDefinition,
    UnreadableDefinition,
    job_from_text,
)
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, name_key


def definition_of(row: Job) -> JobDefinition:
    """What was created. Raises StoreUnreadable, which names the job, if this release cannot read it."""
    match job_from_text(row.definition):
        case UnreadableDefinition() as unreadable:
            raise unreadable.error(row.name)
        case definition:
            return definition


def names_read(row: Job) -> tuple[str, ...]:
    """The names of tables and jobs that a job reads. A table of another database has no name here. Of a definition that
    this release cannot read: the names that its text tells."""
    return job_from_text(row.definition).tables


def names_needed(row: Job) -> tuple[str, ...]:
    """The same, and what the definition reads with which the job will be replaced: nobody may take that away."""
    return tuple(dict.fromkeys((*names_read(row), *job_from_text(row.newest_definition).tables)))


def newest_definition_of(row: Job) -> JobDefinition:
    """What its user asked for last; raises as `definition_of`."""
    return definition_of(replace(row, definition=row.newest_definition))


def published_definition_of(row: Job) -> JobDefinition:
    """By which the published generation was made; raises as `definition_of`."""
    return definition_of(replace(row, definition=row.published_definition))


def is_index(row: Job) -> bool:
    """Whether the job makes an index on a server, for which no Spark is needed."""
    return isinstance(job_from_text(row.definition), OnServer)


def source_of(inputs: Iterable[Job | None]) -> str:
    """The generations of these jobs that are live, as one text: it changes when one of them is built anew. None: a name
    that no job has."""
    return " ".join(f"{job.id}-{job.published}" for job in inputs if job is not None and job.published is not None)


def inputs_of(rows: Sequence[Job], locations: Callable[[], Mapping[str, str]] = dict) -> Reads:
    """What each of these jobs reads: other jobs by id, or tables by where they are, because two names may mean one
    table. `locations`: of the registered tables, by the keys of their names; asked for only if a job reads several."""
    ids = {name_key(row.name): row.id for row in rows}
    definitions = {row.id: job_from_text(row.definition) for row in rows}
    several = any(len(one.tables) > 1 for one in definitions.values() if not isinstance(one, UnreadableDefinition))
    places = locations() if several else {}

    def node(name: str) -> Node:
        key = name_key(name)
        return ids.get(key) or places.get(key, key)

    def inputs(definition: JobDefinition) -> dict[str, Node]:
        match definition:
            case ServerReplicaDefinition() | TopicReplicaDefinition() | IndexDefinition() | IndexesDefinition():
                return {}
            case ReplicaDefinition() | RowViewDefinition():
                return {INPUT: node(definition.input)}
            case PlannedViewDefinition() | FullViewDefinition():
                return {name: node(name) for name in definition.tables}
            case never:
                assert_never(never)

    return {job: inputs(one) for job, one in definitions.items() if not isinstance(one, UnreadableDefinition)}


@dataclass(frozen=True)
class Graph:
    """The jobs of one read of the store. `rows`: all of them, those that are dropped too. `reads_of`: what each of
    these jobs reads. What follows from the rows is worked out when it is first asked for, and once."""

    rows: Sequence[Job] = ()
    reads_of: Callable[[Sequence[Job]], Reads] = inputs_of

    @cached_property
    def by_id(self) -> Mapping[Node, Job]:
        """All rows by the ids of the jobs."""
        return {row.id: row for row in self.rows}

    @cached_property
    def by_name(self) -> Mapping[str, Job]:
        """The jobs by the keys of their names; a dropped one has no name."""
        return {name_key(row.name): row for row in self.rows if row.life is not Life.DROPPED}

    @cached_property
    def reads(self) -> Reads:
        """What each job reads that is not dropped."""
        return self.reads_of([row for row in self.rows if row.life is not Life.DROPPED])

    @cached_property
    def reads_in_step(self) -> Reads:
        """The same, for those who go in step. A view with `refresh = full` goes at its own pace, and nobody waits for
        it: its readers read it like a table. What it reads itself has to come to versions that it can take together."""
        outside = {row.id: f"anew {row.id}" for row in self.rows if _is_full(row)}
        return {
            job: {table: outside.get(node, node) for table, node in reads.items()} for job, reads in self.reads.items()
        }

    @cached_property
    def members(self) -> Mapping[Node, frozenset[Node]]:
        """Of each base, the jobs that go by its ticks."""
        return agreement.in_step(self.reads_in_step)

    @cached_property
    def are_read(self) -> frozenset[Node]:
        """The jobs and tables of which somebody follows the changes, or who have to go in step with others for a
        reader."""
        followed = (below for job, below in self.reads.items() if not _is_full(self.by_id[job]))
        return frozenset(node for below in (*followed, *self.reads_in_step.values()) for node in below.values())

    def order(self) -> list[Job]:
        """All rows, such that what is read comes before what reads it. (No store makes a cycle; rows of one would come
        as they are.)"""
        nodes = {row.id: [job.id for job in self.inputs_by_name(row) if job is not None] for row in self.rows}
        try:
            return [self.by_id[job_id] for job_id in TopologicalSorter(nodes).static_order()]
        except CycleError:
            return list(self.rows)

    def inputs_by_name(self, row: Job) -> list[Job | None]:
        """The jobs that have the names that the job reads; None for a name that no job has. A dropped job reads
        nothing."""
        return [] if row.life is Life.DROPPED else [self.by_name.get(name_key(name)) for name in names_read(row)]

    def inputs(self, job_id: Node) -> list[Job]:
        """The jobs that the job reads."""
        return [self.by_id[node] for node in self.reads.get(job_id, {}).values() if node in self.by_id]

    def blocked_by(self, job_id: Node) -> Job | None:
        """A job below it, however far, that stands still; None if none does."""
        return agreement.blocked_by(job_id, self.reads, self.by_id)

    def woken_by(self, worked: Job) -> list[Job]:
        """The jobs that may have something to do because this one had: they read what it has made or reads too, or made
        what it reads, and so may wait for it to come to the same version."""
        around = {name_key(worked.name), *map(name_key, names_read(worked))}
        others = (row for row in self.rows if row.id != worked.id)
        return [row for row in others if not around.isdisjoint(map(name_key, (row.name, *names_read(row))))]

    def replicas_below(self, table: str) -> dict[str, str]:
        """The replicas from which the table or the job of that name comes, by the table of another database that each
        is made from. Raises StoreUnreadable if a definition below cannot be read."""
        found = dict[str, str]()
        for row in (self.by_name[name] for name in self._all_below(table) if name in self.by_name):
            definition = definition_of(row)
            if isinstance(definition, ServerReplicaDefinition | TopicReplicaDefinition):
                found[name_key(definition.input)] = row.name
        return found

    def _all_below(self, name: str) -> frozenset[str]:
        """The key of the name, and those of the names that its job reads, however far below."""
        found, ahead = {name_key(name)}, [name_key(name)]
        while ahead:
            row = self.by_name.get(ahead.pop())
            new = {name_key(one) for one in (() if row is None else names_read(row))} - found
            found |= new
            ahead += new
        return frozenset(found)


GraphOf: TypeAlias = Callable[[Sequence[Job]], Graph]
"""The graph of the rows that a read of the store gave."""


def _is_full(row: Job) -> bool:
    return isinstance(job_from_text(row.definition), FullViewDefinition)
