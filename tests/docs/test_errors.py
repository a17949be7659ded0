"""The tree of errors and its page say the same."""

from __future__ import annotations

from collections.abc import Iterator

from tests.docs.errors import PAGE, about, page
from tidefill.errors import TidefillError


def tree(error: type[TidefillError] = TidefillError) -> Iterator[type[TidefillError]]:
    yield error
    for kind in error.__subclasses__():
        yield from tree(kind)


def test_the_page_is_the_tree() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: .venv/bin/python -m tests.docs.errors --write"


def test_every_error_has_a_code_of_its_own_and_says_what_it_means() -> None:
    errors = list(tree())
    assert len({error.code for error in errors}) == len(errors)
    assert all(about(error) for error in errors)


def test_an_error_reads_as_fact_detail_and_hint() -> None:
    error = TidefillError("it is so", detail="because of that", hint="Do this.")
    assert str(error) == "it is so [ERROR]\nDetail: because of that\nHint: Do this."
