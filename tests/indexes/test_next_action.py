"""What a runner does next with an index, from one look: properties over every look there can be."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.indexes.control import Control
from tidefill.indexes.next_action import (
    LOCK_TRIES,
    Advance,
    BuildKey,
    CutOver,
    Drain,
    FillChunk,
    Held,
    Install,
    Look,
    Merge,
    Ready,
    Validate,
    next_action,
)
from tidefill.indexes.states import FIRST, STATES, Body, Method, State

MOST = 5

BODIES = {
    State.LOGGING: [Body.LOGGING_1],
    State.DELETE_ONLY: [Body.DELETE_ONLY],
    State.WRITE_AND_DELETE: [Body.WRITE_AND_DELETE],
    State.MERGING: [Body.LOGGING_1, Body.LOGGING_2],
    State.DRAINING: [Body.DRAIN],
    State.VALIDATING: [Body.READ_WRITE_AND_DELETE, Body.DRAIN, Body.WRITE_AND_DELETE],
    State.READ_WRITE_AND_DELETE: [Body.READ_WRITE_AND_DELETE],
    State.ABSENT: [Body.ABSENT],
}
FILLING = {Method.BULK: [Body.LOGGING_1], Method.INITPUT: [Body.WRITE_AND_DELETE]}


@st.composite
def controls(draw: st.DrawFn) -> Control:
    method, state = draw(st.sampled_from(Method)), draw(st.sampled_from(State))
    body = draw(st.sampled_from(FILLING[method] if state is State.BACKFILLING else BODIES[state]))
    return Control(state, body, 1, 1, method)


counts = st.integers(0, MOST + 1)
looks = st.builds(
    Look, controls(), st.booleans(), st.booleans(), st.tuples(counts, counts), st.just(MOST), st.booleans(),
    st.integers(0, LOCK_TRIES + 1), st.booleans(),
)  # fmt: skip


@given(looks)
def test_while_a_barrier_holds_nothing_changes_the_state(look: Look) -> None:
    found = next_action(replace(look, held=True))
    assert look.control is not None
    if look.control.state is State.BACKFILLING:  # its body is that of the state before, whose barrier has passed
        return
    assert isinstance(found, Held) or (isinstance(found, Merge) and look.control.state is State.MERGING)


@given(looks)
def test_the_log_that_is_written_is_never_merged(look: Look) -> None:
    found = next_action(look)
    if isinstance(found, Merge):
        assert look.control is not None
        assert look.control.state is State.MERGING, "not before the last chunk is loaded and the key is built"
        assert found.log != look.control.body.log


@given(looks)
def test_a_cut_over_has_little_to_merge(look: Look) -> None:
    if isinstance(next_action(look), CutOver):
        assert sum(look.logged) <= MOST
        assert look.tries < LOCK_TRIES


@given(looks)
def test_the_log_is_empty_before_the_index_is_validated(look: Look) -> None:
    found = next_action(look)
    if isinstance(found, Advance) and found.state is State.VALIDATING:
        assert not any(look.logged)


@given(looks)
def test_a_change_of_state_is_one_step_ahead(look: Look) -> None:
    """At any time writers run at most two adjacent bodies."""
    found, control = next_action(look), look.control
    if not isinstance(found, Advance):
        return
    assert control is not None
    if found.state is control.state:
        assert {control.body, found.body} == {Body.LOGGING_1, Body.LOGGING_2}
    elif control.state in (State.MERGING, State.DRAINING):
        assert found.state in (State.DRAINING, State.VALIDATING)
    else:
        states = STATES[Method.BULK] if control.state is State.LOGGING else STATES[Method.INITPUT]
        assert states.index(found.state) == states.index(control.state) + 1


@pytest.mark.parametrize("method", list(Method))
def test_a_quiet_build_goes_through_all_states(method: Method) -> None:
    assert next_action(Look(None)) == Install()
    state, body = FIRST[method]
    control, filled, seen = Control(state, body, 1, 1, method), False, [state]
    for _ in range(20):
        match next_action(Look(control, is_filled=filled, log_rows_max=MOST)):
            case Advance(state, body):
                control = replace(control, state=state, body=body)
            case FillChunk():
                filled = True
            case BuildKey():
                control = replace(control, state=State.MERGING)
            case CutOver():
                control = replace(control, state=State.VALIDATING, body=Body.READ_WRITE_AND_DELETE)
            case Validate():
                control = replace(control, state=State.READ_WRITE_AND_DELETE, body=Body.READ_WRITE_AND_DELETE)
            case Ready():
                break
            case other:
                raise AssertionError(other)
        if control.state is not seen[-1]:
            seen.append(control.state)
    assert tuple(seen) == STATES[method]


def test_without_the_lock_the_log_is_drained_under_row_locks() -> None:
    merging = Control(State.MERGING, Body.LOGGING_1, 1, 1, Method.BULK)
    look = Look(merging, is_filled=True, log_rows_max=MOST, tries=LOCK_TRIES)
    assert next_action(look) == Advance(State.DRAINING, Body.DRAIN)
    draining = Look(replace(merging, state=State.DRAINING, body=Body.DRAIN), logged=(0, 1))
    assert next_action(draining) == Drain()
    assert next_action(replace(draining, logged=(0, 0))) == Advance(State.VALIDATING, Body.DRAIN)
