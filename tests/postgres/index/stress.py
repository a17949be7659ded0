"""Hostile writers of a table that is being indexed, and an oracle that shares nothing with the index: a shadow table
with an ordinary unique constraint that is checked at COMMIT, and a history of the keys that each row had."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.postgres.index.harness import Indexed
from tidefill.indexes.shape import SCHEMA

ROWS, VALUES, WRITERS = 120, 400, 4
MAY_BE_TOLD = {"40001", "40P01", "27000", "55P03"}
"""What a correct writer begins again for: serialization, deadlock, and a row that its own trigger changed."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What is indexed."""

    columns: tuple[str, ...]
    where: str = ""
    unique: bool = True
    nulls_not_distinct: bool = False


KINDS = {
    "plain": Kind(("v",)),
    "partial": Kind(("lower(v)", "n"), "st <> 'void'"),
    "equal keys": Kind(("v",), unique=False),
    "equal nulls": Kind(("v", "n"), nulls_not_distinct=True),
}

FLIP = """
CREATE FUNCTION {t}_flip () RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF pg_trigger_depth() = 1 THEN
  UPDATE {t} SET v = rtrim(v, 'x'), inc = 'back' WHERE inc = 'flip' AND id <> NEW.id;
END IF;
RETURN NULL; END $$
"""

UNDELETE = """
CREATE FUNCTION {t}_undelete () RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE j json := nullif(current_setting('app.undelete', true), '')::json;
BEGIN
IF j IS NOT NULL AND OLD.id <> (j->>'id')::bigint
  AND NOT EXISTS (SELECT 1 FROM {t} WHERE id = (j->>'id')::bigint AND r = (j->>'r')::int) THEN
  PERFORM set_config('app.undelete', '', true);
  INSERT INTO {t} (id, r, v, n, st) SELECT (j->>'id')::bigint, (j->>'r')::int, j->>'v', (j->>'n')::numeric, j->>'st';
END IF;
RETURN NULL; END $$
"""
"""Inserts a row again whose own DELETE event of the same statement is still to come."""


def setup(kind: Kind) -> list[str]:
    """The statements that make the shadow, its triggers and the first rows."""
    keys, where = ", ".join(kind.columns), kind.where or "true"
    text = " || '|' || ".join(f"coalesce(({one})::text, 'NULL')" for one in kind.columns)
    types = ", ".join(f"c{at} {'numeric' if one == 'n' else 'text'}" for at, one in enumerate(kind.columns))
    names = ", ".join(f"c{at}" for at in range(len(kind.columns)))
    nulls = " NULLS NOT DISTINCT" if kind.nulls_not_distinct else ""
    unique = f", CONSTRAINT {{t}}_shadow UNIQUE{nulls} ({names}) DEFERRABLE INITIALLY DEFERRED" if kind.unique else ""
    after = "".join(
        f"IF TG_OP <> '{event}' THEN DELETE FROM {{t}}_s WHERE id = {of}.id AND r = {of}.r; "
        f"INSERT INTO {{t}}_s SELECT id, r, {keys} FROM {{t}} WHERE id = {of}.id AND r = {of}.r AND ({where}); "
        f"INSERT INTO {{t}}_h (id, r, key) SELECT {of}.id, {of}.r, "
        f"(SELECT {text} FROM {{t}} WHERE id = {of}.id AND r = {of}.r AND ({where})); END IF; "
        for event, of in (("INSERT", "OLD"), ("DELETE", "NEW"))
    )
    return [
        f"CREATE TABLE {{t}}_s (id bigint, r int, {types}, PRIMARY KEY (id, r){unique})",
        "CREATE TABLE {t}_h (seq bigserial, id bigint, r int, key text, xid xid8 DEFAULT pg_current_xact_id())",
        f"CREATE FUNCTION {{t}}_keep () RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {after} RETURN NULL; END $$",
        "CREATE TRIGGER zz AFTER INSERT OR UPDATE OR DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_keep ()",
        FLIP,
        "CREATE TRIGGER aa AFTER UPDATE ON {t} FOR EACH ROW WHEN (NEW.inc = 'flip') EXECUTE FUNCTION {t}_flip ()",
        UNDELETE,
        "CREATE TRIGGER ab AFTER DELETE ON {t} FOR EACH ROW EXECUTE FUNCTION {t}_undelete ()",
        f"INSERT INTO {{t}} (id, r, v, n, st) SELECT i, i % 4, 'v' || i, nullif(i % 3, 0), "
        f"CASE WHEN i % 5 = 0 THEN 'void' ELSE 'ok' END FROM generate_series(1, {ROWS}) i",
    ]


