"""What a Delta table's log says, asked as seldom and as cheaply as possible; jobs that read one table share it.

DESCRIBE DETAIL tells which table it is, but after a commit it costs three times as much as DESCRIBE HISTORY, because it
works out the table's state. So a table that is known is asked for its history: if that goes on where the last one
ended, with nothing but writes, it is still the same table. Of the history only as much is read as is needed: every
commit is a file. A table that has been quiet for a while is asked in two cheaper ways: whether there is a version after
the last one, and when DESCRIBE DETAIL says that it was modified, which costs little as long as nothing is committed.
A version never changes: what one job has found out about it another one need not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f

from tidefill.core.confirm import payload_from_text
from tidefill.core.version import Version, bases_of_all
from tidefill.errors import Unreadable, UpstreamReplaced
from tidefill.jobs.amounts import interval_s
from tidefill.spark.faults import translated
from tidefill.spark.names import table_at

SURVEY_S = 1.0  # how long one look serves
QUIET_S = 5.0  # after its last commit a table is quiet
RECENT_COMMITS = 20
DEFAULT_KEPT_S = 7 * 24 * 3600.0
QUIET = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES"})
WRITES = frozenset({"MERGE", "UPDATE", "DELETE", "OPTIMIZE", "STREAMING UPDATE", "WRITE Append"})
ROWS_WRITTEN = (
    ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
    ("numUpdatedRows",),
    ("numDeletedRows",),
    ("numOutputRows",),
)
RETENTION = "delta.deletedFileRetentionDuration"


def wall_clock_s() -> float:
    """Seconds since 1970."""
    return datetime.now(UTC).timestamp()


@dataclass(frozen=True, slots=True)
class Commit:
    """When a version was made, and by what. `plain`: by a write that leaves the table what it is. `quiet`: by something
    that leaves the rows what they are. `adds`: it only added rows. `bases`: what it comes from, if a job of ours made
    it. `rows`: how many it wrote, as far as it says."""

    at_s: float
    plain: bool
    quiet: bool = False
    adds: bool = False
    bases: Mapping[str, int] | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Survey:
    """One look: the table's identity, its newest commits, how long it keeps removed files, and how many bytes it had
    when that was last asked. `modified_s`: when its newest commit was made, by the history or as DESCRIBE DETAIL tells
    it, which may differ by a little."""

    identity: str
    commits: dict[int, Commit]
    whole: bool
    kept_s: float
    size: int
    looked_s: float
    modified_s: float

    @property
    def head(self) -> int:
        """The newest version."""
        return max(self.commits)

    def bases(self, version: int) -> Mapping[str, int] | None:
        """What the version comes from: a commit that tells nothing changed nothing of that. None if none of those that
        were read tells."""
        told = [number for number, commit in self.commits.items() if number <= version and commit.bases is not None]
        return self.commits[max(told)].bases if told else None

    def reaches(self, version: int) -> bool:
        """Whether a commit from that version on is missing only if the log has it no more."""
        return self.whole or min(self.commits) <= version


class DeltaHistory:
    """The log of the table at a path. `counted`: how many rows a version has. `keyed`: for columns that are a key, the
    last version in which each of their values, none of them NULL, was seen to come once."""

    def __init__(self, spark: SparkSession, path: str, now_s: Callable[[], float] = wall_clock_s) -> None:
        self._spark = spark
        self._path = path
        self._table = table_at(path)
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
                goes_on = self._go_on(last, reach, now_s) if last is not None and enough else None
                self._last = goes_on or self._look(reach, now_s)
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

    def _look(self, reach: int | None, now_s: float) -> Survey:
        detail = self._detail()
        commits, whole = self._commits(reach)
        kept_s = retention_s(detail["properties"].get(RETENTION, ""))
        size = int(detail["sizeInBytes"] or 0)
        return Survey(str(detail["id"]), commits, whole, kept_s, size, now_s, _newest_s(commits))

    def _detail(self) -> Row:
        return self._spark.sql(f"DESCRIBE DETAIL {self._table}").collect()[0]

    def _go_on(self, last: Survey, reach: int | None, now_s: float) -> Survey | None:
        """The look after `last`, if it is the same table."""
        if now_s - last.modified_s < QUIET_S or self._has(last.head + 1):
            return self._read_on(last, reach, now_s)
        detail = self._detail()
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
        return replace(last, commits=commits, whole=whole, looked_s=now_s, modified_s=_newest_s(commits))

    def _commits(self, reach: int | None) -> tuple[dict[int, Commit], bool]:
        """From that version on, if the log goes back so far; and whether there is no more to read."""
        commits = self._newest(RECENT_COMMITS)
        if len(commits) < RECENT_COMMITS:
            return commits, True
        if reach is None or min(commits) <= reach:
            return commits, False
        commits = self._newest(max(commits) - reach + RECENT_COMMITS)
        return commits, min(commits) > reach

    def _newest(self, count: int) -> dict[int, Commit]:
        history = self._spark.sql(f"DESCRIBE HISTORY {self._table} LIMIT {count}")
        micros = f.unix_micros(f.col("timestamp").cast("timestamp"))
        what = f.concat_ws(" ", "operation", f.col("operationParameters")["mode"])
        rows = history.select("version", micros, what, "userMetadata", "operationMetrics").collect()
        return {
            int(version): Commit(
                at_us / 1e6,
                done in WRITES,
                done in QUIET,
                _adds(done, counted or {}),
                _bases(told),
                _rows(counted or {}),
            )
            for version, at_us, done, told, counted in rows
        }


def _newest_s(commits: Mapping[int, Commit]) -> float:
    return round(commits[max(commits)].at_s, 3)


def _adds(done: str, counted: Mapping[str, str]) -> bool:
    """A MERGE that met no row is an append too."""
    met = [counted.get(name) for name in ("numTargetRowsUpdated", "numTargetRowsDeleted")]
    return done == "WRITE Append" or (done == "MERGE" and met == ["0", "0"])


def _rows(counted: Mapping[str, str]) -> int:
    """Of a MERGE, an UPDATE, a DELETE or a plain write: the first of them that it says anything of. (What a MERGE puts
    out has rows in it that it only copied.)"""
    for names in ROWS_WRITTEN:
        if any(name in counted for name in names):
            return sum(int(counted.get(name, 0)) for name in names)
    return 0


def _bases(told: str | None) -> Mapping[str, int] | None:
    payload = payload_from_text(told)
    return None if payload is None else bases_of_all(payload.state.versions.values())


def retention_s(interval: str) -> float:
    """Seconds in such a text as `interval 7 days`; Delta's default if there are none."""
    return interval_s(interval) or DEFAULT_KEPT_S
