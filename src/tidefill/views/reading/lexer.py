"""The SQL of a user as words with places, read as Spark's lexer reads it.

Comments become blanks of the same length. What is inside of literals and quoted names is hidden from all that looks
for keywords, so that nothing in there can be taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import sqlglot
from sqlglot.errors import SqlglotError

from tidefill.errors import BadSql, UnsupportedQuery

DIALECT = "spark"
UNREADABLE = (SqlglotError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What the parser raises for SQL that makes no sense: its own error, or whatever its parts trip over."""

_SHOWN_MAX = 60  # of a refused piece: enough to find it
_FOREIGN = re.compile(r"[^\w\s()\[\],.;+\-*/%~&|^=<>!:?@'\"`]")

# A quote, or the beginning of a comment, that opens none of the first three is not closed.
_LITERALS = re.compile(
    r"""
    (?P<comment> --(?:\\\n|[^\r\n])* | /\*.*?\*/ )
    | (?P<string> (?<!\w)[rR](?:'[^']*'|"[^"]*") | (?:(?<!\w)[xX])?'(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" )
    | (?P<name> `(?:[^`]|``)*` )
    | (?P<blank> [\r\f\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000] )
    | (?P<open> ['"`] | /\* )
    """,
    re.VERBOSE | re.DOTALL,
)


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


def read(sql: str) -> Source:
    """Comments blank, quotes hidden; refuses what Spark's lexer would read in another way than ours."""
    raw = Source(sql, sql)
    for match in _LITERALS.finditer(sql):
        if match.lastgroup == "open":
            raise raw.bad("a quote or a comment is not closed", f"Close the {match[0]}.", match.start())
        if match.lastgroup == "comment":
            _check_comment(raw, match)
    text = _LITERALS.sub(lambda match: _blank(match[0]) if match.lastgroup == "comment" else match[0], sql)
    if (start := text.find("${")) >= 0:
        hint = "Spark replaces it by a setting of the session, also inside of quotes. Write the value itself."
        raise raw.refusal("the query has a variable of the session", hint, start)
    source = Source(text, _LITERALS.sub(_masked, text))
    if match_ := _FOREIGN.search(source.masked):
        raise source.bad(f"{match_[0]} is not a sign of Spark's SQL", "Remove it, or quote the name.", match_.start())
    return source


def tokens_of(source: Source) -> Iterator[Token]:
    """The words. All that is between them is blank."""
    position = 0
    try:
        found = sqlglot.tokenize(source.masked, read=DIALECT)
    except UNREADABLE:
        raise source.bad("the SQL cannot be read", "Try it in Spark first.", 0) from None
    for token in found:
        if token.start < position:
            continue  # `1L` comes as a number and a cast, all at the same place
        if source.masked[position : token.start].strip():
            raise source.bad("the SQL cannot be read", "Try it in Spark first.", position)
        position = token.end + 1
        word = " ".join(source.masked[token.start : position].upper().split())
        yield Token(word, source.text[token.start : position], token.start, position)


def statement_of(source: Source) -> list[Token]:
    """The words without semicolons at the end."""
    tokens = list(tokens_of(source))
    while tokens and tokens[-1].word == ";":
        tokens.pop()
    if not tokens:
        raise source.bad("there is no query", "Write SELECT ... FROM table WHERE condition.", 0)
    return tokens


def _check_comment(raw: Source, match: re.Match[str]) -> None:
    comment = match[0]
    if comment.startswith("/*+"):
        raise raw.refusal(
            "the query has a hint", "Leave it out: how rows are read is not the view's matter.", *match.span()
        )
    if comment.startswith("/*") and "/*" in comment[2:]:
        raise raw.refusal("a comment has a comment inside", "Remove the inner one.", *match.span())


def _blank(text: str) -> str:
    return "".join(sign if sign == "\n" else " " for sign in text)


def _masked(match: re.Match[str]) -> str:
    if match.lastgroup == "blank":
        return " "
    quote = "`" if match.lastgroup == "name" else "'"
    return quote + "".join(sign if sign == "\n" else "x" for sign in match[0][1:-1]) + quote
