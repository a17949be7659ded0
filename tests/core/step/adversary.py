"""An upstream that does its worst, and the planner turn by turn under it."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from random import Random

from hypothesis import strategies as st

from tests.core.step.examples import MERGED, SHAPES, key
from tidefill.core import walk
from tidefill.core.budget import Kept
from tidefill.core.keys import Key
from tidefill.core.look import Changed, CheapLook, Look, Pace, Phase, TableSeen
from tidefill.core.state import JobState, initial
from tidefill.core.step import Finish, Knobs, Plan, Shape, Step, apply, plan_look, plan_step
from tidefill.core.version import Number, Snapshot, Version
from tidefill.core.walk import Coverage, Done, NotStarted, Range, Split, Upto

LAST = 40
TURNS_MAX = 400


@dataclass(frozen=True)
class Turn:
    """One turn of the loop: the state before, what was seen, what was planned, and the state after. `places`: keys
    before, between, on and behind all bounds."""

    before: JobState
    seen: Look
    knobs: Knobs
    plan: Plan
    after: JobState
    places: tuple[Key, ...]

    def may_fill(self) -> bool:
        wishes = self.knobs.paused or self.knobs.fill_paused or self.seen.glimpse.pace.chunks_allowed == 0
        kept = [look.kept for look in self.seen.glimpse.tables.values()]
        wishes = wishes or any(log is not None and log.total > 10 for log in kept)
        return self.before.step > 0 and not self.before.finished() and not wishes


@dataclass
class Adversary:
    """Whatever an upstream may do: heads of any age, versions that are lost, changes at any time, offers of any kind.
    `calm`: it never loses a version, history never runs short, and nobody pauses anything."""

    chance: Random
    shape: Shape
    calm: bool
    newest: int = 100
    pace: Pace = field(default_factory=Pace)

    def knobs(self) -> Knobs:
        paused = not self.calm and self.chance.random() < 0.1
        fill_paused = not self.calm and self.chance.random() < 0.1
        parallelism = self.chance.choice((1, 1, 2, 3, 5))
        return Knobs(parallelism, fill_paused=fill_paused, paused=paused, wal_budget=10)

    def point(self, number: int) -> Number | Snapshot:
        """For one of the shapes a snapshot, which now and then does not see a transaction that an older one sees."""
        if self.shape is not MERGED:
            return Number(number)
        oldest = number - number % 3
        return Snapshot(oldest, number + 1, frozenset({oldest} if number % 2 else ()))

    def place(self, number: int) -> Key:
        return Key((number // 3, number)) if self.shape.group_columns else key(number)

    def glimpse(self, before: JobState) -> CheapLook:
        self.newest += self.chance.choice((0, 1, 1, 2))
        tables = {name: self._table(before.versions.get(name)) for name in set(self.shape.tables.values())}
        allowed = self.chance.choice((1, 2, 9) if self.calm else (0, 1, 2, 9, 9))
        return CheapLook(Phase.FILLING, tables, replace(self.pace, chunks_allowed=allowed, chunk_rows=2))

    def _table(self, known: Version | None) -> TableSeen:
        head = Version("id", self.point(self.newest - self.chance.choice((0, 0, 0, 1, 3))))
        readable = known is None or self.calm or self.chance.random() < 0.5
        kept = None if self.calm else Kept(self.chance.choice((0, 9, 12)), self.chance.choice((0, 9)))
        return TableSeen(head, readable, history_runs_short=not self.calm and self.chance.random() < 0.3, kept=kept)

    def look(self, before: JobState, glimpse: CheapLook, knobs: Knobs) -> Look:
        """Answers what was asked, and nothing else."""
        asked = plan_look(before, glimpse, knobs, self.shape)
        if asked.ends:
            greatest = {name: self.chance.choice(self._greatest()) for name in self.shape.walked}
            return Look(glimpse, beyond={name: walk.above(key) for name, key in greatest.items()})
        changed = self.chance.choice((Changed.NOTHING, Changed.SOME, Changed.SOME, Changed.ALL))
        bounds = {name: {split: self._offer(split) for split in splits} for name, splits in asked.splits.items()}
        return Look(glimpse, changed if asked.changed else Changed.NOTHING, bounds=bounds)

    def _greatest(self) -> tuple[Key | None, ...]:
        return (None, self.place(0), self.place(LAST), self.place(LAST), self.place(LAST))

    def _offer(self, split: Split) -> tuple[Key, ...]:
        ends = [end for end in (split.after, split.upto) if end is not None]
        here = [split.position.key] if isinstance(split.position, Upto) else []
        numbers = [self.chance.randint(-3, LAST + 3) for _ in range(self.chance.choice((1, 12, 60, 60)))]
        offered = [*map(self.place, numbers), *ends, *here]
        self.chance.shuffle(offered)
        return tuple(offered if self.chance.random() < 0.95 else ())

    def account(self, step: Step) -> None:
        """As the runner does it."""
        if step.chunks:
            took_s = self.chance.uniform(0.1, 3.0)
            self.pace = replace(self.pace, fill_s=self.pace.fill_s + took_s, forwarded_last=False)
        else:
            spent_s = self.pace.forward_s + 1.0
            self.pace = replace(self.pace, forward_s=spent_s, last_forward_s=1.0, forwarded_last=True)


@lru_cache(maxsize=512)
def history(seed: int, *, calm: bool = False) -> tuple[Turn, ...]:
    """The turns from the first step until everything is covered."""
    return tuple(_turns(seed, calm))


def _turns(seed: int, calm: bool) -> Iterator[Turn]:
    chance = Random(seed)
    shape = chance.choice(SHAPES)
    adversary = Adversary(chance, shape, calm)
    places = tuple(map(adversary.place, range(-1, LAST + 3)))
    now = initial(1)
    for _ in range(TURNS_MAX):
        knobs, look = adversary.knobs(), adversary.glimpse(now)
        seen = adversary.look(now, look, knobs)
        plan = plan_step(now, seen, knobs, shape)
        after = apply(now, plan) if isinstance(plan, Step) else now
        yield Turn(now, seen, knobs, plan, after, places)
        if isinstance(plan, Step):
            adversary.account(plan)
        if isinstance(plan, Finish):
            return
        now = after


SEEDS = st.integers(0, 10**6)


def covered(coverage: Coverage, places: tuple[Key, ...]) -> set[Key]:
    """The naive model: the set of what is covered, by the definition of splits and positions alone."""
    return {place for place in places for split in coverage if _holds(split, place)}


def _holds(split: Split, place: Key) -> bool:
    inside = within(Range(split.after, split.upto), place)
    match split.position:
        case NotStarted():
            return False
        case Upto(last):
            return inside and place <= last
        case Done():
            return inside


def within(chunk: Range, place: Key) -> bool:
    return (chunk.after is None or chunk.after < place) and (chunk.upto is None or place <= chunk.upto)


def steps(turns: tuple[Turn, ...]) -> Iterator[tuple[Turn, Step]]:
    return ((turn, turn.plan) for turn in turns if isinstance(turn.plan, Step))
