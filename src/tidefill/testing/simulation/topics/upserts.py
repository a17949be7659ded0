"""One history of a replica that keeps the newest message of each key of a topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidefill.core.version import Version
from tidefill.kafka.upsert import UpsertUpstream
from tidefill.ports.upstream import Upstream
from tidefill.testing.memory.tables import Frame, Row
from tidefill.testing.memory.topic import NO_TRANSACTION, UNREADABLE, NewestReader, Topic, hash_of
from tidefill.testing.memory.world import Violation, WorldClock
from tidefill.testing.simulation.checkers import Checkers
from tidefill.testing.simulation.topics.acts import EXCUSED_BY, OF_TOPIC, OPEN_MAX, expire_old
from tidefill.testing.simulation.topics.newest import UpsertCheckers, live_twice, newest
from tidefill.testing.simulation.topics.oracle import carried, ends_of, is_of
from tidefill.testing.simulation.topics.topics import OfTopic
from tidefill.testing.simulation.workload import Dice

KEYS = 24
SENDS_WHILE_AWAY = 4
TOMBSTONES_S = 400.0
"""Longer than twice a runner sleeps in a step that it then commits all the same."""


def partition_of(topic: Topic, key: int) -> int:
    """Where the producers send the messages of a key; one of them makes a mistake, in `stray`."""
    return hash_of(key) % len(topic.logs)


def send_some(topic: Topic, number: int) -> int:
    """A few messages by key, one in four a tombstone, perhaps in a transaction; how many."""
    dice = Dice(number)
    kind = dice.upto(8)
    transaction = topic.begin() if kind < 3 and len(topic.opened) < OPEN_MAX else NO_TRANSACTION
    count = 10 if dice.upto(16) == 0 else 1 + dice.upto(4)
    for _ in range(count):
        key, value = dice.upto(KEYS), None if dice.upto(4) == 0 else dice.upto(100)
        topic.send(partition_of(topic, key), key, value, transaction)
    if transaction and kind < 2:
        topic.end(transaction, commit=kind == 1)
    return count


def produce(sim: OfUpsert, number: int) -> None:
    """A few messages more, and retention, unless the topic only compacts."""
    sim.writes_since_commit += send_some(sim.topic, number)
    if "delete" in sim.topic.policy:
        expire_old(sim)
    sim.world.tell("producer: %s", sim.topic.stable_ends())


def lead(sim: OfUpsert, number: int) -> None:
    """Another leader, which has everything, and gets more."""
    sim.topic.lead(number % len(sim.topic.logs))
    if number // 7 % 2:
        send_some(sim.topic, number)


def cut(sim: OfUpsert, number: int) -> None:
    """Another leader, which does not have the newest messages; others come in their place."""
    sim.topic.lead(number % len(sim.topic.logs), 1 + number // 7 % 5)
    if number % 2:
        produce(sim, number)


def grow(sim: OfUpsert, number: int) -> None:
    """A partition more."""
    sim.topic.grow()


def stray(sim: OfUpsert, number: int) -> None:
    """A producer that chooses partitions in another way."""
    key = number % KEYS
    other = (partition_of(sim.topic, key) + 1) % len(sim.topic.logs)
    sim.topic.send(other, key, None if number // 7 % 4 == 0 else number % 100)


def without_key(sim: OfUpsert, number: int) -> None:
    """A message without a key."""
    sim.topic.send(number % len(sim.topic.logs), None, number % 100)


def unreadable(sim: OfUpsert, number: int) -> None:
    """A message whose value cannot be decoded. A newer one of its key mends that."""
    key = number % KEYS
    sim.topic.send(partition_of(sim.topic, key), key, UNREADABLE)


def away(sim: OfUpsert, number: int) -> None:
    """Nobody runs the job for a while, which begins after this turn."""
    sim.sleeps_s += 100.0 + number % 600


def recreate(sim: OfUpsert, number: int) -> None:
    """Another topic under the same name."""
    old = sim.topic
    sim.make_topic(len(old.logs))
    sim.topic.sent = old.sent
    for value in range(number % 40):
        sim.topic.send(partition_of(sim.topic, value % KEYS), value % KEYS, value)


OF_UPSERT: Mapping[str, Callable[[Any, int], None]] = {
    **OF_TOPIC,
    "write": produce,
    "lead": lead,
    "cut": cut,
    "grow": grow,
    "stray": stray,
    "without key": without_key,
    "unreadable": unreadable,
    "away": away,
    "recreate upstream": recreate,
}
UPSERT_EXCUSED_BY: Mapping[str, tuple[str, ...]] = {
    **EXCUSED_BY,
    "grow": ("UPSTREAM_REPLACED", "KEY_NOT_UNIQUE"),
    "stray": ("KEY_NOT_UNIQUE",),
    "without key": ("BAD_MESSAGE",),
}


class OfUpsert(OfTopic):
    """Everything that takes part in it. A row is key, partition, hash, offset and value."""

    by_key = False
    place = (1, 3)
    fixed = 1
    by_name = OF_UPSERT
    excused_by = UPSERT_EXCUSED_BY

    def make_upstream(self, rows: list[Row]) -> None:
        """A topic that forgets by age too cannot be read once more when deletes may be gone."""
        self.sleeps_s = 0.0
        super().make_upstream(rows)

    def run(self) -> None:
        if self.setup.topic == "compact,delete":
            self.excuses.add("HISTORY_GONE")
        super().run()

    def make_topic(self, partitions: int) -> None:
        """As it is set to keep."""
        super().make_topic(partitions)
        self.topic.lag_s, self.topic.tombstones_s = self.setup.lag_s, TOMBSTONES_S
        self.topic.now_s = lambda: self.world.now

    def send_some(self, number: int) -> None:
        send_some(self.topic, number)

    def make_checkers(self) -> Checkers:
        return UpsertCheckers(
            self.query.make(), self.setup.walk, self.rows_at, find=lambda: self.topic, told=self._told,
            prompt=not self.setup.stale,
        )  # fmt: skip

    def rows_at(self, version: Version) -> list[Row] | None:
        """The newest messages of that version; None if the topic is another one now."""
        if not is_of(self.topic, version):
            return None
        found = newest(self.topic, carried(version, "begins"), ends_of(version))
        return [row for row in found.values() if row[-1] is not None]

    def upstream_of(self, path: str) -> Upstream[Frame]:
        """The production upstream."""
        reader = NewestReader(self.world, lambda: self.topic)
        now_s = WorldClock(self.world).now_s
        log = self.log_of(path, reader)
        return UpsertUpstream(log, reader, lambda: self.brokers.set_up("clicks"), now_s=now_s)

    def play(self, number: int) -> None:
        """And perhaps nothing for a while, in which producers and the cleaner of the log go on."""
        super().play(number)
        if not self.sleeps_s:
            return
        for more in range(SENDS_WHILE_AWAY):
            send_some(self.topic, self.script.seed * 1000 + number * 17 + more)
        self.world.now, self.sleeps_s = self.world.now + self.sleeps_s, 0.0
        for partition in range(len(self.topic.logs) if "compact" in self.topic.policy else 0):
            self.topic.compact(partition)

    def mend(self) -> None:
        """A topic that has what cannot be read is made again: nobody can take a message out of a log."""
        wrong = any(
            message.key is None or message.value == UNREADABLE
            for log in self.topic.logs
            for message in log.messages.values()
        )
        if wrong or self._has_strays():
            recreate(self, self.world.effects)

    def _has_strays(self) -> bool:
        homes = {
            (number, message.key) for number, log in enumerate(self.topic.logs) for message in log.messages.values()
        }
        return len({key for _, key in homes}) < len(homes)

    def check_at_rest(self) -> None:
        """And no key has two rows in the topic."""
        super().check_at_rest()
        if live_twice(self.topic):
            raise Violation("I7 loud", "a key has rows in two partitions, and the job is live")
