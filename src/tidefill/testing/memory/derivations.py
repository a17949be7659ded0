"""Queries for the simulator, one of each kind that a plan treats differently.

Each has a `derive`, which states the query over whole inputs in the plainest way; the oracle uses only that.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidefill.core.state import Occurrence
from tidefill.core.step import Shape
from tidefill.ports.frames import Changes, Judged, Merge, Put
from tidefill.testing.memory.tables import GROUP, ID, REF, VALUE, Frame, Row, sides, weighted

Marked: TypeAlias = tuple[str, Any, Row | None]


def nothing() -> list[Any]:
    """A frame without rows."""
    return []


class _Common:
    def whole(self, rows: Mapping[Occurrence, Frame]) -> Frame:
        """The query; each kind has its own."""
        raise NotImplementedError

    def judged(self, rows: Mapping[Occurrence, Frame]) -> AbstractContextManager[Judged[Frame]]:
        """There is no text but the query itself."""
        return nullcontext(Judged(self.whole(rows)))

    def nothing(self) -> Frame:
        """A frame without rows."""
        return nothing

    def with_chunk(self, changes: Changes[Frame] | None, chunk: Frame) -> Changes[Frame]:
        """The chunk's rows among those that came."""
        if changes is None:
            return Changes(lambda: weighted(chunk(), 1), images=True, is_chunk=True)
        rows = changes.rows
        return Changes(lambda: rows() + weighted(chunk(), 1), changes.images, fresh=changes.fresh, net=changes.net)


class RowByRow(_Common):
    """One output row for each input row, or none: a replica, a projection, a filter."""

    def __init__(self, derive_row: Callable[[Row], Row | None]) -> None:
        self._derive_row = derive_row
        self.shape = Shape(tables={"t": "t"}, walked=("t",))

    def derive(self, inputs: Mapping[Occurrence, Iterable[Row]]) -> list[Row]:
        """The query."""
        return [out for row in inputs["t"] if (out := self._derive_row(row)) is not None]

    def append(self, rows: Mapping[Occurrence, Frame], whole: Mapping[Occurrence, Frame]) -> Frame:
        """Row by row."""
        return self.whole(rows)

    def whole(self, rows: Mapping[Occurrence, Frame]) -> Frame:
        """Row by row."""
        frame = rows["t"]
        return lambda: self.derive({"t": frame()})

    def changes(
        self, changes: Mapping[Occurrence, Changes[Frame]], new: Mapping[Occurrence, Frame]
    ) -> Merge[Frame] | Put[Frame]:
        """Both images give exact marks; keys alone do not."""
        change = changes["t"]
        if change.keys is not None:
            _, came = sides(change.rows)
            return Put(change.keys, lambda: self.derive({"t": came()}))
        if change.net:
            return Merge(lambda: [("U" if w > 0 else "D", row[0], row) for w, row in change.rows()], exact=False)
        marked = self._by_image(change) if change.images else self._by_key(change)
        return Merge(marked, exact=change.images, fresh=change.fresh)

    def _by_image(self, change: Changes[Frame]) -> Frame:
        def evaluate() -> list[Marked]:
            rows = change.rows()
            old = {row[0]: row for row in self.derive({"t": [row for weight, row in rows if weight < 0]})}
            new = self.derive({"t": [row for weight, row in rows if weight > 0]})
            upserts: list[Marked] = []
            for row in new:
                before = old.pop(row[0], None)
                if before != row:
                    upserts.append(("I" if before is None else "U", row[0], row))
            return upserts + [("D", key, None) for key in old]

        return evaluate

    def _by_key(self, change: Changes[Frame]) -> Frame:
        def evaluate() -> list[Marked]:
            rows = change.rows()
            now = self.derive({"t": [row for weight, row in rows if weight > 0]})
            upserts: list[Marked] = [("U", row[0], row) for row in now]
            kept = {key for _, key, _ in upserts}
            return upserts + [("D", key, None) for weight, key in rows if weight < 0 and key not in kept]

        return evaluate


def recomputed(affected: Iterable[Any], outputs: Iterable[Row]) -> list[Marked]:
    """The affected keys, each with what it is now."""
    now = {row[0]: row for row in outputs}
    return [("U", key, now[key]) if key in now else ("D", key, None) for key in affected]


