"""Parts that are installed on request."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidefill.errors import MissingExtra


@contextmanager
def with_extra(extra: str) -> Iterator[None]:
    """What is imported inside comes with that extra: MissingExtra if it is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error.name} is not installed", hint=f"pip install 'tidefill[{extra}]'") from error
