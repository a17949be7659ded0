"""Which type has room for the values of which other one."""

from __future__ import annotations

import pytest
from pyspark.sql.types import DataType
from pyspark.sql.types import _parse_datatype_json_string as parsed

from tidefill.spark.widening import holds, is_same_number


def type_of(name: str) -> DataType:
    return parsed(f'"{name}"')


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("byte", "long"),
        ("integer", "long"),
        ("integer", "double"),
        ("integer", "decimal(10,0)"),
        ("float", "double"),
        ("decimal(10,2)", "decimal(12,4)"),
        ("date", "timestamp_ntz"),
    ],
)
def test_a_wider_type_holds_a_narrower_one_and_not_the_other_way_round(narrow: str, wide: str) -> None:
    assert holds(type_of(wide), type_of(narrow))
    assert holds(type_of(narrow), type_of(narrow))
    assert not holds(type_of(narrow), type_of(wide))


@pytest.mark.parametrize(("one", "other"), [("long", "double"), ("decimal(10,2)", "decimal(10,4)"), ("string", "date")])
def test_neither_holds_the_other(one: str, other: str) -> None:
    assert not holds(type_of(one), type_of(other))
    assert not holds(type_of(other), type_of(one))


@pytest.mark.parametrize(
    ("wide", "narrow", "same"),
    [
        ("bigint", "int", True),
        ("decimal(37,0)", "bigint", True),
        ("decimal(12,2)", "decimal(10,2)", True),
        ("string", "string", True),
        ("int", "bigint", False),
        ("double", "int", False),
        ("decimal(12,4)", "decimal(10,2)", False),
        ("timestamp_ntz", "date", False),
    ],
)
def test_which_numbers_are_the_same_in_a_wider_type(wide: str, narrow: str, same: bool) -> None:
    assert is_same_number(wide, narrow) is same
