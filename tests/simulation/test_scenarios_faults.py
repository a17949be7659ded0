"""Crashes, zombies, strangers and lost history at every effect: scenarios R11 to R13, R17 to R20, R31 to R37."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.stage import Stage, row, rows
from tidefill.jobs import row as jobs
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job
from tidefill.run.backfill import Backfill
from tidefill.run.machine import BackfillMachine
from tidefill.run.runner import Runner
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.derivations import RowByRow
from tidefill.testing.memory.tables import Catalog, Frame
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.world import Violation, WorldClock
from tidefill.testing.simulation.script import Act, Setup

DELTA = Setup(rows=14, chunk_rows=3, parallelism=2)
POSTGRES = replace(DELTA, postgres=True)
EFFECTS = 150
WRITES = tuple(Act(at, "write", 13 * at) for at in range(5, EFFECTS, 9))


def play_with(setup: Setup, *acts: Act) -> Stage:
    """A short history with these acts, to its right end."""
    stage = Stage(setup, sorted((*WRITES, *acts), key=lambda act: act.at))
    stage.play_out()
    return stage


@pytest.mark.parametrize("setup", [DELTA, POSTGRES], ids=["delta", "postgres"])
def test_kill_at_every_effect(setup: Setup) -> None:
    # R11
    for at in range(1, EFFECTS):
        stage = play_with(setup, Act(at, "die", 0))
        assert stage.world.seen["die"] == 1


@pytest.mark.parametrize("setup", [DELTA, POSTGRES], ids=["delta", "postgres"])
def test_no_answer_at_every_effect(setup: Setup) -> None:
    # R11, R24
    for at in range(1, EFFECTS):
        play_with(setup, Act(at, "outage", 0))


@pytest.mark.parametrize("setup", [DELTA, POSTGRES], ids=["delta", "postgres"])
def test_a_second_runner_at_every_effect(setup: Setup) -> None:
    # R12
    for at in range(1, EFFECTS):
        play_with(setup, Act(at, "zombie", 3 * at))


def test_a_runner_that_wakes_up_in_a_resync_leaves_what_is_published() -> None:
    # R12
    for offset in range(1, 30):
        stage = Stage(DELTA)
        stage.go_live()
        stage.runners.clear()
        stage.world.now += 61.0
        stage.acts = [Act(stage.world.effects + offset, "zombie", 5)]
        stage.world.next_due = stage.acts[0].at
        stage.play_out()


def test_history_that_is_gone_is_a_named_stop() -> None:
    # R13
    stage = Stage(Setup(rows=20, chunk_rows=2))
    stage.excuses.add("HISTORY_GONE")
    stage.go_steps(3)
    for value in range(5):
        stage.commit_upstream([(1, row(900 + value))])
    stage.table.vacuum(0, changes_too=True)
    stage.go(lambda: stage.world.seen["stopped"] > 0)
    events = [text for _, text in stage.store.events(stage.job_id)]
    assert any("HISTORY_GONE" in text for text in events)


def test_compaction_of_the_target_changes_nothing() -> None:
    # R14
    for at in range(1, EFFECTS, 3):
        play_with(DELTA, Act(at, "optimize", 0))


def test_a_slot_that_was_moved_is_a_named_stop() -> None:
    # R13, R39
    stage = Stage(replace(POSTGRES, rows=20))
    stage.excuses.add("HISTORY_GONE")
    stage.go_steps(3)
    xid = stage.server.begin({990: row(990)})
    stage.server.log_commit(xid)
    stage.server.show(xid)
    for slot in stage.server.slots.values():
        slot.position = len(stage.server.log)
    stage.go(lambda: stage.world.seen["stopped"] > 0)


class TwoJobs(Stage):
    """The job reads the table; a second job, `top`, reads what the first has published."""

    def build_top(self, job: Job) -> BackfillMachine[Frame]:
        """The machine of `top`."""
        upstream = DeltaLike(self.world, self._below, self.walk_of)
        target = MemoryTarget(self.world, self.tops, self.path(job, job.generation), job.name)
        made = Backfill({"t": upstream}, RowByRow(lambda found: found), target, self.world.new_uuid)
        return BackfillMachine(made, WorldClock(self.world))

    def _below(self):  # type: ignore[no-untyped-def]
        path = self.catalog.published.get("job")
        return None if path is None else self.catalog.tables[path]

    def start_top(self) -> None:
        """Create it."""
        self.tops = Catalog()
        self.store.rows["top"] = Job("top", "top", "{}")
        clock = WorldClock(self.world)
        self.top = Runner(self.store, clock, self.build_top, self, "top runner", self.world.new_uuid)


def test_a_view_over_a_view_that_is_still_filled() -> None:
    # R17
    stage = TwoJobs(Setup(rows=12, chunk_rows=2))
    stage.start_top()
    for number in range(3):
        stage.play(number)
        stage.top.turn("top")
    assert stage.store.rows["top"].waiting == "the input is not live yet"
    assert "top" not in stage.tops.published
    stage.go_live()
    for number in range(40):
        stage.top.turn("top")
        if number % 7 == 0:
            stage.commit_upstream([(1, row(1000 + number))])
            stage.play(number)
    assert stage.store.rows["top"].life is Life.LIVE
    top = stage.tops.tables[stage.tops.published["top"]]
    assert sorted(top.rows()) == sorted(stage.target.rows())


@pytest.mark.parametrize("setup", [DELTA, POSTGRES], ids=["delta", "postgres"])
def test_drop_at_every_effect_leaves_nothing_and_frees_the_name(setup: Setup) -> None:
    # R19, R20
    for at in range(1, EFFECTS, 2):
        stage = play_with(setup, Act(at, "drop", 0))
        assert stage.job_id == "j2"
        assert stage.state.step < 200
        stage.end()
        assert not stage.catalog.tables
        assert not stage.catalog.published
        assert not stage.store.rows


def test_an_upstream_that_was_recreated_is_a_named_stop() -> None:
    # R31
    stopped = 0
    for at in range(1, EFFECTS, 3):
        stage = play_with(DELTA, Act(at, "recreate upstream", at))
        stopped += stage.world.seen["stopped"]
    assert stopped > EFFECTS // 6


@pytest.mark.parametrize("form", [0, 1, 2], ids=["append", "delete", "restore"])
def test_a_stranger_in_the_target_is_noticed(form: int) -> None:
    # R33
    stopped = 0
    for at in range(40, EFFECTS, 5):
        stage = play_with(DELTA, Act(at, "touch", 3 * at + form))
        stopped += stage.world.seen["stopped"]
    assert stopped >= len(range(40, EFFECTS, 5)) - 2


def test_duplicate_keys_are_a_named_stop() -> None:
    # R34
    stage = Stage(Setup(rows=0, chunk_rows=2), rows=[*rows(6), row(10, 3)])
    stage.excuses.add("KEY_NOT_UNIQUE")
    stage.checkers.excused = True
    stage.go(lambda: stage.job.life is Life.FAILED or stage.world.seen["stopped"] > 0)
    assert any("KEY_NOT_UNIQUE" in text for _, text in stage.store.events(stage.job_id))
    assert "job" not in stage.catalog.published


def test_a_rewrite_between_snapshot_and_read() -> None:
    # R36
    for at in range(1, EFFECTS):
        play_with(POSTGRES, Act(at, "rewrite", 0))


def test_truncate_at_every_effect() -> None:
    # R23, R36
    for at in range(1, EFFECTS, 2):
        play_with(POSTGRES, Act(at, "truncate", 0))


def test_a_transaction_in_the_log_but_not_visible_when_the_slot_is_made() -> None:
    # R37
    stage = Stage(replace(POSTGRES, rows=6))
    xid = stage.server.begin({990: row(990)})
    stage.server.log_commit(xid)
    for number in range(5):
        stage.play(number)
    assert stage.steps == 0
    assert "waits for transaction" in stage.job.waiting
    stage.server.show(xid)
    stage.go_live()
    stage.rest()
    assert row(990) in stage.rows_of_target()


def test_a_transaction_that_stays_open_through_many_steps() -> None:
    # R22
    stage = Stage(replace(POSTGRES, rows=20))
    stage.go_steps(1)
    late = stage.server.begin({990: row(990), 0: None})
    stage.server.log_commit(late)
    for key in (991, 992, 993):
        xid = stage.server.begin({key: row(key)})
        stage.server.log_commit(xid)
        stage.server.show(xid)
        stage.go_steps(1)
    stage.go_live()
    stage.go(lambda: row(993) in stage.rows_of_target())
    assert row(990) not in stage.rows_of_target()
    stage.server.show(late)
    stage.rest()
    assert row(990) in stage.rows_of_target()


def test_an_idle_table_in_a_busy_database_does_not_hold_the_log() -> None:
    # R32
    stage = Stage(replace(POSTGRES, rows=6))
    stage.go_live()
    stage.rest()
    steps = stage.steps
    for _ in range(30):
        xid = stage.server.begin({})
        stage.server.log_commit(xid)
        stage.server.show(xid)
        stage.play(1)
    held = len(stage.server.log) - next(iter(stage.server.slots.values())).position
    assert held <= 1
    assert stage.steps == steps, "an idle job makes no commit"
    stage.runners.clear()
    xid = stage.server.begin({5: row(5)})
    stage.server.log_commit(xid)
    stage.server.show(xid)
    stage.rest()


def test_a_damaged_copy_of_the_state_is_an_error_with_a_name() -> None:
    stage = Stage(DELTA)
    stage.go_steps(3)
    stage.excuses.add("STATE_UNREADABLE")
    stage.runners.clear()
    stage.wish(lambda job: replace(job, anchor="{nonsense"))
    stage.go(lambda: stage.world.seen["stopped"] > 0)
    stage.go_live()
    stage.rest()


def test_going_live_does_not_overlook_a_wish() -> None:
    # R19
    stage = Stage(DELTA)
    stage.go(lambda: stage.job.life is Life.VERIFYING)
    verify = Backfill.verify

    def wish_in_the_middle(self, *words):  # type: ignore[no-untyped-def]
        compared = verify(self, *words)
        stage.wish(jobs.wish_cancel)
        return compared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Backfill, "verify", wish_in_the_middle)
        stage.play(1)
    assert stage.job.life is not Life.LIVE
    assert stage.job.published is None


def test_a_checker_that_finds_nothing_would_be_worth_nothing() -> None:
    stage = Stage(DELTA)
    stage.go_steps(2)
    table = stage.target
    table.snapshots[-1] = {**table.snapshots[-1], 1: ((1, "wrong"),)}
    with pytest.raises(Violation, match="I1 covered"):
        stage.go_steps(1)
