"""The keys of an index that a step touches: what the changed rows had there, and what they have.

They say in which files of the index the changed rows lie. The rows themselves are known by the key of the base table,
and by that key alone every file would have to be searched.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidefill.core.confirm import Counts
from tidefill.delta.changed_keys import KEYS_MAX, ChangedKeys
from tidefill.spark.coverage import collectable, key_of, key_types
from tidefill.spark.names import quoted


class TouchedKeys:
    """Of the step that is being committed, or was last. `columns`: those of the index's key; none if the target is no
    index. `none`: no key was touched. `predicate`: true for entries with one of the keys; None if there are no keys, or
    too many to name them."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self.none = True
        self.predicate: str | None = None

    def forget(self) -> None:
        """A commit begins that touches nothing as far as is known."""
        self.none, self.predicate = True, None

    def collect(self, touched: DataFrame | None, schema: StructType) -> None:
        """Look at the keys, before they are written. `schema`: of the target."""
        self.forget()
        if touched is None or not self._columns:
            return
        types = key_types(schema, self._columns)
        keys = touched.select(*map(quoted, self._columns)).distinct().select(*collectable(self._columns, types))
        found = keys.limit(KEYS_MAX + 1).collect()
        self.none = not found
        if 0 < len(found) <= KEYS_MAX:
            named = tuple(key_of(tuple(row), types) for row in found)
            self.predicate = ChangedKeys(named, Counts(), self._columns, types).predicate()

    def narrowed(self, predicate: str | None) -> str | None:
        """The predicate that names rows of this step, with the keys by which their files are found."""
        if predicate is None or self.predicate is None:
            return predicate
        return f"({self.predicate}) AND ({predicate})"
