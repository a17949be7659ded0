"""Few changes are worked off by one task; whether they are few, the commits have to say, each of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.version import Number, Version
from tidefill.core.walk import Coverage, above, start, whole
from tidefill.delta.history import DeltaHistory
from tidefill.delta.log.commits import Commit
from tidefill.delta.log.survey import Survey
from tidefill.delta.upstream import FEW_BYTES, FEW_CHANGES, DeltaUpstream, number_of
from tidefill.errors import KeyNotUnique
from tidefill.jobs.definitions import INPUT
from tidefill.ports.frames import Merge
from tidefill.spark.derive_rows import RowWise
from tidefill.spark.names import table_at

FIRST = Version("a", Number(0))


def upstream(spark: SparkSession, *commits: Commit) -> tuple[DeltaUpstream, int]:
    """Of a table that had these commits after its first, and its newest version's number."""
    history = DeltaHistory(spark, "t")
    known = dict(enumerate([Commit(0.0, plain=True), *commits]))
    history._last = Survey("a", known, True, 60.0, 0, 0.0, 0.0)
    return DeltaUpstream(spark, "t", ["id"], ["id"], history=history), len(commits)


def wrote(rows: int) -> Commit:
    return Commit(1.0, plain=True, rows=rows)


ADDED = Commit(1.0, plain=True, adds=True, rows=1)
TIDIED = Commit(1.0, plain=True, quiet=True)


@pytest.mark.parametrize(
    ("commits", "few"),
    [
        ([wrote(FEW_CHANGES - 1), wrote(1)], True),
        ([wrote(FEW_CHANGES), wrote(1)], False),
        ([wrote(1), wrote(0)], False),  # it may have written any number: it does not say
        ([wrote(1), Commit(1.0, plain=False, rows=1)], False),  # an overwrite
        ([wrote(1), TIDIED], True),
    ],
)
def test_they_are_few_if_every_commit_says_so(spark: SparkSession, commits: list[Commit], few: bool) -> None:
    table, newest = upstream(spark, *commits)
    assert table._are_few(0, newest) is few


@pytest.mark.parametrize(
    ("size", "rows", "light"),
    [
        (FEW_BYTES, 1, True),  # all of it is little
        (1000 * FEW_BYTES, 100_000, True),  # 84 kB a row, of which 100 were written
        (1000 * FEW_BYTES, 99_999, False),
    ],
)
def test_large_rows_are_not_few(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, size: int, rows: int, light: bool
) -> None:
    """They would be brought to the driver."""
    table, newest = upstream(spark, wrote(100))
    assert table._history._last is not None
    table._history._last = replace(table._history._last, size=size)
    monkeypatch.setattr(table, "row_count", lambda at: rows)
    assert table._are_light(FIRST, Version("a", Number(newest))) is light


def test_a_table_is_not_counted_again_after_a_few_changes(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = upstream(spark, wrote(FEW_CHANGES - 1), wrote(1), wrote(1), wrote(1))
    counted: list[int] = []

    def at(version: Version) -> DataFrame:
        counted.append(number_of(version))
        return spark.range(counted[-1])

    monkeypatch.setattr(table, "_at", at)
    found = [table.row_count(Version("a", Number(number))) for number in (0, 2, 3, 4, 1)]
    assert found == [0, 0, 3, 3, 1], "about as many as there are"
    assert counted == [0, 3, 1], "never by the count of a later version"


def test_what_one_job_found_in_a_version_another_one_knows(spark: SparkSession, tmp_path: Path) -> None:
    path, reads = str(tmp_path / "t"), list[int]()

    class Counted(DeltaUpstream):
        def _at(self, at: Version) -> DataFrame:
            reads.append(number_of(at))
            return super()._at(at)

    spark.range(3).write.format("delta").save(path)
    history = DeltaHistory(spark, path)
    lax, one, other = (
        Counted(spark, path, ["id"], ["id"], history=history, null_keys=null_keys) for null_keys in (True, False, False)
    )

    def check(job: DeltaUpstream) -> tuple[int, list[int]]:
        """The rows, and which versions were read to count them and to see their keys."""
        reads.clear()
        with job.open_head(first=True) as head:
            job.check_keys(head)
            return job.row_count(head), [*reads]

    assert check(lax) == (3, [0, 0])
    assert check(one) == (3, [0]), "which allows no NULL"
    assert check(other) == (3, [])
    spark.sql(f"INSERT INTO {table_at(path)} VALUES (2)")
    with pytest.raises(KeyNotUnique, match=r"e\.g\. \(2,\)"):
        check(other)
    with pytest.raises(KeyNotUnique):
        check(one)


@pytest.mark.parametrize(("rows", "tasks"), [(FEW_CHANGES, 1), (FEW_CHANGES + 1, 4)])
def test_one_task_has_them_all(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, rows: int, tasks: int) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.coalescePartitions.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "4")
    table, newest = upstream(session, wrote(rows))
    spread = session.range(0, 1000, 1, 4).selectExpr("id", "1 AS __tf_w")
    monkeypatch.setattr(table, "_weighted", lambda after, upto: spread)
    net = table._net(FIRST, Version("a", Number(newest)), whole())
    assert net.selectExpr("spark_partition_id()").distinct().count() == tasks


