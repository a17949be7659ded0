"""The memory adapters, put before the conformance suites.

A stored row of an upstream begins with its key as one value, because that is where the memory tables look for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import SkipTest

from tidefill.core.confirm import Effect
from tidefill.core.keys import Key
from tidefill.kafka.upstream import KafkaUpstream
from tidefill.ports.upstream import Upstream
from tidefill.testing.conformance.target.harness import Marked, TargetCan
from tidefill.testing.conformance.upstream.harness import Can, KeyValues, Layout, Row, Write
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.postgres import PostgresLike, Server
from tidefill.testing.memory.tables import Bag, Catalog, Frame, Table, add, sides, weighted, with_changes
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.topic import Brokers, MessageReader, Topic
from tidefill.testing.memory.world import World

NAME = "job"
PARTITIONS_MAX = 50


class _Stored:
    """What both kinds of upstream share: how a row is stored, and how a frame is evaluated."""

    def __init__(self) -> None:
        self._world = World()
        self._layout: Layout | None = None

    def _key(self, row: Row) -> Any:
        assert self._layout is not None, "create the table first"
        key = self._layout.key_of(row)
        return key[0] if len(key) == 1 else key

    def _stored(self, row: Row) -> Row:
        return (self._key(row), *row)

    def _walk_of(self, stored: Row) -> Key:
        assert self._layout is not None, "create the table first"
        return self._layout.walk_of(stored[1:])

    def collect(self, frame: Frame) -> list[Row]:
        """Evaluate."""
        return [stored[1:] for stored in frame()]

    def sides(self, changes: Frame) -> tuple[Frame, Frame]:
        """By weight."""
        return sides(changes)

    def collect_keys(self, frame: Frame) -> list[KeyValues]:
        """Evaluate."""
        assert self._layout is not None, "create the table first"
        return [(key,) if len(self._layout.key) == 1 else key for key in frame()]


class DeltaHarness(_Stored):
    """`DeltaLike` and its table."""

    capabilities = frozenset({Can.HOLD_DUPLICATES, Can.LOSE_HISTORY})

    def __init__(self) -> None:
        super().__init__()
        self._table = Table(self._world.new_uuid())

    def create(self, layout: Layout, rows: Sequence[Row]) -> None:
        """A table of another identity, with as many versions as the one before, so that only that tells them apart."""
        versions = self._table.version
        self._layout = layout
        self._table = Table(self._world.new_uuid())
        self.write([(None, row) for row in rows])
        while self._table.version < versions:
            self.stir()

    def upstream(self) -> Upstream[Frame]:
        """A new reader."""
        return DeltaLike(self._world, lambda: self._table, self._walk_of)

    def write(self, changes: Sequence[Write]) -> None:
        """One version."""
        feed = [(-1, self._stored(old)) for old, _ in changes if old is not None]
        feed += [(1, self._stored(new)) for _, new in changes if new is not None]
        self._table.commit(with_changes(self._table.snapshots[-1], feed), feed, Effect.FOREIGN)

    def stir(self) -> None:
        """OPTIMIZE."""
        self._table.commit(self._table.snapshots[-1], [], Effect.NONE)

    def truncate(self) -> None:
        """It has none: all rows are deleted like others, and the feed tells it."""
        raise NotImplementedError

    def lose_history(self) -> None:
        """VACUUM."""
        self._table.vacuum(0, changes_too=True)


class PostgresHarness(_Stored):
    """`PostgresLike` and its server."""

    capabilities = frozenset({Can.TRUNCATE, Can.LOSE_HISTORY})

    def create(self, layout: Layout, rows: Sequence[Row]) -> None:
        """A table of another identity."""
        self._layout = layout
        self._server = Server(self._world.new_uuid(), {self._key(row): self._stored(row) for row in rows})

    def upstream(self) -> Upstream[Frame]:
        """A new reader of the one slot."""
        return PostgresLike(self._world, lambda: self._server, self._walk_of, "slot")

    def write(self, changes: Sequence[Write]) -> None:
        """One transaction."""
        rows: dict[Any, Row | None] = {self._key(old): None for old, _ in changes if old is not None}
        rows.update({self._key(new): self._stored(new) for _, new in changes if new is not None})
        self._commit(rows)

    def _commit(self, rows: dict[Any, Row | None]) -> None:
        xid = self._server.begin(rows)
        self._server.log_commit(xid)
        self._server.show(xid)

    def stir(self) -> None:
        """A transaction on another table."""
        self._commit({})

    def truncate(self) -> None:
        """TRUNCATE."""
        self._server.truncate()

    def lose_history(self) -> None:
        """Somebody advances the slot."""
        for slot in self._server.slots.values():
            slot.position = len(self._server.log)


class TopicHarness:
    """The production upstream over a topic in memory. A row is a message whose value it is; the columns that the table
    is walked by are its partition and its offset. Messages never change, and come at the end of a partition."""

    capabilities = frozenset({Can.LOSE_HISTORY})

    def __init__(self) -> None:
        self._world = World()
        self._layout: Layout | None = None
        self._topic = Topic(self._world.new_uuid(), [])

    def create(self, layout: Layout, rows: Sequence[Row]) -> None:
        """Another topic; each partition begins with its first row."""
        self._layout = layout
        self._topic = Topic(self._world.new_uuid(), [])
        places = sorted((self._place(row), row) for row in rows)
        for (partition, offset), row in places:
            self._send(partition, offset, row, first=True)

    def _place(self, row: Row) -> tuple[int, int]:
        assert self._layout is not None, "create the topic first"
        match self._layout.walk_of(row).values:
            case (int(partition), int(offset)) if 0 <= partition < PARTITIONS_MAX and offset >= 0:
                return partition, offset
        raise SkipTest("a message has a partition and an offset")

    def _send(self, partition: int, offset: int, row: Row, *, first: bool = False) -> None:
        while partition >= len(self._topic.logs):
            self._topic.grow()
        log = self._topic.logs[partition]
        if first and log.high == 0:
            log.earliest = log.high = offset
        if offset < log.high:
            raise SkipTest("messages come at the end of a partition")
        while log.high < offset:
            log.append(None)
        self._topic.send(partition, None, row)

    def upstream(self) -> Upstream[Frame]:
        """A new reader."""
        reader = MessageReader(self._world, lambda: self._topic, lambda partition, offset, message: message.value)
        return KafkaUpstream(reader, Brokers(self._world, lambda: self._topic), "t", "group", now_s=lambda: 0.0)

    def write(self, changes: Sequence[Write]) -> None:
        """Messages."""
        if any(old is not None for old, _ in changes):
            raise SkipTest("a message never changes")
        for (partition, offset), row in sorted((self._place(new), new) for _, new in changes if new is not None):
            self._send(partition, offset, row)

    def stir(self) -> None:
        """Another leader."""
        for number in range(len(self._topic.logs)):
            self._topic.lead(number)

    def collect(self, frame: Frame) -> list[Row]:
        """Evaluate."""
        return frame()

    def sides(self, changes: Frame) -> tuple[Frame, Frame]:
        """By weight."""
        return sides(changes)

    def collect_keys(self, frame: Frame) -> list[KeyValues]:
        """It has both images."""
        raise NotImplementedError

    def truncate(self) -> None:
        """There is none."""
        raise NotImplementedError

    def lose_history(self) -> None:
        """All messages expire."""
        for number, log in enumerate(self._topic.logs):
            self._topic.expire(number, log.high)


class MemoryTargetHarness:
    """`MemoryTarget` and its catalog."""

    capabilities = frozenset(TargetCan)

    def __init__(self) -> None:
        self._world = World()
        self._catalog = Catalog()

    def target(self, generation: int = 1) -> MemoryTarget:
        """A new handle."""
        return MemoryTarget(self._world, self._catalog, _path(generation), NAME)

    def frame(self, rows: Sequence[Row]) -> Frame:
        """The rows."""
        return lambda: list(rows)

    def marked(self, changes: Sequence[Marked]) -> Frame:
        """The changes."""
        return lambda: list(changes)

    def keys(self, ids: Sequence[int]) -> Frame:
        """Changes."""
        return lambda: weighted(ids, -1)

    def failing(self) -> Frame:
        """A computation that cannot be done."""

        def evaluate() -> list[Row]:
            raise ZeroDivisionError

        return evaluate

    def meanwhile(self, frame: Frame, act: Callable[[], None]) -> Frame:
        """The first evaluation is interrupted."""
        acts = [act]

        def evaluate() -> list[Any]:
            if acts:
                acts.pop()()
            return frame()

        return evaluate

    def rows(self, generation: int = 1) -> list[Row]:
        """What the table holds."""
        return self._table(generation).rows()

    def shown(self) -> list[Row] | None:
        """What is published."""
        path = self._catalog.published.get(NAME)
        return None if path is None else self._catalog.at(path).rows()

    def _table(self, generation: int = 1) -> Table:
        return self._catalog.at(_path(generation))

    def foreign_append(self, rows: Sequence[Row]) -> None:
        """A stranger's commit."""
        table = self._catalog.tables.setdefault(_path(1), Table(_path(1)))
        bag = dict(table.snapshots[-1])
        for row in rows:
            add(bag, row)
        table.commit(bag, [], Effect.FOREIGN)

    def foreign_delete(self, ids: Sequence[int]) -> None:
        """A stranger's commit."""
        table = self._table()
        bag: Bag = {key: rows for key, rows in table.snapshots[-1].items() if key not in ids}
        table.commit(bag, [], Effect.FOREIGN)

    def restore(self, version: int) -> None:
        """A stranger's commit."""
        table = self._table()
        table.commit(table.snapshots[version], [], Effect.FOREIGN)

    def optimize(self) -> None:
        """A commit that leaves the data alone."""
        table = self._table()
        table.commit(table.snapshots[-1], [], Effect.NONE)

    def clean_log(self, keep: int) -> None:
        """Forget older entries."""
        self._table().clean_log(keep)

    def remove(self) -> None:
        """Remove the table."""
        for resource in self.target().resources:
            self._catalog.tables.pop(resource.name, None)


def _path(generation: int) -> str:
    return f"{NAME}-{generation}"
