"""Jobs as a table: a block of lines for each, with its bar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidefill.cli.render.bars import bar
from tidefill.cli.render.cells import GAP, WIDTH_MIN, Marks, cells, clean, cut, pad, shorten, wrap
from tidefill.cli.render.job_facts import job_facts
from tidefill.cli.render.numbers import age
from tidefill.cli.render.sheet import (
    BAR_MIN,
    BOLD,
    CYAN,
    DIM,
    GREEN,
    NAME_MAX,
    NAME_MIN,
    PERCENT_CELLS,
    RED,
    STATE_CELLS,
    YELLOW,
    Sheet,
)
from tidefill.cli.render.splits import split_lines
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.row import Failure
from tidefill.jobs.status import Status

STATE_COLOURS = {
    Life.BACKFILLING.value: CYAN,
    Life.VERIFYING.value: CYAN,
    Life.LIVE.value: GREEN,
    Life.PAUSED.value: YELLOW,
    Life.FAILED.value: RED,
}


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


def _sheet(statuses: Sequence[Status], width: int, colour: bool, ascii: bool) -> Sheet:
    longest = max(cells(clean(status.name, ascii=ascii)) for status in statuses)
    room = width - STATE_CELLS - PERCENT_CELLS - 3 * len(GAP) - BAR_MIN
    return Sheet(width, max(min(longest, room, NAME_MAX), NAME_MIN), colour, ascii)


def _block(status: Status, sheet: Sheet) -> list[str]:
    told = [f"{' ' * sheet.facts_at}{line}" for line in _told(status, sheet)]
    head = _head_line(status, sheet)
    if sheet.wide and told:
        head, told = head + GAP + told[0].lstrip(), told[1:]
    return [head, *told, *split_lines(status, sheet)]


def _head_line(status: Status, sheet: Sheet) -> str:
    style = STATE_COLOURS.get(status.state, DIM)
    name = shorten(sheet.clean(status.name), sheet.name, sheet.marks.cut)
    state = cut(sheet.clean(status.state), STATE_CELLS, sheet.marks.cut)
    return GAP.join(
        [
            sheet.paint(name, BOLD) + " " * (sheet.name - cells(name)),
            sheet.paint(state, style) + " " * (STATE_CELLS - cells(state)),
            pad(f"{status.percent} %", PERCENT_CELLS, right=True),
            bar(status.share, sheet.bar, style, sheet),
        ]
    )


def _told(status: Status, sheet: Sheet) -> list[str]:
    """The lines about a job that are not its bars, without their indentation."""
    room = sheet.width - sheet.facts_at
    lines = _packed([sheet.clean(fact) for fact in job_facts(status)], room, sheet.marks)
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


def _failure_lines(failure: Failure, room: int, sheet: Sheet) -> list[str]:
    fact = wrap(sheet.clean(f"{failure.fact} [{failure.code}]"), room, sheet.marks.cut)
    hint = wrap(sheet.clean(f"Hint: {failure.hint}"), room, sheet.marks.cut) if failure.hint else []
    return [*(sheet.paint(line, RED) for line in fact), *hint]
