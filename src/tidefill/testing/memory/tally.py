"""A second machine, as different from a backfill as its contract allows: a tally of numbers on a server.

The server has a list of numbers that grows. A tally copies them one by one into a control row of its own, so its truth
is a count, kept in that row and not in the log of a target. While a tally is complete enough to guard, the server
refuses writers that it does not like, as a unique index does: so a tally that stands still has to stop guarding first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidefill.core.keys import Key
from tidefill.core.look import Phase
from tidefill.core.reasons import Reason
from tidefill.errors import (
    CommitConflict,
    KeyNotUnique,
    NameTaken,
    NotYet,
    TidefillError,
    UpstreamReplaced,
    VerifyFailed,
)
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Doing, Job, PartReport
from tidefill.ports.frames import Compared
from tidefill.ports.machine import (
    Finish,
    Outcome,
    Plan,
    Publish,
    Report,
    Round,
    Standing,
    Step,
    Verify,
    Wait,
)
from tidefill.testing.memory.world import World

PIECE_ROWS = 4
GUARD, COPY = "guard", "copy"


@dataclass(slots=True)
class Control:
    """A row on the server: the tally of one generation. `guards`: the server asks it before it takes a write."""

    generation_uuid: str
    entries: list[int] = field(default_factory=list)
    guards: bool = False


@dataclass(slots=True)
class Server:
    """What all tallies have in common. `busy`: a writer is under way who began before the tally guarded. `shown`: which
    tally has a name."""

    numbers: list[int] = field(default_factory=list)
    controls: dict[str, Control] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    busy: bool = False


def place_of(job: Job, generation: int | None = None) -> str:
    """Where a generation of a job keeps its control row."""
    return f"{job.id}-{job.generation if generation is None else generation}"


class Tally:
    """The machine of one generation; what is true is how many numbers were copied."""

    def __init__(self, world: World, server: Server, job: Job) -> None:
        self._world = world
        self._server = server
        self._place = place_of(job)
        self.resources: tuple[Resource, ...] = (Resource("tally", self._place),)

    @property
    def _control(self) -> Control:
        control = self._server.controls.get(self._place)
        if control is None:
            raise UpstreamReplaced("the control row is gone", hint="RESYNC the job.")
        return control

    def prepare(self, job: Job) -> None:
        """Make the control row, if it is not there."""
        self._world.effect("tally.prepare")
        self._server.controls.setdefault(self._place, Control(job.generation_uuid))
        self._world.effect("tally.prepared")

    def recover(self, job: Job, last: int | None) -> Outcome[int]:
        """By the control row."""
        self._world.effect("tally.recover")
        truth = len(self._control.entries)
        return Outcome(truth, ahead=truth > (int(job.anchor or 0) if last is None else last))

    def plan(self, job: Job, truth: int, round: Round) -> Plan:
        """Guard first, when nobody writes who began before; then copy, number by number."""
        self._world.effect("tally.plan")
        if job.life is Life.PAUSED:
            return Wait(Reason.PAUSED)
        if not self._control.guards:
            guard = Step(Doing(GUARD, round.now_s), GUARD)
            return Wait(Reason.OTHERS, "a writer to end") if self._server.busy else guard
        if truth < len(self._server.numbers):
            return Step(Doing(COPY, round.now_s, rows=1), COPY)
        match job.phase():
            case Phase.FILLING:
                return Finish()
            case Phase.VERIFYING:
                return Verify(rows=PIECE_ROWS)
            case _:
                return Wait(Reason.IDLE)

    def execute(self, job: Job, truth: int, plan: Step | Verify | Publish) -> Outcome[int]:
        """One change of the control row, one piece of a comparison, or the switch of the name."""
        match plan:
            case Step(work="guard"):
                self._world.effect("tally.guard")
                self._control.guards = True
                self._world.effect("tally.guards")
                return Outcome(truth, events=("it guards",))
            case Step():
                return self._copy(truth)
            case Verify():
                return Outcome(truth, compared=self._compared(job, plan) if plan.compares else None)
            case Publish():
                self._publish(job, tries=plan.tries)
                return Outcome(truth)

    def _copy(self, truth: int) -> Outcome[int]:
        self._world.effect("tally.copy")
        control = self._control
        if len(control.entries) != truth:
            raise CommitConflict("another runner has copied this number")
        number = self._server.numbers[truth]
        if number in control.entries:
            raise KeyNotUnique(f"{number} is there twice", hint="Remove one of them, then RESUME the job.")
        control.entries.append(number)
        self._world.effect("tally.copied")
        return Outcome(truth + 1, made=truth == 0)

    def _compared(self, job: Job, plan: Verify) -> Compared:
        first = 0 if plan.after is None else int(str(plan.after.values[0]))
        end = first + plan.rows
        control, numbers = self._control, self._server.numbers
        if control.entries[first:end] != numbers[first : min(end, len(control.entries))]:
            raise VerifyFailed(f"{job.name} differs from a recompute", hint="RESYNC the job.")
        found = len(control.entries[first:end])
        return Compared(found, upto=Key((end,)) if end < len(control.entries) else None)

    def _publish(self, job: Job, *, tries: bool) -> None:
        holder = self._server.shown.get(job.name, "")
        if holder and not holder.startswith(f"{job.id}-"):
            raise NameTaken(f"{job.name} is the name of something else")
        if not tries:
            self._world.effect("tally.publish")
            self._server.shown[job.name] = self._place
            self._world.effect("tally.published")

    def report(self, job: Job, truth: int) -> Report:
        """Two things are made: the guard and the copy."""
        control = self._server.controls.get(self._place)
        guards = control is not None and control.guards
        rows = len(self._server.numbers)
        parts = (PartReport(GUARD, "guards" if guards else "waits"), PartReport(COPY, "copies", truth, rows))
        return Report(str(truth), truth >= rows, truth, rows, parts=parts)

    def standing(self) -> Standing:
        """The server says nothing of a lag."""
        return Standing()

    def release(self, truth: int, released: str = "") -> None:
        """The server keeps nothing for a tally."""

    def abandon(self, job: Job, error: TidefillError) -> None:
        """Refuse no writer any more."""
        stop_guarding(self._world, self._server, job)

    def compare(self, job: Job, after: Key | None, rows: int) -> Compared:
        """A piece of the copy as it is."""
        if not job.anchor:
            raise NotYet(f"{job.name} has nothing to verify yet")
        return self._compared(job, Verify(after=after, rows=rows))

    def rest(self) -> None:
        """Nothing is held open."""

    def close(self) -> None:
        """Nothing is held in memory."""


def stop_guarding(world: World, server: Server, job: Job) -> None:
    """Take the guard off every generation of the job. Once more is no mistake."""
    world.effect("tally.abandon")
    for place, control in server.controls.items():
        if place.startswith(f"{job.id}-"):
            control.guards = False
    world.effect("tally.abandoned")


class TallyRetiring:
    """Before the control rows of a job are removed, none of them guards, and no writer is under way who asked one."""

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server

    def retire(self, job: Job) -> Step | Wait | Finish:
        """What is next."""
        own = [control for place, control in self._server.controls.items() if place.startswith(f"{job.id}-")]
        if any(control.guards for control in own):
            return Step(Doing(GUARD, self._world.now))
        return Wait(Reason.OTHERS, "a writer to end") if self._server.busy else Finish()

    def execute(self, job: Job, plan: Step) -> None:
        """Stop guarding."""
        stop_guarding(self._world, self._server, job)

    def abandon(self, job: Job, error: TidefillError) -> None:
        """Refuse no writer any more."""
        stop_guarding(self._world, self._server, job)
