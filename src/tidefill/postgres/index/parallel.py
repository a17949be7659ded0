"""Fills several chunks of an index at a time, each in a session of its own.

The chunks are planned first: one transaction writes their bounds down. Then each is filled, and has a checkpoint of its
own. So a crash may leave a chunk out whose neighbours behind it are filled: it is known by its bounds, and is filled
before others are planned.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from tidefill.indexes.control import Control
from tidefill.indexes.states import Method
from tidefill.postgres.index.filling import (
    PLANNED,
    PUT_ROWS,
    Chunk,
    Filled,
    Loaded,
    fill_chunk,
    next_chunk,
    note,
    put_chunk,
    unfilled,
)
from tidefill.postgres.index.session import IndexSession


@dataclass(slots=True)
class ParallelFill:
    """The fill of one index by the server. `is_sorted`: of initput, each batch is sorted by the key."""

    session: IndexSession
    is_sorted: bool = True
    _others: list[IndexSession] = field(default_factory=list, init=False)

    def fill(self, control: Control, done: Filled, rows: int, tasks: int) -> Filled:
        """Fill the next chunks of about so many rows each, as many as tasks. Raises what the first of them met that is
        not filled, when all have ended."""
        rows = min(rows, PUT_ROWS) if control.method is Method.INITPUT else rows
        chunks = self._chunks(control, done, rows, tasks)
        if len(chunks) == 1:
            loaded = [self._fill(self.session, control, chunks[0], rows)]
        else:
            with ThreadPoolExecutor(len(chunks)) as pool:
                sessions = self._sessions(len(chunks))
                begun = [
                    pool.submit(self._fill, session, control, chunk, rows)
                    for session, chunk in zip(sessions, chunks, strict=True)
                ]
            loaded = [one.result() for one in begun]
        smaller = [one.batch for one in loaded if one.batch is not None]
        return replace(
            done, rows=done.rows + sum(one.rows for one in loaded), blocked=max(one.blocked for one in loaded),
            batch=min(smaller, default=None),
        )  # fmt: skip

    def _chunks(self, control: Control, done: Filled, rows: int, tasks: int) -> Sequence[Chunk]:
        """Those that an earlier step has left out, or new ones."""
        if done.left:
            return unfilled(self.session)[:tasks]
        if tasks == 1:
            return [next_chunk(self.session, done, rows)]
        return self._planned(control, done, rows, tasks)

    def _planned(self, control: Control, done: Filled, rows: int, tasks: int) -> Sequence[Chunk]:
        chunks, place = list[Chunk](), done
        while len(chunks) < tasks and (not chunks or chunks[-1].upto is not None):
            chunks.append(next_chunk(self.session, place, rows))
            place = Filled(place.chunks + 1, upto=chunks[-1].upto)
        with self.session.transaction(control) as connection:
            for chunk in chunks:
                note(connection, self.session.shape, PLANNED, chunk.number, chunk.upto)
        return chunks

    def _sessions(self, count: int) -> Sequence[IndexSession]:
        """The runner's own session and as many others as are needed, which know the table by its names of now."""
        while len(self._others) < count - 1:
            self._others.append(self.session.another())
        for other in self._others:
            other.shape = self.session.shape
        return [self.session, *self._others][:count]

    def _fill(self, session: IndexSession, control: Control, chunk: Chunk, rows: int) -> Loaded:
        if control.method is Method.BULK:
            return fill_chunk(session, control, chunk)
        return put_chunk(session, control, chunk, rows, is_sorted=self.is_sorted)

    def close(self) -> None:
        """End the other sessions."""
        for other in self._others:
            other.close()
        self._others.clear()
