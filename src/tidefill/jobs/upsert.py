"""How a replica of a topic that keeps the newest message of a key knows the key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Upsert:
    """`key`: the columns that the key of a message gives. `key_format`: how it is written there. `incomplete`: also of
    a topic that may have lost rows before it was read."""

    key: tuple[str, ...]
    key_format: str
    incomplete: bool = False


def upsert_of(data: Mapping[str, Any] | None) -> Upsert | None:
    """As a definition keeps it; None if each message is a row."""
    if data is None:
        return None
    return Upsert(tuple(map(str, data["key"])), str(data["key_format"]), bool(data["incomplete"]))
