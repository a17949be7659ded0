"""A finding of the doctor as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidefill.cli.render.cells import GAP, WIDTH_MIN, broken, pad
from tidefill.cli.render.sheet import GREEN, NAME_MIN, RED, YELLOW, Sheet

if TYPE_CHECKING:
    from tidefill.doctor.findings import Finding

VERDICT_COLOURS = {"ok": GREEN, "warning": YELLOW, "bad": RED}
VERDICT_CELLS = max(map(len, VERDICT_COLOURS))


def finding(what: Finding, width: int, colour: bool, *, ascii: bool = False) -> str:
    """What was looked at and how it is; below it what to do, if it is not fine."""
    sheet = Sheet(max(width, WIDTH_MIN), NAME_MIN, colour, ascii)
    word = pad(what.verdict.value, VERDICT_CELLS)
    at = VERDICT_CELLS + len(GAP)
    told = [*broken(sheet.clean(f"{what.what}: {what.fact}"), sheet.width - at)]
    told += broken(sheet.clean(what.remedy), sheet.width - at) if what.remedy else []
    rest = "".join(f"\n{' ' * at}{line}" for line in told[1:])
    return f"{sheet.paint(word, VERDICT_COLOURS[what.verdict.value])}{GAP}{told[0]}{rest}"
