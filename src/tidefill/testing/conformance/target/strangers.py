"""Tests of commits by strangers, and of what the log says is true after them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidefill.core.confirm import Anchor, Effect, Truth
from tidefill.errors import StateLost, TargetTouched
from tidefill.ports.frames import Append, Merge
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.target.checks import (
    OURS,
    assert_log,
    assert_same,
    commit,
    confirmed,
    filled,
    last_entry,
    payload_for,
    prepared,
    row,
    state_at,
    steps_of,
)
from tidefill.testing.conformance.target.harness import F, TargetHarness, TargetTest


def optimize_leaves_the_data_alone(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1), row(2)])
    harness.optimize()
    assert_same(harness.rows(), [row(1), row(2)])
    assert_log(harness, Effect.WRITE, Effect.NONE)
    truth = confirmed(harness)
    assert (truth.state, truth.state_is_not_last_commit) == (state_at(1), True)
    commit(harness, Append(harness.frame([])), 2)
    assert not confirmed(harness).state_is_not_last_commit, "the state lies on top again"


def _foreign(name: str, touch: Callable[[TargetHarness[Any]], None]) -> TargetTest:
    def test(harness: TargetHarness[Any]) -> None:
        filled(harness, [row(1), row(2)])
        commit(harness, Append(harness.frame([row(3)])), 2)
        anchor = confirmed(harness).anchor(OURS)
        touch(harness)
        assert_log(harness, Effect.WRITE, Effect.WRITE, Effect.FOREIGN)
        raised(TargetTouched, lambda: confirmed(harness))
        raised(TargetTouched, lambda: confirmed(harness, anchor))

    test.__name__ = f"a_stranger_{name}"
    return test


def the_truth_after_each_commit(harness: TargetHarness[F]) -> None:
    prepared(harness)
    anchor: Anchor | None = None
    for step in (1, 2, 3):
        payload = commit(harness, Append(harness.frame([row(step), row(step + 10)])), step)
        for known in (anchor, None):
            truth = confirmed(harness, known)
            assert truth == Truth(
                state_at(step),
                last_entry(harness).version,
                payload.commit_uuid,
                state_is_not_last_commit=False,
                inserted=2,
            )
        anchor = truth.anchor(OURS)


def a_stranger_between_plan_and_commit(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1)])
    payload = payload_for(harness, 2)
    harness.foreign_append([row(9)])
    harness.target().commit(Append(harness.frame([row(2)])), payload)
    assert steps_of(harness) == [1, 2], "the target does not know; the log does"
    raised(TargetTouched, lambda: confirmed(harness))


def optimize_between_plan_and_commit(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1)])
    anchor = confirmed(harness).anchor(OURS)
    payload = payload_for(harness, 2)
    harness.optimize()
    harness.target().commit(Merge(harness.marked([("U", 1, row(1, 5))]), exact=True), payload)
    for known in (None, anchor):
        truth = confirmed(harness, known)
        assert (truth.state, truth.state_is_not_last_commit) == (state_at(2), False)


def a_cleaned_log_needs_the_anchor(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1)])
    old = confirmed(harness).anchor(OURS)
    harness.optimize()
    harness.optimize()
    anchor = confirmed(harness).anchor(OURS)
    harness.clean_log(keep=1)
    assert [entry.effect for entry in harness.target().log()] == [Effect.NONE]
    raised(StateLost, lambda: confirmed(harness))
    raised(StateLost, lambda: confirmed(harness, old))
    truth = confirmed(harness, anchor)
    assert (truth.state, truth.state_is_not_last_commit) == (state_at(1), True)
    commit(harness, Append(harness.frame([row(2)])), 2)
    assert confirmed(harness).state == state_at(2), "the renewed state stands by itself"
    assert_same(harness.rows(), [row(1), row(2)])


def a_step_is_taken_once_though_the_log_was_cleaned(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1)])
    harness.optimize()
    harness.clean_log(keep=1)
    harness.target().commit(Append(harness.frame([row(7)])), payload_for(harness, 1, "again"))
    assert harness.rows() == [row(1)]


STRANGERS: tuple[TargetTest, ...] = (
    optimize_leaves_the_data_alone,
    _foreign("appends", lambda harness: harness.foreign_append([row(9)])),
    _foreign("deletes", lambda harness: harness.foreign_delete([1])),
    _foreign("restores", lambda harness: harness.restore(0)),
    the_truth_after_each_commit,
    a_stranger_between_plan_and_commit,
    optimize_between_plan_and_commit,
    a_cleaned_log_needs_the_anchor,
    a_step_is_taken_once_though_the_log_was_cleaned,
)
