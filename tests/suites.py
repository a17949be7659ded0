"""Conformance suites as parameters of tests."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def marked(suite: Iterable[Any], always: Collection[str]) -> list[Any]:
    """The suite as parameters. Tests that are not named in `always` get the mark `full`: `make test` leaves them out.

    A name in `always` that no test of the suite has is a ValueError: such a test would have left `make test`
    unnoticed."""
    tests = list(suite)
    unknown = set(always) - {test.__name__ for test in tests}
    if unknown:
        raise ValueError(f"names of no test in its suite: {', '.join(sorted(unknown))}")
    marks = {True: (), False: (pytest.mark.full,)}
    return [pytest.param(test, id=test.__name__, marks=marks[test.__name__ in always]) for test in tests]


def in_longer_runs(full: Any, soak: Any) -> list[Any]:
    """The parameters of a test whose extent depends on the time there is: one for `make full`, one for `make soak`."""
    return [pytest.param(full, marks=pytest.mark.full), pytest.param(soak, marks=pytest.mark.soak)]
