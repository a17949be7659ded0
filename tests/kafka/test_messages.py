"""What a user may ask for: columns, formats, and settings of the clients."""

from __future__ import annotations

import pytest

from tidefill.errors import InvalidSetting
from tidefill.jobs.upsert import Upsert
from tidefill.kafka.connections import Topics, TopicWords, topic_words
from tidefill.kafka.messages import columns_of, field_of, output_columns
from tidefill.kafka.settings import check_settings, for_java, for_librdkafka
from tidefill.kafka.upstream import moment_ms

SERVERS = {"bootstrap.servers": "b1:9092,b2:9092"}
TOPICS = Topics(("events",), lambda _: SERVERS)


def test_columns_as_a_user_writes_them() -> None:
    text = (
        "id BIGINT, at TIMESTAMP  MILLIS, `the page` STRING, price DECIMAL(10, 2), tags ARRAY<STRUCT<a: INT, b: INT>>"
    )
    assert columns_of(text) == (
        ("id", "BIGINT"),
        ("at", "TIMESTAMP MILLIS"),
        ("the page", "STRING"),
        ("price", "DECIMAL(10, 2)"),
        ("tags", "ARRAY<STRUCT<a: INT, b: INT>>"),
    )
    assert columns_of("  ") == ()


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("id", "no name and type"),
        ("id BIGINT, ID STRING", "id twice"),
        ("kafka_offset BIGINT", "cannot have that name"),
        ("__tf_x BIGINT", "cannot have that name"),
        ("at TIMESTAMP DAYS", "no such unit"),
        ("at DATE MILLIS", "no such unit"),
        ("ats ARRAY<TIMESTAMP>", "a time inside of another type"),
    ],
)
def test_columns_that_mean_nothing(text: str, fact: str) -> None:
    with pytest.raises(InvalidSetting, match=fact):
        columns_of(text)


@pytest.mark.parametrize(
    ("kind", "wire", "becomes"),
    [
        ("BIGINT", "BIGINT", "bigint"),
        ("TIMESTAMP MICROS", "BIGINT", "timestamp"),
        ("timestamp", "STRING", "timestamp"),
        ("DATE", "STRING", "date"),
        ("DATE DAYS", "INT", "date"),
        ("DECIMAL(10, 2)", "STRING", "decimal(10, 2)"),
    ],
)
def test_types_that_spark_would_read_loosely_are_read_by_us(kind: str, wire: str, becomes: str) -> None:
    found = field_of("a", kind)
    assert (found.wire, found.becomes) == (wire, becomes)


def test_the_columns_of_a_replica() -> None:
    words = TopicWords("JSON", "id BIGINT, at TIMESTAMP MILLIS", "key", on_bad_message="keep")
    assert output_columns(TOPICS.define("events.a.b", words)) == (
        ("kafka_partition", "int"), ("kafka_offset", "bigint"), ("kafka_timestamp", "timestamp"),
        ("kafka_key", "binary"), ("id", "bigint"), ("at", "timestamp"),
        ("kafka_value", "binary"), ("kafka_error", "string"),
    )  # fmt: skip
    assert [name for name, _ in output_columns(TOPICS.define("events.t", TopicWords("raw")))][3:] == ["kafka_value"]


def test_a_topic_may_have_dots_in_its_name() -> None:
    assert TOPICS.define("events.shop.public.orders", TopicWords("raw")).topic == "shop.public.orders"
    assert TOPICS.is_topic("events.t")
    assert not TOPICS.is_topic("events")
    assert not TOPICS.is_topic("other.t")


