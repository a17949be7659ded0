"""The control row of an index on its server, and the statements that change the state of the index.

Each transaction of a runner begins with the control row: FOR SHARE to move rows, FOR UPDATE to change the state. It
compares the runner's fence and the step, so a runner that was taken over changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidefill.indexes.bodies import (
    always,
    row_triggers,
    shared_function,
    stop_function,
    stopping,
    trigger_functions,
    truncate_trigger,
)
from tidefill.indexes.entries import key_index, row_functions, tables
from tidefill.indexes.leaves import CHUNKS, remember_all
from tidefill.indexes.leaves import table as leaves_table
from tidefill.indexes.locking import DECLARED, lock_tree
from tidefill.indexes.merging import merge_function, slow_function
from tidefill.indexes.shape import LOGS, SCHEMA, Shape, literal
from tidefill.indexes.states import FIRST, Body, Method, State

CONTROL = f"{SCHEMA}.indexes"

LOCK_MS = 200
"""How long a statement waits for the table and all its partitions together. Below PostgreSQL's deadlock_timeout (1 s),
so that in a deadlock the one who gives way is always us; and a writer that queues behind us waits no longer."""

LOCKED_MS = 2000
"""How long install and cut-over may hold the table lock at most; then the server cancels them."""

LOG_TOO_LONG, CONFLICT, TAKEN_OVER = "TF001", "TF002", "TF003"
"""The SQLSTATEs by which a cut-over says why it did nothing."""


@dataclass(frozen=True, slots=True)
class Control:
    """The control row. `rows`: how many entries the validation counted. `is_public`: users can read it. `by_hand`:
    somebody stopped it on the server (`tidefill.stop`). `refused`: rows that have no entry in a public index."""

    state: State
    body: Body
    fence: int
    step: int
    method: Method
    rows: int = 0
    is_public: bool = False
    by_hand: bool = False
    refused: int = 0


def schema() -> list[str]:
    """The statements that make what all indexes of a database share."""
    return [
        f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
        f"CREATE TABLE IF NOT EXISTS {CONTROL} (id text PRIMARY KEY, name text NOT NULL, state text NOT NULL, "
        f"body text NOT NULL, fence bigint NOT NULL, step bigint NOT NULL, method text NOT NULL, "
        f"stops text NOT NULL, changed xid8 NOT NULL DEFAULT pg_current_xact_id(), rows bigint NOT NULL DEFAULT 0, "
        f"is_public boolean NOT NULL DEFAULT false, by_hand boolean NOT NULL DEFAULT false, report jsonb)",
        f"CREATE TABLE IF NOT EXISTS {CHUNKS} (id text, chunk int, upto text[], rows bigint NOT NULL, "
        f"PRIMARY KEY (id, chunk))",
        leaves_table(),
        stop_function(),
    ]


def install(shape: Shape, method: Method, fence: int) -> str:
    """ONE statement that makes everything. It is sent alone, in autocommit: a client that stalls between two statements
    of a transaction would hold the writers. The table is locked after all that can be made without. The partitions are
    read under the lock: one that was attached a moment before has its trigger for TRUNCATE, too."""
    state, body = FIRST[method]
    values = ", ".join(map(literal, (shape.id, shape.name, state.value, body.value)))
    stops = literal(stopping(shape))
    unlocked = [
        f"INSERT INTO {CONTROL} (id, name, state, body, fence, step, method, stops) "
        f"VALUES ({values}, {fence}, 1, '{method.value}', {stops})",
        *tables(shape),
        *([key_index(shape)] if method is Method.INITPUT else []),
        *row_functions(shape),
        merge_function(shape),
        slow_function(shape),
        shared_function(shape, body),
        *trigger_functions(shape),
    ]
    under_lock = _executed(row_triggers(shape)) + _on_the_tree(shape) + _executed([remember_all(shape)])
    return _do(_executed(unlocked) + _lock(shape) + under_lock + _grant_to_owner(shape))


def _executed(statements: Sequence[str]) -> str:
    return "".join(f"EXECUTE {literal(statement)};\n" for statement in statements)


def _on_the_tree(shape: Shape) -> str:
    """Partitions do not inherit the trigger for TRUNCATE."""
    made = (make(shape, "%s") for make in (truncate_trigger, always))
    each = "".join(f"EXECUTE format({literal(statement)}, member::regclass);\n" for statement in made)
    return f"FOREACH member IN ARRAY tree LOOP\n{each}END LOOP;\n"


def _lock(shape: Shape) -> str:
    return lock_tree(str(shape.relation), "SHARE ROW EXCLUSIVE", LOCK_MS)


def _grant_to_owner(shape: Shape) -> str:
    """PostgreSQL clones triggers for whoever makes a partition, if the owner of the table may call their functions."""
    functions = ", ".join(f"{shape.function(what)} ()" for what in ("row", "truncate"))
    grant = literal(f"GRANT EXECUTE ON FUNCTION {functions} TO %I")
    owner = f"SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = {shape.relation}"
    return f"EXECUTE format({grant}, ({owner}));"


def grant_to_owner(shape: Shape) -> str:
    """The statement that lets the owner of now make partitions, if the table belongs to another role than before."""
    return _do(_grant_to_owner(shape))


def cut_over(shape: Shape, fence: int, log_rows_max: int) -> str:
    """ONE statement: lock the table, merge what is left in both logs, and let writers keep the entries themselves. It
    does nothing if that would take too long, or if a row is in conflict with another."""
    first, second = map(shape.log, LOGS)
    return _do(
        f"""
PERFORM 1 FROM {CONTROL} WHERE id = {literal(shape.id)} AND fence = {fence} AND state = 'MERGING' FOR UPDATE;
IF NOT FOUND THEN RAISE EXCEPTION 'taken over' USING ERRCODE = '{TAKEN_OVER}'; END IF;
{_lock(shape)}
SELECT (SELECT count(*) FROM {first}) + (SELECT count(*) FROM {second}) INTO n;
IF n > {log_rows_max} THEN RAISE EXCEPTION 'the log is too long' USING ERRCODE = '{LOG_TOO_LONG}'; END IF;
INSERT INTO {first} SELECT * FROM {second};
DELETE FROM {second};
SELECT * INTO m FROM {shape.function("merge")} (1, 2, {log_rows_max + 1});
IF m.deferred > 0 THEN RAISE EXCEPTION 'conflict' USING ERRCODE = '{CONFLICT}'; END IF;
EXECUTE {literal(shared_function(shape, Body.READ_WRITE_AND_DELETE))};
UPDATE {CONTROL} SET state = 'VALIDATING', body = 'READ_WRITE_AND_DELETE', step = step + 1,
  changed = pg_current_xact_id() WHERE id = {literal(shape.id)};"""
    )


def _do(statements: str) -> str:
    return f"DO {literal(f'DECLARE m record; n bigint; {DECLARED} BEGIN {statements} END')}"
