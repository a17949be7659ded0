"""The bare MERGE that a live step is held against: the same changes, without anything that makes a step exact."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from tidefill.spark.names import table_at

DELETED = "deleted"


def timed(call: Callable[[], object]) -> float:
    """Seconds."""
    start_s = time.monotonic()
    call()
    return time.monotonic() - start_s


def bare_merge(changes: DataFrame, path: str, columns: Sequence[str], within: str = "") -> None:
    """Rows by `id`, and whether each was deleted, into the table at the path. `within`: what else is known of t.id."""
    changes.createOrReplaceTempView("changes")
    sets = ", ".join(f"t.{name} = s.{name}" for name in columns)
    values = ", ".join(f"s.{name}" for name in columns)
    changes.sparkSession.sql(
        f"MERGE INTO {table_at(path)} t USING changes s ON t.id = s.id {within} "
        f"WHEN MATCHED AND s.{DELETED} THEN DELETE WHEN MATCHED THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    ).collect()
