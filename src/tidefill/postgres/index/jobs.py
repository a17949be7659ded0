"""Indexes as jobs: explained, built, dropped, by the connections of a project."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tidefill.core.reasons import Reason
from tidefill.delta.warehouse import Warehouse, prepare_warehouse
from tidefill.errors import BadInput, InvalidSetting, NotOurs, NotYet, TidefillError, Unavailable
from tidefill.extras import with_extra
from tidefill.indexes.control import CONTROL
from tidefill.indexes.shape import Shape, shape_from_text, shape_to_text
from tidefill.indexes.sorting import Sort, chosen
from tidefill.indexes.states import Body, Method
from tidefill.jobs.definitions import (
    IndexDefinition,
    IndexesDefinition,
    LakeDefinition,
    OnServer,
    job_from_text,
)
from tidefill.jobs.graph import definition_of, is_index
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Doing, Job
from tidefill.jobs.settings import BY_SPARK
from tidefill.jobs.wishes import IndexWish
from tidefill.ports.clock import Clock
from tidefill.ports.machine import Finish, Machine, Step, Wait
from tidefill.postgres.connections import Databases, Source
from tidefill.postgres.index import looking, removal
from tidefill.postgres.index.explain import ExplainedIndex, ExplainedIndexes, Sorting
from tidefill.postgres.index.machine import IndexMachine
from tidefill.postgres.index.room import check_server, check_warehouse, free_on_server
from tidefill.postgres.index.session import IndexSession, waits_for
from tidefill.postgres.index.several import SeveralMachine
from tidefill.postgres.index.survey import ROWS, Wanted, survey
from tidefill.postgres.server import PostgresServer
from tidefill.storage.local import local_path, remove_staged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidefill.postgres.index.spark_sort import SparkSort

KIND = "index"
"""Of the resource: `index:connection/id`."""

REMOVE_S = 2.0
HELD_S = 0.2


@dataclass
class Indexes:
    """The indexes of a store. `spark` gives a session, and starts Spark if it has to; chunks are staged in the
    `warehouse`. `waited`: whom the removal of an index waits for, by its id."""

    databases: Databases
    clock: Clock
    spark: Callable[[], SparkSession]
    warehouse: str
    waited: dict[str, frozenset[str]] = field(default_factory=dict)

    def source(self, on: str) -> Source:
        """The table that is meant. Raises BadInput if it is not of a connection."""
        found = self.databases.source(on)
        if found is None:
            known = ", ".join(self.databases.names)
            raise BadInput(
                f"{on} is not a table of a connection",
                detail=f"The connections are {known}." if known else "There are no connections.",
                hint="An index is made on a table of PostgreSQL: name it connection.schema.table.",
            )
        return found

    def explain_several(
        self, name: str, on: str, parts: Sequence[tuple[str, IndexWish]], sort: str | None = None
    ) -> ExplainedIndexes:
        """What several indexes would be. Raises the first reason why one of them cannot be made."""
        if sort in BY_SPARK:
            raise InvalidSetting(
                f"sort = {sort} is for a job with one index",
                hint="Leave it out, or create each index by a statement of its own.",
            )
        each = tuple(self._explained(part, on, one, Sort.SERVER.value) for part, one in parts)
        first, *others = each
        notices = check_server([(one.sizes, one.definition.where) for one in each], first.free)
        each = (replace(first, notices=(*first.notices, *notices)), *others)
        definitions = tuple(one.definition for one in each)
        names = tuple(part for part, _ in parts)
        definition = IndexesDefinition(definitions[0].input, definitions[0].connection, names, definitions)
        return ExplainedIndexes(name, definition, each)

    def explain(self, name: str, on: str, wish: IndexWish, sort: str | None = None) -> ExplainedIndex:
        """What an index would be. `sort`: who shall sort, if somebody says. Raises the first reason why it cannot be
        made."""
        explained = self._explained(name, on, wish, sort)
        where = explained.definition.where
        notices = check_server([(explained.sizes, where)], explained.free)
        if explained.sorting.loads:
            notices += check_warehouse(explained.sizes, where, local_path(self.warehouse))
        return replace(explained, notices=(*explained.notices, *notices))

    def _explained(self, name: str, on: str, wish: IndexWish, sort: str | None) -> ExplainedIndex:
        source = self.source(on)
        if wish.method not in (known := [one.value for one in Method]):
            raise BadInput(f"method is {wish.method!r}", hint=f"There is: {', '.join(known)}.")
        if wish.nulls_not_distinct and not wish.unique:
            raise BadInput(
                "NULLS NOT DISTINCT is for unique indexes", hint="Write CREATE UNIQUE INDEX, or leave it out."
            )
        wanted = Wanted(
            name, source.schema, source.table, wish.columns, wish.include, wish.where, wish.unique,
            wish.nulls_not_distinct,
        )  # fmt: skip
        session = self.databases.server(source.connection).session("tidefill survey")
        try:
            found, free = survey(session, wanted, ""), free_on_server(session)
        finally:
            session.close()
        definition = IndexDefinition(
            source.name, source.connection, wish.columns, wish.include, wish.where, wish.unique, wish.method,
            shape_to_text(found.shape), wish.nulls_not_distinct,
        )  # fmt: skip
        sorting = self._sorting(source.connection, Method(wish.method), sort)
        return ExplainedIndex(
            name, definition, found.rows, found.leaves, found.sizes, sorting, found.notices, found.missing, free
        )

    def _sorting(self, connection: str, method: Method, asked: str | None) -> Sorting:
        """Who sorts, and who loads. Spark is tried on one worker if it shall load."""
        sort, why = chosen(asked, method)
        if method is Method.INITPUT or sort is Sort.SERVER:
            return Sorting(sort, why)
        return Sorting(sort, why, self._who_loads(connection))

    def _who_loads(self, connection: str) -> str:
        """In words. Raises the reason why Spark cannot read from the server."""
        with with_extra("spark"):
            from tidefill.postgres.index.spark_sort import who_loads
            from tidefill.postgres.reader import check_reader
        server, spark = self.databases.server(connection), self.spark()
        check_reader(spark, server)
        return who_loads(spark, server)

    def build(self, job: Job, definition: OnServer) -> Machine[Any]:
        """The machine of the job's generation. Raises UpstreamReplaced if the table or a column of it is gone."""
        if isinstance(definition, IndexDefinition):
            return self._machine(job, definition, job.name, self._id(job))
        machines = [self._machine(job, definition.by_name[name], name, self._id(job, name)) for name in job.part_names]
        return SeveralMachine(machines, self.clock, lambda resource: Retiring(self, [resource]))

    def _machine(self, job: Job, definition: IndexDefinition, name: str, index_id: str) -> IndexMachine:
        server = self.databases.server(definition.connection)
        shape = _current(server, replace(shape_from_text(definition.shape), id=index_id, name=name))
        session = IndexSession(server, shape, job.lease.fence)
        resource = Resource(KIND, f"{definition.connection}/{index_id}")

        def rows() -> int:
            return int(session.one(ROWS.format(relation=shape.relation))[0])

        method = Method(definition.method)
        is_sorted = job.settings.sort != Sort.NONE.value
        spark = self._spark_sort(job, server, rows) if method is Method.BULK else None
        return IndexMachine(session, self.clock, resource, method, rows, is_sorted=is_sorted, spark=spark)

    def _spark_sort(self, job: Job, server: PostgresServer, rows: Callable[[], int]) -> SparkSort | None:
        """What fills the index through Spark, if that is to be done: not for one that is public."""
        if job.settings.sort not in BY_SPARK or job.published == job.generation:
            return None
        with with_extra("spark"):
            from tidefill.postgres.index.spark_sort import SparkSort
            from tidefill.spark.session import job_session
        prepare_warehouse(self.warehouse)
        folder = Warehouse(self.warehouse).path(job, job.generation)

        def remove() -> None:
            remove_staged(self.warehouse, folder, job.id)

        return SparkSort(lambda: job_session(self.spark()), server, folder, remove, Sort(job.settings.sort), rows)

    def _id(self, job: Job, part: str = "") -> str:
        """What all names of one generation of an index begin with. One of several has its number at the end."""
        own = f"ix_{self.databases.mark}_{job.id}_{job.generation}"
        definition = job_from_text(job.definition)
        if not part or not isinstance(definition, IndexesDefinition):
            return own
        return f"{own}_p{definition.names.index(part) + 1}"

    def violations(self, job: Job, part: str) -> list[tuple[str, int, str]]:
        """The keys that several rows had when the build failed: key, how many rows, and the first of them. `part`: one
        of several indexes."""
        session = self._session(job, self._id(job, part))
        try:
            if session.control() is None:
                return []
            row = session.one(f"SELECT report FROM {CONTROL} WHERE id = %s", (session.shape.id,))
        finally:
            session.close()
        keys = row[0]["keys"] if row is not None and row[0] is not None else []
        return [(one["key"], one["count"], ", ".join(one["rows"])) for one in keys]

    # Going away.

    def retiring(self, job: Job) -> Retiring | None:
        """What has to happen before a dropped index is gone; None if the job is no index, or has made nothing."""
        made = [one for one in job.resources if one.kind == KIND]
        return Retiring(self, made) if made and is_index(job) else None

    def remove(self, job: Job, resource: Resource) -> None:
        """Remove an index that this job made, if it is there. Unavailable while writers still run its trigger."""
        index_id = resource.name.partition("/")[2]
        known = re.fullmatch(rf"ix_\w+_{re.escape(job.id)}_[1-9][0-9]*(_p[1-9][0-9]*)?", index_id)
        if not known or not is_index(job):
            raise NotOurs(f"{resource} is not removed", detail="Its name is not one that this job gives.")
        session = self._session(job, index_id)
        try:
            if session.control() is None:
                removal.forget(session)
                return
            removal.stop(session)
            if not looking.writers_end(session, REMOVE_S):
                raise Unavailable(f"the index {job.name} cannot be removed yet", detail=waits_for(session.writers()))
            removal.clear(session)
            removal.forget(session)
        except NotYet as error:
            raise Unavailable(error.fact, detail=error.detail) from error
        finally:
            session.close()

    def _session(self, job: Job, index_id: str) -> IndexSession:
        """A session for one index of the job, of any generation."""
        definition, name = _definition(job, index_id)
        shape = replace(shape_from_text(definition.shape), id=index_id, name=name)
        return IndexSession(self.databases.server(definition.connection), shape, job.lease.fence)


