"""What the trigger of an index does with a changed row, for each body (`states.Body`).

The row trigger is thin: it calls one shared function, `x_do(operation, old row, new row)`, whose text is the state of
the index. The delete half handles the old row, the insert half the new one.

Rules, each of which answers a lost row, a refused legal write or a stalled writer that was reproduced:
- The insert half puts what the base row is NOW, never what the event says it was: events of one statement come late
  if a user's trigger changes a later row of the same statement.
- The delete half does nothing if the base row still yields the old key, for the same reason.
- An entry is removed by an upsert of a tombstone, never by a bare DELETE or UPDATE: those do not see an entry that is
  younger than the writer's snapshot, and would leave an orphan. The upsert raises 40001 there.
- LOGGING notes raw columns and computes nothing: a row whose key cannot be computed must stay deletable.
"""

from __future__ import annotations

from dataclasses import replace

from tidefill.indexes.entries import NOT_THE_KEY, WIDE_BYTES, entry_at, key_bytes, settings
from tidefill.indexes.shape import SCHEMA, Shape, equal, listed, literal, same, set_from
from tidefill.indexes.states import Body
from tidefill.jobs.sql_names import identifier

SERIALIZATION = "could not serialize access: the global index is being built"


def shared_function(shape: Shape, body: Body) -> str:
    """The statement that makes the body the state of the index."""
    return (
        f"CREATE OR REPLACE FUNCTION {shape.function('do')} (op text, old_row {shape.base}, new_row {shape.base}) "
        f"RETURNS void LANGUAGE plpgsql AS $q$\n#variable_conflict use_column\n"
        f"DECLARE v record; b record; r record; o record; bad boolean := false;\n"
        f"BEGIN /* {body.value} */\n{_statements(shape, body)}\nEND $q$"
    )


def _statements(shape: Shape, body: Body) -> str:
    match body:
        case Body.ABSENT:
            return "NULL;"
        case Body.LOGGING_1 | Body.LOGGING_2:
            return _log(shape, body.log or 1)
        case Body.DELETE_ONLY:
            return _delete_half(shape, body)
        case Body.WRITE_AND_DELETE | Body.DRAIN | Body.READ_WRITE_AND_DELETE:
            return f"{_delete_half(shape, body)}\n{_insert_half(shape, body)}"


def _log(shape: Shape, number: int) -> str:
    """The old row with its raw columns; the new row by its primary key alone, unless the old row has the same."""
    log, raw = shape.log(number), shape.function("raw")
    new = f"INSERT INTO {log} ({listed(shape.p)}) VALUES ({listed(shape.p, 'r.')});"
    columns = listed((*shape.p, *shape.u))
    return f"""
IF op <> 'INSERT' THEN
  INSERT INTO {log} ({columns}, had) SELECT {columns}, true FROM {raw} (old_row) RETURNING * INTO v;
END IF;
IF op <> 'DELETE' THEN SELECT * INTO r FROM {raw} (new_row); END IF;
IF op = 'INSERT' THEN {new}
ELSIF op = 'UPDATE' THEN IF NOT ({equal(shape.p, "v.", "r.")}) THEN {new} END IF;
END IF;"""


# The delete half.


def _delete_half(shape: Shape, body: Body) -> str:
    return f"""
IF op <> 'INSERT' THEN
  {_old_entry(shape)}
  IF NOT bad THEN IF v.ok {unless_still_there(shape)} THEN {_removal(shape, body)} END IF; END IF;
END IF;"""


def _old_entry(shape: Shape) -> str:
    """The entry that the old row had, in `v`. A row whose key cannot be computed has none: it was there before
    the index was built, or came with a partition."""
    get = f"SELECT * INTO v FROM {shape.function('of')} (old_row);"
    if shape.is_plain:
        return get
    return f"BEGIN {get} EXCEPTION {NOT_THE_KEY} WHEN OTHERS THEN bad := true; END;"


def unless_still_there(shape: Shape) -> str:
    """A condition: the base row does not yield the old key any more."""
    return f"AND NOT EXISTS (SELECT 1 FROM {entry_at(shape, 'v.')} b WHERE {same(shape.k, 'b.', 'v.')})"


def _removal(shape: Shape, body: Body) -> str:
    if body is Body.READ_WRITE_AND_DELETE:
        return f"{bare_delete(shape)} IF NOT FOUND THEN {_tombstone_if_it_fits(shape)} END IF;"
    return _tombstone_if_it_fits(shape)


