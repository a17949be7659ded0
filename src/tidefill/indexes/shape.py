"""An index as its SQL texts see it: what it is over, how its entries look, and the lists that the texts are made of.

An index is an ordinary table of entries. Its columns have names of our own, because columns of the base table may be
renamed: k1, k2 ... the key; p1 ... the primary key of the base row; i1 ... the included columns; d1 ... the primary key
once more, but only in an entry that has a NULL in its key: so such an entry is found by an index, and two of them
differ, unless the index is NULLS NOT DISTINCT; `dead` marks a tombstone.
A log row has p1 ..., then u1 ...: the raw columns from which the key and the predicate are computed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from tidefill.errors import StateUnreadable
from tidefill.jobs.sql_names import identifier, unquoted

SCHEMA = "tidefill"
"""Where everything lies that we make on a server, but for triggers and the view that users read."""

LOGS = (1, 2)
"""Changes are logged into two tables in turn: one is written while the other is drained."""

PATH = ("pg_catalog",)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the base table, or an expression over some (`name` is its text then), with its type as PostgreSQL
    writes it, and its collation, if it has one. `number`: of the column in its table, which no RENAME changes; 0 for an
    expression."""

    name: str
    type: str
    collation: str = ""
    number: int = 0

    @property
    def shown(self) -> str:
        """As a person reads it: a column without quotes."""
        return unquoted(self.name) if self.number else self.name

    @property
    def declared(self) -> str:
        """The type with the collation, as a column of a table is declared."""
        return f"{self.type} COLLATE {self.collation}" if self.collation else self.type


@dataclass(frozen=True)
class Shape:
    """One generation of one index. `id`: begins the names of all that is made for it. `relation`: the oid of the base
    table. `keys`: the texts of columns or
    expressions, as PostgreSQL itself writes them with an empty search path. `used`: the columns that keys and predicate
    are computed from. `path`: the schemas of the operators of key types; the trigger looks nowhere else. `hashes`: all
    types of key and primary key have a hash. `nulls_not_distinct`: of a unique one, two NULLs are equal."""

    id: str
    name: str
    schema: str
    table: str
    relation: int
    primary_key: tuple[Column, ...]
    keys: tuple[Column, ...]
    used: tuple[Column, ...]
    include: tuple[Column, ...] = ()
    where: str = ""
    unique: bool = True
    path: tuple[str, ...] = PATH
    hashes: bool = True
    nulls_not_distinct: bool = False

    @property
    def base(self) -> str:
        """The base table in SQL."""
        return f"{identifier(self.schema)}.{identifier(self.table)}"

    @property
    def entries(self) -> str:
        """The table of entries in SQL."""
        return f"{SCHEMA}.{self.id}"

    def log(self, number: int | str) -> str:
        """One of the two logs; `%s` where `format` puts the number in."""
        return f"{SCHEMA}.{self.id}_log{number}"

    def function(self, what: str) -> str:
        """A function of this index."""
        return f"{SCHEMA}.{self.id}_{what}"

    @property
    def view(self) -> str:
        """The view that users read, in SQL."""
        return f"{identifier(self.schema)}.{identifier(self.name)}"

    @cached_property
    def k(self) -> tuple[str, ...]:
        """The key's columns."""
        return _numbered("k", self.keys)

    @cached_property
    def p(self) -> tuple[str, ...]:
        """The columns of the base row's primary key."""
        return _numbered("p", self.primary_key)

    @cached_property
    def i(self) -> tuple[str, ...]:
        """The included columns."""
        return _numbered("i", self.include)

    @cached_property
    def d(self) -> tuple[str, ...]:
        """The primary key in entries that have a NULL in their key; NULL in all others."""
        return _numbered("d", self.primary_key)

    @cached_property
    def u(self) -> tuple[str, ...]:
        """The raw columns in the log."""
        return _numbered("u", self.used)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns of an entry, but for `dead`."""
        return (*self.k, *self.p, *self.i, *self.d)

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that no two entries share."""
        if not self.unique:
            return (*self.k, *self.p)
        return self.k if self.nulls_not_distinct else (*self.k, *self.d)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        parts = ((self.k, self.keys), (self.p, self.primary_key), (self.d, self.primary_key))
        more = ((self.i, self.include), (self.u, self.used))
        return {name: column for names, columns in (*parts, *more) for name, column in zip(names, columns, strict=True)}

    def typed(self, names: Iterable[str]) -> str:
        """`k1 text, p1 bigint`: as a function returns them."""
        return ", ".join(f"{name} {self._by_name[name].type}" for name in names)

    def declared(self, names: Iterable[str], more: str = "") -> str:
        """The same with collations and `more` behind each: as a table declares them."""
        return ", ".join(f"{name} {self._by_name[name].declared}{more}" for name in names)

    def types(self, names: Iterable[str]) -> str:
        """`text, bigint`: as arguments without names. (A name would collide with a column of the base table.)"""
        return ", ".join(self._by_name[name].type for name in names)

    def type_of(self, name: str) -> str:
        """The type of one column."""
        return self._by_name[name].type

    def column(self, name: str) -> Column:
        """What a column of an entry or of a log row holds."""
        return self._by_name[name]

    @property
    def is_plain(self) -> bool:
        """Whether the key can always be computed: it has columns alone, and all rows are in the index."""
        columns = {text for one in self.used for text in (one.name, identifier(one.name))}
        return not self.where and {key.name for key in self.keys} <= columns


