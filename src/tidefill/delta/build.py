"""Builds the machine of a job's generation: its upstreams, its derivation and its target on Delta tables."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, FloatType, StructType

from tidefill.core.sizing import first_rows
from tidefill.delta.inputs import Input, Tables, row_wise, typed
from tidefill.delta.target import DeltaTarget
from tidefill.delta.uniqueness import DeltaUniqueness
from tidefill.delta.upstream import DeltaUpstream, check_columns
from tidefill.delta.warehouse import Warehouse
from tidefill.delta.whole import WholeDelta
from tidefill.errors import UpstreamReplaced
from tidefill.jobs.definitions import (
    INPUT,
    FullViewDefinition,
    LakeIndexDefinition,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
)
from tidefill.jobs.row import Job
from tidefill.ports.derivation import Derivation
from tidefill.ports.uniqueness import Uniqueness
from tidefill.ports.upstream import Upstream
from tidefill.run.backfill import Backfill
from tidefill.spark.compiling import Known
from tidefill.spark.compiling import recompiled as recompile_query
from tidefill.spark.derive_full import FullQuery
from tidefill.spark.derive_view import View, statement
from tidefill.spark.faults import translated
from tidefill.spark.names import HIDDEN, quoted
from tidefill.spark.widening import is_same_number
from tidefill.views.plan.drivers import Drivers, choose
from tidefill.views.plan.plan import ViewPlan
from tidefill.views.reading.functions import calls
from tidefill.views.reading.lexer import read as read_text
from tidefill.views.reading.lexer import tokens_of

OF_TYPES = frozenset({"hash", "xxhash64", "typeof", "shiftrightunsigned", "bit_count"})
"""Functions that give something else for the same number in a wider type."""

OverTables: TypeAlias = ReplicaDefinition | RowViewDefinition | PlannedViewDefinition | FullViewDefinition
"""What is made from Delta tables alone."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A compiled view: its plan, what is walked, its inputs without rows by name, and its columns, hidden ones too."""

    plan: ViewPlan
    drivers: Drivers
    empty: dict[str, DataFrame]
    schema: StructType


