"""Indexes on Delta tables: a view of (key, primary key, included columns) that is laid out by the key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.shop import Shop
from tidefill.delta import layout
from tidefill.errors import BadInput, InvalidSetting, TidefillError, UnknownTable, UnsupportedKey, UnsupportedQuery
from tidefill.jobs.condition import Condition, condition_to_text
from tidefill.run import backfill

EMAIL = "concat('user', lpad(cast((id * 7919) % 6400 AS STRING), 5, '0')) AS email"
"""Each once, and not in the order of the ids."""

MAKE = "CREATE INDEX by_email ON events (email) INCLUDE (v) WITH (refresh = incremental)"
FEW_FILES = 6  # of 64 or more, with those of one live step


def facts_of(shop: Shop, statement: str) -> dict[object, object]:
    """What a statement tells, by label."""
    return {row[0]: row[1] for row in shop.engine.execute(statement).rows}


def files_read(shop: Shop, name: str, condition: str) -> int:
    """How many files of the index Delta reads for the rows with the condition."""
    return len(shop.engine.table(name).where(condition).inputFiles())


def test_an_index_on_a_delta_table_from_create_to_drop(shop: Shop) -> None:
    shop.make(100, "id, id % 7 AS v, concat('N', id) AS name, CAST(1 AS DOUBLE) AS d")
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    text = "CREATE UNIQUE INDEX by_name ON Events (lower(name)) INCLUDE (d) WHERE v > 1 WITH (target_lag = '1 second')"
    told = facts_of(shop, f"EXPLAIN {text}")
    assert (told["makes"], str(told["laid out by"])[:3]) == ("index by_name", "key")
    assert "created" in engine.execute(text).message
    job = engine.job("by_name")
    assert "was there before" in engine.execute(text).message
    same = engine.create_index("by_name", "events", "lower(name)", unique=True, include="d", where="v > 1")
    assert same.id == job.id
    with pytest.raises(TidefillError, match="another job"):
        engine.execute("CREATE INDEX by_name ON events (v)")
    job.wait(300)
    shop.sql("UPDATE SOURCE SET name = 'MOVED' WHERE id IN (2, 3)")
    engine.run_once()
    assert engine.execute("SELECT id FROM by_name WHERE key = 'moved' ORDER BY id").rows == ((2,), (3,))
    assert "by_name: live, VIOLATED (1 key), 100%" in str(job.status())
    assert engine.execute("SHOW VIOLATIONS by_name").rows == (("(moved)", 2, "(2)"),)
    shop.sql("UPDATE SOURCE SET name = NULL WHERE id IN (3, 4)")
    engine.run_once()
    shop.expect("by_name", "SELECT lower(name) AS key, id, d FROM SOURCE WHERE v > 1")
    told_turns = [text.partition(":")[0] for _, text in job.events() if "VIOLATED" in text or "clean" in text]
    assert told_turns == ["VIOLATED (1 key)", "clean again"]
    assert engine.execute("SHOW VIOLATIONS by_name").message == "no violations"
    shown = engine.execute("SHOW INDEXES ON events").rows
    assert [row[:5] for row in shown] == [("by_name", "events", "lower(name)", True, "live")]
    assert engine.execute("SHOW INDEXES ON other").rows == ()
    facts = facts_of(shop, "SHOW JOB by_name")
    assert (facts["kind"], facts["on"], facts["rows with"], facts["target_lag"]) == (
        "index", "events", "v > 1", "1 seconds",
    )  # fmt: skip
    with pytest.raises(TidefillError, match="there is no materialized view by_name"):
        engine.execute("DROP MATERIALIZED VIEW by_name")
    engine.execute("DROP INDEX by_name")
    engine.run_once()
    assert (engine.jobs(), list(shop.warehouse.iterdir())) == ([], [])


@pytest.mark.full
def test_nothing_is_made_of_what_cannot_be(shop: Shop) -> None:
    shop.make(10, "id, id % 7 AS v, CAST(1 AS DOUBLE) AS d, named_struct('x', 1) AS s")
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    refused: list[tuple[str, type[TidefillError], str]] = [
        ("events (mail)", BadInput, "events has no column mail"),
        ("events (v) INCLUDE (mail)", BadInput, "events has no column mail"),
        ("events (lower(mail))", TidefillError, "Spark does not take the query"),
        ("events (rand())", UnsupportedQuery, "something else each time"),
        ("events (d)", UnsupportedKey, "column d of type double"),
        ("events (s)", UnsupportedKey, "column s of type struct"),
        ("nobody (v)", UnknownTable, "there is no table nobody"),
        ("shop.public.orders (v)", UnknownTable, "there is no connection shop"),
        ("events (v) WITH (method = initput)", InvalidSetting, "method is for indexes on a server"),
        ("events (v) WITH (abort_waiting = on)", InvalidSetting, "abort_waiting is for indexes on a server"),
        ("events (v) WITH (refresh = full)", InvalidSetting, "refresh cannot become full"),
    ]
    for text, kind, says in refused:
        with pytest.raises(kind, match=says):
            engine.execute(f"CREATE INDEX ix ON {text}")
    assert engine.jobs() == []


@pytest.mark.full
def test_a_lookup_reads_few_files(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "ROWS_IN_A_FILE_MAX", 100)
    monkeypatch.setattr(layout, "FILE_BYTES", 2000)
    monkeypatch.setattr(backfill, "TIDY_EVERY", 4)
    shop.make(6400, f"id, id % 7 AS v, {EMAIL}")
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    engine.execute(MAKE)
    job = engine.job("by_email").wait(300)
    assert len(engine.table("by_email").inputFiles()) >= 64
    assert files_read(shop, "by_email", "email = 'user01234'") <= FEW_FILES
    for step in range(3):
        shop.sql(f"UPDATE SOURCE SET v = v + 1, email = concat(email, '+{step}') WHERE id % 640 = {step}")
        engine.run_once()
    assert [text for _, text in job.events() if "failed" in text] == []
    shop.expect("by_email", "SELECT email, id, v FROM SOURCE")
    assert files_read(shop, "by_email", "email = 'user01234'") <= FEW_FILES
    history = shop.spark.sql(f"DESCRIBE HISTORY delta.`{_path(shop)}`").collect()
    assert [row.operationParameters["clusterBy"] for row in history if row.operation == "OPTIMIZE"] == ['["email"]']
    assert len(engine.table("by_email").inputFiles()) >= 20, "it was not put into one file"


def _path(shop: Shop) -> str:
    """Of the only target."""
    (log,) = shop.warehouse.glob("**/_delta_log")
    return str(log.parent)


@pytest.mark.full
def test_a_unique_index_counts_the_keys_that_move_come_and_go(shop: Shop) -> None:
    shop.make(60, "id, id % 7 AS v, concat('n', id) AS name")
    engine = shop.engine
    engine.register("events", location=shop.source, key="id")
    shop.sql("UPDATE SOURCE SET name = 'n1', v = 3 WHERE id IN (2, 3)")
    shop.sql("UPDATE SOURCE SET name = NULL WHERE id IN (7, 8)")
    job = engine.create_index("by_name", "events", ["name", "v"], unique=True, refresh="incremental").wait(300)
    assert job.status().violated == 1
    assert "by_name: live, VIOLATED (1 key), 100%" in str(job.status())
    assert job.violations() == [("(n1, 3)", 2, "(2)")]
    shop.sql("UPDATE SOURCE SET v = 5 WHERE id = 3")  # the key of a row moves away
    shop.sql(
        "INSERT INTO SOURCE VALUES (100, 4, 'n4'), (101, 4, 'n4'), (102, 1, NULL), (103, 1, NULL), (104, 3, 'n10')"
    )
    engine.run_once()
    assert facts_of(shop, "SHOW JOB by_name")["condition"] == "VIOLATED (2 keys)"
    assert engine.execute("SHOW VIOLATIONS by_name").rows == (("(n4, 4)", 3, "(4)"), ("(n10, 3)", 2, "(10)"))
    assert engine.execute("SHOW INDEXES").rows[0][-1] == "VIOLATED (2 keys)"
    _counted_again_after_a_crash(shop)
    shop.sql("DELETE FROM SOURCE WHERE id IN (4, 10, 101)")
    engine.run_once()
    assert (job.status().violated, job.status().condition) == (0, "")
    assert engine.execute("SHOW VIOLATIONS by_name").message == "no violations"
    told = [text for _, text in job.events() if "VIOLATED" in text or "clean" in text]
    assert told == ["VIOLATED (1 key): several rows have one key; SHOW VIOLATIONS lists them",
                    "clean again: no two rows have one key"]  # fmt: skip
    assert job.verify().differences == ()


def _counted_again_after_a_crash(shop: Shop) -> None:
    """A runner that died between its commit and its report leaves a condition of an older step."""
    store, row = shop.engine._store, shop.engine.job("by_name")._row()
    stale = Condition(7, row.generation_uuid, 1)
    store.change(row.id, lambda job: replace(job, condition=condition_to_text(stale)))
    shop.engine.run_once()
    assert shop.engine.job("by_name").status().violated == 2