@pytest.mark.parametrize(
    ("commits", "coverage", "found", "looks"),
    [
        ([ADDED, TIDIED, ADDED], whole(), Changed.SOME, 0),
        ([wrote(1)], whole(), Changed.SOME, 0),
        ([TIDIED, TIDIED], whole(), Changed.NOTHING, 0),
        ([wrote(FEW_CHANGES + 1)], whole(), Changed.NOTHING, 1),
        ([wrote(0)], whole(), Changed.NOTHING, 1),  # it may have written any number, or none
        ([ADDED], start(above(Key((9,)))), Changed.NOTHING, 1),  # perhaps where nothing is covered
    ],
)
def test_few_changes_of_what_is_covered_are_not_looked_at(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    commits: list[Commit],
    coverage: Coverage,
    found: Changed,
    looks: int,
) -> None:
    table, newest = upstream(spark, *commits)
    looked: list[DataFrame] = []
    nothing = spark.range(0).selectExpr("id", "1 AS __tf_w")
    monkeypatch.setattr(table, "_weighted", lambda after, upto: nothing)

    def is_empty(frame: DataFrame) -> bool:
        looked.append(frame)
        return True

    monkeypatch.setattr(type(nothing), "isEmpty", is_empty)
    assert table.classify_changes(FIRST, Version("a", Number(newest)), coverage) is found
    assert len(looked) == looks


@pytest.mark.parametrize(
    ("commits", "removes"), [([ADDED, TIDIED], False), ([ADDED, wrote(1)], True), ([wrote(1), ADDED], True)]
)
def test_what_only_added_removes_nothing(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    commits: list[Commit],
    removes: bool,
) -> None:
    table, newest = upstream(spark, *commits)
    monkeypatch.setattr(table, "_weighted", lambda after, upto: spark.range(3).selectExpr("id", "1 AS __tf_w"))
    changes = table.read_changes(FIRST, Version("a", Number(newest)), whole())
    assert changes.removes is removes
    merge = RowWise(spark.range(0), None, ["id"]).changes({INPUT: changes}, {})
    assert isinstance(merge, Merge)
    merge.changes.explain()
    assert ("Join" in capsys.readouterr().out) is removes, "there is nothing to compare them with"
    assert [tuple(row) for row in merge.changes.orderBy("id").collect()] == [(0, "I"), (1, "I"), (2, "I")]


@pytest.mark.full
def test_a_commit_says_whether_it_only_added(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    spark.range(9).write.format("delta").save(path)
    merge = "MERGE INTO {t} t USING (SELECT {id} AS id) s ON t.id = s.id WHEN"
    statements = {
        "INSERT INTO {t} VALUES (17)": True,
        f"{merge} NOT MATCHED THEN INSERT *".replace("{id}", "18L"): True,
        f"{merge} MATCHED THEN DELETE".replace("{id}", "1L"): False,
        f"{merge} MATCHED THEN UPDATE SET id = 19".replace("{id}", "2L"): False,
        "UPDATE {t} SET id = id + 20 WHERE id = 3": False,
        "DELETE FROM {t} WHERE id = 4": False,
        "INSERT OVERWRITE {t} VALUES (30)": False,
    }
    for statement in statements:
        spark.sql(statement.replace("{t}", table_at(path)))
    commits = DeltaHistory(spark, path).survey().commits
    assert [commits[number].adds for number in range(1, 1 + len(statements))] == list(statements.values())
