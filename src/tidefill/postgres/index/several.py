"""The machine of several indexes over one table: each goes through its states by itself, and they share the scan.

An index that fails is given up by itself; the others go on. The machine is done when no index is being built. An index
that a user drops is removed while the others live on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from tidefill.core.keys import Key
from tidefill.core.reasons import Reason
from tidefill.errors import AllPartsFailed, Conflict, NameTaken, NotYet, RetryLater, TidefillError
from tidefill.indexes.control import Control
from tidefill.indexes.next_action import FillChunk
from tidefill.indexes.shape import Shape
from tidefill.indexes.states import Method, State
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Doing, Job, PartReport
from tidefill.jobs.steps import Did
from tidefill.ports.clock import Clock
from tidefill.ports.frames import Compared
from tidefill.ports.machine import Finish, Outcome, Plan, Publish, Report, Retiring, Round, Standing, Step, Verify, Wait
from tidefill.postgres.index import filling
from tidefill.postgres.index.machine import IndexMachine, Truth
from tidefill.postgres.index.refused import condition_text
from tidefill.postgres.index.session import BAD_KEY

BEFORE_FILL = (State.LOGGING, State.DELETE_ONLY, State.WRITE_AND_DELETE, State.ABSENT)
"""An index in one of these states will read the table soon: the others wait with their fill, to share the scan."""

THROTTLED = (Reason.RATE_LIMIT, Reason.BACK_PRESSURE, Reason.FILL_PAUSED)
"""What holds one index back from its fill holds all of them back: else they would part."""


@dataclass(frozen=True, slots=True)
class Several:
    """What is true of each index, by its name. `failures`: of those that were given up, as a person reads them.
    `gone`: those that a user dropped, and of which nothing is left."""

    truths: Mapping[str, Truth]
    failures: Mapping[str, str] = field(default_factory=dict)
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _OfOne:
    """A step of one index."""

    name: str
    step: Step


@dataclass(frozen=True, slots=True)
class _FillTogether:
    """The next chunk, for these indexes."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _GiveUp:
    """One index cannot be built."""

    name: str
    error: TidefillError


@dataclass(frozen=True, slots=True)
class _Retire:
    """A step of the removal of an index that a user dropped; None: nothing is left of it."""

    name: str
    step: Step | None


