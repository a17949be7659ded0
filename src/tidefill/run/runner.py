"""The only loop: lease, wishes, observe, plan, execute, report. One call of `turn` is one round for one job.

Whatever happens in a turn, the next one begins from what the store and the target's log say, never from what this
process remembers of a failed attempt. So a crash at any line is the same as an error at that line.

What the world breaks is retried with backoff, from a fresh look. What needs a person makes the job FAILED with its
reason and hint. Whoever is fenced, or finds the row in another state than it was, lets go and looks again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, assert_never

from tidefill.core import budget, sizing, throttle
from tidefill.core.budget import size_text
from tidefill.core.confirm import UNBORN, Anchor, Truth, anchor_from_text, anchor_to_json, parsed
from tidefill.core.keys import Key, key_to_json
from tidefill.core.progress import Lag, Progress, advance
from tidefill.core.sizing import Sizing
from tidefill.core.state import JobState, Table
from tidefill.core.step import (
    ANEW_SHARE,
    Finish,
    Glimpse,
    Knobs,
    Pace,
    Plan,
    Reason,
    Seen,
    Shape,
    Step,
    StepKind,
    Verify,
    Wait,
    Write,
    kept_logs,
    kind_of,
    plan_at_once,
    plan_step,
)
from tidefill.core.throttle import Bucket
from tidefill.core.version import Number, Version, version_from_json, version_to_json
from tidefill.errors import (
    Bug,
    CommitConflict,
    Conflict,
    Fenced,
    KeepsFailing,
    LogGivenUp,
    NameTaken,
    NotOurs,
    NotYet,
    RetryLater,
    SparkLost,
    TidefillError,
    Unavailable,
    Unexplained,
    UnknownJob,
    Unreadable,
)
from tidefill.jobs import row as jobs
from tidefill.jobs.agreement import ALONE, InStep, Reads, stands
from tidefill.jobs.lifecycle import Event, Life
from tidefill.jobs.row import Doing, Job, Pause
from tidefill.ports.clock import Clock
from tidefill.ports.frames import Compared
from tidefill.ports.resources import Resources
from tidefill.ports.store import Store
from tidefill.run.in_step import Group, Ticking

LEASE_S = 60.0
BACKOFF_MAX_S = 30.0
POLL_S = 1.0
RECHECK_S = 60.0
SAME_FAILURES_MAX = 10  # over two minutes, with the back-off: longer than a lost executor is missed

LOG = logging.getLogger("tidefill.runner")
logging.getLogger("tidefill").addHandler(logging.NullHandler())  # who wants to read it says where


class Machine(Protocol):
    """What the loop drives; `tidefill.run.backfill.Backfill` is one. Its methods are documented there."""

    shape: Shape
    resources: tuple[str, ...]
    first_rows: Callable[[], int | None]

    def prepare(self, released: Mapping[Table, Version]) -> None: ...
    def recover(self, job: Job, anchor: Anchor | None) -> Truth: ...
    def estimate(self) -> int: ...
    def glimpse(self, job: Job, truth: Truth, pace: Pace, now_s: float, step: InStep = ALONE) -> Glimpse: ...
    def look(self, truth: Truth, glimpse: Glimpse, knobs: Knobs) -> Seen: ...
    def execute(self, job: Job, truth: Truth, step: Step) -> Truth: ...
    def verify(
        self, job: Job, truth: Truth, versions: Mapping[Table, Version], after: Key | None, rows: int
    ) -> Compared: ...
    def check_keys(self, versions: Mapping[Table, Version]) -> None: ...
    def notices(self) -> list[str]: ...
    def check_name(self) -> None: ...
    def publish(self) -> None: ...
    def release(self, versions: Mapping[Table, Version]) -> None: ...
    def close_heads(self) -> None: ...
    def let_go(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """What a turn came to: whether something was done, and when to come back (None: when something changes)."""

    worked: bool
    again_in_s: float | None = POLL_S


@dataclass(slots=True)
class _Active:
    """What this process remembers of a job between turns. Losing it costs time, never rows."""

    machine: Machine
    generation: int
    fence: int
    bucket: Bucket
    sizing: Sizing
    prepared: bool = False
    truth: Truth | None = None
    checked_s: float = 0.0
    looked_s: float = 0.0
    committed_s: float = 0.0
    filled_s: float = 0.0
    filled_rows: int = 0
    step_s: float = 0.0
    lag: Lag = field(default_factory=Lag)
    told: set[str] = field(default_factory=set)
    pace: Pace = field(default_factory=Pace)
    failed: int = 0
    verified: _Verified | None = None


@dataclass(slots=True)
class _Verified:
    """How far a verification has come, and how many rows are compared at a time."""

    began_s: float
    piece_rows: int
    rows: int = 0
    upto: Key | None = None
    notes: tuple[str, ...] = ()


class Runner:
    """Runs jobs under leases, one turn at a time."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        build: Callable[[Job], Machine],
        resources: Resources,
        owner: str,
        new_uuid: Callable[[], str],
        *,
        start: Sizing | None = None,
        forward_s: float = 0.0,
        source: Callable[[Job, Sequence[Job] | None], str] = lambda *_: "",
        is_gone: Callable[[str], bool] = lambda _: False,
        hurry: bool = False,
        reads: Callable[[Sequence[Job]], Reads] = lambda _: {},
        log: logging.Logger = LOG,
        lost: Callable[[Exception], RetryLater | None] = lambda _: None,
    ) -> None:
        """`start` and `forward_s`: the size of a chunk, and the time of a step without one, that are assumed before any
        was seen. `source`: what it is that a job reads, by these rows or now; empty if that cannot be replaced, or is
        not there.
        `is_gone`: whether another owner is known to be no more. `hurry`: no job waits for its target lag.
        `reads`: what each of these jobs reads. `lost`: what to raise if the error came because the engine under all
        machines is gone; SparkLost ends the run."""
        self._store = store
        self._clock = clock
        self._build = build
        self._resources = resources
        self._owner = owner
        self._new_uuid = new_uuid
        self._start = start or Sizing()
        self._pace_at_start = Pace(last_forward_s=forward_s)
        self._hurry = hurry
        self._source = source
        self._is_gone = is_gone
        self._log = log
        self._lost = lost
        self._ticking = Ticking(store, reads)
        self._active: dict[str, _Active] = {}
        self._failures: dict[str, int] = {}
        self._unexplained: dict[str, tuple[str, int]] = {}
        self._rows: Sequence[Job] | None = None

    def turn(self, job_id: str, rows: Sequence[Job] | None = None) -> Turn:
        """One round for one job; every error but SparkLost ends here. `rows`: all jobs, as the caller has just read
        them; what others do meanwhile is seen in the next turn. Without them the store is asked when they are
        needed."""
        self._rows = rows
        try:
            job = self._store.change(job_id, jobs.acquire(self._owner, self._clock.now_s(), LEASE_S, self._is_gone))
        except UnknownJob:
            self._let_go(job_id)
            return Turn(False, None)
        except RetryLater:
            return self._back_off(job_id)
        if job.lease.owner != self._owner:
            self._let_go(job_id)
            return Turn(False)
        try:
            turn = self._advance_unless_lost(job)
            self._failures.pop(job_id, None)
            self._unexplained.pop(job_id, None)
            if job_id in self._active:
                self._active[job_id].failed = 0
            return turn
        except NameTaken as error:  # in the catalog: a person has to decide who shall have the name
            return self._fail(job, error)
        except (Conflict, UnknownJob):
            self._let_go(job_id)
            return Turn(False)
        except SparkLost:
            raise
        except RetryLater as error:
            return self._retry(job, error)
        except TidefillError as error:
            return self._fail(job, error)
        except Exception as error:
            self._log.exception("a bug, in the job %s", job.name)
            return self._fail(job, Bug(f"unexpected {type(error).__name__}", detail=str(error)))

    def _advance_unless_lost(self, job: Job) -> Turn:
        """If what all machines work with is gone, they are of no use either."""
        try:
            return self._advance(job)
        except (Conflict, UnknownJob, NotYet, CommitConflict):
            raise
        except Exception as error:
            lost = self._lost(error)
            if lost is None:
                raise
            self._log.warning("%s: %s", lost.fact, lost.detail)
            for job_id in tuple(self._active):
                with suppress(Exception):
                    self._active.pop(job_id).machine.close_heads()
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
        source = self._source(job, self._rows)
        moved = bool(job.source and source) and source != job.source
        if moved or job.wants_resync:
            source = self._source(job, None)  # another runner may have built it anew from what is newer than our rows
            moved = bool(job.source and source) and source != job.source
        if job.wants_resync or moved:
            self._let_go(job.id)
            told = "its input was built anew: a new generation begins" if moved else "a new generation begins"
            job = self._change(job, jobs.next_generation(self._new_uuid(), source), told)
            self._let_go_of_logs(job)
        if job.life is Life.FAILED:
            if not job.wants_resume:
                return self._stand(job)
            self._let_go(job.id)
            job = self._change(job, jobs.resumed, "resumed after a failure")
        if job.pause is Pause.ALL and job.life is not Life.PAUSED:
            job = self._change(job, jobs.happened(Event.PAUSE, waiting=Reason.PAUSED.value), "paused")
        if job.pause is not Pause.ALL and job.life is Life.PAUSED:
            job = self._change(job, jobs.resumed, "resumed")
        return self._run(job)

    def _let_go_of_logs(self, job: Job) -> None:
        """Older generations will take in nothing more. What cannot be removed now is when the new one is published."""
        for resource in job.resources:
            with suppress(TidefillError):
                if self._resources.kept(resource) is not None:
                    self._resources.remove(job, resource)

    def _run(self, job: Job) -> Turn:
        job, active = self._activate(job)
        if job.life is Life.PAUSED and self._gave_up_the_log(job, stands=True):
            return Turn(True, None)
        if job.waiting == Reason.PAUSED.value and 0.0 <= self._clock.now_s() - active.looked_s < RECHECK_S:
            return Turn(False)
        active.looked_s = self._clock.now_s()
        truth = self._truth(job, active)
        group, pace = self._ticking.group(job, self._rows), self._pace(job, active)
        knobs = self._knobs(job, group)
        if plan_at_once(truth.state, job.phase(), knobs) is not None:
            return self._finish(job, active)
        due = job.life is not Life.LIVE or pace.since_commit_s >= knobs.target_lag_s
        step = InStep(group.member, partial(self._ticking.allowed, group, due), group.read)
        glimpse = active.machine.glimpse(job, truth, pace, self._clock.now_s(), step)
        active.lag = _lag(truth.state, glimpse)
        seen = active.machine.look(truth, glimpse, knobs)
        self._notify(job, active, glimpse)
        plan: Plan = plan_step(truth.state, seen, knobs, active.machine.shape)
        match plan:
            case Step():
                turn = self._step(job, active, truth, plan)
                if plan.write is Write.REPLACE and seen.share >= ANEW_SHARE:
                    self._event(job, f"computed anew: {min(seen.share, 1):.0%} of what it reads was written")
                return turn
            case Wait():
                return self._wait(job, active, glimpse, plan, group.blocked_by)
            case Finish():
                return self._finish(job, active)
            case Verify(versions):
                return self._verify(job, active, truth, versions)
            case never:
                assert_never(never)

    def _finish(self, job: Job, active: _Active) -> Turn:
        active.verified = None
        self._change(job, jobs.happened(Event.FILLED), "filled; verifying")
        return Turn(True, 0.0)

    def _knobs(self, job: Job, group: Group) -> Knobs:
        """Those who go together go as often as the most impatient of them."""
        knobs = job.knobs()
        if group.target_lag_s is not None:
            knobs = replace(knobs, target_lag_s=group.target_lag_s)
        return replace(knobs, target_lag_s=0.0) if self._hurry else knobs

    def _activate(self, job: Job) -> tuple[Job, _Active]:
        """Have the machine of the job's generation, and everything it needs made. What is remembered from an earlier
        lease is worth nothing: others may have run the job since. The generation's uuid and the names
        of all that is made are in the store before anything is made. What it is built from is asked before it is built:
        if that is replaced between the two, the next turn sees it."""
        active = self._active.get(job.id)
        if active is None or (active.generation, active.fence) != (job.generation, job.lease.fence):
            self._let_go(job.id)
            source, machine = self._source(job, None), self._build(job)
            if not job.generation_uuid or (source and not job.source):
                job = self._change(job, jobs.begin_generation(self._new_uuid(), source))
            now_s = self._clock.now_s()
            active = _Active(
                machine, job.generation, job.lease.fence, Bucket(0.0, now_s), self._sizing(job, machine),
                pace=self._pace_at_start,
            )  # fmt: skip
            self._active[job.id] = active
        if not active.prepared or not set(active.machine.resources) <= set(job.resources):
            job = self._prepare(job, active)
        if job.life is Life.CREATED:
            job = self._change(job, jobs.happened(Event.START), "backfilling")
        return job, active

    def _sizing(self, job: Job, machine: Machine) -> Sizing:
        """Tables are asked for their size only where there is something to fill."""
        fixed = job.settings.chunk_rows
        if fixed is not None:
            return replace(self._start, rows=fixed, fixed=True)
        if job.published == job.generation:
            return self._start
        known = machine.first_rows() or self._start.rows
        return replace(self._start, rows=known if machine.shape.appends else self._start.rows, whole_rows=known)

    def _prepare(self, job: Job, active: _Active) -> Job:
        for resource in active.machine.resources:
            if resource not in job.resources:
                job = self._change(job, jobs.intend(resource))
        active.machine.prepare(versions_from_text(job.released))
        self._remove_if_made_in_vain(job, active.machine.resources)
        if job.published == job.generation:
            active.machine.publish()
            job = self._tidy(job, active)
        active.prepared = True
        return job

    def _remove_if_made_in_vain(self, job: Job, made: tuple[str, ...]) -> None:
        """While we made things the job may have been dropped, or have begun a new generation, by a runner that took it
        over: then nobody else will remove them. What is published stays until its successor is."""
        now = self._store.job(job.id)
        superseded = now is not None and job.generation not in (now.generation, now.published)
        if now is None or now.life in (Life.CANCELLING, Life.DROPPED) or superseded:
            for resource in made:
                self._resources.remove(job, resource)
            raise Fenced(f"{job.name} was ended by another runner")

    def _truth(self, job: Job, active: _Active) -> Truth:
        """What is true, from the log: at the start, after every trouble, and now and then, for strangers may write.
        Others go by what the store says of it, so that is brought up to date if a runner died before it could."""
        now_s = self._clock.now_s()
        if active.truth is None or not 0.0 <= now_s - active.checked_s < RECHECK_S:
            if active.truth is None:
                anchor = anchor_from_text(job.anchor)
            else:
                anchor = active.truth.anchor(job.generation_uuid)
            active.truth = active.machine.recover(job, anchor)
            active.checked_s = now_s
            if active.truth.state.step > (0 if anchor is None else anchor.state.step):
                self._report(job, active, active.truth)
        return active.truth

    def _pace(self, job: Job, active: _Active) -> Pace:
        now_s, limit = self._clock.now_s(), job.settings.rate_limit
        if job.settings.chunk_rows != (active.sizing.rows if active.sizing.fixed else None):
            active.sizing = self._sizing(job, active.machine)
        rows = sizing.chunk_rows(active.sizing, limit)
        active.bucket = throttle.refill(active.bucket, now_s, limit, rows * job.settings.parallelism)
        return replace(
            active.pace,
            since_commit_s=max(0.0, now_s - active.committed_s),
            chunk_rows=rows,
            whole_rows=sizing.whole_rows(active.sizing, limit),
            chunks_allowed=throttle.chunks_allowed(active.bucket, limit, rows, job.settings.parallelism),
            tokens_in_s=throttle.wait_s(active.bucket, limit, rows),
        )

    def _step(self, job: Job, active: _Active, truth: Truth, step: Step) -> Turn:
        began_s = self._clock.now_s()
        self._begin(job, active, _doing(truth.state, step, began_s, active.step_s))
        active.truth = None
        try:
            after = active.machine.execute(job, truth, step)
        except Unavailable:
            filled = step.chunks or not truth.state.step
            active.sizing = sizing.after_trouble(active.sizing) if filled else active.sizing
            raise
        if truth.checked == UNBORN:
            self._remove_if_made_in_vain(job, active.machine.resources)
        ended_s = self._clock.now_s()
        if after.state.versions != truth.state.versions:
            active.lag = Lag(0, 0.0, active.lag.log_bytes)
        self._account(active, step, after, max(0.0, ended_s - began_s), ended_s)
        self._report(job, active, after)
        active.truth, active.checked_s = after, ended_s
        active.machine.release(after.state.versions)
        return Turn(True, 0.0)

    def _begin(self, job: Job, active: _Active, doing: Doing) -> None:
        """Say what is being done, and how far the target is behind, before something that may take long. The next
        change of the row by this runner, whatever it is, takes that back."""
        self._change(job, lambda row: replace(row, doing=doing, waiting="", progress=self._now(row, active.lag)))

    def _account(self, active: _Active, step: Step, after: Truth, took_s: float, ended_s: float) -> None:
        """Time and rows, for the sizes and shares of the steps to come."""
        pace = active.pace
        active.step_s = took_s
        if step.chunks:
            rows = max(after.inserted, step.rows)
            active.bucket = throttle.spend(active.bucket, rows)
            active.filled_rows += rows
            active.filled_s += took_s
            active.sizing = sizing.after_fill(active.sizing, took_s) if step.rows else active.sizing
            active.pace = replace(pace, fill_s=pace.fill_s + took_s, forwarded_last=False)
        else:
            active.pace = replace(pace, forward_s=pace.forward_s + took_s, last_forward_s=took_s, forwarded_last=True)
        active.committed_s = ended_s

    def _report(self, job: Job, active: _Active, truth: Truth) -> None:
        """The confirmed copy and the progress, in one write."""
        estimate = active.machine.estimate()
        rows_per_s = active.filled_rows / active.filled_s if active.filled_s > 0 else 0.0
        if job.settings.rate_limit is not None:
            rows_per_s = min(rows_per_s, float(job.settings.rate_limit))
        anchor = json.dumps(anchor_to_json(truth.anchor(job.generation_uuid)))

        def reported(row: Job) -> Job:
            progress = advance(
                row.progress,
                row.generation,
                truth.state.rows_filled,
                estimate,
                finished=truth.state.finished(),
                rows_per_s=rows_per_s,
                lag=active.lag,
                at_s=self._clock.now_s(),
            )
            return replace(row, anchor=anchor, progress=progress, waiting="")

        self._change(job, reported)

    def _wait(self, job: Job, active: _Active, glimpse: Glimpse, wait: Wait, blocked_by: Job | None) -> Turn:
        """Say what for: whoever has taken in all that there is waits for the job below that stands still. A job that is
        up to date releases the upstream's log up to the head: nothing in it was ours. One that still has something to
        fill must not: it may yet fill at its own version."""
        if wait.reason is Reason.IDLE:
            heads = {table: look.head for table, look in glimpse.tables.items()}
            self._release_idle(job, active, heads)
        active.machine.close_heads()
        waiting = wait.reason.value
        if blocked_by is not None and wait.reason in (Reason.IDLE, Reason.INPUTS):
            waiting = f"{blocked_by.name}, which is {stands(blocked_by)}"
        if job.waiting != waiting or self._is_outdated(job, active.lag):
            self._change(job, lambda row: replace(row, waiting=waiting, progress=self._now(row, active.lag)))
        return Turn(False, POLL_S if wait.for_s is None else min(max(wait.for_s, 0.0), BACKOFF_MAX_S))

    def _now(self, job: Job, lag: Lag) -> Progress | None:
        """The progress as it was, with the lag as it is."""
        at_s = self._clock.now_s()
        return job.progress and replace(
            job.progress, lag_versions=lag.versions, lag_s=lag.s, log_bytes=lag.log_bytes, at_s=at_s
        )

    def _is_outdated(self, job: Job, lag: Lag) -> bool:
        """Whether a job that waits on for the same thing has told too long ago how much log is kept for it."""
        told = job.progress
        if told is None or told.at_s is None or told.log_bytes == lag.log_bytes:
            return False
        return not 0.0 <= self._clock.now_s() - told.at_s < RECHECK_S

    def _notify(self, job: Job, active: _Active, glimpse: Glimpse) -> None:
        """Say once what a person should know."""
        pressing = [table for table, look in glimpse.tables.items() if look.pressing]
        notices = [f"half of the time for which {table} keeps its history is over" for table in pressing]
        allowed = job.settings.wal_budget
        if allowed is not None and any(2 * kept.total > allowed for kept in kept_logs(glimpse)):
            notices.append(f"the server keeps more than {size_text(allowed // 2)} of its log for this job")
        for notice in (*notices, *active.machine.notices()):
            if notice not in active.told:
                active.told.add(notice)
                if all(text != notice for _, text in self._store.events(job.id)):
                    self._event(job, notice)

    def _release_idle(self, job: Job, active: _Active, heads: Mapping[Table, Version]) -> None:
        if not any(version.carry for version in heads.values()):
            return
        text = _versions_to_text(heads)
        if text != job.released:
            self._change(job, lambda row: replace(row, released=text))
            active.machine.release(heads)

    def _verify(self, job: Job, active: _Active, truth: Truth, versions: Mapping[Table, Version]) -> Turn:
        """A piece of it. Verified: live, unless there is a wish that has not been looked at."""
        if job.settings.verify:
            done = self._verify_piece(job, active, truth, versions)
            if done.upto is not None:
                return Turn(True, 0.0)
            active.verified = None
            told = f"verified: {done.rows} rows equal a recompute, found in {self._clock.now_s() - done.began_s:.1f} s"
            told = "; ".join((told, *done.notes))
        else:
            self._begin(job, active, Doing(StepKind.VERIFY.value, self._clock.now_s()))
            active.machine.check_keys(versions)
            told = "not verified, as it was asked"
        self._event(job, told)
        active.machine.check_name()
        after = self._change(job, jobs.happened(Event.VERIFIED, wish_number=job.wish_number, published=job.generation))
        if after.life is Life.LIVE:
            self._event(job, "live")
            active.machine.publish()
            self._tidy(after, active)
        return Turn(True, 0.0)

    def _verify_piece(self, job: Job, active: _Active, truth: Truth, versions: Mapping[Table, Version]) -> _Verified:
        """Every commit is right by itself, so each piece may be compared at another version; those that were compared
        before need not be again. A piece that was given up is tried again, half as large."""
        now = active.verified = active.verified or _Verified(self._clock.now_s(), active.sizing.ceiling_rows)
        self._begin(job, active, Doing(StepKind.VERIFY.value, now.began_s, rows=now.rows))
        try:
            compared = active.machine.verify(job, truth, versions, now.upto, now.piece_rows)
        except (Unavailable, Unreadable):
            now.piece_rows = max(1, now.piece_rows // 2)
            raise
        now.rows += compared.rows
        now.notes = tuple(dict.fromkeys((*now.notes, *compared.notes)))
        now.upto = compared.upto
        return now

    def _tidy(self, job: Job, active: _Active) -> Job:
        """Remove what older generations left; at every start too, for the last attempt may have been cut off."""
        for resource in job.resources:
            if resource not in active.machine.resources:
                try:
                    self._resources.remove(job, resource)
                except NotOurs as error:
                    self._leave(job, error)
                    continue
                job = self._change(job, jobs.forget(resource))
        return job

    def _end(self, job: Job) -> Turn:
        """CANCEL and DROP. What cannot be removed now stays listed and is tried again by `_sweep`."""
        self._let_go(job.id)
        if job.life is not Life.CANCELLING:
            job = self._change(job, jobs.happened(Event.END), "being dropped")
        for resource in job.resources:
            self._remove(job, resource)
        self._change(job, jobs.happened(Event.ENDED, ended_at_s=self._clock.now_s()), "dropped")
        return Turn(True, LEASE_S)

    def _sweep(self, job: Job) -> Turn:
        """A runner that lost its lease may have made things after they were removed: look once more after its time."""
        if self._clock.now_s() < job.ended_at_s + LEASE_S:
            return Turn(False, LEASE_S)
        left = tuple(resource for resource in job.resources if not self._remove(job, resource))
        if left:
            if left != job.resources:
                self._change(job, lambda row: replace(row, resources=left))
            return Turn(False, BACKOFF_MAX_S)
        self._store.delete(job.id)
        self._ticking.tidy()
        return Turn(True, None)

    def _remove(self, job: Job, resource: str) -> bool:
        try:
            self._resources.remove(job, resource)
        except RetryLater:
            return False
        except NotOurs as error:
            self._leave(job, error)
            return False
        return True

    def _leave(self, job: Job, error: NotOurs) -> None:
        """Say once what is left where, and why."""
        text = f"left where it is: {error.fact}: {error.detail}"
        if all(text != known for _, known in self._store.events(job.id)):
            self._event(job, text)

    def _retry(self, job: Job, error: RetryLater) -> Turn:
        """Begin again from what is true, later. (NotYet is no trouble: what is known stays known.)"""
        active = self._active.get(job.id)
        if active is not None:
            active.machine.close_heads()
            if not isinstance(error, NotYet):
                active.truth, active.prepared = None, False
            active.failed = 0 if isinstance(error, (NotYet, CommitConflict)) else active.failed + 1
        if isinstance(error, CommitConflict) and job.id not in self._failures:
            self._failures[job.id] = 0  # another one in a row backs off
            return Turn(False, 0.0)
        if isinstance(error, Unexplained) and self._is_told_too_often(job.id, error):
            return self._fail(job, _keeps_failing(job, error))
        with suppress(TidefillError):
            if active is not None and self._gave_up_the_log(job, failed=active.failed):
                return Turn(True, None)
        with suppress(TidefillError):
            self._change(job, lambda row: replace(row, waiting=error.fact))
        return self._back_off(job.id)

    def _is_told_too_often(self, job_id: str, error: Unexplained) -> bool:
        """Whether the job has met just this error so often, one time after the other, that it will not pass."""
        fact, times = self._unexplained.get(job_id, ("", 0))
        times = times + 1 if fact == error.fact else 1
        self._unexplained[job_id] = (error.fact, times % SAME_FAILURES_MAX)  # whoever resumes it begins anew
        return times == SAME_FAILURES_MAX

    def _back_off(self, job_id: str) -> Turn:
        failures = self._failures.get(job_id, 0) + 1
        self._failures[job_id] = failures
        return Turn(False, min(2.0 ** min(failures, 10) / 2, BACKOFF_MAX_S))

    def _stand(self, job: Job) -> Turn:
        """A job that has failed stands still, and still a server may keep its log for it."""
        if job.settings.wal_limit is None:
            return Turn(False, None)
        with suppress(TidefillError):
            self._gave_up_the_log(job, stands=True)
        return Turn(False, RECHECK_S)

    def _gave_up_the_log(self, job: Job, *, stands: bool = False, failed: int = 0) -> bool:
        """Give it up if that was asked for, too much is kept, and the job does not move. First that is written down, so
        that whoever goes on after a crash knows why the slot is gone; then the slot is dropped."""
        limit = job.settings.wal_limit
        if limit is None:
            return False
        logs = {name: kept for name in job.resources if (kept := self._resources.kept(name)) is not None}
        over = [kept for kept in logs.values() if budget.gives_up(kept, limit, stands=stands, failed=failed)]
        if not over:
            return False
        self._let_go(job.id)
        error = LogGivenUp(
            f"{job.name} stood still, and the log that a server kept for it was given up",
            detail=f"{size_text(over[0].ours)} waited to be taken in. Its wal_limit is {size_text(limit)}.",
            hint="RESYNC the job to build it anew.",
        )
        self._change(job, jobs.gave_up(error), f"failed: {error.fact} [{error.code}]")
        for resource in logs:
            self._resources.remove(job, resource)  # it stays listed: whoever resumes or verifies the job makes it anew
        return True

    def _fail(self, job: Job, error: TidefillError) -> Turn:
        self._let_go(job.id)
        try:
            self._change(job, jobs.failed(error), f"failed: {error.fact} [{error.code}]")
        except TidefillError:
            return self._back_off(job.id)
        return Turn(False, None)

    def _let_go(self, job_id: str) -> None:
        """Forget what this process remembers of the job."""
        active = self._active.pop(job_id, None)
        if active is not None:
            active.machine.let_go()

    def let_go(self) -> None:
        """Forget all jobs: nobody will ask for a turn again."""
        for job_id in tuple(self._active):
            with suppress(TidefillError):
                self._let_go(job_id)

    def _change(self, job: Job, change: Callable[[Job], Job], event: str = "") -> Job:
        after = self._store.change(job.id, jobs.fenced(job.lease.fence, jobs.ends_step(change)))
        if event:
            self._event(job, event)
        return after

    def _event(self, job: Job, text: str) -> None:
        self._log.info("%s: %s", job.name, text, extra={"data": {"job": job.id, "generation": job.generation}})
        self._store.add_event(job.id, self._clock.now_s(), text)


def _doing(state: JobState, step: Step, began_s: float, usual_s: float) -> Doing:
    chunks = [chunk for ranges in step.chunks.values() for chunk in ranges]
    ranges = json.dumps([[key_to_json(chunk.after), key_to_json(chunk.upto)] for chunk in chunks])
    return Doing(kind_of(state, step).value, began_s, len(chunks), step.rows, ranges, usual_s)


def _keeps_failing(job: Job, error: Unexplained) -> KeepsFailing:
    return KeepsFailing(
        f"{job.name} has failed {SAME_FAILURES_MAX} times in a row for the same reason",
        detail=f"{error.fact}: {error.detail}" if error.detail else error.fact,
        hint="The log of Tidefill and that of Spark have more. Mend the reason, then RESUME the job.",
    )


def _lag(state: JobState, glimpse: Glimpse) -> Lag:
    """Of the table that is furthest behind."""
    behind = [
        look.head.point.number - at.point.number
        for table, look in glimpse.tables.items()
        if (at := state.versions.get(table)) is not None
        and isinstance(look.head.point, Number)
        and isinstance(at.point, Number)
    ]
    versions = max(0, *behind) if behind else None
    log_bytes = max((kept.total for kept in kept_logs(glimpse)), default=None)
    return Lag(versions, max((look.lag_s for look in glimpse.tables.values()), default=None), log_bytes)


def _versions_to_text(versions: Mapping[Table, Version]) -> str:
    return json.dumps({table: version_to_json(version) for table, version in versions.items()}, sort_keys=True)


def versions_from_text(text: str) -> dict[Table, Version]:
    """What a job's row says was released last, by table."""
    return {table: version_from_json(data) for table, data in parsed(text).items()} if text else {}
