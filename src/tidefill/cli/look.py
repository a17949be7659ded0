"""Looking at jobs and tables: `status`, `watch`, `events`, `history`, `tables`. Where there is no store, nothing is
made."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from tidefill.cli import terminal
from tidefill.cli.answers import tell
from tidefill.cli.picture import Picture
from tidefill.cli.project import Project, ascii, colour, project
from tidefill.cli.render.cells import clean
from tidefill.cli.render.jobs import footer, jobs_table, no_jobs
from tidefill.errors import RetryLater, UnknownJob
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.status import status_json
from tidefill.run.log_file import LOG_FILE

if TYPE_CHECKING:
    from tidefill.engine.engine import Engine
    from tidefill.jobs.status import Status
    from tidefill.sql.statements import ShowEvents, ShowTables

LOOK_S = 0.5


def status(arguments: argparse.Namespace) -> int:
    """How jobs stand."""
    where = project(arguments)
    with where.found() as engine:
        statuses = _statuses(engine, arguments.job)
    if where.json:
        told = [status_json(each) for each in statuses]
        terminal.say(as_json(told[0] if arguments.job else told))
    else:
        terminal.show(_table(where, statuses))
    return 0


def _table(where: Project, statuses: Sequence[Status]) -> str:
    width = terminal.width()
    parts = [jobs_table(statuses, width, colour(), ascii=ascii()), footer(statuses, width)]
    if any(each.state == Life.FAILED.value for each in statuses):
        parts.append(f"log: {clean(str(where.config.log_folder / LOG_FILE), ascii=ascii())}")
    return "\n".join(part for part in parts if part)


def _statuses(engine: Engine | None, job: str | None) -> list[Status]:
    """Of all jobs, or of the one; UnknownJob if that is not there."""
    every = [] if engine is None else engine.statuses()
    if job is None:
        return every
    found = [each for each in every if each.name.casefold() == job.casefold()]
    if not found:
        raise UnknownJob(f"there is no job {job}", hint="`tidefill status` lists those that there are.")
    return found


def watch(arguments: argparse.Namespace) -> int:
    """How jobs stand, until Ctrl-C; or until the one that is watched is gone."""
    where = project(arguments)
    with where.found() as engine, suppress(KeyboardInterrupt):
        _statuses(engine, arguments.job)
        if engine is None:
            terminal.say(as_json([]) if where.json else no_jobs())
            return 0
        _watch(engine, arguments.job, Picture(json=where.json))
    return 0


def _watch(engine: Engine, job: str | None, picture: Picture) -> None:
    while True:
        with suppress(RetryLater):
            try:
                statuses = _statuses(engine, job)
                picture.show(statuses, footer(statuses, terminal.width()))
            except UnknownJob:
                terminal.note(f"{job}: gone")
                return
        time.sleep(LOOK_S)


def events(arguments: argparse.Namespace) -> int:
    """What happened."""
    from tidefill.sql.statements import ShowEvents

    return _show(arguments, ShowEvents(arguments.job), "no events")


def history(arguments: argparse.Namespace) -> int:
    """What the steps of a job were."""
    where = project(arguments)
    with where.having(arguments.job) as engine:
        job = engine.job(arguments.job)
        if where.json:
            terminal.say(as_json(job.steps()))
            return 0
        from tidefill.sql.steps import list_steps

        tell(where, list_steps(job))
    return 0


def tables(arguments: argparse.Namespace) -> int:
    """The registered tables."""
    from tidefill.sql.statements import ShowTables

    return _show(arguments, ShowTables(), "no tables")


def _show(arguments: argparse.Namespace, statement: ShowEvents | ShowTables, nothing: str) -> int:
    """The rows of a statement; as JSON, an object for each."""
    where = project(arguments)
    with where.found() as engine:
        if engine is None:
            _statuses(None, getattr(arguments, "job", None))
            terminal.say(as_json([]) if where.json else nothing)
            return 0
        from tidefill.sql.execute import execute

        result = execute(engine, statement)
    if where.json:
        terminal.say(as_json([dict(zip(result.columns, row, strict=True)) for row in result.rows]))
    else:
        tell(where, result)
    return 0
