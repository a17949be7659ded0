"""What a user calls stays what he wrote."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from tidefill.errors import BadInput
from tidefill.views.reading.dialect import Verbatim, require_interpreted, spellings
from tidefill.views.reading.lexer import DIALECT


def parsed(expression: str) -> exp.Expr:
    tree = sqlglot.parse_one(f"SELECT {expression} FROM t", read=Verbatim)
    assert isinstance(tree, exp.Select)
    return tree.selects[0]


@pytest.mark.parametrize(
    "text",
    [
        "NVL(i, 0)", "DATE_TRUNC('month', ts)", "TO_DATE(s, 'yyyy-MM-dd')", "MOD(i, 2)", "DATE_SUB(d, 1)",
        "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY f)", "VAR_SAMP(f)", "SUBSTR(s, 2)", "LOG10(f)",
        "TRIM(BOTH 'x' FROM s)", "FILTER(xs, v -> v > 1)", "DATEDIFF(DAY, a, b)", "my.own(x)",
    ],
)  # fmt: skip
def test_a_call_is_written_as_it_was_read(text: str) -> None:
    assert parsed(text).sql(dialect=DIALECT) == text


@pytest.mark.parametrize(("text", "value"), [("'it''s'", "it's"), ("'it\\'s'", "it's"), ('"a""b"', 'a"b')])
def test_a_quote_in_a_string_may_be_doubled(text: str, value: str) -> None:
    assert parsed(text) == exp.Literal.string(value)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("count(*)", exp.Count), ("sum(DISTINCT x)", exp.Sum), ("avg(x)", exp.Avg), ("min(x)", exp.Min),
        ("count_if(x > 1)", exp.CountIf), ("bool_or(b)", exp.LogicalOr), ("percentile(x, 0.5)", exp.Quantile),
        ("row_number() OVER (PARTITION BY a ORDER BY b)", exp.Window), ("coalesce(a, b)", exp.Coalesce),
    ],
)  # fmt: skip
def test_what_the_compiler_goes_by_is_known(text: str, kind: type[exp.Expr]) -> None:
    assert isinstance(parsed(text), kind)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT WINDOW(ts, '10 seconds') AS w FROM t GROUP BY WINDOW(ts, '10 seconds')",
        "SELECT MAX(x) OVER w FROM t GROUP BY WINDOW(ts, '1 day') WINDOW w AS (PARTITION BY y)",
        "SELECT a FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY b ORDER BY a) = 1",
        "SELECT a FROM t JOIN u ON t.a <=> u.a",
    ],
)
def test_a_query_is_written_as_it_was_read(sql: str) -> None:
    assert list(spellings(sqlglot.parse_one(sql, read=Verbatim))) == [sql]


def test_values_may_have_been_in_parentheses() -> None:
    tree = sqlglot.parse_one("SELECT k FROM (VALUES (1)) AS v (k)", read=Verbatim)
    assert list(spellings(tree)) == ["SELECT k FROM VALUES (1) AS v(k)", "SELECT k FROM (VALUES (1)) AS v(k)"]


def test_a_compiled_sqlglot_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lets a class be derived, and refuses to make an object of it."""

    def refuse(*_: object, **__: object) -> None:
        raise TypeError("interpreted classes cannot inherit from compiled")

    require_interpreted.__wrapped__()
    monkeypatch.setattr(Verbatim.Parser, "__init__", refuse)
    with pytest.raises(BadInput) as refused:
        require_interpreted.__wrapped__()
    assert "uninstall sqlglotc" in (refused.value.hint or "")
