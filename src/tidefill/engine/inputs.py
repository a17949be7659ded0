"""What a name means as the input of a job: a registered table, or what another job makes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, assert_never

from tidefill.errors import NotYet, UnknownTable, UnsupportedQuery
from tidefill.jobs.definitions import (
    FullViewDefinition,
    IndexDefinition,
    IndexesDefinition,
    LakeDefinition,
    OnServer,
    PlannedViewDefinition,
    ReplicaDefinition,
    RowViewDefinition,
    ServerReplicaDefinition,
    TableDefinition,
    TopicReplicaDefinition,
    UnreadableDefinition,
    table_from_text,
)
from tidefill.jobs.graph import Graph, newest_definition_of, published_definition_of
from tidefill.jobs.namespace import Registered
from tidefill.jobs.row import Job as Row
from tidefill.kafka.connections import Topics
from tidefill.postgres.connections import Databases
from tidefill.store.sql_store import SqlStore

if TYPE_CHECKING:
    from tidefill.delta.inputs import Input
    from tidefill.engine.lakes import Lake


class Inputs:
    """The inputs that a store has names for. `lake` starts Spark if it has to."""

    def __init__(self, store: SqlStore, databases: Databases, topics: Topics, lake: Callable[[], Lake]) -> None:
        self._store = store
        self._databases = databases
        self._topics = topics
        self._lake = lake

    def find(self, parts: tuple[str, ...]) -> Input:
        """The table or the job that has the name, as its user asked for it last. What the catalog has needs a key
        first."""
        from tidefill.delta.inputs import Input

        name = ".".join(parts)
        table = self._store.table(name) if len(parts) == 1 else None
        if table is not None:
            found = _readable(table)
            return Input(table.name, found.location, found.key, found.walk)
        row = self._store.find(name) if len(parts) == 1 else None
        if row is None and self._topics.is_topic(name):
            raise UnsupportedQuery(
                f"{name} is a topic, which is read once: it forgets what a view would read again",
                hint=f"CREATE REPLICA {parts[-1]} FROM {name} WITH (format = ...), and write the query over that.",
            )
        if row is None:
            raise UnknownTable(f"there is no table {name}", hint=how_to_register(name))
        definition = newest_definition_of(row)
        if isinstance(definition, OnServer):
            raise UnsupportedQuery(
                f"{name} is an index, which is read on its server",
                hint=f"Ask the server of {definition.connection}: SELECT ... FROM {name} WHERE ...",
            )
        if row.published is None or row.is_being_replaced:
            return self.future(row.name, definition)
        return self._made(row, row.published)

    def future(self, name: str, definition: LakeDefinition) -> Input:
        """What the job of that name will have made by the definition."""
        from tidefill.delta.inputs import Input

        return Input(name, "", definition.key, made_by=(definition, self._below(definition)))

    def _made(self, row: Row, published: int) -> Input:
        """What readers of the job see, by the definition by which it was made."""
        from tidefill.delta.inputs import Input

        path = self._lake().warehouse.path(row, published)
        match published_definition_of(row):
            case IndexDefinition() | IndexesDefinition():
                raise AssertionError(f"{row.name} is no table")
            case FullViewDefinition() as definition:  # to its readers it is like a table of somebody else
                return Input(row.name, path, definition.key, null_keys=True)
            case PlannedViewDefinition() as definition:
                return Input(row.name, path, definition.key, null_keys=True, derived=True)
            case (
                ReplicaDefinition() | ServerReplicaDefinition() | TopicReplicaDefinition() | RowViewDefinition()
            ) as definition:
                return Input(row.name, path, definition.key, derived=True)
            case never:
                assert_never(never)

    def _below(self, definition: LakeDefinition) -> Input | None:
        """What a job over one input reads; None for a job over several, whose definition has the types of its
        columns."""
        match definition:
            case ReplicaDefinition() | RowViewDefinition():
                return self.find((definition.input,))
            case ServerReplicaDefinition():
                from tidefill.postgres.replica import database_input

                source = self._databases.source_of(definition)
                return database_input(source, self._databases.find(source, made=True))
            case TopicReplicaDefinition():
                from tidefill.kafka.inputs import topic_input

                return topic_input(definition)
            case PlannedViewDefinition() | FullViewDefinition():
                return None
            case never:
                assert_never(never)

    def checked(self, parts: tuple[str, ...]) -> Input:
        """The input, if it can be read as it is: what was so when a table was registered may have changed."""
        found = self.find(parts)
        table = self._store.table(found.name)
        if table is not None:
            self._lake().tables.check_table(_readable(table))
        return found

    def keyed(self, parts: tuple[str, ...]) -> Input:
        """The same, if its changes can be followed."""
        found = self.checked(parts)
        if not found.key:
            raise UnsupportedQuery(
                f"{found.name} is computed anew as a whole: its rows have no key by which changes could be followed",
                detail="Its query does not tell which columns identify a row, or it was made by an earlier release.",
                hint="Create it anew with SELECT DISTINCT, or with a GROUP BY whose columns it shows; or create the "
                "view over it WITH (refresh = full) too.",
            )
        return found

    def notices(self, tables: Sequence[str]) -> list[str]:
        """What a person should know of a query that follows the changes of these inputs."""
        rows = [self._store.find(name) for name in tables] if len(tables) > 1 else []
        full = [row.name for row in rows if row and isinstance(newest_definition_of(row), FullViewDefinition)]
        told = "is computed at its own pace: it may show an earlier time than the other inputs"
        return [f"{name} {told}" for name in full]

    def live(self, name: str, *, begins: bool = False) -> Input:
        """The input, if it can be read now; else NotYet. `begins`: for a generation that begins now. Its definition may
        be over what a view will be that is being replaced, so it waits for that."""
        row = None if self._store.table(name) is not None else self._store.find(name)
        if row is not None and row.published is not None and row.is_being_replaced:
            if begins:
                raise NotYet(f"{row.name} is being replaced", hint="SHOW JOBS tells how far it is.")
            return self._made(row, row.published)
        found = self.find((name,))
        if found.made_by is not None:
            raise NotYet(f"{found.name} is not live yet", hint="SHOW JOBS tells how far it is.")
        return found

    def location(self, name: str, *, certain: bool) -> str:
        """Where the input lies; empty if it is no name of ours, or if it is not live and not `certain` to be meant."""
        if self._store.table(name) is None and self._store.find(name) is None:
            return ""
        try:
            return self.live(name).location
        except NotYet:
            if certain:
                raise
            return ""

    def refuse_mixtures(self, tables: Sequence[str], graph: Graph | None = None) -> None:
        """UnsupportedQuery if two replicas of one table of another database come together: they stand at two versions
        of it, and its versions have no numbers by which the replicas could go in step. `graph`: all jobs, if not as
        they are now."""
        seen: dict[str, str] = {}
        graph = graph or Graph(self._store.jobs())
        for table in tables:
            for source, replica in graph.replicas_below(table).items():
                if seen.setdefault(source, replica) != replica:
                    raise UnsupportedQuery(
                        f"{seen[source]} and {replica} are replicas of one table, and may stand at two versions of it",
                        hint=f"Write the query over {replica} alone.",
                    )

    def refuse_unknown_connection(self, source: str) -> None:
        """A name with a dot is neither a registered table nor a job, so a connection may have been meant."""
        connection, dot, _ = source.partition(".")
        if not dot or self._store.table(source) is not None or self._store.find(source) is not None:
            return
        known = ", ".join((*self._databases.names, *self._topics.names))
        raise UnknownTable(
            f"there is no connection {connection}, and no table {source}",
            detail=f"The connections are {known}." if known else "There are no connections.",
            hint=f'Write [connections.{connection}] with url = "env:VARIABLE" into tidefill.toml. A table of the '
            f"catalog is registered first: {how_to_register(source)}",
        )


def _readable(table: Registered) -> TableDefinition:
    """What was registered. Raises StoreUnreadable, which names the table, if this release cannot read it."""
    match table_from_text(table.definition):
        case UnreadableDefinition() as unreadable:
            raise unreadable.error(table.name)
        case definition:
            return definition


def how_to_register(name: str) -> str:
    """The statement, and the call, that give a table of the catalog a name here."""
    last = name.rpartition(".")[2]
    return f"REGISTER TABLE {last} AS {name} KEY (...); in Python: engine.register({last!r}, table={name!r}, key=[...])"
