"""What a person looks at, as text: pure functions from frozen values, told the width and whether colours are wanted.

No line is ever wider than it may be (for a width of WIDTH_MIN or more), counted in the cells of a terminal. Text from
outside never reaches the terminal as a command to it: what is not printable is escaped.
"""

from __future__ import annotations

import base64
import json
import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, fields, is_dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from itertools import dropwhile
from typing import TYPE_CHECKING, Any

from tidefill.core.budget import size_text
from tidefill.core.step import Reason
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure, Pause
from tidefill.jobs.status import DONE, SplitStatus, Status

if TYPE_CHECKING:
    from tidefill.doctor.findings import Finding

WIDTH_MIN = 40  # a terminal that is smaller shows the left part
BAR_MIN, BAR_MAX, BAR_WIDE, THIN_BAR_MIN = 10, 60, 40, 6
FACTS_MIN = 40  # with that much room right of the bar the facts stand there
NAME_MIN, NAME_MAX = 8, 40
SPLITS_MAX = 8
TEXT_LINES_MAX = 5  # of one fact: an error may carry a page of text
FACT_CHARACTERS_MAX = 20_000  # of a value that is told whole: a few screens
CELL_CHARACTERS_MAX = 1000  # of a value in a table: a line has no room for more
COLUMN_MIN = 5  # columns that would become narrower are shown one below the other
GAP = "  "
STATE_CELLS = max(len(life.value) for life in Life)
PERCENT_CELLS = len("100 %")

BOLD, DIM, RED, GREEN, YELLOW, CYAN, RESET = (f"\x1b[{code}m" for code in (1, 2, 31, 32, 33, 36, 0))
CLEAR_LINE, CLEAR_BELOW, CLEAR_ALL = "\x1b[K", "\x1b[J", "\x1b[H\x1b[2J"
WRAP_OFF, WRAP_ON = "\x1b[?7l", "\x1b[?7h"
STATE_COLOURS = {
    Life.BACKFILLING.value: CYAN,
    Life.VERIFYING.value: CYAN,
    Life.LIVE.value: GREEN,
    Life.PAUSED.value: YELLOW,
    Life.FAILED.value: RED,
}


VERDICT_COLOURS = {"ok": GREEN, "warning": YELLOW, "bad": RED}
VERDICT_CELLS = max(map(len, VERDICT_COLOURS))


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


# Cells: how much room text takes, and how it is made to take less.


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
    for word in _pieces(text.split(), width):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        if cells(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    if len(lines) > TEXT_LINES_MAX:
        lines[TEXT_LINES_MAX - 1 :] = [cut(" ".join(lines[TEXT_LINES_MAX - 1 :]), width, mark)]
    return lines


def _pieces(words: Iterable[str], width: int) -> Iterator[str]:
    """The words, those that have no room on a line of their own in pieces."""
    for word in words:
        while cells(word) > width:
            piece = _head(word, width) or word[0]
            yield piece
            word = word[len(piece) :]
        if word:
            yield word


# Numbers for people.


def count(value: float) -> str:
    """`950`, `12.3k`, `1.2M`: three figures at most, never rounded up."""
    if not math.isfinite(value):
        return "?"
    units = (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
    unit, size = next((found for found in units if value >= found[1]), units[-1])
    scaled = value / size
    return (str(math.floor(scaled)) if scaled >= 100 else f"{math.floor(scaled * 10) / 10:g}") + unit


def duration(seconds: float) -> str:
    """`4 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`: the two greatest units."""
    if not math.isfinite(seconds):
        return "?"
    left, parts = max(math.floor(seconds), 0), []
    for unit, size_s in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, size_s)
        parts.append((amount, unit))
    first = next((at for at, (amount, _) in enumerate(parts) if amount), len(parts) - 1)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount) or "0 s"


def age(seconds: float) -> str:
    """`3 min`: the greatest unit of the duration."""
    return " ".join(duration(seconds).split()[:2])


