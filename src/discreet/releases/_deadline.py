"""A limit on how long a recomputation may take: what a certificate claims may be dear to check, whoever wrote it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from discreet._core.checks import real
from discreet._core.errors import Refused
from discreet._core.text import as_written

SECONDS = 60.0
"""How long verifying takes at most, unless more time is given."""


class _Late(BaseException):
    """Time is up; no handler of errors in between takes it for one of its own."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Stop what is done in the block after some time.

    Nothing is stopped outside of the main thread, on systems without interval timers (Windows), and where a timer of
    the caller's is running already. Raises Refused when time is up.

    ``seconds``: positive; infinity sets no limit.
    """
    if real("seconds", seconds, above=0, infinite=True) > 1e6 or not _can_stop():
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    late = False
    try:
        yield
    except _Late:
        late = True
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    if late:
        raise Refused(f"recomputing the claims takes longer than {as_written(seconds)} s. Allow more seconds")


def _can_stop() -> bool:
    here = threading.current_thread() is threading.main_thread()
    return here and hasattr(signal, "setitimer") and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
