"""Machines in memory, put before the conformance suite of machines."""

from __future__ import annotations

from tidefill.core.confirm import Effect
from tidefill.core.keys import Key
from tidefill.core.sizing import Sizing
from tidefill.jobs.row import Job, Settings
from tidefill.run.backfill import Backfill
from tidefill.run.machine import BackfillMachine
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.derivations import RowByRow
from tidefill.testing.memory.tables import Catalog, Frame, Table, with_changes
from tidefill.testing.memory.tally import Server, Tally, place_of
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.world import World, WorldClock

NAME, ROWS = "job", 7


class BackfillHarness:
    """A replica of a table in memory."""

    def __init__(self) -> None:
        self.job = Job("j1", NAME, "{}", settings=Settings(chunk_rows=2), generation_uuid="u")
        self._world = World()
        self._catalog = Catalog()
        self._table = Table("t")
        for _ in range(ROWS):
            self.grow()

    def machine(self) -> BackfillMachine[Frame]:
        """Over the table."""
        upstream = DeltaLike(self._world, lambda: self._table, lambda row: Key((row[0],)))
        target = MemoryTarget(self._world, self._catalog, self._path, NAME)
        made = Backfill({"t": upstream}, RowByRow(lambda row: row), target, self._world.new_uuid)
        return BackfillMachine(made, WorldClock(self._world), start=Sizing(rows=2))

    @property
    def _path(self) -> str:
        return f"{NAME}-{self.job.id}-{self.job.generation}"

    def grow(self) -> None:
        """One row more."""
        change = [(1, (self._table.version, "value"))]
        self._table.commit(with_changes(self._table.snapshots[-1], change), change, Effect.FOREIGN)

    def spoil(self) -> None:
        """Another value, without a commit that would tell."""
        table = self._catalog.at(self._path)
        key = next(iter(table.snapshots[-1]))
        table.snapshots[-1] = {**table.snapshots[-1], key: ((key, "wrong"),)}

    def made(self) -> object:
        """The rows of the target."""
        table = self._catalog.tables.get(self._path)
        return None if table is None else sorted(table.rows(), key=repr)

    def is_shown(self) -> bool:
        """Whether the catalog has it."""
        return NAME in self._catalog.published

    def take_name(self) -> None:
        """By something that no job made."""
        self._catalog.strangers.add(NAME)


class TallyHarness:
    """A tally of numbers."""

    def __init__(self) -> None:
        self.job = Job("j1", NAME, "{}", generation_uuid="u")
        self._world = World()
        self._server = Server(numbers=list(range(ROWS)))

    def machine(self) -> Tally:
        """On the server."""
        return Tally(self._world, self._server, self.job)

    def grow(self) -> None:
        """One number more."""
        self._server.numbers.append(len(self._server.numbers))

    def spoil(self) -> None:
        """Another number."""
        self._server.controls[place_of(self.job)].entries[0] = -1

    def made(self) -> object:
        """The numbers that were copied."""
        control = self._server.controls.get(place_of(self.job))
        return None if control is None else list(control.entries)

    def is_shown(self) -> bool:
        """Whether the server has it under the name."""
        return NAME in self._server.shown

    def take_name(self) -> None:
        """By another tally."""
        self._server.shown[NAME] = "another-1"
