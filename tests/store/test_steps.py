"""The history of steps in a database: one transaction with the change, and bounded whoever writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.fixtures.place import STORE, put_up_sqlite, releases
from tests.store.examples import JOB
from tidefill.jobs import steps
from tidefill.jobs.row import Pause, wish_pause
from tidefill.jobs.steps import DoneStep
from tidefill.store import sql_store
from tidefill.store.sql_store import SqlStore, open_store


def step(number: int) -> DoneStep:
    return DoneStep("fill", float(number), 1.0)


def test_a_step_and_its_change_are_one_transaction(store: SqlStore) -> None:
    store.create(JOB)
    begun = list[bool]()
    sa.event.listen(store._engine, "commit", lambda connection: begun.append(True))
    store.change("1", wish_pause(Pause.ALL), step(1))
    assert len(begun) == 1
    assert list(store.steps("1")) == [step(1)]


def test_steps_after_a_number(store: SqlStore) -> None:
    store.create(JOB)
    for number in range(5):
        store.change("1", lambda job: job, step(number))
    found = store.steps_after(0, 3)
    assert [(job_id, each) for _, job_id, each in found] == [("1", step(number)) for number in (2, 3, 4)]
    last = found[-1][0]
    assert list(store.steps_after(last, 3)) == []
    store.change("1", lambda job: job, step(5))
    ((number, _, newest),) = store.steps_after(last, 3)
    assert (number > last, newest) == (True, step(5))


def test_many_processes_that_write_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS_KEPT", 5)
    monkeypatch.setattr(sql_store, "PRUNED_EVERY", 100)
    with open_store(tmp_path / "jobs.db") as store:
        store.create(JOB)
    for number in range(40):
        with open_store(tmp_path / "jobs.db") as store:
            store.change("1", lambda job: job, step(number))
            assert len(store.steps("1")) <= 11
            assert store.steps("1")[-1] == step(number)


def test_a_store_of_before_gets_the_table(tmp_path: Path) -> None:
    file = tmp_path / "jobs.db"
    with open_store(file) as store:
        store.create(JOB)
        with store._writing() as connection:
            connection.exec_driver_sql("DROP TABLE steps")
            connection.exec_driver_sql("UPDATE meta SET schema_version = 4")
    with open_store(file) as store:
        assert list(store.steps("1")) == []
        store.change("1", lambda job: job, step(1))
        assert list(store.steps("1")) == [step(1)]


@pytest.mark.parametrize("release", releases())
def test_a_store_of_an_earlier_release(release: str, tmp_path: Path) -> None:
    put_up_sqlite(release, tmp_path)
    with open_store(tmp_path / STORE / "jobs.db") as store:
        assert store.jobs()
        for job in store.jobs():
            assert list(store.steps(job.id)) == []
            store.change(job.id, lambda row: row, step(1))
            assert list(store.steps(job.id)) == [step(1)]
