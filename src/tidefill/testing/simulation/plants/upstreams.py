"""Bugs in reading an upstream: its heads, its log, its slot and its identity."""

from __future__ import annotations

import json
from typing import Any

from tidefill.core import step
from tidefill.core.confirm import Truth
from tidefill.core.look import Changed, CheapLook
from tidefill.core.reasons import Reason
from tidefill.core.step import Step
from tidefill.core.version import Version, lies_between
from tidefill.core.walk import Coverage
from tidefill.jobs.row import Job
from tidefill.run import machine
from tidefill.run.backfill import Backfill
from tidefill.run.phases import Timed
from tidefill.testing.memory import postgres as memory_postgres
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.postgres import Logged, PostgresLike
from tidefill.testing.simulation.plants.plant import Plant

_execute = Backfill.execute


def _execute_without_head(self: Backfill[Any], job: Job, truth: Truth, plan: Step, timed: Timed) -> Truth:
    self.close_heads()
    return _execute(self, job, truth, plan, timed)


def _release_first(self: Backfill[Any], job: Job, truth: Truth, plan: Step, timed: Timed) -> Truth:
    self.release(plan.versions)
    return _execute(self, job, truth, plan, timed)


def _by_place_in_the_log(self: PostgresLike, after: Version, upto: Version) -> list[Logged]:
    start, end = json.loads(after.carry)["end"], json.loads(upto.carry)["end"]
    return self._find().log[start:end]


def _slot_checked_at_look_only(self: PostgresLike, after: Version, upto: Version) -> list[Logged]:
    old, new = memory_postgres._snapshot(after), memory_postgres._snapshot(upto)
    slot = self._find().slots.get(self._slot)
    told = [] if slot is None else self._find().log[slot.position : json.loads(upto.carry)["end"]]
    return [logged for logged in told if lies_between(logged.xid, old, new)]


def _safe_is_the_end(self: PostgresLike, server: Any, snapshot: Any) -> str:
    return json.dumps({"safe": len(server.log), "end": len(server.log)})


_changed = PostgresLike.classify_changes


def _truncate_is_a_change(self: PostgresLike, after: Version, upto: Version, coverage: Coverage) -> Changed:
    found = _changed(self, after, upto, coverage)
    return Changed.SOME if found is Changed.ALL else found


_released = machine._released


def _release_whenever_waiting(reason: Reason, glimpse: CheapLook) -> str:
    return _released(Reason.IDLE, glimpse)


OF_UPSTREAMS = (
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
        ((machine, "_released", _release_whenever_waiting),),
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
        ((PostgresLike, "classify_changes", _truncate_is_a_change),),
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
)
