"""What a release may replace: another release, whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.text import harmless
from discreet._core.writing import file_sha256, recover
from discreet.releases._certificate import Certificate


def require_whole_pair(path: Path, where: Path) -> None:
    """Refuse to replace anything but a table together with its own certificate. A dead write is settled first.

    Raises FileProblem when one of them exists without the other, the certificate is that of another table, or it is
    none.

    ``path``, ``where``: where a table and its certificate are to go.
    """
    for one in (path, where):
        recover(one)
    table, certificate = os.path.lexists(path), os.path.lexists(where)
    if not certificate:
        if table:
            raise _foreign(path, f"it exists without {where.name}, and only a table with its certificate is replaced")
        return
    stated = _released(where)
    if table and stated.get("sha256") == file_sha256(path):
        return
    of = stated.get("file")
    if isinstance(of, str) and of != path.name:
        raise _foreign(where, f"it is the certificate of {harmless(of)}, which cannot be verified without it")
    if not table:
        raise _foreign(where, f"it exists without {path.name}, and only a table with its certificate is replaced")
    raise _foreign(where, f"it exists and is not the certificate of {path.name if stated else 'a release'}")


def _released(where: Path) -> Mapping[str, Any]:
    """Return what a certificate says of the table that it is of, nothing where it is none."""
    try:
        stated = Certificate.read(where).facts["released"]
    except (FileProblem, KeyError):
        return {}
    return stated if isinstance(stated, Mapping) else {}


def _foreign(path: Path, problem: str) -> FileProblem:
    return FileProblem(path, problem, "give another name (out=... or certificate=...)")
