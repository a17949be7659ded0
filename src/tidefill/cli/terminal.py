"""Where a command writes to: how wide it is, what it can show, and a line that comes and goes while something starts.

Results go to the standard output; what is said beside them (notes, errors, the spinner) to the standard error, so that
results can be piped.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from tidefill.cli.render.cells import UNICODE, clean
from tidefill.cli.render.screen import CLEAR_LINE

SPIN_S = 0.1
SPIN_AFTER_S = 0.3  # what is quicker needs no words
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINNER_ASCII = "|/-\\"


def width() -> int:
    """In cells; 80 where nobody knows."""
    return shutil.get_terminal_size((80, 24)).columns


def height() -> int:
    """In lines; 24 where nobody knows."""
    return shutil.get_terminal_size((80, 24)).lines


def is_live(stream: TextIO) -> bool:
    """Whether somebody looks at it who sees lines being repainted."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def has_colour(stream: TextIO) -> bool:
    """Whether colours are shown, and wanted (https://no-color.org)."""
    return is_live(stream) and not os.environ.get("NO_COLOR")


def is_ascii(stream: TextIO) -> bool:
    """Whether it can show no more than ASCII."""
    try:
        f"{UNICODE.parts}{UNICODE.cut}{SPINNER}".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def say(text: str) -> None:
    """Write a result at once: the reader of a pipe waits for it."""
    print(_cleaned(text, sys.stdout), flush=True)


def note(text: str) -> None:
    """What is said beside the results."""
    print(_cleaned(text, sys.stderr), file=sys.stderr, flush=True)


def show(rendered: str, end: str = "\n") -> None:
    """A result with colours, or with what moves the cursor: `render` has cleaned what in it came from outside."""
    print(rendered, end=end, flush=True)


def _cleaned(text: str, stream: TextIO) -> str:
    ascii = is_ascii(stream)
    return "\n".join(clean(line, ascii=ascii) for line in text.split("\n"))


@contextmanager
def spinner(text: str) -> Iterator[None]:
    """The text with something that turns, on a terminal and until it is done; then nothing is left of it. Inside of
    another spinner, its text is shown in place of the other's."""
    if not is_live(sys.stderr):
        yield
        return
    done = threading.Event()
    _TEXTS.append(text)
    turning = threading.Thread(target=_turn, args=(done,), name="tidefill-spinner", daemon=True)
    if len(_TEXTS) == 1:
        turning.start()
    try:
        yield
    finally:
        _TEXTS.pop()
        done.set()
        if not _TEXTS:
            turning.join()


_TEXTS: list[str] = []


def _turn(done: threading.Event) -> None:
    if done.wait(SPIN_AFTER_S):
        return
    signs, at = (SPINNER_ASCII if is_ascii(sys.stderr) else SPINNER), 0
    while not done.is_set():
        sys.stderr.write(f"\r{signs[at % len(signs)]} {' '.join(_TEXTS[-1:])}{CLEAR_LINE}")
        sys.stderr.flush()
        at += 1
        done.wait(SPIN_S)
    sys.stderr.write(f"\r{CLEAR_LINE}")
    sys.stderr.flush()
