"""The machine of a backfill: plans by the pure core, sizes its chunks by the clock, and reports how far it is.

`Backfill` looks and commits. This class decides when: it asks the planner (`core.step`) what is next, and keeps what
the planner has to know of earlier steps: how long they took, how many rows they had, what the rate limit still allows.
Losing that costs time, never rows.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import Generic, TypeVar, assert_never

from tidefill.core import costs, sizing, step, throttle
from tidefill.core.confirm import NO_TABLE, Truth, anchor_from_text, anchor_to_json, parsed
from tidefill.core.costs import Sample, Way
from tidefill.core.keys import Key, key_to_json
from tidefill.core.look import CheapLook, Look, Pace
from tidefill.core.progress import Lag
from tidefill.core.reasons import Reason
from tidefill.core.sizing import Sizing
from tidefill.core.state import JobState, Table
from tidefill.core.step import Knobs, Write, kept_logs
from tidefill.core.throttle import Bucket
from tidefill.core.version import Version, version_from_json, version_to_json
from tidefill.errors import NotYet, TidefillError, Unavailable
from tidefill.jobs.agreement import InStep
from tidefill.jobs.amounts import size_text
from tidefill.jobs.definitions import INPUT, job_from_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Doing, Job
from tidefill.jobs.status import version_of
from tidefill.jobs.steps import Did
from tidefill.ports.clock import Clock
from tidefill.ports.frames import Compared
from tidefill.ports.machine import Finish, Outcome, Plan, Publish, Report, Round, Standing, Step, Verify, Wait
from tidefill.run.backfill import Backfill
from tidefill.run.phases import Phases
from tidefill.run.uniqueness import Watch

F = TypeVar("F")


class BackfillMachine(Generic[F]):
    """One generation of one job. `start` and `forward_s`: the size of a chunk, and the time of a step without one, that
    are assumed before any was seen."""

    def __init__(
        self, backfill: Backfill[F], clock: Clock, *, start: Sizing | None = None, forward_s: float = 0.0
    ) -> None:
        self.resources = backfill.resources
        self._backfill = backfill
        self._clock = clock
        self._start = start or Sizing()
        self._sizing: Sizing | None = None
        self._bucket = Bucket(0.0, clock.now_s())
        self._pace = Pace(last_forward_s=forward_s)
        self._committed_s = 0.0
        self._filled_s = 0.0
        self._filled_rows = 0
        self._step_s = 0.0
        self._lag = Lag()
        self._samples: tuple[Sample, ...] | None = None
        self._notices: tuple[str, ...] = ()
        self._watch = None if backfill.uniqueness is None else Watch(backfill.uniqueness)

    def prepare(self, job: Job) -> None:
        """Make what the upstreams need, and the target fit, if it is there."""
        self._backfill.prepare(_versions_from_text(job.released))

    def recover(self, job: Job, last: Truth | None) -> Outcome[Truth]:
        """Where the job is, by the target's log."""
        anchor = anchor_from_text(job.anchor) if last is None else last.anchor(job.generation_uuid)
        truth = self._backfill.recover(job, anchor)
        ahead = truth.state.step > (0 if anchor is None else anchor.state.step)
        counted, events = (False, ()) if self._watch is None else self._watch.recovered(job, truth)
        return Outcome(truth, ahead=ahead or counted, events=events)

    def plan(self, job: Job, truth: Truth, round: Round) -> Plan:
        """Look at the upstreams, then ask the planner."""
        pace, knobs = self._pace_now(job, round.now_s), _knobs(job, round)
        if step.plan_at_once(truth.state, job.phase(), knobs) is not None:
            return Finish()
        due = job.life is not Life.LIVE or pace.since_commit_s >= knobs.target_lag_s
        in_step = InStep(round.group.member, partial(round.group.allowed, due), round.group.read)
        glimpse = self._backfill.glimpse(job, truth, pace, round.now_s, in_step)
        self._lag = _lag(truth.state, glimpse)
        seen = self._backfill.look(truth, glimpse, knobs)
        self._notices = (*_notices(job, glimpse), *self._backfill.notices())
        return self._planned(truth.state, seen, knobs)

    def _planned(self, state: JobState, seen: Look, knobs: Knobs) -> Plan:
        planned = step.plan_step(state, seen, knobs, self._backfill.shape)
        match planned:
            case step.Step():
                return Step(_doing(state, planned, self._clock.now_s(), self._step_s), (planned, seen))
            case step.Wait(reason, for_s):
                return Wait(reason, for_s=for_s, released=_released(reason, seen.glimpse))
            case step.Finish():
                return Finish()
            case step.Verify(versions):
                return Verify(versions, rows=self._start.ceiling_rows)
            case never:
                assert_never(never)

    def execute(self, job: Job, truth: Truth, plan: Step | Verify | Publish) -> Outcome[Truth]:
        """One commit, one piece of a comparison, or the switch to this generation."""
        match plan:
            case Step(_, (step.Step() as planned, Look() as seen)):
                return self._commit(job, truth, planned, seen)
            case Verify(compares=False):
                self._backfill.check_keys(plan.work)
                return Outcome(truth)
            case Verify():
                compared = self._backfill.verify(job, truth, plan.work, plan.after, plan.rows)
                return Outcome(truth, compared=compared)
            case Publish(tries=True):
                self._backfill.check_name()
                return Outcome(truth)
            case Publish():
                self._backfill.publish()
                return Outcome(truth)
            case _:
                raise AssertionError(f"a plan of another machine: {plan}")

    def _commit(self, job: Job, truth: Truth, planned: step.Step, seen: Look) -> Outcome[Truth]:
        began_s, phases = self._clock.now_s(), Phases(self._clock)
        try:
            after = self._backfill.execute(job, truth, planned, phases.timed)
        except Unavailable:
            filled = planned.chunks or not truth.state.step
            self._sizing = sizing.after_trouble(self._sized(job)) if filled else self._sizing
            raise
        ended_s = self._clock.now_s()
        if after.state.versions != truth.state.versions:
            self._lag = Lag(0, 0.0, self._lag.log_bytes)
        took_s = max(0.0, ended_s - began_s)
        self._account(job, planned, after, took_s, ended_s)
        before, sample = self._samples_of(job), self._sample(planned, seen, after, took_s)
        self._samples = before if sample is None else costs.remembered(before, sample)
        chosen = (f"computed anew: {planned.why}",) if planned.why and not costs.recomputed_last(before) else ()
        turned = () if self._watch is None else self._watch.committed(job, truth, planned, after)
        did = _did(job, truth.state, planned, seen, after, phases)
        return Outcome(after, made=truth.checked == NO_TABLE, events=(*chosen, *turned), did=did)

    def _sample(self, planned: step.Step, seen: Look, after: Truth, took_s: float) -> Sample | None:
        """What the step says of the cost of steps, if it says something. All chunks of a fill together are a recompute;
        of a fill that another process began, nobody here knows how long it took."""
        if planned.chunks:
            all_of_it = after.state.finished() and self._filled_rows >= after.state.rows_filled > 0
            return Sample(Way.RECOMPUTE, 0, self._filled_rows, self._filled_s) if all_of_it else None
        if planned.write is Write.REPLACE:
            return Sample(Way.RECOMPUTE, seen.written, seen.rows, took_s) if seen.rows else None
        steps = planned.write is Write.MERGE and seen.written
        return Sample(Way.CHANGES, seen.written, seen.rows, took_s) if steps else None

    def _samples_of(self, job: Job) -> tuple[Sample, ...]:
        """What the job's steps took, in this process and before."""
        if self._samples is None:
            self._samples = costs.samples_from_text(job.learned)
        return self._samples

    def _account(self, job: Job, planned: step.Step, after: Truth, took_s: float, ended_s: float) -> None:
        """Time and rows, for the sizes and shares of the steps to come."""
        pace, self._step_s = self._pace, took_s
        if planned.chunks:
            rows = max(after.inserted, planned.rows)
            self._bucket = throttle.spend(self._bucket, rows)
            self._filled_rows += rows
            self._filled_s += took_s
            self._sizing = sizing.after_fill(self._sized(job), took_s) if planned.rows else self._sizing
            self._pace = replace(pace, fill_s=pace.fill_s + took_s, forwarded_last=False)
        else:
            self._pace = replace(pace, forward_s=pace.forward_s + took_s, last_forward_s=took_s, forwarded_last=True)
        self._committed_s = ended_s

    def _pace_now(self, job: Job, now_s: float) -> Pace:
        limit = job.settings.rate_limit
        rows = sizing.chunk_rows(self._sized(job), limit)
        self._bucket = throttle.refill(self._bucket, now_s, limit, rows * job.settings.parallelism)
        return replace(
            self._pace,
            since_commit_s=max(0.0, now_s - self._committed_s),
            chunk_rows=rows,
            whole_rows=sizing.whole_rows(self._sized(job), limit),
            chunks_allowed=throttle.chunks_allowed(self._bucket, limit, rows, job.settings.parallelism),
            tokens_in_s=throttle.wait_s(self._bucket, limit, rows),
            samples=self._samples_of(job),
            few_rows=self._backfill.few_rows,
        )

    def _sized(self, job: Job) -> Sizing:
        """The size of chunks, begun again when the setting has changed. Tables are asked for their size only where
        there is something to fill."""
        fixed = job.settings.chunk_rows
        if self._sizing is None or fixed != (self._sizing.rows if self._sizing.fixed else None):
            self._sizing = self._sizing_of(job, fixed)
        return self._sizing

    def _sizing_of(self, job: Job, fixed: int | None) -> Sizing:
        if fixed is not None:
            return replace(self._start, rows=fixed, fixed=True)
        if job.published == job.generation:
            return self._start
        known = self._backfill.first_rows() or self._start.rows
        rows = known if self._backfill.shape.appends else self._start.rows
        return replace(self._start, rows=rows, whole_rows=known)

    def report(self, job: Job, truth: Truth) -> Report:
        """How far the fill is, and the state that it has reached."""
        rows_per_s = self._filled_rows / self._filled_s if self._filled_s > 0 else 0.0
        if job.settings.rate_limit is not None:
            rows_per_s = min(rows_per_s, float(job.settings.rate_limit))
        return Report(
            json.dumps(anchor_to_json(truth.anchor(job.generation_uuid))),
            truth.state.finished(),
            truth.state.rows_filled,
            self._backfill.estimate(),
            rows_per_s,
            learned=costs.samples_to_text(self._samples_of(job)),
            condition="" if self._watch is None else self._watch.text(job, truth),
        )

    def standing(self) -> Standing:
        """The lag, and what a person should know, as of the last plan or step."""
        return Standing(self._lag, self._notices)

    def release(self, truth: Truth, released: str = "") -> None:
        """Tell the upstreams what will not be asked for again."""
        self._backfill.release(_versions_from_text(released) if released else truth.state.versions)

    def abandon(self, job: Job, error: TidefillError) -> None:
        """A target that stands still harms nobody."""

    def compare(self, job: Job, after: Key | None, rows: int) -> Compared:
        """The next piece of the target as it is now."""
        anchor = anchor_from_text(job.anchor)
        if anchor is None:
            raise NotYet(f"{job.name} has nothing to verify yet")
        if not self._backfill.lasting:
            self.prepare(job)
        truth = self._backfill.recover(job, anchor)
        compared = self._backfill.compare_now(truth, after, rows)
        return replace(compared, version=version_of(truth.anchor(job.generation_uuid)))

    def rest(self) -> None:
        """Hold no version open."""
        self._backfill.close_heads()

    def close(self) -> None:
        """Hold no version open, and no rows in memory."""
        self._backfill.let_go()


