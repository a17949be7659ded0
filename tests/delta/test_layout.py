"""How the files of an index lie, and how wide an OPTIMIZE reaches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, BooleanType, LongType, StringType, StructField, StructType

from tidefill.core.confirm import NO_TABLE, Effect, Payload
from tidefill.core.state import initial
from tidefill.delta import layout
from tidefill.delta.layout import TIERS, Layout, optimize_settings
from tidefill.delta.log.commits import Logged
from tidefill.delta.target import DeltaTarget
from tidefill.ports.frames import Replace

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


@pytest.mark.full
def test_a_target_stays_laid_out_when_all_of_it_is_replaced(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "ROWS_IN_A_FILE_MAX", 20)
    monkeypatch.setattr(layout, "FILE_BYTES", 1000)
    path = str(tmp_path / "index")
    target = DeltaTarget(spark, path, rows(spark, 0, 1).schema, ["id"], "ix", order=["email"])

    def committed(write: Replace[DataFrame], step: int, planned_on: int) -> None:
        state = replace(initial(1), step=step)
        target.commit(write, Payload(state, "generation", f"commit {step}", planned_on))

    committed(Replace(rows(spark, 0, 20)), 1, NO_TABLE)
    committed(Replace(rows(spark, 0, 1300)), 2, 1)
    assert files(spark, path, "true") >= 64
    target.tidy(read=False, vacuum=False)
    assert {entry.effect for entry in target.log()[1:]} == {Effect.WRITE, Effect.NONE}, "none of it is a stranger's"
    assert spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0]["clusteringColumns"] == ["email"]
    assert files(spark, path, "true") >= 16, "it was not put into one file"
    assert files(spark, path, "email = 'user00640'") <= 3
    assert spark.read.format("delta").load(path).count() == 1300


def rows(spark: SparkSession, first: int, end: int) -> DataFrame:
    """Each email once, and not in the order of the ids."""
    email = "concat('user', lpad(cast((id * 7919) % 1300 AS STRING), 5, '0')) AS email"
    return spark.range(first, end).selectExpr(email, "id")


def files(spark: SparkSession, path: str, condition: str) -> int:
    """How many files Delta reads for the rows with the condition."""
    return len(spark.read.format("delta").load(path).where(condition).inputFiles())
