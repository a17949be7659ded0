"""Work in a thread of its own, while this one shows how it goes and hears signals.

Spark takes over Ctrl-C where it is started, if that is the main thread; and a step may take minutes, in which a person
wants to see something. So the main thread only looks.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

LOOK_S = 0.25
INTERRUPTED = 130  # as shells tell it: 128 and the number of the signal


@contextmanager
def told_to_stop(stop: threading.Event, tell: Callable[[], None]) -> Iterator[None]:
    """SIGTERM and SIGINT set `stop`, and the first of them is told. A second SIGINT is a KeyboardInterrupt: at once."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears signals
        return

    def heard(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        if not stop.is_set():
            stop.set()
            tell()

    before = {number: signal.signal(number, heard) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def attend(work: Callable[[], None], look: Callable[[], None]) -> None:
    """Do the work, look at it now and then and once at its end, and raise what it raises. Should the one who attends be
    interrupted, the work is left to itself, and ends with the process."""
    raised: list[BaseException] = []

    def worked() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=worked, name="tidefill-work", daemon=True)
    thread.start()
    while thread.is_alive():
        look()
        thread.join(LOOK_S)
    look()
    if raised:
        raise raised[0]


def leave() -> NoReturn:
    """End the process at once, in the middle of a step. An orderly end would stop Spark under the step's feet, and a
    job must not take that for a failure; so it looks like a crash, from which jobs recover."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)
