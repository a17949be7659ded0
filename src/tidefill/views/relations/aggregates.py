"""Aggregates that leave a choice open, and the expressions that make it.

`collect_list(x)` may list the values of a group in any order, `first(x)` may take any of them, `mode(x)` any of those
that are most frequent. The compiler takes the rows in the order of the key of the input, or the least value, so that a
group says the same each time it is computed. VERIFY writes the same expressions into the user's query (`choices.py`).

| aggregate | what is computed instead, over the key k |
|---|---|
| collect_list, array_agg | the values, in the order of k |
| collect_set, and collect_list of DISTINCT | the values, in their own order |
| listagg, string_agg | WITHIN GROUP (ORDER BY ..., k) |
| first, any_value; last | the value of the row with the least k; with the greatest |
| min_by, max_by | of equal ones the one with the least k; with the greatest |
| mode | the least of the most frequent values |
| percentile_approx | the exact percentile: the value at that place among all values, in their order |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.views.relations.folding import is_of_window
from tidefill.views.relations.parts import refused, shown_as
from tidefill.views.relations.texts import Expr, called, case, cast, is_null, name, not_, number

_LISTS = ("collect_list", "array_agg")
_TEXTS = ("listagg", "string_agg")
_PERCENTILES = ("percentile_approx", "approx_percentile")
_WITHOUT_KEY = ("collect_set", "mode", *_PERCENTILES)
_OPEN = (*_LISTS, *_TEXTS, *_WITHOUT_KEY, "any_value", "min_by", "max_by")
_PLACES: dict[type[exp.Expr], str] = {
    exp.First: "first", exp.FirstValue: "first", exp.Last: "last", exp.LastValue: "last",
}  # fmt: skip
_VALUE, _ELEMENT = "v", "e"


@dataclass(frozen=True, slots=True)
class _Call:
    """An aggregate: its name, its arguments, whether it is of DISTINCT values, whether it leaves out NULL, the ORDER BY
    of WITHIN GROUP, and the condition of FILTER."""

    name: str
    arguments: tuple[Expr, ...]
    distinct: bool
    ignores_null: bool
    order: tuple[Expr, ...]
    where: Expr | None


def is_open(node: exp.Expr) -> bool:
    """Whether it is an aggregate, with all that belongs to it, that leaves a choice open."""
    if isinstance(node.parent, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        return False  # the choice is that of the whole
    call = _call(node)
    return call is not None and not is_of_window(node) and not _is_closed(call)


def needs_key(node: Expr) -> bool:
    """Whether the choice is made by the key."""
    call = _call(node)
    return call is not None and call.name not in _WITHOUT_KEY and not call.distinct


def with_choices(tree: Expr, choose: Callable[[Expr], Sequence[Expr]]) -> Expr:
    """The expression with every choice made. `choose` gives the key for an aggregate."""
    return tree.copy().transform(lambda node: chosen(node, choose(node)) if is_open(node) else node)


def chosen(node: Expr, key: Sequence[Expr]) -> Expr:
    """The expression that makes the choice of an aggregate by this key."""
    call = _call(node)
    assert call is not None, "only open aggregates are asked for"
    match call.name:
        case "collect_list" | "array_agg":
            return _sorted(call, "collect_list") if call.distinct else _listed(call, key)
        case "collect_set":
            return _sorted(call, "collect_set")
        case "listagg" | "string_agg":
            return _within_group(call, key)
        case "first" | "any_value":
            return _picked(call, exp.ArgMin, key)
        case "last":
            return _picked(call, exp.ArgMax, key)
        case "min_by" | "max_by":
            return _best(call, exp.ArgMin if call.name == "min_by" else exp.ArgMax, key)
        case "mode":
            return _filtered(call, called("mode", call.arguments[0], exp.true()))
        case _:
            return _percentile(call, node)


def _call(node: exp.Expr) -> _Call | None:
    """The aggregate, if it is one of these; None for others."""
    where: Expr | None = None
    order: tuple[Expr, ...] = ()
    ignores_null = False
    if isinstance(node, exp.Filter):
        node, where = node.this, node.expression.this
    if isinstance(node, exp.WithinGroup):
        node, order = node.this, tuple(node.expression.expressions)
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        node, ignores_null = node.this, isinstance(node, exp.IgnoreNulls)
    named = _PLACES.get(type(node)) or (node.name.lower() if isinstance(node, exp.Anonymous) else "")
    if named not in (*_OPEN, "first", "last"):
        return None
    arguments = [node.this] if type(node) in _PLACES else node.expressions
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    return _Call(named, tuple(arguments), distinct, ignores_null, order, where)


def _is_closed(call: _Call) -> bool:
    """`mode() WITHIN GROUP (ORDER BY x)` and `mode(x, true)` say which one, and DISTINCT texts have an order of their
    own if they have one."""
    if call.name == "mode":
        return bool(call.order) or len(call.arguments) != 1
    return call.name in _TEXTS and call.distinct and bool(call.order)


def _filtered(call: _Call, aggregate: Expr) -> Expr:
    if call.where is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=call.where.copy()))


def _some(value: Expr) -> Expr:
    return not_(is_null(value.copy()))


def _struct(*fields: tuple[str, Expr]) -> Expr:
    return exp.Struct(
        expressions=[exp.PropertyEQ(this=name(field), expression=value.copy()) for field, value in fields]
    )


def _of_key(key: Sequence[Expr]) -> list[tuple[str, Expr]]:
    return [(f"k{index}", value) for index, value in enumerate(key)]


def _field(value: Expr) -> Expr:
    return exp.Dot(this=value, expression=name(_VALUE))


def _sorted(call: _Call, function: str) -> Expr:
    value = call.arguments[0].copy()
    argument = exp.Distinct(expressions=[value]) if call.distinct else value
    return called("array_sort", _filtered(call, called(function, argument)))


def _listed(call: _Call, key: Sequence[Expr]) -> Expr:
    """Pairs of key and value are sorted, and their values are taken."""
    value = call.arguments[0]
    pair = case((_some(value), _struct(*_of_key(key), (_VALUE, value))))
    pairs = called("array_sort", _filtered(call, called("collect_list", pair)))
    values = exp.Lambda(this=_field(name(_ELEMENT)), expressions=[name(_ELEMENT)])
    return exp.Transform(this=pairs, expression=values)


def _within_group(call: _Call, key: Sequence[Expr]) -> Expr:
    value, *rest = (argument.copy() for argument in call.arguments)
    ordered: list[Expr] = [_ascending(value)]
    if call.distinct:
        text = called(call.name, exp.Distinct(expressions=[value]), *rest)
    else:
        missing = [one for one in key if all(one != ordered.this for ordered in call.order)]
        ordered = [*(one.copy() for one in call.order), *(_ascending(one) for one in missing)]
        text = called(call.name, value, *rest)
    return _filtered(call, exp.WithinGroup(this=text, expression=exp.Order(expressions=ordered)))


def _ascending(value: Expr) -> exp.Ordered:
    return exp.Ordered(this=value.copy(), nulls_first=True)


def _picked(call: _Call, kind: type[exp.ArgMin | exp.ArgMax], key: Sequence[Expr]) -> Expr:
    value = call.arguments[0]
    order = _struct(*_of_key(key))
    if call.ignores_null:
        order = case((_some(value), order))
    return _field(exp.paren(_filtered(call, kind(this=_struct((_VALUE, value)), expression=order))))


def _best(call: _Call, kind: type[exp.ArgMin | exp.ArgMax], key: Sequence[Expr]) -> Expr:
    value, by = call.arguments
    order = case((_some(by), _struct(("y", by), *_of_key(key))))
    return _field(exp.paren(_filtered(call, kind(this=_struct((_VALUE, value)), expression=order))))


def _percentile(call: _Call, node: Expr) -> Expr:
    if call.distinct or len(call.arguments) < 2:
        raise refused(node, "an approximate percentile is not known", "Write percentile_approx(x, 0.5).")
    value, share = call.arguments[0], call.arguments[1]
    values = called("array_sort", _filtered(call, called("collect_list", value.copy())))
    if isinstance(share, exp.Anonymous) and share.name.lower() == "array":
        one = exp.Lambda(this=_at(values, name(_ELEMENT)), expressions=[name(_ELEMENT)])
        return case((_has_some(values), exp.Transform(this=share.copy(), expression=one)))
    return case((_has_some(values), _at(values, share.copy())))


def _has_some(values: Expr) -> Expr:
    return exp.GT(this=called("size", values.copy()), expression=number(0))


def _at(values: Expr, share: Expr) -> Expr:
    """The value before which there is that share of all values."""
    rank = called("ceil", exp.Mul(this=cast(share, "double"), expression=called("size", values.copy())))
    place = exp.Sub(this=called("greatest", cast(rank, "int"), number(1)), expression=number(1))
    return called("get", values.copy(), place)


def told(node: Expr, key: Sequence[str]) -> str:
    """The choice, for a person."""
    call = _call(node)
    assert call is not None, "only open aggregates are asked for"
    if call.name == "mode":
        return f"{shown_as(node)} is the least of the most frequent values"
    if call.name in _PERCENTILES:
        return f"{shown_as(node)} is computed exactly"
    if not needs_key(node):
        return f"{shown_as(node)} has its values in their own order"
    return f"{shown_as(node)} takes rows in the order of {', '.join(key)}"
