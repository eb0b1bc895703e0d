"""Commands that run beside the page, each in a process of its own, with their progress and what they said."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_PROGRAM = "from discreet.cli import main; main()"


@dataclass(slots=True)
class Job:
    """A command that was started: ``arguments`` without the name of the program."""

    number: int
    title: str
    arguments: tuple[str, ...]
    folder: Path
    page: Path | None = None  # that it writes, to be shown when it is done
    confidential: bool = False
    next_address: str = ""  # where one goes on
    back: str = "/home"  # where it was asked for
    python: str = ""  # the same in Python
    form: Mapping[str, str] = field(default_factory=dict)  # that asked for it
    done: int = 0
    total: int = 0
    out: str = ""
    err: str = ""
    text: str = ""  # of the page that it wrote, which is not left on the disk
    status: int | None = None
    process: Any = field(default=None, repr=False)
    task: Any = field(default=None, repr=False)

    @property
    def command(self) -> str:
        """The command, as one writes it in a shell; a page of its own has a name that may be copied."""
        name = f"{self.arguments[0]}.html"
        if self.confidential:  # never that of a public one
            name = "confidential.html"
        shown = [name if self.page is not None and part == str(self.page) else part for part in self.arguments]
        return shlex.join(["discreet", *shown])

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.status is None

    def facts(self) -> dict[str, Any]:
        """Return what the page shows of it."""
        names = ("number", "title", "command", "done", "total", "status", "out", "err", "running", "confidential")
        return {name: getattr(self, name) for name in names} | {"next": self.next_address}

    def document(self) -> Any:
        """Return its answer, where it was asked for JSON."""
        with contextlib.suppress(ValueError):
            return json.loads(self.out)
        return None


class Jobs:
    """All commands of a page."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._jobs = folder, dict[int, Job]()

    def __getitem__(self, number: int) -> Job:
        """Return one. Raises KeyError where there is none."""
        return self._jobs[number]

    @property
    def running(self) -> list[Job]:
        """Those that have not ended."""
        return [job for job in self._jobs.values() if job.running]

    async def start(self, title: str, arguments: Sequence[str], **facts: Any) -> Job:
        """Start a command in the folder of the page."""
        job = Job(len(self._jobs) + 1, title, tuple(arguments), self.folder, **facts)
        self._jobs[job.number] = job
        try:
            job.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-c",
                _PROGRAM,
                *job.arguments,
                cwd=self.folder,
                env={**os.environ, "DISCREET_PROGRESS": "lines", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # Ctrl-C in the terminal is for the page, which ends them itself
            )
        except (OSError, ValueError):  # a NUL character, or more than a command may have
            job.status, job.err = 2, "The command could not be started. Shorten what you typed.\n"
        else:
            job.task = asyncio.create_task(_follow(job))
        return job

    async def wait(self, job: Job, seconds: float | None = None) -> Job:
        """Wait for the end of a command, but no longer than so many seconds."""
        if job.task is not None:
            await asyncio.wait([job.task], timeout=seconds)
        return job

    def interrupt(self) -> None:
        """Interrupt all commands, as Ctrl-C does."""
        for job in self.running:
            interrupt(job)

    async def end(self) -> None:
        """Interrupt all commands, and wait for them."""
        self.interrupt()
        for job in self.running:
            await self.wait(job, 10)
            if job.running and job.process is not None:
                job.process.kill()


def interrupt(job: Job) -> None:
    """Interrupt a command: it says what it cost, and leaves nothing half-written."""
    if job.running and job.process is not None:
        with contextlib.suppress(ProcessLookupError):
            job.process.send_signal(signal.SIGINT)


async def _follow(job: Job) -> None:
    """Read what a command says until it ends."""

    async def errors() -> None:
        decoder, rest = codecs.getincrementaldecoder("utf-8")(errors="replace"), ""
        while data := await job.process.stderr.read(2**16):  # a line may be longer than what asyncio reads of one
            *lines, rest = (rest + decoder.decode(data)).split("\n")
            for line in lines:
                if progress := re.fullmatch(r"progress (\d+) (\d+)", line):
                    job.done, job.total = map(int, progress.groups())
                else:
                    job.err += f"{line}\n"
        job.err += rest

    try:
        out, _ = await asyncio.gather(job.process.stdout.read(), errors())
        job.out = out.decode(errors="replace")
        if job.page is not None and job.page.is_file():
            job.text = await asyncio.to_thread(job.page.read_text, encoding="utf-8")
            job.page.unlink()
    finally:
        job.status = await job.process.wait()
