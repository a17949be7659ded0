"""The contract of `tidefill.ports.Target`, as a suite that any target can run on the real system.

Each test takes a harness: the table of one job, and everybody else who has to do with it. From pytest:

    @pytest.mark.parametrize("test", TARGET_SUITE, ids=lambda test: test.__name__)
    def test_conformance(test: TargetTest) -> None:
        test(MyHarness())

The table has four integer columns that may be NULL, `(id, grp, ref, value)`, of which the first is the key. What the
log tells is read by `core.confirm`, as it is in production.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol, TypeAlias, TypeVar
from unittest import SkipTest

from tidefill.core.confirm import UNBORN, Anchor, Counts, Effect, Entry, Payload, Truth, confirm, payload_to_json
from tidefill.core.keys import TOP, Key, Timestamp
from tidefill.core.state import JobState, initial
from tidefill.core.version import Number, Snapshot, Version
from tidefill.core.walk import DONE, Coverage, Range, Split, Upto, start
from tidefill.errors import Bug, CommitConflict, KeyNotUnique, StateLost, TargetTouched, TidefillError
from tidefill.ports.frames import Append, Compared, Merge, Replace, TargetWrite
from tidefill.ports.target import Target
from tidefill.testing.conformance.expecting import raised

F = TypeVar("F")
Row: TypeAlias = tuple[Any, ...]
Marked: TypeAlias = tuple[str, int | None, Row | None]

OURS, THEIRS = "the generation", "another generation"
SPLITS_MANY = 200


class TargetCan(Enum):
    """What not every harness can do."""

    INTERRUPT = "let something happen while a frame is evaluated"


class TargetHarness(Protocol[F]):
    """One job's tables, one for each generation."""

    @property
    def capabilities(self) -> frozenset[TargetCan]:
        """What the harness can do."""

    def target(self, generation: int = 1) -> Target[F]:
        """A new handle to the table, as a process that was just started makes it: not prepared yet."""

    def frame(self, rows: Sequence[Row]) -> F:
        """These rows."""

    def marked(self, changes: Sequence[Marked]) -> F:
        """Changes for a Merge: I, U or D, the key, and the row (None for D)."""

    def keys(self, ids: Sequence[int]) -> F:
        """A frame of keys."""

    def failing(self) -> F:
        """A frame of rows or changes whose evaluation raises, perhaps when a part of it is there."""

    def meanwhile(self, frame: F, act: Callable[[], None]) -> F:
        """With `TargetCan.INTERRUPT`: the frame; while it is evaluated for the first time, the act happens."""

    def rows(self, generation: int = 1) -> list[Row]:
        """What the table holds."""

    def shown(self) -> list[Row] | None:
        """What is published under the job's name, if anything is."""

    def foreign_append(self, rows: Sequence[Row]) -> None:
        """A stranger appends to the table of the first generation."""

    def foreign_delete(self, ids: Sequence[int]) -> None:
        """A stranger deletes from it."""

    def restore(self, version: int) -> None:
        """A stranger takes it back to an older version of the log."""

    def optimize(self) -> None:
        """A stranger makes one commit that leaves its data alone."""

    def clean_log(self, keep: int) -> None:
        """Only the newest `keep` entries of its log stay."""

    def remove(self) -> None:
        """Remove what the target's `resources` name."""


TargetTest: TypeAlias = Callable[[TargetHarness[Any]], None]


def row(id_: int, value: int | None = 0) -> Row:
    """A row of the table."""
    return (id_, id_ % 3, None, value)


# The table


def nothing_is_there_before_the_first_commit(harness: TargetHarness[F]) -> None:
    target = harness.target()
    target.prepare()
    assert target.resources, "somebody has to remove it"
    assert list(target.log()) == []
    truth = _truth(harness)
    assert (truth.state, truth.checked) == (initial(1), UNBORN)


