"""Text that is repainted in place on a terminal."""

from __future__ import annotations

from dataclasses import dataclass

CLEAR_LINE, CLEAR_BELOW, CLEAR_ALL = "\x1b[K", "\x1b[J", "\x1b[H\x1b[2J"
WRAP_OFF, WRAP_ON = "\x1b[?7l", "\x1b[?7h"


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands on a terminal of that size."""

    lines: tuple[str, ...]
    width: int
    height: int


def frame(text: str, width: int, height: int) -> Frame:
    """The text as a frame. What is taller than the terminal is cut, as nobody can go back up into what has scrolled
    away; one line stays free for the cursor."""
    lines = tuple(text.split("\n"))
    room = max(height - 1, 1)
    if len(lines) > room:
        lines = (*lines[: room - 1], f"... and {len(lines) - room + 1} more lines")
    return Frame(lines, width, height)


def repaint(before: Frame | None, now: Frame) -> str:
    """What to write so that `now` stands where `before` stood, with the cursor below it. A line that is too long is
    cut off by the terminal and not broken, as it would take two. Each line is cleared before it is written: behind a
    full one the cursor stands on its last cell, which would be cleared too."""
    body = "".join(f"{CLEAR_LINE}{line}\n" for line in now.lines)
    return f"{WRAP_OFF}{_back_to_start(before, now)}{body}{CLEAR_BELOW}{WRAP_ON}"


def _back_to_start(before: Frame | None, now: Frame) -> str:
    """A terminal of another size than before has moved its lines about in a way that nobody can know: clear it."""
    if before is None:
        return ""
    same_size = (before.width, before.height) == (now.width, now.height)
    return f"\x1b[{len(before.lines)}A\r" if same_size else CLEAR_ALL
