"""Who may talk to the server: the browsers that were let in by a URL of the terminal, and no page of anybody else.

A server on the loopback address is reached by every page that the browser shows and by everybody on the machine. What
keeps them out, in this order:

- **Host** must be the loopback address and this port, so that a name which an attacker points at 127.0.0.1 (DNS
  rebinding) gets nothing;
- **Origin**, where the browser sends one, must be this server; a POST without one is refused. `Sec-Fetch-Site` says
  the same of requests without Origin: pages of other ports are the same site to a cookie;
- **the token** in the URL works once and gives its browser a cookie (HttpOnly, SameSite=Strict); without it nothing
  is answered, not even a script file;
- **a POST** is JSON and at most `MOST` bytes.

Answers forbid scripts other than the server's own (CSP), frames, guessing of types, caching and referrers.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from draftverify.bench.listening import hosts_of

MOST = 1 << 20
"""Bytes of a request's body."""

_ENTER = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0;url={path}"><title>draftverify</title><p><a href="{path}">Go on</a></p>"""
# A redirect would still count as the navigation of whatever page the link stood on, and carry no strict cookie.

_REFUSED = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><title>draftverify</title><style nonce="{nonce}">
:root {{ color-scheme: light dark; font: 1rem/1.5 system-ui, sans-serif }}
body {{ max-width: 36rem; margin: 4rem auto; padding: 0 1rem }}</style><h1>Not let in</h1><p>{words}</p>"""


class Guard:
    """An ASGI app around another one, which answers only browsers that were let in.

    Args:
        app: what is guarded. It finds a nonce for inline scripts and styles in `scope["state"]["nonce"]`.
        port: of the server.
        announce: told a new token each time one was used, for the next browser.
    """

    def __init__(self, app: ASGIApp, port: int, announce: Callable[[str], None]) -> None:
        self._app = app
        self._hosts = hosts_of(("127.0.0.1", "localhost"), port)
        # Cookies know no ports; two servers on one machine must not take each other's away.
        self._cookie = f"draftverify-{port}"
        self._announce = announce
        self._sessions: set[str] = set()
        self._token = ""

    def new_token(self) -> str:
        """A token for one browser; the one before is no longer taken."""
        self._token = secrets.token_urlsafe(32)
        return self._token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer or refuse one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        nonce = secrets.token_urlsafe(18)
        scope.setdefault("state", {})["nonce"] = nonce

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                _protect(MutableHeaders(scope=message), nonce)
            await send(message)

        headers = Headers(scope=scope)
        refused = self._foreign(scope, headers) or self._stranger(scope, headers)
        if refused is None and scope["method"] == "POST":
            body = await _body(scope, receive)
            if isinstance(body, bytes):
                receive = _replayed(body, receive)
            else:
                refused = body
        await (refused or self._app)(scope, receive, guarded_send)

    def _foreign(self, scope: Scope, headers: Headers) -> Response | None:
        """Refuse what another page, or a page under another name, sends."""
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0] not in self._hosts:
            return _refusal(scope, 403, "The Host of this request is not this server.")
        method = scope["method"]
        if method not in ("GET", "HEAD", "POST"):
            return _refusal(scope, 405, "There are GET and POST here.")
        if origins != [f"http://{hosts[0]}"] and (origins or method == "POST"):
            return _refusal(scope, 403, "The Origin of this request is not this server.")
        if headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
            opened = method == "GET" and headers.get("sec-fetch-mode") == "navigate"
            if not opened or headers.get("sec-fetch-dest") != "document":
                return _refusal(scope, 403, "Another site asked for this.")
        return None

    def _stranger(self, scope: Scope, headers: Headers) -> Response | None:
        """Let a token's browser in, and refuse those without a cookie."""
        has_session = self._has_session(headers)
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token")
        if token and scope["method"] == "GET":
            fits = self._token and hmac.compare_digest(token[0].encode(), self._token.encode())
            if has_session or fits:
                entered = HTMLResponse(_ENTER.format(path="review" if scope["path"] == "/review" else "./"))
                if not has_session:
                    session = secrets.token_urlsafe(32)
                    self._sessions.add(session)
                    entered.set_cookie(self._cookie, session, httponly=True, samesite="strict")
                    self._announce(self.new_token())
                return entered
        if has_session:
            return None
        reason = (
            "This URL was used, or its server is no more: a token lets one browser in, once. "
            "The terminal shows a new URL for the next one."
            if token
            else "Open the URL that the command printed on its terminal."
        )
        return _refusal(scope, 403, reason)

    def _has_session(self, headers: Headers) -> bool:
        # Read by hand: http.cookies gives up at the first one that it finds malformed, and other servers of this
        # machine set cookies here too, JSON among them, or one of this name.
        for pair in ";".join(headers.getlist("cookie")).split(";"):
            name, _, value = pair.strip().partition("=")
            if name == self._cookie and any(
                hmac.compare_digest(value.encode(), session.encode()) for session in self._sessions
            ):
                return True
        return False


def _refusal(scope: Scope, status: int, reason: str) -> Response:
    if scope["path"].startswith("/api/"):
        return JSONResponse({"error": reason}, status)
    return HTMLResponse(_REFUSED.format(words=reason, nonce=scope["state"]["nonce"]), status)


async def _body(scope: Scope, receive: Receive) -> bytes | Response:
    """The whole body of a request, or the answer that says why it is not read."""
    headers = Headers(scope=scope)
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return JSONResponse({"error": "a POST here has the content type application/json"}, 415)
    too_long = JSONResponse({"error": f"more than {MOST >> 20} MiB; nothing of it was taken"}, 413)
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MOST:
        return too_long
    body = bytearray()
    try:
        async for chunk in Request(scope, receive).stream():
            body += chunk
            if len(body) > MOST:
                return too_long
    except ClientDisconnect:
        return JSONResponse({"error": "the request was not sent to its end"}, 400)
    return bytes(body)


def _replayed(body: bytes, receive: Receive) -> Receive:
    replayed = False

    async def replay() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _protect(headers: MutableHeaders, nonce: str) -> None:
    # A page may bring a policy of its own.
    headers.setdefault(
        "content-security-policy",
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    )
    headers["cache-control"] = "no-store"
    headers["x-content-type-options"] = "nosniff"
    headers["x-frame-options"] = "DENY"
    headers["referrer-policy"] = "no-referrer"
    headers["cross-origin-opener-policy"] = "same-origin"
    headers["cross-origin-resource-policy"] = "same-origin"