def _made_by(way: str) -> TargetTest:
    """The first commit makes the table, and carries the state."""

    def test(harness: TargetHarness[Any]) -> None:
        payload = _commit(harness, _written(harness, way, row(1)), 1)
        assert payload.planned_on == UNBORN
        assert harness.rows() == [row(1)]
        assert _last(harness).counts == Counts(inserted=1)
        truth = _truth(harness)
        assert (truth.state, truth.buried) == (_state(1), False)
        _commit(harness, Append(harness.frame([row(2)])), 2)
        _same(harness.rows(), [row(1), row(2)])
        assert _truth(harness).state == _state(2)

    test.__name__ = f"a_table_is_made_by_{way}"
    return test


def _made_late_by(way: str) -> TargetTest:
    """A runner that planned to make the table wakes up when another has made it, and has gone on."""

    def test(harness: TargetHarness[Any]) -> None:
        late = _payload(harness, 1, "late")
        for step in (1, 2):
            _commit(harness, Append(harness.frame([row(step)])), step)
        before = list(harness.target().log())
        for handle in (harness.target(), _prepared(harness)):
            _commit_or_conflict(handle, _written(harness, way, row(50)), late)
            assert list(handle.log()) == before
        _same(harness.rows(), [row(1), row(2)])

    test.__name__ = f"a_table_that_is_there_is_not_made_by_{way}"
    return test


def _made_meanwhile(way: str) -> TargetTest:
    """Another runner makes the table while ours is being evaluated."""

    def test(harness: TargetHarness[Any]) -> None:
        _needs(harness, TargetCan.INTERRUPT)
        payloads = [_payload(harness, 1, of) for of in ("ours", "of the other")]

        def overtake() -> None:
            harness.target().commit(_written(harness, way, row(60)), payloads[1])

        _commit_or_conflict(harness.target(), _written(harness, way, row(50), overtake), payloads[0])
        _same(harness.rows(), [row(60)])
        assert _steps(harness) == [1]
        assert _truth(harness).commit_uuid == "of the other"

    test.__name__ = f"a_table_is_made_during_{way}"
    return test


def a_table_that_could_not_be_made(harness: TargetHarness[F]) -> None:
    for write in (Append(harness.failing()), Replace(harness.failing()), Merge(harness.failing(), exact=True)):
        assert _fails(harness.target(), write, _payload(harness, 1)), "the error comes through"
        assert _truth(harness).state == initial(1)
    _commit(harness, Append(harness.frame([row(1)])), 1)
    assert harness.rows() == [row(1)]
    assert _truth(harness).state == _state(1), "the step number was not used up"


def preparing_again_is_harmless(harness: TargetHarness[F]) -> None:
    target = _prepared(harness)
    target.prepare()
    assert list(target.log()) == []
    _commit(harness, Append(harness.frame([row(1)])), 1)
    before = list(target.log())
    target.prepare()
    harness.target().prepare()
    assert list(harness.target().log()) == before
    assert harness.rows() == [row(1)]


def a_table_that_was_removed(harness: TargetHarness[F]) -> None:
    """A commit must not make it anew: it would look like a target that lost its rows."""
    target = _prepared(harness)
    _commit(harness, Append(harness.frame([row(1)])), 1)
    write = Append(harness.frame([row(2)]))
    payload = _payload(harness, 2)
    harness.remove()
    for handle in (target, harness.target()):
        raised(TargetTouched, lambda handle=handle: handle.commit(write, payload))  # type: ignore[misc]
        assert list(handle.log()) == []


def a_table_that_was_made_anew(harness: TargetHarness[F]) -> None:
    _prepared(harness)
    _commit(harness, Append(harness.frame([row(1)])), 1)
    anchor = _truth(harness).anchor(OURS)
    harness.remove()
    raised(TargetTouched, lambda: _truth(harness, anchor))
    harness.foreign_append([row(1)])
    raised((TargetTouched, StateLost), lambda: _truth(harness, anchor))
    raised((TargetTouched, StateLost), lambda: _truth(harness))


# Writes


def append(harness: TargetHarness[F]) -> None:
    _prepared(harness)
    rows = [row(1), row(2, None), row(3, 7)]
    _commit(harness, Append(harness.frame(rows)), 1)
    _same(harness.rows(), rows)
    _assert_log(harness, Effect.WRITE)
    assert _last(harness).counts == Counts(inserted=3)
    _commit(harness, Append(harness.frame([row(4)])), 2)
    _same(harness.rows(), [*rows, row(4)])
    assert _last(harness).counts == Counts(inserted=1)


