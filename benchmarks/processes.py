"""What this process and its children use: the session's Java is one of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOOK_S = 0.2
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def _family(root: int) -> list[list[int]]:
    """What /proc says, in numbers, of a process and of all that it started; its own number in place of its state."""
    known: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                words = (folder / "stat").read_text().rpartition(")")[2].split()
                known[int(folder.name)] = [int(folder.name), *map(int, words[1:])]
    ours = {root} & known.keys()
    while more := {pid for pid, numbers in known.items() if numbers[1] in ours} - ours:
        ours |= more
    return [known[pid] for pid in ours]


def cpu_s() -> float:
    """Seconds of a core that this process and its children have used."""
    return sum(numbers[11] + numbers[12] for numbers in _family(os.getpid())) / TICKS_PER_S


def rss_bytes(root: int) -> int:
    """Memory that a process and its children have now. (A local PostgreSQL is nobody's child.)"""
    return sum(numbers[21] for numbers in _family(root)) * PAGE_BYTES


def read_bytes() -> int:
    """What the children of this process have asked the system to read, from files for the most part."""
    total = 0
    for numbers in _family(os.getpid()):
        with suppress(OSError):
            lines = Path(f"/proc/{numbers[0]}/io").read_text().splitlines() if numbers[0] != os.getpid() else []
            total += sum(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
    return total


class Most(threading.Thread):
    """The greatest of what a look shows now and then."""

    def __init__(self, look: Callable[[], int]) -> None:
        super().__init__(daemon=True)
        self._look = look
        self.stop = threading.Event()
        self.most = 0

    def run(self) -> None:
        while not self.stop.wait(LOOK_S):
            self.most = max(self.most, self._look())


@contextmanager
def most(look: Callable[[], int]) -> Iterator[Most]:
    """Looks while the block runs."""
    watcher = Most(look)
    watcher.start()
    try:
        yield watcher
    finally:
        watcher.stop.set()
        watcher.join()
