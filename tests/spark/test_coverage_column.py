"""The coverage rule exists twice, for one key and as a Column: here the two are held against each other."""

import itertools
import random
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as t

from tidefill.core import walk
from tidefill.core.keys import EPOCH, TOP, Key, Timestamp, Value
from tidefill.core.walk import DONE, NOT_STARTED, Coverage, Range, Split, Upto
from tidefill.errors import UnsupportedKey
from tidefill.spark.coverage import collectable, covers, key_of, key_types, literal, within
from tidefill.spark.session import job_session

KEYS, COVERAGES, BOUNDS_MAX = 200, 40, 5

MOMENTS = [
    Timestamp.of(moment)
    for moment in (
        datetime(1, 1, 1),
        datetime(1582, 10, 10),  # a day that one of Java's calendars does not have
        datetime(1883, 11, 18, 12, 3, 58),  # local mean time ends in New York
        datetime(1969, 12, 31, 23, 59, 59, 999_999),
        datetime(1970, 1, 1),
        datetime(1970, 1, 1, microsecond=1),
        datetime(2024, 3, 10, 2, 30),  # an hour that New York skipped
        datetime(2024, 11, 3, 5, 30),  # and the two that it called the same
        datetime(2024, 11, 3, 6, 30),
        datetime(9999, 12, 31, 23, 59, 59, 999_999),
    )
]
DAYS = [date(1, 1, 1), date(1582, 10, 10), date(1969, 12, 31), date(1970, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]
TEXTS = [
    "",
    " ",
    "'",
    '"',
    "\\",
    "\\n",
    "\n",
    "%_",
    "${x}",
    "Z",
    "a",
    "a\x00",
    "ab",
    "b",
    "ä",
    "a\u0308",
    "\uff5e",
    "🌊",
]
POOLS: dict[str, tuple[t.DataType, Sequence[Value]]] = {
    "byte": (t.ByteType(), [-128, -1, 0, 1, 127]),
    "short": (t.ShortType(), [-(2**15), -1, 0, 1, 2**15 - 1]),
    "int": (t.IntegerType(), [-(2**31), *range(-3, 9), 2**31 - 1]),
    "long": (t.LongType(), [-(2**63), -(2**31) - 1, -1, 0, 1, 2**53 + 1, 2**63 - 1]),
    "decimal": (
        t.DecimalType(10, 2),
        [Decimal(n) / 100 for n in (-(10**10) + 1, -110, -1, 0, 5, 110, 111, 10**10 - 1)],
    ),
    "widest": (t.DecimalType(38, 0), [Decimal(n) for n in (-(10**38) + 1, -1, 0, 1, 10**37, 10**38 - 1)]),
    "finest": (t.DecimalType(38, 38), [Decimal(n).scaleb(-38) for n in (-(10**37), -1, 0, 1, 10**37)]),
    "text": (t.StringType(), TEXTS),
    "bytes": (t.BinaryType(), [b"", b"\x00", b"\x00\x00", b"'", b"a", b"\x7f", b"\x80", b"\xff"]),
    "date": (t.DateType(), DAYS),
    "moment": (t.TimestampType(), MOMENTS),
    "wall": (t.TimestampNTZType(), MOMENTS),
    "bool": (t.BooleanType(), [False, True]),
}
WALKS = [
    *((name,) for name in POOLS),
    ("date", "text"),
    ("bool", "long"),
    ("moment", "int", "bytes"),
    ("wall", "decimal"),
    ("text", "bool", "widest"),
]


@pytest.mark.parametrize("names", WALKS, ids="-".join)
def test_the_column_says_what_the_rule_says(spark: SparkSession, names: tuple[str, ...]) -> None:
    agree(spark, names)


@pytest.mark.parametrize("names", [("moment",), ("wall",), ("wall", "moment", "decimal")], ids="-".join)
def test_whatever_the_settings_of_the_session(spark: SparkSession, names: tuple[str, ...]) -> None:
    session = job_session(spark)
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    agree(session, names)


def agree(spark: SparkSession, names: tuple[str, ...]) -> None:
    """Many keys against many coverages in one query."""
    chance = random.Random("-".join(names))
    keys = [a_key(chance, names) for _ in range(KEYS)]
    coverages = [a_coverage(chance, names) for _ in range(COVERAGES)]
    frame = frame_of(spark, names, keys)
    types = key_types(frame.schema, frame.columns)
    verdicts = [covers(coverage, frame.columns, types).alias(f"v{i}") for i, coverage in enumerate(coverages)]
    found = frame.select(*collectable(frame.columns, types), *verdicts).collect()
    assert [key_of(row[: len(names)], types) for row in found] == keys
    for key, row in zip(keys, found, strict=True):
        assert list(row[len(names) :]) == [walk.covers(coverage, key) for coverage in coverages], key


def a_key(chance: random.Random, names: tuple[str, ...]) -> Key:
    return Key(tuple(None if chance.random() < 0.15 else chance.choice(POOLS[name][1]) for name in names))


def a_bound(chance: random.Random, names: tuple[str, ...]) -> Key:
    """A key, or one that breaks off: before everything that goes on like it, or with TOP behind all of that."""
    key = a_key(chance, names)
    if chance.random() < 0.6:
        return key
    kept = key.values[: chance.randint(0, len(names))]
    return Key((*kept, TOP)) if chance.random() < 0.7 or not kept else Key(kept)


def a_coverage(chance: random.Random, names: tuple[str, ...]) -> Coverage:
    bounds = sorted({a_bound(chance, names) for _ in range(chance.randint(0, BOUNDS_MAX))})
    inside = [a_bound(chance, names) for _ in range(20)]
    coverage = tuple(
        Split(after, upto, a_position(chance, [key for key in inside if lies_between(after, key, upto)]))
        for after, upto in itertools.pairwise([None, *bounds, None])
    )
    assert walk.flaw(coverage) is None
    return coverage


def a_position(chance: random.Random, inside: list[Key]) -> walk.Position:
    positions: list[walk.Position] = [NOT_STARTED, DONE, *(Upto(key) for key in inside[:2])]
    return chance.choice(positions)


def lies_between(after: Key | None, key: Key, upto: Key | None) -> bool:
    return (after is None or after < key) and (upto is None or key < upto)


def frame_of(spark: SparkSession, names: tuple[str, ...], keys: list[Key]) -> DataFrame:
    """The keys as rows, in order. Column names are meant to hurt."""
    schema = t.StructType([t.StructField(f"{i}.`{name}", POOLS[name][0]) for i, name in enumerate(names)])
    return spark.createDataFrame([as_row(key, names) for key in keys], schema).coalesce(1)


def as_row(key: Key, names: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(as_python(value, name) for value, name in zip(key.values, names, strict=True))


def as_python(value: Value, name: str) -> Any:
    if isinstance(value, Timestamp):
        moment = EPOCH + timedelta(microseconds=value.micros)
        return moment if name == "moment" else moment.replace(tzinfo=None)
    return value


def test_an_example(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None,), (1,), (5,), (6,), (9,)], "k long")
    coverage = (Split(None, Key((5,)), Upto(Key((1,)))), Split(Key((5,)), None, DONE))
    assert keys_in(frame, covers(coverage, ["k"], [t.LongType()])) == [None, 1, 6, 9]
    assert keys_in(frame, ~covers(coverage, ["k"], [t.LongType()])) == [5]
    assert keys_in(frame, within([Range(Key((1,)), Key((6,)))], ["k"], [t.LongType()])) == [5, 6]


