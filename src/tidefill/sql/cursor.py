"""One statement, read from left to right. What does not fit raises BadSql, at its place and with what would fit."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tidefill.errors import BadSql
from tidefill.jobs.settings import AT_ONCE, AUTO, DEFERRED, FULL, INCREMENTAL
from tidefill.jobs.sql_names import HIDDEN
from tidefill.sql.statements import Value
from tidefill.sql.words import Script, name_of, shown, string_of
from tidefill.views.reading.lexer import Token

T = TypeVar("T")

NAME_PARTS_MAX = 3  # catalog.schema.table
_DIGITS_MAX = 18  # so many always fit into 64 bits
_NUMBER = re.compile(r"\d+(?P<fraction>\.\d*)?(?P<exponent>[eE][+-]?\d+)?", re.ASCII)
_WORDS: dict[str, Value] = {
    "TRUE": True, "ON": True, "FALSE": False, "OFF": False, "NONE": None, "NULL": None,
    "AUTO": AUTO, "FULL": FULL, "INCREMENTAL": INCREMENTAL, "BULK": "bulk", "INITPUT": "initput",
    "NOW": AT_ONCE, "DEFERRED": DEFERRED, "SPARK": "spark", "SERVER": "server",
}  # fmt: skip
_BACKTICKS = "Names with other signs than letters, digits and _ go in backticks."
_VALUES = f"A value is a number, a string in quotes, or one of {', '.join(_WORDS)}."


@dataclass(slots=True)
class Cursor:
    """`end` is the semicolon, or the end of the script. `form` is how the statement is written, for hints."""

    script: Script
    tokens: Sequence[Token]
    end: Token
    form: str = ""
    _index: int = field(default=0, init=False)

    @property
    def current(self) -> Token:
        """What is read next."""
        return self._ahead(0)

    @property
    def at_end(self) -> bool:
        """Whether all of it is read."""
        return self._index >= len(self.tokens)

    def accept(self, *words: str) -> bool:
        """Read these words if all of them are next."""
        if any(self._ahead(offset).word != word for offset, word in enumerate(words)):
            return False
        self._index += len(words)
        return True

    def expect(self, *alternatives: str) -> str:
        """Read one of these words."""
        for word in alternatives:
            if self.accept(word):
                return word
        raise self.expected(_either([word if word.isalpha() else f"'{word}'" for word in alternatives]), alternatives)

    def name(self) -> str:
        """Read a name, bare or in backticks."""
        name = name_of(self.current)
        if name is None:
            raise self.expected("a name", hint=self._usage_of_names())
        if not name:
            raise self.refused("a name is empty", "nothing is in these backticks", self._usage())
        if name.lower().startswith(HIDDEN):
            raise self.refused(f"names that begin with {HIDDEN} are reserved", "this one does", "Choose another.")
        self._index += 1
        return name

    def qualified_name(self) -> tuple[str, ...]:
        """Read a name in up to three parts."""
        parts = [self.name()]
        while len(parts) < NAME_PARTS_MAX and self.accept("."):
            parts.append(self.name())
        return tuple(parts)

    def string(self) -> str:
        """Read a literal; it may not be empty."""
        text = string_of(self.script, self.current)
        if text is None:
            raise self.expected("a string", hint=f"Put it in single quotes. {self._usage()}")
        if not text:
            raise self.refused("a string is empty", "this says nothing", self._usage())
        self._index += 1
        return text

    def value(self) -> Value:
        """Read what an option can be."""
        if self.current.word in ("-", "+"):
            sign = -1 if self.expect("-", "+") == "-" else 1
            return sign * self._number()
        if self.current.word in _WORDS:
            return _WORDS[self._take().word]
        text = string_of(self.script, self.current)
        if text is not None:
            self._index += 1
            return text
        return self._number()

    def in_parentheses(self, read: Callable[[], T]) -> tuple[T, ...]:
        """Read one or more, with commas between them."""
        self.expect("(")
        found = [read()]
        while self.expect(",", ")") == ",":
            found.append(read())
        return tuple(found)

    def texts_in_parentheses(self, what: str) -> tuple[str, ...]:
        """Read one or more with commas between them, each as it was written. (Parentheses are known to be closed.)"""
        self.expect("(")
        found, start, depth = list[str](), self.current, 0
        while depth or self.current.word != ")":
            word, before = self.current.word, self._index
            depth += {"(": 1, ")": -1}.get(word, 0)
            if word == "," and not depth:
                found.append(self._text_since(start, what))
                self._index = before + 1
                start = self.current
            else:
                self._index += 1
        found.append(self._text_since(start, what))
        self.expect(")")
        return tuple(found)

    def _text_since(self, start: Token, what: str) -> str:
        if start is self.current:
            raise self.expected(what)
        return self.script.text[start.start : self.tokens[self._index - 1].end]

    def text_until(self, what: str, *words: str) -> str:
        """Read, as it was written, all up to these words, or all that is left."""
        return self._text_up_to(
            what, lambda: all(self._ahead(offset).word == word for offset, word in enumerate(words))
        )

    def text_in_list(self, what: str) -> str:
        """Read, as it was written, all up to the comma or the parenthesis that ends one of a list."""
        return self._text_up_to(what, lambda: self.current.word in (",", ")"))

    def _text_up_to(self, what: str, ends: Callable[[], bool]) -> str:
        """Up to the first place outside of parentheses of its own where that holds, or all that is left."""
        start, depth = self.current, 0
        while not self.at_end and (depth or not ends()):
            depth += {"(": 1, ")": -1}.get(self.current.word, 0)
            self._index += 1
        return self._text_since(start, what)

    def rest(self, what: str) -> str:
        """Read all that is left, as it was written."""
        if self.at_end:
            raise self.expected(what)
        text = self.script.text[self.current.start : self.tokens[-1].end]
        self._index = len(self.tokens)
        return text

    def finish(self) -> None:
        """Nothing may be left."""
        if not self.at_end:
            problem = f"unexpected {shown(self.current)} after the statement"
            raise self.refused(self._fact(), problem, self._usage_of_names())

    def expected(self, what: str, keywords: Sequence[str] = (), *, fact: str = "", hint: str = "") -> BadSql:
        """The error that something else should be next. If what is there is nearly a keyword, the hint says which."""
        near = difflib.get_close_matches(self.current.word, keywords, n=1)
        guess = f"Did you mean {near[0]}?" if near else ""
        problem = f"expected {what}, found {shown(self.current)}"
        return self.refused(fact or self._fact(), problem, guess or hint or self._usage())

    def refused(self, fact: str, problem: str, hint: str, token: Token | None = None) -> BadSql:
        """The error for what is next, or for another word."""
        return self.script.bad(fact, problem, hint, (token or self.current).start)

    def _ahead(self, offset: int) -> Token:
        index = self._index + offset
        return self.tokens[index] if index < len(self.tokens) else self.end

    def _take(self) -> Token:
        token = self.current
        self._index += 1
        return token

    def _number(self) -> int | float:
        match = _NUMBER.fullmatch(self.current.text)
        if match is None:
            raise self.expected("a value", tuple(_WORDS), hint=_VALUES)
        exact = match["fraction"] is None and match["exponent"] is None
        if len(match[0]) > _DIGITS_MAX if exact else math.isinf(float(match[0])):
            raise self.refused("a number is too large", "this is more than any option can be", "Write a smaller one.")
        self._index += 1
        return int(match[0]) if exact else float(match[0])

    def _fact(self) -> str:
        return f"the {self.tokens[0].word} statement cannot be read"

    def _usage(self) -> str:
        return f"Write {self.form}."

    def _usage_of_names(self) -> str:
        """Where a sign or a number stands, backticks may be what is missing."""
        return self._usage() if self.at_end or self.current.is_name else f"{self._usage()} {_BACKTICKS}"


def _either(words: Sequence[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