class Grouped(_Common):
    """Count and sum by group. Walked along the group, no chunk cuts one and a fill is an append; walked otherwise,
    groups grow with every chunk and a fill is a MERGE."""

    def __init__(self, *, along_group: bool) -> None:
        self.shape = Shape(tables={"t": "t"}, walked=("t",), appends=along_group, group_columns=1 if along_group else 0)

    def derive(self, inputs: Mapping[Occurrence, Iterable[Row]]) -> list[Row]:
        """The query."""
        groups: dict[Any, list[int]] = {}
        for row in inputs["t"]:
            group = groups.setdefault(row[GROUP], [0, 0])
            group[0] += 1
            group[1] += row[VALUE]
        return [(key, count, total) for key, (count, total) in groups.items()]

    def append(self, rows: Mapping[Occurrence, Frame], whole: Mapping[Occurrence, Frame]) -> Frame:
        """Whole groups only."""
        return self.whole(rows)

    def whole(self, rows: Mapping[Occurrence, Frame]) -> Frame:
        """The query."""
        frame = rows["t"]
        return lambda: self.derive({"t": frame()})

    def changes(self, changes: Mapping[Occurrence, Changes[Frame]], new: Mapping[Occurrence, Frame]) -> Merge[Frame]:
        """Affected groups, recomputed from what is covered now."""
        change, now = changes["t"], new["t"]

        def evaluate() -> list[Marked]:
            affected = dict.fromkeys(row[GROUP] for _, row in change.rows())
            return recomputed(affected, self.derive({"t": [row for row in now() if row[GROUP] in affected]}))

        return Merge(evaluate, exact=False)


class _Pair(_Common, ABC):
    """Of `a`, which is walked, and `b`, which is taken whole."""

    @abstractmethod
    def derive(self, inputs: Mapping[Occurrence, Iterable[Row]]) -> list[Row]:
        """The query."""

    def append(self, rows: Mapping[Occurrence, Frame], whole: Mapping[Occurrence, Frame]) -> Frame:
        """The chunk of `a` with all of `b`."""
        return self.whole({**rows, **whole})

    def whole(self, rows: Mapping[Occurrence, Frame]) -> Frame:
        """The query."""
        a, b = rows["a"], rows["b"]
        return lambda: self.derive({"a": a(), "b": b()})


class SelfJoin(_Pair):
    """Each row of `a` with the row of `b` that it refers to; both are the table t. `a` is walked, `b` is taken
    whole."""

    shape = Shape(tables={"a": "t", "b": "t"}, walked=("a",))

    def derive(self, inputs: Mapping[Occurrence, Iterable[Row]]) -> list[Row]:
        """The query."""
        values = {row[ID]: row[VALUE] for row in inputs["b"]}
        return [(row[ID], row[VALUE], values[row[REF]]) for row in inputs["a"] if row[REF] in values]

    def changes(self, changes: Mapping[Occurrence, Changes[Frame]], new: Mapping[Occurrence, Frame]) -> Merge[Frame]:
        """Changed rows of `a`, and those that refer to changed rows of `b`."""
        a, b = (changes[name].rows if name in changes else nothing for name in ("a", "b"))
        new_a, new_b = new["a"], new["b"]

        def evaluate() -> list[Marked]:
            changed = {row[ID] for _, row in b()}
            rows = new_a()
            affected = dict.fromkeys(row[ID] for _, row in a())
            affected.update(dict.fromkeys(row[ID] for row in rows if row[REF] in changed))
            now = [row for row in rows if row[ID] in affected]
            return recomputed(affected, self.derive({"a": now, "b": new_b()}))

        return Merge(evaluate, exact=False)


class Full(SelfJoin):
    """The same, computed from nothing whenever something changed; nothing of it is walked."""

    shape = Shape(tables={"a": "t", "b": "t"}, walked=(), starts_empty=False, full=True)

    def append(self, rows: Mapping[Occurrence, Frame], whole: Mapping[Occurrence, Frame]) -> Frame:
        """There are no chunks."""
        return nothing

    def changes(self, changes: Mapping[Occurrence, Changes[Frame]], new: Mapping[Occurrence, Frame]) -> Merge[Frame]:
        """It knows nothing of changes."""
        raise AssertionError("what is computed anew cannot be merged into")


