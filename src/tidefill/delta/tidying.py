"""Keeps the files of a target few: small ones are put together (OPTIMIZE), and those that nobody needs go (VACUUM)."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from tidefill.delta.layout import optimize_settings
from tidefill.delta.log.survey import RETENTION
from tidefill.delta.log.table_log import TableLog
from tidefill.spark.names import table_at
from tidefill.spark.session import having_set

OPTIMIZE_SETTINGS = {  # small files are put together, large ones are left alone: the work follows the changes
    "spark.databricks.delta.optimize.minFileSize": str(16 << 20),
    "spark.databricks.delta.optimize.maxFileSize": str(128 << 20),
}
VACUUM_EVERY_S = 24 * 3600.0
VACUUM_SETTINGS = {  # else a folder of ten files is listed by thousands of tasks: 120 s and not 6
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
    "spark.sql.shuffle.partitions": "16",
}
READ_KEPT = "interval 30 days"
"""For how long files stay that readers of an older version may need: as long as Delta keeps the log, without which they
could not go on anyway. Without readers, Delta's own retention holds (a week, or what the table says). It is a property
of the table: from Delta 4 on, VACUUM does not look at the hours that a statement names."""
VACUUMS = ("VACUUM START", "VACUUM END")


class Tidying:
    """Of the table at a path, whose log this is."""

    def __init__(
        self, spark: SparkSession, path: str, log: TableLog, now_s: Callable[[], float], *, clustering: str = ""
    ) -> None:
        """`clustering`: the clause that says in which order its files are kept; empty for none."""
        self._spark = spark
        self._table = table_at(path)
        self._log = log
        self._now_s = now_s
        self._clustering = clustering
        self._vacuumed_s = 0.0

    def optimize(self) -> None:
        """Small files become few. The commit carries nothing, and leaves the rows what they are."""
        if self._clustering and not self._log.detail()["clusteringColumns"]:  # an overwrite of all rows takes it away
            self._spark.sql(f"ALTER TABLE {self._table}{self._clustering}")
        settings = optimize_settings(self._log.all()) if self._clustering else OPTIMIZE_SETTINGS
        with having_set(self._spark, settings):
            self._spark.sql(f"OPTIMIZE {self._table}").collect()

    def vacuum_is_due(self) -> bool:
        """A day after the last one, or after the first commit that the log has. Not every Delta logs a VACUUM, so this
        process remembers its own."""
        log = self._log.all()
        vacuumed = [commit.at_ms / 1e3 for commit in log if commit.operation in VACUUMS]
        last_s = max([*(vacuumed or [commit.at_ms / 1e3 for commit in log[:1]]), self._vacuumed_s])
        return self._now_s() - last_s >= VACUUM_EVERY_S

    def vacuum(self, *, read: bool) -> None:
        """Files go that no version of the last days has. `read`: other jobs read the table's changes."""
        self._vacuumed_s = self._now_s()
        if read and RETENTION not in self._log.detail()["properties"]:
            self._spark.sql(f"ALTER TABLE {self._table} SET TBLPROPERTIES ('{RETENTION}' = '{READ_KEPT}')")
        with having_set(self._spark, VACUUM_SETTINGS):
            self._spark.sql(f"VACUUM {self._table}").collect()
