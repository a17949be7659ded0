"""The event trigger that refuses statements which would break an index. Only a superuser can make one; without it a
runner finds at its next look that the index is broken (`looking.check_whole`).

A statement is judged by what it leaves behind: triggers, functions and entries are looked up when it has ended. The
partitions are read from the catalog without a lock: two statements on two tables that have indexes would otherwise wait
for each other. A table that is dropped, and an index that was stopped (`tidefill.stop`), are let go.
"""

from __future__ import annotations

from tidefill.indexes.bodies import trigger_names
from tidefill.indexes.shape import SCHEMA, Shape, literal
from tidefill.jobs.sql_names import identifier, unquoted

NEEDED = ("row", "do", "at", "of", "raw", "key")
"""The functions without which writers fail, or rows are missing."""

_TAGS = (
    "ALTER TABLE", "ALTER TRIGGER", "DROP TRIGGER", "CREATE TRIGGER", "DROP FUNCTION", "ALTER FUNCTION", "DROP ROUTINE",
    "ALTER ROUTINE", "DROP TABLE",
)  # fmt: skip


def guard_name(shape: Shape) -> str:
    """Of the event trigger, in SQL."""
    return identifier(f"!{shape.id}_guard")


def guard(shape: Shape) -> list[str]:
    """The statements that make the event trigger, which fires for what a subscription does, too. SECURITY DEFINER: it
    runs for whoever alters any table, and those may not read our schema."""
    name, tags = guard_name(shape), ", ".join(map(literal, _TAGS))
    return [
        f"CREATE OR REPLACE FUNCTION {shape.function('guard')} () RETURNS event_trigger LANGUAGE plpgsql "
        f"SECURITY DEFINER SET search_path = pg_catalog AS $q$\n"
        f"DECLARE found_on text; gone text;\nBEGIN\n{_judged(shape)}\nEND $q$",
        f"CREATE EVENT TRIGGER {name} ON ddl_command_end WHEN TAG IN ({tags}) "
        f"EXECUTE FUNCTION {shape.function('guard')} ()",
        f"ALTER EVENT TRIGGER {name} ENABLE ALWAYS",
    ]


def _judged(shape: Shape) -> str:
    triggers = ", ".join(literal(unquoted(name)) for name in trigger_names(shape))
    functions = ", ".join(literal(f"{shape.id}_{name}") for name in NEEDED)
    known = f"SELECT proname FROM pg_proc WHERE pronamespace = to_regnamespace('{SCHEMA}')"
    return f"""
IF NOT EXISTS (SELECT FROM {SCHEMA}.indexes WHERE id = {literal(shape.id)} AND body <> 'ABSENT')
  OR NOT EXISTS (SELECT FROM pg_class WHERE oid = {shape.relation}) THEN RETURN; END IF;
WITH RECURSIVE tree (relid) AS (SELECT {shape.relation}::oid UNION ALL
  SELECT i.inhrelid FROM pg_inherits i JOIN tree p ON i.inhparent = p.relid WHERE NOT i.inhdetachpending)
SELECT r.relid::regclass::text INTO found_on FROM tree r CROSS JOIN unnest(ARRAY[{triggers}]) n (name)
LEFT JOIN pg_trigger t ON t.tgrelid = r.relid AND t.tgname = n.name WHERE t.tgenabled IS DISTINCT FROM 'A' LIMIT 1;
SELECT n.name INTO gone FROM unnest(ARRAY[{functions}]) n (name) WHERE n.name NOT IN ({known}) LIMIT 1;
IF found_on IS NOT NULL THEN {_refusal(shape, "its trigger on ' || found_on || '")}
ELSIF gone IS NOT NULL THEN {_refusal(shape, "its function ' || gone || '")}
ELSIF to_regclass({literal(shape.entries)}) IS NULL THEN {_refusal(shape, "its entries")}
END IF;"""


def _refusal(shape: Shape, needs: str) -> str:
    """`needs`: what would be gone or disabled, to be put into a literal of SQL."""
    name = identifier(shape.name).replace("'", "''")
    hint = f"Drop the index in Tidefill, or stop it: SELECT {SCHEMA}.stop({literal(shape.name)})."
    return (
        f"RAISE object_in_use USING MESSAGE = TG_TAG || ' is refused: the global index {name} needs {needs}', "
        f"HINT = {literal(hint)};"
    )
