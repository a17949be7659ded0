"""What is true about a target, branch by branch, and against every log that our own commits can make."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.confirm import (
    NO_TABLE,
    Anchor,
    Counts,
    Effect,
    Entry,
    Payload,
    Truth,
    anchor_from_json,
    anchor_to_json,
    confirm,
    payload_from_json,
    payload_to_json,
)
from tidefill.core.keys import Key
from tidefill.core.state import JobState, initial
from tidefill.core.version import Number, Version
from tidefill.core.walk import above, start
from tidefill.errors import Bug, KeyNotUnique, StateLost, StateUnreadable, TargetTouched

OURS, OTHERS = "uuid of this generation", "uuid of another"
CREATED = Entry(0, Effect.CREATED)


def state(step: int) -> JobState:
    return JobState(1, step, {"t": Version("id", Number(step))}, {"t": start(above(Key((9,))))}, step * 10)


def commit(version: int, step: int, planned_on: int | None = None, generation_uuid: str = OURS) -> Entry:
    """A commit of a runner that saw the version before it, if nothing else is said."""
    planned = version - 1 if planned_on is None else planned_on
    payload = Payload(state(step), generation_uuid, f"commit {version}", planned)
    return Entry(version, Effect.WRITE, payload, Counts(inserted=step))


def optimize(version: int) -> Entry:
    return Entry(version, Effect.NONE)


def foreign(version: int) -> Entry:
    return Entry(version, Effect.FOREIGN)


def anchor(step: int, checked: int, generation_uuid: str = OURS) -> Anchor:
    return Anchor(state(step), generation_uuid, checked)


def truth(log: Sequence[Entry], known: Anchor | None = None) -> Truth:
    return confirm(log, 1, OURS, known)


# What is true


def test_a_new_target_is_at_the_beginning() -> None:
    for known in (None, anchor(0, 0), anchor(9, 9, OTHERS)):
        assert truth([], known) == Truth(initial(1), NO_TABLE, "", state_is_not_last_commit=False)
    assert truth([CREATED]) == Truth(initial(1), 0, "", state_is_not_last_commit=False)
    assert truth([CREATED, optimize(1)]) == Truth(initial(1), 1, "", state_is_not_last_commit=False)


def test_the_commit_that_makes_the_target_tells_the_state() -> None:
    made = commit(0, 1, planned_on=NO_TABLE)
    assert truth([made]).state == state(1)
    assert truth([made, commit(1, 2, planned_on=0)]).state == state(2)
    assert truth([CREATED, commit(1, 1, planned_on=NO_TABLE)]).state == state(1), "a MERGE makes it empty first"
    for log in (
        [foreign(0), commit(1, 1, planned_on=NO_TABLE)],
        [CREATED, foreign(1), commit(2, 1, planned_on=NO_TABLE)],
    ):
        with pytest.raises(TargetTouched):
            truth(log)


def test_the_last_commit_tells_the_state() -> None:
    log = [CREATED, commit(1, 1), commit(2, 2)]
    assert truth(log) == Truth(state(2), 2, "commit 2", state_is_not_last_commit=False, inserted=2)


def test_the_store_may_lag_behind_the_log() -> None:
    log = [CREATED, commit(1, 1), commit(2, 2)]
    assert truth(log, anchor(1, 1)) == truth(log)
    assert truth(log, anchor(2, 2)) == truth(log)


def test_what_is_confirmed_becomes_the_copy() -> None:
    confirmed = truth([CREATED, commit(1, 1), optimize(2)])
    assert confirmed.anchor(OURS) == anchor(1, 2)


# R33: OPTIMIZE is harmless
def test_optimize_is_harmless_and_begins_to_bury_the_state() -> None:
    confirmed = truth([CREATED, commit(1, 1), optimize(2)])
    assert (confirmed.state, confirmed.checked, confirmed.state_is_not_last_commit) == (state(1), 2, True)
    assert truth([CREATED, commit(1, 1), optimize(2), commit(3, 2, planned_on=1)]).state == state(2)


# R33: OPTIMIZE never carries state
def test_a_payload_on_a_harmless_entry_never_counts() -> None:
    """The settings of a session may put the payload of our last commit on an OPTIMIZE that follows it."""
    carried = replace(commit(2, 7), effect=Effect.NONE)
    assert truth([CREATED, commit(1, 1), carried]).state == state(1)
    assert truth([CREATED, replace(carried, version=1)]).state == initial(1)


def test_counts_are_looked_at_once() -> None:
    wrong = _expecting(Counts(4, 0, 0), Counts(5, 0, 0))
    with pytest.raises(Bug):
        truth([CREATED, wrong])
    assert truth([CREATED, wrong], anchor(1, 1)).state == state(1), "it was confirmed before"


# Strangers


# R33
@pytest.mark.parametrize(
    "log",
    [
        [CREATED, foreign(1)],
        [CREATED, commit(1, 1), foreign(2)],
        [CREATED, commit(1, 1), foreign(2), optimize(3)],
        [CREATED, foreign(1), commit(2, 1, planned_on=0)],
        [CREATED, commit(1, 1), foreign(2), commit(3, 2, planned_on=1)],
        [CREATED, commit(1, 1), Entry(2, Effect.WRITE)],
        [CREATED, commit(1, 1), commit(2, 1, generation_uuid=OTHERS)],
        [CREATED, commit(1, 1, generation_uuid=OTHERS)],
        [CREATED, commit(1, 1), Entry(2, Effect.CREATED)],
    ],
)
@pytest.mark.parametrize("known", [None, anchor(0, 0), anchor(9, 9, OTHERS)])
def test_a_stranger_is_seen(log: list[Entry], known: Anchor | None) -> None:
    with pytest.raises(TargetTouched) as caught:
        truth(log, known)
    assert "RESYNC" in caught.value.hint


# R33: RESTORE to an older version
@pytest.mark.parametrize("known", [None, anchor(1, 1), anchor(2, 2)])
def test_a_restored_target_is_touched(known: Anchor | None) -> None:
    with pytest.raises(TargetTouched):
        truth([CREATED, commit(1, 1), commit(2, 2), foreign(3)], known)


# R33
def test_a_log_that_went_back_is_touched() -> None:
    with pytest.raises(TargetTouched, match="older than the one that was confirmed"):
        truth([CREATED, commit(1, 1)], anchor(2, 2))
    for log in ([CREATED], [foreign(0)], [foreign(0), optimize(1)]):
        with pytest.raises(TargetTouched, match="made anew"):
            truth(log, anchor(1, log[-1].version))
    with pytest.raises(TargetTouched, match="shorter"):
        truth([CREATED, commit(1, 1)], anchor(1, 5))
    with pytest.raises(TargetTouched, match="gone"):
        truth([], anchor(1, 1))


def test_what_was_looked_at_when_the_step_was_planned_is_not_judged_again() -> None:
    """The one who planned on version 2 had confirmed everything up to it."""
    assert truth([foreign(2), commit(3, 5)], anchor(4, 2)).state == state(5)


# Logs that were cleaned


def test_a_cleaned_log_still_tells_while_the_last_commit_is_there() -> None:
    assert truth([commit(7, 5), optimize(8)]).state == state(5)
    assert truth([optimize(7), commit(8, 5, planned_on=6)]).state == state(5)


def test_a_log_without_any_state_leaves_the_copy() -> None:
    confirmed = truth([optimize(8), optimize(9)], anchor(5, 7))
    assert confirmed == Truth(state(5), 9, "", state_is_not_last_commit=True)


@pytest.mark.parametrize(
    ("log", "known"),
    [
        ([optimize(8)], None),
        ([optimize(8)], anchor(5, 7, OTHERS)),
        ([optimize(9)], anchor(5, 7)),
        ([commit(9, 5, planned_on=6)], None),
        ([commit(9, 5, planned_on=6)], anchor(4, 6)),
        ([CREATED, commit(1, 1), optimize(3)], None),
    ],
)
def test_a_gap_in_what_must_be_checked_loses_the_state(log: list[Entry], known: Anchor | None) -> None:
    with pytest.raises(StateLost) as caught:
        truth(log, known)
    assert "RESYNC" in caught.value.hint


def test_the_copy_of_another_generation_is_no_copy() -> None:
    """After RESYNC the store may still hold the copy of the generation before."""
    assert truth([CREATED], anchor(9, 30, OTHERS)).state == initial(1)
    assert truth([CREATED, commit(1, 1)], anchor(9, 30, OTHERS)).state == state(1)


# Counts


def _expecting(expected: Counts, counts: Counts) -> Entry:
    payload = Payload(state(1), OURS, "commit 1", 0, expected)
    return Entry(1, Effect.WRITE, payload, counts)


@pytest.mark.parametrize("counts", [Counts(1, 3, 1), Counts(1, 2, 2), Counts(0, 4, 0), Counts(0, 2, 1)])
def test_a_change_that_met_several_rows_names_the_key(counts: Counts) -> None:
    with pytest.raises(KeyNotUnique, match="Expected"):
        truth([CREATED, _expecting(Counts(1, 2, 1), counts)])


@pytest.mark.parametrize("counts", [Counts(2, 2, 1), Counts(1, 1, 1), Counts(0, 0, 0), Counts(2, 1, 2)])
def test_other_wrong_counts_are_a_bug(counts: Counts) -> None:
    with pytest.raises(Bug):
        truth([CREATED, _expecting(Counts(1, 2, 1), counts)])


def test_right_counts_pass() -> None:
    assert truth([CREATED, _expecting(Counts(1, 2, 1), Counts(1, 2, 1))]).state == state(1)


# Properties


@st.composite
def own_logs(draw: st.DrawFn) -> tuple[list[Entry], int]:
    """A log of our commits and harmless ones, and the last step in it. Some were planned before the harmless ones."""
    log, step, seen = [CREATED], 0, 0
    for version in range(1, draw(st.integers(1, 12))):
        if draw(st.booleans()):
            log.append(optimize(version))
        else:
            step += 1
            log.append(commit(version, step, planned_on=draw(st.integers(seen, version - 1))))
            seen = version
    return log, step


@given(own_logs())
def test_of_our_own_log_the_last_step_is_true(made: tuple[list[Entry], int]) -> None:
    log, step = made
    confirmed = truth(log)
    assert confirmed.state.step == step
    assert confirmed.checked == log[-1].version
    assert confirmed.state_is_not_last_commit == (step > 0 and log[-1].effect is Effect.NONE)


@given(own_logs(), st.data())
def test_any_moment_to_copy_and_any_cleaning_tell_the_same_or_stop(
    made: tuple[list[Entry], int], data: st.DataObject
) -> None:
    log, step = made
    copied = truth(log[: data.draw(st.integers(1, len(log)))]).anchor(OURS)
    left = log[data.draw(st.integers(0, len(log) - 1)) :]
    try:
        confirmed = truth(left, copied)
    except StateLost:
        assert left[0].version > copied.checked + 1 or copied.state.step < step
        return
    assert (confirmed.state.step, confirmed.checked) == (step, log[-1].version)


@given(own_logs(), st.data())
def test_a_stranger_after_what_was_checked_never_passes(made: tuple[list[Entry], int], data: st.DataObject) -> None:
    log, _ = made
    confirmed = truth(log)
    after = [*log, *(optimize(log[-1].version + 1 + more) for more in range(data.draw(st.integers(0, 2))))]
    touched = [*after, foreign(after[-1].version + 1)]
    planned_before = commit(touched[-1].version + 1, confirmed.state.step + 1, planned_on=confirmed.checked)
    for seen in (touched, [*touched, planned_before]):
        for known in (None, confirmed.anchor(OURS)):
            with pytest.raises(TargetTouched):
                truth(seen, known)


# JSON


def test_payload_and_anchor_come_back() -> None:
    for expected in (None, Counts(1, 2, 3)):
        payload = Payload(state(3), OURS, "commit", 7, expected)
        assert payload_from_json(json.loads(json.dumps(payload_to_json(payload)))) == payload
    assert anchor_from_json(json.loads(json.dumps(anchor_to_json(anchor(3, 8))))) == anchor(3, 8)


@pytest.mark.parametrize("damage", [None, "x", [], 2.5, {"form": 1}, [1, 2], [1, 2, "3"]], ids=repr)
@pytest.mark.parametrize("name", ["state", "generation_uuid", "commit_uuid", "planned_on", "expected", "checked"])
def test_damaged_payloads_and_anchors_are_named(name: str, damage: Any) -> None:
    for read, whole in (
        (payload_from_json, payload_to_json(Payload(state(3), OURS, "commit", 7, Counts()))),
        (anchor_from_json, anchor_to_json(anchor(3, 8))),
    ):
        fits = (name, damage) in (("expected", None), ("generation_uuid", "x"), ("commit_uuid", "x"))
        if name in whole and not fits:
            with pytest.raises(StateUnreadable):
                read({**whole, name: damage})
            with pytest.raises(StateUnreadable):
                read({other: whole[other] for other in whole if other != name})
    for read in (payload_from_json, anchor_from_json):
        with pytest.raises(StateUnreadable):
            read(damage)
