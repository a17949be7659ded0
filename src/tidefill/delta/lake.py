"""Delta tables as inputs and targets: what a user asks for is checked here, defined, and made into machines."""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, DataType, DoubleType, FloatType, MapType, StructField, StructType, VariantType

from tidefill.core.sizing import FIRST_ROWS, FIRST_ROWS_MAX, first_rows
from tidefill.delta.catalog import check_name, unpublish
from tidefill.delta.history import DeltaHistory
from tidefill.delta.target import DeltaTarget
from tidefill.delta.upstream import DeltaUpstream, check_columns
from tidefill.delta.walk import Walk, choose_walk
from tidefill.delta.whole import WholeDelta
from tidefill.errors import (
    BadInput,
    BadSql,
    InvalidSetting,
    RetryLater,
    TidefillError,
    UnknownTable,
    UnsupportedQuery,
    UpstreamReplaced,
    UpstreamUnfit,
)
from tidefill.jobs.definitions import INPUT, JobDefinition, Kind, Part, TableDefinition
from tidefill.jobs.row import Job
from tidefill.ports import Derivation, Upstream
from tidefill.postgres.connections import Databases, Found, Source
from tidefill.run.backfill import Backfill
from tidefill.spark.compiling import Known, analyzed, parsed, understood
from tidefill.spark.compiling import compiled as compile_query
from tidefill.spark.compiling import recompiled as recompile_query
from tidefill.spark.coverage import key_types
from tidefill.spark.derive_full import Anew
from tidefill.spark.derive_rows import RowWise
from tidefill.spark.derive_view import View, statement
from tidefill.spark.faults import translated
from tidefill.spark.names import HIDDEN, quoted, table_at
from tidefill.spark.session import Semantics, job_session
from tidefill.spark.storable import refuse_unstorable
from tidefill.storage.local import local_path
from tidefill.views.plan.drivers import Drivers, choose
from tidefill.views.plan.plan import ViewPlan
from tidefill.views.reading.full import repeatable, tables_of
from tidefill.views.reading.lexer import read
from tidefill.views.reading.names import columns_named
from tidefill.views.reading.rowwise import Item, RowQuery, Star, parse_row_query
from tidefill.views.relations.relations import Scan

CHANGE_FEED = "delta.enableChangeDataFeed"
CHUNKS_OF_UNCLUSTERED = 4
GROUP_ROWS_MAX = 5_000_000  # that are filled in one commit: as many as in a first chunk
SLUG_CHARACTERS_MAX = 40
LINEAR_PLAN = frozenset({"Project", "Filter", "SubqueryAlias", "View", "Relation", "LocalRelation"})
SYNTAX = frozenset({"case", "cast", "extract", "if", "in", "overlay", "position", "substring", "trim", "try_cast"})
NOT_IN_DELTA = re.compile(r"[ ,;{}()\n\t=]")


@dataclass(frozen=True, slots=True)
class Input:
    """A table that jobs may read: by which name, where it is, what identifies a row. `walk`: if it is given. `made_by`:
    the job that makes it, and what that reads, while it is not live and so has no table to read. `columns`: names and
    types of a table in another database. `null_keys`: NULL is a key like others, as in a view by groups. `derived`: a
    job has made it."""

    name: str
    location: str
    key: tuple[str, ...]
    walk: tuple[str, ...] = ()
    made_by: tuple[JobDefinition, Input | None] | None = None
    columns: tuple[tuple[str, str], ...] = ()
    null_keys: bool = False
    derived: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    """About how large an input is; None: that is not known, because it is not `live`, or nobody tells."""

    name: str
    rows: int | None = None
    size_bytes: int | None = None
    live: bool = True


