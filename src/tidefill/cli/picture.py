"""Jobs as they change: bars that are repainted on a terminal, else a line for each change."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tidefill.cli import terminal
from tidefill.cli.project import ascii, colour
from tidefill.cli.render.jobs import jobs_table
from tidefill.cli.render.lines import changed, changes
from tidefill.cli.render.screen import Frame, frame, repaint
from tidefill.jobs.plain_json import as_json
from tidefill.jobs.status import Status, status_json


class Picture:
    """What was shown last, and how to get from there to what is so now. `beside`: the picture is not the result, so
    where nothing can be repainted its lines go to the standard error. `json`: lines of JSON, never repainted."""

    def __init__(self, *, json: bool = False, beside: bool = False) -> None:
        self._json = json
        self._say = terminal.note if beside else terminal.say
        self._live = not json and terminal.is_live(sys.stdout)
        self._frame: Frame | None = None
        self._statuses: Sequence[Status] = ()

    def show(self, statuses: Sequence[Status], remark: str = "") -> None:
        """Show how they stand now; the remark stands below them."""
        if self._live:
            self._repaint(statuses, remark)
        elif self._json:
            for status in changed(self._statuses, statuses):
                self._say(as_json(status_json(status)))
        else:
            for line in changes(self._statuses, statuses, ascii=ascii()):
                self._say(line)
        self._statuses = statuses

    def _repaint(self, statuses: Sequence[Status], remark: str) -> None:
        width = terminal.width()
        parts = (jobs_table(statuses, width, colour(), ascii=ascii()), remark)
        now = frame("\n".join(part for part in parts if part), width, terminal.height())
        if now != self._frame:
            terminal.show(repaint(self._frame, now), end="")
            self._frame = now
