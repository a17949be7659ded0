"""The columns, the marks and the colours that the blocks of one picture share."""

from __future__ import annotations

from dataclasses import dataclass

from tidefill.cli.render.cells import ASCII, GAP, UNICODE, Marks, clean
from tidefill.jobs.lifecycle import Life

BAR_MIN, BAR_MAX, BAR_WIDE, THIN_BAR_MIN = 10, 60, 40, 6
FACTS_MIN = 40  # with that much room right of the bar the facts stand there
NAME_MIN, NAME_MAX = 8, 40
STATE_CELLS = max(len(life.value) for life in Life)
PERCENT_CELLS = len("100 %")
BOLD, DIM, RED, GREEN, YELLOW, CYAN, RESET = (f"\x1b[{code}m" for code in (1, 2, 31, 32, 33, 36, 0))


@dataclass(frozen=True, slots=True)
class Sheet:
    """How the blocks of a table of jobs are laid out: the same columns for all of them."""

    width: int
    name: int
    colour: bool
    ascii: bool

    @property
    def marks(self) -> Marks:
        return ASCII if self.ascii else UNICODE

    @property
    def wide(self) -> bool:
        return self.width >= self.bar_at + BAR_WIDE + len(GAP) + FACTS_MIN

    @property
    def bar_at(self) -> int:
        return self.name + STATE_CELLS + PERCENT_CELLS + 3 * len(GAP)

    @property
    def bar(self) -> int:
        return BAR_WIDE if self.wide else min(self.width - self.bar_at, BAR_MAX)

    @property
    def facts_at(self) -> int:
        return self.bar_at + self.bar + len(GAP) if self.wide else len(GAP)

    def paint(self, text: str, style: str) -> str:
        return f"{style}{text}{RESET}" if self.colour and style and text else text

    def clean(self, text: str) -> str:
        return clean(text, ascii=self.ascii)
