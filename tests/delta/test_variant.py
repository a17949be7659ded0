"""A VARIANT cannot be compared: a job that needs one is refused when it is created, and no other job is."""

from __future__ import annotations

import pytest

from tests.engine.shop import Shop
from tidefill.errors import BadInput

COLUMNS = (
    "id, id % 3 AS g, parse_json(concat('{\"a\": ', id, '}')) AS v, named_struct('x', parse_json('1')) AS s, "
    "array(parse_json('1')) AS l, named_struct('variant', id) AS plain"
)
REFUSED = (
    "SELECT id, v FROM events",
    "SELECT id, s FROM events",
    "SELECT id, l FROM events",
    "SELECT id, variant_get(v, '$.a', 'int') AS a FROM events",
    "SELECT id, parse_json(concat('', g)) AS made FROM events",
    "SELECT id, array(parse_json(concat('', g))) AS made FROM events",
    "SELECT g, max(variant_get(v, '$.a', 'int')) AS a FROM events GROUP BY g",
    "SELECT e.id, o.id AS oid, e.v FROM events e JOIN events o ON e.id = o.id",
)


def test_a_variant_is_refused_where_it_is_needed(shop: Shop) -> None:
    shop.make(5, COLUMNS)
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    with pytest.raises(BadInput, match="variant") as refused:
        engine.create_replica("copy", "events")
    assert "view of the other columns" in refused.value.hint
    refusals = [refusal(shop, query) for query in REFUSED]
    assert [query for query, said in zip(REFUSED, refusals, strict=True) if "variant" not in said] == []


def refusal(shop: Shop, query: str) -> str:
    try:
        shop.engine.create_view("refused", query)
    except BadInput as error:
        return str(error) if error.hint else ""
    shop.engine.job("refused").cancel()
    shop.engine.run_once()
    return ""


@pytest.mark.full
def test_a_variant_that_nobody_reads_is_in_nobodys_way(shop: Shop) -> None:
    shop.make(5, COLUMNS)
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    engine.create_view("rows", "SELECT id, g, plain FROM events")
    engine.create_view("sums", "SELECT g, sum(plain.variant) AS n, max(plain) AS most FROM events GROUP BY g")
    engine.run_once()
    shop.sql("UPDATE SOURCE SET g = 9, v = parse_json('2') WHERE id = 1")
    shop.sql("DELETE FROM SOURCE WHERE id = 2")
    engine.run_once()
    shop.expect("rows", "SELECT id, g, plain FROM SOURCE")
    shop.expect("sums", "SELECT g, sum(plain.variant) AS n, max(plain) AS most FROM SOURCE GROUP BY g")