def remove(index: Indexed) -> None:
    """What the setup made beside the table."""
    for statement in ("DROP TABLE {t}_s, {t}_h", "DROP FUNCTION {t}_keep, {t}_flip, {t}_undelete CASCADE"):
        index.sql(statement)


@dataclass
class Writers:
    """Writers in threads of their own, until they are stopped. `wrong`: what must not be. `told`: how often what.
    `may_be_cut`: the server is restarted meanwhile, and they open new sessions then."""

    index: Indexed
    kind: Kind
    seed: int
    may_be_cut: bool = False
    wrong: list[str] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(number,), daemon=True) for number in range(1, WRITERS + 1)
        ]

    def __enter__(self) -> Writers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in self._threads), "a writer still works"

    def go_on(self, commits: int) -> None:
        """Until they have committed so many more transactions."""
        upto = self.told["committed"] + commits
        self.index.until(lambda: self.told["committed"] >= upto or self.wrong)

    def _run(self, number: int) -> None:
        chance = random.Random(self.seed * 100 + number)
        while not self._stop.is_set():
            try:
                self._write(number, chance)
            except Exception as error:
                if not self.may_be_cut or not isinstance(error, psycopg.OperationalError):
                    self.wrong.append(f"a writer ended: {error!r}")
                    return
                self.told["cut"] += 1
                time.sleep(0.02)  # the server is not back yet

    def _write(self, number: int, chance: random.Random) -> None:
        """Until it is stopped, or the server is."""
        with (
            psycopg.connect(self.index.url, autocommit=True) as session,
            psycopg.connect(self.index.url, autocommit=True) as aside,
        ):
            session.execute("SET deadlock_timeout = '400ms'")
            writer = Writer(self, session, aside, chance, f"{number}")
            writer.roll_back_prepared()
            while not self._stop.is_set():
                writer.transact()