def shape_to_text(shape: Shape) -> str:
    """As a definition keeps it. A release that knows nothing of NULLS NOT DISTINCT reads what does not have it, and
    refuses what has."""
    data = asdict(shape)
    if not shape.nulls_not_distinct:
        del data["nulls_not_distinct"]
    return json.dumps(data, sort_keys=True)


def shape_from_text(text: str) -> Shape:
    """The inverse of `shape_to_text`; StateUnreadable if it cannot be read."""
    try:
        data = json.loads(text)
        columns = {name: tuple(Column(**one) for one in data[name]) for name in _COLUMNS}
        return Shape(**{**data, **columns, "path": tuple(data["path"])})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StateUnreadable("the shape of an index cannot be read", detail=str(error)) from error


_COLUMNS = ("primary_key", "keys", "used", "include")


def renamed(shape: Shape, schema: str, table: str, names: Mapping[int, str]) -> Shape:
    """The shape, with the names that table and columns have now. `names`: of columns, by their numbers. A KeyError for
    a column that is gone. Expressions stay as they were written: PostgreSQL follows a RENAME in what is installed."""

    def now(columns: tuple[Column, ...]) -> tuple[Column, ...]:
        return tuple(replace(one, name=names[one.number]) for one in columns)

    keys = tuple(replace(one, name=identifier(names[one.number])) if one.number else one for one in shape.keys)
    key, used, include = now(shape.primary_key), now(shape.used), now(shape.include)
    return replace(shape, schema=schema, table=table, primary_key=key, keys=keys, used=used, include=include)


def _numbered(letter: str, columns: tuple[Column, ...]) -> tuple[str, ...]:
    return tuple(f"{letter}{number}" for number in range(1, len(columns) + 1))


# Pieces of SQL.


def listed(names: Iterable[str], of: str = "") -> str:
    """`e.k1, e.k2`; `of` is the prefix with its point."""
    return ", ".join(f"{of}{name}" for name in names)


def equal(names: Iterable[str], one: str, other: str) -> str:
    """All of them are equal and none is NULL. An index on them can be used."""
    return " AND ".join(f"{one}{name} = {other}{name}" for name in names)


def same(names: Iterable[str], one: str, other: str) -> str:
    """All of them are equal, NULL to NULL. No index can be used."""
    return " AND ".join(f"{one}{name} IS NOT DISTINCT FROM {other}{name}" for name in names)


def not_null(names: Iterable[str], of: str) -> str:
    """None of them is NULL."""
    return "(" + " AND ".join(f"{of}{name} IS NOT NULL" for name in names) + ")"


def same_key(shape: Shape, one: str, other: str) -> str:
    """The two rows may not both be in the index: by its own rule for NULLs their keys are equal. No index can be used
    if NULLs are equal."""
    return (same if shape.nulls_not_distinct else equal)(shape.k, one, other)


def set_from(names: Iterable[str], source: str) -> str:
    """`k1 = s.k1, k2 = s.k2`."""
    return ", ".join(f"{name} = {source}{name}" for name in names)


def as_texts(names: Iterable[str], of: str = "") -> str:
    """`p1::text, p2::text`: values that leave the server and come back unchanged."""
    return ", ".join(f"{of}{name}::text" for name in names)


def arguments(shape: Shape) -> str:
    """`$1, $2`: a primary key, as the arguments of a function."""
    return ", ".join(f"${number}" for number in range(1, len(shape.p) + 1))


def parameters(shape: Shape) -> str:
    """`%s::bigint, %s::text`: a primary key that a client gives as texts."""
    return ", ".join(f"%s::{column.type}" for column in shape.primary_key)


def literal(text: str) -> str:
    """A string in SQL."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'" if "\\" not in text else "E'" + escaped.replace("\\", "\\\\") + "'"
