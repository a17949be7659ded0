"""What long tests of views on Spark share: a session as users have it, somebody who writes meanwhile, and rows that can
be compared."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests.quick_spark import COMPILED

WRITE_EVERY_S = 10.0


def compiled_session(spark: SparkSession) -> SparkSession:
    """For enough rows for programs of their own."""
    session = spark.newSession()
    session.conf.set(*COMPILED)
    return session


@contextmanager
def written_meanwhile(write: Callable[[int], None]) -> Iterator[Future[int]]:
    """Something is written again and again, in a thread of its own, until the block is left; how often."""
    stop = threading.Event()

    def until_told() -> int:
        for number in itertools.count():
            write(number)
            if stop.wait(WRITE_EVERY_S):
                return number + 1
        raise AssertionError

    with ThreadPoolExecutor(1) as pool:
        try:
            yield pool.submit(until_told)
        finally:
            stop.set()


def rounded(row: Sequence[object]) -> tuple[object, ...]:
    """Floats to nine digits."""
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)
