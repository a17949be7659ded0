"""A live table of PostgreSQL becomes a Delta table, through the engine, as a user has it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.replica.harness import PASSWORD, ROLE, Postgres
from tidefill import connect
from tidefill.engine import Engine


class Shop:
    """An engine with a connection `shop`, and a table of orders there that is published for us."""

    def __init__(self, spark: SparkSession, postgres: Postgres, folder: Path) -> None:
        self.postgres = postgres
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
    # R21
    shop.create()
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders, chunk_rows=300)
    job.wait(120)
    assert shop.copied() == shop.rows()
    shop.postgres.execute(f"UPDATE {shop.orders} SET amount = -1 WHERE mod(id, 7) = 0")
    shop.postgres.execute(f"DELETE FROM {shop.orders} WHERE id BETWEEN 100 AND 200")
    shop.postgres.execute(f"UPDATE {shop.orders} SET id = id + 5000 WHERE id < 10")
    shop.postgres.execute(f"INSERT INTO {shop.orders} VALUES (9999, 1, NULL)")
    shop.engine.run_once()
    assert shop.copied() == shop.rows()
    assert len(slots(shop.postgres)) == 1
    job.drop()
    job.wait(60, gone=True)
    assert slots(shop.postgres) == []
    assert list((Path(shop.engine._warehouse)).iterdir()) == []
