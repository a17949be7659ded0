"""Fills the entries of an index through Spark: chunks of the table are read into files (staged), cut into ranges of the
key, and each range is sorted and loaded by one task.

What is true is on the server: the cuts, the chunks that were read with the folders of their files, and the ranges that
were loaded. All of it is written in transactions that compare fence and step. A folder that no checkpoint names is of
an attempt that was cut off, and is never read. Each read has a snapshot of its own, taken after the barrier: all that
changes later is in the log. READ COMMITTED, because then the snapshot is taken after the lock of the table: a rewrite
of the table in between is not seen as an empty table.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from tidefill.errors import Fenced, NotYet, RetryLater, TidefillError, Unavailable, Unexplained
from tidefill.indexes.control import CONTROL, Control
from tidefill.indexes.leaves import CHUNKS
from tidefill.indexes.shape import Shape
from tidefill.indexes.sorting import (
    CUTS,
    FILES,
    HALVED,
    LOADED,
    SAMPLED,
    STAGED,
    Sort,
    Texts,
    between,
    cuts,
    entry_texts,
    is_escaped,
    order_type,
    ranges_for,
    sample,
    shares,
    text_name,
)
from tidefill.jobs.resources import Resource
from tidefill.postgres.index import copying, filling, looking
from tidefill.postgres.index.filling import Filled, checkpoints_id, note
from tidefill.postgres.index.session import (
    BAD_KEY,
    IDLE_IN_TRANSACTION,
    TRANSACTION_TIMEOUT_RELEASE,
    IndexSession,
    told,
)
from tidefill.postgres.reader import FETCH_ROWS
from tidefill.postgres.server import PINNED, PostgresServer
from tidefill.spark.faults import translated
from tidefill.spark.session import having_set
from tidefill.storage.local import STAGED as STAGED_FOLDER

APART = {"spark.sql.unionOutputPartitioning": "false"}
"""Else a union of frames with one partition each has one partition: one task would load all ranges."""

PASSES = ("08", "25", "40", "53", "55", "57", "58")
"""Classes of SQLSTATE that pass if one tries again."""

TOO_LARGE = ("53100", "53200", "53400", "54000", "57014", "25P04")
"""What the server says if a transaction is too large for its disk, its memory, its limits or its time."""

HALVED_ROWS_MIN = 10_000
"""A range of fewer rows is not cut in two: it is not its size that it fails by. Parts of a range come before the next
range, so a disk that stays full leaves some 25 of them, and then the job waits."""


PART = "part"
KIND = "staged"
"""Of the resource: the folder of staged files."""


@dataclass(slots=True)
class SparkSort:
    """The fill of one index through Spark. `folder`: where chunks are staged; `remove` takes it away, if it is there.
    `sort`: SPARK, or NONE. `rows`: about how many rows the table has. `part`: its number among the indexes that share
    the files."""

    session_of_job: Callable[[], SparkSession]
    server: PostgresServer
    folder: str
    remove: Callable[[], None]
    sort: Sort
    rows: Callable[[], int]
    part: int = 0
    _spark: SparkSession | None = field(default=None, init=False)
    _tasks_load: bool | None = field(default=None, init=False)

    @property
    def spark(self) -> SparkSession:
        """A session of Spark's own for this index, which is started when it is needed."""
        if self._spark is None:
            self._spark = self.session_of_job()
        return self._spark

    @property
    def resource(self) -> Resource:
        """What it makes outside of the server."""
        return Resource(KIND, self.folder)

    # What is true.

    def filled(self, session: IndexSession) -> Filled:
        """What the checkpoints say."""
        found = _checkpoints(session)
        staged, loaded = found[STAGED], {number: rows for number, _, rows in found[LOADED]}
        wanted = shares([number for number, _, _ in found[CUTS]], found[HALVED])
        upto = staged[-1][1] if staged else None
        is_read = bool(staged) and upto is None
        left = sorted(wanted.keys() - loaded.keys(), key=lambda number: (wanted[number].root, number))
        return Filled(
            len(staged), sum(rows for _, _, rows in staged), None if upto is None else tuple(upto),
            is_read and not left, is_read=is_read, left=tuple(left), loaded=sum(loaded.values()),
        )  # fmt: skip

    # Filling.

    def fill(self, session: IndexSession, control: Control, done: Filled, rows: int, tasks: int) -> Filled:
        """Stage the next chunks of so many rows each, as many as tasks read at a time; or, when all are staged, load
        as many ranges."""
        events: tuple[str, ...] = ()
        if done.is_read:
            events = self._load(session, control, done.left[:tasks])
        else:
            stage([Part(self, session, control)], done, rows, tasks)
        return replace(self.filled(session), events=events)

    def ends(self, session: IndexSession, control: Control) -> list[Texts | None]:
        """Where each range ends, decided once: equal keys have to come into one range, whenever they are read."""
        known = _checkpoints(session)[CUTS]
        if known:
            return [None if end is None else tuple(end) for _, end, _ in known]
        found = self._cut(session)
        with session.transaction(control) as connection:
            for number, end in enumerate(found):
                note(connection, session.shape, CUTS, number, end)
        return found

    def _cut(self, session: IndexSession) -> list[Texts | None]:
        """One range if a key of the sample cannot be computed: the read will find the row, and name it."""
        rows = self.rows()
        ranges = ranges_for(rows)
        if self.sort is Sort.NONE or ranges == 1:
            return [None] * ranges
        try:
            with told(f"the table {session.shape.base}"):
                sampled = session.connection.execute(sample(session.shape, rows, ranges)).fetchall()
        except BAD_KEY:
            return [None]
        return [*cuts(session.shape, sampled, ranges), None]

    def _load(self, session: IndexSession, control: Control, ranges: Sequence[int]) -> tuple[str, ...]:
        """One task loads one range. A range without rows reaches no task: its checkpoint is written here. A range that
        is too large is cut in two, which is told."""
        target = target_of(self.server, session, control, self.sort)
        by_tasks = self._tasks_can_load(target)
        try:
            with translated(), having_set(self.spark, APART):
                found = list(self._loaded(session, target, ranges, by_tasks=by_tasks))
        except RetryLater as error:  # a task has ended without a word, or had no memory or disk
            left = set(ranges) & set(self.filled(session).left)
            return self._halve(session, control, left, error)
        for number, _, _, problem in found:
            if problem.startswith(TOO_LARGE):
                return self._halve(session, control, {number}, _as_error(session.shape, problem))
            if problem not in (copying.DONE, copying.SKIPPED):
                raise _as_error(session.shape, problem)
        empty = set(ranges) - {number for number, _, _, _ in found}
        with session.transaction(control) as connection:
            for number in sorted(empty):
                note(connection, session.shape, LOADED, number, None)
        return ()

    def _loaded(
        self, session: IndexSession, target: copying.Target, ranges: Sequence[int], *, by_tasks: bool
    ) -> Iterator[tuple[int, int, int, str]]:
        """Of each range that has rows what `copying.load_all` says."""
        frames = self._sorted(session, ranges)
        if by_tasks:
            for row in reduce(DataFrame.unionAll, frames).mapInArrow(copying.loads(target), copying.RESULT).collect():
                yield row.range, row.rows, row.suspects, row.problem
        else:
            for frame in frames:
                yield from copying.load_all(target, iter(frame.toArrow().to_batches()))

    def _halve(
        self, session: IndexSession, control: Control, failed: Collection[int], error: TidefillError
    ) -> tuple[str, ...]:
        """Cut the largest of these ranges in two, and say so; else raise the error by which they failed. A task that
        still loads the whole range either has its checkpoint, or meets the one that is written here."""
        try:
            with translated():
                sizes = {
                    number: frame.count() for number, frame in zip(failed, self._entries(session, failed), strict=True)
                }
                largest = max(sizes, key=lambda number: sizes[number], default=-1)
                if sizes.get(largest, 0) < HALVED_ROWS_MIN:
                    raise error
                (entries,) = self._entries(session, [largest])
                some = entries.select(*session.shape.identity).orderBy(f.rand()).limit(2 * SAMPLED).collect()
        except RetryLater:
            raise error from None
        place = cuts(session.shape, [tuple(row) for row in some], 2)
        if not place:
            raise error  # all entries have one key
        found = _checkpoints(session)
        with session.transaction(control) as connection:
            note(connection, session.shape, LOADED, largest, None)
            first = len(found[CUTS]) + 2 * len(found[HALVED])
            note(connection, session.shape, HALVED, largest, place[0], first)
        return (f"a range of {sizes[largest]:,} entries was cut in two: {error.fact}: {error.detail}",)

    def _tasks_can_load(self, target: copying.Target) -> bool:
        if self._tasks_load is None:
            self._tasks_load = attempt(self.spark, target.login) == copying.DONE
        return self._tasks_load

    def _sorted(self, session: IndexSession, ranges: Sequence[int]) -> list[DataFrame]:
        """Of each range its entries, sorted, in one partition."""
        shape = session.shape
        order = _ordered(shape, {name: f.col(name) for name in shape.identity}) + [f.col(name) for name in shape.p]
        of_each = [frame.coalesce(1) for frame in self._entries(session, ranges)]
        return of_each if self.sort is Sort.NONE else [one.sortWithinPartitions(*order) for one in of_each]

    def _entries(self, session: IndexSession, ranges: Collection[int]) -> list[DataFrame]:
        """Of each range its entries, from all files that a checkpoint names."""
        shape, stored, found = session.shape, _stored(session.shape), _checkpoints(session)
        folders = [f"{self.folder}/{name}" for _, (name,), _ in found[FILES]]
        wanted = shares([number for number, _, _ in found[CUTS]], found[HALVED])
        texts = "".join(f"{name} string, " for name in (*stored.values(), STAGED_FOLDER.rstrip("=")))
        schema = f"{texts}{PART} int, {copying.RANGE} int"
        columns = {name: f.col(place) for name, place in stored.items()}
        staged = self.spark.read.schema(schema).option("basePath", self.folder).parquet(*folders)
        entries, frames = staged.where(f.col(PART) == self.part), list[DataFrame]()
        for number in ranges:
            one = entries.where(f.col(copying.RANGE) == wanted[number].root)
            for is_above, place in wanted[number].bounds:
                below = f.coalesce(_compared(shape, columns) < _placed(shape, place), f.lit(False))
                one = one.where(~below if is_above else below)
            named = [column.alias(name) for name, column in columns.items()]
            frames.append(one.select(*named, f.lit(number).cast("int").alias(copying.RANGE)))
        return frames


