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
        ("ALTER COLUMN v TYPE BIGINT", ""),
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