@dataclass(frozen=True, slots=True)
class Retiring:
    """A dropped index: its trigger is stopped, then writers that still run it have to end, then all of it goes."""

    indexes: Indexes
    made: list[Resource]

    def retire(self, job: Job) -> Step | Wait | Finish:
        """What is next."""
        for resource in self.made:
            found = self._next(job, resource)
            if not isinstance(found, Finish):
                return found
        return Finish()

    def _next(self, job: Job, resource: Resource) -> Step | Wait | Finish:
        session = self._session(job, resource)
        try:
            control = session.control()
            if control is None:
                return Finish()
            if control.body is not Body.ABSENT:
                return Step(Doing("stopping the trigger", self.indexes.clock.now_s()), (resource, "stop"))
            writers, waited = session.writers(), self.indexes.waited
            known = waited.setdefault(session.shape.id, frozenset(one.transaction for one in writers))
            held = [one for one in writers if one.transaction in known]
            waited[session.shape.id] = frozenset(one.transaction for one in held)
            if held:
                return Wait(Reason.WAITING_FOR_TRANSACTIONS, waits_for(held), for_s=HELD_S)
            return Step(Doing("removing the index", self.indexes.clock.now_s()), (resource, "clear"))
        finally:
            session.close()

    def _session(self, job: Job, resource: Resource) -> IndexSession:
        return self.indexes._session(job, resource.name.partition("/")[2])

    def execute(self, job: Job, plan: Step) -> None:
        """Stop it, or remove it."""
        resource, what = plan.work
        session = self._session(job, resource)
        try:
            if what == "stop":
                removal.stop(session)
                return
            removal.clear(session)
            removal.forget(session)
            self.indexes.waited.pop(session.shape.id, None)
        finally:
            session.close()

    def abandon(self, job: Job, error: TidefillError) -> None:
        """The machine could not be built: an index that is not public does nothing to writers from now on."""
        for resource in self.made:
            session = self._session(job, resource)
            try:
                control = session.control()
                if control is not None and not control.is_public:
                    removal.stop(session)
            finally:
                session.close()


def _definition(job: Job, index_id: str) -> tuple[IndexDefinition, str]:
    """Of one index of the job, and its name. Raises StoreUnreadable if the job's definition cannot be read."""
    definition = definition_of(job)
    assert not isinstance(definition, LakeDefinition), "only indexes come here"
    if isinstance(definition, IndexDefinition):
        return definition, job.name
    number = int(index_id.rpartition("_p")[2]) - 1
    return definition.indexes[number], definition.names[number]


def _current(server: PostgresServer, shape: Shape) -> Shape:
    session = server.session("tidefill survey")
    try:
        return looking.with_names_of_now(session, shape)
    finally:
        session.close()
