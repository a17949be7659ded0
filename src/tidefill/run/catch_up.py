"""Brings every job of a store to the newest version that its inputs have, then stops.

A job gets a goal when all jobs that it reads have reached theirs: the newest versions that its inputs have then. The
catch-up is done with a job that has reached its goal, or that cannot come nearer to it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from tidefill.core.reasons import Reason
from tidefill.core.version import Number, Point
from tidefill.jobs.graph import Graph
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import ends
from tidefill.jobs.row import Job, Pause
from tidefill.jobs.status import readable_anchor
from tidefill.ports.store import Store
from tidefill.run.runner import Turn
from tidefill.run.scheduler import Scheduler

POLL_S = 0.2
ROUNDS_MAX = 100_000
NEVER = Number(1 << 62)  # a version that no table has

Goal = Mapping[str, Point]
"""Versions by table; the only input of a job has the name ''."""


class CatchUp:
    """One catch-up. `heads`: the newest versions of what a job reads; None if one of them is not live, and so (its turn
    came first) will not be soon."""

    def __init__(self, store: Store, scheduler: Scheduler, heads: Callable[[Job], Goal | None]) -> None:
        self._store = store
        self._scheduler = scheduler
        self._heads = heads
        self._goals: dict[str, Goal | None] = {}

    def run(self, stop: threading.Event) -> None:
        """Take turns until no job has a goal any more, or until told to stop."""
        self._goals = {row.id: None for row in self._scheduler.look().order()}
        with self._scheduler.alive():
            for _ in range(ROUNDS_MAX):
                turns = self._round(stop)
                if not self._goals or stop.is_set():
                    return
                if not any(turn.worked for turn in turns):
                    if self._all_wait_for_each_other(self._goals):
                        return
                    stop.wait(min([POLL_S, *(turn.again_in_s or POLL_S for turn in turns)]))

    def _round(self, stop: threading.Event) -> list[Turn]:
        turns, graph = list[Turn](), self._scheduler.look()
        for job_id in tuple(self._goals):
            if not stop.is_set():
                turns.append(self._approach(job_id, graph))
                graph = self._scheduler.look() if turns[-1].worked else graph
        return turns

    def _approach(self, job_id: str, graph: Graph) -> Turn:
        """One turn, if the job may come nearer to its goal by it."""
        row = graph.by_id.get(job_id)
        if row is None or stands_still(row):
            del self._goals[job_id]
            return Turn(False)
        below = graph.inputs(job_id)
        if any(other.published is None and other.id in self._goals for other in below):
            return Turn(False)
        knows_inputs = not row.wants_generation and not any(other.id in self._goals for other in below)
        if self._goals[job_id] is None and not ends(row) and knows_inputs:
            self._goals[job_id] = self._heads(row)
            if self._goals[job_id] is None:
                del self._goals[job_id]
                return Turn(False)
        turn, goal, after = self._scheduler.turn(row, graph), self._goals[job_id], self._store.job(job_id)
        swept = row.life is Life.DROPPED and not turn.worked
        rests = not turn.worked and graph.blocked_by(job_id) is not None
        if after is None or swept or (goal is not None and (reached(after, goal) or rests)):
            del self._goals[job_id]
        return turn

    def _all_wait_for_each_other(self, job_ids: Iterable[str]) -> bool:
        """Whether every one of these jobs waits for other jobs: those have reached their goals, so nobody would
        move."""
        for_others = (Reason.SIBLINGS.code, Reason.INPUTS.code)
        return all(row is not None and row.waits_for in for_others for row in map(self._store.job, job_ids))


def stands_still(row: Job) -> bool:
    """Whether the job does nothing until somebody wishes for something."""
    wished = row.wants_end or row.wants_generation or row.wants_resume or bool(row.wants_gone)
    paused = (row.life is Life.PAUSED and row.pause is Pause.ALL) or row.waits_for == Reason.FILL_PAUSED.code
    stopped = row.settings.rate_limit == 0 and row.waits_for == Reason.RATE_LIMIT.code
    deferred = row.settings.deferred and row.waits_for == Reason.DEFERRED.code
    return not wished and (row.life is Life.FAILED or paused or stopped or deferred)


def reached(row: Job, goal: Goal) -> bool:
    """Whether the job is live and has these versions of its inputs."""
    anchor = readable_anchor(row)
    versions = {} if anchor is None else anchor.state.versions
    points = {table if len(versions) > 1 or table in goal else "": versions[table].point for table in versions}
    up_to_date = row.waits_for == Reason.IDLE.code
    has_all = all(_includes(points.get(table), point) for table, point in goal.items())
    wished = row.wants_generation or row.wants_resume or row.wants_gone
    return row.life is Life.LIVE and not wished and (up_to_date or has_all)


def _includes(point: Point | None, goal: Point) -> bool:
    return point is not None and type(point) is type(goal) and point.includes(goal)