def attempt(spark: SparkSession, login: copying.Login) -> str:
    """DONE if a worker of this Spark can load by itself, else why not."""
    with translated():
        (row,) = spark.range(1).mapInArrow(copying.tries(login), "problem string").collect()
    return str(row.problem)


def who_loads(spark: SparkSession, server: PostgresServer) -> str:
    """In words, after an attempt on one worker."""
    problem = attempt(spark, copying.Login(server.url, "tidefill", {}))
    if problem == copying.DONE:
        return "tasks of Spark, one range each"
    return f"the driver, range by range, because a worker cannot: {problem}"


def target_of(server: PostgresServer, session: IndexSession, control: Control, sort: Sort) -> copying.Target:
    """What a task is told."""
    shape = session.shape
    mine = checkpoints_id(shape, LOADED)
    more = {"search_path": session.search_path, "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION}
    if session.connection.info.server_version >= TRANSACTION_TIMEOUT_RELEASE:
        more["transaction_timeout"] = "0"  # a large range takes its time
    settings = {**PINNED, **more, "default_transaction_isolation": "read committed"}
    by_key = shape.unique and sort is Sort.SPARK
    return copying.Target(
        copying.Login(server.url, session.application, settings),
        held=f"SELECT 1 FROM {CONTROL} WHERE id = %s AND fence = %s AND step = %s FOR SHARE",
        control=(shape.id, session.fence, control.step),
        checkpoint=f"INSERT INTO {CHUNKS} (id, chunk, rows) VALUES ('{mine}', %s, %s)",
        counted=f"UPDATE {CHUNKS} SET rows = %s WHERE id = '{mine}' AND chunk = %s",
        entries=shape.entries, log=shape.log(control.body.log or 1), columns=shape.columns,
        escaped=frozenset(name for name in shape.columns if is_escaped(shape.column(name))),
        key=shape.k if by_key else (), primary=shape.p, nulls_equal=shape.nulls_not_distinct,
    )  # fmt: skip


# Reading.


@dataclass(frozen=True, slots=True)
class Part:
    """One of the indexes that share a read."""

    fill: SparkSort
    session: IndexSession
    control: Control


def stage(parts: Sequence[Part], done: Filled, rows: int, tasks: int) -> list[int]:
    """Read the next chunks of so many rows each for these indexes, which stand at one place, into files. Files first,
    then their checkpoints: a crash in between leaves files that nobody reads. Returns how many rows each got."""
    first = parts[0]
    session, places = first.session, _places(first.session, done, rows, tasks)
    name = f"{STAGED_FOLDER}{done.chunks:06}-{session.fence}-{uuid.uuid4().hex[:8]}"
    try:
        counts = _write(parts, places, f"{first.fill.folder}/{name}")
    except TidefillError as error:
        _look_at_failure(parts, places, error)
        raise
    with session.transaction(first.control) as connection:
        for part in parts[1:]:
            session.hold(part.session.shape, part.control)
        for part, count in zip(parts, counts, strict=True):
            for before, after in pairwise(places):
                read = count if after is places[-1] else 0
                note(connection, part.session.shape, STAGED, before.chunks, after.upto, read)
            note(connection, part.session.shape, FILES, done.chunks, (name,))
    return counts


def _places(session: IndexSession, done: Filled, rows: int, tasks: int) -> list[Filled]:
    """The places between which chunks are read, the first one too."""
    places = [done]
    while len(places) <= tasks and not places[-1].is_read:
        last = places[-1]
        upto = filling.upper_bound(session, last.upto, rows)
        places.append(Filled(last.chunks + 1, upto=upto, is_read=upto is None))
    return places


def _look_at_failure(parts: Sequence[Part], places: Sequence[Filled], error: TidefillError) -> None:
    """Raise what tells more than the error of a read: the table was renamed, or a key cannot be computed."""
    for part in parts:
        session = part.session
        if looking.is_renamed(session):
            looking.follow_rename(session)
            raise NotYet(f"the table of the index {session.shape.name} was renamed", detail=error.detail) from error
        filling.check_keys(session, part.control, places[0].upto, places[-1].upto, error)


def _write(parts: Sequence[Part], places: Sequence[Filled], folder: str) -> list[int]:
    """Read entries as texts, each chunk by a task of its own, and write them by index and range."""
    first, shapes = parts[0], [part.session.shape for part in parts]
    ends = [part.fill.ends(part.session, part.control) for part in parts]
    predicates = [between(shapes[0], before.upto, after.upto) for before, after in pairwise(places)]
    options = first.fill.server.jdbc_now(first.session.application, first.session.search_path)
    url = options.pop("url")
    counted, numbers = Observation(), [part.fill.part for part in parts]
    with translated():
        frame = first.fill.spark.read.jdbc(
            url, f"({entry_texts(shapes)}) q", predicates=predicates,
            properties={**options, "fetchsize": str(FETCH_ROWS), "pushDownPredicate": "false"},
        )  # fmt: skip
        width = max(len(shape.columns) for shape in shapes)
        fields = [_fields(part, at, ends[at], width) for at, part in enumerate(parts)]
        counts = [f.count(f.when(f.col(PART) == number, 1)).alias(f"n{number}") for number in numbers]
        entries = _entries(frame, fields).observe(counted, *counts)
        entries.write.partitionBy(PART, copying.RANGE).parquet(folder)
    return [int(counted.get[f"n{number}"]) for number in numbers]


def _fields(part: Part, at: int, ends: Sequence[Texts | None], width: int) -> list[Column]:
    """What is written of an entry in the index number `at`."""
    shape = part.session.shape
    columns = {name: f.col(text_name(name, at)) for name in shape.columns}
    stored = [columns[name].alias(place) for name, place in _stored(shape).items()]
    nothing = f.lit(None).cast("string")
    stored += [nothing.alias(_place(number)) for number in range(len(stored) + 1, width + 1)]
    return [
        f.lit(part.fill.part).alias(PART),
        _range(part.fill.sort, shape, columns, ends).alias(copying.RANGE),
        *stored,
    ]


def _entries(frame: DataFrame, fields: Sequence[list[Column]]) -> DataFrame:
    """A row for each index that the base row is in."""
    if len(fields) == 1:
        return frame.select(*fields[0])
    entries = [f.struct(f.col(text_name("ok", at)).alias("ok"), *of_one) for at, of_one in enumerate(fields)]
    return frame.select(f.inline(f.array(*entries))).where("ok").drop("ok")


def _place(number: int) -> str:
    return f"c{number}"


def _stored(shape: Shape) -> dict[str, str]:
    """The columns of an entry, and how files call them: several indexes share files."""
    return {name: _place(number) for number, name in enumerate(shape.columns, 1)}


def _range(sort: Sort, shape: Shape, columns: Mapping[str, Column], ends: Sequence[Texts | None]) -> Column:
    """The number of the range that an entry is in: a search by halves."""
    if sort is Sort.NONE:
        return f.pmod(f.hash(*(columns[name] for name in shape.p)), f.lit(len(ends))).cast("int")
    key = _compared(shape, columns)
    places = [_placed(shape, end) for end in ends if end is not None]

    def among(first: int, last: int) -> Column:
        if first == last:
            return f.lit(first)
        middle = (first + last) // 2
        return f.when(key < places[middle], among(first, middle)).otherwise(among(middle + 1, last))

    return among(0, len(places)).cast("int")


def _compared(shape: Shape, columns: Mapping[str, Column]) -> Column:
    ordered = enumerate(_ordered(shape, columns))
    return f.struct(*(column.alias(f"o{number}") for number, column in ordered))


def _placed(shape: Shape, place: Texts) -> Column:
    """A place in the order of entries, as `_compared` gives that of an entry."""
    texts = [f.lit(text).cast("string") for text in place]
    return _compared(shape, dict(zip(shape.identity, texts, strict=True)))


def _ordered(shape: Shape, columns: Mapping[str, Column]) -> list[Column]:
    """What entries are ordered by: numbers by their value, then all by their texts."""
    found = list[Column]()
    for name in shape.identity:
        kind, column = order_type(shape.column(name)), columns[name]
        found += [column.try_cast(kind), column] if kind else [column]
    return found


# Checkpoints.


def _checkpoints(session: IndexSession) -> dict[str, list[Any]]:
    """The rows of each kind: number, texts, rows."""
    shape = session.shape
    found: dict[str, list[Any]] = {kind: [] for kind in (CUTS, STAGED, FILES, LOADED, HALVED)}
    ids = [checkpoints_id(shape, kind) for kind in found]
    query = f"SELECT id, chunk, upto, rows FROM {CHUNKS} WHERE id = ANY (%s) ORDER BY id, chunk"
    for name, *row in session.all(query, (ids,)):
        found[name.rpartition("/")[2]].append(row)
    return found


def _as_error(shape: Shape, problem: str) -> TidefillError:
    """What a task met."""
    if problem == copying.FENCED:
        return Fenced(f"another runner has taken the index {shape.name} over")
    fact = f"a range of the index {shape.name} could not be loaded"
    return (Unavailable if problem.startswith(PASSES) else Unexplained)(fact, detail=problem)
