"""`tidefill run`: the process that runs the jobs of a store, and says a line whenever one of them changes its state."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from tidefill.cli import terminal
from tidefill.cli.project import Project, project
from tidefill.cli.work import attend, leave, told_to_stop
from tidefill.errors import JobFailed, RetryLater
from tidefill.extras import with_extra
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.status import status_of

if TYPE_CHECKING:
    from tidefill.config import Config
    from tidefill.engine.engine import Engine, Happened
    from tidefill.store.sql_store import SqlStore

ALARM_S = 2.0
"""How often the runner looks whether a job has failed or is late."""

STOPPING = "stopping after the current step; Ctrl-C again stops at once"


def run(arguments: argparse.Namespace) -> int:
    """Run the command. With --once, a job that has failed is an error; else it is somebody's task to look."""
    where, stop = project(arguments), threading.Event()
    with (
        told_to_stop(stop, lambda: terminal.note(STOPPING)),
        where.engine(_starting) as engine,
        where.store() as store,
        _exposed(arguments.metrics, store),
    ):
        story, watch = Story(where, engine), watchman(where.config, store)
        terminal.note(_greeting(where, engine, once=arguments.once))

        def look() -> None:
            story.go_on()
            watch()

        try:
            attend(lambda: engine.run_once(stop) if arguments.once else engine.run(stop), look)
        except KeyboardInterrupt:
            leave()
        if arguments.once:
            _check(engine)
    return 0


@contextmanager
def _exposed(address: tuple[str, int] | None, store: SqlStore) -> Iterator[None]:
    """Answers Prometheus at the address, if there is one."""
    if address is None:
        yield
        return
    with with_extra("metrics"):
        from tidefill.metrics.exposing import exposed
        from tidefill.metrics.of_store import StoreMetrics
    with exposed(StoreMetrics(store), *address) as port:
        terminal.note(f"metrics: http://{address[0]}:{port}/metrics")
        yield


@contextmanager
def _starting() -> Iterator[None]:
    terminal.note("starting Spark")
    yield


def _greeting(where: Project, engine: Engine, *, once: bool) -> str:
    count = len(engine.statuses())
    jobs = f"{count or 'no'} job{'s' * (count != 1)}"
    return f"{jobs} in {where.place}" + ("" if once else "; Ctrl-C or SIGTERM ends after the current step")


def _check(engine: Engine) -> None:
    failed = [status for status in engine.statuses() if status.state == Life.FAILED.value and status.failure]
    if failed:
        names = ", ".join(status.name for status in failed)
        first = failed[0].failure
        assert first is not None
        raise JobFailed(
            f"{names} {'has' if len(failed) == 1 else 'have'} failed",
            detail=f"{first.fact} [{first.code}]" + (f": {first.detail}" if first.detail else ""),
            hint=first.hint,
        )


def watchman(config: Config, store: SqlStore) -> Callable[[], None]:
    """What looks now and then whether to call `on_failure`, if that is set."""
    if not config.on_failure:
        return lambda: None
    from tidefill.metrics.alarm import Alarms, caller
    from tidefill.run.owner_process import is_gone, is_this_process

    alarms, looked_s = Alarms(config.lag_bound_s, caller(config.on_failure)), -ALARM_S

    def look() -> None:
        nonlocal looked_s
        if time.monotonic() - looked_s < ALARM_S:
            return
        looked_s = time.monotonic()
        with suppress(RetryLater):
            rows = {row.id: row for row in store.jobs() if row.life is not Life.DROPPED}
            statuses = [(row.id, status_of(row, time.time(), is_gone)) for row in rows.values()]
            alarms.look(statuses, lambda job_id: is_this_process(rows[job_id].lease.owner))

    return look


class Story:
    """What happens to the jobs, told once each, from now on."""

    def __init__(self, where: Project, engine: Engine) -> None:
        self._json = where.json
        self._engine = engine
        self._told = max((event.number for event in engine.events()), default=0)

    def go_on(self) -> None:
        """Tell what is new; later, if the store does not answer now."""
        with suppress(RetryLater):
            for event in self._engine.events(self._told):
                terminal.say(as_json(event) if self._json else event_line(event))
                self._told = event.number


def event_line(event: Happened) -> str:
    """The time here, whose it is, and what."""
    return f"{moment(event.at_s)}  {event.job}: {event.text}"


def moment(at_s: float) -> str:
    """In the time zone of this machine."""
    return datetime.fromtimestamp(at_s).isoformat(" ", "seconds")
