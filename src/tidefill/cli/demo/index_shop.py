"""The PostgreSQL of `tidefill demo --index`: a partitioned table of customers, and somebody who writes to it."""

from __future__ import annotations

import threading
import time
from typing import Any

CONNECTION, URL_VARIABLE = "shop", "TIDEFILL_DEMO_SHOP_URL"
TABLE, BY_EMAIL, BY_PHONE = "customers", "customers_email", "customers_phone"
JOB = "customers_lookup"
PARTITIONS = 8
WRITES_PER_S = 300
TWINS = 3  # customers who have the phone of another one
STRIDE = 7919  # from one write's place to the next one's: a prime, so that all rows get their share
SETTINGS = {"max_wal_size": "4GB"}


def set_up(rows: int) -> list[str]:
    """The statements that make the table. Some customers share a phone: a unique index over it cannot be made."""
    row = f"n, mod(n, {PARTITIONS})::int, 'user' || n || '@example.org', '+49' || mod(n, {rows - TWINS})"
    return [
        f"CREATE TABLE {TABLE} (id bigint, region int, email text, phone text, PRIMARY KEY (id, region)) "
        f"PARTITION BY LIST (region)",
        *(f"CREATE TABLE {TABLE}_{n} PARTITION OF {TABLE} FOR VALUES IN ({n})" for n in range(PARTITIONS)),
        f"INSERT INTO {TABLE} SELECT {row} FROM generate_series(0, {rows - 1}) n",
        f"ANALYZE {TABLE}",
    ]


CREATE = f"CREATE INDEXES {JOB} ON {CONNECTION}.public.{TABLE} (UNIQUE {BY_EMAIL} (email), UNIQUE {BY_PHONE} (phone))"


def write(url: str, rows: int, stop: threading.Event) -> None:
    """Change the mail address of somebody, some hundred times a second, until told to stop."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as shop:
        number, begin_s = 0, time.monotonic()
        while not stop.wait(max(0.0, begin_s + number / WRITES_PER_S - time.monotonic())):
            number += 1
            row = number * STRIDE % rows
            shop.execute(
                f"UPDATE {TABLE} SET email = %s WHERE id = %s AND region = %s".encode(),
                (f"user{row}-{number}@example.org", row, row % PARTITIONS),
            )


def timed_ms(shop: Any, sql: str, *words: object) -> float:
    """How long the server takes to answer, in milliseconds; the best of five."""
    taken = []
    for _ in range(5):
        began_s = time.monotonic()
        shop.execute(sql.encode(), words or None).fetchall()
        taken.append((time.monotonic() - began_s) * 1000)
    return min(taken)
