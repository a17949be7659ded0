"""THE ALGORITHM. Given the state and one look at the world: what is the next step?

A step moves versions and positions in one commit of the target. The changes between the old and the new versions are
applied where the OLD coverage covers them; the chunks are read as of the NEW versions. Everything else follows:

- Nothing is planned at a version that cannot be read: then the step moves to the head as well.
- Chunks and changes go together in one commit when nothing covered changed (the commit is then an append), or when it
  is a MERGE anyway. Otherwise changes go first, by themselves, and the chunks follow at the version just reached.
- While there is something to fill and it may be filled, no two steps in a row go without a chunk, so that a busy
  upstream cannot starve the fill.
- At a readable version the fill goes on; changes wait until they are due.
- When everything is covered, and all of it is expected to be computed sooner than its changes (`core.costs`), that is
  done; unless somebody reads the target, to whom all of it would have changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from tidefill.core import budget, walk
from tidefill.core.budget import BUDGET, Kept
from tidefill.core.costs import Way, choose
from tidefill.core.keys import Key, end_of_group
from tidefill.core.look import PARALLELISM_MAX, Changed, CheapLook, Look, LookRequest, Phase
from tidefill.core.reasons import Reason
from tidefill.core.state import JobState, Occurrence, Table
from tidefill.core.version import Version, newer
from tidefill.core.walk import Coverage, Range, Split
from tidefill.errors import InvalidSetting, UpstreamReplaced

FORWARD_SHARE = 5
LOOK_EVERY_S = 5.0  # at a log that is long: to read it is dear
RELEASE_EVERY_S = 15.0  # as often as PostgreSQL notes in its log who is still open, without which it lets go of nothing


class Write(Enum):
    """How the target takes a step."""

    APPEND = "append"
    MERGE = "merge"
    REPLACE = "replace"


class StepKind(Enum):
    """What a step does, as a person is told of it: fill chunks, take in changes, both, compute all rows, or compare."""

    FILL = "fill"
    FORWARD = "forward"
    BOTH = "both"
    FULL = "full"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class Shape:
    """What the derivation asks of the plan: which table each occurrence reads, which occurrences are walked (the others
    are taken whole), whether a fill is a plain append, how many leading walk columns form a group that no chunk may
    cut, and whether there are no outputs while nothing walked is covered. `full`: it knows nothing of changes; whenever
    there are some, all of it is computed again."""

    tables: Mapping[Occurrence, Table]
    walked: tuple[Occurrence, ...]
    appends: bool = True
    group_columns: int = 0
    starts_empty: bool = True
    full: bool = False


@dataclass(frozen=True, slots=True)
class Knobs:
    """What the user may set, at any time."""

    parallelism: int = 1
    fill_paused: bool = False
    paused: bool = False
    target_lag_s: float = 0.0
    wal_budget: int | None = BUDGET
    steps_only: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.parallelism <= PARALLELISM_MAX:
            raise InvalidSetting(
                f"parallelism is {self.parallelism}", hint=f"Set it to a number from 1 to {PARALLELISM_MAX}."
            )
        if not self.target_lag_s >= 0:
            raise InvalidSetting(f"target_lag is {self.target_lag_s} s", hint="Set it to 0 or more.")


@dataclass(frozen=True, slots=True)
class Step:
    """Move to `versions`, take in `chunks`; `coverage` is what they are cut from, `write` how the target takes it.
    `rows`: about how many the chunks have that end at an offered bound; of those that end a split nothing is known.
    `read`: other jobs read the target's changes. `why`: why all is computed, where that was chosen by cost."""

    versions: Mapping[Table, Version]
    coverage: Mapping[Occurrence, Coverage]
    chunks: Mapping[Occurrence, tuple[Range, ...]] = field(default_factory=dict)
    write: Write = Write.APPEND
    rows: int = 0
    read: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do now; look again after so long (None: when something changes)."""

    reason: Reason
    for_s: float | None = None


@dataclass(frozen=True, slots=True)
class Verify:
    """Compare the target with a recompute at these versions, then go live."""

    versions: Mapping[Table, Version]


@dataclass(frozen=True, slots=True)
class Finish:
    """Every position is Done: verify next."""


Plan: TypeAlias = Step | Wait | Verify | Finish


def plan_look(state: JobState, glimpse: CheapLook, knobs: Knobs, shape: Shape) -> LookRequest:
    """What has to be looked at before the next step can be planned; looking costs, so no more than that."""
    if knobs.paused:
        return LookRequest()
    if state.step == 0:
        return LookRequest(ends=True, whole_rows=glimpse.pace.whole_rows if _is_wished(glimpse, knobs) else 0)
    if _may_fill(state, glimpse, knobs):
        forward_matters = not _readable(glimpse) or _forward_due(glimpse, knobs)
        return LookRequest(changed=forward_matters and _moved(state, glimpse), splits=_next_splits(state, knobs, shape))
    if plan_at_once(state, glimpse.phase, knobs) or _may_verify(glimpse):
        return LookRequest()
    moved, due = _moved(state, glimpse), knobs.target_lag_s <= glimpse.pace.since_commit_s
    chooses = not shape.full and _may_recompute(state, glimpse, knobs)
    return LookRequest(changed=moved, sizes=moved and due and chooses)


def plan_first_look(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> LookRequest:
    """What else the planner of the first step needs to know, when the look has found where the tables end."""
    begun = _begun(state, seen, shape)
    if shape.appends and shape.starts_empty and _may_fill(begun, seen.glimpse, knobs):
        return LookRequest(splits=_next_splits(begun, knobs, shape))
    return LookRequest()


def plan_at_once(state: JobState, phase: Phase, knobs: Knobs) -> Finish | None:
    """What follows from the state alone, without a look."""
    return Finish() if phase is Phase.FILLING and state.finished() and not knobs.paused else None


def plan_step(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Plan:
    """The next step, or what to wait for."""
    planned = _plan_step(state, seen, knobs, shape)
    return replace(planned, read=seen.glimpse.read) if isinstance(planned, Step) else planned


def _plan_step(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Plan:
    glimpse = seen.glimpse
    if state.step == 0:
        return _first(state, seen, knobs, shape) if not knobs.paused else Wait(Reason.PAUSED)
    _refuse_another_upstream(state, glimpse)
    if knobs.paused:
        return _renewal(state) if glimpse.rewrite_state else Wait(Reason.PAUSED)
    if _may_fill(state, glimpse, knobs):
        return _fill(state, seen, knobs, shape)
    if _may_verify(glimpse):
        return Verify(state.versions)
    return plan_at_once(state, glimpse.phase, knobs) or _forward(state, seen, knobs, shape)


def _may_verify(glimpse: CheapLook) -> bool:
    return glimpse.phase is Phase.VERIFYING and _readable(glimpse)


def _first(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Step:
    """Fix the work, and take in the first chunks if they can be appended. Where there are outputs without any chunk,
    they are the first; where there is little to fill, all of them are."""
    begun = _begun(state, seen, shape)
    if not shape.starts_empty or seen.at_once:
        return Step(begun.versions, begun.coverage, write=Write.REPLACE)
    return _next_chunks(begun, seen, knobs, shape) if seen.bounds else Step(begun.versions, begun.coverage)


def _begun(state: JobState, seen: Look, shape: Shape) -> JobState:
    """Ranges without a row are Done at once, and so is every occurrence taken whole."""
    coverage = {
        name: walk.start(_between_groups(seen.beyond[name], shape)) if name in seen.beyond else walk.whole()
        for name in shape.tables
    }
    return replace(state, versions={table: look.head for table, look in seen.glimpse.tables.items()}, coverage=coverage)


def _fill(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Step | Wait:
    glimpse = seen.glimpse
    if _stuck(state, glimpse):
        return Wait(Reason.NEWER_VERSION)
    fill = _next_chunks(state, seen, knobs, shape)
    if _readable(glimpse) and not _forward_due(glimpse, knobs):
        return fill
    heads = _heads(state, glimpse)
    if seen.changed is Changed.NOTHING:
        return replace(fill, versions=heads)
    if glimpse.pace.forwarded_last:
        return replace(fill, versions=heads, write=Write.REPLACE if seen.changed is Changed.ALL else Write.MERGE)
    if seen.changed is Changed.ALL:
        return Step(heads, state.coverage, write=Write.REPLACE)
    if fill.write is Write.MERGE:
        return replace(fill, versions=heads)
    return Step(heads, state.coverage, write=Write.MERGE)


def _forward(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Plan:
    """Nothing may be filled: keep what is covered fresh."""
    glimpse = seen.glimpse
    heads = _heads(state, glimpse)
    lag_left_s = knobs.target_lag_s - glimpse.pace.since_commit_s
    verifying = glimpse.phase is Phase.VERIFYING
    urgent = _pressing(glimpse, knobs) or _release_due(state, glimpse, knobs)
    if seen.changed is not Changed.NOTHING and (lag_left_s <= 0 or verifying or urgent):
        why = _why_recompute(state, seen, knobs)
        recomputes = shape.full or seen.changed is Changed.ALL or why
        return Step(heads, state.coverage, write=Write.REPLACE if recomputes else Write.MERGE, why=why)
    if verifying:
        return Verify(heads)
    if glimpse.rewrite_state:
        return _renewal(state)
    told = glimpse.in_step and glimpse.phase is Phase.LIVE and lag_left_s <= 0
    if (urgent or told) and _moved(state, glimpse) and seen.changed is Changed.NOTHING:
        return Step(heads, state.coverage)
    if seen.changed is not Changed.NOTHING:
        return Wait(Reason.TARGET_LAG, lag_left_s)
    if state.finished():
        return Wait(glimpse.held or Reason.IDLE)
    if knobs.fill_paused:
        return Wait(Reason.FILL_PAUSED)
    if held_back(glimpse, knobs):
        return Wait(Reason.LOG_BUDGET, LOOK_EVERY_S)
    return Wait(Reason.RATE_LIMIT, glimpse.pace.tokens_in_s)


def _may_recompute(state: JobState, glimpse: CheapLook, knobs: Knobs) -> bool:
    """Whether all of the target may change in one step: everything is covered, and nobody follows its changes."""
    return glimpse.phase is Phase.LIVE and state.finished() and not glimpse.read and not knobs.steps_only


def _why_recompute(state: JobState, seen: Look, knobs: Knobs) -> str:
    """Why a recompute is expected to be cheaper; empty if it is not."""
    if not seen.written or not _may_recompute(state, seen.glimpse, knobs):
        return ""
    pace = seen.glimpse.pace
    choice = choose(pace.samples, seen.written, seen.rows, pace.few_rows)
    return choice.why if choice.way is Way.RECOMPUTE else ""


def _renewal(state: JobState) -> Step:
    """A step that changes no row and writes the state again: commits of others lie after the last commit that carries
    it."""
    return Step(state.versions, state.coverage)


def _next_chunks(state: JobState, seen: Look, knobs: Knobs, shape: Shape) -> Step:
    """A fill at the state's versions: one chunk from each of up to `parallelism` splits. Where there are fewer, the
    largest is cut at an offered bound. The occurrences are walked one after the other."""
    name = _walked_now(state, shape)
    coverage = state.coverage[name]
    offered = [bound for split, bounds in seen.bounds[name].items() for bound in walk.usable(split, bounds)]
    offers = {
        split: walk.usable(split, [_group_bound(bound, shape) for bound in bounds])
        for split, bounds in seen.bounds[name].items()
    }
    wanted = min(knobs.parallelism, seen.glimpse.pace.chunks_allowed)
    while len(offers) < knobs.parallelism:
        largest = max(offers, key=lambda split: len(offers[split]))
        if not offers[largest]:
            break
        coverage, offers = _cut_in_half(coverage, largest, offers)
    chosen = sorted(offers, key=coverage.index)[:wanted]
    chunks = tuple(_chunk(split, offers[split]) for split in chosen)
    full = [chunk for split, chunk in zip(chosen, chunks, strict=True) if offers[split]]
    write = Write.APPEND if shape.appends else Write.MERGE
    passed = [bound for bound in offered if any(chunk.holds(bound) for chunk in full)]
    rows = len(passed) * seen.glimpse.pace.chunk_rows
    return Step(state.versions, {**state.coverage, name: coverage}, {name: chunks}, write, rows)


def _next_splits(state: JobState, knobs: Knobs, shape: Shape) -> dict[Occurrence, tuple[Split, ...]]:
    name = _walked_now(state, shape)
    return {name: tuple(walk.unfinished(state.coverage[name])[: knobs.parallelism])}


def _walked_now(state: JobState, shape: Shape) -> Occurrence:
    return next(name for name in shape.walked if not walk.finished(state.coverage[name]))


def _cut_in_half(
    coverage: Coverage, split: Split, offers: Mapping[Split, list[Key]]
) -> tuple[Coverage, dict[Split, list[Key]]]:
    bounds = offers[split]
    bound = bounds[len(bounds) // 2]
    lower, upper = replace(split, upto=bound), Split(bound, split.upto)
    parted = {other: keys for other, keys in offers.items() if other != split}
    parted[lower] = [key for key in bounds if key < bound]
    parted[upper] = [key for key in bounds if key > bound]
    return walk.cut(coverage, split, bound), parted


def _chunk(split: Split, bounds: list[Key]) -> Range:
    left = walk.rest(split)
    assert left is not None, f"{split} has nothing left"
    return Range(left.after, bounds[0] if bounds else left.upto)


def _between_groups(beyond: tuple[Range, ...], shape: Shape) -> tuple[Range, ...]:
    """Of the ranges without a row, what cuts no group, where groups must not be cut: above the last group."""
    if not shape.group_columns:
        return beyond
    above = [part for part in beyond if part.upto is None]
    return tuple(Range(part.after and _group_bound(part.after, shape), None) for part in above)


def _group_bound(bound: Key, shape: Shape) -> Key:
    """A bound that ends a whole group, where groups must not be cut."""
    return end_of_group(bound, shape.group_columns) if shape.group_columns else bound


def _may_fill(state: JobState, glimpse: CheapLook, knobs: Knobs) -> bool:
    return not state.finished() and _is_wished(glimpse, knobs)


def _is_wished(glimpse: CheapLook, knobs: Knobs) -> bool:
    """Whether pauses, the rate limit and the log budget allow a fill."""
    return not knobs.fill_paused and glimpse.pace.chunks_allowed > 0 and not held_back(glimpse, knobs)


def held_back(glimpse: CheapLook, knobs: Knobs) -> bool:
    """Whether so much of a log is kept that nothing is filled."""
    return any(budget.holds_back(kept, knobs.wal_budget) for kept in kept_logs(glimpse))


def kept_logs(glimpse: CheapLook) -> list[Kept]:
    """The logs that tables keep for the job."""
    return [look.kept for look in glimpse.tables.values() if look.kept is not None]


def _readable(glimpse: CheapLook) -> bool:
    return all(look.readable for look in glimpse.tables.values())


def _stuck(state: JobState, glimpse: CheapLook) -> bool:
    """A version cannot be read, and the head that was polled is no newer."""
    return any(
        not look.readable and not newer(look.head, state.versions[table]) for table, look in glimpse.tables.items()
    )


def _pressing(glimpse: CheapLook, knobs: Knobs) -> bool:
    runs_short = any(look.history_runs_short for look in glimpse.tables.values())
    return runs_short or any(budget.presses(kept, knobs.wal_budget) for kept in kept_logs(glimpse))


def _release_due(state: JobState, glimpse: CheapLook, knobs: Knobs) -> bool:
    """Whether the target has to commit while the fill is held back: an upstream lets go of its log after a commit
    alone."""
    waits = not state.finished() and held_back(glimpse, knobs)
    return waits and glimpse.pace.since_commit_s >= RELEASE_EVERY_S


def _forward_due(glimpse: CheapLook, knobs: Knobs) -> bool:
    """While filling at a readable version: history runs short, or changes have not had their fifth of the time."""
    pace = glimpse.pace
    spent_s = pace.forward_s + pace.last_forward_s
    has_its_share = spent_s * (FORWARD_SHARE - 1) >= pace.fill_s
    return not pace.forwarded_last and (_pressing(glimpse, knobs) or not has_its_share)


def _moved(state: JobState, glimpse: CheapLook) -> bool:
    return any(newer(look.head, state.versions[table]) for table, look in glimpse.tables.items())


def _heads(state: JobState, glimpse: CheapLook) -> dict[Table, Version]:
    """The newest version of each table; a polled head that is older than the state's is not taken."""
    return {
        table: look.head if look.head.point.includes(state.versions[table].point) else state.versions[table]
        for table, look in glimpse.tables.items()
    }


def _refuse_another_upstream(state: JobState, glimpse: CheapLook) -> None:
    for table, look in glimpse.tables.items():
        known = state.versions[table]
        if look.head.identity != known.identity:
            raise UpstreamReplaced(
                f"{table} is another table now",
                detail=f"Its identity was {known.identity} and is {look.head.identity}.",
                hint="RESYNC the job to build it anew from the new table, or drop it.",
            )


def kind_of(state: JobState, step: Step) -> StepKind:
    """What the step does to this state."""
    if step.write is Write.REPLACE:
        return StepKind.FULL
    moved = any(newer(version, state.versions[table]) for table, version in step.versions.items() if state.step)
    if step.chunks:
        return StepKind.BOTH if moved else StepKind.FILL
    return StepKind.FORWARD if state.step else StepKind.FILL


def apply(state: JobState, step: Step) -> JobState:
    """The state that the commit of `step` carries."""
    coverage = {
        name: walk.union(cover, step.chunks[name]) if name in step.chunks else cover
        for name, cover in step.coverage.items()
    }
    rows_filled = state.rows_filled + step.rows
    return replace(state, step=state.step + 1, versions=step.versions, coverage=coverage, rows_filled=rows_filled)
