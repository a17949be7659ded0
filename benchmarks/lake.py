"""What a backfill costs, against the same query in one go, and what a live step costs, against the bare MERGE.

`make bench-lake`. ROWS and ROUNDS are settings of the environment. Each ratio is taken within one round, on one table
and one session; a machine's mood is in both of its sides.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from benchmarks.merge import DELETED, bare_merge, timed
from benchmarks.processes import cpu_s
from tidefill import connect
from tidefill.core.confirm import anchor_from_text
from tidefill.delta.target import PROPERTIES
from tidefill.engine.engine import Engine
from tidefill.engine.job import Job
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.status import version_of
from tidefill.run.scheduler import Scheduler
from tidefill.spark.names import table_at
from tidefill.spark.start import local_session

ROWS = int(os.environ.get("ROWS", "10_000_000"))
VERBOSE = bool(os.environ.get("VERBOSE"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
WRITE_EVERY_S = 3.0
IDLE_S = 60.0
CHANGED_ROWS = 1_000
QUERY = "SELECT id, day, amount * 2 AS doubled, note FROM {table} WHERE kind <> 3"
CUT = "clustered, in four chunks"
LAYOUTS = ("clustered", "unclustered", CUT)
RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True)
class Measured:
    """One round over one layout, in seconds."""

    layout: str
    steps: int
    ctas_s: float
    backfill_s: float
    verify_s: float
    merge_s: float
    bounded_s: float
    step_s: float


def make_source(spark: SparkSession, path: str, layout: str) -> None:
    """About 110 bytes a row."""
    rows = spark.range(0, ROWS, 1, 16).selectExpr(
        "id", "id % 7 AS kind", f"date_add(DATE'2026-01-01', CAST(id * 300 / {ROWS} AS INT)) AS day",
        "CAST(id % 10007 AS DECIMAL(12, 2)) AS amount", "repeat(md5(CAST(id AS STRING)), 2) AS note",
    )  # fmt: skip
    placed = rows.repartition(16, f.xxhash64("id")) if layout == "unclustered" else rows
    placed.write.format("delta").options(**PROPERTIES).save(path)


class Writer:
    """Appends some rows and changes some, every few seconds."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark.newSession()
        self._path = path
        self._stop = threading.Event()
        self.commits = 0

    def once(self) -> str:
        """An update in one place of the table, and which ids it is about."""
        start = self.commits * 7919 * 31 % ROWS
        place = f"id >= {start} AND id < {start + CHANGED_ROWS}"
        self._spark.sql(f"UPDATE {table_at(self._path)} SET amount = amount + 1 WHERE {place}")
        self.commits += 1
        return place

    def _append(self) -> None:
        first = ROWS + self.commits * CHANGED_ROWS
        rows = self._spark.read.format("delta").load(self._path).limit(CHANGED_ROWS)
        new = rows.withColumn("id", f.monotonically_increasing_id() + first)
        new.coalesce(1).write.format("delta").mode("append").save(self._path)
        self.commits += 1

    def _run(self) -> None:
        while not self._stop.wait(WRITE_EVERY_S):
            self._append()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Writes while the block runs."""
        thread = threading.Thread(target=self._run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()
            self._stop.clear()


def ctas(spark: SparkSession, source: str, path: str) -> None:
    """The same query in one go, with the same table properties."""
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in PROPERTIES.items())
    query = QUERY.format(table=table_at(source))
    spark.sql(f"CREATE TABLE {table_at(path)} USING delta TBLPROPERTIES ({properties}) AS {query}")


def backfill(engine: Engine, service: Scheduler, job: Job, source: str) -> tuple[float, float, int]:
    """Seconds until all is filled and at the head that was seen then, without the verification; seconds of that; how
    many steps it took to fill it."""
    goal: int | None = None
    steps, spent_s, verify_s = 0, 0.0, 0.0
    while goal is None or (job.status().version or 0) < goal:
        row = engine._store.job(job.id)
        assert row is not None
        assert row.failure is None, row.failure
        took_s = timed(lambda: service.turn(row))  # noqa: B023
        if row.life is Life.VERIFYING and job.status().state == Life.LIVE.value:
            verify_s += took_s
        else:
            spent_s += took_s
        after = engine._store.job(job.id)
        anchor = None if after is None else anchor_from_text(after.anchor)
        state = None if anchor is None else anchor.state
        if VERBOSE:
            print(f"  {row.life.value} {took_s:.1f} s, step {state.step if state else 0}", flush=True)
        if state is not None and state.finished() and goal is None:
            goal, steps = engine._lake.tables.head(source), state.step
    job.wait(3600)
    return spent_s, verify_s, steps


def follow(engine: Engine, service: Scheduler, source: str) -> int:
    """Turns until the view is at the head of its table; which is that."""
    head = engine._lake.tables.head(source)
    while True:
        row = engine._store.find("view")
        assert row is not None
        assert row.failure is None, row.failure
        anchor = anchor_from_text(row.anchor)
        assert anchor is not None
        if version_of(anchor) == head:
            return head
        service.turn(row)


def live_step(spark: SparkSession, engine: Engine, service: Scheduler, writer: Writer, copy: str) -> list[float]:
    """Seconds of the bare MERGE of one commit's changes into a copy of the target, of that with the bounds of the key,
    and of our step."""
    source = writer._path
    before = follow(engine, service, source)
    place = writer.once().replace("id", "t.id")
    feed = (
        spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", before + 1).load(source)
    )
    feed.createOrReplaceTempView("feed")
    deleted = f"_change_type = 'delete' AS {DELETED}"
    values = QUERY.format(table="feed").replace("SELECT ", f"SELECT {deleted}, ")
    changes = spark.sql(f"{values} AND _change_type <> 'update_preimage'")
    columns = ["id", "day", "doubled", "note"]
    bare = [timed(lambda: bare_merge(changes, copy, columns, within)) for within in ("", f"AND {place}")]  # noqa: B023
    return [*bare, timed(lambda: follow(engine, service, source))]


def measure(spark: SparkSession, folder: Path, layout: str, number: int) -> Measured:
    """One round."""
    place = f"{LAYOUTS.index(layout)}-{number}"
    source, copy = str(folder / place), str(folder / f"{place}-ctas")
    make_source(spark, source, layout)
    writer = Writer(spark, source)
    with connect(spark, folder / "lake", folder / f"store-{place}") as engine:
        engine.register("events", location=source, key="id")
        with writer.busy():
            ctas_s = timed(lambda: ctas(spark, source, copy))
        asked: dict[str, Any] = {"chunk_rows": -(-ROWS // 4)} if layout == CUT else {}
        job = engine.create_view("view", QUERY.format(table="events"), **asked)
        service = engine.scheduler()
        with writer.busy():
            backfill_s, verify_s, steps = backfill(engine, service, job, source)
        steps_s = live_step(spark, engine, service, writer, copy)
        job.drop()
        engine.run_once()
    for path in (source, copy):
        shutil.rmtree(path)
    return Measured(layout, steps, ctas_s, backfill_s, verify_s, *steps_s)


def share_of_a_core(idle_s: float) -> float:
    """What this process and its children use while this thread sleeps."""
    before_s = cpu_s()
    time.sleep(idle_s)
    return (cpu_s() - before_s) / idle_s


def idle(spark: SparkSession, folder: Path) -> tuple[float, float, int]:
    """The share of a core of the bare session, and of the session with a live job that has nothing to do; the commits
    of that job meanwhile."""
    source = str(folder / "idle")
    spark.range(1000).write.format("delta").options(**PROPERTIES).save(source)
    with connect(spark, folder / "lake", folder / "store-idle") as engine:
        engine.register("events", location=source, key="id")
        job = engine.create_view("idle_view", "SELECT id FROM events").wait(600)
        bare = share_of_a_core(IDLE_S)
        stop = threading.Event()
        running = threading.Thread(target=engine.run, args=(stop,))
        running.start()
        time.sleep(IDLE_S)  # until it asks but twice a minute
        target = engine._lake.warehouse.path(job._row(), 1)
        before = engine._lake.tables.head(target)
        used = share_of_a_core(2 * IDLE_S)
        commits = engine._lake.tables.head(target) - before
        stop.set()
        running.join()
    return bare, used, commits


def table(rounds: list[Measured]) -> str:
    """The results as a table."""
    lines = [
        "| layout | round | steps | CTAS s | backfill s | ratio | verify s | bare MERGE s | bounded s | live step s "
        "| ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    counted: dict[str, int] = {}
    for one in rounds:
        counted[one.layout] = counted.get(one.layout, 0) + 1
        lines.append(
            f"| {one.layout} | {counted[one.layout]} | {one.steps} | {one.ctas_s:.1f} | {one.backfill_s:.1f} "
            f"| **{one.backfill_s / one.ctas_s:.2f}** | {one.verify_s:.1f} | {one.merge_s:.1f} | {one.bounded_s:.1f} "
            f"| {one.step_s:.1f} | **{one.step_s / one.bounded_s:.2f}** |"
        )
    for layout in counted:
        ratios = [one.backfill_s / one.ctas_s for one in rounds if one.layout == layout]
        steps = [one.step_s / one.bounded_s for one in rounds if one.layout == layout]
        lines.append(
            f"| {layout} | median (spread) | | | | {statistics.median(ratios):.2f} ({min(ratios):.2f} to "
            f"{max(ratios):.2f}) | | | | | {statistics.median(steps):.2f} ({min(steps):.2f} to {max(steps):.2f}) |"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, print, write."""
    folder = Path(tempfile.mkdtemp(prefix="tidefill-bench-"))
    spark = local_session()
    rounds: list[Measured] = []
    try:
        warm_up = measure(spark, folder, "clustered", 0)
        print(f"warm-up: {warm_up}", flush=True)
        for number in range(1, ROUNDS + 1):
            for layout in LAYOUTS:
                rounds.append(measure(spark, folder, layout, number))
                print(rounds[-1], flush=True)
        bare, used, commits = idle(spark, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = (
        "# Measured by `make bench-lake`\n\n"
        f"{ROWS:,} rows of about 110 bytes, {os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python "
        f"{platform.python_version()}. A writer appends {CHANGED_ROWS} rows about every {WRITE_EVERY_S:.0f} s beside "
        "the CTAS and beside the backfill alike. The clock of a backfill stops when all is filled and at the head seen "
        "then; the verification is apart. What is left to the clock begins with a chunk of half a gigabyte, here the "
        "whole table; the last layout is told to be filled by quarters.\n\n"
        f"A live step takes in an update of {CHANGED_ROWS} rows in one place. The bare MERGE takes the same changes "
        "from the change feed into the CTAS's table; bounded: with the constant bounds of the key that ours has, too. "
        "The ratio is against that.\n\n"
        f"A live job with nothing to do: {100 * (used - bare):.1f} % of a core beyond the bare session's "
        f"{100 * bare:.1f} %, {commits} commits in {2 * IDLE_S:.0f} s.\n\n"
        f"{table(rounds)}\n"
    )
    print(text)
    RESULTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
