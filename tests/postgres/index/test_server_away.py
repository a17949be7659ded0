"""The server goes down while an index is built, dropped, or given up: nothing is left of it when the server is back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.postgres.harness import Postgres
from tests.postgres.index.test_jobs import WAIT_S, ends_soon, engine, made_on_the_server, table
from tidefill import connect
from tidefill.engine.engine import Engine
from tidefill.errors import JobFailed
from tidefill.jobs.lifecycle import Life
from tidefill.postgres.index import filling
from tidefill.postgres.index.machine import IndexMachine
from tidefill.run.scheduler import Scheduler
from tidefill.testing.turns import turns

__all__ = ["engine", "table"]  # fixtures


class Away:
    """The server, which a test takes down at some moment."""

    def __init__(self, postgres: Postgres) -> None:
        self.postgres = postgres
        self.is_down = False

    def goes(self) -> None:
        """As if the power had failed."""
        self.postgres.server.stop("immediate")
        self.is_down = True

    def is_back(self) -> None:
        if self.is_down:
            self.postgres.server.start()
            self.postgres.reconnect()
            self.is_down = False

    def before(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        """It goes when that is called for the first time."""
        right: Callable[..., Any] = getattr(owner, name)

        def called(*words: Any, **more: Any) -> Any:
            monkeypatch.setattr(owner, name, right)
            self.goes()
            return right(*words, **more)

        monkeypatch.setattr(owner, name, called)


@pytest.fixture
def away(postgres: Postgres) -> Iterator[Away]:
    made = Away(postgres)
    yield made
    made.is_back()


@pytest.fixture
def by_spark(spark: SparkSession, postgres: Postgres, table: str, tmp_path: Path) -> Iterator[Engine]:
    with connect(spark, tmp_path / "lake", tmp_path / "store", {"shop": postgres.server.url()}) as made:
        yield made


def half_built(engine: Engine, table: str, **settings: Any) -> Any:
    job = engine.create_index(f"ix_{table}", f"shop.{table}", "email", unique=True, chunk_rows=200, **settings)
    while not job.status().rows:
        turns(engine, 1)
    return job


def taken(scheduler: Scheduler, engine: Engine, job_id: str) -> None:
    """One turn, however long the job was told to wait before it."""
    row = engine._store.job(job_id)
    assert row is not None
    scheduler.turn(row)


def until_it_goes(engine: Engine, away: Away, job_id: str) -> None:
    """Take turns until the server is down."""
    scheduler, until_s = engine.scheduler(), time.monotonic() + WAIT_S
    with scheduler.alive():
        while not away.is_down:
            assert time.monotonic() < until_s
            taken(scheduler, engine, job_id)


def check_dropped_while_away(engine: Engine, away: Away, table: str, tmp_path: Path, **settings: Any) -> None:
    job = half_built(engine, table, **settings)
    away.goes()
    job.drop()
    scheduler = engine.scheduler()
    with scheduler.alive():
        for _ in range(3):
            taken(scheduler, engine, job.id)
    row = engine._store.job(job.id)
    assert row is not None
    assert row.life in (Life.CANCELLING, Life.DROPPED)
    assert row.resources, "what is left stays listed"
    away.is_back()
    engine._clock.now_s = lambda: time.time() + 1000  # type: ignore[method-assign]
    engine.run_once(ends_soon())
    assert engine.jobs() == []
    assert made_on_the_server(away.postgres, table) == (0, None)
    lake = tmp_path / "lake"
    assert not lake.exists() or list(lake.iterdir()) == []


def test_it_is_dropped_while_the_server_is_away(engine: Engine, away: Away, table: str, tmp_path: Path) -> None:
    check_dropped_while_away(engine, away, table, tmp_path)


@pytest.mark.full
def test_it_is_dropped_with_staged_files(by_spark: Engine, away: Away, table: str, tmp_path: Path) -> None:
    check_dropped_while_away(by_spark, away, table, tmp_path, sort="spark")


def check_given_up_while_away(
    engine: Engine, away: Away, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **settings: Any
) -> None:
    """The duplicates are found, and the server goes before the trigger is stopped."""
    away.postgres.execute(f"INSERT INTO {table} VALUES (2000, 0, 'u1')")
    job = half_built(engine, table, **settings)
    away.before(monkeypatch, IndexMachine, "abandon")
    until_it_goes(engine, away, job.id)
    assert job.status().state == "backfilling", "it cannot fail before it harms nobody"
    away.is_back()
    with pytest.raises(JobFailed, match="1 key"):
        job.wait(WAIT_S)
    assert away.postgres.execute("SELECT body FROM tidefill.indexes") == [("ABSENT",)]
    assert made_on_the_server(away.postgres, table)[0] == 0
    lake = tmp_path / "lake"
    assert not lake.exists() or list(lake.iterdir()) == []
    assert [key for key, _, _ in job.violations()] == ["(u1)"]
    job.drop()
    engine.run_once(ends_soon())
    assert made_on_the_server(away.postgres, table) == (0, None)


@pytest.mark.full
def test_it_is_given_up_while_the_server_is_away(
    engine: Engine, away: Away, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_given_up_while_away(engine, away, table, tmp_path, monkeypatch)


@pytest.mark.full
def test_it_is_given_up_with_staged_files(
    by_spark: Engine, away: Away, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_given_up_while_away(by_spark, away, table, tmp_path, monkeypatch, sort="spark")


@pytest.mark.full
@pytest.mark.parametrize("name", ["build_key", "filled"])
def test_the_server_goes_at_a_call_and_the_job_goes_on(
    engine: Engine, away: Away, table: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:  # R24
    job = half_built(engine, table)
    away.before(monkeypatch, filling, name)
    until_it_goes(engine, away, job.id)
    away.is_back()
    job.wait(WAIT_S)
    assert job.verify().differences == ()
    job.drop()
    engine.run_once(ends_soon())
    assert made_on_the_server(away.postgres, table) == (0, None)


@pytest.mark.full
def test_staged_files_go_though_the_server_goes_when_the_key_is_built(
    by_spark: Engine, away: Away, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = half_built(by_spark, table, sort="spark")
    build, remove = filling.build_key, IndexMachine._remove_staged

    def goes(*words: Any) -> bool:
        built = build(*words)
        monkeypatch.setattr(IndexMachine, "_remove_staged", lambda self: away.goes())  # as if the runner died here
        return built

    monkeypatch.setattr(filling, "build_key", goes)
    until_it_goes(by_spark, away, job.id)
    monkeypatch.setattr(IndexMachine, "_remove_staged", remove)
    assert list((tmp_path / "lake").iterdir()) != []
    away.is_back()
    job.wait(WAIT_S)
    assert job.verify().differences == ()
    assert list((tmp_path / "lake").iterdir()) == []
    job.drop()
    by_spark.run_once(ends_soon())
