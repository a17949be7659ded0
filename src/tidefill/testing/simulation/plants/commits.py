"""Bugs in commits: state and rows apart, steps taken twice, and a log that is not read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from tidefill.core import confirm, step
from tidefill.core.after_commit import AfterCommit
from tidefill.core.confirm import Anchor, Truth
from tidefill.core.state import JobState
from tidefill.core.step import Step
from tidefill.jobs.row import Job
from tidefill.ports.frames import Append, Put
from tidefill.run import backfill
from tidefill.run.backfill import Backfill
from tidefill.run.phases import Timed
from tidefill.run.runner import Runner
from tidefill.testing.memory import target
from tidefill.testing.memory.derivations import RowByRow, nothing
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.simulation.plants.plant import Plant

_commit = MemoryTarget.commit


def _state_before_data(self: MemoryTarget, write: Any, payload: Any) -> None:
    _commit(self, Append(nothing), payload)
    _commit(self, write, replace(payload, generation_uuid=payload.generation_uuid + "-data"))


_apply = step.apply


def _same_number_for_forwards(state: JobState, plan: Step) -> JobState:
    after = _apply(state, plan)
    return after if plan.chunks or state.step == 0 else replace(after, step=state.step)


def _no_read_back(self: Backfill[Any], job: Job, truth: Truth, plan: Step, timed: Timed) -> Truth:
    before, after = truth.state, _apply(truth.state, plan)
    write = self._write(before, plan, after)
    payload = confirm.Payload(after, job.generation_uuid, self._new_uuid(), truth.checked)
    self._target.commit(write, payload)
    return Truth(after, truth.checked + 1, payload.commit_uuid, state_is_not_last_commit=False)


def _commit_unfenced(self: MemoryTarget, write: Any, payload: Any) -> None:
    table = self._catalog.tables.get(self._path)
    if table is not None:
        table.transactions.pop(payload.generation_uuid, None)
    with patch.object(MemoryTarget, "_refuse_conflicts", lambda *_: None):
        _commit(self, write, payload)


_replaced = target._replaced


def _leave_a_key_out(before: Any, changes: list[Any]) -> Any:
    last = {key: before[key] for _, key, _ in changes[-1:] if key in before}
    after, counts = _replaced({key: rows for key, rows in before.items() if key not in last}, changes)
    return {key: (*last.get(key, ()), *after.get(key, ())) for key in {**last, **after}}, counts


_row_by_row = RowByRow.changes


def _keep_what_is_gone(self: RowByRow, changes: Any, new: Any) -> Any:
    write = _row_by_row(self, changes, new)
    if not isinstance(write, Put):
        return write
    there = {row[0] for row in write.rows()}
    return Put(tuple(key for key in write.keys if key.values[0] in there), write.rows)


_confirm = confirm.confirm
_truth = Runner._truth


def _believe_the_copy(self: Runner, job: Job, active: Any) -> Any:
    if active.truth is None and job.anchor:
        anchor = confirm.anchor_from_json(json.loads(job.anchor))
        active.truth, active.checked_s = (
            Truth(anchor.state, anchor.checked, "", state_is_not_last_commit=False),
            self._clock.now_s(),
        )
    return _truth(self, job, active)


def _check_from_the_commit_on(log: Any, generation: int, generation_uuid: str, anchor: Anchor | None) -> Truth:
    def blind(entry: Any) -> Any:
        if entry.payload is None:
            return entry
        return replace(entry, payload=replace(entry.payload, planned_on=entry.version))

    return _confirm([blind(entry) for entry in log], generation, generation_uuid, None)


_activate = Runner._activate


def _uuid_too_late(self: Runner, job: Job) -> Any:
    if not job.generation_uuid:
        late: dict[str, str] = self.__dict__.setdefault("_late", {})
        job = replace(job, generation_uuid=late.setdefault(job.id, self._new_uuid()))
    return _activate(self, job)


OF_COMMITS = (
    Plant(
        "state-before-data",
        "the state is committed first, the rows after it",
        ("I2 monotone",),
        2,
        ((MemoryTarget, "commit", _state_before_data),),
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
        "uuid-too-late",
        "the generation's uuid is not in the store before the first commit",
        ("I2 monotone", "I7 loud"),
        0,
        ((Runner, "_activate", _uuid_too_late),),
    ),
    Plant(
        "leave-a-key-out",
        "the predicate of a write that replaces rows lacks a key, so the old row stays",
        ("I1 covered",),
        0,
        ((target, "_replaced", _leave_a_key_out),),
    ),
    Plant(
        "keep-what-is-gone",
        "where the upstream names the changed keys, one without a row is not removed",
        ("I1 covered",),
        0,
        ((RowByRow, "changes", _keep_what_is_gone),),
    ),
    Plant(
        "stale-rows-in-memory",
        "rows that are kept in memory are believed after a commit of which nothing was heard",
        ("I1 covered",),
        2200,
        ((AfterCommit, "judge", lambda *_: None),),
    ),
)
