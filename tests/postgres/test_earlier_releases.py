"""A store in PostgreSQL, and a replica, as earlier releases have left them (tests/fixtures)."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from tests.fixtures.place import LAKE, put_up_postgres, releases
from tests.postgres.harness import Postgres
from tidefill import connect


@pytest.mark.parametrize("release", releases())
def test_a_store_of_an_earlier_release_goes_on_and_is_dropped(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server of the replica is another one, and has no slot of it: the replica says so, and is built anew."""
    monkeypatch.chdir(tmp_path)
    database = f"earlier_{release.replace('.', '_')}"
    postgres.execute(f"CREATE DATABASE {database}")
    url = postgres.server.url(database=database)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("CREATE TABLE people (id bigint PRIMARY KEY, name text NOT NULL)")
        owner.execute("INSERT INTO people SELECT n, 'name ' || n FROM generate_series(1, 300) n")
        put_up_postgres(release, tmp_path, url)
        with connect(spark, tmp_path / LAKE / "warehouse", url, {"shop": url}) as engine:
            assert [status.state for status in engine.statuses()] == ["live", "live"]
            assert engine.table("short").count() == 9
            engine.run_once()
            failure = engine.job("people").status().failure
            assert failure is not None
            assert failure.code == "UPSTREAM_REPLACED"
            engine.job("people").resync()
            engine.run_once()
            assert engine.table("people").count() == 300
            owner.execute("DELETE FROM people WHERE id <= 5")
            engine.run_once()
            assert engine.table("short").count() == 4
            assert engine.job("people").verify().differences == engine.job("short").verify().differences == ()
            engine.job("people").drop(cascade=True)
            engine.run_once()
            assert engine.jobs() == []
        assert owner.execute("SELECT * FROM pg_publication").fetchall() == []
        slots = owner.execute("SELECT slot_name FROM pg_replication_slots WHERE database = current_database()")
        assert slots.fetchall() == []
    postgres.execute(f"DROP DATABASE {database}")
