"""A Delta table as a target: one commit a step, an append or a MERGE, that carries the payload.

Delta skips a transaction number that it has seen, in silence; so the caller reads the log back. The log is the truth:
`log` tells what each commit did to the data, by its operation.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, assert_never

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from tidefill.core.confirm import Counts, Effect, Entry, Payload, payload_from_json, payload_to_json
from tidefill.errors import KeyNotUnique, UnsupportedKey
from tidefill.ports import Append, Merge, Replace, TargetWrite
from tidefill.spark.coverage import collectable, key_of, key_types, literal
from tidefill.spark.faults import translated
from tidefill.spark.names import HIDDEN, MARK, quoted, table_at

DIFFERENCES_MAX = 10
PROPERTIES = {
    "delta.enableChangeDataFeed": "true",
    "delta.enableDeletionVectors": "true",
    "delta.autoOptimize.autoCompact": "false",
}
HARMLESS = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END"})
WRITES = frozenset({"WRITE", "MERGE"})


class DeltaTarget:
    """The table of one generation at a path of its own. The frames it is given come from the job's own session: the
    settings of that session carry the payload of a MERGE."""

    def __init__(self, session: SparkSession, path: str, schema: StructType, key: Sequence[str], name: str) -> None:
        self._spark = session
        self._path = path
        self._schema = schema
        self._key = tuple(key)
        self._name = name
        self.resources: tuple[str, ...] = (f"path:{path}", f"view:{name}@{path}")

    @property
    def _table(self) -> str:
        return table_at(self._path)

    def prepare(self) -> None:
        """The empty table, with its change feed on from the first version."""
        properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
        with translated():
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._table} ({self._schema.toDDL()}) "
                f"USING delta TBLPROPERTIES ({properties})"
            )

    def log(self) -> Sequence[Entry]:
        """The table's history, oldest first."""
        with translated():
            rows = self._spark.sql(f"DESCRIBE HISTORY {self._table}").collect()
        return [_entry(row) for row in reversed(rows)]

    def _refuse_missing(self) -> None:
        """A commit to a path without a table would make one."""
        with translated():
            self._spark.sql(f"DESCRIBE DETAIL {self._table}").collect()

    def commit(self, write: TargetWrite[DataFrame], payload: Payload) -> None:
        """One commit; the change set of a MERGE is evaluated once and kept while it is counted and written."""
        self._refuse_missing()
        match write:
            case Append(rows):
                self._write(rows, "append", payload)
            case Replace(rows):
                self._write(rows, "overwrite", payload)
            case Merge(changes, exact):
                self._merge(changes, payload, exact=exact)
            case never:
                assert_never(never)

    def _write(self, rows: DataFrame, mode: str, payload: Payload) -> None:
        with translated():
            (
                rows.select(*self._schema.fieldNames())
                .write.format("delta")
                .mode(mode)
                .option("txnAppId", payload.generation_uuid)
                .option("txnVersion", payload.state.step)
                .option("userMetadata", _text(payload))
                .save(self._path)
            )

    def _merge(self, changes: DataFrame, payload: Payload, *, exact: bool) -> None:
        session = changes.sparkSession
        with translated():
            kept = changes.cache()
            view = "__tf_" + uuid.uuid4().hex
            try:
                expected = self._counted(kept)
                carried = replace(payload, expected=expected) if exact else payload
                kept.createOrReplaceTempView(view)
                with _carrying(session, carried):
                    session.sql(self._merge_sql(view, self._bounds(kept))).collect()
            finally:
                session.catalog.dropTempView(view)
                kept.unpersist()

    def _counted(self, changes: DataFrame) -> Counts:
        """How many rows it will insert, update and delete, if the marks are right. A key may be there once."""
        by_mark = {row[MARK]: row["n"] for row in changes.groupBy(MARK).agg(f.count("*").alias("n")).collect()}
        twice = changes.groupBy(*self._key).count().where("count > 1").limit(DIFFERENCES_MAX).collect()
        if twice:
            keys = ", ".join(str(tuple(row)[:-1]) for row in twice)
            raise KeyNotUnique("several changes of one key in one step", detail=f"e.g. {keys}")
        return Counts(by_mark.get("I", 0), by_mark.get("U", 0), by_mark.get("D", 0))

    def _bounds(self, changes: DataFrame) -> str:
        """Constant bounds of the first key column, so that Delta reads only the files that may match."""
        name = self._key[0]
        try:
            kind = key_types(self._schema, [name])[0]
        except UnsupportedKey:
            return ""
        column = f.col(quoted(name))
        nulls = f.count_if(column.isNull()).alias("nulls")
        ends = changes.agg(f.min(column).alias("low"), f.max(column).alias("high"), nulls)
        low_high = collectable([f.col("low"), f.col("high")], [kind, kind])
        found = ends.select(*low_high, "nulls").first()
        if found is None or found[0] is None or found[2]:
            return ""
        low, high = (literal(value, kind) for value in key_of(tuple(found)[:2], [kind, kind]).values)
        return f" AND t.{quoted(name)} >= {low} AND t.{quoted(name)} <= {high}"

    def _merge_sql(self, view: str, bounds: str) -> str:
        names = [quoted(name) for name in self._schema.fieldNames()]
        on = " AND ".join(f"t.{quoted(name)} <=> s.{quoted(name)}" for name in self._key)
        sets = ", ".join(f"t.{name} = s.{name}" for name in names)
        values = ", ".join(f"s.{name}" for name in names)
        return (
            f"MERGE INTO {self._table} t USING {view} s ON {on}{bounds} "
            f"WHEN MATCHED AND s.{MARK} = 'D' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {sets} "
            f"WHEN NOT MATCHED AND s.{MARK} <> 'D' THEN INSERT ({', '.join(names)}) VALUES ({values})"
        )

    def differences(self, expected: DataFrame, version: int) -> Sequence[str]:
        """What one side has and the other has not."""
        columns = self._schema.fieldNames()
        with translated():
            found = self._spark.read.format("delta").option("versionAsOf", version).load(self._path).select(*columns)
            wanted = expected.select(*columns)
            missing = wanted.exceptAll(found).limit(DIFFERENCES_MAX).collect()
            extra = found.exceptAll(wanted).limit(DIFFERENCES_MAX).collect()
        told = [f"missing {tuple(row)}" for row in missing] + [f"extra {tuple(row)}" for row in extra]
        return told[:DIFFERENCES_MAX]

    def publish(self) -> None:
        """A view in the session's catalog that shows the user's columns; it is replaced in one go."""
        shown = ", ".join(quoted(name) for name in self._schema.fieldNames() if not name.startswith(HIDDEN))
        with translated():
            self._spark.sql(f"CREATE OR REPLACE VIEW {quoted(self._name)} AS SELECT {shown} FROM {self._table}")


