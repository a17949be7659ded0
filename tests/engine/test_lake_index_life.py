"""The life of an index on a Delta table: built anew, paused, read by a view, and left by a runner that died."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.shop import Shop
from tidefill.engine.connect import connect
from tidefill.engine.job import Job
from tidefill.run.reporting import Reporting

pytestmark = pytest.mark.full

ENTRIES = "SELECT name, id, v FROM SOURCE"


def violated(shop: Shop) -> Job:
    """A live unique index over 60 rows, two of which have one key."""
    shop.make(60)
    shop.sql("UPDATE SOURCE SET name = 'n1' WHERE id = 2")
    shop.engine.register("events", location=shop.source, key="id")
    job = shop.engine.create_index("by_name", "events", "name", unique=True, include="v", refresh="incremental")
    job.wait(300)
    assert job.status().violated == 1
    return job


def test_it_is_built_anew(shop: Shop) -> None:
    job = violated(shop)
    shop.sql("UPDATE SOURCE SET name = 'n3' WHERE id IN (4, 5)")
    job.resync()
    assert shop.engine.table("by_name").count() == 60, "the old entries are read until the new ones are there"
    shop.engine.run_once()
    status = job.status()
    assert (status.generation, status.state, status.violated) == (2, "live", 2)
    shop.expect("by_name", ENTRIES)
    assert len(list(shop.warehouse.iterdir())) == 1, "the entries of before are gone"
    shop.sql("DELETE FROM SOURCE WHERE id IN (2, 4, 5)")
    shop.engine.run_once()
    assert job.status().violated == 0


def test_a_pause_holds_it_and_its_condition(shop: Shop) -> None:
    job = violated(shop)
    before = shop.engine.table("by_name").count()
    job.pause()
    shop.engine.run_once()
    shop.sql("DELETE FROM SOURCE WHERE id IN (2, 40)")
    shop.engine.run_once()
    assert (job.status().state, job.status().violated) == ("paused", 1)
    assert shop.engine.table("by_name").count() == before
    job.resume()
    shop.engine.run_once()
    assert (job.status().state, job.status().violated) == ("live", 0)
    shop.expect("by_name", ENTRIES)


def test_a_view_reads_it(shop: Shop) -> None:
    violated(shop)
    twice = "SELECT name, count(*) AS rows FROM by_name GROUP BY name HAVING count(*) > 1"
    shop.engine.create_view("twice", twice).wait(300)
    shop.expect("twice", "SELECT 'n1' AS name, 2L AS rows")
    shop.sql("UPDATE SOURCE SET name = 'n9' WHERE id IN (2, 11)")
    shop.engine.run_once()
    shop.expect("twice", "SELECT 'n9' AS name, 3L AS rows")
    shop.expect("by_name", ENTRIES)


class Died(BaseException):
    """The end of a process, which nothing catches."""


def test_a_runner_dies_between_commit_and_report(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    job = violated(shop)
    shop.sql("UPDATE SOURCE SET name = 'n7' WHERE id IN (20, 21, 30)")

    def dies(*_: object) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Reporting, "report", dies)
        with pytest.raises(Died):
            shop.engine.run_once()
    assert job.status().violated == 1, "the store knows nothing of the commit"
    row = job._row()
    shop.engine._store.change(row.id, lambda found: replace(found, lease=replace(found.lease, until_s=0.0)))
    with connect(shop.spark, shop.warehouse, shop.folder / "store") as another:
        another.run_once()
        assert another.job("by_name").status().violated == 2
        assert another.job("by_name").verify().differences == ()
    shop.expect("by_name", ENTRIES)
