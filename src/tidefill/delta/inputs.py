"""Delta tables as the inputs of jobs: where each lies, what it looks like, and how it is read."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructField, StructType

from tidefill.delta.history import DeltaHistory
from tidefill.delta.refusals import as_input
from tidefill.delta.upstream import DeltaUpstream, check_columns
from tidefill.delta.walk import Walk, choose_walk
from tidefill.errors import InvalidSetting, UpstreamUnfit
from tidefill.jobs.definitions import (
    FullViewDefinition,
    LakeDefinition,
    LakeIndexDefinition,
    OverOne,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TableDefinition,
    TopicReplicaDefinition,
)
from tidefill.spark.coverage import key_types
from tidefill.spark.derive_rows import RowWise
from tidefill.spark.names import HIDDEN, quoted, table_at
from tidefill.spark.session import Semantics, job_session

CHANGE_FEED = "delta.enableChangeDataFeed"
NO_ROW_IDS = "Delta's own row ids do not do: its change feed has none, and to look for new ones reads every file."


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
    made_by: tuple[LakeDefinition, Input | None] | None = None
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


class Tables:
    """The Delta tables that one Spark can reach."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._of_thread = threading.local()

    def location_of(self, table: str) -> str:
        """Where the catalog's table of that name lies."""
        with as_input(f"there is no Delta table {table}"):
            return str(self.spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]["location"])

    def check_table(self, table: TableDefinition) -> None:
        """Refuse what could not be read later, with the statement that mends it."""
        detail = self.detail(table.location)
        frame = self.frame(table.location)
        if not table.key:
            hint = "Name the columns that identify a row: KEY (id)."
            raise InvalidSetting("a key is missing", detail=NO_ROW_IDS, hint=hint)
        for what, names in (("key", table.key), ("walk", table.walk)):
            if len(set(names)) < len(names):
                raise InvalidSetting(f"the {what} names a column twice", detail=", ".join(names))
        key_types(frame.schema, (*table.key, *table.walk))
        if str(detail["properties"].get(CHANGE_FEED, "false")).lower() != "true":
            raise UpstreamUnfit(
                f"the table at {table.location} does not record its changes",
                hint=f"ALTER TABLE {table_at(table.location)} SET TBLPROPERTIES ({CHANGE_FEED} = true)",
            )

    def detail(self, location: str) -> Row:
        with as_input(f"there is no Delta table at {location}"):
            return self.spark.sql(f"DESCRIBE DETAIL {table_at(location)}").collect()[0]

    def frame(self, location: str, session: SparkSession | None = None) -> DataFrame:
        return (session or self.spark).read.format("delta").load(location)

    def check_keys(self, table: Input) -> None:
        """KeyNotUnique, naming them."""
        upstream = self.upstream(table)
        with upstream.open_head(first=True) as head:
            upstream.check_keys(head)

    def upstream(self, table: Input) -> DeltaUpstream:
        """To look at all of it, not for a job: every column, walked along the key."""
        history = self.history(table.location)
        return DeltaUpstream(self.spark, table.location, table.key, table.key, history=history)

    def head(self, location: str) -> int:
        """The newest version."""
        return self.history(location).survey(fresh=True).head

    def history(self, location: str) -> DeltaHistory:
        """One for each table, shared by all jobs that read it and run in this thread: what a thread was told of a table
        must not be replaced by another thread between two questions."""
        histories: dict[str, DeltaHistory] = self._of_thread.__dict__.setdefault("histories", {})
        return histories.setdefault(location, DeltaHistory(self.spark, location))

    def detail_of(self, table: Input) -> Row | None:
        """None if it is not live yet."""
        return None if table.made_by else self.detail(table.location)

    def size(self, table: Input, detail: Row | None) -> Size:
        """By its log, which counts the rows of each file; a file is read only if it was written without that."""
        if detail is None:
            return Size(table.name, live=False)
        upstream = self.upstream(table)
        with upstream.open_head(first=True) as head:
            return Size(table.name, upstream.row_count(head), int(detail["sizeInBytes"] or 0))

    def walk(self, table: Input, detail: Row | None) -> Walk:
        if table.walk:
            return Walk(tuple(dict.fromkeys((*table.walk, *table.key))), "as it was given", True)
        if detail is None:
            return Walk(table.key, f"the key of {table.name}, which is still being made", True)
        return choose_walk(self.spark, self.frame(table.location), detail, table.key)

    def empty(self, table: Input, session: SparkSession) -> DataFrame:
        """No rows of the input, but its columns."""
        if table.columns:
            return _empty_of(table.columns, session)
        if table.made_by is None:
            return self.frame(table.location, session).where("false")
        definition, below = table.made_by
        match definition:
            case PlannedViewDefinition() | FullViewDefinition():
                return _empty_of(definition.columns, session)
            case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition() | RowViewDefinition():
                assert below is not None, "a job over one table has that table"
                return row_wise(definition, self.empty(below, session)).nothing()
            case never:
                assert_never(never)

    def shown(self, table: Input) -> StructType:
        return visible(self.empty(table, self.spark).schema)

    def table(self, location: str) -> DataFrame:
        """The user's columns of a table."""
        frame = self.frame(location)
        return frame.select(*(quoted(name) for name in frame.columns if not name.startswith(HIDDEN)))

    def session_with(self, semantics: dict[str, str]) -> SparkSession:
        session = job_session(self.spark)
        Semantics.from_json(semantics).apply(session)
        return session


def _empty_of(columns: Sequence[tuple[str, str]], session: SparkSession) -> DataFrame:
    """No rows of these columns, given by name and type."""
    nulls = ", ".join(f"CAST(NULL AS {kind})" for _, kind in columns)
    names = ", ".join(quoted(name) for name, _ in columns)
    return session.sql(f"SELECT * FROM VALUES ({nulls}) AS input ({names})").where("false")


def row_wise(definition: OverOne, empty: DataFrame) -> RowWise:
    """The derivation of a job over one input. `empty`: no rows of the input, but its columns. Raises UpstreamReplaced
    if the input has lost a column that the job reads."""
    match definition:
        case ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition():
            return RowWise(empty, None, definition.key, table=definition.input)
        case RowViewDefinition():
            order = definition.order if isinstance(definition, LakeIndexDefinition) else ()
            check_columns(definition.input, definition.reads, empty.columns)
            narrow = empty.select(*map(quoted, definition.reads)) if definition.reads else empty
            return RowWise(
                narrow, dict(definition.columns) or None, definition.key, where=definition.where,
                alias=definition.alias, text=definition.sql, table=definition.input, order=order,
            )  # fmt: skip
        case never:
            assert_never(never)


def visible(schema: StructType) -> StructType:
    return StructType([field for field in schema if not field.name.startswith(HIDDEN)])


def typed(fields: Iterable[StructField]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, field.dataType.simpleString()) for field in fields)


def frozen(semantics: Semantics) -> tuple[tuple[str, str], ...]:
    """As a definition keeps them."""
    return tuple(sorted(semantics.to_json().items()))
