"""What is known of a target after a commit of ours, and kept in memory so that the next step need not read it: the rows
of a small one, the greatest key of a large one.

Rule: it holds as long as the newest commit with a state is the commit after which it was kept. A commit of another
runner is a newer one, and ends that. A commit of a stranger carries no state; of that `confirm` speaks, after every
commit and before every plan.

Example: this runner commits step 7 and keeps the rows. Another runner commits step 8. The log, which is read before
step 9 is planned, ends with a commit that is not ours: the rows are forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from tidefill.core.confirm import Entry, Payload

K = TypeVar("K")


class AfterCommit(Generic[K]):
    """`version`: where the log ended when it was read last; None if it was not read, or has no commit with a state.
    What is read at that version is what the target holds, too."""

    def __init__(self) -> None:
        self.version: int | None = None
        self._newest = ""
        self._kept: tuple[str, K] | None = None

    def judge(self, log: Sequence[Entry]) -> None:
        """The log was read: forget what is known if the newest commit with a state is not the one it belongs to."""
        payloads: list[Payload] = [entry.payload for entry in log if entry.payload is not None]
        if not payloads:
            self.forget()
            return
        self.version = log[-1].version
        self._newest = max(payloads, key=lambda payload: payload.state.step).commit_uuid
        if self._kept is not None and self._kept[0] != self._newest:
            self._kept = None

    def known(self) -> K | None:
        """What holds now, if anything is known."""
        return None if self._kept is None else self._kept[1]

    def loaded(self, found: K) -> None:
        """This was read at `version`."""
        assert self.version is not None, "the log was not read"
        self._kept = self._newest, found

    def keep(self, commit_uuid: str, found: K) -> None:
        """This holds after that commit, if it happened: the log will tell."""
        self._kept = commit_uuid, found

    def forget(self) -> None:
        """Nothing is known."""
        self.version, self._kept = None, None
