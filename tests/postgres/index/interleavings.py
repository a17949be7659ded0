"""The space of interleavings of an index with those who write: schedules, their number, and the one of a seed.

A schedule has three sessions with two statements each over a table of three rows, and says in which order the steps of
the sessions and of the runner come. `stage.py` plays it on a real server, in the spirit of PostgreSQL's isolation
tester.

Schedules that cannot differ in their effect are counted once:
- Sessions are called A, B and C in the order of their first steps: to exchange their names changes nothing.
- A READ COMMITTED session has no step for its BEGIN: its snapshots begin with its statements.
- The snapshot of another session comes right after what it sees differently: after a commit, a step of the runner, or
  at the very beginning. What other sessions do between two commits, no snapshot sees.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import TypeAlias

from tidefill.indexes.states import Method

SESSIONS = "ABC"
RUNNER = "R"
RUNNER_STEPS = 10
"""Steps of the runner among those of the sessions. With `STARTS` they cover every boundary of a build."""

STARTS = 18
"""The runner has taken 0 to 17 steps when the sessions begin: more than the longest quiet build has."""

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
ROWS = (1, 2, 3)
KEYS = {1: "a", 2: "b", 3: "c"}

SAVEPOINT, AGAIN = "savepoint", "undelete"

STATEMENTS = {
    "insert": "INSERT INTO {t} (id, r, v) VALUES ({n}, {q}, 'd')",
    "insert another's": "INSERT INTO {t} (id, r, v) VALUES ({n}, {q}, '{ky}')",
    "take": "UPDATE {t} SET v = 'd' WHERE id = {x}",
    "take another's": "UPDATE {t} SET v = '{ky}' WHERE id = {x}",
    "take back": "UPDATE {t} SET v = '{kx}' WHERE id = {x}",
    "swap": "UPDATE {t} SET v = CASE id WHEN {x} THEN '{ky}' ELSE '{kx}' END WHERE id IN ({x}, {y})",
    "delete": "DELETE FROM {t} WHERE id = {x}",
    "pass on": "WITH gone AS (DELETE FROM {t} WHERE id = {x} RETURNING v) "
    "INSERT INTO {t} (id, r, v) SELECT {n}, {q}, v FROM gone",
    "upsert": "INSERT INTO {t} (id, r, v) VALUES ({x}, {p}, 'd') "
    "ON CONFLICT (id, r) DO UPDATE SET v = EXCLUDED.v, inc = 'upsert'",
    "move": "UPDATE {t} SET r = 1 - r WHERE id = {x}",
    "many": "UPDATE {t} SET v = v || 'x' WHERE id IN ({x}, {y})",
    "null": "UPDATE {t} SET v = NULL WHERE id IN ({x}, {y})",
    "same": "UPDATE {t} SET v = v WHERE id = {x}",
    "include": "UPDATE {t} SET inc = 'other' WHERE id IN ({x}, {y})",
    "renumber": "UPDATE {t} SET id = {n} WHERE id = {x}",
    "merge": "MERGE INTO {t} t USING (VALUES ({x}, {p}, '{ky}'), ({n}, {q}, 'd')) s (id, r, v) "
    "ON t.id = s.id AND t.r = s.r WHEN MATCHED THEN UPDATE SET v = s.v "
    "WHEN NOT MATCHED THEN INSERT (id, r, v) VALUES (s.id, s.r, s.v)",
    "flip": "UPDATE {t} SET v = v || 'x', inc = 'flip' WHERE id IN ({x}, {y})",
    AGAIN: "SELECT set_config('app.again', '{y}', true); DELETE FROM {t} WHERE id IN ({x}, {y}); "
    "SELECT set_config('app.again', '', true)",
    SAVEPOINT: "SAVEPOINT s; UPDATE {t} SET v = '{ky}' WHERE id = {x}; ROLLBACK TO s",
}
"""`x` and `y`: two of the rows, with the partitions and keys that they had at first (`p`; `kx`, `ky`). `n`, `q`: the
primary key of a row that is not there at first. `flip` fires a trigger of the user's that changes the other row of the
same statement back; `undelete` one that inserts the other row again, before its own DELETE event comes. Values are
constants: what a statement does depends on no row that it does not write."""

CHOICES = tuple(product(STATEMENTS, ROWS))


@dataclass(frozen=True, slots=True)
class Statement:
    """One of the list, for one row."""

    name: str
    row: int

    def sql(self, table: str) -> str:
        """As the server gets it."""
        x, y = self.row, self.row % 3 + 1
        new = x + 3
        return STATEMENTS[self.name].format(
            t=table, x=x, y=y, p=x % 2, kx=KEYS[x], ky=KEYS[y], n=new, q=new % 2
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.name} {self.row}"


@dataclass(frozen=True, slots=True)
class Case:
    """How the index is built. `lock_tries` 0: its cut-over falls back to the drain. `log_rows_max` 0: nothing is left
    to the cut-over. `batch`: primary keys of one merge."""

    name: str
    method: Method
    unique: bool = True
    lock_tries: int = 30
    log_rows_max: int = 500
    batch: int = 2000


CASES = (
    Case("bulk", Method.BULK),
    Case("merged", Method.BULK, log_rows_max=0, batch=1),
    Case("drained", Method.BULK, lock_tries=0),
    Case("initput", Method.INITPUT),
    Case("bulk, not unique", Method.BULK, unique=False),
    Case("initput, not unique", Method.INITPUT, unique=False),
)


@dataclass(frozen=True, slots=True)
class Program:
    """What one session does."""

    level: str
    statements: tuple[Statement, ...]
    commits: bool

    @property
    def has_snapshot(self) -> bool:
        """Whether it takes a snapshot for all of its statements, in a step of its own."""
        return self.level != LEVELS[0]

    def __str__(self) -> str:
        return f"{self.level}: {', '.join(map(str, self.statements))}, {'COMMIT' if self.commits else 'ROLLBACK'}"


@dataclass(frozen=True, slots=True)
class Schedule:
    """One interleaving. `start`: how many steps the runner has taken before. `before`: a statement that somebody
    commits after `before_at` of them. `word`: whose step is next, again and again."""

    case: Case
    start: int
    before: Statement
    before_at: int
    programs: tuple[Program, Program, Program]
    word: str

    def __str__(self) -> str:
        sessions = "\n".join(f"  {name}: {one}" for name, one in zip(SESSIONS, self.programs, strict=True))
        begun = f"after {self.start} steps of the runner, with {self.before} committed after {self.before_at}"
        return f"{self.case.name}, {begun}:\n{sessions}\n  {self.word}"


# Words: the orders of steps of sessions of these kinds.

Kinds: TypeAlias = tuple[tuple[bool, bool], ...]
"""Of each session: whether it has a snapshot of its own, and whether it commits."""

Done: TypeAlias = tuple[int, ...]
"""How many steps each session has taken; the last number is the runner's."""


