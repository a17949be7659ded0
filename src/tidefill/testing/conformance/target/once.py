"""Tests that a step is committed once, whoever else commits at the same time, and whole or not at all."""

from __future__ import annotations

from typing import Any

from tidefill.errors import TargetTouched
from tidefill.ports.frames import Append, Merge, Replace
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.target.checks import (
    WAYS,
    assert_same,
    commit,
    commit_or_conflict,
    confirmed,
    fails,
    filled,
    payload_for,
    row,
    state_at,
    steps_of,
    written_by,
)
from tidefill.testing.conformance.target.harness import F, Marked, TargetCan, TargetHarness, TargetTest, needs


def a_step_is_taken_once(harness: TargetHarness[F]) -> None:
    target = filled(harness, [row(1)])
    commit(harness, Append(harness.frame([row(2)])), 2)
    before = list(target.log())
    for step, commit_uuid in ((2, "commit 2"), (2, "of another runner"), (1, "of one long gone")):
        for handle in (target, harness.target()):
            handle.commit(Append(harness.frame([row(7)])), payload_for(harness, step, commit_uuid))
            handle.commit(Merge(harness.marked([("D", 1, None)]), exact=True), payload_for(harness, step, commit_uuid))
            handle.commit(Replace(harness.frame([])), payload_for(harness, step, commit_uuid))
    assert list(target.log()) == before
    assert_same(harness.rows(), [row(1), row(2)])


def two_handles_take_the_same_step(harness: TargetHarness[F]) -> None:
    """The second returns as if nothing were wrong; the log tells whose it was."""
    one = filled(harness, [row(1)])
    two = harness.target()
    planned = [payload_for(harness, 2, "of one"), payload_for(harness, 2, "of two")]
    one.commit(Append(harness.frame([row(2)])), planned[0])
    two.commit(Append(harness.frame([row(2), row(3)])), planned[1])
    assert_same(harness.rows(), [row(1), row(2)])
    assert confirmed(harness).commit_uuid == "of one"
    commit(harness, Append(harness.frame([row(3)])), 3)
    assert steps_of(harness) == [1, 2, 3]


def _overtaken(way: str) -> TargetTest:
    """Another runner commits the same step while ours is being evaluated."""

    def test(harness: TargetHarness[Any]) -> None:
        needs(harness, TargetCan.INTERRUPT)
        filled(harness, [row(1)])

        def overtake() -> None:
            harness.target().commit(Append(harness.frame([row(60)])), payload_for(harness, 2, "of the other"))

        late = written_by(harness, way, row(50), overtake)
        commit_or_conflict(harness.target(), late, payload_for(harness, 2, "ours"))
        assert_same(harness.rows(), [row(1), row(60)])
        assert steps_of(harness) == [1, 2], "each step once"
        assert confirmed(harness).commit_uuid == "of the other"

    test.__name__ = f"the_same_step_lands_during_{way}"
    return test


def _touched_meanwhile(way: str) -> TargetTest:
    """A stranger writes while ours is being evaluated. Whether it lands or not, nothing that it did is believed."""

    def test(harness: TargetHarness[Any]) -> None:
        needs(harness, TargetCan.INTERRUPT)
        filled(harness, [row(1)])
        late = written_by(harness, way, row(50), lambda: harness.foreign_append([row(60)]))
        commit_or_conflict(harness.target(), late, payload_for(harness, 2))
        raised(TargetTouched, lambda: confirmed(harness))

    test.__name__ = f"a_stranger_writes_during_{way}"
    return test


def a_frame_that_raises_leaves_nothing(harness: TargetHarness[F]) -> None:
    target = filled(harness, [row(1), row(2)])
    before = list(target.log())
    broken = harness.failing()
    for write in (Append(broken), Merge(broken, exact=True), Merge(broken, exact=False), Replace(broken)):
        assert fails(target, write, payload_for(harness, 2)), "the error comes through"
        assert list(harness.target().log()) == before
        assert_same(harness.rows(), [row(1), row(2)])
    commit(harness, Append(harness.frame([row(3)])), 2)
    assert confirmed(harness).state == state_at(2), "the step number was not used up"


def two_changes_of_one_row_are_refused(harness: TargetHarness[F]) -> None:
    target = filled(harness, [row(1)])
    before = list(target.log())
    changes: list[Marked] = [("U", 1, row(1, 5)), ("U", 1, row(1, 6))]
    for exact in (True, False):
        assert fails(target, Merge(harness.marked(changes), exact=exact), payload_for(harness, 2))
        assert list(target.log()) == before
        assert harness.rows() == [row(1)]


ONCE: tuple[TargetTest, ...] = (
    a_step_is_taken_once,
    two_handles_take_the_same_step,
    *map(_overtaken, WAYS),
    *map(_touched_meanwhile, WAYS),
    a_frame_that_raises_leaves_nothing,
    two_changes_of_one_row_are_refused,
)