def lag(versions: int | None, seconds: float | None, *, at_least: bool = False) -> str:
    """`lag 2 versions, 4 s`, as far as it is known; empty if it is not. `at_least`: it may have grown since."""
    if versions == 0:
        return "" if at_least else "no lag"
    parts = [] if versions is None else [f"{versions} version{'s' * (versions != 1)}"]
    if seconds is not None:
        parts.append(duration(seconds))
    return f"lag {'at least ' * at_least}{', '.join(parts)}" if parts else ""


# Jobs.


@dataclass(frozen=True, slots=True)
class _Sheet:
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


def jobs_table(statuses: Sequence[Status], width: int, colour: bool, *, ascii: bool = False) -> str:
    """A block for every job: a line with its bar, what there is to say about it, its splits while they are filled."""
    if not statuses:
        return no_jobs()
    sheet = _sheet(statuses, max(width, WIDTH_MIN), colour, ascii)
    blocks = [_block(status, sheet) for status in statuses]
    between = "\n\n" if any(len(block) > 1 for block in blocks) else "\n"
    return between.join("\n".join(line.rstrip() for line in block) for block in blocks)


def no_jobs() -> str:
    """What is said when there are none."""
    return "no jobs"


def footer(statuses: Sequence[Status], width: int = 80) -> str:
    """What a person has to know when no process runs any of the store's jobs; else empty."""
    if not statuses or any(status.runs for status in statuses):
        return ""
    ages_s = [status.seen_s for status in statuses if status.seen_s is not None]
    told = ["no runner: start `tidefill run`"]
    told += [f"figures are {age(min(ages_s))} old"] if ages_s else []
    return "\n".join(line for text in told for line in wrap(text, max(width, WIDTH_MIN)))


def _sheet(statuses: Sequence[Status], width: int, colour: bool, ascii: bool) -> _Sheet:
    longest = max(cells(clean(status.name, ascii=ascii)) for status in statuses)
    room = width - STATE_CELLS - PERCENT_CELLS - 3 * len(GAP) - BAR_MIN
    return _Sheet(width, max(min(longest, room, NAME_MAX), NAME_MIN), colour, ascii)


def _block(status: Status, sheet: _Sheet) -> list[str]:
    told = [f"{' ' * sheet.facts_at}{line}" for line in _told(status, sheet)]
    head = _head_line(status, sheet)
    if sheet.wide and told:
        head, told = head + GAP + told[0].lstrip(), told[1:]
    return [head, *told, *_split_lines(status, sheet)]


def _head_line(status: Status, sheet: _Sheet) -> str:
    style = STATE_COLOURS.get(status.state, DIM)
    name = shorten(sheet.clean(status.name), sheet.name, sheet.marks.cut)
    state = cut(sheet.clean(status.state), STATE_CELLS, sheet.marks.cut)
    return GAP.join(
        [
            sheet.paint(name, BOLD) + " " * (sheet.name - cells(name)),
            sheet.paint(state, style) + " " * (STATE_CELLS - cells(state)),
            pad(f"{status.percent} %", PERCENT_CELLS, right=True),
            _bar(status.share, sheet.bar, style, sheet),
        ]
    )


def _bar(share: float, width: int, style: str, sheet: _Sheet) -> str:
    """Full only when all is done."""
    parts = sheet.marks.parts
    whole, part = divmod(_steps(share, width * len(parts)), len(parts))
    filled = parts[-1] * whole + (parts[part - 1] if part else "")
    return sheet.paint(filled, style) + sheet.paint(sheet.marks.track * (width - len(filled)), DIM)


def _steps(share: float, all_steps: int) -> int:
    if share >= 1.0:
        return all_steps
    return min(math.floor(share * all_steps), all_steps - 1) if share > 0.0 else 0


def _told(status: Status, sheet: _Sheet) -> list[str]:
    """The lines about a job that are not its bars, without their indentation."""
    room = sheet.width - sheet.facts_at
    lines = _packed([sheet.clean(fact) for fact in _facts(status)], room, sheet.marks)
    if status.failure is not None and status.state == Life.FAILED.value:
        lines = _failure_lines(status.failure, room, sheet) + lines
    return lines


def _packed(facts: Iterable[str], room: int, marks: Marks) -> list[str]:
    """As many facts to a line as have room."""
    lines: list[str] = []
    for fact in facts:
        longer = f"{lines[-1]}{marks.between}{fact}" if lines else ""
        if longer and cells(longer) <= room:
            lines[-1] = longer
        else:
            lines.extend(wrap(fact, room, marks.cut))
    return lines


