"""A runner that fills an index through Spark, in a process of its own, for tests that kill it."""

from __future__ import annotations

import json
import sys
import time

from tidefill.ports.machine import Round


def round_of_now() -> Round:
    """What a machine is told of a turn."""
    return Round(time.time())


def main(words: str) -> int:
    """Take turns until the index is public."""
    from tests.postgres.index.harness import Indexed
    from tests.postgres.index.stress_runner import build
    from tidefill.indexes import sorting
    from tidefill.indexes.shape import shape_from_text
    from tidefill.indexes.sorting import Sort
    from tidefill.indexes.states import Method
    from tidefill.jobs.row import Settings
    from tidefill.postgres.index.session import IndexSession
    from tidefill.postgres.index.spark_sort import SparkSort
    from tidefill.spark.start import remote_session

    told = json.loads(words)
    sorting.RANGE_ROWS = told["ranges"]
    spark = remote_session(told["spark"], {})

    def through(session: IndexSession) -> SparkSort:
        rows = int(told["rows"])
        return SparkSort(lambda: spark, session._server, told["folder"], lambda: None, Sort.SPARK, lambda: rows)

    shape = shape_from_text(told["shape"])
    settings = Settings(chunk_rows=told["chunk_rows"])
    index = Indexed.taken_over(told["url"], shape, told["fence"], Method.BULK, settings, through)
    return build(index)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
