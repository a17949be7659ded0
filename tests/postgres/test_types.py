"""Values of every type arrive as what the documents say, equal to what they were."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.postgres.harness import Postgres
from tests.postgres.test_replica import Shop
from tests.postgres.test_replica import shop as shop
from tidefill.errors import JobFailed
from tidefill.postgres.survey import PgTable
from tidefill.postgres.types import is_sent_as_logged, mapped

DOCUMENT = Path(__file__).parents[2] / "docs" / "postgres-types.md"
LINE = re.compile(r"^\| `([^`]+)` \| ([A-Z_]+(?:\(\d+, \d+\))?) \|", re.MULTILINE)
INF = float("inf")


def test_the_document_says_what_they_become(postgres: Postgres) -> None:
    lines = LINE.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert len(lines) > 35
    columns = ", ".join(f"c{number} {name}" for number, (name, _) in enumerate(lines))
    postgres.execute(f"CREATE TABLE documented (id int PRIMARY KEY, {columns})")
    try:
        seen = PgTable("public", "documented", "", "").survey(postgres.owner)
        found = [(name, mapped(seen.column(f"c{number}"))) for number, (name, _) in enumerate(lines)]
        assert [(name, how.becomes) for name, how in found] == lines
        assert [how.notice for _, how in found if how.notice] == []
    finally:
        postgres.execute("DROP TABLE documented")


# Each column: its type, what is written, and what has to be read. The first row is all NULL.
VALUES: dict[str, list[tuple[str, Any]]] = {
    "boolean": [("true", True), ("false", False)],
    "smallint": [("-32768", -32768), ("32767", 32767)],
    "integer": [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)],
    "bigint": [("'-9223372036854775808'", -(2**63)), ("9223372036854775807", 2**63 - 1)],
    "oid": [("4294967295", 2**32 - 1), ("0", 0)],
    "real": [("'Infinity'", INF), ("'1.5'", 1.5)],
    "double precision": [("'-Infinity'", -INF), ("'1.7976931348623157e308'", 1.7976931348623157e308)],
    "numeric(10, 2)": [("-99999999.99", Decimal("-99999999.99")), ("0.10", Decimal("0.10"))],
    "numeric(38, 0)": [("9" * 38, Decimal("9" * 38)), ("-1", Decimal(-1))],
    "numeric": [("'NaN'", "NaN"), ("1e-20", "0.00000000000000000001")],
    "numeric(50, 2)": [("1", "1.00"), ("'NaN'", "NaN")],
    "money": [("'-92233720368547758.08'", "-92233720368547758.08"), ("1", "1.00")],
    "text": [("''", ""), ("E'\\\\ '' \" \\n 🌊'", "\\ ' \" \n 🌊")],
    "varchar(20)": [("'a '", "a "), ("''", "")],
    "char(5)": [("'a'", "a"), ("''", "")],
    "bytea": [("''", b""), ("'\\x00ff'", b"\x00\xff")],
    "date": [("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31))],
    "timestamp": [("'1582-10-10 00:00:00.000001'", "1582-10-10 00:00:00.000001"), ("'9999-12-31 23:59:59.999999'",
                  "9999-12-31 23:59:59.999999")],
    "timestamptz": [("'1900-01-01 00:00:00.5+02'", "1899-12-31 22:00:00.5"), ("'2024-03-31 01:30:00+00'",
                    "2024-03-31 01:30:00")],
    "time": [("'24:00:00'", "24:00:00"), ("'00:00:00.000001'", "00:00:00.000001")],
    "timetz": [("'12:00:00+05:30'", "12:00:00+05:30"), ("'00:00:00-12'", "00:00:00-12")],
    "interval": [("'1 mon -2 days 00:00:03.5'", "P1M-2DT3.5S"), ("'0'", "PT0S")],
    "uuid": [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"), ("NULL", None)],
    "json": [("'{\"a\":  1}'", '{"a":  1}'), ("'null'", "null")],
    "jsonb": [("'{\"b\":1,\"a\":[1.50]}'", '{"a": [1.50], "b": 1}'), ("'\"\"'", '""')],
    "bit(4)": [("B'1010'", "1010"), ("B'0000'", "0000")],
    "varbit": [("B''", ""), ("B'1'", "1")],
    "inet": [("'::1/64'", "::1/64"), ("'10.0.0.1'", "10.0.0.1/32")],
    "cidr": [("'10.0.0.0/8'", "10.0.0.0/8"), ("NULL", None)],
    "tsvector": [("'b a:1'", "'a':1 'b'"), ("''", "")],
    "point": [("'(1,-0.5)'", "(1,-0.5)"), ("NULL", None)],
    "int4range": [("'[1,5)'", "[1,5)"), ("'empty'", "empty")],
    "int4multirange": [("'{[1,5),[7,9)}'", "{[1,5),[7,9)}"), ("'{}'", "{}")],
    "integer[]": [("'{{1,2},{3,NULL}}'", "[[1,2],[3,null]]"), ("'{}'", "[]")],
    "text[]": [("'{\"a,b\",NULL}'", '["a,b",null]'), ("'{\"\"}'", '[""]')],
    "mood": [("'happy'", "happy"), ("'sad'", "sad")],
    "pair": [("'(1,\"a b\")'", '(1,"a b")'), ("'(,)'", "(,)")],
    "positive": [("7", 7), ("1", 1)],
}  # fmt: skip


@pytest.fixture
def types(postgres: Postgres) -> Any:
    postgres.execute("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    postgres.execute("CREATE TYPE pair AS (n int, t text)")
    postgres.execute("CREATE DOMAIN positive AS int CHECK (VALUE > 0)")
    yield
    postgres.execute("DROP DOMAIN positive CASCADE; DROP TYPE pair CASCADE; DROP TYPE mood CASCADE")


def test_a_key_of_the_log_names_one_row(postgres: Postgres) -> None:
    """Not where two texts are equal: there the rows tell the keys. (The server of the tests has no such collation.)"""
    postgres.execute('CREATE TABLE keyed (a text, b varchar(9) COLLATE "C", c uuid, d int, e date, f int[], g bpchar)')
    try:
        columns = PgTable("public", "keyed", "", "").survey(postgres.owner).columns
        assert [column.name for column in columns if is_sent_as_logged(column)] == ["a", "b", "c", "d"]
        assert all(column.deterministic for column in columns)
        assert not is_sent_as_logged(replace(columns[0], deterministic=False))
    finally:
        postgres.execute("DROP TABLE keyed")


def test_every_value_arrives_as_it_was(shop: Shop, types: None) -> None:
    # R21, R23
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(VALUES))
    shop.postgres.execute(f"CREATE TABLE {shop.orders} (id int PRIMARY KEY, {columns})")
    shop.postgres.execute(f"INSERT INTO {shop.orders} (id) VALUES (0)")
    shop.postgres.publish(shop.orders, shop.orders)
    for row in (0, 1):
        values = ", ".join(written[row][0] for written in VALUES.values())
        shop.postgres.execute(f"INSERT INTO {shop.orders} VALUES ({row + 1}, {values})")
    shop.engine.create_replica("copy", shop.source, publication=shop.orders).wait(120)
    as_read = [name if not is_moment(kind) else f"string({name}) AS {name}" for name, kind in named()]
    read = shop.engine.table("copy").selectExpr("id", *as_read).orderBy("id").collect()
    assert [len(read), set(read[0])] == [3, {0, None}]
    for number, (kind, values_) in enumerate(VALUES.items()):
        found = [read[1][f"c{number}"], read[2][f"c{number}"]]
        assert found == [wanted for _, wanted in values_], kind
    shop.postgres.execute(f"UPDATE {shop.orders} SET c6 = 'NaN', c7 = 1 WHERE id = 2")
    shop.engine.run_once()
    assert str(shop.engine.table("copy").where("id = 2").collect()[0]["c6"]) == "nan"


def named() -> list[tuple[str, str]]:
    return [(f"c{number}", kind) for number, kind in enumerate(VALUES)]


def is_moment(kind: str) -> bool:
    return kind.startswith("timestamp")


@pytest.mark.parametrize(("kind", "value"), [("date", "'infinity'"), ("numeric(10, 2)", "'NaN'")])
def test_a_value_that_does_not_fit_is_a_stop(shop: Shop, kind: str, value: str) -> None:
    # R21
    shop.postgres.execute(f"CREATE TABLE {shop.orders} (id int PRIMARY KEY, c {kind})")
    shop.postgres.execute(f"INSERT INTO {shop.orders} VALUES (1, {value})")
    shop.postgres.publish(shop.orders, shop.orders)
    job = shop.engine.create_replica("copy", shop.source, publication=shop.orders)
    with pytest.raises(JobFailed):
        job.wait(60)


def test_an_unknown_type_becomes_text_with_a_notice(shop: Shop) -> None:
    # R21
    shop.postgres.execute("CREATE TYPE shape")
    shop.postgres.execute("CREATE FUNCTION shape_in(cstring) RETURNS shape AS 'textin' LANGUAGE internal STRICT")
    shop.postgres.execute("CREATE FUNCTION shape_out(shape) RETURNS cstring AS 'textout' LANGUAGE internal STRICT")
    shop.postgres.execute("CREATE TYPE shape (INPUT = shape_in, OUTPUT = shape_out)")
    try:
        shop.postgres.execute(f"CREATE TABLE {shop.orders} (id int PRIMARY KEY, c shape)")
        shop.postgres.publish(shop.orders, shop.orders)
        explained = shop.engine.explain_replica(shop.source, publication=shop.orders)
        assert explained.notices == ("column c of type public.shape becomes text",)
    finally:
        shop.postgres.execute("DROP TYPE shape CASCADE")
