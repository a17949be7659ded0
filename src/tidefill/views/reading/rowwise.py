"""A view over one table, row by row, taken apart: its items, its table, its condition.

The texts are the user's own: Spark reads them later, so they are cut out by position and never written anew. Where the
cuts are is decided by the words, and again by a parse. Where the two disagree, and where the parse has anything that
is not known to give one result for one row, the view is refused.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError

from tidefill.errors import UnsupportedQuery
from tidefill.views.reading.functions import VOLATILE
from tidefill.views.reading.lexer import DIALECT, UNREADABLE, Source, Token, read, statement_of
from tidefill.views.reading.refusals import (
    NO_ORDER,
    check_clauses,
    check_expression,
    check_qualifiers,
    check_words,
    not_a_table,
)

__all__ = ["VOLATILE", "Item", "RowQuery", "Star", "parse_row_query"]

_KEYWORDS = ("FROM", "WHERE", "ORDER BY")
_BACKTICKS = "Put names that are also keywords in backticks."
_NAMES = re.compile(r"n(?: \. n)*")
_TABLE = re.compile(r"(?P<table>n(?: \. n)*)(?P<alias>(?: AS)? n)?")


@dataclass(frozen=True, slots=True)
class Star:
    """`*`, or `t.*` of the one table."""


@dataclass(frozen=True, slots=True)
class Item:
    """An output column; `text` is its expression with the alias, as written.

    `column` is the input column if the item is nothing but that, `name` the output's name if the text alone tells it,
    both unquoted. Whether the table has such a column, only its schema tells.
    """

    text: str
    column: str | None
    name: str | None


@dataclass(frozen=True, slots=True)
class RowQuery:
    """`SELECT items FROM table AS alias WHERE where`, with "" for no condition.

    `table` is the name as written, in parts and unquoted. The texts may name columns as `alias.column`. `functions` are
    the names of all that the texts call, in lower case, with qualifiers as written. `notices` are for the user to read.
    """

    table: tuple[str, ...]
    alias: str
    items: tuple[Item | Star, ...]
    where: str
    functions: frozenset[str]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Origin:
    """The table; `qualifiers` are the names, in lower case, that may stand before its columns."""

    table: tuple[str, ...]
    alias: str
    qualifiers: frozenset[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Piece:
    """An item or the condition."""

    tokens: Sequence[Token]
    tree: exp.Expr

    @property
    def alias(self) -> Token | None:
        return self.tokens[-1] if isinstance(self.tree, exp.Alias) else None

    @property
    def body(self) -> Sequence[Token]:
        """Without the alias."""
        if self.alias is None:
            return self.tokens
        return self.tokens[:-2] if self.tokens[-2].word == "AS" else self.tokens[:-1]

    @property
    def is_star(self) -> bool:
        return isinstance(self.tree, exp.Star) or (
            isinstance(self.tree, exp.Column) and isinstance(self.tree.this, exp.Star)
        )


def parse_row_query(sql: str) -> RowQuery:
    """Takes a view apart. Raises BadSql or UnsupportedQuery."""
    source = read(sql)
    try:
        return _row_query(source)
    except RecursionError:
        raise source.refusal("the query is nested too deeply", "Split it into several views.", 0) from None


def _row_query(source: Source) -> RowQuery:
    tokens = statement_of(source)
    check_words(source, tokens)
    select = check_clauses(source, tokens, _parse(source, tokens))
    clauses = _clauses(source, tokens)
    origin = _origin(source, clauses["FROM"])
    columns = [_piece(source, part) for part in _at_commas(source, clauses["SELECT"])]
    conditions = [_piece(source, clauses["WHERE"])] if "WHERE" in clauses else []
    where = [select.args["where"].this] if select.args.get("where") else []
    if [piece.tree for piece in columns] != select.expressions or [piece.tree for piece in conditions] != where:
        raise _uncertain(source, tokens)
    functions = _functions(source, [*columns, *conditions], origin)
    items = tuple(_star(source, piece, origin) if piece.is_star else _item(source, piece, origin) for piece in columns)
    _check_names(source, columns, items)
    return RowQuery(
        table=origin.table,
        alias=origin.alias,
        items=items,
        where="".join(_text(source, piece.tokens) for piece in conditions),
        functions=functions,
        notices=(NO_ORDER,) if "ORDER BY" in clauses else (),
    )


def _parse(source: Source, tokens: Sequence[Token]) -> exp.Expr:
    try:
        return sqlglot.parse_one(source.masked[: tokens[-1].end], read=DIALECT)
    except UNREADABLE as error:
        raise source.bad(
            "the SQL cannot be read", f"See whether Spark reads it. {_BACKTICKS}", _place(source, error)
        ) from None


def _place(source: Source, error: Exception) -> int:
    """Where the parser stopped; it tells the line and where the last word that it saw ends."""
    if not isinstance(error, ParseError) or not error.errors:
        return 0
    first = error.errors[0]
    lines = source.masked.split("\n")[: first["line"] - 1]
    start: int = sum(len(line) + 1 for line in lines) + first["col"] - len(first["highlight"])
    return max(0, start)


def _clauses(source: Source, tokens: Sequence[Token]) -> dict[str, Sequence[Token]]:
    """The words that follow SELECT, FROM, WHERE and ORDER BY."""
    cuts = [0, *_cuts(tokens)]
    words = [tokens[cut].word for cut in cuts]
    if words != [keyword for keyword in ("SELECT", *_KEYWORDS) if keyword in words] or "FROM" not in words:
        raise source.bad("the clauses are out of order", "Write SELECT ... FROM table WHERE condition.", 0)
    return {tokens[a].word: tokens[a + 1 : b] for a, b in itertools.pairwise([*cuts, len(tokens)])}


def _cuts(tokens: Sequence[Token]) -> Iterator[int]:
    """Where keywords stand that are in no parentheses, are no names, and do not belong to IS DISTINCT FROM."""
    for index in _outside(tokens):
        word, before = tokens[index].word, tokens[index - 1].word
        if word in _KEYWORDS and before not in (".", "AS") and (word, before) != ("FROM", "DISTINCT"):
            yield index


def _at_commas(source: Source, tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    commas = [index for index in _outside(tokens) if tokens[index].word == ","]
    for before, comma in itertools.pairwise([-1, *commas, len(tokens)]):
        if comma == before + 1:
            place = tokens[min(comma, len(tokens) - 1)].start if tokens else 0
            raise source.bad("an item of the SELECT is missing", "Remove the comma, or write the item.", place)
        yield tokens[before + 1 : comma]


def _outside(tokens: Sequence[Token]) -> Iterator[int]:
    """The indexes of what is in no parentheses and brackets."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += (token.word in ("(", "[")) - (token.word in (")", "]"))
        if depth == 0:
            yield index