class SeveralMachine:
    """One generation of several indexes. `retiring`: what removes an index by its resource."""

    def __init__(
        self, machines: Sequence[IndexMachine], clock: Clock, retiring: Callable[[Resource], Retiring]
    ) -> None:
        self.resources: tuple[Resource, ...] = tuple(one for machine in machines for one in machine.resources)
        self._machines = {machine.name: machine for machine in machines}
        self._clock = clock
        self._retiring = retiring
        self._last = ""

    def prepare(self, job: Job) -> None:
        """As of each index."""
        for machine in self._machines.values():
            machine.prepare(job)

    def recover(self, job: Job, last: Several | None) -> Outcome[Several]:
        """What the control rows and checkpoints say, and the job's row of those that were given up."""
        failures = {part.name: part.failure for part in job.parts if part.failure} if last is None else last.failures
        truths = {name: machine.recover(job, None).truth for name, machine in self._machines.items()}
        truth = Several(truths, failures, () if last is None else last.gone)
        report = self.report(job, truth)
        told = (report.anchor, report.condition)
        return Outcome(truth, ahead=bool(job.anchor) and told != (job.anchor, job.condition))

    # Planning.

    def plan(self, job: Job, truth: Several, round: Round) -> Plan:
        """What one of the indexes needs next, beginning with the one after the last that had something to do."""
        removal = self._plan_removal(job, truth)
        if isinstance(removal, Step):
            return removal
        living = self._living(job, truth)
        if not living and removal is not None:
            return removal
        if not living:
            raise _all_failed(truth.failures)
        plans = dict[str, Plan]()
        for name in living:
            try:
                plans[name] = self._machines[name].plan(_of_one(job, truth.truths[name]), truth.truths[name], round)
            except TidefillError as error:
                if not _is_of_one(error):
                    raise
                return Step(Doing("giving up an index", self._clock.now_s()), _GiveUp(name, error))
        return self._chosen(job, truth, plans, removal)

    def _living(self, job: Job, truth: Several) -> list[str]:
        """Those that are built or live, the last one that had a step at the end."""
        out = {*truth.failures, *truth.gone, *job.wants_gone}
        names = [name for name in self._machines if name not in out]
        at = names.index(self._last) + 1 if self._last in names else 0
        return names[at:] + names[:at]

    def _plan_removal(self, job: Job, truth: Several) -> Step | Wait | None:
        waits: Wait | None = None
        for name in job.wants_gone:
            if name in truth.gone or name not in self._machines:
                continue
            plan = self._retiring(self._machines[name].resources[0]).retire(job)
            match plan:
                case Step():
                    return Step(plan.doing, _Retire(name, plan))
                case Finish():
                    return Step(Doing("removing the index", self._clock.now_s()), _Retire(name, None))
                case Wait():
                    waits = plan
                case never:
                    assert_never(never)
        return waits

    def _chosen(self, job: Job, truth: Several, plans: Mapping[str, Plan], removal: Wait | None) -> Plan:
        """A step of one index comes before a fill of several; a fill waits until all can join it."""
        steps = {name: plan for name, plan in plans.items() if isinstance(plan, Step)}
        fills = [name for name, step in steps.items() if isinstance(step.work, FillChunk)]
        for name, step in steps.items():
            if name not in fills:
                return Step(step.doing, _OfOne(name, step))
        waits = [plan for plan in plans.values() if isinstance(plan, Wait) and plan.reason is not Reason.IDLE]
        throttled = any(wait.reason in THROTTLED for wait in waits)
        if fills and not throttled and not self._is_one_early(truth, plans):
            return self._fill(truth, fills, steps[fills[0]])
        if removal is not None:
            waits.append(removal)
        if waits:
            return replace(waits[0], for_s=min((one.for_s for one in waits if one.for_s is not None), default=None))
        return self._all_built(job, list(plans.values()))

    def _is_one_early(self, truth: Several, plans: Mapping[str, Plan]) -> bool:
        controls = [truth.truths[name].control for name in plans]
        return any(control is None or control.state in BEFORE_FILL for control in controls)

    def _fill(self, truth: Several, fills: list[str], step: Step) -> Step:
        """The indexes that are least far, and stand at one place, are filled together. Initput has a batch for each
        index, so it fills one after the other."""
        least = min(fills, key=lambda name: truth.truths[name].filled.chunks)
        here, control = truth.truths[least].filled, truth.truths[least].control
        assert control is not None, "only what is installed is filled"
        places = {name: truth.truths[name].filled for name in self._machines if name in fills}
        together = tuple(
            name for name, place in places.items() if (place.chunks, place.upto) == (here.chunks, here.upto)
        )
        if control.method is Method.INITPUT or len(together) == 1:
            return Step(step.doing, _OfOne(least, Step(step.doing, FillChunk())))
        return Step(step.doing, _FillTogether(together))

    def _all_built(self, job: Job, plans: list[Plan]) -> Plan:
        """Nothing is left to do but to verify and to show. A live job shows what it has built since."""
        if job.life is Life.VERIFYING:
            return Verify(rows=1)
        if job.life is not Life.LIVE:
            return Finish()
        unseen = any(not isinstance(plan, Wait) for plan in plans)
        return Publish() if unseen else next(plan for plan in plans if isinstance(plan, Wait))

    # Doing.

    def execute(self, job: Job, truth: Several, plan: Step | Verify | Publish) -> Outcome[Several]:
        """A step of one index, or a chunk of several. What stops one index gives up that one alone."""
        match plan:
            case Step(work=_OfOne(name, step)):
                self._last = name
                return self._of_one(job, truth, name, step)
            case Step(work=_FillTogether(names)):
                return self._fill_together(job, truth, names)
            case Step(work=_GiveUp(name, error)):
                return self._give_up(job, truth, name, error)
            case Step(work=_Retire(name, step)):
                return self._retire(job, truth, name, step)
            case Step():
                raise AssertionError("a step that was not planned here")
            case Verify():
                return Outcome(truth, compared=self._verified(job, truth, plan))
            case Publish():
                known = self.recover(job, truth).truth  # a runner that prepares a live job has no truth yet
                for name in self._living(job, known):
                    self._machines[name].execute(job, known.truths[name], plan)
                return self.recover(job, known)
            case never:
                assert_never(never)

    def _of_one(self, job: Job, truth: Several, name: str, step: Step) -> Outcome[Several]:
        before = truth.truths[name]
        try:
            outcome = self._machines[name].execute(_of_one(job, before), before, step)
        except TidefillError as error:
            if not _is_of_one(error):
                raise
            return self._give_up(job, truth, name, error)
        events = tuple(f"{name}: {event}" for event in outcome.events)
        return Outcome(_with(truth, {name: outcome.truth}), made=outcome.made, events=events)

    def _give_up(self, job: Job, truth: Several, name: str, error: TidefillError) -> Outcome[Several]:
        machine = self._machines[name]
        machine.abandon(job, error)
        failure = f"{error.fact} [{error.code}]"
        told = self._fresh(job, replace(truth, failures={**truth.failures, name: failure}), (name,))
        return Outcome(told, events=(f"{name} failed: {failure}{f': {error.detail}' if error.detail else ''}",))

    def _fill_together(self, job: Job, truth: Several, names: tuple[str, ...]) -> Outcome[Several]:
        """If a value of the data stops one index, the chunk is filled for each by itself: the one that fails is told
        from the others."""
        machines, began_s = [self._machines[name] for name in names], self._clock.now_s()
        done, parts = truth.truths[names[0]].filled, list[tuple[Shape, Control]]()
        for machine in machines:
            control = truth.truths[machine.name].control
            assert control is not None, "only what is installed is filled"
            parts.append((machine.session.shape, control))
        try:
            loaded = filling.fill_together(machines[0].session, parts, done, machines[0].chunk_rows(job))
        except BAD_KEY:
            return self._fill_each(job, truth, names)
        took_s = self._clock.now_s() - began_s
        for machine in machines:
            machine.note_fill(loaded.rows, took_s, loaded.blocked)
        return Outcome(self._fresh(job, truth, names), did=Did(rows_in=loaded.rows))

    def _fill_each(self, job: Job, truth: Several, names: tuple[str, ...]) -> Outcome[Several]:
        events = list[str]()
        for name in names:
            outcome = self._of_one(job, truth, name, Step(Doing("fill", self._clock.now_s()), FillChunk()))
            truth, events = outcome.truth, [*events, *outcome.events]
        return Outcome(truth, events=tuple(events))

    def _retire(self, job: Job, truth: Several, name: str, step: Step | None) -> Outcome[Several]:
        if step is None:
            gone = replace(truth, gone=(*truth.gone, name))
            return Outcome(gone, events=(f"{name} was dropped",))
        self._retiring(self._machines[name].resources[0]).execute(job, step)
        return Outcome(self._fresh(job, truth, (name,)))

    def _fresh(self, job: Job, truth: Several, names: tuple[str, ...]) -> Several:
        return _with(truth, {name: self._machines[name].recover(job, None).truth for name in names})

    def _verified(self, job: Job, truth: Several, plan: Verify) -> Compared:
        rows = 0
        for name in self._living(job, truth):
            compared = self._machines[name].execute(job, truth.truths[name], plan).compared
            rows += 0 if compared is None else compared.rows
        return Compared(rows)

    # Telling.

    def report(self, job: Job, truth: Several) -> Report:
        """How far each is. The job is as far as the one that is farthest: one that failed does not set it back."""
        told = {name: machine.report(job, truth.truths[name]) for name, machine in self._machines.items()}
        left = [name for name in told if name not in truth.gone]
        parts = tuple(replace(told[name].parts[0], failure=truth.failures.get(name, "")) for name in left)
        built = [told[name] for name in left if name not in truth.failures]
        rows, rows_of = (max(getattr(one, what) for one in told.values()) for what in ("rows_filled", "rows_of"))
        return Report(
            _anchor(parts), all(one.finished for one in built), rows, rows_of,
            max(one.rows_per_s for one in told.values()), parts=parts, gone=truth.gone,
            condition=condition_text([truth.truths[name].control for name in left]),
        )  # fmt: skip

    def standing(self) -> Standing:
        """Indexes lag behind nothing."""
        return Standing()

    def release(self, truth: Several, released: str = "") -> None:
        """No source keeps anything for an index."""

    def abandon(self, job: Job, error: TidefillError) -> None:
        """As of each index: public ones keep working."""
        for machine in self._machines.values():
            machine.abandon(job, error)

    def compare(self, job: Job, after: Key | None, rows: int) -> Compared:
        """Compare all that are there with their table."""
        count, differences = 0, list[str]()
        failed = {part.name for part in job.parts if part.failure} | set(job.wants_gone)
        for name, machine in self._machines.items():
            if name not in failed:
                found = machine.compare(job, after, rows)
                count += found.rows
                differences += [f"{name}: {one}" for one in found.differences]
        if failed >= set(self._machines):
            raise NotYet(f"{job.name} has nothing to verify yet")
        return Compared(count, tuple(differences))

    def rest(self) -> None:
        """Sessions between two turns hold no lock and no snapshot."""

    def close(self) -> None:
        """End the sessions."""
        for machine in self._machines.values():
            machine.close()


