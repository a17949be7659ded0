"""A Delta table as an upstream: versions by number, both images of a change from the change data feed.

Bounds come from one narrow scan of the walk columns, made when they are first asked for and kept: a sample of keys,
each of which stands for so many rows. A small table's sample is all of its keys. A table that is not to be cut is not
scanned for that: the log has counted its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.sample import SAMPLE_KEYS, Sample
from tidefill.core.version import Number, Version
from tidefill.core.walk import Coverage, Range, Split, above, finished, rest
from tidefill.delta.changed_keys import KEYS_NAMED_MAX
from tidefill.delta.history import DeltaHistory, wall_clock_s
from tidefill.delta.log.commits import Commit
from tidefill.delta.log.survey import Survey
from tidefill.errors import HistoryGone, InvalidSetting, KeyNotUnique, Unreadable, UpstreamReplaced
from tidefill.jobs.resources import Resource
from tidefill.ports.frames import Changes
from tidefill.ports.upstream import UpstreamLook
from tidefill.spark.coverage import collectable, covers, key_of, key_types, within
from tidefill.spark.faults import KEY_NOT_UNIQUE, translated
from tidefill.spark.names import WEIGHT, quoted
from tidefill.spark.session import small_step
from tidefill.spark.weights import weighted

FEW_CHANGES = 10_000  # which one task nets and compares sooner than several that pass them on to each other
FEW_BYTES = 8 << 20  # in files; fewer rows that are as large as this are not few: they are brought to the driver
KEYS_AT_A_TIME = 500_000  # that are counted in memory; mostly no key comes twice, so there is nothing to add up before
CHANGE = "_change_type"
FEED_COLUMNS = (CHANGE, "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True)
class _Netted:
    """The net changes that were asked for last, computed once and kept."""

    after: Version
    upto: Version
    coverage: Coverage
    frame: DataFrame


class DeltaUpstream:
    """The Delta table at a path. `key` identifies a row, `walk` is the order in which it is filled, with the key.
    `columns` are all that is read, if not every column; `known` all that there were when these were chosen. `derived`:
    a job of ours makes it. `history` may be shared by the jobs that read one table."""

    lasting = True
    resources: tuple[Resource, ...] = ()

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        key: Sequence[str],
        walk: Sequence[str],
        *,
        columns: Sequence[str] | None = None,
        known: Sequence[str] = (),
        null_keys: bool = False,
        derived: bool = False,
        history: DeltaHistory | None = None,
        now_s: Callable[[], float] = wall_clock_s,
    ) -> None:
        self._spark = spark
        self._path = path
        self._key = tuple(key)
        self._walk = tuple(walk)
        self._columns = None if columns is None else tuple(dict.fromkeys((*columns, *walk)))
        self._known = frozenset(known)
        self._null_keys = null_keys
        self._derived = derived
        self._there: tuple[str, ...] = ()
        self._history = history or DeltaHistory(spark, path, now_s)
        self._now_s = now_s
        self._sample: Sample | None = None
        self._counted: tuple[int, int] | None = None
        self._netted: _Netted | None = None
        self._lost: set[int] = set()
        self._newest_columns: tuple[int, tuple[str, ...]] = (-1, ())
        if not set(self._key) <= set(self._walk):
            raise InvalidSetting(f"the walk {self._walk} does not contain the key {self._key}")

    def prepare(self, released: Version | None) -> None:
        """Nothing is needed."""

    @contextmanager
    def open_head(self, *, first: bool) -> Iterator[Version]:
        """The newest version."""
        survey = self._history.survey(fresh=first)
        yield self._version(survey, survey.head)

    def _version(self, survey: Survey, number: int) -> Version:
        if not self._derived:
            return Version(survey.identity, Number(number))
        survey = self._told(survey, lambda known: known.bases(number) is not None)
        return Version(survey.identity, Number(number), bases=survey.bases(number) or {})

    def newest_from(self, base: str, number: int) -> Version | None:
        """By what its commits carry."""
        survey = self._history.survey()
        if base == survey.identity:
            return Version(base, Number(number))

        def found(known: Survey) -> int | None:
            fits = (at for at in known.commits if (known.bases(at) or {}).get(base, number + 1) <= number)
            return max(fits, default=None)

        survey = self._told(survey, lambda known: found(known) is not None)
        at = found(survey)
        return None if at is None else self._version(survey, at)

    def _told(self, survey: Survey, enough: Callable[[Survey], bool]) -> Survey:
        """The survey, with as much more of the history as is needed for that, if there is so much."""
        while not enough(survey) and not survey.whole and min(survey.commits) > 0:
            survey = self._history.survey(reach=max(0, 2 * min(survey.commits) - survey.head))
        return survey

    def readable(self, at: Version) -> bool:
        """Whether its log is still there; files that were vacuumed show only when they are read, and are remembered."""
        number = number_of(at)
        return number not in self._lost and number in self._history.survey(reach=number).commits

    def look(self, at: Version) -> UpstreamLook:
        """History runs short when the first commit that was not taken in is half as old as history is kept. Delta keeps
        nothing for a reader."""
        lag_s = self._lag_s(at)
        runs_short = lag_s > self._history.survey(reach=number_of(at)).kept_s / 2
        return UpstreamLook(self.readable(at), runs_short, lag_s)

    def _lag_s(self, at: Version) -> float:
        """The age of the first commit that was not taken in."""
        missed = self._history.survey(reach=number_of(at)).commits.get(number_of(at) + 1)
        return 0.0 if missed is None else max(0.0, self._now_s() - missed.at_s)

    def notices(self) -> tuple[str, ...]:
        """Columns that came after the creation of a job that names the columns it reads."""
        new = [name for name in self._there if name not in self._known] if self._known else []
        return tuple(f"column {name} of the input is new and is not in the view" for name in new)

    def check(self, at: Version) -> None:
        """The same table, with every commit since then."""
        survey = self._history.survey(reach=number_of(at), fresh=True)
        if survey.identity != at.identity:
            raise UpstreamReplaced(
                f"{self._path} is another table now",
                detail=f"Its identity was {at.identity} and is {survey.identity}.",
                hint="RESYNC the job to build it anew from the new table, or drop it.",
            )
        if survey.head < number_of(at):
            raise UpstreamReplaced(
                f"{self._path} went back",
                detail=f"It is at version {survey.head}, the job has seen {number_of(at)}.",
                hint="RESYNC the job to build it anew.",
            )
        needed = range(number_of(at) + 1, survey.head + 1)
        missing = [version for version in needed if version not in survey.commits]
        if missing:
            raise HistoryGone(
                f"changes of {self._path} that were not taken in yet are gone",
                detail=f"Version {missing[0]} is no longer in its log.",
                hint="RESYNC the job to build it anew; keep the log longer than the job may stand still.",
            )

    def on_unreadable(self, at: Version) -> None:
        """Files of that version are gone. A newer one may do, unless the changes up to it are gone too, or there is
        none."""
        survey = self._history.survey(fresh=True)
        self._lost.add(number_of(at))
        self._sample = None
        newest = Version(survey.identity, Number(survey.head))
        if survey.head <= number_of(at):
            raise self._files_gone("Files of its newest version are missing.")
        try:
            with translated(UpstreamReplaced):
                self._weighted(at, newest).select(f.xxhash64("*").alias("h")).agg(f.max("h")).collect()
        except Unreadable as error:
            raise self._files_gone(error.detail) from error

    def _files_gone(self, detail: str) -> HistoryGone:
        return HistoryGone(
            f"files of {self._path} that are needed are gone",
            detail=detail,
            hint="RESYNC the job to build it anew; let VACUUM keep files longer than the job may stand still.",
        )

    def classify_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By the change feed, which is kept for the step that follows. If few rows were written, and all are covered,
        it is not read for that: to look for one of them that changed costs more than a step that changes nothing."""
        self.let_go()
        start, end = number_of(after), number_of(upto)
        if end <= start:
            return Changed.NOTHING
        few = self._are_few(start, end)
        if few and not self.rows_written(after, upto):
            return Changed.NOTHING
        if few and finished(coverage):
            return Changed.SOME
        with translated(UpstreamReplaced), small_step(self._spark, few):
            frame = self._net(after, upto, coverage).cache()
            self._netted = _Netted(after, upto, coverage, frame)
            return Changed.NOTHING if frame.isEmpty() else Changed.SOME

    def rows_written(self, after: Version, upto: Version) -> int:
        """By what the commits say of themselves, as of the look that showed these versions."""
        return sum(commit.rows for commit in self._commits(number_of(after), number_of(upto)))

    def _commits(self, after: int, upto: int) -> list[Commit]:
        commits = self._history.known(reach=after).commits
        return [commits[number] for number in range(after + 1, upto + 1) if number in commits]

    def _are_few(self, after: int, upto: int) -> bool:
        """Whether few rows were written in (after, upto], as each of its commits says: one that says nothing may have
        written any number of them, and an overwrite does not say what it removed."""
        commits = self._commits(after, upto)
        told = all(commit.quiet or (commit.plain and commit.rows) for commit in commits)
        return told and len(commits) == upto - after and sum(commit.rows for commit in commits) <= FEW_CHANGES

    def _are_light(self, after: Version, upto: Version) -> bool:
        """Whether the changed rows need little memory, if they are as large as the table's rows are on the average."""
        size = self._history.seen().size
        return size <= FEW_BYTES or self.rows_written(after, upto) * size <= FEW_BYTES * max(1, self.row_count(upto))

    def _only_added(self, after: int, upto: int) -> bool:
        commits = self._commits(after, upto)
        return len(commits) == upto - after and all(commit.adds or commit.quiet for commit in commits)

    def row_count(self, at: Version) -> int:
        """By the log, mostly, which counts the rows of each file; not asked again after a few changes."""
        counted, number = self._counted, number_of(at)
        if counted is None or number < counted[0] or not self._are_few(counted[0], number):
            with translated(UpstreamReplaced):
                counted = self._counted = number, self._rows_at(at)
        return counted[1]

    def _rows_at(self, at: Version) -> int:
        known = self._history.counted
        if known is None or known[0] != at:
            known = self._history.counted = at, self._at(at).count()
        return known[1]

    def size(self) -> tuple[int, int]:
        """About how many rows it has, and bytes, as of the last look."""
        survey = self._history.seen()
        return self.row_count(Version(survey.identity, Number(survey.head))), survey.size

    def read_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changes[DataFrame]:
        """Net changes: the weights of equal rows are added up, so the order of the feed does not matter."""
        if number_of(upto) <= number_of(after):
            return Changes(weighted(self.rows((), upto), 1), images=True, removes=False)
        with translated(UpstreamReplaced):
            known = self._netted
            kept = known is not None and (known.after, known.upto, known.coverage) == (after, upto, coverage)
            net = known.frame if known is not None and kept else self._net(after, upto, coverage)
            first, last = number_of(after), number_of(upto)
            removes = not self._only_added(first, last)
            few = self._are_few(first, last) and self._are_light(after, upto)
            return Changes(net, images=True, kept=kept, removes=removes, few=few)

    def _net(self, after: Version, upto: Version, coverage: Coverage) -> DataFrame:
        rows = self._weighted(after, upto)
        if self._are_few(number_of(after), number_of(upto)):
            rows = rows.repartition(1)
        columns = [quoted(name) for name in rows.columns if name != WEIGHT]
        net = rows.groupBy(*columns).agg(f.sum(WEIGHT).cast("int").alias(WEIGHT)).where(f.col(WEIGHT) != 0)
        types = key_types(net.schema, self._walk)
        return net.where(covers(coverage, self._walk, types)).where(_single())

    def _weighted(self, after: Version, upto: Version) -> DataFrame:
        """The change feed: +1 for a row that came, -1 for one that went."""
        feed = (
            self._spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", number_of(after) + 1)
            .option("endingVersion", number_of(upto))
            .load(self._path)
        )
        comes = f.col(CHANGE).isin("insert", "update_postimage")
        rows = feed.withColumn(WEIGHT, f.when(comes, 1).otherwise(-1)).drop(*FEED_COLUMNS)
        return self._narrowed(rows, upto)

    def _narrowed(self, frame: DataFrame, at: Version) -> DataFrame:
        """What is read of the table at this version. A column that is needed, or that was there at an older version
        when all are, must not be gone."""
        here = [name for name in frame.columns if name != WEIGHT]
        known, needed = self._newest_columns
        if self._columns is not None:
            needed = self._columns
        elif number_of(at) < known:
            needed = ()
        check_columns(self._path, needed, here)
        self._there = tuple(here)
        if self._columns is None:
            self._newest_columns = max(self._newest_columns, (number_of(at), tuple(here)), key=lambda seen: seen[0])
            return frame
        also = [WEIGHT] if WEIGHT in frame.columns else []
        return frame.select(*map(quoted, (*self._columns, *also)))

    def let_go(self) -> None:
        """Keep no changes in Spark's memory."""
        if self._netted is not None:
            self._netted.frame.unpersist()
            self._netted = None

    def _at(self, at: Version) -> DataFrame:
        frame = self._spark.read.format("delta").option("versionAsOf", number_of(at)).load(self._path)
        return self._narrowed(frame, at)

    def rows(self, ranges: Sequence[Range], at: Version) -> DataFrame:
        """Time travel."""
        with translated(UpstreamReplaced):
            frame = self._at(at)
            return frame.where(within(ranges, self._walk, key_types(frame.schema, self._walk)))

    def _sampled(self, at: Version) -> Sample:
        if self._sample is None:
            rows = self.row_count(at)
            with translated(UpstreamReplaced):
                frame = self._at(at)
                types = key_types(frame.schema, self._walk)
                share = min(1.0, SAMPLE_KEYS / max(rows, 1))
                taken = frame if share == 1.0 else frame.sample(share, seed=1)
                found = taken.select(*collectable(self._walk, types)).collect()
            keys = tuple(sorted({key_of(tuple(row), types) for row in found}))
            self._sample = Sample(keys, rows)
        return self._sample

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """From the sample, which a table that is smaller need not have."""
        if rest(split) is None or (self._sample is None and self.row_count(at) <= rows):
            return ()
        return self._sampled(at).bounds(split, rows)

    def beyond(self, at: Version) -> tuple[Range, ...]:
        """Above the greatest key."""
        return above(self._greatest(at))

    def _greatest(self, at: Version) -> Key | None:
        """NULLs come first in Spark's order of structs too. Of a single column that is never NULL, the log's statistics
        know."""
        with translated(UpstreamReplaced):
            frame = self._at(at)
            types = key_types(frame.schema, self._walk)
            walk = [f.col(quoted(name)) for name in self._walk]
            if len(walk) == 1 and not self._null_keys:
                columns, last = [f.col("last")], frame.agg(f.max(walk[0]).alias("last"))
            else:
                columns = [f.col("last").getField(name) for name in self._walk]
                last = frame.agg(f.max(f.struct(*walk)).alias("last"))
            found = last.where("last IS NOT NULL").select(*collectable(columns, types)).first()
        return None if found is None else key_of(tuple(found), types)

    def comparable(self, at: Version) -> None:
        """Everywhere: it forgets no row."""

    def row_estimate(self) -> int:
        """The rows that the sample saw, or that were counted last."""
        if self._sample is not None:
            return self._sample.rows
        return 0 if self._counted is None else self._counted[1]

    def check_keys(self, at: Version) -> None:
        """Whole; what has passed once is not looked at again."""
        if self._history.keyed.get(self._key) == at:
            return
        missing = f.lit(False)
        for name in () if self._null_keys else self._key:
            missing = missing | f.col(quoted(name)).isNull()
        with translated(UpstreamReplaced):
            keys = [f.col(quoted(name)) for name in self._key]
            places = 1 + self.row_count(at) // KEYS_AT_A_TIME
            alike = self._at(at).select(*keys).repartition(places, *keys)
            counted = alike.groupBy(*keys).agg(f.count(f.lit(1)).alias(WEIGHT))
            wrong = counted.where((f.col(WEIGHT) > 1) | missing).limit(KEYS_NAMED_MAX).collect()
        if wrong:
            named = ", ".join(str(tuple(row)[: len(self._key)]) for row in wrong)
            raise KeyNotUnique(
                f"the key ({', '.join(self._key)}) of {self._path} is not unique or NULL",
                detail=f"e.g. {named}",
                hint="Remove the duplicates or declare another key.",
            )
        if not self._null_keys:
            self._history.keyed[self._key] = at

    def release(self, version: Version) -> None:
        """The changes that were kept for the step are of no use any more."""
        self.let_go()


def check_columns(table: str, needed: Sequence[str], here: Sequence[str]) -> None:
    """UpstreamReplaced if the table has lost a column that a job needs."""
    missing = [name for name in needed if name not in here]
    if missing:
        raise UpstreamReplaced(
            f"{table} has no column {missing[0]} any more",
            detail=f"Its columns are {', '.join(here)}.",
            hint="Drop the job and create it anew from the columns that there are.",
        )


def number_of(version: Version) -> int:
    """The Delta version."""
    assert isinstance(version.point, Number)
    return version.point.number


def _single() -> Column:
    """Fails the query where a row came or went more than once: then its key is not unique."""
    message = f.lit(f"[{KEY_NOT_UNIQUE}] a row came or went more than once")
    return f.when(f.abs(f.col(WEIGHT)) > 1, f.raise_error(message).cast("boolean")).otherwise(f.lit(True))
