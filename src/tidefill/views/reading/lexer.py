"""The SQL of a user as words with places, read as Spark's lexer reads it.

The lexer first finds where comments and quotes end. It covers them: comments become blanks of the same length, and of
quoted things only the quotes are left. So nothing in there can be taken for a word. Then the lexer cuts what is left
into words. Queries and our own statements (`sql/words.py`) are read by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import sqlglot
from sqlglot import TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from tidefill.errors import BadSql, UnsupportedQuery

DIALECT = "spark"
UNREADABLE = (SqlglotError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the parser raises for SQL that makes no sense: its own error, or whatever its parts trip over."""

_SHOWN_MAX = 60  # of a refused piece: enough to find it
_FOREIGN = re.compile(r"[^\w\s()\[\],.;+\-*/%~&|^=<>!:?@'\"`]")

# A quote that opens none of the strings and names is not closed.
_HIDDEN = re.compile(
    r"""
    (?P<comment> --(?:\\\n|[^\r\n])* )
    | (?P<bracketed> /\* )
    | (?P<string> (?<!\w)[rR](?:'[^']*'|"[^"]*") | (?:(?<!\w)[xX])?'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<blank> [\r\f\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000] )
    | (?P<mark> \A\ufeff )
    | (?P<open> ['"`] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_ENDS = re.compile(r"/\*(?!\+)|\*/")  # comments nest, but for `/*+`, which Spark takes for a hint


class Kind(Enum):
    """What is hidden from all that looks for words. BLANK: a blank that the tokenizer does not know. MARK: the byte
    order mark. OPEN: the sign that opens a quote or a comment that nothing closes."""

    COMMENT = "comment"
    STRING = "string"
    NAME = "name"
    BLANK = "blank"
    MARK = "mark"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Hidden:
    """A piece of a text, in [start, end)."""

    kind: Kind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Token:
    """`word` is upper case, with single blanks; of a literal or a quoted name only the quotes tell anything."""

    word: str
    text: str
    start: int
    end: int

    @property
    def is_name(self) -> bool:
        """Whether it can be a name. Keywords can: Spark reserves none of them."""
        return bool(re.match(r"[`_]|[^\W\d]", self.word) or re.fullmatch(r"\d+[^\W\d]\w*", self.word))

    @property
    def is_string(self) -> bool:
        return self.word[0] in "'\""

    @property
    def name(self) -> str:
        """Unquoted."""
        return self.text[1:-1].replace("``", "`") if self.text.startswith("`") else self.text


@dataclass(frozen=True, slots=True)
class Source:
    """`text` is the SQL without comments; `masked` is as long, without what is inside of quotes."""

    text: str
    masked: str

    def refusal(self, fact: str, hint: str, start: int, end: int | None = None) -> UnsupportedQuery:
        return UnsupportedQuery(fact, detail=self._at(start, end), hint=hint)

    def bad(self, fact: str, hint: str, start: int) -> BadSql:
        return BadSql(fact, detail=self._at(start), hint=hint)

    def _at(self, start: int, end: int | None = None) -> str:
        line, column = self.text.count("\n", 0, start) + 1, start - self.text.rfind("\n", 0, start)
        piece = " ".join(self.text[start:end].split())
        shown = piece if len(piece) <= _SHOWN_MAX else piece[:_SHOWN_MAX] + "..."
        return f"line {line}, column {column}: {shown or 'the end'}"


def hidden_in(text: str) -> Iterator[Hidden]:
    """All that is hidden, in order, up to the first that is OPEN."""
    position = 0
    while match := _HIDDEN.search(text, position):
        piece = _bracketed(text, match.start()) if match.lastgroup == "bracketed" else _piece(match)
        yield piece
        if piece.kind is Kind.OPEN:
            return
        position = piece.end


def covered(text: str, pieces: Iterable[Hidden]) -> str:
    """The text, as long as before, with these pieces covered. Lines stay lines."""
    covers: list[str] = []
    position = 0
    for piece in pieces:
        covers += (text[position : piece.start], _cover(piece.kind, text[piece.start : piece.end]))
        position = piece.end
    return "".join([*covers, text[position:]])


def words_in(
    text: str, masked: str, spans: Iterable[tuple[int, int]], stray: Callable[[int], BadSql]
) -> Iterator[Token]:
    """The words of a text at these places. `masked`: the text, covered. Something else than blanks between the words
    raises what `stray` makes of the end of the word before it."""
    position = 0
    for start, end in spans:
        if start < position:
            continue  # `1L` comes as a number and a cast, all at the same place
        if masked[position:start].strip():
            raise stray(position)
        position = end
        yield Token(" ".join(masked[start:end].upper().split()), text[start:end], start, end)


def spans_of_query(masked: str) -> list[tuple[int, int]]:
    """The places of the words, with Spark's keywords of several words as one. Raises one of UNREADABLE."""
    return _spans(sqlglot.tokenize(masked, read=DIALECT))


def spans_of_words(masked: str) -> list[tuple[int, int]]:
    """The places of the words, where a word is a word. Raises one of UNREADABLE."""
    return _spans(_SingleWords(dialect=DIALECT).tokenize(masked))


def read(sql: str) -> Source:
    """Comments blank, quotes hidden; refuses what Spark's lexer would read in another way than ours."""
    raw = Source(sql, sql)
    pieces: list[Hidden] = []
    for piece in hidden_in(sql):
        if sql.startswith("/*", piece.start):
            _check_comment(raw, piece.start)
        if piece.kind is Kind.OPEN:
            sign = sql[piece.start : piece.end]
            raise raw.bad("a quote or a comment is not closed", f"Close the {sign}.", piece.start)
        pieces.append(piece)
    text = covered(sql, (piece for piece in pieces if piece.kind is Kind.COMMENT))
    if (start := text.find("${")) >= 0:
        hint = "Spark replaces it by a setting of the session, also inside of quotes. Write the value itself."
        raise raw.refusal("the query has a variable of the session", hint, start)
    source = Source(text, covered(sql, (piece for piece in pieces if piece.kind is not Kind.MARK)))
    if match := _FOREIGN.search(source.masked):
        raise source.bad(f"{match[0]} is not a sign of Spark's SQL", "Remove it, or quote the name.", match.start())
    return source


def tokens_of(source: Source) -> Iterator[Token]:
    """The words of a query. All that is between them is blank."""

    def unreadable(start: int) -> BadSql:
        return source.bad("the SQL cannot be read", "Try it in Spark first.", start)

    try:
        spans = spans_of_query(source.masked)
    except UNREADABLE:
        raise unreadable(0) from None
    yield from words_in(source.text, source.masked, spans, unreadable)


def statement_of(source: Source) -> list[Token]:
    """The words without semicolons at the end."""
    tokens = list(tokens_of(source))
    while tokens and tokens[-1].word == ";":
        tokens.pop()
    if not tokens:
        raise source.bad("there is no query", "Write SELECT ... FROM table WHERE condition.", 0)
    return tokens


class _SingleWords(Spark.Tokenizer):
    """Spark's, but a word is a word: SHOW does not take the rest of its statement for one string, `FOR VERSION` is not
    one keyword, and `1L` is not three tokens at one place."""

    COMMANDS: ClassVar[set[TokenType]] = set()
    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    NUMERIC_LITERALS: ClassVar[dict[str, str]] = {}


def _spans(tokens: Iterable[sqlglot.Token]) -> list[tuple[int, int]]:
    return [(token.start, token.end + 1) for token in tokens]


def _piece(match: re.Match[str]) -> Hidden:
    return Hidden(Kind(match.lastgroup), match.start(), match.end())


def _bracketed(text: str, start: int) -> Hidden:
    depth, inside = 1, start + len("/*")
    for match in _COMMENT_ENDS.finditer(text, inside):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return Hidden(Kind.COMMENT, start, match.end())
    return Hidden(Kind.OPEN, start, inside)


def _check_comment(raw: Source, start: int) -> None:
    """A query may have no hints, and no comments in comments: up to its first `*/` a comment must be a plain one."""
    inside = start + len("/*")
    close = raw.text.find("*/", inside)
    if close < 0:
        return
    end = close + len("*/")
    if raw.text.startswith("+", inside):
        hint = "Leave it out: how rows are read is not the view's matter."
        raise raw.refusal("the query has a hint", hint, start, end)
    if "/*" in raw.text[inside:end]:
        raise raw.refusal("a comment has a comment inside", "Remove the inner one.", start, end)


def _cover(kind: Kind, text: str) -> str:
    match kind:
        case Kind.STRING:
            return "'" + _signs(text[1:-1], "x") + "'"
        case Kind.NAME:
            return "`" + _signs(text[1:-1], "x") + "`"
        case _:
            return _signs(text, " ")


def _signs(text: str, instead: str) -> str:
    return "".join(sign if sign == "\n" else instead for sign in text)
