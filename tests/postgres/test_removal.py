"""A slot and a publication are removed without Spark, and only those that the job made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.stores import REPLICA, row
from tests.postgres.harness import Postgres
from tidefill.engine.engine import STORE_FILE, Engine
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import resource_from_text
from tidefill.store.sql_store import open_store

JOB = row("copy", 7, REPLICA, life=Life.FAILED)
OURS = f"tidefill_0a1b2c3d_{JOB.id}_1"
THEIRS = "of_a_stranger"


def no_spark() -> Any:
    raise AssertionError("Spark was started")


@pytest.fixture
def slots(postgres: Postgres) -> Iterator[None]:
    for name in (OURS, THEIRS):
        postgres.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", name)
    yield
    kept = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name IN (%s, %s)"
    postgres.execute(kept, OURS, THEIRS)


@pytest.mark.usefixtures("slots")
def test_a_slot_is_removed_without_spark_and_a_strangers_is_left(postgres: Postgres, tmp_path: Path) -> None:
    path = f"/nowhere/copy-{JOB.id}-1"
    resources = (f"path:{path}", f"view:copy@{path}", f"slot:shop/{OURS}", f"slot:shop/{THEIRS}")
    with open_store(tmp_path / STORE_FILE) as store:
        store.create(replace(JOB, resources=tuple(map(resource_from_text, resources))))
        store.change(JOB.id, jobs.wish_drop)
    server = postgres.ours.url
    with Engine(no_spark, str(tmp_path / "lake"), tmp_path, connections=["shop"], url_of=lambda _: server) as engine:
        engine.scheduler().turn(JOB)
        assert engine.jobs() == []
        told = [event.text for event in engine.events()]
    found = postgres.execute("SELECT slot_name FROM pg_replication_slots WHERE slot_name IN (%s, %s)", OURS, THEIRS)
    assert found == [(THEIRS,)]
    assert [text for text in told if text.startswith("left where it is: the slot of_a_stranger of shop is not removed")]
