"""Keys of a table, each of which stands for so many rows: where to cut it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidefill.core.keys import Key
from tidefill.core.walk import Split, rest

SAMPLE_KEYS = 20_000


@dataclass(frozen=True, slots=True)
class Sample:
    """Sorted keys, and how many rows the table has."""

    keys: tuple[Key, ...]
    rows: int

    @property
    def rows_per_key(self) -> float:
        """How many rows a key stands for."""
        return self.rows / max(len(self.keys), 1)

    def bounds(self, split: Split, rows: int) -> Sequence[Key]:
        """Keys in what is left of the split, about so many rows apart. A last chunk of less than a tenth of that goes
        with the one before it: a commit costs more than its rows."""
        left = rest(split)
        if left is None:
            return ()
        inside = [key for key in self.keys if left.holds(key)]
        stride = max(1, round(rows / max(self.rows_per_key, 1e-9)))
        return inside[stride - 1 : len(inside) - 1 - stride // 10 : stride]
