"""Frames that are kept for several statements."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tidefill.spark.keeping import Kept


def test_a_statement_that_names_a_frame_leaves_it_cached(spark: SparkSession) -> None:
    """Only of what is cached Spark knows how little it is; else it may move a large table to it."""
    kept = Kept()
    frame = kept.keep(spark.range(3).withColumnRenamed("id", "few"))
    assert frame.columns == ["few"]
    for _ in range(2):
        assert spark.sql("SELECT sum(few) FROM {frame}", frame=frame).collect()[0][0] == 3
    (cached,) = kept._cached
    assert cached.storageLevel.useMemory
    kept.let_go()
    assert not cached.storageLevel.useMemory
