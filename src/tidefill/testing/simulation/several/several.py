"""One history of several jobs that read each other: the production runner on memory adapters, while writers write, and
jobs are paused, fail, are dropped and added. Every commit is checked as that of a job alone is, and for I10: whatever a
job has read, however far below, comes from one version of each table of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from tidefill.core.budget import Kept
from tidefill.core.confirm import Effect, Entry
from tidefill.core.keys import Key
from tidefill.core.reasons import Reason
from tidefill.core.sizing import Sizing
from tidefill.core.version import Number, Version
from tidefill.errors import NotYet
from tidefill.jobs import row as jobs
from tidefill.jobs.agreement import Reads
from tidefill.jobs.graph import Graph, source_of
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.namespace import ends
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job, Pause, Settings, name_key
from tidefill.run.backfill import Backfill
from tidefill.run.machine import BackfillMachine
from tidefill.run.runner import LEASE_S, Runner
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.derivations import Join, RowByRow, SimDerivation
from tidefill.testing.memory.store import MemoryStore
from tidefill.testing.memory.tables import ID, VALUE, Catalog, Frame, Row, Table, with_changes
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.world import Died, Violation, WorldClock
from tidefill.testing.simulation.checkers import Checkers
from tidefill.testing.simulation.script import Act, Script
from tidefill.testing.simulation.scripted import FEW_ROWS, Scripted
from tidefill.testing.simulation.several.acts import ACTS, write, write_to
from tidefill.testing.simulation.several.graphs import EFFECTS, GRAPHS, NAMES
from tidefill.testing.simulation.workload import initial_rows

ROUNDS_MAX = 600
SETTLE_ROUNDS_MAX = 300
BUSY_ROUNDS = 25
QUIET_ROUNDS = 8
FIRST, SECOND = "first", "second"


def _shifted(row: Row) -> Row | None:
    return (*row[:VALUE], row[VALUE] + 1)


def _some(row: Row) -> Row | None:
    """Most changes of the table change nothing here."""
    return (*row[:VALUE], row[VALUE] * 2) if row[ID] % 4 == 0 else None


class Several(Scripted):
    """Everything that takes part in it."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.graph = GRAPHS[script.setup.graph]
        self.catalog = Catalog()
        self.store = MemoryStore(self.world.effect)
        self.bases = {name: Table(f"{name}-identity") for name in ("t", "u")}
        for number, table in enumerate(self.bases.values()):
            rows = initial_rows(self.setup.rows_seed + number, self.setup.rows)
            self.commit(table, [(1, row) for row in rows])
        self.known = {table.identity: table for table in self.bases.values()}
        self.checkers = {name: Checkers(self._query(name), (ID,), self._rows_at) for name in self.graph}
        self.runners: list[Runner] = []
        self.wanted: dict[str, str] = {}
        self.made_by: dict[str, str] = {}
        self.made = 0
        self.nested = False
        self.steps = self.busy_steps = self.writes_since_commit = 0
        self.excuses: set[str] = set()
        for name in self.graph:
            self.create(name)
        self.start_runner()

    # The parts.

    def _query(self, name: str, definition: str = FIRST) -> SimDerivation:
        """A view over one table has another query after it was replaced."""
        if len(self.graph[name]) > 1:
            return Join()
        return RowByRow(_some if (name in ("v2", "w1")) is (definition == FIRST) else _shifted)

    def commit(self, table: Table, changes: list[tuple[int, Row]]) -> None:
        table.commit(with_changes(table.snapshots[-1], changes), changes, Effect.FOREIGN)

    def _rows_at(self, version: Version) -> list[Row] | None:
        table = self.known.get(version.identity)
        assert isinstance(version.point, Number)
        if table is None or version.point.number > table.version:
            return None
        return [row for rows in table.snapshots[version.point.number].values() for row in rows]

    def path(self, job: Job, generation: int) -> str:
        """Where a generation of a job lives."""
        return f"{job.name}-{job.id}-{generation}"

    def row(self, name: str) -> Job:
        """The job of that name."""
        job = self.store.find(name)
        assert job is not None, f"there is no {name}"
        return job

    def has(self, name: str) -> bool:
        """Whether there is such a job."""
        return self.store.find(name) is not None

    def reads(self, rows: Sequence[Job]) -> Reads:
        """What each of these jobs reads."""
        ids = {job.name: job.id for job in rows}
        return {
            job.id: {
                table: ids.get(name, NAMES.get(name, name))
                for table, name in zip(self._query(job.name).shape.tables.values(), self.graph[job.name], strict=True)
            }
            for job in rows
        }

    def graph_of(self, rows: Sequence[Job]) -> Graph:
        """Who reads whom (the runner's port)."""
        return Graph(rows, self.reads)

    def source(self, job: Job, graph: Graph | None) -> str:
        """The generations that it reads (the runner's port)."""
        by_name = (graph or self.graph_of(self.store.jobs())).by_name
        return source_of(by_name.get(name_key(name)) for name in self.graph[job.name])

    def build(self, job: Job) -> Backfill[Frame]:
        """What looks and commits for a job, over what its inputs have published."""
        query, path = self._query(job.name, job.definition), self.path(job, job.generation)
        self.made_by.setdefault(path, job.definition)
        upstreams = {
            table: DeltaLike(self.world, self._finder(name), lambda row: Key((row[ID],)), behind=lambda: self._behind())
            for table, name in zip(query.shape.tables.values(), self.graph[job.name], strict=True)
        }
        target = MemoryTarget(self.world, self.catalog, path, job.name, self._committed)
        return Backfill(upstreams, query, target, self.world.new_uuid, few_rows=FEW_ROWS)

    def _behind(self) -> int:
        return self.world.effects % 3 if self.setup.stale and self.faults_on else 0

    def _finder(self, name: str) -> Callable[[], Table | None]:
        base = self.bases.get(NAMES.get(name, name))
        if base is not None:
            return lambda: base
        if not self.has(name) or self.row(name).published is None:
            raise NotYet(f"{name} is not live yet")
        job = self.row(name)
        path = self.path(job, job.published or 0)
        return lambda: self.catalog.tables.get(path)

    def remove(self, job: Job, resource: Resource) -> None:
        """Remove what a job made (the runner's port)."""
        self.world.effect("resource.remove")
        self.catalog.tables.pop(resource.name, None)

    def kept(self, resource: Resource) -> Kept | None:
        """Nothing is (the runner's port)."""
        return None

    def create(self, name: str) -> None:
        """CREATE."""
        self.made += 1
        settings = Settings(chunk_rows=self.setup.chunk_rows)
        self.wanted[name] = FIRST
        job = Job(f"j{self.made}", name, FIRST, settings=settings)
        self.store.rows[job.id] = job
        self.world.tell("%s is created over %s", name, self.graph[name])

    def start_runner(self) -> Runner:
        """Another process."""
        self.made += 1
        clock = WorldClock(self.world)

        def machine(job: Job) -> BackfillMachine[Frame]:
            return BackfillMachine(self.build(job), clock, start=Sizing(rows=1, ceiling_rows=16))

        runner = Runner(
            self.store, clock, machine, self, f"r{self.made}", self.world.new_uuid,
            source=self.source, graph_of=self.graph_of,
        )  # fmt: skip
        self.runners.append(runner)
        return runner

    # What happens at effects.

    def _act(self, act: Act, where: str) -> None:
        if act.kind == "write":
            write(self, act.number)
            return
        self.world.seen[act.kind] += 1
        names = [name for name in self.graph if self.has(name)]
        if not names:
            return
        job = self.row(names[act.number % len(names)])
        self.world.tell("%s: %s (in %s)", act.kind, job.name, where)
        ACTS[act.kind](self, job, act.number)

    def wish(self, name: str, wish: Callable[[Job], Job]) -> None:
        """What a user wants."""
        job = self.row(name)
        if job.life is not Life.CANCELLING:
            self.store.rows[job.id] = wish(job)

    def replace(self, name: str) -> None:
        """CREATE OR REPLACE of a view over one table."""
        job = self.row(name)
        if len(self.graph[name]) == 1 and not ends(job):
            self.wanted[name] = SECOND if job.newest_definition == FIRST else FIRST
            self.wish(name, jobs.wish_replace(self.wanted[name], lambda settings: settings))

    def target(self, name: str) -> Table | None:
        """The table of its newest generation."""
        job = self.row(name)
        return self.catalog.tables.get(self.path(job, job.generation))

    # What is checked.

    def _committed(self, path: str, table: Table, entry: Entry) -> None:
        self.steps += 1
        self.busy_steps += self.writes_since_commit > 0
        self.writes_since_commit = 0
        self.known[table.identity] = table
        assert entry.payload is not None
        state = entry.payload.state
        told = {name: version.point for name, version in state.versions.items()}
        self.world.tell("commit %s of %s: step %s, %s", entry.version, path, state.step, told)
        self.check_one_version(state.versions.values(), path)
        name = path.split("-")[0]
        self.checkers[name].derivation = self._query(name, self.made_by[path])
        self.checkers[name].committed(path, table, entry)

    def check_one_version(self, versions: Iterable[Version], path: str) -> None:
        """I10."""
        found: dict[str, int] = {}
        for version in versions:
            for base, number in self.origins(version):
                if found.setdefault(base, number) != number:
                    raise Violation("I10 one version", f"{path} mixes {base} at {found[base]} and {number}")

    def origins(self, version: Version) -> Iterator[tuple[str, int]]:
        """From which versions of which tables of others it comes, by the logs alone."""
        assert isinstance(version.point, Number)
        table = self.known[version.identity]
        told = [entry.payload for entry in table.entries[: version.point.number + 1] if entry.payload is not None]
        if not told:
            yield version.identity, version.point.number
            return
        for below in told[-1].state.versions.values():
            yield from self.origins(below)

    def at(self, name: str) -> dict[str, int]:
        """From which versions of which tables of others what is published under the name comes."""
        job = self.row(name)
        table = self.catalog.tables[self.path(job, job.published or 0)]
        return dict(self.origins(Version(table.identity, Number(table.version))))

    # The history.

    def turn(self, name: str, runner: Runner | None = None, graph: Graph | None = None) -> bool:
        """One turn of a job; whether something was done. `graph`: as the runner is told it."""
        if not self.runners:
            self.start_runner()
        runner = runner or self.runners[-1]
        try:
            worked = runner.turn(self.row(name).id, graph).worked
        except Died:
            self.world.tell("a process died")
            if runner in self.runners:
                self.runners.remove(runner)
            self.world.now += LEASE_S
            return True
        self._after(name)
        return worked

    def _after(self, name: str) -> None:
        if not self.has(name):
            return
        job = self.row(name)
        shown = job.published_definition if job.published is not None else None
        if shown is not None and shown != self.made_by[self.path(job, job.published or 0)]:
            raise Violation("I11 one query", f"{name} is read as {shown}")
        if job.life is Life.FAILED and job.failure is not None:
            if job.failure.code not in self.excuses:
                raise Violation("I7 loud", f"{name} stopped without need: {job.failure}")
            if self.world.effects % 3 == 0 or not self.faults_on:
                self.wish(name, jobs.wish_resync)

    def round(self, number: int, between: Callable[[], None] = lambda: None) -> None:
        """One turn of every job, in an order that differs from round to round. In every other one the store is read as
        `Scheduler.round` reads it: at the beginning, and when something was done."""
        names = sorted(self.graph, key=lambda name: hash_of(name, number + self.script.seed))
        if len(self.runners) > 2:
            self.runners.pop(0)
        worked, reads_once, graph = False, number % 2 == 0, self.graph_of(self.store.jobs())
        for name in names:
            between()
            if self.has(name):
                known = reads_once and name in {row.name for row in graph.rows}
                did = self.turn(name, graph=graph if known else None)
                worked, graph = worked or did, self.graph_of(self.store.jobs()) if did else graph
            elif (number % 6 == 0 or not self.faults_on) and self._can_be_created(name):
                self.create(name)
        self.sweep()
        if not worked:
            self.world.now += 2.0

    def _can_be_created(self, name: str) -> bool:
        """Not over a job that is not there, or is to end."""
        below = [self.store.find(one) for one in self.graph[name] if one in self.graph]
        return all(job is not None and not ends(job) for job in below)

    def sweep(self) -> None:
        """Rows of dropped jobs go when their time has come."""
        for job in tuple(self.store.rows.values()):
            if job.life is Life.DROPPED and not self.nested:
                self.world.now += LEASE_S
                try:
                    self.start_runner().turn(job.id)
                except Died:
                    self.runners.pop()

    def run(self) -> None:
        """The whole history; raises Violation."""
        number = 0
        while self._goes_on() and number < ROUNDS_MAX:
            self.round(number)
            if not self.script.quiet:
                write(self, self.script.seed * 1000 + number)
            number += 1
        self.settle()
        self.let_one_stand(tuple(self.graph)[self.script.seed % len(self.graph)])
        self.stay_fresh(tuple(self.graph))
        self.come_to_rest()
        self.end()

    def _goes_on(self) -> bool:
        return bool(self.acts) if self.script.quiet else self.world.effects < EFFECTS

    def settle(self) -> None:
        """No more faults: all go live, while writers write."""
        self.end_faults()
        for name in self.graph:
            if self.has(name) and self.row(name).pause is not Pause.NOTHING:
                self.wish(name, jobs.wish_resume)
        for number in range(SETTLE_ROUNDS_MAX):
            self.round(number)
            if number % 3 == 0:
                write(self, self.script.seed * 7000 + number)
            if all(self.has(name) and self.row(name).life is Life.LIVE for name in self.graph):
                return
        raise Violation("I5 progress", f"not live after {SETTLE_ROUNDS_MAX} rounds without faults: {self._texts()}")

    def let_one_stand(self, standing: str) -> None:
        """One is paused: those that do not read it go on, those that do say what they wait for."""
        self.wish(standing, jobs.wish_pause(Pause.ALL))
        above = {name for name in self.graph if self._is_below(standing, name)}
        self.stay_fresh([name for name in self.graph if name != standing and name not in above])
        for number in range(QUIET_ROUNDS):
            self.round(number)
        for name in above:
            waiting = self.row(name).waiting
            if waiting != f"{standing}, which is paused" and not waiting.endswith("are gone"):
                raise Violation("I5 progress", f"{name} does not say what it waits for: {self._texts()}")
        self.wish(standing, jobs.wish_resume)

    def _is_below(self, name: str, above: str) -> bool:
        return any(one == name or (one in self.graph and self._is_below(name, one)) for one in self.graph[above])

    def stay_fresh(self, names: Sequence[str]) -> None:
        """Writers never rest, and still these come to newer versions."""
        moments = count(self.script.seed * 9000)

        def busy() -> None:
            for table in self.bases.values():
                moment = next(moments)
                write_to(self, table, moment)
                if self.script.seed % 2 and moment % 5 == 0:
                    table.vacuum(0, changes_too=False)

        before: dict[str, dict[str, int]] = {}
        for number in range(BUSY_ROUNDS):
            self.round(number, busy)
            if number == BUSY_ROUNDS // 3:
                before = {name: self.at(name) for name in names}
        for name, then in before.items():
            now, job = self.at(name), self.row(name)
            late = [base for base in then if now[base] <= then[base]]
            if late and job.life is Life.LIVE and job.waiting != Reason.IDLE.value:
                raise Violation("I5 progress", f"{name} stays at {late} {now}: {self._texts()}")

    def come_to_rest(self) -> None:
        """Writers rest: everything shows what there is."""
        for number in range(SETTLE_ROUNDS_MAX):
            self.round(number)
            if number > QUIET_ROUNDS and all(self.row(name).life is Life.LIVE for name in self.graph):
                break
        for name in self.graph:
            job = self.row(name)
            wanted = {row[0]: (row,) for row in self._recomputed(name)}
            if self.catalog.tables[self.path(job, job.published or 0)].snapshots[-1] != wanted:
                raise Violation("I5 progress", f"{name} does not show what there is: {self._texts()}")

    def _recomputed(self, name: str) -> list[Row]:
        base = self.bases.get(NAMES.get(name, name))
        if base is not None:
            return base.rows()
        query = self._query(name, self.wanted[name])
        below = zip(query.shape.tables, self.graph[name], strict=True)
        return query.derive({occurrence: self._recomputed(one) for occurrence, one in below})

    def _texts(self) -> str:
        return (
            "; ".join(f"{job.name} {job.life.value} {job.waiting!r}" for job in self.store.rows.values())
            + f"; ticks {self.store.ticks}"
        )

    def end(self) -> None:
        """Drop all, from the top: nothing is left."""
        for name in reversed(tuple(self.graph)):
            self.wish(name, jobs.wish_drop)
            for _ in range(6):
                if self.has(name):
                    self.turn(name)
        for _ in range(6):
            self.sweep()
        left = [*self.store.rows, *self.catalog.tables, *self.store.ticks]
        if left:
            raise Violation("I9 clean", f"left: {left}")


def hash_of(name: str, number: int) -> int:
    """The same in every process."""
    return sum(ord(letter) * (number % 7 + position * 13) for position, letter in enumerate(name)) % 101
