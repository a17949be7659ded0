"""What a runner does next with an index, from one look at its control row, its logs and those who write.

Pure: the same look always gives the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from tidefill.indexes.control import Control
from tidefill.indexes.states import Body, Method, State, other_log, resting_log

LOCK_TRIES = 30
"""After so many attempts to have the table for the cut-over, the log is drained under row locks instead."""


@dataclass(frozen=True, slots=True)
class Look:
    """`held`: the barrier of the last change of state still waits for somebody. `is_filled`: all chunks are read.
    `logged`: rows in log 1 and in log 2, counted no further than one above `log_rows_max`, which is what a cut-over
    merges under its lock. `tombstones`: there are some. `tries`: cut-overs in a row that did not get the lock.
    `older`: somebody still has a snapshot from before the last change of the body. `new_leaf`: a partition that came
    since the index knows its partitions; `lost_leaf`: one is gone."""

    control: Control | None
    held: bool = False
    is_filled: bool = False
    logged: tuple[int, int] = (0, 0)
    log_rows_max: int = 0
    tombstones: bool = False
    tries: int = 0
    older: bool = False
    new_leaf: str = ""
    row_trigger: int = 0
    lost_leaf: bool = False


@dataclass(frozen=True, slots=True)
class Install:
    """Make tables, functions and triggers."""


@dataclass(frozen=True, slots=True)
class Advance:
    """Change the state, and the body if it is another one."""

    state: State
    body: Body


@dataclass(frozen=True, slots=True)
class FillChunk:
    """Read the next rows of the base table and write their entries."""


@dataclass(frozen=True, slots=True)
class BuildKey:
    """Build the key of the loaded entries."""


@dataclass(frozen=True, slots=True)
class Merge:
    """Merge a batch of this log."""

    log: int


@dataclass(frozen=True, slots=True)
class CutOver:
    """Merge the rest under the table lock, and let writers keep the entries."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Put logged rows right, one by one, under row locks."""


@dataclass(frozen=True, slots=True)
class TakeIn:
    """Have the rows of a new partition in the index. `row_trigger`: of the attachment that was seen."""

    leaf: str
    row_trigger: int


@dataclass(frozen=True, slots=True)
class RemoveOrphans:
    """Remove the entries of partitions that are gone."""


@dataclass(frozen=True, slots=True)
class TryRefused:
    """Try the rows of a public index again that have no entry."""


@dataclass(frozen=True, slots=True)
class GrantToOwner:
    """Let the role to which the table belongs by now make partitions, and read the index."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Remove tombstones."""


@dataclass(frozen=True, slots=True)
class Clear:
    """Remove all that a build left which was given up, to begin again."""


@dataclass(frozen=True, slots=True)
class Held:
    """Wait for transactions that began before the last change of state."""


@dataclass(frozen=True, slots=True)
class Validate:
    """Everything is made: compare it with the base table, and have writers keep it without tombstones."""


@dataclass(frozen=True, slots=True)
class Ready:
    """It is valid, and has only to be shown; or is shown already."""


OfLeaves: TypeAlias = TakeIn | RemoveOrphans
Upkeep: TypeAlias = OfLeaves | TryRefused | GrantToOwner | Sweep
Action: TypeAlias = (
    Install | Advance | FillChunk | BuildKey | Merge | CutOver | Drain | Validate | Clear | Upkeep
)  # fmt: skip
Next: TypeAlias = Action | Held | Ready


def next_action(look: Look) -> Next:
    """What is next."""
    control = look.control
    if control is None:
        return Install()
    if look.held and control.state is not State.BACKFILLING:
        return _while_held(control, look)
    leaves = _of_leaves(control, look)
    if leaves is not None:
        return leaves
    match control.state:
        case State.LOGGING | State.WRITE_AND_DELETE:
            return Advance(State.BACKFILLING, control.body)
        case State.DELETE_ONLY:
            return Advance(State.WRITE_AND_DELETE, Body.WRITE_AND_DELETE)
        case State.BACKFILLING:
            return _filling(control, look)
        case State.MERGING:
            return _merging(control, look)
        case State.DRAINING:
            return Drain() if any(look.logged) else Advance(State.VALIDATING, control.body)
        case State.VALIDATING:
            return Validate()
        case State.READ_WRITE_AND_DELETE:
            return Sweep() if look.tombstones else Held() if look.older else Ready()
        case State.ABSENT:
            return Clear()
        case never:
            assert_never(never)


def _of_leaves(control: Control, look: Look) -> OfLeaves | None:
    """Rows of a new partition can be taken in as soon as writers log or keep entries. Orphans are removed when all
    chunks are loaded: a later chunk could not bring them back."""
    if look.new_leaf and control.state not in (State.LOGGING, State.DELETE_ONLY, State.ABSENT):
        return TakeIn(look.new_leaf, look.row_trigger)
    loaded = (State.MERGING, State.DRAINING, State.VALIDATING, State.READ_WRITE_AND_DELETE)
    return RemoveOrphans() if look.lost_leaf and control.state in loaded else None


def _filling(control: Control, look: Look) -> Next:
    if not look.is_filled:
        return FillChunk()
    if control.method is Method.BULK:
        return BuildKey()
    return Drain() if any(look.logged) else Advance(State.VALIDATING, control.body)


def _while_held(control: Control, look: Look) -> Next:
    """A log that is not written any more may be drained while the barrier waits; nothing else may happen."""
    drained = resting_log(control.body)
    if control.state is State.MERGING and look.logged[drained - 1]:
        return Merge(drained)
    return Held()


def _merging(control: Control, look: Look) -> Next:
    """Only the log that is not written is drained: rows in conflict go to the other one. The logs are exchanged until
    what is left can be merged under the lock. No merge comes before the last chunk and the key: the merge would delete
    what a later chunk puts back."""
    drained = resting_log(control.body)
    if look.logged[drained - 1]:
        return Merge(drained)
    if sum(look.logged) > look.log_rows_max:
        return Advance(State.MERGING, other_log(control.body))
    if look.tries >= LOCK_TRIES:
        return Advance(State.DRAINING, Body.DRAIN)
    return CutOver()