def _failure_lines(failure: Failure, room: int, sheet: _Sheet) -> list[str]:
    fact = wrap(sheet.clean(f"{failure.fact} [{failure.code}]"), room, sheet.marks.cut)
    hint = wrap(sheet.clean(f"Hint: {failure.hint}"), room, sheet.marks.cut) if failure.hint else []
    return [*(sheet.paint(line, RED) for line in fact), *hint]


def _facts(status: Status) -> list[str]:
    """What there is to say, most important first. A rate and a time left are told only while somebody works."""
    filling = status.state == Life.BACKFILLING.value
    working = filling and status.runs
    facts = [
        f"{status.doing} for {duration(status.doing.for_s)}" if status.doing is not None else "",
        f"{count(status.rows_per_s)} rows/s" if working and status.rows_per_s >= 0.1 else "",
        f"{count(status.rows)} rows" if status.rows > 0 and status.state != Life.LIVE.value else "",
        f"{duration(status.eta_s)} left" if working and status.eta_s is not None else "",
        _lag(status),
        _log(status),
        f"version {status.version}" if status.version is not None and not filling else "",
        f"generation {status.generation}" if filling and status.generation > 1 else "",
        _waiting(status),
        f"asked to {' and '.join(status.wishes)}" if status.wishes else "",
    ]
    return [fact for fact in facts if fact]


def _lag(status: Status) -> str:
    if status.waiting == Reason.IDLE.value:
        return ""
    return lag(status.lag_versions, status.lag_s, at_least=status.doing is not None)


def _log(status: Status) -> str:
    """How much of its log a server keeps for it, once that is much."""
    kept, allowed = status.log_bytes, status.settings.wal_budget
    if not kept or (allowed is not None and 2 * kept <= allowed):
        return ""
    return f"{size_text(kept)} of log kept"


def _waiting(status: Status) -> str:
    """What it waits for. That a paused job is paused was said already."""
    if status.state == Life.PAUSED.value and status.waiting == Reason.PAUSED.value:
        return ""
    if status.waiting in (Reason.IDLE.value, Reason.FILL_PAUSED.value):
        return status.waiting
    if status.waiting:
        return f"waiting: {status.waiting}"
    fill_paused = status.pause == Pause.FILL.value and status.state == Life.BACKFILLING.value
    return Reason.FILL_PAUSED.value if fill_paused else ""


def _split_lines(status: Status, sheet: _Sheet) -> list[str]:
    """A thin bar for each split that was cut for filling. The last split, if it is done, lies above all that was there
    at the start and is not shown; one that is left alone says no more than the job's own bar."""
    splits = status.splits[:-1] if status.splits and status.splits[-1].reached == DONE else status.splits
    if len(splits) < 2 or status.state == Life.FAILED.value:
        return []
    shown = [_cleaned(split, sheet) for split in splits[:SPLITS_MAX]]
    columns = _split_columns(shown, sheet)
    lines = [_split_line(split, columns, sheet) for split in shown]
    more = len(splits) - SPLITS_MAX
    return [*lines, *([f"{GAP}... and {more} more"] if more > 0 else [])]


def _cleaned(split: SplitStatus, sheet: _Sheet) -> SplitStatus:
    return SplitStatus(sheet.clean(split.range), sheet.clean(split.reached), split.share)


@dataclass(frozen=True, slots=True)
class _SplitColumns:
    """How many cells the range, the bar, and how far it is have in the lines of a job's splits."""

    range: int
    bar: int
    reached: int


