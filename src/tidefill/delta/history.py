"""What is known of a Delta table that jobs read, shared by the jobs that read it.

One look at the log serves for a second. A version never changes: what one job has found out about a version, another
one need not find out again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from tidefill.core.version import Version
from tidefill.delta.log.survey import Survey
from tidefill.delta.log.table_log import TableLog
from tidefill.errors import Unreadable, UpstreamReplaced
from tidefill.spark.faults import translated

SURVEY_S = 1.0
"""How long one look serves."""


def wall_clock_s() -> float:
    """Seconds since 1970."""
    return datetime.now(UTC).timestamp()


class DeltaHistory:
    """The log of the table at a path. `counted`: how many rows a version has. `keyed`: for columns that are a key, the
    last version in which each of their values, none of them NULL, was seen to come once."""

    def __init__(self, spark: SparkSession, path: str, now_s: Callable[[], float] = wall_clock_s) -> None:
        self._spark = spark
        self._path = path
        self._log = TableLog(spark, path)
        self._now_s = now_s
        self._last: Survey | None = None
        self.counted: tuple[Version, int] | None = None
        self.keyed: dict[tuple[str, ...], Version] = {}

    def survey(self, *, reach: int | None = None, fresh: bool = False) -> Survey:
        """The log from version `reach` on (at least its last commits); `fresh`: as it is now."""
        now_s, last = self._now_s(), self._last
        enough = last is not None and (reach is None or last.reaches(reach))
        if last is not None and enough and not fresh and 0 <= now_s - last.looked_s < SURVEY_S:
            return last
        try:
            with translated(UpstreamReplaced):
                self._last = self._log.look(last, reach, now_s)
        except Unreadable:
            self._check_there()
            raise
        return self._last

    def _check_there(self) -> None:
        """UpstreamReplaced if there is no table any more. Spark remembers tables, so of one that was moved or dropped
        it first says only that it misses files of the log."""
        with translated(UpstreamReplaced):
            assert self._spark.read.format("delta").load(self._path).schema is not None

    def seen(self) -> Survey:
        """What was seen last, however long ago."""
        return self._last or self.survey()

    def known(self, *, reach: int) -> Survey:
        """What was seen last, however long ago, if it has the log from that version on."""
        return self._last if self._last is not None and self._last.reaches(reach) else self.survey(reach=reach)
