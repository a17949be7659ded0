"""An upstream like a PostgreSQL server: a version is a snapshot, a SET of transactions, readable only inside its head.

The log tells which keys changed, in the order of commit records; a snapshot tells what they are. The two orders differ:
a transaction may be in the log and not yet visible. A slot holds the log; its position may go back when the server
dies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

from tidefill.core.budget import Kept
from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.version import Snapshot, Version, lies_between
from tidefill.core.walk import Coverage, Range, Split, above
from tidefill.errors import HistoryGone, NotYet, Unreadable, UpstreamReplaced
from tidefill.jobs.resources import Resource
from tidefill.ports.frames import Changes
from tidefill.ports.upstream import UpstreamLook
from tidefill.testing.memory import changes as rule
from tidefill.testing.memory.delta import Bend, honest, refuse_duplicates, rows_in, spaced
from tidefill.testing.memory.tables import Frame, Row, WalkOf, Weighted, weighted
from tidefill.testing.memory.world import World

KEYS_AT_HAND_MAX = 2
"""Up to so many keys are told as values too. Small, so that short histories have both."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A commit record: the keys that the transaction changed. TRUNCATE names none."""

    xid: int
    keys: tuple[int, ...]
    truncate: bool = False


@dataclass(slots=True)
class Pending:
    """A transaction that is not visible yet: new rows by key (None: deleted), where the log ended when it began, and
    whether its commit is in the log."""

    rows: dict[int, Row | None]
    since: int
    logged: bool = False


@dataclass(slots=True)
class Slot:
    """The log is kept from `position`; after a crash of the server it may be back at `durable`."""

    position: int
    durable: int


@dataclass(slots=True)
class Head:
    """An open transaction of ours with its snapshot."""

    snapshot: Snapshot
    rows: dict[int, Row]
    locked: bool
    alive: bool = True


@dataclass(slots=True)
class Server:
    """One table on one server."""

    identity: str
    rows: dict[int, Row] = field(default_factory=dict)
    log: list[Logged] = field(default_factory=list)
    pending: dict[int, Pending] = field(default_factory=dict)
    slots: dict[str, Slot] = field(default_factory=dict)
    heads: list[Head] = field(default_factory=list)
    states: dict[Snapshot, dict[int, Row]] = field(default_factory=dict)
    next_xid: int = 100

    def new_xid(self) -> int:
        """The next transaction number."""
        self.next_xid += 1
        return self.next_xid - 1

    def snapshot(self) -> Snapshot:
        """What is visible now."""
        snapshot = Snapshot(min(self.pending, default=self.next_xid), self.next_xid, frozenset(self.pending))
        self.states[snapshot] = self.rows
        return snapshot

    def begin(self, rows: dict[int, Row | None]) -> int:
        """A transaction writes these rows; it holds their locks until it ends."""
        xid = self.new_xid()
        locked = {key for open_ in self.pending.values() for key in open_.rows}
        self.pending[xid] = Pending({key: row for key, row in rows.items() if key not in locked}, len(self.log))
        return xid

    def log_commit(self, xid: int) -> None:
        """The commit record is in the log; others do not see the transaction yet."""
        self.pending[xid].logged = True
        self.log.append(Logged(xid, tuple(self.pending[xid].rows)))

    def show(self, xid: int) -> None:
        """Now they do."""
        rows = dict(self.rows)
        for key, row in self.pending.pop(xid).rows.items():
            if row is None:
                rows.pop(key, None)
            else:
                rows[key] = row
        self.rows = rows

    def move_on(self) -> None:
        """The oldest open transaction makes one move: into the log, or into sight."""
        if self.pending:
            xid, oldest = next(iter(self.pending.items()))
            (self.show if oldest.logged else self.log_commit)(xid)

    def truncate(self) -> None:
        """Needs the table to itself: it waits until open writers have ended, and our head gives way."""
        while self.pending:
            self.move_on()
        self.rewrite()
        xid = self.new_xid()
        self.log.append(Logged(xid, (), truncate=True))
        self.rows = {}

    def rewrite(self) -> None:
        """A rewriting ALTER TABLE. A head that holds a lock is dropped by us, because somebody waits behind it. One
        that does not is shown an empty table."""
        for head in self.heads:
            if head.locked:
                head.alive = False
            else:
                head.rows = {}

    def kept(self, slot: Slot) -> Kept:
        """One for each commit that is logged. Open transactions keep what came after them, whatever a slot says."""
        start = min([slot.position, *(open_.since for open_ in self.pending.values())])
        return Kept(len(self.log) - start, len(self.log) - slot.position)

    def drop_heads(self) -> None:
        """Our connections are cut."""
        for head in self.heads:
            head.alive = False
        self.heads.clear()

    def crash(self) -> None:
        """Connections are gone, open transactions too, and slots may be where they once were."""
        self.drop_heads()
        for xid, open_ in tuple(self.pending.items()):
            if open_.logged:
                self.show(xid)
            else:
                del self.pending[xid]
        for slot in self.slots.values():
            slot.position = slot.durable