def merge_by_exact_marks(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1), row(2), row(3), row(4)])
    changes: list[Marked] = [("I", 5, row(5)), ("U", 1, row(1, 9)), ("U", 2, row(2, None)), ("D", 3, None)]
    _commit(harness, Merge(harness.marked(changes), exact=True), 2)
    _same(harness.rows(), [row(1, 9), row(2, None), row(4), row(5)])
    counts = Counts(inserted=1, updated=2, deleted=1)
    assert _last(harness).counts == counts
    assert _last_payload(harness).expected == counts
    assert _truth(harness).state == _state(2)


def merge_by_some_of_the_marks(harness: TargetHarness[F]) -> None:
    """A change set of two kinds is no less than one of all three."""
    _filled(harness, [row(1), row(2), row(3), row(6)])
    steps: list[list[Marked]] = [
        [("I", 5, row(5)), ("U", 1, row(1, 9))],
        [("U", 1, row(1, 8)), ("D", 2, None)],
        [("I", 2, row(2, 7)), ("D", 3, None)],
    ]
    for step, changes in enumerate(steps, start=2):
        _commit(harness, Merge(harness.marked(changes), exact=True), step)
    _same(harness.rows(), [row(1, 8), row(2, 7), row(5), row(6)])
    assert _truth(harness).state == _state(4)


def merge_by_key(harness: TargetHarness[F]) -> None:
    """Where only keys are known: U puts the row there, D removes it, whether it was there or not."""
    _filled(harness, [row(1), row(2)])
    changes: list[Marked] = [("U", 1, row(1, 9)), ("U", 7, row(7)), ("D", 2, None), ("D", 8, None)]
    _commit(harness, Merge(harness.marked(changes), exact=False), 2)
    _same(harness.rows(), [row(1, 9), row(7)])
    assert _last_payload(harness).expected is None
    assert _last(harness).counts.inserted == 1
    assert _truth(harness).state == _state(2)


def merge_by_key_between_known_ends(harness: TargetHarness[F]) -> None:
    """Then nothing is counted, and rows elsewhere need not be read."""
    _filled(harness, [row(1), row(2), row(3), row(50)])
    changes: list[Marked] = [("U", 1, row(1, 9)), ("U", 7, row(7)), ("D", 2, None), ("D", 8, None)]
    _commit(harness, Merge(harness.marked(changes), exact=False, lead=(1, 8)), 2)
    _same(harness.rows(), [row(1, 9), row(3), row(7), row(50)])
    _commit(harness, Merge(harness.marked([("U", 3, row(3, 4))]), exact=False, lead=(3, 3)), 3)
    _same(harness.rows(), [row(1, 9), row(3, 4), row(7), row(50)])
    assert _last_payload(harness).expected is None
    assert _truth(harness).state == _state(3)


def a_null_key_is_a_key(harness: TargetHarness[F]) -> None:
    """A group of NULL has one row like any other."""
    null: Row = (None, 1, 2, 3)
    _filled(harness, [row(1), null])
    _commit(harness, Merge(harness.marked([("U", None, (None, 1, 2, 4))]), exact=True), 2)
    _same(harness.rows(), [row(1), (None, 1, 2, 4)])
    _commit(harness, Merge(harness.marked([("D", None, None)]), exact=True), 3)
    _same(harness.rows(), [row(1)])
    _commit(harness, Merge(harness.marked([("I", None, null)]), exact=True), 4)
    _same(harness.rows(), [row(1), null])
    assert _truth(harness).state == _state(4)


def replace(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1), row(2)])
    _commit(harness, Replace(harness.frame([row(2, 5), row(3)])), 2)
    _same(harness.rows(), [row(2, 5), row(3)])
    _assert_log(harness, Effect.WRITE, Effect.WRITE)
    assert _last(harness).counts.inserted == 2
    _commit(harness, Replace(harness.frame([])), 3)
    assert harness.rows() == []
    assert _truth(harness).state == _state(3)


