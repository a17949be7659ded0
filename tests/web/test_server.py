"""`tidefill web` as a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.cli.stores import made, row
from tidefill.cli import main
from tidefill.web.server import is_loopback

PROGRAM = """
import sys
sys.modules["pyspark"] = sys.modules["sqlglot"] = None  # an import of one of them is an error
from tidefill.cli import main
code = main(sys.argv[1:])
heavy = {"pyspark", "sqlglot", "pandas", "pyarrow"}
sys.exit(code or str(heavy & {name.partition(".")[0] for name, module in sys.modules.items() if module}))
"""


def test_it_answers_and_ends_without_spark(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    made(tmp_path, row("odd")).close()
    words = [sys.executable, "-c", PROGRAM, "web", "--port", "0", "--format", "json"]
    running = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None
    request.addfinalizer(running.kill)
    url = json.loads(running.stdout.readline())["url"]
    address, _, token = url.partition("/?token=")
    for path in ("/", "/graph", f"/job/{1:032x}", "/metrics", "/static/job.js"):
        asked = urllib.request.Request(address + path, headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            assert answer.status == 200
    asked = urllib.request.Request(address + "/stream/jobs", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(asked, timeout=30) as stream:
        told = [stream.readline() for _ in range(3)][2]
        assert json.loads(told.removeprefix(b"data: "))["set"][f"{1:032x}"]["name"] == "odd"
        os.kill(running.pid, signal.SIGINT)
        _, err = running.communicate(timeout=30)
    assert err.splitlines()[-1] == "set()", "nothing heavy was imported, and an open stream holds nobody up"


def test_where_there_is_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["web", "--port", "0"]) == 2
    assert "there is no store" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tidefill.web.server import bound

    monkeypatch.chdir(tmp_path)
    made(tmp_path, row("odd")).close()
    with bound("127.0.0.1", 0) as taken:
        assert main(["web", "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot listen on 127.0.0.1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["web", "--port", "-1"], ["web", "--port", "70000"], ["run", "--metrics", "x"]])
def test_wrong_usage(words: list[str]) -> None:
    assert main(words) == 2


def test_loopback() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "shop.example")] == [
        True, True, True, False, False, False,
    ]  # fmt: skip