def test_nothing_and_everything(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(None,), (1,)], "k long")
    assert keys_in(frame, within([], ["k"], [t.LongType()])) == []
    assert keys_in(frame, covers(walk.whole(), ["k"], [t.LongType()])) == [None, 1]


def keys_in(frame: DataFrame, condition: Any) -> list[Any]:
    return [row[0] for row in frame.where(condition).collect()]


def test_a_coverage_of_many_ranges_is_no_trouble(spark: SparkSession) -> None:
    ranges = [Range(Key((10 * n, TOP)), Key((10 * n + 5, "x"))) for n in range(256)]
    frame = spark.range(2560).select("id", F.lit("x"))
    types = key_types(frame.schema, frame.columns)
    assert frame.where(within(ranges, frame.columns, types)).count() == 256 * 5


@pytest.mark.full
def test_files_outside_of_the_ranges_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    columns = ["lead", "id"]
    tens = spark.range(0, 100, 1, 10).select(
        F.timestamp_micros(F.col("id") * 10**9).alias("lead"),
        F.col("id").cast("decimal(20, 2)").alias("id"),
    )
    tens.write.format("delta").save(path)
    table = spark.read.format("delta").load(path)
    types = key_types(table.schema, columns)
    assert len(table.inputFiles()) == 10
    for ranges, files, rows in (
        ([Range(bound(33), bound(58))], 3, 25),
        ([Range(None, bound(12))], 2, 13),
        ([Range(bound(95), None)], 1, 4),
        ([Range(bound(3), bound(4)), Range(bound(90), bound(91))], 2, 2),
        ([Range(Key((bound(10).values[0], TOP)), Key((bound(18).values[0], TOP)))], 1, 8),
    ):
        taken = table.where(within(ranges, columns, types))
        assert (len(taken.inputFiles()), taken.count()) == (files, rows), ranges


