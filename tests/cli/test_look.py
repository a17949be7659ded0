"""Looking: what a person sees of jobs and tables, and that looking makes nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.stores import REPLICA, made, row
from tests.signals import take_ctrl_c
from tidefill.cli import main
from tidefill.core.progress import Progress
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure, Lease
from tidefill.jobs.steps import DoneStep


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("command", "told"),
    [("status", "no jobs"), ("watch", "no jobs"), ("events", "no events"), ("tables", "no tables")],
)
def test_where_there_is_no_store_there_is_nothing_and_none_is_made(
    command: str, told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command]) == 0
    assert capsys.readouterr() == (f"{told}\n", "")
    assert main([command, "--format", "json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert list(folder.iterdir()) == []


def test_status_of_all_and_of_one(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filling = row("odd", 1, life=Life.BACKFILLING, progress=Progress(1, 0.42, 420, 10.0, 60.0))
    failed = row("even", 2, REPLICA, life=Life.FAILED, failure=Failure("HISTORY_GONE", "it is gone", hint="RESYNC."))
    made(folder, filling, failed).close()
    assert main(["status"]) == 0
    told = capsys.readouterr().out
    assert told.index("even") < told.index("odd"), "by name"
    assert "it is gone [HISTORY_GONE]" in told
    assert "42 %" in told
    assert "no runner: start `tidefill run`" in told
    assert f"log: {folder / '.tidefill' / 'tidefill.log'}" in told
    assert main(["status", "ODD"]) == 0
    assert "even" not in capsys.readouterr().out
    assert main(["status", "odd", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["percent"] == 42
    assert main(["status", "--format", "json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)] == ["even", "odd"]


def test_a_job_that_runs_has_a_runner(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(folder, row("odd", lease=Lease("someone", 1, time.time() + 30))).close()
    assert main(["status"]) == 0
    assert "no runner" not in capsys.readouterr().out


@pytest.mark.parametrize("name", ["it's", "`quoted`", "naïve 名前", "x" * 200, "a\x1b[31mb\nc", "../etc", "--odd"])
def test_names_of_any_kind(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(folder, row(name)).close()
    for words in (["status", "--", name], ["pause", "--", name], ["events", "--", name], ["drop", "--", name]):
        assert main(words) == 0
        assert "\x1b" not in capsys.readouterr().out
    assert main(["status", "--format", "json", "--", name]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == name


def test_the_history_of_a_job(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    chunk = '[[null, [["int", 10]]]]'
    step = DoneStep("both", 1000.0, 2.5, 1, {"look": 0.5, "commit": 2.0}, 7, 5, {"events": (4, 6)}, 1, chunk, 2, 0.5)
    with made(folder, row("odd", 1)) as store:
        assert main(["history", "odd"]) == 0
        assert capsys.readouterr().out == "no steps\n"
        store.change(f"{1:032x}", lambda job: job, step)
        store.change(f"{1:032x}", lambda job: job, DoneStep("fill", 1003.0, 0.1, error="UNAVAILABLE"))
    assert main(["history", "ODD"]) == 0
    told = capsys.readouterr().out
    for text in ("both", "2.5", "look 0.50, commit 2.00", "events 4 -> 6", "7 -> 5", ".. 10", "fill: UNAVAILABLE"):
        assert text in told
    assert main(["history", "odd", "--format", "json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["kind"], first["took_s"], first["versions"]) == ("both", 2.5, {"events": [4, 6]})
    assert second["error"] == "UNAVAILABLE"
    assert main(["history", "other"]) == 2


def test_events_are_in_order_of_time(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with made(folder, row("odd", 1), row("even", 2)) as store:
        store.add_event(f"{1:032x}", 1000.0, "backfilling")
        store.add_event(f"{2:032x}", 1001.0, "backfilling")
        store.add_event(f"{1:032x}", 1002.0, "live")
    assert main(["events", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["job"], each["event"]) for each in told] == [
        ("odd", "backfilling"), ("even", "backfilling"), ("odd", "live")
    ]  # fmt: skip
    assert main(["events", "Odd", "--format", "json"]) == 0
    assert {each["job"] for each in json.loads(capsys.readouterr().out)} == {"odd"}


def test_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(folder).close()
    assert main(["tables", "--format", "json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)
    assert table == {"table": "events", "key": "id", "walk": "day", "location": "/lake/events"}
    assert main(["tables"]) == 0
    assert "/lake/events" in capsys.readouterr().out


def test_watching_tells_changes_until_the_job_is_gone(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with made(folder, row("odd")) as store:
        lives = iter([Life.BACKFILLING, Life.BACKFILLING, Life.DROPPED])

        def later(_: float) -> None:
            life = next(lives)
            store.change(f"{1:032x}", lambda job: replace(job, life=life))

        monkeypatch.setattr(time, "sleep", later)
        assert main(["watch", "odd"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["odd: created 0 %", "odd: backfilling 0 %"]
    assert err == "odd: gone\n"


def test_watching_ends_by_ctrl_c(folder: Path) -> None:
    made(folder, row("odd")).close()
    watching = subprocess.Popen(
        [sys.executable, "-m", "tidefill.cli", "watch"], stdout=subprocess.PIPE, text=True, preexec_fn=take_ctrl_c
    )
    assert watching.stdout is not None
    assert watching.stdout.readline() == "odd: created 0 %\n"
    os.kill(watching.pid, signal.SIGINT)
    assert watching.wait(30) == 0
    watching.stdout.close()
