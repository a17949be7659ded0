"""Views over several tables and over groups, through real commits of Delta tables."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.incremental.lake import Lake
from tests.incremental.queries import DIRECTED
from tidefill.errors import InUse, UnsupportedQuery

EVERY_DAY = {
    "joined": "SELECT b.id, a.g, a.x, c.id2 FROM b JOIN a ON b.aid = a.id LEFT JOIN c ON c.id1 = a.g WHERE b.y < 4",
    "grouped": "SELECT a.g, count(*) AS n, sum(a.x) AS t, avg(a.x) AS m, min(b.y) AS lo "
    "FROM a JOIN b ON b.aid = a.id GROUP BY a.g",
    "kept": "SELECT g, count(DISTINCT s) AS n FROM a WHERE id NOT IN (SELECT y FROM b WHERE y > 2) "
    "GROUP BY g HAVING count(*) > 0",
    "total": "SELECT count(*) AS n, sum(y) AS t, max(f) AS hi FROM b",
}


def test_they_stay_fresh_while_they_are_filled_and_after(spark: SparkSession, tmp_path: Path) -> None:
    # R29, R30, R41
    lake = Lake(spark, tmp_path, random.Random(5))
    engine = lake.engine
    jobs = {name: engine.create_view(name, sql, chunk_rows=4) for name, sql in EVERY_DAY.items()}
    above = engine.create_view("above", "SELECT n, count(*) AS groups FROM grouped GROUP BY n")
    engine.run_once()
    lake.write()
    engine.run_once()
    for name, sql in EVERY_DAY.items():
        lake.expect(name, sql)
    lake.expect("above", f"SELECT n, count(*) AS groups FROM ({EVERY_DAY['grouped']}) t GROUP BY n")
    assert all(job.verify().differences == () for job in (jobs["grouped"], above))
    with pytest.raises(InUse):
        jobs["grouped"].drop()
    with pytest.raises(UnsupportedQuery, match="both come from a"):
        engine.create_view("mixture", "SELECT a.id FROM a JOIN grouped t ON a.g = t.g")
    told = engine.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {EVERY_DAY['grouped']}").rows
    assert ("kept fresh", "incrementally: hidden counts and sums are kept") in told
    for job in (above, *jobs.values()):
        job.drop()
    engine.run_once()
    assert list((tmp_path / "lake").iterdir()) == []
    engine.close()


@pytest.mark.soak
@pytest.mark.parametrize("name", DIRECTED)
def test_every_operator_is_the_same_on_spark(name: str, spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, random.Random(name))
    sql = DIRECTED[name].replace("c.id2 = b.y", "try_cast(c.id2 AS int) = b.y")
    lake.engine.create_view("v", sql, chunk_rows=4)
    for tables in (("a", "b", "c"), ("a",), ("b", "c")):
        lake.engine.run_once()
        lake.write(*tables)
    lake.engine.run_once()
    lake.expect("v", sql)
    assert lake.engine.job("v").verify().differences == ()
    lake.engine.close()