def writes_of_nothing_commit_too(harness: TargetHarness[F]) -> None:
    """The commit carries the state; without it the job would not move."""
    _filled(harness, [row(1)])
    nothing, no_change = harness.frame([]), harness.marked([])
    writes: list[TargetWrite[F]] = [Append(nothing), Merge(no_change, exact=True), Merge(no_change, exact=False)]
    writes.append(Merge(harness.marked([("D", 99, None)]), exact=False))
    for step, write in enumerate(writes, start=2):
        _commit(harness, write, step)
        assert _last(harness).counts == Counts()
        assert _truth(harness).state == _state(step)
    assert harness.rows() == [row(1)]


def the_payload_comes_back_exactly(harness: TargetHarness[F]) -> None:
    _prepared(harness)
    sent = [_commit(harness, Append(harness.frame([row(step)])), step) for step in (1, 2)]
    found = [entry.payload for entry in harness.target().log() if entry.payload is not None]
    assert [payload_to_json(payload) for payload in found] == [payload_to_json(payload) for payload in sent]


def a_large_state_comes_back(harness: TargetHarness[F]) -> None:
    bounds = [Key((f"{number:04d}" + "🌊 'quoted' \\" * 10,)) for number in range(SPLITS_MANY)]
    edges = [None, *bounds, None]
    many: Coverage = tuple(Split(after, upto) for after, upto in itertools.pairwise(edges))
    state = JobState(1, 1, {"t": Version("id", Number(1))}, {"t": many})
    target = _prepared(harness)
    target.commit(Append(harness.frame([row(1)])), Payload(state, OURS, "commit", UNBORN))
    assert _truth(harness).state == state


# Once


def a_step_is_taken_once(harness: TargetHarness[F]) -> None:
    target = _filled(harness, [row(1)])
    _commit(harness, Append(harness.frame([row(2)])), 2)
    before = list(target.log())
    for step, commit_uuid in ((2, "commit 2"), (2, "of another runner"), (1, "of one long gone")):
        for handle in (target, harness.target()):
            handle.commit(Append(harness.frame([row(7)])), _payload(harness, step, commit_uuid))
            handle.commit(Merge(harness.marked([("D", 1, None)]), exact=True), _payload(harness, step, commit_uuid))
            handle.commit(Replace(harness.frame([])), _payload(harness, step, commit_uuid))
    assert list(target.log()) == before
    _same(harness.rows(), [row(1), row(2)])


def two_handles_take_the_same_step(harness: TargetHarness[F]) -> None:
    """The second returns as if nothing were wrong; the log tells whose it was."""
    one = _filled(harness, [row(1)])
    two = harness.target()
    planned = [_payload(harness, 2, "of one"), _payload(harness, 2, "of two")]
    one.commit(Append(harness.frame([row(2)])), planned[0])
    two.commit(Append(harness.frame([row(2), row(3)])), planned[1])
    _same(harness.rows(), [row(1), row(2)])
    assert _truth(harness).commit_uuid == "of one"
    _commit(harness, Append(harness.frame([row(3)])), 3)
    assert _steps(harness) == [1, 2, 3]


def _overtaken(way: str) -> TargetTest:
    """Another runner commits the same step while ours is being evaluated."""

    def test(harness: TargetHarness[Any]) -> None:
        _needs(harness, TargetCan.INTERRUPT)
        _filled(harness, [row(1)])

        def overtake() -> None:
            harness.target().commit(Append(harness.frame([row(60)])), _payload(harness, 2, "of the other"))

        late = _written(harness, way, row(50), overtake)
        _commit_or_conflict(harness.target(), late, _payload(harness, 2, "ours"))
        _same(harness.rows(), [row(1), row(60)])
        assert _steps(harness) == [1, 2], "each step once"
        assert _truth(harness).commit_uuid == "of the other"

    test.__name__ = f"the_same_step_lands_during_{way}"
    return test


