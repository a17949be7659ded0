"""A table that is renamed, moved or dropped under its jobs stops them with a name and a way on."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.engine.shop import Shop
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure
from tidefill.run.scheduler import Scheduler

TURNS_MAX = 20
DEADLINE_S = 60.0

VIEWS = {"rows": "SELECT id, v FROM events", "sums": "SELECT v, count(*) AS n FROM events GROUP BY v"}


def create(shop: Shop, suffix: str = "") -> None:
    """A job of each kind that reads the table."""
    shop.engine.create_replica(f"copy{suffix}", "events")
    for name, query in VIEWS.items():
        shop.engine.create_view(f"{name}{suffix}", query)
    shop.engine.create_view(f"anew{suffix}", VIEWS["rows"], refresh="full")


def go_live(shop: Shop) -> Scheduler:
    """A service that has brought every job up to date, and so knows the table."""
    service = shop.engine.scheduler()
    for _ in range(TURNS_MAX):
        for row in shop.engine._store.jobs():
            service.turn(row)
        if all(row.life is Life.LIVE for row in shop.engine._store.jobs()):
            return service
    raise AssertionError([(row.name, row.life, row.failure) for row in shop.engine._store.jobs()])


def failures(shop: Shop, turns: int = 3, service: Scheduler | None = None) -> dict[str, Failure | None]:
    """Why each job stands still after some turns. A service that knows the table looks at it only once a second."""
    knows, deadline_s = service is not None, time.monotonic() + DEADLINE_S
    service = service or shop.engine.scheduler()
    while turns > 0 or (knows and time.monotonic() < deadline_s):
        turns -= 1
        for row in shop.engine._store.jobs():
            service.turn(row)
        if all(row.failure for row in shop.engine._store.jobs()):
            break
    return {row.name: row.failure for row in shop.engine._store.jobs()}


def expect_named(shop: Shop, service: Scheduler) -> None:
    found = failures(shop, service=service)
    codes = {name: failure and failure.code for name, failure in found.items()}
    assert set(codes.values()) == {"UPSTREAM_REPLACED"}, found
    unsaid = [
        one for one in found.values() if one and not ("Put the table back" in one.hint and "REGISTER" in one.hint)
    ]
    assert unsaid == []


@pytest.mark.full
def test_a_table_that_is_moved_and_comes_back(shop: Shop) -> None:
    shop.make(20)
    shop.engine.register("events", location=shop.source, key="id")
    create(shop)
    service = go_live(shop)
    create(shop, "_later")  # which have made nothing yet
    Path(shop.source).rename(shop.folder / "elsewhere")
    expect_named(shop, service)
    (shop.folder / "elsewhere").rename(shop.source)
    for job in shop.engine.jobs():
        job.resume()
    shop.sql("INSERT INTO SOURCE VALUES (999, 5, 'late')")
    shop.engine.run_once()
    shop.expect("rows", "SELECT id, v FROM SOURCE")
    shop.expect("copy_later", "SELECT * FROM SOURCE")


@pytest.mark.full
@pytest.mark.parametrize("what", ["ALTER TABLE gone_events RENAME TO moved_events", "DROP TABLE gone_events"])
def test_a_table_of_the_catalog_that_is_renamed_or_dropped(shop: Shop, what: str) -> None:
    spark = shop.spark
    spark.sql("DROP TABLE IF EXISTS gone_events")
    spark.sql("DROP TABLE IF EXISTS moved_events")
    spark.sql("CREATE TABLE gone_events USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true) AS "
              "SELECT id, id % 7 AS v FROM range(20)")  # fmt: skip
    try:
        shop.engine.register("events", table="gone_events", key="id")
        create(shop)
        service = go_live(shop)
        spark.sql(what)
        expect_named(shop, service)
    finally:
        spark.sql("DROP TABLE IF EXISTS gone_events")
        spark.sql("DROP TABLE IF EXISTS moved_events")


@pytest.mark.full
def test_a_folder_that_holds_no_table_any_more(shop: Shop) -> None:
    shop.make(20)
    shop.engine.register("events", location=shop.source, key="id")
    create(shop)
    service = go_live(shop)
    shutil.rmtree(Path(shop.source) / "_delta_log")
    expect_named(shop, service)
