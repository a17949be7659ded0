"""Aggregates that can be kept by adding and taking away, with hidden columns that hold what this needs.

A group has the number of its rows; an aggregate has, as it needs them, the number of its values, their sum in a type
that cannot overflow, or their extreme. An extreme that was taken away cannot be told from what is kept: such a group is
computed anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp

from tidefill.views.relations.parts import shown_as
from tidefill.views.relations.texts import (
    HIDDEN,
    WEIGHT,
    Expr,
    Item,
    both,
    case,
    cast,
    coalesce,
    col,
    is_null,
    not_,
    number,
)

ROWS = f"{HIDDEN}n"
_OF_VALUES = frozenset({"some", "every", "collect_list", "collect_set", "mode", "listagg", "string_agg"})
"""Aggregates that give values as they are, and add nothing up."""

_SMALL = frozenset({"tinyint", "smallint", "int"})
_DECIMAL = re.compile(r"decimal\((\d+),\s?(\d+)\)")
_SUM_DIGITS = 37  # one less than the most, so that the sum of two keeps its scale
_MOST_DIGITS, _MOST_SCALE = 38, 6  # up to this scale, the sum of two keeps it with all digits too
_ROWS_DIGITS = 10  # ten thousand million rows
_AVERAGE_DIGITS, _COUNT_DIGITS = 34, 20  # of which the quotient has just the scale of Spark's average
_SHORT_DIGITS, _SHORT_SCALE = 23, 2  # below this scale: the quotient has so many more digits that it is rounded once


class How(Enum):
    """What is kept of an aggregate."""

    CONSTANT = "constant"
    ROWS = "rows"
    COUNT = "count"
    SUM = "sum"
    AVERAGE = "average"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True)
class Kept:
    """An aggregate: its column, what is kept of it, its argument, and the types of the argument and of the result."""

    column: str
    how: How
    argument: Expr
    number: int
    kind: str = ""
    result: str = ""

    @property
    def count(self) -> str:
        return f"{HIDDEN}c{self.number}"

    @property
    def value(self) -> str:
        return f"{HIDDEN}s{self.number}"

    @property
    def extreme(self) -> bool:
        return self.how in (How.MIN, How.MAX)


@dataclass(frozen=True, slots=True)
class Hidden:
    """A hidden column: what it is over rows, and what changed rows add to it. `kept`: the sum or extreme it holds."""

    column: str
    over_rows: Expr
    over_changes: Expr
    kept: Kept | None = None


def kept_of(items: Sequence[Item]) -> tuple[tuple[Kept, ...], str]:
    """What to keep of these aggregates, not knowing their types; or nothing, and which one is in the way."""
    kept: list[Kept] = []
    for index, (column, value) in enumerate(items):
        found = _how(value)
        if found is None:
            return (), shown_as(value)
        kept.append(Kept(column, *found, index))
    return tuple(kept), ""


def _how(value: Expr) -> tuple[How, Expr] | None:
    condition: Expr | None = None
    if isinstance(value, exp.Filter):
        value, condition = value.this, value.expression.this
    if isinstance(value, exp.Literal):
        return How.CONSTANT, value
    found = _plain(value)
    if found is None or condition is None:
        return found
    how, argument = found
    given = number(1) if how is How.ROWS else argument
    return (How.COUNT if how is How.ROWS else how), case((condition.copy(), given.copy()))


def _plain(value: Expr) -> tuple[How, Expr] | None:
    argument = value.this
    if isinstance(argument, exp.Distinct) or value.expressions:
        return None
    match value:
        case exp.Count() if isinstance(argument, exp.Star | exp.Literal):
            return How.ROWS, number(1)
        case exp.Count():
            return How.COUNT, argument
        case exp.CountIf():
            return How.COUNT, case((argument.copy(), number(1)))
        case exp.Sum():
            return How.SUM, argument
        case exp.Avg():
            return How.AVERAGE, argument
        case exp.Min():
            return How.MIN, argument
        case exp.Max():
            return How.MAX, argument
    return None


def added_up(value: Expr) -> Expr | None:
    """What an aggregate adds up, so that the result depends on the order of the rows if it is a floating-point number;
    None for aggregates that add nothing up."""
    inner = value.this if isinstance(value, exp.Filter) else value
    match inner:
        case exp.Literal() | exp.Count() | exp.CountIf() | exp.Min() | exp.Max() | exp.Quantile() | exp.Median():
            return None
        case exp.LogicalOr() | exp.LogicalAnd() | exp.ApproxDistinct():
            return None
        case exp.Anonymous() if inner.name.lower() in _OF_VALUES:
            return None
        case exp.ArgMin() | exp.ArgMax():
            return None
        case exp.WithinGroup():
            return None if inner.this.name.lower() in _OF_VALUES else cast(exp.null(), "double")
        case (
            exp.Sum(this=exp.Distinct(expressions=[exp.Expr() as one]))
            | exp.Avg(this=exp.Distinct(expressions=[exp.Expr() as one]))
        ):
            return one
        case exp.Sum(this=exp.Expr() as one) | exp.Avg(this=exp.Expr() as one):
            return one
    return cast(exp.null(), "double")


def refusal_of(kept: Kept) -> str:
    """Why the type of its argument does not allow to keep it; empty if it does."""
    if kept.how not in (How.SUM, How.AVERAGE):
        return ""
    if kept.kind in _SMALL or kept.kind == "bigint":
        return ""
    match = _DECIMAL.fullmatch(kept.kind)
    if match is None:
        return f"a {kept.how.value} of {kept.kind} depends on the order of the rows"
    digits, scale = int(match[1]), int(match[2])
    fits = digits + _ROWS_DIGITS <= (_SUM_DIGITS if kept.how is How.SUM else _average_digits(scale))
    if not fits and (kept.how is How.AVERAGE or scale > _MOST_SCALE):
        return f"a {kept.how.value} of {kept.kind} may overflow on its way"
    return ""


def _average_digits(scale: int) -> int:
    """Of the sum that is divided. Spark's average has four digits more than its argument, and a quotient has at least
    six: of whole numbers, and of those with one digit, it has to be rounded down to that. With 15 digits more than the
    argument no quotient of a sum by up to 10**10 rows is rounded to a tie that it is not."""
    return _AVERAGE_DIGITS if scale >= _SHORT_SCALE else _SHORT_DIGITS


def _wide(kind: str) -> str:
    """The type of a sum that cannot overflow; of numbers with very many digits, not before Spark's own sum does."""
    if kind in _SMALL:
        return "bigint"
    match = _DECIMAL.fullmatch(kind)
    if match is None:
        return f"decimal({_SUM_DIGITS},0)"
    fits = int(match[1]) + _ROWS_DIGITS <= _SUM_DIGITS
    return f"decimal({_SUM_DIGITS if fits else _MOST_DIGITS},{match[2]})"


