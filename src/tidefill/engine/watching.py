"""Shows how a job stands until it has settled: in place in a notebook, as lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tidefill.jobs.status import Status
from tidefill.jobs.status_html import statuses_html


@dataclass(frozen=True, slots=True)
class Shown:
    """A status that a notebook shows as a bar."""

    status: Status

    def __repr__(self) -> str:
        return str(self.status)

    def _repr_html_(self) -> str:
        return statuses_html([self.status])


def watch(look: Callable[[], Status | None], is_settled: Callable[[], bool], every_s: float) -> None:
    """Show what `look` gives until the job is settled or gone (None), or until Ctrl-C."""
    show = _shower()
    try:
        while True:
            settled, status = is_settled(), look()
            if status is not None:
                show(Shown(status))
            if settled or status is None:
                return
            time.sleep(every_s)
    except KeyboardInterrupt:
        return


def _shower() -> Callable[[Shown], None]:
    """Replaces what it showed before, in a notebook; elsewhere prints a line whenever something has changed."""
    display = _notebook_display()
    if display is None:
        return _Lines()
    handle: list[Any] = []

    def show(shown: Shown) -> None:
        if handle:
            handle[0].update(shown)
        else:
            handle.append(display(shown, display_id=True))

    return show


class _Lines:
    def __init__(self) -> None:
        self._told = ""

    def __call__(self, shown: Shown) -> None:
        if str(shown) != self._told:
            self._told = str(shown)
            print(self._told, flush=True)


def _notebook_display() -> Callable[..., Any] | None:
    """IPython's `display`, if this is a notebook. Nothing is imported: in a notebook IPython is there."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if ipython is None or getattr(shell, "kernel", None) is None:
        return None
    found: Callable[..., Any] = ipython.display.display
    return found
