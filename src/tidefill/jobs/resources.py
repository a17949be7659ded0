"""Things that jobs make outside of the store: folders, views in a catalog, slots, publications, consumer groups.

A job's row lists each as the text `kind:name`, before it is made. A kind says who removes it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """One thing. What the name means is the business of its kind: a path, a name on a server, a name in a catalog."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def resource_from_text(text: str) -> Resource:
    """The inverse of `str`. A text without a colon is a kind without a name."""
    kind, _, name = text.partition(":")
    return Resource(kind, name)
