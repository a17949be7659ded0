"""Few rows, brought to this process and given back to Spark as constants of a statement.

A statement over such rows reads no file and is planned by what is in them. They travel as Arrow, which keeps every
value as it is; only plain types are brought: numbers, texts, bytes, dates, times and booleans.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import CharType, DataType, DoubleType, FloatType, StructType, VarcharType

from tidefill.spark.coverage import is_supported

BYTES_MAX = 1 << 20
"""Rows that need more memory than this stay with Spark."""


def can_be_brought(schema: StructType) -> bool:
    """Whether all columns have plain types. (A text with a collation of its own would lose it.)"""
    return all(_is_plain(field.dataType) for field in schema)


def _is_plain(kind: DataType) -> bool:
    if isinstance(kind, CharType | VarcharType):
        return False
    return isinstance(kind, DoubleType | FloatType) or is_supported(kind)


def brought(frame: DataFrame, rows_max: int, bytes_max: int = BYTES_MAX) -> pa.Table | None:
    """The rows of the frame; None if there are more, or if they are too large."""
    table = frame.limit(rows_max + 1).toArrow()
    return table if table.num_rows <= rows_max and table.nbytes <= bytes_max else None


def as_frame(spark: SparkSession, rows: pa.Table, schema: StructType) -> DataFrame:
    """The rows, which have these columns, as a frame."""
    return spark.createDataFrame(rows.select(schema.fieldNames()), schema)


def values_of(rows: pa.Table, columns: Sequence[str]) -> list[tuple[object, ...]]:
    """These columns of each row, as values that are equal if and only if Spark says so. (Dates and times as numbers: in
    Python they would end with the year 9999.)"""
    return list(zip(*(_comparable(rows.column(name)).to_pylist() for name in columns), strict=True))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.int32()) if pa.types.is_date32(column.type) else column
