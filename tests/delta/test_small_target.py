"""A view of few rows is kept in memory: its steps overwrite it, and rows that are out of date are never written."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.engine.shop import Shop
from tidefill import connect
from tidefill.delta.log.commits import Logged
from tidefill.delta.log.statements import StatementLog
from tidefill.delta.small_target import SmallTarget, merged
from tidefill.engine.job import Job
from tidefill.spark.names import MARK

GROUPS = "SELECT v, count(*) AS n, sum(id) AS s, max(name) AS m FROM events GROUP BY v"
UPDATE = "UPDATE SOURCE SET v = v + 1 WHERE id % 10 = "


def rows(*given: tuple[int | None, str]) -> pa.Table:
    return pa.table({"k": [key for key, _ in given], "t": [text for _, text in given]})


def changes(*given: tuple[str, int | None, str]) -> pa.Table:
    table = rows(*((key, text) for _, key, text in given))
    return table.append_column(MARK, pa.array([mark for mark, _, _ in given], pa.string()))


def test_changes_take_the_place_of_rows() -> None:
    before = rows((1, "a"), (2, "b"), (None, "n"))
    after = merged(before, changes(("U", 1, "c"), ("D", None, ""), ("I", 3, "d")), ["k"])
    assert after is not None
    assert sorted(after.to_pylist(), key=str) == [{"k": 1, "t": "c"}, {"k": 2, "t": "b"}, {"k": 3, "t": "d"}]
    emptied = merged(before, changes(("D", 1, ""), ("D", 2, ""), ("D", None, "")), ["k"])
    assert emptied is not None
    assert emptied.num_rows == 0


@pytest.mark.parametrize(
    "given",
    [
        [("I", 1, "there already")],
        [("U", 3, "not there")],
        [("D", 3, "not there")],
        [("U", 1, "twice"), ("U", 1, "twice")],
        [("X", 1, "a group of fewer than no rows")],
    ],
)
def test_marks_that_say_something_else_than_the_rows_are_left_to_a_write_that_counts(
    given: list[tuple[str, int | None, str]],
) -> None:
    assert merged(rows((1, "a"), (2, "b")), changes(*given), ["k"]) is None
    assert merged(rows((1, "a"), (1, "b")), changes(("U", 1, "c")), ["k"]) is None, "a key twice in the target"


def made(shop: Shop, name: str = "kept", query: str = GROUPS) -> Job:
    shop.make(rows=200)
    shop.engine.register("events", location=shop.source, key="id")
    job = shop.engine.create_view(name, query, verify=False)
    shop.engine.run_once()
    return job


def commits(spark: SparkSession, shop: Shop, name: str) -> list[Logged]:
    (path,) = shop.warehouse.glob(f"{name}-*")
    return StatementLog(spark, str(path)).newest()


@pytest.mark.full
def test_a_step_overwrites_it_and_one_of_another_runner_is_noticed(shop: Shop, spark: SparkSession) -> None:
    # R13
    made(shop)
    expected = GROUPS.replace("events", "SOURCE")
    with connect(spark, shop.warehouse, shop.folder / "store") as other:
        for place, engine in enumerate((shop.engine, other, shop.engine)):
            shop.sql(UPDATE + str(place))
            engine.run_once()
            shop.expect("kept", expected)
        shop.sql("DELETE FROM SOURCE WHERE v = 1")
        shop.engine.run_once()
        shop.expect("kept", expected)
    found = [(commit.name, commit.replaces_where) for commit in commits(spark, shop, "kept")[1:]]
    assert found == [("WRITE Overwrite", False)] * 4


@pytest.mark.full
def test_what_others_read_is_not_written_again(shop: Shop, spark: SparkSession) -> None:
    made(shop)
    query = "SELECT v, n FROM kept WHERE n > 1"
    shop.engine.create_view("reader", query, verify=False)
    shop.engine.run_once()
    shop.sql(UPDATE + "3 AND v = 2")
    shop.engine.run_once()
    shop.expect("kept", GROUPS.replace("events", "SOURCE"))
    newest = commits(spark, shop, "kept")[-1]
    assert newest.replaces_where
    assert 0 < newest.metric("numDeletedRows") < 7
    assert shop.engine.job("reader").verify().differences == ()


@pytest.mark.full
def test_what_has_become_large_is_not_kept(shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidefill.delta.small_target.ROWS_MAX", 8)
    made(shop)
    shop.sql("INSERT INTO SOURCE SELECT id, id AS v, 'more' AS name FROM range(1000, 1003)")
    shop.engine.run_once()
    shop.sql(UPDATE + "1")
    shop.engine.run_once()
    shop.expect("kept", GROUPS.replace("events", "SOURCE"))
    assert commits(spark, shop, "kept")[-1].replaces_where


@pytest.mark.full
def test_a_key_without_an_order_is_not_kept(shop: Shop, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(SmallTarget, "_load", lambda *_: loaded.append("loaded"))
    query = "SELECT v * 0.5D AS half, count(*) AS n FROM events GROUP BY v * 0.5D"
    made(shop, query=query)
    shop.sql(UPDATE + "1")
    shop.engine.run_once()
    shop.expect("kept", query.replace("events", "SOURCE"))
    assert loaded == []