def bound(number: int) -> Key:
    return Key((Timestamp(number * 10**9), Decimal(number)))


@pytest.mark.parametrize(
    "kind",
    [
        t.FloatType(),
        t.DoubleType(),
        t.DayTimeIntervalType(),
        t.YearMonthIntervalType(),
        t.CalendarIntervalType(),
        t.ArrayType(t.LongType()),
        t.MapType(t.StringType(), t.LongType()),
        t.StructType([t.StructField("a", t.LongType())]),
        t.StringType("UTF8_LCASE"),
        t.StringType("UNICODE"),
        t.VariantType(),
        t.TimeType(),
        t.NullType(),
    ],
    ids=lambda kind: kind.simpleString(),
)
def test_types_without_an_agreed_order_are_refused(kind: t.DataType) -> None:
    with pytest.raises(UnsupportedKey, match="column k"):
        key_types(t.StructType([t.StructField("k", kind)]), ["k"])


def test_a_column_that_is_not_there_is_named() -> None:
    with pytest.raises(UnsupportedKey, match="no column x"):
        key_types(t.StructType([t.StructField("k", t.LongType())]), ["x"])


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Decimal("1.234"), t.DecimalType(10, 2)),
        (Decimal(10**8), t.DecimalType(10, 2)),
        (Decimal("1E+90"), t.DecimalType(38, 0)),
        ("1", t.LongType()),
        (1, t.StringType()),
        (Timestamp(0), t.DateType()),
        (date(2024, 1, 1), t.TimestampType()),
        (None, t.LongType()),
        (TOP, t.LongType()),
    ],
    ids=repr,
)
def test_a_bound_of_another_type_is_refused(value: Value, kind: t.DataType) -> None:
    with pytest.raises(UnsupportedKey):
        literal(value, kind)


def test_a_collected_datetime_is_a_moment() -> None:
    here = datetime(2024, 7, 1, 12)
    assert key_of([here], [t.TimestampType()]) == Key((Timestamp.of(here.astimezone(UTC)),))
    assert key_of([here], [t.TimestampNTZType()]) == Key((Timestamp.of(here),))
    assert key_of([bytearray(b"x"), None], [t.BinaryType(), t.DateType()]) == Key((b"x", None))
