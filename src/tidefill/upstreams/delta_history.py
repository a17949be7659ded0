"""What a Delta table's log says, asked as seldom and as cheaply as possible; jobs that read one table share it.

DESCRIBE DETAIL costs a tenth of DESCRIBE HISTORY and shows by its stamp whether anything was committed at all. Of the
history only as much is read as is needed: every commit is a file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from tidefill.errors import UpstreamReplaced
from tidefill.spark.faults import translated
from tidefill.spark.names import table_at

SURVEY_S = 1.0  # how long one look serves
HISTORY_S = 30.0  # a commit within the millisecond of another leaves the stamp as it is: it is seen this much later
RECENT_COMMITS = 20
DEFAULT_KEPT_S = 7 * 24 * 3600.0
RETENTION = "delta.deletedFileRetentionDuration"
_UNITS_S = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}


def wall_clock_s() -> float:
    """Seconds since 1970."""
    return datetime.now(UTC).timestamp()


@dataclass(frozen=True, slots=True)
class Survey:
    """One look: the table's identity, when its newest commits were made, and how long it keeps removed files."""

    identity: str
    commits: dict[int, float]
    whole: bool
    kept_s: float
    stamp: tuple[Any, ...]
    looked_s: float
    read_s: float

    @property
    def head(self) -> int:
        """The newest version."""
        return max(self.commits)

    def reaches(self, version: int) -> bool:
        """Whether a commit from that version on is missing only if the log has it no more."""
        return self.whole or min(self.commits) <= version


class DeltaHistory:
    """The log of the table at a path."""

    def __init__(self, spark: SparkSession, path: str, now_s: Callable[[], float] = wall_clock_s) -> None:
        self._spark = spark
        self._table = table_at(path)
        self._now_s = now_s
        self._last: Survey | None = None

    def survey(self, *, reach: int | None = None, fresh: bool = False) -> Survey:
        """The log from version `reach` on (at least its last commits); `fresh`: as it is now."""
        now_s, last = self._now_s(), self._last
        enough = last is not None and (reach is None or last.reaches(reach))
        if last is not None and enough and not fresh and 0 <= now_s - last.looked_s < SURVEY_S:
            return last
        with translated(UpstreamReplaced):
            detail = self._spark.sql(f"DESCRIBE DETAIL {self._table}").collect()[0]
            stamp = tuple(detail[name] for name in ("id", "lastModified", "numFiles", "sizeInBytes"))
            if last is not None and enough and stamp == last.stamp and 0 <= now_s - last.read_s < HISTORY_S:
                self._last = replace(last, looked_s=now_s)
            else:
                self._last = self._read(detail, stamp, reach, now_s)
        return self._last

    def _read(self, detail: Row, stamp: tuple[Any, ...], reach: int | None, now_s: float) -> Survey:
        commits, whole = self._commits(RECENT_COMMITS), False
        if len(commits) < RECENT_COMMITS:
            whole = True
        elif reach is not None and min(commits) > reach:
            commits = self._commits(max(commits) - reach + RECENT_COMMITS)
            whole = min(commits) > reach
        kept_s = retention_s(detail["properties"].get(RETENTION, ""))
        return Survey(str(detail["id"]), commits, whole, kept_s, stamp, now_s, now_s)

    def _commits(self, newest: int) -> dict[int, float]:
        history = self._spark.sql(f"DESCRIBE HISTORY {self._table} LIMIT {newest}")
        micros = f.unix_micros(f.col("timestamp").cast("timestamp"))
        return {int(row[0]): row[1] / 1e6 for row in history.select("version", micros).collect()}


def retention_s(interval: str) -> float:
    """Seconds in such a text as `interval 7 days`."""
    parts = re.findall(r"(\d+(?:\.\d+)?)\s*(second|minute|hour|day|week)", interval.lower())
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts) or DEFAULT_KEPT_S
