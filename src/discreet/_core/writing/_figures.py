"""Figures, which say within that they are this package's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.writing._paths import OWN, require_own
from discreet._core.writing._together import together

_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": OWN},
    "svg": {"Creator": OWN, "Date": None},
    "pdf": {"Creator": OWN},
}


def save_figure(figure: Any, out: str | os.PathLike[str], *, confidential: bool, **settings: Any) -> Path:
    """Write a Matplotlib figure as PNG, SVG or PDF, as its name ends.

    Raises FileProblem when the ending is another one, or it cannot be written.
    """
    path = Path(out)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        raise FileProblem(out, "the format is not known by this ending", "end the name in .png, .svg or .pdf")
    with together(path, private=confidential, check=lambda: require_own(path)) as (file,):
        figure.savefig(file, format=kind, metadata=_METADATA[kind], **settings)
    return path
