"""Sizes and durations in the words of a person: `10 GB`, `30 seconds`, `3 min 20 s`. Read and written here only."""

from __future__ import annotations

import math
import re

SIZE_UNITS = {"B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}  # as PostgreSQL has them
GB = SIZE_UNITS["GB"]
_UNITS_S = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 7 * 86400.0}
_NUMBER = r"(\d+(?:\.\d+)?)"
_SIZE = re.compile(rf"\s*{_NUMBER}\s*([a-zA-Z]+)\s*")
_SECONDS = re.compile(rf"\s*{_NUMBER}\s*(second|minute|hour|day)s?\s*")
_PART_OF_INTERVAL = re.compile(rf"{_NUMBER}\s*({'|'.join(_UNITS_S)})")


def size_text(size: int) -> str:
    """For a person: `4 GB`, `1.5 MB`."""
    units = ((name, one) for name, one in SIZE_UNITS.items() if one <= max(size, 1))
    unit, factor = max(units, key=lambda each: each[1])
    return f"{size / factor:.1f}".removesuffix(".0") + f" {unit}"


def size_of(text: str) -> int | None:
    """Bytes, of a text such as `10 GB`; None if it is no size."""
    match = _SIZE.fullmatch(text)
    units = {name.casefold(): factor for name, factor in SIZE_UNITS.items()}
    if match is None or match[2].casefold() not in units:
        return None
    return int(float(match[1]) * units[match[2].casefold()])


def seconds_text(seconds: float) -> str:
    """As `seconds_of` reads it: `30 seconds`."""
    return f"{seconds:g} seconds"


def seconds_of(text: str) -> float | None:
    """Of a text such as `30 seconds` or `5 minutes`; None if it is no duration."""
    match = _SECONDS.fullmatch(text.lower())
    return None if match is None else float(match[1]) * _UNITS_S[match[2]]


def interval_s(text: str) -> float:
    """Seconds in such a text as `interval 7 days 12 hours`; 0 if there are none in it."""
    return sum(float(number) * _UNITS_S[unit] for number, unit in _PART_OF_INTERVAL.findall(text.lower()))


def duration_text(seconds: float) -> str:
    """For a person: `4 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`: the two greatest units."""
    if not math.isfinite(seconds):
        return "?"
    left, parts = max(math.floor(seconds), 0), []
    for unit, size_s in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        amount, left = divmod(left, size_s)
        parts.append((amount, unit))
    first = next((at for at, (amount, _) in enumerate(parts) if amount), len(parts) - 1)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount) or "0 s"
