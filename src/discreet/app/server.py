"""The server of the page: where it listens, how the browser is opened, and when it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from discreet._core.boundary import sealed
from discreet._core.errors import MissingExtra
from discreet._core.files import together

_LONELY = 15.0  # seconds without a window, after which it ends
_BEAT = 5.0


@sealed
def serve(path: str | os.PathLike[str], *, open_browser: bool = True, say: Callable[[str], None] = print) -> None:
    """Show a local page on which to declare, plan, release and read, until its windows are closed.

    Parameters
    ----------
    path : path
        A confidential table, of which to make a release, or a folder with two tables of one domain, such as households
        and their persons; or a release with its certificate, to read it.
    open_browser : bool
        Whether to open the page. Its address is told either way, and can be used once.
    say : callable
        Is told the address, and when the page ends.

    Raises
    ------
    FileProblem
        When there is no such file, or it is neither.
    MissingExtra
        When Starlette, Uvicorn or Jinja2 is not installed.
    """
    try:
        import jinja2  # noqa: F401
        import starlette  # noqa: F401
        import uvicorn
    except ImportError:
        raise MissingExtra("the page needs Starlette, Uvicorn and Jinja2", "app") from None
    from discreet.app.access import Access
    from discreet.app.steps import Steps, opener_text
    from discreet.app.workspace import Workspace

    workspace = Workspace(path)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        tempfile.TemporaryDirectory(prefix="discreet-") as scratch,  # which only its owner can read
    ):
        access = Access(listener.getsockname()[1])
        steps = Steps(workspace, access, Path(scratch))
        server: Any = None

        def end() -> None:
            server.should_exit = True

        application = application_of(steps, access, end)
        quiet: dict[str, Any] = {"access_log": False, "log_level": "warning", "server_header": False}
        plain: dict[str, Any] = {"ws": "none", "http": "h11", "proxy_headers": False, "backlog": 16}
        server = uvicorn.Server(uvicorn.Config(application, **quiet, **plain, timeout_graceful_shutdown=1))
        say(f"The page is at {access.address}#{access.token}")
        say("This address can be used once. Close the page, or press Ctrl-C, to end.")
        if open_browser:
            opener = Path(scratch) / "open.html"
            with together(opener, inputs=(), private=True) as (file,):
                file.write(opener_text(access.address, access.token).encode())
            # a browser of the terminal ends when it is closed, and the server is to answer until then
            threading.Thread(target=webbrowser.open, args=(opener.as_uri(),), daemon=True).start()
        with _ended_by_signals(end):
            try:
                server.run(sockets=[listener])
            finally:
                steps.jobs.interrupt()  # also where a second Ctrl-C left no time for more
    say("The page has ended.")


@contextmanager
def _ended_by_signals(end: Callable[[], None]) -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a terminal that is closed, end the server and clear up."""

    def leave(number: int, _: Any) -> None:
        end()
        if number == signal.SIGTERM:  # the server has handled it, and says so again
            raise SystemExit(128 + number)

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = [signal.signal(number, leave) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def application_of(steps: Any, access: Any, end: Callable[[], None]) -> Any:
    """Return the application: its pages, and what stands before them; ``end``: called when all windows are closed."""
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import RedirectResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route

    from discreet.app.access import Guard
    from discreet.app.steps import Unfinished

    async def alive(_: Request) -> StreamingResponse:
        """Keep a stream open as long as a window is."""

        async def beats() -> AsyncIterator[str]:
            steps.windows += 1
            try:
                while True:
                    yield ": \n\n"
                    await asyncio.sleep(_BEAT)
            finally:
                steps.windows -= 1

        return StreamingResponse(beats(), media_type="text/event-stream")

    async def watch() -> None:
        """End where no window has been open for a while, and no command runs."""
        seen, lonely = False, 0.0
        while True:
            await asyncio.sleep(1.0)
            seen |= steps.windows > 0
            busy = not seen or steps.windows or steps.jobs.running
            lonely = 0.0 if busy else lonely + 1.0
            if lonely >= _LONELY:
                end()
                return

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        watcher = asyncio.create_task(watch())
        yield
        watcher.cancel()
        await steps.jobs.end()

    both = ["GET", "POST"]
    pages = [
        Route("/alive", alive),
        Route("/home", steps.home),
        Route("/declare", steps.declare, methods=both),
        Route("/declare/check", steps.declare, methods=["POST"]),
        Route("/check", steps.check, methods=both),
        Route("/plan", steps.plan, methods=both),
        Route("/release", steps.release, methods=both),
        Route("/ledger", steps.ledger, methods=["POST"]),
        Route("/read/{name}", steps.read),
        Route("/read/{name}/report", steps.report, methods=["POST"]),
        Route("/read/{name}/question", steps.question, methods=["POST"]),
        Route("/read/{name}/verify", steps.verify, methods=["POST"]),
        Route("/jobs/{number:int}", steps.job),
        Route("/jobs/{number:int}/facts", steps.job_facts),
        Route("/jobs/{number:int}/page", steps.job_page),
        Route("/jobs/{number:int}/cancel", steps.cancel, methods=["POST"]),
    ]
    routes = [
        Route("/", steps.entrance),
        Route("/enter", steps.enter, methods=["POST"]),
        Route("/app.css", steps.style),
        Route("/app.js", steps.script),
        Mount(access.base, routes=pages),
    ]

    async def wait(request: Request, unfinished: Any) -> Response:
        """Show the command that a page waits for; or the page, where it has ended since."""
        page: Response = RedirectResponse(request.url.path, status_code=303)
        if unfinished.job.running:
            page = steps.progress(unfinished.job)
        return page

    guard, waits = [Middleware(Guard, access=access)], {Unfinished: wait}
    return Starlette(routes=routes, middleware=guard, exception_handlers=waits, lifespan=lifespan)
