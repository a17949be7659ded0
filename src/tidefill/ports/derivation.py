"""What turns the rows of inputs into the rows of a target."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol, TypeVar

from tidefill.core.state import Occurrence
from tidefill.core.step import Shape
from tidefill.ports.frames import Changes, Judged, Merge, Put

F = TypeVar("F")


class Derivation(Protocol[F]):
    """The query of a job. Every output row has a key. The target holds the outputs of the covered input rows."""

    shape: Shape

    def append(self, rows: Mapping[Occurrence, F], whole: Mapping[Occurrence, F]) -> F:
        """The outputs of the rows of new chunks, where a fill is a plain append; `whole` are the inputs that are not
        walked."""

    def changes(self, changes: Mapping[Occurrence, Changes[F]], new: Mapping[Occurrence, F]) -> Merge[F] | Put[F]:
        """What the changes of covered inputs do to the outputs; the rows of chunks count as additions. An input without
        `changes` did not change. `new`: all covered inputs after the changes. To take a frame out of `new` asks its
        upstream, so take only what is needed, and before returning: the upstream is checked after that."""

    def whole(self, rows: Mapping[Occurrence, F]) -> F:
        """The outputs of these inputs, from nothing."""

    def judged(self, rows: Mapping[Occurrence, F]) -> AbstractContextManager[Judged[F]]:
        """What the target should hold over these inputs, by the user's own query and not by what was made of it. Every
        occurrence of a table has the same rows. The frames can be evaluated inside of the context."""

    def with_chunk(self, changes: Changes[F] | None, chunk: F) -> Changes[F]:
        """The changes of an input, if it has any, and the rows of new chunks as rows that came."""

    def nothing(self) -> F:
        """Outputs without rows."""
