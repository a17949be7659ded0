"""The table of the demo, and what its writer does to it, as SQL. What a row holds follows from its id."""

from __future__ import annotations

from tidefill.spark.names import table_at

NAME, KEY = "orders", "id"
FILES = 16
COLUMNS = """id,
  CAST(pmod(hash(id), 50000) AS INT) AS customer,
  element_at(array('new', 'paid', 'shipped', 'returned'), 1 + pmod(hash(id, 1), 4)) AS status,
  element_at(array('DE', 'FR', 'IT', 'ES', 'PL', 'NL'), 1 + pmod(hash(id, 2), 6)) AS country,
  CAST(pmod(hash(id, 3), 1000) AS DECIMAL(10, 2)) AS amount,
  timestamp_seconds(1700000000 + id * 10) AS ordered_at,
  concat('order ', hex(hash(id, 4))) AS note"""

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


def insert(location: str, first: int, count: int) -> str:
    """New orders with so many ids from the first."""
    return f"INSERT INTO {table_at(location)} SELECT {COLUMNS} FROM range({first}, {first + count}, 1, 1)"


def update(location: str, first: int, count: int) -> str:
    """Orders move on, and cost more: rows enter and leave a view, and change inside of another."""
    return (
        f"UPDATE {table_at(location)} SET amount = amount + 1, status = "
        "CASE status WHEN 'new' THEN 'paid' WHEN 'paid' THEN 'shipped' ELSE 'new' END "
        f"WHERE {_among(first, count)}"
    )


def delete(location: str, first: int, count: int) -> str:
    """Orders vanish."""
    return f"DELETE FROM {table_at(location)} WHERE {_among(first, count)}"


def _among(first: int, count: int) -> str:
    return f"{KEY} BETWEEN {first} AND {first + count - 1}"
