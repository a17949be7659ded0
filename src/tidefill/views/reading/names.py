"""Which tables a query names. Which of them there are, and where, is for others to know."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import sqlglot
from sqlglot import exp

from tidefill.errors import UnsupportedQuery
from tidefill.views.reading.functions import calls
from tidefill.views.reading.lexer import DIALECT, UNREADABLE, Token, read, tokens_of

# A query begins with one of these, and has none of the others outside of quotes and parentheses, save as a name.
_OPENINGS = frozenset({"SELECT", "WITH", "FROM", "TABLE", "VALUES", "MAP", "REDUCE", "("})
_STATEMENTS = frozenset({"INSERT", "MERGE", "UPDATE", "DELETE"})
_PROGRAMS = frozenset({"reflect", "try_reflect", "java_method"})  # they call any static method of any Java class


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
    every word may be a name. Raises UnsupportedQuery for what is no query, and for one that runs a program."""
    refuse_statements(sql)
    try:
        tree = sqlglot.parse_one(sql, read=DIALECT)
    except UNREADABLE:
        return {token.name: False for token in tokens_of(read(sql)) if token.is_name}
    if not isinstance(tree, exp.Query):
        raise _no_query()
    own = own_names(tree)
    tables = [table for table in tree.find_all(exp.Table) if not table.db and table.name]
    return {table.name: table.name.casefold() not in own for table in tables}


def refuse_statements(sql: str) -> None:
    """UnsupportedQuery for what the words show to be a statement, several of them, or a query that runs a program: a
    script (TRANSFORM ... USING 'script'), or a method of a Java class."""
    first = next(tokens_of(read(sql)), None)  # the words after some that begin a statement cannot be read
    if first is None or first.word not in _OPENINGS:
        raise _no_query()
    tokens = _without_end(tokens_of(read(sql)))
    words = [token.word for token in tokens]
    if ";" in words or _writes(words):
        raise _no_query()
    scripts = any(one.word == "USING" and other.is_string for one, other in itertools.pairwise(tokens))
    methods = _PROGRAMS & {call.last_name for call in calls(tokens)}
    if scripts or methods:
        raise UnsupportedQuery(
            "the query runs a program",
            detail=", ".join(sorted(methods)) or "USING with the text of a command",
            hint="Run it in a Spark session of your own.",
        )


def without_end(sql: str) -> str:
    """The text up to its last word: without semicolons, and what is behind them."""
    tokens = _without_end(tokens_of(read(sql)))
    return sql[: tokens[-1].end] if tokens else ""


def _without_end(tokens: Iterable[Token]) -> list[Token]:
    left = list(tokens)
    while left and left[-1].word == ";":
        left.pop()
    return left


def _writes(words: list[str]) -> bool:
    """Whether a query goes on as a statement: WITH x AS (...) INSERT ..., FROM t INSERT ..."""
    depth, before = 0, ""
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0 and word in _STATEMENTS and words[0] in ("WITH", "FROM") and before not in (".", "AS", ","):
            return True
        before = word
    return False


def _no_query() -> UnsupportedQuery:
    return UnsupportedQuery("only queries can be executed", hint="Begin with SELECT, or WITH ... SELECT.")
