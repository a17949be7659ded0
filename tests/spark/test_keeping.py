"""Frames that are kept for several statements."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.engine.shop import Shop
from tidefill.delta.merging import merge_sql
from tidefill.delta.target import DeltaTarget
from tidefill.spark.keeping import Kept
from tidefill.spark.session import CONCLUSIONS


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


@pytest.mark.parametrize(
    ("query", "concludes"),
    [
        pytest.param("SELECT v, count(*) AS n FROM events GROUP BY v", "false", marks=pytest.mark.full),
        ("SELECT a.id, b.name FROM events AS a JOIN events AS b ON a.id = b.id", "true"),
    ],
)
@pytest.mark.full
def test_what_reads_no_input_is_planned_without_constraint_propagation(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, query: str, concludes: str
) -> None:
    """For many columns Spark looks for them longer than for the rows. Where inputs are joined it needs them: the bounds
    of one are those of the other."""
    planned, merged = list[str | None](), list[str | None]()
    plan, run_merge = Kept.plan, DeltaTarget._run_merge
    sessions = list[SparkSession]()

    def spied_plan(self: Kept, frame: DataFrame) -> DataFrame:
        planned.append(frame.sparkSession.conf.get(CONCLUSIONS))
        return plan(self, frame)

    def spied_run_merge(self: DeltaTarget, *of_all: Any, **named: Any) -> None:
        sessions.append(self._spark)
        run_merge(self, *of_all, **named)

    def spied_merge_sql(*of_all: Any, **named: Any) -> str:
        merged.append(sessions[-1].conf.get(CONCLUSIONS))
        return merge_sql(*of_all, **named)

    monkeypatch.setattr("tidefill.delta.changed_keys.KEYS_MAX", 0)
    monkeypatch.setattr(Kept, "plan", spied_plan)
    monkeypatch.setattr(DeltaTarget, "_run_merge", spied_run_merge)
    monkeypatch.setattr("tidefill.delta.target.merge_sql", spied_merge_sql)
    shop.make()
    shop.engine.register("events", location=shop.source, key="id")
    shop.engine.create_view("seen", query, chunk_rows=30)
    shop.engine.run_once()
    shop.sql("DELETE FROM SOURCE WHERE id < 3")
    shop.engine.run_once()
    assert (set(planned), set(merged)) == ({concludes}, {"false"})
    shop.expect("seen", query.replace("events", "SOURCE"))
