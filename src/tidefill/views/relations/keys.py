"""Which columns identify a row of a join. An equality of two columns tells one from the other only if their types are
the same: '1' and '01' are two keys, and both equal the number 1."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from sqlglot import exp

from tidefill.views.relations.relations import Relation
from tidefill.views.relations.texts import Expr, columns_in

_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_PLAIN = re.compile(r"tinyint|smallint|int|bigint|decimal\(.*\)|string|date|timestamp(_ntz)?|boolean|binary")
_FLOATS = frozenset({"float", "double"})  # 0.0 equals -0.0; of strings with a collation, 'a' may equal 'A'


def key_of_join(inputs: Sequence[Relation], conditions: Iterable[Expr], types: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of those inputs from which, by the conditions, the keys of all others follow. Later ones are left out
    first."""
    equal = list(_equalities(conditions, types))
    kept = list(inputs)
    for candidate in reversed(inputs):
        others = [relation for relation in kept if relation is not candidate]
        if others and set(candidate.key) <= _determined(others, inputs, equal):
            kept = others
    return tuple(column for relation in kept for column in relation.key)


def determines(left: Relation, right: Relation, on: Expr, types: Mapping[str, str]) -> bool:
    """Whether a row of the left one has at most one of the right one."""
    equal = list(_equalities(conjuncts(on), types))
    return set(right.key) <= _determined([left], [left, right], equal)


def conjuncts(condition: Expr) -> list[Expr]:
    """The parts of an AND, without parentheses around them."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        return [*conjuncts(condition.this), *conjuncts(condition.expression)]
    return [condition]


def apart_from_or(condition: Expr) -> list[Expr]:
    """The parts of an AND, where what all alternatives of an OR have in common is a part by itself: of
    `(a AND b) OR (a AND c)` that is a, and `b OR c`. They hold, fail and are unknown together."""
    return [part for conjunct in conjuncts(condition) for part in _in_common(conjunct)]


def _in_common(condition: Expr) -> list[Expr]:
    alternatives = [conjuncts(one) for one in _alternatives(condition)]
    common = [part for part in alternatives[0] if all(part in others for others in alternatives[1:])]
    if len(alternatives) == 1 or not common:
        return [condition]
    rest = [[part for part in parts if part not in common] for parts in alternatives]
    if not all(rest):
        return common
    return [*common, exp.paren(exp.or_(*(exp.and_(*parts) for parts in rest)), copy=False)]


def _alternatives(condition: Expr) -> list[Expr]:
    """The parts of an OR, without parentheses around them."""
    condition = condition.unnest()
    if isinstance(condition, exp.Or):
        return [*_alternatives(condition.this), *_alternatives(condition.expression)]
    return [condition]


def equated(condition: Expr) -> tuple[Expr, Expr] | None:
    """Both sides of an equality."""
    condition = condition.unnest()
    return (condition.this, condition.expression) if isinstance(condition, exp.EQ) else None


def _equalities(conditions: Iterable[Expr], types: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for condition in conditions:
        match equated(condition):
            case (exp.Column() as left, exp.Column() as right) if one_to_one(types, left.name, right.name):
                yield left.name, right.name
                yield right.name, left.name


def one_to_one(types: Mapping[str, str], left: str, right: str) -> bool:
    """Whether values of these columns that are equal are the same."""
    kinds = {types.get(left, ""), types.get(right, "")}
    if not all(map(_PLAIN.fullmatch, kinds)):
        return False
    return len(kinds) == 1 or kinds <= _WHOLE_NUMBERS


def is_plain(kind: str) -> bool:
    """Whether the type has no parts, and one way to be written."""
    return kind in _FLOATS or _PLAIN.fullmatch(kind) is not None


def _determined(
    given: Sequence[Relation], inputs: Sequence[Relation], equal: Sequence[tuple[str, str]]
) -> frozenset[str]:
    """The columns that follow from those of the given relations."""
    known = {column for relation in given for column in relation.columns}
    while True:
        more = {right for left, right in equal if left in known}
        more |= {column for relation in inputs if set(relation.key) <= known for column in relation.columns}
        if more <= known:
            return frozenset(known)
        known |= more


def reads_only(tree: Expr, columns: Iterable[str]) -> bool:
    """Whether an expression needs nothing else."""
    return set(columns_in(tree)) <= set(columns)
