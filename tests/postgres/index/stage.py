"""Plays a schedule of `interleavings.py` on a real server, and judges all that became of it.

Whether a session is blocked is what pg_blocking_pids says of it. The oracle is plain SQL of the test, which shares
nothing with the functions of the index: rows of the base beside entries in one snapshot, a history of the committed
versions of the table, and a trigger that tells before each event of ours which other rows have the key of the row."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import Any

import psycopg
import pytest

from tests.postgres.index.interleavings import KEYS, LEVELS, RUNNER, SESSIONS, Case, Program, Schedule, drawn
from tests.postgres.index.stepped import LOCK_MS, Row, Runner, User
from tidefill.errors import DuplicateKeys
from tidefill.indexes import next_action
from tidefill.indexes.shape import SCHEMA, Shape
from tidefill.indexes.states import Body
from tidefill.local.postgres import local_postgres
from tidefill.postgres.index import changes, filling, machine, repair
from tidefill.postgres.index import session as sessions
from tidefill.postgres.index.survey import Wanted, survey
from tidefill.postgres.server import PostgresServer

TABLE = "interleaved"
PATIENCE_S = 30.0
POLL_S = 0.004
PLAYS = 20
"""Schedules for which the sessions live: the server keeps the plans of functions that are gone until a session ends."""

SETUP = f"""
CREATE TABLE {TABLE} (id bigint, r int, v text, inc text, PRIMARY KEY (id, r)) PARTITION BY LIST (r);
CREATE TABLE {TABLE}_0 PARTITION OF {TABLE} FOR VALUES IN (0) WITH (autovacuum_enabled = off);
CREATE TABLE {TABLE}_1 PARTITION OF {TABLE} FOR VALUES IN (1) WITH (autovacuum_enabled = off);

CREATE FUNCTION {TABLE}_look () RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE other record; BEGIN
IF TG_OP <> 'INSERT' THEN RAISE NOTICE 'was % % %', OLD.id, OLD.r, OLD.v; END IF;
IF TG_OP <> 'DELETE' THEN
  RAISE NOTICE 'is % % %', NEW.id, NEW.r, NEW.v;
  FOR other IN SELECT o.id, o.r, o.v FROM {TABLE} o JOIN {TABLE} m ON o.v = m.v AND (o.id, o.r) <> (m.id, m.r)
    WHERE m.id = NEW.id AND m.r = NEW.r LOOP
    RAISE NOTICE 'meets % of % % by % %', other.v, NEW.id, NEW.r, other.id, other.r;
  END LOOP;
END IF;
RETURN NULL; END $$;
CREATE TRIGGER " look" AFTER INSERT OR UPDATE OR DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_look ();

CREATE FUNCTION {TABLE}_flip () RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
IF pg_trigger_depth() = 1 THEN
  UPDATE {TABLE} SET v = rtrim(v, 'x'), inc = 'back' WHERE inc = 'flip' AND id <> NEW.id;
END IF;
RETURN NULL; END $$;
CREATE TRIGGER flip AFTER UPDATE ON {TABLE} FOR EACH ROW WHEN (NEW.inc = 'flip') EXECUTE FUNCTION {TABLE}_flip ();

CREATE FUNCTION {TABLE}_undelete () RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE again int := nullif(current_setting('app.again', true), ''); BEGIN
IF again <> OLD.id AND NOT EXISTS (SELECT 1 FROM {TABLE} WHERE id = again) THEN
  PERFORM set_config('app.again', '', true);
  INSERT INTO {TABLE} (id, r, v) VALUES (again, again % 2, (ARRAY['a', 'b', 'c'])[again]);
END IF;
RETURN NULL; END $$;
CREATE TRIGGER undelete AFTER DELETE ON {TABLE} FOR EACH ROW EXECUTE FUNCTION {TABLE}_undelete ();

CREATE FUNCTION {TABLE}_refused (keys text[]) RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE one text; refused text[] := ARRAY[]::text[]; BEGIN
FOREACH one IN ARRAY keys LOOP
  BEGIN
    INSERT INTO {TABLE} (id, r, v) VALUES (99, 0, one);
    RAISE no_data_found;
  EXCEPTION WHEN no_data_found THEN NULL; WHEN unique_violation THEN refused := refused || one;
  END;
