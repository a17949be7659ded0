"""What others do to the table, the slot and the publication between two looks: followed, or a stop with a name."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.postgres.harness import Postgres
from tests.postgres.stress import Copy, Effects
from tidefill.jobs.lifecycle import Life
from tidefill.postgres import backlog as postgres_backlog
from tidefill.postgres import head as postgres_head
from tidefill.postgres import log as postgres_log
from tidefill.postgres import upstream as postgres_upstream


class Meddled(Copy):
    """A copy of a small table, and everybody else."""

    def __init__(self, postgres: Postgres) -> None:
        super().__init__(postgres, f"t_{uuid.uuid4().hex[:8]}")

    def sql(self, sql: str) -> None:
        """As somebody else. T is the table."""
        self._postgres.execute(re.sub(r"\bT(?=\b|_)", self._name, sql))

    def table(self) -> list[tuple[object, ...]]:
        return sorted(self._postgres.execute(f"SELECT * FROM {self._name}"))

    def assert_equal(self) -> None:
        """The memory keeps rows as they were written: a column that came later is NULL in them."""
        assert self.job.failure is None, self.job.failure
        table = self.table()
        width = len(table[0]) if table else 0
        assert [(*row, *[None] * (width - len(row))) for row in self.rows()] == table

    @property
    def stop(self) -> str:
        assert self.job.failure is not None
        return self.job.failure.code


@pytest.fixture
def copy(postgres: Postgres) -> Iterator[Meddled]:
    made = Meddled(postgres)
    made.sql("CREATE TABLE T (id int PRIMARY KEY, value int)")
    made.sql("INSERT INTO T SELECT n, n FROM generate_series(1, 500) n")
    postgres.publish(made._name, made._name)
    yield made
    made.drop()


@pytest.fixture
def parted(postgres: Postgres) -> Iterator[Meddled]:
    made = Meddled(postgres)
    made.sql("CREATE TABLE T (id int PRIMARY KEY, value int) PARTITION BY RANGE (id)")
    for number in range(3):
        made.sql(f"CREATE TABLE T_{number} PARTITION OF T FOR VALUES FROM ({number * 200}) TO ({number * 200 + 200})")
    made.sql("INSERT INTO T SELECT n, n FROM generate_series(1, 500) n")
    postgres.publish(made._name, made._name)
    yield made
    made.drop()


FOLLOWED = {
    "truncate": ["TRUNCATE T", "INSERT INTO T VALUES (1, 7)"],
    "a column without a default": ["ALTER TABLE T ADD COLUMN note text", "UPDATE T SET note = 'x' WHERE id < 10"],
    "a column with a default": ["ALTER TABLE T ADD COLUMN note text DEFAULT 'new'"],
    "vacuum full": ["VACUUM FULL T", "UPDATE T SET value = 0 WHERE id = 3"],
    "cluster": ["CLUSTER T USING T_pkey", "DELETE FROM T WHERE id = 3"],
    "replica identity full": ["ALTER TABLE T REPLICA IDENTITY FULL", "DELETE FROM T WHERE id < 9"],
    "an index": ["CREATE INDEX ON T (value)", "UPDATE T SET id = -id WHERE id < 9"],
    "a new name of a constraint": ["ALTER TABLE T RENAME CONSTRAINT T_pkey TO T_pk", "DELETE FROM T WHERE id = 1"],
    "nobody's business": ["ANALYZE T", "COMMENT ON TABLE T IS 'x'", "GRANT SELECT ON T TO PUBLIC"],
}
STOPS = {
    "a dropped column": (["ALTER TABLE T DROP COLUMN value"], "UPSTREAM_REPLACED"),
    "a renamed column": (["ALTER TABLE T RENAME COLUMN value TO price"], "UPSTREAM_REPLACED"),
    "another type": (["ALTER TABLE T ALTER COLUMN value TYPE bigint"], "UPSTREAM_REPLACED"),
    "another column of that name": (
        ["ALTER TABLE T DROP COLUMN value", "ALTER TABLE T ADD COLUMN value int"],
        "UPSTREAM_REPLACED",
    ),
    "no replica identity": (["ALTER TABLE T REPLICA IDENTITY NOTHING"], "HISTORY_GONE"),
    "the publication left the table and came back": (
        ["ALTER PUBLICATION T DROP TABLE T", "INSERT INTO T VALUES (900, 1)", "ALTER PUBLICATION T ADD TABLE T"],
        "HISTORY_GONE",
    ),
    "the publication was made anew": (
        ["DROP PUBLICATION T", "INSERT INTO T VALUES (900, 1)", "CREATE PUBLICATION T FOR TABLE T"],
        "HISTORY_GONE",
    ),
    "the publication left out deletes for a while": (
        [
            "ALTER PUBLICATION T SET (publish = 'insert')",
            "DELETE FROM T WHERE id = 5",
            "ALTER PUBLICATION T SET (publish = 'insert, update, delete, truncate')",
        ],
        "HISTORY_GONE",
    ),
    "no publication": (["DROP PUBLICATION T"], "HISTORY_GONE"),
    "the slot was moved": (
        ["DELETE FROM T WHERE id = 5", "SELECT pg_replication_slot_advance('T_1', pg_current_wal_lsn())"],
        "HISTORY_GONE",
    ),
    "the slot was dropped": (
        ["SELECT pg_drop_replication_slot('T_1')", "DELETE FROM T WHERE id = 5"],
        "HISTORY_GONE",
    ),
    "the slot was made anew": (
        [
            "SELECT pg_drop_replication_slot('T_1')",
            "DELETE FROM T WHERE id = 5",
            "SELECT pg_create_logical_replication_slot('T_1', 'pgoutput')",
        ],
        "HISTORY_GONE",
    ),
}


@pytest.mark.parametrize("live", [True, False], ids=["live", "half filled"])
@pytest.mark.parametrize("statements", FOLLOWED.values(), ids=FOLLOWED)
def test_followed(copy: Meddled, statements: list[str], live: bool) -> None:
    # R23, R36
    begin(copy, live or "ADD COLUMN" in statements[0])
    for statement in statements:
        copy.sql(statement)
    copy.catch_up().assert_equal()


@pytest.mark.parametrize("restarted", [False, True], ids=["looking on", "after a restart"])
@pytest.mark.parametrize(("statements", "code"), STOPS.values(), ids=STOPS)
def test_a_stop_with_a_name(copy: Meddled, statements: list[str], code: str, restarted: bool) -> None:
    # R39
    copy.catch_up()
    copy.die()
    if not restarted:
        copy.turn()
    for statement in statements:
        copy.sql(statement)
    copy.catch_up()
    assert copy.stop in (code, "UPSTREAM_UNFIT")


def begin(copy: Meddled, live: bool) -> None:
    if live:
        copy.catch_up()
    else:
        while copy.commits < 2:
            copy.turn()
        assert copy.job.life is Life.BACKFILLING


PARTITIONS = {
    "a row moves": ["UPDATE T SET id = id + 200 WHERE id BETWEEN 310 AND 320"],
    "truncate of one": ["TRUNCATE T_0", "INSERT INTO T VALUES (7, 7)"],
    "a new one": ["CREATE TABLE T_3 PARTITION OF T FOR VALUES FROM (600) TO (800)", "INSERT INTO T VALUES (700, 1)"],
    "one with rows comes": [
        "CREATE TABLE T_4 (id int PRIMARY KEY, value int)",
        "INSERT INTO T_4 SELECT n, n FROM generate_series(600, 650) n",
        "ALTER TABLE T ATTACH PARTITION T_4 FOR VALUES FROM (600) TO (800)",
        "DELETE FROM T WHERE id IN (601, 3)",
    ],
    "one goes": ["ALTER TABLE T DETACH PARTITION T_1", "DELETE FROM T_1 WHERE id = 250", "DROP TABLE T_1"],
    "one is dropped": ["DROP TABLE T_1", "INSERT INTO T VALUES (13000, 1) ON CONFLICT DO NOTHING"][:1],
    "one goes and comes back": [
        "ALTER TABLE T DETACH PARTITION T_1",
        "DELETE FROM T_1 WHERE id BETWEEN 250 AND 260",
        "ALTER TABLE T ATTACH PARTITION T_1 FOR VALUES FROM (200) TO (400)",
    ],
}


@pytest.mark.parametrize("live", [True, False], ids=["live", "half filled"])
@pytest.mark.parametrize("statements", PARTITIONS.values(), ids=PARTITIONS)
def test_partitions_are_followed(parted: Meddled, statements: list[str], live: bool) -> None:
    # R23
    begin(parted, live)
    for statement in statements:
        parted.sql(statement)
    parted.catch_up().assert_equal()


def test_a_quiet_table_in_a_busy_database(copy: Meddled, postgres: Postgres) -> None:
    # R32
    copy.catch_up()
    commits = copy.commits
    copy.sql("CREATE TABLE T_other AS SELECT n, md5(n::text) FROM generate_series(1, 100000) n")
    copy.sql("DROP TABLE T_other")
    for _ in range(4):
        copy.turn()
    kept = "SELECT pg_current_wal_lsn() - confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = %s"
    assert postgres.execute(kept, copy.slot)[0][0] < 1_000_000, "the slot goes on without a commit of ours"
    assert copy.commits == commits
    copy.sql("DELETE FROM T WHERE id = 4")
    copy.catch_up().assert_equal()


def change_many(copy: Meddled) -> None:
    """172 rows, in three transactions; eleven of them twice."""
    copy.sql("UPDATE T SET value = value + 1 WHERE id <= 60")
    copy.sql("UPDATE T SET value = value + 1 WHERE id BETWEEN 50 AND 150")
    copy.sql("DELETE FROM T WHERE id BETWEEN 300 AND 310")
    copy.sql("INSERT INTO T SELECT n, n FROM generate_series(601, 611) n")


@pytest.mark.parametrize("live", [True, False], ids=["live", "half filled"])
def test_a_backlog_of_more_keys_than_are_kept(copy: Meddled, live: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # R38
    monkeypatch.setattr(postgres_backlog, "KEYS_MAX", 30)
    monkeypatch.setattr(postgres_log, "PART_KEYS", 20)
    monkeypatch.setattr(postgres_upstream, "KEYS_PER_QUERY", 50)
    copy.sql("ANALYZE T")
    begin(copy, live)
    copy.die()
    change_many(copy)
    writes: list[Any] = []
    monkeypatch.setattr(Effects, "read_changes", noted(Effects.read_changes, writes))
    copy.turn()
    head = copy.head
    assert head is not None
    assert head.told.backlog.spilled
    assert len(head.told.backlog.held()) == 0, "nothing is left in memory"
    copy.catch_up().assert_equal()
    assert writes, "the keys were taken, not the whole table again"


def noted(changes: Callable[..., Any], calls: list[Any]) -> Callable[..., Any]:
    def called(*words: Any) -> Any:
        calls.append(words)
        return changes(*words)

    return called


def test_more_keys_than_a_share_of_what_is_covered(copy: Meddled, monkeypatch: pytest.MonkeyPatch) -> None:
    # R38
    monkeypatch.setattr(postgres_backlog, "KEYS_MAX", 30)
    monkeypatch.setattr(postgres_upstream, "KEYS_PER_QUERY", 50)
    monkeypatch.setattr(postgres_upstream, "KEYS_SHARE_MAX", 0.2)
    copy.catch_up()
    calls: list[Any] = []
    monkeypatch.setattr(Effects, "read_changes", noted(Effects.read_changes, calls))
    change_many(copy)
    copy.catch_up().assert_equal()
    assert not calls, "what is covered was read again"
    copy.sql("UPDATE T SET value = 0 WHERE id < 70")
    copy.catch_up().assert_equal()
    assert calls


def test_a_partition_with_more_rows_than_are_kept(parted: Meddled, monkeypatch: pytest.MonkeyPatch) -> None:
    # R23, R38
    monkeypatch.setattr(postgres_backlog, "KEYS_MAX", 30)
    monkeypatch.setattr(postgres_upstream, "KEYS_PER_QUERY", 50)
    monkeypatch.setattr(postgres_head, "LOG_ROWS_AT_A_TIME", 7)
    parted.catch_up()
    for statement in PARTITIONS["one with rows comes"]:
        parted.sql(statement)
    calls: list[Any] = []
    monkeypatch.setattr(Effects, "read_changes", noted(Effects.read_changes, calls))
    parted.catch_up().assert_equal()
    assert calls


def test_a_server_that_dies_is_waited_for(copy: Meddled, postgres: Postgres) -> None:
    # R24
    begin(copy, live=False)
    copy.sql("UPDATE T SET value = -1 WHERE id < 40")
    with pytest.raises(psycopg.OperationalError):
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IS NOT NULL")
    postgres.reconnect()
    copy.turn()
    assert copy.job.failure is None
    copy.catch_up().assert_equal()
    postgres.server.restart("immediate")
    postgres.reconnect()
    copy.sql("UPDATE T SET value = -2 WHERE id < 40")
    copy.catch_up().assert_equal()


VALUES_WITHOUT_A_WORD = {
    "an identity": ["ALTER TABLE T ADD COLUMN n int GENERATED ALWAYS AS IDENTITY"],
    "a default that is gone again": [
        "ALTER TABLE T ADD COLUMN tag text DEFAULT md5(random()::text)",
        "ALTER TABLE T ALTER COLUMN tag DROP DEFAULT",
    ],
    "the same type, other values": ["ALTER TABLE T ALTER COLUMN value TYPE int USING value * 100"],
    "a generated column": ["ALTER TABLE T ADD COLUMN twice int GENERATED ALWAYS AS (value * 2) STORED"],
}


@pytest.mark.parametrize("statements", VALUES_WITHOUT_A_WORD.values(), ids=VALUES_WITHOUT_A_WORD)
def test_values_that_the_log_does_not_tell(copy: Meddled, statements: list[str]) -> None:
    # R23
    copy.catch_up()
    for statement in statements:
        copy.sql(statement)
    copy.catch_up().assert_equal()


KEYS_UNTOLD = {
    "another identity for a while": [
        "ALTER TABLE T ALTER COLUMN value SET NOT NULL",
        "CREATE UNIQUE INDEX T_other ON T (value)",
        "ALTER TABLE T REPLICA IDENTITY USING INDEX T_other",
        "DELETE FROM T WHERE id = 5",
        "ALTER TABLE T REPLICA IDENTITY DEFAULT",
    ],
    "another key": ["ALTER TABLE T DROP CONSTRAINT T_pkey", "ALTER TABLE T ADD PRIMARY KEY (id, value)"],
    "a key that may wait": ["ALTER TABLE T DROP CONSTRAINT T_pkey", "ALTER TABLE T ADD PRIMARY KEY (id) DEFERRABLE"],
}


@pytest.mark.parametrize("statements", KEYS_UNTOLD.values(), ids=KEYS_UNTOLD)
def test_a_log_that_does_not_tell_the_key_is_a_stop(copy: Meddled, statements: list[str]) -> None:
    # R39
    copy.catch_up()
    for statement in statements:
        copy.sql(statement)
    copy.catch_up()
    assert copy.stop in ("HISTORY_GONE", "UPSTREAM_REPLACED", "UPSTREAM_UNFIT")


def test_keys_that_look_like_sql(postgres: Postgres) -> None:
    # R21
    made = Meddled(postgres)
    made.sql("CREATE TABLE T (id char(40) PRIMARY KEY, value int) PARTITION BY LIST (id)")
    made.sql("CREATE TABLE T_0 PARTITION OF T DEFAULT")
    made.sql("INSERT INTO T VALUES ('who WHERE why', 1), ('a', 2)")
    postgres.publish(made._name, made._name)
    try:
        made.catch_up()
        made.sql("UPDATE T SET value = 3 WHERE id = 'who WHERE why'")
        made.catch_up()
        made.sql("INSERT INTO T VALUES ('{\"\\, %s', 4)")
        made.sql("CREATE TABLE T_1 PARTITION OF T FOR VALUES IN ('ab')")
        made.sql("INSERT INTO T VALUES ('ab', 5)")
        made.catch_up()
        stripped = sorted((id_.rstrip(), value) for id_, value in made._postgres.execute(f"SELECT * FROM {made._name}"))
        assert made.job.failure is None, made.job.failure
        assert made.rows() == stripped
    finally:
        made.drop()
