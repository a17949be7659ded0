"""Defines and builds replicas of PostgreSQL tables: rows come from a server, and go to a Delta table."""

from __future__ import annotations

from pyspark.sql import DataFrame

from tidefill.delta.build import Builder
from tidefill.delta.explain_result import Explained
from tidefill.delta.inputs import Input, Size, Tables, frozen, row_wise
from tidefill.delta.refusals import refuse_columns, refuse_names
from tidefill.jobs.definitions import INPUT, ServerReplicaDefinition
from tidefill.jobs.row import Job
from tidefill.postgres.connections import Databases, Found, Source
from tidefill.run.backfill import Backfill
from tidefill.spark.session import Semantics


class Replicas:
    """Replicas of the tables that these connections reach."""

    def __init__(self, databases: Databases, tables: Tables, builder: Builder) -> None:
        self.databases = databases
        self._tables = tables
        self._builder = builder

    def explain(self, source: Source) -> Explained:
        """A copy of every column of a table in another database."""
        found = self.databases.find(source)
        self.databases.check_reader(self._tables.spark, source)
        schema = self._tables.empty(database_input(source, found), self._tables.spark).schema
        refuse_names(source.name, schema, 'Rename them on the server: ALTER TABLE ... RENAME COLUMN "a b" TO a_b.')
        refuse_columns(schema)
        semantics = frozen(Semantics.of(self._tables.spark))
        definition = ServerReplicaDefinition(
            source.name, found.key, found.walk_reason,
            source.connection, source.publication, source.slot, semantics,
        )  # fmt: skip
        inputs = (Size(source.name, found.rows),)
        return Explained(
            definition, True, found.rows, schema, found.notices, inputs=inputs, slots_left=found.slots_left
        )

    def build(self, job: Job, definition: ServerReplicaDefinition) -> Backfill[DataFrame]:
        """The machine of the generation of a replica of a table in another database."""
        session = self._tables.session_with(dict(definition.semantics))
        source = self.databases.source_of(definition)
        found = database_input(source, self.databases.find(source, made=True))
        derivation = row_wise(definition, self._tables.empty(found, session))
        schema = derivation.nothing().schema
        upstream = self.databases.upstream(session, job, definition)
        upstreams = {INPUT: upstream}
        target = self._builder.target(job, session, schema, definition.key)
        return self._builder.machine(target, upstreams, derivation, by_key=True)


def database_input(source: Source, found: Found) -> Input:
    """A table of another database, as what a job reads."""
    return Input(source.name, "", found.key, columns=found.columns)
