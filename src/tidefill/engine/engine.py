"""The Python API: name tables, create replicas and views of them, run the jobs, and look at what they have made.

Wishes (pause, drop ...) go to the store and never start Spark. Whoever runs the store's jobs acts on them: `run`,
`run_once`, `Job.wait`, here or in another process.
"""

from __future__ import annotations

import html
import os
import re
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidefill.config import SPARK_REMOTE, Config
from tidefill.core.budget import Kept
from tidefill.core.confirm import Anchor, anchor_from_text
from tidefill.core.keys import Key
from tidefill.core.sizing import CEILING_ROWS, FIRST_ROWS, Sizing
from tidefill.core.step import Reason
from tidefill.core.version import Number, Point, includes
from tidefill.errors import (
    BadInput,
    HistoryGone,
    InvalidSetting,
    JobFailed,
    NotOurs,
    NotYet,
    RetryLater,
    SparkLost,
    StoreUnreadable,
    TidefillError,
    TimedOut,
    Unavailable,
    UnknownJob,
    UnknownTable,
    Unreadable,
    UnsupportedQuery,
    WrongState,
)
from tidefill.extras import with_extra
from tidefill.jobs import agreement as ticks
from tidefill.jobs import row as jobs
from tidefill.jobs.agreement import Reads
from tidefill.jobs.definitions import (
    INPUT,
    JobDefinition,
    Kind,
    TableDefinition,
    job_from_text,
    job_to_text,
    table_from_text,
    table_to_text,
    tables_in,
)
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Registered, ends
from tidefill.jobs.row import Job as Row
from tidefill.jobs.row import Pause, Settings, name_key
from tidefill.jobs.settings import ANEW_LAG_S, INCREMENTAL, changed_settings, check_use, is_anew
from tidefill.jobs.status import Status as Status
from tidefill.jobs.status import readable_anchor, status_of, version_of
from tidefill.ports import Compared
from tidefill.postgres.connections import Databases
from tidefill.run.lease_owner import is_gone, new_owner
from tidefill.run.log_file import Log
from tidefill.run.runner import LEASE_S, Runner, Turn, versions_from_text
from tidefill.run.scheduler import Service
from tidefill.storage.local import is_folder_of_job, remove_made
from tidefill.store.place import is_url
from tidefill.store.sql_store import SqlStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidefill.delta.lake import Explained, Input, Lake
    from tidefill.sql.execute import Result

STORE_FILE = "jobs.db"
NOTICE = "notice: "  # begins an event that tells what a person should know of a job that was created
LOG_FOLDER = ".tidefill"
WAIT_POLL_S = 0.2
NEW_JOB_S = 2.0  # an idle runner sees a new job within STORE_POLL_S; one that is busy may take minutes
FIRST_FORWARD_S = 5.0  # what a MERGE costs, about
RUN_ONCE_TURNS_MAX = 100_000
VERIFY_ATTEMPTS = 5  # at one piece
DIFFERENCES_MAX = 10
NEVER = Number(1 << 62)  # a version that no table has


def connect(
    spark: SparkSession | None = None,
    warehouse: str | os.PathLike[str] = "lake",
    store: str | os.PathLike[str] = ".tidefill",
    connections: Mapping[str, str] | None = None,
) -> Engine:
    """An engine over the store in that directory, or in the PostgreSQL database at that URL (its log is then in
    ./.tidefill). Without a session, a local Spark is started when it is needed. `connections`: the URLs of databases,
    by the names that they have here."""
    urls = dict(connections or {})
    lasts = spark is not None
    return Engine(spark, os.fspath(warehouse), store, connections=urls, url_of=urls.__getitem__, catalog_lasts=lasts)