class Join(_Pair):
    """Rows of `a` and `b` with the same key, which are two tables; `a` is walked, `b` is taken whole."""

    shape = Shape(tables={"a": "a", "b": "b"}, walked=("a",))

    def derive(self, inputs: Mapping[Occurrence, Iterable[Row]]) -> list[Row]:
        """The query."""
        values = {row[ID]: row[VALUE] for row in inputs["b"]}
        return [
            (row[ID], row[GROUP], row[VALUE], row[VALUE] * 31 + values[row[ID]])
            for row in inputs["a"]
            if row[ID] in values
        ]

    def changes(self, changes: Mapping[Occurrence, Changes[Frame]], new: Mapping[Occurrence, Frame]) -> Merge[Frame]:
        """Changed keys of either."""
        now = {name: new[name] for name in ("a", "b")}

        def evaluate() -> list[Marked]:
            affected = dict.fromkeys(row[ID] for change in changes.values() for _, row in change.rows())
            return recomputed(affected, self.derive({name: frame() for name, frame in now.items()}))

        return Merge(evaluate, exact=False)


class Total(_Common):
    """Count and sum of all rows: one output, which is there before any row is."""

    shape = Shape(tables={"t": "t"}, walked=("t",), appends=False, starts_empty=False)

    def derive(self, inputs: Mapping[Occurrence, Iterable[Row]]) -> list[Row]:
        """The query."""
        values = [row[VALUE] for row in inputs["t"]]
        return [(0, len(values), sum(values))]

    def append(self, rows: Mapping[Occurrence, Frame], whole: Mapping[Occurrence, Frame]) -> Frame:
        """A fill is never an append."""
        raise AssertionError("a total cannot be appended to")

    def whole(self, rows: Mapping[Occurrence, Frame]) -> Frame:
        """The query."""
        frame = rows["t"]
        return lambda: self.derive({"t": frame()})

    def changes(self, changes: Mapping[Occurrence, Changes[Frame]], new: Mapping[Occurrence, Frame]) -> Merge[Frame]:
        """The one output, anew."""
        now = new["t"]
        return Merge(lambda: recomputed([0], self.derive({"t": now()})), exact=False)


class Branches(_Common):
    """UNION ALL of the table with itself: both branches are walked, one after the other."""

    shape = Shape(tables={"a": "t", "b": "t"}, walked=("a", "b"))

    def derive(self, inputs: Mapping[Occurrence, Iterable[Row]]) -> list[Row]:
        """The query."""
        return [((name, row[ID]), row[VALUE]) for name in ("a", "b") for row in inputs.get(name, ())]

    def append(self, rows: Mapping[Occurrence, Frame], whole: Mapping[Occurrence, Frame]) -> Frame:
        """The branch that has a chunk."""
        return self.whole(rows)

    def whole(self, rows: Mapping[Occurrence, Frame]) -> Frame:
        """The query."""
        frames = dict(rows)
        return lambda: self.derive({name: frame() for name, frame in frames.items()})

    def changes(self, changes: Mapping[Occurrence, Changes[Frame]], new: Mapping[Occurrence, Frame]) -> Merge[Frame]:
        """Changed rows of either branch."""
        now = dict(new)

        def evaluate() -> list[Marked]:
            affected = dict.fromkeys((name, row[ID]) for name, change in changes.items() for _, row in change.rows())
            return recomputed(affected, self.derive({name: frame() for name, frame in now.items()}))

        return Merge(evaluate, exact=False)


SimDerivation: TypeAlias = RowByRow | Grouped | SelfJoin | Join | Total | Branches


@dataclass(frozen=True, slots=True)
class Query:
    """A query by name, how its table may be walked, and whether it can live on keys alone."""

    name: str
    make: Callable[[], SimDerivation]
    walks: tuple[tuple[int, ...], ...]
    keys_only: bool


def _identity(row: Row) -> Row | None:
    return row


def _doubled_odd(row: Row) -> Row | None:
    """Filtered and projected; the key is carried though nobody selected it."""
    return (row[ID], row[VALUE] * 2) if row[VALUE] % 3 else None


QUERIES = (
    Query("replica", lambda: RowByRow(_identity), ((ID,), (GROUP, ID)), keys_only=True),
    Query("filter", lambda: RowByRow(_doubled_odd), ((ID,), (GROUP, ID)), keys_only=True),
    Query("groups appended", lambda: Grouped(along_group=True), ((GROUP, ID),), keys_only=False),
    Query("groups merged", lambda: Grouped(along_group=False), ((ID,),), keys_only=False),
    Query("self join", SelfJoin, ((ID,), (GROUP, ID)), keys_only=False),
    Query("anew", Full, ((ID,),), keys_only=False),
    Query("total", Total, ((ID,),), keys_only=False),
    Query("branches", Branches, ((ID,), (GROUP, ID)), keys_only=False),
)
