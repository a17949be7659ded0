"""A real PostgreSQL, put before the conformance suite of upstreams."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession

from tidefill.core.keys import EPOCH, Timestamp, Value
from tidefill.local.postgres import LocalPostgres
from tidefill.postgres.reader import SparkReader
from tidefill.postgres.server import PostgresServer
from tidefill.postgres.survey import PgTable
from tidefill.postgres.upstream import PostgresUpstream, application
from tidefill.spark.coverage import collectable, key_of, key_types
from tidefill.spark.faults import translated
from tidefill.spark.weights import came, went
from tidefill.testing.conformance.upstream.harness import Can, KeyValues, Kind, Layout, Row, Write

TYPES = {
    Kind.INT: "bigint",
    Kind.DECIMAL: "numeric(30, 10)",
    Kind.TEXT: 'text COLLATE "C"',
    Kind.BYTES: "bytea",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamptz",
    Kind.BOOL: "boolean",
}
ROLE, PASSWORD = "tidefill", "tidefill's word"


@dataclass
class Postgres:
    """The server of the suite. `owner` is a session of somebody else, who may do everything."""

    server: LocalPostgres
    owner: psycopg.Connection[Any]

    def execute(self, sql: str, *words: Any) -> list[tuple[Any, ...]]:
        """As somebody else."""
        cursor = self.owner.execute(sql.encode(), words or None)
        return cursor.fetchall() if cursor.description else []

    def reconnect(self) -> None:
        """After the session of somebody else was cut."""
        self.owner.close()
        self.owner = psycopg.connect(self.server.url(), autocommit=True)

    @property
    def ours(self) -> PostgresServer:
        """The server, as the role of the guide reaches it."""
        return PostgresServer("shop", self.server.url(ROLE, PASSWORD))

    def set_up(self) -> None:
        """The only step of a superuser: a role that may log in, replicate and read."""
        self.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD '{PASSWORD.replace(chr(39), chr(39) * 2)}'")

    def publish(self, table: str, publication: str) -> None:
        """What the owner of a table does for us."""
        self.execute(f"GRANT SELECT ON {table} TO {ROLE}")
        self.execute(f"CREATE PUBLICATION {publication} FOR TABLE {table}")

    def drop(self, table: str, publication: str, slot: str) -> None:
        self.execute("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s", slot)
        self.execute(f"DROP PUBLICATION IF EXISTS {publication}")
        self.execute(f"DROP TABLE IF EXISTS {table}")


def to_postgres(value: Value) -> Any:
    """A value of `core.keys` as the driver takes it."""
    return EPOCH + timedelta(microseconds=value.micros) if isinstance(value, Timestamp) else value


class PostgresUpstreamHarness:
    """`PostgresUpstream` over a table that others write."""

    capabilities = frozenset({Can.TRUNCATE, Can.LOSE_HISTORY})

    def __init__(self, spark: SparkSession, postgres: Postgres) -> None:
        self._spark = spark
        self._postgres = postgres
        self._name = f"t_{uuid.uuid4().hex}"
        self._layout: Layout | None = None

    @property
    def _columns(self) -> list[str]:
        assert self._layout is not None
        return [name for name, _ in self._layout.columns]

    @property
    def _key(self) -> list[str]:
        assert self._layout is not None
        return [self._columns[place] for place in self._layout.key]

    def create(self, layout: Layout, rows: Sequence[Row]) -> None:
        """If it is there, only the table is made anew: slot and publication are others' to make."""
        made_before = self._layout is not None
        self._layout = layout
        self._postgres.execute(f"DROP TABLE IF EXISTS {self._name}")
        columns = ", ".join(f"{name} {TYPES[kind]}" for name, kind in layout.columns)
        self._postgres.execute(f"CREATE TABLE {self._name} ({columns}, PRIMARY KEY ({', '.join(self._key)}))")
        self.write([(None, row) for row in rows])
        if made_before:
            self._postgres.execute(f"GRANT SELECT ON {self._name} TO {ROLE}")
            self._postgres.execute(f"ALTER PUBLICATION {self._name} SET TABLE {self._name}")
        else:
            self._postgres.publish(self._name, self._name)

    def remove(self) -> None:
        self._postgres.drop(self._name, self._name, self._name)

    def upstream(self) -> PostgresUpstream[DataFrame]:
        assert self._layout is not None
        table = PgTable("public", self._name, self._name, self._name)
        walk = [self._columns[place] for place in self._layout.walk]
        reader = SparkReader(self._spark, self._postgres.ours, application(table))
        return PostgresUpstream(reader, self._postgres.ours, table, walk=walk, own_publication=False)

    def write(self, changes: Sequence[Write]) -> None:
        """Deletes first: keys may be exchanged."""
        assert self._layout is not None
        names, key = self._columns, self._key
        same = " AND ".join(f"{name} = %s" for name in key)
        inserted = ", ".join(["%s"] * len(names))
        with self._postgres.owner.transaction():
            for before, after in changes:
                if before is not None and after is not None and self._of(before) == self._of(after):
                    sets = ", ".join(f"{name} = %s" for name in names)
                    values = [to_postgres(value) for value in (*after, *self._of(before))]
                    self._postgres.execute(f"UPDATE {self._name} SET {sets} WHERE {same}", *values)
                elif before is not None:
                    self._postgres.execute(
                        f"DELETE FROM {self._name} WHERE {same}", *map(to_postgres, self._of(before))
                    )
            for before, after in changes:
                if after is not None and (before is None or self._of(before) != self._of(after)):
                    self._postgres.execute(f"INSERT INTO {self._name} VALUES ({inserted})", *map(to_postgres, after))

    def _of(self, row: Row) -> KeyValues:
        assert self._layout is not None
        return self._layout.key_of(row)

    def stir(self) -> None:
        """A commit on another table."""
        self._postgres.execute("CREATE TABLE IF NOT EXISTS stirred (n int)")
        self._postgres.execute("INSERT INTO stirred VALUES (1)")

    def collect(self, frame: DataFrame) -> list[Row]:
        return self._collected(frame, self._columns)

    def sides(self, changes: DataFrame) -> tuple[DataFrame, DataFrame]:
        return went(changes), came(changes)

    def collect_keys(self, frame: DataFrame) -> list[KeyValues]:
        return self._collected(frame, self._key)

    def _collected(self, frame: DataFrame, columns: Sequence[str]) -> list[Row]:
        types = key_types(frame.schema, columns)
        with translated():
            found = frame.select(*collectable(columns, types)).collect()
        return [key_of(tuple(row), types).values for row in found]

    def truncate(self) -> None:
        self._postgres.execute(f"TRUNCATE {self._name}")

    def lose_history(self) -> None:
        """Somebody moves the slot."""
        self._postgres.execute("SELECT pg_replication_slot_advance(%s, pg_current_wal_lsn())", self._name)
