"""Small frames that are asked for more than once: computed at once, and kept for a while."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from tidefill.spark.local_rows import as_frame, brought, can_be_brought
from tidefill.spark.names import HIDDEN

FEW_MAX = 20_000
"""Rows: as many as the 10,000 changes of a small step have, before and after."""

FEW_BYTES_MAX = 8 << 20

_CACHED = f"{HIDDEN}cached"


class Kept:
    """Keeps frames until it lets go of all of them."""

    def __init__(self) -> None:
        self._cached: list[DataFrame] = []
        self._few_fit = True

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same rows. Spark forgets how they came about, so that what follows is planned quickly. (A session of
        Spark Connect that was cloned loses such a frame in 4.2, so there it is only cached.) And once they were looked
        at, it knows how few they are, so that it carries them to a large table and not the table to them. What is
        cached is not quite what is given away: a statement that names a frame ends the caching of just that frame."""
        known = frame if hasattr(frame.sparkSession, "cloneSession") else frame.localCheckpoint()
        self._cached.append(known.withColumn(_CACHED, f.lit(True)).cache())
        return self._cached[-1].drop(_CACHED)

    def keep_few(self, frame: DataFrame) -> DataFrame:
        """The same rows, of which there are few: as constants of the statements that follow. Spark then leaves out what
        cannot come to anything, as where no changed row passes a filter. Rows that turn out too many or too large are
        kept in the other way, and so are later ones."""
        if self._few_fit and can_be_brought(frame.schema):
            rows = brought(frame, FEW_MAX, FEW_BYTES_MAX)
            if rows is not None:
                return as_frame(frame.sparkSession, rows, frame.schema)
            self._few_fit = False
        return self.keep(frame)

    def plan(self, frame: DataFrame) -> DataFrame:
        """The frame, which Spark plans now, by the settings that its session has now, and computes when it is asked."""
        self._cached.append(frame.cache())
        return frame

    def let_go(self) -> None:
        """Nobody will ask again."""
        while self._cached:
            self._cached.pop().unpersist()
