"""Who may see the pages: those who have the token. It comes in the printed URL once, then in a cookie.

A POST needs the token in a header as well: another site can make a browser send a cookie, but no header. Nothing is
allowed to other origins, and the policy lets a page run only the scripts that came with it.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_FILE = "web-token"
TOKEN_VARIABLE = "TIDEFILL_WEB_TOKEN"
TOKEN_CHARACTERS_MIN = 16
POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'",
    "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
    "require-trusted-types-for 'script'", "trusted-types 'none'",
))  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
REFUSED = "This page needs the token. Open the address that `tidefill web` printed.\n"


def token_of(folder: Path, environ: Mapping[str, str]) -> str:
    """The token: from TIDEFILL_WEB_TOKEN, or else the one in the folder, made if there is none. It stays the same when
    the server is started again, so that open pages go on. Nobody else may read the file."""
    given = environ.get(TOKEN_VARIABLE, "").strip()
    if given:
        return given
    file = folder / TOKEN_FILE
    made = secrets.token_urlsafe(32)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as opened:
            opened.write(made)
        return made
    except FileExistsError:
        known = file.read_text(encoding="ascii").strip()
        return known if len(known) >= TOKEN_CHARACTERS_MIN else made
    except OSError:
        return made  # a folder that cannot be written to: the token lasts as long as this process


class Guard:
    """Lets nobody in without the token, and writes the headers of every answer."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # a WebSocket: the server refuses it

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        answer = self._refusal(scope)
        await (self._app if answer is None else answer)(scope, receive, guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """What is answered in the place of the page; None if the page may be shown."""
        headers, query = Headers(scope=scope), dict(parse_qsl(scope["query_string"].decode("latin-1")))
        by_header = self._is_token(headers.get("authorization", "").removeprefix("Bearer "))
        if scope["method"] == "POST":
            return None if by_header and _is_same_origin(headers) else PlainTextResponse(REFUSED, 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("", 405)
        given = query.pop("token", None)
        if given is not None and self._is_token(given):
            return self._let_in(scope, query)
        name = _cookie_name(scope)
        if by_header or self._is_token(_cookies(headers.get("cookie", "")).get(name, "")):
            return None
        return PlainTextResponse(REFUSED, 403)

    def _let_in(self, scope: Scope, query: Mapping[str, str]) -> Response:
        """The same page without the token in its address, where others could see it, and a cookie."""
        rest = f"?{urlencode(query)}" if query else ""
        path = "/" + scope["path"].lstrip("/")  # not to another host: // would name one
        answer = RedirectResponse(path + rest, 303)
        answer.set_cookie(_cookie_name(scope), self._token, httponly=True, samesite="strict", max_age=30 * 86400)
        return answer

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _cookie_name(scope: Scope) -> str:
    """Browsers keep one set of cookies for all ports of a host."""
    server = scope.get("server")
    return f"tidefill-{server[1] if server else 0}"


def _cookies(text: str) -> dict[str, str]:
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(text).items()}
    except CookieError:
        return {}


def _is_same_origin(headers: Headers) -> bool:
    """Whether the page that asks came from here. Programs that are no browsers say nothing of an origin."""
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host", "")