@dataclass
class Writer:
    """One of them. `aside` looks from outside of its transactions. `touched`: rows that this transaction may have
    changed; what it did itself is not in the history yet."""

    writers: Writers
    session: psycopg.Connection[Any]
    aside: psycopg.Connection[Any]
    chance: random.Random
    name: str
    touched: set[int] = field(default_factory=set)

    def sql(self, text: str, *values: Any) -> Any:
        return self.session.execute(text.replace("{t}", self.writers.index.name).encode(), values or None)

    def look(self, text: str, *values: Any) -> Any:
        return self.aside.execute(text.replace("{t}", self.writers.index.name).encode(), values or None).fetchone()

    def transact(self) -> None:
        """One transaction, and what becomes of it."""
        self.touched.clear()
        level = self.chance.choices(("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"), (6, 2, 1))[0]
        try:
            is_live = self._is_live()
            self.session.execute(f"BEGIN ISOLATION LEVEL {level}")
            if self.chance.random() < 0.3:
                self.sql("SELECT count(*) FROM {t} WHERE id = 1")
                self._think(0.1 if self.chance.random() < 0.3 else 0.02)
            for _ in range(self.chance.choice((1, 1, 2, 3))):
                self._step()
            if self.chance.random() < 0.03:
                self._outlast(self.chance.randrange(10, 30))
            self._end()
            self.writers.told["committed"] += 1
        except psycopg.Error as error:
            if self.session.broken or self.aside.broken:
                raise
            if self.session.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                self.session.execute("ROLLBACK")
            self._judge(error, is_live)

    def _is_live(self) -> bool:
        query = f"SELECT 1 FROM {SCHEMA}.indexes WHERE body = 'READ_WRITE_AND_DELETE'"
        return self.look(f"SELECT to_regclass('{SCHEMA}.indexes')")[0] is not None and self.look(query) is not None

    def _judge(self, error: psycopg.Error, is_live: bool) -> None:
        state = error.sqlstate or "?"
        if state == "23505" and "_shadow" in str(error):
            state = "shadow"
            if is_live:
                self.writers.wrong.append(f"a duplicate was accepted: {error.diag.message_detail}")
        elif state not in MAY_BE_TOLD:
            self.writers.wrong.append(f"{state}: {error}"[:300])
        self.writers.told[state] += 1

    def _end(self) -> None:
        how = self.chance.random()
        if how < 0.05:
            self.sql("ROLLBACK")
        elif how < 0.1:
            self.sql(f"PREPARE TRANSACTION '{self.prepared}'")
            self._think(0.05)
            self.sql(f"{self.chance.choice(('COMMIT', 'ROLLBACK'))} PREPARED '{self.prepared}'")
        else:
            self.sql("COMMIT")

    @property
    def prepared(self) -> str:
        """How it calls its transactions of two phases."""
        return f"{self.writers.index.name}_{self.name}"

    def roll_back_prepared(self) -> None:
        """What was prepared when the server went down is still there when it is back."""
        if self.session.execute("SELECT 1 FROM pg_prepared_xacts WHERE gid = %s", (self.prepared,)).fetchone():
            self.sql(f"ROLLBACK PREPARED '{self.prepared}'")

    def _think(self, most_s: float) -> None:
        time.sleep(self.chance.uniform(0, most_s))

    def _outlast(self, commits: int) -> None:
        """A long transaction: it stays open while others commit, if they are not all waiting for it."""
        upto, until_s = self.writers.told["committed"] + commits, time.monotonic() + 0.5
        while self.writers.told["committed"] < upto and time.monotonic() < until_s:
            time.sleep(0.005)

    def _step(self) -> None:
        """A statement in a savepoint, which is sometimes rolled back. A refusal by the index has to be explained."""
        snapshot = self.look("SELECT pg_current_snapshot()::text")[0]
        self.sql("SAVEPOINT s")
        try:
            self._write()
            if self.chance.random() < 0.08:
                self.sql("ROLLBACK TO s")
        except psycopg.errors.UniqueViolation as error:
            self.sql("ROLLBACK TO s")
            self.writers.told["refused"] += 1
            if "global" in str(error):
                self._explain(error, snapshot)
        self._think(0.15 if self.chance.random() < 0.1 else 0.002)

    def _explain(self, error: psycopg.Error, snapshot: str) -> None:
        """The owner had the key when the statement began, or was changed since, or by this very transaction."""
        detail = error.diag.message_detail or ""
        owner = [int(part) for part in detail.rpartition("row (")[2].rstrip(").").split(", ")]
        key = [_plain(part) for part in detail.partition("=(")[2].partition(") of the row")[0].split(", ")]
        seen = "id = %s AND r = %s AND {not}pg_visible_in_snapshot(xid, %s::pg_snapshot)"
        newer = self.look("SELECT 1 FROM {t}_h WHERE " + seen.replace("{not}", "NOT "), *owner, snapshot)
        last = self.look(
            "SELECT key FROM {t}_h WHERE " + seen.replace("{not}", "") + " ORDER BY seq DESC LIMIT 1", *owner, snapshot
        )
        had = last is not None and last[0] is not None and [_plain(part) for part in last[0].split("|")] == key
        if not self.writers.kind.unique or not (newer or had or owner[0] in self.touched):
            self.writers.wrong.append(f"a legal write was refused: {detail} The owner had {last}.")

    def _value(self) -> str:
        return self.chance.choice(("v", "V")) + str(self.chance.randrange(VALUES))

    def _write(self) -> None:
        one, two, three = (self.chance.randrange(1, ROWS * 2) for _ in range(3))
        self.touched |= {two, three, *range(one, one + 4)}
        number, state = self.chance.choice((None, "1", "1.0", "2", "1.00")), self.chance.choice(("ok", "ok", "void"))
        values = {"a": one, "b": two, "c": three, "v": self._value(), "n": number, "s": state}
        text = self.chance.choice(STATEMENTS)
        if text == "COPY":
            self._copy(number)
            return
        if text == "UNDELETE":
            self._undelete(one)
            return
        if "rtrim" in text or "flip" in text:
            self.touched.update(range(ROWS * 2 + 4))
        self.session.execute(text.replace("{t}", self.writers.index.name).encode(), values)

    def _copy(self, number: str | None) -> None:
        self.touched.update(range(1000, 1060))
        with self.session.cursor().copy(f"COPY {self.writers.index.name} (id, r, v, n) FROM STDIN") as copy:
            for _ in range(2):
                copy.write_row((self.chance.randrange(1000, 1060), self.chance.randrange(4), self._value(), number))

    def _undelete(self, first: int) -> None:
        rows = "id BETWEEN %s AND %s"
        query = f"SELECT row_to_json(t)::text FROM {{t}} t WHERE {rows} ORDER BY id DESC LIMIT 1 FOR UPDATE"
        row = self.sql(query, first, first + 3).fetchone()
        if row is not None:
            self.sql("SELECT set_config('app.undelete', %s, true)", row[0])
            self.sql(f"DELETE FROM {{t}} WHERE {rows}", first, first + 3)
            self.sql("SELECT set_config('app.undelete', '', true)")


