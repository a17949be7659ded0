"""A live job takes changes in by steps or by a recompute, whichever took less time, and remembers what they took."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.stage import Stage, row, rows
from tidefill.core.costs import Sample, Way, samples_from_text, samples_to_text
from tidefill.jobs import row as jobs
from tidefill.testing.simulation.script import Setup

CHEAP = (Sample(Way.CHANGES, 2, 12, 9.0), Sample(Way.RECOMPUTE, 2, 12, 2.0))


def live(learned: tuple[Sample, ...] = ()) -> Stage:
    """A job that is live, and of which this is known to whatever runner comes next."""
    stage = Stage(Setup(rows=0, chunk_rows=2), rows=rows(12))
    stage.go_live()
    stage.store.change(stage.job_id, lambda job: replace(job, learned=samples_to_text(learned)))
    stage.runners.clear()
    stage.world.now += 120.0  # the lease of the runner that is gone is over
    return stage


def update(stage: Stage, value: int) -> bool:
    """One row gets another value. Returns whether all rows were computed."""
    old = next(found for found in stage.upstream_rows() if found[0] == 10)
    stage.commit_upstream([(-1, old), (1, row(10, 1, 10, value))])
    stage.rest()
    newest = [entry for entry in stage.target.entries if entry.payload is not None][-1]
    return newest.counts.inserted == len(stage.rows_of_target()) and newest.payload.expected is None  # type: ignore[union-attr]


def anew(stage: Stage) -> list[str]:
    return [text for _, text in stage.store.events(stage.job_id) if "anew" in text]


def test_what_steps_take_is_kept_in_the_row() -> None:
    stage = live()
    assert not update(stage, 100)
    assert not update(stage, 101)
    known = samples_from_text(stage.job.learned)
    assert [(sample.way, sample.written) for sample in known] == [(Way.CHANGES, 2), (Way.CHANGES, 2)]
    assert all(sample.seconds > 0 for sample in known)


def test_the_cheaper_way_is_taken_after_a_restart_too_and_told_once() -> None:
    stage = live((*CHEAP[1:], *CHEAP[:1]))
    assert update(stage, 100)
    assert update(stage, 101)
    assert anew(stage) == ["computed anew: a step was expected to take 9.0 s, a recompute 2.0 s"]


def test_steps_alone_if_somebody_asks_for_them() -> None:
    stage = live(CHEAP)
    settings = replace(stage.job.settings, steps_only=True)
    stage.store.change(stage.job_id, jobs.wish_settings(settings))
    assert not update(stage, 100)
    assert anew(stage) == []
