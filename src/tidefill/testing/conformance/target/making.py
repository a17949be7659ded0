"""Tests of the table itself: the first commit makes it, once, and no later commit makes it again."""

from __future__ import annotations

from typing import Any

from tidefill.core.confirm import NO_TABLE, Counts
from tidefill.core.state import initial
from tidefill.errors import StateLost, TargetTouched
from tidefill.ports.frames import Append, Merge, Replace
from tidefill.testing.conformance.expecting import raised
from tidefill.testing.conformance.target.checks import (
    OURS,
    WAYS,
    assert_same,
    commit,
    commit_or_conflict,
    confirmed,
    fails,
    last_entry,
    payload_for,
    prepared,
    row,
    state_at,
    steps_of,
    written_by,
)
from tidefill.testing.conformance.target.harness import F, TargetCan, TargetHarness, TargetTest, needs


def nothing_is_there_before_the_first_commit(harness: TargetHarness[F]) -> None:
    target = harness.target()
    target.prepare()
    assert target.resources, "somebody has to remove it"
    assert list(target.log()) == []
    truth = confirmed(harness)
    assert (truth.state, truth.checked) == (initial(1), NO_TABLE)


def _made_by(way: str) -> TargetTest:
    """The first commit makes the table, and carries the state."""

    def test(harness: TargetHarness[Any]) -> None:
        payload = commit(harness, written_by(harness, way, row(1)), 1)
        assert payload.planned_on == NO_TABLE
        assert harness.rows() == [row(1)]
        assert last_entry(harness).counts == Counts(inserted=1)
        truth = confirmed(harness)
        assert (truth.state, truth.state_is_not_last_commit) == (state_at(1), False)
        commit(harness, Append(harness.frame([row(2)])), 2)
        assert_same(harness.rows(), [row(1), row(2)])
        assert confirmed(harness).state == state_at(2)

    test.__name__ = f"a_table_is_made_by_{way}"
    return test


def _made_late_by(way: str) -> TargetTest:
    """A runner that planned to make the table wakes up when another has made it, and has gone on."""

    def test(harness: TargetHarness[Any]) -> None:
        late = payload_for(harness, 1, "late")
        for step in (1, 2):
            commit(harness, Append(harness.frame([row(step)])), step)
        before = list(harness.target().log())
        for handle in (harness.target(), prepared(harness)):
            commit_or_conflict(handle, written_by(harness, way, row(50)), late)
            assert list(handle.log()) == before
        assert_same(harness.rows(), [row(1), row(2)])

    test.__name__ = f"a_table_that_is_there_is_not_made_by_{way}"
    return test


def _made_meanwhile(way: str) -> TargetTest:
    """Another runner makes the table while ours is being evaluated."""

    def test(harness: TargetHarness[Any]) -> None:
        needs(harness, TargetCan.INTERRUPT)
        payloads = [payload_for(harness, 1, of) for of in ("ours", "of the other")]

        def overtake() -> None:
            harness.target().commit(written_by(harness, way, row(60)), payloads[1])

        commit_or_conflict(harness.target(), written_by(harness, way, row(50), overtake), payloads[0])
        assert_same(harness.rows(), [row(60)])
        assert steps_of(harness) == [1]
        assert confirmed(harness).commit_uuid == "of the other"

    test.__name__ = f"a_table_is_made_during_{way}"
    return test


def a_table_that_could_not_be_made(harness: TargetHarness[F]) -> None:
    for write in (Append(harness.failing()), Replace(harness.failing()), Merge(harness.failing(), exact=True)):
        assert fails(harness.target(), write, payload_for(harness, 1)), "the error comes through"
        assert confirmed(harness).state == initial(1)
    commit(harness, Append(harness.frame([row(1)])), 1)
    assert harness.rows() == [row(1)]
    assert confirmed(harness).state == state_at(1), "the step number was not used up"


def preparing_again_is_harmless(harness: TargetHarness[F]) -> None:
    target = prepared(harness)
    target.prepare()
    assert list(target.log()) == []
    commit(harness, Append(harness.frame([row(1)])), 1)
    before = list(target.log())
    target.prepare()
    harness.target().prepare()
    assert list(harness.target().log()) == before
    assert harness.rows() == [row(1)]


def a_table_that_was_removed(harness: TargetHarness[F]) -> None:
    """A commit must not make it anew: it would look like a target that lost its rows."""
    target = prepared(harness)
    commit(harness, Append(harness.frame([row(1)])), 1)
    write = Append(harness.frame([row(2)]))
    payload = payload_for(harness, 2)
    harness.remove()
    for handle in (target, harness.target()):
        raised(TargetTouched, lambda handle=handle: handle.commit(write, payload))  # type: ignore[misc]
        assert list(handle.log()) == []


def a_table_that_was_made_anew(harness: TargetHarness[F]) -> None:
    prepared(harness)
    commit(harness, Append(harness.frame([row(1)])), 1)
    anchor = confirmed(harness).anchor(OURS)
    harness.remove()
    raised(TargetTouched, lambda: confirmed(harness, anchor))
    harness.foreign_append([row(1)])
    raised((TargetTouched, StateLost), lambda: confirmed(harness, anchor))
    raised((TargetTouched, StateLost), lambda: confirmed(harness))


MAKING: tuple[TargetTest, ...] = (
    nothing_is_there_before_the_first_commit,
    *map(_made_by, WAYS),
    *map(_made_late_by, WAYS),
    *map(_made_meanwhile, WAYS),
    a_table_that_could_not_be_made,
    preparing_again_is_harmless,
    a_table_that_was_removed,
    a_table_that_was_made_anew,
)