@pytest.mark.parametrize(
    "words",
    [
        TopicWords(),
        TopicWords("avro"),
        TopicWords("json"),
        TopicWords("raw", "id BIGINT"),
        TopicWords("raw", include="topic"),
        TopicWords("raw", on_bad_message="keep"),
        TopicWords("json", "id BIGINT", on_bad_message="skip"),
        TopicWords("json", "id BIGINT", key="id"),
        TopicWords("debezium", "id BIGINT"),
        TopicWords("debezium", "id BIGINT", key="id", mode="append"),
        TopicWords("debezium", "payload BIGINT", key="payload"),
        TopicWords("json", "id BIGINT", mode="update"),
        TopicWords("json", "id BIGINT", mode="upsert"),
        TopicWords("json", "id BIGINT", mode="upsert", key="no"),
        TopicWords("json", "id BIGINT", mode="upsert", key="id, ID"),
        TopicWords("json", "id BIGINT, n INT", mode="upsert", key="id, n", key_format="text"),
        TopicWords("json", "id BIGINT", mode="upsert", key="id", key_format="avro"),
        TopicWords("json", "id BIGINT", mode="upsert", key="id", incomplete="yes"),
        TopicWords("json", "id BIGINT", mode="upsert", key="id", begin="latest"),
        TopicWords("json", "id BIGINT", mode="upsert", key="id", on_bad_message="keep"),
        TopicWords("json", "id ARRAY<INT>", mode="upsert", key="id"),
        TopicWords("raw", mode="upsert", key="kafka_key"),
    ],
)
def test_words_that_mean_nothing(words: TopicWords) -> None:
    with pytest.raises(InvalidSetting):
        TOPICS.define("events.t", words)


def test_the_newest_message_of_a_key() -> None:
    one = TOPICS.define("events.t", TopicWords("json", "Id BIGINT, n INT", mode="UPSERT", key="id"))
    assert (one.key, one.upsert) == (("Id",), Upsert(("Id",), "text"))
    event = TOPICS.define("events.t", TopicWords("debezium", "id BIGINT", key="id"))
    assert event.upsert == Upsert(("id",), "json")
    two = TopicWords("json", "id BIGINT, n INT", mode="upsert", key="n, `id`", incomplete="accepted")
    assert TOPICS.define("events.t", two).upsert == Upsert(("n", "id"), "json", True)


def test_words_are_told_from_settings() -> None:
    words, settings = topic_words({"format": "raw", "begin": "latest", "chunk_rows": 3})
    assert words == TopicWords("raw", begin="latest")
    assert settings == {"chunk_rows": 3}


def test_a_time_to_begin_at() -> None:
    assert moment_ms("1970-01-01 00:00:01") == 1000
    assert moment_ms("1970-01-01T01:00:01+01:00") == 1000
    with pytest.raises(InvalidSetting):
        moment_ms("yesterday")


def test_settings_are_translated_for_sparks_client() -> None:
    settings = {
        **SERVERS, "security.protocol": "sasl_ssl", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "me",
        "sasl.password": 'a"b\\c', "ssl.ca.location": "/ca.pem", "fetch.wait.max.ms": "5", "java.max.poll.records": "7",
        "ssl.endpoint.identification.algorithm": "none", "debug": "broker",
    }  # fmt: skip
    check_settings("events", settings)
    assert for_java(settings, lambda path: f"text of {path}") == {
        **SERVERS, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";',
        "ssl.truststore.certificates": "text of /ca.pem", "ssl.truststore.type": "PEM", "fetch.max.wait.ms": "5",
        "max.poll.records": "7", "ssl.endpoint.identification.algorithm": "",
    }  # fmt: skip
    assert "java.max.poll.records" not in for_librdkafka(settings)


@pytest.mark.parametrize(
    ("settings", "fact"),
    [
        ({}, "no bootstrap.servers"),
        ({**SERVERS, "group.id": "mine"}, "set by Tidefill"),
        ({**SERVERS, "java.isolation.level": "read_uncommitted"}, "set by Tidefill"),
        ({**SERVERS, "enable.sparse.connections": "true"}, "no known name"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], fact: str) -> None:
    with pytest.raises(InvalidSetting, match=fact):
        check_settings("events", settings)
