"""Locks that a hostile review found to hold writers or readers for longer than they may."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import psycopg
import pytest

from tests.postgres.index.harness import Indexed
from tidefill.indexes import control
from tidefill.indexes.next_action import CutOver
from tidefill.indexes.shape import Shape
from tidefill.indexes.states import Method

Make: TypeAlias = Callable[..., Indexed]

ROWS = [(number, number % 4, f"v{number}") for number in range(1, 9)]
LONG_MS, HELD_MS = 20_000, 60
WAITED = "SELECT 1000 * extract(epoch FROM clock_timestamp() - waitstart) FROM pg_locks WHERE pid = %s AND NOT granted"


def installing(index: Indexed) -> str:
    return control.install(index.shape, Method.BULK, index.fence)


def cutting_over(index: Indexed) -> str:
    index.run_before(CutOver)
    return control.cut_over(index.shape, index.fence, 500)


@pytest.mark.parametrize(("statement", "last"), [(installing, "remember_all"), (cutting_over, "shared_function")])
def test_all_partitions_share_one_lock_timeout(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, statement: Callable[[Indexed], str], last: str
) -> None:
    """Two partitions are held one after the other: what was waited for the first is not waited for the second."""
    index = indexed(ROWS)
    noted = "SELECT set_config('test.left', setting, false) FROM pg_settings WHERE name = 'lock_timeout'"
    right: Callable[..., str] = getattr(control, last)

    def then_noted(shape: Shape, *more: object) -> str:
        return f"{right(shape, *more)}; {noted}"

    monkeypatch.setattr(control, "LOCK_MS", LONG_MS)
    monkeypatch.setattr(control, last, then_noted)
    text, session = statement(index), index.session.connection
    session.execute(f"SET lock_timeout = {LONG_MS}")
    writers = [index.begin(), index.begin()]
    for part, writer in enumerate(writers):
        index.by(writer, f"UPDATE {{t}}_{part} SET inc = 'x'")
    with index.meanwhile(lambda: session.execute(text).statusmessage) as said:
        for writer in writers:
            index.until(partial(has_waited, index, session, writer))
            writer.execute("COMMIT")
    assert said == ["DO"]
    (left,) = index.session.one("SELECT current_setting('test.left')::int")
    assert 1 <= left <= LONG_MS - 2 * HELD_MS


def has_waited(index: Indexed, session: psycopg.Connection[object], writer: psycopg.Connection[object]) -> bool:
    """Whether the session has waited for the writer for some time."""
    found = index.sql(WAITED, session.info.backend_pid)
    return index.waits_for(writer.info.backend_pid) and any(waited and waited > HELD_MS for (waited,) in found)
