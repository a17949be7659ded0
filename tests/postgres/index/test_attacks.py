"""What a hostile review of the first version found: each was a lost entry, a refused write, a stall or a stuck job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import psycopg
import pytest

import tidefill
from tests.postgres.harness import Postgres
from tests.postgres.index.harness import Indexed
from tidefill.engine.engine import Engine
from tidefill.errors import JobFailed
from tidefill.indexes.states import Method, State
from tidefill.postgres.index import changes, looking, removal
from tidefill.testing.turns import turns

Make: TypeAlias = Callable[..., Indexed]

ROWS = [(number, number % 4, f"v{number}") for number in range(1, 9)]
WAIT_S = 60.0


def idle(index: Indexed) -> bool:
    return type(index.turn()).__name__ == "Wait"


def test_a_partition_that_was_changed_while_it_was_detached(indexed: Make) -> None:
    """It comes back with the same oid."""
    index = indexed(ROWS)
    index.run()
    index.sql("ALTER TABLE {t} DETACH PARTITION {t}_3")
    index.sql("UPDATE {t}_3 SET v = 'moved' WHERE id = 3")
    index.sql("INSERT INTO {t}_3 (id, r, v) VALUES (100, 3, 'lost')")
    index.sql("ALTER TABLE {t} ATTACH PARTITION {t}_3 FOR VALUES IN (3)")
    index.run_until(idle)
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (101, 1, 'lost')") == "23505"


def test_truncate_counts_for_a_subscription_too(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    index.sql("SET session_replication_role = replica")
    index.sql("TRUNCATE {t}_3")
    index.sql("RESET session_replication_role")
    assert index.differences() == []


def test_a_domain_that_forbids_null_refuses_nobody(indexed: Make) -> None:
    setup = ["CREATE DOMAIN {t}_d AS text NOT NULL", "ALTER TABLE {t} ALTER COLUMN v TYPE {t}_d"]
    index = indexed(ROWS, columns=("lower(v)",), include=("v",), method=Method.INITPUT, setup=setup)
    index.run_to(State.WRITE_AND_DELETE)
    assert index.writes("DELETE FROM {t} WHERE id = 1") == "ok"
    assert index.writes("UPDATE {t} SET v = 'other' WHERE id = 2") == "ok"
    index.run()
    assert index.differences() == []


@pytest.mark.parametrize("method", list(Method))
def test_a_row_whose_key_raises_can_go(indexed: Make, method: Method) -> None:
    """A function of the user may raise what it likes."""
    body = "BEGIN IF $1 = 'bad' THEN RAISE 'no key'; END IF; RETURN $1; END"
    setup = [
        f"CREATE FUNCTION {{t}}_f(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ {body} $$",
        "INSERT INTO {t} (id, r, v) VALUES (50, 1, 'bad')",
    ]
    index = indexed(ROWS, columns=("public.{t}_f(v)",), method=method, setup=setup)
    index.run_to(State.DELETE_ONLY if method is Method.INITPUT else State.LOGGING)
    assert index.writes("DELETE FROM {t} WHERE id = 50") == "ok"
    index.run()
    assert index.differences() == []


def test_a_reader_of_the_view_holds_up_nobody(indexed: Make) -> None:
    """Publishing gives up soon, and tries again: readers would queue behind it."""
    index = indexed(ROWS)
    index.run()
    index.sql("UPDATE tidefill.indexes SET is_public = false")  # as before a RESYNC shows its new generation
    reader = index.begin()
    index.by(reader, "SELECT * FROM ix_{t}")
    with pytest.raises(tidefill.errors.NotYet):
        changes.show(index.session, index.session.control())
    reader.execute("COMMIT")
    changes.show(index.session, index.session.control())


def test_a_detached_partition_holds_up_no_drop(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run()
    index.sql("ALTER TABLE {t} DETACH PARTITION {t}_3")
    reader = index.begin()
    index.by(reader, "SELECT * FROM {t}_3")
    removal.stop(index.session)
    assert looking.writers_end(index.session, 5.0)
    with pytest.raises(tidefill.errors.NotYet):
        removal.clear(index.session)
    reader.execute("COMMIT")
    removal.clear(index.session)
    removal.forget(index.session)
    assert index.sql("SELECT count(*) FROM pg_trigger WHERE tgname LIKE '!%'") == [(0,)]
    index.sql("DROP TABLE {t}_3")


# Through the engine: names, types and renames that only a whole job meets.


@pytest.fixture
def engine(postgres: Postgres, tmp_path: Path) -> Iterator[Engine]:
    with tidefill.connect(None, tmp_path / "lake", tmp_path / "store", {"shop": postgres.server.url()}) as made:
        yield made
        for job in made.jobs():
            job.drop()
            job.wait(WAIT_S, gone=True)
        postgres.execute("DROP SCHEMA IF EXISTS odd CASCADE")


def odd(postgres: Postgres, columns: str, rows: str) -> None:
    postgres.execute("DROP SCHEMA IF EXISTS odd CASCADE")
    postgres.execute("CREATE SCHEMA odd")
    postgres.execute(f"CREATE TABLE odd.t ({columns})")
    postgres.execute(f"INSERT INTO odd.t {rows}")


@pytest.mark.parametrize("method", ["bulk", "initput"])
def test_names_with_percent_signs(engine: Engine, postgres: Postgres, method: str) -> None:
    odd(postgres, '"a%s" int PRIMARY KEY, "100%" text', "SELECT n, 'v' || n FROM generate_series(1, 50) n")
    job = engine.create_index("percents", "shop.odd.t", '"100%"', unique=True, method=method, chunk_rows=7)
    job.wait(WAIT_S)
    assert job.verify().rows == 50


def test_primary_keys_that_python_cannot_hold(engine: Engine, postgres: Postgres) -> None:
    odd(postgres, "d date PRIMARY KEY, v text", "VALUES ('infinity', 'a'), ('-infinity', 'b'), ('2026-01-01', 'b')")
    job = engine.create_index("times", "shop.odd.t", "v", unique=True, method="initput")
    with pytest.raises(JobFailed, match="1 key"):
        job.wait(WAIT_S)
    postgres.execute("UPDATE odd.t SET v = 'c' WHERE d = '-infinity'")
    job.resume()
    job.wait(WAIT_S)
    assert job.verify().rows == 3


def test_long_numbers_are_compared_as_they_are(engine: Engine, postgres: Postgres) -> None:
    odd(postgres, "n numeric PRIMARY KEY, v text", "VALUES (1.00000000000000000000001, 'a'), (2, 'a')")
    with pytest.raises(JobFailed, match="1 key"):
        engine.create_index("numbers", "shop.odd.t", "v", unique=True).wait(WAIT_S)


def test_a_renamed_key_is_followed_by_the_next_generation(engine: Engine, postgres: Postgres) -> None:
    odd(postgres, "id int PRIMARY KEY, v text, x int", "SELECT n, 'v' || n, n FROM generate_series(1, 50) n")
    job = engine.create_index("renamed", "shop.odd.t", "v", include="x", unique=True).wait(WAIT_S)
    postgres.execute("ALTER TABLE odd.t RENAME COLUMN v TO w")
    postgres.execute("ALTER TABLE odd.t RENAME COLUMN x TO y")
    job.resync()
    job.wait(WAIT_S)
    assert postgres.execute("SELECT id, y FROM odd.renamed WHERE w = 'v7'") == [(7, 7)]


@contextmanager
def owned(postgres: Postgres, tmp_path: Path) -> Iterator[tuple[Engine, psycopg.Connection[Any]]]:
    """A table of odd_owner, with an index of odd_runner, which is a member of odd_owner; an engine by the runner, and a
    session of the owner. There is a role odd_heir, too."""
    roles = ("odd_owner", "odd_runner", "odd_heir")
    postgres.execute("DROP SCHEMA IF EXISTS odd CASCADE")
    for role in roles:
        postgres.execute(f"DROP ROLE IF EXISTS {role}")
        postgres.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'a word'")
    postgres.execute("GRANT odd_owner TO odd_runner")
    postgres.execute("GRANT CREATE ON DATABASE postgres TO odd_runner")
    postgres.execute("CREATE SCHEMA odd AUTHORIZATION odd_owner")
    url = postgres.server.url("odd_runner", "a word")
    with psycopg.connect(postgres.server.url("odd_owner", "a word"), autocommit=True) as owner:
        owner.execute("CREATE TABLE odd.t (id int, r int, v text, PRIMARY KEY (id, r)) PARTITION BY LIST (r)")
        with tidefill.connect(None, tmp_path / "lake2", tmp_path / "store2", {"shop": url}) as theirs:
            job = theirs.create_index("owned", "shop.odd.t", "v", unique=True).wait(WAIT_S)
            yield theirs, owner
            job.drop()
            job.wait(WAIT_S, gone=True)
    postgres.execute("DROP SCHEMA odd CASCADE")
    for role in roles:
        postgres.execute(f"DROP OWNED BY {role}")
        postgres.execute(f"DROP ROLE {role}")


def test_the_owner_of_the_table_makes_partitions(postgres: Postgres, tmp_path: Path) -> None:
    """The role of the runner is a member of the owner, and owns functions and entries itself."""
    with owned(postgres, tmp_path) as (_, owner):
        owner.execute("CREATE TABLE odd.t_1 PARTITION OF odd.t FOR VALUES IN (1)")
        owner.execute("INSERT INTO odd.t VALUES (1, 1, 'a')")
        assert owner.execute("SELECT id FROM odd.owned WHERE v = 'a'").fetchall() == [(1,)]


def test_the_table_gets_another_owner(postgres: Postgres, tmp_path: Path) -> None:
    """The trigger reads the table by the role of the runner, which has to be a member of the new owner. The rest is
    granted at the next look."""
    with owned(postgres, tmp_path) as (theirs, owner):
        owner.execute("CREATE TABLE odd.t_1 PARTITION OF odd.t FOR VALUES IN (1)")
        postgres.execute("GRANT ALL ON SCHEMA odd TO odd_heir")
        for table in ("t", "t_1"):
            postgres.execute(f"ALTER TABLE odd.{table} OWNER TO odd_heir")
        with psycopg.connect(postgres.server.url("odd_heir", "a word"), autocommit=True) as heir:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="for table t"):
                heir.execute("INSERT INTO odd.t VALUES (1, 1, 'a')")
            turns(theirs, 1)
            failure = theirs.job("owned").status().failure
            assert failure is not None
            assert failure.hint == 'GRANT "odd_heir" TO "odd_runner", then RESUME the job.'
            postgres.execute("GRANT odd_heir TO odd_runner")
            heir.execute("INSERT INTO odd.t VALUES (1, 1, 'a')")
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="for function"):
                heir.execute("CREATE TABLE odd.t_2 PARTITION OF odd.t FOR VALUES IN (2)")
            theirs.job("owned").resume()
            turns(theirs, 3)
            heir.execute("CREATE TABLE odd.t_2 PARTITION OF odd.t FOR VALUES IN (2)")
            assert heir.execute("SELECT id FROM odd.owned WHERE v = 'a'").fetchall() == [(1,)]
            assert theirs.job("owned").status().state == "live"


def test_a_partition_that_comes_during_the_install_has_all_triggers(
    indexed: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is attached after the runner looked whether the table is quiet, and before the table is locked."""
    index = indexed(ROWS)
    right = index.session.locked

    def comes(statement: str) -> bool:
        index.sql("CREATE TABLE {t}_9 PARTITION OF {t} FOR VALUES IN (9)")
        return right(statement)

    monkeypatch.setattr(index.session, "locked", comes)
    index.turn()
    assert index.state is State.LOGGING
    assert index.writes("TRUNCATE {t}_9") == "55006"  # refused while it is built
