"""Rows that are brought to this process and given back are the same rows, whatever their types and the time zone."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tidefill.spark.local_rows import as_frame, brought, can_be_brought, values_of

ROWS = """
    SELECT * FROM VALUES
      (1Y, 2S, 3, 4L, 1.5F, double('NaN'), -0.05BD, 'a', X'00ff', true, DATE'2024-03-31',
       timestamp_micros(1711848600000001L), TIMESTAMP_NTZ'2024-03-31 02:30:00.000001'),
      (-128Y, -32768S, -2147483648, -9223372036854775808L, float('-Infinity'), -0.0D,
       99999999999999999999999999999999999.99BD, 'ü🌊 ${x}', X'', false, DATE'0001-01-01',
       timestamp_micros(-62135596800000000L), TIMESTAMP_NTZ'0001-01-01 00:00:00'),
      (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
      (0Y, 0S, 0, 0L, 0F, 0D, 0BD, '', X'20', true, DATE'+12024-01-01', timestamp_micros(317000000000000000L),
       timestampadd(YEAR, 10000, TIMESTAMP_NTZ'2024-01-01 00:00:00'))
    AS t (b, s, i, l, f, d, n, t, x, o, day, at, local)
"""
AS_TEXT = "SELECT to_json(struct(*)), hex(t), unix_micros(at), unix_date(day), d = 0D AND sign(1 / d) < 0 FROM {rows}"


@pytest.mark.parametrize(
    "zone",
    [
        pytest.param("UTC", marks=pytest.mark.full),
        "Europe/Berlin",
        pytest.param("America/St_Johns", marks=pytest.mark.full),
    ],
)
def test_every_value_comes_back(spark: SparkSession, zone: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", "false")
    rows = session.sql(ROWS)
    assert can_be_brought(rows.schema)
    local = brought(rows, 4)
    assert local is not None
    again = as_frame(session, local, rows.schema)
    assert again.schema == rows.schema
    told = [sorted(map(str, session.sql(AS_TEXT, rows=frame).collect())) for frame in (rows, again)]
    assert told[0] == told[1]
    assert len(set(values_of(local, ["day", "at", "local", "n", "x"]))) == 4


def test_too_many_rows_and_too_large_ones_stay_with_spark(spark: SparkSession) -> None:
    assert brought(spark.range(5), 4) is None
    assert brought(spark.range(4), 4) is not None
    assert brought(spark.sql("SELECT repeat('x', 2000000) AS t"), 4) is None


@pytest.mark.parametrize("column", ["array(1)", "struct(1)", "map(1, 2)", "'a' COLLATE UTF8_LCASE", "parse_json('1')"])
def test_other_types_stay_with_spark(spark: SparkSession, column: str) -> None:
    assert not can_be_brought(spark.sql(f"SELECT {column} AS c").schema)
