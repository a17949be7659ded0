"""What some work costs: seconds, Spark jobs, seconds of a core, bytes read; and two small commits to hold it against.

Seconds differ from machine to machine and from hour to hour. The number of jobs does not, and a bare MERGE of three
rows that is measured in the same run tells how fast the machine is just now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.merge import DELETED, bare_merge, timed
from benchmarks.processes import cpu_s, read_bytes
from tests.spark_jobs import counted

ROUNDS = 5
DEFAULTS = {
    "spark.sql.shuffle.partitions": "200",
    "spark.databricks.delta.snapshotPartitions": "50",
    "spark.sql.files.maxPartitionBytes": "128m",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a step, of a query computed anew, of a commit."""

    s: float
    jobs: int
    cpu_s: float
    read_bytes: int

    def __str__(self) -> str:
        return f"{self.s:.1f} s, {self.jobs} jobs, {self.cpu_s:.1f} CPU-s, {self.read_bytes / 1e6:,.1f} MB"


@dataclass(frozen=True, slots=True)
class Reference:
    """A bare MERGE of three rows into ten, and an append of one row, in a session like that of the run. `usual`: the
    same MERGE with Spark's and Delta's own defaults, which plan it for 200 and for 50 tasks."""

    merge: Cost
    append: Cost
    usual: Cost

    def __str__(self) -> str:
        return (
            f"A bare MERGE of 3 rows into 10: {self.merge}; with the defaults of Spark and Delta: {self.usual}. "
            f"An append of a row: {self.append}."
        )


def cost(spark: SparkSession, work: Callable[[], object]) -> Cost:
    """Of some work. (Spark itself does not count what it reads of a local disk.)"""
    read, cpu = read_bytes(), cpu_s()
    with counted(spark) as jobs:
        took_s = timed(work)
    return Cost(took_s, jobs.count, cpu_s() - cpu, read_bytes() - read)


def middle(costs: Sequence[Cost]) -> Cost:
    """The medians."""
    return Cost(
        median(one.s for one in costs),
        round(median(one.jobs for one in costs)),
        median(one.cpu_s for one in costs),
        round(median(one.read_bytes for one in costs)),
    )


def reference(spark: SparkSession, folder: Path) -> Reference:
    """Measured warm; medians of five."""
    path = str(folder / "reference")
    spark.range(10).selectExpr("id", "id AS x").coalesce(1).write.format("delta").save(path)
    plain = spark.newSession()
    for name, value in DEFAULTS.items():
        plain.conf.set(name, value)

    def merge(session: SparkSession = spark) -> None:
        bare_merge(session.range(8, 11).selectExpr("id", "-id AS x", f"false AS {DELETED}"), path, ["id", "x"])

    def append() -> None:
        spark.range(1).selectExpr("id + 100 AS id", "id AS x").write.format("delta").mode("append").save(path)

    found = []
    for work in (merge, append, lambda: merge(plain)):
        work()
        found.append(middle([cost(spark, work) for _ in range(ROUNDS)]))
    return Reference(*found)
