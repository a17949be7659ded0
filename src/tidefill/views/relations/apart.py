"""Subqueries in an expression, taken out of it: names stand in their places until it is known what they give."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tidefill.views.relations.parts import refuse_others
from tidefill.views.relations.texts import HIDDEN, Expr

_ASKED = "tidefill_asked"


def as_condition(tree: Expr) -> Expr:
    """The condition with a mark on each IN and EXISTS that stands under AND and OR alone: there unknown is as good as
    false."""
    tree = tree.copy()
    for node in tree.find_all(exp.In, exp.Exists):
        around = node.parent
        while isinstance(around, exp.And | exp.Or | exp.Paren) and around is not tree:
            around = around.parent
        if node is tree or (around is tree and isinstance(tree, exp.And | exp.Or | exp.Paren)):
            node.meta[_ASKED] = True
    return tree


def is_asked(node: Expr) -> bool:
    """Whether only true matters, and unknown is as good as false."""
    return bool(node.meta.get(_ASKED))


def apart(tree: Expr, taken: int) -> tuple[Expr, dict[str, exp.Expr]]:
    """The expression with names in place of the subqueries that stand for a value, and of IN and EXISTS with a
    subquery; and these by name, of which so many are taken. No column has such a name: it begins like hidden ones."""
    queries: dict[str, exp.Expr] = {}

    def name(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Subquery | exp.Exists) and not _is_in_query(node):
            return node
        queries[f"{HIDDEN}subquery{taken + len(queries)}"] = inside(node)
        return exp.Placeholder(this=list(queries)[-1])

    return tree.copy().transform(name), queries


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
