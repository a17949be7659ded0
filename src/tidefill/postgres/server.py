"""A PostgreSQL server as we reach it: sessions with settings of our own, whatever the server's or the role's are, and
its errors in words of our own tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict

from tidefill.errors import InvalidSetting, NotYet, QueryFailed, TidefillError, Unavailable, UpstreamUnfit

CONNECT_S_MAX = 10
PINNED = {  # what gives a value its text, and a name its meaning; and what could make us wait
    "search_path": "pg_catalog",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "xmloption": "content",
    "row_security": "off",
    "idle_in_transaction_session_timeout": "0",
    "statement_timeout": "0",
    "lock_timeout": "0",
    "synchronous_commit": "local",  # nothing of ours is worth waiting for a standby
}
NO_FREE_SLOT = "the server has no free replication slot"
FREE_A_SLOT = "Drop one that nobody uses (pg_replication_slots), or raise max_replication_slots and restart the server."
PASSED_ON = ("sslmode", "sslrootcert", "sslcert", "sslkey")


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """The server of a connection. `name` is the connection's."""

    name: str
    url: str

    def __repr__(self) -> str:
        return f"PostgresServer({self.name!r})"  # the URL holds a password

    def session(self, application: str) -> psycopg.Connection[Any]:
        """A new session, in autocommit."""
        self._parsed()
        with translated(f"the server of {self.name}"):
            session = psycopg.connect(
                self.url, autocommit=True, application_name=application, connect_timeout=CONNECT_S_MAX
            )
            try:
                settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in PINNED.items())
                session.execute(f"SELECT {settings}")
                self._refuse_pooler(session)
            except BaseException:
                session.close()
                raise
            return session

    def _parsed(self) -> dict[str, Any]:
        """The parts of the URL. What the driver says of one that it cannot read may hold the password."""
        try:
            known = conninfo_to_dict(self.url)
        except psycopg.ProgrammingError:
            known = {}
        if not known or "@" in str(known.get("host") or ""):
            raise InvalidSetting(
                f"the URL of the connection {self.name} cannot be read",
                hint="postgresql://user:password@host:5432/database, with %40 for @ and %25 for % in the password.",
            )
        return dict(known)

    def _refuse_pooler(self, session: psycopg.Connection[Any]) -> None:
        row = session.execute("SELECT pg_backend_pid()").fetchone()
        if row is None or row[0] != session.info.backend_pid:
            raise UpstreamUnfit(
                f"between us and the server of {self.name} is a pooler",
                hint="Give the connection the address of the server itself: snapshots and locks belong to a session.",
            )

    def jdbc(self, application: str, snapshot: str) -> dict[str, str]:
        """Options for Spark's reader, for queries in that exported snapshot."""
        begin = f"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; SET TRANSACTION SNAPSHOT '{snapshot}'"
        return self._jdbc(application, begin)

    def jdbc_now(self, application: str, search_path: str) -> dict[str, str]:
        """Options for Spark's reader, for queries that each have a snapshot of their own."""
        begin = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY"
        return self._jdbc(application, begin, f"; SET LOCAL search_path = {search_path}")

    def _jdbc(self, application: str, begin: str, end: str = "") -> dict[str, str]:
        known = self._parsed()
        host = str(known.get("host") or "localhost")
        if host.startswith("/"):
            raise InvalidSetting(
                f"the connection {self.name} goes over a socket of this machine",
                hint="Give it a host and a port: Spark's readers are Java, which reaches PostgreSQL over TCP.",
            )
        words = {name: str(known[name]) for name in PASSED_ON if name in known}
        address = f"{host}:{known.get('port') or 5432}/{quote(str(known.get('dbname') or known.get('user') or ''))}"
        pinned = "; ".join(f"SET LOCAL {name} = '{value}'" for name, value in PINNED.items())
        options = {
            "url": f"jdbc:postgresql://{address}?{urlencode({**words, 'ApplicationName': application})}",
            "driver": "org.postgresql.Driver",
            "sessionInitStatement": f"{begin}; {pinned}{end}",
        }
        credentials = {"user": known.get("user"), "password": known.get("password")}
        return {**options, **{name: str(value) for name, value in credentials.items() if value}}


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Errors of the driver inside become errors of ours."""
    try:
        yield
    except psycopg.Error as error:
        raise _translate(what, error) from error


def _translate(what: str, error: psycopg.Error) -> TidefillError:
    detail = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    match error:
        case psycopg.errors.ConfigurationLimitExceeded() if "replication slot" in detail:
            return UpstreamUnfit(NO_FREE_SLOT, detail=detail, hint=f"{FREE_A_SLOT} Then RESUME the job.")
        case psycopg.errors.LockNotAvailable() | psycopg.errors.ObjectInUse():
            return NotYet(f"{what} is locked by somebody", detail=detail)
        case psycopg.errors.InsufficientPrivilege():
            return UpstreamUnfit(f"{what} may not be used like this", detail=detail)
        case psycopg.errors.InvalidPassword() | psycopg.errors.InvalidAuthorizationSpecification():
            return UpstreamUnfit(f"{what} does not let us in", detail=detail)
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unavailable(f"{what} does not answer", detail=detail)
        case _:
            return QueryFailed(f"{what} refuses a query", detail=detail)
