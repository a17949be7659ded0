"""A job's row in the store, and everything that may happen to it, as pure functions from row to row.

The store applies such a function to the row it holds in one transaction, so that several processes may wish, lease and
report at once. Wishes are what a user wants; only the runner that holds the lease acts on them. Each wish raises
`wish_number`, and going LIVE compares it, so that no wish is ever overlooked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from tidefill.core.budget import BUDGET
from tidefill.core.look import Phase
from tidefill.core.progress import Progress
from tidefill.core.reasons import Reason
from tidefill.core.step import Knobs
from tidefill.errors import Fenced, InvalidSetting, StoreUnreadable, TidefillError, WrongState
from tidefill.jobs import lifecycle
from tidefill.jobs.lifecycle import Event, Life
from tidefill.jobs.resources import Resource

NAME_CHARACTERS_MAX = 200
RATE_LIMIT_MAX = 10**12
LOG_LIMIT = 10 << 30
"""10 GB: some 100 million changed rows. A build that lags behind so many is quicker begun again at a quiet time."""


class Pause(Enum):
    """What a user wants to stand still."""

    NOTHING = "nothing"
    FILL = "fill"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user may set and change while the job runs. `chunk_rows` None: sized by the clock. `verify`: whether it is
    compared with a recompute before it goes live. `wal_budget`, `wal_limit`: bytes of its log that a server keeps for
    the job before it stops filling, and before it gives them up; None: however many. `steps_only`: changes are always
    taken in by steps, even where a recompute is expected to be cheaper. `vacuum`: once a day, files of the target that
    nobody needs any more are removed. Of an index: `wait_timeout_s`: how long it waits for transactions of others
    before it stops; None: for ever. `abort_waiting`: it then ends their sessions instead. `deferred`: nothing of it is
    made before BACKFILL INDEXES. `log_limit`: bytes that the log of changed rows may take while the index is built,
    before that is given up; None: however many. `sort`: who sorts its entries; empty: the server."""

    parallelism: int = 1
    rate_limit: int | None = None
    chunk_rows: int | None = None
    target_lag_s: float = 0.0
    verify: bool = True
    wal_budget: int | None = BUDGET
    wal_limit: int | None = None
    steps_only: bool = False
    vacuum: bool = True
    wait_timeout_s: float | None = None
    abort_waiting: bool = False
    deferred: bool = False
    log_limit: int | None = LOG_LIMIT
    sort: str = ""

    def __post_init__(self) -> None:
        if self.wait_timeout_s is not None and not self.wait_timeout_s >= 0:
            raise InvalidSetting(f"wait_timeout is {self.wait_timeout_s}", hint="Set it to a time, or to NONE.")
        Knobs(parallelism=self.parallelism, target_lag_s=self.target_lag_s)
        if self.rate_limit is not None and not 0 <= self.rate_limit <= RATE_LIMIT_MAX:
            raise InvalidSetting(
                f"rate_limit is {self.rate_limit}", hint="Set it to rows per second, 0 or more, or to NONE."
            )
        if self.chunk_rows is not None and self.chunk_rows < 1:
            raise InvalidSetting(f"chunk_rows is {self.chunk_rows}", hint="Set it to 1 or more, or leave it out.")
        sizes = (("wal_budget", self.wal_budget), ("wal_limit", self.wal_limit), ("log_limit", self.log_limit))
        for name, size in sizes:
            if size is not None and size < 1:
                raise InvalidSetting(f"{name} is {size}", hint="Set it to a size such as '10 GB', or to NONE.")


