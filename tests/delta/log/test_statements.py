"""How Spark is asked for a Delta table's log: no more than is needed, and never so little that another table passes for
it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tidefill.delta.log.statements import QUIET_S, StatementLog
from tidefill.delta.log.survey import Survey
from tidefill.spark.names import table_at


class Asked:
    """A table, its log, the last look, and which questions were put to Spark."""

    def __init__(self, spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.spark = spark
        self.path = path
        self.questions: list[str] = []
        self.make()
        self.now_s = (path / "_delta_log" / f"{0:020}.json").stat().st_mtime
        self.log = StatementLog(spark, str(path))
        self.last: Survey | None = None
        put = spark.sql

        def sql(text: str) -> object:
            self.questions.append(" ".join(text.split()[:2]))
            return put(text)

        monkeypatch.setattr(spark, "sql", sql)

    def make(self) -> None:
        self.spark.range(2).write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(self.path))

    def write(self) -> None:
        self.spark.range(1).write.format("delta").mode("append").save(str(self.path))

    def look(self, after_s: float = 2.0) -> tuple[int, list[str]]:
        """The head, and what was asked to know it."""
        self.now_s += after_s
        self.questions.clear()
        self.last = self.log.look(self.last, None, self.now_s)
        return self.last.head, [*self.questions]

    @property
    def identity(self) -> str:
        assert self.last is not None
        return self.last.identity


@pytest.fixture
def asked(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked(spark, tmp_path / "table", monkeypatch)
    assert made.look() == (0, ["DESCRIBE DETAIL", "DESCRIBE HISTORY"])
    return made


def test_a_table_that_is_known_is_asked_for_its_history_alone(asked: Asked) -> None:
    assert asked.look() == (0, ["DESCRIBE HISTORY"])
    asked.write()
    assert asked.look() == (1, ["DESCRIBE HISTORY"])
    asked.write()
    assert asked.look(QUIET_S) == (2, ["DESCRIBE HISTORY"]), "also one that was quiet"


def test_a_quiet_table_is_asked_only_whether_it_is_still_the_same(asked: Asked) -> None:
    for after_s in (QUIET_S, QUIET_S, 0.1):
        assert asked.look(after_s) == (0, ["DESCRIBE DETAIL"])
    asked.write()
    assert asked.look(QUIET_S) == (1, ["DESCRIBE HISTORY"])


def test_a_quiet_table_whose_files_are_not_as_old_as_its_history_says(asked: Asked, tmp_path: Path) -> None:
    asked.write()
    copied = Path(shutil.copytree(asked.path, tmp_path / "copied"))
    os.utime(copied / "_delta_log" / f"{1:020}.json", (0, 0))  # of two commits in a wrong order the later one is moved
    asked.log, asked.last = StatementLog(asked.spark, str(copied)), None
    asked.look(QUIET_S)
    assert asked.look() == (1, ["DESCRIBE DETAIL", "DESCRIBE HISTORY"])
    assert asked.look() == (1, ["DESCRIBE DETAIL"])


@pytest.mark.parametrize("after_s", [2.0, QUIET_S])
def test_another_table_at_the_path_is_noticed(asked: Asked, after_s: float) -> None:
    # R31
    asked.look(QUIET_S)
    before = asked.identity
    shutil.rmtree(asked.path)
    asked.make()
    assert asked.look(after_s)[0] == 0
    assert asked.identity != before


def test_another_table_that_is_just_as_old_is_noticed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    # R31
    another = Row(**{**asked.log.detail().asDict(), "id": "another"})
    monkeypatch.setattr(asked.log, "detail", lambda: another)
    asked.look(QUIET_S)
    assert asked.identity == "another"


@pytest.mark.parametrize("after_s", [2.0, QUIET_S])
def test_a_table_that_went_back_is_noticed(asked: Asked, tmp_path: Path, after_s: float) -> None:
    # R31
    shutil.copytree(asked.path, tmp_path / "backup")
    asked.write()
    assert asked.look()[0] == 1
    assert asked.look(QUIET_S)[0] == 1
    shutil.rmtree(asked.path)
    shutil.copytree(tmp_path / "backup", asked.path)
    assert asked.look(after_s)[0] == 0


def test_what_is_no_write_is_looked_into(asked: Asked) -> None:
    asked.spark.sql(f"ALTER TABLE {table_at(str(asked.path))} SET TBLPROPERTIES ('a' = 'b')")
    assert asked.look() == (1, ["DESCRIBE HISTORY", "DESCRIBE DETAIL", "DESCRIBE HISTORY"])
