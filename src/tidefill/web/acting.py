"""What the page can ask of a job. Each is a wish, as of the command line: the runner acts on it."""

from __future__ import annotations

from typing import Any

from tidefill.errors import BadInput, UnknownJob
from tidefill.jobs import row as jobs
from tidefill.jobs.graph import names_needed, newest_definition_of
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause
from tidefill.jobs.settings import changed_settings, check_use
from tidefill.store.sql_store import SqlStore

SETTINGS = ("rate_limit", "parallelism")
ACTIONS = ("pause", "pause-fill", "resume", "cancel", "alter")


def act(store: SqlStore, job_id: str, action: str, asked: dict[str, Any]) -> str:
    """Ask it of the job, and return what was asked, in words. Raises what the command line would."""
    row = store.job(job_id)
    if row is None or row.life is Life.DROPPED:
        raise UnknownJob("there is no such job", hint="It was dropped.")
    match action:
        case "pause":
            store.change(job_id, jobs.wish_pause(Pause.ALL))
            return f"{row.name}: asked to pause"
        case "pause-fill":
            store.change(job_id, jobs.wish_pause(Pause.FILL))
            return f"{row.name}: asked to stop filling"
        case "resume":
            store.change(job_id, jobs.wish_resume)
            return f"{row.name}: asked to resume"
        case "cancel":
            store.wish_end(job_id, jobs.wish_cancel, names_needed)
            return f"{row.name}: asked to cancel"
        case "alter":
            return _alter(store, row, asked)
        case _:
            raise BadInput(f"there is no action {action}", hint=f"There is: {', '.join(ACTIONS)}.")


def _alter(store: SqlStore, row: Job, asked: dict[str, Any]) -> str:
    unknown = [name for name in asked if name not in SETTINGS]
    if unknown or not asked:
        raise BadInput("these settings cannot be changed here", hint=f"There is: {', '.join(SETTINGS)}.")
    check_use(newest_definition_of(row), asked)
    store.change(row.id, lambda now: jobs.wish_settings(changed_settings(now.settings, asked))(now))
    told = ", ".join(f"{name} = {'none' if value is None else value}" for name, value in asked.items())
    return f"{row.name}: asked for {told}"
