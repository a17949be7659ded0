"""The schema of a table is changed while a view of it is filled."""

from __future__ import annotations

import pytest

from tests.engine.shop import Shop, rows_of

VIEW = "SELECT id, v, name FROM "
WIDENING = {"delta.enableTypeWidening": "true"}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        pytest.param("ADD COLUMNS (extra INT)", "", marks=pytest.mark.full),
        pytest.param("ALTER COLUMN v TYPE BIGINT", "", marks=pytest.mark.full),
        ("DROP COLUMN v", "UPSTREAM_REPLACED"),
        pytest.param("RENAME COLUMN v TO w", "UPSTREAM_REPLACED", marks=pytest.mark.full),
    ],
)
def test_a_column_is_changed_in_the_middle_of_a_backfill(shop: Shop, change: str, outcome: str) -> None:
    # R15
    shop.make(40, "id, cast(id % 7 AS INT) AS v, concat('n', id) AS name", **WIDENING)
    shop.sql("ALTER TABLE SOURCE SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    shop.engine.register("events", location=shop.source, key="id")
    job = shop.engine.create_view("view", f"{VIEW} events", chunk_rows=10)
    shop.turns(2)
    assert job.status().state == "backfilling", "the change comes in the middle"
    shop.sql(f"ALTER TABLE SOURCE {change}")
    shop.engine.run_once()
    failure = job.status().failure
    assert (failure.code if failure else "") == outcome, failure
    if outcome:
        (target,) = shop.warehouse.iterdir()
        found = rows_of(shop.spark.read.format("delta").load(str(target)))
        before = rows_of(shop.spark.sql(f"{VIEW} delta.`{shop.source}` VERSION AS OF 1"))
        assert set(found) < set(before), "only rows from before the change"
        assert len(set(found)) == len(found)
    else:
        shop.expect("view", f"{VIEW} SOURCE")


GROUPED = "SELECT g.name, count(*) AS n, sum(e.v) AS t, max(e.v) AS top, avg(e.v) AS m "
OVER = "FROM events e JOIN events g ON g.id = e.v GROUP BY g.name"


@pytest.mark.parametrize(
    ("what", "change", "outcome"),
    [
        pytest.param("avg(e.v) AS m", "BIGINT", "", marks=pytest.mark.full),
        pytest.param("max(hash(e.v)) AS m", "BIGINT", "UPSTREAM_REPLACED", marks=pytest.mark.full),
        pytest.param("avg(e.v) AS m", "DOUBLE", "UPSTREAM_REPLACED", marks=pytest.mark.full),
    ],
)
def test_a_type_becomes_wider_under_a_compiled_view(shop: Shop, what: str, change: str, outcome: str) -> None:
    # R15
    shop.make(40, "id, cast(id % 7 AS INT) AS v, concat('n', id) AS name", **WIDENING)
    shop.engine.register("events", location=shop.source, key="id")
    sql = GROUPED.replace("avg(e.v) AS m", what) + OVER
    job = shop.engine.create_view("view", sql).wait(300)
    shop.sql(f"ALTER TABLE SOURCE ALTER COLUMN v TYPE {change}")
    shop.sql("UPDATE SOURCE SET v = 3 WHERE id > 30")
    shop.engine.run_once()
    failure = job.status().failure
    assert (failure.code if failure else "") == outcome, failure
    if not outcome:
        shop.sql("INSERT INTO SOURCE VALUES (5000, 5, 'late')")
        shop.engine.run_once()
        shop.expect("view", sql.replace("events", "SOURCE"))
        assert job.verify().differences == ()
