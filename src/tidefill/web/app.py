"""The pages, their stream of figures, and what can be asked of jobs, as an ASGI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from html import escape
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tidefill.errors import BadInput, Conflict, RetryLater, TidefillError, UnknownJob
from tidefill.metrics.exposing import exposition
from tidefill.metrics.of_store import StoreMetrics
from tidefill.store.sql_store import SqlStore
from tidefill.web.acting import act
from tidefill.web.guard import Guard
from tidefill.web.looking import Looking, Sections

STREAM_S = 1.0
"""How often a page is told what has changed."""

BODY_BYTES_MAX = 10_000
KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
ASSETS = ("style.css", "dom.js", "live.js", "parts.js", "jobs.js", "job.js", "graph.js", "icon.svg")


class Pages:
    """What is answered to whom has the token. `stopping`: whether the server is about to end, which ends streams."""

    def __init__(
        self, store: SqlStore, token: str, *, read_only: bool, stopping: Callable[[], bool], stream_s: float = STREAM_S
    ) -> None:
        self._store = store
        self._token = token
        self._read_only = read_only
        self._stopping = stopping
        self._stream_s = stream_s
        self._looking = Looking(store)
        self._metrics = StoreMetrics(store)
        static = files("tidefill.web") / "static"
        self._assets = {name: (static / name).read_bytes() for name in ASSETS}
        self._page = (static / "page.html").read_text(encoding="utf-8")

    def routes(self) -> list[Route]:
        """All addresses."""
        return [
            Route("/", self._shell("jobs")),
            Route("/job/{job_id}", self._shell("job")),
            Route("/graph", self._shell("graph")),
            Route("/static/{name}", self._asset),
            Route("/stream/jobs", self._stream),
            Route("/stream/graph", self._stream),
            Route("/stream/job/{job_id}", self._stream),
            Route("/act/{job_id}/{action}", self._act, methods=["POST"]),
            Route("/metrics", self._expose),
        ]

    def _shell(self, page: str) -> Callable[[Request], Any]:
        """The same document for each page; its script does the rest."""
        values = {"page": page, "token": self._token, "read-only": "yes" if self._read_only else ""}
        text = self._page
        for name, value in values.items():
            text = text.replace(f"{{{{{name}}}}}", escape(value))

        async def shell(request: Request) -> Response:
            return HTMLResponse(text)

        return shell

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._assets:
            return PlainTextResponse("there is no such file\n", 404)
        return Response(self._assets[name], media_type=KINDS[name.rpartition(".")[2]])

    async def _stream(self, request: Request) -> Response:
        job_id = request.path_params.get("job_id")
        if job_id is not None:
            look: Callable[[], Sections] = lambda: self._looking.job(job_id)  # noqa: E731
        else:
            look = self._looking.graph if request.url.path.endswith("graph") else self._looking.jobs
        return StreamingResponse(self._told(look), media_type="text/event-stream")

    async def _told(self, look: Callable[[], Sections]) -> AsyncIterator[str]:
        """What has changed since it was told last; a comment if nothing has, so that a lost connection is noticed."""
        sent: dict[str, Any] = {}
        yield "retry: 1000\n\n"
        while not self._stopping():
            message = await run_in_threadpool(_changes, look, sent)
            yield f"data: {json.dumps(message)}\n\n" if message else ": nothing new\n\n"
            if message.get("gone for good"):
                return
            await asyncio.sleep(self._stream_s)

    async def _act(self, request: Request) -> Response:
        if self._read_only:
            return _refused(BadInput("this page is read-only", hint="Start `tidefill web` without --read-only."), 403)
        body = await request.body()
        try:
            asked = json.loads(body) if body and len(body) <= BODY_BYTES_MAX else {}
        except ValueError:
            asked = None
        if not isinstance(asked, dict):
            return _refused(BadInput("this is no JSON object"), 400)
        words = request.path_params["job_id"], request.path_params["action"], asked
        try:
            return JSONResponse({"told": await run_in_threadpool(act, self._store, *words)})
        except TidefillError as error:
            return _refused(error, _status_of(error))

    async def _expose(self, request: Request) -> Response:
        try:
            text, kind = await run_in_threadpool(exposition, self._metrics)
        except TidefillError as error:
            return _refused(error, _status_of(error))
        return Response(text, media_type=kind)


def _changes(look: Callable[[], Sections], sent: dict[str, Any]) -> dict[str, Any]:
    """What has to be told: `set`, the sections that differ from what was `sent`, which is brought up to date, and
    `gone`. If the store does not answer: `trouble`."""
    try:
        now = look()
    except UnknownJob as error:
        return {"trouble": error.fact, "gone for good": True}
    except RetryLater as error:
        return {"trouble": error.fact}
    changed = {name: value for name, value in now.items() if name not in sent or sent[name] != value}
    gone = [name for name in sent if name not in now]
    sent.clear()
    sent.update(now)
    return {"set": changed, "gone": gone} if changed or gone else {}


def _status_of(error: TidefillError) -> int:
    match error:
        case UnknownJob():
            return 404
        case RetryLater():
            return 503
        case Conflict():
            return 409
        case _:
            return 400


def _refused(error: TidefillError, status: int) -> Response:
    told = {"code": error.code, "fact": error.fact, "detail": error.detail, "hint": error.hint}
    return JSONResponse(told, status)


def application(
    store: SqlStore,
    token: str,
    *,
    read_only: bool = False,
    stopping: Callable[[], bool] = lambda: False,
    stream_s: float = STREAM_S,
) -> Guard:
    """The whole of it."""
    pages = Pages(store, token, read_only=read_only, stopping=stopping, stream_s=stream_s)
    return Guard(Starlette(routes=pages.routes()), token)
