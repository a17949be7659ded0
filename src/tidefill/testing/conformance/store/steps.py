"""Tests of the history of steps: written with a change of the row or not at all, bounded, and gone with the job."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

from tidefill.errors import Fenced, UnknownJob
from tidefill.jobs import steps
from tidefill.jobs.row import Job, Pause, acquire, fenced, wish_pause
from tidefill.jobs.steps import DoneStep
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.store.rows import MakeStore, StoreTest, new_job

STEP = DoneStep(
    "both", 100.5, 2.25, 3, {"look": 0.25, "commit": 2.0}, 7, 5, {"t": (4, 6), "ü": (None, None)}, 2,
    '[[null, [1, "é"]]]', 2, 0.5,
)  # fmt: skip


def a_step_is_written_with_the_change(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    store.create(new_job("b"))
    after = store.change("a", wish_pause(Pause.ALL), STEP)
    assert after.pause is Pause.ALL
    assert store.job("a") == after
    failed = DoneStep("fill", 200.0, 0.0, error="UNAVAILABLE")
    assert store.change("a", lambda job: job, failed) == after, "a row that stays equal has a step too"
    assert list(store.steps("a")) == [STEP, failed], "oldest first, as they were"
    assert list(store.steps("b")) == []
    assert list(store.steps("c")) == []


def a_change_that_raises_writes_no_step(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    old = store.change("a", acquire("one", 0.0, 60.0)).lease.fence
    store.change("a", acquire("two", 60.0, 60.0))
    raised(Fenced, lambda: store.change("a", fenced(old, lambda job: job), STEP))
    raised(UnknownJob, lambda: store.change("b", lambda job: job, STEP))
    assert list(store.steps("a")) == []


def delete_takes_the_steps_along(make_store: MakeStore) -> None:
    store = make_store()
    store.create(new_job("a"))
    store.create(new_job("b"))
    for job_id in "ab":
        store.change(job_id, _same, STEP)
    store.delete("a")
    assert list(store.steps("a")) == []
    assert list(store.steps("b")) == [STEP]
    store.create(new_job("a"))
    assert list(store.steps("a")) == [], "the next job of that id has none"


def the_history_is_bounded(make_store: MakeStore) -> None:
    kept, written = 10, 450
    with patch.object(steps, "STEPS_KEPT", kept):
        store = make_store()
        store.create(new_job("a"))
        for number in range(written):
            store.change("a", _same, replace(STEP, began_s=float(number)))
        found = [int(step.began_s) for step in store.steps("a")]
    assert found == sorted(found)
    assert found[-kept:] == list(range(written - kept, written)), "the newest are all there"
    assert len(found) <= 2 * kept + 2 * 100, "a store may remove them a hundred at a time"


def _same(job: Job) -> Job:
    return job


STEPS: tuple[StoreTest, ...] = (
    a_step_is_written_with_the_change,
    a_change_that_raises_writes_no_step,
    delete_takes_the_steps_along,
    the_history_is_bounded,
)
