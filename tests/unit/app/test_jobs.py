"""Commands beside the page, as processes: none outlives it, and no message is lost."""

import asyncio
from pathlib import Path

import pytest

from discreet.app import jobs
from discreet.app.jobs import Job, Jobs


def test_a_command_whose_process_is_being_made_holds_nothing_up(tmp_path: Path) -> None:
    commands = Jobs(tmp_path)
    commands._jobs[1] = Job(1, "title", ("verify",), tmp_path)

    async def ended() -> int | None:
        job = await commands.start("title", ["--version"])
        await commands.end()
        return job.status

    assert asyncio.run(ended()) is not None


def test_a_line_of_any_length_is_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    length = 3 * 2**16 + 1
    program = f"import sys; sys.stderr.write('progress 1 2\\n' + 'x' * {length} + '\\nlast'); print('answer')"
    monkeypatch.setattr(jobs, "_PROGRAM", program)

    async def said() -> Job:
        commands = Jobs(tmp_path)
        return await commands.wait(await commands.start("title", []), 60)

    job = asyncio.run(said())
    assert (job.status, job.out, job.err) == (0, "answer\n", "x" * length + "\nlast")
    assert (job.done, job.total) == (1, 2)
