"""A Delta table's log read as files: a poll costs a few looks at names and sizes, and no Spark job.

Which table it is, `metaData.id` says. If the file of the newest known commit is still the one that was read (its size
and its time), the log goes on from there; if not, the table may have been made again at the same path, and the log is
read from nothing. Of a commit only those lines are parsed that are needed.

What the files alone do not tell (`NotInFiles`) Spark's statements are asked for: a table whose newest commit need not
be a file of the log because a catalog manages it, and a table without any file that says which one it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidefill.delta.log.checkpoints import About, about_table, newest_checkpoint
from tidefill.delta.log.commits import Logged, commit_of
from tidefill.delta.log.survey import RECENT_COMMITS, RETENTION, Survey, newest_s, retention_s
from tidefill.errors import Unavailable
from tidefill.storage.files import Files, Stat

LOG = "_delta_log"
COMMIT = re.compile(r"(\d{20})\.json")
CATALOG_FEATURES = ("catalogManaged", "catalogOwned", "catalogOwned-preview")
CATALOG_PROPERTIES = ("delta.coordinatedCommits.commitCoordinator-preview",)
KNOWN_MAX = 20_000
"""Commits that are kept in memory for a table, some 100 bytes each; older ones are read again if a job asks."""


class NotInFiles(Exception):
    """The files do not tell it."""


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A commit file that was read. `metadata`, `protocol`: the actions of that name, if it has them."""

    logged: Logged
    stamp: Stat
    metadata: Mapping[str, Any] | None
    protocol: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class TableFacts:
    """Which table it is, its properties, and how many bytes it has, if a file tells."""

    identity: str
    properties: Mapping[str, str]
    size: int | None


