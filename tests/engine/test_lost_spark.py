"""kill -9 of Spark itself under a runner: the runner gets another one, and its jobs go on without a person."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.engine.shop import Shop
from tests.quick_spark import QUICK
from tidefill.engine.job import Job
from tidefill.local.sockets import free_port
from tidefill.local.spark import HOST

DEADLINE_S = 300.0


class Runner:
    """`tidefill run` over the shop's store, with a Spark of its own, or with the one at the URL."""

    def __init__(self, shop: Shop, remote: str = "") -> None:
        self.folder = shop.folder
        self.started = list[subprocess.Popen[bytes]]()
        lines = ['warehouse = "lake"', 'store = "store"', "[spark]"]
        lines += [f'remote = "{remote}"'] if remote else [f'"{name}" = "{value}"' for name, value in QUICK.items()]
        (self.folder / "tidefill.toml").write_text("\n".join(lines) + "\n")

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / "process.log").open("ab") as log:
            environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
            )
        self.started.append(process)
        return process

    def run(self) -> subprocess.Popen[bytes]:
        return self.start(sys.executable, "-m", "tidefill.cli", "run")

    def until(self, so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + DEADLINE_S
        while not so():
            assert time.monotonic() < deadline_s, (self.folder / "process.log").read_text()
            time.sleep(0.05)

    def end(self) -> None:
        for process in self.started:
            for java in java_below(process):
                with suppress(ProcessLookupError):
                    os.kill(java, signal.SIGKILL)
            process.kill()
            process.communicate()


def java_below(process: subprocess.Popen[bytes]) -> list[int]:
    """Its children that are Java."""
    found = list[int]()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = status.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        if name == "java" and int(rest.split()[1]) == process.pid:
            found.append(int(status.parent.name))
    return found


@pytest.fixture
def runner_of(shop: Shop) -> Iterator[Callable[[str], Runner]]:
    made = list[Runner]()

    def make(remote: str = "") -> Runner:
        made.append(Runner(shop, remote))
        return made[-1]

    yield make
    for runner in made:
        runner.end()


def _job(shop: Shop) -> Job:
    shop.make(400)
    shop.engine.register("events", location=shop.source, key="id")
    return shop.engine.create_view("doubled", "SELECT id, v * 2 AS w FROM events", chunk_rows=50)


def _is_up_to_date(job: Job) -> bool:
    status = job.status()
    assert status.failure is None, status.failure
    return status.state == "live" and status.waiting == "up to date"


@pytest.mark.full
def test_a_killed_java_is_replaced(shop: Shop, runner_of: Callable[[str], Runner]) -> None:
    job, runner = _job(shop), runner_of("")
    process = runner.run()
    runner.until(lambda: job.status().rows > 0)
    (java,) = java_below(process)
    os.kill(java, signal.SIGKILL)
    shop.sql("UPDATE SOURCE SET v = 9 WHERE id = 3")
    runner.until(lambda: _is_up_to_date(job))
    assert process.poll() is None
    assert java_below(process) not in ([], [java])
    shop.expect("doubled", "SELECT id, v * 2 AS w FROM SOURCE")


@pytest.mark.full
def test_a_server_of_spark_connect_that_was_away_is_used_again(shop: Shop, runner_of: Callable[[str], Runner]) -> None:
    port = str(free_port(HOST))
    job, runner = _job(shop), runner_of(f"sc://{HOST}:{port}")
    process = runner.run()
    serve = (sys.executable, "-m", "tests.engine.connect_server", port)
    runner.until(lambda: "does not answer" in job.status().waiting)
    server = runner.start(*serve)
    runner.until(lambda: job.status().rows > 0)
    os.kill(java_below(server)[0], signal.SIGKILL)
    shop.sql("UPDATE SOURCE SET v = 9 WHERE id = 3")
    runner.until(lambda: "does not answer" in job.status().waiting)
    assert job.status().failure is None
    runner.start(*serve)
    runner.until(lambda: _is_up_to_date(job))
    assert process.poll() is None
    shop.expect("doubled", "SELECT id, v * 2 AS w FROM SOURCE")
