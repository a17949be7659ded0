"""Shapes, states and looks that the tests of the planner share."""

from collections.abc import Mapping

from tidefill.core import walk
from tidefill.core.budget import Kept
from tidefill.core.keys import Key
from tidefill.core.look import Changed, CheapLook, Look, Pace, Phase, TableSeen
from tidefill.core.state import JobState
from tidefill.core.step import Knobs, Plan, Shape, Step, Write
from tidefill.core.version import Number, Version
from tidefill.core.walk import DONE, Coverage, Range, Split, Upto

REPLICA = Shape(tables={"t": "t"}, walked=("t",))
MERGED = Shape(tables={"t": "t"}, walked=("t",), appends=False)
GROUPED = Shape(tables={"t": "t"}, walked=("t",), group_columns=1)
SELF_JOIN = Shape(tables={"a": "t", "b": "t"}, walked=("a",))
UNION = Shape(tables={"a": "t", "b": "u"}, walked=("a", "b"))
ANEW = Shape(tables={"t": "t"}, walked=(), starts_empty=False, full=True)
SHAPES = (REPLICA, MERGED, GROUPED, SELF_JOIN, UNION)
ONE = Knobs()
FILLED_LONG = Pace(fill_s=90.0, forward_s=10.0, last_forward_s=1.0)
HAS_ITS_SHARE = Pace(fill_s=30.0, forward_s=10.0, last_forward_s=1.0)


def key(number: int) -> Key:
    return Key((number,))


def keys(*numbers: int) -> tuple[Key, ...]:
    return tuple(map(key, numbers))


def version(number: int, identity: str = "id") -> Version:
    return Version(identity, Number(number))


def state(coverage: Coverage, at: int = 5) -> JobState:
    return JobState(1, 3, {"t": version(at)}, {"t": coverage}, rows_filled=100)


def glimpse(
    head: int = 5,
    *,
    readable: bool = True,
    history_runs_short: bool = False,
    pace: Pace = HAS_ITS_SHARE,
    phase: Phase = Phase.FILLING,
    rewrite_state: bool = False,
    kept: Kept | None = None,
) -> CheapLook:
    return CheapLook(
        phase, {"t": TableSeen(version(head), readable, history_runs_short, kept=kept)}, pace, rewrite_state
    )


def seen(look: CheapLook, changed: Changed = Changed.NOTHING, offered: Mapping[Split, tuple[Key, ...]] = {}) -> Look:
    return Look(look, changed, bounds={"t": offered})


def chunks(plan: Plan) -> tuple[Range, ...]:
    assert isinstance(plan, Step)
    return plan.chunks.get("t", ())


def at(plan: Plan) -> Version:
    assert isinstance(plan, Step)
    return plan.versions["t"]


def how(plan: Plan) -> Write:
    assert isinstance(plan, Step)
    return plan.write


BEGUN = Split(None, key(20), Upto(key(10)))
HALFWAY: Coverage = (BEGUN, Split(key(20), None, DONE))
OFFER = {BEGUN: keys(14, 18)}
COVERED = walk.whole()
SMALL = Knobs(wal_budget=10)
