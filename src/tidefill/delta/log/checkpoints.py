"""What a checkpoint of a Delta log says about the table itself: its metadata and its protocol."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from tidefill.storage.files import Files

CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*(parquet|json)")
WANTED = ("metaData", "protocol")

About: TypeAlias = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""The actions metaData and protocol, as far as they were found."""


def newest_checkpoint(names: Iterable[str], head: int) -> tuple[int, list[str]]:
    """The version of the newest checkpoint up to `head`, and its files: one, several parts, or the manifest of a v2
    checkpoint. (-1, []) if there is none."""
    found: dict[int, list[str]] = {}
    for name in names:
        match = CHECKPOINT.fullmatch(name)
        if match and int(match[1]) <= head:
            found.setdefault(int(match[1]), []).append(name)
    newest = max(found, default=-1)
    return newest, sorted(found.get(newest, ()))


def about_table(files: Files, path: str) -> About:
    """Metadata and protocol, if this file of a checkpoint has them. The manifest of a v2 checkpoint has them itself."""
    if path.endswith(".json"):
        lines = [json.loads(line) for line in (files.read(path) or b"").splitlines()]
        return _first(lines)
    opened = files.open(path)
    if opened is None:
        return None, None
    with opened:
        parquet = pq.ParquetFile(opened)
        here = [name for name in WANTED if name in parquet.schema_arrow.names]
        return _first(parquet.read(columns=here).to_pylist()) if here else (None, None)


def _first(actions: Iterable[Mapping[str, Any]]) -> About:
    found: dict[str, Mapping[str, Any]] = {}
    for action in actions:
        found |= {name: _plain(action[name]) for name in WANTED if action.get(name)}
    return found.get("metaData"), found.get("protocol")


def _plain(action: Mapping[str, Any]) -> dict[str, Any]:
    """Arrow gives a map as a list of pairs."""
    configuration = action.get("configuration")
    return dict(action) if configuration is None else {**action, "configuration": dict(configuration)}
