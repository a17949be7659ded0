"""A server of the pages, and a real Chromium: the system's, driven by Playwright. Playwright brings none of its own."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.web.stores import make_world
from tidefill.engine.engine import STORE_FILE
from tidefill.store.sql_store import SqlStore, open_store
from tidefill.web.app import application
from tidefill.web.server import bound

TOKEN = "0123456789abcdef0123"
NO_BROWSER = "no Chromium: apt-get install -y chromium (as root), or name one with TIDEFILL_CHROMIUM"
WAIT_MS = 20_000


def chromium() -> str | None:
    """The program, if there is one."""
    named = os.environ.get("TIDEFILL_CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        if os.environ.get("TIDEFILL_CI"):
            pytest.fail(NO_BROWSER)
        pytest.skip(NO_BROWSER)
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@dataclass
class Site:
    """A server over a store, which can be stopped and started again on the same port. Messages go out ten times a
    second."""

    store: SqlStore
    read_only: bool = False
    port: int = 0
    _server: uvicorn.Server | None = None
    _thread: threading.Thread | None = None

    def start(self) -> None:
        opened = bound("127.0.0.1", self.port)
        self.port = opened.getsockname()[1]
        server: uvicorn.Server
        app = application(
            self.store, TOKEN, read_only=self.read_only, stopping=lambda: server.should_exit, stream_s=0.1
        )
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off", ws="none"))
        self._server = server
        self._thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        self._thread.start()
        wait_until(lambda: server.started)

    def stop(self) -> None:
        assert self._server is not None
        assert self._thread is not None
        self._server.should_exit = True
        self._thread.join(20.0)

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a store that tests copy: to write it takes longer than most of them."""
    folder = tmp_path_factory.mktemp("world")
    make_world(folder).close()
    return folder


@pytest.fixture
def store(world: Path, tmp_path: Path) -> Iterator[SqlStore]:
    shutil.copytree(world, tmp_path, dirs_exist_ok=True)
    with open_store(tmp_path / ".tidefill" / STORE_FILE) as opened:
        yield opened


@pytest.fixture
def site(store: SqlStore) -> Iterator[Site]:
    made = Site(store)
    made.start()
    yield made
    made.stop()


@dataclass
class Tab:
    """A tab of a browser that has the token. `errors`: what its console complained of."""

    page: Page
    site: Site
    errors: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.site.url(path))
        self.page.wait_for_selector("#runners:not(:empty)")
        return self.page


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1200, "height": 900})
    made.set_default_timeout(WAIT_MS)
    yield made
    made.close()


@pytest.fixture
def tab(context: BrowserContext, site: Site) -> Tab:
    page = context.new_page()
    made = Tab(page, site)
    page.on("pageerror", lambda error: made.errors.append(str(error)))
    page.goto(site.url(f"/?token={TOKEN}"))
    return made


def wait_until(holds: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline_s, "it did not happen in time"
        time.sleep(0.02)
