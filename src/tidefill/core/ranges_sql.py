"""Ranges of keys as a condition in SQL, for any dialect: what `core.keys` and `core.walk` say of one key, for a table.

Bounds are constants, and every range says the least and the greatest value of its leading column in a comparison of its
own, so that files outside are skipped, or an index is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidefill.core.keys import TOP, Value
from tidefill.core.walk import Range

# A condition in SQL. What it is known to be without looking at the row is a bool, and is folded away.
Condition: TypeAlias = str | bool


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the walk: its name in SQL, and how a value is written as a constant of its type."""

    name: str
    literal: Callable[[Value], str]


@dataclass(frozen=True, slots=True)
class Conditions:
    """`equals`: the operator for equality that is false, not NULL, if one side is NULL."""

    equals: str

    def within(self, ranges: Sequence[Range], walk: Sequence[Column]) -> Condition:
        """Whether a row lies in one of the ranges (after, upto]."""
        return _any([self._in_range(part, walk) for part in ranges])

    def _in_range(self, part: Range, walk: Sequence[Column]) -> Condition:
        above = True if part.after is None else self._above(walk, part.after.values)
        upto = True if part.upto is None else self._upto(walk, part.upto.values)
        return _all([*_hints(part, walk), above, upto])

    def _above(self, walk: Sequence[Column], bound: Sequence[Value]) -> Condition:
        """row > bound. Where one ends before the other, the longer is the greater one."""
        if not bound or not walk:
            return bool(walk)
        column, value = walk[0].name, bound[0]
        if value is TOP:
            return False
        rest = self._above(walk[1:], bound[1:])
        if value is None:
            return _any([f"{column} IS NOT NULL", rest])
        constant = walk[0].literal(value)
        if isinstance(rest, bool):
            return f"({column} IS NOT NULL AND {column} {'>=' if rest else '>'} {constant})"
        return f"(({column} IS NOT NULL AND {column} > {constant}) OR ({column} {self.equals} {constant} AND {rest}))"

    def _upto(self, walk: Sequence[Column], bound: Sequence[Value]) -> Condition:
        """row <= bound."""
        if not bound or not walk:
            return not walk
        column, value = walk[0].name, bound[0]
        if value is TOP:
            return True
        rest = self._upto(walk[1:], bound[1:])
        if value is None:
            return _all([f"{column} IS NULL", rest])
        constant = walk[0].literal(value)
        if isinstance(rest, bool):
            return f"({column} IS NULL OR {column} {'<=' if rest else '<'} {constant})"
        return f"({column} IS NULL OR {column} < {constant} OR ({column} {self.equals} {constant} AND {rest}))"


def _hints(part: Range, walk: Sequence[Column]) -> list[Condition]:
    """What the leading column must be for the range at all. It follows from the full comparison, so it changes nothing
    but what can be skipped. NULL is below every value, so an upper bound lets it through."""
    lead = walk[0]
    hints: list[Condition] = []
    if part.after is not None and _is_value(part.after.values[0]):
        hints.append(f"({lead.name} IS NOT NULL AND {lead.name} >= {lead.literal(part.after.values[0])})")
    if part.upto is not None and _is_value(part.upto.values[0]):
        hints.append(f"({lead.name} IS NULL OR {lead.name} <= {lead.literal(part.upto.values[0])})")
    return hints


def _is_value(value: Value) -> bool:
    return value is not None and value is not TOP


def _all(conditions: Sequence[Condition]) -> Condition:
    if any(condition is False for condition in conditions):
        return False
    parts = [condition for condition in conditions if isinstance(condition, str)]
    return f"({' AND '.join(parts)})" if parts else True


def _any(conditions: Sequence[Condition]) -> Condition:
    if any(condition is True for condition in conditions):
        return True
    parts = [condition for condition in conditions if isinstance(condition, str)]
    return f"({' OR '.join(parts)})" if parts else False
