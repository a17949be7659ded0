"""Several indexes of one job: one scan, and each fails, is dropped and is built again by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tidefill
from tests.postgres.harness import Postgres
from tests.postgres.index.test_jobs import WAIT_S, ends_soon, engine, made_on_the_server, table
from tidefill.engine.engine import Engine
from tidefill.engine.job import Job
from tidefill.errors import BadInput, BadSql, InvalidSetting, JobFailed, NameTaken, WrongState
from tidefill.indexes.pressure import Signals
from tidefill.indexes.states import Method
from tidefill.postgres.index import filling, pressure
from tidefill.postgres.index.session import IndexSession
from tidefill.testing.turns import turns

__all__ = ["engine", "table"]  # fixtures

METHODS = pytest.mark.parametrize("method", [method.value for method in Method])


def several(engine: Engine, table: str, **settings: Any) -> Job:
    indexes: dict[str, dict[str, Any]] = {
        f"{table}_email": {"columns": "email", "unique": True},
        f"{table}_note": {"columns": "note", "unique": True, "where": "note IS NOT NULL"},
        f"{table}_region": {"columns": ["region", "lower(email)"], "include": "note"},
    }
    return engine.create_indexes(f"{table}_all", f"shop.{table}", indexes, **settings)


@METHODS
def test_they_live_and_go_by_one_job(engine: Engine, postgres: Postgres, table: str, method: str) -> None:
    job = several(engine, table, chunk_rows=300, method=method).wait(WAIT_S)
    status = job.status()
    assert (status.state, status.percent, [part.failure for part in status.parts]) == ("live", 100, ["", "", ""])
    assert {part.phase for part in status.parts} == {"READ_WRITE_AND_DELETE"}
    assert postgres.execute(f"SELECT id FROM {table}_email WHERE email = 'u7'") == [(7,)]
    assert postgres.execute(f"SELECT count(*) FROM {table}_region") == [(1000,)]
    assert postgres.execute(f"SELECT count(*) FROM {table}_note") == [(0,)]
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres.execute(f"INSERT INTO {table} VALUES (5000, 0, 'u7')")
    assert job.verify().differences == ()
    assert engine.job(f"{table}_note").id == job.id
    shown = engine.execute(f"SHOW INDEXES ON shop.{table}").rows
    assert [(row[0], row[4], row[6]) for row in shown] == [
        (f"{table}_{name}", "live", 100) for name in ("email", "note", "region")
    ]
    assert several(engine, table, method=method).id == job.id
    engine.execute(f"DROP JOB {table}_all")
    engine.run_once(ends_soon())
    assert made_on_the_server(postgres, table) == (0, None)
    assert engine.jobs() == []


def test_one_scan_fills_all(engine: Engine, postgres: Postgres, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = list[int]()
    fill = filling.fill_together

    def counting(*words: object) -> object:
        counted.append(len(words[1]))  # type: ignore[arg-type]
        return fill(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(filling, "fill_together", counting)
    monkeypatch.setattr(filling, "fill_chunk", lambda *_: pytest.fail("a scan for one index"))
    several(engine, table, chunk_rows=300).wait(WAIT_S)
    assert counted == [3, 3, 3, 3]


def test_others_that_wait_for_a_shared_chunk_slow_it(
    engine: Engine, postgres: Postgres, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, signals = list[int](), pressure.signals

    def noted(session: IndexSession, blocked: int, log_share: float) -> Signals:
        seen.append(blocked)
        return signals(session, 0, log_share)

    monkeypatch.setattr(pressure, "blocked", lambda connection: 3)
    monkeypatch.setattr(pressure, "signals", noted)
    monkeypatch.setattr("tidefill.indexes.pressure.LOOK_S", 0.0)
    several(engine, table, chunk_rows=600).wait(WAIT_S)
    assert set(seen) == {0, 3}


def test_one_fails_and_the_others_live(engine: Engine, postgres: Postgres, table: str) -> None:  # C14
    postgres.execute(f"UPDATE {table} SET note = 'same' WHERE id IN (1, 2, 3)")
    job = several(engine, table, chunk_rows=300).wait(WAIT_S)
    failures = {part.name: part.failure for part in job.status().parts}
    assert [bool(failures[f"{table}_{name}"]) for name in ("email", "note", "region")] == [False, True, False]
    assert "DUPLICATE_KEYS" in failures[f"{table}_note"]
    assert engine.execute(f"SHOW VIOLATIONS {table}_note").rows == (("(same)", 3, "(1,1), (2,0), (3,1)"),)
    assert engine.execute(f"SHOW VIOLATIONS {table}_email").rows == ()
    postgres.execute(f"INSERT INTO {table} VALUES (5000, 0, 'new', 'same')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres.execute(f"INSERT INTO {table} VALUES (5001, 0, 'u7')")
    assert job.verify().differences == ()
    postgres.execute(f"UPDATE {table} SET note = NULL WHERE note = 'same'")
    engine.execute(f"RESUME JOB {table}_all")
    job.wait(WAIT_S)
    assert [part.failure for part in job.status().parts] == ["", "", ""]
    assert job.verify().differences == ()
    events = [text for _, text in job.events()]
    assert "what had failed is built again" in events
    assert any(text.startswith(f"{table}_note failed: ") for text in events)


def test_a_value_stops_one_of_them(engine: Engine, postgres: Postgres, table: str) -> None:
    indexes = {f"{table}_a": {"columns": "email"}, f"{table}_b": {"columns": "(1 / (id - 500))"}}
    job = engine.create_indexes(f"{table}_two", f"shop.{table}", indexes, chunk_rows=100).wait(WAIT_S)
    first, second = job.status().parts
    assert first.failure == ""
    assert "KEY_UNINDEXABLE" in second.failure
    assert postgres.execute(f"SELECT count(*) FROM {table}_a") == [(1000,)]


def test_all_fail_then_the_job_does(engine: Engine, postgres: Postgres, table: str) -> None:
    indexes = {f"{table}_{name}": {"columns": "region", "unique": True} for name in ("x", "y")}
    job = engine.create_indexes(f"{table}_two", f"shop.{table}", indexes)
    with pytest.raises(JobFailed, match="none of the indexes"):
        job.wait(WAIT_S)
    postgres.execute(f"DELETE FROM {table} WHERE id > 2")
    job.resume()
    job.wait(WAIT_S)
    assert [part.failure for part in job.status().parts] == ["", ""]
    assert job.verify().differences == ()


def test_a_part_is_dropped_and_its_name_is_free(engine: Engine, postgres: Postgres, table: str) -> None:
    job = several(engine, table).wait(WAIT_S)
    triggers, _ = made_on_the_server(postgres, table)
    engine.execute(f"DROP INDEX {table}_note")
    engine.run_once(ends_soon())
    assert job.part_names() == (f"{table}_email", f"{table}_region")
    assert made_on_the_server(postgres, table)[0] * 3 == triggers * 2
    assert postgres.execute(f"SELECT to_regclass('{table}_note')") == [(None,)]
    engine.execute(f"CREATE INDEX {table}_note ON shop.{table} (note)")
    engine.job(f"{table}_note").wait(WAIT_S)
    assert engine.job(f"{table}_note").id != job.id
    engine.execute(f"DROP INDEX {table}_email")
    engine.execute(f"DROP INDEX {table}_region")
    engine.run_once(ends_soon())
    assert [one.name for one in engine.jobs()] == [f"{table}_note"]


def test_the_last_one_that_lives_is_dropped_while_somebody_writes(
    engine: Engine, postgres: Postgres, table: str
) -> None:
    indexes: dict[str, dict[str, Any]] = {
        f"{table}_a": {"columns": "email"}, f"{table}_b": {"columns": "region", "unique": True},
    }  # fmt: skip
    job = engine.create_indexes(f"{table}_two", f"shop.{table}", indexes).wait(WAIT_S)
    with psycopg.connect(postgres.server.url()) as writer:
        writer.execute(f"UPDATE {table} SET note = 'x' WHERE id = 1".encode())
        engine.execute(f"DROP INDEX {table}_a")
        turns(engine, 6)
        status = job.status()
        assert (status.state, status.waits_for) == ("live", "WAITING_FOR_TRANSACTIONS")
    engine.run_once(ends_soon())
    turns(engine, 1)
    failure = job.status().failure
    assert failure is not None
    assert failure.code == "ALL_PARTS_FAILED"
    assert made_on_the_server(postgres, table)[0] == 0


def test_they_are_built_anew_beside_the_old_ones(engine: Engine, postgres: Postgres, table: str) -> None:
    job = several(engine, table).wait(WAIT_S)
    job.resync()
    job.wait(WAIT_S)
    assert postgres.execute("SELECT count(*) FROM tidefill.indexes") == [(3,)]
    assert job.verify().differences == ()


def test_a_runner_goes_on_where_another_stopped(engine: Engine, postgres: Postgres, table: str, tmp_path: Path) -> None:
    job = several(engine, table, chunk_rows=100)
    turns(engine, 12)
    halfway = job.status().rows
    assert 0 < halfway < 1000
    url = {"shop": postgres.server.url()}
    with tidefill.connect(None, tmp_path / "lake", tmp_path / "store", url) as other:
        other.job(f"{table}_all").wait(WAIT_S)
    assert job.verify().differences == ()
    assert postgres.execute("SELECT max(count) FROM (SELECT count(*) FROM tidefill.index_chunks GROUP BY id) q") == [
        (11,)
    ]


def test_deferred_ones_are_begun_together(engine: Engine, postgres: Postgres, table: str) -> None:
    on = f"ON shop.{table}"
    engine.execute(f"CREATE UNIQUE INDEX {table}_a {on} (email) WITH (start = deferred)")
    engine.execute(f"CREATE INDEX {table}_b {on} (note) WITH (start = deferred)")
    engine.run_once(ends_soon())
    assert engine.job(f"{table}_a").status().waits_for == "DEFERRED"
    assert made_on_the_server(postgres, table)[0] == 0
    with pytest.raises(WrongState, match="deferred"):
        engine.job(f"{table}_a").wait(WAIT_S)
    told = engine.execute(f"BACKFILL INDEXES {on}")
    (job,) = told.jobs
    assert job.name == f"{table}_indexes"
    assert job.part_names() == (f"{table}_a", f"{table}_b")
    assert [one.name for one in engine.jobs()] == [job.name]
    job.wait(WAIT_S)
    assert postgres.execute(f"SELECT id FROM {table}_a WHERE email = 'u7'") == [(7,)]
    assert "nothing to do" in engine.execute(f"BACKFILL INDEXES {on}").message


def test_one_that_is_deferred_begins_by_itself_and_goes_without_a_trace(
    engine: Engine, postgres: Postgres, table: str
) -> None:
    job = engine.create_index(f"{table}_a", f"shop.{table}", "email", start="deferred")
    turns(engine, 3)
    job.drop()
    engine.run_once(ends_soon())
    assert made_on_the_server(postgres, table) == (0, None)
    again = engine.create_index(f"{table}_a", f"shop.{table}", "email", start="deferred")
    assert engine.backfill_indexes(f"shop.{table}") == again
    again.wait(WAIT_S)


def test_what_is_refused(engine: Engine, table: str) -> None:
    on = f"shop.{table}"
    engine.create_index(f"{table}_taken", on, "email", start="deferred")
    cases: list[tuple[Callable[[], object], type[Exception], str]] = [
        (lambda: engine.create_indexes("x", on, {f"{table}_taken": {"columns": "note"}}), NameTaken, "taken"),
        (lambda: engine.create_indexes("x", on, {"x": {"columns": "note"}}), InvalidSetting, "one name"),
        (lambda: engine.create_indexes("x", on, {}), BadInput, "no index is named"),
        (lambda: engine.create_indexes("x", on, {"y": {"unique": True}}), BadInput, "no columns"),
        (lambda: engine.create_indexes("x", on, {"y": {"columns": "a", "uniqe": True}}), BadInput, "uniqe"),
        (lambda: engine.create_indexes("x", on, {"y": {"columns": "nope"}}), BadInput, "nope"),
        (lambda: engine.create_index("x", on, "note", start="later"), InvalidSetting, "later"),
        (lambda: engine.execute(f"CREATE INDEXES x ON {on} ()"), BadSql, "name"),
    ]
    for create, error, text in cases:
        with pytest.raises(error, match=text):
            create()
    assert [job.name for job in engine.jobs()] == [f"{table}_taken"]


def test_the_statement_is_explained(engine: Engine, table: str) -> None:
    parts = f"UNIQUE {table}_a (email), {table}_b (lower(note), region) INCLUDE (email) WHERE note IN ('a', 'b')"
    told = engine.execute(f"EXPLAIN CREATE INDEXES {table}_all ON shop.{table} ({parts}) WITH (method = initput)")
    facts = [value for name, value in told.rows if name == "index"]
    assert facts == [f"{table}_a", f"{table}_b"]
    assert ("rows with", "note IN ('a', 'b')") in told.rows
    assert engine.jobs() == []