@dataclass(frozen=True, slots=True)
class Lease:
    """Who runs the job, until when, and the number that tells an old holder from a new one."""

    owner: str = ""
    fence: int = 0
    until_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a job is FAILED."""

    code: str
    fact: str
    detail: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Doing:
    """The step that the lease's holder began at `began_s` and has not reported yet. `kind`: a `StepKind`. `chunks` and
    `ranges` (JSON): what is filled. `rows`: about how many; of a verification, how many were compared before.
    `usual_s`: how long the step before it took."""

    kind: str
    began_s: float
    chunks: int = 0
    rows: int = 0
    ranges: str = ""
    usual_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PartReport:
    """How one of the things stands that a job makes, if it makes several. `rows_of`: None if that is not known.
    `failure`: why it is not made, as a person reads it; empty if it did not fail."""

    name: str
    phase: str
    rows_done: int = 0
    rows_of: int | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """The row. JSON texts (`definition`, `anchor`, `released`, `learned`, `condition`) belong to others, who alone read
    them.
    `source`: what the generation is built from, where something else may take its name. `unread_settings`: the settings
    as the store has them, if this release cannot read them; they are written back as they are. `waiting`: what the job
    waits for, as a person reads it; `waits_for`: the code of the reason, which programs compare. `part_names`: of the
    things that a job makes if it makes several; they are taken with its own name, and free with it, or when
    a part is dropped. `wants_gone`: the parts that somebody has dropped, and that are not gone yet. `parts`: how each
    stood when the machine last reported. `wanted_definition`: what CREATE OR REPLACE has asked for, until a generation
    of it begins; else empty. `shown_definition`: by which the published generation was made, while the one that is
    being made has another; else empty."""

    id: str
    name: str
    definition: str
    life: Life = Life.CREATED
    settings: Settings = field(default_factory=Settings)
    generation: int = 1
    generation_uuid: str = ""
    source: str = ""
    published: int | None = None
    pause: Pause = Pause.NOTHING
    wants_end: bool = False
    wants_resync: bool = False
    wants_resume: bool = False
    wish_number: int = 0
    lease: Lease = Lease()
    anchor: str = ""
    released: str = ""
    learned: str = ""
    condition: str = ""
    resources: tuple[Resource, ...] = ()
    failure: Failure | None = None
    waiting: str = ""
    waits_for: str = ""
    progress: Progress | None = None
    doing: Doing | None = None
    ended_at_s: float = 0.0
    unread_settings: str = ""
    part_names: tuple[str, ...] = ()
    wants_gone: tuple[str, ...] = ()
    parts: tuple[PartReport, ...] = ()
    wanted_definition: str = ""
    shown_definition: str = ""

    def __post_init__(self) -> None:
        names = self.names()
        for name in names:
            check_name(name)
        if len({name_key(name) for name in names}) < len(names):
            raise InvalidSetting("two things of a job have one name", detail=", ".join(names))

    @property
    def newest_definition(self) -> str:
        """What its user asked for last, whether a generation of it has begun or not."""
        return self.wanted_definition or self.definition

    @property
    def published_definition(self) -> str:
        """By which the published generation was made."""
        return self.shown_definition or self.definition

    @property
    def is_being_replaced(self) -> bool:
        """Whether what readers see is not yet what its user asked for last."""
        return bool(self.wanted_definition or self.shown_definition)

    @property
    def wants_generation(self) -> bool:
        """Whether somebody has asked for a generation that has not begun."""
        return self.wants_resync or bool(self.wanted_definition)

    def names(self) -> tuple[str, ...]:
        """All names that the job has while it is not dropped."""
        return (self.name, *self.part_names)

    def phase(self) -> Phase:
        """What the planner is told."""
        if self.published == self.generation:
            return Phase.LIVE
        return Phase.VERIFYING if self.life is Life.VERIFYING else Phase.FILLING

    def knobs(self) -> Knobs:
        """What the planner is told."""
        return Knobs(
            parallelism=self.settings.parallelism,
            fill_paused=self.pause is Pause.FILL,
            paused=self.life is Life.PAUSED,
            target_lag_s=self.settings.target_lag_s,
            wal_budget=self.settings.wal_budget,
            steps_only=self.settings.steps_only,
        )


def check_name(name: str) -> None:
    """InvalidSetting if a job or a table cannot have the name."""
    if not name.strip() or len(name) > NAME_CHARACTERS_MAX:
        raise InvalidSetting(
            "a name is missing or too long", detail=f"{len(name)} characters; at most {NAME_CHARACTERS_MAX}."
        )


def name_key(name: str) -> str:
    """Names of jobs and tables are one flat, case-insensitive namespace."""
    return name.casefold()


def _wish(job: Job, **changes: Any) -> Job:
    if job.life in (Life.CANCELLING, Life.DROPPED):
        raise WrongState(f"{job.name} is being dropped")
    return replace(job, wish_number=job.wish_number + 1, **changes)


def wish_pause(what: Pause) -> Callable[[Job], Job]:
    """PAUSE JOB, PAUSE JOB FILL."""
    return lambda job: _wish(job, pause=what)


def wish_resume(job: Job) -> Job:
    """RESUME JOB: after a pause or a failure, also of one of its parts."""
    stands = job.life is Life.FAILED or (job.life is Life.LIVE and any(part.failure for part in job.parts))
    return _wish(job, pause=Pause.NOTHING, wants_resume=stands)


def wish_settings(settings: Settings) -> Callable[[Job], Job]:
    """ALTER JOB."""

    def wished(job: Job) -> Job:
        check_settings(job)
        return _wish(job, settings=settings)

    return wished


def settings_error(job: Job) -> StoreUnreadable | None:
    """What stops the job if this release cannot read its settings; None if it can."""
    if not job.unread_settings:
        return None
    return StoreUnreadable(
        f"the settings of {job.name} cannot be read",
        detail=job.unread_settings,
        hint="A newer release of Tidefill wrote them: use that release, or drop the job.",
    )


def check_settings(job: Job) -> None:
    """Raises StoreUnreadable if this release cannot read the job's settings."""
    error = settings_error(job)
    if error is not None:
        raise error