class Builder:
    """Builds machines over these tables, with targets in this warehouse."""

    def __init__(self, tables: Tables, warehouse: Warehouse) -> None:
        self._tables = tables
        self._warehouse = warehouse

    def build(self, job: Job, definition: OverTables, inputs: Mapping[str, Input]) -> Backfill[DataFrame]:
        """The machine of the job's generation, over the inputs that the definition names."""
        session = self._tables.session_with(dict(definition.semantics))
        match definition:
            case ReplicaDefinition() | RowViewDefinition():
                return self._build_row_wise(job, definition, inputs[definition.input], session)
            case PlannedViewDefinition():
                return self._build_planned(job, definition, inputs, session)
            case FullViewDefinition():
                return self._build_full(job, definition, inputs, session)
            case never:
                assert_never(never)

    def _build_row_wise(
        self, job: Job, definition: ReplicaDefinition | RowViewDefinition, table: Input, session: SparkSession
    ) -> Backfill[DataFrame]:
        known: tuple[str, ...]
        match definition:
            case ReplicaDefinition():
                input_key, reads, known = definition.key, None, ()
                by_key = definition.walk == definition.key
            case RowViewDefinition():
                input_key, reads, known = definition.input_key, definition.reads or None, definition.known
                by_key = False
            case never:
                assert_never(never)
        upstream = DeltaUpstream(
            session, table.location, input_key, definition.walk, columns=reads, known=known,
            null_keys=table.null_keys, derived=table.derived, history=self._tables.history(table.location),
        )  # fmt: skip
        with translated(UpstreamReplaced):
            empty = self._tables.empty(table, session)
            check_columns(table.name, (*input_key, *definition.walk), empty.columns)
            derivation = row_wise(definition, empty)
            schema = derivation.nothing().schema
        order = definition.order if isinstance(definition, LakeIndexDefinition) else ()
        target = self.target(job, session, schema, definition.key, order=order)
        unique = isinstance(definition, LakeIndexDefinition) and definition.unique
        path = self._warehouse.path(job, job.generation)
        uniqueness = DeltaUniqueness(session, path, order, target.touched) if unique else None
        return self.machine(
            target, {INPUT: upstream}, derivation, walked=[upstream], by_key=by_key, uniqueness=uniqueness
        )

    def _build_planned(
        self, job: Job, definition: PlannedViewDefinition, inputs: Mapping[str, Input], session: SparkSession
    ) -> Backfill[DataFrame]:
        planned = self.planned(definition, inputs, session)
        plan, empty, schema = planned.plan, planned.empty, planned.schema
        upstreams = {}
        for name, table in inputs.items():
            reads, walk = _reads_of(definition, name, table)
            upstreams[name] = DeltaUpstream(
                session, table.location, table.key, walk, columns=reads, null_keys=table.null_keys,
                derived=table.derived, history=self._tables.history(table.location),
            )  # fmt: skip
        path = self._warehouse.path(job, job.generation)
        rounded = [name for name in _floats(schema) if plan.adds_up and name not in plan.key]
        target = self.target(job, session, schema, definition.key, rounded)
        view = View(
            session, plan, planned.drivers, {scan.occurrence: empty[scan.table] for scan in plan.scans},
            lambda: self._tables.frame(path, session),
            lambda name: self._tables.history(inputs[view.shape.tables[name]].location).survey().size,
            text=definition.sql, small=target.small,
        )  # fmt: skip
        walked = [upstreams[part.table] for part in definition.walked]
        return self.machine(target, upstreams, view, walked)

    def _build_full(
        self, job: Job, definition: FullViewDefinition, inputs: Mapping[str, Input], session: SparkSession
    ) -> Backfill[DataFrame]:
        upstreams, empty = dict[str, Upstream[DataFrame]](), dict[str, DataFrame]()
        for part in definition.parts:
            table, reads = inputs[part.table], [column for column, _ in part.columns]
            empty[part.table] = self._narrow(table, session, reads)
            history = self._tables.history(table.location)
            upstreams[part.table] = WholeDelta(session, table.location, reads, derived=table.derived, history=history)
        with translated(UpstreamReplaced):
            derivation = FullQuery(session, definition.sql, empty)
            schema = derivation.nothing().schema
        target = self.target(job, session, schema, definition.key, _floats(schema))
        return self.machine(target, upstreams, derivation)

    def target(
        self,
        job: Job,
        session: SparkSession,
        schema: StructType,
        key: Sequence[str],
        rounded: Sequence[str] = (),
        order: Sequence[str] = (),
        place: Sequence[str] = (),
        fixed: Sequence[str] = (),
    ) -> DeltaTarget:
        """The table of the job's generation. `key`: the columns that identify a row. `rounded`: columns that are
        compared only roughly. `order`: columns by which the table is laid out. `place`, `fixed`: as of the target."""
        path = self._warehouse.path(job, job.generation)
        return DeltaTarget(
            session, path, schema, key, job.name,
            rounded=rounded, order=order, place=place, fixed=fixed, job_id=job.id,
        )  # fmt: skip

    def machine(
        self,
        target: DeltaTarget,
        upstreams: Mapping[str, Upstream[DataFrame]],
        derivation: Derivation[DataFrame],
        walked: Sequence[DeltaUpstream] = (),
        *,
        by_key: bool = False,
        uniqueness: Uniqueness | None = None,
    ) -> Backfill[DataFrame]:
        """The machine over these upstreams. `walked`: those that are filled by chunks. `by_key`: the output is a copy
        that is walked along its key. `uniqueness`: of a unique index."""

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
            by_key=by_key, first_rows=first, let_go=let_go, uniqueness=uniqueness,
        )  # fmt: skip

    def planned(self, definition: PlannedViewDefinition, inputs: Mapping[str, Input], session: SparkSession) -> Planned:
        """The plan of a definition, over the columns that the definition says are read. Every runner makes it, and
        CREATE tries whether it can be made. UpstreamReplaced if it is not the plan that was created."""
        empty = {
            name: self._narrow(table, session, *_reads_of(definition, name, table)) for name, table in inputs.items()
        }
        shown = [name for name, _ in definition.columns if not name.startswith(HIDDEN)]
        known = [Known(name, frame, inputs[name].key) for name, frame in empty.items()]
        with translated(UpstreamReplaced):
            plan = recompile_query(session, definition.sql, known, shown)
            schema = columns_of(plan, empty, session)
        drivers = _drivers_of(definition, plan)
        _refuse_another_plan(definition, plan, schema, drivers, empty)
        return Planned(plan, drivers, empty, schema)

    def _narrow(self, table: Input, session: SparkSession, reads: Sequence[str], walk: Sequence[str] = ()) -> DataFrame:
        """No rows of the input, but those of its columns that a job needs; UpstreamReplaced if it has lost one."""
        with translated(UpstreamReplaced):
            frame = self._tables.empty(table, session)
            check_columns(table.name, (*reads, *walk), frame.columns)
            return frame.select(*map(quoted, dict.fromkeys((*reads, *walk))))


