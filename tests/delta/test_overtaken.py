"""A runner that is overtaken in the middle of a step, and files that a session would rather not miss."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.engine.shop import Shop
from tidefill import connect
from tidefill.delta.log.statements import StatementLog
from tidefill.delta.target import DeltaTarget
from tidefill.errors import JobFailed

QUERY = "SELECT id, v * 2 AS w, name FROM events"


class Overtaken:
    """Before the next commit of this process, something else happens first: once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
        self.happened = False
        commit = DeltaTarget.commit

        def late(target: DeltaTarget, write: Any, payload: Any) -> None:
            if not self.happened:
                self.happened = True
                meanwhile()
            commit(target, write, payload)

        monkeypatch.setattr(DeltaTarget, "commit", late)


@pytest.mark.parametrize(
    "other_kind",
    [pytest.param(False, id="the same step"), pytest.param(True, id="another kind of step", marks=pytest.mark.full)],
)
def test_a_runner_that_wakes_up_after_its_lease_is_refused(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, other_kind: bool
) -> None:
    # R12
    shop.make()
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    job = engine.create_view(f"view_{uuid.uuid4().hex}", QUERY, chunk_rows=40)
    service = engine.scheduler()
    service.turn(job._row())
    shop.sql("UPDATE SOURCE SET v = 100 WHERE id < 10")
    with connect(spark, shop.warehouse, shop.folder / "store") as other:

        def overtake() -> None:
            engine._store.change(job.id, lambda row: replace(row, lease=replace(row.lease, until_s=0.0)))
            if other_kind:
                job.pause(fill_only=True)
            theirs = other.scheduler()
            with theirs.alive():
                assert theirs.turn(job._row()).worked

        overtaken = Overtaken(monkeypatch, overtake)
        assert not service.turn(job._row()).worked, "its commit is in vain"
        assert overtaken.happened
        job.resume()
        other.job(job.name).wait(300)
        other.run_once()
    shop.expect(job.name, QUERY.replace("events", "SOURCE"))
    commits = StatementLog(spark, target_of(shop)).newest()
    assert (commits[1].name, commits[1].replaces_where) == (
        ("WRITE Overwrite", True) if other_kind else ("WRITE Append", False)
    )
    assert job.verify().differences == ()


def test_a_lost_file_is_not_overlooked_whatever_the_session_says(shop: Shop, spark: SparkSession) -> None:
    # R35
    shop.make()
    careless = spark.newSession()
    careless.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    with connect(careless, shop.warehouse, shop.folder / "store") as engine:
        engine.register("events", location=shop.source, key="id")
        job = engine.create_view(f"view_{uuid.uuid4().hex}", QUERY)
        next(Path(shop.source).glob("*.parquet")).unlink()
        with pytest.raises(JobFailed, match="HISTORY_GONE"):
            job.wait(300)


@pytest.mark.full
def test_what_was_mostly_written_is_computed_anew_and_small_files_are_put_together_before_each_step(
    shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidefill.run.backfill.TIDY_EVERY", 1)
    shop.make(rows=20_000)
    shop.engine.register("events", location=shop.source, key="id")
    job = shop.engine.create_view(f"view_{uuid.uuid4().hex}", QUERY, verify=False)
    job.wait(300)
    for change in ("v = v + 1 WHERE id < 100", "v = v + 1 WHERE id % 3 > 0"):
        shop.sql(f"UPDATE SOURCE SET {change}")
        shop.engine.run_once()
    commits = StatementLog(spark, target_of(shop)).newest()
    assert {commit.user_metadata for commit in commits if commit.operation == "OPTIMIZE"} == {None}
    steps = [(commit.name, commit.replaces_where) for commit in commits if commit.operation != "OPTIMIZE"]
    assert steps[-2:] == [("WRITE Overwrite", True), ("WRITE Overwrite", False)]
    shop.expect(job.name, QUERY.replace("events", "SOURCE"))
    assert [happened.text for happened in shop.engine.events() if "anew" in happened.text] == [
        "computed anew: 67% of what it reads was written"
    ]


def target_of(shop: Shop) -> str:
    (path,) = shop.warehouse.iterdir()
    return str(path)
