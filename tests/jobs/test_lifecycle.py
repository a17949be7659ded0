"""The one table of states."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.errors import WrongState
from tidefill.jobs.lifecycle import TRANSITIONS, Event, Life, after

STANDING = set(Life) - {Life.CANCELLING, Life.DROPPED}


def reachable(start: Life) -> set[Life]:
    found, new = {start}, {start}
    while new:
        new = {following for (life, _), following in TRANSITIONS.items() if life in new} - found
        found |= new
    return found


def test_the_usual_life() -> None:
    life = Life.CREATED
    for event, expected in (
        (Event.START, Life.BACKFILLING),
        (Event.PAUSE, Life.PAUSED),
        (Event.RESUME_FILLING, Life.BACKFILLING),
        (Event.FILLED, Life.VERIFYING),
        (Event.VERIFIED, Life.LIVE),
        (Event.FAIL, Life.FAILED),
        (Event.RESUME_LIVE, Life.LIVE),
        (Event.RESYNC, Life.BACKFILLING),
        (Event.END, Life.CANCELLING),
        (Event.ENDED, Life.DROPPED),
    ):
        life = after(life, event)
        assert life is expected


def test_every_state_is_reached_and_nothing_leads_back_to_created() -> None:
    assert reachable(Life.CREATED) == set(Life)
    assert Life.CREATED not in TRANSITIONS.values()


def test_dropped_is_the_end_and_can_always_be_reached() -> None:
    assert reachable(Life.DROPPED) == {Life.DROPPED}
    assert reachable(Life.CANCELLING) == {Life.CANCELLING, Life.DROPPED}
    assert all(Life.DROPPED in reachable(life) for life in Life)


def test_every_standing_job_can_be_ended_or_built_anew() -> None:
    for life in STANDING:
        assert after(life, Event.END) is Life.CANCELLING
        assert after(life, Event.RESYNC) is Life.BACKFILLING


def test_live_is_reached_only_through_verifying_or_from_where_it_was_live() -> None:
    assert {key for key, following in TRANSITIONS.items() if following is Life.LIVE} == {
        (Life.VERIFYING, Event.VERIFIED),
        (Life.PAUSED, Event.RESUME_LIVE),
        (Life.FAILED, Event.RESUME_LIVE),
    }


def test_every_event_moves_something() -> None:
    assert {event for _, event in TRANSITIONS} == set(Event)


@pytest.mark.parametrize("life", Life)
@pytest.mark.parametrize("event", Event)
def test_the_table_is_complete(life: Life, event: Event) -> None:
    """Each pair has its one outcome: a state, or an error that names both."""
    if (life, event) in TRANSITIONS:
        assert after(life, event) is TRANSITIONS[life, event]
    else:
        with pytest.raises(WrongState, match=life.value):
            after(life, event)


@given(st.lists(st.sampled_from(Event), max_size=30))
def test_no_history_leaves_the_end(events: list[Event]) -> None:
    life, ended = Life.CREATED, False
    for event in events:
        if (life, event) in TRANSITIONS:
            life = after(life, event)
            ended = ended or event is Event.END
        assert (life in (Life.CANCELLING, Life.DROPPED)) == ended
