"""What the server does for a runner in one call: merge logged rows, and put one row right under locks.

x_merge: takes primary keys from a log, deletes every entry that they had, reads their base rows at this snapshot, and
inserts the entries that those have. If the key belongs to another row that is in a log too, only the insert is
deferred, to the log that is not being drained; if the other row is in no log, the two are suspects of being duplicates.

x_slow: one primary key, at now, under locks, in READ COMMITTED: the base row FOR SHARE, then the put. The put rewrites
an entry even if it is identical: only so does a REPEATABLE READ writer with an older snapshot get 40001 instead of a
duplicate. Returns the two primary keys if both rows have the key and are locked: a duplicate.
"""

from __future__ import annotations

from tidefill.indexes.bodies import conditions, owner_of_key, take_over, upsert
from tidefill.indexes.entries import entry_at, pinned, settings
from tidefill.indexes.shape import LOGS, Shape, as_texts, equal, listed, literal, not_null, same
from tidefill.jobs.sql_names import identifier


def merge_function(shape: Shape) -> str:
    """The statement that makes x_merge (drained log, active log, how many primary keys)."""
    key_of = shape.function("key" if shape.is_plain else "try")
    entries, columns, keys, log = shape.entries, listed(shape.columns), listed(shape.p), shape.log("%s")
    return f"""CREATE FUNCTION {shape.function("merge")} (drained int, active int, most bigint,
  OUT merged bigint, OUT deferred bigint, OUT suspects jsonb) LANGUAGE plpgsql {_settings(shape)} AS $q$
#variable_conflict use_column
DECLARE n record; w record;
BEGIN
  deferred := 0; suspects := '[]';
  {_temporary("tf_logged", f"{shape.declared((*shape.p, *shape.u))}, had boolean")}
  {_temporary("tf_keys", shape.declared(shape.p))}
  {_temporary("tf_new", shape.declared(shape.columns))}
  EXECUTE format('INSERT INTO tf_keys SELECT DISTINCT {keys} FROM {log} ORDER BY {keys} LIMIT %s', drained, most);
  GET DIAGNOSTICS merged = ROW_COUNT;
  IF merged = 0 THEN RETURN; END IF;
  EXECUTE format('WITH taken AS (
      DELETE FROM {log} l USING tf_keys m WHERE {equal(shape.p, "l.", "m.")} RETURNING l.*
    ) INSERT INTO tf_logged SELECT * FROM taken', drained);
  DELETE FROM {entries} e USING (
    SELECT DISTINCT {listed(shape.k, "z.")}, {listed(shape.p, "d.")}
    FROM tf_logged d CROSS JOIN LATERAL {key_of} ({listed(shape.u, "d.")}) z
    WHERE d.had AND z.ok AND {not_null(shape.k, "z.")}
  ) v WHERE {equal((*shape.k, *shape.p), "e.", "v.")};
  DELETE FROM {entries} e USING tf_keys m WHERE {has_null_key(shape)};
  INSERT INTO tf_new SELECT z.* FROM tf_keys m CROSS JOIN LATERAL {entry_at(shape, "m.")} z;
  DELETE FROM {entries} e USING tf_new n WHERE {equal((*shape.k, *shape.p), "e.", "n.")};
  INSERT INTO {entries} ({columns}) SELECT {columns} FROM tf_new ORDER BY {listed(shape.k)}
  ON CONFLICT ({listed(shape.identity)}) DO NOTHING;
  {_deferred(shape) if shape.unique else ""}
END $q$"""


def has_null_key(shape: Shape) -> str:
    """A condition: the entry `e` is of the base row of `m`, and has a NULL in its key. `=` on the key finds no such
    entry."""
    return " AND ".join(f"e.{d} = m.{p}" for d, p in zip(shape.d, shape.p, strict=True))


def _temporary(name: str, columns: str) -> str:
    return f"CREATE TEMP TABLE IF NOT EXISTS {name} ({columns}) ON COMMIT DELETE ROWS; DELETE FROM {name};"


def _deferred(shape: Shape) -> str:
    """The rows whose key another row has."""
    key = f"({listed(shape.p)}) VALUES ({listed(shape.p, 'n.')})"
    note = {number: f"INSERT INTO {shape.log(number)} {key};" for number in LOGS}
    without = [f"(n.d1 IS NULL AND {_no_entry(shape, 0)})"]
    if shape.nulls_not_distinct:
        without.append(f"(n.d1 IS NOT NULL AND {_no_entry(shape, 1)})")
    return f"""FOR n IN SELECT * FROM tf_new n WHERE {" OR ".join(without)} LOOP
    {owner_of_key(shape, "n.", "w")}
    IF NOT ({is_logged(shape, "w.")}) THEN
      suspects := suspects || jsonb_build_array({_pair(shape, "n.", "w.")});
    END IF;
    deferred := deferred + 1;
    IF active = 1 THEN {note[1]} ELSE {note[2]} END IF;
  END LOOP;"""


def _no_entry(shape: Shape, has_null: int) -> str:
    return f"NOT EXISTS (SELECT 1 FROM {shape.entries} e WHERE {conditions(shape, 'n.')[has_null]})"


def _pair(shape: Shape, one: str, other: str) -> str:
    """Two primary keys, as texts: JSON would round numbers."""
    keys = (f"jsonb_build_array({as_texts(shape.p, of)})" for of in (one, other))
    return f"jsonb_build_array({', '.join(keys)})"


