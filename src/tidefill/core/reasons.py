"""What a job waits for. The name of a reason is its code, which programs compare; its value is what a person reads."""

from __future__ import annotations

from enum import Enum


class Reason(Enum):
    """What a job waits for, whatever makes it."""

    IDLE = "up to date"
    PAUSED = "paused"
    FILL_PAUSED = "fill paused"
    RATE_LIMIT = "rate limit"
    TARGET_LAG = "target lag not reached"
    NEWER_VERSION = "a newer version of the upstream"
    LOG_BUDGET = "the server to let go of its log"
    SIBLINGS = "the views that share an input with it"
    INPUTS = "its inputs to come to one version"
    BLOCKED = "a job below it that stands still"
    OTHERS = "others to end what they do"
    WAITING_FOR_TRANSACTIONS = "transactions that began earlier to end"
    OPEN_TRANSACTION = "an open transaction of the topic to end"
    TABLE_LOCK = "a moment in which nobody writes for long"
    DEFERRED = "BACKFILL INDEXES on its table"
    BACK_PRESSURE = "the server to have less to do"
    TROUBLE = "a trouble to pass"

    @property
    def code(self) -> str:
        """As programs know it; it does not change."""
        return self.name


_BY_TEXT = {reason.value: reason for reason in Reason}


def reason_of(fact: str) -> Reason:
    """The reason whose text the fact of an error is; else TROUBLE."""
    return _BY_TEXT.get(fact, Reason.TROUBLE)


def code_of(text: str) -> str:
    """The code of a reason's text, for rows of releases that kept the text alone; empty for any other text."""
    reason = _BY_TEXT.get(text)
    return "" if reason is None else reason.code
