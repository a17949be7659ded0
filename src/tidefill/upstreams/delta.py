"""A Delta table as an upstream: versions by number, both images of a change from the change data feed.

Bounds come from one narrow scan of the walk columns, made when they are first asked for and kept: a sample of keys,
each of which stands for so many rows. A small table's sample is all of its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from tidefill.core.keys import Key
from tidefill.core.step import Changed
from tidefill.core.version import Number, Version
from tidefill.core.walk import Coverage, Range, Split, rest
from tidefill.errors import HistoryGone, InvalidSetting, KeyNotUnique, UpstreamReplaced
from tidefill.ports import Halves
from tidefill.spark.coverage import collectable, covers, key_of, key_types, within
from tidefill.spark.faults import KEY_NOT_UNIQUE, translated
from tidefill.spark.names import table_at

SAMPLE_KEYS = 20_000
KEYS_NAMED_MAX = 10
RETENTION_S = 7 * 24 * 3600.0
SURVEY_S = 1.0
WEIGHT, CHANGE = "__tf_weight", "_change_type"
FEED_COLUMNS = (CHANGE, "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True)
class _Sample:
    keys: tuple[Key, ...]
    rows: int

    @property
    def rows_per_key(self) -> float:
        return self.rows / max(len(self.keys), 1)


@dataclass(frozen=True, slots=True)
class _Survey:
    identity: str
    commits: dict[int, float]
    at_s: float


class DeltaUpstream:
    """The Delta table at a path. `key` identifies a row, `walk` is the order in which it is filled, with the key."""

    lasting = True
    resources: tuple[str, ...] = ()

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        key: Sequence[str],
        walk: Sequence[str],
        now_s: Callable[[], float] = lambda: datetime.now(UTC).timestamp(),
    ) -> None:
        self._spark = spark
        self._path = path
        self._key = tuple(key)
        self._walk = tuple(walk)
        self._now_s = now_s
        self._sample: _Sample | None = None
        self._surveyed: _Survey | None = None
        if not set(self._key) <= set(self._walk):
            raise InvalidSetting(f"the walk {self._walk} does not contain the key {self._key}")

    @property
    def _table(self) -> str:
        return table_at(self._path)

    def _survey(self, *, fresh: bool) -> _Survey:
        """The table's identity and its history. They cost half a second, so one look serves for a moment."""
        known = self._surveyed
        if known is not None and not fresh and 0 <= self._now_s() - known.at_s < SURVEY_S:
            return known
        with translated(UpstreamReplaced):
            detail = self._spark.sql(f"DESCRIBE DETAIL {self._table}").select("id").collect()
            history = self._spark.sql(f"DESCRIBE HISTORY {self._table}").select("version", _micros()).collect()
        commits = {int(row["version"]): row["micros"] / 1e6 for row in history}
        self._surveyed = _Survey(str(detail[0]["id"]), commits, self._now_s())
        return self._surveyed

    def prepare(self, released: Version | None) -> None:
        """Nothing is needed."""

    @contextmanager
    def open_head(self, *, first: bool) -> Iterator[Version]:
        """The newest version."""
        survey = self._survey(fresh=first)
        yield Version(survey.identity, Number(max(survey.commits)))

    def readable(self, at: Version) -> bool:
        """Whether its log is still there; files that were vacuumed show only when they are read."""
        return number_of(at) in self._survey(fresh=False).commits

    def pressing(self, at: Version) -> bool:
        """Whether the first commit that was not taken in is half as old as history is kept."""
        moment = self._survey(fresh=False).commits.get(number_of(at) + 1)
        return moment is not None and self._now_s() - moment > RETENTION_S / 2

    def check(self, at: Version) -> None:
        """The same table, with every commit since then."""
        survey = self._survey(fresh=True)
        if survey.identity != at.identity:
            raise UpstreamReplaced(
                f"{self._path} is another table now",
                detail=f"Its identity was {at.identity} and is {survey.identity}.",
                hint="RESYNC the job to build it anew from the new table, or drop it.",
            )
        if max(survey.commits) < number_of(at):
            raise UpstreamReplaced(
                f"{self._path} went back",
                detail=f"It is at version {max(survey.commits)}, the job has seen {number_of(at)}.",
                hint="RESYNC the job to build it anew.",
            )
        needed = range(number_of(at) + 1, max(survey.commits) + 1)
        missing = [version for version in needed if version not in survey.commits]
        if missing:
            raise HistoryGone(
                f"changes of {self._path} that were not taken in yet are gone",
                detail=f"Version {missing[0]} is no longer in its log.",
                hint="RESYNC the job to build it anew; keep the log longer than the job may stand still.",
            )

    def changed(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By the change feed."""
        halves = self.changes(after, upto, coverage)
        with translated(UpstreamReplaced):
            either = halves.removed.select(*self._key).unionAll(halves.added.select(*self._key))
            return Changed.NOTHING if either.isEmpty() else Changed.SOME

    def changes(self, after: Version, upto: Version, coverage: Coverage) -> Halves[DataFrame]:
        """Net changes: the weights of equal rows are added up, so the order of the feed does not matter."""
        if number_of(upto) <= number_of(after):
            nothing = self.rows((), upto)
            return Halves(nothing, nothing, images=True)
        with translated(UpstreamReplaced):
            feed = (
                self._spark.read.format("delta")
                .option("readChangeFeed", "true")
                .option("startingVersion", number_of(after) + 1)
                .option("endingVersion", number_of(upto))
                .load(self._path)
            )
            columns = [name for name in feed.columns if name not in FEED_COLUMNS]
            comes = f.col(CHANGE).isin("insert", "update_postimage")
            weighted = feed.withColumn(WEIGHT, f.when(comes, 1).otherwise(-1))
            net = weighted.groupBy(*columns).agg(f.sum(WEIGHT).alias(WEIGHT)).where(f.col(WEIGHT) != 0)
            types = key_types(net.schema, self._walk)
            covered = net.where(covers(coverage, self._walk, types)).where(_single())
            return Halves(
                covered.where(f.col(WEIGHT) < 0).select(*columns),
                covered.where(f.col(WEIGHT) > 0).select(*columns),
                images=True,
            )

    def _at(self, at: Version) -> DataFrame:
        return self._spark.read.format("delta").option("versionAsOf", number_of(at)).load(self._path)

    def rows(self, ranges: Sequence[Range], at: Version) -> DataFrame:
        """Time travel."""
        with translated(UpstreamReplaced):
            frame = self._at(at)
            return frame.where(within(ranges, self._walk, key_types(frame.schema, self._walk)))

    def _sampled(self, at: Version) -> _Sample:
        if self._sample is None:
            with translated(UpstreamReplaced):
                frame = self._at(at)
                types = key_types(frame.schema, self._walk)
                rows = frame.count()
                share = min(1.0, SAMPLE_KEYS / max(rows, 1))
                taken = frame if share == 1.0 else frame.sample(share, seed=1)
                found = taken.select(*collectable(self._walk, types)).collect()
            keys = tuple(sorted({key_of(tuple(row), types) for row in found}))
            self._sample = _Sample(keys, rows)
        return self._sample

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """From the sample."""
        left = rest(split)
        if left is None:
            return ()
        sample = self._sampled(at)
        inside = [key for key in sample.keys if left.holds(key)]
        stride = max(1, round(rows / max(sample.rows_per_key, 1e-9)))
        return inside[stride - 1 : -1 : stride]

    def greatest(self, at: Version) -> Key | None:
        """NULLs come first in Spark's order of structs too."""
        with translated(UpstreamReplaced):
            frame = self._at(at)
            types = key_types(frame.schema, self._walk)
            last = frame.agg(f.max(f.struct(*self._walk)).alias("last")).where("last IS NOT NULL")
            columns = [f.col("last").getField(name) for name in self._walk]
            found = last.select(*collectable(columns, types)).first()
        return None if found is None else key_of(tuple(found), types)

    def estimate(self) -> int:
        """The rows that the sample saw."""
        return 0 if self._sample is None else self._sample.rows

    def check_keys(self, at: Version) -> None:
        """Whole."""
        missing = f.lit(False)
        for name in self._key:
            missing = missing | f.col(name).isNull()
        with translated(UpstreamReplaced):
            counted = self._at(at).groupBy(*self._key).count().where((f.col("count") > 1) | missing)
            wrong = counted.limit(KEYS_NAMED_MAX).collect()
        if wrong:
            keys = ", ".join(str(tuple(row)[: len(self._key)]) for row in wrong)
            raise KeyNotUnique(
                f"the key ({', '.join(self._key)}) of {self._path} is not unique or NULL",
                detail=f"e.g. {keys}",
                hint="Remove the duplicates or declare another key.",
            )

    def release(self, version: Version) -> None:
        """Nothing is held."""


def number_of(version: Version) -> int:
    """The Delta version."""
    assert isinstance(version.point, Number)
    return version.point.number


def _micros() -> Column:
    return f.unix_micros(f.col("timestamp").cast("timestamp")).alias("micros")


def _single() -> Column:
    """Fails the query where a row came or went more than once: then its key is not unique."""
    message = f.lit(f"[{KEY_NOT_UNIQUE}] a row came or went more than once")
    return f.when(f.abs(f.col(WEIGHT)) > 1, f.raise_error(message).cast("boolean")).otherwise(f.lit(True))
