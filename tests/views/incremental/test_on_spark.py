"""Views over several tables and over groups, through real commits of Delta tables."""

from __future__ import annotations

import itertools
import random
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.views.incremental.forms import FORMS, OPEN
from tests.views.incremental.lake import Lake
from tests.views.incremental.queries import DIRECTED
from tidefill.errors import InUse, InvalidSetting, UnsupportedQuery
from tidefill.spark.names import table_at
from tidefill.views.relations.single import SEVERAL

EVERY_DAY = {
    "joined": "SELECT b.id, a.g, a.x, c.id2 FROM b JOIN a ON b.aid = a.id LEFT JOIN c ON c.id1 = a.g WHERE b.y < 4",
    "grouped": "SELECT a.g, count(*) AS n, sum(a.x) AS t, avg(a.x) AS m, min(b.y) AS lo "
    "FROM a JOIN b ON b.aid = a.id GROUP BY a.g",
    "total": "SELECT count(*) AS n, sum(y) AS t, max(f) AS hi FROM b",
}


@pytest.mark.full
def test_they_stay_fresh_while_they_are_filled_and_after(spark: SparkSession, tmp_path: Path) -> None:
    # R16, R29, R30, R41
    lake = Lake(spark, tmp_path, random.Random(5))
    engine = lake.engine
    grouped = engine.create_view("grouped", EVERY_DAY["grouped"], chunk_rows=6)
    others = {name: sql for name, sql in EVERY_DAY.items() if name != "grouped"}
    others["above"] = "SELECT n, count(*) AS groups FROM grouped GROUP BY n"
    others["beside"] = BESIDE.replace("by_group", "grouped")
    jobs = [engine.create_view(name, sql, verify=False) for name, sql in others.items()]
    engine.run_once()
    lake.write()
    engine.run_once()
    for name, sql in EVERY_DAY.items():
        lake.expect(name, sql)
    lake.expect("above", f"SELECT n, count(*) AS groups FROM ({EVERY_DAY['grouped']}) t GROUP BY n")
    lake.expect("beside", BESIDE.replace("by_group", f"({EVERY_DAY['grouped']})"))
    assert {at for _, at in lake.versions_of("beside", "a")} <= {at for _, at in lake.versions_of("grouped", "a")}
    with pytest.raises(InUse):
        grouped.drop()
    told = engine.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {EVERY_DAY['grouped']}").rows
    assert ("kept fresh", "incrementally: hidden counts and sums are kept") in told
    for job in (*reversed(jobs), grouped):
        job.drop()
    engine.run_once()
    assert list((tmp_path / "lake").iterdir()) == []
    engine.close()


@pytest.mark.full
def test_groups_that_no_chunk_cuts_are_appended_while_rows_move_between_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake(spark, tmp_path, random.Random(3))
    engine, sql = lake.engine, "SELECT g, count(*) AS n, sum(x) AS t, min(s) AS lo FROM walked GROUP BY g"
    engine.register("walked", location=tmp_path / "a", key="id", walk="g")
    told = engine.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v WITH (chunk_rows = 2) AS {sql}").rows
    assert ("filled", "each chunk holds whole groups and is appended") in told
    job = engine.create_view("v", sql, chunk_rows=2, parallelism=2)
    monkeypatch.setattr("tidefill.delta.define.GROUP_ROWS_MAX", 0)
    told = engine.execute(f"EXPLAIN CREATE MATERIALIZED VIEW w WITH (chunk_rows = 2) AS {sql}").rows
    assert ("filled", "each chunk is merged into what is there") in told
    service = engine.scheduler(hurry=True)
    with service.alive():
        for _ in range(2):
            service.turn(job._row())
            lake.write("a")
    engine.run_once()
    lake.expect("v", sql)
    assert job.verify().differences == ()
    engine.close()


ROLLED = "SELECT g, count(*) AS n, sum(x) AS t FROM a GROUP BY ROLLUP (g)"
PAIRED = "SELECT a.id, r.n FROM a NATURAL JOIN rolled AS r"


@pytest.mark.full
def test_what_cannot_be_kept_is_computed_anew_when_its_inputs_change(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, random.Random(11))
    engine = lake.engine
    jobs = [engine.create_view(name, sql, refresh="full") for name, sql in {"rolled": ROLLED, "paired": PAIRED}.items()]
    with pytest.raises(UnsupportedQuery, match="rolled is computed anew as a whole: its rows have no key"):
        engine.create_view("no", "SELECT n FROM rolled")
    with pytest.raises(InvalidSetting):
        engine.create_view("no", ROLLED, refresh="full", chunk_rows=10)
    engine.run_once()
    lake.write("a")
    engine.run_once()
    lake.expect("rolled", ROLLED)
    lake.expect("paired", PAIRED.replace("rolled", f"({ROLLED})"))
    assert jobs[0].verify().differences == ()
    before = lake.steps("rolled")
    spark.sql(f"OPTIMIZE {table_at(str(tmp_path / 'a'))}")
    engine.run_once()
    assert lake.steps("rolled") == before
    for job in reversed(jobs):
        job.drop()
    engine.run_once()
    assert list((tmp_path / "lake").iterdir()) == []
    engine.close()


