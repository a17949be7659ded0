"""How the files of an index lie, and how wide an OPTIMIZE reaches."""

from __future__ import annotations

from pyspark.sql.types import BinaryType, BooleanType, LongType, StringType, StructField, StructType

from tidefill.delta.layout import TIERS, Layout, optimize_settings
from tidefill.delta.log.commits import Logged

SCHEMA = StructType(
    [
        StructField("email", StringType()),
        StructField("flag", BooleanType()),
        StructField("raw", BinaryType()),
        *(StructField(f"n{number}", LongType()) for number in range(5)),
    ]
)


def threshold(*versions: tuple[int, str]) -> int:
    log = [Logged(version, 0, operation, {}, {}, None) for version, operation in versions]
    (found,) = (int(value) for name, value in optimize_settings(log).items() if name.endswith(".threshold"))
    return found


def test_it_is_clustered_by_the_columns_that_have_statistics() -> None:
    assert Layout(("email",)).clause(SCHEMA) == " CLUSTER BY (`email`)"
    assert Layout(("flag", "email", "raw")).clause(SCHEMA) == " CLUSTER BY (`email`)"
    assert Layout(("flag",)).clause(SCHEMA) == ""
    five = tuple(f"n{number}" for number in range(5))
    assert Layout(five).clause(SCHEMA) == " CLUSTER BY (`n0`, `n1`, `n2`, `n3`)"


def test_all_of_it_is_put_in_order_seldom_and_what_is_new_often() -> None:
    widest, middle, narrowest = (size for _, size in TIERS)
    assert threshold((7, "WRITE")) == widest, "it was never put in order"
    assert threshold((50, "OPTIMIZE"), (99, "WRITE")) == narrowest
    assert threshold((350, "OPTIMIZE"), (401, "WRITE")) == middle
    assert threshold((3180, "OPTIMIZE"), (3231, "WRITE")) == widest
    assert threshold((3231, "OPTIMIZE"), (3282, "WRITE")) == narrowest
