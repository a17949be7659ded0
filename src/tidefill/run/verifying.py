"""Compares the target of a job with a recompute, for somebody who asked, while the job goes on.

The comparison goes piece by piece. Each piece is compared with the job as it is then, because every commit of a target
is right by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidefill.core.keys import Key
from tidefill.core.sizing import CEILING_ROWS
from tidefill.errors import HistoryGone, NotYet, Unreadable
from tidefill.jobs.row import Job
from tidefill.ports.frames import Compared
from tidefill.ports.machine import Machine
from tidefill.ports.store import Store

ATTEMPTS = 5  # at one piece
DIFFERENCES_MAX = 10


@dataclass(frozen=True, slots=True)
class Verified:
    """A comparison of a target with a recompute: as of which version of its input (if those have numbers), of how many
    rows, how long it took, and up to ten rows that differ. A view is compared with what Spark makes of the user's own
    query; `notes` say what was settled in it that the query leaves open."""

    version: int | None
    rows: int
    took_s: float
    differences: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def verify(store: Store, row: Job, build: Callable[[Job], Machine[Any]]) -> Verified:
    """Compare all pieces, up to the tenth difference."""
    began_s, machine = time.monotonic(), build(row)
    rows, differences, upto = 0, list[str](), None
    notes: dict[str, None] = {}
    try:
        while True:
            compared = _verify_piece(store, row, machine, upto)
            rows, upto = rows + compared.rows, compared.upto
            differences += compared.differences
            notes |= dict.fromkeys(compared.notes)
            if upto is None or len(differences) >= DIFFERENCES_MAX:
                break
    finally:
        machine.close()
    took_s = time.monotonic() - began_s
    return Verified(compared.version, rows, took_s, tuple(differences[:DIFFERENCES_MAX]), tuple(notes))


def _verify_piece(store: Store, row: Job, machine: Machine[Any], after: Key | None) -> Compared:
    """While a piece is compared, a runner may let go of what the comparison needs, or the snapshot may have to be given
    up: then this piece is begun again, half as large."""
    piece_rows = CEILING_ROWS
    for _ in range(ATTEMPTS):
        now = store.job(row.id)
        if now is None or now.generation != row.generation:
            raise NotYet(f"{row.name} was dropped or built anew while it was compared", hint="Try again.")
        try:
            return machine.compare(now, after, piece_rows)
        except HistoryGone:
            then = store.job(row.id)
            if then is None or (then.released, then.anchor) == (now.released, now.anchor):
                raise
        except Unreadable:
            piece_rows = max(1, piece_rows // 2)
    raise NotYet(f"{row.name} moves on too fast to be compared", hint="Pause it, or try again.")
