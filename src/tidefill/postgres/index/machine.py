"""The machine of an index: the runner's loop over the states of `indexes/`.

What is true is the control row and the checkpoints on the server. Each step is one transaction there that compares the
runner's fence, so a crash at any line is the same as an error at that line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from psycopg import errors

from tidefill.core import throttle
from tidefill.core.keys import Key
from tidefill.core.reasons import Reason
from tidefill.core.throttle import Bucket
from tidefill.errors import LogTooLarge, NotYet, QueryFailed, TidefillError, VerifyFailed, WaitedTooLong
from tidefill.indexes.control import Control
from tidefill.indexes.next_action import (
    Action,
    Advance,
    BuildKey,
    Clear,
    CutOver,
    Drain,
    FillChunk,
    GrantToOwner,
    Held,
    Install,
    Look,
    Merge,
    Next,
    Ready,
    RemoveOrphans,
    Sweep,
    TakeIn,
    TryRefused,
    Validate,
    next_action,
)
from tidefill.indexes.pressure import Brake, braked, is_due
from tidefill.indexes.shape import Shape
from tidefill.indexes.states import Method, State, other_log
from tidefill.jobs.amounts import size_text
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Doing, Job, PartReport
from tidefill.jobs.steps import Did
from tidefill.ports.clock import Clock
from tidefill.ports.frames import Compared
from tidefill.ports.machine import Finish, Outcome, Plan, Publish, Report, Round, Standing, Step, Verify, Wait
from tidefill.postgres.index import changes, filling, looking, partitions, pressure, removal, repair
from tidefill.postgres.index.filling import Filled
from tidefill.postgres.index.parallel import ParallelFill
from tidefill.postgres.index.refused import condition_text
from tidefill.postgres.index.session import Holder, IndexSession, waits_for
from tidefill.postgres.index.upkeep import LOOK_S, Keeper

if TYPE_CHECKING:
    from tidefill.postgres.index.spark_sort import SparkSort

CHUNK_ROWS = 50_000
STAGED_ROWS = 250_000
"""Of a chunk that Spark reads: each step of Spark costs some tenths of a second, however few rows it has."""

LOG_ROWS_MAX = 500
"""What a cut-over merges under the table lock: well below 100 ms."""

HELD_S = 0.05
LOCK_S = 0.2
ABANDON_S = 2.0
"""How long a failing job waits for its barrier, to take its tables away at once; else they go with RESUME or DROP."""


@dataclass(frozen=True, slots=True)
class Truth:
    """The control row and the checkpoints, as they were read last. `control` None: nothing is installed."""

    control: Control | None = None
    filled: Filled = field(default_factory=Filled)


class IndexMachine:
    """One generation of one index. `rows`: about how many rows the table has. `is_sorted`: of initput, each batch is
    sorted by the key. `spark`: what fills it through Spark, if it is filled so."""

    def __init__(
        self,
        session: IndexSession,
        clock: Clock,
        resource: Resource,
        method: Method,
        rows: Callable[[], int],
        *,
        is_sorted: bool = True,
        spark: SparkSort | None = None,
    ) -> None:
        self.resources: tuple[Resource, ...] = (resource,) if spark is None else (resource, spark.resource)
        self._parallel = ParallelFill(session, is_sorted)
        self._spark = spark
        self._session = session
        self._clock = clock
        self._method = method
        self._rows = rows
        self._estimate: int | None = None
        self._bucket = Bucket(0.0, clock.now_s())
        self._barrier: tuple[tuple[int, int], frozenset[str]] | None = None
        self._tries = 0
        self._fill_s = 0.0
        self._fill_rows = 0
        self._older: list[Holder] = []
        self._batch: int | None = None
        self._waits_since: float | None = None
        self._keeper = Keeper(session, clock)
        self._brake = Brake()
        self._blocked, self._chunks_since_look = 0, 1
        self._log_share = 0.0

    @property
    def _shape(self) -> Shape:
        return self._session.shape

    @property
    def name(self) -> str:
        """Of the index."""
        return self._shape.name

    @property
    def spark(self) -> SparkSort | None:
        """What fills it through Spark, if it is filled so."""
        return self._spark

    @property
    def session(self) -> IndexSession:
        """Its session on the server."""
        return self._session

    def prepare(self, job: Job) -> None:
        """Make what all indexes of the server share, and take the index over from an older runner."""
        self._session.prepare()
        self._session.take_over()
        looking.follow_rename(self._session)
        changes.make_guard(self._session)
        self._barrier = None
        control = self._session.control()
        if control is None or control.state is not State.BACKFILLING:
            self._remove_staged()

    def recover(self, job: Job, last: Truth | None) -> Outcome[Truth]:
        """What control row and checkpoints say."""
        truth = self._truth()
        told = (self._anchor(truth), condition_text([truth.control]))
        return Outcome(truth, ahead=truth.control is not None and told != (job.anchor, job.condition))

    def _truth(self) -> Truth:
        control = self._session.control()
        if control is None:
            return Truth()
        return Truth(control, (filling if self._spark is None else self._spark).filled(self._session))

    def _remove_staged(self) -> None:
        """Once the key is built, or the build was given up, nobody reads what was staged."""
        if self._spark is not None:
            self._spark.remove()

    # Planning.

    def plan(self, job: Job, truth: Truth, round: Round) -> Plan:
        """Look at the server, then decide."""
        self._check_log(job, truth)
        if job.life is Life.PAUSED:
            return Wait(Reason.PAUSED)
        if looking.is_renamed(self._session):
            looking.follow_rename(self._session)
        if job.published == job.generation:
            return self._plan_live(truth)
        if job.settings.deferred and truth.control is None:
            return Wait(Reason.DEFERRED)
        if truth.control is not None and truth.control.by_hand:
            raise looking.stopped_by_hand(self._shape)
        held = self._held(truth.control)
        planned = next_action(self._look(truth, bool(held)))
        match planned:
            case Held():
                return self._wait(job, held or self._older, round.now_s)
            case Ready():
                return self._finishing(job)
            case FillChunk() if (wait := self._throttled(job, round.now_s)) is not None:
                return wait
            case CutOver() if not self._session.is_quiet():
                self._tries += 1
                return Wait(Reason.TABLE_LOCK, waits_for(self._session.writers()), for_s=LOCK_S)
            case _:
                return Step(self._doing(planned, truth), planned)

    def _check_log(self, job: Job, truth: Truth) -> None:
        """LogTooLarge if writers have logged more than the job's limit; a paused job has them go on logging."""
        limit = job.settings.log_limit
        self._log_share = 0.0
        if limit is None or truth.control is None or truth.control.body.log is None:
            return
        found = looking.log_bytes(self._session)
        self._log_share = found / limit
        if found > limit:
            raise LogTooLarge(
                f"the log of changed rows of {job.name} has grown beyond its log_limit",
                detail=f"It takes {size_text(found)} on the server, {size_text(limit)} are allowed.",
                hint="RESUME the job begins the build again. Raise log_limit first, or make the index with "
                "method = initput, which logs nothing.",
            )

    def _wait(self, job: Job, holders: list[Holder], now_s: float) -> Wait:
        """Name those who have to end. After `wait_timeout` their sessions are ended, or the job stops."""
        timeout_s, since = job.settings.wait_timeout_s, self._waits_since
        self._waits_since = now_s if since is None else since
        text = waits_for(holders)
        if timeout_s is not None and now_s - self._waits_since > timeout_s:
            if not job.settings.abort_waiting:
                raise WaitedTooLong(
                    f"{job.name} has waited for transactions of others for longer than its wait_timeout", detail=text,
                    hint="End them, then RESUME the job; abort_waiting = on has their sessions ended.",
                )  # fmt: skip
            looking.end_sessions(self._session, holders)
        return Wait(Reason.WAITING_FOR_TRANSACTIONS, text, for_s=HELD_S)

    def _plan_live(self, truth: Truth) -> Plan:
        """A published index is shown, if a crash came before that. Then a runner looks now and then if all is there
        and removes tombstones."""
        control = self._session.control()
        if control is not None and control.state is State.READ_WRITE_AND_DELETE and not control.is_public:
            return Publish()
        looking.check_whole(self._session, control)
        action = self._keeper.next()
        if action is not None:
            return Step(self._doing(action, truth), action)
        return Wait(Reason.IDLE, for_s=LOOK_S)

    def _finishing(self, job: Job) -> Plan:
        return Verify(rows=1) if job.life is Life.VERIFYING else Finish()

    def _held(self, control: Control | None) -> list[Holder]:
        """Those who write since before the last change of state. The set is taken once per change, after its commit;
        a new runner takes it again, and so does a new session: a restarted server has other numbers for prepared
        transactions."""
        if control is None:
            return []
        writers, change = self._session.writers(), (control.step, self._session.opened)
        if self._barrier is None or self._barrier[0] != change:
            self._barrier = (change, frozenset(one.transaction for one in writers))
        now = [one for one in writers if one.transaction in self._barrier[1]]
        self._barrier = (change, frozenset(one.transaction for one in now))
        return now

    def _look(self, truth: Truth, held: bool) -> Look:
        control = truth.control
        if control is None:
            return Look(None)
        logged, tombstones = (0, 0), False
        if control.state in (State.MERGING, State.DRAINING) or (
            control.state is State.BACKFILLING and truth.filled.is_done
        ):
            logged = looking.logged(self._session, LOG_ROWS_MAX + 1)
        self._older = []
        if control.state is State.READ_WRITE_AND_DELETE and not control.is_public:
            tombstones, self._older = looking.has_tombstones(self._session), looking.older_snapshots(self._session)
        filled, leaves = truth.filled.is_done, partitions.changed_leaves(self._session)
        older = bool(self._older)
        return Look(
            control, held, filled, logged, LOG_ROWS_MAX, tombstones, self._tries, older,
            leaves.new, leaves.row_trigger, leaves.lost,
        )  # fmt: skip

    def chunk_rows(self, job: Job) -> int:
        """How many rows the next chunk has."""
        usual = CHUNK_ROWS if self._spark is None else STAGED_ROWS
        rows, limit = job.settings.chunk_rows or usual, job.settings.rate_limit
        rows = rows if self._batch is None else min(rows, self._batch)
        return rows if limit is None else max(1, min(rows, limit))

    def tasks(self, job: Job) -> int:
        """How many chunks or ranges are worked at; with a limit one, so that each waits for its turn."""
        return job.settings.parallelism if job.settings.rate_limit is None else 1

    def _throttled(self, job: Job, now_s: float) -> Wait | None:
        """What a fill waits for, if it must: a pause of the fill, the rate limit, or the server."""
        if job.knobs().fill_paused:
            return Wait(Reason.FILL_PAUSED)
        rows, limit = self.chunk_rows(job), job.settings.rate_limit
        self._bucket = throttle.refill(self._bucket, now_s, limit, rows)
        if throttle.chunks_allowed(self._bucket, limit, rows, 1):
            return self._pressed(now_s)
        return Wait(Reason.RATE_LIMIT, for_s=throttle.wait_s(self._bucket, limit, rows))

    def _pressed(self, now_s: float) -> Wait | None:
        """A wait that spares the server. It is asked again when a chunk has followed the last look."""
        if self._chunks_since_look and is_due(self._brake, now_s):
            seen = pressure.signals(self._session, self._blocked, self._log_share)
            self._brake = braked(self._brake, seen, now_s)
            self._chunks_since_look, self._blocked = 0, 0
        left_s = self._brake.until_s - now_s
        if not 0.0 < left_s <= self._brake.wait_s:
            return None
        return Wait(Reason.BACK_PRESSURE, f"{Reason.BACK_PRESSURE.value}: {self._brake.text}", for_s=left_s)

    def _doing(self, planned: Next, truth: Truth) -> Doing:
        chunks, words = 1 if isinstance(planned, FillChunk) else 0, _WORDS[type(planned)]
        if chunks and truth.filled.is_read:
            words = "loading"
        if isinstance(planned, TakeIn) and self._keeper.taken:
            words += f" ({self._keeper.taken:,} rows so far)"
        return Doing(words, self._clock.now_s(), chunks, truth.filled.rows)

    # Doing.

    def execute(self, job: Job, truth: Truth, plan: Step | Verify | Publish) -> Outcome[Truth]:
        """One transaction on the server."""
        match plan:
            case Step(work=work):
                self._waits_since = None
                events = self._act_unless_renamed(job, truth, work)
                after = self._truth()
                did = Did(rows_in=max(0, after.filled.rows - truth.filled.rows) or None)
                return Outcome(after, made=isinstance(work, Install), events=events, did=did)
            case Verify():
                assert truth.control is not None, "only what is there is published"
                return Outcome(truth, compared=Compared(truth.control.rows))
            case Publish(tries=True):
                looking.check_name(self._session)
                return Outcome(truth)
            case Publish():
                changes.show(self._session, self._session.control())
                return Outcome(self._truth())
            case never:
                assert_never(never)

    def _act_unless_renamed(self, job: Job, truth: Truth, action: Action) -> tuple[str, ...]:
        """NotYet if a name was not found because somebody has changed it since the look: the next turn knows it."""
        try:
            return self._act(job, truth, action)
        except QueryFailed as error:
            unknown = isinstance(error.__cause__, (errors.UndefinedTable, errors.UndefinedColumn))
            if not unknown or not looking.is_renamed(self._session):
                raise
            looking.follow_rename(self._session)
            raise NotYet(f"the table of the index {self._shape.name} was renamed", detail=error.detail) from error

    def _act(self, job: Job, truth: Truth, action: Action) -> tuple[str, ...]:
        session = self._session
        if isinstance(action, Install):
            return changes.installed(session, self._method)
        control = truth.control
        assert control is not None, "only an install comes without a control row"
        match action:
            case Advance(state, body):
                changes.advance(session, control, state, body)
                return (f"{control.state.value} -> {state.value}",) if state is not control.state else ()
            case FillChunk():
                return self._fill(job, control, truth.filled)
            case BuildKey():
                return self._build_key(control)
            case Merge(log):
                repair.merge(session, control, log)
            case CutOver():
                return self._cut_over(control)
            case Drain():
                repair.drain(session, control)
            case Validate():
                changes.validate(session, control)
                return ("VALIDATING -> READ_WRITE_AND_DELETE",)
            case TakeIn() | RemoveOrphans() | TryRefused() | GrantToOwner() | Sweep():
                return self._keeper.act(control, action)
            case Clear():
                self._remove_staged()
                removal.clear(session)
                removal.forget(session)
                session.prepare()
                return ("what the last attempt had left is removed",)
            case never:
                assert_never(never)
        return ()

    def _fill(self, job: Job, control: Control, done: Filled) -> tuple[str, ...]:
        began_s, session, rows = self._clock.now_s(), self._session, self.chunk_rows(job)
        if self._spark is not None:
            after = self._spark.fill(session, control, done, rows, self.tasks(job))
        else:
            after = self._parallel.fill(control, done, rows, self.tasks(job))
        self._bucket = throttle.spend(self._bucket, after.loaded - done.loaded)
        self._batch = after.batch or (2 * self._batch if self._batch else None)  # grows again where nobody is met
        self.note_fill(after.rows - done.rows, self._clock.now_s() - began_s, after.blocked)
        return after.events

    def note_fill(self, rows: int, took_s: float, blocked: int) -> None:
        """So many rows were filled, and so many sessions had to wait: for the rate limit, for the rate that is shown,
        and for the server's sake."""
        self._blocked = max(self._blocked, blocked)
        self._fill_s += max(0.0, took_s)
        self._fill_rows += rows
        self._chunks_since_look += 1
        self._bucket = throttle.spend(self._bucket, rows)

    def _build_key(self, control: Control) -> tuple[str, ...]:
        if not filling.build_key(self._session, control):
            return ()
        self._remove_staged()
        return ("BACKFILLING -> MERGING",)

    def _cut_over(self, control: Control) -> tuple[str, ...]:
        """Where the log is too long, or rows are in conflict, the logs are exchanged and drained once more."""
        repair.empty_resting_log(self._session, control)
        why = repair.try_cut_over(self._session, LOG_ROWS_MAX)
        if not why:
            self._tries = 0
            return ("MERGING -> VALIDATING",)
        self._tries += 1
        if why != "lock":
            changes.advance(self._session, control, State.MERGING, other_log(control.body))
        return ()

    # Telling.

    def report(self, job: Job, truth: Truth) -> Report:
        """How far the fill is, and the state."""
        rows_of = max(self._estimated(), truth.filled.rows)
        done = truth.control is not None and truth.control.state is State.READ_WRITE_AND_DELETE
        rate = self._fill_rows / self._fill_s if self._fill_s > 0 else 0.0
        phase = "" if truth.control is None else truth.control.state.value
        part = PartReport(self._shape.name, phase, truth.filled.rows, rows_of)
        return Report(
            self._anchor(truth), done, truth.filled.rows, rows_of, rate, condition=condition_text([truth.control]),
            parts=(part,),
        )  # fmt: skip

    def _anchor(self, truth: Truth) -> str:
        state = None if truth.control is None else truth.control.state.value
        return json.dumps({"index": self._shape.id, "state": state, "rows": truth.filled.rows})

    def _estimated(self) -> int:
        if self._estimate is None:
            self._estimate = self._rows()
        return self._estimate

    def standing(self) -> Standing:
        """An index lags behind nothing: writers keep it."""
        return Standing()

    def release(self, truth: Truth, released: str = "") -> None:
        """No source keeps anything for an index."""

    def abandon(self, job: Job, error: TidefillError) -> None:
        """A job that failed must not refuse writers, nor log without end: an index that is not public does nothing from
        now on, and its tables go. A public one keeps working, whatever is wrong with it."""
        control = self._session.control()
        if control is None or control.is_public:
            return
        removal.stop(self._session)
        self._remove_staged()
        if looking.writers_end(self._session, ABANDON_S):
            removal.clear(self._session)

    def compare(self, job: Job, after: Key | None, rows: int) -> Compared:
        """Compare entries and base now."""
        control = self._session.control()
        if control is None or control.state not in (State.VALIDATING, State.READ_WRITE_AND_DELETE):
            raise NotYet(f"{job.name} has nothing to verify yet")
        try:
            return Compared(looking.validated(self._session))
        except VerifyFailed as error:
            return Compared(0, tuple(error.detail.splitlines()))

    def rest(self) -> None:
        """A session between two turns holds no lock and no snapshot."""

    def close(self) -> None:
        """End the sessions."""
        self._parallel.close()
        self._session.close()


_WORDS = {
    Install: "installing",
    Advance: "changing the state",
    FillChunk: "fill",
    BuildKey: "building the key",
    Merge: "merging the log",
    CutOver: "cutting over",
    Drain: "draining the log",
    Validate: "verify",
    TakeIn: "taking a partition in",
    GrantToOwner: "granting the owner its rights",
    TryRefused: "trying rows again that have no entry",
    RemoveOrphans: "removing entries of a lost partition",
    Sweep: "removing tombstones",
    Clear: "removing the last attempt",
}