def _touched_meanwhile(way: str) -> TargetTest:
    """A stranger writes while ours is being evaluated. Whether it lands or not, nothing that it did is believed."""

    def test(harness: TargetHarness[Any]) -> None:
        _needs(harness, TargetCan.INTERRUPT)
        _filled(harness, [row(1)])
        late = _written(harness, way, row(50), lambda: harness.foreign_append([row(60)]))
        _commit_or_conflict(harness.target(), late, _payload(harness, 2))
        raised(TargetTouched, lambda: _truth(harness))

    test.__name__ = f"a_stranger_writes_during_{way}"
    return test


WAYS = ("append", "exact_merge", "merge", "replace")


def _written(harness: TargetHarness[F], way: str, new: Row, act: Callable[[], None] | None = None) -> TargetWrite[F]:
    """A write of that row, in one of the ways, during which something may happen."""
    marked = way in ("merge", "exact_merge")
    frame = harness.marked([("I", new[0], new)]) if marked else harness.frame([new])
    rows = frame if act is None else harness.meanwhile(frame, act)
    match way:
        case "append":
            return Append(rows)
        case "replace":
            return Replace(rows)
        case _:
            return Merge(rows, exact=way == "exact_merge")


# Whole or not at all


def a_frame_that_raises_leaves_nothing(harness: TargetHarness[F]) -> None:
    target = _filled(harness, [row(1), row(2)])
    before = list(target.log())
    broken = harness.failing()
    for write in (Append(broken), Merge(broken, exact=True), Merge(broken, exact=False), Replace(broken)):
        assert _fails(target, write, _payload(harness, 2)), "the error comes through"
        assert list(harness.target().log()) == before
        _same(harness.rows(), [row(1), row(2)])
    _commit(harness, Append(harness.frame([row(3)])), 2)
    assert _truth(harness).state == _state(2), "the step number was not used up"


def two_changes_of_one_row_are_refused(harness: TargetHarness[F]) -> None:
    target = _filled(harness, [row(1)])
    before = list(target.log())
    changes: list[Marked] = [("U", 1, row(1, 5)), ("U", 1, row(1, 6))]
    for exact in (True, False):
        assert _fails(target, Merge(harness.marked(changes), exact=exact), _payload(harness, 2))
        assert list(target.log()) == before
        assert harness.rows() == [row(1)]


# Counts


def an_update_that_meets_two_rows(harness: TargetHarness[F]) -> None:
    _twice(harness)
    _commit(harness, Merge(harness.marked([("U", 1, row(1, 9))]), exact=True), 3)
    assert _last_payload(harness).expected == Counts(updated=1)
    assert _last(harness).counts.updated == 2
    raised(KeyNotUnique, lambda: _truth(harness))


def a_deletion_that_meets_two_rows(harness: TargetHarness[F]) -> None:
    _twice(harness)
    _commit(harness, Merge(harness.marked([("D", 1, None)]), exact=True), 3)
    assert _last(harness).counts.deleted == 2
    raised(KeyNotUnique, lambda: _truth(harness))


def _wrong_mark(name: str, change: Marked, error: type[TidefillError]) -> TargetTest:
    def test(harness: TargetHarness[Any]) -> None:
        _filled(harness, [row(1)])
        _commit(harness, Merge(harness.marked([change]), exact=True), 2)
        raised(error, lambda: _truth(harness))

    test.__name__ = f"{name}_is_noticed"
    return test


def _twice(harness: TargetHarness[F]) -> None:
    """One key in two chunks, where no chunk sees it."""
    _filled(harness, [row(1), row(2)])
    _commit(harness, Append(harness.frame([row(1, 5)])), 2)
    _same(harness.rows(), [row(1), row(2), row(1, 5)])
    assert _truth(harness).state == _state(2), "an append looks at no key"


# Strangers, and what is true


def optimize_leaves_the_data_alone(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1), row(2)])
    harness.optimize()
    _same(harness.rows(), [row(1), row(2)])
    _assert_log(harness, Effect.WRITE, Effect.NONE)
    truth = _truth(harness)
    assert (truth.state, truth.buried) == (_state(1), True)
    _commit(harness, Append(harness.frame([])), 2)
    assert not _truth(harness).buried, "the state lies on top again"


