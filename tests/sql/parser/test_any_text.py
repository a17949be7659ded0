"""Whatever is typed, it is read or refused."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from tests.sql.parser.statements import STATEMENTS
from tidefill.errors import BadSql
from tidefill.sql.parser import parse

WORDS = [
    "SHOW", "JOB", "JOBS", "CREATE", "MATERIALIZED", "VIEW", "REPLICA", "AS", "SELECT", "WITH", "FROM", "KEY", "SET",
    "a", "1", "-", "=", "(", ")", ",", ".", ";", "'", '"', "`", "\\", "--", "/*", "*/", "{#", "${", "\n", "r'",
    "x'", "\x00",
]  # fmt: skip


def read_or_refuse(sql: str) -> None:
    error = refusal(sql)
    if error is not None:
        place, line, caret = error.detail.split("\n")
        assert place.startswith("line ")
        assert len(line) < 120
        assert caret.endswith("^")
        assert error.hint


def refusal(sql: str) -> BadSql | None:
    try:
        parse(sql)
    except BadSql as error:
        return error
    return None


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    read_or_refuse(text)


@given(st.lists(st.sampled_from(WORDS), max_size=12), st.sampled_from(["", " "]))
def test_any_words_are_read_or_refused(words: list[str], blank: str) -> None:
    read_or_refuse(blank.join(words))


@given(st.sampled_from([*STATEMENTS]), st.data())
def test_a_damaged_statement_is_read_or_refused(sql: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(sql)))
    end = data.draw(st.integers(start, min(len(sql), start + 5)))
    piece = data.draw(st.sampled_from(["", *WORDS]) | st.text(max_size=3))
    read_or_refuse(sql[:start] + piece + sql[end:])


@given(st.sampled_from([*STATEMENTS]), st.integers(0, 80))
def test_a_statement_that_breaks_off_is_read_or_refused(sql: str, length: int) -> None:
    with contextlib.suppress(BadSql):
        assert [each.text for each in parse(sql[:length])] in ([], [sql[:length].strip()])
