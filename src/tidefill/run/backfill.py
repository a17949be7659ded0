"""The backfill machine: turns a planned step into frames and one commit, for any upstream, derivation and target.

It decides nothing. It looks (`glimpse`, `look`), it does (`execute`), and after each commit it asks `confirm` what is
true. The order inside `execute` matters: frames first (they resolve the upstream), then the check that the upstream is
still the same table, then the commit that evaluates them, then the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, assert_never

from tidefill.core import walk
from tidefill.core.confirm import Anchor, Payload, Truth, confirm
from tidefill.core.costs import FEW_ROWS
from tidefill.core.keys import Key
from tidefill.core.look import Changed, CheapLook, Look, LookRequest, Pace, TableSeen
from tidefill.core.reasons import Reason
from tidefill.core.state import JobState, Occurrence, Table
from tidefill.core.step import Knobs, Step, Write, apply, plan_first_look, plan_look
from tidefill.core.version import Version, newer
from tidefill.core.walk import Range, Split
from tidefill.errors import CommitConflict, KeyNotUnique, NotYet, RetryLater, Unreadable, VerifyFailed
from tidefill.jobs.agreement import ALONE, InStep, agree
from tidefill.jobs.row import Job
from tidefill.ports.derivation import Derivation
from tidefill.ports.frames import (
    Append,
    Changes,
    Comparable,
    Compared,
    Judged,
    Merge,
    Put,
    Replace,
    TargetWrite,
)
from tidefill.ports.target import Target
from tidefill.ports.uniqueness import Uniqueness
from tidefill.ports.upstream import Upstream
from tidefill.run.phases import CHANGES, COMMIT, CONFIRM, TIDY, Timed, untimed

F = TypeVar("F")
HEAD_HOLD_S = 30.0
TIDY_EVERY = 50  # steps
COMPARED_TIMES = 3  # until what looks like a difference is one
HALF_FILLED = "compared with the compiled query: a table that the query names twice is half filled"


@dataclass(frozen=True, slots=True)
class _Head:
    context: AbstractContextManager[Version]
    version: Version
    opened_s: float


class _Inputs(Mapping[Occurrence, F]):
    """Frames that are made when they are asked for: to make one asks the upstream, and most queries need none."""

    def __init__(self, names: Iterable[Occurrence], make: Callable[[Occurrence], F]) -> None:
        self._names = tuple(names)
        self._make = make

    def __getitem__(self, name: Occurrence) -> F:
        return self._make(name)

    def __iter__(self) -> Iterator[Occurrence]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Backfill(Generic[F]):
    """One generation of one job, over its upstreams, derivation and target."""

    def __init__(
        self,
        upstreams: Mapping[Table, Upstream[F]],
        derivation: Derivation[F],
        target: Target[F],
        new_uuid: Callable[[], str],
        *,
        by_key: bool = False,
        few_rows: int = FEW_ROWS,
        first_rows: Callable[[], int | None] = lambda: None,
        let_go: Callable[[], None] = lambda: None,
        uniqueness: Uniqueness | None = None,
    ) -> None:
        """`by_key`: the walk is the target's key, so that a range of the one is a range of the other. `few_rows`: as
        of `core.costs`. `first_rows`: how many may be taken in at first,
        if anything is known of their size. `let_go`: ends whatever is kept in memory from one step to the next.
        `uniqueness`: of a unique index that refuses nobody's write."""
        self._by_key = by_key
        self.uniqueness = uniqueness
        self.first_rows = first_rows
        self.few_rows = few_rows
        self._let_go = let_go
        self._upstreams = upstreams
        self._derivation = derivation
        self._target = target
        self._new_uuid = new_uuid
        self._heads: dict[Table, _Head] = {}
        self.shape = derivation.shape
        self.resources = (*target.resources, *(name for up in upstreams.values() for name in up.resources))

    @property
    def lasting(self) -> bool:
        """Whether every version of every upstream can be read for long."""
        return all(upstream.lasting for upstream in self._upstreams.values())

    def prepare(self, released: Mapping[Table, Version]) -> None:
        """Make what the upstreams need, and the target fit, if it is there: its first commit makes it."""
        self._target.prepare()
        for table, upstream in self._upstreams.items():
            upstream.prepare(released.get(table))

    def recover(self, job: Job, anchor: Anchor | None) -> Truth:
        """Where the job is, by the target's log."""
        log = self._target.log(None if anchor is None else anchor.checked)
        return confirm(log, job.generation, job.generation_uuid, anchor)

    def estimate(self) -> int:
        """About how many rows are to be filled."""
        return sum(self._upstreams[self.shape.tables[name]].row_estimate() for name in self.shape.walked)

    def glimpse(self, job: Job, truth: Truth, pace: Pace, now_s: float, step: InStep = ALONE) -> CheapLook:
        """The heads of all tables as far as they may be taken, and whether the state's versions can still be read."""
        tables = {table: self._glimpse_table(table, truth.state, now_s) for table in self._upstreams}
        newest = {table: seen.head for table, seen in tables.items()}
        allowed = step.allowed(newest, lambda table, version: self._upstreams[table].readable(version))
        heads = self._agreed(allowed, truth.state.versions)
        above = next((seen.held for seen in tables.values() if seen.held is not None), None)
        held = Reason.INPUTS if heads != allowed else Reason.SIBLINGS if heads != newest else above
        seen = {table: replace(look, head=heads[table]) for table, look in tables.items()}
        return CheapLook(job.phase(), seen, pace, truth.state_is_not_last_commit, step.member, held, step.read)

    def _agreed(self, heads: Mapping[Table, Version], known: Mapping[Table, Version]) -> Mapping[Table, Version]:
        """The newest versions that agree; `known`, the state's versions, if no newer ones do. A polled head that is
        older than the state's version is not used. Raises NotYet if none agree and the state has none."""
        if len(heads) == 1:
            return heads
        newest = {
            table: known[table] if table in known and newer(known[table], head) else head
            for table, head in heads.items()
        }
        agreed = agree(newest, lambda table, base, number: self._upstreams[table].newest_from(base, number))
        if agreed is None and not known:
            raise NotYet(Reason.INPUTS.value)
        return known if agreed is None else agreed

    def _glimpse_table(self, table: Table, state: JobState, now_s: float) -> TableSeen:
        upstream, at = self._upstreams[table], state.versions.get(table)
        if at is None:
            return TableSeen(self._open(table, now_s, first=True), readable=True)
        upstream.check(at)
        held = self._heads.get(table)
        if held is not None and not upstream.lasting and self._serves(upstream, held, at, now_s):
            head = held.version
        else:
            head = self._open(table, now_s, first=False)
        look = upstream.look(at)
        return TableSeen(
            head, look.readable, look.history_runs_short, look.lag_s, look.log_kept, look.held, look.withheld
        )

    def _serves(self, upstream: Upstream[F], held: _Head, at: Version, now_s: float) -> bool:
        """Whether the open head is the state's version and may be kept a little longer: chunks are read at it."""
        fresh = 0.0 <= now_s - held.opened_s < HEAD_HOLD_S
        return fresh and held.version.point == at.point and upstream.readable(at)

    def _open(self, table: Table, now_s: float, *, first: bool) -> Version:
        self._close(table)
        context = self._upstreams[table].open_head(first=first)
        version = context.__enter__()
        self._heads[table] = _Head(context, version, now_s)
        return version

    def _close(self, table: Table) -> None:
        head = self._heads.pop(table, None)
        if head is not None:
            head.context.__exit__(None, None, None)

    def close_heads(self) -> None:
        """Hold nothing open."""
        for table in tuple(self._heads):
            self._close(table)

    def let_go(self) -> None:
        """Hold nothing open, and nothing in memory: nobody will ask this machine again."""
        self.close_heads()
        self._let_go()

    def look(self, truth: Truth, glimpse: CheapLook, knobs: Knobs) -> Look:
        """Look at what the planner needs, and at no more."""
        with self._saying_what_is_lost({table: seen.head for table, seen in glimpse.tables.items()}):
            return self._look(truth, glimpse, knobs)

    def _look(self, truth: Truth, glimpse: CheapLook, knobs: Knobs) -> Look:
        asked = plan_look(truth.state, glimpse, knobs, self.shape)
        if asked.ends:
            ends = self._look_at_ends(glimpse, asked.whole_rows)
            asked = plan_first_look(truth.state, ends, knobs, self.shape)
            return replace(ends, bounds=self._look_at_bounds(glimpse, asked))
        changed = self._look_at_changes(truth.state, glimpse, asked)
        found = Look(glimpse, changed=changed, bounds=self._look_at_bounds(glimpse, asked))
        return self._with_sizes(truth.state, found) if asked.sizes and changed is Changed.SOME else found

    def _with_sizes(self, state: JobState, seen: Look) -> Look:
        """How many rows were written, and how many there are, if that matters: to count them may cost."""
        pace, heads = seen.glimpse.pace, {table: look.head for table, look in seen.glimpse.tables.items()}
        moved = [table for table, head in heads.items() if newer(head, state.versions[table])]
        written = sum(self._upstreams[table].rows_written(state.versions[table], heads[table]) for table in moved)
        matters = written > pace.few_rows or (written and pace.samples)
        rows = sum(self._upstreams[table].row_count(head) for table, head in heads.items()) if matters else 0
        return replace(seen, written=written, rows=rows)

    def _look_at_bounds(self, glimpse: CheapLook, asked: LookRequest) -> dict[Occurrence, dict[Split, tuple[Key, ...]]]:
        rows = glimpse.pace.chunk_rows
        return {
            name: {
                split: tuple(self._upstream(name).bounds(split, rows, self._head_of(name, glimpse))) for split in splits
            }
            for name, splits in asked.splits.items()
        }

    def _look_at_ends(self, glimpse: CheapLook, whole_rows: int) -> Look:
        """Where the tables end, or that everything is taken in at once. (Versions that do not last belong to servers,
        which count nothing exactly, and know their greatest key by its index.)"""
        walked = {name: (self._upstream(name), self._head_of(name, glimpse)) for name in self.shape.walked}
        may_be_whole = bool(whole_rows and walked) and all(upstream.lasting for upstream, _ in walked.values())
        if may_be_whole:
            rows = sum(upstream.row_count(head) for upstream, head in walked.values())
            if rows <= whole_rows:
                return Look(glimpse, at_once=True, rows=rows)
        return Look(glimpse, beyond={name: upstream.beyond(head) for name, (upstream, head) in walked.items()})

    def _look_at_changes(self, state: JobState, glimpse: CheapLook, asked: LookRequest) -> Changed:
        worst = Changed.NOTHING
        for name, table in self.shape.tables.items() if asked.changed else ():
            head, at = glimpse.tables[table].head, state.versions[table]
            if worst is not Changed.ALL and newer(head, at):
                found = self._upstreams[table].classify_changes(at, head, state.coverage[name])
                worst = found if found is not Changed.NOTHING else worst
        return worst

    def _upstream(self, name: Occurrence) -> Upstream[F]:
        return self._upstreams[self.shape.tables[name]]

    def _head_of(self, name: Occurrence, glimpse: CheapLook) -> Version:
        return glimpse.tables[self.shape.tables[name]].head

    def execute(self, job: Job, truth: Truth, step: Step, timed: Timed = untimed) -> Truth:
        """One commit of the target, and what is true after it. `timed`: is told which phase the step is in."""
        before, after = truth.state, apply(truth.state, step)
        if after.step % TIDY_EVERY == 0:
            with timed(TIDY):
                self._target.tidy(read=step.read, vacuum=job.settings.vacuum)
        with timed(CHANGES), self._saying_what_is_lost(after.versions):
            write = self._write(before, step, after)
        for table, upstream in self._upstreams.items():
            upstream.check(before.versions.get(table, after.versions[table]))
        payload = Payload(after, job.generation_uuid, self._new_uuid(), truth.checked)
        try:
            with timed(COMMIT), self._saying_what_is_lost(after.versions):
                self._target.commit(write, payload)
            with timed(CONFIRM):
                found = self.recover(job, truth.anchor(job.generation_uuid))
        except KeyNotUnique:
            self._name_the_keys(after)
            raise
        if found.commit_uuid != payload.commit_uuid:
            raise CommitConflict(f"another runner of {job.name} committed step {after.step}")
        return found

    @contextmanager
    def _saying_what_is_lost(self, versions: Mapping[Table, Version]) -> Iterator[None]:
        """Tells the upstreams if these versions turn out Unreadable, so that the next plan does not ask for them again.
        An upstream raises HistoryGone if no newer version can take the place."""
        try:
            yield
        except Unreadable:
            for table, upstream in self._upstreams.items():
                upstream.on_unreadable(versions[table])
            raise

    def _name_the_keys(self, state: JobState) -> None:
        """Raise KeyNotUnique with the keys, if they can be found: an error that has a count alone tells a person
        less."""
        for table, upstream in self._upstreams.items():
            with suppress(RetryLater):
                upstream.check_keys(state.versions[table])

    def _write(self, before: JobState, step: Step, after: JobState) -> TargetWrite[F]:
        match step.write:
            case Write.APPEND:
                return Append(self._appended(step, after))
            case Write.MERGE:
                return self._merged(before, step, after)
            case Write.REPLACE:
                read = step.read and self.shape.full
                return Replace(self._derivation.whole(self._covered(after)), read=read)
            case never:
                assert_never(never)

    def _appended(self, step: Step, after: JobState) -> F:
        if not step.chunks:
            return self._derivation.nothing()
        rows = {name: self._rows(name, chunks, after) for name, chunks in step.chunks.items()}
        others = {name: self._whole_input(name, after) for name in self.shape.tables if name not in self.shape.walked}
        return self._derivation.append(rows, others)

    def _merged(self, before: JobState, step: Step, after: JobState) -> Merge[F] | Put[F]:
        found = {name: self._changes(name, before, step, after) for name in self.shape.tables}
        changes = {name: change for name, change in found.items() if change is not None}
        write = self._derivation.changes(changes, self._covered(after))
        return write if isinstance(write, Put) else replace(write, read=step.read)

    def _changes(self, name: Occurrence, before: JobState, step: Step, after: JobState) -> Changes[F] | None:
        """The changes judged by the OLD coverage, and the chunks, which the NEW versions already contain; None if there
        is neither."""
        table = self.shape.tables[name]
        old, new = before.versions[table], after.versions[table]
        changes: Changes[F] | None = None
        if newer(new, old):
            changes = self._upstreams[table].read_changes(old, new, before.coverage[name])
        if name not in step.chunks:
            return changes
        return self._derivation.with_chunk(changes, self._rows(name, step.chunks[name], after))

    def _rows(self, name: Occurrence, ranges: tuple[walk.Range, ...], state: JobState) -> F:
        return self._upstream(name).rows(ranges, state.versions[self.shape.tables[name]])

    def _whole_input(self, name: Occurrence, state: JobState) -> F:
        return self._rows(name, walk.covered_ranges(state.coverage[name]), state)

    def _covered(self, state: JobState) -> Mapping[Occurrence, F]:
        return _Inputs(self.shape.tables, lambda name: self._whole_input(name, state))

    def verify(
        self, job: Job, truth: Truth, versions: Mapping[Table, Version], after: Key | None, rows: int
    ) -> Compared:
        """Compare the next piece of the target, about so many rows after that key, with a recompute at these versions,
        whose covered rows are those of the state's, and with what the key promises. On a difference the log is asked
        first: perhaps somebody touched the target."""
        with self._saying_what_is_lost(versions):
            self.check_keys(versions)
            compared = self._compare(truth, versions, self._piece(versions, after, rows))
        if compared.differences:
            self.recover(job, truth.anchor(job.generation_uuid))
            raise VerifyFailed(
                f"{job.name} differs from a recompute",
                detail="; ".join(compared.differences),
                hint="RESYNC the job to build it anew, and please report this.",
            )
        return compared

    def check_keys(self, versions: Mapping[Table, Version]) -> None:
        """KeyNotUnique, naming them."""
        for table, upstream in self._upstreams.items():
            upstream.check_keys(versions[table])
        self._target.check_keys()

    def _piece(self, versions: Mapping[Table, Version], after: Key | None, rows: int) -> Range | None:
        """What is compared at a time. A version that lasts is compared whole (None). One that has to be held for us is
        not held for so long, if a range of the walk can be told in the target."""
        if not self._by_key or self.lasting:
            return None
        ((table, upstream),) = self._upstreams.items()
        left = Split(after, None)
        bounds = walk.usable(left, upstream.bounds(left, rows, versions[table]))
        return Range(after, bounds[0] if bounds else None)

    def _compare(
        self, truth: Truth, versions: Mapping[Table, Version], piece: Range | None, but: F | None = None
    ) -> Compared:
        """The target with a recompute of what it covers at these versions, whole or a piece of it. Of an input that
        keeps only the newest row of a key, a row may go while it is compared; the next time it is left out."""
        for _ in range(COMPARED_TIMES):
            part = self._comparable(versions, piece, but)
            found = self._compare_part(truth, versions, part)
            if not found.differences or part.but is but:
                break
        return replace(found, upto=None if piece is None else piece.upto)

    def _compare_part(self, truth: Truth, versions: Mapping[Table, Version], part: Comparable[F]) -> Compared:
        walked = part.within if self._by_key else None
        ranges = {name: self._covered_in(name, truth.state, walked) for name in self.shape.tables}
        rows = {
            name: self._upstream(name).rows(ranges[name], versions[table]) for name, table in self.shape.tables.items()
        }
        with self._judged(ranges, rows) as judged:
            for table, upstream in self._upstreams.items():
                upstream.check(versions[table])
            found = self._target.compare(judged.rows, truth.checked, part.but, part.within)
            if judged.hidden is not None and not found.differences:
                unseen = self._target.compare(judged.hidden, truth.checked, part.but, part.within)
                found = replace(found, differences=unseen.differences)
        return replace(found, notes=(*judged.notes, *found.notes))

    def _judged(
        self, ranges: Mapping[Occurrence, tuple[Range, ...]], rows: Mapping[Occurrence, F]
    ) -> AbstractContextManager[Judged[F]]:
        """By the user's query, where one name stands for the same rows wherever it stands. While a table that the query
        names twice is filled, it does not: one occurrence is walked, the other is there whole."""
        tables = {(table, ranges[name]) for name, table in self.shape.tables.items()}
        if len(tables) == len(self._upstreams):
            return self._derivation.judged(rows)
        return nullcontext(Judged(self._derivation.whole(rows), notes=(HALF_FILLED,)))

    def _comparable(self, versions: Mapping[Table, Version], piece: Range | None, but: F | None) -> Comparable[F]:
        """Which part of the target is compared: the piece, as far as the input still has its rows. What several inputs
        still have says nothing of single rows of the target: none of them forgets."""
        found = [upstream.comparable(versions[table]) for table, upstream in self._upstreams.items()]
        there = found[0] if len(found) == 1 else None
        if there is None:
            return Comparable(None if piece is None else (piece,), but)
        within = there.within
        if piece is not None:
            within = (piece,) if within is None else walk.common(within, piece)
        return Comparable(within, there.but if but is None else but)

    def _covered_in(self, name: Occurrence, state: JobState, within: tuple[Range, ...] | None) -> tuple[Range, ...]:
        covered = walk.covered_ranges(state.coverage[name])
        return covered if within is None else tuple(part for one in within for part in walk.common(covered, one))

    def compare_now(self, truth: Truth, after: Key | None, rows: int) -> Compared:
        """The next piece of the target as it is, about so many rows after that key, with a recompute of what it covers.
        Where its version cannot be read any more, with the newest one, but for what changed since."""
        state = truth.state
        if self.lasting:
            return self._compare(truth, state.versions, None)
        ((table, upstream),) = self._upstreams.items()
        (name,) = self.shape.tables
        at, coverage = state.versions[table], state.coverage[name]
        with upstream.open_head(first=False) as head:
            upstream.check(at)
            changed = upstream.classify_changes(at, head, coverage)
            if changed is Changed.ALL:
                raise NotYet("all of the input has changed since the last commit", hint="Wait for the next one.")
            but = upstream.read_changes(at, head, coverage).rows if changed is Changed.SOME else None
            return self._compare(truth, {table: head}, self._piece({table: head}, after, rows), but)

    def check_name(self) -> None:
        """Raise NameTaken if this generation cannot be shown under the job's name."""
        self._target.check_name()

    def publish(self) -> None:
        """Show this generation under the job's name."""
        self._target.publish()

    def notices(self) -> list[str]:
        """What a person should know of the upstreams by now."""
        return [notice for upstream in self._upstreams.values() for notice in upstream.notices()]

    def release(self, versions: Mapping[Table, Version]) -> None:
        """Tell the upstreams what will not be asked for again."""
        for table, version in versions.items():
            self._upstreams[table].release(version)
