"""Which names a query may read."""

import pytest

from tidefill.errors import UnsupportedQuery
from tidefill.views.reading.names import names_read


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT 1", {}),
        ("SELECT events FROM Orders o JOIN `odd name` ON true", {"Orders": True, "odd name": True}),
        ("SELECT * FROM db.orders", {}),
        ("SELECT (SELECT max(x) FROM a) FROM b WHERE EXISTS (SELECT 1 FROM c)", {"a": True, "b": True, "c": True}),
        ("SELECT * FROM a UNION ALL (SELECT * FROM b)", {"a": True, "b": True}),
        ("WITH c AS (SELECT * FROM a) SELECT * FROM C", {"a": True, "C": False}),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", {"a": False}),
        ("SELECT 'FROM x' FROM a -- FROM y", {"a": True}),
    ],
)
def test_names(sql: str, names: dict[str, bool]) -> None:
    assert names_read(sql) == names


def test_what_the_parser_cannot_read_may_name_anything() -> None:
    assert names_read("SELECT a b c d FROM `odd one`")["odd one"] is False


@pytest.mark.parametrize("sql", ["WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a", "DROP TABLE x", "DELETE FROM x"])
def test_only_queries(sql: str) -> None:
    with pytest.raises(UnsupportedQuery, match="only queries"):
        names_read(sql)
