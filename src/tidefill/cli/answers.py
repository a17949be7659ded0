"""What a statement gives, on the screen: its rows, its message, and the bars of those who wait for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidefill.cli import terminal
from tidefill.cli.picture import Picture
from tidefill.cli.project import Project, ascii
from tidefill.cli.render.tables import facts, table
from tidefill.cli.work import attend, leave, told_to_stop
from tidefill.errors import RetryLater, TimedOut
from tidefill.jobs.plain_json import as_json

if TYPE_CHECKING:
    from tidefill.engine.engine import Engine
    from tidefill.engine.job import Job
    from tidefill.sql.result import Result

NO_RUNNER = "no runner: start `tidefill run`"
FINISHING = "finishing the current step; Ctrl-C again leaves at once"
GRACE_S = 1.0  # in which a runner that is alive has taken a new job


@dataclass(frozen=True, slots=True)
class Patience:
    """Whether to wait for what was asked of jobs, and for how long."""

    wait: bool = False
    timeout_s: float | None = None


def answer(where: Project, engine: Engine, result: Result, patience: Patience) -> None:
    """Show the result; then wait for its jobs, or say that nobody runs them."""
    from tidefill.sql.result import Until

    tell(where, result)
    if not result.jobs:
        return
    if patience.wait and result.until is not Until.NOTHING:
        _wait(where, engine, result.jobs, patience.timeout_s, gone=result.until is Until.GONE)
    elif not _has_runner(engine, result.jobs):
        terminal.note(NO_RUNNER if result.until is Until.NOTHING else f"{NO_RUNNER}, or add --wait")


def tell(where: Project, result: Result) -> None:
    """The rows and the message. Long values in a list of facts are told whole."""
    if where.json and result.document is not None:
        terminal.say(as_json(result.document))
        return
    if where.json:
        told = {"columns": result.columns, "rows": result.rows, "message": result.message}
        terminal.say(as_json({**told, "jobs": [job.name for job in result.jobs]}))
        return
    from tidefill.sql.execute import FACTS

    if result.columns == FACTS:
        terminal.show(facts(result.rows, terminal.width(), ascii=ascii()))
    elif result.rows or (result.columns and not result.message):
        terminal.show(table(result.columns, result.rows, terminal.width(), ascii=ascii()))
    if result.message:
        terminal.say(result.message)


def _has_runner(engine: Engine, jobs: Sequence[Job]) -> bool:
    """Whether some process runs jobs of the store. One that is alive holds all of them, but for those that are new."""
    deadline_s = time.monotonic() + GRACE_S
    while True:
        statuses = engine.statuses()
        if any(status.runs for status in statuses):
            return True
        names = {job.name for job in jobs}
        is_new = all(status.state == "created" for status in statuses if status.name in names)
        if not is_new or time.monotonic() >= deadline_s:
            return False
        time.sleep(GRACE_S / 4)


def _wait(where: Project, engine: Engine, jobs: Sequence[Job], timeout_s: float | None, *, gone: bool) -> None:
    """Ctrl-C leaves the jobs as they are, after the step that is done here, if there is one; the second at once."""
    if engine.needs_spark() and not any(status.runs for status in engine.statuses()):
        assert engine.spark is not None  # started here, where the spinner has the terminal for itself
    stop, over, names = threading.Event(), threading.Event(), {job.name for job in jobs}
    picture = None if where.json else Picture(beside=True)

    def look() -> None:
        if picture is None:
            return
        with suppress(RetryLater):
            shown = [status for status in engine.statuses() if status.name in names]
            picture.show(shown, FINISHING if stop.is_set() and not over.is_set() else "")

    def work() -> None:
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            for job in jobs:
                left_s = None if deadline_s is None else max(0.0, deadline_s - time.monotonic())
                job.wait(left_s, gone=gone, stop=stop)
        finally:
            over.set()

    try:
        with told_to_stop(stop, lambda: None):
            attend(work, look)
    except KeyboardInterrupt:
        terminal.note(_how_to_come_back(jobs))
        leave()
    except TimedOut as error:
        if stop.is_set():
            terminal.note(_how_to_come_back(jobs))
            raise KeyboardInterrupt from None
        error.hint = error.hint or _how_to_come_back(jobs)
        raise
    terminal.say(_done(where, engine, jobs, gone=gone))


def _how_to_come_back(jobs: Sequence[Job]) -> str:
    names = ", ".join(job.name for job in jobs)
    return f"{names}: goes on under `tidefill run`; `tidefill watch` shows it"


def _done(where: Project, engine: Engine, jobs: Sequence[Job], *, gone: bool) -> str:
    if where.json:
        return as_json([{"job": job.name, "state": "dropped" if gone else "live"} for job in jobs])
    return "\n".join(f"{job.name}: {'dropped' if gone else 'live'}" for job in jobs)
