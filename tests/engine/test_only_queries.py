"""`Engine.query` changes nothing: Spark itself has to take the text for a query, and not for a statement."""

from __future__ import annotations

import pytest

from tests.engine.shop import Shop
from tidefill.errors import BadInput, UnsupportedQuery
from tidefill.views.reading import names


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO events VALUES (1, 2, 'x')",
        "DROP TABLE IF EXISTS events",
        "WITH x AS (SELECT 1) INSERT INTO delta.`SOURCE` SELECT 1, 2, 'x' FROM x",
        "FROM range(3) INSERT INTO delta.`SOURCE` SELECT id, 2, 'x'",
        "FROM range(3) x INSERT INTO delta.`SOURCE` SELECT id, 2, 'x' INSERT INTO delta.`SOURCE` SELECT id, 3, 'y'",
    ],
)
def test_statements_do_nothing(shop: Shop, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.make(10)
    shop.engine.register("events", location=shop.source, key="id")
    text = sql.replace("SOURCE", shop.source)
    with pytest.raises(UnsupportedQuery):
        shop.engine.query(text)
    monkeypatch.setattr(names, "refuse_statements", str)  # if our words do not tell, Spark's grammar does
    with pytest.raises(BadInput):
        shop.engine.query(text)
    assert shop.engine.query("SELECT * FROM events ORDER BY id").count() == 10
