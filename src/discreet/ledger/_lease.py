"""Who works on an entry: a process of a machine that was started once. Clocks play no part in it."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def lease() -> dict[str, Any]:
    """Return what names this process among all that ever run on its machine."""
    pid = os.getpid()
    return {"machine": platform.node(), "boot": _boot(), "process": pid, "started": _started(pid)}


def holder(held: Mapping[str, Any]) -> Literal["alive", "dead", "elsewhere"]:
    """Return whether the process of a lease works on, as far as this machine can tell.

    Where the system does not tell when a process was started, one that got the number of a dead one counts as alive.
    """
    boot, process = held.get("boot"), held.get("process")
    if held.get("machine") != platform.node():
        return "elsewhere"
    if boot != _boot():
        return "dead"
    if not isinstance(process, int) or not _runs(process):
        return "dead"
    return "alive" if held.get("started") == _started(process) else "dead"


def _boot() -> str | None:
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _started(process: int) -> str | None:
    """Return when a process was started, in ticks since the machine was; None where the system does not say."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:  # a process that ended and was not waited for
        state = (
            Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[0]
        )
    except OSError:
        return True
    return state not in {"Z", "X"}
