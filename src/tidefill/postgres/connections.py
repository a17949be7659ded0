"""Tables of other databases, which replicas are made of: by connection, schema and name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidefill.core.budget import Kept
from tidefill.errors import BadInput, NotOurs, RetryLater, TidefillError, Unavailable
from tidefill.extras import with_extra
from tidefill.jobs.definitions import ServerReplicaDefinition
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidefill.core.version import Snapshot
    from tidefill.postgres.server import PostgresServer
    from tidefill.postgres.survey import PgTable
    from tidefill.postgres.upstream import PostgresUpstream

NAME_CHARACTERS_MAX = 63
DEFAULT_SCHEMA = "public"
PREFIX = "tidefill"


@dataclass(frozen=True, slots=True)
class Source:
    """A table, and the publication and the slot that somebody made for us, if they did."""

    connection: str
    schema: str
    table: str
    publication: str = ""
    slot: str = ""

    @property
    def name(self) -> str:
        """As a user writes it."""
        return f"{self.connection}.{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a table looks like: its columns with the types that they become, its key, about how many rows, and why it is
    walked as it is. `slots_left`: how many replication slots the server has left, if one of them will be taken."""

    columns: tuple[tuple[str, str], ...]
    key: tuple[str, ...]
    rows: int
    walk_reason: str
    notices: tuple[str, ...]
    slots_left: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A server's release, the slots on it that this store has made, and how many more it has room for."""

    release: str
    slots: tuple[str, ...]
    slots_left: int


class Databases:
    """The connections of a project. `names`: theirs; `url_of` gives what is secret, when it is needed. What `store_id`
    gives goes into the names of what is made on a server, so that two stores never meet there."""

    def __init__(self, names: Sequence[str], url_of: Callable[[str], str], store_id: Callable[[], str]) -> None:
        self._names = tuple(names)
        self._url_of = url_of
        self._store_id = store_id

    def source(self, text: str, publication: str = "", slot: str = "") -> Source | None:
        """`connection.schema.table` or `connection.table`; None if it does not begin with a connection."""
        connection, _, rest = text.partition(".")
        if connection not in self._names or not rest:
            return None
        schema, _, table = rest.partition(".")
        return Source(connection, schema if table else DEFAULT_SCHEMA, table or schema, publication, slot)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the connections."""
        return self._names

    def find(self, source: Source, *, made: bool = False) -> Found:
        """Look at the table. Refused with the statement that mends it, if it cannot be followed. `made`: the replica is
        there already, so no slot has to be free for it."""
        with with_extra("postgres"):
            from tidefill.postgres.preflight import preflight
            from tidefill.postgres.types import is_text, mapped
        table = self._table(source, "")
        server, given = self._server(source.connection), (source.publication != "", source.slot != "")
        seen, slots_left = preflight(server, table, *given, made=made)
        columns = tuple((column.name, mapped(column).becomes) for column in seen.columns)
        key = [seen.column(name) for name in seen.key]
        loose = [column.name for column in key if is_text(column) and not column.bytewise]
        reason, notices = "the primary key", seen.notices()
        if slots_left == 1:
            notices += ("it takes the last replication slot of the server: see max_replication_slots",)
        if loose:
            notices += (
                f"chunk_rows has no effect: the key column {loose[0]} has a collation, so one chunk fills all rows; "
                'a key column with COLLATE "C" would be filled by several',
            )
            reason = f"the primary key, in one chunk: an index orders {loose[0]} by a collation, not by bytes"
        return Found(columns, seen.key, seen.rows, reason, notices, slots_left)

    def check_reader(self, session: SparkSession, source: Source) -> None:
        """UpstreamUnfit if this Spark cannot read from there."""
        with with_extra("postgres"):
            from tidefill.postgres.reader import check_reader
        check_reader(session, self._server(source.connection))

    def upstream(
        self, session: SparkSession, job: Job, definition: ServerReplicaDefinition
    ) -> PostgresUpstream[DataFrame]:
        """What the job's generation reads."""
        with with_extra("postgres"):
            from tidefill.postgres.reader import SparkReader
            from tidefill.postgres.upstream import PostgresUpstream, application
        source = self.source_of(definition)
        table = self._table(source, f"{PREFIX}_{self.mark}_{job.id}_{job.generation}")
        server = self._server(source.connection)
        return PostgresUpstream(
            SparkReader(session, server, application(table)), server, table,
            own_slot=not source.slot, own_publication=not source.publication,
        )  # fmt: skip

    def source_of(self, definition: ServerReplicaDefinition) -> Source:
        """The table that a replica is of."""
        found = self.source(definition.input, definition.publication, definition.slot)
        if found is None:
            raise BadInput(
                f"there is no connection {definition.connection} any more",
                hint=f"Write a table [connections.{definition.connection}] into tidefill.toml.",
            )
        return found

    def head(self, definition: ServerReplicaDefinition) -> Snapshot:
        """What the server shows now."""
        with with_extra("postgres"):
            from tidefill.postgres.head import newest_snapshot
        return newest_snapshot(self._server(definition.connection))

    def remove(self, resource: Resource, job_id: str) -> None:
        """Remove a slot or a publication that this job made, if it is there. Unavailable while that cannot be done: it
        stays listed. NotOurs if its name is not one that a job gives: then it is left."""
        kind, (connection, _, name) = resource.kind, resource.name.partition("/")
        if not re.fullmatch(rf"{PREFIX}_\w+_{re.escape(job_id)}_[1-9][0-9]*", name):
            fact = f"the {kind} {name} of {connection} is not removed"
            raise NotOurs(fact, detail=f"Its name does not end in _{job_id}_<generation>.")
        try:
            with with_extra("postgres"):
                from tidefill.postgres.slot import remove_publication, remove_slot
            remove = {"slot": remove_slot, "publication": remove_publication}[kind]
            remove(self._server(connection), name)
        except RetryLater:
            raise
        except TidefillError as error:
            raise Unavailable(f"the {kind} {name} cannot be removed", detail=str(error)) from error

    def kept(self, resource: Resource) -> Kept | None:
        """What a slot keeps, if it is there; a publication goes with it, and keeps nothing itself."""
        kind, (connection, _, name) = resource.kind, resource.name.partition("/")
        if kind != "slot":
            return Kept() if kind == "publication" else None
        with with_extra("postgres"):
            from tidefill.postgres.slot import kept_by_slot
        return kept_by_slot(self._server(connection), name)

    def answer(self, connection: str) -> Answer:
        """What the server of a connection says of itself."""
        with with_extra("postgres"):
            from tidefill.postgres.preflight import introduce
        release, slots, left = introduce(self._server(connection), f"{PREFIX}_{self.mark}_")
        return Answer(release, tuple(slots), left)

    def server(self, connection: str) -> PostgresServer:
        """The server of a connection. Raises BadInput if there is no such connection any more."""
        if connection not in self._names:
            raise BadInput(
                f"there is no connection {connection} any more",
                hint=f"Write a table [connections.{connection}] into tidefill.toml.",
            )
        return self._server(connection)

    @property
    def mark(self) -> str:
        """What is in the names of all that this store makes on a server."""
        return self._store_id()[:8]

    def _server(self, connection: str) -> PostgresServer:
        from tidefill.postgres.server import PostgresServer

        return PostgresServer(connection, self._url_of(connection))

    def _table(self, source: Source, ours: str) -> PgTable:
        from tidefill.postgres.survey import PgTable

        assert len(ours) <= NAME_CHARACTERS_MAX, ours
        return PgTable(source.schema, source.table, source.publication or ours, source.slot or ours)
