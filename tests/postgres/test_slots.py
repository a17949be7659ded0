"""How many replication slots a server has left is told before one is needed, and none left is an error with a name."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.postgres.harness import PASSWORD, ROLE, Postgres
from tidefill.errors import UpstreamUnfit
from tidefill.postgres.connections import Databases, Found, Source
from tidefill.postgres.survey import PgTable
from tidefill.postgres.upstream import PostgresUpstream


@pytest.fixture
def table(postgres: Postgres) -> Iterator[str]:
    name = f"slots_{uuid.uuid4().hex[:8]}"
    postgres.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, v int)")
    postgres.publish(name, name)
    yield name
    postgres.drop(name, name, name)


def databases(postgres: Postgres) -> Databases:
    return Databases(["shop"], lambda name: postgres.server.url(ROLE, PASSWORD), lambda: "0" * 32)


def find(postgres: Postgres, table: str, slot: str = "") -> Found:
    return databases(postgres).find(Source("shop", "public", table, publication=table, slot=slot))


@contextmanager
def slots_left(postgres: Postgres, count: int) -> Iterator[list[str]]:
    """All slots of the server but so many are taken by somebody else."""
    ((free,),) = postgres.execute(
        "SELECT current_setting('max_replication_slots')::int - count(*)::int FROM pg_replication_slots"
    )
    taken = [f"other_{number}_{uuid.uuid4().hex[:8]}" for number in range(free - count)]
    for name in taken:
        postgres.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", name)
    try:
        yield taken
    finally:
        for name in taken:
            postgres.execute("SELECT pg_drop_replication_slot(%s)", name)


def test_slots_that_are_left_are_counted(postgres: Postgres, table: str) -> None:
    with slots_left(postgres, 2):
        found = find(postgres, table)
        assert found.slots_left == databases(postgres).answer("shop").slots_left == 2
        assert found.notices == ()
    with slots_left(postgres, 1):
        (notice,) = find(postgres, table).notices
        assert "last replication slot" in notice


def test_none_left_is_refused_with_the_setting_that_mends_it(postgres: Postgres, table: str) -> None:
    with slots_left(postgres, 0) as taken:
        with pytest.raises(UpstreamUnfit, match="no free replication slot") as refused:
            find(postgres, table)
        assert "max_replication_slots" in refused.value.hint
        assert find(postgres, table, slot=taken[0]).slots_left is None, "one that is there needs no other"


def test_a_replica_that_has_its_slot_needs_no_other(postgres: Postgres, table: str) -> None:
    """As when its runner starts again."""
    source = Source("shop", "public", table, publication=table)
    with slots_left(postgres, 0):
        assert databases(postgres).find(source, made=True).key == ("id",)


def test_none_left_when_the_slot_is_made(postgres: Postgres, table: str) -> None:
    """Somebody took the last one after CREATE. The server's own words say nothing of a way on."""
    upstream = PostgresUpstream[object](None, postgres.ours, PgTable("public", table, table, table))  # type: ignore[arg-type]
    with slots_left(postgres, 0), pytest.raises(UpstreamUnfit, match="no free replication slot") as refused:
        upstream.prepare(None)
    assert "max_replication_slots" in refused.value.hint


def test_a_key_with_a_collation_is_not_cut_and_that_is_said(postgres: Postgres) -> None:
    name = f"collated_{uuid.uuid4().hex[:8]}"
    # The only collation that every server has and that is not known to compare bytes.
    postgres.execute(f'CREATE TABLE {name} (code text COLLATE "pg_c_utf8" PRIMARY KEY, v int)')
    postgres.publish(name, name)
    try:
        (notice,) = find(postgres, name).notices
    finally:
        postgres.drop(name, name, name)
    assert "chunk_rows" in notice
    assert "code" in notice
