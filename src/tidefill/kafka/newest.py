"""The newest message of each key, as a row: what a replica reads where only that counts.

The key of every message is decoded; of the values only the newest ones are, so a message that cannot be read is no harm
once a newer one has its key.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import IntegerType, LongType

from tidefill.core.walk import Range
from tidefill.jobs.definitions import TopicReplicaDefinition
from tidefill.jobs.sql_names import HIDDEN, quoted
from tidefill.jobs.upsert import Upsert
from tidefill.kafka.envelope import OP, event_error, parsed_event, parsed_key
from tidefill.kafka.message_keys import TEXTS, differs, key_column, key_error, key_fields, parsed_text
from tidefill.kafka.messages import (
    DEBEZIUM,
    ERROR,
    INCLUDED,
    PARSED,
    TEXT,
    fields_of,
    json_error,
    output_columns,
)
from tidefill.kafka.reader import SparkReader, parsed_json, unless_bad
from tidefill.kafka.spans import Span
from tidefill.spark.coverage import within
from tidefill.spark.faults import KEY_NOT_UNIQUE, translated
from tidefill.spark.names import WEIGHT
from tidefill.spark.weights import weighted

HASH, NEWEST, GOES = f"{HIDDEN}hash", f"{HIDDEN}newest", f"{HIDDEN}goes"
FIRST, LAST = f"{HIDDEN}first", f"{HIDDEN}last"
KEYS_NAMED_MAX = 10
WALK = ("partition", HASH), (IntegerType(), LongType())


class NewestReader:
    """`reader`: of the messages."""

    def __init__(self, reader: SparkReader, definition: TopicReplicaDefinition, upsert: Upsert) -> None:
        self._reader = reader
        self._definition = definition
        self._format = upsert.key_format
        self._names = upsert.key
        self._fields = key_fields(upsert.key, definition.columns)
        self._key = [key_column(number) for number in range(len(upsert.key))]

    def read(self, spans: Sequence[Span]) -> DataFrame:
        """What the newest messages are, wherever their keys lie."""
        return self.newest(spans, [Range(None, None)])

    def newest(self, spans: Sequence[Span], ranges: Sequence[Range]) -> DataFrame:
        """Without tombstones."""
        with translated():
            found = self._newest(spans, ranges)
            return self._reader.nothing() if found is None else self._rows(found).where(~f.col(GOES)).drop(GOES)

    def net(self, spans: Sequence[Span], ranges: Sequence[Range]) -> DataFrame:
        """With weights."""
        with translated():
            found = self._newest(spans, ranges)
            if found is None:
                return weighted(self._reader.nothing(), 1)
            return self._rows(found).withColumn(WEIGHT, f.expr(f"IF({GOES}, -1, 1)")).drop(GOES)

    def keys(self, spans: Sequence[Span], ranges: Sequence[Range]) -> DataFrame:
        """Each once."""
        with translated():
            keyed = self._keyed(spans, ranges)
            if keyed is None:
                return weighted(self._reader.nothing().select(*map(quoted, self._names)), -1)
            named = zip(self._key, self._names, strict=True)
            return weighted(keyed.select(*(f.col(column).alias(name) for column, name in named)).distinct(), -1)

    def in_two_partitions(self, spans: Sequence[Span]) -> list[str]:
        """By all messages that are there."""
        if len({span.partition for span in spans}) < 2:
            return []
        with translated():
            keyed = self._keyed(spans, [Range(None, None)])
            assert keyed is not None, "there are spans"
            ends = [f.min("partition").alias(FIRST), f.max("partition").alias(LAST)]
            twice = keyed.groupBy(*self._key).agg(*ends).where(f.col(FIRST) < f.col(LAST))
            return [str(tuple(row)[: len(self._key)]) for row in twice.limit(KEYS_NAMED_MAX).collect()]

    def _keyed(self, spans: Sequence[Span], ranges: Sequence[Range]) -> DataFrame | None:
        """The messages with their keys, whose places lie in the ranges; None if there are no spans."""
        messages = self._reader.messages(spans)
        if messages is None:
            return None
        kept = ["partition", "offset", "timestamp", "key", "value", *self._headers]
        parsed = self._parsed(messages.select(*kept))
        error = parsed.withColumn(ERROR[0], f.expr(key_error(self._fields, self._format)))
        keys = [
            f.expr(unless_bad(each.value, each.becomes, ERROR[0])).alias(name)
            for name, each in zip(self._key, self._fields, strict=True)
        ]
        keyed = error.select(*kept, *keys)
        if any(part != Range(None, None) for part in ranges):
            keyed = keyed.withColumn(HASH, self._hash()).where(within(ranges, *WALK)).drop(HASH)
        return keyed

    @property
    def _is_event(self) -> bool:
        return self._definition.format == DEBEZIUM

    @property
    def _headers(self) -> list[str]:
        return [name for name in self._definition.include if name != "key"]

    def _parsed(self, messages: DataFrame) -> DataFrame:
        if self._format == TEXTS:
            text = messages.withColumn(TEXT, f.col("key").cast("string"))
            return text.withColumn(PARSED, f.expr(parsed_text(self._fields)))
        if self._is_event:
            return parsed_key(messages, self._fields)
        return parsed_json(messages, "key", self._fields)

    def _hash(self) -> Column:
        """Of what the key says, not of its bytes: two ways to write a key are one key."""
        texts = [f.coalesce(f.col(name).cast("string"), f.lit("")) for name in self._key]
        return f.crc32(f.concat_ws("\u0001", *texts).cast("binary"))

    def _newest(self, spans: Sequence[Span], ranges: Sequence[Range]) -> DataFrame | None:
        """One message for each key. None if there are no spans."""
        keyed = self._keyed(spans, ranges)
        if keyed is None:
            return None
        kept = ["partition", "offset", "timestamp", "key", "value", *self._headers]
        newest = f.max_by(f.struct(*kept), "offset").alias(NEWEST)
        ends = [f.min("partition").alias(FIRST), f.max("partition").alias(LAST)]
        found = keyed.groupBy(*self._key).agg(newest, *ends)
        told = f"concat('[{KEY_NOT_UNIQUE}] a key has messages in the partitions ', {FIRST}, ' and ', {LAST})"
        one = found.where(f.expr(f"IF({FIRST} = {LAST}, true, CAST(raise_error({told}) AS BOOLEAN))"))
        return one.select(*self._key, f"{NEWEST}.*")

    def _rows(self, newest: DataFrame) -> DataFrame:
        """The messages as rows, and whether they say that the row GOES: of such only place and key are known."""
        fields, definition = fields_of(self._definition), self._definition
        parsed = parsed_event(newest, fields) if self._is_event else parsed_json(newest, "value", fields)
        goes = f.expr(f"value IS NULL OR coalesce({OP} = 'd', false)" if self._is_event else "value IS NULL")
        unreadable = event_error(fields) if self._is_event else json_error(fields)
        wrong = (
            f"CASE WHEN value IS NULL THEN NULL WHEN ({unreadable}) IS NOT NULL THEN {unreadable}"
            f" WHEN {differs(self._fields)} THEN 'its key and its value name different rows' END"
        )
        values = [self._value(each.name, each.value).alias(f"{HIDDEN}{number}") for number, each in enumerate(fields)]
        place = ["partition", "offset", "timestamp"]
        included = [f.col(name).alias(INCLUDED[name][0]) for name in definition.include]
        checked = parsed.select(*place, *included, *values, goes.alias(GOES), f.expr(wrong).alias(ERROR[0]))
        named = {each.name: f.col(f"{HIDDEN}{number}") for number, each in enumerate(fields)}
        named |= {name: f.col(name) for name, _ in output_columns(definition) if name not in named}
        named |= {
            "kafka_partition": f.col("partition"),
            "kafka_offset": f.expr(unless_bad("offset", "BIGINT", ERROR[0])),
            "kafka_timestamp": f.col("timestamp"),
        }
        ordered = [named[name].cast(kind).alias(name) for name, kind in output_columns(definition)]
        return checked.select(*ordered, GOES)

    def _value(self, name: str, value: str) -> Column:
        """Of a column: what the key says, if it says it."""
        if name in self._names:
            return f.col(self._key[self._names.index(name)])
        return f.expr(value)
