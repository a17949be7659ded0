"""A script as words with places, cut as Spark's lexer cuts it.

Where quotes and comments end is found first, and what is inside of them is hidden from all that looks for words: no
semicolon or keyword in there can be taken for one. What cannot be read is reported with its line and a caret.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import sqlglot
from sqlglot import TokenType
from sqlglot.dialects.spark import Spark

from tidefill.errors import BadSql
from tidefill.views.reading.lexer import DIALECT, UNREADABLE, Token

QUOTE_OPEN, COMMENT_OPEN = "a quote is not closed", "a comment is not closed"
_BEFORE_MAX, _AFTER_MAX = 60, 40  # of a line, around the caret: together they fit on a screen
_SHOWN_MAX = 40  # of a word: enough to find it

# A quote that opens none of the strings and names is not closed.
_HIDDEN = re.compile(
    r"""
    (?P<comment> --(?:\\\n|[^\r\n])* | \A\ufeff )
    | (?P<bracketed> /\* )
    | (?P<string> (?<!\w)[rR](?:'[^']*'|"[^"]*") | (?:(?<!\w)[xX])?'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<open> ['"`] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_ENDS = re.compile(r"/\*(?!\+)|\*/")  # comments nest, but for `/*+`, which Spark takes for a hint
_BARE_NAME = re.compile(r"\w*[^\W\d]\w*")
_STRING = re.compile(r"[rR]?['\"]")


class _Tokenizer(Spark.Tokenizer):
    """Spark's, but a word is a word: SHOW does not take the rest of its statement for one string, `FOR VERSION` is not
    one keyword, and `1L` is not three tokens at one place."""

    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}


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
    position = 0
    for start, end in _spans(script, masked):
        gap = masked[position:start]
        if gap.strip():
            raise _unreadable(script, position + len(gap) - len(gap.lstrip()))
        position = end
        yield Token(masked[start:end].upper(), script.text[start:end], start, end)


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


def _spans(script: Script, masked: str) -> list[tuple[int, int]]:
    try:
        return [(token.start, token.end + 1) for token in _Tokenizer(dialect=DIALECT).tokenize(masked)]
    except UNREADABLE:
        raise _unreadable(script, 0) from None


def _unreadable(script: Script, start: int) -> BadSql:
    return script.bad("the SQL cannot be read", "Spark's SQL has nothing like this", "Remove it, or quote it.", start)


def _masked(script: Script) -> str:
    """As long as the script: comments are blank, of quoted things only the quotes are left."""
    pieces: list[str] = []
    position = 0
    while match := _HIDDEN.search(script.text, position):
        end = _end(script, match)
        pieces += (script.text[position : match.start()], _cover(match, end - match.start()))
        position = end
    return "".join([*pieces, script.text[position:]])


def _end(script: Script, match: re.Match[str]) -> int:
    if match.lastgroup == "open":
        hint = f"Close it with {match[0]}."
        raise script.bad(QUOTE_OPEN, f"{match[0]} opens, and nothing closes it", hint, match.start())
    return _comment_end(script, match.start()) if match.lastgroup == "bracketed" else match.end()


def _comment_end(script: Script, start: int) -> int:
    depth = 1
    for match in _COMMENT_ENDS.finditer(script.text, start + len("/*")):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    hint = "Close it with */; a comment inside of a comment needs one of its own."
    raise script.bad(COMMENT_OPEN, "/* opens, and nothing closes it", hint, start)


def _cover(match: re.Match[str], length: int) -> str:
    match match.lastgroup:
        case "string":
            return "'" + "x" * (length - 2) + "'"
        case "name":
            return "`" + "x" * (length - 2) + "`"
        case _:
            return " " * length


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
