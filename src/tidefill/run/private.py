"""Files that other users of the machine may neither read nor write."""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path


def make_private(file: Path) -> None:
    """Others may neither read nor write the file and those beside it whose names begin with its name, as far as they
    are ours."""
    for path in file.parent.iterdir():
        if not path.name.startswith(file.name) or path.is_symlink():
            continue
        with suppress(FileNotFoundError, PermissionError):  # SQLite removes its files; some may be somebody else's
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                path.chmod(0o600)
