"""The only loop: lease, wishes, recover, plan, execute, report. One call of `turn` is one round for one job.

Whatever happens in a turn, the next one begins from what the store and the machine's log say, never from what this
process remembers of a failed attempt. So a crash at any line is the same as an error at that line.

What the world breaks is retried with backoff, from a fresh look. What needs a person makes the job FAILED with its
reason and hint. A runner that is fenced, or finds the row in another state than it was, lets go and looks again.

The runner knows no kind of machine (`ports.machine`): it carries the machine's truth from one call to the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, assert_never

from tidefill.core.reasons import Reason, reason_of
from tidefill.errors import (
    Bug,
    CommitConflict,
    Conflict,
    KeepsFailing,
    NameTaken,
    NotYet,
    RetryLater,
    SparkLost,
    TidefillError,
    Unexplained,
    UnknownJob,
)
from tidefill.jobs import generations
from tidefill.jobs import row as jobs
from tidefill.jobs.agreement import Group, stands
from tidefill.jobs.graph import Graph, GraphOf
from tidefill.jobs.lifecycle import Event, Life
from tidefill.jobs.row import Job, Pause
from tidefill.jobs.steps import Did
from tidefill.ports.clock import Clock
from tidefill.ports.machine import Finish, Machine, Publish, Retires, Retiring, Round, Step, Verify, Wait
from tidefill.ports.resources import Resources
from tidefill.ports.store import Store
from tidefill.run.going_live import GoingLive
from tidefill.run.in_step import Ticking
from tidefill.run.making import Making
from tidefill.run.memory import SAME_FAILURES_MAX, Memory, Remembered
from tidefill.run.reporting import RECHECK_S, Reporting
from tidefill.run.rows import Rows

LEASE_S = 60.0
BACKOFF_MAX_S = 30.0
POLL_S = 1.0

LOG = logging.getLogger("tidefill.runner")
logging.getLogger("tidefill").addHandler(logging.NullHandler())  # who wants to read it says where


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn came to: whether something was done, and when to come back (None: when something changes)."""

    worked: bool
    again_in_s: float | None = POLL_S


