"""Where the demo happens, and how it ends: whatever becomes of it, nothing is left but what is to be kept."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from tidefill.cli.demo import orders
from tidefill.errors import InvalidSetting, TimedOut

TOTAL_S_MAX = 900
END_S_MAX = 30  # for what has to be tidied up then


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that everything of the demo is in."""

    folder: Path
    kept: bool

    @property
    def orders(self) -> str:
        return str(self.folder / orders.NAME)

    @property
    def warehouse(self) -> Path:
        return self.folder / "lake"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def config(self) -> Path:
        return self.folder / "tidefill.toml"

    def configure(
        self, remote: str = "", connections: Mapping[str, str] | None = None, clusters: Mapping[str, str] | None = None
    ) -> None:
        """Write the settings, for a runner that uses the Spark at that URL, or its own; and these connections, of each
        the variable that holds its URL, or of a cluster of Kafka where its brokers are."""
        spark = f'\n[spark]\nremote = "{remote}"\n' if remote else ""
        tables = [f'\n[connections.{name}]\nurl = "env:{variable}"\n' for name, variable in (connections or {}).items()]
        tables += [
            f'\n[connections.{name}]\nkind = "kafka"\n"bootstrap.servers" = "{servers}"\n'
            for name, servers in (clusters or {}).items()
        ]
        text = f'store = "store"\nwarehouse = "lake"\n{spark}{"".join(tables)}'
        self.config.write_text(text, encoding="utf-8")


@contextmanager
def home(keep: str | None) -> Iterator[Home]:
    """A folder that is gone at the end, whatever happens; or one to keep, that has to be new or empty."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="tidefill-demo-"))
        try:
            yield Home(folder, kept=False)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    folder = Path(keep).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InvalidSetting(f"the folder {folder} cannot be made", detail=str(error.strerror)) from error
    if taken:
        raise InvalidSetting(f"the folder {folder} is not empty", hint="Name a new one: the demo fills it.")
    made = Home(folder, kept=True)
    try:
        yield made
    finally:
        made.configure()  # the Spark of the demo is gone


@contextmanager
def bounded() -> Iterator[None]:
    """SIGTERM and SIGHUP end it like Ctrl-C; so does time, even in the middle of a question to Spark."""

    def interrupted(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def too_late(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, END_S_MAX)
        raise TimedOut(f"the demo was not over within {TOTAL_S_MAX} s", hint="Is this machine very busy?")

    handlers = {signal.SIGTERM: interrupted, signal.SIGHUP: interrupted, signal.SIGALRM: too_late}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    signal.setitimer(signal.ITIMER_REAL, TOTAL_S_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, former in before.items():
            signal.signal(number, former)
