"""`drop --wait` removes what a job made in this very process, and needs no Spark for what is on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from tests.cli.stores import REPLICA, made, row
from tidefill.engine.engine import STORE_FILE
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.store.sql_store import open_store

JOB = row("copy", definition=REPLICA, life=Life.LIVE, published=1)


def test_a_live_replica_is_dropped_where_no_java_is(tmp_path: Path) -> None:
    # its view was in the memory of a Spark that has ended
    path = tmp_path / "lake" / f"copy-{JOB.id}-1"
    (path / "_delta_log").mkdir(parents=True)
    made(tmp_path, replace(JOB, resources=(Resource("path", str(path)), Resource("view", f"copy@{path}")))).close()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    words = [sys.executable, "-m", "tidefill.cli", "drop", "copy", "--wait", "--timeout", "60"]
    done = subprocess.run(
        words, cwd=tmp_path, env={**environment, "JAVA_HOME": "/nowhere"}, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Spark" in done.stdout + done.stderr) == (0, False), done
    assert not path.exists()
    with open_store(tmp_path / ".tidefill" / STORE_FILE) as store:
        assert [job.life for job in store.jobs()] == [Life.DROPPED]