@dataclass(frozen=True, slots=True)
class Explained:
    """What a job will do, before it does it. `rows`: of what is walked. `plan` and `drivers`: of a query over several
    tables, or over groups. `inputs`: all that it reads. `slots_left`: replication slots, if it takes one."""

    definition: JobDefinition
    clustered: bool
    rows: int
    schema: StructType
    notices: tuple[str, ...] = ()
    plan: ViewPlan | None = None
    drivers: Drivers | None = None
    inputs: tuple[Size, ...] = ()
    slots_left: int | None = None

    def __repr__(self) -> str:
        from tidefill.sql import explaining, showing

        return showing.as_text(showing.FACTS, explaining.facts_of(self))

    def _repr_html_(self) -> str:
        from tidefill.sql import explaining, showing

        return showing.as_html(showing.FACTS, explaining.facts_of(self))

    @property
    def chunk_rows(self) -> int | None:
        """The size of a chunk, where it should not be left to the clock: each chunk reads the whole table."""
        if self.clustered:
            return None
        return min(max(-(-self.rows // CHUNKS_OF_UNCLUSTERED), self.first_rows), FIRST_ROWS_MAX)

    @property
    def first_rows(self) -> int:
        """The size of the first chunk, where it is left to the clock."""
        return self.whole_rows if self.drivers is None or self.drivers.appends else FIRST_ROWS

    @property
    def whole_rows(self) -> int:
        """How many rows may be taken in at once, where that is left to the clock."""
        walked = {part.table for part in self.definition.parts if part.walk} or {self.definition.input}
        return first_rows(self.rows, sum(size.size_bytes or 0 for size in self.inputs if size.name in walked))


@dataclass(frozen=True, slots=True)
class _Planned:
    """A compiled view: its plan, what is walked, its inputs without rows by name, and its columns, hidden ones too."""

    plan: ViewPlan
    drivers: Drivers
    empty: dict[str, DataFrame]
    schema: StructType


class Lake:
    """What jobs over Delta tables need of one Spark."""

    def __init__(self, spark: SparkSession, warehouse: str, databases: Databases) -> None:
        self.spark = spark
        self.databases = databases
        self._warehouse = warehouse
        self._of_thread = threading.local()

    # Inputs.

    def location_of(self, table: str) -> str:
        """Where the catalog's table of that name lies."""
        with _as_input(f"there is no Delta table {table}"):
            return str(self.spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["location"])

    def check_table(self, table: TableDefinition) -> None:
        """Refuse what could not be read later, with the statement that mends it."""
        detail = self._detail(table.location)
        frame = self._frame(table.location)
        if not table.key:
            raise InvalidSetting("a key is missing", hint="Name the columns that identify a row: KEY (id).")
        for what, names in (("key", table.key), ("walk", table.walk)):
            if len(set(names)) < len(names):
                raise InvalidSetting(f"the {what} names a column twice", detail=", ".join(names))
        key_types(frame.schema, (*table.key, *table.walk))
        if str(detail["properties"].get(CHANGE_FEED, "false")).lower() != "true":
            raise UpstreamUnfit(
                f"the table at {table.location} does not record its changes",
                hint=f"ALTER TABLE {table_at(table.location)} SET TBLPROPERTIES ({CHANGE_FEED} = true)",
            )

    def _detail(self, location: str) -> Row:
        with _as_input(f"there is no Delta table at {location}"):
            return self.spark.sql(f"DESCRIBE DETAIL {table_at(location)}").collect()[0]

    def _frame(self, location: str, session: SparkSession | None = None) -> DataFrame:
        return (session or self.spark).read.format("delta").load(location)

    def check_keys(self, table: Input) -> None:
        """KeyNotUnique, naming them."""
        upstream = self._upstream(table)
        with upstream.open_head(first=True) as head:
            upstream.check_keys(head)

    def _upstream(self, table: Input) -> DeltaUpstream:
        """To look at all of it, not for a job: every column, walked along the key."""
        history = self._history(table.location)
        return DeltaUpstream(self.spark, table.location, table.key, table.key, history=history)

    def head(self, location: str) -> int:
        """The newest version."""
        return self._history(location).survey(fresh=True).head

    def _history(self, location: str) -> DeltaHistory:
        """One for each table, shared by all jobs that read it and run in this thread: what a thread was told of a table
        must not be replaced by another thread between two questions."""
        histories: dict[str, DeltaHistory] = self._of_thread.__dict__.setdefault("histories", {})
        return histories.setdefault(location, DeltaHistory(self.spark, location))

    # Definitions.

    def explain_replica(self, table: Input, source: str) -> Explained:
        """A copy of every column."""
        hint = "Create a view that gives them other names: SELECT `a b` AS a_b, ... FROM ..."
        refuse_names(table.name, self._shown(table), hint)
        return self._explained(table, Kind.REPLICA, source, columns=(), key=table.key, schema=self._shown(table))

    def explain_database_replica(self, source: Source) -> Explained:
        """A copy of every column of a table in another database."""
        found = self.databases.find(source)
        self.databases.check_reader(self.spark, source)
        schema = self._empty(database_input(source, found), self.spark).schema
        refuse_names(source.name, schema, 'Rename them on the server: ALTER TABLE ... RENAME COLUMN "a b" TO a_b.')
        _refuse_columns(schema)
        semantics = _frozen(Semantics.of(self.spark))
        definition = JobDefinition(
            Kind.REPLICA, source.name, source.name, found.key, found.key, found.key, found.walk_reason,
            semantics=semantics, connection=source.connection, publication=source.publication, slot=source.slot,
        )  # fmt: skip
        inputs = (Size(source.name, found.rows),)
        return Explained(
            definition, True, found.rows, schema, found.notices, inputs=inputs, slots_left=found.slots_left
        )

    def explain_view(self, find: Callable[[tuple[str, ...]], Input], sql: str) -> Explained:
        """A query. `find` gives the input of a name. Over one table, row by row, it stays as it was written; else it is
        compiled."""
        try:
            query = parse_row_query(sql)
        except UnsupportedQuery:
            return self._explain_compiled(find, sql)
        table = find(query.table)
        self._refuse_unknown_functions(query.functions)
        items = _expanded(query, self._shown(table))
        session = self._meaning_of(Semantics.of(self.spark).to_json())
        empty = self._empty(table, session)
        with _as_input("Spark does not take the query", BadSql):
            self._refuse_other_plans(session, empty, query, items)
            shown = RowWise(empty, None, (), where=query.where, alias=query.alias).derive(empty)
            schema = shown.select(*(f.expr(item.text) for item in items)).schema
        _refuse_columns(schema)
        _refuse_incomparable(schema)
        columns = [(field.name, item.text) for field, item in zip(schema, items, strict=True)]
        key, hidden = _output_key(items, schema, table.key, query.alias)
        reads = [name for name in empty.columns if name in table.key or _may_name(sql, name) or Star() in query.items]
        return self._explained(
            table, Kind.VIEW, sql, columns=(*columns, *hidden), key=key, schema=schema,
            where=query.where, alias=query.alias, reads=reads, notices=query.notices,
        )  # fmt: skip

    def _explain_compiled(self, find: Callable[[tuple[str, ...]], Input], sql: str) -> Explained:
        inputs: dict[str, Input] = {}
        empty: dict[str, DataFrame] = {}
        semantics = Semantics.of(self.spark)
        if semantics.case_sensitive == "true":
            hint = "SET spark.sql.caseSensitive = false, or write the view over one table, row by row."
            raise UnsupportedQuery("names are case-sensitive in this session", hint=hint)
        session = self._meaning_of(semantics.to_json())

        def known(parts: tuple[str, ...], certain: bool) -> Known | None:
            found = find(parts) if certain else _or_none(find, parts)
            if found is None:
                return None
            if found.name not in inputs:
                inputs[found.name], empty[found.name] = found, self._empty(found, session)
            return Known(found.name, empty[found.name], found.key)

        with _as_input("Spark does not take the query", BadSql):
            compiled = compile_query(session, sql, known)
        self._refuse_unknown_functions(compiled.functions)
        _refuse_columns(compiled.schema)
        _refuse_incomparable(compiled.schema)
        plan = compiled.plan
        details = {name: self._detail_of(table) for name, table in inputs.items()}
        sizes = {name: self._size(table, details[name]) for name, table in inputs.items()}
        rows = {name: size.rows or 0 for name, size in sizes.items()}
        tables = {scan.occurrence: scan.table for scan in plan.scans}
        walk_of = cache(lambda table: self._walk(inputs[table], details[table]))
        counts = {name: rows[table] for name, table in tables.items()}
        drivers = choose(
            plan.root, counts, lambda name: () if inputs[tables[name]].made_by else walk_of(tables[name]).columns
        )
        if drivers.group_columns and self._has_large_groups(drivers, inputs, tables, walk_of):
            drivers = choose(plan.root, counts)
        walks = {name: walk_of(tables[name]) for name in drivers.occurrences}
        named = columns_named(compiled.tree)
        parts = [
            _part(scan, inputs[scan.table].key, empty[scan.table].schema, named, walks, drivers) for scan in plan.scans
        ]
        first = next(part for part in parts if part.walk)
        with _as_input("Spark does not take what the query is compiled into", UnsupportedQuery):
            whole = _columns_of(plan, empty, session)
        columns = [*compiled.schema, *(field for field in whole if field.name in plan.hidden)]
        definition = JobDefinition(
            Kind.VIEW, first.table, sql, first.key, plan.key, first.walk, first.walk_reason,
            columns=_typed(columns),
            semantics=_frozen(semantics), parts=tuple(parts),
        )  # fmt: skip
        with _as_input("the query cannot be kept fresh as it is compiled", UnsupportedQuery):
            self._planned(definition, inputs, session)
        total = sum(rows[tables[name]] for name in drivers.occurrences)
        clustered = drivers.appends and walks[first.occurrence].clustered
        read = tuple(sizes[name] for name in definition.tables)
        return Explained(definition, clustered, total, compiled.schema, plan.notices, plan, drivers, read)

    def _has_large_groups(
        self,
        drivers: Drivers,
        inputs: Mapping[str, Input],
        tables: Mapping[str, str],
        walk_of: Callable[[str], Walk],
    ) -> bool:
        """Whether a chunk that holds whole groups could become larger than a chunk may be."""
        for table in {tables[name] for name in drivers.occurrences}:
            group = map(quoted, walk_of(table).columns[: drivers.group_columns])
            counted = self._frame(inputs[table].location).groupBy(*group).count()
            if counted.where(f.col("count") > GROUP_ROWS_MAX).limit(1).collect():
                return True
        return False

    def explain_anew(self, find: Callable[[tuple[str, ...]], Input], sql: str) -> Explained:
        """Any deterministic query, computed from nothing at each refresh. `find` gives the input of a name. It sees all
        columns that its tables have now: a NATURAL JOIN or a PIVOT goes by columns that it does not name."""
        semantics = Semantics.of(self.spark)
        session = self._meaning_of(semantics.to_json())
        source = read(sql)
        tree = parsed(source.text)
        checked = repeatable(source, tree)
        inputs = {parts: find(parts) for parts in tables_of(tree, lambda parts: _or_none(find, parts))}
        if not inputs:
            raise UnsupportedQuery("the query reads no table", hint="Name a table after FROM.")
        found = {parts: Known(table.name, self._empty(table, session), ()) for parts, table in inputs.items()}
        with _as_input("Spark does not take the query", BadSql):
            schema = understood(session, source.text, tree, found)
        self._refuse_unknown_functions(checked.functions)
        _refuse_columns(schema)
        _refuse_incomparable(schema)
        tables = {table.name: table for table in inputs.values()}
        shown = {known.name: _visible(known.empty.schema) for known in found.values()}
        parts = [Part(name, name, _typed(shown[name]), ()) for name in tables]
        definition = JobDefinition(
            Kind.VIEW, parts[0].table, sql, (), (), (), "", columns=_typed(schema),
            semantics=_frozen(semantics), parts=tuple(parts), anew=True,
        )  # fmt: skip
        sizes = tuple(self._size(table, self._detail_of(table)) for table in tables.values())
        rows = sum(size.rows or 0 for size in sizes)
        return Explained(definition, True, rows, schema, checked.notices, inputs=sizes)

    def _detail_of(self, table: Input) -> Row | None:
        """None if it is not live yet."""
        return None if table.made_by else self._detail(table.location)

    def _size(self, table: Input, detail: Row | None) -> Size:
        """By its log, which counts the rows of each file; a file is read only if it was written without that."""
        if detail is None:
            return Size(table.name, live=False)
        upstream = self._upstream(table)
        with upstream.open_head(first=True) as head:
            return Size(table.name, upstream.count(head), int(detail["sizeInBytes"] or 0))

    def _explained(
        self,
        table: Input,
        kind: Kind,
        sql: str,
        *,
        columns: Sequence[tuple[str, str]],
        key: Sequence[str],
        schema: StructType,
        where: str = "",
        alias: str = "",
        reads: Sequence[str] = (),
        notices: tuple[str, ...] = (),
    ) -> Explained:
        frame, detail = self._empty(table, self.spark), self._detail_of(table)
        walk, size = self._walk(table, detail), self._size(table, detail)
        _refuse_maps(frame.schema, reads or frame.columns)
        semantics = _frozen(Semantics.of(self.spark))
        definition = JobDefinition(
            kind, table.name, sql, table.key, tuple(key), walk.columns, walk.reason,
            alias, tuple(columns), where, tuple(reads), semantics, tuple(frame.columns) if reads else (),
        )  # fmt: skip
        with _as_input("the query cannot be kept fresh over the columns that it reads", UnsupportedQuery):
            _derivation(definition, frame).nothing()
        return Explained(definition, walk.clustered, size.rows or 0, schema, notices, inputs=(size,))

    def _walk(self, table: Input, detail: Row | None) -> Walk:
        if table.walk:
            return Walk(tuple(dict.fromkeys((*table.walk, *table.key))), "as it was given", True)
        if detail is None:
            return Walk(table.key, f"the key of {table.name}, which is still being made", True)
        return choose_walk(self.spark, self._frame(table.location), detail, table.key)

    def _empty(self, table: Input, session: SparkSession) -> DataFrame:
        """No rows of the input, but its columns."""
        columns = table.columns
        if table.made_by is not None and table.made_by[0].parts:
            columns = table.made_by[0].columns
        if columns:
            nulls = ", ".join(f"CAST(NULL AS {kind})" for _, kind in columns)
            names = ", ".join(quoted(name) for name, _ in columns)
            return session.sql(f"SELECT * FROM VALUES ({nulls}) AS input ({names})").where("false")
        if table.made_by is None:
            return self._frame(table.location, session).where("false")
        definition, below = table.made_by
        assert below is not None, "a job over one table has that table"
        return _derivation(definition, self._empty(below, session)).nothing()

    def _shown(self, table: Input) -> StructType:
        return _visible(self._empty(table, self.spark).schema)

    def _refuse_unknown_functions(self, called: frozenset[str]) -> None:
        """A function of the user's own may change under the view."""
        known = {row[0] for row in self.spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
        for name in sorted(called - known - SYNTAX):
            raise UnsupportedQuery(
                f"{name} is no function of Spark's own",
                hint="Use built-in functions: others may change or be volatile.",
            )

    def _refuse_other_plans(
        self, session: SparkSession, empty: DataFrame, query: RowQuery, items: Sequence[Item]
    ) -> None:
        """What Spark makes of the query has to be a projection and a filter: one row for each row, or none."""
        view = HIDDEN + uuid.uuid4().hex
        empty.createOrReplaceTempView(view)
        try:
            where = f" WHERE {query.where}" if query.where else ""
            texts = ", ".join(item.text for item in items)
            told = analyzed(session, f"SELECT {texts} FROM {view} AS {quoted(query.alias)}{where}")
        finally:
            session.catalog.dropTempView(view)
        nodes = re.findall(r"^[\s:+\-]*([A-Z]\w+)", "\n".join(told.strip().splitlines()[1:]), re.MULTILINE)
        for node in nodes:
            if node not in LINEAR_PLAN:
                raise UnsupportedQuery(
                    f"a view cannot have this yet: {node}", hint="Only columns, expressions and WHERE over one table."
                )

    # Machines.

    def path(self, job: Job, generation: int) -> str:
        """Where a generation of a job lives; never used twice."""
        slug = re.sub(r"[^A-Za-z0-9_]+", "_", job.name)[:SLUG_CHARACTERS_MAX]
        return str(local_path(self._warehouse).absolute() / f"{slug}-{job.id}-{generation}")

    def build(self, job: Job, definition: JobDefinition, inputs: Mapping[str, Input]) -> Backfill[DataFrame]:
        """The machine of the job's generation, over the inputs that the definition names."""
        session = self._meaning_of(dict(definition.semantics))
        if definition.anew:
            return self._build_anew(job, definition, inputs, session)
        if definition.parts:
            return self._build_compiled(job, definition, inputs, session)
        table = inputs[definition.input]
        upstream = DeltaUpstream(
            session, table.location, definition.input_key, definition.walk,
            columns=definition.reads or None, known=definition.known, null_keys=table.null_keys,
            derived=table.derived, history=self._history(table.location),
        )  # fmt: skip
        with translated(UpstreamReplaced):
            empty = self._empty(table, session)
            check_columns(table.name, (*definition.input_key, *definition.walk), empty.columns)
            derivation = _derivation(definition, empty)
            schema = derivation.nothing().schema
        return self._machine(job, definition, session, {INPUT: upstream}, derivation, schema, walked=[upstream])

    def _build_compiled(
        self, job: Job, definition: JobDefinition, inputs: Mapping[str, Input], session: SparkSession
    ) -> Backfill[DataFrame]:
        planned = self._planned(definition, inputs, session)
        plan, empty, schema = planned.plan, planned.empty, planned.schema
        upstreams = {}
        for name, table in inputs.items():
            reads, walk = _reads_of(definition, name, table)
            upstreams[name] = DeltaUpstream(
                session, table.location, table.key, walk, columns=reads, null_keys=table.null_keys,
                derived=table.derived, history=self._history(table.location),
            )  # fmt: skip
        path = self.path(job, job.generation)
        view = View(
            session, plan, planned.drivers, {scan.occurrence: empty[scan.table] for scan in plan.scans},
            lambda: self._frame(path, session),
            lambda name: self._history(inputs[view.shape.tables[name]].location).survey().size,
            text=definition.sql,
        )  # fmt: skip
        rounded = [name for name in _floats(schema) if plan.adds_up and name not in plan.key]
        walked = [upstreams[part.table] for part in definition.parts if part.walk]
        return self._machine(job, definition, session, upstreams, view, schema, rounded, walked)

    def _planned(self, definition: JobDefinition, inputs: Mapping[str, Input], session: SparkSession) -> _Planned:
        """The plan of a definition, over the columns that the definition says are read. Every runner makes it, and
        CREATE tries whether it can be made. UpstreamReplaced if it is not the plan that was created."""
        empty = {
            name: self._narrow(table, session, *_reads_of(definition, name, table)) for name, table in inputs.items()
        }
        shown = [name for name, _ in definition.columns if not name.startswith(HIDDEN)]
        known = [Known(name, frame, inputs[name].key) for name, frame in empty.items()]
        with translated(UpstreamReplaced):
            plan = recompile_query(session, definition.sql, known, shown)
            schema = _columns_of(plan, empty, session)
        drivers = _drivers_of(definition, plan)
        _refuse_another_plan(definition, plan, schema, drivers)
        return _Planned(plan, drivers, empty, schema)

    def _narrow(self, table: Input, session: SparkSession, reads: Sequence[str], walk: Sequence[str] = ()) -> DataFrame:
        """No rows of the input, but those of its columns that a job needs; UpstreamReplaced if it has lost one."""
        with translated(UpstreamReplaced):
            frame = self._empty(table, session)
            check_columns(table.name, (*reads, *walk), frame.columns)
            return frame.select(*map(quoted, dict.fromkeys((*reads, *walk))))

    def _build_anew(
        self, job: Job, definition: JobDefinition, inputs: Mapping[str, Input], session: SparkSession
    ) -> Backfill[DataFrame]:
        upstreams, empty = dict[str, Upstream[DataFrame]](), dict[str, DataFrame]()
        for part in definition.parts:
            table, reads = inputs[part.table], [column for column, _ in part.columns]
            empty[part.table] = self._narrow(table, session, reads)
            history = self._history(table.location)
            upstreams[part.table] = WholeDelta(session, table.location, reads, derived=table.derived, history=history)
        with translated(UpstreamReplaced):
            derivation = Anew(session, definition.sql, empty)
            schema = derivation.nothing().schema
        return self._machine(job, definition, session, upstreams, derivation, schema, _floats(schema))

    def build_database_replica(self, job: Job, definition: JobDefinition) -> Backfill[DataFrame]:
        """The machine of the generation of a replica of a table in another database."""
        session = self._meaning_of(dict(definition.semantics))
        source = self.databases.source_of(definition)
        found = database_input(source, self.databases.find(source, made=True))
        derivation = _derivation(definition, self._empty(found, session))
        schema = derivation.nothing().schema
        upstream = self.databases.upstream(session, job, definition)
        return self._machine(job, definition, session, {INPUT: upstream}, derivation, schema)

    def _machine(
        self,
        job: Job,
        definition: JobDefinition,
        session: SparkSession,
        upstreams: Mapping[str, Upstream[DataFrame]],
        derivation: Derivation[DataFrame],
        schema: StructType,
        rounded: Sequence[str] = (),
        walked: Sequence[DeltaUpstream] = (),
    ) -> Backfill[DataFrame]:
        path = self.path(job, job.generation)
        target = DeltaTarget(session, path, schema, definition.key, job.name, rounded=rounded, job_id=job.id)
        by_key = definition.kind is Kind.REPLICA and definition.walk == definition.key

        def first() -> int | None:
            sizes = [upstream.size() for upstream in walked]
            return first_rows(sum(rows for rows, _ in sizes), sum(size for _, size in sizes)) if sizes else None

        def let_go() -> None:
            for part in (derivation, *upstreams.values()):
                if isinstance(part, (View, DeltaUpstream)):
                    with suppress(Exception):  # what a Spark that is gone has kept is gone too
                        part.let_go()

        return Backfill(
            upstreams, derivation, target, lambda: uuid.uuid4().hex,
            by_key=by_key, first_rows=first, let_go=let_go,
        )  # fmt: skip

    def _meaning_of(self, semantics: dict[str, str]) -> SparkSession:
        session = job_session(self.spark)
        Semantics.from_json(semantics).apply(session)
        return session

    def unpublish(self, name: str, path: str) -> None:
        """Remove the view that shows the table at the path from the session's catalog, if it is there."""
        unpublish(self.spark, name, path)

    def check_name(self, name: str) -> None:
        """Raise NameTaken if a new job of that name could not be shown in the session's catalog."""
        check_name(self.spark, name)

    def table(self, location: str) -> DataFrame:
        """The user's columns of a table."""
        frame = self._frame(location)
        return frame.select(*(quoted(name) for name in frame.columns if not name.startswith(HIDDEN)))


def database_input(source: Source, found: Found) -> Input:
    """A table of another database, as what a job reads."""
    return Input(source.name, "", found.key, columns=found.columns)


def _derivation(definition: JobDefinition, empty: DataFrame) -> RowWise:
    check_columns(definition.input, definition.reads, empty.columns)
    narrow = empty.select(*map(quoted, definition.reads)) if definition.reads else empty
    columns = dict(definition.columns) or None
    text = definition.sql if definition.kind is Kind.VIEW else ""
    return RowWise(
        narrow, columns, definition.key, where=definition.where, alias=definition.alias,
        text=text, table=definition.input,
    )  # fmt: skip


def _or_none(find: Callable[[tuple[str, ...]], Input], parts: tuple[str, ...]) -> Input | None:
    try:
        return find(parts)
    except UnknownTable:
        return None


def _frozen(semantics: Semantics) -> tuple[tuple[str, str], ...]:
    """As a definition keeps them."""
    return tuple(sorted(semantics.to_json().items()))


def _visible(schema: StructType) -> StructType:
    return StructType([field for field in schema if not field.name.startswith(HIDDEN)])


def _typed(fields: Iterable[StructField]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.dataType.simpleString()) for field in fields)


def _floats(schema: StructType) -> list[str]:
    return [field.name for field in schema if isinstance(field.dataType, DoubleType | FloatType)]


def _columns_of(plan: ViewPlan, empty: Mapping[str, DataFrame], session: SparkSession) -> StructType:
    """The columns of a compiled view, hidden ones too. `empty`: its inputs without rows, by name."""
    frames = {f"__tf_new_{number}": empty[scan.table] for number, scan in enumerate(plan.scans)}
    return statement(session, plan.whole(), frames).schema


def _reads_of(definition: JobDefinition, name: str, table: Input) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of an input that a compiled view reads, and in which order the input is walked."""
    parts = [part for part in definition.parts if part.table == name]
    reads = tuple(dict.fromkeys(column for part in parts for column, _ in part.columns))
    return reads, next((part.walk for part in parts if part.walk), table.key)


def _part(
    scan: Scan,
    key: tuple[str, ...],
    schema: StructType,
    named: Collection[str],
    walks: Mapping[str, Walk],
    drivers: Drivers,
) -> Part:
    """It reads what the plan needs, and what the text names beside that: without those columns Spark would not take the
    text when a runner compiles it again, or when VERIFY runs it."""
    shown = (name for name in schema.fieldNames() if name.casefold() in named and not name.startswith(HIDDEN))
    reads = tuple(dict.fromkeys((*scan.sources, *shown)))
    _refuse_maps(schema, reads)
    columns = _typed(schema[name] for name in reads)
    if scan.occurrence not in drivers.occurrences:
        return Part(scan.occurrence, scan.table, columns, key)
    walk = walks[scan.occurrence]
    return Part(scan.occurrence, scan.table, columns, key, walk.columns, walk.reason, drivers.group_columns)


def _drivers_of(definition: JobDefinition, plan: ViewPlan) -> Drivers:
    """Those that were chosen when the job was created. Groups that were not kept whole from the beginning may have been
    cut already."""
    parts = {part.occurrence: part for part in definition.parts if part.walk}
    walks = {name: part.walk[: part.group_columns] for name, part in parts.items()}
    rows = {scan.occurrence: int(scan.occurrence in parts) for scan in plan.scans}
    return choose(plan.root, rows, lambda name: walks.get(name, ()))


def _refuse_another_plan(definition: JobDefinition, plan: ViewPlan, schema: StructType, drivers: Drivers) -> None:
    """What was made by a release that planned the query in another way cannot be gone on with."""
    columns = _typed(schema)
    walked = tuple((part.occurrence, part.group_columns) for part in definition.parts if part.walk)
    walked_now = tuple((name, drivers.group_columns) for name in drivers.occurrences)
    if (columns, plan.key, walked_now) != (definition.columns, definition.key, walked):
        raise UpstreamReplaced(
            f"the query over {', '.join(definition.tables)} is planned in another way than when it was created",
            detail=f"Its columns were {definition.columns}, now they are {columns}.",
            hint="The types of a table changed, or another release made the view. Drop it and create it anew.",
        )


@contextmanager
def _as_input(fact: str, kind: type[TidefillError] = UpstreamUnfit) -> Iterator[None]:
    """What Spark refuses while something is being created is a mistake in what was asked for."""
    try:
        with translated():
            yield
    except (RetryLater, BadInput):
        raise
    except TidefillError as error:
        raise kind(fact, detail=error.detail) from error


def _expanded(query: RowQuery, shown: StructType) -> list[Item]:
    """The items, with every column in place of a star."""
    every = [Item(f"{quoted(query.alias)}.{quoted(field.name)}", field.name, field.name) for field in shown]
    return [one for item in query.items for one in (every if isinstance(item, Star) else [item])]


def _may_name(sql: str, column: str) -> bool:
    """Whether the query may name the column: sometimes it does not after all, and the column is read in vain."""
    name = re.escape(column.replace("`", "``").casefold())
    return re.search(rf"(?<!\w){name}(?!\w)", sql.casefold()) is not None


def _output_key(
    items: Sequence[Item], schema: StructType, key: Sequence[str], alias: str
) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
    """The output columns that identify a row; a column of the input's key that is not selected becomes a hidden one."""
    names: list[str] = []
    hidden: list[tuple[str, str]] = []
    for column in key:
        shown = (field.name for field, item in zip(schema, items, strict=True) if _is_same(item.column, column))
        name = next(shown, f"{HIDDEN}key_{column.removeprefix(HIDDEN + 'key_')}")
        if name.startswith(HIDDEN):
            hidden.append((name, f"{quoted(alias)}.{quoted(column)}"))
        names.append(name)
    return tuple(names), hidden


def _is_same(written: str | None, column: str) -> bool:
    """Whether the column may be meant. (Where names are case-sensitive, two columns may differ in case alone; then the
    hidden column is the safe choice.)"""
    return written is not None and written.casefold() == column.casefold()


def refuse_names(table: str, schema: StructType, hint: str) -> None:
    """UpstreamUnfit if a copy of the table would have columns that Delta cannot name."""
    names = [field.name for field in schema if NOT_IN_DELTA.search(field.name)]
    if names:
        raise UpstreamUnfit(
            f"{table} has columns that a replica cannot have",
            detail=f"Delta takes no blanks and none of ,;{{}}()= in a name: {', '.join(map(repr, names))}.",
            hint=hint,
        )


def _refuse_columns(schema: StructType) -> None:
    seen: set[str] = set()
    for field in schema:
        if NOT_IN_DELTA.search(field.name):
            raise UnsupportedQuery(
                f"a column cannot be named {field.name!r}", hint="Give the expression a name: ... AS total."
            )
        if field.name.casefold() in seen:
            raise UnsupportedQuery(f"two columns are named {field.name}", hint="Rename one of them with AS.")
        seen.add(field.name.casefold())
    refuse_unstorable(schema)


def _refuse_incomparable(schema: StructType) -> None:
    """Outputs that cannot be told apart from others."""
    for field in schema:
        if _incomparable(field.dataType):
            hint = "Turn it into text: to_json(...)."
            raise UnsupportedQuery(
                f"column {field.name} cannot be compared: {field.dataType.simpleString()}", hint=hint
            )


def _refuse_maps(schema: StructType, reads: Sequence[str]) -> None:
    """Spark cannot tell whether two maps, or two variants, are equal: changes of rows with them cannot be netted."""
    for name in reads:
        if kind := _incomparable(schema[name].dataType):
            raise UpstreamUnfit(
                f"column {name} holds a {kind}, which cannot be compared yet",
                hint="Leave the column out: a view of the other columns can be made.",
            )


def _incomparable(kind: DataType) -> str:
    """What in the type cannot be compared; empty if all of it can."""
    match kind:
        case MapType() | VariantType():
            return kind.typeName()
        case StructType():
            return next(filter(None, (_incomparable(field.dataType) for field in kind)), "")
        case ArrayType():
            return _incomparable(kind.elementType)
    return ""


def prepare_warehouse(warehouse: str) -> None:
    """Make the folder, or say why not."""
    folder = local_path(warehouse)
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidSetting(
            f"the warehouse {folder} cannot be made", detail=str(error.strerror), hint="Name a folder you may write."
        ) from error
