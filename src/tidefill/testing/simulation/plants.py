"""Bugs that one could plausibly write, as patches. A simulator that does not find them proves nothing.

Each plant names the invariant that breaks. `with planted(plant): ...` puts the bug in and takes it out again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tidefill.core import confirm, progress, sizing, state, step, walk
from tidefill.core.confirm import Anchor, Truth
from tidefill.core.keys import Key
from tidefill.core.state import JobState
from tidefill.core.step import Changed, Glimpse, Knobs, Seen, Shape, Step, Wait, Write
from tidefill.core.version import Version, lies_between, version_to_json
from tidefill.core.walk import Coverage, Done, NotStarted, Split, Upto
from tidefill.jobs import agreement as ticks
from tidefill.jobs import row as jobs
from tidefill.jobs.agreement import InStep
from tidefill.jobs.row import Job
from tidefill.ports.frames import Append, Halves
from tidefill.run import backfill, runner
from tidefill.run import in_step as ticking
from tidefill.run.backfill import Backfill
from tidefill.run.in_step import Ticking
from tidefill.run.runner import Runner, Turn
from tidefill.testing.memory import changes
from tidefill.testing.memory import postgres as memory_postgres
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.derivations import nothing
from tidefill.testing.memory.postgres import Logged, PostgresLike
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.simulation.script import Script, script
from tidefill.testing.simulation.several import script_of_several
from tidefill.testing.simulation.simulation import Simulation

Patch = tuple[Any, str, Any]


@dataclass(frozen=True, slots=True)
class Plant:
    """A bug: its name, what it breaks, the invariants that tell, a seed near which it shows, the patches, and whether
    it takes several jobs to show."""

    name: str
    breaks: str
    tells: tuple[str, ...]
    seed: int
    patches: tuple[Patch, ...]
    several: bool = False

    def script(self, seed: int) -> Script:
        """The history of that seed, of the kind that it takes."""
        return script_of_several(seed) if self.several else script(seed)


@contextmanager
def planted(plant: Plant) -> Iterator[None]:
    """Run with the bug."""
    with ExitStack() as stack:
        for where, name, bug in plant.patches:
            stack.enter_context(patch.object(where, name, bug))
        yield


def _covers_like(started: Callable[[Key, Key], bool], *, unstarted: bool = False, done: bool = True) -> Patch:
    def covers(coverage: Coverage, key: Key) -> bool:
        match walk.find(coverage, key).position:
            case NotStarted():
                return unstarted
            case Upto(last):
                return started(key, last)
            case Done():
                return done

    return (changes, "covers", covers)


def _upto(key: Key, last: Key) -> bool:
    return key <= last


def _halves_by_new_coverage(
    self: Backfill[Any], name: str, before: JobState, plan: Step, after: JobState
) -> Halves[Any] | None:
    return _halves(self, name, replace(before, coverage=after.coverage), plan, after)


_halves = Backfill._halves
_write = Backfill._write
_execute = Backfill.execute


def _write_at_old_version(self: Backfill[Any], before: JobState, plan: Step, after: JobState) -> Any:
    if plan.write is Write.APPEND and before.versions:
        return Append(self._appended(plan, replace(after, versions=before.versions)))
    return _write(self, before, plan, after)


_commit = MemoryTarget.commit


def _state_before_data(self: MemoryTarget, write: Any, payload: Any) -> None:
    _commit(self, Append(nothing), payload)
    _commit(self, write, replace(payload, generation_uuid=payload.generation_uuid + "-data"))


def _judge_old_by_new(old: Key | None, new: Key | None, coverage: Coverage) -> tuple[bool, bool]:
    place = new if new is not None else old
    covered = place is not None and walk.covers(coverage, place)
    return old is not None and covered, new is not None and covered


def _last_image(feed: Iterable[tuple[int, Any]], key_of: Callable[[Any], Any]) -> dict[Any, tuple[Any, Any]]:
    images: dict[Any, tuple[Any, Any]] = {}
    for weight, row in feed:
        old, _ = images.get(key_of(row), (None, None))
        images[key_of(row)] = (row, None) if weight < 0 else (old, row)
    return {key: pair for key, pair in images.items() if pair[0] != pair[1]}


_fill = step._fill
_apply = step.apply


def _no_changes_at_the_end(state: JobState, seen: Seen, knobs: Knobs, shape: Shape) -> Step | Wait:
    plan = _fill(state, replace(seen, changed=Changed.NOTHING), knobs, shape)
    if isinstance(plan, Step) and _apply(state, plan).finished():
        return plan
    return _fill(state, seen, knobs, shape)


def _same_number_for_forwards(state: JobState, plan: Step) -> JobState:
    after = _apply(state, plan)
    return after if plan.chunks or state.step == 0 else replace(after, step=state.step)


def _no_read_back(self: Backfill[Any], job: Job, truth: Truth, plan: Step) -> Truth:
    before, after = truth.state, _apply(truth.state, plan)
    write = self._write(before, plan, after)
    payload = confirm.Payload(after, job.generation_uuid, self._new_uuid(), truth.checked)
    self._target.commit(write, payload)
    return Truth(after, truth.checked + 1, payload.commit_uuid, buried=False)


def _commit_unfenced(self: MemoryTarget, write: Any, payload: Any) -> None:
    table = self._catalog.tables.get(self._path)
    if table is not None:
        table.transactions.pop(payload.generation_uuid, None)
    with patch.object(MemoryTarget, "_refuse_conflicts", lambda *_: None):
        _commit(self, write, payload)


_confirm = confirm.confirm


def _believe_the_copy(self: Runner, job: Job, active: Any) -> Truth:
    if active.truth is None and job.anchor:
        anchor = confirm.anchor_from_json(json.loads(job.anchor))
        active.truth, active.checked_s = Truth(anchor.state, anchor.checked, "", buried=False), self._clock.now_s()
    return _truth(self, job, active)


_truth = Runner._truth
_begin_generation = jobs.begin_generation


def _check_from_the_commit_on(log: Any, generation: int, generation_uuid: str, anchor: Anchor | None) -> Truth:
    def blind(entry: Any) -> Any:
        if entry.payload is None:
            return entry
        return replace(entry, payload=replace(entry.payload, planned_on=entry.version))

    return _confirm([blind(entry) for entry in log], generation, generation_uuid, None)


def _cut_forgetting(coverage: Coverage, split: Split, bound: Key) -> Coverage:
    lower, upper = Split(split.after, bound), Split(bound, split.upto)
    return tuple(part for old in coverage for part in ((lower, upper) if old == split else (old,)))


def _cut_in_half_forgetting(coverage: Coverage, split: Split, offers: Mapping[Split, list[Key]]) -> Any:
    bounds = offers[split]
    bound = bounds[len(bounds) // 2]
    parted = {other: keys for other, keys in offers.items() if other != split}
    parted[Split(split.after, bound)] = [key for key in bounds if key < bound]
    parted[Split(bound, split.upto)] = [key for key in bounds if key > bound]
    return _cut_forgetting(coverage, split, bound), parted


def _execute_without_head(self: Backfill[Any], job: Job, truth: Truth, plan: Step) -> Truth:
    self.close_heads()
    return _execute(self, job, truth, plan)


def _release_first(self: Backfill[Any], job: Job, truth: Truth, plan: Step) -> Truth:
    self.release(plan.versions)
    return _execute(self, job, truth, plan)


def _by_place_in_the_log(self: PostgresLike, after: Version, upto: Version) -> list[Logged]:
    start, end = json.loads(after.carry)["end"], json.loads(upto.carry)["end"]
    return self._find().log[start:end]


def _slot_checked_at_look_only(self: PostgresLike, after: Version, upto: Version) -> list[Logged]:
    old, new = memory_postgres._snapshot(after), memory_postgres._snapshot(upto)
    told = self._find().log[self._find().slots[self._slot].position : json.loads(upto.carry)["end"]]
    return [logged for logged in told if lies_between(logged.xid, old, new)]


def _safe_is_the_end(self: PostgresLike, server: Any, snapshot: Any) -> str:
    return json.dumps({"safe": len(server.log), "end": len(server.log)})


_changed = PostgresLike.changed


def _truncate_is_a_change(self: PostgresLike, after: Version, upto: Version, coverage: Coverage) -> Changed:
    found = _changed(self, after, upto, coverage)
    return Changed.SOME if found is Changed.ALL else found


_activate = Runner._activate


def _uuid_too_late(self: Runner, job: Job) -> Any:
    if not job.generation_uuid:
        late: dict[str, str] = self.__dict__.setdefault("_late", {})
        job = replace(job, generation_uuid=late.setdefault(job.id, self._new_uuid()))
    return _activate(self, job)


_wait = Runner._wait


def _release_whenever_waiting(self: Runner, job: Job, active: Any, glimpse: Glimpse, *why: Any) -> Turn:
    self._release_idle(job, active, {table: look.head for table, look in glimpse.tables.items()})
    return _wait(self, job, active, glimpse, *why)


def _sweep_nothing(self: Runner, job: Job) -> Turn:
    self._store.delete(job.id)
    return Turn(True, None)


def _prepare_before_intent(self: Runner, job: Job, active: Any) -> Job:
    active.machine.prepare({})
    return _prepare(self, job, active)


_prepare = Runner._prepare


def _share_of_now(before: Any, generation: int, rows: int, estimate: int, **other: Any) -> Any:
    return _advance(None, generation, rows, estimate, **other)


_advance = progress.advance


def _plan_starving(state: JobState, seen: Seen, knobs: Knobs, shape: Shape) -> Step | Wait:
    pace = replace(seen.glimpse.pace, forwarded_last=False)
    return _fill(state, replace(seen, glimpse=replace(seen.glimpse, pace=pace)), knobs, shape)


def _no_bound(state: JobState, seen: Seen, knobs: Knobs, shape: Shape) -> Step:
    bounds = {name: dict.fromkeys(splits, ()) for name, splits in seen.bounds.items()}
    return _next_chunks(state, replace(seen, bounds=bounds), knobs, shape)


def _without_bases(version: Version) -> dict[str, Any]:
    return version_to_json(replace(version, bases={}))


_up_to_tick = Ticking._up_to_tick


def _up_to_a_lost_tick(self: Ticking, newest: Version, waited_for: Any, due: bool, readable: Any) -> Version:
    return _up_to_tick(self, newest, waited_for, due, lambda version: True)


def _truth_unreported(self: Runner, job: Job, active: Any) -> Truth:
    with patch.object(Runner, "_report", lambda self, job, active, truth: None):
        return _truth(self, job, active)


_truth = Runner._truth
_begin_generation = jobs.begin_generation


_next_chunks = step._next_chunks

PLANTS = (
    Plant(
        "off-by-one",
        "a change of the very row at the position is dropped",
        ("I1 covered",),
        10,
        (_covers_like(lambda key, last: key < last),),
    ),
    Plant(
        "forward-unstarted",
        "changes of splits that were not started are applied, then read again",
        ("I1 covered",),
        2,
        (_covers_like(_upto, unstarted=True),),
    ),
    Plant(
        "forget-finished",
        "changes of finished splits are dropped",
        ("I1 covered",),
        0,
        (_covers_like(_upto, done=False),),
    ),
    Plant(
        "forward-with-new-coverage",
        "changes are judged by the coverage after the step: chunk rows come twice",
        ("I7 loud",),
        154,
        ((Backfill, "_halves", _halves_by_new_coverage),),
    ),
    Plant(
        "fill-at-old-version",
        "chunks are read at the version before the step",
        ("I1 covered",),
        12,
        ((Backfill, "_write", _write_at_old_version),),
    ),
    Plant(
        "fill-at-unreadable-version",
        "the plan takes every version for readable",
        ("I5 progress",),
        2,
        ((step, "_readable", lambda glimpse: True),),
    ),
    Plant(
        "state-before-data",
        "the state is committed first, the rows after it",
        ("I2 monotone",),
        2,
        ((MemoryTarget, "commit", _state_before_data),),
    ),
    Plant(
        "ignore-old-half",
        "a row that leaves its place is not removed there",
        ("I1 covered",),
        7,
        ((changes, "judge", lambda old, new, coverage: (False, new is not None and walk.covers(coverage, new))),),
    ),
    Plant(
        "ignore-new-half",
        "an update that comes from elsewhere is not added",
        ("I1 covered",),
        0,
        (
            (
                changes,
                "judge",
                lambda old, new, coverage: (old is not None and walk.covers(coverage, old),) * 2,
            ),
        ),
    ),
    Plant(
        "judge-old-by-new",
        "both halves of an update are judged by where the row is now",
        ("I1 covered", "I7 loud"),
        10,
        ((changes, "judge", _judge_old_by_new),),
    ),
    Plant(
        "last-image",
        "of several changes of a row only the last is looked at",
        ("I1 covered", "I7 loud"),
        5,
        ((changes, "net", _last_image),),
    ),
    Plant(
        "lose-changes-at-the-end",
        "changes that come with the last chunk are lost",
        ("I1 covered",),
        2,
        ((step, "_fill", _no_changes_at_the_end),),
    ),
    Plant(
        "reuse-step-number",
        "a step without a chunk has the number of the one before",
        ("I1 covered", "I5 progress"),
        0,
        ((backfill, "apply", _same_number_for_forwards),),
    ),
    Plant(
        "trust-the-lease",
        "commits are not fenced: a runner that lost its lease still commits",
        ("I3 once",),
        27,
        ((MemoryTarget, "commit", _commit_unfenced),),
    ),
    Plant(
        "no-read-back",
        "a commit that was skipped in silence is believed",
        ("I5 progress", "I7 loud"),
        7,
        ((Backfill, "execute", _no_read_back),),
    ),
    Plant(
        "believe-strangers",
        "commits of others to the target are not looked at",
        ("I7 loud",),
        20,
        ((confirm, "_refuse_foreign", lambda *_: None),),
    ),
    Plant(
        "blind-between-plan-and-commit",
        "only commits after our own are looked at, not those between plan and commit",
        ("I7 loud",),
        52,
        ((backfill, "confirm", _check_from_the_commit_on),),
    ),
    Plant(
        "trust-stale-copy",
        "the store's copy of the state is believed without the log",
        ("I1 covered", "I5 progress"),
        10,
        ((Runner, "_truth", _believe_the_copy),),
    ),
    Plant(
        "namesake",
        "a recreated object lives where the dropped one of that name did",
        ("I2 monotone",),
        1,
        ((Simulation, "path", lambda self, job, generation: f"{job.name}-{generation}"),),
    ),
    Plant(
        "starve-the-fill",
        "a busy upstream makes the job forward for ever",
        ("I5 progress",),
        9,
        ((step, "_fill", _plan_starving), (step, "_forward_due", lambda *_: True)),
    ),
    Plant(
        "chase-the-tail",
        "the end of the table is not fixed at step 1",
        ("I5 progress",),
        0,
        ((walk, "start", lambda greatest: (Split(None, None),)),),
    ),
    Plant(
        "never-grow",
        "chunks stay as small as the first",
        ("I5 progress",),
        775,
        ((sizing, "after_fill", lambda size, took_s: size),),
    ),
    Plant(
        "whole-split-at-once",
        "a chunk is all that is left of its split",
        ("I4 bounded",),
        18,
        ((step, "_next_chunks", _no_bound),),
    ),
    Plant(
        "cut-forgets-position",
        "a split that is cut begins again from its start",
        ("I1 covered",),
        1,
        ((walk, "cut", _cut_forgetting), (step, "_cut_in_half", _cut_in_half_forgetting)),
    ),
    Plant(
        "frame-after-head",
        "the head is closed before the frames are evaluated",
        ("I5 progress", "I7 loud"),
        1,
        ((Backfill, "execute", _execute_without_head),),
    ),
    Plant(
        "log-order",
        "changes are taken by their place in the log, not by visibility",
        ("I1 covered",),
        1,
        ((PostgresLike, "_transactions", _by_place_in_the_log),),
    ),
    Plant(
        "advance-past-invisible",
        "the slot is advanced past commits that the version does not see",
        ("I1 covered",),
        1,
        ((PostgresLike, "_carried", _safe_is_the_end),),
    ),
    Plant(
        "slot-checked-too-early",
        "that the slot was moved between look and read is not noticed",
        ("I1 covered", "I7 loud"),
        950,
        ((PostgresLike, "_transactions", _slot_checked_at_look_only),),
    ),
    Plant(
        "release-before-commit",
        "the log is released before the target has what was in it",
        ("I1 covered",),
        1,
        ((Backfill, "execute", _release_first),),
    ),
    Plant(
        "release-while-filling",
        "a job that waits in the middle of its fill releases the log up to the head",
        ("I1 covered",),
        15,
        ((Runner, "_wait", _release_whenever_waiting),),
    ),
    Plant(
        "no-lock-before-snapshot",
        "a rewrite of the table between snapshot and read shows it empty",
        ("I1 covered",),
        2,
        ((PostgresLike, "_lock", lambda self: False),),
    ),
    Plant(
        "first-version-too-early",
        "the first snapshot does not wait for transactions older than the slot",
        ("I1 covered",),
        1,
        ((PostgresLike, "_wait_for_older", lambda *_: None),),
    ),
    Plant(
        "truncate-is-a-change",
        "a TRUNCATE is taken for an ordinary change",
        ("I1 covered",),
        2,
        ((PostgresLike, "changed", _truncate_is_a_change),),
    ),
    Plant(
        "uuid-too-late",
        "the generation's uuid is not in the store before the first commit",
        ("I2 monotone", "I7 loud"),
        0,
        ((Runner, "_activate", _uuid_too_late),),
    ),
    Plant(
        "group-cut",
        "a chunk ends inside of a group",
        ("I1 covered",),
        30,
        ((step, "_group_bound", lambda bound, shape: bound),),
    ),
    Plant(
        "take-stale-head",
        "a head that was polled before the last commit is taken for news",
        ("I2 monotone",),
        227,
        ((step, "_heads", lambda state, glimpse: {name: look.head for name, look in glimpse.tables.items()}),),
    ),
    Plant(
        "resume-on-another-upstream",
        "that the upstream was recreated under its name is not noticed",
        ("I2 monotone", "I5 progress"),
        182,
        (
            (step, "_refuse_another_upstream", lambda state, glimpse: None),
            (DeltaLike, "check", lambda self, at: None),
        ),
    ),
    Plant(
        "no-second-sweep",
        "what a sleeping runner made after a drop is not looked for again",
        ("I9 clean",),
        552,
        ((Runner, "_sweep", _sweep_nothing),),
    ),
    Plant(
        "intent-after-making",
        "things are made before their names are in the store",
        ("I9 clean",),
        4,
        ((Runner, "_prepare", _prepare_before_intent),),
    ),
    Plant(
        "share-of-now",
        "progress follows the rows of this process only",
        ("progress",),
        12,
        ((runner, "advance", _share_of_now),),
    ),
    Plant(
        "take-what-is-newest",
        "a view takes the newest version of each input, whatever they come from",
        ("I10 one version",),
        1,
        ((backfill, "agree", lambda heads, before: dict(heads)),),
        several=True,
    ),
    Plant(
        "forget-the-bases",
        "a commit does not say from which versions of the tables of others it comes",
        ("I10 one version",),
        1,
        ((state, "version_to_json", _without_bases),),
        several=True,
    ),
    Plant(
        "no-ticks",
        "every view goes to the newest version of its table, so that those of two are never the same",
        ("I5 progress",),
        5,
        ((Ticking, "_up_to_tick", lambda self, newest, *others: newest),),
        several=True,
    ),
    Plant(
        "next-tick-too-early",
        "the next tick is opened before all have come to the last",
        ("I5 progress",),
        5,
        ((ticking, "_has_come", lambda job, base, tick: True),),
        several=True,
    ),
    Plant(
        "keep-a-lost-tick",
        "a tick is kept though its version cannot be read any more",
        ("I5 progress",),
        5,
        ((Ticking, "_up_to_tick", _up_to_a_lost_tick),),
        several=True,
    ),
    Plant(
        "silent-member",
        "a view that a version changes nothing of does not say that it has come to it",
        ("I5 progress",),
        12,
        ((runner, "InStep", lambda member, allowed, read: InStep(False, allowed, read)),),
        several=True,
    ),
    Plant(
        "wait-for-the-paused",
        "the next tick waits for a view that stands still",
        ("I5 progress",),
        10,
        ((ticks, "waited_for", lambda members, reads, rows: [rows[one] for one in members if one in rows]),),
        several=True,
    ),
    Plant(
        "unsaid-commit",
        "whoever finds a commit that nobody reported does not report it either",
        ("I5 progress",),
        28,
        ((Runner, "_truth", _truth_unreported),),
        several=True,
    ),
    Plant(
        "forget-the-source",
        "what a view is built from is not written down if it was not there when its generation began",
        ("I5 progress",),
        16,
        ((jobs, "begin_generation", lambda uuid, source: _begin_generation(uuid, "")),),
        several=True,
    ),
)