def _split_columns(splits: Sequence[SplitStatus], sheet: _Sheet) -> _SplitColumns:
    """The bars begin below the job's own bar if that leaves room enough, else right of the ranges."""
    label = max(cells(split.range) for split in splits)
    reached = max(cells(split.reached) for split in splits)
    at, width = sheet.bar_at, sheet.width - len(GAP)
    if not sheet.wide and width - at - reached < BAR_MIN:
        at = min(label + 2 * len(GAP), max(width - THIN_BAR_MIN - reached, width * 2 // 5))
    bar = BAR_WIDE if sheet.wide else max(min(width - at - reached, BAR_MAX), THIN_BAR_MIN)
    return _SplitColumns(at - 2 * len(GAP), bar, width - at - bar)


def _split_line(split: SplitStatus, columns: _SplitColumns, sheet: _Sheet) -> str:
    label = pad(shorten(split.range, columns.range, sheet.marks.cut), columns.range)
    reached = shorten(split.reached, columns.reached, sheet.marks.cut)
    bar = _thin_bar(split.share, columns.bar, sheet)
    return GAP + sheet.paint(label, DIM) + GAP + bar + GAP + sheet.paint(reached, DIM)


def _thin_bar(share: float | None, width: int, sheet: _Sheet) -> str:
    if share is None:
        return sheet.paint(sheet.marks.unknown * width, CYAN)
    filled = _steps(share, width)
    track = sheet.paint(sheet.marks.thin_track * (width - filled), DIM)
    return sheet.paint(sheet.marks.thin * filled, GREEN if share >= 1.0 else CYAN) + track


# Watching.


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


def changes(before: Sequence[Status], now: Sequence[Status], *, ascii: bool = False) -> list[str]:
    """For where nothing can be repainted: a line for every job whose state or whole percent is another than before, and
    for every job that is gone."""
    names = {status.name for status in now}
    told = [one_line(status, ascii=ascii) for status in changed(before, now)]
    return told + [f"{clean(each.name, ascii=ascii)}: gone" for each in before if each.name not in names]


def changed(before: Sequence[Status], now: Sequence[Status]) -> list[Status]:
    """Those whose state or whole percent is another than before."""
    known = {status.name: _gist(status) for status in before}
    return [status for status in now if known.get(status.name) != _gist(status)]


def _gist(status: Status) -> tuple[object, ...]:
    return status.state, status.percent, status.failure


def one_line(status: Status, *, ascii: bool = False) -> str:
    """The job on one line, however long."""
    failure = [f"{status.failure.fact} [{status.failure.code}]"] if status.failure is not None else []
    parts = [f"{status.name}: {status.state} {status.percent} %", *failure, *_facts(status)]
    return clean(", ".join(parts), ascii=ascii)


# Findings.


def finding(what: Finding, width: int, colour: bool, *, ascii: bool = False) -> str:
    """What was looked at and how it is; below it what to do, if it is not fine."""
    sheet = _Sheet(max(width, WIDTH_MIN), NAME_MIN, colour, ascii)
    word = pad(what.verdict.value, VERDICT_CELLS)
    at = VERDICT_CELLS + len(GAP)
    told = [*_broken(sheet.clean(f"{what.what}: {what.fact}"), sheet.width - at)]
    told += _broken(sheet.clean(what.remedy), sheet.width - at) if what.remedy else []
    rest = "".join(f"\n{' ' * at}{line}" for line in told[1:])
    return f"{sheet.paint(word, VERDICT_COLOURS[what.verdict.value])}{GAP}{told[0]}{rest}"


# Tables of anything.


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], width: int, *, ascii: bool = False) -> str:
    """A result as a table, numbers to the right. Too wide, the widest columns are cut; with more columns than have room
    each row becomes a list. Every row has a value for every header."""
    marks, width = ASCII if ascii else UNICODE, max(width, WIDTH_MIN)
    titles = [clean(header, ascii=ascii) for header in headers]
    texts = [[_cell(value, ascii) for value in row] for row in rows]
    wanted = [max(map(cells, column)) for column in zip(titles, *texts, strict=True)]
    widths = _fitting(wanted, width - len(GAP) * (len(headers) - 1))
    if widths is None:
        return _lists(titles, texts, width, marks)
    columns = [_Column(room, _is_numeric([row[at] for row in rows])) for at, room in enumerate(widths)]
    rule = GAP.join(marks.rule * room for room in widths)
    return "\n".join([_row(titles, columns, marks), rule, *(_row(row, columns, marks) for row in texts)])


