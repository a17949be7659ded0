"""Statements one after the other. All of a script is read before any of it is executed."""

from __future__ import annotations

from collections.abc import Iterator

from tidefill.engine.engine import Engine
from tidefill.errors import BadSql, TidefillError
from tidefill.sql.execute import execute
from tidefill.sql.parser import parse
from tidefill.sql.result import Result
from tidefill.sql.statements import Parsed
from tidefill.sql.words import COMMENT_OPEN, QUOTE_OPEN, Script, words_of

_SHOWN_MAX = 60  # of a statement: enough to find it


def results(engine: Engine, text: str) -> Iterator[Result]:
    """What each statement gives; the next is executed when it is asked for. An error says in which it happened, if
    there are several."""
    script = parse(text)
    for parsed in script:
        try:
            result = execute(engine, parsed.statement)
        except TidefillError as error:
            if len(script) > 1:
                error.detail = "\n".join(part for part in (error.detail, _place(parsed)) if part)
            raise
        yield result


def last_result(engine: Engine, text: str) -> Result:
    """What the last statement gives; nothing, if there is none."""
    all_of_them = list(results(engine, text))
    return all_of_them[-1] if all_of_them else Result()


def is_complete(text: str) -> bool:
    """Whether one who types it has come to an end: behind a semicolon, or there is nothing but blanks and comments.
    What cannot be read is complete, as no more typing makes it better."""
    try:
        words = list(words_of(Script(text)))
    except BadSql as error:
        return error.fact not in (QUOTE_OPEN, COMMENT_OPEN)
    return not words or words[-1].word == ";"


def _place(parsed: Parsed) -> str:
    shown = " ".join(parsed.text.split())
    return f"In line {parsed.line}: {shown[:_SHOWN_MAX]}{'...' if len(shown) > _SHOWN_MAX else ''}"