@pytest.mark.full
def test_a_value_of_two_rows_stops_the_job_until_one_is_left(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lake(spark, tmp_path, random.Random(3))
    engine, sql = lake.engine, "SELECT id, (SELECT y FROM b WHERE s = 'only') AS v FROM a"
    lake._put("b", [(1, 2, 5, "only", 0.5)])
    job = engine.create_view("v", sql)
    engine.run_once()
    lake.expect("v", sql)
    lake._put("b", [(2, 2, 7, "only", 0.5)])
    engine.run_once()
    failure = job.status().failure
    assert failure is not None
    assert (failure.code, SEVERAL in failure.detail) == ("QUERY_FAILED", True)
    spark.sql(f"DELETE FROM {table_at(str(tmp_path / 'b'))} WHERE id = 1")
    job.resume()
    engine.run_once()
    lake.expect("v", sql)
    engine.close()


WRITE_EVERY_S, WITHIN_S = 2.0, 900.0
TOGETHER = 10  # queries over the same tables, so that their writers need not wait for each by itself
DIRECTED_IN_FULL = 2 * TOGETHER
BY_GROUP = "SELECT g, count(*) AS n, sum(x) AS t FROM a GROUP BY g"
LARGE = "SELECT id, g, x FROM a WHERE x > 1"
DIAMOND = "SELECT l.id, l.x, s.n, s.t FROM large l JOIN by_group s ON l.g = s.g"
BESIDE = "SELECT a.id, a.x, s.n FROM a JOIN by_group s ON a.g = s.g"


@pytest.mark.full
def test_a_view_over_views_of_one_table_shows_one_version_of_it(spark: SparkSession, tmp_path: Path) -> None:
    # R16
    lake = Lake(spark, tmp_path, random.Random(7))
    views = {"by_group": BY_GROUP, "large": LARGE, "diamond": DIAMOND, "beside": BESIDE}
    for name, sql in views.items():
        lake.engine.create_view(name, sql)
    stop, commits = threading.Event(), lake.head("a")

    def write() -> None:
        while not stop.wait(WRITE_EVERY_S):
            lake.write("a")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        lake.run_until(lambda: all(lake.steps(name) > 2 for name in ("diamond", "beside")), WITHIN_S)
    finally:
        stop.set()
        writer.join()
    assert lake.head("a") > commits + 2
    lake.engine.run_once()
    for name, texts in {"diamond": (DIAMOND, LARGE), "beside": (BESIDE, "")}.items():
        lake.expect(name, views[name])
        for version, at in lake.versions_of(name, "a"):
            whole = texts[0].replace("large l", f"({texts[1]}) l").replace("by_group s", f"({BY_GROUP}) s")
            assert lake.at(name, version) == lake.over("a", at, whole), f"{name} at {version}: a at {at}"
    lake.engine.close()


OLDER = {name: sql for name, sql in DIRECTED.items() if name not in FORMS}
FEW = ("ROLLUP", "first and last of groups", "LATERAL VIEW", "time window", "first rows of a join")


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=pytest.mark.full if first < DIRECTED_IN_FULL else pytest.mark.soak)
        for first in range(0, len(OLDER), TOGETHER)
    ],
)
def test_every_operator_is_the_same_on_spark(first: int, spark: SparkSession, tmp_path: Path) -> None:
    compare(spark, tmp_path, dict(itertools.islice(OLDER.items(), first, first + TOGETHER)))


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=pytest.mark.full) for first in range(0, len(FORMS), TOGETHER)]
)
def test_every_form_is_the_same_on_spark(first: int, spark: SparkSession, tmp_path: Path) -> None:
    compare(spark, tmp_path, dict(itertools.islice(FORMS.items(), first, first + TOGETHER)))


@pytest.mark.full
def test_a_few_forms_are_the_same_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    compare(spark, tmp_path, {name: FORMS[name] for name in FEW}, rounds=(("a", "c"),))


def compare(
    spark: SparkSession,
    folder: Path,
    queries: dict[str, str],
    rounds: tuple[tuple[str, ...], ...] = (("a", "b", "c"), ("a",), ("b", "c")),
) -> None:
    """Views over tables of which some are written in each round are their queries in the end."""
    lake = Lake(spark, folder, random.Random(next(iter(queries))))
    views = {name: sql.replace("c.id2 = b.y", "try_cast(c.id2 AS int) = b.y") for name, sql in queries.items()}
    jobs = {name: lake.engine.create_view(name, sql, chunk_rows=4) for name, sql in views.items()}
    for tables in rounds:
        lake.engine.run_once()
        lake.write(*tables)
    lake.engine.run_once()
    wrong = {
        name: told for name, sql in views.items() if (told := lake.difference(name, sql, settled=name not in OPEN))
    }
    verified = {name: job.verify().differences for name, job in jobs.items()}
    assert (wrong, [name for name, told in verified.items() if told]) == ({}, [])
    lake.engine.close()
