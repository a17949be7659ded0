"""From the tree of a user's query to relations. What is not known here is refused, never ignored.

Names are resolved by our own rules, which are Spark's where both have one meaning; where Spark would choose between
two, the query is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from tidefill.errors import BadSql
from tidefill.views.reading.refusals import NO_ORDER
from tidefill.views.relations.choices import Settled, place_of, placed, reference, settled
from tidefill.views.relations.expressions import expression_of, items_of
from tidefill.views.relations.folding import has_aggregates
from tidefill.views.relations.groups import Joining, grouped
from tidefill.views.relations.joins import Joined, joined
from tidefill.views.relations.keys import conjuncts, reads_only
from tidefill.views.relations.lowered import Body, Env, Lowered, TableColumns
from tidefill.views.relations.naming import Names
from tidefill.views.relations.parts import refuse_others, refused
from tidefill.views.relations.relations import Aggregate, Filter, Project, Relation, Scan, Union
from tidefill.views.relations.scope import Scope, Source
from tidefill.views.relations.subqueries import Subqueries, filled, parted
from tidefill.views.relations.texts import Expr, Item, col, number
from tidefill.views.relations.using import using
from tidefill.views.relations.windows import windowed

_CLAUSES = {"expressions", "from", "joins", "where", "group", "having", "distinct", "with", "order"}
_CLAUSES_OF_SETS = {"this", "expression", "distinct", "with", "order", "expressions"}
_OF_TABLE = {"this", "db", "catalog", "alias"}
_OF_JOIN = {"this", "side", "kind", "on", "using"}
_OF_SUBQUERY = {"this", "alias"}

_JOINS = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner",
    ("LEFT", ""): "left", ("LEFT", "OUTER"): "left", ("RIGHT", ""): "right", ("RIGHT", "OUTER"): "right",
    ("FULL", ""): "full", ("FULL", "OUTER"): "full",
    ("LEFT", "SEMI"): "semi", ("", "SEMI"): "semi", ("LEFT", "ANTI"): "anti", ("", "ANTI"): "anti",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Told:
    """What else the lowering of a query found: notices for the user, and the query with all that it leaves open
    settled."""

    notices: tuple[str, ...]
    settled: Settled


def lower(tree: exp.Expr, find: Callable[[tuple[str, ...]], TableColumns]) -> tuple[Lowered, Told]:
    """The query as relations, and what else is to be said of it. Raises BadSql or UnsupportedQuery."""
    lowering, tree = _Lowering(find), placed(tree)
    lowered = lowering.query(tree, {})
    return lowered, Told(tuple(dict.fromkeys(lowering.notices)), settled(tree, lowering.orders))


class _Lowering:
    def __init__(self, find: Callable[[tuple[str, ...]], TableColumns]) -> None:
        self._find = find
        self._names = Names()
        self._subqueries = Subqueries(self._names, self._body_within, self._closed)
        self._beyond: Scope | None = None
        self._groups_of: dict[str, Expr] = {}
        self.notices: list[str] = []
        self.orders: dict[int, list[exp.Column] | None] = {}

    # Queries.

    def query(self, tree: exp.Expr, env: Env) -> Lowered:
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

    def _with(self, tree: exp.Expr, env: Env) -> Env:
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

    def _union(self, tree: exp.Union, env: Env) -> Lowered:
        stacked = self._stacked(tree, _flat(tree), env)
        return self._distinct(stacked) if tree.args.get("distinct") else stacked

    def _compared(self, tree: exp.Intersect | exp.Except, env: Env) -> Lowered:
        """The rows of both sides in one, with the number of the side, grouped, so that NULL is equal to NULL."""
        if not tree.args.get("distinct"):
            hint = "Leave out ALL, or count the rows of each side with GROUP BY and join the two."
            raise refused(tree, "INTERSECT ALL and EXCEPT ALL count equal rows", hint)
        stacked = self._stacked(tree, (tree.this, tree.expression), env)
        side = col(stacked.relation.key[0])
        first: Item = (self._names.fresh("first"), exp.Min(this=side))
        last: Item = (self._names.fresh("last"), exp.Max(this=side.copy()))
        groups = self._distinct(stacked, first, last)
        return replace(groups, relation=Filter(groups.relation, _kept(tree, col(first[0]), col(last[0]))))

    def _stacked(self, tree: exp.SetOperation, queries: Iterable[exp.Expr], env: Env) -> Lowered:
        """All rows of all parts; the key is the number of the part, and the keys of all, of which it has its own."""
        refuse_others(tree, _CLAUSES_OF_SETS)
        if tree.args.get("by_name"):
            raise refused(tree, f"{tree.key.upper()} BY NAME", "Name the columns of each part in the same order.")
        parts = [self.query(part, env) for part in queries]
        if len({len(part.shown) for part in parts}) > 1:
            raise BadSql(f"the parts of {tree.key.upper()} have not the same number of columns")
        tag = self._names.fresh("part")
        outputs = [self._names.fresh(name or "column") for name, _ in parts[0].shown]
        own = [[self._names.fresh(f"key{index}") for _ in part.relation.key] for index, part in enumerate(parts)]
        children = []
        for index, part in enumerate(parts):
            items: list[Item] = [(tag, number(index))]
            items += [(output, col(inner)) for output, (_, inner) in zip(outputs, part.shown, strict=True)]
            for other, names in enumerate(own):
                values = map(col if other == index else self._names.null, parts[other].relation.key)
                items += list(zip(names, values, strict=True))
            key = (tag, *(name for names in own for name in names))
            children.append(Project(part.relation, tuple(items), key))
        shown = tuple((name, output) for (name, _), output in zip(parts[0].shown, outputs, strict=True))
        return Lowered(Union(tuple(children), children[0].key), shown)

    def _distinct(self, query: Lowered, *aggregates: Item) -> Lowered:
        inner = list(dict.fromkeys(column for _, column in query.shown))
        groups = {column: self._names.like(column) for column in inner}
        items: tuple[Item, ...] = tuple((group, col(column)) for column, group in groups.items())
        return Lowered(
            Aggregate(query.relation, items, aggregates), tuple((name, groups[column]) for name, column in query.shown)
        )

    # FROM and WHERE.

    def _select(self, tree: exp.Select, env: Env) -> Lowered:
        body = self._body(tree, env, None)
        assert not body.open, "nothing is around it"
        lowered = self._output(tree, body.relation, body.scope, env)
        return self._distinct(lowered) if tree.args.get("distinct") else lowered

    def _body(self, tree: exp.Select, env: Env, outer: Scope | None) -> Body:
        refuse_others(tree, _CLAUSES)
        if tree.args.get("from_") is None:
            raise refused(tree, "a query reads no table", "Name a table after FROM.")
        relation, first = self._source(tree.args["from_"].this, env)
        sources, joins = [first], []
        for join in tree.args.get("joins") or ():
            sources, added = self._join(join, sources, env)
            joins.append(added)
        scope = Scope(tuple(sources), outer, self._beyond)
        alone, matches, scalars = parted(tree.args["where"].this if tree.args.get("where") else None)
        conditions = [expression_of(condition, scope) for condition in alone]
        available = {column for source in sources for _, column in source.columns}
        closed = [condition for condition in conditions if reads_only(condition, available)]
        relation = joined(relation, joins, closed, self._names)
        for condition, negated in matches:
            relation = self._subqueries.matched(relation, scope, condition, negated, env)
        for condition in scalars:
            relation = self._subqueries.with_condition(relation, scope, condition, env)
        return Body(relation, scope, tuple(condition for condition in conditions if condition not in closed))

    def _source(self, tree: exp.Expr, env: Env) -> tuple[Relation, Source]:
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
        occurrence = self._names.fresh(alias)
        inner = {name: self._names.fresh(f"{occurrence}.{name}") for name, _ in table.columns}
        self._names.types.update({inner[name]: kind for name, kind in table.columns})
        key = tuple(inner[name] for name in table.key)
        scan = Scan(occurrence, table.name, tuple(inner.values()), tuple(inner), key)
        return scan, Source(alias, tuple(inner.items()))

    def _join(self, tree: exp.Join, sources: list[Source], env: Env) -> tuple[list[Source], Joined]:
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
            merged = using(names, sources, source, kind, self._names.fresh)
            return merged.sources, Joined(kind, right, merged.conditions, merged.items)
        scope = Scope((*sources, source), None)
        on = tree.args.get("on")
        conditions = tuple(expression_of(part, scope) for part in conjuncts(on)) if on is not None else ()
        return (sources if kind in ("semi", "anti") else [*sources, source]), Joined(kind, right, conditions)

    # Subqueries.

    def _body_within(self, tree: exp.Select, scope: Scope, env: Env) -> Body:
        """FROM and WHERE of a subquery, whose conditions may look at the scope around it."""
        return self._body(tree, self._with(tree, env), scope)

    def _closed(self, tree: exp.Expr, scope: Scope, env: Env) -> Lowered:
        """A subquery that is more than FROM and WHERE, and so cannot look outside."""
        before, self._beyond = self._beyond, scope
        try:
            return self.query(tree, env)
        finally:
            self._beyond = before

    # SELECT, GROUP BY, HAVING.

    def _output(self, tree: exp.Select, relation: Relation, scope: Scope, env: Env) -> Lowered:
        values: dict[str, Expr] = {}
        expressions: list[Expr] = []
        for item in tree.expressions:
            relation, replaced = self._subqueries.with_values(relation, scope, item, values, env)
            expressions.append(replaced)
        items = [(name, filled(value, values)) for name, value in items_of(expressions, scope)]
        by_groups = tree.args.get("group") is not None or any(has_aggregates(value) for _, value in items)
        if by_groups or tree.args.get("having") is not None:
            if values:
                hint = "Put the groups into a query in FROM."
                raise refused(tree, "a subquery for a value stands beside groups", hint)
            found = grouped(tree, relation, scope, items, self._names, self._joining(scope, env))
            self._groups_of |= found.groups
            relation, items = found.relation, found.items
        made = windowed(relation, items, self._names.fresh)
        self.notices += made.notices
        self.orders |= {place_of(window): self._references(columns, scope) for window, columns in made.opened}
        return self._projected(made.relation, made.items)

    def _joining(self, scope: Scope, env: Env) -> Joining:
        """How subqueries of HAVING that stand for a value are joined with the groups."""
        return lambda groups, query, meant: self._subqueries.value(groups, scope, query, env, meant)

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
                computed.append((self._names.fresh(name or "column"), value))
                shown.append((name, computed[-1][0]))
        if not computed:
            return Lowered(relation, tuple(shown))
        passed = dict.fromkeys([*relation.key, *(value.name for _, value in items if isinstance(value, exp.Column))])
        every: list[Item] = [*((column, col(column)) for column in passed), *computed]
        return Lowered(Project(relation, tuple(every), relation.key), tuple(shown))


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
