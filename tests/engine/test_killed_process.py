"""kill -9 of a runner process over Spark Connect, while another process writes the source."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.suites import in_longer_runs
from tidefill import connect
from tidefill.core.confirm import Entry
from tidefill.core.version import Number
from tidefill.delta.target import DeltaTarget
from tidefill.engine.engine import Engine
from tidefill.engine.job import Job
from tidefill.spark.coverage import covers, key_types
from tidefill.spark.names import table_at

DEADLINE_S = 120.0
KILLS = 2  # each costs a start of Python and a recovery
KILLS_IN_FULL = 8
KILLS_IN_SOAK = 200
SQL = "SELECT v * 2 AS w, id FROM events WHERE v <> 3"


class Lake:
    """A source, a job over it, and whoever runs the job at the moment."""

    def __init__(self, spark: SparkSession, url: str, folder: Path, rows: int) -> None:
        self.spark = spark
        self.url = url
        self.folder = folder
        self.source = str(folder / "source")
        self.writes = 0
        self.process: subprocess.Popen[bytes] | None = None
        made = spark.sql(f"SELECT id * 10 AS id, id % 7 AS v FROM range(0, {rows}, 1, 2)")
        made.write.format("delta").option("delta.enableChangeDataFeed", "true").save(self.source)
        self.engine: Engine = connect(spark, folder / "lake", folder / "store")
        self.engine.register("events", location=self.source, key="id")
        self.job: Job = self.engine.create_view("doubled", SQL, parallelism=2, chunk_rows=rows // 8)

    def start(self) -> None:
        folders = [str(self.folder / "lake"), str(self.folder / "store")]
        command = [sys.executable, "-m", "tests.engine.runner_process", self.url, *folders]
        with (self.folder / "process.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def write(self) -> None:
        """An insert behind the end and one in the middle, updates and a delete, in one commit."""
        self.writes += 1
        n = self.writes
        changes = [(100_000 + n, "I"), (n * 10 + 5, "I"), (n * 40, "U"), (n * 170, "U"), (n * 30, "D")]
        values = ", ".join(f"({key}, {key % 5}, '{op}')" for key, op in changes)
        self.spark.sql(
            f"MERGE INTO {table_at(self.source)} t USING (SELECT * FROM VALUES {values} AS c (id, v, op)) s "
            "ON t.id = s.id WHEN MATCHED AND s.op = 'D' THEN DELETE WHEN MATCHED THEN UPDATE SET t.v = s.v "
            "WHEN NOT MATCHED AND s.op = 'I' THEN INSERT (id, v) VALUES (s.id, s.v)"
        )

    @property
    def path(self) -> Path:
        return next((self.folder / "lake").glob("doubled-*"), self.folder / "none")

    def commits(self) -> int:
        return len(list(self.path.glob("_delta_log/*.json")))

    def data_files(self) -> int:
        return len(list(self.path.glob("**/*.parquet")))

    def until(self, so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not so():
            assert self.process is None or self.process.poll() is None, (self.folder / "process.log").read_text()
            assert time.monotonic() < deadline_s, f"{self.job}, {self.commits()} commits"
            time.sleep(0.02)

    def until_more(self, count: Callable[[], int]) -> None:
        before = count()
        self.until(lambda: count() > before)

    def newest(self) -> Entry | None:
        schema = self.spark.read.format("delta").load(str(self.path)).schema
        log = DeltaTarget(self.spark, str(self.path), schema, ["id"], "x").log()
        return next((entry for entry in reversed(log) if entry.payload is not None), None)

    def check(self) -> None:
        """I1, from nothing: the target is the query over the covered rows at the recorded version. (What the killed
        runner had begun may be committed at any moment: so one commit is looked at.)"""
        entry = self.newest() if self.commits() else None
        if entry is None or entry.payload is None:
            return
        state = entry.payload.state
        point = state.versions["t"].point
        assert isinstance(point, Number)
        rows = self.spark.read.format("delta").option("versionAsOf", point.number).load(self.source)
        covered = rows.where(covers(state.coverage["t"], ["id"], key_types(rows.schema, ["id"])))
        expected = covered.where("v <> 3").selectExpr("v * 2 AS w", "id")
        found = self.spark.read.format("delta").option("versionAsOf", entry.version).load(str(self.path))
        assert sorted(map(tuple, found.collect())) == sorted(map(tuple, expected.collect()))


@pytest.fixture
def lake(spark: SparkSession, connect_url: str, tmp_path: Path) -> Iterator[Callable[[int], Lake]]:
    made: list[Lake] = []

    def make(rows: int) -> Lake:
        made.append(Lake(spark, connect_url, tmp_path, rows))
        return made[-1]

    yield make
    for each in made:
        each.kill()
        each.engine.close()


@pytest.mark.parametrize("kills", [KILLS, *in_longer_runs(KILLS_IN_FULL, KILLS_IN_SOAK)])
def test_a_runner_process_is_killed_again_and_again(lake: Callable[[int], Lake], kills: int) -> None:
    # R11
    job, dice = lake(600), random.Random(kills)
    for _ in range(kills):
        job.start()
        if dice.randrange(2):
            job.until_more(job.data_files)  # in the middle of a write
        else:
            job.until_more(job.commits)  # before anybody has read it back
        job.kill()
        job.check()
        job.write()
    job.start()
    job.until(lambda: job.job.status().state == "live" and job.job.status().waiting == "up to date")
    job.check()
    source = job.spark.read.format("delta").load(job.source).where("v <> 3").selectExpr("v * 2 AS w", "id")
    assert sorted(map(tuple, job.job.table().collect())) == sorted(map(tuple, source.collect()))
