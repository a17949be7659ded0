"""When a command is called for a job, and with what."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.stores import made, row
from tests.web.conftest import wait_until
from tests.web.stores import live
from tidefill.cli.run import watchman
from tidefill.config import load
from tidefill.core.progress import Progress
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure, Job, Lease, Settings
from tidefill.jobs.status import Status, status_of
from tidefill.metrics.alarm import Alarm, Alarms, caller, reasons_of
from tidefill.run.owner_process import is_this_process, new_owner

FAILED = row("broken", 1, life=Life.FAILED, failure=Failure("HISTORY_GONE", "it is gone"))
WELL = row("broken", 1, life=Life.LIVE)


def status(job: Job) -> Status:
    return status_of(job, 0.0)


def late(lag_s: float, target_lag_s: float = 0.0) -> Status:
    progress = Progress(1, 1.0, 1, 0.0, None, 3, lag_s, 0.0)
    return status(live("late", 2, 0.0, progress=progress, doing=None, settings=Settings(target_lag_s=target_lag_s)))


def test_what_is_wrong_with_a_job() -> None:
    assert reasons_of(status(FAILED), 60.0) == {"failed"}
    assert reasons_of(status(WELL), 60.0) == set()
    assert reasons_of(late(61.0), 60.0) == {"late"}
    assert reasons_of(late(60.0), 60.0) == set()
    assert reasons_of(late(100.0, target_lag_s=50.0), 60.0) == set(), "it may lag that much, and the bound more"
    assert reasons_of(replace(late(1e6), state="backfilling"), 60.0) == set(), "a job that fills is behind"


def test_each_trouble_is_called_for_once_when_it_begins() -> None:
    called = list[tuple[str, str]]()
    alarms = Alarms(60.0, lambda alarm: called.append((alarm.job_id, alarm.reason)))

    def look(job: Job, mine: bool = True) -> None:
        alarms.look([("1", status(job)), ("2", late(0.0))], lambda _: mine)

    look(FAILED)
    assert called == [], "what was so before this process began was called for by another"
    look(WELL)
    look(FAILED)
    look(FAILED)
    assert called == [("1", "failed")]
    look(WELL)
    look(FAILED, mine=False)
    assert called == [("1", "failed")], "the runner that has the lease calls"
    alarms.look([("3", status(FAILED))], lambda _: True)
    assert called == [("1", "failed")]


def test_the_command_gets_the_job_as_json(tmp_path: Path) -> None:
    out = tmp_path / "told by it's name"
    program = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read())"
    caller(f'{sys.executable} -c "{program}" "{out}"')(Alarm("1", "failed", status(FAILED)))
    wait_until(lambda: out.is_file() and out.read_text() != "")
    told = json.loads(out.read_text())
    assert (told["reason"], told["name"], told["failure"]["code"]) == ("failed", "broken", "HISTORY_GONE")


def test_a_command_that_cannot_be_called_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    for command in ("/no/such/command", f"{sys.executable} -c 'exit(3)'"):
        caplog.clear()
        caller(command)(Alarm("1", "failed", status(FAILED)))
        wait_until(lambda: "on_failure" in caplog.text)


def test_the_runner_calls_for_its_own_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidefill.cli.run.ALARM_S", 0.0)
    out = tmp_path / "told"
    (tmp_path / "call").write_text(f"#!/bin/sh\ncat > '{out}'\n")
    (tmp_path / "call").chmod(0o700)
    (tmp_path / "tidefill.toml").write_text(f"on_failure = '{tmp_path / 'call'}'\n")
    mine = Lease(new_owner(), 1, time.time() + 60)
    assert is_this_process(mine.owner)
    assert not is_this_process("a:b:1:2:c")
    with made(tmp_path, replace(WELL, lease=mine)) as store:
        look = watchman(load(tmp_path, None, {}), store)
        look()
        store.change(WELL.id, lambda job: replace(FAILED, lease=mine))
        look()
        wait_until(lambda: out.is_file() and out.read_text() != "")
    assert json.loads(out.read_text())["name"] == "broken"
