"""An index is filled through a real cluster of two workers; one of them is killed in the middle of a read, and one in
the middle of a load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres.harness import Postgres
from tests.postgres.index import spark_cluster_process
from tests.postgres.index.test_jobs import table as table
from tests.spark.test_cluster import daemon, until
from tidefill.local.sockets import free_port

ROOT = Path(__file__).parents[3]


@pytest.mark.full
def test_a_worker_that_is_killed_repeats_its_share_alone(postgres: Postgres, table: str, tmp_path: Path) -> None:
    logs, port, web = tmp_path / "logs", str(free_port()), str(free_port())
    logs.mkdir()
    url = f"spark://127.0.0.1:{port}"
    worker = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work"), url)
    with daemon(logs, "Master", "--host", "127.0.0.1", "--port", port, "--webui-port", web) as master:
        until(master, "I have been elected leader")
        with daemon(logs, "Worker", *worker), daemon(logs, "Worker", *worker):
            until(master, "Registering worker", 2)
            words = [url, str(tmp_path), str(free_port()), postgres.server.url(), table]
            driver = [sys.executable, "-m", spark_cluster_process.__name__, *words]
            done = subprocess.run(driver, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert (done.stdout.strip(), done.returncode) == ("equal", 0), done.stderr
