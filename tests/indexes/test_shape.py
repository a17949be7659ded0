"""The shape of an index survives the store, follows renames, and quotes whatever a name or a text holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidefill.errors import StateUnreadable
from tidefill.indexes.shape import Column, Shape, literal, renamed, shape_from_text, shape_to_text

SHAPE = Shape(
    "ix_1", "orders_email", "public", "orders", 16384,
    (Column("id", "bigint", "", 1), Column("region", "integer", "", 2)),
    (Column("lower(email)", "text", 'pg_catalog."C"'),),
    (Column("email", "text", 'pg_catalog."C"', 3),),
    (Column("total", "numeric(10,2)", "", 4),), "(id > 5)", True, ("pg_catalog", "public"),
)  # fmt: skip


def test_it_survives_the_store() -> None:
    assert shape_from_text(shape_to_text(SHAPE)) == SHAPE
    assert "nulls_not_distinct" not in shape_to_text(SHAPE), "the first release did not know it"
    nulls = replace(SHAPE, nulls_not_distinct=True)
    assert shape_from_text(shape_to_text(nulls)) == nulls


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": 1}'])
def test_what_is_damaged_says_so(text: str) -> None:
    with pytest.raises(StateUnreadable):
        shape_from_text(text)


def test_columns_are_followed_by_their_numbers() -> None:
    found = renamed(SHAPE, "shop", "sold", {1: "number", 2: "region", 3: "mail", 4: "total"})
    assert found.base == '"shop"."sold"'
    assert [column.name for column in (*found.primary_key, *found.used)] == ["number", "region", "mail"]
    assert found.keys == SHAPE.keys, "an expression is read once, when the index is installed"
    with pytest.raises(KeyError):
        renamed(SHAPE, "shop", "sold", {1: "number"})


def test_only_columns_can_always_be_computed() -> None:
    assert not SHAPE.is_plain


@given(st.text(st.characters(exclude_characters="\0")))
def test_a_text_is_quoted_so_that_it_comes_back(text: str) -> None:
    found = literal(text)
    if found.startswith("E"):
        body = found[2:-1].replace("\\\\", "\\")
    else:
        body = found[1:-1]
        assert "\\" not in body
    assert body.replace("''", "'") == text