@contextmanager
def _carrying(session: SparkSession, payload: Payload) -> Iterator[None]:
    """A MERGE takes its payload from the settings of the session that runs it."""
    settings = {
        "spark.databricks.delta.commitInfo.userMetadata": _text(payload),
        "spark.databricks.delta.write.txnAppId": payload.generation_uuid,
        "spark.databricks.delta.write.txnVersion": str(payload.state.step),
    }
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name in settings:
            session.conf.unset(name)


def _text(payload: Payload) -> str:
    return json.dumps({"tidefill": payload_to_json(payload)})


def _entry(row: Row) -> Entry:
    operation, payload = row["operation"], _payload(row["userMetadata"])
    version = int(row["version"])
    if operation == "CREATE TABLE" and version == 0:
        return Entry(version, Effect.BIRTH)
    if operation in HARMLESS or _keeps_the_feed(operation, row["operationParameters"] or {}):
        return Entry(version, Effect.NONE, payload)
    if operation in WRITES and payload is not None:
        return Entry(version, Effect.WRITE, payload, _counts(operation, row["operationMetrics"] or {}))
    return Entry(version, Effect.FOREIGN, payload)


def _keeps_the_feed(operation: str, parameters: dict[str, str]) -> bool:
    if operation != "SET TBLPROPERTIES":
        return False
    properties = json.loads(parameters.get("properties", "{}"))
    return str(properties.get("delta.enableChangeDataFeed", "true")).lower() == "true"


def _payload(text: str | None) -> Payload | None:
    """The payload, if this is one of ours. A damaged one is an error, not a stranger."""
    try:
        data: Any = json.loads(text) if text else None
    except ValueError:
        return None
    if not isinstance(data, dict) or "tidefill" not in data:
        return None
    return payload_from_json(data["tidefill"])


def _counts(operation: str, metrics: dict[str, str]) -> Counts:
    def metric(name: str) -> int:
        return int(metrics.get(name, 0))

    if operation == "MERGE":
        return Counts(metric("numTargetRowsInserted"), metric("numTargetRowsUpdated"), metric("numTargetRowsDeleted"))
    return Counts(inserted=metric("numOutputRows"))
