"""What the demo shows: lines that begin with the time, and below them the jobs' bars, which are repainted in place.

Where nothing can be repainted, a line tells which jobs have come another quarter further.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from tidefill.cli import terminal
from tidefill.cli.project import ascii, colour
from tidefill.cli.render.cells import ASCII, GAP, UNICODE, WIDTH_MIN, clean, pad, wrap
from tidefill.cli.render.jobs import jobs_table
from tidefill.cli.render.screen import Frame, frame, repaint
from tidefill.jobs.status import Status

TIME_CELLS = 5
QUARTER = 25  # percent


class Stage:
    """The screen, from the demo's first second. A quiet one shows nothing."""

    def __init__(self, *, quiet: bool) -> None:
        self._began_s = time.monotonic()
        self._quiet = quiet
        self._live = not quiet and terminal.is_live(sys.stdout)
        self._frame: Frame | None = None
        self._told: dict[str, object] = {}

    @property
    def elapsed_s(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._began_s

    def say(self, text: str) -> None:
        """A line with the time, above the bars."""
        self.print(story(self.elapsed_s, text, terminal.width(), ascii=ascii()))

    def print(self, text: str) -> None:
        """Lines above the bars, as they are."""
        if self._frame is not None:
            said = frame(text, terminal.width(), terminal.height())
            terminal.show(repaint(self._frame, said) + repaint(None, self._frame), end="")
        elif not self._quiet:
            terminal.show(text)

    def bars(self, statuses: Sequence[Status]) -> None:
        """How far the jobs are."""
        if self._live:
            width = terminal.width()
            table = jobs_table(statuses, width, colour(), ascii=ascii())
            now = frame(f"\n{table}", width, terminal.height())
            if now != self._frame:
                terminal.show(repaint(self._frame, now), end="")
                self._frame = now
        elif news := [each for each in statuses if self._told.get(each.name) != _gist(each)]:
            self._told.update({each.name: _gist(each) for each in news})
            self.say(progress(news))

    def leave_bars(self) -> None:
        """They stay where they are, and whatever follows stands below them."""
        if self._frame is not None:
            self._frame = None
            terminal.show("")


def story(elapsed_s: float, text: str, width: int, *, ascii: bool = False) -> str:
    """The text behind the time, on as many lines as it needs."""
    marks, at = ASCII if ascii else UNICODE, TIME_CELLS + len(GAP)
    room = max(width, WIDTH_MIN) - at
    first, *rest = wrap(clean(text, ascii=ascii), room, marks.cut)
    moment = pad(f"{elapsed_s:.0f} s", TIME_CELLS, right=True)
    return "\n".join([f"{moment}{GAP}{first}", *(" " * at + line for line in rest)])


def _gist(of: Status) -> object:
    return of.state, of.percent // QUARTER


def progress(statuses: Sequence[Status]) -> str:
    """The jobs in one line."""
    return ", ".join(f"{each.name} {each.state} {each.percent} %" for each in statuses)