def bare_delete(shape: Shape) -> str:
    """Deletes the entry of `v`, if this snapshot sees it."""
    by_key, by_null = (f"DELETE FROM {shape.entries} e WHERE {one};" for one in conditions(shape, "v."))
    return f"IF v.d1 IS NULL THEN {by_key} ELSE {by_null} END IF;"


def _tombstone_if_it_fits(shape: Shape) -> str:
    """A tombstone that is too wide for the key has no entry to bury; its primary key is noted in the log."""
    tombstone = tombstone_upsert(shape)
    note = f"INSERT INTO {shape.log(1)} ({listed(shape.p)}) VALUES ({listed(shape.p, 'v.')});"
    return (
        f"IF {key_bytes(shape, 'v.')} > {WIDE_BYTES} THEN "
        f"BEGIN {tombstone} EXCEPTION WHEN program_limit_exceeded THEN {note} END; ELSE {tombstone} END IF;"
    )


def tombstone_upsert(shape: Shape) -> str:
    """Marks the entry of `v` as dead, or puts one that is; not if the key belongs to another row by now."""
    columns = (*shape.k, *shape.p, *shape.d)
    return f"""
INSERT INTO {shape.entries} AS e ({listed(columns)}, dead) VALUES ({listed(columns, "v.")}, true)
ON CONFLICT ({listed(shape.identity)}) DO UPDATE SET dead = true, {set_from((*shape.p, *shape.d), "EXCLUDED.")}
{if_ours_or_dead(shape)};"""


def if_ours_or_dead(shape: Shape) -> str:
    """The condition of an upsert: the entry is a tombstone, or is of the same base row."""
    return f"WHERE e.dead OR ({equal(shape.p, 'e.', 'EXCLUDED.')})"


def conditions(shape: Shape, of: str) -> tuple[str, str]:
    """How the entry `e` of a row's key and primary key is found: without a NULL in the key, and with one. Both can use
    an index; `IS NOT DISTINCT FROM` alone could not."""
    by_key = equal((*shape.k, *shape.p), "e.", of)
    return by_key, f"{equal(shape.d, 'e.', of)} AND {same(shape.k, 'e.', of)}"


# The insert half.


def _insert_half(shape: Shape, body: Body) -> str:
    return f"""
IF op <> 'DELETE' THEN
  {new_entry(shape)}
  IF FOUND THEN {_put(shape, body)} END IF;
END IF;"""


def new_entry(shape: Shape) -> str:
    """The entry of the base row as it is now, in `b`."""
    return f"""SELECT * INTO r FROM {shape.function("raw")} (new_row);
  SELECT * INTO b FROM {entry_at(shape, "r.")};"""


def upsert(shape: Shape) -> str:
    """Puts the entry `b` if none has its key, or a tombstone, or an entry of the same base row."""
    return f"""
INSERT INTO {shape.entries} AS e ({listed(shape.columns)}, dead) VALUES ({listed(shape.columns, "b.")}, false)
ON CONFLICT ({listed(shape.identity)}) DO UPDATE SET {set_from(shape.columns, "EXCLUDED.")}, dead = false
{if_ours_or_dead(shape)};"""


def _put(shape: Shape, body: Body) -> str:
    """Another base row has the key: if it has it in the base, too, that is a duplicate. If not (it is changed by the
    same statement), the entry is taken over."""
    if not shape.unique:
        return upsert(shape)
    return f"""{upsert(shape)}
IF NOT FOUND THEN
  {_refuse_old_snapshots(body)}
  {owner_of_key(shape, "b.", "o")}
  IF EXISTS (SELECT 1 FROM {entry_at(shape, "o.")} w WHERE {same(shape.k, "w.", "b.")}) THEN
    {_refusal(shape)}
  END IF;
  {take_over(shape)}
END IF;"""


def owner_of_key(shape: Shape, of: str, into: str) -> str:
    """Finds the primary key of the entry that has the key of the row `of`, whoever it belongs to. If NULLs are equal, a
    key with a NULL is looked up by a text that says IS NULL where the value is NULL: `IS NOT DISTINCT FROM` could not
    use the index."""
    owner = f"SELECT {listed(shape.p, 'e.')}"
    by_key = f"{owner} INTO {into} FROM {shape.entries} e WHERE {equal(shape.k, 'e.', of)};"
    if not shape.nulls_not_distinct:
        return by_key
    found = " || ' AND ' || ".join(
        f"CASE WHEN {of}{name} IS NULL THEN 'e.{name} IS NULL' ELSE 'e.{name} = ${at}' END"
        for at, name in enumerate(shape.k, 1)
    )
    text = f"'{owner} FROM {shape.entries} e WHERE ' || {found}"
    return f"IF {of}d1 IS NULL THEN {by_key} ELSE EXECUTE {text} INTO {into} USING {listed(shape.k, of)}; END IF;"


