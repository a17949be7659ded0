"""The keys of a small change set, collected once: how many rows it inserts, updates and deletes, and the predicate that
names them, so that a write replaces just these rows and reads little more than the key column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DecimalType

from tidefill.core.confirm import Counts
from tidefill.core.keys import Key
from tidefill.errors import KeyNotUnique
from tidefill.spark.coverage import collectable, key_of, literal
from tidefill.spark.names import MARK, quoted

KEYS_MAX = 10_000
"""Up to so many keys a predicate of constants is faster than a MERGE: into 5 million rows 3.6 s against 9."""

PREDICATE_MAX = 1 << 20
"""Characters. The predicate stands in the commit and stays there until the log is cleaned."""

NULLS_MAX = 20
"""Keys with a NULL in one of several columns; each is a condition of its own, which Spark evaluates one by one."""

KEYS_NAMED_MAX = 10


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """The keys, each once, what is done to them, and the names and types of their columns."""

    keys: tuple[Key, ...]
    counts: Counts
    columns: tuple[str, ...]
    types: tuple[DataType, ...]

    @property
    def only_inserts(self) -> bool:
        """Whether nothing is updated or deleted."""
        return not self.counts.updated and not self.counts.deleted

    @property
    def only_deletes(self) -> bool:
        """Whether no row is put into the target."""
        return not self.counts.inserted and not self.counts.updated

    def first(self) -> str | None:
        """The least value of the first column, as a constant; None if there is none, or if one of them is NULL."""
        values = [key.values[0] for key in self.keys]
        if not values or None in values:
            return None
        return literal(min(self.keys).values[0], self.types[0])

    def greatest(self) -> Key | None:
        """The greatest value of the first column, but for NULL."""
        return max((Key(key.values[:1]) for key in self.keys if key.values[0] is not None), default=None)

    def lie_above(self, bound: Key) -> bool:
        """Whether all values of the first column are greater."""
        return all(key.values[0] is not None and Key(key.values[:1]) > bound for key in self.keys)

    def predicate(self) -> str | None:
        """True for rows with one of the keys, and never NULL; None if there is no key, or if it would be too long."""
        if not self.keys or sum(None in key.values for key in self.keys) > NULLS_MAX:
            return None
        text = self.named()
        return text if len(text) <= PREDICATE_MAX else None

    def named(self) -> str:
        """The predicate, however long. There has to be a key."""
        known = [key for key in self.keys if None not in key.values]
        others = [key for key in self.keys if None in key.values]
        return " OR ".join([*([self._among(known)] if known else ()), *map(self._is, others)])

    def _among(self, keys: Sequence[Key]) -> str:
        """By the first column alone too: that is what files are chosen by."""
        names = [quoted(name) for name in self.columns]
        leads = dict.fromkeys(literal(key.values[0], self.types[0]) for key in keys)
        lead = f"{names[0]} IN ({', '.join(leads)})"
        if len(names) == 1:
            return f"({names[0]} IS NOT NULL AND {lead})"
        there = " AND ".join(f"{name} IS NOT NULL" for name in names)
        rows = ", ".join(f"({', '.join(self._constants(key))})" for key in keys)
        return f"({there} AND {lead} AND ({', '.join(names)}) IN ({rows}))"

    def _is(self, key: Key) -> str:
        constants = zip(self.columns, self._constants(key), strict=True)
        return "(" + " AND ".join(f"{quoted(name)} <=> {constant}" for name, constant in constants) + ")"

    def _constants(self, key: Key) -> list[str]:
        """Each of the type of its column: Spark compares rows of several values only if their types are equal, and the
        constant 1.50 has fewer digits than a column may have."""
        constants = []
        for value, kind in zip(key.values, self.types, strict=True):
            constant = "NULL" if value is None else literal(value, kind)
            constants.append(
                f"CAST({constant} AS {kind.simpleString()})" if isinstance(kind, DecimalType) else constant
            )
        return constants


def changed_keys(changes: DataFrame, columns: Sequence[str], types: Sequence[DataType]) -> ChangedKeys | None:
    """The keys of the change set; None if there are more than KEYS_MAX. KeyNotUnique if one comes twice."""
    found = changes.select(*collectable(columns, types), f.col(MARK)).limit(KEYS_MAX + 1).collect()
    if len(found) > KEYS_MAX:
        return None
    keys = Counter(key_of(tuple(row)[:-1], types) for row in found)
    twice = [key for key, times in keys.items() if times > 1][:KEYS_NAMED_MAX]
    if twice:
        raise several_changes(key.values for key in twice)
    marks = Counter(row[-1] for row in found)
    return ChangedKeys(tuple(keys), Counts(marks["I"], marks["U"], marks["D"]), tuple(columns), tuple(types))


def several_changes(keys: Iterable[tuple[object, ...]]) -> KeyNotUnique:
    """The error for a change set in which each of these keys comes several times."""
    return KeyNotUnique("several changes of one key in one step", detail=f"e.g. {', '.join(map(str, keys))}")
