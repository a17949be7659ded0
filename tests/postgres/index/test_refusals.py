"""What cannot have an index is refused at once, with one reason, and nothing is left on the server."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.postgres.harness import PASSWORD, ROLE, Postgres
from tests.postgres.index.harness import Indexed
from tidefill.errors import BadInput, NameTaken, TidefillError, UnsupportedKey, UpstreamUnfit
from tidefill.postgres.index.survey import Wanted, survey
from tidefill.postgres.server import PostgresServer

Make = Callable[..., Indexed]
PLAIN = "DROP TABLE {t}; CREATE TABLE {t} "


@pytest.mark.parametrize(
    ("column", "error", "words"),
    [
        ("nobody", BadInput, "names a column that is not there"),
        ("(v || random()::text)", UnsupportedKey, "may change"),
        ("(now() - n * interval '1 s')", UnsupportedKey, "may change"),
        ("(v::json)", UnsupportedKey, "no order"),
        ("(v", BadInput, "cannot be made"),
        ("(1)", UnsupportedKey, "reads no column"),
        ("v text_pattern_ops", UnsupportedKey, "operator class"),
    ],
)
def test_a_key(indexed: Make, postgres: Postgres, column: str, error: type[TidefillError], words: str) -> None:  # C16
    with pytest.raises(error, match=words) as caught:
        indexed([(1, 1, "a")], columns=(column,))
    assert "\n" not in str(caught.value).partition("\n")[0]
    assert left(postgres) == []


@pytest.mark.parametrize(
    ("setup", "words"),
    [
        (PLAIN + "(id int, r int, v text, inc text)", "has no primary key"),
        (PLAIN + "(id int PRIMARY KEY DEFERRABLE, r int, v text, inc text)", "is deferrable"),
        ("ALTER TABLE {t} ENABLE ROW LEVEL SECURITY", "row-level security"),
        ("ALTER TABLE {t}_2 SET UNLOGGED", "not logged"),
        ("CREATE PUBLICATION {t} FOR ALL TABLES", "FOR ALL TABLES"),
        (PLAIN + "(id int PRIMARY KEY, r int, v text, inc text); CREATE TABLE {t}_c () INHERITS ({t})", "inherit"),
        ("DROP TABLE {t}; CREATE VIEW {t} AS SELECT 1 AS id, 1 AS r, ''::text AS v, ''::text AS inc", "is no table"),
        (PLAIN + "(id int PRIMARY KEY, v text GENERATED ALWAYS AS (id::text) VIRTUAL, inc text)", "virtual generated"),
    ],
)
def test_a_table(indexed: Make, postgres: Postgres, setup: str, words: str) -> None:
    try:
        with pytest.raises(BadInput, match=words):
            indexed([(1, 1, "a")], setup=setup.split("; "))
        assert left(postgres) == []
    finally:
        for (name,) in postgres.execute("SELECT pubname FROM pg_publication WHERE puballtables"):
            postgres.execute(f"DROP PUBLICATION {name}")
        for (name,) in postgres.execute("SELECT viewname FROM pg_views WHERE viewname LIKE 't\\_%%'"):
            postgres.execute(f"DROP VIEW {name}")


def test_a_collation_that_takes_different_texts_for_equal(indexed: Make) -> None:
    """The server of the suite knows no such collation, so one is made to say that it is."""
    setup = [
        "CREATE COLLATION {t} (provider = libc, locale = 'C')",
        "SET allow_system_table_mods = on",
        "UPDATE pg_collation SET collisdeterministic = false WHERE collname = '{t}'",
    ]
    with pytest.raises(UnsupportedKey, match="takes different texts for equal"):
        indexed([(1, 1, "a")], columns=("(v COLLATE {t})",), setup=setup)


def test_an_included_column_that_is_not_there(indexed: Make) -> None:
    with pytest.raises(BadInput, match="has no column nobody") as caught:
        indexed([(1, 1, "a")], include=("nobody",))
    assert "id, r, v, n, st, inc, b" in caught.value.hint


def test_a_name_that_is_taken(indexed: Make, postgres: Postgres) -> None:
    with pytest.raises(NameTaken, match="is there already"):
        indexed([(1, 1, "a")], setup=["CREATE TABLE ix_{t} ()"])
    assert left(postgres) == []
    for (name,) in postgres.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'ix\\_%%'"):
        postgres.execute(f"DROP TABLE {name}")


def test_a_table_of_somebody_else(indexed: Make, postgres: Postgres) -> None:
    index = indexed([(1, 1, "a")])
    with pytest.raises(UpstreamUnfit, match="belongs to postgres") as caught:
        index.surveyed(postgres.server.url(ROLE, PASSWORD))
    assert f'TO "{ROLE}"' in caught.value.hint


def test_an_owner_who_may_make_no_schema(indexed: Make, postgres: Postgres) -> None:
    index = indexed([(1, 1, "a")])
    index.sql("DROP SCHEMA tidefill CASCADE")
    index.sql(f"ALTER TABLE {{t}} OWNER TO {ROLE}")
    with pytest.raises(UpstreamUnfit, match="may not make the schema tidefill") as caught:
        index.surveyed(postgres.server.url(ROLE, PASSWORD))
    assert caught.value.hint == f'CREATE SCHEMA tidefill AUTHORIZATION "{ROLE}"'


def test_no_table(postgres: Postgres) -> None:
    session = PostgresServer("shop", postgres.server.url()).session("survey")
    try:
        with pytest.raises(TidefillError, match="there is no table"):
            survey(session, Wanted("ix", "public", "nobody", ("v",)), "ix")
    finally:
        session.close()


def left(postgres: Postgres) -> list[tuple[object, ...]]:
    """What a survey left: nothing of ours, and no probe."""
    owner = psycopg.connect(postgres.server.url(), autocommit=True)
    try:
        query = (
            "SELECT relname FROM pg_class WHERE relname LIKE 'tidefill%' UNION ALL SELECT nspname FROM pg_namespace "
        )
        return owner.execute((query + "WHERE nspname = 'tidefill'").encode()).fetchall()
    finally:
        owner.close()
