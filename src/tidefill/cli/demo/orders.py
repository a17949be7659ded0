"""The table of the demo, and what its writer does to it, as SQL. What a new row holds follows from its id."""

from __future__ import annotations

from tidefill.spark.names import table_at

NAME, KEY = "orders", "id"
FILES = 8
COLUMNS = """id,
  CAST(pmod(hash(id), 50000) AS INT) AS customer,
  element_at(array('new', 'paid', 'shipped', 'returned'), 1 + pmod(hash(id, 1), 4)) AS status,
  element_at(array('DE', 'FR', 'IT', 'ES', 'PL', 'NL'), 1 + pmod(hash(id, 2), 6)) AS country,
  CAST(pmod(hash(id, 3), 1000) AS DECIMAL(10, 2)) AS amount,
  timestamp_seconds(1700000000 + id * 10) AS ordered_at"""

VIEWS = {
    "abroad": "SELECT id AS order_id, country AS destination, amount AS value FROM orders WHERE country <> 'DE'",
    "paid": "SELECT id, customer, amount * 1.19 AS gross, year(ordered_at) AS year FROM orders WHERE status = 'paid'",
}


def create(location: str, rows: int) -> str:
    """The table with ids from 0, clustered by them, that records its changes."""
    properties = (
        "delta.enableChangeDataFeed = true, delta.enableDeletionVectors = true, delta.dataSkippingStatsColumns = 'id'"
    )
    return (
        f"CREATE TABLE {table_at(location)} USING delta CLUSTER BY ({KEY}) TBLPROPERTIES ({properties}) "
        f"AS SELECT {COLUMNS} FROM range(0, {rows}, 1, {FILES})"
    )


def change(location: str, end: int, place: int, count: int) -> str:
    """So many new orders with ids from `end` on; so many from `place` on move on and cost more, so that rows enter and
    leave a view, and change inside of another; and as many behind them vanish. All in one commit."""
    kinds = {"I": end, "U": place, "D": place + count}
    source = " UNION ALL ".join(
        f"SELECT '{kind}' AS kind, {COLUMNS} FROM range({first}, {first + count}, 1, 1)"
        for kind, first in kinds.items()
    )
    return (
        f"MERGE INTO {table_at(location)} t USING ({source}) s "
        f"ON t.id = s.id AND (t.id BETWEEN {place} AND {place + 2 * count - 1} OR t.id >= {end}) "
        "WHEN MATCHED AND s.kind = 'D' THEN DELETE "
        "WHEN MATCHED AND s.kind = 'U' THEN UPDATE SET amount = t.amount + 1, status = "
        "CASE t.status WHEN 'new' THEN 'paid' WHEN 'paid' THEN 'shipped' ELSE 'new' END "
        "WHEN NOT MATCHED AND s.kind = 'I' THEN INSERT (id, customer, status, country, amount, ordered_at) "
        "VALUES (s.id, s.customer, s.status, s.country, s.amount, s.ordered_at)"
    )
