"""kill -9 of a runner while others write, a server that is away, and a view on a replica."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from tests.postgres.harness import PASSWORD, ROLE, Postgres
from tests.postgres.test_replica import Shop, slots
from tests.postgres.test_replica import shop as shop
from tests.suites import in_longer_runs
from tidefill.engine.job import Job
from tidefill.jobs.lifecycle import Life

DEADLINE_S = 120.0
KILLS = 2
KILLS_IN_FULL = 5
KILLS_IN_SOAK = 100


class Runner:
    """`engine.run()` in a process of its own."""

    def __init__(self, shop: Shop, spark_url: str) -> None:
        folder = shop.folder
        places = [spark_url, str(folder / "lake"), str(folder / "store"), shop.postgres.server.url(ROLE, PASSWORD)]
        self._log = folder / "runner.log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.postgres.runner_process", *places], stdout=log, stderr=log
            )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def until(self, so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not so():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline_s, self._log.read_text()
            time.sleep(0.05)


@pytest.fixture
def writer(shop: Shop) -> Iterator[Callable[[], None]]:
    """Somebody who writes, from when he is told to until the end of the test."""
    stop = threading.Event()
    dice = random.Random(1)

    def write() -> None:
        with psycopg.connect(shop.postgres.server.url(), autocommit=True) as session:
            while not stop.wait(0.02):
                key = dice.randrange(4000)
                for sql in (
                    f"INSERT INTO {shop.orders} VALUES ({key}, 1, 'new') ON CONFLICT (id) DO UPDATE SET amount = -1",
                    f"DELETE FROM {shop.orders} WHERE id = {dice.randrange(4000)}",
                    f"UPDATE {shop.orders} SET amount = amount + 1 WHERE id BETWEEN {key} AND {key + 5}",
                ):
                    session.execute(sql.encode())

    thread = threading.Thread(target=write, daemon=True)
    yield thread.start
    stop.set()
    if thread.ident is not None:
        thread.join()


def step(job: Job) -> int:
    row = job._row()
    return len(row.anchor) and int(row.progress.rows if row.progress else 0)


@pytest.mark.parametrize("kills", [KILLS, *in_longer_runs(KILLS_IN_FULL, KILLS_IN_SOAK)])
def test_a_runner_is_killed_while_others_write(
    shop: Shop, connect_url: str, writer: Callable[[], None], kills: int
) -> None:
    # R11
    shop.create(2000)
    writer()
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders, chunk_rows=300)
    dice = random.Random(kills)
    for _ in range(kills):
        before = step(job)
        runner = Runner(shop, connect_url)
        runner.until(lambda: step(job) > before or job.status().state == Life.LIVE.value)  # noqa: B023
        time.sleep(dice.random())  # anywhere in the next step
        runner.kill()
        found = job.verify()
        assert found.differences == ()
    runner = Runner(shop, connect_url)
    runner.until(lambda: job.status().state == Life.LIVE.value)
    runner.kill()
    assert job.verify().differences == ()


@pytest.mark.full
def test_a_view_on_a_replica(shop: Shop) -> None:
    shop.create(100)
    shop.engine.execute(f"CREATE REPLICA copy FROM {shop.source} WITH (publication = '{shop.orders}')")
    shop.engine.execute("CREATE MATERIALIZED VIEW large AS SELECT id, amount * 2 AS twice FROM copy WHERE amount > 50")
    shop.engine.job("large").wait(120)
    shop.postgres.execute(f"UPDATE {shop.orders} SET amount = 0 WHERE id <= 60")
    shop.engine.run_once()
    expected = shop.postgres.execute(f"SELECT id, amount * 2 FROM {shop.orders} WHERE amount > 50")
    assert sorted(tuple(row) for row in shop.engine.table("large").collect()) == sorted(expected)
    shop.engine.job("large").drop()
    shop.engine.job("large").wait(60, gone=True)


def test_what_is_dropped_while_the_server_is_away_goes_when_it_is_back(shop: Shop, postgres: Postgres) -> None:
    # R24
    shop.create(10)
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders)
    job.wait(60)
    postgres.server.stop("immediate")
    job.drop()
    service = shop.engine.scheduler()
    service.turn(job._row())
    row = shop.engine._store.job(job.id)
    assert row is not None
    assert row.life is Life.DROPPED
    assert any(resource.kind == "slot" for resource in row.resources), "it stays listed"
    postgres.server.start()
    postgres.reconnect()
    assert slots(postgres) != []
    shop.engine._clock.now_s = lambda: time.time() + 1000  # type: ignore[method-assign]
    service.turn(row)
    assert slots(postgres) == []
    assert shop.engine._store.job(job.id) is None
