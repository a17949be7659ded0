"""What VERIFY settles in a query that leaves the order of equal rows open, and which names struct fields keep."""

from __future__ import annotations

import pytest

from tests.views.incremental.test_plan_text import planned
from tidefill.errors import UnsupportedQuery


@pytest.mark.parametrize(
    ("sql", "settled"),
    [
        (
            "SELECT id, row_number() OVER (PARTITION BY g ORDER BY x) AS n FROM a",
            "ROW_NUMBER() OVER (PARTITION BY g ORDER BY x, `a`.`id`)",
        ),
        (
            "SELECT p.id, lag(p.id) OVER w AS n FROM a p JOIN b ON b.aid = p.id "
            "WINDOW w AS (PARTITION BY g ORDER BY x)",
            "LAG(p.id) OVER (PARTITION BY g ORDER BY x, `b`.`id`)",
        ),
        (
            "SELECT g, x, row_number() OVER (PARTITION BY g ORDER BY count(*) DESC) AS n FROM a GROUP BY g, x",
            "ROW_NUMBER() OVER (PARTITION BY g ORDER BY COUNT(*) DESC, `a`.`x`)",
        ),
        (
            "SELECT n FROM (SELECT id, row_number() OVER w AS n, lag(id) OVER w AS l FROM a "
            "WINDOW w AS (PARTITION BY g ORDER BY x DESC)) t WHERE n < 3",
            "LAG(id) OVER (PARTITION BY g ORDER BY x DESC, `a`.`id`)",
        ),
    ],
)
def test_the_key_is_the_end_of_the_order(sql: str, settled: str) -> None:
    plan = planned(sql)
    assert plan.settled.query is not None
    assert settled in plan.settled.query.sql(dialect="spark").replace(" NULLS FIRST", "")
    assert plan.settled.notes


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, rank() OVER (PARTITION BY g ORDER BY x) AS n FROM a",
        "SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS n FROM a",
        "SELECT g, sum(x) AS t FROM a GROUP BY g",
    ],
)
def test_the_text_of_the_user_serves_as_it_is(sql: str) -> None:
    assert planned(sql).settled.query is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT g, row_number() OVER (PARTITION BY g ORDER BY x) AS n FROM (SELECT g, x FROM a) t",
        "SELECT row_number() OVER (PARTITION BY g ORDER BY count(*)) AS n FROM a GROUP BY g, x + 1",
    ],
)
def test_a_key_that_cannot_be_named_there_is_told(sql: str) -> None:
    assert "does not show" in planned(sql).settled.reason


@pytest.mark.parametrize(
    ("sql", "fields"),
    [
        ("SELECT b.id, to_json(struct(a.x, (b.y), 1, b.id AS n)) AS j FROM a JOIN b ON b.aid = a.id", "x y n"),
        ("SELECT b.id, to_json((a.X, b.y)) AS j FROM a JOIN b ON b.aid = a.id", "X y"),
        ("SELECT g, max(struct(X, s)) AS m FROM a GROUP BY g", "X s"),
    ],
)
def test_struct_fields_keep_the_names_that_the_user_wrote(sql: str, fields: str) -> None:
    text = planned(sql).whole().sql(dialect="spark")
    assert all(f" AS `{field}`" in text or f" AS {field}" in text for field in fields.split())


def test_fields_that_cannot_be_named_are_refused() -> None:
    with pytest.raises(UnsupportedQuery, match="named after columns"):
        planned("SELECT a.id, arrays_zip(a.s, b.y) AS z FROM a JOIN b ON b.aid = a.id")
