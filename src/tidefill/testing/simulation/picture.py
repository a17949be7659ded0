"""One history as a picture: the line of keys, cut into splits, filling from top to bottom while the table changes."""

from __future__ import annotations

from collections.abc import Iterator

from tidefill.core.confirm import Entry
from tidefill.core.keys import Key
from tidefill.core.walk import covered_ranges
from tidefill.testing.memory.world import Violation
from tidefill.testing.simulation.script import Act, Script, Setup
from tidefill.testing.simulation.simulation import Simulation

COVERED, READING, NOT_YET, CHANGED = "█", "▒", "·", "*"
KEYS_MAX = 700
LINES_AFTER_FILL = 7


def picture_script(seed: int) -> Script:
    """A history that is good to look at: four splits, writers, a crash, a second runner, a change of scale."""
    setup = Setup(rows=64, rows_seed=seed, parallelism=4, chunk_rows=1)
    acts = [Act(at, "write", seed * 7919 + at) for at in range(20, 420, 9)]
    acts += [Act(78, "rescale", 1), Act(130, "die", 0), Act(190, "zombie", 1)]
    return Script(seed, setup, tuple(sorted(acts, key=lambda act: act.at)))


class Picture:
    """Draws a line for every commit of a simulation."""

    def __init__(self, chosen: Script, width: int) -> None:
        self._width = width
        self._lines: list[str] = []
        self._covered = [False] * width
        self._rows: dict[int, object] = {}
        self._simulation = Simulation(chosen)
        self._simulation.on_step = self._draw

    def lines(self) -> Iterator[str]:
        """Run and give what was drawn."""
        try:
            self._simulation.run()
        except Violation as violation:
            self._lines.append(f"violated: {violation}")
        yield from self._lines[: self._last_line()]

    def _last_line(self) -> int:
        """A few lines of forwarding are enough."""
        fills = [number for number, line in enumerate(self._lines) if " fill " in line]
        return max(fills, default=0) + LINES_AFTER_FILL

    def _draw(self, simulation: Simulation, entry: Entry) -> None:
        assert entry.payload is not None
        state = entry.payload.state
        ranges = covered_ranges(state.coverage["t"])
        now = [any(part.holds(Key((self._key(cell),))) for part in ranges) for cell in range(self._width)]
        cells = [self._cell(was, is_now) for was, is_now in zip(self._covered, now, strict=True)]
        for changed in self._changed(simulation):
            if cells[changed] in (COVERED, NOT_YET):
                cells[changed] = CHANGED
        what = "start" if state.step == 1 else "fill" if now != self._covered else "forward"
        told = ", ".join(_TOLD[kind] for kind in simulation.world.seen if kind in _TOLD)
        simulation.world.seen.clear()
        self._covered = now
        self._lines.append(f"{state.step:4} {what:8} {''.join(cells)} {told}".rstrip())

    def _key(self, cell: int) -> int:
        return (cell + 1) * KEYS_MAX // self._width

    def _cell(self, was: bool, is_now: bool) -> str:
        if was:
            return COVERED
        return READING if is_now else NOT_YET

    def _changed(self, simulation: Simulation) -> set[int]:
        rows = {row[0]: row for row in simulation.upstream_rows()}
        keys = {key for key in rows.keys() | self._rows.keys() if rows.get(key) != self._rows.get(key)}
        first, self._rows = not self._rows, dict(rows)
        return set() if first else {min(key * self._width // KEYS_MAX, self._width - 1) for key in keys}


_TOLD = {
    "die": "← runner killed, began again",
    "zombie": "← second runner, then the first woke up",
    "rescale": "← parallelism changed",
}


def draw(seed: int, width: int) -> Iterator[str]:
    """The picture with its legend."""
    yield f"One history (seed {seed}): each line is one commit of the target, each column a stretch of keys."
    yield f"{COVERED} covered   {READING} read in this step   {NOT_YET} not yet   {CHANGED} changed since the last line"
    yield ""
    yield from Picture(picture_script(seed), max(20, width - 16)).lines()
