"""Which tables a query names. Which of them there are, and where, is for others to know."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from tidefill.errors import UnsupportedQuery
from tidefill.views.source import DIALECT, UNREADABLE, read, tokens_of


def own_names(tree: exp.Expr) -> set[str]:
    """Those that its WITH defines, at any depth; capitals make no difference."""
    return {cte.alias.casefold() for cte in tree.find_all(exp.CTE)}


def columns_named(tree: exp.Expr) -> set[str]:
    """The names that may be columns of a table in the query, in small letters. Of `a.b` the a may be a column with a
    field b, unless something in FROM is called a."""
    sources = {source.alias_or_name.casefold() for source in tree.find_all(exp.Table, exp.Subquery, exp.CTE)}
    named = {part.name.casefold() for join in tree.find_all(exp.Join) for part in join.args.get("using") or ()}
    for column in tree.find_all(exp.Column):
        first, *rest = (part.name.casefold() for part in column.parts)
        named.update(rest if rest and first in sources else (first, *rest))
    return named


def names_read(sql: str) -> dict[str, bool]:
    """The names of one part that the query may read, as written, and whether it does so for certain: a name that its
    own WITH defines may mean that, or a table outside of it. If the parser cannot read the query, Spark may yet: then
    every word may be a name. Raises UnsupportedQuery for what is no query."""
    try:
        tree = sqlglot.parse_one(sql, read=DIALECT)
    except UNREADABLE:
        return {token.name: False for token in tokens_of(read(sql)) if token.is_name}
    if not isinstance(tree, exp.Query):
        raise UnsupportedQuery("only queries can be executed", hint="Begin with SELECT, or WITH ... SELECT.")
    own = own_names(tree)
    tables = [table for table in tree.find_all(exp.Table) if not table.db and table.name]
    return {table.name: table.name.casefold() not in own for table in tables}