END LOOP;
RETURN refused; END $$;
"""
"""The name of the trigger that looks begins with a space, so that it comes right before ours. `refused`: tries to
insert a row with each key; all attempts are undone."""

CLEAR = f"""
DO $$ DECLARE made text; BEGIN
SELECT string_agg(oid::regprocedure::text, ', ') INTO made FROM pg_proc
  WHERE pronamespace = to_regnamespace('{SCHEMA}') AND proname ~ '^ix_';
IF made IS NOT NULL THEN
  EXECUTE 'DROP FUNCTION ' || made || ' CASCADE';
  DROP TABLE {SCHEMA}.ix_{TABLE}, {SCHEMA}.ix_{TABLE}_log1, {SCHEMA}.ix_{TABLE}_log2 CASCADE;
  DELETE FROM {SCHEMA}.indexes;
  DELETE FROM {SCHEMA}.index_chunks;
  DELETE FROM {SCHEMA}.index_leaves;
END IF;
TRUNCATE {TABLE};
END $$
"""

CATALOGS = ("pg_class", "pg_attribute", "pg_type", "pg_proc", "pg_depend", "pg_trigger", "pg_index", "pg_constraint")

Version = dict[Row, tuple[str | None, str | None]]
"""The rows of the table, key and included column by primary key."""

REFUSAL = re.compile(r"Key \(v\)=\((.*)\) of the row \(id, r\)=\((.*)\) belongs to the row \((\d+), (\d+)\)\.")


class Stage:
    """A table with three rows, three sessions and a runner, on one server, for one schedule after the other. `told`:
    how often what became of a step."""

    def __init__(self, url: str) -> None:
        self.told: Counter[str] = Counter()
        self._url = url
        self._plays = 0
        self._ended = Event()
        self._aside = _aside(url)
        self._aside.execute(f"DROP TABLE IF EXISTS {TABLE}; DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        self._aside.execute(SETUP.encode())
        self._shapes = {unique: _shape(url, unique) for unique in (True, False)}
        self._open()

    def _open(self) -> None:
        self._users = {name: User(name, self._ended, self._url, TABLE) for name in SESSIONS}
        self._runners = {unique: Runner(self._ended, self._url, shape) for unique, shape in self._shapes.items()}

    def _end_sessions(self) -> None:
        for user in self._users.values():
            user.close()
        for runner in self._runners.values():
            runner.close()

    def close(self) -> None:
        """Everything goes."""
        self._end_sessions()
        self._aside.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE; DROP TABLE {TABLE}")
        self._aside.execute(f"DROP FUNCTION {TABLE}_look, {TABLE}_flip, {TABLE}_undelete, {TABLE}_refused")
        self._aside.close()

    def _freshen(self) -> None:
        """New sessions, and no dead rows in the catalogs, which all plays change."""
        self._end_sessions()
        self._aside.close()  # it has plans of all that was made and dropped
        self._aside = _aside(self._url)
        self._open()
        for table in CATALOGS:
            self._aside.execute(f"VACUUM pg_catalog.{table}")

    def _clear(self) -> None:
        """Neither index nor rows. What all indexes of a server share stays."""
        self._aside.execute(CLEAR.encode())

    def play(self, schedule: Schedule) -> Play:
        """One schedule from the beginning to the end; what was wrong is in the answer."""
        self._plays += 1
        if self._plays % PLAYS == 0:
            self._freshen()
        self._clear()
        rows = ", ".join(f"({row}, {row % 2}, '{key}')" for row, key in KEYS.items())
        self._aside.execute(f"INSERT INTO {TABLE} (id, r, v) VALUES {rows}")
        runner = self._runners[schedule.case.unique]
        with _settings(schedule.case):
            runner.begin(schedule.case)
            play = Play(self._aside, runner, self._users, self._ended, schedule.case)
            try:
                play.run(schedule)
            finally:
                runner.end()
                play.give_up()
        self.told += play.told
        return play


def _aside(url: str) -> psycopg.Connection[Any]:
    """The session of the stage itself."""
    session = psycopg.connect(url, autocommit=True)
    session.execute("SET synchronous_commit = off; SET client_min_messages = error")
    return session


def _shape(url: str, unique: bool) -> Shape:
    session = PostgresServer("shop", url).session("survey")
    try:
        wanted = Wanted(f"ix_{TABLE}", "public", TABLE, ("v",), ("inc",), "", unique)
        return survey(session, wanted, f"ix_{TABLE}").shape
    finally:
        session.close()


@contextmanager
def _settings(case: Case) -> Iterator[None]:
    """What a case sets, short locks, and no decision that depends on a clock."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(next_action, "LOCK_TRIES", case.lock_tries)
        patch.setattr(machine, "LOG_ROWS_MAX", case.log_rows_max)
        patch.setattr(repair, "BATCH", case.batch)
        patch.setattr(repair, "TRIES_S", 0.0)
        patch.setattr(repair, "LOCK_MS", LOCK_MS)
        patch.setattr(filling, "BATCH_LOCK_MS", LOCK_MS)
        patch.setattr(sessions, "OLD_S", 1e9)
        patch.setattr(changes, "make_guard", lambda session: None)  # no writer meets it
        patch.setitem(sessions.LOCKING, "lock_timeout", f"{LOCK_MS}ms")
        yield


