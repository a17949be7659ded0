"""Windows without PARTITION BY whose functions look at the rows before a row, and at few rows after it.

In such an order a change concerns the rows from the first changed one on, and a few before it. What a function says
there follows from these rows, and from little that is known of all rows before them.

| function | what has to be known of the rows before |
|---|---|
| row_number, rank | how many there are |
| dense_rank | how many places they take |
| count, sum, min, max up to the current row | the same of them all |
| lag, lead, frames of so many ROWS | nothing, if as many rows more are looked at |

A function that looks at all rows (ntile, percent_rank, a frame to the end), and avg, is computed anew with all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from sqlglot import exp

from tidefill.views.relations.texts import Expr, Item

REACH_MAX = 10_000  # rows near the first changed one that are looked at: one task sorts them


class Carried(Enum):
    """What is carried from the rows before into what a function says of the others."""

    NOTHING = auto()
    ROWS = auto()
    PLACES = auto()
    COUNT = auto()
    SUM = auto()
    LEAST = auto()
    GREATEST = auto()


@dataclass(frozen=True, slots=True)
class Looks:
    """`back`: how many rows before a row it looks at, and `ahead`: how many after it."""

    carried: Carried
    back: int = 0
    ahead: int = 0


_RUNNING: dict[type[Expr], Carried] = {
    exp.Count: Carried.COUNT, exp.Sum: Carried.SUM, exp.Min: Carried.LEAST, exp.Max: Carried.GREATEST,
}  # fmt: skip


def order_of(window: Expr) -> tuple[exp.Ordered, ...]:
    """Its ORDER BY."""
    order = window.args.get("order")
    return () if order is None else tuple(order.expressions)


def look_back(items: Sequence[Item]) -> tuple[Looks, ...]:
    """How the functions, which have one order, look back; none if one of them does not."""
    found = [looks_of(value) for _, value in items]
    known = tuple(one for one in found if one is not None)
    fits = len(known) == len(found) and sum(one.back + one.ahead for one in known) <= REACH_MAX
    return known if fits and order_of(items[0][1]) else ()


def looks_of(window: Expr) -> Looks | None:
    """None if a change may concern rows far before it."""
    call, spec = window.this, window.args.get("spec")
    match call:
        case exp.RowNumber() | exp.Rank():
            return Looks(Carried.ROWS)
        case exp.DenseRank():
            return Looks(Carried.PLACES)
        case exp.Lag() | exp.Lead():
            far = _rows(call.args.get("offset") or exp.Literal.number(1))
            if far is None:
                return None
            return Looks(Carried.NOTHING, back=far) if isinstance(call, exp.Lag) else Looks(Carried.NOTHING, ahead=far)
    if spec is None:
        return _running(call)
    start, end = (_end(spec, side) for side in ("start", "end"))
    if start == (None, "PRECEDING") and end == (0, ""):
        return _running(call)
    if spec.args["kind"].upper() != "ROWS" or start[0] is None or end[0] is None:
        return None
    reach = {"PRECEDING": 0, "FOLLOWING": 0, "": 0}
    for rows, direction in (start, end):
        reach[direction] = max(reach[direction], rows or 0)
    return Looks(Carried.NOTHING, reach["PRECEDING"], reach["FOLLOWING"])


def _running(call: Expr) -> Looks | None:
    carried = _RUNNING.get(type(call))
    return None if carried is None else Looks(carried)


def _end(spec: Expr, side: str) -> tuple[int | None, str]:
    """So many rows in that direction; None: all of them, or nobody knows."""
    bound, direction = spec.args.get(side) or "CURRENT ROW", (spec.args.get(f"{side}_side") or "").upper()
    if isinstance(bound, str):
        return (0, "") if bound.upper() == "CURRENT ROW" else (None, direction)
    return _rows(bound), direction


def _rows(number: Expr) -> int | None:
    return int(number.this) if isinstance(number, exp.Literal) and number.is_int else None
