"""The view that an index on a Delta table is."""

from __future__ import annotations

import pytest

from tidefill.errors import BadInput, BadSql, TidefillError, UnsupportedQuery
from tidefill.jobs.wishes import IndexWish
from tidefill.views.reading.index_query import IndexQuery, index_query

COLUMNS = ("id", "Email", "key", "at", "a b")


def asked(*columns: str, include: tuple[str, ...] = (), where: str = "", key: tuple[str, ...] = ("id",)) -> IndexQuery:
    return index_query("events", COLUMNS, key, IndexWish("events", columns, include, where, False, ""))


def test_a_column_keeps_its_name_and_the_table_s_key_comes_behind_it() -> None:
    found = asked("email", include=("at", "EMAIL", "id"), where="at > 0")
    assert found.sql == "SELECT `Email`, `id`, `at` FROM `events` WHERE (at > 0)"
    assert (found.order, found.lead) == (("Email",), ("Email",))


def test_an_expression_is_called_key_unless_a_column_is() -> None:
    found = asked("(email)", "lower(email)", "at")
    assert found.sql == "SELECT `Email`, (lower(email)) AS `key_2`, `at`, `id` FROM `events`"
    assert (found.order, found.lead) == (("Email", "key_2", "at"), ("Email",))
    assert asked("lower(email)").order == ("key_",)
    assert asked("lower(email)").lead == ()
    assert asked("`a b`", key=("__tf_key_id",)).sql == "SELECT `a b` FROM `events`", "a hidden key is added later"


@pytest.mark.parametrize(
    ("columns", "where", "kind", "says"),
    [
        (("mail",), "", BadInput, "events has no column mail"),
        (("current_date",), "", BadInput, "has no column"),
        (("email", "EMAIL"), "", BadInput, "names Email twice"),
        ((" ",), "", BadInput, "is missing"),
        (("rand()",), "", UnsupportedQuery, "something else each time"),
        (("email || now()",), "", UnsupportedQuery, "something else each time"),
        (("max(at)",), "", UnsupportedQuery, "aggregate"),
        (("email DESC",), "", BadInput, "cannot be read"),
        (("lower(email) x",), "", BadInput, "cannot be read"),
        (("email, at",), "", BadInput, "cannot be read"),
        (("email || '' FROM events WHERE at > 0",), "", TidefillError, ""),
        (("lower(email)) AS x, (at",), "", BadSql, ""),
        (("lower(email)) AS `key_`, `id` FROM other --",), "", TidefillError, ""),
        (("*",), "", TidefillError, ""),
        (("email",), "at > 0 ORDER BY at", BadSql, ""),
        (("email",), "at IN (SELECT 1)", UnsupportedQuery, "row by row"),
        (("email",), "rand() > 0.5", UnsupportedQuery, "something else each time"),
    ],
)
def test_what_is_no_expression_over_one_row_is_refused(
    columns: tuple[str, ...], where: str, kind: type[TidefillError], says: str
) -> None:
    with pytest.raises(kind, match=says or None):
        asked(*columns, where=where)
    with pytest.raises(BadInput, match="has no column other"):
        asked("email", include=("other",))
