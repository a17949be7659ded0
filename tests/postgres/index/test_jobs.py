"""An index is a job like any other: created by SQL, run by the runner, paused, failed, resumed, built anew, dropped."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import tidefill
from tests.postgres.harness import Postgres
from tidefill.engine.engine import Engine
from tidefill.engine.job import Job
from tidefill.errors import (
    BadInput,
    InvalidSetting,
    JobFailed,
    NameTaken,
    TidefillError,
    UnsupportedKey,
    UnsupportedQuery,
    UpstreamUnfit,
)
from tidefill.testing.turns import turns

WAIT_S = 60.0


@pytest.fixture
def engine(postgres: Postgres, table: str, tmp_path: Path) -> Iterator[Engine]:
    with tidefill.connect(None, tmp_path / "lake", tmp_path / "store", {"shop": postgres.server.url()}) as made:
        yield made
        for job in made.jobs():
            job.drop()
        made.run_once(ends_soon())
        assert not made.uses_spark


@pytest.fixture
def table(postgres: Postgres) -> Iterator[str]:
    """A table with 1,000 rows in two partitions."""
    name = f"orders_{uuid.uuid4().hex[:8]}"
    columns = "id int, region int, email text, note text, PRIMARY KEY (id, region)"
    postgres.execute(f"CREATE TABLE {name} ({columns}) PARTITION BY LIST (region)")
    for region in (0, 1):
        postgres.execute(f"CREATE TABLE {name}_{region} PARTITION OF {name} FOR VALUES IN ({region})")
    postgres.execute(f"INSERT INTO {name} SELECT n, n % 2, 'u' || n FROM generate_series(1, 1000) n")
    yield name
    postgres.execute(f"DROP TABLE {name} CASCADE")


def made_on_the_server(postgres: Postgres, table: str) -> tuple[int, object]:
    """How many triggers of ours the table has, and the schema of ours."""
    triggers = f"SELECT count(*) FROM pg_trigger WHERE tgname LIKE '!%' AND tgrelid = '{table}'::regclass"
    ((count,),) = postgres.execute(triggers)
    ((schema,),) = postgres.execute("SELECT to_regnamespace('tidefill')")
    return count, schema


def test_it_lives_from_create_to_drop(engine: Engine, postgres: Postgres, table: str) -> None:
    told = engine.execute(f"CREATE UNIQUE INDEX ix_{table} ON shop.public.{table} (email)")
    assert "created" in told.message
    job = engine.job(f"ix_{table}").wait(WAIT_S)
    assert postgres.execute(f"SELECT id, region FROM ix_{table} WHERE email = 'u7'") == [(7, 1)]
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres.execute(f"INSERT INTO {table} VALUES (5000, 0, 'u7')")
    status = job.status()
    assert (status.kind, status.state, status.phase, status.percent) == ("index", "live", "READ_WRITE_AND_DELETE", 100)
    rows = engine.execute(f"SHOW INDEXES ON shop.{table}").rows
    assert [row[:3] for row in rows] == [(f"ix_{table}", f"shop.public.{table}", "email")]
    assert "equal to a recompute, 1000 rows" in engine.execute(f"VERIFY ix_{table}").message
    assert engine.execute(f"CREATE UNIQUE INDEX ix_{table} ON shop.{table} (email)").jobs == (job,)
    engine.execute(f"DROP INDEX ix_{table}")
    engine.run_once(ends_soon())
    assert made_on_the_server(postgres, table) == (0, None)
    assert engine.jobs() == []


ASKS = """
import sys, tidefill
lake, store, url, table = sys.argv[1:]
with tidefill.connect(None, lake, store, {"shop": url}) as engine:
    engine.create_index("asked", f"shop.{table}", "email", unique=True, rate_limit=1, chunk_rows=1).wait(600)