class PostgresLike:
    """The table of whatever server `find` gives now, through one slot."""

    lasting = False

    def __init__(
        self,
        world: World,
        find: Callable[[], Server],
        walk_of: WalkOf,
        slot: str,
        *,
        bend: Bend = honest,
        estimate_times: float = 1.0,
    ) -> None:
        self._world = world
        self._find = find
        self._walk_of = walk_of
        self._slot = slot
        self._bend = bend
        self._estimate_times = estimate_times
        self._heads: dict[Snapshot, Head] = {}
        self._wait_for_xid: int | None = None
        self._slot_then = 0
        self._released = 0
        self.resources: tuple[Resource, ...] = (Resource("slot", slot),)

    def prepare(self, released: Version | None) -> None:
        """The slot first, then, once, a transaction number: every transaction that the slot does not tell of is older.
        (A new number each time would wait for ever while there is always somebody writing.)"""
        self._world.effect("upstream.prepare")
        server = self._find()
        if self._slot not in server.slots:
            server.slots[self._slot] = Slot(len(server.log), len(server.log))
        self._world.effect("upstream.prepared")
        if self._wait_for_xid is None:
            self._take_number(server)
        self._released = _safe_position(released) if released is not None else 0

    def _take_number(self, server: Server) -> None:
        slot = server.slots.get(self._slot)
        if slot is None:
            raise HistoryGone("the slot was dropped by somebody else", hint="RESYNC the job.")
        self._wait_for_xid = server.new_xid()
        self._slot_then = slot.position

    def _wait_for_older(self, server: Server, snapshot: Snapshot) -> None:
        """The first version has to see every transaction that the slot does not tell of. If somebody has moved the slot
        since the number was taken, the number is worth nothing."""
        slot = server.slots.get(self._slot)
        if slot is None:
            raise HistoryGone("the slot was dropped by somebody else", hint="RESYNC the job.")
        if slot.position != self._slot_then:
            self._take_number(server)
        if snapshot.xmin <= (self._wait_for_xid or 0):
            raise NotYet(f"waits for transaction {snapshot.xmin}, which was open when the slot was made")

    def newest_from(self, base: str, number: int) -> None:
        """No version of it has a number."""

    @contextmanager
    def open_head(self, *, first: bool) -> Iterator[Version]:
        """Lock, then snapshot, then the end of the log."""
        self._world.effect("upstream.head")
        server = self._find()
        locked = self._lock()
        snapshot = server.snapshot()
        if first:
            self._wait_for_older(server, snapshot)
        head = Head(snapshot, server.rows, locked)
        self._heads = {snapshot: head}
        server.heads.append(head)
        try:
            yield Version(server.identity, snapshot, self._carried(server, snapshot))
        finally:
            head.alive = False
            if head in server.heads:
                server.heads.remove(head)

    def _lock(self) -> bool:
        return True

    def _carried(self, server: Server, snapshot: Snapshot) -> str:
        """How far the log is needed no more once this version is in: up to the first commit that it does not see."""
        slot = server.slots.get(self._slot)
        start, end = (slot.position if slot else len(server.log)), len(server.log)
        unseen = (place for place in range(start, end) if not snapshot.sees(server.log[place].xid))
        return json.dumps({"safe": next(unseen, end), "end": end})

    def readable(self, at: Version) -> bool:
        """Only inside its head."""
        head = self._heads.get(_snapshot(at))
        return head is not None and head.alive

    def look(self, at: Version) -> UpstreamLook:
        """How the table stands to a job at this version."""
        runs_short, kept = self.history_runs_short(at), self.log_kept()
        return UpstreamLook(self.readable(at), runs_short, self.lag_s(at), kept)

    def history_runs_short(self, at: Version) -> bool:
        """The log is kept for as long as it is needed."""
        return False

    def log_kept(self) -> Kept | None:
        """By the slot."""
        slot = self._find().slots.get(self._slot)
        return None if slot is None else self._find().kept(slot)

    def check(self, at: Version) -> None:
        """The same server, and a slot that still holds all that was not taken in."""
        self._world.effect("upstream.check")
        self._held_since(at)

    def _held_since(self, at: Version) -> Slot:
        """The slot, if it still holds all that came after the version."""
        server = self._find()
        if server.identity != at.identity:
            raise UpstreamReplaced("another server answers at this address", hint="RESYNC the job.")
        slot = server.slots.get(self._slot)
        if slot is None or slot.position > max(_safe_position(at), self._released):
            raise HistoryGone("the slot was dropped or advanced by somebody else", hint="RESYNC the job.")
        return slot

    def _transactions(self, after: Version, upto: Version) -> list[Logged]:
        """What the log tells of (after, upto]: by visibility, never by place. The slot is checked with every read: it
        may have been advanced since the last look."""
        old, new = _snapshot(after), _snapshot(upto)
        end = _parsed(upto.carry)["end"]
        told = self._find().log[self._held_since(after).position : end]
        return [logged for logged in told if lies_between(logged.xid, old, new)]

    def lag_s(self, at: Version) -> float:
        """Not known."""
        return 0.0

    def notices(self) -> Sequence[str]:
        """None."""
        return ()

    def on_unreadable(self, at: Version) -> None:
        """`readable` knows."""

    def classify_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By the log; which of the rows were covered is not known."""
        self._world.effect("upstream.changed")
        told = self._transactions(after, upto)
        if any(logged.truncate for logged in told):
            return Changed.ALL
        return Changed.SOME if any(logged.keys for logged in told) else Changed.NOTHING

    def read_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changes[Frame]:
        """Keys from the log, rows from the snapshot."""
        self._world.effect("upstream.changes")
        head = self._heads.get(_snapshot(upto))

        def keys() -> list[int]:
            self._world.effect("upstream.changes.read")
            return list(dict.fromkeys(key for logged in self._transactions(after, upto) for key in logged.keys))

        def rows() -> list[Row]:
            found = [self._rows_of(head).get(key) for key in keys()]
            present = [row for row in found if row is not None]
            return [row for row in present if rule.judge_by_key(self._walk_of(row), coverage)[1]]

        def evaluate() -> list[Weighted]:
            return weighted(keys(), -1) + weighted(rows(), 1)

        told = {key for logged in self._transactions(after, upto) for key in logged.keys}
        few = len(told) <= KEYS_AT_HAND_MAX
        return Changes(evaluate, images=False, keys=tuple(Key((key,)) for key in sorted(told)) if few else None)

    def _rows_of(self, head: Head | None) -> dict[int, Row]:
        if head is None or not head.alive:
            raise Unreadable("the snapshot is gone")
        return head.rows

    def rows(self, ranges: Sequence[Range], at: Version) -> Frame:
        """From the snapshot, while its head is open."""
        self._world.effect("upstream.rows")
        head = self._heads.get(_snapshot(at))

        def evaluate() -> list[Row]:
            found: list[Row] = []
            for wanted in ranges:
                self._world.effect("upstream.rows.read")
                found += rows_in(wanted, list(self._rows_of(head).values()), self._walk_of)
            return found

        return evaluate

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """From statistics."""
        return self._bend(spaced([self._walk_of(row) for row in self._find().rows.values()], split, rows), split)

    def beyond(self, at: Version) -> tuple[Range, ...]:
        """Above the greatest key."""
        return above(self._greatest(at))

    def _greatest(self, at: Version) -> Key | None:
        """In the snapshot."""
        self._world.effect("upstream.greatest")
        rows = self._rows_of(self._heads.get(_snapshot(at)))
        return max(map(self._walk_of, rows.values()), default=None)

    def rows_written(self, after: Version, upto: Version) -> int:
        """The log is read for keys alone, and reads the table again by itself where they are many."""
        return 0

    def row_count(self, at: Version) -> int:
        """About."""
        return self.row_estimate()

    def comparable(self, at: Version) -> None:
        """Everywhere: it forgets no row."""

    def row_estimate(self) -> int:
        """A guess."""
        return int(len(self._find().rows) * self._estimate_times)

    def check_keys(self, at: Version) -> None:
        """The server enforces its primary key; reading it whole shows that the snapshot is there."""
        refuse_duplicates(list(self._rows_of(self._heads.get(_snapshot(at))).values()))

    def release(self, version: Version) -> None:
        """Let the slot go on to the first commit that the version does not see."""
        self._world.effect("upstream.release")
        slot = self._find().slots.get(self._slot)
        safe = _safe_position(version)
        if slot is not None and safe > slot.position:
            slot.durable = slot.position
            slot.position = safe
        self._released = max(self._released, safe)
        self._world.effect("upstream.released")


def _snapshot(version: Version) -> Snapshot:
    assert isinstance(version.point, Snapshot)
    return version.point


def _safe_position(version: Version) -> int:
    return _parsed(version.carry)["safe"]


@lru_cache(maxsize=64)
def _parsed(carry: str) -> dict[str, int]:
    data: dict[str, int] = json.loads(carry)
    return data
