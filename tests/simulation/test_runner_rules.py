"""What the runner tells and heeds beside the steps: verification, notices, lag, and an input that was built anew."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.stage import Stage, rows
from tidefill.core.lifecycle import Life
from tidefill.testing.memory_delta import DeltaLike
from tidefill.testing.script import Setup

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
    monkeypatch.setattr("tidefill.testing.memory_target.MemoryTarget.compare", None)
    stage.go_live()
    assert "not verified, as it was asked" in told(stage)
    assert looks


def test_a_notice_is_told_once_whoever_runs_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DeltaLike, "notices", lambda _: ["column x of the input is new"])
    monkeypatch.setattr(DeltaLike, "pressing", lambda _self, _at: True)
    stage = Stage(DELTA, rows=rows(20))
    stage.go_live()
    stage.runners[-1]._let_go(stage.job_id)
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
    stage.runners[-1]._source = lambda _: sources[-1]
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
