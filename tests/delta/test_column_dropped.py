"""A column that is dropped after CREATE and before the first commit stops the job with a name and a way on."""

from __future__ import annotations

import pytest

from tests.delta.test_table_gone import failures
from tests.engine.shop import Shop

COLUMNS = "id, id % 7 AS v, concat('n', id) AS name, named_struct('a', id, 'b', id) AS s, id AS k2, id DIV 10 AS day"
MAPPED = "ALTER TABLE SOURCE SET TBLPROPERTIES (delta.columnMapping.mode = 'name')"
VIEWS = {
    "rows": "SELECT id, k2, v + 1 AS w, s.a AS a FROM events WHERE v > 1",
    "sums": "SELECT v, max(s.a) AS a, count(*) AS n, max(k2) AS k FROM events GROUP BY v",
    "joined": "SELECT e.id, e.k2, e.s.a AS a, o.id AS oid, o.k2 AS ok, o.v FROM events e JOIN events o ON e.v = o.v",
}


@pytest.mark.parametrize(
    "column", ["v", *(pytest.param(name, marks=pytest.mark.full) for name in ("s.a", "k2", "day"))]
)
def test_a_column_that_is_dropped_before_the_first_commit(shop: Shop, column: str) -> None:
    """`day` is only walked: a replica that has it needs it, and so do views, which go along it."""
    shop.make(20, COLUMNS)
    shop.sql(MAPPED)
    engine = shop.engine
    engine.register("events", location=shop.source, key=["id", "k2"], walk="day")
    engine.create_replica("copy", "events")
    for name, query in VIEWS.items():
        engine.create_view(name, query)
    engine.create_view("anew", "SELECT v, s.a AS a, k2, day FROM events", refresh="full")
    shop.sql(f"ALTER TABLE SOURCE DROP COLUMN {column}")
    found = failures(shop, turns=2)
    if column in ("v", "s.a"):
        assert found.pop("copy") is None, "a replica that has nothing yet is of the columns that there are"
    assert {name: failure and failure.code for name, failure in found.items()} == dict.fromkeys(
        found, "UPSTREAM_REPLACED"
    ), found
    last = column.rpartition(".")[2]
    assert [one for one in found.values() if one and not (last in one.fact + one.detail and one.hint)] == []
