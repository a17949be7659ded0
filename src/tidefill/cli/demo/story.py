"""What happens in the demo, from the first row to the last comparison."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tidefill.cli import terminal
from tidefill.cli.demo import orders
from tidefill.cli.demo.children import RUNNER, SHOP_WRITER, WRITER, Child
from tidefill.cli.demo.orders import VIEWS
from tidefill.cli.demo.report import Outcome, Written, last_version, outcome, outcomes_table, written
from tidefill.cli.demo.shop import (
    CREATES,
    DROPS,
    FRESHEN,
    OWNER_VARIABLE,
    REPLICA,
    RETURNED,
    TRANSACTIONS_PER_S,
    URL_VARIABLE,
    Ledger,
    Shop,
)
from tidefill.cli.demo.shop import ROWS as SHOP_ROWS
from tidefill.cli.demo.world import World
from tidefill.cli.demo.writer import CHANGES_PER_S
from tidefill.cli.project import ascii
from tidefill.errors import Bug, NotYet
from tidefill.jobs.lifecycle import Life

if TYPE_CHECKING:
    from tidefill.jobs.status import Status

CHUNKS = 3  # of each view
MEDDLE_AT, KILL_AT = 0.15, 0.45  # shares of the work
SLOW_CHUNK_S = 10  # what a chunk takes under the rate limit
MID_STEP_S = 0.5  # after a commit, the next step is under way
FOLLOW_S = 4.0
ABROAD, PAID = VIEWS


class Story:
    """The demo from the first row to the last comparison."""

    def __init__(self, world: World, rows: int) -> None:
        self._world = world
        self._stage = world.stage
        self._home = world.home
        self._shop = world.shop
        self._engine = world.engine
        self._rows = rows
        self._created_at_s = 0.0
        self._kills = 0

    def tell(self) -> list[Outcome]:
        """All of it, in order."""
        self._make_orders()
        writers = self._start_writers()
        self._create()
        runner = self._start_runner()
        self._stage.say(f"Runner {runner.pid} fills them; the views of orders {self._rows // CHUNKS:,} rows at a time.")
        self._meddle()
        self._kill(runner)
        self._check_the_half()
        runner = self._go_on()
        self._follow(writers)
        outcomes = self._compare()
        self._drop()
        self._world.end(runner)
        return outcomes

    def _make_orders(self) -> None:
        with terminal.spinner("making orders..."):
            self._engine.spark.sql(orders.create(self._home.orders, self._rows)).collect()
            self._engine.register(orders.NAME, key=orders.KEY, location=self._home.orders)
        size = sum(file.stat().st_size for file in Path(self._home.orders).glob("**/*.parquet"))
        self._stage.say(f"orders: a Delta table of {self._rows:,} rows, {size / 1e6:.0f} MB, key id.")

    def _start_writers(self) -> list[Child]:
        rows = f"inserts, updates and deletes about {CHANGES_PER_S} rows a second"
        writers = [self._world.start(WRITER, self._world.spark.url, self._home.orders, str(self._rows))]
        self._stage.say(f"Writer {writers[0].pid} {rows}.")
        if self._shop is not None:
            self._stage.say(f"shop.public.orders: a partitioned table of {SHOP_ROWS:,} rows in PostgreSQL.")
            writers.append(self._world.start(SHOP_WRITER, variables={OWNER_VARIABLE: self._shop.owner_url}))
            self._stage.say(f"Writer {writers[1].pid} commits about {TRANSACTIONS_PER_S} transactions a second there.")
        return writers

    def _create(self) -> None:
        self._created_at_s = time.time()
        for name, query in VIEWS.items():
            chunks = f" WITH (chunk_rows = {self._rows // CHUNKS})"
            self._create_one(name, f"CREATE MATERIALIZED VIEW {name}", chunks, f" AS {query}")
        if self._shop is not None:
            for name, statement in CREATES.items():
                self._create_one(name, statement)

    def _create_one(self, name: str, begin: str, chunks: str = "", end: str = "") -> None:
        """How large its chunks are is not worth showing."""
        with terminal.spinner(f"creating {name}..."):
            self._engine.execute(f"{begin}{chunks}{end}")
        self._stage.say(f"{begin}{end};")

    def _start_runner(self) -> Child:
        shop = {} if self._shop is None else {URL_VARIABLE: self._shop.url}
        return self._world.start(RUNNER, str(self._home.config), variables=shop)

    def _meddle(self) -> None:
        """Wishes, while it runs."""
        self._world.until("a sixth is filled", lambda seen: _share(_views(seen)) >= MEDDLE_AT)
        self._world.wish(f"ALTER JOB {PAID} SET RATE_LIMIT = {self._rows // CHUNKS // SLOW_CHUNK_S}", "paid slows down")
        self._world.wish(f"PAUSE JOB {ABROAD}", "abroad stands still, the others go on")
        seen = self._world.until("abroad is paused", lambda seen: _of(seen, ABROAD).state == Life.PAUSED.value)
        share = _of(seen, PAID).share
        self._world.until("the others go on", lambda seen: _of(seen, PAID).share > share and self._is_copied(seen))
        self._world.wish(f"RESUME JOB {ABROAD}", "all go on")
        self._world.wish(f"ALTER JOB {PAID} SET RATE_LIMIT = NONE", "as fast as it can")

    def _is_copied(self, seen: Sequence[Status]) -> bool:
        """Whether the replica is live, for which the view on it waits; or it is high time for the kill."""
        waits = self._shop is not None and _of(seen, REPLICA).state != Life.LIVE.value
        return not waits or _share(_views(seen)) >= KILL_AT

    def _kill(self, runner: Child) -> None:
        """In the middle of a step; Spark, which has begun it, lives on."""
        self._world.until("half is filled", lambda seen: _share(_views(seen)) >= KILL_AT)
        time.sleep(MID_STEP_S)
        self._world.kill(runner)
        self._kills += 1
        self._stage.bars(self._engine.statuses())
        self._stage.leave_bars()
        self._stage.say(f"kill -9 {runner.pid}: killed at {_percents(self._engine.statuses())}.")

    def _check_the_half(self) -> None:
        """I1 on the spot, and that readers see nothing of it."""
        try:
            self._engine.table(PAID)
        except NotYet as error:
            self._stage.say(f"Nobody reads what is half made: SELECT says {error.fact!r}.")
        else:
            raise Bug(f"{PAID} can be read before it is live")
        for name in VIEWS:
            found = self._world.verify(name)
            same = "DIFFER from" if found.differences else "equal"
            self._stage.say(f"{name}: its {found.rows:,} rows {same} a recompute, as of version {found.version}.")

    def _go_on(self) -> Child:
        """A new runner, which begins where the last commit left off."""
        left = _views(self._engine.statuses())
        runner = self._start_runner()
        self._stage.say(f"Runner {runner.pid} takes over.")
        now = self._world.until("the new runner fills", lambda now: True in list(map(_is_further, left, _views(now))))
        self._stage.say(f"It went on from the last commit: {_percents(now)}.")
        self._world.until("all are live", lambda seen: all(each.state == Life.LIVE.value for each in seen))
        self._stage.say("All are live: filled, verified, and readable from now on.")
        return runner

    def _follow(self, writers: Sequence[Child]) -> None:
        """What was made follows the writers, and reaches their last commits."""
        end_s = time.monotonic() + FOLLOW_S
        self._world.until("all follow", lambda _: time.monotonic() > end_s)
        with terminal.spinner("stopping the writers..."):
            for writer in writers:
                self._world.end(writer)
            done = written(self._engine, self._home.orders)
        self._stage.say(f"The writers stop. orders: {done.version} commits, {_counts(done)}.")
        log_end = "" if self._shop is None else self._last_of_the_shop(self._shop)
        self._world.until(
            "the views are at the head", lambda seen: all(each.version == done.version for each in _views(seen))
        )
        self._stage.say(f"Both views have reached version {done.version} of orders, its last.")
        if self._shop is not None:
            self._follow_the_shop(self._shop, log_end)
        self._stage.leave_bars()

    def _last_of_the_shop(self, shop: Shop) -> str:
        """Where its log ends, now that nobody writes any more. The replica need not wait for more."""
        done = shop.ledger()
        self._stage.say(f"shop.public.orders: {done.transactions:,} transactions, {_counts(done)}.")
        self._world.wish(FRESHEN, "up to date at once")
        return shop.log_end()

    def _follow_the_shop(self, shop: Shop, log_end: str) -> None:
        self._world.until("the replica is at the head", lambda _: shop.is_taken_in(log_end))
        last = last_version(self._engine, REPLICA, self._home.warehouse)
        self._world.until("its view is at the head", lambda seen: _of(seen, RETURNED).version == last)
        self._stage.say(f"{REPLICA} has taken in the server's log up to {log_end}, {RETURNED} has followed it.")

    @property
    def _names(self) -> list[str]:
        return [*VIEWS, *([] if self._shop is None else CREATES)]

    def _compare(self) -> list[Outcome]:
        live_s = {event.job: event.at_s - self._created_at_s for event in self._engine.events() if event.text == "live"}
        found = {name: self._world.verify(name) for name in self._names}
        with terminal.spinner("counting..."):
            outcomes = [
                outcome(self._engine, name, self._home.warehouse, found[name], live_s[name], self._kills)
                for name in self._names
            ]
        self._stage.print("\n" + outcomes_table(outcomes, terminal.width(), ascii=ascii()) + "\n")
        for name, verified in found.items():
            for difference in verified.differences:
                terminal.note(f"{name}: {difference}")
        return outcomes

    def _drop(self) -> None:
        """What is of the shop goes with it; the views of orders may be kept."""
        kept = set(VIEWS) if self._home.kept else set()
        drops = [f"DROP MATERIALIZED VIEW {name}" for name in VIEWS if name not in kept]
        for statement in (*drops, *(() if self._shop is None else DROPS)):
            self._engine.execute(statement)
        with terminal.spinner("dropping..."):
            self._world.until("they are dropped", lambda seen: {each.name for each in seen} == kept, shown=False)
        left = [path.name for path in self._home.warehouse.iterdir() if path.name.partition("-")[0] not in kept]
        if self._shop is not None:
            left += self._shop.clear()
        if left:
            raise Bug("something is left of what was dropped", detail=", ".join(sorted(left)))


def _views(statuses: Sequence[Status]) -> Sequence[Status]:
    """Those of orders."""
    return [each for each in statuses if each.name in VIEWS]


def _counts(of: Written | Ledger) -> str:
    return f"{of.inserts:,} inserts, {of.updates:,} updates, {of.deletes:,} deletes"


def _of(statuses: Sequence[Status], name: str) -> Status:
    return next(each for each in statuses if each.name == name)


def _share(statuses: Sequence[Status]) -> float:
    return sum(each.share for each in statuses) / max(len(statuses), 1)


def _is_further(before: Status, now: Status) -> bool:
    """It never goes back."""
    if now.share < before.share:
        raise Bug(f"{now.name} went back from {before.percent} % to {now.percent} %")
    return now.share > before.share


def _percents(statuses: Sequence[Status]) -> str:
    return " and ".join(f"{each.percent} % of {each.name}" for each in _views(statuses))
