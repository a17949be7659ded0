"""A live job is shown in the catalog under its name, and never in place of what the job did not make."""

from __future__ import annotations

import uuid

import pytest

from tests.engine.shop import Shop
from tidefill.engine.job import Job
from tidefill.errors import JobFailed, NameTaken

SQL = "SELECT id, v FROM events WHERE v > 2"
STRANGERS = {
    "view": "CREATE VIEW {} AS SELECT 'of a stranger' AS what",
    "table": "CREATE TABLE {} USING delta AS SELECT 'of a stranger' AS what",
}


@pytest.fixture
def name(shop: Shop) -> str:
    """A name that nobody else uses, and a table to make a view of."""
    shop.make()
    shop.engine.register("events", location=shop.source, key="id")
    return f"named_{uuid.uuid4().hex}"


def is_of_stranger(shop: Shop, name: str) -> bool:
    return [tuple(row) for row in shop.spark.table(name).collect()] == [("of a stranger",)]


def code(job: Job) -> str | None:
    failure = job.status().failure
    return failure.code if failure else None


@pytest.mark.parametrize("kind", sorted(STRANGERS))
def test_a_name_that_a_stranger_has_is_refused_at_create(shop: Shop, name: str, kind: str) -> None:
    shop.spark.sql(STRANGERS[kind].format(name))
    with pytest.raises(NameTaken, match=f"the catalog has a {kind} {name} already"):
        shop.engine.create_view(name, SQL)
    assert shop.engine.jobs() == []
    assert is_of_stranger(shop, name)
    shop.spark.sql(f"DROP {kind.upper()} {name}")


@pytest.mark.parametrize("kind", sorted(STRANGERS))
@pytest.mark.full
def test_a_name_that_was_taken_before_live_stops_the_job_until_it_is_free(shop: Shop, name: str, kind: str) -> None:
    job = shop.engine.create_view(name, SQL)
    shop.spark.sql(STRANGERS[kind].format(name))
    with pytest.raises(JobFailed, match="NAME_TAKEN"):
        job.wait(300)
    assert (code(job), job.status().published) == ("NAME_TAKEN", False), "it never was live"
    assert is_of_stranger(shop, name)
    shop.spark.sql(f"ALTER {kind.upper()} {name} RENAME TO {name}_too")
    job.resume()
    job.wait(300)
    shop.expect(name, "SELECT id, v FROM SOURCE WHERE v > 2")
    assert shop.spark.table(name).columns == ["id", "v"]
    assert is_of_stranger(shop, f"{name}_too")
    job.drop()
    shop.engine.run_once()
    assert not shop.spark.catalog.tableExists(name)
    shop.spark.sql(f"DROP {kind.upper()} {name}_too")


@pytest.mark.full
def test_a_view_that_a_stranger_put_in_our_place_stays(shop: Shop, name: str) -> None:
    job = shop.engine.create_view(name, SQL)
    job.wait(300)
    path = next(shop.warehouse.glob(f"*-{job.id}-1"))
    shop.spark.sql(f"CREATE OR REPLACE VIEW {name} AS SELECT 'of a stranger' AS what FROM delta.`{path}` LIMIT 1")
    job.resync()
    with pytest.raises(JobFailed, match="NAME_TAKEN"):
        job.wait(300)
    assert is_of_stranger(shop, name)
    shop.expect(name, "SELECT id, v FROM SOURCE WHERE v > 2")
    assert path.exists(), "what was published can still be read"
    job.drop()
    shop.engine.run_once()
    assert shop.engine.jobs() == []
    assert name in [row.viewName for row in shop.spark.sql("SHOW VIEWS").collect()], "it is not ours to remove"
    shop.spark.sql(f"DROP VIEW {name}")


@pytest.mark.full
def test_a_view_of_an_earlier_generation_or_release_is_ours(shop: Shop, name: str) -> None:
    job = shop.engine.create_view(name, SQL)
    job.wait(300)
    path = next(shop.warehouse.glob(f"*-{job.id}-1"))
    shop.spark.sql(f"CREATE OR REPLACE VIEW `{name}` AS SELECT `id`, `v` FROM delta.`{path}`")  # as it always was
    job.resync()
    job.wait(300)
    assert not path.exists()
    assert shop.spark.table(name).columns == ["id", "v"]
    job.drop()
    shop.engine.run_once()
    assert not shop.spark.catalog.tableExists(name)


def test_a_temporary_view_hides_the_name_from_one_session_only_and_is_no_matter(shop: Shop, name: str) -> None:
    shop.spark.sql(f"CREATE TEMPORARY VIEW {name} AS SELECT 'of a stranger' AS what")
    job = shop.engine.create_view(name, SQL)
    job.wait(300)
    job.drop()
    shop.engine.run_once()
    assert is_of_stranger(shop, name)
    shop.spark.catalog.dropTempView(name)
