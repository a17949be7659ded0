"""`tidefill demo`: two views are filled from a table that is being written, and their runner is killed half way.

Nothing in it is staged: Spark runs here, the writer and `tidefill run` are processes of their own, the kill is a
SIGKILL, and what is said of the views is what a comparison with a recompute found. Every wait has an end.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from tidefill.cli import demo_orders, render, terminal
from tidefill.cli.arguments import JSON
from tidefill.cli.demo_children import RUNNER, WRITER, Child
from tidefill.cli.demo_orders import VIEWS
from tidefill.cli.demo_report import Outcome, outcome, outcomes_table, written
from tidefill.cli.demo_stage import Stage
from tidefill.cli.demo_writer import CHANGES_PER_S
from tidefill.cli.project import ascii
from tidefill.core.lifecycle import Life
from tidefill.errors import Bug, InvalidSetting, JobFailed, NotYet, RetryLater, TimedOut

if TYPE_CHECKING:
    from tidefill.engine import Engine, Verified
    from tidefill.spark.shared import SharedSpark
    from tidefill.status import Status

TOTAL_S_MAX = 900
WAIT_S_MAX = 300.0
END_S_MAX = 30  # for what has to be tidied up then
LOOK_S = 0.2
CHUNKS = 4  # of each view
MEDDLE_AT, KILL_AT = 0.15, 0.45  # shares of the work
SLOW_CHUNK_S = 8  # what a chunk takes under the rate limit
MID_STEP_S = 0.5  # after a commit, the next step is under way
FOLLOW_S = 4.0
ABROAD, PAID = VIEWS
SPARK_SETTINGS = {  # many small commands on few cores
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.databricks.delta.properties.defaults.checkpointInterval": "100",
}


def demo(arguments: argparse.Namespace) -> int:
    """Run the command: 0 only if both views were found equal to a recompute."""
    as_json = arguments.format == JSON
    stage = Stage(quiet=as_json)
    stage.print("Two materialized views over a table that is being written.")
    with _home(arguments.keep) as home, _bounded(), ExitStack() as ends:
        spark = _start_spark(ends)
        story = Story(stage, home, spark, _engine(home, spark, ends), arguments.rows, ends)
        outcomes = story.tell()
    equal = all(each.equal for each in outcomes)
    if as_json:
        terminal.say(render.as_json({"views": outcomes, "seconds": round(stage.elapsed_s, 1)}))
    stage.say(_ending(home, equal=equal))
    return 0 if equal else 1


def _ending(home: Home, *, equal: bool) -> str:
    verdict = "Both views are equal to a recompute." if equal else "A view DIFFERS from a recompute."
    if home.kept:
        return f"{verdict} They are kept: tidefill status --config {home.config}"
    return f"{verdict} Everything is dropped, nothing is left."


# Where it happens, and how it ends.


@dataclass(frozen=True, slots=True)
class Home:
    """The folder that everything of the demo is in."""

    folder: Path
    kept: bool

    @property
    def orders(self) -> str:
        return str(self.folder / demo_orders.NAME)

    @property
    def warehouse(self) -> Path:
        return self.folder / "lake"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def config(self) -> Path:
        return self.folder / "tidefill.toml"

    def configure(self, remote: str = "") -> None:
        """Write the settings, for a runner that uses the Spark at that URL, or its own."""
        spark = f'\n[spark]\nremote = "{remote}"\n' if remote else ""
        self.config.write_text(f'store = "store"\nwarehouse = "lake"\n{spark}', encoding="utf-8")


@contextmanager
def _home(keep: str | None) -> Iterator[Home]:
    """A folder that is gone at the end, whatever happens; or one to keep, that has to be new or empty."""
    if keep is None:
        folder = Path(tempfile.mkdtemp(prefix="tidefill-demo-"))
        try:
            yield Home(folder, kept=False)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    folder = Path(keep).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        taken = any(folder.iterdir())
    except OSError as error:
        raise InvalidSetting(f"the folder {folder} cannot be made", detail=str(error.strerror)) from error
    if taken:
        raise InvalidSetting(f"the folder {folder} is not empty", hint="Name a new one: the demo fills it.")
    home = Home(folder, kept=True)
    try:
        yield home
    finally:
        home.configure()  # the Spark of the demo is gone


@contextmanager
def _bounded() -> Iterator[None]:
    """SIGTERM and SIGHUP end it like Ctrl-C; so does time, even in the middle of a question to Spark."""

    def interrupted(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def too_late(number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_REAL, END_S_MAX)
        raise TimedOut(f"the demo was not over within {TOTAL_S_MAX} s", hint="Is this machine very busy?")

    handlers = {signal.SIGTERM: interrupted, signal.SIGHUP: interrupted, signal.SIGALRM: too_late}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    before[signal.SIGINT] = signal.getsignal(signal.SIGINT)
    signal.setitimer(signal.ITIMER_REAL, TOTAL_S_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, former in before.items():
            signal.signal(number, former)


def _start_spark(ends: ExitStack) -> SharedSpark:
    """Spark takes over Ctrl-C to cancel its queries; here it ends the demo."""
    from tidefill.extras import with_extra

    with terminal.spinner("starting Spark..."), with_extra("spark"):
        from tidefill.spark.shared import shared_spark

        ours = signal.getsignal(signal.SIGINT)
        spark = shared_spark(SPARK_SETTINGS)
        signal.signal(signal.SIGINT, ours)
    ends.callback(spark.session.stop)
    ends.callback(signal.signal, signal.SIGINT, signal.SIG_IGN)
    return spark


def _engine(home: Home, spark: SharedSpark, ends: ExitStack) -> Engine:
    from tidefill.engine import connect

    home.configure(spark.url)
    return ends.enter_context(connect(spark.session, home.warehouse, home.store))


# What happens.


class Story:
    """The demo from the first row to the last comparison."""

    def __init__(
        self, stage: Stage, home: Home, spark: SharedSpark, engine: Engine, rows: int, ends: ExitStack
    ) -> None:
        self._stage = stage
        self._home = home
        self._spark = spark
        self._engine = engine
        self._rows = rows
        self._ends = ends
        self._children: list[Child] = []
        self._created_at_s = 0.0
        self._kills = 0

    def tell(self) -> list[Outcome]:
        """All of it, in order."""
        self._make_orders()
        writer = self._start(WRITER, self._spark.url, self._home.orders, str(self._rows))
        self._create_views()
        runner = self._start(RUNNER, str(self._home.config))
        self._stage.say(f"Runner {runner.pid} fills them, {self._rows // CHUNKS:,} rows at a time.")
        self._meddle()
        self._kill(runner)
        self._check_the_half()
        runner = self._go_on()
        self._follow(writer)
        outcomes = self._compare()
        if not self._home.kept:
            self._drop()
        self._end(runner)
        return outcomes

    def _make_orders(self) -> None:
        with terminal.spinner("making orders..."):
            self._engine.spark.sql(demo_orders.create(self._home.orders, self._rows)).collect()
            self._engine.register(demo_orders.NAME, key=demo_orders.KEY, location=self._home.orders)
        size = sum(file.stat().st_size for file in Path(self._home.orders).glob("**/*.parquet"))
        self._stage.say(f"orders: a Delta table of {self._rows:,} rows, {size / 1e6:.0f} MB, key id.")

    def _create_views(self) -> None:
        self._created_at_s = time.time()
        for name, query in VIEWS.items():
            with terminal.spinner(f"creating {name}..."):
                self._engine.execute(
                    f"CREATE MATERIALIZED VIEW {name} WITH (chunk_rows = {self._rows // CHUNKS}) AS {query}"
                )
            self._stage.say(f"CREATE MATERIALIZED VIEW {name} AS {query};")

    def _meddle(self) -> None:
        """Wishes, while it runs."""
        self._until("a seventh is filled", lambda seen: _share(seen) >= MEDDLE_AT)
        self._wish(f"ALTER JOB {PAID} SET RATE_LIMIT = {self._rows // CHUNKS // SLOW_CHUNK_S}", "paid slows down")
        self._wish(f"PAUSE JOB {ABROAD}", "abroad stands still, the rest goes on")
        seen = self._until("abroad is paused", lambda seen: _of(seen, ABROAD).state == Life.PAUSED.value)
        share = _of(seen, PAID).share
        self._until("paid goes on", lambda seen: _of(seen, PAID).share > share)
        self._wish(f"RESUME JOB {ABROAD}", "both go on")
        self._wish(f"ALTER JOB {PAID} SET RATE_LIMIT = NONE", "as fast as it can")

    def _kill(self, runner: Child) -> None:
        """In the middle of a step; Spark, which has begun it, lives on."""
        self._until("half is filled", lambda seen: _share(seen) >= KILL_AT)
        time.sleep(MID_STEP_S)
        runner.kill()
        self._children.remove(runner)
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
            found = self._verify(name)
            same = "DIFFER from" if found.differences else "equal"
            self._stage.say(f"{name}: its {found.rows:,} rows {same} a recompute, as of version {found.version}.")

    def _go_on(self) -> Child:
        """A new runner, which begins where the last commit left off."""
        left = self._engine.statuses()
        runner = self._start(RUNNER, str(self._home.config))
        self._stage.say(f"Runner {runner.pid} takes over.")
        now = self._until("the new runner fills", lambda now: True in list(map(_is_further, left, now)))
        self._stage.say(f"It went on from the last commit: {_percents(now)}.")
        self._until("both are live", lambda seen: all(each.state == Life.LIVE.value for each in seen))
        self._stage.say("Both are live: filled, verified, and readable from now on.")
        return runner

    def _follow(self, writer: Child) -> None:
        """The views follow the writer, and reach its last commit."""
        end_s = time.monotonic() + FOLLOW_S
        self._until("the views follow", lambda _: time.monotonic() > end_s)
        self._children.remove(writer)
        with terminal.spinner("stopping the writer..."):
            writer.finish()
            done = written(self._engine, self._home.orders)
        self._stage.say(
            f"The writer stops, after {done.version} commits: {done.inserts:,} inserts, {done.updates:,} updates and "
            f"{done.deletes:,} deletes."
        )
        self._until("the views are at the head", lambda seen: all(each.version == done.version for each in seen))
        self._stage.leave_bars()
        self._stage.say(f"Both views have reached version {done.version} of orders, its last.")

    def _compare(self) -> list[Outcome]:
        live_s = {event.job: event.at_s - self._created_at_s for event in self._engine.events() if event.text == "live"}
        found = {name: self._verify(name) for name in VIEWS}
        with terminal.spinner("counting..."):
            outcomes = [
                outcome(self._engine, name, self._home.warehouse, found[name], live_s[name], self._kills)
                for name in VIEWS
            ]
        self._stage.print("\n" + outcomes_table(outcomes, terminal.width(), ascii=ascii()) + "\n")
        for name, verified in found.items():
            for difference in verified.differences:
                terminal.note(f"{name}: {difference}")
        return outcomes

    def _drop(self) -> None:
        for name in VIEWS:
            self._engine.execute(f"DROP MATERIALIZED VIEW {name}")
        with terminal.spinner("dropping..."):
            self._until("the views are dropped", lambda seen: not seen, shown=False)
        left = sorted(path.name for path in self._home.warehouse.iterdir())
        if left:
            raise Bug("something of a dropped view is left", detail=", ".join(left))

    # How.

    def _start(self, role: str, *words: str) -> Child:
        child = Child(role, list(words), self._home.folder, self._spark.variables)
        self._ends.callback(child.kill)
        self._children.append(child)
        if role == WRITER:
            self._stage.say(f"Writer {child.pid} inserts, updates and deletes about {CHANGES_PER_S} rows a second.")
        return child

    def _end(self, runner: Child) -> None:
        self._children.remove(runner)
        runner.finish()

    def _wish(self, sql: str, means: str) -> None:
        self._engine.execute(sql)
        self._stage.say(f"{sql};  -- {means}")

    def _verify(self, name: str) -> Verified:
        with terminal.spinner(f"comparing {name} with a recompute..."):
            return self._engine.job(name).verify()

    def _until(self, what: str, so: Callable[[Sequence[Status]], bool], *, shown: bool = True) -> Sequence[Status]:
        """Show how it goes until it is so. JobFailed, TimedOut, or what became of a child that ended."""
        deadline_s = time.monotonic() + WAIT_S_MAX
        while True:
            for child in self._children:
                child.check()
            with suppress(RetryLater):
                seen = self._engine.statuses()
                if shown:
                    self._stage.bars(seen)
                _refuse_failed(seen)
                if so(seen):
                    return seen
            if time.monotonic() > deadline_s:
                raise TimedOut(f"waited {WAIT_S_MAX:.0f} s in vain until {what}", detail="; ".join(map(str, seen)))
            time.sleep(LOOK_S)


def _refuse_failed(statuses: Sequence[Status]) -> None:
    for each in statuses:
        if each.state == Life.FAILED.value and each.failure is not None:
            raise JobFailed(f"{each.name} has failed: {each.failure.fact}", detail=each.failure.detail)


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
    return " and ".join(f"{each.percent} % of {each.name}" for each in statuses)
