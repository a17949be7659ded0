"""What CREATE INDEX and EXPLAIN find out of an index before there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidefill.indexes.control import LOCK_MS
from tidefill.indexes.sizes import Sizes
from tidefill.indexes.sorting import Sort
from tidefill.indexes.states import STATES, Method
from tidefill.jobs.amounts import size_text
from tidefill.jobs.definitions import IndexDefinition, IndexesDefinition
from tidefill.jobs.plain_text import FACTS, as_html, as_text

COST_US = {Method.BULK: (18, 78), Method.INITPUT: (78, 78)}
"""What the trigger adds to a written row at most, in microseconds: while the index is built, and afterwards. Measured
with 200 partitions on two cores; 8 partitions take two thirds of it."""

REASONS = {
    Method.BULK: "writers only log what they change; the key is built once, over all entries",
    Method.INITPUT: "writers keep the entries from the start, and duplicates are refused from the start",
}


@dataclass(frozen=True, slots=True)
class Sorting:
    """Who sorts the entries, and why. `loads`: who loads them, if they come through Spark."""

    sort: Sort
    why: str
    loads: str = ""


@dataclass(frozen=True, slots=True)
class ExplainedIndexes:
    """What several indexes over one table will do, filled by one scan of it."""

    name: str
    definition: IndexesDefinition
    indexes: tuple[ExplainedIndex, ...]

    @property
    def sorting(self) -> Sorting:
        """The same for all."""
        return self.indexes[0].sorting

    @property
    def notices(self) -> tuple[str, ...]:
        """Of all, each once."""
        return tuple(dict.fromkeys(notice for one in self.indexes for notice in one.notices))

    def facts(self) -> Iterator[tuple[str, object]]:
        """For a person: of each index, after its name, what differs from one to the other."""
        yield "job", self.name
        yield "on", self.definition.input
        yield "scan", f"one, for {len(self.indexes)} indexes; one that fails does not stop the others"
        for index in self.indexes:
            yield from (fact for fact in index.facts() if fact[0] != "on")

    def document(self) -> dict[str, Any]:
        """For a program."""
        indexes = [index.document() for index in self.indexes]
        return {"name": self.name, "kind": "indexes", "on": self.definition.input, "indexes": indexes}

    def __repr__(self) -> str:
        return as_text(FACTS, tuple(self.facts()))

    def _repr_html_(self) -> str:
        return as_html(FACTS, tuple(self.facts()))


@dataclass(frozen=True, slots=True)
class ExplainedIndex:
    """What an index will do. `rows`: about how many the table has. `leaves`: how many partitions. `missing`: SQL that
    gives rights which it can do without. `free`: bytes on the server's disk, if that can be known."""

    name: str
    definition: IndexDefinition
    rows: int
    leaves: int
    sizes: Sizes
    sorting: Sorting
    notices: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    free: int | None = None

    @property
    def method(self) -> Method:
        """How it is filled."""
        return Method(self.definition.method)

    @property
    def longest_wait_ms(self) -> int:
        """How long a writer waits for us at most, twice: at the install and at the cut-over."""
        return LOCK_MS + 50 + self.leaves

    def facts(self) -> Iterator[tuple[str, object]]:
        """For a person."""
        definition, method = self.definition, self.method
        building_us, live_us = COST_US[method]
        yield "index", self.name
        yield "on", definition.input
        nulls = "; NULLs are equal" if definition.nulls_not_distinct else ""
        unique = f" (unique, across all partitions{nulls})" if definition.unique else ""
        yield "key", ", ".join(definition.columns) + unique
        if definition.include:
            yield "included columns", ", ".join(definition.include)
        if definition.where:
            yield "rows with", definition.where
        yield "method", f"{method.value}: {REASONS[method]}"
        yield "sort", f"{self.sorting.sort.value}: {self.sorting.why}"
        if self.sorting.loads:
            yield "loaded by", self.sorting.loads
            yield "staged files", f"some {size_text(self.sizes.entries)} in the warehouse, until the key is built"
        yield "states to come", " -> ".join(state.value for state in STATES[method])
        yield "rows", self.rows
        yield "size", self._size
        yield "partitions", self.leaves
        yield "locks", f"SHARE ROW EXCLUSIVE for a moment; a writer waits at most {self.longest_wait_ms} ms for it"
        yield "cost of a written row", f"at most some {building_us} us while it is built, {live_us} us afterwards"
        for right in self.missing:
            yield "missing right", right
        for notice in self.notices:
            yield "notice", notice

    @property
    def _size(self) -> str:
        """On the server's disk, about."""
        made = f"some {size_text(self.sizes.entries)} of entries and {size_text(self.sizes.key)} of their key"
        log = f"; {size_text(self.sizes.logged)} of log for each row that changes meanwhile, up to log_limit"
        most = "at most " if self.definition.where else ""
        free = "" if self.free is None else f"; {size_text(self.free)} are free"
        return f"{most}{made}{log if self.method is Method.BULK else ''}{free}"

    def document(self) -> dict[str, Any]:
        """For a program."""
        definition, (building_us, live_us) = self.definition, COST_US[self.method]
        return {
            "name": self.name, "kind": "index", "on": definition.input, "columns": list(definition.columns),
            "include": list(definition.include), "where": definition.where, "unique": definition.unique,
            "nulls_not_distinct": definition.nulls_not_distinct, "method": definition.method,
            "sort": {"by": self.sorting.sort.value, "why": self.sorting.why, "loaded_by": self.sorting.loads},
            "states": [state.value for state in STATES[self.method]], "rows": self.rows,
            "bytes": {"entries": self.sizes.entries, "key": self.sizes.key, "logged_row": self.sizes.logged,
                      "free": self.free},
            "missing_rights": list(self.missing),
            "partitions": self.leaves, "longest_wait_ms": self.longest_wait_ms,
            "trigger_us": {"building": building_us, "live": live_us}, "notices": list(self.notices),
        }  # fmt: skip

    def __repr__(self) -> str:
        return as_text(FACTS, tuple(self.facts()))

    def _repr_html_(self) -> str:
        return as_html(FACTS, tuple(self.facts()))
