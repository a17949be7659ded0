"""Whether there is room for an index on the disks that can be known: that of its server, if the server's folder can be
read on this machine, and that of the warehouse.

No function of PostgreSQL tells how much is free. A server may be in a container with a port on this machine, and the
folder of its name here be another's: so the folder counts only if it has the server's own identifier.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from tidefill.errors import BadInput, InvalidSetting, UpstreamUnfit
from tidefill.indexes.sizes import Sizes
from tidefill.jobs.amounts import size_text

WHILE_MADE = 2
"""How many times its size an index takes while it is made: the server sorts the entries beside them to build the key,
and its log is written faster than it is removed; Spark sorts what it has staged."""

_FOLDERS = """
SELECT current_setting('data_directory'),
  coalesce(nullif(pg_tablespace_location(coalesce(t.oid, d.dattablespace)), ''), current_setting('data_directory')),
  (SELECT system_identifier FROM pg_control_system())
FROM pg_database d LEFT JOIN pg_tablespace t ON t.spcname = current_setting('default_tablespace')
WHERE d.datname = current_database()
"""


def free_on_server(session: psycopg.Connection[Any]) -> int | None:
    """Bytes that are free on the disk on which the server puts new tables; None if that cannot be known here."""
    try:
        with session.transaction():
            row = session.execute(_FOLDERS).fetchone()
    except psycopg.errors.InsufficientPrivilege:
        return None  # a plain owner may not ask where the folder is
    assert row is not None, "there is the database of the session"
    data, place, identifier = row
    try:
        with (Path(data) / "global" / "pg_control").open("rb") as file:
            is_here = int.from_bytes(file.read(8), "little") == identifier
        return shutil.disk_usage(place).free if is_here else None
    except OSError:
        return None


def check_server(indexes: Sequence[tuple[Sizes, str]], free: int | None) -> tuple[str, ...]:
    """A notice if the server's disk may be too small for indexes of these sizes and with these predicates, of which one
    takes less than its size if it has a predicate. UpstreamUnfit if it is too small for what will stay."""
    made = sum(sizes.entries + sizes.key for sizes, _ in indexes)
    refusal = UpstreamUnfit(
        "the server's disk has no room for the index", detail=_detail(made, free),
        hint="Make room on it, or have the index made in another tablespace: SET default_tablespace for the role.",
    )  # fmt: skip
    return _checked("the server's disk", made, free, None if any(where for _, where in indexes) else refusal)


def check_warehouse(sizes: Sizes, where: str, warehouse: Path) -> tuple[str, ...]:
    """The same for the files that Spark stages, which go when the key is built."""
    near = next((folder for folder in (warehouse, *warehouse.parents) if folder.exists()), None)
    free = None if near is None else shutil.disk_usage(near).free
    refusal = InvalidSetting(
        "the disk of the warehouse has no room for staged files", detail=_detail(sizes.entries, free),
        hint="Leave sort = spark out, or name a warehouse on a larger disk.",
    )  # fmt: skip
    return _checked("the disk of the warehouse", sizes.entries, free, None if where else refusal)


def _checked(disk: str, made: int, free: int | None, refusal: BadInput | None) -> tuple[str, ...]:
    if free is None or free >= WHILE_MADE * made:
        return ()
    if free < made and refusal is not None:
        raise refusal
    return (f"{disk} may be too small: {_detail(made, free)}",)


def _detail(made: int, free: int | None) -> str:
    return (
        f"Some {size_text(made)} will be made, and up to {size_text(WHILE_MADE * made)} taken meanwhile; "
        f"{size_text(free or 0)} are free."
    )
