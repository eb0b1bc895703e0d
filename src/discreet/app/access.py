"""Who may ask the page: the browser that exchanged the token of the terminal for a cookie, from the page itself.

The server listens on 127.0.0.1 alone, which other users of the machine and every page of the web can reach, too. So
each request has to name this server as its host (DNS rebinding), whatever changes something has to come from its own
pages (other origins), and all but the first page needs the cookie. Browsers send a cookie to every port of a host, so
this one is for a path that nobody can guess: another server on the machine never sees it. The token is exchanged once.
It is never an argument of a process: the terminal shows it behind the ``#`` of an address, which browsers send to
nobody, or it stands in a file that only its owner can read.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

Handler = Callable[[Any, Any, Any], Awaitable[None]]

OPEN = frozenset({"/", "/enter", "/app.css", "/app.js"})
"""What is answered without a cookie: nothing that tells of a file."""

EMBEDDED = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-ancestors 'self'; "
    "form-action 'none'; base-uri 'none'"
)
"""The policy of a page that a command wrote, which has a stricter one within."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'"
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Access:
    """The token, the cookie that it is exchanged for, and the hosts that the server is known by."""

    def __init__(self, port: int) -> None:
        self.port, self.token = port, secrets.token_urlsafe(32)
        self._cookie, self._used = secrets.token_urlsafe(32), False
        self.base = f"/{secrets.token_urlsafe(16)}"

    @property
    def address(self) -> str:
        """Where the server is."""
        return f"http://127.0.0.1:{self.port}/"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names that a request may call it by."""
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    @property
    def cookie_name(self) -> str:
        """The name of the cookie, which differs by port, since browsers share cookies between the ports of a host."""
        return f"discreet-{self.port}"

    def exchange(self, token: str) -> bool:
        """Return whether a token is the one of the terminal, for the first time."""
        right = not self._used and hmac.compare_digest(token.encode(), self.token.encode())
        self._used |= right
        return right

    def admit(self, response: Response) -> Response:
        """Give a browser the cookie."""
        response.set_cookie(self.cookie_name, self._cookie, httponly=True, samesite="strict", path=self.base)
        return response

    def refusal(self, request: Request) -> str | None:
        """Return why a request is not answered; None where it is."""
        host = request.headers.get("host", "")
        if host not in self.hosts:
            return f"This server is not known by that name. Use localhost or 127.0.0.1, with the port {self.port}."
        path = request.scope["path"]
        if request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and path != "/":
            return "Another site asked for this page."
        if request.method not in ("GET", "HEAD") and request.headers.get("origin") != f"http://{host}":
            return "Another site sent this form."
        given = request.cookies.get(self.cookie_name, "")
        if path not in OPEN and not hmac.compare_digest(given.encode(), self._cookie.encode()):
            return "Open the page from the terminal that started it: its address is used up, or was never used here."
        return None


class Guard:
    """What stands before every page: refuses requests, and adds headers to answers."""

    def __init__(self, app: Handler, access: Access) -> None:
        self._app, self._access = app, access

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._access.refusal(Request(scope))
        if refusal is not None:
            await PlainTextResponse(refusal, status_code=403, headers=HEADERS)(scope, receive, send)
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                held = {name.lower() for name, _ in message["headers"]}
                headers = HEADERS
                if b"content-security-policy" not in held:
                    headers = HEADERS | {"Content-Security-Policy": POLICY}
                message["headers"] += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
            await send(message)

        await self._app(scope, receive, with_headers)
