"""VERIFY compares a view with what Spark makes of the user's own text; and what CREATE accepts runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidefill import connect
from tidefill.core.confirm import Payload
from tidefill.delta.target import DeltaTarget
from tidefill.engine.engine import Engine
from tidefill.engine.job import Job
from tidefill.errors import JobFailed, UnsupportedQuery, UpstreamUnfit
from tidefill.ports.frames import Append, Replace

PA = "k int, g int, x int, y string, f double, ts timestamp, m map<string, int>"
PB = "k int, x int, y string"
FEW = {
    "joined": "SELECT b.k, to_json(struct(b.x, b.y)) AS j FROM pa a JOIN pb b ON a.k = b.x",
}
MORE = {
    "grouped": "SELECT g, to_json(max(struct(x, Y))) AS j, max(struct(x, y)) AS top FROM pa GROUP BY g",
    "unused": "SELECT k, g FROM (SELECT k, g, y FROM pa) t",
    "left_join": "SELECT a.k, to_json(struct(a.X, (b.y), 1, b.k AS n)) AS j, to_json((a.g, b.x)) AS t "
    "FROM pa a LEFT JOIN pb b ON a.k = b.x",
    "nested": "SELECT t.k, to_json(struct(t.s.x, t.s)) AS j FROM (SELECT k, struct(x, y) AS s FROM pa) t "
    "JOIN pb ON pb.k = t.k",
    "above": "SELECT struct(g) AS s, count(*) AS n FROM pa GROUP BY struct(g)",
    "with_clause": "WITH t AS (SELECT k, g, y, x + 1 AS z FROM pa) SELECT g, count(*) AS n FROM t GROUP BY g",
}


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> Iterator[Engine]:
    with connect(spark, tmp_path / "warehouse", tmp_path / "store") as engine:
        for name, columns in (("pa", PA), ("pb", PB)):
            place = f"delta.`{tmp_path / name}`"
            on = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
            spark.sql(f"CREATE TABLE {place} ({columns}) USING delta {on}")
            engine.register(name, location=tmp_path / name, key="k")
        write(spark, tmp_path, range(6))
        yield engine


def write(spark: SparkSession, folder: Path, keys: range) -> None:
    rows = spark.range(keys.start, keys.stop).select(f.col("id").cast("int").alias("k"))
    odd = (f.col("k") % 3).alias("g"), (f.col("k") % 2).alias("x"), f.concat(f.lit("y"), f.col("k")).alias("y")
    more = (f.col("k") * f.lit(0.1)).alias("f"), f.timestamp_seconds("k").alias("ts")
    _append(rows.select("k", *odd, *more, f.create_map(f.lit("a"), "k").alias("m")), folder / "pa")
    _append(rows.select("k", (f.col("k") % 5).alias("x"), odd[2]), folder / "pb")


def _append(rows: DataFrame, path: Path) -> None:
    rows.coalesce(1).write.format("delta").mode("append").save(str(path))


def rows_of(frame: DataFrame) -> list[str]:
    return sorted(map(str, frame.collect()))


def all_equal(engine: Engine, views: dict[str, str]) -> None:
    for name, sql in views.items():
        assert engine.table(name).schema.simpleString() == engine.query(sql).schema.simpleString()
        assert rows_of(engine.table(name)) == rows_of(engine.query(sql)), name


@pytest.mark.parametrize("views", [FEW, pytest.param(MORE, marks=pytest.mark.full)], ids=["few", "more"])
def test_names_of_ours_are_in_no_value(
    spark: SparkSession, tmp_path: Path, engine: Engine, views: dict[str, str]
) -> None:
    jobs = [engine.create_view(name, sql) for name, sql in views.items()]
    engine.run_once()
    all_equal(engine, views)
    write(spark, tmp_path, range(6, 9))
    spark.sql(f"DELETE FROM delta.`{tmp_path / 'pa'}` WHERE k = 1")
    spark.sql(f"UPDATE delta.`{tmp_path / 'pa'}` SET y = 'other' WHERE k = 2")
    engine.run_once()
    all_equal(engine, views)
    assert [job.verify().differences for job in jobs] == [()] * len(views)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, ts - timestamp'2020-01-01 00:00:00' AS late FROM pa",
        "SELECT g, max(ts) - min(ts) AS late FROM pa GROUP BY g",
        "SELECT a.k, array(a.ts - a.ts) AS late FROM pa a JOIN pb b ON a.k = b.k",
        "SELECT k, array(NULL) AS nothing FROM pa",
        "SELECT a.k, arrays_zip(array(a.k), array(b.k)) AS ks, arrays_zip(a.xs) AS z "
        "FROM (SELECT k, array(x) AS xs FROM pa) a JOIN pb b ON a.k = b.k",
        "SELECT t.k FROM (SELECT k, m FROM pa) t JOIN pb ON pb.k = t.k",
    ],
)
def test_what_could_not_run_is_refused_when_it_is_created(engine: Engine, sql: str) -> None:
    for refresh in ("incremental", "full") if "arrays_zip" not in sql and " m " not in sql else ("incremental",):
        with pytest.raises((UnsupportedQuery, UpstreamUnfit)) as told:
            engine.create_view("late", sql, refresh=refresh)
        assert told.value.hint


def test_a_compiler_that_is_wrong_is_found_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidefill.views.relations.expressions.fields_named", lambda tree: tree)
    job = engine.create_view("v", FEW["joined"])
    with pytest.raises(JobFailed, match="differs from a recompute"):
        job.wait(timeout=120)


def test_a_hidden_count_that_is_wrong_is_found_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = DeltaTarget.commit

    def miscounting(self: DeltaTarget, write: Replace[DataFrame] | Append[DataFrame], payload: Payload) -> None:
        rows = write.rows
        more = {"__tf_n": f.col("__tf_n") + 1} if "__tf_n" in rows.columns else {}
        commit(self, replace(write, rows=rows.withColumns(more)), payload)

    monkeypatch.setattr(DeltaTarget, "commit", miscounting)
    job = engine.create_view("v", "SELECT g, count(*) AS n FROM pa GROUP BY g")
    with pytest.raises(JobFailed, match="differs from a recompute"):
        job.wait(timeout=120)


@pytest.mark.full
def test_a_choice_that_the_text_leaves_open_is_made_and_told(engine: Engine) -> None:
    numbered = "SELECT k, g, row_number() OVER (PARTITION BY g ORDER BY x) AS n FROM pa"
    jobs = [
        engine.create_view("numbered", numbered),
        engine.create_view("summed", "SELECT sum(f) AS s, count(*) AS n FROM pa GROUP BY g"),
        engine.create_view("hidden", numbered.replace("k, g", "g").replace("FROM pa", "FROM (SELECT g, x FROM pa) t")),
        engine.create_view("first_rows", "SELECT y FROM pa ORDER BY x DESC LIMIT 2"),
    ]
    engine.run_once()
    told = [job.verify() for job in jobs]
    assert [found.differences for found in told] == [(), (), (), ()]
    assert told[0].notes == ("rows that are equal in ORDER BY x are ordered by pa.k",)
    assert told[1].notes == ("floating-point numbers are compared but for their last digits",)
    assert "the compiled query" in told[2].notes[0]
    assert told[3].notes == ("rows that are equal in ORDER BY x DESC are ordered by pa.k",)
    assert rows_of(engine.table("first_rows")) == ["Row(y='y1')", "Row(y='y3')"]
    assert any("pa.k" in text for _, text in jobs[0].events() if text.startswith("verified"))
    assert "pa.k" in engine.execute("VERIFY numbered").message


@pytest.mark.full
def test_the_choices_of_aggregates_are_made_and_told(spark: SparkSession, tmp_path: Path, engine: Engine) -> None:
    views = {
        "listed": "SELECT g, collect_list(x) AS xs, first(y) AS f, mode(x) AS m, percentile_approx(k, 0.5) AS p "
        "FROM pa GROUP BY g",
        "below": "SELECT b.k, t.f FROM pb b JOIN (SELECT g, last(y) AS f FROM pa GROUP BY g) t ON t.g = b.x",
        "hidden": "SELECT g, first(y) AS f FROM (SELECT g, y FROM pa) t GROUP BY g",
    }
    jobs = [engine.create_view(name, sql) for name, sql in views.items()]
    engine.run_once()
    write(spark, tmp_path, range(6, 9))
    spark.sql(f"DELETE FROM delta.`{tmp_path / 'pa'}` WHERE k = 0")
    engine.run_once()
    told = [job.verify() for job in jobs]
    assert [found.differences for found in told] == [(), (), ()]
    assert told[0].notes == (
        "COLLECT_LIST(x) takes rows in the order of pa.k",
        "FIRST(y) takes rows in the order of pa.k",
        "MODE(x) is the least of the most frequent values",
        "PERCENTILE_APPROX(k, 0.5) is computed exactly",
    )
    assert told[1].notes == ("LAST(y) takes rows in the order of pa.k",)
    assert "the compiled query" in told[2].notes[0]
    notices = engine.execute(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {views['listed']}").rows
    assert any("takes rows in the order of" in str(text) for _, text in notices)


@pytest.mark.full
def test_an_average_of_whole_numbers_is_rounded_once(spark: SparkSession, tmp_path: Path, engine: Engine) -> None:
    """1 / 20,001 is 0.0000499975: with six digits that is 0.000050, and from there 0.0001."""
    sql = "SELECT avg(CAST(x AS decimal(9,0))) AS d, avg(CAST(k AS bigint)) AS b, count(*) AS n FROM pa WHERE k > 10"
    engine.create_view("mean", sql)
    engine.run_once()
    k, x = "CAST(id + 11 AS int) AS k", "if(id = 0, 1, 0) AS x"
    rest = ("'' AS y", "0.0D AS f", "timestamp_seconds(id) AS ts", "map('a', 1) AS m")
    _append(spark.range(20_001).selectExpr(k, "0 AS g", x, *rest), tmp_path / "pa")
    engine.run_once()
    all_equal(engine, {"mean": sql})
    assert str(engine.table("mean").collect()[0]["d"]) == "0.0000"


ARRAYS = {
    "exploded": "SELECT k, explode(xs) AS x FROM pc",
    "placed": "SELECT k, posexplode(xs) AS (p, x) FROM pc WHERE k < 9",
    "fields": "SELECT k, inline(ss) FROM pc",
    "outer": "SELECT c.k, t.a, t.b FROM pc c LATERAL VIEW OUTER inline(c.ss) t AS a, b",
    "grouped": "SELECT x, count(*) AS n, max(k) AS top FROM pc LATERAL VIEW explode(xs) t AS x GROUP BY x",
}


@pytest.mark.full
def test_arrays_are_taken_apart(spark: SparkSession, tmp_path: Path, engine: Engine) -> None:
    place = f"delta.`{tmp_path / 'pc'}`"
    columns = "k int, xs array<int>, ss array<struct<a: int, b: string>>"
    spark.sql(f"CREATE TABLE {place} ({columns}) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(
        f"INSERT INTO {place} SELECT CAST(id AS int), if(id = 3, NULL, sequence(1, CAST(id % 3 AS int) + 1)), "
        "if(id = 2, array(), array(named_struct('a', CAST(id AS int), 'b', 'x'), NULL)) FROM range(6)"
    )
    engine.register("pc", location=tmp_path / "pc", key="k")
    jobs = [engine.create_view(name, sql) for name, sql in ARRAYS.items()]
    engine.run_once()
    all_equal(engine, ARRAYS)
    other = "xs = array(7, NULL, 7), ss = array(named_struct('a', 1, 'b', 'y'))"
    spark.sql(f"UPDATE {place} SET {other} WHERE k IN (1, 2)")
    spark.sql(f"DELETE FROM {place} WHERE k = 4")
    engine.run_once()
    all_equal(engine, ARRAYS)
    assert [job.verify().differences for job in jobs] == [()] * len(ARRAYS)


@pytest.mark.full
def test_qualify_is_taken_anew_too(engine: Engine) -> None:
    sql = "SELECT k, g FROM pa QUALIFY row_number() OVER (PARTITION BY g ORDER BY k) = 1"
    engine.create_view("anew", sql, refresh="full")
    engine.run_once()
    all_equal(engine, {"anew": sql})


@pytest.mark.full
def test_a_half_filled_self_join_is_compared_by_its_plan(engine: Engine) -> None:
    sql = "SELECT a.k, b.x FROM pa a JOIN pa b ON a.k = b.g"
    job: Job = engine.create_view("twice", sql, chunk_rows=2, verify=False)
    service = engine.scheduler(hurry=True)
    with service.alive():
        for _ in range(2):
            service.turn(job._row())
    assert job.status().state == "backfilling"
    found = job.verify()
    assert (found.differences, len(found.notes)) == ((), 1)
    assert "half filled" in found.notes[0]
    engine.run_once()
    assert (job.verify().differences, job.verify().notes) == ((), ())