class FileLog:
    """The log of the table that these files are."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def look(self, last: Survey | None, reach: int | None, now_s: float) -> Survey:
        """The log as it is now, from version `reach` on, after the look `last`. Raises NotInFiles, and Unavailable for
        a commit that is only half written."""
        goes_on = None if last is None else self._go_on(last, reach, now_s)
        return goes_on or self._look(last, reach, now_s)

    def newest(self) -> list[Logged]:
        """All commits that the log has up to the newest, without a gap, ascending. Raises as `look`."""
        versions = _versions(self._names())
        if not versions:
            raise NotInFiles("the log has no commit")
        return [self._needed(version).logged for version in versions]

    def since(self, version: int) -> list[Logged]:
        """The commits from that version on, ascending; none if the log does not have that version."""
        found: list[Logged] = []
        while (read := self._read(version + len(found))) is not None:
            found.append(read.logged)
        return found

    def _names(self) -> list[str]:
        names = self._files.names(LOG)
        if names is None:
            raise NotInFiles("there is no log")
        return names

    def _go_on(self, last: Survey, reach: int | None, now_s: float) -> Survey | None:
        """The look after `last`; None if it may be another table, if the log has to be read further back, or if a
        commit changed more than rows."""
        oldest, head, stamp = min(last.commits), last.head, last.stamp
        reaches = reach is None or last.reaches(reach)
        if stamp is None or not reaches or self._stat(oldest) is None or self._stat(head) != stamp:
            return None
        new: list[CommitFile] = []
        while (read := self._read(head + 1 + len(new))) is not None:
            if read.metadata is not None or read.protocol is not None:
                return None
            new.append(read)
        if not new:
            return replace(last, looked_s=now_s)
        if self._stat(head) != stamp:  # the folder was exchanged while the files were read
            return None
        commits = last.commits | {read.logged.version: commit_of(read.logged) for read in new}
        whole = last.whole and len(commits) <= KNOWN_MAX
        kept = dict(list(commits.items())[-KNOWN_MAX:])
        return replace(last, commits=kept, whole=whole, looked_s=now_s, modified_s=newest_s(kept), stamp=new[-1].stamp)

    def _stat(self, version: int) -> Stat | None:
        return self._files.stat(_path(version))

    def _look(self, last: Survey | None, reach: int | None, now_s: float) -> Survey:
        names = self._names()
        versions = _versions(names)
        if not versions:
            raise NotInFiles("the log has no commit")
        head, first = versions[-1], versions[0]
        start = max(first, head - RECENT_COMMITS + 1 if reach is None else min(reach, head - RECENT_COMMITS + 1))
        read = {version: self._needed(version) for version in range(start, head + 1)}
        facts = self._facts(names, head, read)
        newest = read[head].stamp
        if self._stat(head) != newest:
            raise Unavailable("the table was exchanged while its log was read")
        commits = {version: commit_of(found.logged) for version, found in read.items()}
        kept_s = retention_s(facts.properties.get(RETENTION, ""))
        size = facts.size if facts.size is not None else last.size if last is not None else 0
        return Survey(facts.identity, commits, start == first, kept_s, size, now_s, newest_s(commits), newest)

    def _facts(self, names: Iterable[str], head: int, read: Mapping[int, CommitFile]) -> TableFacts:
        """From the checksum file of the head; without it from the newest commits and the checkpoint before them."""
        content = self._files.read(f"{LOG}/{head:020}.crc")
        crc = _json(content) if content else None
        metadata, protocol = (None, None) if crc is None else (crc.get("metadata"), crc.get("protocol"))
        size = crc.get("tableSizeBytes") if crc else None
        if metadata is None or protocol is None:
            metadata, protocol = self._from_commits(names, head, read)
        if metadata is None or protocol is None:
            raise NotInFiles("no file tells which table it is")
        properties = metadata.get("configuration") or {}
        features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
        if features.intersection(CATALOG_FEATURES) or any(name in properties for name in CATALOG_PROPERTIES):
            raise NotInFiles("a catalog manages the commits of the table")
        return TableFacts(str(metadata["id"]), properties, size)

    def _from_commits(self, names: Iterable[str], head: int, read: Mapping[int, CommitFile]) -> About:
        metadata, protocol = None, None
        checkpoint, parts = newest_checkpoint(names, head)
        for version in range(head, checkpoint, -1):
            found = read.get(version) or self._read(version)
            if found is None:
                break
            metadata, protocol = metadata or found.metadata, protocol or found.protocol
            if metadata and protocol:
                return metadata, protocol
        for part in parts:
            its_metadata, its_protocol = about_table(self._files, f"{LOG}/{part}")
            metadata, protocol = metadata or its_metadata, protocol or its_protocol
        return metadata, protocol

    def _needed(self, version: int) -> CommitFile:
        read = self._read(version)
        if read is None:
            raise Unavailable(f"version {version} was removed from the log while it was read")
        return read

    def _read(self, version: int) -> CommitFile | None:
        """The commit; None if the log does not have it."""
        path = _path(version)
        before = self._stat(version)
        content = None if before is None else self._files.read(path)
        if before is None or content is None:
            return None
        actions = _actions(content)
        if actions is None or len(content) != before.size:
            raise Unavailable(f"the commit of version {version} is not written to its end yet")
        info = actions.get("commitInfo", {})
        logged = Logged(
            version,
            int(info.get("inCommitTimestamp") or before.modified_ns // 1_000_000),
            str(info.get("operation") or ""),
            _texts(info.get("operationParameters")),
            _texts(info.get("operationMetrics")),
            info.get("userMetadata"),
        )
        return CommitFile(logged, before, actions.get("metaData"), actions.get("protocol"))


def _path(version: int) -> str:
    return f"{LOG}/{version:020}.json"


def _versions(names: Iterable[str]) -> list[int]:
    """The versions that the log has up to the newest, without a gap, ascending."""
    found = sorted((int(match[1]) for name in names if (match := COMMIT.fullmatch(name))), reverse=True)
    unbroken = [version for index, version in enumerate(found) if version == found[0] - index]
    return unbroken[::-1]


def _actions(content: bytes) -> dict[str, Any] | None:
    """The actions commitInfo, metaData and protocol of a commit; None if it is not written to its end: its last line
    must be complete. Lines about data files may be many: only their first word is read."""
    lines = content.splitlines()
    found: dict[str, Any] = {}
    for line in lines:
        words = line[:40].split(b'"', 2)
        if len(words) == 3 and words[1] in (b"commitInfo", b"metaData", b"protocol"):
            parsed = _json(line)
            if parsed is None:
                return None
            found |= parsed
    return found if lines and _json(lines[-1]) is not None else None


def _json(content: bytes) -> dict[str, Any] | None:
    try:
        data = json.loads(content)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _texts(data: Any) -> dict[str, str]:
    """As DESCRIBE HISTORY shows a map: every value is a text. What has no value is left out."""
    if not isinstance(data, dict):
        return {}
    there = {name: value for name, value in data.items() if value is not None}
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in there.items()}