def _knobs(job: Job, round: Round) -> Knobs:
    """What the planner is told of settings and wishes. Jobs in step all have the smallest target lag among them."""
    knobs, group_lag_s = job.knobs(), round.group.target_lag_s
    target_lag_s = knobs.target_lag_s if group_lag_s is None else group_lag_s
    return replace(knobs, target_lag_s=0.0 if round.hurry else target_lag_s)


def _did(job: Job, before: JobState, planned: step.Step, seen: Look, after: Truth, phases: Phases) -> Did:
    """What the step did, for the history, with the names of tables that the user knows. How many rows were read is
    known of chunks as far as they were counted, and of changes where the look counted them."""
    known = {table: version.point.ordinal for table, version in before.versions.items()}
    only = getattr(job_from_text(job.definition), "input", INPUT)
    versions = {
        only if table == INPUT else table: (known.get(table), version.point.ordinal)
        for table, version in after.state.versions.items()
    }
    rows_in = (planned.rows + seen.written) or seen.rows or None
    return Did(phases.seconds, rows_in, after.inserted, versions)


def _doing(state: JobState, planned: step.Step, began_s: float, usual_s: float) -> Doing:
    chunks = [chunk for ranges in planned.chunks.values() for chunk in ranges]
    ranges = json.dumps([[key_to_json(chunk.after), key_to_json(chunk.upto)] for chunk in chunks])
    return Doing(step.kind_of(state, planned).value, began_s, len(chunks), planned.rows, ranges, usual_s)


