"""Frames that are kept for several statements."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.shop import Shop
from tidefill.spark.keeping import Kept
from tidefill.spark.session import CONCLUSIONS
from tidefill.targets.delta import DeltaTarget


def test_a_statement_that_names_a_frame_leaves_it_cached(spark: SparkSession) -> None:
    """Only of what is cached Spark knows how little it is; else it may move a large table to it."""
    kept = Kept()
    frame = kept.keep(spark.range(3).withColumnRenamed("id", "few"))
    assert frame.columns == ["few"]
    for _ in range(2):
        assert spark.sql("SELECT sum(few) FROM {frame}", frame=frame).collect()[0][0] == 3
    (cached,) = kept._cached
    assert cached.storageLevel.useMemory
    kept.let_go()
    assert not cached.storageLevel.useMemory


def test_a_small_step_is_planned_without_conclusions(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """For many columns Spark looks for them longer than for the rows. A chunk needs them: its bounds are those of the
    tables that it is joined to as well."""
    planned, merged = list[str | None](), list[str | None]()
    plan, merge_sql = Kept.plan, DeltaTarget._merge_sql

    def spied_plan(self: Kept, frame: DataFrame) -> DataFrame:
        planned.append(frame.sparkSession.conf.get(CONCLUSIONS))
        return plan(self, frame)

    def spied_merge_sql(self: DeltaTarget, *of_all: object, **named: object) -> str:
        merged.append(self._spark.conf.get(CONCLUSIONS))
        return merge_sql(self, *of_all, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Kept, "plan", spied_plan)
    monkeypatch.setattr(DeltaTarget, "_merge_sql", spied_merge_sql)
    shop.make()
    shop.engine.register("events", location=shop.source, key="id")
    shop.engine.create_view("counted", "SELECT v, count(*) AS n FROM events GROUP BY v", chunk_rows=30)
    shop.engine.run_once()
    assert set(planned) == {"true"}
    assert set(merged) == {"false"}
    planned.clear()
    shop.sql("DELETE FROM SOURCE WHERE id < 3")
    shop.engine.run_once()
    assert planned == ["false"]
    shop.expect("counted", "SELECT v, count(*) AS n FROM SOURCE GROUP BY v")
