"""The one reader of a Delta table's log, for upstreams and targets: files where this process can read them, Spark's
statements where it cannot."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pyspark.sql import Row, SparkSession

from tidefill.delta.log.commits import Logged
from tidefill.delta.log.files import FileLog, NotInFiles
from tidefill.delta.log.statements import StatementLog
from tidefill.delta.log.survey import RECENT_COMMITS, Survey
from tidefill.storage.place import files_below


class TableLog:
    """The log of the table at a path. Its methods raise what Spark raises."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        files = files_below(path)
        self._files = None if files is None else FileLog(files)
        self._statements = StatementLog(spark, path)
        self._same_table: bool | None = None

    def look(self, last: Survey | None, reach: int | None, now_s: float) -> Survey:
        """The log as it is now, from version `reach` on, after the look `last`."""
        if self._files is not None and self._same_table is not False:
            with suppress(NotInFiles):
                found = self._files.look(last, reach, now_s)
                if self._same_table:
                    return found
                size = self._compare(found.identity)
                if self._same_table:
                    return replace(found, size=size)
        return self._statements.look(last, reach, now_s)

    def _compare(self, identity: str) -> int:
        """Once: whether Spark sees the table that the files here are, and how many bytes Spark says that it has. Where
        Spark runs on another machine, the path may mean another folder there."""
        detail = self._statements.detail()
        self._same_table = str(detail["id"]) == identity
        return int(detail["sizeInBytes"] or 0)

    def detail(self) -> Row:
        """What Delta itself says of the table: its properties, and how many bytes it has."""
        return self._statements.detail()

    def since(self, version: int) -> list[Logged]:
        """The commits from that version on, and perhaps some before it, ascending. If the log does not have that
        version, all that it has. Nothing compares what Spark sees: a job finds its own commit in the log, or stops."""
        if self._files is not None:
            with suppress(NotInFiles):
                return self._files.since(version) or self._files.newest()
        recent = self._statements.newest(RECENT_COMMITS)
        return recent if recent and recent[0].version <= version else self._statements.newest()

    def all(self) -> list[Logged]:
        """All commits that the log has, ascending."""
        if self._files is not None:
            with suppress(NotInFiles):
                return self._files.newest()
        return self._statements.newest()
