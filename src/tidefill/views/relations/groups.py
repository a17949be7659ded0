"""GROUP BY and HAVING: the groups of a query, and which of them it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.relations.apart import apart, filled
from tidefill.views.relations.expressions import expression_of
from tidefill.views.relations.folding import Folded, has_aggregates
from tidefill.views.relations.grouping_sets import Expanded, Groupings, expanded, groupings
from tidefill.views.relations.keys import reads_only
from tidefill.views.relations.naming import Names
from tidefill.views.relations.parts import refuse_others, refused, shown_as
from tidefill.views.relations.relations import Aggregate, Filter, Relation
from tidefill.views.relations.scope import Scope
from tidefill.views.relations.texts import HIDDEN, Expr, Item, columns_in, enclosed, number

_ITEM = f"{HIDDEN}item:"  # before the number of a name in place of which a value will stand

# Joins a relation with a subquery that stands for a value: the joined rows, and the value in them. The last argument
# says what columns of FROM are called in a row of groups.
Joining: TypeAlias = Callable[[Relation, exp.Expr, Callable[[Expr], Expr]], tuple[Relation, Expr]]


@dataclass(frozen=True, slots=True)
class Grouped:
    """The rows of the groups, the items of SELECT over them, and the groups with the columns that hold them."""

    relation: Relation
    items: list[tuple[str, Expr]]
    groups: list[Item]


def grouped(
    tree: exp.Select,
    relation: Relation,
    scope: Scope,
    items: Sequence[tuple[str, Expr]],
    names: Names,
    join: Joining,
    settle: Callable[[Expr], Expr],
    more: Sequence[Expr] = (),
) -> Grouped:
    """The groups of a query that HAVING keeps. `settle`: makes the choices that aggregates in HAVING leave open.
    `more`: what the rows are grouped by beside the groups of the query. Raises BadSql or UnsupportedQuery."""
    found = _groupings(tree, scope, items)
    groups = _named((*found.values, *more), names)
    rows = expanded(relation, found, groups, names) if found.several else Expanded(relation, tuple(groups))
    folded = Folded(groups, names.fresh, rows.grouping)
    outputs = [(name, folded(value)) for name, value in items]
    having, queries = _having(tree, scope, items)
    having = settle(having) if having is not None else None
    if having is not None and having.find(exp.Window) is not None:
        raise BadSql("HAVING has a window function", detail=shown_as(having))
    kept = folded(having) if having is not None else None
    aggregates = folded.aggregates if rows.items else [(names.fresh("one"), number(0)), *folded.aggregates]
    aggregate = Aggregate(rows.relation, rows.items, tuple(aggregates))
    for value in [*(value for _, value in outputs), *([kept] if kept is not None else [])]:
        if not reads_only(value, aggregate.columns):
            raise BadSql("a column is neither in GROUP BY nor in an aggregate function", detail=shown_as(value))
    if kept is None:
        return Grouped(aggregate, outputs, groups)
    values: dict[str, Expr] = {}
    joined: Relation = aggregate
    for name, query in queries.items():
        joined, values[name] = join(joined, query, folded)
    return Grouped(Filter(joined, filled(kept, values)), outputs, groups)


def _named(values: Iterable[Expr], names: Names) -> list[Item]:
    """Each group once, with the name of the column that holds it."""
    groups: list[Item] = []
    for value in values:
        if all(value != known for _, known in groups):
            name = names.like(value.name) if isinstance(value, exp.Column) else names.fresh("group")
            groups.append((name, value))
    return groups


def _groupings(tree: exp.Select, scope: Scope, items: Sequence[tuple[str, Expr]]) -> Groupings:
    """What GROUP BY groups by, in one way or in several."""
    clause = tree.args.get("group")
    if clause is None:
        return Groupings((), ((),), several=False)
    refuse_others(clause, {"expressions", "rollup", "cube", "grouping_sets"})
    found = groupings(clause, lambda group: _value(group, scope, items))
    if found is None:
        values = tuple(_value(group, scope, items) for group in clause.expressions)
        return Groupings(values, (values,), several=False)
    return found


def _value(group: Expr, scope: Scope, items: Sequence[tuple[str, Expr]]) -> Expr:
    """What an expression in GROUP BY means."""
    if has_aggregates(group):
        raise BadSql("GROUP BY has an aggregate function", detail=shown_as(group))
    value = _group(group.unnest(), scope, items)
    if isinstance(value, exp.Literal) or not set(columns_in(value)):
        raise refused(group, "a group is a constant", "Leave it out of GROUP BY: it is the same for all rows.")
    if has_aggregates(value) or value.find(exp.Window) is not None:
        raise BadSql("GROUP BY has an aggregate or a window function", detail=shown_as(group))
    return value


def _group(tree: Expr, scope: Scope, items: Sequence[tuple[str, Expr]]) -> Expr:
    """A column of FROM, else a name given with AS, or the number of an item."""
    if isinstance(tree, exp.Literal) and not tree.is_string:
        place = int(tree.this) if tree.this.isdigit() else 0
        if not 1 <= place <= len(items):
            raise BadSql(f"GROUP BY {tree.this} is not the number of an item of SELECT")
        return items[place - 1][1]
    if isinstance(tree, exp.Column) and not tree.table and not scope.has(tree.name):
        named = [value for name, value in items if name.casefold() == tree.name.casefold()]
        if len(named) == 1:
            return named[0]
    return expression_of(tree, scope)


def _having(
    tree: exp.Select, scope: Scope, items: Sequence[tuple[str, Expr]]
) -> tuple[Expr | None, Mapping[str, exp.Expr]]:
    """The condition, and the subqueries in it, for which it has names."""
    clause = tree.args.get("having")
    if clause is None:
        return None, {}
    condition, queries = apart(clause.this, 0)
    if any(isinstance(query, exp.In | exp.Exists) for query in queries.values()):
        hint = "Put the groups into a query in FROM, and IN or EXISTS into WHERE around it."
        raise refused(clause, "HAVING has IN or EXISTS with a subquery", hint)
    return by_items(condition, scope, items, "HAVING"), queries


def by_items(
    condition: Expr, scope: Scope, items: Sequence[tuple[str, Expr]], clause: str, *, windows: bool = False
) -> Expr:
    """A condition on what SELECT gives: a name in it is a column of FROM, or an item that has the name by AS.
    UnsupportedQuery if it is both, and they differ."""
    given = {name.casefold(): value for name, value in items if name}

    def meant(node: exp.Column) -> Expr | None:
        name = node.name.casefold()
        if node.table or name not in given:
            return None
        if scope.has(name) and given[name] != scope.resolved(node):
            raise refused(node, f"{name} in {clause} has two meanings", "Give the item another name with AS.")
        return given[name]

    return with_names(condition, scope, meant, windows=windows)


def with_names(tree: Expr, scope: Scope, meant: Callable[[exp.Column], Expr | None], *, windows: bool = False) -> Expr:
    """The expression over FROM, where `meant` has what else a name means; None: it is a name of FROM."""
    values: list[Expr] = []

    def name(node: exp.Expr) -> exp.Expr:
        value = meant(node) if isinstance(node, exp.Column) else None
        if value is None:
            return node
        values.append(value)
        return exp.Placeholder(this=f"{_ITEM}{len(values) - 1}")

    def value(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Placeholder) or not node.this.startswith(_ITEM):
            return node
        found = values[int(node.this.removeprefix(_ITEM))].copy()
        return found if node.parent is None else enclosed(found)

    return expression_of(tree.transform(name), scope, aggregates=True, windows=windows).transform(value)
