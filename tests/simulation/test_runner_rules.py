"""What the runner tells and heeds beside the steps: verification, notices, lag, and an input that was built anew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.simulation.stage import Stage, row, rows
from tidefill.core.confirm import Payload
from tidefill.core.reasons import Reason
from tidefill.errors import NotYet, Unavailable
from tidefill.jobs import row as jobs
from tidefill.jobs.agreement import Group
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Job, Pause
from tidefill.ports.frames import Replace, TargetWrite
from tidefill.ports.machine import Machine
from tidefill.run.in_step import Ticking
from tidefill.run.machine import BackfillMachine
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.tables import Frame
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.simulation.script import Setup

DELTA = Setup(chunk_rows=6)


def told(stage: Stage) -> list[str]:
    return [text for _, text in stage.store.events(stage.job_id)]


def test_the_verification_is_told_with_its_time() -> None:
    stage = Stage(DELTA, rows=rows(20))
    stage.go_live()
    assert [text for text in told(stage) if text.startswith("verified: 20 rows equal a recompute, found in")]


def test_a_verification_can_be_left_out_but_not_the_look_at_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []
    monkeypatch.setattr(DeltaLike, "check_keys", lambda _self, at: looks.append(at))
    stage = Stage(DELTA, rows=rows(20))
    stage.store.change(stage.job_id, lambda job: replace(job, settings=replace(job.settings, verify=False)))
    monkeypatch.setattr("tidefill.testing.memory.target.MemoryTarget.compare", None)
    stage.go_live()
    assert "not verified, as it was asked" in told(stage)
    assert looks


def test_what_cannot_be_taken_in_at_once_is_filled_by_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    # R7, C18
    tried = list[str]()
    commit = MemoryTarget.commit

    def too_much_at_once(self: MemoryTarget, write: TargetWrite[Frame], payload: Payload) -> None:
        tried.append(type(write).__name__)
        if isinstance(write, Replace):
            raise Unavailable("out of memory")
        commit(self, write, payload)

    monkeypatch.setattr(MemoryTarget, "commit", too_much_at_once)
    stage = Stage(DELTA, rows=rows(6))
    stage.go_live()
    assert tried == ["Replace", "Append"]


def test_only_who_has_something_to_fill_asks_for_the_size_of_its_input() -> None:
    stage = Stage(Setup(chunk_rows=None), rows=rows(6))
    asked = list[Life]()
    build = stage.runners[-1]._build

    def watched(job: Job) -> Machine[Any]:
        machine = build(job)
        assert isinstance(machine, BackfillMachine)
        machine._backfill.first_rows = lambda: asked.append(stage.job.life)
        return machine

    stage.runners[-1]._build = watched
    stage.go_live()
    assert asked == [Life.BACKFILLING]
    stage.runners[-1].let_go()
    stage.rest()
    assert asked == [Life.BACKFILLING], "it is live"


def test_a_notice_is_told_once_whoever_runs_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeltaLike, "notices", lambda _: ["column x of the input is new"])
    monkeypatch.setattr(DeltaLike, "history_runs_short", lambda _self, _at: True)
    stage = Stage(DELTA, rows=rows(20))
    stage.go_live()
    stage.runners[-1].let_go()
    stage.rest()
    assert told(stage).count("column x of the input is new") == 1
    assert told(stage).count("half of the time for which t keeps its history is over") == 1


def test_progress_says_how_far_the_target_is_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeltaLike, "lag_s", lambda _self, _at: 17.0)
    stage = Stage(DELTA, rows=rows(20))
    stage.go_steps(1)
    progress = stage.job.progress
    assert progress is not None
    assert (progress.lag_versions, progress.lag_s) == (0, 0.0), "it has just read the newest version"
    stage.go_live()
    stage.go(lambda: stage.job.waiting != "")
    progress = stage.job.progress
    assert progress is not None
    assert (progress.lag_versions, progress.lag_s) == (0, 17.0)


def test_a_job_whose_input_was_built_anew_is_built_anew() -> None:
    stage = Stage(DELTA, rows=rows(20))
    sources = ["a-1"]
    stage.runners[-1]._source = lambda *_: sources[-1]
    stage.go_live()
    assert (stage.job.source, stage.job.generation) == ("a-1", 1)
    sources.append("")
    stage.rest()
    assert stage.job.generation == 1, "nothing is there to build it from"
    sources.append("a-2")
    stage.go(lambda: stage.job.generation == 2)
    assert stage.job.published == 1, "readers keep what they have"
    stage.go_live()
    assert (stage.job.source, stage.job.published, stage.job.life) == ("a-2", 2, Life.LIVE)
    assert "its input was built anew: a new generation begins" in told(stage)
    stage.rest()
    assert stage.job.generation == 2


def test_the_rate_that_is_told_heeds_the_limit() -> None:
    stage = Stage(Setup(rows=0, chunk_rows=2, rate_limit=1), rows=rows(20))
    stage.go_steps(4)
    progress = stage.job.progress
    assert progress is not None
    assert 0.0 < progress.rows_per_s <= 1.0


# The log that a server keeps.

SERVER = Setup(postgres=True, chunk_rows=6, wal_budget=4, wal_limit=8)


def write(stage: Stage, commits: int) -> None:
    for number in range(commits):
        xid = stage.server.begin({number: row(number, value=9)})
        stage.server.log_commit(xid)
        stage.server.show(xid)


def test_a_log_above_the_budget_holds_the_fill_back_until_it_is_let_go() -> None:
    # R25
    stage = Stage(SERVER, rows=rows(60))
    stage.go_steps(2)
    slow = stage.server.begin({9999: row(9999)})
    write(stage, 5)
    stage.go(lambda: stage.job.waiting == Reason.LOG_BUDGET.value)
    covered = stage.state.coverage
    for number in range(20):
        stage.play(number)
    assert stage.state.coverage == covered, "nothing was filled"
    assert stage.job.progress is not None
    assert stage.job.progress.log_bytes == 5
    assert "the server keeps more than 2 B of its log for this job" in told(stage)
    stage.server.log_commit(slow)
    stage.server.show(slow)
    stage.go_live()
    stage.rest()


def test_a_paused_job_gives_up_a_log_above_the_limit_and_is_built_anew() -> None:
    # R25
    stage = Stage(SERVER, rows=rows(20))
    stage.go_live()
    stage.excuses.add("LOG_GIVEN_UP")
    stage.wish(jobs.wish_pause(Pause.ALL))
    write(stage, 8)
    stage.go(lambda: stage.job.life is Life.PAUSED)
    stage.play(1)
    assert stage.job.failure is None, "as much as it may be"
    write(stage, 1)
    stage.play(1)
    failure = stage.job.failure
    assert failure is not None
    assert (failure.code, stage.server.slots) == ("LOG_GIVEN_UP", {})
    assert "RESYNC" in failure.hint
    assert stage.job.wants_resync, "as a person asks for it"
    stage.go(lambda: stage.job.generation == 2 and stage.job.life is Life.LIVE)
    stage.rest()


def test_without_a_limit_a_paused_job_gives_nothing_up() -> None:
    # R25
    stage = Stage(replace(SERVER, wal_limit=None), rows=rows(20))
    stage.go_live()
    stage.wish(jobs.wish_pause(Pause.ALL))
    write(stage, 50)
    for number in range(20):
        stage.play(number)
    stage.wish(jobs.wish_resume)
    stage.rest()
    assert stage.job.generation == 1


def test_a_job_that_failed_gives_up_a_log_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # R25
    stage = Stage(SERVER, rows=rows(20))
    stage.go_live()
    monkeypatch.setattr(stage, "_after_failure", lambda job: None)
    stage.server.slots[f"slot-{stage.path(stage.job, 1)}"].position += 100
    stage.go(lambda: stage.job.life is Life.FAILED)
    stage.server.slots[f"slot-{stage.path(stage.job, 1)}"].position -= 100
    write(stage, 9)
    stage.go(lambda: stage.server.slots == {})
    failure = stage.job.failure
    assert failure is not None
    assert failure.code == "LOG_GIVEN_UP"
    assert "[HISTORY_GONE]" in failure.detail


def test_a_job_whose_attempts_fail_gives_up_a_log_above_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # R25
    stage = Stage(SERVER, rows=rows(20))
    stage.go_live()
    stage.excuses.add("LOG_GIVEN_UP")

    def fail(*_: object) -> None:
        raise Unavailable("the lake is away")

    monkeypatch.setattr(MemoryTarget, "commit", fail)
    write(stage, 9)
    stage.go(lambda: stage.job.waiting == "the lake is away")
    for number in range(3):
        stage.play(number)
        assert stage.job.failure is None, "it may come back"
    stage.play(4)
    assert stage.job.failure is not None
    assert (stage.job.failure.code, stage.server.slots) == ("LOG_GIVEN_UP", {})


def test_a_table_that_was_made_after_its_job_was_dropped_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    # R12
    commit = MemoryTarget.commit
    stage = Stage(DELTA, rows=rows(20))

    def late(self: MemoryTarget, write: TargetWrite[Frame], payload: Payload) -> None:
        stage.store.delete(stage.job_id)
        commit(self, write, payload)
        assert stage.catalog.tables

    monkeypatch.setattr(MemoryTarget, "commit", late)
    runner = stage.start_runner()
    while stage.job_id in stage.store.rows:
        runner.turn(stage.job_id)
    assert not stage.catalog.tables, "nobody else would remove it"


def test_an_error_whose_fact_is_a_reason_has_the_code_of_that_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run_once` goes by it: jobs that wait for each other for ever are not waited for."""
    stage = Stage(DELTA, rows=rows(20))

    def fail(*_: object) -> None:
        raise NotYet(Reason.INPUTS.value)

    monkeypatch.setattr(BackfillMachine, "plan", fail)
    stage.play(1)
    assert (stage.job.waiting, stage.job.waits_for) == (Reason.INPUTS.value, "INPUTS")
    monkeypatch.setattr(BackfillMachine, "recover", fail_with(Unavailable("the lake is away")))
    stage.runners[-1].let_go()
    stage.world.now += 100
    stage.play(2)
    assert (stage.job.waiting, stage.job.waits_for) == ("the lake is away", "TROUBLE")


def fail_with(error: Exception) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise error

    return fail


def test_a_job_above_one_that_stands_still_is_not_up_to_date(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(DELTA, rows=rows(20))
    stage.go_live()
    stands = Job("below", "below", "{}", life=Life.FAILED)
    monkeypatch.setattr(Ticking, "group", lambda *_: Group(blocked_by=stands))
    stage.go(lambda: stage.job.waits_for == "BLOCKED")
    assert stage.job.waiting == "below, which is failed"


def test_what_a_person_should_know_is_told_also_if_no_plan_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeltaLike, "notices", lambda _: ["column x of the input is new"])
    stage = Stage(DELTA, rows=rows(20))
    plan = BackfillMachine._planned

    def fail(self: BackfillMachine[Frame], *words: Any) -> None:
        plan(self, *words)
        raise Unavailable("the plan cannot be made")

    monkeypatch.setattr(BackfillMachine, "_planned", fail)
    stage.play(1)
    assert "column x of the input is new" in told(stage)