class Runner:
    """Runs jobs under leases, one turn at a time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        build: Callable[[Job], Machine[Any]],
        resources: Resources,
        owner: str,
        new_uuid: Callable[[], str],
        *,
        source: Callable[[Job, Graph | None], str] = lambda *_: "",
        is_gone: Callable[[str], bool] = lambda _: False,
        hurry: bool = False,
        graph_of: GraphOf = Graph,
        log: logging.Logger = LOG,
        lost: Callable[[Exception], RetryLater | None] = lambda _: None,
        retires: Retires = lambda _: None,
    ) -> None:
        """`source`: what it is that a job reads, by this graph or now; empty if that cannot be replaced, or is not
        there. `is_gone`: whether another owner is known to be no more. `hurry`: no job waits for its target lag.
        `graph_of`: who reads whom, by the store's rows. `lost`: what to raise if the engine under all machines is gone;
        SparkLost ends the run. `retires`: what has to happen before a job's resources are removed."""
        self._store = store
        self._clock = clock
        self._build = build
        self._owner = owner
        self._new_uuid = new_uuid
        self._hurry = hurry
        self._source = source
        self._is_gone = is_gone
        self._log = log
        self._lost = lost
        self._retires = retires
        self._graph_of = graph_of
        self._ticking = Ticking(store)
        self._memory = Memory()
        self._rows = Rows(store, clock, log)
        self._reporting = Reporting(clock, self._rows)
        self._making = Making(store, self._rows, resources)
        self._going_live = GoingLive(clock, self._rows, self._reporting, self._making)
        self._graph: Graph | None = None

    def turn(self, job_id: str, graph: Graph | None = None) -> Turn:
        """One round for one job; every error but SparkLost ends here. `graph`: all jobs, as the caller has just read
        them; what others do meanwhile is seen in the next turn. Without it the store is asked when the jobs are
        needed."""
        self._graph = graph
        try:
            job = self._with_lease(job_id)
        except UnknownJob:
            self._memory.forget(job_id)
            return Turn(False, None)
        except RetryLater:
            return self._back_off(job_id)
        if job.lease.owner != self._owner:
            self._memory.forget(job_id)
            return Turn(False)
        try:
            turn = self._advance_unless_lost(job)
            self._memory.succeeded(job_id)
            return turn
        except SparkLost:
            raise
        except Exception as error:
            return self._after(job, error)

    def _with_lease(self, job_id: str) -> Job:
        """The job's row, after the attempt to take its lease. If the graph shows that the lease is ours and lasts, the
        store is not asked: whatever this turn writes is fenced by the lease's number."""
        acquire = jobs.acquire(self._owner, self._clock.now_s(), LEASE_S, self._is_gone)
        known = None if self._graph is None else self._graph.by_id.get(job_id)
        if known is not None and known.lease.owner == self._owner and acquire(known) == known:
            return known
        return self._store.change(job_id, acquire)

    def _after(self, job: Job, error: Exception) -> Turn:
        """What follows from an error."""
        match error:
            case NameTaken():  # in the catalog: a person has to decide who shall have the name
                return self._fail(job, error)
            case Conflict() | UnknownJob():
                self._memory.forget(job.id)
                return Turn(False)
            case RetryLater():
                return self._retry(job, error)
            case TidefillError():
                return self._fail(job, error)
            case _:
                self._log.error("a bug, in the job %s", job.name, exc_info=error)
                return self._fail(job, Bug(f"unexpected {type(error).__name__}", detail=str(error)))

    def _advance_unless_lost(self, job: Job) -> Turn:
        """`_advance`. If `lost` says that the engine under all machines is gone, forgets all machines and raises what
        it says."""
        try:
            return self._advance(job)
        except (Conflict, UnknownJob, NotYet, CommitConflict):
            raise
        except Exception as error:
            lost = self._lost(error)
            if lost is None:
                raise
            self._log.warning("%s: %s", lost.fact, lost.detail)
            self._memory.drop_dead()
            raise lost from error

    def _advance(self, job: Job) -> Turn:
        """Wishes first, then one step."""
        if job.life is Life.DROPPED:
            return self._sweep(job)
        if job.wants_end or job.life is Life.CANCELLING:
            return self._end(job)
        if job.unread_settings:
            if job.life is Life.FAILED:
                return self._stand(job)
            jobs.check_settings(job)
        job = self._begin_again_if_asked(job)
        if job.life is Life.FAILED:
            if not job.wants_resume:
                return self._stand(job)
            self._memory.forget(job.id)
            job = self._rows.change(job, jobs.resumed, "resumed after a failure")
        if job.life is Life.LIVE and job.wants_resume:
            self._memory.forget(job.id)
            job = self._rows.change(job, jobs.rebuilt, "what had failed is built again")
        if job.pause is Pause.ALL and job.life is not Life.PAUSED:
            job = self._rows.change(job, jobs.happened(Event.PAUSE, **jobs.waits(Reason.PAUSED)), "paused")
        if job.pause is not Pause.ALL and job.life is Life.PAUSED:
            job = self._rows.change(job, jobs.resumed, "resumed")
        return self._run(job)

    def _begin_again_if_asked(self, job: Job) -> Job:
        """A new generation, if somebody asked for one, by RESYNC or with another definition, or if what the job reads
        was built anew."""
        source = self._source(job, self._graph)
        moved = bool(job.source and source) and source != job.source
        if moved or job.wants_generation:
            source = self._source(job, None)  # another runner may have built it anew from what is newer than our graph
            moved = bool(job.source and source) and source != job.source
        if not job.wants_generation and not moved:
            return job
        self._memory.forget(job.id)
        before, why = job, "its input was built anew: " if moved else ""
        job = self._rows.change(job, generations.next_generation(self._new_uuid(), source))
        if job.definition != before.definition:
            seen = f"; readers see generation {job.published} until it is live" if job.published is not None else ""
            self._rows.event(job, f"replaced: generation {job.generation} begins with another query{seen}")
        else:
            self._rows.event(job, f"{why}a new generation begins")
        self._making.remove_logs(job)
        return job

    def _run(self, job: Job) -> Turn:
        job, active = self._activate(job)
        if job.life is Life.PAUSED and self._gave_up_the_log(job, stands=True):
            return Turn(True, None)
        if job.waits_for == Reason.PAUSED.code and 0.0 <= self._clock.now_s() - active.looked_s < RECHECK_S:
            return Turn(False)
        active.looked_s = self._clock.now_s()
        truth = self._truth(job, active)
        group = self._ticking.group(job, self._graph or self._graph_of(self._store.jobs()))
        began_s = self._clock.now_s()
        try:
            plan = active.machine.plan(job, truth, Round(began_s, self._hurry, group))
        except Exception:  # perhaps because of what a person should know
            self._reporting.notify(job, active)
            raise
        active.look_s = max(0.0, self._clock.now_s() - began_s)
        self._reporting.notify(job, active)
        match plan:
            case Step():
                return self._step(job, active, truth, plan)
            case Wait():
                return self._wait(job, active, truth, plan, group)
            case Finish():
                active.verification = None
                self._rows.change(job, jobs.happened(Event.FILLED), "filled; verifying")
            case Verify():
                self._going_live.verify(job, active, truth, plan)
            case Publish():
                active.machine.execute(job, truth, plan)
            case never:
                assert_never(never)
        return Turn(True, 0.0)

    def _activate(self, job: Job) -> tuple[Job, Remembered]:
        """Have the machine of the job's generation, and everything it needs made. The generation's uuid and the names
        of all that is made are in the store before anything is made. What it is built from is asked before it is built:
        if that is replaced between the two, the next turn sees it."""
        active = self._memory.of(job)
        if active is None:
            self._memory.forget(job.id)
            source, machine = self._source(job, None), self._build(job)
            if not job.generation_uuid or (source and not job.source):
                job = self._rows.change(job, jobs.begin_generation(self._new_uuid(), source))
            active = self._memory.keep(job, machine)
        if not active.prepared or not set(active.machine.resources) <= set(job.resources):
            job = self._making.prepare(job, active)
        if job.life is Life.CREATED:
            job = self._rows.change(job, jobs.happened(Event.START), "backfilling")
        return job, active

    def _truth(self, job: Job, active: Remembered) -> Any:
        """What is true. The machine is asked at the start, after every trouble, and every RECHECK_S, because strangers
        may write to the target. If the machine has more than the row says (a runner died before its report), the report
        is written: other jobs go by the row."""
        now_s = self._clock.now_s()
        if active.truth is None or not 0.0 <= now_s - active.checked_s < RECHECK_S:
            found = active.machine.recover(job, active.truth)
            active.truth, active.checked_s = found.truth, now_s
            if found.ahead:
                self._reporting.report(job, active, found.truth)
            for event in found.events:
                self._rows.event(job, event)
        return active.truth

    def _step(self, job: Job, active: Remembered, truth: Any, step: Step) -> Turn:
        self._reporting.begin(job, active, step.doing)
        active.truth = None
        outcome = active.machine.execute(job, truth, step)
        if outcome.made:
            self._making.remove_if_superseded(job, active.machine.resources)
        self._reporting.report(job, active, outcome.truth, outcome.did)
        active.truth, active.checked_s = outcome.truth, self._clock.now_s()
        active.machine.release(outcome.truth)
        for event in outcome.events:
            self._rows.event(job, event)
        return Turn(True, 0.0)

    def _wait(self, job: Job, active: Remembered, truth: Any, wait: Wait, group: Group) -> Turn:
        """Say what for: a job that has taken in all that there is waits for the job below it that stands still."""
        if wait.released and wait.released != job.released:
            self._rows.change(job, lambda row: replace(row, released=wait.released))
            active.machine.release(truth, wait.released)
        active.machine.rest()
        reason, text = wait.reason, wait.text
        if group.blocked_by is not None and reason in (Reason.IDLE, Reason.INPUTS):
            reason, text = Reason.BLOCKED, f"{group.blocked_by.name}, which is {stands(group.blocked_by)}"
        self._reporting.wait(job, active, reason, text)
        return Turn(False, _again_in_s(wait.for_s))

    def _end(self, job: Job) -> Turn:
        """CANCEL and DROP. What cannot be removed now stays listed and is tried again by `_sweep`."""
        self._memory.forget(job.id)
        if job.life is not Life.CANCELLING:
            job = self._rows.change(job, jobs.happened(Event.END), "being dropped")
        retiring = self._retires(job)
        if retiring is not None:
            turn = self._retire(job, retiring)
            if turn is not None:
                return turn
        self._making.remove_all(job)
        self._rows.change(job, jobs.happened(Event.ENDED, ended_at_s=self._clock.now_s()), "dropped")
        return Turn(True, LEASE_S)

    def _retire(self, job: Job, retiring: Retiring) -> Turn | None:
        """One step of what has to happen before the job's resources are removed; None if nothing is left to do."""
        plan = retiring.retire(job)
        match plan:
            case Step():
                self._rows.change(job, lambda row: replace(row, doing=plan.doing))
                retiring.execute(job, plan)
                return Turn(True, 0.0)
            case Wait():
                self._rows.change(job, lambda row: replace(row, **jobs.waits(plan.reason, plan.text)))
                return Turn(False, _again_in_s(plan.for_s))
            case Finish():
                return None
            case never:
                assert_never(never)

    def _sweep(self, job: Job) -> Turn:
        """A runner that lost its lease may have made things after they were removed: look once more after its time."""
        if self._clock.now_s() < job.ended_at_s + LEASE_S:
            return Turn(False, LEASE_S)
        left = self._making.remove_all(job)
        if left:
            self._making.keep_only(job, left)
            return Turn(False, BACKOFF_MAX_S)
        self._store.delete(job.id)
        self._ticking.tidy()
        return Turn(True, None)

    def _retry(self, job: Job, error: RetryLater) -> Turn:
        """Begin again from what is true, later. (NotYet is no trouble: what is known stays known.)"""
        active = self._memory.get(job.id)
        broken = None if active is None else self._reporting.ended(job, active, Did(), error.code)
        if active is not None:
            active.machine.rest()
            if not isinstance(error, NotYet):
                active.truth, active.prepared = None, False
            active.failed = 0 if isinstance(error, (NotYet, CommitConflict)) else active.failed + 1
        if isinstance(error, CommitConflict) and self._memory.is_first_conflict(job.id):
            return Turn(False, 0.0)
        if isinstance(error, Unexplained) and self._memory.is_told_too_often(job.id, error):
            return self._fail(job, _keeps_failing(job, error))
        with suppress(TidefillError):
            if active is not None and self._gave_up_the_log(job, failed=active.failed):
                return Turn(True, None)
        with suppress(TidefillError):
            waits = jobs.waits(reason_of(error.fact), error.fact)
            self._rows.change(job, lambda row: replace(row, **waits), step=broken)
        return self._back_off(job.id)

    def _back_off(self, job_id: str) -> Turn:
        failures = self._memory.count_failure(job_id)
        return Turn(False, min(2.0 ** min(failures, 10) / 2, BACKOFF_MAX_S))

    def _stand(self, job: Job) -> Turn:
        """A job that has failed stands still, and still a server may keep its log for it."""
        if job.settings.wal_limit is None:
            return Turn(False, None)
        with suppress(TidefillError):
            self._gave_up_the_log(job, stands=True)
        return Turn(False, RECHECK_S)

    def _gave_up_the_log(self, job: Job, *, stands: bool = False, failed: int = 0) -> bool:
        logs = self._making.logs_to_give_up(job, stands=stands, failed=failed)
        if logs:
            self._memory.forget(job.id)
            self._making.give_up(job, logs)
        return bool(logs)

    def _fail(self, job: Job, error: TidefillError) -> Turn:
        """FAILED, after the machine has stopped what would harm others meanwhile. If that cannot be done now, the job
        waits and says why; the next turn meets the error again. A job that is being dropped cannot fail: it waits."""
        try:
            if job.life is Life.CANCELLING:
                self._rows.change(job, lambda row: replace(row, **jobs.waits(Reason.TROUBLE, error.fact)))
                return self._back_off(job.id)
            self._abandon(job, error)
            active = self._memory.get(job.id)
            broken = None if active is None else self._reporting.ended(job, active, Did(), error.code)
            self._memory.forget(job.id)
            self._rows.change(job, jobs.failed(error), f"failed: {error.fact} [{error.code}]", step=broken)
        except SparkLost:
            raise
        except Exception as trouble:
            self._log.warning("%s cannot be failed now: %s", job.name, trouble)
            with suppress(TidefillError):
                self._rows.change(job, lambda row: replace(row, **jobs.waits(Reason.TROUBLE, error.fact)))
            self._memory.forget(job.id)
            return self._back_off(job.id)
        return Turn(False, None)

    def _abandon(self, job: Job, error: TidefillError) -> None:
        """Have the machine stop what would harm others while the job stands still. Raises Fenced, before that, if
        another runner has the lease: what that runner runs must not be stopped."""
        active = self._memory.get(job.id)
        gives_up = active.machine if active is not None else self._retires(job)
        if gives_up is not None:
            self._rows.change(job, lambda row: row)  # raises Fenced
            gives_up.abandon(job, error)

    def let_go(self) -> None:
        """Forget all jobs: nobody will ask for a turn again."""
        self._memory.forget_all()


def _again_in_s(for_s: float | None) -> float:
    return POLL_S if for_s is None else min(max(for_s, 0.0), BACKOFF_MAX_S)


def _keeps_failing(job: Job, error: Unexplained) -> KeepsFailing:
    return KeepsFailing(
        f"{job.name} has failed {SAME_FAILURES_MAX} times in a row for the same reason",
        detail=f"{error.fact}: {error.detail}" if error.detail else error.fact,
        hint="The log of Tidefill and that of Spark have more. Mend the reason, then RESUME the job.",
    )
