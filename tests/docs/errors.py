"""docs/errors.md is the tree of `tidefill.errors`, written out: `python -m tests.docs.errors --write` renews it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path

from tidefill.errors import TidefillError

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"
HEAD = """# Errors by code

Every error has a stable code and says a fact, a detail and a hint. They are grouped by what one does about them.
(This page is made from `src/tidefill/errors.py` by `python -m tests.docs.errors --write`.)
"""


def about(error: type[TidefillError]) -> str:
    """What the error means, in one line."""
    return " ".join((inspect.getdoc(error) or "").split())


def below(group: type[TidefillError]) -> Iterator[type[TidefillError]]:
    """The kinds of the group, each with its own kinds behind it."""
    for kind in group.__subclasses__():
        yield kind
        yield from below(kind)


def lines() -> Iterator[str]:
    """The page."""
    yield HEAD
    for group in TidefillError.__subclasses__():
        yield f"## {group.code} (exit code {group.exit_code})\n\n{about(group)}\n"
        kinds = list(below(group))
        if kinds:
            yield "| code | what it means |\n|---|---|"
            yield from (f"| {kind.code} | {about(kind)} |" for kind in kinds)
            yield ""


def page() -> str:
    """The text of docs/errors.md."""
    return "\n".join(lines()).rstrip() + "\n"


if __name__ == "__main__" and "--write" in sys.argv:
    PAGE.write_text(page(), encoding="utf-8")
