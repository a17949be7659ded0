"""What a text of TPC-DS compares its columns with, and the values that meet it.

Random rows would meet hardly one of the conditions that the texts have. So the values of a column are mostly those that
the text names for it. Where it names several, as in `(d_moy = 5 AND s_state = 'TN') OR (d_moy = 6 AND s_state = 'GA')`,
they belong together by their place.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from sqlglot import exp

Value: TypeAlias = Any
_FLIPPED: Mapping[type[exp.Expr], type[exp.Expr]] = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}


Asked: TypeAlias = Mapping[str, Sequence[Sequence[Value]]]
"""Of each column, the conditions on it in the order in which they stand: of each the values that meet it."""


def asked(tree: exp.Expr) -> Asked:
    """What a text asks of columns, each by its name alone, as no two tables have one of the same name."""
    found: dict[str, list[Sequence[Value]]] = {}
    called = _called(tree)
    for node in tree.walk(bfs=False):
        for column, values in _met(node):
            found.setdefault(called.get(column, column), []).append(values)
    for node in tree.find_all(exp.EQ):
        for one, other in itertools.product(_columns(node.this), _columns(node.expression)):
            for left, right in ((one, other), (other, one)):
                if left in found and right not in found:
                    found[right] = found[left]
    return found


def some(wanted: Asked, chance: random.Random, column: str, focus: float) -> Value:
    """A value that meets the condition on a column at this part of all of them, mostly; else one that meets another."""
    conditions = wanted[column]
    at = int(focus * len(conditions)) if chance.random() < 0.8 else chance.randrange(len(conditions))
    return chance.choice(conditions[at])


def narrowed(wanted: Asked, chance: random.Random) -> Asked:
    """Of long lists a few values, so that rows meet in them: the same of what several columns share."""
    few: dict[int, Sequence[Value]] = {}
    for values in (values for conditions in wanted.values() for values in conditions):
        few.setdefault(id(values), values if len(values) < 4 else chance.sample(list(values), 2))
    return {name: [few[id(values)] for values in conditions] for name, conditions in wanted.items()}


def _called(tree: exp.Expr) -> dict[str, str]:
    """The columns that go by other names outside of a query."""
    return {
        alias.alias.lower(): alias.this.name.lower()
        for alias in tree.find_all(exp.Alias)
        if isinstance(alias.this, exp.Column)
    }


def _met(node: exp.Expr) -> Iterator[tuple[str, Sequence[Value]]]:
    match node:
        case exp.Between():
            ends = constant(node.args["low"]), constant(node.args["high"])
            if None not in ends:
                yield from ((column, _between(*ends)) for column in _columns(node.this))
        case exp.In():
            values = [value for one in node.expressions if (value := constant(one)) is not None]
            if values:
                yield from ((column, values) for column in _columns(node.this))
        case exp.Like() if isinstance(node.expression, exp.Literal):
            yield from ((column, [node.expression.this.replace("%", "")]) for column in _columns(node.this))
        case exp.Is():
            if isinstance(node.expression, exp.Null):
                yield from ((column, [None]) for column in _columns(node.this) if not isinstance(node.parent, exp.Not))
        case exp.EQ() | exp.GT() | exp.LT() | exp.GTE() | exp.LTE() | exp.NEQ():
            for one, other, kind in _sides(node):
                value = constant(other)
                if value is not None:
                    yield from ((column, [_beyond(kind, value)]) for column in _columns(one))


def _sides(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr, type[exp.Expr]]]:
    yield node.this, node.expression, type(node)
    yield node.expression, node.this, _FLIPPED.get(type(node), type(node))


def _columns(tree: exp.Expr) -> Iterator[str]:
    """The column, if it is one, or one in a function of nothing else."""
    if not tree.find(exp.AggFunc, exp.Query, exp.Binary):
        yield from (column.name.lower() for column in tree.find_all(exp.Column))


def _beyond(kind: type[exp.Expr], value: Value) -> Value:
    """A value that meets `x <kind> value`."""
    step: Value = timedelta(days=1) if isinstance(value, date) else 1
    if isinstance(value, str):
        return value if kind is not exp.NEQ else f"{value} other"
    if kind in (exp.GT, exp.NEQ):
        return value + step
    return value - step if kind is exp.LT else value


def _between(low: Value, high: Value) -> Sequence[Value]:
    if isinstance(low, str):
        return [low, high]
    if isinstance(low, date):
        return [low + timedelta(days=days) for days in range((high - low).days + 1)]
    return [low, high, low + (high - low) // 2, low + (high - low) // 3]


def constant(tree: exp.Expr) -> Value | None:
    """What an expression without columns gives, as far as the texts have such ones."""
    match tree:
        case exp.Paren():
            return constant(tree.this)
        case exp.Literal():
            return tree.this if tree.is_string else Decimal(tree.this) if "." in tree.this else int(tree.this)
        case exp.Neg():
            value = constant(tree.this)
            return None if value is None else -value
        case exp.Cast() if tree.to.this == exp.DataType.Type.DATE and isinstance(tree.this, exp.Literal):
            return date.fromisoformat(_padded(tree.this.this))
        case exp.Interval():
            return timedelta(days=int(tree.this.this))
        case exp.Add() | exp.Sub():
            one, other = constant(tree.this), constant(tree.expression)
            if one is None or other is None:
                return None
            return one + other if isinstance(tree, exp.Add) else one - other
    return None


def _padded(text: str) -> str:
    year, month, day = text.split("-")
    return f"{year}-{int(month):02}-{int(day):02}"
