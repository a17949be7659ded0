"""From the tree of a user's query to relations. What is not known here is refused, never ignored.

Names are resolved by our own rules, which are Spark's where both have one meaning; where Spark would choose between
two, the query is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, TypeGuard

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.reading.refusals import KNOWN, NO_ORDER
from tidefill.views.relations import keys
from tidefill.views.relations.choices import Settled, place_of, placed, reference, settled
from tidefill.views.relations.copies import Copy
from tidefill.views.relations.fields import fields_named
from tidefill.views.relations.folding import Folded, counts, has_aggregates, is_of_window
from tidefill.views.relations.keys import conjuncts, reads_only
from tidefill.views.relations.parts import GROUPING_SETS, refuse_others, refused, shown_as
from tidefill.views.relations.relations import (
    Aggregate,
    Filter,
    InnerJoin,
    LeftJoin,
    Matched,
    Project,
    Relation,
    Scan,
    Union,
)
from tidefill.views.relations.scope import Scope, Source
from tidefill.views.relations.texts import HIDDEN, Expr, Item, both, cast, coalesce, col, columns_in, number, plain
from tidefill.views.relations.using import using
from tidefill.views.relations.windows import ONLY_OVER, PARTS, windowed

_CLAUSES = {"expressions", "from", "joins", "where", "group", "having", "distinct", "with", "order"}
_CLAUSES_OF_SETS = {"this", "expression", "distinct", "with", "order", "expressions"}
_OF_TABLE = {"this", "db", "catalog", "alias"}
_OF_JOIN = {"this", "side", "kind", "on", "using"}
_OF_SUBQUERY = {"this", "alias"}
_IN_AGGREGATES = (*KNOWN, exp.Distinct, exp.Star, exp.Filter, exp.Where)

_JOINS = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner",
    ("LEFT", ""): "left", ("LEFT", "OUTER"): "left", ("RIGHT", ""): "right", ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full", ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi", ("", "SEMI"): "semi", ("LEFT", "ANTI"): "anti", ("", "ANTI"): "anti",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableColumns:
    """A table that the query names: by which name we know it, its columns with their types, and its key."""

    name: str
    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lowered:
    """A query: its relation, and which of the columns it shows under which names."""

    relation: Relation
    shown: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Told:
    """What else the lowering of a query found: notices for the user, and the query with all that it leaves open
    settled."""

    notices: tuple[str, ...]
    settled: Settled


@dataclass(frozen=True, slots=True)
class _Body:
    """FROM and WHERE. `open`: conditions on columns of a query around this one."""

    relation: Relation
    scope: Scope
    open: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class _Joined:
    """`items`: what is computed from the rows of the join."""

    kind: str
    relation: Relation
    conditions: tuple[Expr, ...]
    items: tuple[Item, ...] = ()

    def columns(self, left: Relation) -> tuple[str, ...]:
        own = () if self.kind in ("semi", "anti") else self.relation.columns
        return (*left.columns, *own, *(column for column, _ in self.items))


_Env: TypeAlias = Mapping[str, Callable[[], Lowered]]


def lower(tree: exp.Expr, find: Callable[[tuple[str, ...]], TableColumns]) -> tuple[Lowered, Told]:
    """The query as relations, and what else is to be said of it. Raises BadSql or UnsupportedQuery."""
    lowering, tree = _Lowering(find), placed(tree)
    lowered = lowering.query(tree, {})
    return lowered, Told(tuple(dict.fromkeys(lowering.notices)), settled(tree, lowering.orders))


class _Lowering:
    def __init__(self, find: Callable[[tuple[str, ...]], TableColumns]) -> None:
        self._find = find
        self._taken: set[str] = set()
        self._types: dict[str, str] = {}
        self._beyond: Scope | None = None
        self._groups_of: dict[str, Expr] = {}
        self.notices: list[str] = []
        self.orders: dict[int, list[exp.Column] | None] = {}

    # Queries.

    def query(self, tree: exp.Expr, env: _Env) -> Lowered:
        env = self._with(tree, env)
        if tree.args.get("order"):
            self.notices.append(NO_ORDER)
        match tree:
            case exp.Subquery():
                refuse_others(tree, {"this"})
                return self.query(tree.this, env)
            case exp.Union():
                return self._union(tree, env)
            case exp.Intersect() | exp.Except():
                return self._compared(tree, env)
            case exp.Select():
                return self._select(tree, env)
            case _:
                hint = "Write it with SELECT, UNION, INTERSECT and EXCEPT."
                raise refused(tree, "the query is not made of SELECT", hint)

    def _with(self, tree: exp.Expr, env: _Env) -> _Env:
        clause = tree.args.get("with_")
        if clause is None:
            return env
        if clause.args.get("recursive"):
            raise refused(clause, "a WITH is recursive", "Only queries that do not read themselves can be kept fresh.")
        inner = dict(env)
        for part in clause.expressions:
            if part.args["alias"].args.get("columns"):
                raise refused(part, "a WITH renames its columns", "Name them with AS inside of it.")
            inner[part.alias.casefold()] = partial(self.query, part.this, dict(inner))
        return inner

    def _union(self, tree: exp.Union, env: _Env) -> Lowered:
        stacked = self._stacked(tree, _flat(tree), env)
        return self._distinct(stacked) if tree.args.get("distinct") else stacked

    def _compared(self, tree: exp.Intersect | exp.Except, env: _Env) -> Lowered:
        """The rows of both sides in one, with the number of the side, grouped, so that NULL is equal to NULL."""
        if not tree.args.get("distinct"):
            hint = "Leave out ALL, or count the rows of each side with GROUP BY and join the two."
            raise refused(tree, "INTERSECT ALL and EXCEPT ALL count equal rows", hint)
        stacked = self._stacked(tree, (tree.this, tree.expression), env)
        side = col(stacked.relation.key[0])
        first: Item = (self._fresh("first"), exp.Min(this=side))
        last: Item = (self._fresh("last"), exp.Max(this=side.copy()))
        groups = self._distinct(stacked, first, last)
        return replace(groups, relation=Filter(groups.relation, _kept(tree, col(first[0]), col(last[0]))))

    def _stacked(self, tree: exp.SetOperation, queries: Iterable[exp.Expr], env: _Env) -> Lowered:
        """All rows of all parts; the key is the number of the part, and the keys of all, of which it has its own."""
        refuse_others(tree, _CLAUSES_OF_SETS)
        if tree.args.get("by_name"):
            raise refused(tree, f"{tree.key.upper()} BY NAME", "Name the columns of each part in the same order.")
        parts = [self.query(part, env) for part in queries]
        if len({len(part.shown) for part in parts}) > 1:
            raise BadSql(f"the parts of {tree.key.upper()} have not the same number of columns")
        tag = self._fresh("part")
        outputs = [self._fresh(name or "column") for name, _ in parts[0].shown]
        own = [[self._fresh(f"key{index}") for _ in part.relation.key] for index, part in enumerate(parts)]
        children = []
        for index, part in enumerate(parts):
            items: list[Item] = [(tag, number(index))]
            items += [(output, col(inner)) for output, (_, inner) in zip(outputs, part.shown, strict=True)]
            for other, names in enumerate(own):
                values = map(col if other == index else self._null, parts[other].relation.key)
                items += list(zip(names, values, strict=True))
            key = (tag, *(name for names in own for name in names))
            children.append(Project(part.relation, tuple(items), key))
        shown = tuple((name, output) for (name, _), output in zip(parts[0].shown, outputs, strict=True))
        return Lowered(Union(tuple(children), children[0].key), shown)

    def _distinct(self, query: Lowered, *aggregates: Item) -> Lowered:
        inner = list(dict.fromkeys(column for _, column in query.shown))
        groups = {column: self._like(column) for column in inner}
        items: tuple[Item, ...] = tuple((group, col(column)) for column, group in groups.items())
        return Lowered(
            Aggregate(query.relation, items, aggregates), tuple((name, groups[column]) for name, column in query.shown)
        )

    # FROM and WHERE.

    def _select(self, tree: exp.Select, env: _Env) -> Lowered:
        body = self._body(tree, env, None)
        assert not body.open, "nothing is around it"
        lowered = self._output(tree, body.relation, body.scope, env)
        return self._distinct(lowered) if tree.args.get("distinct") else lowered

    def _body(self, tree: exp.Select, env: _Env, outer: Scope | None) -> _Body:
        refuse_others(tree, _CLAUSES)
        if tree.args.get("from_") is None:
            raise refused(tree, "a query reads no table", "Name a table after FROM.")
        relation, first = self._source(tree.args["from_"].this, env)
        sources, joins = [first], []
        for join in tree.args.get("joins") or ():
            sources, joined = self._join(join, sources, env)
            joins.append(joined)
        scope = Scope(tuple(sources), outer, self._beyond)
        alone, matches, scalars = _parted(tree.args["where"].this if tree.args.get("where") else None)
        conditions = [self._expression(condition, scope) for condition in alone]
        available = {column for source in sources for _, column in source.columns}
        closed = [condition for condition in conditions if reads_only(condition, available)]
        relation = self._joined(relation, joins, closed)
        for condition, negated in matches:
            relation = self._match(relation, scope, condition, negated, env)
        for condition in scalars:
            relation = self._with_condition(relation, scope, condition, env)
        return _Body(relation, scope, tuple(condition for condition in conditions if condition not in closed))

    def _source(self, tree: exp.Expr, env: _Env) -> tuple[Relation, Source]:
        if tree.args.get("alias") is not None and tree.args["alias"].args.get("columns"):
            raise refused(tree, "an alias renames columns", "Name them with AS inside of the query.")
        match tree:
            case exp.Subquery():
                refuse_others(tree, _OF_SUBQUERY)
                lowered, alias = self.query(tree.this, env), tree.alias
            case exp.Table(this=exp.Identifier()):
                refuse_others(tree, _OF_TABLE)
                parts, alias = tuple(part.name for part in tree.parts), tree.alias_or_name
                if len(parts) > 1 or parts[0].casefold() not in env:
                    return self._scan(parts, alias)
                lowered = env[parts[0].casefold()]()
            case _:
                hint = "Name tables, queries in parentheses and names of WITH after FROM."
                raise refused(tree, "the query reads something else than a table", hint)
        return lowered.relation, Source(alias, lowered.shown)

    def _scan(self, parts: tuple[str, ...], alias: str) -> tuple[Relation, Source]:
        table = self._find(parts)
        occurrence = self._fresh(alias)
        inner = {name: self._fresh(f"{occurrence}.{name}") for name, _ in table.columns}
        self._types.update({inner[name]: kind for name, kind in table.columns})
        key = tuple(inner[name] for name in table.key)
        scan = Scan(occurrence, table.name, tuple(inner.values()), tuple(inner), key)
        return scan, Source(alias, tuple(inner.items()))

    def _join(self, tree: exp.Join, sources: list[Source], env: _Env) -> tuple[list[Source], _Joined]:
        if tree.args.get("method"):
            raise refused(tree, "a join does not name its columns (NATURAL)", "Write USING (id), or ON a.id = b.id.")
        refuse_others(tree, _OF_JOIN)
        kind = _JOINS.get((tree.side.upper(), tree.kind.upper()))
        if kind is None:
            raise refused(tree, "a join of this kind cannot be kept fresh", "Write INNER, LEFT, RIGHT or FULL JOIN.")
        right, source = self._source(tree.this, env)
        if any(other.alias.casefold() == source.alias.casefold() for other in sources):
            raise refused(tree, f"two tables are called {source.alias}", "Give one of them an alias.")
        if names := [part.name for part in tree.args.get("using") or ()]:
            merged = using(names, sources, source, kind, self._fresh)
            return merged.sources, _Joined(kind, right, merged.conditions, merged.items)
        scope = Scope((*sources, source), None)
        on = tree.args.get("on")
        conditions = tuple(self._expression(part, scope) for part in conjuncts(on)) if on is not None else ()
        return (sources if kind in ("semi", "anti") else [*sources, source]), _Joined(kind, right, conditions)

    def _joined(self, relation: Relation, joins: Sequence[_Joined], conditions: Sequence[Expr]) -> Relation:
        """Each condition where all of its columns are there for the first time, unless a later join would add rows for
        which it was never asked."""
        waiting = list(conditions)
        relation = self._filtered(relation, () if _adds_rows(joins) else _taken(waiting, relation.columns))
        for index, join in enumerate(joins):
            now = [] if _adds_rows(joins[index + 1 :]) else _taken(waiting, join.columns(relation))
            if join.kind == "inner":
                relation = self._inner(relation, join.relation, (*join.conditions, *now))
            else:
                relation = self._filtered(self._outer(relation, join), now)
        assert not waiting, "a condition reads columns that are not there"
        return relation

    def _filtered(self, relation: Relation, conditions: Sequence[Expr]) -> Relation:
        return Filter(relation, both(conditions)) if conditions else relation

    def _inner(self, left: Relation, right: Relation, conditions: Sequence[Expr]) -> Relation:
        """One join of many relations, so that a change of any of them can begin with itself."""
        right_own = [condition for condition in conditions if reads_only(condition, right.columns)]
        rest = tuple(condition for condition in conditions if condition not in right_own)
        right = self._filtered(right, right_own)
        inputs: tuple[Relation, ...] = (left, right)
        if isinstance(left, InnerJoin):
            inputs, rest = (*left.inputs, right), (*left.conditions, *rest)
        return InnerJoin(inputs, rest, keys.key_of_join(inputs, rest, self._types))

    def _outer(self, left: Relation, join: _Joined) -> Relation:
        right, on = join.relation, both(join.conditions)
        match join.kind:
            case "semi" | "anti":
                return Matched(left, right, on, negated=join.kind == "anti")
            case "left":
                return self._left(left, right, on)
            case "right":
                return self._left(right, left, on)
            case "full":
                full = self._full(left, right, on)
                return Project(full, (*plain(full.columns), *join.items), full.key) if join.items else full
        raise AssertionError(join.kind)

    def _left(self, left: Relation, right: Relation, on: Expr) -> LeftJoin:
        own = () if keys.determines(left, right, on, self._types) else right.key
        return LeftJoin(left, right, on, (*left.key, *own))

    def _full(self, left: Relation, right: Relation, on: Expr) -> Relation:
        """The left join, and those of the right one that match nothing: each of the two walks its own table."""
        matched = self._left(left, right, on)
        copied = Copy(self._like)
        right_again, left_again = copied.relation(right), copied.relation(left)
        alone = Matched(right_again, left_again, copied.expression(on), negated=True)
        tag = self._fresh("part")
        first: list[Item] = [(tag, number(0)), *((column, col(column)) for column in matched.columns)]
        second: list[Item] = [(tag, number(1)), *((column, self._null(column)) for column in left.columns)]
        second += [(column, col(copied.names[column])) for column in right.columns]
        key = (tag, *left.key, *right.key)
        return Union((Project(matched, tuple(first), key), Project(alone, tuple(second), key)), key)

    # Subqueries in WHERE.

    def _match(self, left: Relation, scope: Scope, condition: Expr, negated: bool, env: _Env) -> Relation:
        match condition:
            case exp.Exists():
                right, on = self._exists(condition.this, scope, env)
            case exp.In():
                right, on = self._in(condition, scope, negated, env)
            case _:
                raise AssertionError(condition)
        if not reads_only(both(on), (*left.columns, *right.columns)):
            raise refused(condition, "a subquery refers to a query two levels around it", "Write it as a join.")
        return Matched(left, right, both(on), negated)

    def _exists(self, tree: exp.Expr, scope: Scope, env: _Env) -> tuple[Relation, Sequence[Expr]]:
        tree = _inside(tree)
        if not _is_plain(tree):
            return self._closed(tree, scope, env).relation, ()
        body = self._body(tree, self._with(tree, env), scope)
        return body.relation, body.open

    def _closed(self, tree: exp.Expr, scope: Scope, env: _Env) -> Lowered:
        """A subquery that is more than FROM and WHERE, and so cannot look outside."""
        before, self._beyond = self._beyond, scope
        try:
            return self.query(tree, env)
        finally:
            self._beyond = before

    def _in(self, tree: exp.In, scope: Scope, negated: bool, env: _Env) -> tuple[Relation, Sequence[Expr]]:
        """`x NOT IN (...)` holds only if nothing there could be x: an equality that is NULL counts as one."""
        query = _inside(tree.args["query"])
        values = tree.this.expressions if isinstance(tree.this, exp.Tuple) else [tree.this]
        if _is_plain(query):
            body = self._body(query, self._with(query, env), scope)
            found = [expression for _, expression in self._items(query.expressions, body.scope)]
            relation, open_conditions = body.relation, body.open
        else:
            lowered = self._closed(query, scope, env)
            relation, found, open_conditions = lowered.relation, [col(inner) for _, inner in lowered.shown], ()
        if len(found) != len(values):
            raise BadSql("both sides of IN have not the same number of columns")
        pairs = zip(values, found, strict=True)
        equal = both(exp.EQ(this=self._expression(value, scope), expression=other) for value, other in pairs)
        return relation, (*open_conditions, coalesce(exp.paren(equal), exp.true()) if negated else equal)

    # Subqueries that stand for a value.

    def _with_scalars(
        self, relation: Relation, scope: Scope, tree: Expr, values: dict[str, Expr], env: _Env
    ) -> tuple[Relation, Expr]:
        """The relation joined with the subqueries in the expression, and the expression with names in their place,
        under which `values` has what they stand for."""
        replaced, queries = _apart(tree, len(values))
        for name, query in queries.items():
            relation, values[name] = self._scalar(relation, scope, query, env)
        return relation, replaced

    def _with_condition(self, relation: Relation, scope: Scope, tree: Expr, env: _Env) -> Filter:
        """The rows for which a condition with such subqueries holds."""
        values: dict[str, Expr] = {}
        relation, replaced = self._with_scalars(relation, scope, tree, values, env)
        resolved = self._expression(replaced, scope)
        if not reads_only(resolved, relation.columns):
            raise refused(tree, "a condition refers to the query around it and has a subquery", "Write it as a join.")
        return Filter(relation, _filled(resolved, values))

    def _scalar(
        self, left: Relation, scope: Scope, tree: exp.Expr, env: _Env, meant: Callable[[Expr], Expr] = lambda tree: tree
    ) -> tuple[Relation, Expr]:
        """An aggregate without groups is one row, whatever it reads. Where equalities tie it to the row around it, it
        is one row for each group of what they equate; where there is none, an aggregate of nothing. `meant`: what
        columns of FROM around it are called in that row, if it is one of groups."""
        clauses = ("group", "having", "distinct")
        if not isinstance(tree, exp.Select) or any(map(tree.args.get, clauses)) or len(tree.expressions) != 1:
            raise refused(tree, "a subquery for a value is more than one aggregate", "Write it as a join.")
        body = self._body(tree, self._with(tree, env), scope)
        ((_, value),) = self._items(tree.expressions, body.scope)
        windows = value.find(exp.Window) is not None
        if windows or not has_aggregates(value) or not reads_only(value, body.relation.columns):
            raise refused(tree, "a subquery for a value is not an aggregate", "Write it as a join.")
        pairs = [self._correlated(meant(condition), body.relation, left, tree) for condition in body.open]
        groups: list[Item] = [(self._like(inner.name), inner) for inner, _ in pairs]
        folded = Folded([], self._fresh)
        value = folded(value)
        if not groups:
            one = (self._fresh("one"), number(0))
            aggregate = Aggregate(body.relation, (), (one, *folded.aggregates))
            inputs = (*left.inputs, aggregate) if isinstance(left, InnerJoin) else (left, aggregate)
            return InnerJoin(inputs, left.conditions if isinstance(left, InnerJoin) else (), left.key), value
        aggregate = Aggregate(body.relation, tuple(groups), tuple(folded.aggregates))
        on = both(
            exp.EQ(this=outer, expression=col(group)) for (_, outer), (group, _) in zip(pairs, groups, strict=True)
        )
        zeros = {column for column, call in folded.aggregates if counts(call)}
        value = value.transform(
            lambda node: (
                coalesce(node.copy(), number(0)) if isinstance(node, exp.Column) and node.name in zeros else node
            )
        )
        return LeftJoin(left, aggregate, on, left.key), value

    def _correlated(
        self, condition: Expr, inner: Relation, outer: Relation, tree: exp.Expr
    ) -> tuple[exp.Column, exp.Column]:
        """The column inside and the one outside that it equates."""
        for sides in itertools.permutations(keys.equated(condition) or ()):
            match sides:
                case (exp.Column() as one, exp.Column() as other) if (
                    one.name in inner.columns
                    and other.name in outer.columns
                    and keys.one_to_one(self._types, one.name, other.name)
                ):
                    return one, other
        hint = "Equate columns of the same type, or write it as a join."
        raise refused(tree, "a subquery for a value refers to the query around it by more than equalities", hint)

    # SELECT, GROUP BY, HAVING.

    def _items(self, expressions: Sequence[Expr], scope: Scope) -> list[tuple[str, Expr]]:
        items: list[tuple[str, Expr]] = []
        for item in expressions:
            match item:
                case exp.Star():
                    refuse_others(item, set())
                    items += [(shown, col(inner)) for shown, inner in scope.star()]
                case exp.Column(this=exp.Star()):
                    refuse_others(item.this, set())
                    items += [(shown, col(inner)) for shown, inner in scope.star(item.table)]
                case _:
                    value = self._expression(item.unalias(), scope, aggregates=True, windows=True)
                    items.append((item.alias_or_name, value))
        return items

    def _output(self, tree: exp.Select, relation: Relation, scope: Scope, env: _Env) -> Lowered:
        values: dict[str, Expr] = {}
        expressions: list[Expr] = []
        for item in tree.expressions:
            relation, replaced = self._with_scalars(relation, scope, item, values, env)
            expressions.append(replaced)
        items = [(name, _filled(value, values)) for name, value in self._items(expressions, scope)]
        grouped = tree.args.get("group") is not None or any(has_aggregates(value) for _, value in items)
        if grouped or tree.args.get("having") is not None:
            if values:
                hint = "Put the groups into a query in FROM."
                raise refused(tree, "a subquery for a value stands beside groups", hint)
            relation, items = self._grouped(tree, relation, scope, items, env)
        made = windowed(relation, items, self._fresh)
        self.notices += made.notices
        self.orders |= {place_of(window): self._references(columns, scope) for window, columns in made.opened}
        return self._projected(made.relation, made.items)

    def _references(self, columns: Sequence[str], scope: Scope) -> list[exp.Column] | None:
        """The columns, which may be groups, as the query itself can name them; None if it cannot name one of them."""
        meant = [self._groups_of.get(column, col(column)) for column in columns]
        sources = [(source.alias, source.columns) for source in scope.sources]
        found = [reference(value.name, sources) if isinstance(value, exp.Column) else None for value in meant]
        named = [column for column in found if column is not None]
        return named if len(named) == len(columns) else None

    def _projected(self, relation: Relation, items: Sequence[tuple[str, Expr]]) -> Lowered:
        """Columns go on under their names; what is computed gets a new one."""
        shown: list[tuple[str, str]] = []
        computed: list[Item] = []
        for name, value in items:
            if isinstance(value, exp.Column):
                shown.append((name, value.name))
            else:
                computed.append((self._fresh(name or "column"), value))
                shown.append((name, computed[-1][0]))
        if not computed:
            return Lowered(relation, tuple(shown))
        passed = dict.fromkeys([*relation.key, *(value.name for _, value in items if isinstance(value, exp.Column))])
        every: list[Item] = [*((column, col(column)) for column in passed), *computed]
        return Lowered(Project(relation, tuple(every), relation.key), tuple(shown))

    def _grouped(
        self, tree: exp.Select, relation: Relation, scope: Scope, items: Sequence[tuple[str, Expr]], env: _Env
    ) -> tuple[Relation, list[tuple[str, Expr]]]:
        groups: list[Item] = []
        for value in self._groups(tree, scope, items):
            if all(value != known for _, known in groups):
                groups.append(
                    (self._like(value.name) if isinstance(value, exp.Column) else self._fresh("group"), value)
                )
        self._groups_of |= groups
        folded = Folded(groups, self._fresh)
        outputs = [(name, folded(value)) for name, value in items]
        having, queries = self._having(tree, scope, items)
        if having is not None and having.find(exp.Window) is not None:
            raise BadSql("HAVING has a window function", detail=shown_as(having))
        kept = folded(having) if having is not None else None
        aggregates = folded.aggregates if groups else [(self._fresh("one"), number(0)), *folded.aggregates]
        aggregate = Aggregate(relation, tuple(groups), tuple(aggregates))
        for value in [*(value for _, value in outputs), *([kept] if kept is not None else [])]:
            if not reads_only(value, aggregate.columns):
                raise BadSql("a column is neither in GROUP BY nor in an aggregate function", detail=shown_as(value))
        if kept is None:
            return aggregate, outputs
        values: dict[str, Expr] = {}
        joined: Relation = aggregate
        for name, query in queries.items():
            joined, values[name] = self._scalar(joined, scope, query, env, folded)
        return Filter(joined, _filled(kept, values)), outputs

    def _groups(self, tree: exp.Select, scope: Scope, items: Sequence[tuple[str, Expr]]) -> Iterator[Expr]:
        clause = tree.args.get("group")
        if clause is None:
            return
        refuse_others(clause, {"expressions"})
        for group in clause.expressions:
            if isinstance(group, exp.Rollup | exp.Cube | exp.GroupingSets):
                raise refused(group, *GROUPING_SETS)
            if has_aggregates(group):
                raise BadSql("GROUP BY has an aggregate function", detail=shown_as(group))
            value = self._group(group.unnest(), scope, items)
            if isinstance(value, exp.Literal) or not set(columns_in(value)):
                raise refused(group, "a group is a constant", "Leave it out of GROUP BY: it is the same for all rows.")
            if has_aggregates(value) or value.find(exp.Window) is not None:
                raise BadSql("GROUP BY has an aggregate or a window function", detail=shown_as(group))
            yield value

    def _group(self, tree: Expr, scope: Scope, items: Sequence[tuple[str, Expr]]) -> Expr:
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
        return self._expression(tree, scope)

    def _having(
        self, tree: exp.Select, scope: Scope, items: Sequence[tuple[str, Expr]]
    ) -> tuple[Expr | None, Mapping[str, exp.Expr]]:
        """The condition, and the subqueries in it, for which it has names."""
        clause = tree.args.get("having")
        if clause is None:
            return None, {}
        condition, queries = _apart(clause.this, 0)
        for match in condition.find_all(exp.In, exp.Exists):
            if isinstance(match, exp.Exists) or match.args.get("query") is not None:
                hint = "Put the groups into a query in FROM, and IN or EXISTS into WHERE around it."
                raise refused(clause, "HAVING has IN or EXISTS with a subquery", hint)
        given = {name.casefold(): value for name, value in items if name}

        def meant(node: exp.Expr) -> exp.Expr:
            name = node.name.casefold() if isinstance(node, exp.Column) and not node.table else ""
            if name not in given:
                return node
            if scope.has(name) and given[name] != scope.resolved(node):
                raise refused(node, f"{name} in HAVING has two meanings", "Give the item another name with AS.")
            return exp.Placeholder(this=name)

        resolved = self._expression(condition.transform(meant), scope, aggregates=True)
        return resolved.transform(
            lambda node: (
                given[node.this].copy() if isinstance(node, exp.Placeholder) and node.this not in queries else node
            )
        ), queries

    # Expressions.

    def _expression(self, tree: Expr, scope: Scope, *, aggregates: bool = False, windows: bool = False) -> Expr:
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
            if isinstance(node, exp.Window) and not windows:
                hint = "Put it into a query in FROM, and use its column here."
                raise refused(node, "a window function stands outside of SELECT", hint)
            if isinstance(node, ONLY_OVER) and not is_of_window(node):
                hint = "Write OVER (PARTITION BY ... ORDER BY ...) after it, or use min or max."
                raise refused(node, "the function depends on the order of the rows", hint)
            in_window = isinstance(node, PARTS) and node.find_ancestor(exp.Window) is not None
            if not in_window and not isinstance(node, known):
                hint = "Use operators and functions of columns; put names that are keywords in backticks."
                raise refused(node, "an expression is not known", hint)
        return scope.resolved(fields_named(tree))

    def _fresh(self, wish: str) -> str:
        """A name that nobody has, whatever the capitals."""
        name, count = wish, 1
        while name.casefold() in self._taken:
            count += 1
            name = f"{wish}_{count}"
        self._taken.add(name.casefold())
        return name

    def _null(self, column: str) -> Expr:
        """In place of what the column holds."""
        kind = self._types.get(column)
        return cast(exp.null(), kind) if kind is not None and keys.is_plain(kind) else exp.null()

    def _like(self, column: str) -> str:
        """A new name for what another column holds."""
        name = self._fresh(column)
        if column in self._types:
            self._types[name] = self._types[column]
        return name


def _kept(tree: exp.Intersect | exp.Except, first: Expr, last: Expr) -> Expr:
    """Whether a row that the sides from the first to the last one have is in the result."""
    if isinstance(tree, exp.Intersect):
        return exp.LT(this=first, expression=last)
    return exp.EQ(this=last, expression=number(0))


def _flat(tree: exp.Union) -> Iterator[exp.Expr]:
    """The parts of a chain of the same UNION, as Spark reads it from left to right."""
    left = tree.this
    same_kind = isinstance(left, exp.Union) and bool(left.args.get("distinct")) == bool(tree.args.get("distinct"))
    bare = same_kind and {part for part, value in left.args.items() if value} <= {"this", "expression", "distinct"}
    yield from _flat(left) if bare else (left,)
    yield tree.expression


def _inside(tree: exp.Expr) -> exp.Expr:
    """What stands in parentheses, which must have nothing of their own."""
    while isinstance(tree, exp.Subquery):
        refuse_others(tree, {"this"})
        tree = tree.this
    return tree


def _apart(tree: Expr, taken: int) -> tuple[Expr, dict[str, exp.Expr]]:
    """The expression with names in place of the subqueries that stand for a value, and these by name, of which so many
    are taken. No column has such a name: it begins like hidden ones."""
    queries: dict[str, exp.Expr] = {}

    def name(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Subquery):
            return node
        queries[f"{HIDDEN}subquery{taken + len(queries)}"] = _inside(node)
        return exp.Placeholder(this=list(queries)[-1])

    return tree.copy().transform(name), queries


def _filled(tree: Expr, values: Mapping[str, Expr]) -> Expr:
    """With what the names in place of subqueries stand for."""
    return tree.transform(lambda node: exp.paren(values[node.this]) if isinstance(node, exp.Placeholder) else node)


def _parted(where: exp.Expr | None) -> tuple[list[Expr], list[tuple[Expr, bool]], list[Expr]]:
    """Conditions on the row alone; those that are a match, with NOT before them or not; and those with other
    subqueries."""
    plain: list[Expr] = []
    scalars: list[Expr] = []
    matches: list[tuple[Expr, bool]] = []
    for condition in conjuncts(where) if where is not None else ():
        inner, negated = condition, False
        while isinstance(inner, exp.Not):
            inner, negated = inner.this.unnest(), not negated
        if isinstance(inner, exp.Exists) or (isinstance(inner, exp.In) and inner.args.get("query") is not None):
            matches.append((inner, negated))
        elif condition.find(exp.Subquery) is not None and condition.find(exp.Exists) is None:
            scalars.append(condition)
        else:
            plain.append(condition)
    return plain, matches, scalars


def _is_plain(tree: exp.Expr) -> TypeGuard[exp.Select]:
    """Whether a subquery is nothing but FROM and WHERE, so that its conditions may look outside."""
    if not isinstance(tree, exp.Select):
        return False
    clauses = ("group", "having", "distinct")
    over_many = any(has_aggregates(item) or item.find(exp.Window) is not None for item in tree.expressions)
    return not over_many and not any(tree.args.get(clause) for clause in clauses)


def _adds_rows(joins: Sequence[_Joined]) -> bool:
    return any(join.kind in ("right", "full") for join in joins)


def _taken(waiting: list[Expr], columns: Sequence[str]) -> list[Expr]:
    """Those of the waiting conditions that can be asked now; they wait no longer."""
    now = [condition for condition in waiting if reads_only(condition, columns)]
    waiting[:] = [condition for condition in waiting if condition not in now]
    return now
