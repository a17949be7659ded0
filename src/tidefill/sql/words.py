"""A script of our own statements as words with places, cut by the lexer that reads queries.

What cannot be read is reported with its line and a caret.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot

from tidefill.errors import BadSql
from tidefill.views.reading.lexer import (
    DIALECT,
    UNREADABLE,
    Hidden,
    Kind,
    Token,
    covered,
    hidden_in,
    spans_of_words,
    words_in,
)

QUOTE_OPEN, COMMENT_OPEN = "a quote is not closed", "a comment is not closed"
_BEFORE_MAX, _AFTER_MAX = 60, 40  # of a line, around the caret: together they fit on a screen
_SHOWN_MAX = 40  # of a word: enough to find it

_BARE_NAME = re.compile(r"\w*[^\W\d]\w*")
_STRING = re.compile(r"[rR]?['\"]")


@dataclass(frozen=True, slots=True)
class Script:
    """What a user typed: any number of statements."""

    text: str

    def line_number(self, start: int) -> int:
        """From 1."""
        return self.text.count("\n", 0, start) + 1

    def bad(self, fact: str, problem: str, hint: str, start: int) -> BadSql:
        """The error for what is wrong at a place; its detail shows the place."""
        begin = self.text.rfind("\n", 0, start) + 1
        line = self.text[begin:].partition("\n")[0]
        place = f"line {self.line_number(start)}, column {start - begin + 1}"
        return BadSql(fact, detail=f"{place}: {problem}\n{_picture(line, start - begin)}", hint=hint)


def words_of(script: Script) -> Iterator[Token]:
    """The words and signs. All that is between them is blank, or a comment."""
    masked = _masked(script)

    def stray(start: int) -> BadSql:
        return _unreadable(script, len(masked) - len(masked[start:].lstrip()))

    try:
        spans = spans_of_words(masked)
    except UNREADABLE:
        raise _unreadable(script, 0) from None
    yield from words_in(script.text, masked, spans, stray)


def shown(token: Token) -> str:
    """For messages: the word as written, signs in quotes."""
    if not token.text:
        return "the end"
    text = " ".join(_printable(token.text).split())
    if len(text) > _SHOWN_MAX:
        return text[:_SHOWN_MAX] + "..."
    return text if token.is_name or token.is_string or text[0].isdigit() else f"'{text}'"


def name_of(token: Token) -> str | None:
    """Unquoted; None if it is not a name. Keywords can be names: Spark reserves none of them."""
    return token.name if token.text.startswith("`") or _BARE_NAME.fullmatch(token.text) else None


def string_of(script: Script, token: Token) -> str | None:
    """What Spark makes of a literal; None if it is not a string. A doubled quote comes from the tokenizer as the end of
    a string and the beginning of the next."""
    if not _STRING.match(token.text):
        return None
    try:
        parts = sqlglot.tokenize(token.text, read=DIALECT)
    except UNREADABLE:
        raise _unreadable(script, token.start) from None
    return token.text[-1].join(part.text for part in parts)


def _unreadable(script: Script, start: int) -> BadSql:
    return script.bad("the SQL cannot be read", "Spark's SQL has nothing like this", "Remove it, or quote it.", start)


def _masked(script: Script) -> str:
    """As long as the script: comments are blank, of quoted things only the quotes are left."""
    pieces = list(hidden_in(script.text))
    if pieces and pieces[-1].kind is Kind.OPEN:
        raise _not_closed(script, pieces[-1])
    return covered(script.text, (piece for piece in pieces if piece.kind is not Kind.BLANK))


def _not_closed(script: Script, piece: Hidden) -> BadSql:
    sign = script.text[piece.start : piece.end]
    problem = f"{sign} opens, and nothing closes it"
    if sign == "/*":
        hint = "Close it with */; a comment inside of a comment needs one of its own."
        return script.bad(COMMENT_OPEN, problem, hint, piece.start)
    return script.bad(QUOTE_OPEN, problem, f"Close it with {sign}.", piece.start)


def _picture(line: str, at: int) -> str:
    """The line, cut to what fits on a screen, and below it a caret."""
    first = max(0, at - _BEFORE_MAX)
    before = ("..." if first else "") + _printable(line[first:at])
    after = _printable(line[at : at + _AFTER_MAX])
    return f"  {(before + after).rstrip()}\n  {' ' * _width(before)}^"


def _printable(text: str) -> str:
    """As long as the text, on one line."""
    return "".join(sign if sign.isprintable() else " " if sign.isspace() else "\ufffd" for sign in text)


def _width(text: str) -> int:
    """In columns of a terminal, where the signs of some scripts take two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)
