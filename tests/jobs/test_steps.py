"""The history of steps: what is kept of it, and its JSON."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.errors import StoreUnreadable
from tidefill.jobs import steps
from tidefill.jobs.row import Doing
from tidefill.jobs.steps import Did, DoneStep, done_step, step_from_text, step_to_text, thinned
from tidefill.testing.conformance.store.steps import STEP

KEPT = 8


@given(st.integers(0, 400), st.integers(1, 20))
def test_the_newest_stay_and_older_ones_are_thinned(count: int, every: int) -> None:
    with patch.object(steps, "STEPS_KEPT", KEPT):
        numbers = list[int]()
        for number in range(count):
            numbers.append(number)
            if number % every == 0:
                numbers = [each for each in numbers if each not in set(thinned(numbers))]
            assert len(numbers) <= 2 * KEPT + every
        newest = list(range(max(0, count - KEPT), count))
        assert numbers[len(numbers) - len(newest) :] == newest


def test_old_steps_are_further_apart_the_older_they_are() -> None:
    with patch.object(steps, "STEPS_KEPT", KEPT):
        numbers = list[int]()
        for number in range(500):
            numbers.append(number)
            numbers = [each for each in numbers if each not in set(thinned(numbers))]
    assert numbers[1] - numbers[0] > numbers[6] - numbers[5]


def test_few_steps_are_all_kept() -> None:
    assert thinned(range(2 * steps.STEPS_KEPT)) == []
    assert len(thinned(range(2 * steps.STEPS_KEPT + 1))) == steps.STEPS_KEPT // 2 + 1


def test_json() -> None:
    assert step_from_text(step_to_text(STEP)) == STEP
    least = DoneStep("fill", 0.0, 0.0)
    assert step_from_text(step_to_text(least)) == least
    assert step_from_text('{"kind": "fill", "began_s": 1, "took_s": 2, "later": 3}') == DoneStep("fill", 1, 2)
    zero = replace(least, rows_in=0, lag_s=0.0)
    assert step_from_text(step_to_text(zero)) == zero, "none and not known are two things"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": 1}', '{"kind": "x", "began_s": 1, "took_s": 1, "versions": 1}']
)
def test_what_is_no_step(text: str) -> None:
    with pytest.raises(StoreUnreadable):
        step_from_text(text)


def test_a_step_at_its_end() -> None:
    doing = Doing("fill", 10.0, 2, 30, "[[null, [1]]]")
    step = done_step(doing, 12.5, 4, Did({"commit": 2.0}, 30, 29, {"t": (1, 2)}))
    assert step == DoneStep(
        "fill", 10.0, 2.5, 4, {"commit": 2.0}, 30, 29, {"t": (1, 2)}, chunks=2, ranges="[[null, [1]]]"
    )
    assert step.ended_s == 12.5
    assert done_step(doing, 9.0, 4, Did()).took_s == 0.0, "a clock that was set back"
    assert done_step(replace(doing, ranges="x" * 2001), 11.0, 4, Did()).ranges == "", "a key may hold a page of text"