def _released(reason: Reason, glimpse: CheapLook) -> str:
    """A job that is up to date needs nothing of its upstreams' logs up to their heads: nothing in them was its own. A
    job that still has something to fill may yet fill at its own version."""
    heads = {table: look.head for table, look in glimpse.tables.items()}
    if reason is not Reason.IDLE or not any(version.carry for version in heads.values()):
        return ""
    return json.dumps({table: version_to_json(version) for table, version in heads.items()}, sort_keys=True)


def _versions_from_text(text: str) -> dict[Table, Version]:
    """What a job's row says was released last, by table."""
    return {table: version_from_json(data) for table, data in parsed(text).items()} if text else {}


def _notices(job: Job, glimpse: CheapLook) -> list[str]:
    history_runs_short = [table for table, look in glimpse.tables.items() if look.history_runs_short]
    notices = [f"half of the time for which {table} keeps its history is over" for table in history_runs_short]
    allowed = job.settings.wal_budget
    if allowed is not None and any(2 * kept.total > allowed for kept in kept_logs(glimpse)):
        notices.append(f"the server keeps more than {size_text(allowed // 2)} of its log for this job")
    return notices


def _lag(state: JobState, glimpse: CheapLook) -> Lag:
    """How far the target is behind: by the table that is furthest behind."""
    known = {table: at.point for table, at in state.versions.items()}
    behind = [
        (known[table].lag_to(look.head.point), look.withheld)
        for table, look in glimpse.tables.items()
        if table in known
    ]
    counted = [versions + withheld for versions, withheld in behind if versions is not None]
    versions = max(counted) if counted else None
    log_bytes = max((kept.total for kept in kept_logs(glimpse)), default=None)
    return Lag(versions, max((look.lag_s for look in glimpse.tables.values()), default=None), log_bytes)
