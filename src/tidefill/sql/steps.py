"""SHOW STEPS: the history of a job's steps as rows, oldest first."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from tidefill.jobs.status import ranges_of
from tidefill.jobs.steps import DoneStep
from tidefill.sql.result import Result

if TYPE_CHECKING:
    from tidefill.engine.job import Job

COLUMNS = ("at", "step", "seconds", "rows", "versions", "phases", "chunks")


def list_steps(job: Job) -> Result:
    """The steps that are kept."""
    rows = tuple(_row(step) for step in job.steps())
    return Result(COLUMNS, rows, "" if rows else "no steps")


def _row(step: DoneStep) -> tuple[object, ...]:
    phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in step.phases.items() if seconds >= 0.005)
    chunks, versions = ", ".join(ranges_of(step.ranges)), versions_text(step.versions)
    what = f"{step.kind}: {step.error}" if step.error else step.kind
    return (_moment(step.began_s), what, round(step.took_s, 2), _rows(step), versions, phases, chunks)


def _rows(step: DoneStep) -> str:
    """`7 -> 5`: read and written, as far as that is known."""
    if step.rows_in is None and step.rows_out is None:
        return ""
    read, written = ("?" if rows is None else str(rows) for rows in (step.rows_in, step.rows_out))
    return f"{read} -> {written}"


def versions_text(versions: Mapping[str, tuple[int | None, int | None]]) -> str:
    """`orders 5 -> 6`: what moved, or else where it stands; inputs whose versions have no number are left out."""
    known = {table: pair for table, pair in versions.items() if pair[1] is not None}
    moved = {table: pair for table, pair in known.items() if pair[0] != pair[1]} or known
    return ", ".join(
        f"{table} {after}" if before in (None, after) else f"{table} {before} -> {after}"
        for table, (before, after) in moved.items()
    )


def _moment(at_s: float) -> str:
    """In the time zone of this machine."""
    return datetime.fromtimestamp(at_s).isoformat(" ", "seconds")
