"""What one look at a Delta table's log shows to those who read the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidefill.delta.log.commits import Commit
from tidefill.jobs.amounts import interval_s
from tidefill.storage.files import Stat

RECENT_COMMITS = 20
"""How many of the newest commits a look has at least: nearly always enough, and few files to read."""

RETENTION = "delta.deletedFileRetentionDuration"
DEFAULT_KEPT_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Survey:
    """One look: the table's identity, its newest commits, how long it keeps removed files, and how many bytes it had
    when that was last asked. `whole`: the log has no commit before these. `modified_s`: when its newest commit was
    made, by the history or as DESCRIBE DETAIL tells it, which may differ by a little. `stamp`: the size and
    the time of the newest commit's file, if the log was read as files."""

    identity: str
    commits: dict[int, Commit]
    whole: bool
    kept_s: float
    size: int
    looked_s: float
    modified_s: float
    stamp: Stat | None = None

    @property
    def head(self) -> int:
        """The newest version."""
        return max(self.commits)

    def bases(self, version: int) -> Mapping[str, int] | None:
        """What the version comes from: a commit that tells nothing changed nothing of that. None if none of those that
        were read tells."""
        told = [number for number, commit in self.commits.items() if number <= version and commit.bases is not None]
        return self.commits[max(told)].bases if told else None

    def reaches(self, version: int) -> bool:
        """Whether a commit from that version on is missing only if the log has it no more."""
        return self.whole or min(self.commits) <= version


def newest_s(commits: Mapping[int, Commit]) -> float:
    """When the newest of the commits was made."""
    return round(commits[max(commits)].at_s, 3)


def retention_s(interval: str) -> float:
    """Seconds in such a text as `interval 7 days`; Delta's default if there are none."""
    return interval_s(interval) or DEFAULT_KEPT_S