class Play:
    """One schedule on a stage. `history`: what happened, for a person. `wrong`: what must not be."""

    def __init__(
        self, aside: psycopg.Connection[Any], runner: Runner, users: dict[str, User], ended: Event, case: Case
    ) -> None:
        self.history = list[str]()
        self.wrong = list[str]()
        self.told: Counter[str] = Counter()
        self._aside, self._runner, self._users, self._ended, self._case = aside, runner, users, ended, case
        self._changes = 0
        """Commits of users, and beginnings and ends of the runner's steps so far."""
        self._seen: dict[str, int] = {}
        """How many there were when a user's snapshot was taken."""
        self._versions = [self._version()[0]]
        """All committed versions of the table, in the order of commits."""
        self._settled = 0
        """The number of the version at the end of the last step."""

    def run(self, schedule: Schedule) -> None:
        """Everything in its order, then all that is left, then the checks."""
        first = self._users[SESSIONS[0]]
        for at in range(schedule.start + 1):
            if at == schedule.before_at:
                first.take(Program(LEVELS[0], (schedule.before,), True))
                for _ in ("statement", "COMMIT"):
                    self._step(first.name)
            if at < schedule.start:
                self._step(RUNNER)
        while not first.is_over:  # it waits for a lock of the runner
            self._step(RUNNER)
            self._pay()
        for name, program in zip(SESSIONS, schedule.programs, strict=True):
            self._users[name].take(program)
        for letter in schedule.word:
            self._step(letter)
        self._finish()
        self._check()

    def give_up(self) -> None:
        """Nobody works any more, whatever happened."""
        for user in self._users.values():
            if user.busy:
                self._aside.execute("SELECT pg_cancel_backend(%s)", (user.pid,))
        self._settle()
        for user in self._users.values():
            user.roll_back()
            user.program, user.awaited = None, False

    # Steps.

    def _step(self, letter: str) -> None:
        """One step, and those of users that they could not take before."""
        if letter == RUNNER:
            if not self._runner.busy and not self._runner.is_over:
                self._changes += 1
                self._runner.step()
                self._after("R")
        else:
            self._users[letter].owed += 1
            self._pay()

    def _pay(self) -> None:
        while ready := [one for one in self._users.values() if one.program and one.owed and not one.awaited]:
            user = ready[0]
            user.owed -= 1
            if not user.is_over:
                self._seen.setdefault(user.name, self._changes)
                user.step()
                self._changes += user.doing == "COMMIT"
                self._after(user.name)

    def _after(self, name: str) -> None:
        """Until all steps have ended or are blocked; see what has come of those that have ended."""
        self._settle()
        while ended := [one for one in (*self._users.values(), self._runner) if one.has_ended]:
            self._changes += self._runner in ended  # a snapshot may have been taken while its step was blocked
            if any(one.doing == "COMMIT" if isinstance(one, User) else self._runner.is_public for one in ended):
                self._note_version()
            for one in ended:
                self._collect(one) if isinstance(one, User) else self._collect_runner()
            self._settle()
        if any(one.busy and one.name == name for one in (*self._users.values(), self._runner)):
            self._note(f"{name}: ... is blocked")
        self._settled = len(self._versions) - 1

    def _finish(self) -> None:
        """All steps of users that are left, then the runner to its end."""
        until_s = time.monotonic() + PATIENCE_S
        while any(one.busy or one.owed for one in self._users.values()) or not self._runner.is_over:
            assert time.monotonic() < until_s, f"it does not end: {self._runner.at}"
            self._pay()
            if self._runner.busy or self._runner.is_over:
                self._ended.wait(0.01)
                self._after("")
            else:
                self._step(RUNNER)

    def _settle(self) -> None:
        """Until all who work are blocked, and not by each other in a circle."""
        until_s = time.monotonic() + PATIENCE_S
        while busy := self._busy():
            if self._ended.wait(POLL_S):
                self._ended.clear()
                continue
            blockers = self._blockers(busy)
            if all(blockers.values()) and not _has_circle(blockers) and self._busy() == busy:
                return
            assert time.monotonic() < until_s, f"they do not settle: {blockers}"

    def _busy(self) -> list[int]:
        return [one.pid for one in (*self._users.values(), self._runner) if one.busy]

    def _blockers(self, pids: list[int]) -> dict[int, list[int]]:
        query = "SELECT pid, pg_blocking_pids(pid) FROM unnest(%s::int[]) pid"
        return dict(self._aside.execute(query, (pids,)).fetchall())

    def _note(self, text: str) -> None:
        self.history.append(text)

    # What became of it.

    def _collect_runner(self) -> None:
        runner = self._runner
        runner.awaited = False
        state = "public" if runner.is_public else runner.truth.control and runner.truth.control.state.value
        self._note(f"R: {state}, {runner.at}" if runner.failure is None else f"R: {runner.failure}")
        self.told[f"runner {runner.at.partition(':')[0]}"] += 1
        if isinstance(runner.failure, DuplicateKeys):
            self.told["duplicates"] += 1
            recent = self._versions[self._settled :]
            if not self._case.unique or not any(_twice(version) for version in recent):
                self.wrong.append(f"the runner found duplicates that there are not: {runner.failure}")
        elif runner.failure is not None:
            self.wrong.append(f"the runner failed: {runner.failure!r} {getattr(runner.failure, 'detail', '')}")

    def _collect(self, user: User) -> None:
        error, doing = user.said, user.doing
        what = "ok" if error is None else f"{error.sqlstate} {_short(error)}"
        self._note(f"{user.name}: {doing}: {what} {'; '.join(user.noted)}".rstrip())
        if error is not None:
            self.told[self._judged(user, error)] += 1
        user.collect()
        self.told[doing.split()[0] if error is None else "refused"] += 1
        if user.is_over:
            self._seen.pop(user.name, None)

    def _judged(self, user: User, error: psycopg.Error) -> str:
        """The kind of a refusal. It is `wrong` if nothing gives a reason for it."""
        state, text = error.sqlstate or "", str(error)
        match state:
            case "23505" if "global unique index" in text:
                if not self._is_duplicate(user, error):
                    self.wrong.append(f"a legal write of {user.name} was refused: {text}")
                return "duplicate"
            case "23505" if "_pkey" in text:
                return "primary key"
            case "40001":
                if not self._may_fail_to_serialize(user, text):
                    self.wrong.append(f"{user.name} met nobody, but was told: {text}")
                return f"40001 {user.level}"
            case "40P01":
                if str(self._runner.pid) in (error.diag.message_detail or ""):
                    self.wrong.append(f"{user.name} gave way to the runner: {error.diag.message_detail}")
                return "deadlock"
            case _:
                self.wrong.append(f"{user.name} was told {state}: {text}")
                return state

    def _is_duplicate(self, user: User, error: psycopg.Error) -> bool:
        """Whether the owner that the refusal names had the key: in the view of the session itself right before, or
        committed, if the session has not changed it."""
        found = REFUSAL.match(error.diag.message_detail or "")
        if found is None or not self._case.unique:
            return False
        key, new, owner = found[1], found[2].replace(",", ""), (int(found[3]), int(found[4]))
        if f"meets {key} of {new} by {owner[0]} {owner[1]}" in user.noted:
            return True
        recent = self._versions[self._settled :]
        committed = any(owner in version and version[owner][0] == key for version in recent)
        return committed and owner not in user.touched | user.changed()

    def _may_fail_to_serialize(self, user: User, text: str) -> bool:
        """READ COMMITTED may not, unless PostgreSQL itself cannot follow a row. Others may if anything was committed
        since their snapshot, and while the log is drained."""
        if "moved to another partition" in text or user.level == LEVELS[2]:
            return True
        if user.level == LEVELS[0]:
            return False
        return self._seen[user.name] < self._changes or self._body() == Body.DRAIN.value

    def _body(self) -> str:
        row = self._aside.execute(f"SELECT body FROM {SCHEMA}.indexes").fetchone()
        return "" if row is None else str(row[0])

    # The oracle.

    def _version(self) -> tuple[Version, list[tuple[Any, ...]] | None]:
        """The rows that are committed; and the entries in the same snapshot, if users can read them."""
        public = self._runner.is_public
        query = f"SELECT false, id, r, v, inc FROM {TABLE}"
        if public:
            query += f" UNION ALL SELECT true, p1, p2, k1, i1 FROM {self._runner.shape.entries} WHERE NOT dead"
        rows = self._aside.execute(query).fetchall()
        base = {(one, r): (v, inc) for is_entry, one, r, v, inc in rows if not is_entry}
        return base, [tuple(row[1:]) for row in rows if row[0]] if public else None

    def _note_version(self) -> None:
        base, entries = self._version()
        if base != self._versions[-1]:
            self._versions.append(base)
            self._note(f"   now {dict(sorted(base.items()))}")
        if entries is not None:
            self._compare(base, entries)

    def _compare(self, base: Version, entries: list[tuple[Any, ...]]) -> None:
        should = Counter((*row, *values) for row, values in base.items())
        missing, orphans = should - Counter(entries), Counter(entries) - should
        if missing or orphans:
            self.wrong.append(f"missing entries: {list(missing)}, orphans: {list(orphans)}")
        if self._case.unique and _twice(base):
            self.wrong.append(f"a public index has accepted duplicates: {base}")

    def _check(self) -> None:
        """The end: a public index is right, and refuses what it must; one that failed leaves writers alone."""
        self._note_version()
        keys = sorted({key for key, _ in self._versions[-1].values() if key is not None})
        refuses = self._case.unique and self._runner.failure is None
        row = self._aside.execute(f"SELECT {TABLE}_refused (%s)", ([*keys, "new"],)).fetchone()
        refused, should = row[0] if row else None, keys if refuses else []
        if refused != should:
            self.wrong.append(f"new rows with the keys {refused} were refused, not with {should}")


