"""Views that are kept by changes over a view that is computed from nothing each time, through real commits."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.views.incremental.lake import Lake
from tidefill.errors import InUse, UnsupportedQuery
from tidefill.spark.names import table_at
from tidefill.testing.turns import turns

FULL = {
    "by_group": "SELECT g, count(DISTINCT s) AS n, max(x) AS m FROM a GROUP BY g",
    "by_row": "SELECT b.id, a.g, b.y FROM b JOIN a ON b.aid = a.id",
}
ABOVE = {
    "sizes": "SELECT n, count(*) AS groups, sum(m) AS t FROM by_group GROUP BY n",
    "met": "SELECT s.g, s.m, r.groups FROM by_group s JOIN sizes r ON r.n = s.n",
    "best": "SELECT id, y FROM by_row ORDER BY y DESC, id LIMIT 3",
}
PIVOTED = "SELECT * FROM (SELECT g, s, x FROM a) PIVOT (count(x) AS n FOR s IN ('a', 'b'))"
WORDS = re.compile(rf"\b({'|'.join([*FULL, *ABOVE])})\b(?! AS)")


def _renamed(sql: str) -> str:
    return WORDS.sub(r"w_\1", sql)


def expect_all(lake: Lake) -> None:
    """Each view is its query over the tables, and its own VERIFY says so too."""
    below = ", ".join(f"w_{name} AS ({_renamed(sql)})" for name, sql in {**FULL, **ABOVE}.items())
    wrong = [
        told
        for name in (*FULL, *ABOVE)
        if (told := lake.difference(name, f"WITH {below} SELECT * FROM w_{name}")) is not None
    ]
    assert wrong == []
    assert [lake.engine.job(name).verify().differences for name in (*FULL, *ABOVE)] == [()] * len(FULL | ABOVE)


@pytest.mark.full
def test_they_take_in_what_differs(spark: SparkSession, tmp_path: Path) -> None:
    # R16
    lake = Lake(spark, tmp_path, random.Random(8))
    engine = lake.engine
    for name, sql in FULL.items():
        engine.create_view(name, sql, refresh="full", target_lag=0)
    engine.run_once()
    for name, sql in ABOVE.items():
        engine.create_view(name, sql, chunk_rows=2)
    for name in lake.chance.choices([*FULL, *ABOVE], k=8):
        turns(engine, 1, name, hurry=True)
        if lake.chance.random() < 0.3:
            lake.write("a", "b")
    engine.run_once()
    before = lake.head_of("by_group")
    spark.sql(f"UPDATE {table_at(str(tmp_path / 'a'))} SET x = 1000 WHERE g = 2")
    engine.run_once()
    expect_all(lake)
    assert lake.written_since("by_group", before) <= {"2"}
    told = engine.execute("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT b.id, s.n FROM b JOIN by_group s ON b.y = s.g")
    notice = "by_group is computed at its own pace: it may show an earlier time than the other inputs"
    assert ("notice", notice) in told.rows
    engine.close()


@pytest.mark.full
def test_they_follow_a_generation_and_a_query_of_another_kind(spark: SparkSession, tmp_path: Path) -> None:
    # R43
    lake = Lake(spark, tmp_path, random.Random(9))
    engine, sql = lake.engine, FULL["by_group"]
    view = engine.create_view("by_group", sql, refresh="full", target_lag=0)
    above = engine.create_view("sizes", ABOVE["sizes"])
    engine.run_once()
    view.resync()
    engine.run_once()
    assert [job.status().generation for job in (view, above)] == [2, 2]
    lake.write("a")
    engine.run_once()
    expected = ABOVE["sizes"].replace("FROM by_group", f"FROM ({sql})")
    lake.expect("sizes", expected)
    with pytest.raises(InUse, match="others could not read it"):
        engine.create_view("by_group", sql.replace(" GROUP BY g", " GROUP BY g, id"), refresh="full", replace=True)
    engine.create_view("by_group", sql, replace=True)
    engine.run_once()
    lake.expect("sizes", expected)
    engine.create_view("by_group", f"{sql} HAVING count(*) > 1", refresh="full", replace=True)
    engine.run_once()
    lake.expect("sizes", expected.replace("GROUP BY g)", "GROUP BY g HAVING count(*) > 1)"))
    engine.create_view("pivoted", PIVOTED, refresh="full")
    with pytest.raises(UnsupportedQuery, match="no key by which changes could be followed"):
        engine.create_view("no", "SELECT * FROM pivoted")
    engine.close()
