"""What the conformance suites share: they are plain functions, so they cannot lean on a test framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=Exception)


def raised(kind: type[E] | tuple[type[E], ...], call: Callable[[], object]) -> E:
    """The error that the call has to raise."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind} was not raised")
