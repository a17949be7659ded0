"""Which functions a query over several tables calls."""

from __future__ import annotations

import pytest
import sqlglot

from tests.views.incremental.queries import DIRECTED
from tidefill.errors import UnsupportedQuery
from tidefill.views.reading.dialect import Verbatim
from tidefill.views.reading.functions import without_clauses
from tidefill.views.reading.lexer import read
from tidefill.views.reading.refusals import check_query

CALLED = {
    "any_value", "array", "array_agg", "avg", "cast", "coalesce", "collect_list", "collect_set", "concat", "count",
    "cume_dist", "dense_rank", "exists", "explode", "filter", "first", "first_value", "grouping",
    "grouping_id", "lag", "last", "last_value", "lead", "listagg", "max", "max_by", "min", "mode", "nth_value",
    "ntile", "percent_rank", "percentile_approx", "posexplode", "rank", "row_number", "sequence",
    "session_window", "string_agg", "sum", "timestamp_seconds", "window",
}  # fmt: skip


def called(sql: str) -> frozenset[str]:
    return without_clauses(check_query(read(sql)), sqlglot.parse_one(sql, read=Verbatim))


def test_words_of_clauses_are_no_functions() -> None:
    assert {name for sql in DIRECTED.values() for name in called(sql)} == CALLED


def test_a_function_may_have_the_name_of_a_clause() -> None:
    assert called("SELECT `join`(g) AS x, `over`(g) AS y FROM a UNION SELECT id, g FROM b") == {"join", "over"}


@pytest.mark.parametrize(
    "sql",
    [
        "WITH t AS (SELECT rand() AS r FROM a) SELECT r FROM t",
        "WITH t AS ((SELECT rand() AS r FROM a)) SELECT r FROM t",
    ],
)
def test_a_volatile_function_is_found_in_a_with(sql: str) -> None:
    with pytest.raises(UnsupportedQuery, match="each time"):
        check_query(read(sql))
