"""How many Spark jobs something takes: what a small step costs, on whatever machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession


@dataclass(slots=True)
class SparkJobs:
    """The jobs that began while it was counted."""

    count: int = 0


@contextmanager
def counted(spark: SparkSession) -> Iterator[SparkJobs]:
    """Count the jobs of this Spark, whatever session began them. Nothing else may run on it meanwhile."""
    found, before = SparkJobs(), _last(spark)
    yield found
    found.count = _last(spark) - before


def _last(spark: SparkSession) -> int:
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1)