def _of_one(job: Job, truth: Truth) -> Job:
    """The job, as the machine of one index sees it: published if that index is."""
    control = truth.control
    shown = control is not None and (
        control.is_public or (job.life is Life.LIVE and control.state is State.READ_WRITE_AND_DELETE)
    )
    return replace(job, published=job.generation if shown else None)


def _is_of_one(error: TidefillError) -> bool:
    """Whether the error stops one index for good. What passes, or tells that another runner is here, does not."""
    return isinstance(error, NameTaken) or not isinstance(error, (RetryLater, Conflict))


def _with(truth: Several, truths: Mapping[str, Truth]) -> Several:
    return replace(truth, truths={**truth.truths, **truths})


def _anchor(parts: Sequence[PartReport]) -> str:
    """As one index has it: `state` is what a status shows as the phase."""
    building = [part for part in parts if not part.failure and part.phase != State.READ_WRITE_AND_DELETE.value]
    shown = (building or [part for part in parts if not part.failure] or [*parts])[:1]
    phases = {part.name: f"{part.phase} {part.rows_done}" for part in parts}
    return json.dumps({"indexes": phases, "state": shown[0].phase if shown else None})


def _all_failed(failures: Mapping[str, str]) -> AllPartsFailed:
    return AllPartsFailed(
        "none of the indexes could be built", detail="; ".join(f"{name}: {text}" for name, text in failures.items()),
        hint="SHOW VIOLATIONS lists the keys that several rows have. Mend them, then RESUME the job.",
    )  # fmt: skip