def _short(error: psycopg.Error) -> str:
    return f"{error.diag.message_primary} {error.diag.message_detail or ''}".strip()


def _twice(version: Version) -> list[str]:
    """The keys that several rows have."""
    return [key for key, count in Counter(key for key, _ in version.values()).items() if count > 1 and key is not None]


def _has_circle(blockers: dict[int, list[int]]) -> bool:
    def comes_back(pid: int, to: int, passed: frozenset[int]) -> bool:
        ahead = [one for one in blockers.get(pid, []) if one not in passed]
        return to in blockers.get(pid, []) or any(comes_back(one, to, passed | {one}) for one in ahead)

    return any(comes_back(pid, pid, frozenset({pid})) for pid in blockers)


def checked(stage: Stage, seed: int) -> None:
    """Play the schedule of a seed. Fails with all that one needs to play it again."""
    schedule = drawn(seed)
    play = stage.play(schedule)
    assert not play.wrong, told(seed, schedule, play)


def told(seed: int, schedule: Schedule, play: Play) -> str:
    """A schedule and what became of it, for a person."""
    wrong, history = "\n".join(play.wrong), "\n  ".join(play.history)
    return f"{wrong}\nSeed {seed}: {schedule}\nHistory:\n  {history}\nAgain: python -m {__spec__.name} {seed}"


def main(words: list[str]) -> None:
    """Play the schedules of these seeds on a server of their own."""
    with local_postgres() as server:
        stage = Stage(server.url())
        for seed in map(int, words):
            print(told(seed, drawn(seed), stage.play(drawn(seed))))
        stage.close()


if __name__ == "__main__":
    main(sys.argv[1:])
