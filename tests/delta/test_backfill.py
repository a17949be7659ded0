"""A replica and a filtered view of a live Delta table, driven by the production runner: crashes included."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidefill.core.state import JobState
from tidefill.core.version import Number
from tidefill.delta.target import DeltaTarget
from tidefill.delta.upstream import DeltaUpstream
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Failure, Job, Settings
from tidefill.run.backfill import Backfill
from tidefill.run.machine import BackfillMachine
from tidefill.run.runner import Runner
from tidefill.spark.coverage import covers, key_types
from tidefill.spark.derive_rows import RowWise
from tidefill.spark.session import job_session
from tidefill.storage.local import remove_tree
from tidefill.store.sql_store import SqlStore, open_store
from tidefill.testing.memory.world import Died

TURNS_MAX = 60


class Clock:
    """The time that the test wants."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def now_s(self) -> float:
        return self.now


class Lake:
    """One job over one live table."""

    def __init__(self, spark: SparkSession, folder: Path, columns: dict[str, str], where: str = "") -> None:
        self.spark = spark
        self.folder = folder
        self.source = str(folder / "source")
        self.columns, self.where = columns, where
        self.clock = Clock()
        self.name = f"copy_{uuid.uuid4().hex}"
        self.store: SqlStore = open_store(folder / "store" / "jobs.db")
        self.effects = itertools.count(1)
        self.die_at = 0
        self.deaths = 0
        self.writes = itertools.count()
        self._make_source()
        settings = Settings(parallelism=2, chunk_rows=25)
        self.job_id = self.store.create(Job(uuid.uuid4().hex, self.name, "{}", settings=settings)).id

    def _make_source(self) -> None:
        rows = self.spark.range(0, 120, 1, 1).select((f.col("id") * 10).alias("id"), (f.col("id") % 7).alias("v"))
        rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(self.source)

    def write(self) -> None:
        """A writer's commit: an insert behind the end and one in the middle, an update, a delete, all in one MERGE."""
        n = next(self.writes)
        changes = [(3000 + n, 1, "I"), (15 + n * 100, 2, "I"), (20 + n * 10, 3, "U"), (900 + n * 10, None, "D")]
        values = ", ".join(f"({key}L, {value or 0}L, '{op}')" for key, value, op in changes)
        self.spark.sql(f"SELECT * FROM VALUES {values} AS c (id, v, op)").createOrReplaceTempView("changes")
        self.spark.sql(
            f"MERGE INTO delta.`{self.source}` t USING changes s ON t.id = s.id "
            "WHEN MATCHED AND s.op = 'D' THEN DELETE WHEN MATCHED THEN UPDATE SET t.v = s.v "
            "WHEN NOT MATCHED AND s.op <> 'D' THEN INSERT (id, v) VALUES (s.id, s.v)"
        )

    def path(self, job: Job) -> str:
        return str(self.folder / "lake" / f"{job.name}-{job.id}-{job.generation}")

    def build(self, job: Job) -> BackfillMachine[DataFrame]:
        session = job_session(self.spark)
        upstream = DeltaUpstream(session, self.source, ["id"], ["id"])
        derivation = self.derivation(session)
        target = DeltaTarget(session, self.path(job), derivation.nothing().schema, ["id"], job.name)
        for part, names in ((target, ("prepare", "log", "commit")), (upstream, ("check", "read_changes", "rows"))):
            for name in names:
                setattr(part, name, self.watched(getattr(part, name)))
        made = Backfill({"t": upstream}, derivation, target, lambda: uuid.uuid4().hex)
        return BackfillMachine(made, self.clock)

    def derivation(self, session: SparkSession) -> RowWise:
        empty = session.read.format("delta").load(self.source).where("false")
        return RowWise(empty, self.columns, ["id"], where=self.where)

    def watched(self, call: Callable[..., object]) -> Callable[..., object]:
        """The call, with the end of the process before or after it."""

        def watched(*arguments: object, **named: object) -> object:
            self._effect()
            result = call(*arguments, **named)
            self._effect()
            return result

        return watched

    def _effect(self) -> None:
        if next(self.effects) == self.die_at:
            raise Died

    def kept(self, resource: Resource) -> None:
        """Nothing keeps a log."""

    def remove(self, job: Job, resource: Resource) -> None:
        kind, name = resource.kind, resource.name
        if kind == "path":
            remove_tree(name)
        else:
            self.spark.sql(f"DROP VIEW IF EXISTS `{name.partition('@')[0]}`")

    def runner(self) -> Runner:
        owner = uuid.uuid4().hex
        return Runner(self.store, self.clock, self.build, self, owner, lambda: uuid.uuid4().hex)

    @property
    def job(self) -> Job:
        found = self.store.job(self.job_id)
        assert found is not None
        return found

    def run(self, until: Callable[[], bool], writes_every: int = 0) -> None:
        runner = self.runner()
        for number in range(TURNS_MAX):
            if until():
                return
            assert self.job.life is not Life.FAILED, self.job.failure
            try:
                runner.turn(self.job_id)
            except Died:
                self.deaths += 1
                self.clock.now += 61.0
                self.check()
                runner = self.runner()
            self.clock.now += 2.0
            if writes_every and number % writes_every == 0:
                self.write()
        raise AssertionError(f"not so after {TURNS_MAX} turns: {self.job}")

    def run_to_failure(self) -> Failure:
        self.run(lambda: self.job.life is Life.FAILED)
        assert self.job.failure is not None
        return self.job.failure

    def state(self) -> JobState | None:
        target = DeltaTarget(self.spark, self.path(self.job), self.derivation(self.spark).nothing().schema, ["id"], "x")
        payloads = [entry.payload for entry in target.log() if entry.payload is not None]
        return payloads[-1].state if payloads else None

    def state_or_none(self) -> JobState | None:
        return self.state() if Path(self.path(self.job), "_delta_log").exists() else None

    def check(self) -> None:
        """I1, from nothing: the target is the query over the covered rows at the recorded version."""
        state = self.state_or_none()
        if state is None:
            return
        point = state.versions["t"].point
        assert isinstance(point, Number)
        rows = self.spark.read.format("delta").option("versionAsOf", point.number).load(self.source)
        covered = rows.where(covers(state.coverage["t"], ["id"], key_types(rows.schema, ["id"])))
        expected = sorted(map(tuple, self.derivation(self.spark).derive(covered).collect()))
        found = sorted(map(tuple, self.spark.read.format("delta").load(self.path(self.job)).collect()))
        assert found == expected

    def has_died(self) -> bool:
        return self.deaths > 0

    def is_live(self) -> bool:
        return self.job.life is Life.LIVE

    def is_idle(self) -> bool:
        return self.job.waiting == "up to date"


