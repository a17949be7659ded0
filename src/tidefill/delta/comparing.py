"""Compares two frames by buckets of the key: how many rows there are, and sums of their hashes. Only in buckets that
differ rows are compared one by one, so that equal tables cost two scans."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, StructType

from tidefill.ports.frames import Compared
from tidefill.spark.derive_rows import same
from tidefill.spark.names import HIDDEN, MARK, quoted
from tidefill.spark.session import without_constraint_propagation

DIFFERENCES_MAX = 10
BUCKETS = 256
LAST_DIGITS = 1e-9
LAST_DIGITS_NOTE = "floating-point numbers are compared but for their last digits"
WANTED, FOUND = f"{HIDDEN}wanted", f"{HIDDEN}found"
SIZE, COUNT = f"{HIDDEN}size", f"{HIDDEN}count"


def compared(wanted: DataFrame, found: DataFrame, key: Sequence[str], rounded: Sequence[str]) -> Compared:
    """How `found` differs from what is `wanted`, which has the same columns. `key`: what identifies a row; where a
    column of it is missing, all columns do. `rounded`: columns that a recompute gives but for the last digits."""
    rounded = [name for name in rounded if name in wanted.columns]
    exact = [name for name in wanted.columns if name not in rounded]
    key = key if set(key) <= set(exact) else ()
    ours, theirs = (rows.select(*map(quoted, exact)) for rows in (wanted, found))
    should_be, is_there = (_fingerprints(rows, key or exact) for rows in (ours, theirs))
    rows = sum(counted for counted, *_ in should_be.values())
    notes = (LAST_DIGITS_NOTE,) if rounded else ()
    buckets = [one for one in should_be.keys() | is_there.keys() if should_be.get(one) != is_there.get(one)]
    if buckets and not exact:
        there = sum(counted for counted, *_ in is_there.values())
        return Compared(rows, (f"there should be {rows} rows and are {there}",), notes=notes)
    if buckets:
        return Compared(rows, _differences(ours, theirs, sorted(buckets), key or exact), notes=notes)
    return Compared(rows, _far_apart(wanted, found, rounded, key) if rounded else (), notes=notes)


def _fingerprints(rows: DataFrame, key: Sequence[str]) -> dict[int, tuple[Any, ...]]:
    """Of each bucket: how many rows, and the sums of both halves of their hashes, which cannot overflow. (Equal
    numbers that are written in two ways, 0.0 and -0.0, have two hashes.)"""
    hashed = rows.select(_bucket(key).alias(MARK), _hash(rows.schema).alias(WANTED))
    sums = [f.sum(f.shiftrightunsigned(WANTED, 32)), f.sum(f.col(WANTED).bitwiseAND(0xFFFFFFFF))]
    found = hashed.groupBy(MARK).agg(f.count(f.lit(1)), *sums).collect()
    return {row[0]: tuple(row)[1:] for row in found}


def _differences(wanted: DataFrame, found: DataFrame, buckets: Sequence[int], key: Sequence[str]) -> tuple[str, ...]:
    """By key, with both values. (Spark's inference of conditions fails over a union of rows with EXISTS in SELECT.)"""
    inside = _bucket(key).isin(list(buckets))
    every = [quoted(name) for name in wanted.columns]
    sides = [rows.where(inside).withColumn(MARK, f.lit(side)) for side, rows in ((WANTED, wanted), (FOUND, found))]
    counts = [f.count_if(f.col(MARK) == side).alias(side) for side in (WANTED, FOUND)]
    odd = sides[0].union(sides[1]).groupBy(*every).agg(*counts).where(f.col(WANTED) != f.col(FOUND))
    with without_constraint_propagation(wanted.sparkSession):
        rows = odd.orderBy(*map(quoted, key)).limit(2 * DIFFERENCES_MAX).collect()
    return _told(rows, [wanted.columns.index(name) for name in key])


def _bucket(key: Sequence[str]) -> Column:
    return f.pmod(f.xxhash64(f.lit(0), *map(quoted, key)), f.lit(BUCKETS))


def _far_apart(wanted: DataFrame, found: DataFrame, rounded: Sequence[str], key: Sequence[str]) -> tuple[str, ...]:
    """Sums of floating-point numbers depend in their last digits on the order in which Spark adds them up. All other
    columns are known to be equal. Rows that the key does not tell apart are compared by the totals of all rows that are
    equal in the other columns."""
    same_rows = key or [name for name in wanted.columns if name not in rounded]
    if not key:
        wanted, found = (_totals(rows, same_rows, rounded) for rows in (wanted, found))
    sides = found.alias("o"), wanted.alias("n")
    joined = sides[0].join(sides[1], same(same_rows)) if same_rows else sides[0].crossJoin(sides[1])
    close = reduce(Column.__and__, (_close(name, "" if key else name + SIZE) for name in rounded))
    close = close if key else close & same([name + COUNT for name in rounded])
    pairs = [f.col(f"{side}.{quoted(name)}") for name in (*same_rows, *rounded) for side in ("n", "o")]
    told = joined.where(~close).select(f.array(*(pair.cast("string") for pair in pairs)).alias(MARK))
    return tuple(f"should be and is: {', '.join(map(str, row[0]))}" for row in told.limit(DIFFERENCES_MAX).collect())


def _totals(rows: DataFrame, equal: Sequence[str], rounded: Sequence[str]) -> DataFrame:
    """Of rows that are equal in these columns: the sum of each other column, of its absolute values, and how many of
    them are there."""
    sums = [f.sum(quoted(name)).alias(name) for name in rounded]
    sizes = [f.sum(f.abs(quoted(name))).alias(name + SIZE) for name in rounded]
    counts = [f.count(quoted(name)).alias(name + COUNT) for name in rounded]
    return rows.groupBy(*map(quoted, equal)).agg(*sums, *sizes, *counts)


def _close(name: str, size: str = "") -> Column:
    """Equal on both sides of a join, but for the last digits; `size`: the column that tells how large the numbers are
    that were added up, if it is another one."""
    found, wanted = f.col(f"o.{quoted(name)}"), f.col(f"n.{quoted(name)}")
    sizes = [f.abs(f.col(f"{side}.{quoted(size or name)}")) for side in ("o", "n")]
    near = f.abs(found - wanted) <= f.greatest(*sizes) * f.lit(LAST_DIGITS)
    return found.eqNullSafe(wanted) | f.coalesce(near, f.lit(False))


def _hash(schema: StructType) -> Column:
    """Of a row. Spark's hash skips a NULL, so it has to be told which column is NULL; inside of a value its text tells
    the place."""
    nested = [field.name for field in schema if isinstance(field.dataType, (ArrayType, StructType))]
    columns = [f.col(quoted(name)) for name in schema.fieldNames()]
    return f.xxhash64(
        f.lit(0),
        *columns,
        *(column.isNull() for column in columns),
        *(f.to_json(f.col(quoted(name))) for name in nested),
    )


def _told(rows: Sequence[Row], key: Sequence[int]) -> tuple[str, ...]:
    """A line for each key: what it should be, and what it is, as often as it is there."""
    by_key: dict[tuple[Any, ...], tuple[list[str], list[str]]] = {}
    for row in rows:
        *values, wanted, found = tuple(row)
        should_be, is_there = by_key.setdefault(tuple(values[place] for place in key), ([], []))
        should_be += [str(tuple(values))] * min(wanted, 2)
        is_there += [str(tuple(values))] * min(found, 2)
    lines = [
        f"key {key}: should be {' and '.join(should_be) or 'missing'}, is {' and '.join(is_there) or 'missing'}"
        for key, (should_be, is_there) in by_key.items()
    ]
    return tuple(lines[:DIFFERENCES_MAX])
