"""Locks a table with all its partitions, inside one statement of the server, within one bound on the time.

PostgreSQL's lock_timeout counts per lock. `LOCK TABLE root` locks the root and then each partition, so beside busy
partitions it may wait for the timeout once per partition, and writers queue behind the root for the sum. So the tables
are locked one by one, each with what is left of the time.

The root comes first, then the partitions by level: a writer through the root has locked it before its partition. In the
other order the writer would wait for us at the partition while we wait for the writer at the root. The partitions of a
table are read after it is locked: from then on nobody can attach or detach one.
"""

from __future__ import annotations

DECLARED = "began timestamptz; tree oid[]; level oid[]; member oid;"
"""The variables of `lock_tree`. Afterwards `tree` has the table and all its partitions."""


def lock_tree(root: str, mode: str, within_ms: int) -> str:
    """Statements in PL/pgSQL that lock the tree, and raise `lock_not_available` if that takes longer. `root`: an oid,
    in SQL."""
    # The timeout 0 would wait for ever.
    left_ms = f"greatest(1, {within_ms} - 1000 * extract(epoch FROM clock_timestamp() - began))::int"
    return f"""
began := clock_timestamp(); tree := '{{}}'; level := ARRAY[{root}::oid];
WHILE cardinality(level) > 0 LOOP
  FOREACH member IN ARRAY level LOOP
    PERFORM set_config('lock_timeout', ({left_ms})::text, true);
    EXECUTE format('LOCK TABLE ONLY %s IN {mode} MODE', member::regclass);
  END LOOP;
  tree := tree || level;
  level := ARRAY(SELECT i.inhrelid FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition
    WHERE i.inhparent = ANY (level) AND NOT i.inhdetachpending ORDER BY 1);
END LOOP;"""
