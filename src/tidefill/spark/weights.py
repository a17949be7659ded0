"""Rows with weights: +1 for a row that came, -1 for one that went. (A row that is none has no weight.)"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidefill.spark.names import WEIGHT


def weighted(rows: DataFrame, weight: int) -> DataFrame:
    """Rows that all have this weight."""
    return rows.withColumn(WEIGHT, f.lit(weight))


def came(changes: DataFrame) -> DataFrame:
    """The rows that came."""
    return changes.where(f.col(WEIGHT) > 0).drop(WEIGHT)


def went(changes: DataFrame) -> DataFrame:
    """The rows that went."""
    return changes.where(f.col(WEIGHT) < 0).drop(WEIGHT)
