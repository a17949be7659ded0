"""How the tests read a script: its only statement, or the error."""

from __future__ import annotations

import pytest

from tidefill.errors import BadSql
from tidefill.sql.parser import parse
from tidefill.sql.statements import Statement


def one(sql: str) -> Statement:
    """The only statement of a script."""
    (only,) = parse(sql)
    return only.statement


def refused(sql: str) -> BadSql:
    with pytest.raises(BadSql) as caught:
        parse(sql)
    return caught.value