def _piece(source: Source, tokens: Sequence[Token]) -> _Piece:
    """Parsed by itself, after another item: no keyword of SELECT is taken for one there."""
    try:
        tree = sqlglot.parse_one("SELECT 1, " + source.masked[tokens[0].start : tokens[-1].end], read=DIALECT)
    except UNREADABLE:
        raise _uncertain(source, tokens) from None
    if [part for part, value in tree.args.items() if value] != ["expressions"] or len(tree.expressions) != 2:
        raise _uncertain(source, tokens)
    return _Piece(tokens, tree.expressions[1])


def _uncertain(source: Source, tokens: Sequence[Token]) -> UnsupportedQuery:
    hint = f"{_BACKTICKS} Leave out ALL after SELECT."
    return source.refusal("the query cannot be taken apart with certainty", hint, tokens[0].start)


def _origin(source: Source, tokens: Sequence[Token]) -> _Origin:
    match = _TABLE.fullmatch(_shape(tokens))
    if match is None or tokens[0].word == "STREAM":
        raise not_a_table(source, tokens)
    table = tuple(token.name for token in tokens[: len(match["table"].split()) : 2])
    alias = tokens[-1].name
    lower = tuple(part.lower() for part in table)
    qualifiers = {(alias.lower(),)} if match["alias"] else {lower[start:] for start in range(len(lower))}
    return _Origin(table, alias, frozenset(qualifiers))


def _shape(tokens: Sequence[Token]) -> str:
    return " ".join("n" if token.is_name and token.word != "AS" else token.word for token in tokens)


def _functions(source: Source, pieces: Sequence[_Piece], origin: _Origin) -> frozenset[str]:
    """Checks all expressions; gives the names of what they call."""
    functions: frozenset[str] = frozenset()
    for piece in pieces:
        if not piece.is_star:
            check_qualifiers(source, piece.body, origin.qualifiers)
            functions |= check_expression(source, piece.body, piece.tree)
    return functions


def _star(source: Source, piece: _Piece, origin: _Origin) -> Star:
    *names, last = piece.tokens
    if last.word != "*":
        hint = "Name the columns that the view shall have."
        raise source.refusal("a star is changed (EXCEPT, REPLACE)", hint, names[0].start, last.end)
    if names and tuple(token.name.lower() for token in names[::2]) not in origin.qualifiers:
        hint = f"Name its fields; all columns of the table are * or {origin.alias}.*."
        raise source.refusal("the star is not that of the table", hint, names[0].start, last.end)
    return Star()


def _item(source: Source, piece: _Piece, origin: _Origin) -> Item:
    if piece.alias is not None and not piece.alias.is_name:
        raise source.bad("an alias is not a name", "Put it in backticks.", piece.alias.start)
    column = _column(piece, origin)
    return Item(_text(source, piece.tokens), column, column if piece.alias is None else piece.alias.name)


def _column(piece: _Piece, origin: _Origin) -> str | None:
    *qualifier, column = [token.name for token in piece.body[::2]]
    named = isinstance(piece.tree.unalias(), exp.Column) and _NAMES.fullmatch(_shape(piece.body))
    known = not qualifier or tuple(part.lower() for part in qualifier) in origin.qualifiers
    return column if named and known else None


def _check_names(source: Source, pieces: Sequence[_Piece], items: Sequence[Item | Star]) -> None:
    seen: set[str] = set()
    for piece, item in zip(pieces, items, strict=True):
        match item:
            case Item(name=str(name)) if name.lower() in seen:
                hint = "Give one of them another name with AS. Capitals make no difference."
                raise source.refusal(f"two items are called {name}", hint, piece.tokens[0].start, piece.tokens[-1].end)
            case Item(name=str(name)):
                seen.add(name.lower())


def _text(source: Source, tokens: Sequence[Token]) -> str:
    return source.text[tokens[0].start : tokens[-1].end]
