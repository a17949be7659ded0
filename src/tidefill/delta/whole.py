"""A Delta table for queries that are computed anew: whether it changed matters, and not how. It needs no key, and no
history but the version that is read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from pyspark.sql import DataFrame, SparkSession

from tidefill.core.look import Changed
from tidefill.core.version import Version
from tidefill.core.walk import Coverage, Range
from tidefill.delta.history import DeltaHistory
from tidefill.delta.upstream import DeltaUpstream, number_of
from tidefill.errors import HistoryGone, UpstreamReplaced
from tidefill.spark.faults import translated


class WholeDelta(DeltaUpstream):
    """It is read whole at each version. `derived`: its commits say what they come from."""

    def __init__(
        self, spark: SparkSession, path: str, columns: Sequence[str], *, derived: bool, history: DeltaHistory
    ) -> None:
        super().__init__(spark, path, (), (), columns=columns, derived=derived, history=history)

    def check(self, at: Version) -> None:
        """The same table; commits that are gone are not missed."""
        with suppress(HistoryGone):
            super().check(at)

    def classify_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By what the commits are called: nothing is read for it."""
        commits = self._history.survey(reach=number_of(after)).commits
        since = (commits.get(number) for number in range(number_of(after) + 1, number_of(upto) + 1))
        return Changed.NOTHING if all(commit is not None and commit.quiet for commit in since) else Changed.SOME

    def rows(self, ranges: Sequence[Range], at: Version) -> DataFrame:
        """All of them."""
        with translated(UpstreamReplaced):
            return self._at(at)

    def on_unreadable(self, at: Version) -> None:
        """Files of that version are gone: a newer one will do, if there is one."""
        newest = self._history.survey(fresh=True).head
        self._lost.add(number_of(at))
        if newest <= number_of(at):
            raise self._files_gone("Files of its newest version are missing.")

    def check_keys(self, at: Version) -> None:
        """It needs none."""