def facts(rows: Iterable[Sequence[object]], width: int, *, ascii: bool = False) -> str:
    """Pairs of a label and a value, one below the other. Values are told whole, on as many lines as they need."""
    marks, width = ASCII if ascii else UNICODE, max(width, WIDTH_MIN)
    pairs = [(clean(str(label), ascii=ascii), value) for label, value in rows]
    label_cells = min(max((cells(label) for label, _ in pairs), default=0), width // 3)
    room = width - label_cells - len(GAP)
    lines: list[str] = []
    for label, value in pairs:
        parts = [clean(part, ascii=ascii) for part in _value_text(value)[:FACT_CHARACTERS_MAX].split("\n")]
        shown = [line for part in parts for line in _broken(part, room)]
        titles = [pad(cut(label, label_cells, marks.cut), label_cells), *[" " * label_cells] * (len(shown) - 1)]
        lines += [f"{title}{GAP}{line}".rstrip() for title, line in zip(titles, shown, strict=True)]
    return "\n".join(lines)


def _broken(text: str, width: int) -> list[str]:
    """Lines of at most that width, with the blanks that SQL is indented by."""
    indent = " " * min(len(text) - len(text.lstrip()), width // 2)
    lines = [""]
    for word in _pieces(text.split(), width - len(indent)):
        longer = f"{lines[-1]} {word}" if lines[-1] else word
        lines[-1:] = [longer] if cells(longer) <= width - len(indent) else [lines[-1], word]
    return [f"{indent}{line}" for line in lines]


@dataclass(frozen=True, slots=True)
class _Column:
    width: int
    right: bool


def _row(texts: Sequence[str], columns: Sequence[_Column], marks: Marks) -> str:
    parts = [
        pad(cut(text, column.width, marks.cut), column.width, right=column.right)
        for text, column in zip(texts, columns, strict=True)
    ]
    return GAP.join(parts).rstrip()


def _fitting(wanted: Sequence[int], room: int) -> list[int] | None:
    """Widths that have room together: the widest give way first. None if some would be too narrow to be read."""
    widths = [min(cells_wanted, max(room, COLUMN_MIN)) for cells_wanted in wanted]
    while sum(widths) > room:
        widest = max(widths)
        if widest <= COLUMN_MIN:
            return None
        widths[widths.index(widest)] -= 1
    return widths


def _lists(titles: Sequence[str], texts: Sequence[Sequence[str]], width: int, marks: Marks) -> str:
    label = min(max(map(cells, titles)), width // 3)
    columns = [_Column(label, right=False), _Column(width - label - len(GAP), right=False)]
    rule = f"\n{marks.rule * label}\n"
    lists = [[_row(pair, columns, marks) for pair in zip(titles, row, strict=True)] for row in texts]
    return rule.join("\n".join(lines) for lines in lists or [[cut(title, width, marks.cut) for title in titles]])


def _is_numeric(values: Sequence[object]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(_is_number(value) for value in present)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _cell(value: object, ascii: bool) -> str:
    return clean(_value_text(value)[:CELL_CHARACTERS_MAX], ascii=ascii)


def _value_text(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case bytes() | bytearray():
            return f"0x{value[:CELL_CHARACTERS_MAX].hex()}"
        case float() if not math.isfinite(value):
            return _not_finite(value)
        case datetime():
            return value.isoformat(" ")
        case list() | tuple() | Mapping() | AbstractSet():
            return as_json(value)
        case _:
            return str(value)


# JSON.


def as_json(value: object) -> str:
    """One line of JSON for any value of a result or a status; keys are sorted, so that equal values give equal texts.
    What JSON has no form for is text: decimals, NaN and the infinities, times in ISO 8601, bytes in base64."""
    return json.dumps(plain(value), sort_keys=True, allow_nan=False)


def status_json(status: Status) -> dict[str, Any]:
    """The status as JSON data, with the percents that a person sees."""
    data = plain(status)
    assert isinstance(data, dict)
    return {**data, "percent": status.percent}


def plain(value: object) -> Any:
    """The value as JSON data."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode("ascii")
        case date() | time():
            return value.isoformat()
        case Mapping():
            return {_key(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case AbstractSet():
            return sorted((plain(item) for item in value), key=as_json)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _key(key: object) -> str:
    return key if isinstance(key, str) else str(plain(key))
