"""The files below one location, read without Spark: what the rest of the code needs of a file system, and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Protocol


@dataclass(frozen=True, slots=True)
class Stat:
    """The size of a file in bytes, and when it was last modified."""

    size: int
    modified_ns: int


class Files(Protocol):
    """The files below one location. Paths are relative to it, with `/`. A file system that does not answer raises
    Unavailable."""

    def stat(self, path: str) -> Stat | None:
        """None if there is no such file."""

    def read(self, path: str) -> bytes | None:
        """The whole content; None if there is no such file."""

    def open(self, path: str) -> BinaryIO | None:
        """The file to read from, anywhere in it; None if there is no such file."""

    def names(self, folder: str) -> list[str] | None:
        """What is in the folder, in no order; None if there is no such folder."""

    def remove(self) -> None:
        """Remove the location with all that is in it; fine if there is nothing."""
