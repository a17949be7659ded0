"""Names in SQL: how one is quoted, in Spark and in PostgreSQL, and which are our own."""

from __future__ import annotations

HIDDEN = "__tf_"
"""Names that begin with it are our own: users may not give them, and do not see columns that have them."""


def quoted(name: str) -> str:
    """The name as an identifier in Spark's SQL, whatever is in it."""
    return "`" + name.replace("`", "``") + "`"


def identifier(name: str) -> str:
    """The name as an identifier in PostgreSQL's SQL, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def escaped(sql: str) -> str:
    """SQL without parameters, as a part of a statement that has some: the driver takes a bare % for one."""
    return sql.replace("%", "%%")


def unquoted(name: str) -> str:
    """The name that an identifier of PostgreSQL means: the inverse of `identifier`. One without quotes is itself."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