def _floats(schema: StructType) -> list[str]:
    return [field.name for field in schema if isinstance(field.dataType, DoubleType | FloatType)]


def columns_of(plan: ViewPlan, empty: Mapping[str, DataFrame], session: SparkSession) -> StructType:
    """The columns of a compiled view, hidden ones too. `empty`: its inputs without rows, by name."""
    frames = {f"__tf_new_{number}": empty[scan.table] for number, scan in enumerate(plan.scans)}
    return statement(session, plan.whole(), frames).schema


def _reads_of(definition: PlannedViewDefinition, name: str, table: Input) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns of an input that a compiled view reads, and in which order the input is walked."""
    parts = [part for part in definition.parts if part.table == name]
    reads = tuple(dict.fromkeys(column for part in parts for column, _ in part.columns))
    return reads, next((part.walk for part in parts if part.walk), table.key)


def _drivers_of(definition: PlannedViewDefinition, plan: ViewPlan) -> Drivers:
    """Those that were chosen when the job was created. Groups that were not kept whole from the beginning may have been
    cut already."""
    parts = {part.occurrence: part for part in definition.walked}
    walks = {name: part.walk[: part.group_columns] for name, part in parts.items()}
    rows = {scan.occurrence: int(scan.occurrence in parts) for scan in plan.scans}
    return choose(plan.root, rows, lambda name: walks.get(name, ()))


def _only_wider(definition: PlannedViewDefinition, schema: StructType, empty: Mapping[str, DataFrame]) -> bool:
    """Whether types of the inputs became wider, and those of the view with them, so that the rows that the view has are
    still what its query gives."""
    inputs = {name: dict(typed(frame.schema)) for name, frame in empty.items()}
    read = [(inputs[part.table][name], kind) for part in definition.parts for name, kind in part.columns]
    columns = zip(typed(schema), definition.columns, strict=False)
    shown = [(now, before) for (_, now), (_, before) in columns]
    names = [name for name, _ in definition.columns]
    depends = {call.last_name for call in calls(list(tokens_of(read_text(definition.sql))))} & OF_TYPES
    return names == schema.names and not depends and all(is_same_number(*pair) for pair in (*read, *shown))


def _refuse_another_plan(
    definition: PlannedViewDefinition,
    plan: ViewPlan,
    schema: StructType,
    drivers: Drivers,
    empty: Mapping[str, DataFrame],
) -> None:
    """What was made by a release that planned the query in another way cannot be gone on with."""
    columns = typed(schema)
    walked = tuple((part.occurrence, part.group_columns) for part in definition.walked)
    walked_now = tuple((name, drivers.group_columns) for name in drivers.occurrences)
    same = columns == definition.columns or _only_wider(definition, schema, empty)
    if not same or (plan.key, walked_now) != (definition.key, walked):
        raise UpstreamReplaced(
            f"the query over {', '.join(definition.tables)} is planned in another way than when it was created",
            detail=f"Its columns were {definition.columns}, now they are {columns}.",
            hint="The types of a table changed, or another release made the view. Drop it and create it anew.",
        )
