"""Who gets in, by plain requests: the token in the address, in a cookie and in a header; and what every answer says."""

from __future__ import annotations

import json
import os
import stat
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

import pytest

from tests.web.conftest import TOKEN, Site
from tidefill.jobs.row import Pause
from tidefill.web.guard import TOKEN_FILE, TOKEN_VARIABLE, token_of

FILLING = f"{1:032x}"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message
    body: str


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *ignored: object) -> None:
        return None


def ask(site: Site, path: str, method: str = "GET", body: str | None = None, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(site.url(path), None if body is None else body.encode(), named, method=method)
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=20) as answer:
            return Answer(answer.status, answer.headers, answer.read().decode())
    except urllib.error.HTTPError as error:
        return Answer(error.code, error.headers, error.read().decode())


def test_the_address_with_the_token_sets_a_cookie_and_loses_it(site: Site) -> None:
    answer = ask(site, f"/job/{FILLING}?token={TOKEN}&x=1")
    assert (answer.status, answer.headers["location"]) == (303, f"/job/{FILLING}?x=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    name = cookie.partition("=")[0]
    assert name == f"tidefill-{site.port}", "browsers keep one set of cookies for all ports of a host"
    assert ask(site, "/", Cookie=cookie.partition(";")[0]).status == 200
    assert ask(site, "/", Cookie=f"{name}=wrong").status == 403
    assert ask(site, f"//elsewhere.example/?token={TOKEN}").headers["location"] == "/elsewhere.example/"


@pytest.mark.parametrize("path", ["/", "/graph", "/static/style.css", "/stream/jobs", "/metrics", "/nothing"])
def test_nothing_without_the_token(path: str, site: Site) -> None:
    for answer in (ask(site, path), ask(site, path, Authorization="Bearer wrong"), ask(site, f"{path}?token=")):
        assert answer.status == 403
        assert "tidefill web" in answer.body
        assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_every_answer_forbids_what_it_can(site: Site) -> None:
    answer = ask(site, "/", **BEARER)
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    for rule in ("default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"):
        assert rule in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers
    assert ask(site, "/", "OPTIONS", Origin="http://elsewhere.example").status == 405


def test_an_action_needs_the_token_in_a_header(site: Site) -> None:
    cookie = ask(site, f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    path = f"/act/{FILLING}/pause"
    assert ask(site, path, "POST", "{}", Cookie=cookie).status == 403, "another site can have a cookie sent"
    assert ask(site, f"{path}?token={TOKEN}", "POST", "{}").status == 403
    assert ask(site, path, "POST", "{}", Origin="http://elsewhere.example", **BEARER).status == 403
    assert ask(site, path, **BEARER).status == 405, "to look changes nothing"
    row = site.store.job(FILLING)
    assert row is not None
    assert row.pause is Pause.NOTHING
    assert ask(site, path, "POST", "{}", Origin=site.url("").rstrip("/"), **BEARER).status == 200
    row = site.store.job(FILLING)
    assert row is not None
    assert row.pause is Pause.ALL


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (f"/act/{FILLING}/explode", "{}", 400, "BAD_INPUT"),
        (f"/act/{FILLING}/alter", "{}", 400, "BAD_INPUT"),
        (f"/act/{FILLING}/alter", "[]", 400, "BAD_INPUT"),
        (f"/act/{FILLING}/alter", "no json", 400, "BAD_INPUT"),
        (f"/act/{FILLING}/alter", '{"verify": false}', 400, "BAD_INPUT"),
        (f"/act/{FILLING}/alter", '{"rate_limit": -1}', 400, "INVALID_SETTING"),
        (f"/act/{3:032x}/cancel", "", 409, "WRONG_STATE"),
        ("/act/nobody/pause", "", 404, "UNKNOWN_JOB"),
    ],
)
def test_what_cannot_be_asked(path: str, body: str, status: int, code: str, site: Site) -> None:
    answer = ask(site, path, "POST", body, **BEARER)
    assert (answer.status, json.loads(answer.body)["code"]) == (status, code)


def test_a_page_that_is_read_only(site: Site) -> None:
    site.stop()
    site.read_only = True
    site.start()
    answer = ask(site, f"/act/{FILLING}/pause", "POST", "{}", **BEARER)
    assert answer.status == 403
    assert "read-only" in answer.body
    row = site.store.job(FILLING)
    assert row is not None
    assert row.pause is Pause.NOTHING
    assert 'name="tidefill-read-only" content="yes"' in ask(site, "/", **BEARER).body


def test_metrics_need_the_token_too(site: Site) -> None:
    answer = ask(site, "/metrics", **BEARER)
    assert answer.status == 200
    assert 'tidefill_jobs{state="failed"} 1.0' in answer.body


def test_the_token_stays_and_is_for_its_owner_alone(tmp_path: Path) -> None:
    first = token_of(tmp_path / "state", {})
    assert len(first) >= 32
    assert token_of(tmp_path / "state", {}) == first, "open pages go on after a restart"
    assert stat.S_IMODE((tmp_path / "state" / TOKEN_FILE).stat().st_mode) == 0o600
    assert token_of(tmp_path / "state", {TOKEN_VARIABLE: "given"}) == "given"
    (tmp_path / "state" / TOKEN_FILE).write_text("")
    assert len(token_of(tmp_path / "state", {})) >= 32, "nobody gets in with an empty token"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert token_of(tmp_path, {}) != token_of(tmp_path, {})
