"""The envelope in which Debezium tells of a changed row: `{"op": "u", "before": ..., "after": {...}}`, alone or as the
`payload` beside its `schema`. A row is what `after` says; `op` is c (created), u (updated), r (read by a snapshot) or d
(deleted).

What Debezium did not send (`__debezium_unavailable_value`: a large value that the update left alone) makes the message
a bad one: the row is not in it.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidefill.jobs.sql_names import HIDDEN, quoted
from tidefill.kafka.message_keys import PAYLOAD
from tidefill.kafka.messages import BAD, JSON_OPTIONS, PARSED, TEXT, Field, json_error

OP, AFTER = f"{HIDDEN}op", f"{HIDDEN}after"
UNAVAILABLE = "__debezium_unavailable_value"
_WHOLE = f"{HIDDEN}whole"


def parsed_event(rows: DataFrame, fields: list[Field]) -> DataFrame:
    """And what is parsed of the value: the columns as they are after the change, and `op`."""
    body = f"op: STRING, after: STRUCT<{_fields(fields)}>"
    told = _parsed(rows, "value", body)
    op, after = (f.expr(f"coalesce({_WHOLE}.{PAYLOAD}.{name}, {_WHOLE}.{name})") for name in ("op", "after"))
    return _unwrapped(told.withColumn(OP, op).withColumn(AFTER, after), fields, lambda name: f"{AFTER}.{name}")


def parsed_key(rows: DataFrame, fields: list[Field]) -> DataFrame:
    """And what is parsed of the key."""
    told = _parsed(rows, "key", _fields(fields))
    return _unwrapped(told, fields, lambda name: f"coalesce({_WHOLE}.{PAYLOAD}.{name}, {_WHOLE}.{name})")


def _fields(fields: list[Field]) -> str:
    return ", ".join(f"{quoted(each.name)}: {each.wire}" for each in fields)


def _parsed(rows: DataFrame, source: str, body: str) -> DataFrame:
    """As it is, and as the payload beside a schema."""
    schema = f"STRUCT<{PAYLOAD}: STRUCT<{body}>, {body}, {BAD}: STRING>"
    text = rows.withColumn(TEXT, f.col(source).cast("string"))
    return text.withColumn(_WHOLE, f.from_json(f.col(TEXT), schema, JSON_OPTIONS))


def _unwrapped(rows: DataFrame, fields: list[Field], of: Callable[[str], str]) -> DataFrame:
    """With the columns where those of a plain object would be."""
    inner = ", ".join(f"{of(quoted(each.name))} AS {quoted(each.name)}" for each in fields)
    return rows.withColumn(PARSED, f.expr(f"IF({_WHOLE} IS NULL, NULL, struct({inner}, {_WHOLE}.{BAD} AS {BAD}))"))


def event_error(fields: list[Field]) -> str:
    """SQL for what is wrong with a value that was parsed; NULL if nothing is."""
    wrong = json_error(fields)
    texts = [each.parsed for each in fields if each.wire.upper() == "STRING"]
    left_out = " OR ".join(f"coalesce({text} = '{UNAVAILABLE}', false)" for text in texts) or "false"
    return (
        f"CASE WHEN ({wrong}) IS NOT NULL THEN {wrong}"
        f" WHEN {OP} IS NULL THEN 'it is no event of Debezium: it has no op'"
        f" WHEN {OP} NOT IN ('c', 'u', 'r', 'd') THEN 'its op is no change of a row'"
        f" WHEN {OP} <> 'd' AND {AFTER} IS NULL THEN 'it does not say what the row is after the change'"
        f" WHEN {left_out} THEN 'Debezium left a value out ({UNAVAILABLE})' END"
    )