"""


def test_who_asked_for_it_is_killed(engine: Engine, postgres: Postgres, table: str, tmp_path: Path) -> None:  # Y13
    words = [str(tmp_path / "lake"), str(tmp_path / "store"), postgres.server.url(), table]
    with subprocess.Popen([sys.executable, "-c", ASKS, *words]) as process:
        until_s = time.monotonic() + WAIT_S
        while not any(job.status().rows for job in engine.jobs()):
            assert process.poll() is None
            assert time.monotonic() < until_s, "it did not begin"
            time.sleep(0.02)
        process.kill()
    job = engine.job("asked")
    assert job.status().state == "backfilling"
    job.alter(rate_limit=None, chunk_rows=None)
    job.wait(WAIT_S)
    assert job.verify().differences == ()
    assert job.status().rows == 1000


def test_duplicates_fail_it_and_resume_builds_it(engine: Engine, postgres: Postgres, table: str) -> None:
    postgres.execute(f"INSERT INTO {table} VALUES (2000, 0, 'u1'), (2001, 1, 'u1'), (2002, 0, 'u2')")
    job = engine.create_index("twice", f"shop.{table}", "email", unique=True)
    with pytest.raises(JobFailed, match="2 keys"):
        job.wait(WAIT_S)
    assert job.violations() == [("(u1)", 3, "(1,1), (2000,0), (2001,1)"), ("(u2)", 2, "(2,0), (2002,0)")]
    assert engine.execute("SHOW VIOLATIONS twice").rows[0] == ("(u1)", 3, "(1,1), (2000,0), (2001,1)")
    postgres.execute(f"INSERT INTO {table} VALUES (2003, 0, 'u1')")
    postgres.execute(f"DELETE FROM {table} WHERE id >= 2000")
    job.resume()
    job.wait(WAIT_S)
    assert job.verify().differences == ()
    assert job.violations() == []


def test_it_is_built_anew_beside_the_old_one(engine: Engine, postgres: Postgres, table: str) -> None:
    job = engine.create_index("anew", f"shop.{table}", "email", unique=True).wait(WAIT_S)
    job.resync()
    job.wait(WAIT_S)
    assert job.status().generation == 2
    assert postgres.execute("SELECT count(*) FROM tidefill.indexes") == [(1,)]
    with pytest.raises(psycopg.errors.UniqueViolation):
        postgres.execute(f"INSERT INTO {table} VALUES (5000, 0, 'u7')")
    assert postgres.execute("SELECT count(*) FROM anew") == [(1000,)]


def test_a_disabled_trigger_is_found_and_mended_by_resync(engine: Engine, postgres: Postgres, table: str) -> None:
    job = engine.create_index("broken", f"shop.{table}", "email").wait(WAIT_S)
    ((guard,),) = postgres.execute("SELECT quote_ident(evtname) FROM pg_event_trigger WHERE evtname LIKE '!ix%'")
    with pytest.raises(psycopg.errors.ObjectInUse, match='global index "broken" needs its trigger'):
        postgres.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    postgres.execute(f"DROP EVENT TRIGGER {guard}")
    postgres.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    engine.run_once(ends_soon())
    failure = job.status().failure
    assert failure is not None
    assert failure.code == "INDEX_BROKEN"
    postgres.execute(f"ALTER TABLE {table} ENABLE TRIGGER ALL")
    job.resync()
    job.wait(WAIT_S)
    assert job.verify().differences == ()


def test_it_is_cancelled_in_the_middle(engine: Engine, postgres: Postgres, table: str) -> None:
    job = engine.create_index("half", f"shop.{table}", "email", chunk_rows=10)
    turns(engine, 6)
    assert job.status().phase == "BACKFILLING"
    assert made_on_the_server(postgres, table)[0] > 0
    job.cancel()
    engine.run_once(ends_soon())
    assert made_on_the_server(postgres, table) == (0, None)
    assert engine.jobs() == []


def test_a_drop_waits_for_those_who_write_and_names_them(engine: Engine, postgres: Postgres, table: str) -> None:
    job = engine.create_index("held", f"shop.{table}", "email").wait(WAIT_S)
    with psycopg.connect(postgres.server.url(), application_name="slow writer") as writer:
        writer.execute(f"UPDATE {table} SET note = 'x' WHERE id = 1")
        job.drop()
        turns(engine, 4)
        status = job.status()
        assert status.waits_for == "WAITING_FOR_TRANSACTIONS"
        assert "slow writer" in status.waiting
    engine.run_once(ends_soon())
    assert engine.jobs() == []
    assert made_on_the_server(postgres, table) == (0, None)


@pytest.mark.parametrize("live", [True, False])
def test_a_table_that_is_dropped_takes_the_index_along(
    engine: Engine, postgres: Postgres, table: str, live: bool
) -> None:  # Y16
    job = engine.create_index("gone", f"shop.{table}", "email", chunk_rows=10)
    if live:
        job.wait(WAIT_S)
    else:
        turns(engine, 6)
    postgres.execute(f"DROP TABLE {table} CASCADE")
    try:
        engine.run_once(ends_soon())
        failure = job.status().failure
        assert failure is not None
        job.drop()
        engine.run_once(ends_soon())
        assert engine.jobs() == []
        assert postgres.execute("SELECT to_regnamespace('tidefill')") == [(None,)]
    finally:
        postgres.execute(f"CREATE TABLE {table} (id int)")


def ends_soon() -> threading.Event:
    """Set after a minute: a run that does not end is stopped, and the test sees what it has not done."""
    stop = threading.Event()
    timer = threading.Timer(WAIT_S, stop.set)
    timer.daemon = True
    timer.start()
    return stop


def test_a_wait_for_others_has_an_end(engine: Engine, postgres: Postgres, table: str) -> None:
    with slow_writer(engine, postgres, table, "wait_timeout = '0 seconds'") as (job, writer):
        with pytest.raises(JobFailed) as caught:
            job.wait(WAIT_S)
        assert "[WAITING_FOR_TRANSACTIONS]" in caught.value.detail
        assert "slow writer" in caught.value.detail
        writer.rollback()
        job.resume()
        job.wait(WAIT_S)
        assert job.verify().differences == ()


def test_those_who_are_waited_for_are_ended_if_asked(engine: Engine, postgres: Postgres, table: str) -> None:
    with slow_writer(engine, postgres, table, "wait_timeout = '0 seconds', abort_waiting = on") as (job, writer):
        job.wait(WAIT_S)
        assert writer.broken or _is_ended(writer)
        assert job.verify().differences == ()


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
def test_a_log_that_grows_too_large_is_given_up(engine: Engine, postgres: Postgres, table: str, paused: bool) -> None:
    engine.execute(f"CREATE UNIQUE INDEX logs ON shop.{table} (email) WITH (log_limit = '200 kB', rate_limit = 0)")
    job = engine.job("logs")
    turns(engine, 6)
    assert (job.status().waits_for, job.status().settings.log_limit) == ("RATE_LIMIT", 200 << 10)
    if paused:
        job.pause()
        turns(engine, 1)
    for _ in range(3):
        postgres.execute(f"UPDATE {table} SET email = email || repeat('x', 300)")
    turns(engine, 1)
    failure = job.status().failure
    assert failure is not None
    assert failure.code == "LOG_TOO_LARGE"
    assert "200 kB are allowed" in failure.detail
    body = postgres.execute("SELECT body, to_regclass('tidefill.' || id || '_log1') FROM tidefill.indexes")
    assert body == [("ABSENT", None)], "writers are left alone, and the log is gone"
    if not paused:
        job.alter(log_limit=None, rate_limit=None)
        job.resume()
        job.wait(WAIT_S)
        assert job.verify().differences == ()


@contextmanager
def slow_writer(
    engine: Engine, postgres: Postgres, table: str, words: str
) -> Iterator[tuple[Job, psycopg.Connection[Any]]]:
    """An index that is installed, and somebody who writes since before its next change of state."""
    with psycopg.connect(postgres.server.url(), application_name="slow writer") as writer:
        engine.execute(f"CREATE INDEX patient ON shop.{table} (email) WITH (method = initput, {words})")
        turns(engine, 1)
        writer.execute(f"UPDATE {table} SET note = 'x' WHERE id = 1")
        yield engine.job("patient"), writer


def _is_ended(session: psycopg.Connection[Any]) -> bool:
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    return True


def test_a_pause_holds_it_at_a_chunk(engine: Engine, postgres: Postgres, table: str) -> None:
    job = engine.create_index("slow", f"shop.{table}", "email", chunk_rows=100)
    turns(engine, 5)
    job.pause()
    turns(engine, 3)
    rows = job.status().rows
    assert 0 < rows < 1000
    turns(engine, 3)
    assert job.status().rows == rows
    postgres.execute(f"UPDATE {table} SET email = 'other' WHERE id = 5")
    job.resume()
    job.wait(WAIT_S)
    assert job.verify().differences == ()


def test_no_rows_are_filled_at_a_rate_of_none(engine: Engine, table: str) -> None:
    job = engine.create_index("none", f"shop.{table}", "email", rate_limit=0)
    turns(engine, 8)
    assert (job.status().rows, job.status().waits_for) == (0, "RATE_LIMIT")
    job.alter(rate_limit=None)
    job.wait(WAIT_S)


def test_what_is_explained(engine: Engine, table: str) -> None:
    rest = "(lower(email)) INCLUDE (note) WHERE id > 5 WITH (method = initput)"
    found = engine.execute(f"EXPLAIN CREATE UNIQUE INDEX e ON shop.{table} {rest}")
    assert ("key", "lower(email) (unique, across all partitions)") in found.rows
    assert isinstance(found.document, dict)
    document = json.loads(json.dumps(found.document))
    assert document["columns"] == ["lower(email)"]
    assert (document["method"], document["partitions"], document["unique"]) == ("initput", 2, True)
    assert document["bytes"]["entries"] > document["rows"] > 0
    assert document["missing_rights"] == []
    assert any(name == "size" and str(text).startswith("at most some ") for name, text in found.rows)
    assert engine.jobs() == []


NULLS = "NULLS NOT DISTINCT"


@pytest.mark.parametrize("words", [f"(note) {NULLS} INCLUDE (email)", f"(note) INCLUDE (email) {NULLS}"])
def test_equal_nulls_are_told(engine: Engine, table: str, words: str) -> None:
    rest = f"INDEX e ON shop.{table} {words} WHERE id > 5"
    found = engine.execute(f"EXPLAIN CREATE UNIQUE {rest}")
    assert ("key", "note (unique, across all partitions; NULLs are equal)") in found.rows
    assert isinstance(found.document, dict)
    assert found.document["nulls_not_distinct"] is True
    with pytest.raises(BadInput, match="for unique indexes"):
        engine.execute(f"CREATE {rest}")
    job = engine.execute(f"CREATE UNIQUE {rest}").jobs[0]
    assert engine.execute(f"SHOW INDEXES ON shop.{table}").rows[0][:4] == (
        "e", f"shop.public.{table}", "note", NULLS,
    )  # fmt: skip
    more: dict[str, Any] = {"unique": True, "include": "email", "where": "id > 5"}
    assert engine.create_index("e", f"shop.{table}", "note", nulls_not_distinct=True, **more).id == job.id
    with pytest.raises(NameTaken):
        engine.create_index("e", f"shop.{table}", "note", **more)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("nobody.t (email)", BadInput),
        ("shop.{table} (nothing)", BadInput),
        ("shop.{table} ((random()))", UnsupportedKey),
        ("shop.{table} (email) INCLUDE (nothing)", BadInput),
        ("shop.{table} (email) WHERE email >", BadInput),
        ("shop.{table} (email) WITH (method = 'other')", BadInput),
        ("shop.{table} (email) WITH (target_lag = 5)", InvalidSetting),
        ("shop.{table} (email) WITH (parallelism = 500)", InvalidSetting),
        ("shop.no_such_table (email)", BadInput),
        ("shop.pg_catalog.pg_class (relname)", UpstreamUnfit),
    ],
)
def test_bad_input_is_refused_and_nothing_is_made(
    engine: Engine, postgres: Postgres, table: str, words: str, error: type[TidefillError]
) -> None:
    with pytest.raises(error) as caught:
        engine.execute(f"CREATE INDEX bad ON {words.format(table=table)}")
    assert caught.value.hint or caught.value.detail
    assert engine.jobs() == []
    assert made_on_the_server(postgres, table) == (0, None)


def test_names_that_are_taken(engine: Engine, table: str) -> None:
    with pytest.raises(NameTaken):
        engine.create_index(f"{table}_1", f"shop.{table}", "email")
    engine.create_index("first", f"shop.{table}", "email")
    with pytest.raises(NameTaken):
        engine.create_index("first", f"shop.{table}", "id")


def test_it_is_not_read_by_spark(engine: Engine, table: str) -> None:
    engine.create_index("far", f"shop.{table}", "email")
    with pytest.raises(UnsupportedQuery, match="read on its server"):
        engine.table("far")


def test_a_build_that_is_stopped_on_the_server_is_not_begun_again_unasked(
    engine: Engine, postgres: Postgres, table: str
) -> None:
    job = engine.create_index("halted", f"shop.{table}", "email", chunk_rows=10)
    turns(engine, 6)
    assert postgres.execute("SELECT tidefill.stop('halted')") == [(1,)]
    engine.run_once(ends_soon())
    failure = job.status().failure
    assert failure is not None
    assert (failure.code, "tidefill.stop" in failure.fact) == ("INDEX_BROKEN", True)
    job.resume()
    job.wait(WAIT_S)
    assert job.verify().differences == ()


def test_what_is_stopped_on_the_server_refuses_nobody(engine: Engine, postgres: Postgres, table: str) -> None:
    engine.create_index("stopped", f"shop.{table}", "email", unique=True).wait(WAIT_S)
    assert postgres.execute("SELECT tidefill.stop('stopped')") == [(1,)]
    postgres.execute(f"INSERT INTO {table} VALUES (5000, 0, 'u7')")
    engine.run_once(ends_soon())
    failure = engine.job("stopped").status().failure
    assert failure is not None
    assert failure.code == "INDEX_BROKEN"
