"""The 103 texts of TPC-DS that Spark's own tests have, by their names: `QUERIES["14a"]`. README.md says where they are
from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from benchmarks.tpcds.tables import TABLES

_FOLDER = Path(__file__).parent / "texts"


def _place(name: str) -> tuple[int, str]:
    number = name.rstrip("ab")
    return int(number), name.removeprefix(number)


def _read() -> dict[str, str]:
    texts = {file.stem.removeprefix("q"): file.read_text(encoding="utf-8") for file in _FOLDER.glob("q*.sql")}
    return {name: texts[name].rstrip() for name in sorted(texts, key=_place)}


QUERIES: Mapping[str, str] = _read()


def reads(sql: str) -> list[str]:
    """The tables that a text names."""
    return [name for name in TABLES if re.search(rf"\b(FROM|JOIN|,)\s+{name}\b|,\s*{name}\b", sql)]
