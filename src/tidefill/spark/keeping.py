"""Small frames that are asked for more than once: computed at once, and kept for a while."""

from __future__ import annotations

from pyspark.sql import DataFrame


class Kept:
    """Keeps frames until it lets go of all of them."""

    def __init__(self) -> None:
        self._cached: list[DataFrame] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows. Spark forgets how they came about, so that what follows is planned quickly. A session of Spark
        Connect that was cloned loses such a frame (4.2), so there it is only cached."""
        if hasattr(frame.sparkSession, "cloneSession"):
            self._cached.append(frame.cache())
            return self._cached[-1]
        return frame.localCheckpoint()

    def let_go(self) -> None:
        """Nobody will ask again."""
        while self._cached:
            self._cached.pop().unpersist()
