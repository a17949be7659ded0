"""Tests of what a user sees: differences from a query, and the published table."""

from __future__ import annotations

from collections.abc import Sequence

from tidefill.core.confirm import NO_TABLE, Payload
from tidefill.core.keys import Key
from tidefill.core.state import JobState
from tidefill.core.walk import Range
from tidefill.ports.frames import Append, Compared, Merge
from tidefill.testing.conformance.target.checks import (
    THEIRS,
    assert_same,
    commit,
    confirmed,
    filled,
    last_entry,
    row,
    state_at,
)
from tidefill.testing.conformance.target.harness import F, Row, TargetHarness, TargetTest


def differences_are_named(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1), row(2, None), row(70001), row(70002, 5)])
    equal = [row(70002, 5), row(70001), row(2, None), row(1)]
    assert _differences(harness, equal) == []
    found = _differences(harness, [row(1), row(2, None), row(70002, 6), row(80003)])
    assert all(any(name in text for text in found) for name in ("70001", "70002", "80003")), found
    assert _differences(harness, [*equal, row(1)]), "a row is there once, not twice"
    assert _differences(harness, [row(1), row(2, 0), *equal[:2]]), "NULL is no value"
    assert 1 <= len(_differences(harness, [row(number) for number in range(100, 140)])) <= 10


def differences_but_for_some_keys(harness: TargetHarness[F]) -> None:
    target = filled(harness, [row(1), row(2, None), row(3)])
    version = last_entry(harness).version
    wanted = harness.frame([row(1), row(2, 7), row(4)])
    assert target.compare(wanted, version, harness.keys([2, 3, 4])) == Compared(1)
    assert target.compare(wanted, version, harness.keys([2, 3])).differences, "4 is missing"
    assert target.compare(wanted, version).differences


def differences_within_a_range(harness: TargetHarness[F]) -> None:
    target = filled(harness, [row(number) for number in range(1, 7)])
    version = last_entry(harness).version

    def compared(ids: Sequence[int], after: int | None, upto: int | None, but: Sequence[int] = ()) -> Compared:
        within = Range(*(None if end is None else Key((end,)) for end in (after, upto)))
        keys = harness.keys(list(but)) if but else None
        return target.compare(harness.frame([row(number) for number in ids]), version, keys, [within])

    assert compared([1, 2], None, 2) == Compared(2)
    assert compared([3, 4], 2, 4) == Compared(2)
    assert compared([5, 6], 4, None) == Compared(2)
    assert compared([], 6, None) == Compared(0)
    assert compared([3], 2, 4).differences, "4 is there and should not be"
    assert compared([3, 4], 2, 5).differences, "so is 5"
    assert compared([3, 4], 2, 5, but=[5]) == Compared(2)


def differences_have_their_version(harness: TargetHarness[F]) -> None:
    """Another runner may have committed since."""
    target = filled(harness, [row(1)])
    old = last_entry(harness).version
    commit(harness, Merge(harness.marked([("U", 1, row(1, 5)), ("I", 2, row(2))]), exact=True), 2)
    assert target.compare(harness.frame([row(1)]), old) == Compared(1)
    assert target.compare(harness.frame([row(1, 5), row(2)]), old).differences
    assert _differences(harness, [row(1, 5), row(2)]) == []


def nothing_is_shown_before_it_is_published(harness: TargetHarness[F]) -> None:
    target = filled(harness, [row(1)])
    assert harness.shown() is None
    target.publish()
    target.publish()
    assert harness.shown() == [row(1)]
    commit(harness, Append(harness.frame([row(2)])), 2)
    assert_same(harness.shown() or [], [row(1), row(2)])


def the_next_generation_takes_the_name_over(harness: TargetHarness[F]) -> None:
    filled(harness, [row(1)]).publish()
    following = harness.target(2)
    following.prepare()
    assert list(following.log()) == []
    assert not set(following.resources) & set(harness.target(1).resources), "each has its own"
    payload = Payload(JobState(2, 1, {}, {}), THEIRS, "commit", NO_TABLE)
    following.commit(Append(harness.frame([row(5)])), payload)
    assert harness.shown() == [row(1)], "not before it is published"
    following.publish()
    assert harness.shown() == [row(5)]
    assert harness.rows(1) == [row(1)], "the old one is left alone"
    assert confirmed(harness).state == state_at(1)


def _differences(harness: TargetHarness[F], expected: Sequence[Row]) -> list[str]:
    compared = harness.target().compare(harness.frame(expected), last_entry(harness).version)
    assert compared.rows == len(expected)
    return list(compared.differences)


SHOWN: tuple[TargetTest, ...] = (
    differences_are_named,
    differences_but_for_some_keys,
    differences_within_a_range,
    differences_have_their_version,
    nothing_is_shown_before_it_is_published,
    the_next_generation_takes_the_name_over,
)
