"""The Python API: name tables, create replicas and views of them, run the jobs, and look at what they have made.

Wishes (pause, drop ...) go to the store and never start Spark. The runner of the store's jobs acts on them: `run`,
`run_once`, `Job.wait`, here or in another process.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, assert_never

from tidefill.core.sizing import FIRST_ROWS, Sizing
from tidefill.engine.clock import SystemClock
from tidefill.engine.creating import NOTICE, Creating
from tidefill.engine.heads import heads_of_inputs
from tidefill.engine.index_jobs import BULK, IndexJobs, IndexWords, is_built_by_server
from tidefill.engine.inputs import Inputs
from tidefill.engine.job import Job, Jobs
from tidefill.engine.lakes import Lake, Lakes
from tidefill.engine.removers import Removers
from tidefill.engine.replicas import ReplicaJobs, ReplicaWords
from tidefill.engine.tables import Table, absolute, names_of, registered_as
from tidefill.errors import BadInput, UnknownJob
from tidefill.extras import with_extra
from tidefill.jobs import row as jobs
from tidefill.jobs.definitions import (
    FullViewDefinition,
    LakeDefinition,
    LakeIndexDefinition,
    OnServer,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TableDefinition,
    TopicReplicaDefinition,
    job_from_text,
    table_to_text,
)
from tidefill.jobs.graph import Graph, definition_of, inputs_of, names_needed, names_read, source_of
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Registered, ends
from tidefill.jobs.row import Job as Row
from tidefill.jobs.row import Settings, name_key
from tidefill.jobs.settings import AUTO, changed_settings, check_use, is_full, settings_of_view
from tidefill.jobs.status import Status, status_of
from tidefill.jobs.wishes import ViewWish, Wish, same_wish
from tidefill.kafka.connections import NO_TOPICS, Topics, topic_words
from tidefill.ports.machine import Machine
from tidefill.postgres.connections import Databases
from tidefill.run.backfill import Backfill
from tidefill.run.catch_up import CatchUp
from tidefill.run.log_file import Log
from tidefill.run.machine import BackfillMachine
from tidefill.run.owner_process import is_gone, new_owner
from tidefill.run.runner import LEASE_S, Runner
from tidefill.run.scheduler import Scheduler
from tidefill.store.place import is_url
from tidefill.store.sql_store import SqlStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidefill.delta.explain_result import Explained
    from tidefill.postgres.index.explain import ExplainedIndex, ExplainedIndexes
    from tidefill.sql.result import Result

STORE_FILE = "jobs.db"
LOG_FOLDER = ".tidefill"
FIRST_FORWARD_S = 5.0  # what a MERGE costs, about


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened to a job, in seconds since 1970. Later things have a greater number."""

    number: int
    at_s: float
    job: str
    text: str


