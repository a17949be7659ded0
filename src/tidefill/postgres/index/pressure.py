"""Asks a server what it suffers while an index is filled. Each question is cheap, and a plain owner may ask it."""

from __future__ import annotations

from typing import Any

import psycopg

from tidefill.indexes.pressure import Signals
from tidefill.postgres.index.session import IndexSession

CHECKPOINTER_RELEASE = 170000
"""PostgreSQL 17: the first one with pg_stat_checkpointer."""

_BLOCKED = """
SELECT count(DISTINCT l.pid) FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE NOT l.granted AND pg_backend_pid() = ANY (pg_blocking_pids(l.pid))
  AND a.application_name IS DISTINCT FROM current_setting('application_name')
"""
_SIGNALS = """
SELECT coalesce(nullif(r.name, ''), 'without a name'), coalesce(r.lag, 0)::bigint, (SELECT {forced})
FROM (SELECT 1) one LEFT JOIN (
  SELECT a.application_name AS name, pg_wal_lsn_diff(pg_current_wal_lsn(),
    coalesce(a.replay_lsn, a.flush_lsn, a.write_lsn, a.sent_lsn, s.confirmed_flush_lsn, s.restart_lsn)) AS lag
  FROM pg_stat_replication a LEFT JOIN pg_replication_slots s ON s.active_pid = a.pid
) r ON r.lag > 0 ORDER BY r.lag DESC NULLS LAST LIMIT 1
"""
# Of a replica a plain owner sees the slot alone. A slot that nobody reads is no replica: it would be behind for ever.


def blocked(connection: psycopg.Connection[Any]) -> int:
    """How many sessions of others wait for a lock of this one. Asked at the end of a transaction: after it there are
    none. Another session of the same fill, which meets an equal key, has the same name and does not count."""
    row = connection.execute(_BLOCKED).fetchone()
    return 0 if row is None else int(row[0])


def signals(session: IndexSession, blocked: int, log_share: float) -> Signals:
    """One look."""
    new = session.connection.info.server_version >= CHECKPOINTER_RELEASE
    forced = "num_requested FROM pg_stat_checkpointer" if new else "checkpoints_req FROM pg_stat_bgwriter"
    replica, lag_bytes, count = session.one(_SIGNALS.format(forced=forced))
    return Signals(blocked, replica, lag_bytes, count, log_share)
