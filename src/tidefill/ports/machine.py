"""What makes and keeps one thing: a table, a replica, an index. The runner drives any machine in the same loop.

One turn of a job: `recover` says what is true, `plan` looks at the world and says what is next, `execute` does it,
`report` says how the job stands. A machine has a type of its own for what is true. The runner carries such a value from
one call to the next and never looks inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from tidefill.core.keys import Key
from tidefill.core.progress import Lag
from tidefill.core.reasons import Reason
from tidefill.errors import TidefillError
from tidefill.jobs.agreement import Group
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Doing, Job, PartReport
from tidefill.jobs.steps import Did
from tidefill.ports.frames import Compared

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Round:
    """What a machine is told of a turn beside its job. `hurry`: no job waits for its target lag. `group`: the jobs that
    go in step with this one."""

    now_s: float
    hurry: bool = False
    group: Group = field(default_factory=Group)


@dataclass(frozen=True, slots=True)
class Step:
    """Work in one atomic commit. `doing`: what the job's row says while the work is under way. `work`: for the machine
    alone."""

    doing: Doing
    work: Any = None


@dataclass(frozen=True, slots=True)
class Verify:
    """Compare the next piece of the target with a recompute. The runner keeps the position: `after` is the key up to
    which pieces were compared, `rows` is about how many rows the piece shall have; the machine says how many at most,
    and a piece that had to be given up is tried again with half of them. `compares` False: no comparison was asked for,
    so only the promise of the key is checked. `work`: for the machine alone."""

    work: Any = None
    after: Key | None = None
    rows: int = 0
    compares: bool = True


@dataclass(frozen=True, slots=True)
class Publish:
    """Show what was made under the job's name. `tries`: only raise NameTaken if that could not be done."""

    tries: bool = False


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now. `text`: what the job waits for, if the reason's own text does not say it. `for_s`: when to
    look again; None: when something changes. `released`: a text that the runner keeps in the job's row, if it is not
    empty: how far the machine needs nothing of its sources any more, beyond what its last report says."""

    reason: Reason
    text: str = ""
    for_s: float | None = None
    released: str = ""


@dataclass(frozen=True, slots=True)
class Finish:
    """Everything is made: the job is verified next. Of a job that retires: its resources can be removed."""


Plan: TypeAlias = Step | Verify | Publish | Wait | Finish


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What is true now. `ahead`: the job's row does not tell of it yet. `made`: the step made the target. `compared`:
    what a comparison found. `events`: what happened, for the job's list of events. `did`: what the step did, for the
    job's history of steps."""

    truth: T
    ahead: bool = False
    made: bool = False
    compared: Compared | None = None
    events: tuple[str, ...] = ()
    did: Did = field(default_factory=Did)


@dataclass(frozen=True, slots=True)
class Standing:
    """What a machine knows from its last plan, asked every turn. `lag`: how far the target is behind. `notices`: what a
    person should know by now, the same words each time."""

    lag: Lag = field(default_factory=Lag)
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What a job has done. `anchor`: a text that the runner keeps in the job's row; `recover` begins from it.
    `rows_of`: about how many rows are to be filled. `learned`: a text that the runner keeps, too: what the machine
    knows of the cost of its steps. Losing it costs time, never rows. `condition`: a text that the runner keeps if it is
    not empty: what is wrong with what was made, although the job is well (`jobs.condition`). `parts`: of a job that
    makes several things. `gone`: the names of parts that a user dropped, and of which nothing is left."""

    anchor: str
    finished: bool
    rows_filled: int
    rows_of: int
    rows_per_s: float = 0.0
    learned: str = ""
    condition: str = ""
    parts: tuple[PartReport, ...] = ()
    gone: tuple[str, ...] = ()


class Machine(Protocol[T]):
    """One generation of one job. `resources`: everything that it makes outside of the store, by name."""

    resources: tuple[Resource, ...]

    def prepare(self, job: Job) -> None:
        """Make what is needed before the first step, and after each trouble. Nothing that is there is made again."""

    def recover(self, job: Job, last: T | None) -> Outcome[T]:
        """What is true, from the log of the target or from a control row. `last`: what was true when the machine was
        asked before, in this process; without it the job's anchor says where to begin."""

    def plan(self, job: Job, truth: T, round: Round) -> Plan:
        """Look at the world, then say what is next. A turn that plans changes nothing."""

    def execute(self, job: Job, truth: T, plan: Step | Verify | Publish) -> Outcome[T]:
        """Do it. What is raised leaves the target as it was, or, if Unavailable, in a state that `recover` tells."""

    def report(self, job: Job, truth: T) -> Report:
        """What the job has done, after a step; costs no look at the world."""

    def standing(self) -> Standing:
        """What is known from the last plan; costs nothing."""

    def release(self, truth: T, released: str = "") -> None:
        """Tell the sources that they may let go of what lies before this truth, or before `released`, if a Wait gave
        one. Called only after the store has the report of the truth, or `released`."""

    def abandon(self, job: Job, error: TidefillError) -> None:
        """The job becomes FAILED: stop what would harm others meanwhile. Called before FAILED is written."""

    def compare(self, job: Job, after: Key | None, rows: int) -> Compared:
        """Compare the next piece of the target with a recompute, for a VERIFY that a user asked for while the job goes
        on."""

    def rest(self) -> None:
        """Hold nothing open until the next turn."""

    def close(self) -> None:
        """Hold nothing open, and nothing in memory: nobody will ask this machine again."""


class Retiring(Protocol):
    """What has to happen, step by step, before the resources of a dropped job are removed."""

    def retire(self, job: Job) -> Step | Wait | Finish:
        """What is next."""

    def execute(self, job: Job, plan: Step) -> None:
        """Do it."""

    def abandon(self, job: Job, error: TidefillError) -> None:
        """As of `Machine`, for a job whose machine cannot be built."""


Retires: TypeAlias = Callable[[Job], Retiring | None]
"""What retires a job; None if its resources can be removed at once."""
