"""A page as a process of its own, and a browser without a window that talks to it."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode


@dataclass
class Browser:
    """One that talks to a page, with its cookie."""

    process: subprocess.Popen[str]
    port: int
    token: str
    cookie: str = ""
    given: str = ""  # the header that sets it
    base: str = ""  # the path of all pages but the first
    headers: dict[str, str] = field(default_factory=dict)

    def ask(self, path: str, fields: dict[str, str] | None = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        """Get a page, or send a form; names of headers have _ in place of -."""
        sent = {"Origin": f"http://127.0.0.1:{self.port}"} if fields is not None else {}
        sent |= {"Cookie": self.cookie} if self.cookie else {}
        sent |= {name: text for name, text in self.headers.items() if name != "Origin" or fields is not None}
        sent |= {name.replace("_", "-"): text for name, text in headers.items()}
        body = None if fields is None else urlencode(fields)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            path = path if path in ("/", "/enter") or path.startswith(self.base or "?") else self.base + path
            connection.request("GET" if fields is None else "POST", path, body, {k: v for k, v in sent.items() if v})
            answer = connection.getresponse()
            headers_back = {name.lower(): text for name, text in answer.getheaders()}
            text = answer.read().decode()
        if fields is None and "/jobs/" not in path and 'data-running="yes"' in text:  # of a command that it waits for
            time.sleep(0.1)
            return self.ask(path, **headers)
        if fields is None and answer.status == 303 and headers_back["location"] == path:  # it has ended since
            return self.ask(path, **headers)
        return answer.status, text, headers_back

    def enter(self) -> int:
        """Exchange the token for the cookie."""
        status, text, headers = self.ask("/enter", {"token": self.token})
        self.base = json.loads(text)["next"].removesuffix("/home") if status == 200 else self.base
        self.given = headers.get("set-cookie", "")
        self.cookie = self.given.partition(";")[0] or self.cookie
        return status

    def finish(self, path: str, fields: dict[str, str]) -> str:
        """Send a form that starts a command, and return its page when it has ended."""
        status, _, headers = self.ask(path, fields)
        assert status == 303
        for _ in range(600):
            text = self.ask(headers["location"].partition("#")[0])[1]
            if 'data-running="yes"' not in text:
                return text
            time.sleep(0.1)
        raise AssertionError("the command never ended")


PROGRAM = "from discreet.cli import main; main()"


def opened(path: Path, *options: str, before: str = "", **environment: str) -> Browser:
    arguments = [sys.executable, "-c", before + PROGRAM, "app", str(path), *(options or ["--no-browser"])]
    shown = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "env": {**os.environ, **environment}}
    process = subprocess.Popen(arguments, text=True, **shown)
    assert process.stdout is not None
    found = re.search(r"http://127\.0\.0\.1:(\d+)/#(\S+)", line := process.stdout.readline())
    assert found is not None, line
    return Browser(process, int(found[1]), found[2])


def closed(browser: Browser) -> None:
    browser.process.send_signal(signal.SIGINT)
    browser.process.communicate(timeout=30)
