"""CREATE OR REPLACE on real tables: readers see the old rows until the new ones are there, and jobs above follow."""

from __future__ import annotations

import pytest

from tests.engine.shop import Shop
from tidefill.engine.job import Job
from tidefill.errors import InUse, UnsupportedQuery
from tidefill.testing.turns import turns


def registered(shop: Shop) -> Shop:
    shop.make()
    shop.engine.register("events", location=shop.source, key="id")
    return shop


def queries(job: Job) -> tuple[str, str]:
    """Of the generation that is made, and of the one that readers see if that is another."""
    definition, earlier = job.definition(), job.earlier_definition()
    return definition.sql, "" if earlier is None else earlier.sql  # type: ignore[union-attr]


def test_a_view_gets_another_query(shop: Shop) -> None:
    # R43
    engine, more = registered(shop).engine, "SELECT id, v * 2 AS v, name FROM events WHERE v > 1"
    view = engine.create_view("v", "SELECT id, v FROM events", verify=False).wait(300)
    result = engine.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {more}")
    assert "its readers see the rows of the earlier query" in result.message
    turns(engine, 2, "v")
    assert queries(view) == (more, "SELECT id, v FROM events")
    shop.expect("v", "SELECT id, v FROM SOURCE")
    assert shop.spark.table("v").columns == ["id", "v"]
    view.wait(300)
    shop.expect("v", "SELECT id, v * 2 AS v, name FROM SOURCE WHERE v > 1")
    assert shop.spark.table("v").columns == ["id", "v", "name"]
    assert queries(view) == (more, "")
    assert len(list(shop.warehouse.iterdir())) == 1, "the old generation is gone"
    explained = view.explained()
    assert explained is not None
    assert "name" in str(explained), "what EXPLAIN said is that of the new query"
    with pytest.raises(UnsupportedQuery, match="v would read itself"):
        engine.create_view("v", "SELECT id, v FROM v", replace=True)


@pytest.mark.full
def test_what_reads_the_view_follows_or_keeps_what_it_reads(shop: Shop) -> None:
    # R43
    engine = registered(shop).engine
    view = engine.create_view("v", "SELECT id, v FROM events")
    above = engine.create_view("above", "SELECT v, count(*) AS n FROM v GROUP BY v")
    copy = engine.create_replica("copy", "v")
    engine.run_once()
    engine.create_view("v", "SELECT id, v * 2 AS v, name FROM events WHERE v > 1", replace=True)
    engine.run_once()
    shop.expect("above", "SELECT v * 2 AS v, count(*) AS n FROM SOURCE WHERE v > 1 GROUP BY v")
    shop.expect("copy", "SELECT id, v * 2 AS v, name FROM SOURCE WHERE v > 1")
    assert [job.status().generation for job in (view, above, copy)] == [2, 2, 2]
    for query, missed in (
        ("SELECT id, name FROM events", ("above (the column v)", "copy (the column v)")),
        ("SELECT id, CAST(v AS STRING) AS v, name FROM events", ("above (the column v as bigint: it becomes string)",)),
        ("SELECT v, max(id) AS id, max(name) AS name FROM events GROUP BY v", ("copy (the key (id)", "above (the key")),
    ):
        for call in (
            lambda q: engine.create_view("v", q, replace=True),
            lambda q: engine.explain_view(q, replaces="v"),
        ):
            with pytest.raises(InUse, match="v cannot have this query") as refused:
                call(query)
            assert all(each in refused.value.detail for each in missed), refused.value.detail
    assert queries(view)[0].startswith("SELECT id, v * 2 AS v, name")
    with pytest.raises(UnsupportedQuery, match="v would read itself"):
        engine.create_view("v", "SELECT v AS id, n AS v, 'x' AS name FROM above", replace=True)
    shop.sql("UPDATE SOURCE SET v = 6 WHERE id < 10")
    engine.run_once()
    shop.expect("above", "SELECT v * 2 AS v, count(*) AS n FROM SOURCE WHERE v > 1 GROUP BY v")
    assert all(not job.verify().differences for job in (view, above, copy))


@pytest.mark.full
def test_a_script_of_views_that_read_each_other_is_replaced_in_one_go(shop: Shop) -> None:
    """The second view reads what the first one will only have with its new query; so does a new one."""
    # R43
    engine = registered(shop).engine
    engine.execute(
        "CREATE MATERIALIZED VIEW a AS SELECT id, v FROM events; CREATE MATERIALIZED VIEW b AS SELECT id, v FROM a"
    )
    engine.run_once()
    engine.execute(
        "CREATE OR REPLACE MATERIALIZED VIEW a AS SELECT id, v, name FROM events WHERE v < 5;"
        "CREATE OR REPLACE MATERIALIZED VIEW b AS SELECT name, v FROM a;"
        "CREATE OR REPLACE MATERIALIZED VIEW c AS SELECT v, count(name) AS n FROM a GROUP BY v"
    )
    turns(engine, 3, "b")
    assert "a is being replaced" in engine.job("b").status().waiting
    shop.expect("b", "SELECT id, v FROM SOURCE")
    engine.run_once()
    shop.expect("b", "SELECT name, v FROM SOURCE WHERE v < 5")
    shop.expect("c", "SELECT v, count(name) AS n FROM SOURCE WHERE v < 5 GROUP BY v")
    assert [job.status().state for job in engine.jobs()] == ["live"] * 3
    assert len(list(shop.warehouse.iterdir())) == 3


@pytest.mark.full
def test_a_view_that_is_computed_whole_and_back(shop: Shop) -> None:
    # R43
    engine = registered(shop).engine
    view = engine.create_view("v", "SELECT v, count(*) AS n FROM events GROUP BY v", rate_limit=10_000)
    engine.create_view("above", "SELECT n, v FROM v", refresh="full", target_lag=0)
    engine.run_once()
    whole = "SELECT v, n FROM (SELECT v, count(*) AS n FROM events GROUP BY v ORDER BY n DESC, v LIMIT 3)"
    engine.execute(f"CREATE OR REPLACE MATERIALIZED VIEW v WITH (refresh = full) AS {whole}")
    settings = view.status().settings
    assert (settings.rate_limit, settings.target_lag_s, settings.verify) == (None, 600.0, False)
    engine.run_once()
    shop.expect("above", f"SELECT n, v FROM ({whole.replace('events', 'SOURCE')})")
    engine.create_view("v", "SELECT v, count(*) AS n, max(id) AS m FROM events GROUP BY v", replace=True)
    assert (view.status().settings.target_lag_s, view.status().settings.verify) == (0.0, True)
    engine.run_once()
    engine.run_once()
    shop.expect("v", "SELECT v, count(*) AS n, max(id) AS m FROM SOURCE GROUP BY v")
    shop.expect("above", "SELECT count(*) AS n, v FROM SOURCE GROUP BY v")


@pytest.mark.full
def test_another_query_mends_a_view_that_has_failed_while_it_was_replaced(shop: Shop) -> None:
    # R43
    engine = registered(shop).engine
    view = engine.create_view("v", "SELECT id, v FROM events").wait(300)
    engine.create_view("v", "SELECT id, CAST(name AS INT) AS v FROM events", replace=True)
    engine.run_once()
    assert view.status().state == "failed"
    shop.expect("v", "SELECT id, v FROM SOURCE")
    engine.create_view("v", "SELECT id, v + 1 AS v FROM events", replace=True)
    engine.run_once()
    shop.expect("v", "SELECT id, v + 1 AS v FROM SOURCE")
    assert len(list(shop.warehouse.iterdir())) == 1
