"""One history: the production runner on memory adapters, while a script lets the world act inside every effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tidefill.core.budget import Kept
from tidefill.core.confirm import Effect, Entry
from tidefill.core.keys import Key
from tidefill.core.reasons import Reason
from tidefill.core.sizing import Sizing
from tidefill.core.version import Number, Offsets, Snapshot, Version
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import ends
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, Pause, Settings
from tidefill.ports.upstream import Upstream
from tidefill.run.backfill import Backfill
from tidefill.run.machine import BackfillMachine
from tidefill.run.runner import LEASE_S, Runner
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.derivations import QUERIES
from tidefill.testing.memory.postgres import PostgresLike, Server
from tidefill.testing.memory.store import MemoryStore
from tidefill.testing.memory.tables import ID, Catalog, Frame, Row, Table, with_changes
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.world import Died, Violation, WorldClock
from tidefill.testing.simulation.acts import ACTS
from tidefill.testing.simulation.checkers import Checkers
from tidefill.testing.simulation.invariants import (
    CHUNK_ROWS_MAX,
    check_bounded,
    check_clean,
    check_no_starvation,
    check_progress,
    check_published,
    check_shown,
)
from tidefill.testing.simulation.script import EFFECTS, Act, Script, bend
from tidefill.testing.simulation.scripted import FEW_ROWS, Scripted
from tidefill.testing.simulation.state_text import StateText
from tidefill.testing.simulation.workload import initial_rows

TURNS_MAX = 700
SETTLE_TURNS_MAX = 400
STEPS_MIN = 40
NAME = "job"

QUERY_OF = {query.name: query for query in QUERIES}

# How many versions a polled head may lie behind.
STALE = (0, 2, 9)

# Which stop a fault excuses. Any other stop is a false alarm.
EXCUSES: dict[str, tuple[str, ...]] = {
    "touch": ("TARGET_TOUCHED",),
    "clean log": ("STATE_LOST",),
    "restore store": ("STATE_LOST", "TARGET_TOUCHED", "HISTORY_GONE"),
    "vacuum changes": ("HISTORY_GONE",),
    "vacuum": ("HISTORY_GONE",),
    "recreate upstream": ("UPSTREAM_REPLACED", "HISTORY_GONE"),
    "advance slot": ("HISTORY_GONE",),
    "duplicate": ("KEY_NOT_UNIQUE", "BUG"),
    "pause": ("LOG_GIVEN_UP",),
}


class Simulation(Scripted):
    """Everything that takes part in one history. `by_name`: what may happen in it. `excused_by`: which stop a fault
    excuses. `by_key`: the walk is the key of the target. `place`, `fixed`: as of the target."""

    by_key = False
    place: tuple[int, ...] = ()
    fixed: int | None = None
    by_name: Mapping[str, Callable[[Any, int], None]] = ACTS
    excused_by: Mapping[str, tuple[str, ...]] = EXCUSES

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.catalog = Catalog()
        self.store = MemoryStore(self.world.effect)
        self.query = QUERIES[self.setup.query]
        self.wanted = self.query.name
        self.made_by: dict[str, str] = {}
        self.keys: dict[Row, Key] = {}
        self.past_servers: dict[str, Server] = {}
        self.past_tables: dict[str, Table] = {}
        self.writes_since_commit = 0
        self.make_upstream(initial_rows(self.setup.rows_seed, self.setup.rows))
        self.checkers = self.make_checkers()
        self.runners: list[Runner] = []
        self.runners_made = 0
        self.jobs_made = 0
        self.depth = 0
        self.excuses: set[str] = set()
        self.backups: list[dict[str, Job]] = []
        self.steps = 0
        self.fence = 0
        self.busy_steps = 0
        self.shares: dict[tuple[str, int], float] = {}
        self.on_step: Callable[[Simulation, Entry], None] = lambda simulation, entry: None
        self.job_id = self._create_job()
        self.start_runner()

    # The parts.

    def make_upstream(self, rows: list[Row]) -> None:
        identity = self.world.new_uuid()
        if self.setup.postgres:
            self.server = Server(identity, {row[ID]: row for row in rows})
            self.past_servers[identity] = self.server
        else:
            self.table = Table(identity)
            self.past_tables[identity] = self.table
            if rows:
                self.commit_upstream([(1, row) for row in rows])

    def make_checkers(self) -> Checkers:
        return Checkers(self.query.make(), self.setup.walk, self.rows_at)

    def commit_upstream(self, changes: list[tuple[int, Row]]) -> None:
        self.table.commit(with_changes(self.table.snapshots[-1], changes), changes, Effect.FOREIGN)

    def rows_at(self, version: Version) -> list[Row] | None:
        """The upstream's rows at that version; None if there is no such version."""
        match version.point:
            case Number(number):
                table = self.past_tables.get(version.identity)
                if table is None or number > table.version:
                    return None
                return [row for rows in table.snapshots[number].values() for row in rows]
            case Snapshot() as snapshot:
                server = self.past_servers.get(version.identity)
                state = None if server is None else server.states.get(snapshot)
                return None if state is None else list(state.values())
            case Offsets():
                return None

    def upstream_rows(self) -> list[Row]:
        """The upstream as it is now."""
        return list(self.server.rows.values()) if self.setup.postgres else self.table.rows()

    def walk_of(self, row: Row) -> Key:
        """The row's place in the walk."""
        key = self.keys.get(row)
        if key is None:
            key = self.keys[row] = Key(tuple([row[column] for column in self.setup.walk]))
        return key

    def path(self, job: Job, generation: int) -> str:
        """Where a generation of a job lives; never used twice."""
        return f"{job.name}-{job.id}-{generation}"

    def build(self, job: Job) -> Backfill[Frame]:
        """What looks and commits for a job, as an engine would make it."""
        path = self.path(job, job.generation)
        self.made_by.setdefault(path, job.definition)
        target = MemoryTarget(
            self.world, self.catalog, path, job.name, self._committed, place=self.place, fixed=self.fixed
        )
        upstreams, derivation = {"t": self.upstream_of(path)}, QUERY_OF[job.definition].make()
        return Backfill(upstreams, derivation, target, self.world.new_uuid, by_key=self.by_key, few_rows=FEW_ROWS)

    def upstream_of(self, path: str) -> Upstream[Frame]:
        """What the generation of a job reads that lives there."""
        setup = self.setup
        if setup.postgres:
            return PostgresLike(
                self.world,
                lambda: self.server,
                self.walk_of,
                f"slot-{path}",
                bend=bend(setup),
                estimate_times=setup.estimate_times,
            )
        return DeltaLike(
            self.world,
            lambda: self.table,
            self.walk_of,
            behind=lambda: STALE[self.world.effects % 3] if setup.stale and self.faults_on else 0,
            bend=bend(setup),
            estimate_times=setup.estimate_times,
        )

    def remove(self, job: Job, resource: Resource) -> None:
        """Remove what a job made (the runner's port)."""
        self.world.effect("resource.remove")
        kind, name = resource.kind, resource.name
        if kind == "slot":
            if self.setup.postgres:
                self.server.slots.pop(name, None)
        else:
            self.catalog.tables.pop(name, None)
            for published, path in tuple(self.catalog.published.items()):
                if path == name:
                    del self.catalog.published[published]
        self.world.effect("resource.removed")

    def kept(self, resource: Resource) -> Kept | None:
        """What a slot keeps (the runner's port)."""
        kind, name = resource.kind, resource.name
        slot = self.server.slots.get(name) if kind == "slot" and self.setup.postgres else None
        return None if slot is None else self.server.kept(slot)

    def kept_outside(self) -> Iterable[str]:
        """What the upstream keeps for jobs."""
        return self.server.slots if self.setup.postgres else ()

    def _create_job(self) -> str:
        self.jobs_made += 1
        settings = Settings(
            self.setup.parallelism,
            self.setup.rate_limit,
            self.setup.chunk_rows,
            wal_budget=self.setup.wal_budget,
            wal_limit=self.setup.wal_limit,
        )
        self.wanted = self.query.name
        job = Job(f"j{self.jobs_made}", NAME, self.wanted, settings=settings)
        self.store.rows[job.id] = job
        self.world.tell("job %s is created: %s over %s", job.id, self.query.name, self.setup)
        return job.id

    def start_runner(self, skew_s: float = 0.0) -> Runner:
        self.runners_made += 1
        clock = WorldClock(self.world, skew_s)

        def machine(job: Job) -> BackfillMachine[Frame]:
            return BackfillMachine(self.build(job), clock, start=Sizing(rows=1, ceiling_rows=CHUNK_ROWS_MAX))

        runner = Runner(self.store, clock, machine, self, f"r{self.runners_made}", self.world.new_uuid)
        self.runners.append(runner)
        return runner

    # What happens at effects.

    def _act(self, act: Act, where: str) -> None:
        if act.kind != "write":
            self.world.seen[act.kind] += 1
            self.world.tell("%s: %s (in %s)", act.kind, act.number % 1000, where)
            self.excuses.update(self.excused_by.get(act.kind, ()))
            self.checkers.forwards = -2
        self.by_name[act.kind](self, act.number)

    def wish(self, wish: Callable[[Job], Job]) -> None:
        job = self.store.rows.get(self.job_id)
        if job is not None and job.life not in (Life.CANCELLING, Life.DROPPED):
            self.store.rows[self.job_id] = wish(job)

    def replace(self, number: int) -> None:
        """CREATE OR REPLACE, with a query that can be walked as this one is, if there is one: a replica has none."""
        setup = self.setup
        others = [one for one in QUERIES if setup.walk in one.walks and (one.keys_only or not setup.postgres)]
        job, query = self.store.rows.get(self.job_id), others[number % len(others)].name if others else ""
        if query and job is not None and not ends(job) and job.newest_definition != query:
            self.world.tell("another query: %s", query)
            self.wanted = query
            self.wish(jobs.wish_replace(query, lambda settings: settings))

    def later(self, kind: str, effects: int, wanted: bool) -> None:
        if wanted:
            self.acts.append(Act(self.world.effects + effects, kind, 1))
            self.acts.sort(key=lambda act: -act.at)
            self._set_next_due()

    # The history.

    def _committed(self, path: str, table: Table, entry: Entry) -> None:
        self.steps += 1
        self.busy_steps += self.writes_since_commit > 0
        self.writes_since_commit = 0
        assert entry.payload is not None
        state = entry.payload.state
        self.world.tell("commit %s of %s: %s", entry.version, path, StateText(state))
        self.on_step(self, entry)
        self.checkers.derivation = QUERY_OF[self.made_by[path]].make()
        before = self.checkers.before(path, table)
        self.checkers.committed(path, table, entry)
        check_no_starvation(self, state.finished())
        honest = self.setup.bounds == "honest" and not self.setup.stale and not self.checkers.excused
        if before is not None and honest and not self.checkers.derivation.shape.group_columns:
            check_bounded(self, before, self.checkers.seen[path])

    def turn(self, runner: Runner) -> None:
        """One turn of a runner. It may die in it."""
        try:
            turn = runner.turn(self.job_id)
        except Died:
            self.world.tell("a process died")
            if runner in self.runners:
                self.runners.remove(runner)
            if self.setup.postgres:
                self.server.drop_heads()
            self.checkers.forwards = -2
            return
        if not turn.worked:
            self.checkers.forwards = -2
            waits_for_lease = self._lease_is_held()
            self.world.now += 20.0 if waits_for_lease else min(turn.again_in_s or 1.0, 5.0)

    def _lease_is_held(self) -> bool:
        """By a runner that died: nobody can do anything until it is over."""
        job = self.store.rows.get(self.job_id)
        return job is not None and job.lease.owner not in {runner._owner for runner in self.runners}

    def play(self, number: int) -> None:
        """One turn of one of the runners, and what a person would do after it."""
        if not self.runners:
            self.start_runner()
        self.turn(self.runners[0 if number % 5 == 0 else -1])
        if len(self.runners) > 2:
            self.runners.pop(0)
        if number % 8 == 0 and len(self.backups) < 12:
            self.backups.append(self.store.backup())
        job = self.store.rows.get(self.job_id)
        if job is None or job.life is Life.DROPPED:
            self._after_drop()
        else:
            check_progress(self, job)
            check_published(self, job)
            check_shown(self, job)
            if job.life is Life.FAILED:
                self._after_failure(job)

    def _after_failure(self, job: Job) -> None:
        """Only a fault that happened excuses a stop. A person then sets things right and asks for a new generation."""
        assert job.failure is not None
        self.world.tell("job failed: %s %s", job.failure.code, job.failure.detail or job.failure.fact)
        if job.failure.code not in self.excuses:
            why = f"{job.failure.code} {job.failure.fact} {job.failure.detail}"
            raise Violation("I7 loud", f"stopped without need: {why}")
        self.world.seen["stopped"] += 1
        self.mend()
        self.wish(jobs.wish_resync)

    def mend(self) -> None:
        if self.checkers.excused:
            seen: set[int] = set()
            twice = []
            for row in self.table.rows():
                if row[ID] in seen:
                    twice.append((-1, row))
                seen.add(row[ID])
            if twice:
                self.commit_upstream(twice)
            self.checkers.excused = False

    def _after_drop(self) -> None:
        """The name is free: create it again, while the old one is still being swept."""
        self.world.seen["dropped"] += 1
        old = self.job_id
        self.job_id = self._create_job()
        self._sweep(old)

    def _sweep(self, job_id: str) -> None:
        runner = self.start_runner()
        for _ in range(60):
            if job_id not in self.store.rows:
                break
            self.world.now += LEASE_S
            try:
                runner.turn(job_id)
            except Died:
                runner = self.start_runner()
        else:
            raise Violation("I9 clean", f"{job_id} was never swept")
        check_clean(self, job_id)

    def run(self) -> None:
        """The whole history; raises Violation."""
        number = 0
        while self._goes_on() and number < TURNS_MAX:
            if self.world.effects >= EFFECTS:
                self._lift_limits()
            self.play(number)
            if self._is_at_rest() or number % 5 == 0:
                self._write_between(self.script.seed * 1000 + number)
            number += 1
        self.settle()
        self.end()

    def _goes_on(self) -> bool:
        if self.script.quiet:
            return bool(self.acts)
        return self.world.effects < EFFECTS or self.steps < STEPS_MIN

    def _is_at_rest(self) -> bool:
        """Nobody would learn anything from another turn."""
        job = self.store.rows.get(self.job_id)
        return job is not None and job.waiting == Reason.IDLE.value

    def _write_between(self, number: int) -> None:
        if not self.script.quiet:
            self.by_name["write"](self, number)
        self.let_transactions_end()

    def settle(self) -> None:
        """No more faults: the job has to go live while writers write, and to be right when they rest."""
        self.end_faults()
        self._mend_if_needed()
        self._lift_limits()
        for number in range(SETTLE_TURNS_MAX):
            self.play(number)
            self.let_transactions_end()
            if self._is_live() and number > 4:
                break
            if number % 4 == 0:
                self._write_between(self.script.seed * 7000 + number)
        else:
            raise Violation("I5 progress", f"not live {SETTLE_TURNS_MAX} turns without faults, {self._job_text()}")
        self.come_to_rest()

    def _lift_limits(self) -> None:
        job = self.store.rows.get(self.job_id)
        if job is not None and (job.pause is not Pause.NOTHING or job.settings.rate_limit is not None):
            self.wish(jobs.wish_resume)
            self.wish(lambda row: jobs.wish_settings(replace(row.settings, rate_limit=None))(row))

    def _mend_if_needed(self) -> None:
        if self.checkers.excused:
            self.wish(jobs.wish_resync)
            self.mend()

    def _is_live(self) -> bool:
        job = self.store.rows.get(self.job_id)
        return job is not None and job.life is Life.LIVE

    def _job_text(self) -> str:
        job = self.store.rows.get(self.job_id)
        return "no job" if job is None else f"{job.life.value}, waiting for {job.waiting!r}"

    def let_transactions_end(self) -> None:
        if self.setup.postgres:
            self.server.move_on()

    def come_to_rest(self) -> None:
        """Writers rest: the job catches up, and its published table is the recompute of the upstream as it is."""
        self.end_writers()
        for number in range(40):
            self.world.now += 61.0
            self.play(number)
            if self._is_at_rest() and number > 2:
                break
        else:
            raise Violation("I5 progress", f"never at rest: {self._job_text()}")
        self.check_at_rest()

    def end_writers(self) -> None:
        while self.setup.postgres and self.server.pending:
            self.server.move_on()

    def check_at_rest(self) -> None:
        rows, wanted = self.upstream_rows(), QUERY_OF[self.wanted].make()
        expected = wanted.derive(dict.fromkeys(wanted.shape.tables, rows))
        table = self.catalog.tables[self.catalog.published[NAME]]
        self.checkers.equal(expected, table.snapshots[-1])

    def end(self) -> None:
        """Drop it: nothing is left."""
        self.wish(jobs.wish_drop)
        old = self.job_id
        for number in range(20):
            if not self.runners:
                self.start_runner()
            self.turn(self.runners[number % len(self.runners)])
            job = self.store.rows.get(old)
            if job is None or job.life is Life.DROPPED:
                break
        self._sweep(old)
