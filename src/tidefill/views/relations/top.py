"""ORDER BY with LIMIT: the first rows of a query.

Rows that ORDER BY does not tell apart have no order, so which of them are among the first could change from one time to
the next. There the key of the query becomes the rest of the order, and the user is told.

Example: over `a (id, x)` with the key id, `SELECT x FROM a ORDER BY x LIMIT 3` means the first three rows by x and id.

Names in ORDER BY mean what they mean to Spark: what SELECT gives, and where it gives no such name, a column of FROM.
After DISTINCT, UNION and their like they mean what these give.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tidefill.errors import BadSql, UnsupportedQuery
from tidefill.views.relations.choices import place_of, reference
from tidefill.views.relations.expressions import expression_of
from tidefill.views.relations.folding import is_aggregate
from tidefill.views.relations.groups import with_names
from tidefill.views.relations.lowered import Lowered
from tidefill.views.relations.parts import refuse_others, refused
from tidefill.views.relations.relations import Top
from tidefill.views.relations.scope import Scope, Source
from tidefill.views.relations.texts import Expr, Item, col

FIRST_ROWS_MAX = 10_000
"""Of an order that a view may keep: all of them are read at each step, and sorted by one task."""

CHOSEN = "ORDER BY only says which rows LIMIT takes: a table has no order. Sort where the view is read."

_CLAUSE = "ORDER BY"
_NO_NUMBER = "Write the number itself, as in LIMIT 10 OFFSET 20."
_ELSEWHERE = "Leave it out here, and apply it where the view is read."


@dataclass(frozen=True, slots=True)
class Limit:
    """What a query says of the rows that it takes. `place`: of its ORDER BY, as `choices.placed` gave it."""

    order: tuple[exp.Ordered, ...]
    rows: int
    skipped: int
    place: int


def limited(tree: exp.Expr) -> tuple[exp.Expr, Limit | None]:
    """The query without LIMIT and OFFSET and the ORDER BY that belongs to them; and these, if they leave rows out."""
    limit, offset = tree.args.get("limit"), tree.args.get("offset")
    if limit is None and offset is None:
        return tree, None
    skipped = _number(offset) if offset is not None else 0
    bare = tree.copy()
    bare.set("limit", None)
    bare.set("offset", None)
    if limit is None or _is_all(limit):
        if skipped:
            raise refused(offset or tree, "the query takes all rows but the first (OFFSET without LIMIT)", _ELSEWHERE)
        return bare, None
    rows, order = _number(limit), tree.args.get("order")
    if order is None:
        raise any_rows(tree)
    if rows + skipped > FIRST_ROWS_MAX:
        raise UnsupportedQuery(
            f"LIMIT and OFFSET reach beyond the first {FIRST_ROWS_MAX:,} rows",
            detail=f"They reach to row {rows + skipped:,}.",
            hint="Leave them out here and apply them where the view is read, or use WITH (refresh = full).",
        )
    bare.set("order", None)
    return bare, Limit(tuple(order.expressions), rows, skipped, place_of(order))


def without_choice(tree: exp.Expr) -> exp.Expr | None:
    """Of a query with a LIMIT that no ORDER BY belongs to, the query without it; None if there is no such LIMIT. The
    two are the same if the query has one row at most."""
    limit = tree.args.get("limit")
    if limit is None or _is_all(limit) or tree.args.get("order") or tree.args.get("offset") or not _number(limit):
        return None
    bare = tree.copy()
    bare.set("limit", None)
    return bare


def any_rows(tree: exp.Expr) -> UnsupportedQuery:
    """LIMIT would take a choice that the query leaves open."""
    hint = "Say by ORDER BY which rows it takes, or leave it out here and apply it where the view is read."
    return refused(tree.args["limit"], "the query takes any rows (LIMIT without ORDER BY)", hint)


def _is_all(limit: exp.Expr) -> bool:
    value = limit.args.get("expression")
    return isinstance(value, exp.Var) and value.name.upper() == "ALL"


def _number(clause: exp.Expr) -> int:
    """Of a LIMIT or an OFFSET."""
    refuse_others(clause, {"expression"})
    value = clause.args.get("expression")
    if not isinstance(value, exp.Literal) or value.is_string or not value.this.isdigit():
        raise refused(clause, "LIMIT or OFFSET is not a whole number that is written out", _NO_NUMBER)
    return int(value.this)


def top(lowered: Lowered, limit: Limit, columns: Sequence[str]) -> tuple[Lowered, tuple[str, ...]]:
    """The first rows by these columns, one for each expression of ORDER BY; and the columns of the key that had to be
    put at the end of the order."""
    order: list[Expr] = [
        exp.Ordered(this=col(column), desc=one.args.get("desc"), nulls_first=one.args.get("nulls_first"))
        for column, one in zip(columns, limit.order, strict=True)
    ]
    missing = tuple(column for column in lowered.relation.key if column not in columns)
    order += [exp.Ordered(this=col(column), nulls_first=True) for column in missing]
    relation = Top(lowered.relation, tuple(order), limit.rows, limit.skipped)
    return Lowered(relation, lowered.shown), missing


# What names in ORDER BY mean.


def order_items(limit: Limit, scope: Scope, items: Sequence[Item]) -> list[Item]:
    """The expressions of ORDER BY over FROM, as more items of SELECT."""
    given = {name.casefold(): value for name, value in items if name}

    def meant(node: exp.Column) -> Expr | None:
        first = node.parts[0].name.casefold()
        if first not in given:
            return None
        if len(node.parts) > 1:
            _refuse_a_field(node, given[first], scope, items)
            return None
        if _is_in_aggregate(node) and scope.has(first) and scope.resolved(node) != given[first]:
            raise _two_meanings(node)
        return given[first]

    def value(one: exp.Ordered) -> Expr:
        numbered = _numbered(one, [inner for _, inner in items])
        return numbered if numbered is not None else with_names(one.this.unnest(), scope, meant, windows=True)

    return [("", value(one)) for one in limit.order]


def _refuse_a_field(node: exp.Column, first: Expr, scope: Scope, items: Sequence[Item]) -> None:
    """`a.b` is a column of FROM if SELECT gives that too, or if the item called a is a column of FROM that means the
    same there. Else Spark may take it for a field of the item."""
    alias = node.parts[0].name
    if any(source.alias.casefold() == alias.casefold() for source in scope.sources):
        if scope.resolved(node) in [value for _, value in items]:
            return
    elif scope.has(alias) and scope.resolved(exp.column(alias, quoted=True)) == first:
        return
    raise _two_meanings(node)


def _is_in_aggregate(node: exp.Expr) -> bool:
    around = node.parent
    while around is not None and not is_aggregate(around):
        around = around.parent
    return around is not None


def _two_meanings(node: exp.Column) -> UnsupportedQuery:
    hint = "Give the item of SELECT another name with AS, or put the query into FROM and write ORDER BY around it."
    return refused(node, f"{node.sql(dialect='spark')} in {_CLAUSE} has two meanings", hint)


def over_outputs(limit: Limit, sources: Sequence[Source]) -> list[Item]:
    """The expressions of ORDER BY over what a query gives, which is the first of the sources. The others have names
    that are found only with an alias before them."""
    outputs, scope = [col(inner) for _, inner in sources[0].columns], Scope(tuple(sources))

    def value(one: exp.Ordered) -> Expr:
        numbered = _numbered(one, outputs)
        if numbered is not None:
            return numbered
        for node in one.find_all(exp.Column):
            if not _is_output(node, sources):
                hint = "Order by what SELECT gives, by its name alone or its number, or put the query into FROM."
                raise refused(node, f"{_CLAUSE} names what the query does not show", hint)
        return expression_of(one.this.unnest(), scope)

    return [("", value(one)) for one in limit.order]


def _is_output(node: exp.Column, sources: Sequence[Source]) -> bool:
    names = [part.name for part in node.parts]
    if len(names) == 1:
        return len(sources[0].find(names[0])) == 1
    if sources[0].find(names[0]):
        return False
    return any(source.alias.casefold() == names[0].casefold() and source.find(names[1]) for source in sources[1:])


def _numbered(one: exp.Ordered, values: Sequence[Expr]) -> Expr | None:
    """The item that a number in ORDER BY means; None for other expressions."""
    tree = one.this.unnest()
    if isinstance(tree, exp.Var):
        raise refused(one, f"the order is not written out ({_CLAUSE} ALL)", "Name the columns.")
    if not isinstance(tree, exp.Literal) or tree.is_string or not tree.this.isdigit():
        return None
    place = int(tree.this)
    if not 1 <= place <= len(values):
        raise BadSql(f"{_CLAUSE} {place} is not the number of an item of SELECT")
    return values[place - 1]


# What VERIFY can name.


def named_beside(columns: Mapping[str, str], shown: Sequence[tuple[str, str]], scope: Scope) -> list[exp.Column] | None:
    """Columns as an ORDER BY after SELECT can name them, where names mean what SELECT gives before they mean what FROM
    has; None if it cannot name one of them. `columns`: each with the column of FROM that it holds."""
    given = {name.casefold(): inner for name, inner in shown}
    sources = [
        (source.alias, source.columns)
        for source in scope.sources
        if not source.alias or source.alias.casefold() not in given
    ]
    named: list[exp.Column] = []
    for column, inner in columns.items():
        found = reference(inner, sources)
        if found is None or (not found.table and given.get(found.name.casefold(), column) not in (column, inner)):
            return None
        named.append(found)
    return named


def named_by_outputs(columns: Sequence[str], shown: Sequence[tuple[str, str]]) -> list[exp.Column] | None:
    """The same where only names of outputs mean something."""
    named = [one for column in columns if (one := reference(column, [("", shown)])) is not None and one.name]
    return named if len(named) == len(columns) else None


def beside_distinct(scope: Scope, groups: Mapping[str, str], shown: tuple[tuple[str, str], ...]) -> list[Source]:
    """What names after SELECT DISTINCT mean: what it gives, also with the alias of a table before it. `groups`: of each
    column of FROM the one that DISTINCT gives for it."""
    sources = [Source("", shown)]
    for source in scope.sources:
        columns = tuple((name, groups[inner]) for name, inner in source.columns if inner in groups)
        sources.append(Source(source.alias, columns, merged=frozenset(name.casefold() for name, _ in columns)))
    return sources