def connect_as(config: Config, starting: Callable[[], AbstractContextManager[object]] = nullcontext[None]) -> Engine:
    """An engine with the settings of a project. `starting` is entered while Spark starts."""

    def start() -> SparkSession:
        from tidefill.spark.session import local_session, remote_session

        settings = dict(config.spark)
        remote = settings.pop(SPARK_REMOTE, None)
        return local_session(extra_conf=settings) if remote is None else remote_session(remote, settings)

    names = [connection.name for connection in config.connections]
    place, logs = config.store_place(), config.log_folder
    lasts = any(word in name for name in dict(config.spark) for word in (SPARK_REMOTE, "catalog", "hive"))
    return Engine(
        start, config.warehouse, place, starting, names, config.connection_url, logs, catalog_lasts=lasts
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Verified:
    """A comparison of a target with a recompute: as of which version of its input (if those have numbers), of how many
    rows, how long it took, and up to ten rows that differ. A view is compared with what Spark makes of the user's own
    query; `notes` say what was settled in it that the query leaves open."""

    version: int | None
    rows: int
    took_s: float
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class SystemClock:
    """The machine's time."""

    def now_s(self) -> float:
        """Now."""
        return time.time()


@dataclass(frozen=True, slots=True)
class Table:
    """A registered table: by which name, where it is, what identifies a row. `walk` is empty if none was given.
    `unreadable`: why this release does not know the rest, if it cannot read the definition."""

    name: str
    location: str
    key: tuple[str, ...]
    walk: tuple[str, ...]
    unreadable: str = ""


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
    ) -> None:
        self._given = spark
        self._catalog_lasts = catalog_lasts
        self._starting = starting
        self._warehouse = warehouse
        folder = Path(logs if is_url(store) else store)
        self._store: SqlStore = open_store(os.fspath(store) if is_url(store) else folder / STORE_FILE)
        self._databases = Databases(tuple(connections), url_of, self._store.store_id)
        self._log = Log(_made(folder))
        self._clock = SystemClock()
        self._made: Lake | None = None
        self._making = threading.Lock()

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
    def _lake(self) -> Lake:
        with self._making:
            if self._made is None:
                with self._starting(), with_extra("spark"):
                    self._made = self._make_lake()
        from tidefill.spark.session import make_active

        make_active(self._made.spark)
        return self._made

    def _make_lake(self) -> Lake:
        from tidefill.delta.lake import Lake, prepare_warehouse
        from tidefill.spark.session import check_session, local_session

        prepare_warehouse(self._warehouse)
        if self._given is None:
            spark = local_session()
        else:
            spark = self._given() if callable(self._given) else check_session(self._given)
        return Lake(spark, self._warehouse, self._databases)

    def _may_have_views(self) -> bool:
        """Whether there may be views of jobs in Spark's catalog now. A Spark of our own keeps its catalog in memory, so
        while none runs in this process there are none."""
        if self._made is not None or self._catalog_lasts or {"SPARK_HOME", "SPARK_CONF_DIR"} & os.environ.keys():
            return True
        if "pyspark" not in sys.modules:
            return False
        from tidefill.spark.session import runs_here

        return runs_here()

    def needs_spark(self) -> bool:
        """Whether a runner of this store would start Spark: not if all jobs are to end, and none is in a catalog."""
        rows = [row for row in self._store.jobs() if row.life is not Life.DROPPED]
        return any(not ends(row) or (row.published is not None and self._may_have_views()) for row in rows)

    def _lost(self, error: Exception) -> RetryLater | None:
        """What to raise if the error came because Spark is gone: another one is started next time, unless the session
        was given."""
        if self._made is None:
            return None
        from tidefill.spark.session import forget, is_gone

        if not is_gone(self._made.spark, error):
            return None
        detail = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
        if self._given is not None and not callable(self._given):
            hint = "Start Spark again, then run the jobs with a new session. They go on from where they are."
            return SparkLost("the Spark session that was given is gone", detail=detail, hint=hint)
        forget(self._made.spark)
        self._made = None
        return Unavailable("Spark does not answer any more, so another session is started", detail=detail)

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
        where = self._lake.location_of(table) if location is None and table is not None else _absolute(location)
        definition = TableDefinition(where, _names(key), _names(walk))
        self._lake.check_table(definition)
        self._store.register(Registered(name, table_to_text(definition)))

    def unregister(self, name: str) -> None:
        """Forget the name; the table stays as it is."""
        self._store.unregister(name, _names_read)

    def tables(self) -> list[str]:
        """The names of the registered tables."""
        return [table.name for table in self._store.tables()]

    def registered(self) -> list[Table]:
        """The registered tables."""
        return [_registered(table) for table in self._store.tables()]

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
        with a publication and a slot that somebody made for it, or ones of its own. The rest is as for
        `create_view`."""
        elsewhere = self._databases.source(source, publication, slot)

        def same(known: JobDefinition) -> bool:
            wanted = source if elsewhere is None else elsewhere.name
            return known.kind is Kind.REPLICA and name_key(known.input) == name_key(wanted)

        job = self._attached(name, same, if_not_exists)
        if job is not None:
            return job
        explained = self.explain_replica(source, publication=publication, slot=slot, **settings)
        return self._create(name, explained, settings)

    def create_view(
        self, name: str, sql: str, *, if_not_exists: bool = False, refresh: str = INCREMENTAL, **settings: Any
    ) -> Job:
        """A materialized view that stays fresh. Settings, all optional: `target_lag` ("30 seconds"), `rate_limit` (rows
        per second), `parallelism` (chunks at a time), `chunk_rows`. The same view again is the same job; with
        `if_not_exists` so is whatever job has the name. `refresh="full"`: any deterministic query, computed from
        nothing when its inputs have changed, but not sooner than `target_lag` (10 minutes) after the last time."""
        anew = is_anew(refresh)

        def same(known: JobDefinition) -> bool:
            return known.kind is Kind.VIEW and (known.sql, known.anew) == (sql, anew)

        job = self._attached(name, same, if_not_exists)
        return job or self._create(name, self.explain_view(sql, refresh=refresh, **settings), settings)

    def explain_replica(self, source: str, *, publication: str = "", slot: str = "", **settings: Any) -> Explained:
        """What `create_replica` would do: key, walk and why, rows."""
        changed_settings(Settings(), settings)
        elsewhere = self._databases.source(source, publication, slot)
        if elsewhere is not None:
            explained = self._lake.explain_database_replica(elsewhere)
            check_use(explained.definition, settings)
            return explained
        if publication or slot:
            raise InvalidSetting(
                f"{source} is not of another database, so it has no publication and no slot",
                hint="Name a table as connection.schema.table, with a connection of tidefill.toml.",
            )
        self._refuse_unknown_connection(source)
        table = self._keyed_input((source,))
        explained = self._lake.explain_replica(table, table.name)
        check_use(explained.definition, settings)
        return explained

    def _refuse_unknown_connection(self, source: str) -> None:
        """A name with a dot is neither a registered table nor a job, so a connection may have been meant."""
        connection, dot, _ = source.partition(".")
        if not dot or self._store.table(source) is not None or self._store.find(source) is not None:
            return
        known = ", ".join(self._databases.names)
        raise UnknownTable(
            f"there is no connection {connection}, and no table {source}",
            detail=f"The connections are {known}." if known else "There are no connections.",
            hint=f'Write [connections.{connection}] with url = "env:VARIABLE" into tidefill.toml. A table of the '
            f"catalog is registered first: {_how_to_register(source)}",
        )

    def explain_view(self, sql: str, *, refresh: str = INCREMENTAL, **settings: Any) -> Explained:
        """What `create_view` would do: key, walk and why, rows."""
        changed_settings(Settings(), settings)
        if is_anew(refresh):
            explained = self._lake.explain_anew(self._checked_input, sql)
        else:
            explained = self._lake.explain_view(self._keyed_input, sql)
        check_use(explained.definition, settings)
        self._refuse_mixtures(explained.definition.tables)
        return explained

    def _refuse_mixtures(self, tables: Sequence[str]) -> None:
        """Two replicas of one table of another database stand at two versions of it: its versions have no numbers by
        which they could go in step."""
        seen: dict[str, str] = {}
        rows = _by_name(self._store.jobs())
        for table in tables:
            for source, replica in _replicas_below(table, rows).items():
                if seen.setdefault(source, replica) != replica:
                    raise UnsupportedQuery(
                        f"{seen[source]} and {replica} are replicas of one table, and may stand at two versions of it",
                        hint=f"Write the query over {replica} alone.",
                    )

    def _checked_input(self, parts: tuple[str, ...]) -> Input:
        """The input, if it can be read as it is: what was so when a table was registered may have changed."""
        found = self._input(parts)
        table = self._store.table(found.name)
        if table is not None:
            self._lake.check_table(table_from_text(table.definition))
        return found

    def _keyed_input(self, parts: tuple[str, ...]) -> Input:
        """The same, if its changes can be followed."""
        found = self._checked_input(parts)
        if not found.key:
            raise UnsupportedQuery(
                f"{found.name} is computed anew as a whole: its rows have no key by which changes could be followed",
                hint="Create the view over it WITH (refresh = full) too, or over the inputs of it.",
            )
        return found

    def _attached(self, name: str, same: Callable[[JobDefinition], bool], any_will_do: bool) -> Job | None:
        row = self._store.find(name)
        if row is None or not (any_will_do or _is(same, row)):
            return None
        if ends(row):
            raise WrongState(f"{row.name} is being dropped", hint="Create it again when it is gone.")
        return Job(self, row.id, row.name)

    def _create(self, name: str, explained: Explained, asked: dict[str, Any]) -> Job:
        definition = explained.definition
        usual = Settings(chunk_rows=explained.chunk_rows)
        if definition.anew:
            usual = replace(usual, target_lag_s=ANEW_LAG_S, verify=False)
        settings = changed_settings(usual, asked)
        known = self._store.find(name)
        if known is not None and _is(definition.same_wish, known):
            return Job(self, known.id, known.name)
        if known is None and self._store.table(name) is None:
            self._lake.check_name(name)
        needs_keys = known is None and not definition.anew
        for table in definition.tables if needs_keys else ():
            if self._store.table(table) is not None:
                self._lake.check_keys(self._input((table,)))
        row = Row(uuid.uuid4().hex, name, job_to_text(definition), settings=settings)
        made = self._store.create(row, _names_read(row))
        for notice in explained.notices if made.id == row.id else ():
            self._store.add_event(made.id, self._clock.now_s(), f"{NOTICE}{notice}")
        return Job(self, made.id, made.name)

    def _input(self, parts: tuple[str, ...]) -> Input:
        """The table or the job that has the name. What the catalog has needs a key first."""
        from tidefill.delta.lake import Input

        name = ".".join(parts)
        table = self._store.table(name) if len(parts) == 1 else None
        if table is not None:
            found = table_from_text(table.definition)
            return Input(table.name, found.location, found.key, found.walk)
        row = self._store.find(name) if len(parts) == 1 else None
        if row is None:
            raise UnknownTable(f"there is no table {name}", hint=_how_to_register(name))
        definition = _definition(row)
        if row.published is None:
            below = None if definition.parts else self._input_of(definition)
            return Input(row.name, "", definition.key, made_by=(definition, below))
        path, in_step = self._lake.path(row, row.published), not definition.anew
        return Input(row.name, path, definition.key, null_keys=bool(definition.parts), derived=in_step)

    def _input_of(self, definition: JobDefinition) -> Input:
        """What a job reads."""
        if not definition.connection:
            return self._input((definition.input,))
        from tidefill.delta.lake import database_input

        source = self._databases.source_of(definition)
        return database_input(source, self._databases.find(source, made=True))

    def _live_input(self, name: str) -> Input:
        """The same, if it can be read now."""
        found = self._input((name,))
        if found.made_by is not None:
            raise NotYet(f"{found.name} is not live yet", hint="SHOW JOBS tells how far it is.")
        return found

    def job(self, name: str) -> Job:
        """The job of that name."""
        row = self._store.find(name)
        if row is None:
            raise UnknownJob(f"there is no job {name}", hint="SHOW JOBS, or engine.jobs(), lists them.")
        return Job(self, row.id, row.name)

    def jobs(self) -> list[Job]:
        """All jobs that are not dropped, by name."""
        return [Job(self, row.id, row.name) for row in self._store.jobs() if row.life is not Life.DROPPED]

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
        return self._lake.table(self._live_input(name).location)

    def query(self, sql: str) -> DataFrame:
        """The rows of a SELECT. It sees registered tables and what live jobs have made, without hidden columns; other
        names are the catalog's."""
        with with_extra("spark"):
            from tidefill.spark.query import query
            from tidefill.views.reading.names import names_read
        locations = {name: self._readable(name, certain) for name, certain in names_read(sql).items()}
        return query(self.spark, sql, {name: location for name, location in locations.items() if location})

    def _readable(self, name: str, certain: bool) -> str:
        """Where it lies; empty if it is no name of ours, or is not live and perhaps not meant either."""
        if self._store.table(name) is None and self._store.find(name) is None:
            return ""
        try:
            return self._live_input(name).location
        except NotYet:
            if certain:
                raise
            return ""

    def execute(self, sql: str) -> Result:
        """Execute SQL statements, separated by semicolons, and return what the last one gives. All of them are read
        before the first is executed."""
        with with_extra("spark"):
            from tidefill.sql.script import last_result
        return last_result(self, sql)

    # Running.

    def run(self, stop: threading.Event | None = None) -> None:
        """Run every job of the store, until told to stop."""
        self._service().run(stop or threading.Event())

    def run_once(self, stop: threading.Event | None = None) -> None:
        """Bring every job to the newest version that its input has now, in the order of their dependence; or as far as
        it comes until told to stop."""
        service, stop = self._service(hurry=True), stop or threading.Event()
        goals: dict[str, dict[str, Point] | None] = {row.id: None for row in _in_order(self._store.jobs())}
        with service.alive():
            for _ in range(RUN_ONCE_TURNS_MAX):
                turns, rows = list[Turn](), self._store.jobs()
                for job_id in tuple(goals):
                    if not stop.is_set():
                        turns.append(self._catch_up(service, job_id, goals, rows))
                        rows = self._store.jobs() if turns[-1].worked else rows
                if not goals or stop.is_set():
                    return
                if not any(turn.worked for turn in turns):
                    if self._wait_in_vain(goals):
                        return
                    stop.wait(min([WAIT_POLL_S, *(turn.again_in_s or WAIT_POLL_S for turn in turns)]))

    def _catch_up(
        self, service: Service, job_id: str, goals: dict[str, dict[str, Point] | None], seen: Sequence[Row]
    ) -> Turn:
        """One turn, if the job may come nearer to its goal by it; it has one when all that it reads have come to
        theirs. Whoever has come to it, or will not come any nearer, has none any more."""
        rows = {row.id: row for row in seen}
        row, reads = rows.get(job_id), self._reads([row for row in rows.values() if row.life is not Life.DROPPED])
        if row is None or _stands_still(row):
            del goals[job_id]
            return Turn(False)
        below = [rows[node] for node in reads.get(job_id, {}).values() if node in rows]
        if any(other.published is None and other.id in goals for other in below):
            return Turn(False)
        if goals[job_id] is None and not ends(row) and not any(other.id in goals for other in below):
            goals[job_id] = self._heads_of_inputs(row)
            if goals[job_id] is None:
                del goals[job_id]
                return Turn(False)
        turn, goal, after = service.turn(row, seen), goals[job_id], self._store.job(job_id)
        swept = row.life is Life.DROPPED and not turn.worked
        rests = not turn.worked and ticks.blocked_by(job_id, reads, rows) is not None
        if after is None or swept or (goal is not None and (_reached(after, goal) or rests)):
            del goals[job_id]
        return turn

    def _wait_in_vain(self, job_ids: Iterable[str]) -> bool:
        """Whether all of them wait for others, who have come to their goals before."""
        for_others = (Reason.SIBLINGS.value, Reason.INPUTS.value)
        return all(row is not None and row.waiting in for_others for row in map(self._store.job, job_ids))

    def _heads_of_inputs(self, row: Row) -> dict[str, Point] | None:
        """The newest versions of what the job reads; None if one of them is not live, and so (its turn came first) will
        not be soon. Whatever else is wrong with them, the runner says."""
        try:
            definition = _definition(row)
            if definition.connection:
                return {"": self._databases.head(definition)}
            heads = {table: Number(self._lake.head(self._live_input(table).location)) for table in definition.tables}
            return dict(heads) if definition.parts else {"": heads[definition.input]}
        except NotYet:
            return None
        except TidefillError:
            return {"": NEVER}

    def _service(self, *, hurry: bool = False) -> Service:
        """A runner of all jobs. It has an owner of its own: two that shared one would each take the other's leases for
        theirs, and go on from what they remember while the other moves the job."""
        owner = new_owner()
        runner = Runner(
            self._store, self._clock, self._build, _Made(self), owner, lambda: uuid.uuid4().hex,
            start=Sizing(FIRST_ROWS), forward_s=FIRST_FORWARD_S, source=self._source, is_gone=is_gone,
            hurry=hurry, reads=self._reads_in_step, log=self._log.logger, lost=self._lost,
        )  # fmt: skip
        return Service(self._store, runner, self._clock, owner, _share_an_input, self._log.logger, runner.let_go)

    def _others_run(self, job_id: str) -> bool | None:
        """Whether a live runner has the job; None if none has, but one has other jobs, and so may come to this one."""
        now_s, rows = self._clock.now_s(), self._store.jobs()
        held = [row.id for row in rows if jobs.is_held(row.lease, now_s, LEASE_S, is_gone)]
        return True if job_id in held else None if held else False

    def _verify(self, row: Row) -> Verified:
        """Piece by piece: each is compared with the job as it is then, which goes on meanwhile."""
        began_s, machine = time.monotonic(), self._build(row)
        rows, differences, upto = 0, list[str](), None
        notes: dict[str, None] = {}
        try:
            while True:
                anchor, compared = self._verify_piece(row, machine, upto)
                rows, upto = rows + compared.rows, compared.upto
                differences += compared.differences
                notes |= dict.fromkeys(compared.notes)
                if upto is None or len(differences) >= DIFFERENCES_MAX:
                    break
        finally:
            machine.let_go()
        took_s = time.monotonic() - began_s
        return Verified(version_of(anchor), rows, took_s, tuple(differences[:DIFFERENCES_MAX]), tuple(notes))

    def _verify_piece(self, row: Row, machine: Any, after: Key | None) -> tuple[Anchor, Compared]:
        """While it is compared, a runner may let go of what the comparison needs, or the snapshot may have to be given
        up: then this piece is begun again, half as large."""
        piece_rows = CEILING_ROWS
        for _ in range(VERIFY_ATTEMPTS):
            now = self._store.job(row.id)
            if now is None or now.generation != row.generation:
                raise NotYet(f"{row.name} was dropped or built anew while it was compared", hint="Try again.")
            try:
                return self._compare(now, machine, after, piece_rows)
            except HistoryGone:
                then = self._store.job(row.id)
                if then is None or (then.released, then.anchor) == (now.released, now.anchor):
                    raise
            except Unreadable:
                piece_rows = max(1, piece_rows // 2)
        raise NotYet(f"{row.name} moves on too fast to be compared", hint="Pause it, or try again.")

    def _compare(self, row: Row, machine: Any, after: Key | None, rows: int) -> tuple[Anchor, Compared]:
        anchor = anchor_from_text(row.anchor)
        if anchor is None:
            raise NotYet(f"{row.name} has nothing to verify yet")
        if _definition(row).connection:
            machine.prepare(versions_from_text(row.released))
        truth = machine.recover(row, anchor)
        return truth.anchor(row.generation_uuid), machine.compare_now(truth, after, rows)

    def _reads_in_step(self, rows: Sequence[Row]) -> Reads:
        """What is computed anew goes at its own pace, and nobody waits for it: to those who read it it is a table like
        any. What it reads itself has to come to versions that it can take together."""
        outside = {row.id: f"anew {row.id}" for row in rows if _is_anew(row)}
        return {
            job: {table: outside.get(node, node) for table, node in reads.items()}
            for job, reads in self._reads(rows).items()
        }

    def _reads(self, rows: Sequence[Row]) -> Reads:
        """What each of these jobs reads: other jobs, or tables of others, by where they are. Names alone would not tell
        that two of them mean one table. One whose definition cannot be read says so itself, and stops nobody else."""
        ids = {name_key(row.name): row.id for row in rows}
        definitions: dict[str, JobDefinition] = {}
        for row in rows:
            with suppress(StoreUnreadable):
                definitions[row.id] = job_from_text(row.definition)
        if all(len(definition.tables) < 2 for definition in definitions.values()):
            locations = dict[str, str]()
        else:
            tables = map(_registered, self._store.tables())
            locations = {name_key(table.name): table.location for table in tables if table.location}

        def node(name: str) -> str:
            key = name_key(name)
            return ids.get(key) or locations.get(key, key)

        def inputs(definition: JobDefinition) -> dict[str, str]:
            names = () if definition.connection else definition.tables
            return {name if definition.parts else INPUT: node(name) for name in names}

        return {job: inputs(definition) for job, definition in definitions.items()}

    def _source(self, row: Row, rows: Sequence[Row] | None) -> str:
        """The generations of other jobs that it reads, if they are live; empty if it reads tables. By these rows, or as
        it is now."""
        names, by_name = _names_read(row), _by_name(rows or ())
        below = [self._store.find(name) if rows is None else by_name.get(name_key(name)) for name in names]
        return " ".join(f"{job.id}-{job.published}" for job in below if job is not None and job.published is not None)

    def _build(self, row: Row) -> Any:
        definition = _definition(row)
        if definition.connection:
            return self._lake.build_database_replica(row, definition)
        return self._lake.build(row, definition, {table: self._live_input(table) for table in definition.tables})


@dataclass(frozen=True, slots=True)
class _Made:
    """What jobs have made (the runner's port). Spark is started only to remove a view from its catalog."""

    engine: Engine

    def remove(self, job: Row, resource: str) -> None:
        kind, _, name = resource.partition(":")
        if kind == "path":
            remove_made(self.engine._warehouse, name, job.id)
        elif kind in ("slot", "publication"):
            self.engine._databases.remove(kind, name, job.id)
        else:
            self._remove_view(job, resource)

    def _remove_view(self, job: Row, resource: str) -> None:
        """A view of a generation is made only after the generation is published."""
        path = resource.removeprefix(f"view:{job.name}@")
        if path == resource or not is_folder_of_job(path, job.id):
            raise NotOurs(f"{resource} is not removed", detail=f"It is no view of {job.name} that the job made.")
        if job.published is None or int(path.rpartition("-")[2]) > job.published or not self.engine._may_have_views():
            return
        try:
            with with_extra("spark"):
                from tidefill.spark.names import NAME_IN_CATALOG
            if NAME_IN_CATALOG.fullmatch(job.name):
                self.engine._lake.unpublish(job.name, path)
        except BadInput as error:  # Spark does not start as it is set up: the view is residue, and DROP goes on
            raise Unavailable(f"the view {job.name} cannot be removed", detail=str(error)) from error

    def kept(self, resource: str) -> Kept | None:
        return self.engine._databases.kept(resource)


@dataclass(frozen=True, slots=True)
class Job:
    """A handle on one job."""

    engine: Engine
    id: str
    name: str

    def _row(self) -> Row:
        row = self.engine._store.job(self.id)
        if row is None or row.life is Life.DROPPED:
            raise UnknownJob(f"{self.name} was dropped")
        return row

    def status(self) -> Status:
        """How it stands."""
        return self.engine._status(self._row())

    def definition(self) -> JobDefinition:
        """What was created."""
        return _definition(self._row())

    def wait(self, timeout: float | None = None, *, gone: bool = False, stop: threading.Event | None = None) -> Job:
        """Return when it is live, or when it is `gone`. JobFailed with its reason; WrongState if it stands still until
        somebody resumes it; TimedOut, also when told to stop. While a live runner has it, this only looks; if nobody
        runs it, or nobody does any more, all jobs are run here until then."""
        deadline_s = None if timeout is None else time.monotonic() + timeout
        settled, stop = self._is_gone if gone else self._is_settled, stop or threading.Event()

        def over() -> bool:
            return settled() or (deadline_s is not None and time.monotonic() >= deadline_s)

        patient_until_s = time.monotonic() + NEW_JOB_S
        while not stop.is_set() and not over():
            others_run = self.engine._others_run(self.id)
            if others_run or (others_run is None and time.monotonic() < patient_until_s):
                stop.wait(WAIT_POLL_S)
            else:
                self.engine._service().run(stop, over)
        if not settled():
            what = "gone" if gone else "live"
            raise TimedOut(f"{self.name} is not {what} yet", detail=str(self.status()))
        if not gone:
            self._check_live(self._row())
        return self

    def _check_live(self, row: Row) -> None:
        if row.failure is not None and row.life is Life.FAILED:
            raise JobFailed(
                f"{self.name} has failed: {row.failure.fact}",
                detail=f"[{row.failure.code}] {row.failure.detail}",
                hint=row.failure.hint,
            )
        if row.life is not Life.LIVE:
            raise WrongState(f"{self.name} is paused", hint=f"RESUME JOB {self.name}")

    def _is_settled(self) -> bool:
        row = self._row()
        return (row.life is Life.LIVE and not row.wants_resync) or _stands_still(row)

    def _is_gone(self) -> bool:
        row = self.engine._store.job(self.id)
        return row is None or row.life is Life.DROPPED

    def pause(self, *, fill_only: bool = False) -> None:
        """Stand still; or stop filling, and keep what is there fresh."""
        self._wish(jobs.wish_pause(Pause.FILL if fill_only else Pause.ALL))

    def resume(self) -> None:
        """Go on, after a pause or a failure."""
        self._wish(jobs.wish_resume)

    def alter(self, **settings: Any) -> None:
        """Change settings while it runs; None lifts a limit."""
        check_use(self.definition(), settings)
        self._wish(lambda row: jobs.wish_settings(changed_settings(row.settings, settings))(row))

    def resync(self) -> None:
        """Build it anew beside what is there, and switch when that is done."""
        self._wish(jobs.wish_resync)

    def verify(self) -> Verified:
        """Compare what it has made so far with a recompute of the same version. The job goes on meanwhile."""
        return self.engine._verify(self._row())

    def cancel(self, *, cascade: bool = False) -> list[Job]:
        """Remove it, before it is live; the rest is as for `drop`."""
        return self._end(jobs.wish_cancel, cascade)

    def drop(self, *, cascade: bool = False) -> list[Job]:
        """Remove it, whatever its state. InUse if others read it; with `cascade` they are removed too, and so is what
        reads those. Returns them, by name."""
        return self._end(jobs.wish_drop, cascade)

    def _wish(self, wish: Callable[[Row], Row]) -> None:
        self._row()
        self.engine._store.change(self.id, wish)

    def _end(self, wish: Callable[[Row], Row], cascade: bool) -> list[Job]:
        self._row()
        _, *others = self.engine._store.wish_end(self.id, wish, _names_read, cascade=cascade)
        return [Job(self.engine, row.id, row.name) for row in others]

    def events(self) -> list[tuple[float, str]]:
        """What happened, oldest first: seconds since 1970, and what."""
        return list(self.engine._store.events(self.id))

    def table(self) -> DataFrame:
        """What it has made."""
        return self.engine.table(self.name)

    def __repr__(self) -> str:
        return f"<{self.status()}>"

    def _repr_html_(self) -> str:
        status = self.status()
        return (
            f"<div><b>{html.escape(status.name)}</b> {html.escape(status.kind)}: {html.escape(status.state)}<br>"
            f"<progress value='{status.share:.4f}' max='1'></progress> {status.share:.0%} "
            f"{html.escape(status.waiting)}</div>"
        )


def _made(folder: Path) -> Path:
    """The folder for the log, made if it is missing."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"the folder {folder}, for the log, cannot be made", detail=f"{error.strerror}.") from error
    return folder


def _absolute(location: str | os.PathLike[str] | None) -> str:
    text = os.fspath(location or "")
    return text if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text) else str(Path(text).absolute())


def _how_to_register(name: str) -> str:
    last = name.rpartition(".")[2]
    return f"REGISTER TABLE {last} AS {name} KEY (...); in Python: engine.register({last!r}, table={name!r}, key=[...])"


def _names(columns: Sequence[str] | str) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _is_anew(row: Row) -> bool:
    with suppress(StoreUnreadable):
        return job_from_text(row.definition).anew
    return False


def _definition(row: Row) -> JobDefinition:
    """What was created; StoreUnreadable names the job."""
    try:
        return job_from_text(row.definition)
    except StoreUnreadable as error:
        raise StoreUnreadable(f"{row.name}: {error.fact}", detail=error.detail, hint=error.hint) from error


def _is(same: Callable[[JobDefinition], bool], row: Row) -> bool:
    """Whether the job is that one; of a definition that cannot be read that is not known."""
    with suppress(StoreUnreadable):
        return same(job_from_text(row.definition))
    return False


def _registered(table: Registered) -> Table:
    try:
        found = table_from_text(table.definition)
    except StoreUnreadable as error:
        return Table(table.name, "", (), (), unreadable=str(error.fact))
    return Table(table.name, found.location, found.key, found.walk)


def _names_read(row: Row) -> tuple[str, ...]:
    """A table of another database has no name here."""
    return tables_in(row.definition)


def _share_an_input(worked: Row, other: Row) -> bool:
    """Whether the other reads what this one has made or reads too, or made what this one reads: then it may wait for
    it to come to the same version."""
    around = {name_key(worked.name), *map(name_key, _names_read(worked))}
    return not around.isdisjoint((name_key(other.name), *map(name_key, _names_read(other))))


def _by_name(rows: Iterable[Row]) -> dict[str, Row]:
    """The jobs by the names that they have; a dropped one has none."""
    return {name_key(row.name): row for row in rows if row.life is not Life.DROPPED}


def _replicas_below(table: str, rows: Mapping[str, Row]) -> dict[str, str]:
    """The replicas from which it comes, by the table of another database that they are made from."""
    below = (rows[name] for name in {name_key(table), *_all_below(table, rows)} if name in rows)
    return {name_key(_definition(row).input): row.name for row in below if _definition(row).connection}


def _all_below(name: str, rows: Mapping[str, Row]) -> frozenset[str]:
    """The names that it reads, however far below."""
    found, ahead = set[str](), [name_key(name)]
    while ahead:
        row = rows.get(ahead.pop())
        new = {name_key(one) for one in (() if row is None else _names_read(row))} - found
        found |= new
        ahead += new
    return frozenset(found)


def _in_order(rows: Sequence[Row]) -> list[Row]:
    """What is read comes before what reads it: whoever reads another has that one, and all below it, below itself. What
    was dropped has nothing to wait for."""
    by_name = _by_name(rows)
    below = {row.id: len(_all_below(row.name, by_name)) for row in by_name.values()}
    return sorted(rows, key=lambda row: below.get(row.id, 0))


def _stands_still(row: Row) -> bool:
    """Whether it does nothing until somebody wishes for something."""
    wished = row.wants_end or row.wants_resync or row.wants_resume
    paused = (row.life is Life.PAUSED and row.pause is Pause.ALL) or row.waiting == Reason.FILL_PAUSED.value
    stopped = row.settings.rate_limit == 0 and row.waiting == Reason.RATE_LIMIT.value
    return not wished and (row.life is Life.FAILED or paused or stopped)


def _reached(row: Row, goal: Mapping[str, Point]) -> bool:
    """Whether it has these versions of its inputs; the only one needs no name."""
    anchor = readable_anchor(row)
    versions = {} if anchor is None else anchor.state.versions
    points = {table if len(versions) > 1 or table in goal else "": versions[table].point for table in versions}
    up_to_date = row.waiting == Reason.IDLE.value
    reached = all(_includes(points.get(table), point) for table, point in goal.items())
    return row.life is Life.LIVE and not row.wants_resync and (up_to_date or reached)


def _includes(point: Point | None, goal: Point) -> bool:
    return point is not None and type(point) is type(goal) and includes(point, goal)
