"""A view from its first step until all is covered and all changes are in."""

from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import duckdb

from tests.views.incremental.world import EVERYTHING, Walks, World, some_walks
from tidefill.views.plan.drivers import choose

SEEDS = 60


def move_and_lessen(world: World) -> None:
    """For a minimum by groups of `a` over `b`: a row of `a` goes to another group while its row of `b` gets a lesser
    value, which so comes to the old group and goes again."""
    world.data["a"] = {(1,): (1, 0, Decimal("1.00"), "a"), (3,): (3, 0, Decimal("1.00"), "a")}
    world.data["b"] = {(1,): (1, 1, 5, "a", 0.0), (3,): (3, 3, 4, "a", 0.0)}
    world.begin()
    world.data["a"][(1,)] = (1, 1, Decimal("1.00"), "a")
    world.data["b"][(1,)] = (1, 1, 2, "a", 0.0)
    world.step()


def run(world: World, steps: int) -> int:
    """How many comparisons were made. The drivers are those that the plan chooses for tables of random sizes; now and
    then other occurrences are walked too, which the statements need not mind. Where a chunk may be appended, it mostly
    is, once the changes are in."""
    chance, plan = world.chance, world.plan
    numbers = {scan.occurrence: number for number, scan in enumerate(plan.scans)}
    walks = {scan.occurrence: world.walks[scan.table] for scan in plan.scans}
    drivers = choose(plan.root, {name: chance.randint(1, 100) for name in numbers}, walks.__getitem__)
    walked, appends = [numbers[name] for name in drivers.occurrences], drivers.appends
    if chance.random() < 0.3:
        walked, appends = [number for number in numbers.values() if chance.random() < 0.5], False
    if chance.random() < 0.2:
        walked, appends = [], False
    group_columns = drivers.group_columns if appends else 0
    world.start(walked, group_columns)
    if drivers.starts_empty and set(walked) >= {numbers[name] for name in drivers.occurrences}:
        assert not world.target, f"{world.sql} has rows before its drivers have any"
    for _ in range(steps):
        for _ in range(chance.choice([0, 1, 1, 2, 4])):
            world.write()
        fill = {
            number: world.bound(number, chance.choice([0, 1, 2, 5]), group_columns)
            for number in walked
            if chance.random() < 0.7
        }
        if appends and chance.random() < 0.8:
            world.step()
            for number, upto in fill.items():
                world.append(number, upto)
        else:
            world.step(fill)
    world.step(dict.fromkeys(walked, EVERYTHING))
    world.check_query()
    return world.checks


def is_noticed(sql: str, connection: duckdb.DuckDBPyConnection, walks: Walks | None = None) -> bool:
    """Whether some history of the view shows that a rule is broken."""
    return some_history_fails(lambda chance: World(sql, chance, connection, walks or some_walks(chance)))


def some_history_fails(made: Callable[[random.Random], World]) -> bool:
    """Whether one of the views that are made so is ever not its query."""
    for seed in range(SEEDS):
        try:
            run(made(random.Random(seed)), steps=7)
        except (AssertionError, duckdb.Error):
            return True
    return False
