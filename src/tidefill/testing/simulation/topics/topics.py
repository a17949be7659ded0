"""One history of a replica of a topic: the production runner and the production upstream over a cluster in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tidefill.core.budget import Kept
from tidefill.core.version import Version
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import Resource
from tidefill.jobs.row import Job
from tidefill.kafka.upstream import KafkaUpstream
from tidefill.ports.upstream import Upstream
from tidefill.testing.memory.tables import Frame, Row
from tidefill.testing.memory.topic import (
    Brokers,
    Log,
    Message,
    MessageReader,
    Topic,
    row_of_message,
    row_that_is_kept,
)
from tidefill.testing.memory.world import Violation, WorldClock
from tidefill.testing.simulation.checkers import Checkers
from tidefill.testing.simulation.simulation import NAME, Simulation
from tidefill.testing.simulation.topics.acts import EXCUSED_BY, OF_TOPIC, end_transaction, send_some
from tidefill.testing.simulation.topics.oracle import TopicCheckers, carried, ends_of, is_of, replay
from tidefill.testing.simulation.topics.scripts import LATER_MS

AHEAD_MAX = 60
PARTITIONS_FIRST = 3


class OfTopic(Simulation):
    """Everything that takes part in it."""

    by_key = True
    by_name = OF_TOPIC
    excused_by = EXCUSED_BY

    def make_upstream(self, rows: list[Row]) -> None:
        """The topic, with as many messages as the rows of a table."""
        self.keeps_bad = False
        self.make_topic(1 + self.setup.rows_seed % PARTITIONS_FIRST)
        self.brokers = Brokers(self.world, lambda: self.topic, self._behind)
        for number in range(len(rows) // 3):
            self.send_some(self.setup.rows_seed + number)
        self.topic.sent = max(self.topic.sent, LATER_MS)

    def make_topic(self, partitions: int) -> None:
        """Another topic. The time from which on a history reads is over when it begins."""
        logs = [Log() for _ in range(partitions)]
        self.topic = Topic(self.world.new_uuid(), logs, policy=self.setup.topic, sent=LATER_MS // 2)

    def send_some(self, number: int) -> None:
        """A few messages, before the history begins."""
        send_some(self.topic, number)

    def _behind(self) -> int | None:
        """Not at the first version: what expired after an old leader's answer stops such a job, and RESYNC mends it."""
        stale = self.setup.stale and self.faults_on and self.taken() is not None
        return self.world.effects % 3 if stale else None

    def make_checkers(self) -> Checkers:
        """A replay of the topic."""
        return TopicCheckers(
            self.query.make(), self.setup.walk, self.rows_at, find=lambda: self.topic, told=self._told,
            begin=self.setup.begin,
        )  # fmt: skip

    def _told(self, path: str) -> Iterator[str]:
        job_id = path.split("-")[1]
        return (text for _, text in self.store.events(job_id))

    def rows_at(self, version: Version) -> list[Row] | None:
        """What is left of that version; None if the topic is another one now."""
        known = is_of(self.topic, version)
        return self._left(carried(version, "begins"), ends_of(version)) if known else None

    def _left(self, begins: Mapping[int, int], ends: Mapping[int, int]) -> list[Row]:
        logs = self.topic.logs
        return [row for row in replay(self.topic, begins, ends) if not logs[row[1]].is_gone(row[2])]

    def upstream_rows(self) -> list[Row]:
        """What can be read now."""
        return self._left({}, self.topic.stable_ends().by_partition)

    def taken(self) -> dict[int, int] | None:
        """How far the generation that lives has read the topic; None if it has not begun."""
        job = self.store.rows.get(self.job_id)
        seen = None if job is None else self.checkers.seen.get(self.path(job, job.generation))
        version = None if seen is None else seen.state.versions["t"]
        return ends_of(version) if version is not None and version.identity == self.topic.identity else None

    def upstream_of(self, path: str) -> Upstream[Frame]:
        """The production upstream."""
        return self.log_of(path, MessageReader(self.world, lambda: self.topic, self._row_of))

    def log_of(self, path: str, reader: MessageReader) -> KafkaUpstream[Frame]:
        """The topic, message by message."""
        clock = WorldClock(self.world)
        return KafkaUpstream(
            reader, self.brokers, "clicks", f"group-{path}", begin=self.setup.begin, now_s=clock.now_s,
            ahead_max=AHEAD_MAX,
        )  # fmt: skip

    def _row_of(self, partition: int, offset: int, message: Message) -> Row:
        return (row_that_is_kept if self.keeps_bad else row_of_message)(partition, offset, message)

    def remove(self, job: Job, resource: Resource) -> None:
        """Also a group. With a job that ends, those of all its generations go, as the engine does it."""
        if resource.kind != "group":
            super().remove(job, resource)
            return
        self.world.effect("resource.remove")
        group, groups = resource.name.partition("/")[2], self.brokers.groups
        if job.life in (Life.CANCELLING, Life.DROPPED):
            group = group.rpartition("-")[0]
        self.brokers.groups = {name: at for name, at in groups.items() if not f"{name}-".startswith(f"{group}-")}
        self.world.effect("resource.removed")

    def kept_outside(self) -> Iterable[str]:
        """Groups."""
        return self.brokers.groups

    def kept(self, resource: Resource) -> Kept | None:
        """A topic keeps nothing for a job."""
        return None

    def play(self, number: int) -> None:
        """And nobody reads past a transaction that is open: there would be no answer before it ends."""
        super().play(number)
        seen = self.world.seen
        if seen["read past a transaction"] and not seen["cut"] and not seen["recreate upstream"]:
            raise Violation("I5 progress", "a read goes past a transaction that is open")

    def mend(self) -> None:
        """Bad messages are kept from now on."""
        self.keeps_bad = True

    def let_transactions_end(self) -> None:
        """One of them."""
        if self.world.effects % 2:
            end_transaction(self, self.world.effects)

    def end_writers(self) -> None:
        """All of them."""
        while self.topic.opened:
            end_transaction(self, self.world.effects)

    def check_at_rest(self) -> None:
        """What is published has everything up to the end; that it is right was checked at its commit."""
        found = self.checkers.seen[self.catalog.published[NAME]].state
        version = found.versions["t"]
        if not found.finished() or not is_of(self.topic, version) or version.point != self.topic.stable_ends():
            raise Violation("I5 progress", f"at rest at {version}, and the topic is at {self.topic.stable_ends()}")
