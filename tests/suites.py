"""Conformance suites as parameters of tests."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def marked(suite: Iterable[Any], always: Collection[str]) -> list[Any]:
    """The suite, with what is too long for every day marked so."""
    marks = {True: (), False: (pytest.mark.soak,)}
    return [pytest.param(test, id=test.__name__, marks=marks[test.__name__ in always]) for test in suite]
