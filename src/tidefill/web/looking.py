"""What the pages show, read from the store. One look serves all who watch: it is taken again after LOOK_S."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidefill.errors import UnknownJob
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.plain_json import plain
from tidefill.jobs.row import Job
from tidefill.jobs.status import Status, status_of
from tidefill.jobs.steps import DoneStep
from tidefill.run.owner_process import is_gone, process_of
from tidefill.store.sql_store import SqlStore
from tidefill.web import figures
from tidefill.web.graph import graph_figures
from tidefill.web.key_line import key_line

LOOK_S = 0.5
LAGS_SHOWN = 40
STEPS_READ = 20_000
"""Steps of all jobs that the first look reads, for the sparklines."""

Sections = Mapping[str, Any]
"""What a page shows, in parts: only those that have changed are sent."""


class Looking:
    """Looks at one store. Threads may share it."""

    def __init__(self, store: SqlStore, now_s: Callable[[], float] = time.time) -> None:
        self._store = store
        self._now_s = now_s
        self._lock = threading.Lock()
        self._looked = (-LOOK_S, list[Job]())
        self._read_upto = 0
        self._lags: dict[str, deque[float | None]] = {}
        self._newest: dict[str, int] = {}
        self._steps: dict[str, tuple[int, Sequence[DoneStep]]] = {}
        self._lines: dict[str, tuple[Job, bool, int, dict[str, Any]]] = {}

    def rows(self) -> list[Job]:
        """The jobs that are not dropped, by name."""
        with self._lock:
            return self._rows()

    def _rows(self) -> list[Job]:
        at_s, rows = self._looked
        if time.monotonic() - at_s >= LOOK_S:
            rows = [row for row in self._store.jobs() if row.life is not Life.DROPPED]
            self._read_steps()
            self._looked = (time.monotonic(), rows)
        return rows

    def _read_steps(self) -> None:
        for number, job_id, step in self._store.steps_after(self._read_upto, STEPS_READ):
            self._read_upto, self._newest[job_id] = number, number
            self._lags.setdefault(job_id, deque(maxlen=LAGS_SHOWN)).append(step.lag_s)

    def _status(self, row: Job) -> Status:
        return status_of(row, self._now_s(), is_gone)

    def jobs(self) -> Sections:
        """The page of all jobs: a section for each, by its id, and `meta`."""
        with self._lock:
            rows = self._rows()
            lines = {row.id: self._line(row) for row in rows}
            self._lines = {job_id: self._lines[job_id] for job_id in lines}
        return {**lines, "meta": self._meta(rows)}

    def _line(self, row: Job) -> dict[str, Any]:
        """A row that is as it was is not worked out again, unless its runner came or went, or a step is under way."""
        newest = self._newest.get(row.id, 0)
        runs = bool(row.lease.owner) and row.lease.until_s > self._now_s() and not is_gone(row.lease.owner)
        known = self._lines.get(row.id)
        if known is not None and known[0] is row and known[1:3] == (runs, newest) and row.doing is None:
            return known[3]
        made = figures.line(row, self._status(row), self._lags.get(row.id, ()))
        self._lines[row.id] = (row, runs, newest, made)
        return made

    def _meta(self, rows: Sequence[Job]) -> dict[str, Any]:
        now_s = self._now_s()
        owners = {row.lease.owner for row in rows if row.lease.owner and row.lease.until_s > now_s}
        alive = {process_of(owner) for owner in owners if not is_gone(owner)}
        return {"jobs": len(rows), "runners": len(alive)}

    def job(self, job_id: str) -> Sections:
        """The page of one job; UnknownJob if it is not there."""
        with self._lock:
            rows = self._rows()
            row = next((row for row in rows if row.id == job_id), None)
            if row is None:
                raise UnknownJob("there is no such job", hint="It was dropped, or the address is wrong.")
            line, steps = self._line(row), self._steps_of(job_id)
        return {
            "line": line,
            "key line": plain(key_line(row, works=line["doing"] is not None)),
            "settings": figures.settings_figures(row),
            "definition": figures.definition_figures(row),
            "plan": figures.explained_figures(self._store.explained(job_id)),
            "ladder": figures.ladder(row, line["phase"]),
            "events": figures.newest_events(self._store.events(job_id)),
            "steps": [figures.step_figures(step) for step in steps[-figures.STEPS_SHOWN :]],
            "lag": figures.lag_points(steps[-figures.STEPS_SHOWN :]),
            "meta": self._meta(rows),
        }

    def _steps_of(self, job_id: str) -> Sequence[DoneStep]:
        newest = self._newest.get(job_id, 0)
        if self._steps.get(job_id, (-1, ()))[0] != newest:
            self._steps = {job_id: (newest, self._store.steps(job_id))}  # of one job: others are read again
        return self._steps[job_id][1]

    def graph(self) -> Sections:
        """The page of the graph: a section for each node, and `meta`."""
        rows = self.rows()
        nodes = graph_figures(rows, self._store.tables(), self._status, self._store.tick)
        return {**nodes, "meta": self._meta(rows)}
