"""A real cluster on this machine: a master and two workers of Spark's own, from the installed package."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tidefill.local.sockets import free_port

HOME = Path(pyspark.__file__).parent
HERE = Path(__file__).parent


@contextmanager
def daemon(folder: Path, kind: str, *arguments: str) -> Iterator[Path]:
    """A part of the cluster, while the block runs; the file that it writes to."""
    output = folder / f"{kind}-{len(list(folder.iterdir()))}.txt"
    command = [str(HOME / "bin/spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
    environ = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    with output.open("wb") as file, subprocess.Popen(command, stdout=file, stderr=file, env=environ) as process:
        try:
            yield output
        finally:
            process.terminate()


def until(output: Path, words: str, times: int = 1) -> None:
    deadline_s = time.monotonic() + 60
    while output.read_text(errors="replace").count(words) < times:
        assert time.monotonic() < deadline_s, output.read_text(errors="replace")


@pytest.mark.full
def test_an_executor_that_is_killed_costs_time_but_no_row(tmp_path: Path) -> None:
    # R11
    logs, lake = tmp_path / "logs", tmp_path / "lake"
    logs.mkdir()
    lake.mkdir()
    port, web = str(free_port()), str(free_port())
    url = f"spark://127.0.0.1:{port}"
    worker = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work"), url)
    with daemon(logs, "Master", "--host", "127.0.0.1", "--port", port, "--webui-port", web) as master:
        until(master, "I have been elected leader")
        with daemon(logs, "Worker", *worker), daemon(logs, "Worker", *worker):
            until(master, "Registering worker", 2)
            driver = [sys.executable, str(HERE / "cluster_process.py"), url, str(lake), str(free_port())]
            done = subprocess.run(driver, capture_output=True, text=True, timeout=400, check=False)
    assert (done.stdout.strip(), done.returncode) == ("equal", 0), done.stderr
