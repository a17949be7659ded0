"""`tidefill run` as a process: it starts Spark only for a job, and ends when it is told to."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.stores import made, row
from tidefill.cli import main
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure

PROGRAM = """
import sys
sys.modules["pyspark"] = sys.modules["sqlglot"] = None
from tidefill.cli import main
sys.exit(main(sys.argv[1:]))
"""


def started(folder: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "run", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_told_to(number: signal.Signals, tmp_path: Path) -> None:
    running = started(tmp_path)
    assert running.stderr is not None
    assert running.stderr.readline().startswith("no jobs in ")
    os.kill(running.pid, number)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (0, "")
    assert err.startswith("stopping after the current step")


def test_a_job_that_has_made_nothing_is_dropped_without_spark(tmp_path: Path) -> None:
    with made(tmp_path, row("odd", wants_end=True)) as store:
        running = started(tmp_path)
        assert running.stdout is not None
        lines = [running.stdout.readline() for _ in range(2)]
        os.kill(running.pid, signal.SIGTERM)
        running.communicate(timeout=30)
        assert running.returncode == 0
        (left,) = store.jobs()
    assert [line.partition("  ")[2] for line in lines] == ["odd: being dropped\n", "odd: dropped\n"]
    assert (left.life, left.lease.owner) == (Life.DROPPED, "")


def test_once_with_nothing_to_do(tmp_path: Path) -> None:
    running = started(tmp_path, "--once")
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (0, "")
    assert err.startswith("no jobs in ")


def test_once_with_a_failed_job_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    failure = Failure("HISTORY_GONE", "history that is needed is gone", hint="RESYNC the job.")
    made(tmp_path, row("odd", life=Life.FAILED, failure=failure)).close()
    assert main(["run", "--once"]) == 3
    told = capsys.readouterr().err
    assert "odd has failed [JOB_FAILED]\nDetail: history that is needed is gone [HISTORY_GONE]" in told
