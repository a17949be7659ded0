"""Watching: a repaint leaves nothing behind, and a frame fits the terminal."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.cli.render.examples import FAILED, LIVE, PLAIN
from tidefill.cli.render.lines import changes
from tidefill.cli.render.screen import Frame, frame, repaint


class Terminal:
    """A small terminal: enough of one to see what a repaint leaves behind."""

    def __init__(self, width: int) -> None:
        self.width, self.row, self.column = width, 0, 0
        self.lines: list[str] = [""]

    def write(self, text: str) -> None:
        for token in re.findall(r"\x1b\[\??\d*[A-Za-z]|[^\x1b]", text):
            self._do(token)

    def _do(self, token: str) -> None:
        match re.fullmatch(r"\x1b\[(\??\d*)([A-Za-z])", token):
            case None:
                self._put(token)
            case found if found[2] == "A":
                self.row -= int(found[1])
                assert self.row >= 0
            case found if found[2] == "H":
                self.row = self.column = 0
            case found if found[2] == "K":
                self.lines[self.row] = self.lines[self.row][: self.column]
            case found if found[2] == "J":
                self.lines = [""] if found[1] == "2" else [*self.lines[: self.row], self.lines[self.row][: self.column]]

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row, self.column = self.row + 1, 0
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif self.column < self.width:
            line = self.lines[self.row]
            self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1


@given(st.lists(st.tuples(st.lists(st.text("abc", max_size=30), min_size=1), st.sampled_from([20, 25])), min_size=1))
def test_a_repaint_leaves_nothing_of_the_frame_before(shown: list[tuple[list[str], int]]) -> None:
    terminal, before = Terminal(20), None
    for lines, width in shown:
        terminal.width = width
        now = frame("\n".join(lines), width, 10)
        terminal.write(repaint(before, now))
        before = now
        assert terminal.lines == [*(line[:width] for line in now.lines), ""]


def test_a_frame_is_never_taller_than_the_terminal() -> None:
    assert frame("a\nb\nc", 80, 4).lines == ("a", "b", "c")
    assert frame("a\nb\nc\nd", 80, 4).lines == ("a", "b", "... and 2 more lines")
    assert frame("a\nb", 80, 0).lines == ("... and 2 more lines",)


def test_a_resized_terminal_is_cleared() -> None:
    before, now = Frame(("a",), 80, 24), Frame(("a",), 79, 24)
    assert "\x1b[2J" in repaint(before, now)
    assert "\x1b[2J" not in repaint(before, before) + repaint(None, now)


def test_where_nothing_can_be_repainted_only_changes_are_told() -> None:
    assert changes([], [LIVE]) == ["orders: live 100 %, version 1812, up to date"]
    assert changes([PLAIN, LIVE], [replace(PLAIN, share=0.4299, rows_per_s=9.0), LIVE]) == []
    assert changes([PLAIN, LIVE], [replace(PLAIN, share=0.43)]) == [
        "revenue_by_day: backfilling 43 %, 12.3M rows",
        "orders: gone",
    ]
    assert changes([PLAIN], [FAILED])[0].startswith(
        "customers: failed 13 %, two rows have the key (17) [KEY_NOT_UNIQUE]"
    )
