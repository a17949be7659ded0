"""What EXPLAIN says of an index before there is one: how large it will be, and which rights are missing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.postgres.index.harness import Indexed
from tidefill.indexes.sizes import sizes
from tidefill.indexes.states import State
from tidefill.postgres.index.survey import Surveyed, Wanted, survey
from tidefill.postgres.server import PostgresServer

Make = Callable[..., Indexed]
MANY = 5_000
FILLED = (
    "INSERT INTO {t} (id, r, v, inc) SELECT i, i % 4, 'somebody' || i || '@example.org', repeat('x', 40) "
    f"FROM generate_series(1, {MANY}) i"
)


def found_for(index: Indexed, role: str = "") -> Surveyed:
    session = PostgresServer("shop", index.url).session("survey")
    try:
        if role:
            session.execute(f"SET ROLE {role}")
        return survey(session, Wanted("x", "public", index.name, ("v",), ("inc",), "", True), "")
    finally:
        session.close()


def test_the_size_is_about_right(indexed: Make) -> None:
    index = indexed([], setup=[FILLED, "ANALYZE {t}"])
    found = found_for(index)
    assert found.rows == MANY
    index.run_to(State.MERGING)
    index.sql("UPDATE {t} SET v = v || 'x'")
    entries, key, log = (
        index.sql(f"SELECT {function}('{name}')")[0][0]
        for function, name in (
            ("pg_relation_size", index.shape.entries),
            ("pg_relation_size", f"{index.shape.entries}_key"),
            ("pg_total_relation_size", index.shape.log(1)),
        )
    )
    for estimate, measured in (
        (found.sizes.entries, entries),
        (found.sizes.key, key),
        (found.sizes.logged, log / MANY),
    ):
        assert 0.7 < estimate / measured < 1.4, (found.sizes, entries, key, log)


def test_a_table_that_was_never_analyzed_has_rows_too(indexed: Make) -> None:
    found = found_for(indexed([], setup=[FILLED]))
    assert MANY / 2 < found.rows < MANY * 2
    assert found.sizes == sizes(found.shape, found.rows, {})
    plain = sizes(replace(found.shape, unique=False), found.rows, {})
    assert plain.key > found.sizes.key, "its primary key is part of the key"


@pytest.mark.parametrize("granted", [False, True])
def test_rights_that_are_missing_come_with_their_grant(indexed: Make, granted: bool) -> None:
    index = indexed([(1, 0, "a")])
    role = f"{index.name}_owner"
    index.sql(f"CREATE ROLE {role}; GRANT CREATE ON SCHEMA public TO {role}")
    index.sql(f"GRANT CREATE ON DATABASE postgres TO {role}; ALTER TABLE {{t}} OWNER TO {role}")
    try:
        if granted:
            index.sql(f"GRANT pg_read_all_stats, pg_signal_backend TO {role}")
        missing = found_for(index, role).missing
        assert len(missing) == (0 if granted else 2)
        for statement in missing:
            index.sql(statement.partition(" (")[0])
        assert found_for(index, role).missing == ()
    finally:
        index.sql(f"ALTER TABLE {{t}} OWNER TO postgres; DROP OWNED BY {role}; DROP ROLE {role}")
