"""A runner as a process of its own, to be killed: `python -m tests.engine.runner_process URL WAREHOUSE STORE`.

It drives a Spark that lives on without it, over Spark Connect; what it had begun there may still be done after its end.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tidefill import connect


def main(url: str, warehouse: str, store: str) -> None:
    connect(SparkSession.builder.remote(url).getOrCreate(), warehouse, store).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