def _foreign(name: str, touch: Callable[[TargetHarness[Any]], None]) -> TargetTest:
    def test(harness: TargetHarness[Any]) -> None:
        _filled(harness, [row(1), row(2)])
        _commit(harness, Append(harness.frame([row(3)])), 2)
        anchor = _truth(harness).anchor(OURS)
        touch(harness)
        _assert_log(harness, Effect.WRITE, Effect.WRITE, Effect.FOREIGN)
        raised(TargetTouched, lambda: _truth(harness))
        raised(TargetTouched, lambda: _truth(harness, anchor))

    test.__name__ = f"a_stranger_{name}"
    return test


def the_truth_after_each_commit(harness: TargetHarness[F]) -> None:
    _prepared(harness)
    anchor: Anchor | None = None
    for step in (1, 2, 3):
        payload = _commit(harness, Append(harness.frame([row(step), row(step + 10)])), step)
        for known in (anchor, None):
            truth = _truth(harness, known)
            assert truth == Truth(_state(step), _last(harness).version, payload.commit_uuid, buried=False, inserted=2)
        anchor = truth.anchor(OURS)


def a_stranger_between_plan_and_commit(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1)])
    payload = _payload(harness, 2)
    harness.foreign_append([row(9)])
    harness.target().commit(Append(harness.frame([row(2)])), payload)
    assert _steps(harness) == [1, 2], "the target does not know; the log does"
    raised(TargetTouched, lambda: _truth(harness))


def optimize_between_plan_and_commit(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1)])
    anchor = _truth(harness).anchor(OURS)
    payload = _payload(harness, 2)
    harness.optimize()
    harness.target().commit(Merge(harness.marked([("U", 1, row(1, 5))]), exact=True), payload)
    for known in (None, anchor):
        truth = _truth(harness, known)
        assert (truth.state, truth.buried) == (_state(2), False)


def a_cleaned_log_needs_the_anchor(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1)])
    old = _truth(harness).anchor(OURS)
    harness.optimize()
    harness.optimize()
    anchor = _truth(harness).anchor(OURS)
    harness.clean_log(keep=1)
    assert [entry.effect for entry in harness.target().log()] == [Effect.NONE]
    raised(StateLost, lambda: _truth(harness))
    raised(StateLost, lambda: _truth(harness, old))
    truth = _truth(harness, anchor)
    assert (truth.state, truth.buried) == (_state(1), True)
    _commit(harness, Append(harness.frame([row(2)])), 2)
    assert _truth(harness).state == _state(2), "the renewed state stands by itself"
    _same(harness.rows(), [row(1), row(2)])


def a_step_is_taken_once_though_the_log_was_cleaned(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1)])
    harness.optimize()
    harness.clean_log(keep=1)
    harness.target().commit(Append(harness.frame([row(7)])), _payload(harness, 1, "again"))
    assert harness.rows() == [row(1)]


# What a user sees


def differences_are_named(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1), row(2, None), row(70001), row(70002, 5)])
    equal = [row(70002, 5), row(70001), row(2, None), row(1)]
    assert _differences(harness, equal) == []
    found = _differences(harness, [row(1), row(2, None), row(70002, 6), row(80003)])
    assert all(any(name in text for text in found) for name in ("70001", "70002", "80003")), found
    assert _differences(harness, [*equal, row(1)]), "a row is there once, not twice"
    assert _differences(harness, [row(1), row(2, 0), *equal[:2]]), "NULL is no value"
    assert 1 <= len(_differences(harness, [row(number) for number in range(100, 140)])) <= 10


def differences_but_for_some_keys(harness: TargetHarness[F]) -> None:
    target = _filled(harness, [row(1), row(2, None), row(3)])
    version = _last(harness).version
    wanted = harness.frame([row(1), row(2, 7), row(4)])
    assert target.compare(wanted, version, harness.keys([2, 3, 4])) == Compared(1)
    assert target.compare(wanted, version, harness.keys([2, 3])).differences, "4 is missing"
    assert target.compare(wanted, version).differences


