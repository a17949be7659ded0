"""All file access outside of Spark: the one place that touches a warehouse's files itself."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from urllib.parse import unquote, urlparse

from tidefill.errors import InvalidSetting, Unavailable


def local_path(location: str) -> Path:
    """The path of a location on the local disk: a plain path or a file: URL. Others are refused for now."""
    parts = urlparse(location)
    if parts.scheme == "":
        return Path(location)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    raise InvalidSetting(
        f"the warehouse {parts.scheme}://{parts.netloc} cannot be used yet",
        hint="Use a folder on a local or mounted disk.",
    )


def is_folder_of_job(location: str, job_id: str) -> bool:
    """Whether a location ends like those of this job's generations: `<name>-<job id>-<generation>`."""
    form = rf"[A-Za-z0-9_]*-{re.escape(job_id)}-[1-9][0-9]*"
    return job_id != "" and re.fullmatch(form, Path(location).name) is not None


def remove_tree(location: str) -> None:
    """Remove a folder and all in it; fine if there is none."""
    path = local_path(location)
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unavailable(f"cannot remove {path}", detail=str(error)) from error
