"""The questions by which a finished index is compared with its base table, in one snapshot."""

from __future__ import annotations

from tidefill.indexes.shape import Shape, listed, not_null

DIFFERENCES_MAX = 10
DUPLICATES_MAX = 1000


def _sums(shape: Shape) -> str:
    """A count, and two sums that do not depend on the order of rows: of key and primary key by the hash of their types,
    so that 1.0 equals 1.00; of included columns by their texts, because not every type has a hash. Without included
    columns the second is another hash of the same, which takes less time than texts."""
    identity = f"ROW({listed((*shape.k, *shape.p))})"

    def hashed(seed: int) -> str:
        if shape.hashes:
            return f"hash_record_extended({identity}, {seed})"
        return f"hashtextextended({identity}::text, {seed})"

    texts = f"hashtextextended(ROW({listed((*shape.i, *shape.p))})::text, 7)"
    second = texts if shape.i else hashed(7)
    return f"count(*), coalesce(sum({hashed(0)}), 0), coalesce(sum({second}), 0)"


def _of_base(shape: Shape) -> str:
    return f"SELECT z.* FROM {shape.base} t CROSS JOIN LATERAL {shape.function('of')} (t) z WHERE z.ok"


def base_sums(shape: Shape) -> str:
    """The sums over what the entries should be."""
    return f"SELECT {_sums(shape)} FROM ({_of_base(shape)}) q"


def entry_sums(shape: Shape) -> str:
    """The sums over the entries."""
    return f"SELECT {_sums(shape)} FROM {shape.entries} WHERE NOT dead"


def differences(shape: Shape) -> str:
    """Up to ten entries that are missing, and ten that nobody should have, as texts."""
    row = f"ROW({listed((*shape.k, *shape.p, *shape.i))})::text"
    base, entries = f"SELECT {row} FROM ({_of_base(shape)}) q", f"SELECT {row} FROM {shape.entries} WHERE NOT dead"
    return (
        f"(SELECT 'missing: ' || x FROM ({base} EXCEPT ALL {entries}) q (x) LIMIT {DIFFERENCES_MAX}) UNION ALL "
        f"(SELECT 'orphan: ' || x FROM ({entries} EXCEPT ALL {base}) q (x) LIMIT {DIFFERENCES_MAX})"
    )


def duplicates(shape: Shape) -> str:
    """The keys that several base rows have now, as texts, each with the primary keys of those rows; the most frequent
    first. The last column counts all such keys."""
    key, row = f"ROW({listed(shape.k)})::text", f"ROW({listed(shape.p)})::text"
    counts = "true" if shape.nulls_not_distinct else not_null(shape.k, "")
    return (
        f"SELECT {key}, (array_agg({row} ORDER BY {listed(shape.p)}))[1:{DIFFERENCES_MAX}], count(*), count(*) OVER () "
        f"FROM ({_of_base(shape)}) q WHERE {counts} GROUP BY {listed(shape.k)} HAVING count(*) > 1 "
        f"ORDER BY count(*) DESC LIMIT {DUPLICATES_MAX}"
    )


def view(shape: Shape, names: tuple[str, ...]) -> str:
    """The statement that makes the view users read: it has key, primary key and included columns. `names`: in SQL, one
    for each column of an entry that is shown, empty for one that is not."""
    shown = zip((*shape.k, *shape.p, *shape.i), names, strict=True)
    columns = ", ".join(f"{column} AS {name}" for column, name in shown if name)
    return (
        f"CREATE OR REPLACE VIEW {shape.view} WITH (security_invoker = true) AS "
        f"SELECT {columns} FROM {shape.entries} WHERE NOT dead"
    )