def hidden_of(kept: Sequence[Kept]) -> list[Hidden]:
    """The hidden columns of a group."""
    columns = [Hidden(ROWS, exp.Count(this=exp.Star()), coalesce(exp.Sum(this=col(WEIGHT)), number(0)))]
    for one in kept:
        value = one.argument
        if one.how in (How.COUNT, How.SUM, How.AVERAGE):
            weight = exp.Sum(this=case((not_(is_null(value.copy())), col(WEIGHT))))
            columns.append(Hidden(one.count, exp.Count(this=value.copy()), coalesce(weight, number(0))))
        if one.how in (How.SUM, How.AVERAGE):
            wide = cast(value.copy(), _wide(one.kind))
            signed = case((_comes(), wide), default=exp.Neg(this=exp.paren(wide.copy())))
            whole, change = (exp.Sum(this=part) for part in (wide.copy(), signed))
            columns.append(Hidden(one.value, coalesce(whole, number(0)), coalesce(change, number(0)), one))
        if one.extreme:
            columns.append(
                Hidden(one.value, _extreme(one, value.copy()), _extreme(one, case((_comes(), value.copy()))), one)
            )
    return columns


def taken_of(kept: Sequence[Kept]) -> list[Item]:
    """The extremes of what is taken away."""
    return [
        (f"{one.value}_taken", _extreme(one, case((not_(_comes()), one.argument.copy()))))
        for one in kept
        if one.extreme
    ]


def together(hidden: Hidden, before: Expr, change: Expr) -> Expr:
    """The hidden column after the change."""
    kept = hidden.kept
    if kept is None:
        return exp.Add(this=coalesce(before, number(0)), expression=coalesce(change, number(0)))
    if not kept.extreme:
        parts = (cast(coalesce(part, number(0)), _wide(kept.kind)) for part in (before, change))
        return exp.Add(this=next(parts), expression=next(parts))
    beyond = exp.LT if kept.how is How.MIN else exp.GT
    return case(
        (is_null(before.copy()), change.copy()),
        (is_null(change.copy()), before.copy()),
        (beyond(this=change.copy(), expression=before.copy()), change),
        default=before,
    )


def lost(kept: Sequence[Kept], before: str, change: str, *, netted: bool) -> Expr:
    """Whether an extreme was taken away, so that what is kept does not tell the new one, and none that comes takes its
    place. If changes are not `netted`, what comes may go in the same step: only one beyond all that go stays surely."""
    conditions = []
    for one in kept:
        if one.extreme:
            taken, came = col(f"{one.value}_taken", change), col(one.value, change)
            known = col(one.value, before)
            reaches, beyond = (exp.LTE, exp.LT) if one.how is How.MIN else (exp.GTE, exp.GT)
            reached = coalesce(reaches(this=taken, expression=known), not_(is_null(taken.copy())))
            stays = (reaches if netted else beyond)(this=came, expression=taken.copy())
            replaced = both([reaches(this=came.copy(), expression=known.copy()), stays])
            conditions.append(both([reached, not_(coalesce(replaced, exp.false()))]))
    return exp.or_(*conditions) if conditions else exp.false()


def results(kept: Sequence[Kept]) -> dict[str, Expr]:
    """The aggregates, from the hidden columns."""
    return {one.column: _result(one) for one in kept}


def _result(kept: Kept) -> Expr:
    some = exp.GT(this=col(kept.count), expression=number(0))
    match kept.how:
        case How.CONSTANT:
            return kept.argument.copy()
        case How.ROWS:
            return col(ROWS)
        case How.COUNT:
            return col(kept.count)
        case How.MIN | How.MAX:
            return col(kept.value)
        case How.SUM:
            return case((some, cast(col(kept.value), kept.result)))
        case How.AVERAGE:
            return case((some, cast(_quotient(kept), kept.result)))


def _quotient(kept: Kept) -> Expr:
    match = _DECIMAL.fullmatch(kept.kind)
    above, under = ("double", "double") if match is None else (
        f"decimal({_average_digits(int(match[2]))},{match[2]})", f"decimal({_COUNT_DIGITS},0)",
    )  # fmt: skip
    return exp.Div(this=cast(col(kept.value), above), expression=cast(col(kept.count), under), typed=False, safe=False)


def _comes() -> Expr:
    return exp.GT(this=col(WEIGHT), expression=number(0))


def _extreme(kept: Kept, value: Expr) -> Expr:
    return exp.Min(this=value) if kept.how is How.MIN else exp.Max(this=value)
