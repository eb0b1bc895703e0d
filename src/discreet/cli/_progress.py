"""A bar on a terminal."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_bar(total: int | None, quiet: bool, parts: str | None = None, *, after: float = 0.0) -> Any:
    """Give a callback that draws a bar of records on a terminal, or of parts where it is told how many there are.

    ``after``: seconds during which nothing is drawn yet.

    The counts it shows are public, but for chains: how often and how long they are run depends on the data, and is
    visible only to the custodian running it.
    """
    if quiet or total is None or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    bar, start = Progress(*columns, console=console, transient=True), time.monotonic() + after
    if after <= 0.0:
        bar.start()
    try:
        task = bar.add_task(parts or "records", total=total)

        def update(done: int, of: int | None = None) -> None:
            if not bar.live.is_started and time.monotonic() >= start:
                bar.start()
            if done < bar.tasks[0].completed:  # the next fit: its remaining time is its own
                bar.reset(task)
            bar.update(task, completed=done, total=of or total, description=(parts or "steps") if of else "records")

        yield update
    finally:
        bar.stop()