def is_logged(shape: Shape, of: str) -> str:
    """A condition: the primary key is in one of the two logs."""
    logs = (f"SELECT 1 FROM {shape.log(number)} l WHERE {equal(shape.p, 'l.', of)}" for number in LOGS)
    return " OR ".join(f"EXISTS ({log})" for log in logs)


def _settings(shape: Shape) -> str:
    """A batch joins tables that nobody analyzed: only nested loops over indexes are right for them (measured: 2.5 times
    as fast as what the planner takes otherwise)."""
    ways = " ".join(f"SET enable_{way} = off" for way in ("hashjoin", "mergejoin", "seqscan"))
    return f"{pinned(shape)} {ways}"


def slow_function(shape: Shape) -> str:
    """The statement that makes x_slow (primary key, whether its log rows are drained with it). PL/pgSQL names the base
    table and its columns: after a RENAME the function is made anew (`names_base_now`)."""
    return f"""CREATE OR REPLACE FUNCTION {shape.function("slow")} ({shape.types(shape.p)}, logged boolean)
RETURNS jsonb LANGUAGE plpgsql {settings(shape)} AS $q$
#variable_conflict use_column
DECLARE v record; b record; o record;
BEGIN
  {_lock_its_row(shape)}
  SELECT * INTO b FROM {entry_at(shape)};
  IF logged THEN {_remove_logged(shape)} END IF;
  IF b.p1 IS NOT NULL THEN {upsert(shape)} {_take_over(shape) if shape.unique else ""} END IF;
  RETURN NULL;
END $q$"""


def _lock_its_row(shape: Shape) -> str:
    return lock_base_row(shape, [f"${at}" for at in range(1, len(shape.p) + 1)])


def names_base_now(shape: Shape) -> str:
    """A query: whether x_slow names table and columns as the shape does; no row if there is no such function."""
    found = f"strpos(p.prosrc, {literal(_lock_its_row(shape))}) > 0"
    return f"SELECT {found} FROM pg_proc p WHERE p.oid = to_regproc({literal(shape.function('slow'))})"


def lock_base_row(shape: Shape, key: list[str]) -> str:
    """Holds the base row of a primary key until the end of the transaction."""
    pairs = zip(shape.primary_key, key, strict=True)
    found = " AND ".join(f"t.{identifier(one.name)} = {value}" for one, value in pairs)
    return f"PERFORM 1 FROM {shape.base} t WHERE {found} FOR SHARE;"


def _take_over(shape: Shape) -> str:
    """Another row's entry has the key: a duplicate if that row, locked, still has it; else its entry is taken over."""
    both = f"EXISTS (SELECT 1 FROM {entry_at(shape, 'o.')} w WHERE {same(shape.k, 'w.', 'b.')})"
    return f"""IF NOT FOUND THEN
    {owner_of_key(shape, "b.", "o")}
    {lock_base_row(shape, [f"o.{name}" for name in shape.p])}
    IF {both} THEN RETURN {_pair(shape, "b.", "o.")}; END IF;
    {take_over(shape)}
  END IF;"""


def _remove_logged(shape: Shape) -> str:
    """Removes the entries that the logged rows had, if the base row does not have them now, then the log rows."""
    mine = " AND ".join(f"l.{name} = ${at}" for at, name in enumerate(shape.p, 1))
    raw = listed(shape.u, "l.")
    rows = " UNION ALL ".join(f"SELECT {raw} FROM {shape.log(number)} l WHERE had AND {mine}" for number in LOGS)
    keys = ", ".join(f"${at} AS {name}" for at, name in enumerate(shape.p, 1))
    complete = not_null(shape.k, "z.")
    nulls = ", ".join(f"CASE WHEN {complete} THEN NULL ELSE ${at} END AS {name}" for at, name in enumerate(shape.d, 1))
    return f"""
    FOR v IN SELECT DISTINCT {listed(shape.k, "z.")}, {keys}, {nulls}
      FROM ({rows}) l CROSS JOIN LATERAL {shape.function("try")} ({raw}) z WHERE z.ok LOOP
      IF b.p1 IS NULL OR NOT ({same(shape.k, "b.", "v.")}) THEN {_remove_if_gone(shape)} END IF;
    END LOOP;
    {" ".join(f"DELETE FROM {shape.log(number)} l WHERE {mine};" for number in LOGS)}"""


def _remove_if_gone(shape: Shape) -> str:
    """Locks the entry, then looks at the base once more in a new statement: the row may have come back meanwhile."""
    by_key, by_null = conditions(shape, "v.")
    entry = f"((v.d1 IS NULL AND {by_key}) OR (v.d1 IS NOT NULL AND {by_null}))"
    return f"""
        SELECT 1 INTO o FROM {shape.entries} e WHERE {entry} AND NOT dead FOR UPDATE;
        IF FOUND AND {still_gone(shape)} THEN DELETE FROM {shape.entries} e WHERE {entry}; END IF;"""


def still_gone(shape: Shape) -> str:
    """A condition: the base row does not have the key of `v` now."""
    return f"NOT EXISTS (SELECT 1 FROM {entry_at(shape)} again WHERE {same(shape.k, 'again.', 'v.')})"
