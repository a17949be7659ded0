"""A state of a job as a line of a story."""

from __future__ import annotations

from dataclasses import dataclass

from tidefill.core.state import JobState
from tidefill.core.version import Number, Offsets, Snapshot, Version
from tidefill.core.walk import Coverage, covered_ranges


@dataclass(frozen=True, slots=True)
class StateText:
    """A state as a line of a story; put together only if somebody reads it."""

    state: JobState

    def __str__(self) -> str:
        versions = ", ".join(f"{table} at {self._version(version)}" for table, version in self.state.versions.items())
        covers = "; ".join(f"{name}: {self._coverage(cover)}" for name, cover in self.state.coverage.items())
        return f"step {self.state.step}, {versions}, covered {covers}"

    def _version(self, version: Version) -> str:
        match version.point:
            case Number(number):
                return f"version {number}"
            case Snapshot(xmin, xmax, xip):
                return f"snapshot {xmin}:{xmax}:{','.join(map(str, sorted(xip)))}"
            case Offsets(offsets):
                return f"offsets {', '.join(f'{partition}:{offset}' for partition, offset in offsets)}"

    def _coverage(self, coverage: Coverage) -> str:
        return " ".join(f"({r.after or '-inf'} .. {r.upto or '+inf'}]" for r in covered_ranges(coverage)) or "nothing"
