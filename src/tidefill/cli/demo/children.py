"""The other processes of the demo: `tidefill run`, and the writers. Each ends when the demo does, however that comes.

A child's standard input is a pipe that only its parent holds open. Whatever becomes of the parent, the pipe then ends,
and a thread of the child that waits for this ends the child.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tidefill.errors import TimedOut, Unavailable

RUNNER, WRITER, SHOP_WRITER, INDEX_WRITER = "runner", "writer", "shop-writer", "index-writer"
TOPIC_WRITER = "topic-writer"
END_S_MAX = 30.0  # in which a step or a statement is finished
LOG_LINES_SHOWN = 5


class Child:
    """A process with that role. What it says goes to a log."""

    def __init__(self, role: str, words: list[str], folder: Path, environ: Mapping[str, str]) -> None:
        self._role = role
        self._log = folder / f"{role}.log"
        command = [sys.executable, "-m", __name__, role, *words]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
                env={**os.environ, **environ},
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def check(self) -> None:
        """Unavailable, with the end of the log, if it has ended by itself."""
        code = self._process.poll()
        if code is not None:
            said = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES_SHOWN:]
            raise Unavailable(f"the {self._role} of the demo has ended with {code}", detail="\n".join(said))

    def kill(self) -> None:
        """SIGKILL, and nothing is left of it."""
        self._process.kill()
        self._reap()

    def finish(self) -> None:
        """Let it finish what it is doing. TimedOut if that takes too long."""
        if self._role == RUNNER:
            self._process.send_signal(signal.SIGTERM)
        elif self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            raise TimedOut(f"the {self._role} of the demo has not ended within {END_S_MAX:.0f} s") from None
        self._reap()

    def _reap(self) -> None:
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()


def main(role: str, *words: str) -> int:
    """What a child does."""
    if role == RUNNER:
        from tidefill.cli import main as tidefill

        _when_the_parent_ends(lambda: os._exit(1))
        return tidefill(["run", "--config", *words])
    stop = threading.Event()
    _when_the_parent_ends(lambda: _end_soon(stop))
    if role == WRITER:
        from tidefill.cli.demo import writer

        url, location, rows = words
        writer.write(url, location, int(rows), stop)
    elif role == INDEX_WRITER:
        from tidefill.cli.demo import index_shop

        index_shop.write(os.environ[index_shop.URL_VARIABLE], int(words[0]), stop)
    elif role == TOPIC_WRITER:
        from tidefill.cli.demo import topic

        servers, rows, rate = words
        topic.write(servers, int(rows), int(rate), stop)
    else:
        from tidefill.cli.demo import shop

        shop.write(os.environ[shop.OWNER_VARIABLE], stop)
    return 0


def _when_the_parent_ends(end: Callable[[], None]) -> None:
    def watch() -> None:
        while os.read(sys.stdin.fileno(), 1):
            pass
        end()

    threading.Thread(target=watch, name="tidefill-parent", daemon=True).start()


def _end_soon(stop: threading.Event) -> None:
    """Without its parent the statement under way may never end."""
    stop.set()
    time.sleep(END_S_MAX)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
