"""The store on PostgreSQL: the same contract, and ten processes at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres.harness import Postgres
from tests.store.processes import check_ten_processes, check_ten_processes_at_odds
from tidefill import connect
from tidefill.errors import BadInput, StoreUnreadable, Unavailable
from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import Job
from tidefill.store.schema import SCHEMA_VERSION
from tidefill.store.sql_store import SqlStore, open_store
from tidefill.testing.conformance.store.rows import StoreTest
from tidefill.testing.conformance.store.suite import STORE_SUITE


@pytest.fixture
def url(postgres: Postgres) -> Iterator[str]:
    postgres.execute("CREATE DATABASE store")
    yield postgres.server.url(database="store")
    postgres.execute("DROP DATABASE store WITH (FORCE)")


@pytest.fixture
def store(url: str) -> Iterator[SqlStore]:
    with open_store(url) as opened:
        yield opened


@pytest.mark.parametrize("test", STORE_SUITE, ids=lambda test: test.__name__)
def test_postgres_keeps_the_contract(test: StoreTest, store: SqlStore) -> None:
    test(lambda: store)


def test_ten_processes(url: str) -> None:
    # R19
    check_ten_processes(url)


def test_ten_processes_at_odds_over_one_name(url: str) -> None:
    # R19
    check_ten_processes_at_odds(url)


def test_what_was_written_is_there_after_reopening(url: str) -> None:
    with open_store(url) as store:
        store.create(Job("1", "orders", "{}"))
        store.add_event("1", 1.0, "zero \0 and half \ud800")
        first = store.store_id()
    with open_store(url) as store:
        assert [job.name for job in store.jobs()] == ["orders"]
        assert store.store_id() == first
        assert store.events("1") == [(1.0, "zero \\x00 and half \\ud800")]


def test_no_password_is_told(postgres: Postgres) -> None:
    address = "postgresql://ada:hunter2@127.0.0.1:1/store"
    with pytest.raises(Unavailable) as raised:
        open_store(address)
    assert "hunter2" not in str(raised.value)
    postgres.execute("CREATE ROLE nobody_of_ours LOGIN PASSWORD 'hunter2'")
    with pytest.raises(BadInput) as refused:
        open_store(postgres.server.url("nobody_of_ours", "hunter2"))
    assert "hunter2" not in str(refused.value)


def test_a_newer_release_wrote_it(postgres: Postgres, url: str) -> None:
    with open_store(url) as store, store._writing() as connection:
        connection.exec_driver_sql(f"UPDATE meta SET schema_version = {SCHEMA_VERSION + 1}")
    with pytest.raises(StoreUnreadable, match="this release knows"):
        open_store(url)


def test_an_engine_on_it(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with connect(store=url) as engine:
        engine._store.register(Registered("events", '{"form": 1, "location": "x", "key": ["id"], "walk": []}'))
        assert engine.tables() == ["events"]
    assert (tmp_path / ".tidefill").is_dir(), "for the log"


def test_a_server_that_is_away_for_a_while(postgres: Postgres, url: str) -> None:
    with open_store(url) as store:
        store.create(Job("1", "orders", "{}"))
        postgres.server.stop("immediate")
        try:
            with pytest.raises(Unavailable, match="cannot be reached"):
                store.jobs()
        finally:
            postgres.server.start()
            postgres.reconnect()
        assert [job.name for job in store.jobs()] == ["orders"]
