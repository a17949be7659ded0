"""A store and its targets, as earlier releases have left them (tests/fixtures): this release opens them, goes on with
them and drops them. Which definitions they hold: forms 1 to 3; in which states: live, filling, paused, failed, and with
a wish to be dropped."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.engine.shop import rows_of
from tests.fixtures.place import LAKE, STORE, put_up_sqlite, releases
from tidefill import connect
from tidefill.engine.engine import Engine

QUERIES = {
    "copy": "SELECT * FROM orders",
    "dear": "SELECT id, upper(name) AS name, price FROM orders WHERE price > 20",
    "spent": "SELECT o.customer, sum(i.amount * o.price) AS total, count(*) AS n "
    "FROM orders o JOIN items i ON i.order_id = o.id GROUP BY o.customer",
    "per_order": "SELECT order_id, sum(amount) AS amount FROM items GROUP BY order_id",
    "half": "SELECT id, customer, price FROM orders",
    "above": "SELECT customer, total FROM spent WHERE n > 10",
    "ranked": "SELECT customer, n, rank() OVER (ORDER BY n DESC) AS place FROM spent",
}
STATES = {"above": "paused", "broken": "failed", "half": "backfilling", "leaving": "created"}


def expect(engine: Engine) -> None:
    for name, query in QUERIES.items():
        assert rows_of(engine.table(name)) == rows_of(engine.query(query)), name


def generations_of(engine: Engine) -> dict[str, tuple[str, int]]:
    rows = (engine._store.job(job.id) for job in engine.jobs())
    return {row.name: (row.id, row.generation) for row in rows if row is not None}


@pytest.mark.parametrize("release", releases())
def test_a_store_of_an_earlier_release_goes_on_and_is_dropped(
    spark: SparkSession, tmp_path: Path, release: str
) -> None:
    put_up_sqlite(release, tmp_path)
    with connect(spark, tmp_path / LAKE / "warehouse", tmp_path / STORE) as engine:
        before = {status.name: status for status in engine.statuses()}
        assert {name: before[name].state for name in STATES} == STATES
        assert 0 < before["half"].share < 1
        assert (before["spent"].waits_for, engine.job("spent").explained()) == ("IDLE", None)
        generations = generations_of(engine)
        orders = tmp_path / LAKE / "orders"
        spark.sql(f"INSERT INTO delta.`{orders}` VALUES (900, 3, 'name', 77.00)")
        spark.sql(f"DELETE FROM delta.`{orders}` WHERE id % 10 = 5")
        for name in ("above", "broken"):
            engine.job(name).resume()
        engine.run_once()
        assert engine.job("broken").status().state == "failed", "its table is still gone"
        expect(engine)
        generations.pop("leaving")
        assert generations_of(engine) == generations, "none was built anew"
        assert engine.job("spent").verify().differences == ()
        for job in engine.jobs():
            job.drop(cascade=True)
        engine.run_once()
        assert engine.jobs() == []
        assert list((tmp_path / LAKE / "warehouse").iterdir()) == []
        for table in engine.tables():
            engine.unregister(table)