def wish_resync(job: Job) -> Job:
    """RESYNC JOB."""
    return _wish(job, wants_resync=True)


def wish_replace(definition: str, settings: Callable[[Settings], Settings]) -> Callable[[Job], Job]:
    """CREATE OR REPLACE: another definition, and what the settings become. The last wish counts: the definition of the
    generation that is being made, asked for again, takes an earlier wish back."""

    def wished(job: Job) -> Job:
        check_settings(job)
        wanted = "" if definition == job.definition else definition
        return _wish(job, wanted_definition=wanted, settings=settings(job.settings))

    return wished


def wish_cancel(job: Job) -> Job:
    """CANCEL JOB: only before it is live. What was replaced cannot be gone back to: it takes in nothing any more."""
    if job.published is not None and job.is_being_replaced:
        hint = "CREATE OR REPLACE with the query that it had makes that one again; DROP removes the view."
        raise WrongState(f"{job.name} is live with the query that it had before", hint=hint)
    if job.published is not None:
        raise WrongState(f"{job.name} is live", hint="Use DROP to remove it.")
    return wish_drop(job)


def wish_drop(job: Job) -> Job:
    """DROP. Asking twice is no mistake."""
    if job.life in (Life.CANCELLING, Life.DROPPED):
        return job
    return _wish(job, wants_end=True)


def wish_drop_part(name: str) -> Callable[[Job], Job]:
    """DROP of one of several things that a job makes. The job ends with the last one."""

    def wished(job: Job) -> Job:
        gone = tuple(dict.fromkeys((*job.wants_gone, name)))
        if set(job.part_names) <= set(gone):
            return wish_drop(job)
        return job if gone == job.wants_gone else _wish(job, wants_gone=gone)

    return wished


def is_held(lease: Lease, now_s: float, ttl_s: float, is_gone: Callable[[str], bool]) -> bool:
    """Whether a live runner has the lease. A lease that ends further ahead than any lease does was written by a clock
    that was wrong: it counts as over."""
    return bool(lease.owner) and now_s < lease.until_s <= now_s + 2 * ttl_s and not is_gone(lease.owner)


def acquire(
    owner: str, now_s: float, ttl_s: float, is_gone: Callable[[str], bool] = lambda _: False
) -> Callable[[Job], Job]:
    """Take the lease if it is free, over or ours, or if its owner is gone; the row is unchanged if somebody else holds
    it (`is_held`). Taking it raises the fence; renewing does not, even after its time if nobody took it."""

    def acquired(job: Job) -> Job:
        if job.lease.owner == owner:
            fresh = ttl_s / 2 <= job.lease.until_s - now_s <= ttl_s
            return job if fresh else replace(job, lease=replace(job.lease, until_s=now_s + ttl_s))
        if is_held(job.lease, now_s, ttl_s, is_gone):
            return job
        return replace(job, lease=Lease(owner, job.lease.fence + 1, now_s + ttl_s), doing=None)

    return acquired


def fenced(fence: int, change: Callable[[Job], Job]) -> Callable[[Job], Job]:
    """The change, if `fence` is the number of the newest lease; else the function raises Fenced."""

    def guarded(job: Job) -> Job:
        if job.lease.fence != fence:
            raise Fenced(f"another runner has taken {job.name} over")
        return change(job)

    return guarded


def renew(owner: str, now_s: float, ttl_s: float) -> Callable[[Job], Job]:
    """A heartbeat: the lease lasts longer if it is still ours. It never takes one. One that has not used a quarter of
    its time stays as it is: each write costs."""

    def renewed(job: Job) -> Job:
        needed = _is_of(job, owner) and not 0.75 * ttl_s < job.lease.until_s - now_s <= ttl_s
        return replace(job, lease=replace(job.lease, until_s=now_s + ttl_s)) if needed else job

    return renewed


