"""Few changes are worked off by one task; whether they are few, the commits have to say, each of them."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidefill.core.version import Number, Version
from tidefill.core.walk import whole
from tidefill.upstreams.delta import FEW_CHANGES, DeltaUpstream, number_of
from tidefill.upstreams.delta_history import Commit, DeltaHistory, Survey

FIRST = Version("a", Number(0))


def upstream(spark: SparkSession, *commits: Commit) -> tuple[DeltaUpstream, int]:
    """Of a table that had these commits after its first, and its newest version's number."""
    history = DeltaHistory(spark, "t")
    known = dict(enumerate([Commit(0.0, plain=True), *commits]))
    history._last = Survey("a", known, True, 60.0, 0, 0.0)
    return DeltaUpstream(spark, "t", ["id"], ["id"], history=history), len(commits)


def wrote(rows: int) -> Commit:
    return Commit(1.0, plain=True, rows=rows)


@pytest.mark.parametrize(
    ("commits", "few"),
    [
        ([wrote(FEW_CHANGES - 1), wrote(1)], True),
        ([wrote(FEW_CHANGES), wrote(1)], False),
        ([wrote(1), wrote(0)], False),  # it may have written any number: it does not say
        ([wrote(1), Commit(1.0, plain=False, rows=1)], False),  # an overwrite
        ([wrote(1), Commit(1.0, plain=True, quiet=True)], True),  # OPTIMIZE
    ],
)
def test_they_are_few_if_every_commit_says_so(spark: SparkSession, commits: list[Commit], few: bool) -> None:
    table, newest = upstream(spark, *commits)
    assert table._are_few(0, newest) is few


def test_a_table_is_not_counted_again_after_a_few_changes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = upstream(spark, wrote(FEW_CHANGES - 1), wrote(1), wrote(1), wrote(1))
    counted: list[int] = []

    def at(version: Version) -> DataFrame:
        counted.append(number_of(version))
        return spark.range(counted[-1])

    monkeypatch.setattr(table, "_at", at)
    found = [table.count(Version("a", Number(number))) for number in (0, 2, 3, 4, 1)]
    assert found == [0, 0, 3, 3, 1], "about as many as there are"
    assert counted == [0, 3, 1], "never by the count of a later version"


@pytest.mark.parametrize(("rows", "tasks"), [(FEW_CHANGES, 1), (FEW_CHANGES + 1, 4)])
def test_one_task_has_them_all(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: int, tasks: int) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "4")
    table, newest = upstream(session, wrote(rows))
    spread = session.range(0, 1000, 1, 4).selectExpr("id", "1 AS __tf_weight")
    monkeypatch.setattr(table, "_weighted", lambda after, upto: spread)
    net = table._net(FIRST, Version("a", Number(newest)), whole())
    assert net.selectExpr("spark_partition_id()").distinct().count() == tasks
