"""Bars that show how far a job or a split is."""

from __future__ import annotations

import math

from tidefill.cli.render.sheet import CYAN, DIM, GREEN, Sheet


def bar(share: float, width: int, style: str, sheet: Sheet) -> str:
    """Full only when all is done."""
    parts = sheet.marks.parts
    whole, part = divmod(_steps(share, width * len(parts)), len(parts))
    filled = parts[-1] * whole + (parts[part - 1] if part else "")
    return sheet.paint(filled, style) + sheet.paint(sheet.marks.track * (width - len(filled)), DIM)


def thin_bar(share: float | None, width: int, sheet: Sheet) -> str:
    """The bar of a split. Where nobody knows how far the split is, all of it says so."""
    if share is None:
        return sheet.paint(sheet.marks.unknown * width, CYAN)
    filled = _steps(share, width)
    track = sheet.paint(sheet.marks.thin_track * (width - filled), DIM)
    return sheet.paint(sheet.marks.thin * filled, GREEN if share >= 1.0 else CYAN) + track


def _steps(share: float, all_steps: int) -> int:
    if share >= 1.0:
        return all_steps
    return min(math.floor(share * all_steps), all_steps - 1) if share > 0.0 else 0
