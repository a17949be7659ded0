"""What happens in `tidefill demo --kafka`: a replica of the newest message of each key of a topic that is being
written, and a view over it. The runner is killed, and so is the broker.

Nothing in it is staged: the broker, the producer and `tidefill run` are processes of their own, the kills are SIGKILLs,
and at the end every message of the topic is read once more.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from tidefill.cli import terminal
from tidefill.cli.demo import topic
from tidefill.cli.demo.children import RUNNER, TOPIC_WRITER, Child
from tidefill.cli.demo.home import Home
from tidefill.cli.demo.stage import Stage
from tidefill.cli.demo.topic import CREATES, PARTITIONS, REPLICA, TOPIC, VIEW
from tidefill.cli.demo.world import World, start_kafka_world
from tidefill.core.reasons import Reason
from tidefill.jobs.lifecycle import Life

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidefill.jobs.status import Status
    from tidefill.local.kafka import LocalKafka

KILL_AT = 0.3
CHUNKS = 2  # of each partition
FOLLOW_S = 4.0


class KafkaStory:
    """The demo of topics from the first message to the last comparison. `rate`: messages a second."""

    def __init__(self, stage: Stage, place: Home, rows: int, rate: int, ends: ExitStack) -> None:
        self._stage = stage
        self._rows = rows
        self._rate = rate
        self._home = place
        self._ends = ends

    def tell(self) -> bool:
        """All of it, in order; whether replica and view were found equal to the topic."""
        broker = self._start_broker()
        world = start_kafka_world(self._stage, self._home, self._ends, broker.servers)
        producer = world.start(TOPIC_WRITER, broker.servers, str(self._rows), str(self._rate))
        self._stage.say(f"Producer {producer.pid} sends about {self._rate:,} messages a second more.")
        self._create(world)
        runner = world.start(RUNNER, str(self._home.config))
        self._stage.say(f"Runner {runner.pid} fills the replica; the view follows when that is live.")
        runner = self._kill(world, runner, broker)
        self._follow(world, producer, broker)
        equal = self._compare(world)
        self._drop(world)
        world.end(runner)
        return equal

    def _start_broker(self) -> LocalKafka:
        from tidefill.local.kafka import local_kafka

        with terminal.spinner("starting Kafka..."):
            broker = self._ends.enter_context(local_kafka())
        with terminal.spinner("sending orders..."):
            topic.make(broker.servers, self._rows)
        keys = f"{max(1, self._rows // topic.MESSAGES_PER_KEY):,} keys"
        self._stage.say(f"{TOPIC}: a topic with {self._rows:,} messages of {keys} in {PARTITIONS} partitions.")
        return broker

    def _create(self, world: World) -> None:
        for name, statement in CREATES.items():
            chunks = f", chunk_rows = {max(1, self._rows // PARTITIONS // CHUNKS)})" if name == REPLICA else ""
            with terminal.spinner(f"creating {name}..."):
                world.engine.execute(f"{statement}{chunks}")
            self._stage.say(f"{statement}{')' if chunks else ''};")

    def _kill(self, world: World, runner: Child, broker: LocalKafka) -> Child:
        """Both, in the middle of the fill; then another runner, and the broker again."""
        world.until("a part is filled", lambda seen: _of(seen, REPLICA).share >= KILL_AT)
        world.kill(runner)
        self._stage.leave_bars()
        percent = _of(world.engine.statuses(), REPLICA).percent
        self._stage.say(f"kill -9 {runner.pid}: the runner is killed at {percent} %.")
        other = world.start(RUNNER, str(self._home.config))
        self._stage.say(f"Runner {other.pid} takes over.")
        killed = broker.pid
        broker.kill()
        self._stage.say(f"kill -9 {killed}: so is the broker; the producer waits.")
        broker.start()
        self._stage.say("The broker is back.")
        world.until("all are live", lambda seen: all(each.state == Life.LIVE.value for each in seen))
        self._stage.say("Both are live: filled, verified, and readable from now on.")
        return other

    def _follow(self, world: World, producer: Child, broker: LocalKafka) -> None:
        """They follow the producer, and reach its last message: what every message says once more is what they have."""
        end_s = time.monotonic() + FOLLOW_S
        world.until("both follow", lambda _: time.monotonic() > end_s)
        world.end(producer)
        with terminal.spinner("reading every message..."):
            wanted = topic.newest(broker.servers)
        self._stage.say(f"The producer stops. By its messages there are {wanted[0]:,} orders of {wanted[1]:,} in all.")
        world.until("the view has them", lambda seen: _are_at_rest(seen) and _orders(world) == wanted)
        self._stage.leave_bars()
        self._stage.say(f"{VIEW} says the same.")

    def _compare(self, world: World) -> bool:
        found = {name: world.verify(name) for name in (REPLICA, VIEW)}
        for name, verified in found.items():
            same = "DIFFER from" if verified.differences else "equal"
            self._stage.say(f"{name}: its {verified.rows:,} rows {same} a recompute.")
        return not any(verified.differences for verified in found.values())

    def _drop(self, world: World) -> None:
        for statement in (f"DROP MATERIALIZED VIEW {VIEW}", f"DROP REPLICA {REPLICA}"):
            world.engine.execute(statement)
        with terminal.spinner("dropping..."):
            world.until("they are dropped", lambda seen: not seen, shown=False)


def _of(statuses: Sequence[Status], name: str) -> Status:
    return next(each for each in statuses if each.name == name)


def _orders(world: World) -> tuple[int, int]:
    """How many orders there are, and their total, as readers of the view see it."""
    row = world.engine.query(f"SELECT sum(orders) AS orders, sum(total) AS total FROM {VIEW}").collect()[0]
    return row.orders, row.total


def _are_at_rest(statuses: Sequence[Status]) -> bool:
    """Nothing is left to take in, as of their last look."""
    return all(each.waits_for == Reason.IDLE.code and not each.lag_versions for each in statuses)
