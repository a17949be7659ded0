"""A target of few rows, which are kept in memory: a step then reads nothing of it, and writes all of it.

Example: sums by country. A step computes the countries that changed from the changes and from the rows in memory, puts
them among these rows, and overwrites the table: one small file, no search for the rows that go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from tidefill.core.after_commit import AfterCommit
from tidefill.core.confirm import Entry
from tidefill.delta.log.table_log import TableLog
from tidefill.errors import UnsupportedKey
from tidefill.spark.coverage import key_types
from tidefill.spark.faults import translated
from tidefill.spark.local_rows import BYTES_MAX, as_frame, brought, can_be_brought, values_of
from tidefill.spark.names import MARK, quoted
from tidefill.spark.session import without_constraint_propagation
from tidefill.spark.widening import widened

ROWS_MAX = 1000
"""To write so many rows again costs no more than to find the files of a few of them."""


@dataclass(frozen=True, slots=True)
class Change:
    """Rows with their marks, and all rows of the table after them."""

    changes: pa.Table
    after: pa.Table


class SmallTarget:
    """The rows of the table at a path, as long as they are few. They are read when somebody first asks for them."""

    def __init__(self, spark: SparkSession, path: str, key: Sequence[str], log: TableLog) -> None:
        self._spark = spark
        self._path = path
        self._log = log
        self._key = tuple(key)
        self._kept = AfterCommit[pa.Table]()
        self._is_large = False

    def judge(self, log: Sequence[Entry]) -> None:
        """The table's log was read."""
        self._kept.judge(log)

    def forget(self) -> None:
        """The columns of the table have changed."""
        self._kept.forget()

    def frame(self, schema: StructType) -> DataFrame | None:
        """The rows, which have these columns, as constants; None if there are more than a few."""
        if self._is_large or not self._can_be_kept(schema):
            return None
        rows = self._kept.known()
        if rows is None and self._kept.version is not None:
            rows = self._load(self._kept.version, schema)
        return None if rows is None else as_frame(self._spark, rows, schema)

    def _can_be_kept(self, schema: StructType) -> bool:
        try:
            key_types(schema, self._key)
        except UnsupportedKey:
            return False
        return can_be_brought(schema)

    def _load(self, version: int, schema: StructType) -> pa.Table | None:
        with translated():
            fits = int(self._log.detail()["sizeInBytes"] or 0) <= BYTES_MAX
            table = self._spark.read.format("delta").option("versionAsOf", version).load(self._path)
            rows = brought(table.select(*map(quoted, schema.fieldNames())), ROWS_MAX) if fits else None
        self._is_large = rows is None
        if rows is not None:
            self._kept.loaded(rows)
        return rows

    def changed(self, changes: DataFrame, schema: StructType) -> Change | None:
        """What the changes do; None if the rows are not known, if more than a few change, or if a mark says something
        else than the rows: then a write that counts tells what is wrong."""
        rows = self._kept.known()
        if rows is None or not self._can_be_kept(schema):
            return None
        names = [*schema.fieldNames(), MARK]
        with without_constraint_propagation(changes.sparkSession):
            found = brought(widened(changes, schema).select(*map(quoted, names)), ROWS_MAX)
        after = None if found is None else merged(rows, found, self._key)
        return None if after is None else Change(found, after)

    def all_rows(self, change: Change, schema: StructType) -> DataFrame:
        """All rows after the change, for one file."""
        return as_frame(self._spark, change.after, schema).coalesce(1)

    def marked_rows(self, change: Change, schema: StructType) -> DataFrame:
        """The change alone, with its marks, for one file."""
        columns = StructType([*schema.fields, StructField(MARK, StringType())])
        return as_frame(self._spark, change.changes, columns).coalesce(1)

    def keep(self, commit_uuid: str, change: Change) -> None:
        """The change was committed."""
        if change.after.num_rows > ROWS_MAX:
            self._is_large = True
            self._kept.forget()
        else:
            self._kept.keep(commit_uuid, change.after)


def merged(rows: pa.Table, changes: pa.Table, key: Sequence[str]) -> pa.Table | None:
    """The rows after the changes; None if these say something else than the rows: of a key that is there that it is
    new, of one that is not there that it changes, or one key twice."""
    keys, changed = values_of(rows, key), values_of(changes, key)
    marks = changes.column(MARK).to_pylist()
    there, touched = set(keys), set(changed)
    fits = all((mark == "I") != (one in there) for one, mark in zip(changed, marks, strict=True))
    if not fits or len(touched) < len(changed) or len(there) < len(keys) or not {"I", "U", "D"}.issuperset(marks):
        return None
    stay = rows.filter(pa.array([one not in touched for one in keys], pa.bool_()))
    come = changes.filter(pa.array([mark != "D" for mark in marks], pa.bool_())).drop_columns([MARK])
    return pa.concat_tables([stay, come.cast(rows.schema)]).combine_chunks()
