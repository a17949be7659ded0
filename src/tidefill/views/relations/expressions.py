"""Expressions of a query over our own names. What is not known is refused."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.reading.refusals import KNOWN
from tidefill.views.relations.fields import fields_named
from tidefill.views.relations.folding import has_aggregates, is_of_window
from tidefill.views.relations.generators import makes_rows
from tidefill.views.relations.parts import refuse_others, refused, shown_as
from tidefill.views.relations.scope import Scope
from tidefill.views.relations.texts import Expr, col
from tidefill.views.relations.windows import ONLY_OVER, PARTS, PICKS

_IN_AGGREGATES = (
    *KNOWN, exp.Distinct, exp.Star, exp.Filter, exp.Where, exp.WithinGroup, exp.Order, exp.Ordered, exp.IgnoreNulls,
    exp.RespectNulls,
)  # fmt: skip


def expression_of(tree: Expr, scope: Scope, *, aggregates: bool = False, windows: bool = False) -> Expr:
    """Over our own names; a function of one row, or of the rows of a group or a partition."""
    known = _IN_AGGREGATES if aggregates else KNOWN
    if (query := tree.find(exp.Query, exp.Values)) is not None:
        hint = "In WHERE, IN and EXISTS may have a subquery that is joined by AND to the rest; else write a join."
        raise refused(query, "a subquery stands where it cannot be kept fresh", hint)
    if not aggregates and has_aggregates(tree):
        raise BadSql("an aggregate function stands where there are no groups", detail=shown_as(tree))
    for node in tree.walk():
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            raise refused(tree, "a star stands inside of an expression", "Name the columns.")
        if node is not tree and makes_rows(node):
            hint = "Put it into a query in FROM, and use its column here."
            raise refused(node, "a function that makes rows stands inside of an expression", hint)
        if isinstance(node, exp.Window) and not windows:
            hint = "Put it into a query in FROM, and use its column here."
            raise refused(node, "a window function stands outside of SELECT", hint)
        if isinstance(node, ONLY_OVER) and not is_of_window(node) and not (aggregates and isinstance(node, PICKS)):
            hint = "Write OVER (PARTITION BY ... ORDER BY ...) after it, or use min or max."
            raise refused(node, "the function depends on the order of the rows", hint)
        in_window = isinstance(node, PARTS) and node.find_ancestor(exp.Window) is not None
        if not in_window and not isinstance(node, known):
            hint = "Use operators and functions of columns; put names that are keywords in backticks."
            raise refused(node, "an expression is not known", hint)
    return scope.resolved(fields_named(tree))


def items_of(expressions: Sequence[Expr], scope: Scope) -> list[tuple[str, Expr]]:
    """The items of SELECT with their names; a star is all of its columns."""
    items: list[tuple[str, Expr]] = []
    for item in expressions:
        match item:
            case exp.Star():
                refuse_others(item, set())
                items += [(shown, col(inner)) for shown, inner in scope.star()]
            case exp.Column(this=exp.Star()):
                refuse_others(item.this, set())
                items += [(shown, col(inner)) for shown, inner in scope.star(item.table)]
            case exp.Paren() if isinstance(item.unnest(), exp.Column):
                items += items_of([item.unnest()], scope)
            case _:
                value = expression_of(item.unalias(), scope, aggregates=True, windows=True)
                items.append((item.alias_or_name, value))
    return items
