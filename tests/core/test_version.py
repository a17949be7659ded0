"""Versions, against the naive model of a snapshot: the set of the transactions it sees."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.core.version import (
    Number,
    Offsets,
    Snapshot,
    Version,
    lies_between,
    newer,
    version_from_json,
    version_to_json,
)
from tidefill.errors import StateUnreadable

XIDS = range(1, 24)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """As the server takes them: xmin is the oldest that runs, or xmax."""
    xmax = draw(st.integers(1, 20))
    running = frozenset(draw(st.sets(st.integers(1, xmax - 1), max_size=4))) if xmax > 1 else frozenset()
    return Snapshot(min(running, default=xmax), xmax, running)


def seen(snapshot: Snapshot) -> set[int]:
    """Everything that had begun and did not run any more."""
    return set(range(1, snapshot.xmax)) - snapshot.xip


def test_a_snapshot_is_a_set_of_transactions() -> None:
    snapshot = Snapshot(10, 15, frozenset({10, 12}))
    assert [xid for xid in range(8, 17) if snapshot.sees(xid)] == [8, 9, 11, 13, 14]


def test_snapshots_are_ordered_by_inclusion_only() -> None:
    older, newer_one = Snapshot(10, 15, frozenset({10, 12})), Snapshot(12, 15, frozenset({12}))
    assert newer_one.includes(older)
    assert not older.includes(newer_one)
    # Each saw a transaction end that the other did not: two standbys may show such a pair, one server never.
    apart = Snapshot(10, 15, frozenset({10}))
    assert not apart.includes(newer_one)
    assert not newer_one.includes(apart)


def test_a_long_transaction_does_not_hide_the_ones_behind_it() -> None:
    before, after = Snapshot(5, 5), Snapshot(5, 9, frozenset({5}))
    assert after.includes(before)
    assert [xid for xid in range(1, 12) if lies_between(xid, before, after)] == [6, 7, 8]


def test_a_polled_head_may_be_old() -> None:
    at = {number: Version("t", Number(number)) for number in (4, 5, 6)}
    assert newer(at[6], at[5])
    assert not newer(at[5], at[5])
    assert not newer(at[4], at[5])


def test_what_an_upstream_carries_makes_no_other_version() -> None:
    assert Version("t", Number(1), "here") == Version("t", Number(1), "there")


def test_two_kinds_of_versions_are_never_compared() -> None:
    with pytest.raises(AssertionError):
        Number(1).includes(Snapshot(1, 1))


@given(snapshots())
def test_sees_is_the_model(snapshot: Snapshot) -> None:
    assert {xid for xid in XIDS if snapshot.sees(xid)} == seen(snapshot)


@given(snapshots(), snapshots())
def test_includes_is_the_subset_relation(one: Snapshot, two: Snapshot) -> None:
    assert one.includes(two) == (seen(one) >= seen(two))


@given(snapshots(), snapshots())
def test_lies_between_is_the_difference(one: Snapshot, two: Snapshot) -> None:
    assert {xid for xid in XIDS if lies_between(xid, one, two)} == seen(two) - seen(one)


@given(snapshots(), snapshots())
def test_newer_never_loses_anything(one: Snapshot, two: Snapshot) -> None:
    if newer(Version("t", one), Version("t", two)):
        assert seen(one) >= seen(two)
        assert one != two


@given(snapshots(), snapshots(), snapshots())
def test_changes_add_up(first: Snapshot, second: Snapshot, third: Snapshot) -> None:
    """Going from version to version tells every transaction exactly once."""
    if second.includes(first) and third.includes(second):
        parts = [xid for a, b in ((first, second), (second, third)) for xid in XIDS if lies_between(xid, a, b)]
        assert sorted(parts) == [xid for xid in XIDS if lies_between(xid, first, third)]


@given(st.one_of(st.integers(0, 2**63).map(Number), snapshots()), st.text(max_size=5), st.text(max_size=5))
def test_json_keeps_a_version(point: Number | Snapshot, identity: str, carry: str) -> None:
    version = Version(identity, point, carry)
    again = version_from_json(json.loads(json.dumps(version_to_json(version))))
    assert again == version
    assert again.carry == carry


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"identity": "t"},
        {"identity": 1, "number": 1},
        {"identity": "t", "number": "1"},
        {"identity": "t", "number": 1, "carry": 5},
        {"identity": "t", "snapshot": [1, 2]},
        {"identity": "t", "snapshot": [1, 2, 3]},
        {"identity": "t", "snapshot": [1, 5, [[1]]]},
        {"identity": "t", "snapshot": [1, 5, ["2"]]},
        {"identity": "t", "snapshot": [5, 1, []]},
        {"identity": "t", "snapshot": [3, 5, [2]]},
        {"identity": "t", "snapshot": [3, 5, [5]]},
    ],
    ids=repr,
)
def test_a_damaged_version_is_named(data: Any) -> None:
    with pytest.raises(StateUnreadable):
        version_from_json(data)


def test_a_point_says_how_far_a_head_is_ahead_of_it() -> None:
    assert (Number(3).lag_to(Number(7)), Number(7).lag_to(Number(3))) == (4, 0)
    assert Snapshot(1, 1).lag_to(Snapshot(5, 5)) is None, "nobody counts transactions that were not logged"
    assert (Number(3).ordinal, Snapshot(1, 1).ordinal) == (3, None)


def offsets(**by_partition: int) -> Offsets:
    return Offsets.of({int(name[1:]): offset for name, offset in by_partition.items()})


def test_a_partition_that_is_missing_has_the_offset_0() -> None:
    assert offsets(p0=3, p1=0) == offsets(p0=3)
    assert offsets(p0=3).at(7) == 0
    assert offsets(p0=3).includes(offsets(p1=0))
    assert not offsets(p0=3).includes(offsets(p1=1))


def test_offsets_are_compared_by_partition() -> None:
    assert offsets(p0=3, p1=4).includes(offsets(p0=3))
    assert not offsets(p0=9, p1=3).includes(offsets(p1=4))
    assert newer(Version("t", offsets(p0=3, p1=1)), Version("t", offsets(p0=3)))
    assert not newer(Version("t", offsets(p0=2, p1=9)), Version("t", offsets(p0=3)))
    assert not newer(Version("t", offsets(p0=3, p1=0)), Version("t", offsets(p0=3)))


def test_the_lag_of_offsets_is_in_messages() -> None:
    assert offsets(p0=3).lag_to(offsets(p0=10, p1=5)) == 12
    assert offsets(p0=10).lag_to(offsets(p0=3, p1=2)) == 2


def test_the_greater_offset_of_each_partition() -> None:
    assert offsets(p0=3, p2=1).joined(offsets(p0=1, p1=4)) == offsets(p0=3, p1=4, p2=1)


def test_offsets_as_json() -> None:
    version = Version("cluster/topic", offsets(p0=3, p12=1 << 40), carry='{"epochs": {"0": 5}}')
    again = version_from_json(json.loads(json.dumps(version_to_json(version))))
    assert (again, again.carry) == (version, version.carry)
    assert version_to_json(version)["offsets"] == {"0": 3, "12": 1 << 40}


@pytest.mark.parametrize("damaged", [{"0": -1}, {"x": 1}, {"0": "1"}, {"0": True}, {"-1": 1}, [1]])
def test_damaged_offsets(damaged: object) -> None:
    with pytest.raises(StateUnreadable):
        version_from_json({"identity": "t", "offsets": damaged})


@given(
    st.dictionaries(st.integers(0, 3), st.integers(0, 5)),
    st.dictionaries(st.integers(0, 3), st.integers(0, 5)),
)
def test_offsets_include_what_their_messages_include(one: dict[int, int], other: dict[int, int]) -> None:
    def messages(ends: dict[int, int]) -> set[tuple[int, int]]:
        return {(partition, offset) for partition, end in ends.items() for offset in range(end)}

    first, second = Offsets.of(one), Offsets.of(other)
    assert first.includes(second) == (messages(one) >= messages(other))
    assert (first == second) == (messages(one) == messages(other))
    assert first.lag_to(second) == len(messages(other) - messages(one))
    assert first.joined(second).includes(first)
    assert messages(first.joined(second).by_partition) == messages(one) | messages(other)