@cache
def words(kinds: Kinds, done: Done = (0, 0, 0, 0), fresh: bool = True) -> int:
    """How many words go on from there. `fresh`: the last step changed what a snapshot sees, or was a snapshot."""
    if all(steps == most for steps, most in zip(done, _lengths(kinds), strict=True)):
        return 1
    return sum(words(kinds, then, now_fresh) for _, then, now_fresh in _ways(kinds, done, fresh))


def word(kinds: Kinds, number: int) -> str:
    """The word of that number, from 0 on."""
    letters, done, fresh = list[str](), (0, 0, 0, 0), True
    while len(letters) < sum(_lengths(kinds)):
        for letter, then, now_fresh in _ways(kinds, done, fresh):
            below = words(kinds, then, now_fresh)
            if number < below:
                letters.append(letter)
                done, fresh = then, now_fresh
                break
            number -= below
    return "".join(letters)


def _lengths(kinds: Kinds) -> Done:
    return (*(4 if has_snapshot else 3 for has_snapshot, _ in kinds), RUNNER_STEPS)


def _ways(kinds: Kinds, done: Done, fresh: bool) -> Iterator[tuple[str, tuple[int, int, int, int], bool]]:
    """What may come next: the letter, what is done then, and whether that is fresh."""
    lengths = _lengths(kinds)
    for at, letter in enumerate(SESSIONS + RUNNER):
        if done[at] == lengths[at] or (0 < at < len(SESSIONS) and not done[at] and not done[at - 1]):
            continue
        is_runner = letter == RUNNER
        is_snapshot = not is_runner and kinds[at][0] and not done[at]
        if is_snapshot and not fresh:
            continue
        is_commit = not is_runner and kinds[at][1] and done[at] + 1 == lengths[at]
        first, second, third, runner = (steps + (place == at) for place, steps in enumerate(done))
        yield letter, (first, second, third, runner), is_runner or is_snapshot or is_commit


# The space.

_BEGINNINGS = tuple((start, at) for start in range(STARTS) for at in range(start + 1))
_LEVELS = tuple(product(LEVELS, repeat=3))
_ENDS = ((True, True, True), (False, True, True), (True, False, True), (True, True, False))
"""At most one session rolls back: those who do leave little behind."""

_KINDS = tuple(
    (levels, ends, tuple((level != LEVELS[0], end) for level, end in zip(levels, ends, strict=True)))
    for levels in _LEVELS
    for ends in _ENDS
)


@cache
def count() -> int:
    """How many schedules there are."""
    return len(CASES) * len(_BEGINNINGS) * len(CHOICES) ** 7 * sum(words(kinds) for _, _, kinds in _KINDS)


def drawn(seed: int) -> Schedule:
    """The one of a seed. Each part is drawn by itself, so that levels with few words come as often as those with
    many."""
    chance = random.Random(seed)
    levels, ends, kinds = chance.choice(_KINDS)
    first, second, third = (
        Program(level, (_statement(chance), _statement(chance)), end) for level, end in zip(levels, ends, strict=True)
    )
    start, before_at = chance.choice(_BEGINNINGS)
    return Schedule(
        chance.choice(CASES), start, _statement(chance), before_at, (first, second, third),
        word(kinds, chance.randrange(words(kinds))),
    )  # fmt: skip


def _statement(chance: random.Random) -> Statement:
    return Statement(*chance.choice(CHOICES))