def take_over(shape: Shape) -> str:
    """Gives the entry that has the key of `b`, and belonged to the row `o`, to the row of `b`."""
    update = f"UPDATE {shape.entries} e SET {set_from(shape.columns, 'b.')}, dead = false WHERE"
    by_key = f"{update} {equal(shape.k, 'e.', 'b.')};"
    if not shape.nulls_not_distinct:
        return by_key
    of_owner = " AND ".join(f"e.{d} = o.{p}" for d, p in zip(shape.d, shape.p, strict=True))
    return f"IF b.d1 IS NULL THEN {by_key} ELSE {update} {of_owner} AND {same(shape.k, 'e.', 'b.')}; END IF;"


def _refuse_old_snapshots(body: Body) -> str:
    """While the log is drained, an entry may be stale, and a snapshot from before cannot see whether its owner still
    has the key: such a transaction has to begin again."""
    if body is not Body.DRAIN:
        return ""
    return (
        "IF current_setting('transaction_isolation') NOT LIKE 'read%' THEN "
        f"RAISE serialization_failure USING MESSAGE = '{SERIALIZATION}'; END IF;"
    )


def _refusal(shape: Shape) -> str:
    names = ", ".join(column.shown for column in shape.keys)
    row = ", ".join(column.name for column in shape.primary_key)
    key = " || ', ' || ".join(f"coalesce(b.{name}::text, 'NULL')" for name in shape.k)
    owner, new = (" || ', ' || ".join(f"{of}{name}::text" for name in shape.p) for of in ("o.", "b."))
    message = f'duplicate key value violates global unique index "{shape.name}"'
    detail = (
        f"{literal(f'Key ({names})=(')} || {key} || {literal(f') of the row ({row})=(')} || {new} || "
        f"{literal(') belongs to the row (')} || {owner} || ').'"
    )
    places = f"SCHEMA = {literal(shape.schema)}, TABLE = {literal(shape.table)}, CONSTRAINT = {literal(shape.name)}"
    return f"RAISE unique_violation USING MESSAGE = {literal(message)}, DETAIL = {detail}, {places};"


# Triggers.


def trigger_functions(shape: Shape) -> list[str]:
    """The thin trigger, and what TRUNCATE meets. The thin trigger alone is SECURITY DEFINER and has all settings; the
    shared function is granted to nobody, so that only the trigger calls it."""
    do, thin = shape.function("do"), shape.function("row")
    of_row = f"{do} (text, {shape.base}, {shape.base})"
    return [
        f"CREATE FUNCTION {thin} () RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER {settings(shape)} AS "
        f"$q$ BEGIN PERFORM {do} (TG_OP, OLD, NEW); RETURN NULL; END $q$",
        truncate_function(shape, public=False),
        f"REVOKE ALL ON FUNCTION {of_row} FROM PUBLIC",
        f"REVOKE ALL ON FUNCTION {thin} () FROM PUBLIC",
    ]


def truncate_function(shape: Shape, *, public: bool) -> str:
    """What a TRUNCATE of the table or of a partition does. While the index is built it is refused: the fill would not
    learn of it. Of a public index the entries of that table go, too. A table that has left the tree has none."""
    tree = f"TG_RELID = {shape.relation} OR {shape.relation} IN (SELECT relid FROM pg_partition_ancestors(TG_RELID))"
    refusal = f"TRUNCATE is refused while the global index {identifier(shape.name)} is being built"
    rows = f"SELECT 1 FROM {shape.function('leaf')} (TG_RELID) l WHERE {equal(shape.p, 'l.', 'e.')}"
    act = (
        f"IF TG_RELID = {shape.relation} THEN TRUNCATE {shape.entries}; "
        f"ELSE DELETE FROM {shape.entries} e WHERE EXISTS ({rows}); END IF;"
        if public
        else f"RAISE object_in_use USING MESSAGE = {literal(refusal)};"
    )
    return (
        f"CREATE OR REPLACE FUNCTION {shape.function('truncate')} () RETURNS trigger LANGUAGE plpgsql "
        f"SECURITY DEFINER {settings(shape)} AS $q$ BEGIN "
        f"IF NOT ({tree}) THEN RETURN NULL; END IF; {act} RETURN NULL; END $q$"
    )


