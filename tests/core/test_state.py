"""The state in a commit: it comes back as it was, and what is damaged or newer is named, never guessed."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core import walk
from tidefill.core.keys import TOP, Key, Timestamp
from tidefill.core.state import FORM, JobState, initial, state_from_json, state_to_json
from tidefill.core.version import Number, Snapshot, Version
from tidefill.core.walk import DONE, Coverage, Split, Upto, flaw, start, whole
from tidefill.errors import StateUnreadable

VALID = JobState(
    generation=2,
    step=17,
    versions={"orders": Version("a-b", Number(5)), "users": Version("c:d", Snapshot(7, 9, frozenset({7})), "0/1A")},
    coverage={
        "orders": (
            Split(None, Key((Timestamp(5), "b")), Upto(Key((Timestamp(3), TOP)))),
            Split(Key((Timestamp(5), "b")), None, DONE),
        ),
        "users": whole(),
    },
    rows_filled=12_345,
)
JUNK: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    2.5,
    "",
    "done",
    "x",
    [],
    {},
    [[]],
    [["int", 1]],
    [["text", "a"]],
    {"identity": "t"},
)


@st.composite
def states(draw: st.DrawFn) -> JobState:
    versions = st.one_of(st.integers(0, 9).map(Number), st.integers(1, 9).map(lambda xmin: Snapshot(xmin, 9)))
    return JobState(
        generation=draw(st.integers(1, 5)),
        step=draw(st.integers(1, 10**9)),
        versions=draw(
            st.dictionaries(st.text(max_size=4), versions.map(lambda point: Version("t", point)), max_size=3)
        ),
        coverage=draw(st.dictionaries(st.text(max_size=4), _coverages(), max_size=3)),
        rows_filled=draw(st.integers(0, 10**12)),
    )


@st.composite
def _coverages(draw: st.DrawFn) -> Coverage:
    greatest = draw(st.one_of(st.none(), st.integers(1, 50)))
    coverage = start(walk.above(None if greatest is None else Key((greatest, TOP))))
    if greatest is not None and draw(st.booleans()):
        coverage = (Split(None, coverage[0].upto, Upto(Key((draw(st.integers(0, greatest - 1)),)))), coverage[1])
    assert flaw(coverage) is None
    return coverage


def through_json(state: JobState) -> JobState:
    return state_from_json(json.loads(json.dumps(state_to_json(state))))


def test_the_state_comes_back_as_it_was() -> None:
    again = through_json(VALID)
    assert again == VALID
    assert again.versions["users"].carry == "0/1A"


def test_before_the_first_step_nothing_is_finished() -> None:
    state = initial(3)
    assert (state.generation, state.step, state.finished()) == (3, 0, False)
    assert through_json(state) == state


def test_finished_is_when_every_occurrence_is() -> None:
    assert not VALID.finished()
    assert JobState(1, 1, {}, {"a": whole(), "b": whole()}).finished()


def test_a_newer_form_asks_for_the_newer_release() -> None:
    with pytest.raises(StateUnreadable) as caught:
        state_from_json({**state_to_json(VALID), "form": FORM + 1})
    assert "newer release" in caught.value.hint


def test_a_newer_form_may_look_altogether_different() -> None:
    with pytest.raises(StateUnreadable, match="newer release"):
        state_from_json({"form": FORM + 9, "splits": "elsewhere"})


def test_keys_of_two_kinds_in_one_walk_are_damage() -> None:
    data = state_to_json(VALID)
    data["coverage"]["orders"] = [
        [None, [["int", 1]], "done"],
        [[["int", 1]], [["text", "a"]], "done"],
        [[["text", "a"]], None, "done"],
    ]
    with pytest.raises(StateUnreadable):
        state_from_json(data)


@pytest.mark.parametrize("data", [None, [], "state", 5, {}, {"form": 0}, {"form": "1"}, {"form": 1}], ids=repr)
def test_what_is_no_state_is_named(data: Any) -> None:
    with pytest.raises(StateUnreadable):
        state_from_json(data)


@given(states())
def test_every_state_comes_back(state: JobState) -> None:
    assert through_json(state) == state


@given(st.data())
def test_damage_is_named_or_harmless(data: st.DataObject) -> None:
    """Whatever part is lost or replaced: a state that could be one, or StateUnreadable; never another error."""
    damaged = copy.deepcopy(state_to_json(VALID))
    for _ in range(data.draw(st.integers(1, 2))):
        _damage(damaged, data)
    try:
        state = state_from_json(json.loads(json.dumps(damaged)))
    except StateUnreadable:
        return
    assert all(flaw(coverage) is None for coverage in state.coverage.values())
    assert through_json(state) == state


def _damage(root: Any, data: st.DataObject) -> None:
    places = list(_places(root))
    if places:
        holder, place = data.draw(st.sampled_from(places))
        if data.draw(st.booleans()):
            del holder[place]
        else:
            holder[place] = copy.deepcopy(data.draw(st.sampled_from(JUNK)))


def _places(node: Any) -> list[tuple[Any, Any]]:
    """Every place in the document: what holds it, and its key or index there."""
    names: list[Any] = (
        list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    )
    return [(node, name) for name in names] + [place for name in names for place in _places(node[name])]
