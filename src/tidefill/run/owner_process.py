"""The process behind the owner of a lease: the name that a runner holds leases by, and whether its process is gone.

A runner that was killed leaves its leases behind for a minute. Its name says which process it was, so that another on
the same machine need not wait. Only speed hangs on it: leases have numbers, and a runner that lost its lease is
refused.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

PROC = Path("/proc")


def new_owner(proc: Path = PROC) -> str:
    """A name for a runner in this process; no two are equal."""
    return ":".join((*_machine(proc), str(os.getpid()), _started(proc, os.getpid()), uuid.uuid4().hex))


def is_gone(owner: str, proc: Path = PROC) -> bool:
    """Whether it was a process of this machine that is no more; False where that cannot be known."""
    match owner.split(":"):
        case [boot, namespace, pid, started, _] if pid.isdecimal() and started:
            return (boot, namespace) == _machine(proc) and _started(proc, int(pid)) != started
    return False


def is_this_process(owner: str, proc: Path = PROC) -> bool:
    """Whether it is the name of a runner in this process."""
    return process_of(owner) == process_of(new_owner(proc))


def process_of(owner: str) -> str:
    """What all runners of one process have in common."""
    return owner.rpartition(":")[0] or owner


def _machine(proc: Path) -> tuple[str, str]:
    """The start of the system, and in it the namespace in which process numbers count."""
    try:
        boot = (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return boot, str((proc / "self/ns/pid").stat().st_ino)
    except (OSError, ValueError):
        return "", ""


def _started(proc: Path, pid: int) -> str:
    """When the process began, which tells it from a later one with its number; empty if there is none, or it has died
    and only waits to be noticed."""
    try:
        words = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] in "ZX" else words[19]
