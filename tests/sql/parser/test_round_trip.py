"""What was written comes back."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.sql.parser.reading import one
from tests.sql.parser.writing import blanks, names, statements, ticked, written
from tidefill.sql.parser import parse
from tidefill.sql.statements import ShowJob, Statement


@given(statements, blanks)
def test_what_was_written_comes_back(statement: Statement, blank: str) -> None:
    assert one(blank.join(written(statement))) == statement


@given(st.lists(statements, max_size=4), blanks)
def test_scripts_come_back(found: list[Statement], blank: str) -> None:
    script = f"{blank};{blank}".join(" ".join(written(statement)) for statement in found)
    parsed = parse(script)
    assert [each.statement for each in parsed] == found
    assert [each.statement for each in parsed] == [one(each.text) for each in parsed]


@given(names, st.sampled_from([str.upper, str.lower, str.title]))
def test_any_name_comes_back(name: str, case: Callable[[str], str]) -> None:
    assert one(f"{case('SHOW JOB')} {ticked(name)}") == ShowJob(name)
