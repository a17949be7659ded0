"""Defines and builds replicas of topics: messages come from a cluster, and go to a Delta table, each as a row."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame

from tidefill.core.look import PARALLELISM_MAX
from tidefill.core.walk import Range
from tidefill.delta.build import Builder
from tidefill.delta.explain_result import Explained
from tidefill.delta.inputs import Size, Tables, frozen, row_wise
from tidefill.delta.refusals import as_input, refuse_columns, refuse_names
from tidefill.errors import InvalidSetting
from tidefill.jobs.definitions import INPUT, TopicReplicaDefinition
from tidefill.jobs.row import Job
from tidefill.kafka.connections import FoundTopic, Topics
from tidefill.kafka.inputs import topic_input
from tidefill.kafka.messages import COLUMNS_HINT
from tidefill.kafka.newest import NewestReader
from tidefill.kafka.preflight import notices_of
from tidefill.kafka.reader import SparkReader, sampled
from tidefill.kafka.seams import Reader
from tidefill.kafka.spans import Span, spans_in
from tidefill.run.backfill import Backfill
from tidefill.spark.coverage import key_types
from tidefill.spark.session import Semantics

OF_MESSAGE = ("kafka_partition", "kafka_offset")
"""The columns that tell which message a row is. A key has one partition."""


class TopicReplicas:
    """Replicas of the topics that these connections reach."""

    def __init__(self, topics: Topics, tables: Tables, builder: Builder) -> None:
        self.topics = topics
        self._tables = tables
        self._builder = builder

    def explain(self, wanted: TopicReplicaDefinition) -> Explained:
        """A row for each message, decoded like this. A few of the last messages are read, to see whether that works."""
        found = self.topics.find(wanted)
        spark = self._tables.spark
        definition = replace(wanted, semantics=frozen(Semantics.of(spark)))
        with as_input("Spark does not know a type of the columns", InvalidSetting):
            schema = self._tables.empty(topic_input(definition), spark).schema
        refuse_names(definition.input, schema, COLUMNS_HINT)
        refuse_columns(schema)
        if definition.upsert is not None:
            key_types(schema, definition.key)
        spans = spans_in(Range(None, None), found.look.stable, found.look.earliest.by_partition)
        server = self.topics.server(definition.connection)
        longest = max(spans, key=lambda span: span.length, default=Span(0, *[found.look.stable.at(0)] * 2))
        sample = sampled(self._reader(definition), server, longest)
        rows = sum(span.length for span in spans)
        told = notices_of(found.look, found.set_up, upsert=definition.upsert is not None)
        notices = (*told, *(f"a message as a row: {row}" for row in sample))
        size = Size(definition.input, rows)
        return Explained(definition, True, rows, schema, notices, inputs=(size,), parallelism=_at_a_time(found))

    def _reader(self, definition: TopicReplicaDefinition) -> Reader[DataFrame]:
        """To look at messages, not for a job."""
        server = self.topics.server(definition.connection)
        reader = SparkReader(self._tables.spark, server, definition, "tidefill-sample")
        return reader if definition.upsert is None else NewestReader(reader, definition, definition.upsert)

    def build(self, job: Job, definition: TopicReplicaDefinition) -> Backfill[DataFrame]:
        """The machine of the generation of a replica of a topic."""
        session = self._tables.session_with(dict(definition.semantics))
        derivation = row_wise(definition, self._tables.empty(topic_input(definition), session))
        upstream = self.topics.upstream(session, job, definition)
        schema, upsert = derivation.nothing().schema, definition.upsert is not None
        target = self._builder.target(
            job, session, schema, definition.key,
            place=OF_MESSAGE if upsert else (), fixed=OF_MESSAGE[:1] if upsert else (),
        )  # fmt: skip
        return self._builder.machine(target, {INPUT: upstream}, derivation, by_key=not upsert)


def _at_a_time(found: FoundTopic) -> int:
    """All partitions are filled at a time: the oldest messages, which expire first, come first."""
    return max(1, min(PARALLELISM_MAX, len(found.look.partitions)))
