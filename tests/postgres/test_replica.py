"""A live table of PostgreSQL becomes a Delta table, through the engine, as a user has it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.postgres.harness import PASSWORD, ROLE, Postgres
from tidefill import connect
from tidefill.delta.changed_keys import changed_keys
from tidefill.engine.engine import Engine
from tidefill.errors import InvalidSetting, TidefillError, UnknownTable, Unreadable
from tidefill.ports.frames import Compared
from tidefill.postgres import backlog as postgres_backlog
from tidefill.postgres import upstream as postgres_upstream
from tidefill.run.backfill import Backfill

BY_AMOUNT = "SELECT amount, count(*) AS n, sum(id) AS ids FROM"


class Shop:
    """An engine with a connection `shop`, and a table of orders there that is published for us."""

    def __init__(self, spark: SparkSession, postgres: Postgres, folder: Path) -> None:
        self.postgres = postgres
        self.folder = folder
        self.orders = f"orders_{uuid.uuid4().hex[:8]}"
        url = postgres.server.url(ROLE, PASSWORD)
        self.engine: Engine = connect(spark, folder / "lake", folder / "store", connections={"shop": url})

    def create(self, rows: int = 1000, columns: str = "id bigint PRIMARY KEY, amount int, note text") -> None:
        self.postgres.execute(f"CREATE TABLE {self.orders} ({columns})")
        self.postgres.execute(
            f"INSERT INTO {self.orders} SELECT n, mod(n, 100), 'note ' || n FROM generate_series(1, %s) n", rows
        )
        self.postgres.publish(self.orders, self.orders)

    @property
    def source(self) -> str:
        return f"shop.public.{self.orders}"

    def rows(self) -> list[tuple[object, ...]]:
        """Of the table."""
        return sorted(self.postgres.execute(f"SELECT * FROM {self.orders}"))

    def by_amount(self) -> list[tuple[object, ...]]:
        """Of the table, by groups."""
        return sorted(self.postgres.execute(f"{BY_AMOUNT} {self.orders} GROUP BY amount"))

    def copied(self, name: str = "copy") -> list[tuple[object, ...]]:
        """Of the replica."""
        return sorted(tuple(row) for row in self.engine.table(name).collect())

    def close(self) -> None:
        for job in self.engine.jobs():
            job.drop()
            job.wait(60, gone=True)
        self.engine.close()
        self.postgres.execute(f"DROP PUBLICATION IF EXISTS {self.orders}")
        self.postgres.execute(f"DROP TABLE IF EXISTS {self.orders}")


@pytest.fixture
def shop(spark: SparkSession, postgres: Postgres, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(spark, postgres, tmp_path)
    yield made
    made.close()


def slots(postgres: Postgres) -> list[str]:
    return [name for (name,) in postgres.execute("SELECT slot_name FROM pg_replication_slots")]


def test_a_replica_is_filled_kept_fresh_and_dropped(shop: Shop) -> None:
    # R23
    shop.create()
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders, chunk_rows=300)
    view = shop.engine.create_view("by_amount", f"{BY_AMOUNT} copy GROUP BY amount", verify=False)
    view.wait(240)
    assert shop.copied() == shop.rows()
    assert shop.copied("by_amount") == shop.by_amount()
    shop.postgres.execute(f"UPDATE {shop.orders} SET amount = -1 WHERE mod(id, 7) = 0")
    shop.postgres.execute(f"DELETE FROM {shop.orders} WHERE id BETWEEN 100 AND 200")
    shop.postgres.execute(f"UPDATE {shop.orders} SET id = id + 5000 WHERE id < 10")
    shop.postgres.execute(f"INSERT INTO {shop.orders} VALUES (9999, 1, NULL)")
    shop.engine.run_once()
    assert shop.copied() == shop.rows()
    assert shop.copied("by_amount") == shop.by_amount()
    assert len(slots(shop.postgres)) == 1
    view.drop()
    job.drop()
    job.wait(60, gone=True)
    assert slots(shop.postgres) == []
    assert list((shop.folder / "lake").iterdir()) == []


@pytest.mark.parametrize(
    ("columns", "key", "at_hand"),
    [
        pytest.param("id bigint PRIMARY KEY", "n", True, id="whole numbers"),
        pytest.param(
            "id uuid, place text, PRIMARY KEY (place, id)",
            "md5(n::text)::uuid, E'O''Brien \\\\ ' || n",
            True,
            id="uuid and text",
            marks=pytest.mark.full,
        ),
        pytest.param("id numeric(9, 2) PRIMARY KEY", "n / 4.0", False, id="decimals", marks=pytest.mark.full),
    ],
)
def test_few_changed_rows_are_written_as_they_are_read(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, columns: str, key: str, at_hand: bool
) -> None:
    """Nothing is computed to learn the keys, if the log has told them."""
    collected: list[str] = []

    def keys_of(changes: Any, columns: Any, types: Any) -> Any:
        collected.append("keys")
        return changed_keys(changes, columns, types)

    monkeypatch.setattr("tidefill.delta.target.changed_keys", keys_of)
    shop.postgres.execute(f"CREATE TABLE {shop.orders} (v int, {columns})")
    rows = f"SELECT mod(n, 50), {key} FROM generate_series(%s::int, %s) n"
    shop.postgres.execute(f"INSERT INTO {shop.orders} {rows}", 1, 500)
    shop.postgres.publish(shop.orders, shop.orders)
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders, verify=False)
    shop.engine.run_once()
    collected.clear()
    shop.postgres.execute(f"UPDATE {shop.orders} SET v = -1 WHERE v = 7")
    shop.postgres.execute(f"DELETE FROM {shop.orders} WHERE v = 8")
    shop.postgres.execute(f"INSERT INTO {shop.orders} {rows}", 501, 510)
    shop.engine.run_once()
    assert job.verify().differences == ()
    assert len(shop.copied()) == len(shop.rows()) == 500
    assert not collected if at_hand else collected


def test_a_backlog_is_taken_in_by_batches(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    # R38
    shop.create()
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders)
    job.wait(120)
    shop.postgres.execute(f"ANALYZE {shop.orders}")
    monkeypatch.setattr(postgres_backlog, "KEYS_MAX", 30)
    monkeypatch.setattr(postgres_upstream, "KEYS_PER_QUERY", 50)
    shop.postgres.execute(f"UPDATE {shop.orders} SET amount = -1 WHERE mod(id, 4) = 0")
    shop.postgres.execute(f"DELETE FROM {shop.orders} WHERE id BETWEEN 100 AND 200")
    shop.engine.run_once()
    assert shop.copied() == shop.rows()


def test_verify_goes_by_pieces(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    # R36
    shop.create()
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders)
    job.wait(120)
    shop.postgres.execute(f"UPDATE {shop.orders} SET amount = -1 WHERE id <= 10")
    compare_now, pieces = Backfill.compare_now, list[int]()

    def noted(self: Backfill[Any], truth: Any, after: Any, rows: int) -> Compared:
        pieces.append(rows)
        if len(pieces) == 2:
            raise Unreadable("somebody waited for us")
        return compare_now(self, truth, after, rows)

    monkeypatch.setattr(Backfill, "compare_now", noted)
    monkeypatch.setattr("tidefill.run.verifying.CEILING_ROWS", 400)
    found = job.verify()
    assert (found.rows, found.differences) == (990, ()), "but for what was not taken in yet"
    assert pieces == [400, 400, 200, 400], "one was given up, and tried again half as large"


def test_a_slot_is_given_up_past_the_limit(shop: Shop) -> None:
    # R25
    shop.create()
    with pytest.raises(InvalidSetting, match="wal_limit is"):
        shop.engine.create_replica("copy", shop.source, publication=shop.orders, wal_limit="much")
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders, wal_limit="1 kB")
    job.wait(120)
    job.pause()
    shop.postgres.execute(f"UPDATE {shop.orders} SET amount = -1")
    service = shop.engine.scheduler()
    with service.alive():
        for _ in range(5):
            service.turn(job._row())
    failure = job.status().failure
    assert failure is not None
    assert (failure.code, slots(shop.postgres)) == ("LOG_GIVEN_UP", [])
    job.resync()
    job.wait(120)
    assert shop.copied() == shop.rows()


REFUSALS = {
    "no such table": ([], "UNKNOWN_TABLE", ""),
    "a view": (["CREATE VIEW T AS SELECT 1 AS id", "GRANT SELECT ON T TO tidefill"], "UPSTREAM_UNFIT", "ordinary"),
    "no right to read": (["CREATE TABLE T (id int PRIMARY KEY)"], "UPSTREAM_UNFIT", "GRANT SELECT ON"),
    "no primary key": (["CREATE TABLE T (id int)", "GRANT SELECT ON T TO tidefill"], "UPSTREAM_UNFIT", "PRIMARY KEY"),
    "no publication": (
        ["CREATE TABLE T (id int PRIMARY KEY)", "GRANT SELECT ON T TO tidefill"],
        "UPSTREAM_UNFIT",
        "CREATE PUBLICATION",
    ),
    "a publication of inserts": (
        [
            "CREATE TABLE T (id int PRIMARY KEY)",
            "GRANT SELECT ON T TO tidefill",
            "CREATE PUBLICATION T FOR TABLE T WITH (publish = 'insert')",
        ],
        "UPSTREAM_UNFIT",
        "SET (publish =",
    ),
    "a publication of some rows": (
        [
            "CREATE TABLE T (id int PRIMARY KEY)",
            "GRANT SELECT ON T TO tidefill",
            "CREATE PUBLICATION T FOR TABLE T WHERE (id > 5)",
        ],
        "UPSTREAM_UNFIT",
        "SET TABLE",
    ),
    "no replica identity": (
        [
            "CREATE TABLE T (id int PRIMARY KEY)",
            "GRANT SELECT ON T TO tidefill",
            "ALTER TABLE T REPLICA IDENTITY NOTHING",
            "CREATE PUBLICATION T FOR TABLE T",
        ],
        "UPSTREAM_UNFIT",
        "REPLICA IDENTITY DEFAULT",
    ),
    "a key that has no order": (
        [
            "CREATE TABLE T (id float PRIMARY KEY)",
            "GRANT SELECT ON T TO tidefill",
            "CREATE PUBLICATION T FOR TABLE T",
        ],
        "UNSUPPORTED_KEY",
        "integer",
    ),
}


@pytest.mark.parametrize(("statements", "code", "hint"), REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_followed_is_refused(shop: Shop, statements: list[str], code: str, hint: str) -> None:
    # R23
    for statement in statements:
        shop.postgres.execute(re.sub(r"\bT\b", shop.orders, statement))
    published = any("CREATE PUBLICATION" in statement for statement in statements)
    try:
        with pytest.raises(TidefillError) as refused:
            shop.engine.create_replica("copy", shop.source, publication=shop.orders if published else "")
        assert (refused.value.code, hint in refused.value.hint) == (code, True), refused.value
        assert shop.engine.jobs() == []
        assert slots(shop.postgres) == []
    finally:
        shop.postgres.execute(f"DROP VIEW IF EXISTS {shop.orders}" if "VIEW" in str(statements) else "SELECT 1")


def test_an_owner_needs_no_publication(shop: Shop) -> None:
    # R23
    shop.create(10)
    shop.postgres.execute(f"DROP PUBLICATION {shop.orders}")
    shop.postgres.execute(f"GRANT CREATE ON DATABASE postgres TO {ROLE}")
    shop.postgres.execute(f"ALTER TABLE {shop.orders} OWNER TO {ROLE}")
    job = shop.engine.create_replica("copy", shop.source).wait(60)
    assert shop.copied() == shop.rows()
    assert len(shop.postgres.execute("SELECT pubname FROM pg_publication WHERE pubname LIKE 'tidefill%'")) == 1
    job.drop()
    job.wait(60, gone=True)
    assert shop.postgres.execute("SELECT pubname FROM pg_publication WHERE pubname LIKE 'tidefill%'") == []
    shop.postgres.execute(f"ALTER TABLE {shop.orders} OWNER TO postgres")
    shop.postgres.execute(f"REVOKE CREATE ON DATABASE postgres FROM {ROLE}")


def test_an_unknown_connection_is_no_table(shop: Shop) -> None:
    with pytest.raises(UnknownTable):
        shop.engine.create_replica("copy", "shoppe.public.orders")
    with pytest.raises(InvalidSetting, match="no publication"):
        shop.engine.create_replica("copy", "shoppe.public.orders", publication="x")
