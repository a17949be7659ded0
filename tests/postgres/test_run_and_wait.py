"""One thread runs the jobs of an engine while another waits for one of them, as in a notebook."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.postgres.harness import PASSWORD, ROLE, Postgres
from tests.postgres.test_replica import Shop
from tidefill.errors import NotYet
from tidefill.postgres.survey import PgTable

ROUNDS = 2


@pytest.fixture
def shop(spark: SparkSession, postgres: Postgres, tmp_path: Path) -> Iterator[Shop]:
    made = Shop(spark, postgres, tmp_path)
    yield made
    made.close()


def test_run_in_one_thread_and_wait_in_another(shop: Shop) -> None:
    # R12
    shop.create(500)
    stop = threading.Event()
    running = threading.Thread(target=shop.engine.run, args=(stop,))
    running.start()
    try:
        for number in range(ROUNDS):
            job = shop.engine.create_replica(f"copy_{number}", shop.source, publication=shop.orders)
            job.wait(120)
            assert shop.copied(f"copy_{number}") == shop.rows()
    finally:
        stop.set()
        running.join()
    shop.postgres.execute(f"UPDATE {shop.orders} SET amount = 0 WHERE id <= 60")
    shop.engine.run_once()
    assert [event.text for event in shop.engine.events() if "fail" in event.text] == []
    assert shop.copied("copy_0") == shop.rows()


def test_a_slot_that_is_still_being_made_is_waited_for(shop: Shop, postgres: Postgres) -> None:
    """PostgreSQL lists a slot before it has a position, which it gets when those who write have ended. A runner that
    was killed meanwhile leaves it to the server to go on."""
    shop.create(10)
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders)
    slot = f"tidefill_{shop.engine._store.store_id()[:8]}_{job.id}_1"
    table, url = PgTable("public", shop.orders, shop.orders, slot), postgres.server.url(ROLE, PASSWORD)

    def make() -> None:
        with closing(psycopg.connect(url, autocommit=True)) as session:
            session.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (slot,))

    made = "SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s AND restart_lsn IS NOT NULL"
    making = threading.Thread(target=make)
    with closing(psycopg.connect(url, autocommit=True)) as session:
        with closing(psycopg.connect(postgres.server.url())) as writer:
            writer.execute("SELECT pg_current_xact_id()")
            making.start()
            while not (found := postgres.execute(made, slot)):
                assert making.is_alive()
            assert found == [(None,)], "it waits for the writer"
            with pytest.raises(NotYet, match="is still being made"):
                table.confirmed(session)
            with pytest.raises(NotYet, match="is still being made"):
                shop.engine.explain_replica(shop.source, publication=shop.orders, slot=slot)
            service = shop.engine.scheduler()
            with service.alive():
                assert not service.turn(job._row()).worked
            assert job.status().failure is None
            assert "is still being made" in job.status().waiting
            writer.rollback()
        making.join()
        assert table.confirmed(session) is not None
    job.wait(120)
    assert shop.copied() == shop.rows()
