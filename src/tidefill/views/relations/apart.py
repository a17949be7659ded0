"""Subqueries in an expression, taken out of it: names stand in their places until it is known what they give."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tidefill.views.relations.parts import refuse_others
from tidefill.views.relations.texts import HIDDEN, Expr

_NEGATED = "tidefill_negated"


def _under_not(node: exp.Expr, tree: Expr) -> bool:
    """Whether Spark asks for the opposite of this part of the expression: it moves NOT down through AND and OR."""
    around = None if node is tree else node.parent
    turned = _turned(around)
    if around is None or turned is None:
        return False
    return turned ^ _under_not(around, tree)


def _turned(around: exp.Expr | None) -> bool | None:
    """Whether it is NOT, or a comparison that Spark takes for NOT; None if NOT is not moved through it."""
    match around:
        case exp.Paren() | exp.And() | exp.Or():
            return False
        case exp.Not():
            return True
        case exp.EQ() | exp.NEQ():
            sides = around.this.unnest(), around.expression.unnest()
            constants = [side.this for side in sides if isinstance(side, exp.Boolean)]
            return constants[0] is isinstance(around, exp.NEQ) if constants else None
        case _:
            return None


def is_negated(node: Expr) -> bool:
    """Whether IN, which `apart` took out, was asked under NOT. (Spark gives false where IN is unknown, and where NOT IN
    is.)"""
    return bool(node.meta.get(_NEGATED))


def apart(tree: Expr, taken: int) -> tuple[Expr, dict[str, exp.Expr]]:
    """The expression with names in place of the subqueries that stand for a value, and of IN and EXISTS with a
    subquery; and these by name, of which so many are taken. No column has such a name: it begins like hidden ones."""
    queries: dict[str, exp.Expr] = {}

    def name(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Subquery | exp.Exists) and not _is_in_query(node):
            return node
        queries[f"{HIDDEN}subquery{taken + len(queries)}"] = inside(node)
        return exp.Placeholder(this=list(queries)[-1])

    tree = tree.copy()
    for node in filter(_is_in_query, tree.find_all(exp.In)):
        node.meta[_NEGATED] = _under_not(node, tree)
    return tree.transform(name), queries


def filled(tree: Expr, values: Mapping[str, Expr]) -> Expr:
    """With what the names in place of subqueries stand for."""
    return tree.transform(lambda node: exp.paren(values[node.this]) if isinstance(node, exp.Placeholder) else node)


def inside(tree: exp.Expr) -> exp.Expr:
    """What stands in parentheses, which must have nothing of their own."""
    while isinstance(tree, exp.Subquery):
        refuse_others(tree, {"this"})
        tree = tree.this
    return tree


def _is_in_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.In) and node.args.get("query") is not None
