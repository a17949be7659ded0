"""What a machine keeps in Spark's memory is let go with the machine."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.engine.shop import Shop
from tidefill.engine.job import Job


def _cached(spark: SparkSession) -> int:
    """How many frames Spark keeps, of all sessions."""
    return int(spark._jsparkSession.sharedState().cacheManager().numCachedEntries())


def _job(shop: Shop) -> Job:
    shop.make()
    shop.engine.register("events", location=shop.source, key="id")
    job = shop.engine.create_view("counted", "SELECT v, count(*) AS n FROM events GROUP BY v", chunk_rows=200)
    shop.engine.run_once()
    shop.sql("DELETE FROM SOURCE WHERE id < 3")
    return job


@pytest.mark.full
def test_a_run_leaves_nothing_in_memory(spark: SparkSession, shop: Shop) -> None:
    before = _cached(spark)
    _job(shop)
    shop.engine.run_once()
    shop.expect("counted", "SELECT v, count(*) AS n FROM SOURCE GROUP BY v")
    assert _cached(spark) == before


@pytest.mark.full
@pytest.mark.parametrize("end", ["drop", "another runner", "failure"])
def test_a_job_that_is_let_go_leaves_nothing_in_memory(
    spark: SparkSession, shop: Shop, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    before = _cached(spark)
    job = _job(shop)
    service, (row,) = shop.engine.scheduler(hurry=True), shop.engine._store.jobs()
    service.turn(row)
    runner: Any = service._runner
    runner._memory.get(row.id).machine._backfill._derivation._kept.keep(spark.range(3))  # as a large step does
    assert _cached(spark) > before
    if end == "drop":
        job.drop()
    elif end == "another runner":
        monkeypatch.setattr(service._runner, "_owner", "somebody else")
    else:
        monkeypatch.setattr(service._runner, "_run", None)
    service.turn(row)
    assert _cached(spark) == before
