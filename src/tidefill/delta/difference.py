"""What has to change for a table to become what a query gives now: one look at both, side by side by the key."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from tidefill.spark.faults import KEY_NOT_UNIQUE
from tidefill.spark.names import HIDDEN, MARK, quoted

NEW, TWICE, WAS, IS = (f"{HIDDEN}{name}" for name in ("new", "twice", "was", "is"))


def difference(wanted: DataFrame, found: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows that go, come and change, marked D, I and U. Both have the same columns, in any order. A key that comes
    twice in what is wanted fails the statement with KEY_NOT_UNIQUE: one of the two rows may be as it was, so that the
    changes alone would not tell."""
    columns = [quoted(name) for name in wanted.columns]
    sides = [rows.select(*columns).withColumn(NEW, f.lit(new)) for rows, new in ((found, False), (wanted, True))]
    row = f.struct(*columns)
    by_key = (
        sides[0]
        .union(sides[1])
        .groupBy(*map(quoted, key))
        .agg(
            (f.count_if(NEW) > 1).alias(TWICE),
            f.first(f.when(~f.col(NEW), row), ignorenulls=True).alias(WAS),
            f.first(f.when(f.col(NEW), row), ignorenulls=True).alias(IS),
        )
    )
    was, now = f.col(WAS), f.col(IS)
    message = f.lit(f"[{KEY_NOT_UNIQUE}] the query gives several rows of one key")
    mark = (
        f.when(f.col(TWICE), f.raise_error(message).cast("string"))
        .when(was.isNull(), "I")
        .when(now.isNull(), "D")
        .when(~was.eqNullSafe(now), "U")
    )
    changed = by_key.select(mark.alias(MARK), f.coalesce(now, was).alias(IS)).where(f.col(MARK).isNotNull())
    return changed.select(*(f.col(f"{IS}.{name}") for name in columns), MARK)


def tells_apart(schema: StructType) -> bool:
    """Whether values that are equal to Spark are the same. Under a collation 'a' may equal 'A'."""
    return " collate " not in schema.simpleString().lower()