def _plain(text: str) -> str:
    """A part of a key, 1.0 as 1."""
    return f"{float(text):g}" if text.replace(".", "", 1).isdigit() else text


PAIR = "(x.id = %(a)s AND y.id = %(b)s) OR (x.id = %(b)s AND y.id = "
STATEMENTS = (
    "DELETE FROM {t} WHERE id = %(a)s",
    "INSERT INTO {t} (id, r, v, n, st) VALUES (%(a)s, %(a)s::int %% 4, %(v)s, %(n)s, %(s)s) "
    "ON CONFLICT (id, r) DO UPDATE SET v = EXCLUDED.v, n = EXCLUDED.n",
    "INSERT INTO {t} (id, r, v) VALUES (%(a)s, %(a)s::int %% 4, %(v)s), (%(b)s, 1, 'w' || %(v)s) "
    "ON CONFLICT DO NOTHING",
    "UPDATE {t} SET v = %(v)s, n = %(n)s WHERE id = %(a)s",
    "UPDATE {t} SET id = %(b)s, r = %(c)s::int %% 4 WHERE id = %(a)s",
    "UPDATE {t} SET r = (r + 1) %% 4, inc = 'moved' WHERE id IN (%(a)s, %(b)s)",
    f"UPDATE {{t}} x SET v = y.v, n = y.n FROM {{t}} y WHERE {PAIR}%(a)s)",
    f"UPDATE {{t}} x SET v = y.v, n = y.n FROM {{t}} y WHERE {PAIR}%(c)s) OR (x.id = %(c)s AND y.id = %(a)s)",
    "UPDATE {t} SET n = CASE WHEN n IS NULL THEN 1 WHEN n = 1 THEN n + 0.0 END, v = upper(v) "
    "WHERE id BETWEEN %(a)s AND %(a)s + 3",
    "UPDATE {t} SET v = NULL WHERE id = %(a)s",
    "UPDATE {t} SET st = CASE st WHEN 'ok' THEN 'void' ELSE 'ok' END WHERE id BETWEEN %(a)s AND %(a)s + 2",
    "MERGE INTO {t} t USING (VALUES (%(a)s::bigint, %(a)s::int %% 4, %(v)s)) s (id, r, v) ON t.id = s.id AND t.r = s.r "
    "WHEN MATCHED AND t.st = 'void' THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v "
    "WHEN NOT MATCHED THEN INSERT (id, r, v, n) VALUES (s.id, s.r, s.v, 1)",
    "UPDATE {t} SET v = v || 'x', inc = 'flip' WHERE id BETWEEN %(a)s AND %(a)s + 2",
    "UPDATE {t} SET v = rtrim(v, 'x'), inc = 's' WHERE v LIKE '%%x'",
    "UPDATE {t} SET inc = %(v)s WHERE id BETWEEN %(a)s AND %(a)s + 2",
    "WITH gone AS (DELETE FROM {t} WHERE id = %(a)s RETURNING v, n, st) "
    "INSERT INTO {t} (id, r, v, n, st) SELECT %(b)s, %(b)s::int %% 4, v, n, st FROM gone",
    "COPY",
    "UNDELETE",
    "UNDELETE",
)
