"""Where the demo happens: Spark, PostgreSQL, an engine, the processes that work there, and how to wait for them.

Every wait has an end.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from tidefill.cli import terminal
from tidefill.cli.demo.children import Child
from tidefill.cli.demo.home import Home
from tidefill.cli.demo.shop import CONNECTION, URL_VARIABLE, Shop
from tidefill.cli.demo.shop import opening as opening_shop
from tidefill.cli.demo.stage import Stage
from tidefill.errors import JobFailed, RetryLater, TimedOut
from tidefill.jobs.lifecycle import Life

if TYPE_CHECKING:
    from tidefill.engine.engine import Engine
    from tidefill.jobs.status import Status
    from tidefill.local.spark import SharedSpark
    from tidefill.run.verifying import Verified

WAIT_S_MAX = 300.0
LOOK_S = 0.2
SPARK_SETTINGS = {  # many small commands on few cores
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
}


def start_world(stage: Stage, place: Home, ends: ExitStack, *, with_shop: bool) -> World:
    """A world with all that is needed started in it. `ends` ends it."""
    spark, shop = _start(ends, with_shop=with_shop)
    return World(stage, place, spark, shop, _engine(place, spark, shop, ends), ends)


def start_kafka_world(stage: Stage, place: Home, ends: ExitStack, servers: str) -> World:
    """The same over the cluster with these brokers."""
    from tidefill.cli.demo import topic
    from tidefill.engine.connect import connect

    spark = _start_spark(ends)
    place.configure(spark.url, clusters={topic.CONNECTION: servers})
    clusters = {topic.CONNECTION: {"bootstrap.servers": servers}}
    engine = ends.enter_context(connect(spark.session, place.warehouse, place.store, clusters))
    return World(stage, place, spark, None, engine, ends)


def _start(ends: ExitStack, *, with_shop: bool) -> tuple[SharedSpark, Shop | None]:
    """Both at a time: PostgreSQL is there long before Spark is."""
    if not with_shop:
        return _start_spark(ends), None
    shop = ends.enter_context(opening_shop())
    return _start_spark(ends), shop.result()


def _start_spark(ends: ExitStack) -> SharedSpark:
    """Spark takes over Ctrl-C to cancel its queries; here it ends the demo."""
    from tidefill.extras import with_extra

    with terminal.spinner("starting Spark..."), with_extra("spark"):
        from tidefill.local.spark import shared_spark

        ours = signal.getsignal(signal.SIGINT)
        spark = shared_spark(SPARK_SETTINGS)
        signal.signal(signal.SIGINT, ours)
    ends.callback(spark.session.stop)
    ends.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)
    return spark


def _engine(place: Home, spark: SharedSpark, shop: Shop | None, ends: ExitStack) -> Engine:
    from tidefill.engine.connect import connect

    place.configure(spark.url, {} if shop is None else {CONNECTION: URL_VARIABLE})
    urls = {} if shop is None else {CONNECTION: shop.url}
    return ends.enter_context(connect(spark.session, place.warehouse, place.store, urls))


class World:
    """What the story is played with. A process that was started here is watched until it is ended or killed."""

    def __init__(
        self, stage: Stage, place: Home, spark: SharedSpark, shop: Shop | None, engine: Engine, ends: ExitStack
    ) -> None:
        self.stage = stage
        self.home = place
        self.spark = spark
        self.shop = shop
        self.engine = engine
        self._ends = ends
        self._children: list[Child] = []

    def start(self, role: str, *words: str, variables: Mapping[str, str] | None = None) -> Child:
        """A process in that role, which sees the variables and where Spark is."""
        child = Child(role, list(words), self.home.folder, {**self.spark.variables, **(variables or {})})
        self._ends.callback(child.kill)
        self._children.append(child)
        return child

    def end(self, child: Child) -> None:
        """Let it finish what it does."""
        self._children.remove(child)
        child.finish()

    def kill(self, child: Child) -> None:
        """End it in the middle of what it does."""
        child.kill()
        self._children.remove(child)

    def wish(self, sql: str, means: str) -> None:
        """Run the statement, and say what it means."""
        self.engine.execute(sql)
        self.stage.say(f"{sql};  -- {means}")

    def verify(self, name: str) -> Verified:
        """While the runner reads the log of the server, a comparison has to wait for its turn."""
        deadline_s = time.monotonic() + WAIT_S_MAX
        with terminal.spinner(f"comparing {name} with a recompute..."):
            while True:
                try:
                    return self.engine.job(name).verify()
                except RetryLater:
                    if time.monotonic() > deadline_s:
                        raise
                time.sleep(LOOK_S)

    def until(self, what: str, so: Callable[[Sequence[Status]], bool], *, shown: bool = True) -> Sequence[Status]:
        """Show how it goes until it is so. JobFailed, TimedOut, or what became of a child that ended."""
        deadline_s = time.monotonic() + WAIT_S_MAX
        while True:
            for child in self._children:
                child.check()
            with suppress(RetryLater):
                seen = self.engine.statuses()
                if shown:
                    self.stage.bars(seen)
                _refuse_failed(seen)
                if so(seen):
                    return seen
            if time.monotonic() > deadline_s:
                raise TimedOut(f"waited {WAIT_S_MAX:.0f} s in vain until {what}", detail="; ".join(map(str, seen)))
            time.sleep(LOOK_S)


def _refuse_failed(statuses: Sequence[Status]) -> None:
    for each in statuses:
        if each.state == Life.FAILED.value and each.failure is not None:
            raise JobFailed(f"{each.name} has failed: {each.failure.fact}", detail=each.failure.detail)
