"""Locks that a hostile review found to hold writers or readers for longer than they may."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

import psycopg
import pytest

from tests.postgres.index.harness import Indexed
from tidefill.errors import NotYet
from tidefill.indexes import control
from tidefill.indexes.next_action import CutOver
from tidefill.indexes.shape import LOGS, Shape
from tidefill.indexes.states import Body, Method, State
from tidefill.postgres.index import machine, removal, repair
from tidefill.postgres.index.session import OLD_S, IndexSession

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


def test_triggers_are_not_dropped_beside_a_reader(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """DROP TRIGGER needs ACCESS EXCLUSIVE: each attempt would hold up everybody behind it."""
    index = indexed(ROWS)
    index.run()
    removal.stop(index.session)
    reader = index.begin()
    index.by(reader, "SELECT count(*) FROM {t}_3")
    pid = reader.info.backend_pid
    index.until(lambda: any((one.age_s or 0) > OLD_S for one in index.session.users(index.shape.base)))
    sent = list[Mapping[str, str]]()
    right = index.session.short_locks

    def noted(*settings: Mapping[str, str]) -> AbstractContextManager[psycopg.Connection[object]]:
        sent.extend(settings)
        return right(*settings)

    monkeypatch.setattr(index.session, "short_locks", noted)
    with pytest.raises(NotYet, match=f"waits for transactions that began earlier to end: pid {pid}"):
        removal.clear(index.session)
    assert sent == []  # no lock on the table was tried
    reader.execute("COMMIT")
    removal.clear(index.session)
    assert index.sql("SELECT count(*) FROM pg_trigger WHERE tgname LIKE '!%'") == [(0,)]


@pytest.mark.parametrize("exchanges", [1, 2])
def test_a_cut_over_reads_no_rows_that_were_merged(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, exchanges: int
) -> None:
    """The log that rests has been truncated when the table is locked; after two exchanges the other one, too."""
    monkeypatch.setattr(machine, "LOG_ROWS_MAX", 1)
    index = indexed(ROWS)
    index.run_to(State.MERGING)
    for number in range(exchanges):
        index.sql("UPDATE {t} SET inc = %s", str(number))
        index.run_until(exchanged(body_of(index)))
    sizes = list[tuple[int, ...]]()
    right = repair.try_cut_over

    def measured(session: IndexSession, log_rows_max: int) -> str:
        both = ", ".join(f"pg_relation_size('{session.shape.log(number)}')" for number in LOGS)
        sizes.append(session.one(f"SELECT {both}"))
        return right(session, log_rows_max)

    monkeypatch.setattr(repair, "try_cut_over", measured)
    index.run()
    assert sizes[0] == (0, 0)
    assert index.differences() == []


def body_of(index: Indexed) -> Body:
    assert index.truth.control is not None
    return index.truth.control.body


def exchanged(before: Body) -> Callable[[Indexed], bool]:
    """Whether writers log into the other log than before."""
    return lambda index: body_of(index) is not before
