"""The splits of a job as thin bars, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidefill.cli.render.bars import thin_bar
from tidefill.cli.render.cells import GAP, cells, pad, shorten
from tidefill.cli.render.sheet import BAR_MAX, BAR_MIN, BAR_WIDE, DIM, THIN_BAR_MIN, Sheet
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.status import DONE, SplitStatus, Status

SPLITS_MAX = 8


def split_lines(status: Status, sheet: Sheet) -> list[str]:
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


def _cleaned(split: SplitStatus, sheet: Sheet) -> SplitStatus:
    return SplitStatus(sheet.clean(split.range), sheet.clean(split.reached), split.share)


@dataclass(frozen=True, slots=True)
class _SplitColumns:
    """How many cells the range, the bar, and how far it is have in the lines of a job's splits."""

    range: int
    bar: int
    reached: int


def _split_columns(splits: Sequence[SplitStatus], sheet: Sheet) -> _SplitColumns:
    """The bars begin below the job's own bar if that leaves room enough, else right of the ranges."""
    label = max(cells(split.range) for split in splits)
    reached = max(cells(split.reached) for split in splits)
    at, width = sheet.bar_at, sheet.width - len(GAP)
    if not sheet.wide and width - at - reached < BAR_MIN:
        at = min(label + 2 * len(GAP), max(width - THIN_BAR_MIN - reached, width * 2 // 5))
    bar = BAR_WIDE if sheet.wide else max(min(width - at - reached, BAR_MAX), THIN_BAR_MIN)
    return _SplitColumns(at - 2 * len(GAP), bar, width - at - bar)


def _split_line(split: SplitStatus, columns: _SplitColumns, sheet: Sheet) -> str:
    label = pad(shorten(split.range, columns.range, sheet.marks.cut), columns.range)
    reached = shorten(split.reached, columns.reached, sheet.marks.cut)
    bar = thin_bar(split.share, columns.bar, sheet)
    return GAP + sheet.paint(label, DIM) + GAP + bar + GAP + sheet.paint(reached, DIM)
