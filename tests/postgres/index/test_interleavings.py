"""Three sessions and a runner step through an index on a real server, one schedule after the other: it is complete, has
no orphan, is unique, and every writer that was refused was refused rightly. `interleavings.py` has the schedules,
`stage.py` plays and judges them."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

from tests.postgres.harness import Postgres
from tests.postgres.index.interleavings import LEVELS, RUNNER_STEPS, SESSIONS, count, drawn, word, words
from tests.postgres.index.stage import Stage, checked
from tidefill.indexes import bodies
from tidefill.postgres.index.machine import IndexMachine
from tidefill.postgres.index.session import LOCKING

IN_TEST = range(100)
IN_FULL = [range(first, first + 100) for first in range(100, 2100, 100)]
FRESH = 10_000


@pytest.fixture(scope="module")
def stage(postgres: Postgres) -> Iterator[Stage]:
    made = Stage(postgres.server.url())
    yield made
    made.close()


def all_right(stage: Stage, seeds: range) -> None:
    stage.told.clear()
    print(f"{len(seeds)} of {count():,} schedules, seeds {seeds[0]} to {seeds[-1]}")
    for seed in seeds:
        checked(stage, seed)
    print(dict(stage.told))


def test_a_hundred_interleavings(stage: Stage) -> None:  # Y1, Y2
    all_right(stage, IN_TEST)
    for kind in ("duplicate", "duplicates", "deadlock", "runner Publish", *(f"40001 {level}" for level in LEVELS[1:])):
        assert stage.told[kind], f"no schedule led to {kind!r}"


@pytest.mark.full
@pytest.mark.parametrize("seeds", IN_FULL, ids=lambda seeds: f"from {seeds[0]}")
def test_two_thousand_interleavings(stage: Stage, seeds: range) -> None:
    all_right(stage, seeds)


@pytest.mark.soak
def test_fresh_interleavings(stage: Stage) -> None:
    first = secrets.randbelow(10**12)
    all_right(stage, range(first, first + FRESH))


def _without_a_look_at_the_base(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bodies, "unless_still_there", lambda shape: "")


def _with_bare_deletes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(bodies, "_removal", lambda shape, body: bodies.bare_delete(shape))


def _without_a_barrier(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(IndexMachine, "_held", lambda self, control: [])


def _with_an_old_snapshot_at_the_cut_over(patch: pytest.MonkeyPatch) -> None:
    """The lock of the table has to be waited for until a writer commits, however slow the machine is."""
    patch.setitem(LOCKING, "default_transaction_isolation", "repeatable read")
    patch.setitem(LOCKING, "statement_timeout", "20s")
    patch.setattr("tests.postgres.index.stage.LOCK_MS", 20_000)


PLANTED = [
    (_without_a_look_at_the_base, 10),
    (_with_bare_deletes, 22),
    (_without_a_barrier, 27),
    (_with_an_old_snapshot_at_the_cut_over, 51),
]
"""Faults, each with the first seed that finds it."""


@pytest.mark.parametrize(("plant", "seed"), PLANTED, ids=lambda one: getattr(one, "__name__", ""))
def test_a_planted_fault_is_found(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, plant: Callable[[pytest.MonkeyPatch], None], seed: int
) -> None:
    checked(stage, seed)
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=f"(missing|orphan)[^$]*Seed {seed}: [^$]*History:"):
        checked(stage, seed)


def test_words_are_counted_once() -> None:
    """Sessions are called by the order of their first steps; a snapshot comes after what it sees differently."""
    kinds = ((True, True), (False, True), (False, False))
    some = [word(kinds, number) for number in range(0, words(kinds), words(kinds) // 500)]
    assert len(set(some)) == len(some)
    for one in some:
        assert "".join(sorted(SESSIONS, key=one.index)) == SESSIONS
        assert [one.count(letter) for letter in "ABCR"] == [4, 3, 3, RUNNER_STEPS]
        before = one[: one.index("A")]
        assert set(before) <= {"R"}
    assert drawn(7) == drawn(7) != drawn(8)
