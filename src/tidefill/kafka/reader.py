"""How messages become rows of a frame: Spark's own connector reads exact offsets, and values are decoded strictly."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tidefill.errors import BadMessage, TidefillError, UpstreamUnfit
from tidefill.jobs.definitions import TopicReplicaDefinition
from tidefill.jobs.sql_names import HIDDEN, quoted
from tidefill.kafka.messages import (
    ERROR,
    INCLUDED,
    JSON,
    JSON_OPTIONS,
    KEEP,
    PARSED,
    TEXT,
    VALUE,
    Field,
    fields_of,
    json_error,
    json_schema,
    output_columns,
)
from tidefill.kafka.seams import FEW_MESSAGES, Reader
from tidefill.kafka.server import KafkaServer
from tidefill.kafka.spans import Span, rounds
from tidefill.spark.faults import BAD_MESSAGE, translated
from tidefill.spark.jars import jars_of_kafka
from tidefill.spark.weights import weighted

TASK_MESSAGES_MAX = 500_000  # so that a partition with many more is read by several tasks
POLL_MS = 30_000  # for a message that should be there; the connector gives up then
SAMPLE_MESSAGES = 20


class SparkReader:
    """Reads one topic, by the definition of its replica. `group`: for the pool of consumers in Spark's executors, which
    tells readers apart by group and topic and not by server."""

    def __init__(
        self, spark: SparkSession, server: KafkaServer, definition: TopicReplicaDefinition, group: str
    ) -> None:
        self._spark = spark
        self._server = server
        self._definition = definition
        self._group = group

    def read(self, spans: Sequence[Span]) -> DataFrame:
        """Each message as a row."""
        with translated():
            messages = self.messages(spans)
            return self.nothing() if messages is None else decoded(messages, self._definition)

    def messages(self, spans: Sequence[Span]) -> DataFrame | None:
        """The messages as the connector gives them; None of no spans. One read takes one span of a partition."""
        frames = [self._read(part) for part in rounds(spans)]
        if not frames:
            return None
        found = reduce(DataFrame.unionAll, frames)
        return found.coalesce(1) if sum(span.length for span in spans) <= FEW_MESSAGES else found

    def came(self, spans: Sequence[Span]) -> DataFrame:
        """With a weight."""
        return weighted(self.read(spans), 1)

    def _read(self, spans: Sequence[Span]) -> DataFrame:
        """By `assign`: a subscription would fail when the topic gets a partition, or where not all are read."""
        topic = self._definition.topic
        options = {
            **self._server.spark_options(),
            "assign": json.dumps({topic: [span.partition for span in spans]}),
            "startingOffsets": json.dumps({topic: {str(span.partition): span.begin for span in spans}}),
            "endingOffsets": json.dumps({topic: {str(span.partition): span.end for span in spans}}),
            "kafka.isolation.level": "read_committed",
            "kafka.group.id": self._group,
            "failOnDataLoss": "true",
            "kafkaConsumer.pollTimeoutMs": str(POLL_MS),
            "maxRecordsPerPartition": str(TASK_MESSAGES_MAX),
            "includeHeaders": str("headers" in self._definition.include).lower(),
        }
        return self._spark.read.format("kafka").options(**options).load()

    def nothing(self) -> DataFrame:
        """No rows, but the columns."""
        columns = output_columns(self._definition)
        nulls = ", ".join(f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in columns)
        return self._spark.sql(f"SELECT {nulls}").where("false")


def decoded(messages: DataFrame, definition: TopicReplicaDefinition) -> DataFrame:
    """The rows of messages as Spark's connector gives them. A bad message raises when its offset is evaluated, so
    whoever reads the key of a row is told; or it is kept, as it is and with what is wrong with it."""
    more = [f.col(name).alias(INCLUDED[name][0]) for name in definition.include]
    place = [f.col("partition").alias("kafka_partition"), f.col("timestamp").alias("kafka_timestamp")]
    if definition.format != JSON:
        rows = messages.select(*place, f.col("offset").alias("kafka_offset"), *more, f.col("value").alias(VALUE[0]))
        return _in_order(rows, definition)
    fields = fields_of(definition)
    kept = ["partition", "offset", "timestamp", "value", *definition.include]
    parsed = parsed_json(messages.select(*kept), "value", fields)
    values = [f.expr(each.value).alias(f"{HIDDEN}{number}") for number, each in enumerate(fields)]
    checked = parsed.select(*kept, *values, f.expr(json_error(fields)).alias(ERROR[0]))
    named = [(f.col(f"{HIDDEN}{number}"), each.name) for number, each in enumerate(fields)]
    is_well = f.col(ERROR[0]).isNull()
    if definition.on_bad_message == KEEP:
        columns = [f.when(is_well, value).alias(name) for value, name in named]
        whole = f.when(~is_well, f.col("value")).alias(VALUE[0])
        rows = checked.select(*place, f.col("offset").alias("kafka_offset"), *more, *columns, whole, ERROR[0])
        return _in_order(rows, definition)
    offset = f.expr(unless_bad("offset", "BIGINT", ERROR[0])).alias("kafka_offset")
    rows = checked.select(*place, offset, *more, *(value.alias(name) for value, name in named))
    return _in_order(rows, definition)


def parsed_json(rows: DataFrame, source: str, fields: list[Field]) -> DataFrame:
    """And what is parsed of the text in that column."""
    text = rows.withColumn(TEXT, f.col(source).cast("string"))
    return text.withColumn(PARSED, f.from_json(f.col(TEXT), json_schema(fields), JSON_OPTIONS))


def unless_bad(value: str, kind: str, error: str) -> str:
    """SQL for the value, of that type, or for the end of the query if there is an error."""
    told = f"concat('[{BAD_MESSAGE}] partition ', partition, ', offset ', offset, ': ', {error})"
    return f"IF({error} IS NULL, {value}, CAST(raise_error({told}) AS {kind}))"


def _in_order(rows: DataFrame, definition: TopicReplicaDefinition) -> DataFrame:
    return rows.select(*(f.col(quoted(name)).cast(kind).alias(name) for name, kind in output_columns(definition)))


def sampled(reader: Reader[DataFrame], server: KafkaServer, span: Span) -> list[str]:
    """A few of the last messages of a span, decoded, as a person reads them. UpstreamUnfit if this Spark has no
    connector, or does not reach the cluster from where it runs; BadMessage if one of them cannot be read."""
    last = Span(span.partition, max(span.begin, span.end - SAMPLE_MESSAGES), span.end)
    try:
        with translated():
            return [str(row.asDict()) for row in reader.read([last]).limit(3).collect()]
    except BadMessage:
        raise
    except TidefillError as error:
        if "kafka" in error.detail.lower() and ("DATA_SOURCE_NOT_FOUND" in error.detail or "find" in error.detail):
            raise UpstreamUnfit(
                "Spark has no connector for Kafka",
                detail=error.detail,
                hint=f"Start it with spark.jars.packages = {jars_of_kafka().coordinates}",
            ) from error
        raise UpstreamUnfit(
            f"Spark does not read from the cluster of {server.name}",
            detail=error.detail,
            hint="Its executors read from the brokers: their addresses have to be good where the executors run.",
        ) from error
