"""The words of refusals, where a user gets to see them: the compiler of views checks a query before it lowers it."""

from __future__ import annotations

import pytest

from tidefill.errors import UnsupportedQuery
from tidefill.views.reading.lexer import read
from tidefill.views.reading.refusals import check_query

REFUSED = {
    "SELECT a,\n       b + rand(7) AS r\nFROM t": ("something else each time", "line 2, column 12: rand"),
    "SELECT approx_top_k(a) FROM t": ("depends on the order of the rows", "line 1, column 8: approx_top_k"),
    "SELECT stack(2, a, b) FROM t": ("several rows out of one", "line 1, column 8: stack"),
    "SELECT identifier('a') FROM t": ("a name is computed", "line 1, column 8: identifier"),
    "SELECT a FROM t WHERE d > 'Yesterday'": ("a word for a time", "line 1, column 27: 'Yesterday'"),
    "SELECT _metadata.file_path FROM t": ("where a row is stored", "line 1, column 8: _metadata"),
    "SELECT a AS `__TF_x` FROM t": ("are reserved", "line 1, column 13"),
    "SELECT a FROM t WHERE a = :x": ("has a parameter", "line 1, column 27"),
    "SELECT a FROM t@v1": ("one version of the table", "line 1, column 16"),
    "SELECT a FROM t FOR SYSTEM_VERSION AS OF 1": ("one version of the table", "line 1, column"),
    "SELECT a FROM t |> WHERE b": ("has pipes", "line 1, column 17"),
    "INSERT INTO u SELECT a FROM t": ("does not begin with SELECT", "line 1, column 1"),
    "SELECT a FROM t; SELECT b FROM t": ("several statements", "line 1, column 16"),
}


@pytest.mark.parametrize(("sql", "told"), REFUSED.items())
def test_a_refusal_says_what_and_where_and_what_to_do(sql: str, told: tuple[str, str]) -> None:
    fact, place = told
    with pytest.raises(UnsupportedQuery) as refused:
        check_query(read(sql))
    assert fact in refused.value.fact
    assert refused.value.detail.startswith(place)
    assert refused.value.hint