def differences_within_a_range(harness: TargetHarness[F]) -> None:
    target = _filled(harness, [row(number) for number in range(1, 7)])
    version = _last(harness).version

    def compared(ids: Sequence[int], after: int | None, upto: int | None, but: Sequence[int] = ()) -> Compared:
        within = Range(*(None if end is None else Key((end,)) for end in (after, upto)))
        keys = harness.keys(list(but)) if but else None
        return target.compare(harness.frame([row(number) for number in ids]), version, keys, within)

    assert compared([1, 2], None, 2) == Compared(2)
    assert compared([3, 4], 2, 4) == Compared(2)
    assert compared([5, 6], 4, None) == Compared(2)
    assert compared([], 6, None) == Compared(0)
    assert compared([3], 2, 4).differences, "4 is there and should not be"
    assert compared([3, 4], 2, 5).differences, "so is 5"
    assert compared([3, 4], 2, 5, but=[5]) == Compared(2)


def differences_have_their_version(harness: TargetHarness[F]) -> None:
    """Another runner may have committed since."""
    target = _filled(harness, [row(1)])
    old = _last(harness).version
    _commit(harness, Merge(harness.marked([("U", 1, row(1, 5)), ("I", 2, row(2))]), exact=True), 2)
    assert target.compare(harness.frame([row(1)]), old) == Compared(1)
    assert target.compare(harness.frame([row(1, 5), row(2)]), old).differences
    assert _differences(harness, [row(1, 5), row(2)]) == []


def nothing_is_shown_before_it_is_published(harness: TargetHarness[F]) -> None:
    target = _filled(harness, [row(1)])
    assert harness.shown() is None
    target.publish()
    target.publish()
    assert harness.shown() == [row(1)]
    _commit(harness, Append(harness.frame([row(2)])), 2)
    _same(harness.shown() or [], [row(1), row(2)])


def the_next_generation_takes_the_name_over(harness: TargetHarness[F]) -> None:
    _filled(harness, [row(1)]).publish()
    following = harness.target(2)
    following.prepare()
    assert list(following.log()) == []
    assert not set(following.resources) & set(harness.target(1).resources), "each has its own"
    payload = Payload(JobState(2, 1, {}, {}), THEIRS, "commit", UNBORN)
    following.commit(Append(harness.frame([row(5)])), payload)
    assert harness.shown() == [row(1)], "not before it is published"
    following.publish()
    assert harness.shown() == [row(5)]
    assert harness.rows(1) == [row(1)], "the old one is left alone"
    assert _truth(harness).state == _state(1)


# How it is checked


def _prepared(harness: TargetHarness[F]) -> Target[F]:
    target = harness.target()
    target.prepare()
    return target


def _filled(harness: TargetHarness[F], rows: Sequence[Row]) -> Target[F]:
    """The table after step 1, which appended these rows."""
    target = _prepared(harness)
    target.commit(Append(harness.frame(rows)), _payload(harness, 1))
    return target


def _state(step: int) -> JobState:
    """A state with something of everything in it."""
    snapshot = Version("server 7", Snapshot(100, 110 + step, frozenset({103, 104})), '{"safe": "0/16B3\'", "end": 7}')
    mixed = Key(("o'brien \\ \" 🌊\n", None, Timestamp(-1), b"\x00\xff", True, TOP))
    coverage = {
        "a": (Split(None, Key((9, TOP)), Upto(Key((step,)))), Split(Key((9, TOP)), None, DONE)),
        "b": start(mixed),
        "c": start(Key((Decimal("-1.10"),))),
    }
    return JobState(1, step, {"t": Version("id", Number(step)), "p": snapshot}, coverage, step * 10)


def _payload(harness: TargetHarness[F], step: int, commit_uuid: str = "") -> Payload:
    """What a runner plans that looks at the log now."""
    log = harness.target().log()
    return Payload(_state(step), OURS, commit_uuid or f"commit {step}", log[-1].version if log else UNBORN)


def _commit(harness: TargetHarness[F], write: TargetWrite[F], step: int) -> Payload:
    payload = _payload(harness, step)
    harness.target().commit(write, payload)
    return payload


