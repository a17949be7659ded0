"""A definition, settings or a state that this release cannot read stop the one job that they belong to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.cli.stores import VIEW, made, row
from tests.jobs.test_definitions import JOIN
from tidefill.core.version import Number
from tidefill.engine.connect import connect
from tidefill.engine.engine import Engine
from tidefill.engine.removers import Removers
from tidefill.errors import InUse, StoreUnreadable
from tidefill.jobs.definitions import job_to_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import Registered
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job
from tidefill.jobs.status import status_of
from tidefill.run.catch_up import reached

NEWER = json.dumps({**json.loads(job_to_text(VIEW)), "form": 99})
DAMAGED = {"a newer form": NEWER, "no form": "{}", "no JSON": "{"}
GOING = row("going", 2, wants_end=True)
TIMEOUT_S = 60
SLOT = Resource("slot", "shop/odd")


def odd(definition: str = NEWER, **fields: Any) -> Job:
    return Job(f"{1:032x}", "odd", definition, resources=(SLOT,), **fields)


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(Removers, "remove", lambda _, job, resource: names.append(str(resource)))
    return names


@pytest.fixture(params=DAMAGED.values(), ids=list(DAMAGED))
def engine(request: pytest.FixtureRequest, tmp_path: Path, removed: list[str]) -> Iterator[Engine]:
    made(tmp_path, odd(request.param), GOING).close()
    with connect(store=tmp_path / ".tidefill") as made_of_it:
        yield made_of_it
        assert not made_of_it.uses_spark, "Spark was started"


def stored(engine: Engine, job: Job) -> Job:
    found = engine._store.job(job.id)
    assert found is not None
    return found


def test_it_is_shown_as_failed_beside_the_others(engine: Engine) -> None:
    going, shown = engine.statuses()
    assert (going.name, going.state, going.failure) == ("going", "created", None)
    assert (shown.name, shown.state, shown.kind) == ("odd", "failed", "unknown")
    assert shown.failure is not None
    assert shown.failure.code == StoreUnreadable.code
    assert shown.failure.hint
    assert "STORE_UNREADABLE" in str(engine.execute("SHOW JOBS").rows)
    assert "STORE_UNREADABLE" in str(engine.execute("SHOW JOB odd").rows)


def test_the_others_are_run(engine: Engine) -> None:
    engine.job("going").wait(TIMEOUT_S, gone=True)
    assert stored(engine, odd()).life in (Life.CREATED, Life.FAILED)
    engine.run_once()
    failure = stored(engine, odd()).failure
    assert failure is not None
    assert failure.code == StoreUnreadable.code
    engine.run_once()
    assert len([text for _, text in engine.job("odd").events() if "failed" in text]) == 1


def test_the_others_can_be_dropped(engine: Engine) -> None:
    engine._store.create(row("alone", 3))
    assert engine.job("alone").drop() == []


@pytest.mark.parametrize("statement", ["DROP JOB odd", "DROP MATERIALIZED VIEW odd", "DROP JOB odd CASCADE"])
def test_it_can_be_dropped_with_what_it_has_made(engine: Engine, removed: list[str], statement: str) -> None:
    (job,) = engine.execute(statement).jobs
    job.wait(TIMEOUT_S, gone=True)
    assert removed == [str(SLOT)]


def test_what_a_newer_release_wrote_still_says_what_it_reads(tmp_path: Path) -> None:
    made(tmp_path, odd()).close()
    with connect(store=tmp_path / ".tidefill") as engine, pytest.raises(InUse, match="events is in use"):
        engine.unregister("events")


def test_a_registered_table_that_cannot_be_read(engine: Engine) -> None:
    engine._store.register(Registered("strange", '{"form": 99}'))
    assert [table.name for table in engine.registered()] == ["events", "strange"]
    assert "form 99" in str(engine.execute("SHOW TABLES").rows[1])
    assert engine._graph_of([row("joined", 3, JOIN)]).reads == {row("joined", 3).id: {"T": "t", "u": "u"}}


def test_a_state_that_cannot_be_read_is_no_goal_reached() -> None:
    live = row("live", 3, life=Life.LIVE, anchor="{")
    assert not reached(live, {"": Number(1)})
    assert status_of(live, 0.0).state == "live"


@pytest.fixture
def newer_settings(tmp_path: Path, removed: list[str]) -> Iterator[Engine]:
    made(tmp_path, row("odd", 1, resources=(SLOT,)), GOING).close()
    with connect(store=tmp_path / ".tidefill") as engine:
        with engine._store._writing() as connection:
            data = connection.execute(sa.text("SELECT data FROM jobs WHERE name_key = 'odd'")).scalar_one()
            document = {**json.loads(data), "settings": {"parallelism": 2, "colour": "blue"}}
            connection.execute(
                sa.text("UPDATE jobs SET data = :data WHERE name_key = 'odd'"), {"data": json.dumps(document)}
            )
        yield engine


def settings_of(engine: Engine) -> object:
    with engine._store._reading() as connection:
        data = connection.execute(sa.text("SELECT data FROM jobs WHERE name_key = 'odd'")).scalar_one()
    return json.loads(data)["settings"]


def test_settings_that_cannot_be_read_stop_their_job_alone(newer_settings: Engine, removed: list[str]) -> None:
    engine = newer_settings
    engine.job("going").wait(TIMEOUT_S, gone=True)
    engine.run_once()
    (shown,) = engine.statuses()
    assert shown.state == "failed"
    assert shown.failure is not None
    assert (shown.failure.code, "colour" in shown.failure.detail) == (StoreUnreadable.code, True)
    assert settings_of(engine) == {"parallelism": 2, "colour": "blue"}, "they are another release's"
    with pytest.raises(StoreUnreadable):
        engine.job("odd").alter(parallelism=3)
    job = engine.job("odd")
    job.drop()
    job.wait(TIMEOUT_S, gone=True)
    assert removed == [str(SLOT)]
