"""CREATE OR REPLACE of what needs no Spark: the same query again, and names that have something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.stores import REPLICA, VIEW, made, row
from tests.jobs.test_definitions import LAKE_INDEX
from tests.sql.test_execute import stored
from tidefill.engine.connect import connect
from tidefill.engine.engine import Engine
from tidefill.errors import BadInput, BadSql, InvalidSetting, NameTaken, StoreUnreadable, WrongState
from tidefill.jobs import generations
from tidefill.jobs import row as jobs
from tidefill.jobs.definitions import FullViewDefinition, Part, job_to_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job

ODD = row("odd", 1, life=Life.LIVE, published=1, generation_uuid="one")
COPY, BY_V = row("copy", 2, REPLICA), row("by_v", 3, LAKE_INDEX)
WHOLE = row(
    "whole", 4, FullViewDefinition(VIEW.sql, (("v", "bigint"),), (Part("e", "events", (("v", "bigint"),), ()),))
)
NEWER = Job(f"{5:032x}", "newer", '{"form": 99}')
OTHER = job_to_text(replace(VIEW, sql="SELECT id FROM events"))
AGAIN = f"CREATE OR REPLACE MATERIALIZED VIEW odd AS {VIEW.sql}"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made(tmp_path, ODD, COPY, BY_V, WHOLE, NEWER).close()
    with connect(store=tmp_path / ".tidefill") as made_of_it:
        yield made_of_it
        assert not made_of_it.uses_spark, "Spark was started"


def test_the_same_query_again_changes_nothing(engine: Engine) -> None:
    result = engine.execute(AGAIN)
    assert result.message == "materialized view odd: live, 0 %, and was there before"
    assert stored(engine, ODD) == ODD


def test_the_same_query_again_sets_what_is_given(engine: Engine) -> None:
    engine.execute("ALTER JOB odd SET rate_limit = 5, refresh = incremental")
    engine.execute(AGAIN.replace(" AS ", " WITH (target_lag = '30 seconds') AS "))
    settings = stored(engine, ODD).settings
    assert (settings.target_lag_s, settings.rate_limit, settings.steps_only) == (30.0, 5, True), "the rest stays"
    engine.execute(AGAIN.replace(" AS ", " WITH (refresh = auto) AS "))
    assert not stored(engine, ODD).settings.steps_only
    assert stored(engine, ODD).generation == 1
    with pytest.raises(InvalidSetting, match="wal_budget"):
        engine.execute(AGAIN.replace(" AS ", " WITH (wal_budget = '1 GB') AS "))
    engine.create_view("whole", VIEW.sql, replace=True, refresh="full", target_lag=60)
    assert stored(engine, WHOLE).settings.target_lag_s == 60.0
    assert not stored(engine, WHOLE).is_being_replaced


def test_names_of_something_else(engine: Engine) -> None:
    for name, kind, hint in (
        ("Events", "events is a registered table", "UNREGISTER TABLE events"),
        ("copy", "copy is a replica", "DROP REPLICA copy"),
        ("by_v", "by_v is an index", "DROP INDEX by_v"),
    ):
        for begin in ("", "EXPLAIN "):
            with pytest.raises(NameTaken, match=f"{kind}, and no view") as refused:
                engine.execute(f"{begin}CREATE OR REPLACE MATERIALIZED VIEW {name} AS SELECT v FROM events")
            assert hint in refused.value.hint
    with pytest.raises(StoreUnreadable, match="newer"):
        engine.execute("CREATE OR REPLACE MATERIALIZED VIEW newer AS SELECT v FROM events")


def test_what_ends_is_not_replaced(engine: Engine) -> None:
    engine.execute("DROP MATERIALIZED VIEW odd")
    with pytest.raises(WrongState, match="odd is being dropped"):
        engine.execute(AGAIN)


def test_one_of_the_two_words(engine: Engine) -> None:
    with pytest.raises(BadSql):
        engine.execute("CREATE OR REPLACE MATERIALIZED VIEW IF NOT EXISTS odd AS SELECT v FROM events")
    with pytest.raises(BadSql):
        engine.execute("CREATE OR REPLACE REPLICA copy FROM events")
    with pytest.raises(BadInput, match="replaced or left as it is"):
        engine.create_view("odd", VIEW.sql, replace=True, if_not_exists=True)


def test_what_is_shown_while_it_is_replaced(engine: Engine) -> None:
    engine._store.change(ODD.id, jobs.wish_replace(OTHER, lambda settings: settings))
    assert ("asked to", "replace") in engine.execute("SHOW JOB odd").rows
    assert "was there before" in engine.execute("CREATE MATERIALIZED VIEW odd AS SELECT id FROM events").message
    engine._store.change(ODD.id, generations.next_generation("two"))
    facts = engine.execute("SHOW JOB odd").rows
    assert {("query", "SELECT id FROM events"), ("readers see", VIEW.sql), ("can be read", True)} <= set(facts)
    with pytest.raises(WrongState, match="live with the query that it had before") as refused:
        engine.execute("CANCEL JOB odd")
    assert "CREATE OR REPLACE" in refused.value.hint
