"""The fill of an index is slowed by what the server suffers, and says why: each signal is made on a real server."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.postgres.harness import Postgres
from tests.postgres.index.harness import Indexed
from tests.postgres.index.test_scenarios import SCANNED
from tidefill.core.reasons import Reason
from tidefill.indexes.next_action import FillChunk
from tidefill.indexes.pressure import BLOCKED_MIN_S, WAIT_MIN_S
from tidefill.indexes.states import Method
from tidefill.ports.machine import Round, Step, Wait
from tidefill.postgres.index import pressure

Make = Callable[..., Indexed]
ROWS = [(1, 0, "a"), *((number, number % 4, f"v{number}") for number in range(2, 13))]


def after_a_second(index: Indexed) -> str:
    """What the next chunk waits for, a second after the last one. It waits once: then it is filled, whatever there
    is."""
    now_s = max(time.time(), index.machine._brake.looked_s) + 2.0
    plan = index.machine.plan(index.job, index.truth, Round(now_s))
    if isinstance(plan, Step):
        return ""
    assert isinstance(plan, Wait), plan
    assert plan.reason is Reason.BACK_PRESSURE
    assert plan.for_s in (pytest.approx(BLOCKED_MIN_S), pytest.approx(WAIT_MIN_S))
    following = index.machine.plan(index.job, index.truth, Round(now_s + 1.1))
    assert isinstance(following, Step), following
    assert isinstance(following.work, FillChunk)
    return plan.text


@pytest.mark.parametrize("method", list(Method))
def test_others_wait_for_a_chunk(indexed: Make, method: Method) -> None:
    index = indexed(ROWS, method=method, columns=("{t}_key(v)",), setup=SCANNED, chunk_rows=2)
    index.run_before(FillChunk)
    holder, stranger, ours = index.writer(), index.begin(), index.session.connection.info.backend_pid
    holder.execute("SELECT pg_advisory_lock(9)")
    with index.meanwhile(index.turn, holder.info.backend_pid):
        with index.meanwhile(lambda: index.by(stranger, "LOCK TABLE {t} IN ACCESS EXCLUSIVE MODE"), ours) as said:
            holder.close()
        stranger.execute("ROLLBACK")
    assert said == ["ok"]
    assert after_a_second(index).endswith(": 1 session waited for the last chunk")
    index.run()
    assert index.differences() == []


def test_another_session_of_the_fill_does_not_count(indexed: Make) -> None:
    index = indexed(ROWS)
    index.run_before(FillChunk)
    other, stranger = index.session.another(), index.writer()
    with index.session.connection.transaction() as _, index.session.short_locks() as ours:
        ours.execute(f"LOCK TABLE {index.shape.entries}")
        pid = ours.info.backend_pid
        look = f"SELECT 1 FROM {index.shape.entries}"
        with index.meanwhile(lambda: other.all(look), pid):
            assert pressure.blocked(ours) == 0
            with index.meanwhile(lambda: stranger.execute(look)):
                index.until(lambda: pressure.blocked(ours) == 1)
                ours.execute("ROLLBACK")
    other.close()


@pytest.mark.full
def test_checkpoints_are_forced(indexed: Make) -> None:
    index = indexed(ROWS, chunk_rows=2)
    index.run_before(FillChunk)
    index.turn()
    assert after_a_second(index) == "", "nobody suffers"
    index.turn()
    before = pressure.signals(index.session, 0, 0.0).forced
    index.sql("CHECKPOINT")
    index.until(lambda: pressure.signals(index.session, 0, 0.0).forced > before)
    assert "checkpoint" in after_a_second(index)


def test_a_replica_is_behind(
    indexed: Make, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidefill.indexes.pressure.LAG_BYTES", 0)
    index = indexed(ROWS, chunk_rows=2)
    index.run_before(FillChunk)
    receive = postgres.server._binaries / "pg_receivewal"
    command = [str(receive), "-D", str(tmp_path), "--no-loop", "-d", index.url]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as replica:  # it confirms every 10 s only
        try:
            confirmed = (
                "SELECT 1 FROM pg_stat_replication WHERE application_name = 'pg_receivewal' AND write_lsn > '0/0'"
            )
            index.until(lambda: index.sql(confirmed))
            index.turn()
            assert "the replica pg_receivewal is " in after_a_second(index)
        finally:
            replica.kill()


def test_a_plain_owner_may_ask(indexed: Make) -> None:
    index = indexed(ROWS)
    role = f"{index.name}_plain"
    index.sql(f"CREATE ROLE {role}")
    try:
        index.session.connection.execute(f"SET ROLE {role}")
        assert pressure.signals(index.session, 1, 0.25).blocked == 1
        assert pressure.blocked(index.session.connection) == 0
    finally:
        index.session.connection.execute("RESET ROLE")
        index.sql(f"DROP ROLE {role}")
