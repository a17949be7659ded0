"""Small pieces of SQL, as trees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from sqlglot import exp

from tidefill.jobs.sql_names import HIDDEN as HIDDEN

Expr: TypeAlias = exp.Expr
Item: TypeAlias = tuple[str, Expr]
"""An output column: its name and the expression that gives it."""

MARK = "__tf_mark"
WEIGHT = "__tf_w"
"""Of a change: +1 for a row that comes, -1 for a row that goes."""


def name(text: str) -> exp.Identifier:
    """Quoted, whatever it is."""
    return exp.to_identifier(text, quoted=True)


def col(column: str, of: str | None = None) -> exp.Column:
    """A column, of a source with an alias where there are two."""
    return exp.Column(this=name(column), table=exp.to_identifier(of))


def table(source: str, alias: str | None = None) -> exp.Table:
    """A source by its name."""
    return exp.Table(this=name(source), alias=exp.TableAlias(this=exp.to_identifier(alias)) if alias else None)


def number(value: int) -> Expr:
    """A small whole number."""
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def text(value: str) -> Expr:
    """A string."""
    return exp.Literal.string(value)


def both(conditions: Iterable[Expr]) -> Expr:
    """All of them; true if there is none."""
    parts = [condition.copy() for condition in conditions]
    return exp.and_(*parts, copy=False) if parts else exp.true()


def same(left: Expr, right: Expr) -> Expr:
    """Equal, NULL to NULL."""
    return exp.NullSafeEQ(this=enclosed(left), expression=enclosed(right))


def enclosed(value: Expr) -> Expr:
    """In parentheses if it is an operator, which may bind less than an equality does."""
    return exp.paren(value, copy=False) if isinstance(value, exp.Binary | exp.Unary | exp.Predicate) else value


def not_(condition: Expr) -> Expr:
    return exp.Not(this=exp.paren(condition, copy=False))


def is_null(value: Expr) -> Expr:
    return exp.Is(this=exp.paren(value, copy=False), expression=exp.null())


def case(*branches: tuple[Expr, Expr], default: Expr | None = None) -> Expr:
    """The first branch whose condition holds."""
    ifs = [exp.If(this=condition, true=value) for condition, value in branches]
    return exp.Case(ifs=ifs, default=default)


def coalesce(value: Expr, instead: Expr) -> Expr:
    return exp.Coalesce(this=value, expressions=[instead])


def cast(value: Expr, kind: str) -> Expr:
    """To a type of Spark's."""
    return exp.cast(value, kind, dialect="spark")


def plain(columns: Iterable[str]) -> list[Item]:
    """The columns as they are."""
    return [(column, col(column)) for column in columns]


def columns_in(tree: Expr) -> Iterator[str]:
    """The columns that an expression reads."""
    return (column.name for column in tree.find_all(exp.Column))


def select(
    items: Sequence[Item],
    source: exp.Expr,
    *,
    where: Expr | None = None,
    group: Sequence[Expr] = (),
    having: Expr | None = None,
) -> exp.Select:
    """One SELECT. A column that keeps its name gets no alias."""
    query = exp.Select(expressions=[_item(column, value) for column, value in items])
    query.set("from_", exp.From(this=source))
    if where is not None:
        query.set("where", exp.Where(this=where.copy()))
    if group:
        query.set("group", exp.Group(expressions=[value.copy() for value in group]))
    if having is not None:
        query.set("having", exp.Having(this=having.copy()))
    return query


def first_rows(query: exp.Select, order: Iterable[Expr], rows: int, skipped: int = 0) -> exp.Select:
    """The first rows of a query in an order, without those that are skipped."""
    query.set("order", exp.Order(expressions=[one.copy() for one in order]))
    query.set("limit", exp.Limit(expression=number(rows)))
    if skipped:
        query.set("offset", exp.Offset(expression=number(skipped)))
    return query


def generating(query: exp.Select, call: Expr, outputs: Sequence[str]) -> exp.Select:
    """With the columns that a function makes, which may give several rows for one."""
    names = [name(output) for output in outputs]
    made = exp.Alias if len(names) == 1 else exp.Aliases
    named = {"alias": names[0]} if len(names) == 1 else {"expressions": names}
    query.append("expressions", made(this=call.copy(), **named))
    return query


def constants(columns: Sequence[str], rows: Sequence[Sequence[Expr]]) -> exp.Values:
    """A source with these rows."""
    listed = [exp.Tuple(expressions=[value.copy() for value in row]) for row in rows]
    alias = exp.TableAlias(this=name(f"{HIDDEN}values"), columns=[name(column) for column in columns])
    return exp.Values(expressions=listed, alias=alias)


def called(function: str, *arguments: Expr) -> Expr:
    """A call of a function of Spark's."""
    return exp.Anonymous(this=function, expressions=list(arguments))


def _item(column: str, value: Expr) -> Expr:
    if isinstance(value, exp.Column) and value.name == column and not value.table:
        return col(column)
    return exp.Alias(this=value.copy(), alias=name(column))


def joined(query: exp.Select, source: exp.Expr, kind: str, on: Expr) -> exp.Select:
    """With one more source."""
    side, _, word = kind.rpartition(" ")
    join = exp.Join(this=source, side=side or None, kind=word, on=on.copy())
    query.append("joins", join)
    return query


def stacked(queries: Sequence[exp.Query]) -> exp.Query:
    """UNION ALL of them."""
    first, *rest = queries
    for query in rest:
        first = exp.Union(this=first, expression=query, distinct=False)
    return first
