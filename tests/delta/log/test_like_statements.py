"""What the files of a Delta log say is what DESCRIBE HISTORY and DESCRIBE DETAIL say, for every kind of commit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidefill.delta.history import DeltaHistory
from tidefill.delta.log.files import FileLog
from tidefill.delta.log.statements import StatementLog
from tidefill.delta.log.table_log import TableLog
from tidefill.spark.names import table_at
from tidefill.storage.local import LocalFiles

STATEMENTS = (
    "INSERT INTO {t} VALUES (10, 1), (11, 2)",
    "UPDATE {t} SET x = 5 WHERE id = 10",
    "DELETE FROM {t} WHERE id = 11",
    "MERGE INTO {t} t USING (SELECT 1L AS id, 2 AS x) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    "INSERT INTO {t} REPLACE WHERE id IN (1, 2) SELECT 1L, 7",
    "OPTIMIZE {t}",
    "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b', 'delta.deletedFileRetentionDuration' = 'interval 9 days')",
    "ALTER TABLE {t} ADD COLUMNS (y INT)",
    "ALTER TABLE {t} ALTER COLUMN y COMMENT 'hidden'",
    "VACUUM {t}",
    "RESTORE TABLE {t} TO VERSION AS OF 3",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "INSERT OVERWRITE {t} SELECT id, 0 FROM range(5)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2')",
    "INSERT INTO {t} VALUES (20, 1)",
    "DELETE FROM {t} WHERE id = 20",
    "TRUNCATE TABLE {t}",
    "INSERT INTO {t} VALUES (21, 1)",
)

LOOKED_AT = 7
"""After the statement of this number the log is read too: a property is set that a later one takes back."""


def agree(spark: SparkSession, path: Path) -> None:
    files, statements = FileLog(LocalFiles(path)), StatementLog(spark, str(path))
    assert files.newest() == statements.newest()
    found, told = files.look(None, 0, 0.0), statements.look(None, 0, 0.0)
    assert found.reaches(0)
    assert told.reaches(0)
    assert replace(found, stamp=None, size=told.size, whole=told.whole) == told


@pytest.mark.parametrize("statements", [STATEMENTS[:6], pytest.param(STATEMENTS, marks=pytest.mark.full)], ids=len)
def test_every_kind_of_commit(spark: SparkSession, tmp_path: Path, statements: tuple[str, ...]) -> None:
    path = tmp_path / "t"
    table, session = table_at(str(path)), spark.newSession()
    session.conf.set("spark.databricks.delta.vacuum.logging.enabled", "true")
    made = session.range(5).selectExpr("id", "1 AS x").write.format("delta")
    made.option("delta.enableDeletionVectors", "true").option("userMetadata", "mine").save(str(path))
    for number, statement in enumerate(statements):
        session.sql(statement.format(t=table)).collect()
        if number == LOOKED_AT:
            agree(session, path)
    agree(session, path)


def test_a_table_without_checksum_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(5).write.format("delta").option("delta.checkpointInterval", "3").save(str(path))
    for _ in range(5):
        spark.range(1).write.format("delta").mode("append").save(str(path))
    for file in (path / "_delta_log").glob("0*.crc"):
        file.unlink()
    agree(spark, path)


def test_after_the_first_look_spark_is_not_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, asked = str(tmp_path / "t"), list[str]()
    spark.range(5).write.format("delta").save(path)
    history, put = DeltaHistory(spark, path), spark.sql

    def sql(text: str) -> object:
        asked.append(text)
        return put(text)

    monkeypatch.setattr(spark, "sql", sql)
    found = history.survey(fresh=True)
    assert asked == [f"DESCRIBE DETAIL {table_at(path)}"]
    assert found.size > 0
    asked.clear()
    spark.range(1).write.format("delta").mode("append").save(path)
    assert history.survey(fresh=True).head == 1
    assert asked == []


def test_where_spark_sees_another_table_at_the_path_spark_is_asked(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spark on another machine: the path means another folder there
    for name, commits in (("here", 3), ("there", 1)):
        for _ in range(commits):
            spark.range(1).write.format("delta").mode("append").save(str(tmp_path / name))
    monkeypatch.setattr("tidefill.delta.log.table_log.files_below", lambda _: LocalFiles(tmp_path / "here"))
    log = TableLog(spark, str(tmp_path / "there"))
    first = log.look(None, None, 0.0)
    assert first.head == 0
    assert log.look(first, None, 0.0).identity == StatementLog(spark, str(tmp_path / "there")).detail()["id"]
