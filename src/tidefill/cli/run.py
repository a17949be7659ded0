"""`tidefill run`: the process that runs the jobs of a store, and says a line whenever one of them changes its state."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from tidefill.cli import terminal
from tidefill.cli.project import Project, project
from tidefill.cli.work import attend, leave, told_to_stop
from tidefill.errors import JobFailed, RetryLater
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.plain_json import as_json

if TYPE_CHECKING:
    from tidefill.engine.engine import Engine, Happened

STOPPING = "stopping after the current step; Ctrl-C again stops at once"


def run(arguments: argparse.Namespace) -> int:
    """Run the command. With --once, a job that has failed is an error; else it is somebody's task to look."""
    where, stop = project(arguments), threading.Event()
    with told_to_stop(stop, lambda: terminal.note(STOPPING)), where.engine(_starting) as engine:
        story = Story(where, engine)
        terminal.note(_greeting(where, engine, once=arguments.once))
        try:
            attend(lambda: engine.run_once(stop) if arguments.once else engine.run(stop), story.go_on)
        except KeyboardInterrupt:
            leave()
        if arguments.once:
            _check(engine)
    return 0


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
