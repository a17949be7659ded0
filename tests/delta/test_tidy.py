"""Small files of a target become few, and once a day those go that nobody needs."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructField, StructType

from tidefill.core.confirm import NO_TABLE, Payload
from tidefill.core.state import initial
from tidefill.delta.log.statements import StatementLog
from tidefill.delta.target import DeltaTarget
from tidefill.ports.frames import Append

DAY_S = 24 * 3600.0


@pytest.mark.full
def test_a_target_is_vacuumed_once_a_day_unless_somebody_says_no(spark: SparkSession, tmp_path: Path) -> None:
    now_s = time.time()
    path = str(tmp_path / "target")
    schema = StructType([StructField("id", LongType())])

    def tidied(*, read: bool = False, vacuum: bool = True) -> list[int]:
        """The retentions of all VACUUMs so far, in days."""
        target.tidy(read=read, vacuum=vacuum)
        commits = StatementLog(spark, path).newest()
        kept_ms = [int(one.parameters["defaultRetentionMillis"]) for one in commits if "START" in one.operation]
        return [ms // 1000 // int(DAY_S) for ms in kept_ms]

    target = DeltaTarget(spark, path, schema, ["id"], "kept", now_s=lambda: now_s)
    target.tidy(read=False, vacuum=True)  # there is no table yet
    target.commit(Append(spark.range(10)), Payload(initial(1), "generation", "commit", NO_TABLE))
    assert tidied() == [], "it is not a day old"
    now_s += 1.1 * DAY_S
    assert tidied(vacuum=False) == []
    assert tidied() == [7], "by Delta's own retention"
    assert tidied() == [7], "not again on the same day"
    now_s += 1.1 * DAY_S
    assert tidied(read=True) == [7, 30]
    assert spark.read.format("delta").load(path).count() == 10