def _commit_or_conflict(target: Target[F], write: TargetWrite[F], payload: Payload) -> None:
    with suppress(CommitConflict):
        target.commit(write, payload)


def _fails(target: Target[F], write: TargetWrite[F], payload: Payload) -> bool:
    try:
        target.commit(write, payload)
    except Exception:
        return True
    return False


def _differences(harness: TargetHarness[F], expected: Sequence[Row]) -> list[str]:
    compared = harness.target().compare(harness.frame(expected), _last(harness).version)
    assert compared.rows == len(expected)
    return list(compared.differences)


def _truth(harness: TargetHarness[F], anchor: Anchor | None = None) -> Truth:
    return confirm(harness.target().log(None if anchor is None else anchor.checked), 1, OURS, anchor)


def _last(harness: TargetHarness[F]) -> Entry:
    return harness.target().log()[-1]


def _last_payload(harness: TargetHarness[F]) -> Payload:
    payload = _last(harness).payload
    assert payload is not None
    return payload


def _steps(harness: TargetHarness[F]) -> list[int]:
    """The steps of ours that the log tells, in its order."""
    return [entry.payload.state.step for entry in harness.target().log() if entry.payload is not None]


def _assert_log(harness: TargetHarness[F], *effects: Effect) -> None:
    log = harness.target().log()
    assert tuple(entry.effect for entry in log) == effects
    assert [entry.version for entry in log] == [log[0].version + number for number in range(len(log))], "without a gap"
    assert all((entry.payload is not None) is (entry.effect is Effect.WRITE) for entry in log)


def _same(found: Iterable[Row], expected: Iterable[Row]) -> None:
    """The same rows, as often, in any order."""
    there, wanted = Counter(found), Counter(expected)
    assert there == wanted, f"missing {list((wanted - there).elements())}, too much {list((there - wanted).elements())}"


def _needs(harness: TargetHarness[F], can: TargetCan) -> None:
    if can not in harness.capabilities:
        raise SkipTest(f"the harness cannot {can.value}")


TARGET_SUITE: tuple[TargetTest, ...] = (
    nothing_is_there_before_the_first_commit,
    *map(_made_by, WAYS),
    *map(_made_late_by, WAYS),
    *map(_made_meanwhile, WAYS),
    a_table_that_could_not_be_made,
    preparing_again_is_harmless,
    a_table_that_was_removed,
    a_table_that_was_made_anew,
    append,
    merge_by_exact_marks,
    merge_by_some_of_the_marks,
    merge_by_key,
    merge_by_key_between_known_ends,
    a_null_key_is_a_key,
    replace,
    writes_of_nothing_commit_too,
    the_payload_comes_back_exactly,
    a_large_state_comes_back,
    a_step_is_taken_once,
    two_handles_take_the_same_step,
    *map(_overtaken, WAYS),
    *map(_touched_meanwhile, WAYS),
    a_frame_that_raises_leaves_nothing,
    two_changes_of_one_row_are_refused,
    an_update_that_meets_two_rows,
    a_deletion_that_meets_two_rows,
    _wrong_mark("an_insert_of_what_is_there", ("I", 1, row(1, 5)), KeyNotUnique),
    _wrong_mark("an_update_of_what_is_not_there", ("U", 9, row(9)), Bug),
    _wrong_mark("a_deletion_of_what_is_not_there", ("D", 9, None), Bug),
    optimize_leaves_the_data_alone,
    _foreign("appends", lambda harness: harness.foreign_append([row(9)])),
    _foreign("deletes", lambda harness: harness.foreign_delete([1])),
    _foreign("restores", lambda harness: harness.restore(0)),
    the_truth_after_each_commit,
    a_stranger_between_plan_and_commit,
    optimize_between_plan_and_commit,
    a_cleaned_log_needs_the_anchor,
    a_step_is_taken_once_though_the_log_was_cleaned,
    differences_are_named,
    differences_but_for_some_keys,
    differences_within_a_range,
    differences_have_their_version,
    nothing_is_shown_before_it_is_published,
    the_next_generation_takes_the_name_over,
)
