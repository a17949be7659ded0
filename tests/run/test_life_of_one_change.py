"""The worked example of ARCHITECTURE.md, "The life of one change": which rows the target has after each step."""

from __future__ import annotations

from dataclasses import replace

from tidefill.core.confirm import Effect
from tidefill.core.keys import Key
from tidefill.core.sizing import Sizing
from tidefill.jobs.row import Job, Settings
from tidefill.ports.machine import Finish, Round, Step
from tidefill.run.backfill import Backfill
from tidefill.run.machine import BackfillMachine
from tidefill.testing.memory.delta import DeltaLike
from tidefill.testing.memory.derivations import RowByRow
from tidefill.testing.memory.tables import Catalog, Frame, Row, Table, with_changes
from tidefill.testing.memory.target import MemoryTarget
from tidefill.testing.memory.world import World, WorldClock

ORDERS: list[Row] = [(1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (6, 60)]
VERSION_6: list[tuple[int, Row]] = [(-1, (3, 30)), (1, (3, 31)), (-1, (6, 60)), (1, (6, 61)), (-1, (2, 20))]


def write(table: Table, changes: list[tuple[int, Row]]) -> None:
    table.commit(with_changes(table.snapshots[-1], changes), changes, Effect.FOREIGN)


def test_a_covered_change_is_applied_and_another_one_is_read_by_the_fill() -> None:
    world, orders, catalog = World(), Table("orders"), Catalog()
    write(orders, [(1, row) for row in ORDERS])
    job = Job("j", "view", "{}", settings=Settings(chunk_rows=4), generation_uuid="u")
    upstream = DeltaLike(world, lambda: orders, lambda row: Key((row[0],)))
    target = MemoryTarget(world, catalog, "path", job.name)
    backfill: Backfill[Frame] = Backfill(
        {"t": upstream}, RowByRow(lambda row: (row[0], row[1] * 2)), target, world.new_uuid
    )
    machine = BackfillMachine(backfill, WorldClock(world), start=Sizing(rows=4))
    machine.prepare(job)
    truth = machine.recover(job, None).truth

    def step() -> str:
        nonlocal truth
        plan = machine.plan(replace(job, anchor=machine.report(job, truth).anchor), truth, Round(world.now))
        assert isinstance(plan, Step), plan
        truth = machine.execute(job, truth, plan).truth
        return plan.doing.kind

    def rows() -> list[Row]:
        return sorted(catalog.at("path").rows())

    assert step() == "fill"
    assert rows() == [(1, 20), (2, 40), (3, 60), (4, 80)]
    write(orders, VERSION_6)
    assert step() == "forward"
    assert rows() == [(1, 20), (3, 62), (4, 80)]
    assert step() == "fill"
    assert rows() == [(1, 20), (3, 62), (4, 80), (5, 100), (6, 122)]
    assert isinstance(machine.plan(job, truth, Round(world.now)), Finish)
