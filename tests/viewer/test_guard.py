"""Who is let in: what a foreign page, a rebound name or a stranger can send is refused, by every way in."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from draftverify.view.guard import MOST, Guard
from tests.viewer.serving import Served

PATHS = (
    "/",
    "/run?run=done",
    "/review?run=waits",
    "/static/review.js",
    "/api/runs",
    "/api/overview?run=done",
)


@pytest.mark.parametrize("path", PATHS)
def test_without_a_token_nothing_is_answered(served: Served, path: str) -> None:
    """Not even a script file; a wrong token and a made-up cookie are none."""
    with served.client() as client:
        assert client.get(path).status_code == 403
        assert client.get(path, params={"token": "x" * 43}).status_code == 403
        name = f"draftverify-{served.base.rpartition(':')[2]}"
        assert client.get(path, headers={"cookie": f"{name}=x"}).status_code == 403


def test_a_token_lets_one_browser_in_once(served: Served) -> None:
    """It becomes a cookie that scripts cannot read; the terminal then shows another one, for the next browser."""
    token = served.new_token()
    with served.client() as first, served.client() as second:
        entered = first.get("/", params={"token": token})
        cookie = entered.headers["set-cookie"].lower()
        assert entered.status_code == 200
        assert token not in entered.text
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert token.lower() not in cookie
        assert first.get("/").status_code == 200
        # A browser that looked at the URL before it opened it is the same browser.
        assert first.get("/", params={"token": token}).status_code == 200
        refused = second.get("/", params={"token": token})
        assert refused.status_code == 403
        assert "set-cookie" not in refused.headers
        assert second.get("/", params={"token": served.announced[-1]}).status_code == 200
        assert second.get("/api/runs").status_code == 200


@pytest.mark.parametrize(
    "others", ['x={{"a": 1}}; {own}', "[=1; {own}", 'a=b c;"; {own}', "{name}=x; {own}", "{own}; {name}=x"]
)
def test_cookies_of_other_servers_shut_nobody_out(served: Served, others: str) -> None:
    """Cookies know no ports: whatever else was set for this machine, JSON or one of this name, ours is found."""
    with served.entered() as client, served.client() as plain:
        name, value = next(iter(client.cookies.items()))
        headers = {"cookie": others.format(name=name, own=f"{name}={value}")}
        assert plain.get("/api/runs", headers=headers).status_code == 200
        assert plain.get("/api/runs", headers={"cookie": f"x{name}={value}"}).status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", ""]
)
def test_another_host_is_refused(served: Served, host: str) -> None:
    """A name that was pointed at 127.0.0.1 (DNS rebinding) gets nothing, be it with a token."""
    with served.entered() as client:
        del client.headers["origin"]
        headers = {"host": host.format(port=served.base.rpartition(":")[2])}
        assert client.get("/api/runs", headers=headers).status_code in (400, 403)
        token = served.new_token()
        assert client.get("/", headers=headers, params={"token": token}).status_code in (400, 403)


@pytest.mark.parametrize(("port", "status"), [(80, 200), (81, 403)])
def test_a_browser_leaves_the_default_port_out(port: int, status: int) -> None:
    """Of the Host that it sends, and so of the Origin."""
    guard = Guard(Starlette(), port, lambda token: None)
    with TestClient(guard, base_url="http://localhost") as client:
        assert client.get("/", params={"token": guard.new_token()}).status_code == status


def test_two_hosts_are_refused(served: Served) -> None:
    """A proxy and the app could read different ones."""
    port = int(served.base.rpartition(":")[2])
    with served.entered() as client, socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        name, value = next(iter(client.cookies.items()))
        lines = (
            "GET /api/runs HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Host: evil.example",
            f"Cookie: {name}={value}",
        )
        raw.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode())
        assert raw.recv(64).startswith((b"HTTP/1.1 400", b"HTTP/1.1 403"))


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}", None]
)
def test_another_origin_cannot_post(served: Served, origin: str | None) -> None:
    """Nor can who sends none; the cookie alone is not enough, since other ports are the same site to it."""
    with served.entered() as client:
        del client.headers["origin"]
        headers = {} if origin is None else {"origin": origin.format(port=served.base.rpartition(":")[2])}
        sent = {"run": "waits", "holder": "a" * 8}
        assert client.post("/api/claim", json=sent, headers=headers).status_code == 403
        if origin is not None:
            assert client.get("/api/runs", headers=headers).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_another_site_asks_for_is_refused(served: Served, site: str) -> None:
    """Scripts and images of other pages send no Origin; a link that somebody follows is let through to the page."""
    with served.entered() as client:
        del client.headers["origin"]
        inside = {"sec-fetch-site": site, "sec-fetch-mode": "no-cors", "sec-fetch-dest": "script"}
        assert client.get("/api/runs", headers=inside).status_code == 403
        framed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
        assert client.get("/", headers=framed).status_code == 403
        followed = {"sec-fetch-site": site, "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
        assert client.get("/", headers=followed).status_code == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_a_post_is_json(served: Served, kind: str) -> None:
    """What a form can send without asking is not taken."""
    with served.entered() as client:
        body = json.dumps({"run": "waits", "holder": "a" * 8})
        headers = {"content-type": kind} if kind else {}
        assert client.post("/api/claim", content=body, headers=headers).status_code == 415


def test_a_long_body_is_refused(served: Served) -> None:
    """Whether it says its length or not; what was typed is not cut."""

    def pieces() -> Any:
        for _ in range(MOST // 65536 + 1):
            yield b" " * 65536

    headers = {"content-type": "application/json"}
    with served.entered() as client:
        assert client.post("/api/answer", content=b" " * (MOST + 1), headers=headers).status_code == 413
        assert client.post("/api/answer", content=pieces(), headers=headers).status_code == 413


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"])
def test_other_methods_are_refused(served: Served, method: str) -> None:
    """There is nothing that they could mean."""
    with served.entered() as client:
        assert client.request(method, "/api/runs").status_code == 405


def test_every_answer_forbids_what_a_page_does_not_need(served: Served) -> None:
    """Errors and refusals too: foreign scripts, frames, guessed types, copies in a cache, referrers."""
    with served.entered() as client, served.client() as stranger:
        for answer in (
            client.get("/"),
            client.get("/api/runs"),
            client.get("/api/overview?run=no"),
            stranger.get("/"),
        ):
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert "unsafe" not in policy.partition("script-src")[2].partition(";")[0]
            assert answer.headers["cache-control"] == "no-store"
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"
        nonces = {client.get("/").headers["content-security-policy"] for _ in range(3)}
        assert len(nonces) == 3
