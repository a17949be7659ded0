"""A job's row as the JSON data that a store keeps."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from tidefill.core.progress import Progress
from tidefill.core.reasons import code_of
from tidefill.errors import StoreUnreadable, TidefillError
from tidefill.jobs.lifecycle import Life
from tidefill.jobs.resources import resource_from_text
from tidefill.jobs.row import Doing, Failure, Job, Lease, PartReport, Pause, Settings


def job_to_json(job: Job) -> dict[str, Any]:
    """The row as JSON data."""
    data = {name: getattr(job, name) for name in _PLAIN}
    data["life"] = job.life.value
    data["pause"] = job.pause.value
    data["resources"] = list(map(str, job.resources))
    data["part_names"] = list(job.part_names)
    data["wants_gone"] = list(job.wants_gone)
    data["parts"] = [asdict(part) for part in job.parts]
    for name, kind in _NESTED.items():
        value = getattr(job, name)
        data[name] = None if value is None else {part: getattr(value, part) for part in kind.__dataclass_fields__}
    if job.unread_settings:
        data["settings"] = json.loads(job.unread_settings)
    return data


def job_from_json(data: Any) -> Job:
    """The inverse of `job_to_json`; StoreUnreadable for what it cannot be."""
    try:
        data = {**_LATER, "waits_for": code_of(data["waiting"]), **data}
        fields = {name: data[name] for name in _PLAIN}
        for name, kind in _NESTED.items():
            fields[name] = None if data[name] is None and name in _MAY_BE_NONE else _nested(kind, data[name])
        if fields["settings"] is None:
            fields |= {"settings": Settings(), "unread_settings": json.dumps(data["settings"])}
        life, pause = Life(data["life"]), Pause(data["pause"])
        resources, part_names = tuple(map(resource_from_text, data["resources"])), tuple(data["part_names"])
        told = tuple(PartReport(**part) for part in data["parts"])
        parts: dict[str, Any] = {"part_names": part_names, "wants_gone": tuple(data["wants_gone"]), "parts": told}
        return Job(**fields, life=life, pause=pause, resources=resources, **parts)
    except (KeyError, TypeError, ValueError, AttributeError, TidefillError) as error:
        raise StoreUnreadable("a job in the store cannot be read", detail=f"{type(error).__name__}: {error}") from error


def _nested(kind: Any, data: Any) -> Any:
    """The value; None for settings that this release does not know: they stop their own job, and no look at others."""
    try:
        return kind(**data)
    except (TypeError, TidefillError):
        if kind is Settings and isinstance(data, dict):
            return None
        raise


_NESTED: dict[str, Any] = {
    "settings": Settings,
    "lease": Lease,
    "failure": Failure,
    "progress": Progress,
    "doing": Doing,
}
_LATER = {
    "source": "", "doing": None, "part_names": (), "wants_gone": (), "parts": (), "learned": "", "condition": "",
    "wanted_definition": "", "shown_definition": "",
}  # fmt: skip
"""What rows of earlier releases do not have."""

_MAY_BE_NONE = ("failure", "progress", "doing")
_OTHERWISE = (*_NESTED, "life", "pause", "resources", "part_names", "wants_gone", "parts", "unread_settings")
_PLAIN = tuple(name for name in Job.__dataclass_fields__ if name not in _OTHERWISE)
