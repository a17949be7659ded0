"""Along which columns a Delta table is walked, so that a chunk reads few files: its layout says.

Partition or clustering columns, if it has them. Else the least and greatest value per file of some columns, read once
and narrowly: a column whose files hardly overlap is as good. If none is, every chunk reads everything, and there should
be few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import ByteType, DataType, DateType, IntegerType, LongType, ShortType, StructType, TimestampType

from tidefill.errors import UnsupportedKey
from tidefill.spark.coverage import key_types
from tidefill.spark.names import quoted

FILES_MAX = 64
CANDIDATES_MAX = 8
GOOD_OVERLAP = 0.3  # above that a chunk reads about everything
KEY_BONUS = 0.1  # a walk along the key alone cuts anywhere, so it may overlap a little more
ORDERED = (ByteType, ShortType, IntegerType, LongType, DateType, TimestampType)


@dataclass(frozen=True, slots=True)
class Walk:
    """The columns, why these, and whether a chunk reads only its own files."""

    columns: tuple[str, ...]
    reason: str
    clustered: bool


def choose_walk(spark: SparkSession, frame: DataFrame, detail: Row, key: Sequence[str]) -> Walk:
    """The walk for the table, whose DESCRIBE DETAIL this is."""
    for kind, names in (("partitioned", detail["partitionColumns"]), ("clustered", detail["clusteringColumns"])):
        if names and _walkable(frame.schema, names):
            return Walk(_with_key(names, key), f"the table is {kind} by {', '.join(names)}", True)
    if detail["numFiles"] <= 1:
        return Walk(tuple(key), "the table is one file", True)
    if detail["properties"].get("delta.columnMapping.mode", "none") != "none":
        return Walk(tuple(key), "the key; its files were not looked at, because their columns are mapped", False)
    return _by_overlap(_overlaps(spark, frame, key), key)


def along(usual: Walk, lead: Sequence[str], key: Sequence[str], *, one_file: bool) -> Walk:
    """The walk along these columns, of a table that would be walked as `usual`: for an index, which appends chunks in
    the order of its own key."""
    wanted = _with_key(lead, key)
    if usual.columns[: len(lead)] == tuple(lead):
        return Walk(wanted, f"the key of the index; {usual.reason}", usual.clustered)
    return Walk(wanted, "the key of the index, so that chunks are appended in its order", one_file)


def _by_overlap(overlaps: dict[str, float], key: Sequence[str]) -> Walk:
    best = min(overlaps, key=lambda name: overlaps[name] - (KEY_BONUS if name == key[0] else 0.0))
    share = f"{overlaps[best]:.0%} of its files overlap"
    if overlaps[best] > GOOD_OVERLAP:
        return Walk(tuple(key), f"no column follows the files ({best}: {share}): few large chunks", False)
    return Walk(_with_key([best], key), f"the files follow {best}: {share}", True)


def _with_key(names: Sequence[str], key: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*names, *key)))


def _walkable(schema: StructType, names: Sequence[str]) -> bool:
    try:
        key_types(schema, names)
    except UnsupportedKey:
        return False
    return True


def _overlaps(spark: SparkSession, frame: DataFrame, key: Sequence[str]) -> dict[str, float]:
    """Of each candidate, which share of all pairs of files overlap."""
    names = _candidates(frame.schema, key)
    files = sorted(frame.inputFiles())
    sample = files if len(files) <= FILES_MAX else Random(1).sample(files, FILES_MAX)
    ends = [end for name in names for end in (f.min(quoted(name)), f.max(quoted(name)))]
    rows = spark.read.parquet(*sample).groupBy(f.col("_metadata.file_path")).agg(*ends).collect()
    return {name: _overlap([(row[1 + 2 * i], row[2 + 2 * i]) for row in rows]) for i, name in enumerate(names)}


def _candidates(schema: StructType, key: Sequence[str]) -> list[str]:
    others = [field.name for field in schema if _is_ordered(field.dataType) and field.name != key[0]]
    return [key[0], *others[: CANDIDATES_MAX - 1]]


def _is_ordered(kind: DataType) -> bool:
    return isinstance(kind, ORDERED)


def _overlap(ends: Sequence[tuple[Any, Any]]) -> float:
    """Files that hold only NULL there overlap with nothing."""
    known = [(low, high) for low, high in ends if low is not None]
    pairs = list(combinations(known, 2))
    overlapping = [True for a, b in pairs if a[0] <= b[1] and b[0] <= a[1]]
    return len(overlapping) / max(len(pairs), 1)
