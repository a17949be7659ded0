"""The page of a real backfill: a real Spark fills, a real browser shows it, and a click stops it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.web.conftest import TOKEN, Site, wait_until
from tidefill.engine.connect import connect
from tidefill.engine.engine import STORE_FILE, Engine
from tidefill.jobs.lifecycle import Life
from tidefill.store.sql_store import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 12_000


@pytest.fixture
def engine(spark: SparkSession, tmp_path: Path) -> Iterator[Engine]:
    events = str(tmp_path / "events")
    made = spark.range(0, ROWS, 1, 1).selectExpr("id", "id % 7 AS v")
    made.write.format("delta").option("delta.enableChangeDataFeed", "true").save(events)
    with connect(spark, tmp_path / "lake", tmp_path / "store") as opened:
        opened.register("events", location=events, key="id")
        stop = threading.Event()
        runner = threading.Thread(target=opened.run, args=(stop,))
        runner.start()
        yield opened
        stop.set()
        runner.join()


@pytest.mark.full
def test_a_click_stops_the_fill_and_another_lets_it_go_on(
    engine: Engine, context: BrowserContext, tmp_path: Path
) -> None:
    job = engine.create_view("doubled", "SELECT id, v * 2 AS w FROM events", chunk_rows=500, rate_limit=400)
    with open_store(tmp_path / "store" / STORE_FILE) as store:
        site = Site(store)
        site.start()
        page = context.new_page()
        page.goto(site.url(f"/?token={TOKEN}"))
        page.goto(site.url(f"/job/{job.id}"))
        bar = page.locator(".bar").first
        expect(page.locator(".badge").first).to_contain_text("backfilling", timeout=120_000)
        seen = set[str]()

        def moved() -> bool:
            seen.add(bar.get_attribute("aria-valuenow") or "")
            return len(seen) >= 3

        wait_until(moved, 120.0)
        page.get_by_role("button", name="❚❚ Pause").click()
        expect(page.locator(".badge").first).to_contain_text("paused", timeout=120_000)
        row = store.job(job.id)
        assert row is not None
        assert row.life is Life.PAUSED
        stood_at = job.steps()[-1]
        assert 0 < job.status().percent < 100
        page.get_by_label("Rate limit").fill("")
        page.get_by_role("button", name="Set").click()
        expect(page.locator(".told")).to_contain_text("rate_limit = none")
        assert job.steps()[-1] == stood_at, "nothing was filled while it was paused"
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".badge").first).to_contain_text("live", timeout=240_000)
        expect(bar).to_have_attribute("aria-valuenow", "100")
        site.stop()
    assert job.table().count() == ROWS
    kinds = [step.kind for step in job.steps()]
    assert kinds[-1] == "verify"
    assert set(kinds) >= {"fill", "verify"}
    assert all(step.phases.get("commit", 0.0) > 0 for step in job.steps()[:-1])
