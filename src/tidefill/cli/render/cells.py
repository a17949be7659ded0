"""Text in the cells of a terminal: how much room it takes, and how it is made to take less."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import dropwhile

WIDTH_MIN = 40  # a terminal that is smaller shows the left part
TEXT_LINES_MAX = 5  # of one fact: an error may carry a page of text
GAP = "  "


@dataclass(frozen=True, slots=True)
class Marks:
    """The characters that pictures are made of. `parts`: a cell of a bar filled by 1/n, 2/n ... `unknown`: a split of
    which nobody knows how far it is."""

    parts: str
    track: str
    thin: str
    thin_track: str
    unknown: str
    rule: str
    cut: str
    between: str


UNICODE = Marks("▏▎▍▌▋▊▉█", "·", "━", "─", "╍", "─", "…", " · ")
ASCII = Marks("#", ".", "=", "-", "~", "-", "...", ", ")


def cells(text: str) -> int:
    """How many cells of a terminal the text takes: none for combining characters, two for wide ones."""
    return sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clean(text: str, *, ascii: bool = False) -> str:
    """The text on one line, with everything escaped that a terminal could take for a command, or cannot show."""
    return "".join(_escaped(character) if _is_odd(character, ascii) else character for character in text)


def _is_odd(character: str, ascii: bool) -> bool:
    if character.isascii():
        return not character.isprintable()
    joiner = character in "\u200c\u200d"
    return ascii or (not joiner and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Cn", "Zl", "Zp"))


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def shorten(text: str, width: int, mark: str = UNICODE.cut) -> str:
    """At most that wide; what is left out in the middle is a mark, as names differ at both ends."""
    if cells(text) <= width:
        return text
    room = max(width - cells(mark), 0)
    tail = _without_leading_marks(_head(text[::-1], room // 2)[::-1])
    return _head(_head(text, room - room // 2) + mark, width) + tail


def cut(text: str, width: int, mark: str = UNICODE.cut) -> str:
    """At most that wide; what is left out at the end is a mark."""
    if cells(text) <= width:
        return text
    return _head(_head(text, max(width - cells(mark), 0)) + mark, width)


def _head(text: str, room: int) -> str:
    """As much of the beginning as has room."""
    for at, character in enumerate(text):
        room -= _cells_of(character)
        if room < 0:
            return text[:at]
    return text


def _without_leading_marks(text: str) -> str:
    """Combining characters at the start would fall on what stands before them."""
    return "".join(dropwhile(lambda character: not _cells_of(character), text))


def pad(text: str, width: int, *, right: bool = False) -> str:
    """Filled up with spaces to that width; `right` puts the text at the end."""
    space = " " * (width - cells(text))
    return space + text if right else text + space


def wrap(text: str, width: int, mark: str = UNICODE.cut) -> list[str]:
    """Lines of at most that width, broken between words where that is possible; after TEXT_LINES_MAX it is cut."""
    lines = [""]
    for word in pieces(text.split(), width):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cells(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > TEXT_LINES_MAX:
        lines[TEXT_LINES_MAX - 1 :] = [cut(" ".join(lines[TEXT_LINES_MAX - 1 :]), width, mark)]
    return lines


def broken(text: str, width: int) -> list[str]:
    """Lines of at most that width, with the blanks that SQL is indented by."""
    indent = " " * min(len(text) - len(text.lstrip()), width // 2)
    lines = [""]
    for word in pieces(text.split(), width - len(indent)):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        lines[-1:] = [longer] if cells(longer) <= width - len(indent) else [lines[-1], word]
    return [f"{indent}{line}" for line in lines]


def pieces(words: Iterable[str], width: int) -> Iterator[str]:
    """The words, those that have no room on a line of their own in pieces."""
    for word in words:
        while cells(word) > width:
            piece = _head(word, width) or word[0]
            yield piece
            word = word[len(piece) :]
        if word:
            yield word
