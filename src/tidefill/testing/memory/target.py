"""A target like a Delta table: optimistic, idempotent by transaction number, and a bag.

- The first step makes it.
- An append never looks at keys. An upsert touches every row that matches; two changes for one key are an error. Few
  changes remove every row that has one of their keys and put the new rows there; then the log counts no updates. Now
  and then a small table is overwritten with the rows that are kept in memory, unless somebody reads its changes.
- A step number that was committed is skipped in silence; one that is committed meanwhile is a conflict; an upsert also
  conflicts with any data or layout commit that lands meanwhile.
- Frames are evaluated inside the commit, some of them twice, and anything may happen between.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import assert_never

from tidefill.core.after_commit import AfterCommit
from tidefill.core.confirm import NO_TABLE, Counts, Effect, Entry, Payload, payload_from_json, payload_to_json
from tidefill.core.keys import Key
from tidefill.core.walk import Range
from tidefill.errors import CommitConflict, KeyNotUnique, NameTaken
from tidefill.jobs.resources import Resource
from tidefill.ports.frames import Append, Compared, Merge, Put, Replace, TargetWrite
from tidefill.testing.memory.tables import Bag, Catalog, Frame, Row, Table, add, marked
from tidefill.testing.memory.world import World

KEYS_REPLACED_MAX = 3
"""Up to so many changes replace rows, more are merged. Small, so that short histories have both."""

KEPT_ROWS_MAX = 30
"""Up to so many rows a table is now and then overwritten with what is in memory."""

COMMIT_S = 1.0
ROW_S = 0.1


class MemoryTarget:
    """The table of one generation of one job."""

    def __init__(
        self,
        world: World,
        catalog: Catalog,
        path: str,
        name: str,
        on_commit: Callable[[str, Table, Entry], None] = lambda path, table, entry: None,
        *,
        place: tuple[int, ...] = (),
        fixed: int | None = None,
    ) -> None:
        """`place`: the columns by which a range of a comparison is told, if that is not the key. `fixed`: the column
        that no change of a row may change."""
        self._world = world
        self._catalog = catalog
        self._path = path
        self._name = name
        self._on_commit = on_commit
        self._place = place
        self._fixed = fixed
        self._kept = AfterCommit[Bag]()
        self.resources: tuple[Resource, ...] = (Resource("table", path),)

    def prepare(self) -> None:
        """The first commit makes the table."""
        self._world.effect("target.prepare")

    def log(self, since: int | None = None) -> Sequence[Entry]:
        """What is left of the log."""
        self._world.effect("target.log")
        table = self._catalog.tables.get(self._path)
        found = [] if table is None else table.log()
        self._kept.judge(found)
        return found

    def tidy(self, *, read: bool, vacuum: bool) -> None:
        """There are no files."""
        self._world.effect("target.tidy")

    def commit(self, write: TargetWrite[Frame], payload: Payload) -> None:
        """One atomic commit."""
        self._world.effect("target.commit")
        table = self._table(write, payload)
        read_version = table.version
        if payload.state.step <= table.transactions.get(payload.generation_uuid, 0):
            self._world.seen["replayed step"] += 1
            return
        bag, counts, expected, replaces = self._evaluate(write, table.rows_by_key())
        self._world.effect("target.evaluated")
        if read_version == NO_TABLE:
            self._refuse_another()
            self._catalog.tables[self._path] = table
        self._refuse_conflicts(table, read_version, write, payload)
        carried = _through_json(marked(payload, expected) if expected else payload)
        before = table.rows_by_key()
        after = _appended(before, bag) if isinstance(write, Append) else bag
        table.transactions[payload.generation_uuid] = payload.state.step
        changed = _difference(before, after)
        entry = table.commit(after, changed, Effect.WRITE, carried, counts, replaces=replaces)
        self._world.now += COMMIT_S + ROW_S * (counts.inserted + counts.updated + counts.deleted)
        self._on_commit(self._path, table, entry)
        self._world.effect("target.committed")
        self._kept.keep(payload.commit_uuid, after)

    def _table(self, write: TargetWrite[Frame], payload: Payload) -> Table:
        """The table; or one that is not there before it is committed to. A Merge needs one that is there."""
        if payload.planned_on != NO_TABLE:
            return self._catalog.at(self._path)
        if not isinstance(write, Merge):
            self._refuse_another()
            return Table(self._path, [], [], [])
        self._catalog.tables.setdefault(self._path, Table(self._path))
        self._world.effect("target.made")
        return self._catalog.at(self._path)

    def _refuse_another(self) -> None:
        if self._path in self._catalog.tables:
            raise CommitConflict(f"{self._path} was made meanwhile")

    def _evaluate(self, write: TargetWrite[Frame], before: Bag) -> tuple[Bag, Counts, Counts | None, bool]:
        """The rows to write, what the log will count, what the marks promise, and whether keys are replaced."""
        match write:
            case Replace(frame, read=True):
                changes = _changes(before, self._compute(frame))
                marks = Counter(mark for mark, _, _ in changes)
                return *_upsert(before, changes), Counts(marks["I"], marks["U"], marks["D"]), False
            case Append(frame) | Replace(frame):
                rows = self._compute(frame)
                bag: Bag = {}
                for row in rows:
                    add(bag, row)
                return bag, Counts(inserted=len(rows)), None, False
            case Merge(frame, exact):
                changes = self._compute(frame)
                if write.fresh:
                    return _without_a_look(before, changes)
                self._refuse_moved(before, changes)
                rows_after = (
                    self._from_memory(changes) if exact and not write.read and self._world.effects % 2 else None
                )
                if rows_after is not None:
                    self._world.seen["overwritten from memory"] += 1
                    counts = Counts(inserted=len(rows_after))
                    return rows_after, counts, counts, False
                marks = Counter(mark for mark, _, _ in changes)
                expected = Counts(marks["I"], marks["U"], marks["D"]) if exact else None
                replaces = 0 < len(changes) <= KEYS_REPLACED_MAX
                return *(_replaced if replaces else _upsert)(before, changes), expected, replaces
            case Put(keys, frame):
                there = {row[0]: row for row in self._compute(frame)}
                named = [key.values[0] for key in keys]
                assert there.keys() <= set(named), "a row has a key that is not named"
                changes = [("U" if key in there else "D", key, there.get(key)) for key in named]
                return *_replaced(before, changes), None, bool(named)
            case never:
                assert_never(never)

    def _refuse_moved(self, before: Bag, changes: list[Row]) -> None:
        """KeyNotUnique if a row with the key of a change is another row of that key."""
        fixed = self._fixed
        if fixed is None:
            return
        for _, key, row in changes:
            homes = {there[fixed] for there in before.get(key, ())}
            if homes - {row[fixed]}:
                raise KeyNotUnique(f"the key {key!r} is there in two partitions")

    def _from_memory(self, changes: list[Row]) -> Bag | None:
        """All rows after the changes, by those in memory; None if these are not known, not few, or say something else
        than the marks."""
        kept = self._kept.known()
        if kept is None or len(kept) > KEPT_ROWS_MAX or any(len(rows) > 1 for rows in kept.values()):
            return None
        if not changes or any((mark == "I") == (key in kept) for mark, key, _ in changes):
            return None
        return _replaced(kept, changes)[0]

    def _compute(self, frame: Frame) -> list[Row]:
        """Evaluate as an engine does: late, and now and then again."""
        if self._world.effects % 3 == 0:
            frame()
        return frame()

    def _refuse_conflicts(self, table: Table, read: int, write: TargetWrite[Frame], payload: Payload) -> None:
        for entry in table.entries[read + 1 :]:
            same_writer = entry.payload is not None and entry.payload.generation_uuid == payload.generation_uuid
            if same_writer or not isinstance(write, Append):
                raise CommitConflict(f"version {entry.version} of {self._path} was committed meanwhile")

    def compare(
        self, expected: Frame, version: int, but: Frame | None = None, within: Sequence[Range] | None = None
    ) -> Compared:
        """Rows that one side has and the other has not."""
        self._world.effect("target.compare")
        bag = self._catalog.at(self._path).snapshots[version]
        keys = {key for weight, key in but() if weight < 0} if but is not None else set()
        if within is not None:
            bag = {key: tuple(row for row in rows if self._is_in(within, key, row)) for key, rows in bag.items()}
        wanted = Counter(row for row in expected() if row[0] not in keys)
        found = Counter(row for key, rows in bag.items() for row in rows if key not in keys)
        missing = [f"missing {row}" for row in (wanted - found).elements()]
        extra = [f"extra {row}" for row in (found - wanted).elements()]
        return Compared(wanted.total(), tuple((missing + extra)[:10]))

    def check_keys(self) -> None:
        """Of a table with a fixed column."""
        bag = self._catalog.at(self._path).rows_by_key() if self._fixed is not None else {}
        twice = [key for key, rows in bag.items() if len(rows) > 1]
        if twice:
            raise KeyNotUnique("a key has several rows", detail=f"e.g. {twice[:10]}")

    def _is_in(self, within: Sequence[Range], key: object, row: Row) -> bool:
        whole = Key(key if isinstance(key, tuple) else (key,))
        place = Key(tuple(row[column] for column in self._place)) if self._place else whole
        return any(part.holds(place) for part in within)

    def check_name(self) -> None:
        """NameTaken if a stranger has the name."""
        if self._name in self._catalog.strangers:
            raise NameTaken(f"{self._name} is the name of something else")

    def publish(self) -> None:
        """Show this table under the name."""
        self._world.effect("target.publish")
        self.check_name()
        self._catalog.published[self._name] = self._path


def _through_json(payload: Payload) -> Payload:
    return payload_from_json(json.loads(json.dumps(payload_to_json(payload))))


def _without_a_look(before: Bag, changes: list[tuple[str, object, Row | None]]) -> tuple[Bag, Counts, Counts, bool]:
    """New rows are appended, whatever is there."""
    after = dict(before)
    for _, _, row in changes:
        assert row is not None, "nothing goes"
        add(after, row)
    counts = Counts(inserted=len(changes))
    return after, counts, counts, False


def _changes(before: Bag, rows: list[Row]) -> list[tuple[str, object, Row | None]]:
    """By which changes these rows come to be all there are."""
    there = {row[0]: row for row in rows}
    if len(there) < len(rows):
        raise KeyNotUnique("the query gives several rows of one key")
    gone: list[tuple[str, object, Row | None]] = [("D", key, None) for key in before if key not in there]
    come = [("U" if key in before else "I", key, row) for key, row in there.items() if before.get(key) != (row,)]
    return [*gone, *come]


def _upsert(before: Bag, changes: list[tuple[str, object, Row | None]]) -> tuple[Bag, Counts]:
    after = dict(before)
    inserted = updated = deleted = 0
    seen: set[object] = set()
    for mark, key, row in changes:
        if key in seen:
            raise KeyNotUnique(f"two changes of the key {key!r} in one MERGE")
        seen.add(key)
        matched = after.get(key, ())
        if mark == "D":
            deleted += len(matched)
            after.pop(key, None)
        elif matched:
            assert row is not None
            updated += len(matched)
            after[key] = (row,) * len(matched)
        else:
            assert row is not None
            inserted += 1
            after[key] = (row,)
    return after, Counts(inserted, updated, deleted)


def _replaced(before: Bag, changes: list[tuple[str, object, Row | None]]) -> tuple[Bag, Counts]:
    """Every row with one of the keys goes, then the new rows come."""
    keys = [key for _, key, _ in changes]
    if len(set(keys)) < len(keys):
        raise KeyNotUnique("several changes of one key in one step")
    after = {key: rows for key, rows in before.items() if key not in keys}
    new = [row for mark, _, row in changes if mark != "D" and row is not None]
    for row in new:
        add(after, row)
    return after, Counts(inserted=len(new), deleted=sum(len(before.get(key, ())) for key in keys))


def _appended(before: Bag, rows: Bag) -> Bag:
    after = dict(before)
    for key, added in rows.items():
        after[key] = (*after.get(key, ()), *added)
    return after


def _difference(before: Bag, after: Bag) -> list[tuple[int, Row]]:
    changes: list[tuple[int, Row]] = []
    for key in before.keys() | after.keys():
        old, new = before.get(key, ()), after.get(key, ())
        if old != new:
            changes += [(-1, row) for row in old]
            changes += [(1, row) for row in new]
    return changes
