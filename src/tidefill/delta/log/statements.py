"""A Delta table's log as Spark's statements tell it: for tables whose files this process cannot read.

DESCRIBE DETAIL tells which table it is, but after a commit it costs three times as much as DESCRIBE HISTORY, because it
works out the table's state. So a table that is known is asked for its history: if that goes on where the last one
ended, with nothing but writes, it is still the same table. Of the history only as much is read as is needed: every
commit is a file. A table that has been quiet for a while is asked in two cheaper ways: whether there is a version after
the last one, and when DESCRIBE DETAIL says that it was modified, which costs little as long as nothing is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from tidefill.delta.log.commits import Commit, Logged, commit_of
from tidefill.delta.log.survey import RECENT_COMMITS, RETENTION, Survey, newest_s, retention_s
from tidefill.spark.names import table_at

QUIET_S = 5.0
"""After its last commit a table is quiet."""


class StatementLog:
    """The log of the table at a path, by DESCRIBE DETAIL and DESCRIBE HISTORY. Raises what Spark raises."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path
        self._table = table_at(path)

    def look(self, last: Survey | None, reach: int | None, now_s: float) -> Survey:
        """The log as it is now, from version `reach` on, after the look `last`."""
        goes_on = None if last is None or not _is_enough(last, reach) else self._go_on(last, reach, now_s)
        return goes_on or self._look(reach, now_s)

    def newest(self, count: int | None = None) -> list[Logged]:
        """So many of the newest commits, or all, ascending."""
        limit = "" if count is None else f" LIMIT {count}"
        micros = f.unix_micros(f.col("timestamp").cast("timestamp"))
        told = ("version", "operation", "operationParameters", "operationMetrics", "userMetadata")
        rows = self._spark.sql(f"DESCRIBE HISTORY {self._table}{limit}").select(micros, *told).collect()
        return [
            Logged(int(version), at_us // 1000, operation or "", _there(parameters), _there(metrics), metadata)
            for at_us, version, operation, parameters, metrics, metadata in reversed(rows)
        ]

    def detail(self) -> Row:
        """DESCRIBE DETAIL."""
        return self._spark.sql(f"DESCRIBE DETAIL {self._table}").collect()[0]

    def _look(self, reach: int | None, now_s: float) -> Survey:
        detail = self.detail()
        commits, whole = self._commits(reach)
        kept_s = retention_s(detail["properties"].get(RETENTION, ""))
        size = int(detail["sizeInBytes"] or 0)
        return Survey(str(detail["id"]), commits, whole, kept_s, size, now_s, newest_s(commits))

    def _go_on(self, last: Survey, reach: int | None, now_s: float) -> Survey | None:
        """The look after `last`, if it is the same table."""
        if now_s - last.modified_s < QUIET_S or self._has(last.head + 1):
            return self._read_on(last, reach, now_s)
        detail = self.detail()
        if detail["id"] != last.identity:
            return None
        modified_s = round(detail["lastModified"].timestamp(), 3)
        if modified_s == last.modified_s:
            return replace(last, looked_s=now_s)
        found = self._read_on(last, reach, now_s)
        return found if found is None or found.head > last.head else replace(found, modified_s=modified_s)

    def _has(self, version: int) -> bool:
        """Whether there may be that version, which is a look at the names of the log's files."""
        try:
            _ = self._spark.read.format("delta").option("versionAsOf", version).load(self._path).schema
        except PySparkException as error:
            return error.getCondition() != "DELTA_VERSION_NOT_FOUND"
        return True

    def _read_on(self, last: Survey, reach: int | None, now_s: float) -> Survey | None:
        """The look after `last`, if the history shows that it is the same table."""
        commits, whole = self._commits(reach)
        both = last.commits.keys() & commits.keys()
        same = last.head in both and all(last.commits[version] == commits[version] for version in both)
        if not same or not all(commit.plain for version, commit in commits.items() if version > last.head):
            return None
        return replace(last, commits=commits, whole=whole, looked_s=now_s, modified_s=newest_s(commits), stamp=None)

    def _commits(self, reach: int | None) -> tuple[dict[int, Commit], bool]:
        """From that version on, if the log goes back so far; and whether there is no more to read."""
        commits = self._interpreted(RECENT_COMMITS)
        if len(commits) < RECENT_COMMITS:
            return commits, True
        if reach is None or min(commits) <= reach:
            return commits, False
        commits = self._interpreted(max(commits) - reach + RECENT_COMMITS)
        return commits, min(commits) > reach

    def _interpreted(self, count: int) -> dict[int, Commit]:
        return {logged.version: commit_of(logged) for logged in self.newest(count)}


def _is_enough(last: Survey, reach: int | None) -> bool:
    return reach is None or last.reaches(reach)


def _there(told: Mapping[str, str | None] | None) -> dict[str, str]:
    return {name: value for name, value in (told or {}).items() if value is not None}
