"""Net changes and how they are judged, against a replay on a dict."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.keys import Key
from tidefill.core.walk import Range, Split, Upto, above, covers, start, union
from tidefill.errors import KeyNotUnique
from tidefill.testing.memory.changes import judge, judge_by_key, net

Row = tuple[int, int]
Change = tuple[int, Row]
HALF = (Split(None, Key((10,)), Upto(Key((5,)))), Split(Key((10,)), None))


def key_of(row: Row) -> int:
    return row[0]


def walk_key(row: Row | None) -> Key | None:
    return None if row is None else Key((row[1],))


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[int, Row], dict[int, Row], list[Change]]:
    """A table before and after some writes, and the feed of them."""
    values = st.integers(0, 12)
    before = {key: (key, value) for key, value in draw(st.dictionaries(st.integers(0, 4), values)).items()}
    after, feed = dict(before), list[Change]()
    for key, value in draw(st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), values)), max_size=12)):
        if key in after:
            feed.append((-1, after.pop(key)))
        if value is not None:
            after[key] = (key, value)
            feed.append((+1, after[key]))
    return before, after, feed


# R2
def test_only_the_net_effect_counts() -> None:
    old, middle, new = (1, 10), (1, 20), (1, 30)
    assert net([(-1, old), (+1, middle), (-1, middle), (+1, new)], key_of) == {1: (old, new)}, "two updates"
    assert net([(+1, old), (-1, old)], key_of) == {}, "insert, then delete"
    assert net([(-1, old), (+1, old)], key_of) == {}, "delete, then insert of the same row"
    assert net([(-1, old), (+1, new)], key_of) == {1: (old, new)}, "delete, then insert of the same key"
    assert net([(-1, old), (+1, middle), (-1, middle), (+1, old)], key_of) == {}, "there and back"


# R3
def test_an_update_across_the_position_is_two_halves() -> None:
    inside, outside, elsewhere_inside = Key((3,)), Key((7,)), Key((5,))
    assert judge(inside, outside, HALF) == (True, False), "it leaves the covered part; its fill comes later"
    assert judge(outside, inside, HALF) == (False, True), "it enters the covered part; its fill has passed"
    assert judge(inside, elsewhere_inside, HALF) == (True, True)
    assert judge(outside, Key((9,)), HALF) == (False, False), "the fill that reaches it reads a later version"
    assert judge(None, inside, HALF) == (False, True)
    assert judge(inside, None, HALF) == (True, False)


def test_where_only_keys_are_known_removing_needs_no_place() -> None:
    assert judge_by_key(Key((3,)), HALF) == (True, True)
    assert judge_by_key(Key((7,)), HALF) == (True, False)
    assert judge_by_key(None, HALF) == (True, False)


@pytest.mark.parametrize(
    "feed",
    [
        [(+1, (1, 10)), (+1, (1, 20))],
        [(-1, (1, 10)), (-1, (1, 20))],
        [(+1, (1, 10)), (+1, (1, 10))],
        [(-1, (1, 10)), (-1, (1, 10))],
    ],
)
def test_a_key_that_is_there_twice_is_named(feed: list[Change]) -> None:
    with pytest.raises(KeyNotUnique, match="1"):
        net(feed, key_of)


# R2
@given(histories(), st.randoms(use_true_random=False))
def test_net_is_the_difference_of_the_tables_in_any_order(
    history: tuple[dict[int, Row], dict[int, Row], list[Change]], chance: Random
) -> None:
    before, after, feed = history
    images = {key: (before.get(key), after.get(key)) for key in {*before, *after}}
    expected = {key: pair for key, pair in images.items() if pair[0] != pair[1]}
    assert net(feed, key_of) == expected
    chance.shuffle(feed)
    assert net(feed, key_of) == expected


# R3
@given(histories(), st.integers(-1, 12))
def test_judged_changes_keep_the_covered_part_exact(
    history: tuple[dict[int, Row], dict[int, Row], list[Change]], position: int
) -> None:
    """THE invariant for one forward: covered rows before, plus judged changes, are the covered rows after."""
    before, after, feed = history
    coverage = union(start(above(Key((12,)))), [Range(None, Key((position,)))] if 0 <= position < 12 else [])
    target = {row for row in before.values() if covers(coverage, Key((row[1],)))}
    by_key = {key: row for key, row in before.items() if row in target}
    for key, (old, new) in net(feed, key_of).items():
        removes, adds = judge(walk_key(old), walk_key(new), coverage)
        target -= {old} if removes and old else set()
        target |= {new} if adds and new else set()
        _apply_by_key(by_key, key, new, judge_by_key(walk_key(new), coverage))
    expected = {row for row in after.values() if covers(coverage, Key((row[1],)))}
    assert target == expected
    assert set(by_key.values()) == expected


def _apply_by_key(target: dict[int, Row], key: int, new: Row | None, verdict: tuple[bool, bool]) -> None:
    removes, adds = verdict
    if removes:
        target.pop(key, None)
    if adds and new is not None:
        target[key] = new
