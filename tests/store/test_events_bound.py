"""The events of a job do not fill the disk, whoever writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from tidefill.jobs.row import Job
from tidefill.ports import store as ports
from tidefill.store import sql_store as store
from tidefill.store.sql_store import SqlStore, open_store

MAX, EVERY = 10, 4


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "EVENTS_MAX", MAX)
    monkeypatch.setattr(store, "PRUNED_EVERY", EVERY, raising=False)


def rows_in(opened: SqlStore) -> int:
    with opened._reading() as connection:
        return int(connection.execute(sa.text("SELECT count(*) FROM events")).scalar_one())


def test_a_process_that_writes_many(tmp_path: Path) -> None:
    with open_store(tmp_path / "jobs.db") as opened:
        opened.create(Job("a", "a", "{}"))
        for number in range(5 * MAX):
            opened.add_event("a", float(number), str(number))
            assert rows_in(opened) <= MAX + EVERY
        assert [text for _, text in opened.events("a")] == [str(number) for number in range(4 * MAX, 5 * MAX)]


def test_many_processes_that_write_few(tmp_path: Path) -> None:
    with open_store(tmp_path / "jobs.db") as opened:
        opened.create(Job("a", "a", "{}"))
    for number in range(3 * MAX):
        with open_store(tmp_path / "jobs.db") as opened:
            opened.add_event("a", float(number), str(number))
            assert rows_in(opened) <= MAX + 1


def test_not_every_event_costs_a_delete(tmp_path: Path) -> None:
    deletes = []
    with open_store(tmp_path / "jobs.db") as opened:
        opened.create(Job("a", "a", "{}"))
        watched = "before_cursor_execute"
        sa.event.listen(opened._engine, watched, lambda *seen: deletes.append(seen[2]) if "DELETE" in seen[2] else None)
        for number in range(2 * EVERY):
            opened.add_event("a", float(number), str(number))
    assert len(deletes) == 2
