"""Which file system holds a location."""

from __future__ import annotations

from tidefill.errors import InvalidSetting
from tidefill.storage.files import Files
from tidefill.storage.local import LocalFiles, local_path


def files_below(location: str) -> Files | None:
    """The files below the location; None if this process cannot reach that kind of place, so that Spark must be asked
    for what is there."""
    try:
        return LocalFiles(local_path(location))
    except InvalidSetting:
        return None
