"""Small frames that are asked for more than once: computed at once, and kept for a while."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidefill.spark.names import HIDDEN

_CACHED = f"{HIDDEN}cached"


class Kept:
    """Keeps frames until it lets go of all of them."""

    def __init__(self) -> None:
        self._cached: list[DataFrame] = []

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows. Spark forgets how they came about, so that what follows is planned quickly. (A session of
        Spark Connect that was cloned loses such a frame in 4.2, so there it is only cached.) And once they were looked
        at, it knows how few they are, so that it carries them to a large table and not the table to them. What is
        cached is not quite what is given away: a statement that names a frame ends the caching of just that frame."""
        known = frame if hasattr(frame.sparkSession, "cloneSession") else frame.localCheckpoint()
        self._cached.append(known.withColumn(_CACHED, f.lit(True)).cache())
        return self._cached[-1].drop(_CACHED)

    def plan(self, frame: DataFrame) -> DataFrame:
        """The frame, which Spark plans now, by the settings that its session has now, and computes when it is asked."""
        self._cached.append(frame.cache())
        return frame

    def let_go(self) -> None:
        """Nobody will ask again."""
        while self._cached:
            self._cached.pop().unpersist()
