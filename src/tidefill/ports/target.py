"""The table that a job writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from tidefill.core.confirm import Entry, Payload
from tidefill.core.walk import Range
from tidefill.jobs.resources import Resource
from tidefill.ports.frames import Compared, TargetWrite

F = TypeVar("F")


class Target(Protocol[F]):
    """The table that a job writes: a commit is atomic, carries the payload, and is fenced by generation and step: a
    step number that was committed before is skipped in silence (read the log to know), a concurrent commit raises
    CommitConflict, and Unavailable means that the outcome is unknown. A step that was planned on NO_TABLE makes the
    table; if somebody else has made it by then, it is skipped too or raises CommitConflict."""

    resources: tuple[Resource, ...]

    def prepare(self) -> None:
        """Make the table fit what will be written, if it is there."""

    def log(self, since: int | None = None) -> Sequence[Entry]:
        """What is left of the table's log, ascending; empty if there is no table. What lies before version `since` and
        before the newest payload may be left out."""

    def tidy(self, *, read: bool, vacuum: bool) -> None:
        """Make few files of many small ones, and, with `vacuum`, remove those that nobody needs any more: what the
        target holds stays what it is. `read`: other jobs read the target's changes. Called now and then, before a step;
        what cannot be done now can be done next time."""

    def commit(self, write: TargetWrite[F], payload: Payload) -> None:
        """Evaluate and write, in one commit that carries the payload."""

    def compare(
        self, expected: F, version: int, but: F | None = None, within: Sequence[Range] | None = None
    ) -> Compared:
        """Compare the target at this version of its log with `expected`. Keys that went by the changes `but` are left
        out; so are, where ranges are given, rows whose key lies `within` none of them. (Another runner may have
        committed since.)"""

    def check_keys(self) -> None:
        """Raise KeyNotUnique, naming up to ten keys, if a key is there twice and no input promises that this cannot
        be."""

    def check_name(self) -> None:
        """Raise NameTaken if something that the job did not make has the name under which `publish` shows it."""

    def publish(self) -> None:
        """Show this generation under the job's name, in place of another generation of the job; NameTaken if something
        else has the name."""
