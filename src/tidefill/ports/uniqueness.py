"""What is known of the keys of a unique index that refuses nobody's write."""

from __future__ import annotations

from typing import Protocol


class Uniqueness(Protocol):
    """Counts the keys of an index that several rows have. A key with a NULL in it is never one of them."""

    def violated(self, version: int) -> int:
        """How many there are at this version of the target's log. Reads the key of every entry."""

    def violated_after(self, known: int, before: int, after: int) -> int:
        """How many there are at the version `after`, if `known` were there at the version `before`, and the commit
        between the two is the last one of this process. Reads the entries of the keys that the commit touched."""
