"""An upstream like a Delta table: numbered versions that stay readable until they are vacuumed, both images of a
change.

It does what the real one does to the unwary: a polled head may be old, a feed asked beyond the head is cut in silence,
a table that was recreated under the same name answers with its own rows, and lost files show only when they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from tidefill.core.keys import Key
from tidefill.core.look import Changed
from tidefill.core.version import Number, Version, bases_of_all
from tidefill.core.walk import Coverage, Range, Split, above, rest
from tidefill.errors import HistoryGone, KeyNotUnique, NotYet, Unreadable, UpstreamReplaced
from tidefill.jobs.resources import Resource
from tidefill.ports.frames import Changes
from tidefill.ports.upstream import UpstreamLook
from tidefill.testing.memory import changes as rule
from tidefill.testing.memory.tables import Frame, Row, Table, WalkOf, Weighted, weighted
from tidefill.testing.memory.world import World

EVERYTHING = Range(None, None)
Bend = Callable[[list[Key], Split], list[Key]]


def honest(bounds: list[Key], split: Split) -> list[Key]:
    """Offer the bounds as they are."""
    return bounds


def number_of(version: Version) -> int:
    """The Delta version."""
    assert isinstance(version.point, Number)
    return version.point.number


def spaced(keys: list[Key], split: Split, rows: int) -> list[Key]:
    """Every `rows`-th of the keys that are left in the split, except the last: behind it there is nothing to cut
    off."""
    left = rest(split)
    if left is None:
        return []
    inside = sorted(key for key in keys if left.holds(key))
    return inside[rows - 1 : -1 : rows]


def rows_in(wanted: Range, rows: list[Row], walk_of: WalkOf) -> list[Row]:
    """Those of the rows whose place is in the range."""
    if wanted == EVERYTHING:
        return rows
    return [row for row in rows if wanted.holds(walk_of(row))]


def refuse_duplicates(rows: list[Row]) -> None:
    """KeyNotUnique if a key is NULL or is there twice."""
    twice = [key for key, count in Counter(row[0] for row in rows).items() if count > 1 or key is None]
    if twice:
        raise KeyNotUnique("the key is not unique", detail=f"e.g. {sorted(twice, key=repr)[:10]}")


class DeltaLike:
    """Reads whatever table `find` gives under the name now."""

    lasting = True
    resources: tuple[Resource, ...] = ()

    def __init__(
        self,
        world: World,
        find: Callable[[], Table | None],
        walk_of: WalkOf,
        *,
        behind: Callable[[], int] = lambda: 0,
        bend: Bend = honest,
        estimate_times: float = 1.0,
    ) -> None:
        self._world = world
        self._find = find
        self._walk_of = walk_of
        self._behind = behind
        self._bend = bend
        self._estimate_times = estimate_times
        self._judged_last: tuple[object, tuple[list[Row], list[Row]]] | None = None

    def _table(self) -> Table:
        table = self._find()
        if table is None:
            raise NotYet("the input is not live yet")
        return table

    def prepare(self, released: Version | None) -> None:
        """Nothing is needed."""

    @contextmanager
    def open_head(self, *, first: bool) -> Iterator[Version]:
        """The newest version, or one polled a moment ago."""
        self._world.effect("upstream.head")
        table = self._table()
        behind = 0 if first else self._behind()
        yield self._version(table, max(0, table.version - behind))

    def _version(self, table: Table, number: int) -> Version:
        told = [entry.payload for entry in table.entries[: number + 1] if entry.payload is not None]
        bases = bases_of_all(told[-1].state.versions.values()) if told else {}
        return Version(table.identity, Number(number), bases=bases)

    def newest_from(self, base: str, number: int) -> Version | None:
        """By what its commits carry, as far as its log goes back."""
        self._world.effect("upstream.before")
        table = self._table()
        if base == table.identity:
            return Version(base, Number(number))
        known = (self._version(table, at) for at in range(table.version, table.log_from - 1, -1))
        return next((version for version in known if version.bases.get(base, number + 1) <= number), None)

    def readable(self, at: Version) -> bool:
        """Until it is vacuumed."""
        return number_of(at) >= self._table().readable_from

    def look(self, at: Version) -> UpstreamLook:
        """How the table stands to a job at this version."""
        runs_short, lag_s = self.history_runs_short(at), self.lag_s(at)
        return UpstreamLook(self.readable(at), runs_short, lag_s)

    def history_runs_short(self, at: Version) -> bool:
        """Changes since then have begun to age."""
        table = self._table()
        return table.changes_from > 0 and table.version - number_of(at) > 4

    def check(self, at: Version) -> None:
        """The same table, with the changes since then."""
        self._world.effect("upstream.check")
        table = self._table()
        if table.identity != at.identity:
            raise UpstreamReplaced("the upstream is another table now", hint="RESYNC the job.")
        if number_of(at) < min(table.changes_from, table.version):
            raise HistoryGone("changes that were not taken in yet are gone", hint="RESYNC the job.")

    def lag_s(self, at: Version) -> float:
        """Not known."""
        return 0.0

    def notices(self) -> Sequence[str]:
        """None."""
        return ()

    def on_unreadable(self, at: Version) -> None:
        """`readable` knows."""

    def classify_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changed:
        """By the feed."""
        self._world.effect("upstream.changed")
        removed, added = self._judged(self._table(), after, upto, coverage)
        return Changed.SOME if removed or added else Changed.NOTHING

    def rows_written(self, after: Version, upto: Version) -> int:
        """By the feed."""
        return sum(map(len, self._table().feed[number_of(after) + 1 : number_of(upto) + 1]))

    def row_count(self, at: Version) -> int:
        """By the snapshot."""
        return sum(map(len, self._table().snapshots[min(number_of(at), self._table().version)].values()))

    def read_changes(self, after: Version, upto: Version, coverage: Coverage) -> Changes[Frame]:
        """Both images, judged one by one."""
        self._world.effect("upstream.changes")
        table = self._table()

        def evaluate() -> list[Weighted]:
            self._world.effect("upstream.changes.read")
            if number_of(after) < table.changes_from:
                raise HistoryGone("the change feed was vacuumed")
            removed, added = self._judged(table, after, upto, coverage)
            return weighted(removed, -1) + weighted(added, 1)

        return Changes(evaluate, images=True)

    def _judged(self, table: Table, after: Version, upto: Version, coverage: Coverage) -> tuple[list[Row], list[Row]]:
        asked = (table.identity, after.point, upto.point, coverage)
        if self._judged_last is not None and self._judged_last[0] == asked:
            return self._judged_last[1]
        feed = (change for part in table.feed[number_of(after) + 1 : number_of(upto) + 1] for change in part)
        removed, added = [], []
        for old, new in rule.net(feed, lambda row: row[0]).values():
            goes, comes = rule.judge(
                None if old is None else self._walk_of(old), None if new is None else self._walk_of(new), coverage
            )
            if goes and old is not None:
                removed.append(old)
            if comes and new is not None:
                added.append(new)
        self._judged_last = (asked, (removed, added))
        return removed, added

    def rows(self, ranges: Sequence[Range], at: Version) -> Frame:
        """Time travel; range by range, and anything may happen between two of them."""
        self._world.effect("upstream.rows")
        table, number = self._table(), number_of(at)

        def evaluate() -> list[Row]:
            found: list[Row] = []
            for wanted in ranges:
                self._world.effect("upstream.rows.read")
                if number < table.readable_from:
                    raise Unreadable(f"files of version {number} are gone")
                bag = table.snapshots[min(number, table.version)]
                found += rows_in(wanted, [row for rows in bag.values() for row in rows], self._walk_of)
            return found

        return evaluate

    def bounds(self, split: Split, rows: int, at: Version) -> Sequence[Key]:
        """As the world's mood is: honest, or not."""
        bag = self._table().snapshots[min(number_of(at), self._table().version)]
        keys = [self._walk_of(row) for found in bag.values() for row in found]
        return self._bend(spaced(keys, split, rows), split)

    def beyond(self, at: Version) -> tuple[Range, ...]:
        """Above the greatest key."""
        return above(self._greatest(at))

    def _greatest(self, at: Version) -> Key | None:
        """At that version."""
        self._world.effect("upstream.greatest")
        bag = self._table().snapshots[number_of(at)]
        return max((self._walk_of(row) for rows in bag.values() for row in rows), default=None)

    def comparable(self, at: Version) -> None:
        """Everywhere: it forgets no row."""

    def row_estimate(self) -> int:
        """A guess."""
        return int(len(self._table().snapshots[-1]) * self._estimate_times)

    def check_keys(self, at: Version) -> None:
        """Whole."""
        bag = self._table().snapshots[number_of(at)]
        refuse_duplicates([row for rows in bag.values() for row in rows])

    def release(self, version: Version) -> None:
        """Nothing is held."""