def release_lease(job: Job) -> Job:
    """Give the lease back, so that another runner can take the job at once."""
    return replace(job, lease=replace(job.lease, owner="", until_s=0.0), doing=None)


def release_own(owner: str) -> Callable[[Job], Job]:
    """Give the lease back, if `owner` has it."""
    return lambda job: release_lease(job) if _is_of(job, owner) else job


def _is_of(job: Job, owner: str) -> bool:
    return job.lease.owner == owner


def ends_step(change: Callable[[Job], Job]) -> Callable[[Job], Job]:
    """The change. It also clears `doing`, unless the change itself begins a step."""

    def changed(job: Job) -> Job:
        after = change(job)
        return after if after.doing is None or after.doing is not job.doing else replace(after, doing=None)

    return changed


def happened(event: Event, wish_number: int | None = None, **changes: Any) -> Callable[[Job], Job]:
    """The row after the lifecycle event, with these changes of other fields. With a `wish_number`: the row is unchanged
    if there are newer wishes."""

    def moved(job: Job) -> Job:
        if wish_number is not None and job.wish_number != wish_number:
            return job
        return replace(job, life=lifecycle.after(job.life, event), **{"waiting": "", "waits_for": "", **changes})

    return moved


def waits(reason: Reason, text: str = "") -> dict[str, Any]:
    """The fields of a row that say what the job waits for."""
    return {"waiting": text or reason.value, "waits_for": reason.code}


def resumed(job: Job) -> Job:
    """Go on where the job stopped. After a failure, parts that had failed are made again."""
    event = Event.RESUME_LIVE if job.published == job.generation else Event.RESUME_FILLING
    parts = _not_failed(job) if job.life is Life.FAILED else job.parts
    return happened(event, failure=None, wants_resume=False, parts=parts)(job)


def _not_failed(job: Job) -> tuple[PartReport, ...]:
    return tuple(part for part in job.parts if not part.failure)


def rebuilt(job: Job) -> Job:
    """What had failed of a live job is made again."""
    return happened(Event.RESYNC, wants_resume=False, parts=_not_failed(job))(job)


def without_parts(gone: tuple[str, ...]) -> Callable[[Job], Job]:
    """These parts are gone: their names are free."""
    return lambda job: replace(
        job,
        part_names=tuple(name for name in job.part_names if name not in gone),
        wants_gone=tuple(name for name in job.wants_gone if name not in gone),
        parts=tuple(part for part in job.parts if part.name not in gone),
    )


def failed(error: TidefillError) -> Callable[[Job], Job]:
    """FAILED, with the reason."""
    failure = Failure(error.code, error.fact, error.detail, error.hint)
    return happened(Event.FAIL, failure=failure, wants_resume=False)


def gave_up(error: TidefillError) -> Callable[[Job], Job]:
    """FAILED, because the runner gave up a log that the job needs to go on. If the job had failed before, the detail
    names the earlier reason too. The change ends a pause, so that RESYNC alone is enough to go on."""

    def given_up(job: Job) -> Job:
        pause = Pause.NOTHING if job.pause is Pause.ALL else job.pause
        if job.life is not Life.FAILED:
            return replace(failed(error)(job), pause=pause)
        if job.failure and job.failure.code == error.code:
            return job
        before = f" It had failed before: {job.failure.fact} [{job.failure.code}]" if job.failure else ""
        failure = Failure(error.code, error.fact, error.detail + before, error.hint)
        return replace(job, failure=failure, wants_resume=False, pause=pause)

    return given_up


def begin_generation(generation_uuid: str, source: str = "") -> Callable[[Job], Job]:
    """Record the uuid of the first generation before anything is made, and the `source` of a generation that began
    without one. What the row has already stays: a second runner finds it there."""
    return lambda job: replace(job, generation_uuid=job.generation_uuid or generation_uuid, source=job.source or source)


def intend(resource: Resource) -> Callable[[Job], Job]:
    """Record a thing before it is made, so that a runner that drops the job knows of it."""
    return lambda job: job if resource in job.resources else replace(job, resources=(*job.resources, resource))


def forget(resource: Resource) -> Callable[[Job], Job]:
    """The thing is gone."""
    return lambda job: replace(job, resources=tuple(other for other in job.resources if other != resource))