def row_triggers(shape: Shape) -> list[str]:
    """The statements that make the triggers of rows, which partitions inherit. ENABLE ALWAYS: what a subscription
    applies counts, too. The name begins with `!`, so that it comes before the triggers of users."""
    row, changed = trigger_names(shape)
    return [
        f"CREATE TRIGGER {row} AFTER INSERT OR DELETE ON {shape.base} "
        f"FOR EACH ROW EXECUTE FUNCTION {shape.function('row')} ()",
        f"CREATE TRIGGER {changed} AFTER UPDATE ON {shape.base} "
        f"FOR EACH ROW WHEN ({image_differs(shape)}) EXECUTE FUNCTION {shape.function('row')} ()",
        f"ALTER TABLE {shape.base} ENABLE ALWAYS TRIGGER {row}, ENABLE ALWAYS TRIGGER {changed}",
    ]


def trigger_names(shape: Shape) -> tuple[str, str]:
    """Of the two row triggers, in SQL."""
    return identifier(f"!{shape.id}_row"), identifier(f"!{shape.id}_changed")


def truncate_trigger(shape: Shape, table: str) -> str:
    """The statement that makes the trigger for TRUNCATE on one table of the tree: partitions do not inherit it."""
    name = _truncate_name(shape)
    return (
        f"CREATE OR REPLACE TRIGGER {name} BEFORE TRUNCATE ON {table} "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {shape.function('truncate')} ()"
    )


def _truncate_name(shape: Shape) -> str:
    return identifier(f"!{shape.id}_truncate")


def always(shape: Shape, table: str) -> str:
    """The statement that has the trigger for TRUNCATE fire for what a subscription applies, too."""
    return f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {_truncate_name(shape)}"


def image_differs(shape: Shape) -> str:
    """A condition: a column that matters has other bytes. (`IS DISTINCT FROM` takes 1.0 for 1.00.)"""
    columns = dict.fromkeys(column.name for column in (*shape.used, *shape.include, *shape.primary_key))
    old, new = (f"ROW({', '.join(f'{of}.{identifier(name)}' for name in columns)})" for of in ("OLD", "NEW"))
    return f"pg_catalog.record_image_ne({old}, {new})"


def stopping(shape: Shape) -> str:
    """ONE statement that has the triggers do nothing from now on. It is kept beside the control row, so it finds the
    table by its oid: the table may have another name by then, or be gone."""
    absent = shared_function(replace(shape, schema=_TYPE, table=_TYPE), Body.ABSENT)
    base = replace(shape, schema=_TYPE, table=_TYPE).base
    put_in = f"replace({literal(absent)}, {literal(base)}, {shape.relation}::regclass::text)"
    nothing = f"CREATE OR REPLACE FUNCTION {shape.function('truncate')} () RETURNS trigger LANGUAGE plpgsql AS "
    statements = (
        f"IF to_regproc({literal(shape.function('do'))}) IS NOT NULL THEN EXECUTE {put_in}; END IF; "
        f"EXECUTE {literal(nothing + '$q$ BEGIN RETURN NULL; END $q$')};"
    )
    return f"DO {literal(f'BEGIN {statements} END')}"


_TYPE = "the table"


def stop_function() -> str:
    """`SELECT tidefill.stop('orders_email')`: plain SQL that stops all that indexes of this name do to writers, without
    a runner."""
    return (
        f"CREATE OR REPLACE FUNCTION {SCHEMA}.stop (index_name text) RETURNS bigint LANGUAGE plpgsql AS $q$ "
        f"DECLARE c record; n bigint := 0; BEGIN "
        f"FOR c IN SELECT * FROM {SCHEMA}.indexes WHERE name = index_name FOR UPDATE LOOP EXECUTE c.stops; "
        f"UPDATE {SCHEMA}.indexes SET state = 'ABSENT', body = 'ABSENT', step = step + 1, "
        f"is_public = false, by_hand = true, changed = pg_current_xact_id() WHERE id = c.id; n := n + 1; "
        f"END LOOP; RETURN n; END $q$"
    )
