"""How many Spark jobs a live step takes. Seconds differ from machine to machine; these do not."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.engine.shop import Shop
from tests.spark_jobs import counted

FILTER = "SELECT id, v, name FROM events WHERE v > 1"
GROUPS = "SELECT v, count(*) AS n, sum(id) AS s FROM events GROUP BY v"
ONE_ROW = "SELECT count(*) AS n, sum(id) AS s FROM events WHERE v > 1"


UPDATED = "UPDATE SOURCE SET v = v + 1 WHERE id % 100 = {}"
DELETED = "DELETE FROM SOURCE WHERE id % 100 = {}"
ADDED = "INSERT INTO SOURCE SELECT id, 3 AS v, 'new' AS name FROM range(10000 * {0}, 10000 * {0} + 10)"


@pytest.mark.parametrize(
    ("query", "change", "most"),
    [
        pytest.param(FILTER, UPDATED, 12, id="filter"),
        pytest.param(FILTER, DELETED, 12, id="filter, rows go", marks=pytest.mark.full),
        pytest.param(FILTER, ADDED, 5, id="filter, rows come at the end", marks=pytest.mark.full),
        pytest.param(GROUPS, UPDATED, 6, id="groups"),
        pytest.param(GROUPS, ADDED, 6, id="groups, rows come", marks=pytest.mark.full),
        pytest.param(ONE_ROW, UPDATED, 6, id="one row", marks=pytest.mark.full),
    ],
)
def test_a_small_step_takes_few_jobs_and_an_idle_turn_none(
    spark: SparkSession, shop: Shop, query: str, change: str, most: int
) -> None:
    shop.make(rows=2000)
    shop.engine.register("events", location=shop.source, key="id")
    job = shop.engine.create_view("kept", query, verify=False)
    shop.engine.run_once()
    service = shop.engine.scheduler(hurry=True)
    with service.alive():
        for place in (7, 8):
            shop.sql(change.format(place))
            with counted(spark) as step:
                assert service.turn(job._row()).worked
        with counted(spark) as idle:
            assert not service.turn(job._row()).worked
    assert 0 < step.count <= most
    assert idle.count == 0
    shop.expect("kept", query.replace("events", "SOURCE"))


TABLES = {
    "customers": "SELECT id, id % 3 AS segment FROM range(60)",
    "orders": "SELECT id, id % 60 AS customer, id % 100 AS day FROM range(600)",
    "items": "SELECT id, id % 600 AS of_order, id % 50 AS price, id % 90 AS shipped FROM range(3000)",
}
JOINED = """
    SELECT items.of_order, orders.day, sum(items.price) AS total
    FROM items JOIN orders ON items.of_order = orders.id JOIN customers ON orders.customer = customers.id
    WHERE customers.segment = 1 AND orders.day < 80 AND items.shipped > 10
    GROUP BY items.of_order, orders.day
"""


@pytest.mark.parametrize(
    ("reaches", "most"),
    [pytest.param(True, 18, id="rows change"), pytest.param(False, 9, id="no changed row passes the filters")],
)
@pytest.mark.full
def test_a_small_step_of_a_join_with_groups(spark: SparkSession, shop: Shop, reaches: bool, most: int) -> None:
    def path(table: str) -> str:
        return str(shop.folder / table)

    for table, rows in TABLES.items():
        frame = spark.sql(rows).coalesce(2)
        frame.write.format("delta").option("delta.enableChangeDataFeed", "true").save(path(table))
        shop.engine.register(table, location=path(table), key="id")
    job = shop.engine.create_view("kept", JOINED, verify=False)
    shop.engine.run_once()
    service = shop.engine.scheduler(hurry=True)
    with service.alive():
        for place in (1, 2):
            shipped = "> 10" if reaches else "< 5"
            where = f"of_order % 30 = {place} AND shipped {shipped}"
            spark.sql(f"UPDATE delta.`{path('items')}` SET price = price + 1 WHERE {where}")
            spark.sql(f"UPDATE delta.`{path('orders')}` SET customer = 0 WHERE id % 600 = 90 + {place}")
            with counted(spark) as step:
                assert service.turn(job._row()).worked
    assert 0 < step.count <= most
    assert job.verify().differences == ()