@pytest.fixture
def lake(spark: SparkSession, tmp_path: Path) -> Iterator[Callable[..., Lake]]:
    made: list[Lake] = []

    def make(columns: dict[str, str], where: str = "") -> Lake:
        made.append(Lake(spark, tmp_path, columns, where))
        return made[-1]

    yield make
    for each in made:
        each.store.close()


REPLICA = {"id": "id", "v": "v"}


@pytest.mark.full
def test_a_replica_is_filled_while_its_source_is_written(lake: Callable[..., Lake], spark: SparkSession) -> None:
    # R1, R4, R11
    job = lake(REPLICA)
    job.run(job.is_live, writes_every=3)
    job.run(job.is_idle)
    job.check()
    source = spark.read.format("delta").load(job.source)
    assert sorted(map(tuple, spark.table(job.name).collect())) == sorted(map(tuple, source.collect()))
    assert job.job.progress is not None
    assert job.job.progress.share == 1.0


@pytest.mark.full
def test_a_view_with_filter_and_expressions(lake: Callable[..., Lake]) -> None:
    # R28
    job = lake({"twice": "v * 2", "id": "id", "odd": "v % 2 = 1"}, where="v <> 3")
    job.run(job.is_live, writes_every=2)
    job.run(job.is_idle)
    job.check()


@pytest.mark.full
@pytest.mark.parametrize("deaths", [(14,), tuple(range(2, 24))], ids=len)
def test_killed_at_effects_all_over_the_backfill(lake: Callable[..., Lake], deaths: tuple[int, ...]) -> None:
    # R11
    job = lake(REPLICA)
    for die_at in deaths:
        job.effects, job.die_at = itertools.count(1), die_at
        job.run(job.has_died, writes_every=3)
        job.deaths = 0
    job.die_at = 0
    job.run(job.is_live)
    job.run(job.is_idle)
    job.check()


@pytest.mark.full
def test_dropped_means_gone(lake: Callable[..., Lake], spark: SparkSession) -> None:
    # R19
    job = lake(REPLICA)
    job.run(job.is_live)
    path = job.path(job.job)
    assert spark.catalog.tableExists(job.name)
    job.store.change(job.job_id, jobs.wish_drop)
    job.run(lambda: job.job.life is Life.DROPPED)
    assert not Path(path).exists()
    assert not spark.catalog.tableExists(job.name)
    runner = job.runner()
    job.clock.now += 200.0
    runner.turn(job.job_id)
    assert job.store.job(job.job_id) is None


@pytest.mark.full
def test_a_stranger_in_the_target_is_a_named_stop(lake: Callable[..., Lake], spark: SparkSession) -> None:
    # R33
    job = lake(REPLICA)
    job.run(job.is_live)
    spark.sql(f"DELETE FROM delta.`{job.path(job.job)}` WHERE id = 10")
    job.write()
    assert job.run_to_failure().code == "TARGET_TOUCHED"


@pytest.mark.full
def test_an_upstream_recreated_at_its_path_is_a_named_stop(lake: Callable[..., Lake], spark: SparkSession) -> None:
    # R31
    job = lake(REPLICA)
    job.run(job.is_live)
    remove_tree(job.source)
    job._make_source()
    job.write()
    assert job.run_to_failure().code == "UPSTREAM_REPLACED"


@pytest.mark.full
def test_a_key_that_is_there_twice_is_a_named_stop(lake: Callable[..., Lake], spark: SparkSession) -> None:
    # R34
    job = lake(REPLICA)
    spark.sql("SELECT 10L AS id, 5L AS v").write.format("delta").mode("append").save(job.source)
    failure = job.run_to_failure()
    assert failure.code == "KEY_NOT_UNIQUE"
    assert "(10,)" in failure.detail
    assert not spark.catalog.tableExists(job.name)


@pytest.mark.full
def test_a_key_that_comes_twice_while_the_job_runs_is_a_named_stop(lake: Callable[..., Lake]) -> None:
    # R34
    job = lake(REPLICA)
    job.run(lambda: (found := job.state_or_none()) is not None and found.step >= 2)
    job.spark.sql("SELECT 10L AS id, 5L AS v").write.format("delta").mode("append").save(job.source)
    assert job.run_to_failure().code == "KEY_NOT_UNIQUE"