class Engine:
    """Everything that can be done with one store, one warehouse and one Spark. `spark`: a session, or what starts one.
    `logs`: the folder of the log, if the store has none because it is a database. `catalog_lasts`: Spark's catalog may
    outlive this process.

    Threads may share an engine: one may `run` while others create jobs, wish, look, query and `wait`. Each call of
    `run`, `run_once` or `wait` is a runner of its own: it holds leases under its own name, and runs each job in a Spark
    session of the job's own. `close` it when all of them have returned."""

    def __init__(
        self,
        spark: SparkSession | Callable[[], SparkSession] | None,
        warehouse: str,
        store: str | os.PathLike[str],
        starting: Callable[[], AbstractContextManager[object]] = nullcontext[None],
        connections: Iterable[str] = (),
        url_of: Callable[[str], str] = str,
        logs: str | os.PathLike[str] = LOG_FOLDER,
        *,
        catalog_lasts: bool = True,
        topics: Topics = NO_TOPICS,
    ) -> None:
        folder = Path(logs if is_url(store) else store)
        self._store: SqlStore = open_store(os.fspath(store) if is_url(store) else folder / STORE_FILE)
        self._databases = Databases(tuple(connections), url_of, self._store.store_id)
        self._topics = topics
        self._lakes = Lakes(spark, warehouse, self._databases, topics, starting, catalog_lasts=catalog_lasts)
        self._inputs = Inputs(self._store, self._databases, topics, self._lakes.lake)
        self._replicas = ReplicaJobs(self._databases, topics, self._inputs, self._lakes.lake)
        self._clock = SystemClock()
        self._creating = Creating(self._store, self._clock, self._inputs, self._lakes.lake)
        self._indexes = IndexJobs(self._store, self._databases, self._clock, self._inputs, self._lakes.lake, warehouse)
        self._removers = Removers(warehouse, self._databases, topics, self._lakes, self._indexes)
        self._log = Log(_made(folder))

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *ignored: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store. A Spark that was started stays, as others may use it."""
        self._store.close()
        self._log.close()

    @property
    def spark(self) -> SparkSession:
        """The session that was given, or a local one."""
        return self._lake.spark

    @property
    def uses_spark(self) -> bool:
        """Whether a Spark was needed so far."""
        return self._lakes.started

    @property
    def _lake(self) -> Lake:
        return self._lakes.lake()

    def needs_spark(self) -> bool:
        """Whether a runner of this store would start Spark: not for most indexes, and not if all jobs are to end, and
        none is in a catalog."""
        rows = [row for row in self._store.jobs() if row.life is not Life.DROPPED and not is_built_by_server(row)]
        return any(not ends(row) or (row.published is not None and self._lakes.may_have_views()) for row in rows)

    # Tables.

    def register(
        self,
        name: str,
        *,
        key: Sequence[str] | str,
        location: str | os.PathLike[str] | None = None,
        table: str | None = None,
        walk: Sequence[str] | str = (),
    ) -> None:
        """Name a Delta table, by its location or by its name in the catalog, and say which columns identify a row."""
        if (location is None) == (table is None):
            raise BadInput("a table is registered by its location or by its name in the catalog: give one of the two")
        where = self._lake.tables.location_of(table) if location is None and table is not None else absolute(location)
        definition = TableDefinition(where, names_of(key), names_of(walk))
        self._lake.tables.check_table(definition)
        self._store.register(Registered(name, table_to_text(definition)))

    def unregister(self, name: str) -> None:
        """Forget the name; the table stays as it is."""
        self._store.unregister(name, names_needed)

    def tables(self) -> list[str]:
        """The names of the registered tables."""
        return [table.name for table in self._store.tables()]

    def registered(self) -> list[Table]:
        """The registered tables."""
        return [registered_as(table) for table in self._store.tables()]

    # Jobs.

    def create_replica(
        self,
        name: str,
        source: str,
        *,
        if_not_exists: bool = False,
        publication: str = "",
        slot: str = "",
        **settings: Any,
    ) -> Job:
        """A Delta table that stays equal to the source: a table of ours, or `connection.schema.table` of PostgreSQL,
        with a publication and a slot that somebody made for it, or ones of its own; or `connection.topic` of Kafka,
        with `format`, `columns`, `include`, `begin` and `on_bad_message`. The rest is as for `create_view`."""
        topic, settings = topic_words(settings)
        words = ReplicaWords(publication, slot, topic)
        wish = self._replicas.wish(source, words)
        job = self._attached(name, wish, if_not_exists)
        if job is not None:
            return job
        return self._create(name, wish, self._replicas.explain(source, words, settings), settings)

    def create_view(
        self,
        name: str,
        sql: str,
        *,
        if_not_exists: bool = False,
        replace: bool = False,
        refresh: str | None = None,
        **settings: Any,
    ) -> Job:
        """A materialized view that stays fresh. Settings, all optional: `target_lag` ("30 seconds"), `rate_limit` (rows
        per second), `parallelism` (chunks at a time), `chunk_rows`. The same view again is the same job; with
        `if_not_exists` so is whatever job has the name. `refresh`: "auto" takes changes in by steps or by a recompute,
        whichever took less time before; "incremental" by steps alone; "full": any deterministic query, computed from
        nothing when its inputs have changed, but not sooner than `target_lag` (10 minutes) after the last time.
        `replace`: a view that has the name gets this query; its readers see the old rows until the new ones are there.
        Settings that are not given stay as they are then."""
        wish = ViewWish(sql, is_full(refresh or AUTO))
        if replace and if_not_exists:
            raise BadInput("a view that is there is replaced or left as it is", hint="Leave one of the two words out.")
        if replace and (known := self._creating.view_to_replace(name)) is not None:
            return self._replace(known, wish, refresh, settings)
        job = self._attached(name, wish, if_not_exists)
        if job is not None:
            return job
        explained = self.explain_view(sql, refresh=refresh, **settings)
        return self._create(name, wish, explained, settings_of_view(refresh, settings))

    def _replace(self, known: Row, wish: ViewWish, refresh: str | None, settings: dict[str, Any]) -> Job:
        """The view with this wish; its settings alone are altered if it was made by the same wish."""
        job, asked = Job(self, known.id, known.name), settings_of_view(refresh, settings)
        if not same_wish(wish, job_from_text(known.newest_definition)):
            self._creating.replace(known, self.explain_view(wish.sql, refresh=refresh, **settings), asked)
        elif asked:
            job.alter(**asked)
        return job

    def create_index(
        self,
        name: str,
        on: str,
        columns: Sequence[str] | str,
        *,
        unique: bool = False,
        nulls_not_distinct: bool = False,
        include: Sequence[str] | str = (),
        where: str = "",
        method: str = BULK,
        if_not_exists: bool = False,
        **settings: Any,
    ) -> Job:
        """An index on a table of PostgreSQL, `connection.schema.table`, across all of its partitions: columns, or
        expressions in parentheses, and `where` are SQL of that server, and `rate_limit` and `chunk_rows` are settings.
        Or on a Delta table: a view that is laid out by the index's key, with the settings of a view."""
        key, more, nulls = names_of(columns), names_of(include), nulls_not_distinct
        wish = self._indexes.wish(on, key, more, where, method, unique=unique, nulls_not_distinct=nulls)
        job = self._attached(name, wish, if_not_exists)
        if job is not None:
            return job
        if not wish.method:
            return self._create(name, wish, self._indexes.explain_lake(on, wish, settings), settings)
        return self._created(self._indexes.explain(name, on, wish, settings), settings)

    def explain_index(
        self,
        name: str,
        on: str,
        columns: Sequence[str] | str,
        *,
        unique: bool = False,
        nulls_not_distinct: bool = False,
        include: Sequence[str] | str = (),
        where: str = "",
        method: str = BULK,
        **settings: Any,
    ) -> ExplainedIndex | Explained:
        """What `create_index` would do: on a server method and why, states, locks, cost of a written row; on a Delta
        table the same as of a view."""
        key, more, nulls = names_of(columns), names_of(include), nulls_not_distinct
        wish = self._indexes.wish(on, key, more, where, method, unique=unique, nulls_not_distinct=nulls)
        if not wish.method:
            return self._indexes.explain_lake(on, wish, settings)
        return self._indexes.explain(name, on, wish, settings)

    def create_indexes(
        self,
        name: str,
        on: str,
        indexes: IndexWords,
        *,
        method: str = BULK,
        if_not_exists: bool = False,
        **settings: Any,
    ) -> Job:
        """Several global indexes over one table, by one job and one scan. `indexes`: of each name what `create_index`
        takes: `{"by_email": {"columns": "email", "unique": True}}`."""
        wish = self._indexes.wish_of_several(on, indexes, method)
        job = self._attached(name, wish, if_not_exists)
        if job is not None:
            return job
        return self._created(self._indexes.explain_several(name, on, wish, settings), settings)

    def explain_indexes(
        self, name: str, on: str, indexes: IndexWords, *, method: str = BULK, **settings: Any
    ) -> ExplainedIndexes:
        """What `create_indexes` would do."""
        wish = self._indexes.wish_of_several(on, indexes, method)
        return self._indexes.explain_several(name, on, wish, settings)

    def backfill_indexes(self, on: str) -> Job | None:
        """Begin all indexes of a table that were created with `start = deferred`, by one job and one scan; None if
        there are none."""
        row = self._indexes.begin_deferred(on)
        return None if row is None else Job(self, row.id, row.name)

    def _created(self, explained: ExplainedIndex | ExplainedIndexes, settings: Mapping[str, Any]) -> Job:
        row, is_new = self._indexes.create(explained, settings)
        for notice in explained.notices if is_new else ():
            self._store.add_event(row.id, self._clock.now_s(), f"{NOTICE}{notice}")
        return Job(self, row.id, row.name)

    def is_of_table(self, definition: OnServer | LakeIndexDefinition, table: str) -> bool:
        """Whether the index is on that table; an empty name means any."""
        return self._indexes.is_of_table(definition, table)

    def explain_replica(self, source: str, *, publication: str = "", slot: str = "", **settings: Any) -> Explained:
        """What `create_replica` would do: key, walk and why, rows."""
        topic, settings = topic_words(settings)
        return self._replicas.explain(source, ReplicaWords(publication, slot, topic), settings)

    def explain_view(
        self, sql: str, *, refresh: str | None = None, replaces: str | None = None, **settings: Any
    ) -> Explained:
        """What `create_view` would do: key, walk and why, rows. `replaces`: the name of a view that would get the
        query, if there is one; raises what stands against that."""
        changed_settings(Settings(), settings)
        known = None if replaces is None else self._creating.view_to_replace(replaces)
        if is_full(refresh or AUTO):
            explained = self._lake.definer.explain_full(self._inputs.checked, sql)
        else:
            explained = self._lake.definer.explain_view(self._inputs.keyed, sql)
            more = self._inputs.notices(explained.definition.tables)
            explained = replace(explained, notices=(*explained.notices, *more))
        check_use(explained.definition, settings)
        self._inputs.refuse_mixtures(explained.definition.tables)
        if known is not None:
            self._creating.check_readers(known, explained)
        return explained

    def _attached(self, name: str, wish: Wish, any_will_do: bool) -> Job | None:
        row = self._creating.attached(name, wish, any_will_do)
        return None if row is None else Job(self, row.id, row.name)

    def _create(self, name: str, wish: Wish, explained: Explained, asked: dict[str, Any]) -> Job:
        row = self._creating.create(name, wish, explained, asked)
        return Job(self, row.id, row.name)

    def job(self, name: str) -> Job:
        """The job of that name."""
        row = self._store.find(name)
        if row is None:
            raise UnknownJob(f"there is no job {name}", hint="SHOW JOBS, or engine.jobs(), lists them.")
        return Job(self, row.id, row.name)

    def jobs(self) -> Jobs:
        """All jobs that are not dropped, by name."""
        return Jobs(Job(self, row.id, row.name) for row in self._store.jobs() if row.life is not Life.DROPPED)

    def statuses(self) -> list[Status]:
        """How all jobs stand that are not dropped, by name."""
        return [self._status(row) for row in self._store.jobs() if row.life is not Life.DROPPED]

    def _status(self, row: Row) -> Status:
        return status_of(row, self._clock.now_s(), is_gone)

    def events(self, after: int = 0) -> list[Happened]:
        """What happened to all jobs after the event of that number, oldest first. A dropped job's are kept for a
        minute."""
        found = self._store.events_after(after)
        names = {row.id: row.name for row in self._store.jobs()} if found else {}
        return [Happened(number, at_s, names.get(job_id, job_id), text) for number, job_id, at_s, text in found]

    # What they made.

    def table(self, name: str) -> DataFrame:
        """A registered table, or what a live job has made."""
        location = self._inputs.live(name).location
        return self._lake.tables.table(location)

    def query(self, sql: str) -> DataFrame:
        """The rows of a SELECT. It sees registered tables and what live jobs have made, without hidden columns; other
        names are the catalog's."""
        with with_extra("spark"):
            from tidefill.spark.query import query
            from tidefill.views.reading.names import names_read as names_in
        locations = {name: self._inputs.location(name, certain=certain) for name, certain in names_in(sql).items()}
        return query(self.spark, sql, {name: location for name, location in locations.items() if location})

    def execute(self, sql: str) -> Result:
        """Execute SQL statements, separated by semicolons, and return what the last one gives. All of them are read
        before the first is executed."""
        with with_extra("spark"):
            from tidefill.sql.script import last_result
        return last_result(self, sql)

    # Running.

    def run(self, stop: threading.Event | None = None) -> None:
        """Run every job of the store, until told to stop."""
        self.scheduler().run(stop or threading.Event())

    def run_once(self, stop: threading.Event | None = None) -> None:
        """Bring every job to the newest version that its input has now, in the order of their dependence; or as far as
        it comes until told to stop."""
        service = self.scheduler(hurry=True)
        heads = partial(heads_of_inputs, self._databases, self._topics, self._inputs, self._lakes.lake)
        CatchUp(self._store, service, heads).run(stop or threading.Event())

    def scheduler(self, *, hurry: bool = False) -> Scheduler:
        """A runner of all jobs, for who takes turns by himself. It has an owner of its own: two that shared one would
        each take the other's leases for theirs, and go on from what they remember while the other moves the job.
        `hurry`: no job waits for its target lag."""
        owner = new_owner()
        runner = Runner(
            self._store, self._clock, self._build, self._removers, owner, lambda: uuid.uuid4().hex,
            source=self._source, is_gone=is_gone, hurry=hurry, graph_of=self._graph_of,
            log=self._log.logger, lost=self._lakes.lost, retires=self._indexes.retiring,
        )  # fmt: skip
        return Scheduler(self._store, runner, self._clock, owner, self._graph_of, self._log.logger, runner.let_go)

    def _others_run(self, job_id: str) -> bool | None:
        """Whether a live runner has the job; None if none has, but one has other jobs, and so may come to this one."""
        now_s, rows = self._clock.now_s(), self._store.jobs()
        held = [row.id for row in rows if jobs.is_held(row.lease, now_s, LEASE_S, is_gone)]
        return True if job_id in held else None if held else False

    def _graph_of(self, rows: Sequence[Row]) -> Graph:
        return Graph(rows, partial(inputs_of, locations=self._locations))

    def _locations(self) -> dict[str, str]:
        """Of the registered tables, by the keys of their names."""
        return {name_key(table.name): table.location for table in self.registered() if table.location}

    def _source(self, row: Row, graph: Graph | None) -> str:
        """The generations of other jobs that it reads, if they are live; empty if it reads tables. By this graph, or as
        it is now."""
        found = map(self._store.find, names_read(row)) if graph is None else graph.inputs_by_name(row)
        return source_of(found)

    def _build(self, row: Row) -> Machine[Any]:
        definition = definition_of(row)
        if isinstance(definition, OnServer):
            return self._indexes.build(row, definition)
        backfill = self._backfill(row, definition)
        return BackfillMachine(backfill, self._clock, start=Sizing(FIRST_ROWS), forward_s=FIRST_FORWARD_S)

    def _backfill(self, row: Row, definition: LakeDefinition) -> Backfill[Any]:
        match definition:
            case ServerReplicaDefinition():
                return self._lake.replicas.build(row, definition)
            case TopicReplicaDefinition():
                return self._lake.topic_replicas.build(row, definition)
            case ReplicaDefinition() | RowViewDefinition() | PlannedViewDefinition() | FullViewDefinition():
                begins = not (row.source or row.anchor)
                inputs = {table: self._inputs.live(table, begins=begins) for table in definition.tables}
                return self._lake.builder.build(row, definition, inputs)
            case never:
                assert_never(never)


def _made(folder: Path) -> Path:
    """The folder for the log, made if it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder {folder}, for the log, cannot be made", detail=f"{error.strerror}.") from error
    return folder
