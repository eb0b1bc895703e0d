"""One local page on which to declare, plan, release and read; the command ``discreet app``.

It computes nothing by itself: every answer comes from the command that the page shows beside it, run as a process of
its own. So whatever is done here can be done again in a shell, and gives the same release.
"""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.app.server import serve

__all__ = ["serve"]

__getattr__, __dir__ = door(__name__)
