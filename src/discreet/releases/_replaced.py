"""What a release may replace: another release, whole."""

from __future__ import annotations

import os
from pathlib import Path

from discreet._core.errors import FileProblem
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
    there = [one for one in (path, where) if os.path.lexists(one)]
    if not there:
        return
    if len(there) == 1:
        missing = where if there == [path] else path
        raise _foreign(there[0], f"it exists without {missing.name}, so it is not a release with its certificate")
    try:
        stated = Certificate.read(where).facts["released"]["sha256"]
    except (FileProblem, KeyError, TypeError):
        raise _foreign(where, "it exists and is not the certificate of a release") from None
    if stated != file_sha256(path):
        raise _foreign(where, f"it exists and is not the certificate of {path.name}")


def _foreign(path: Path, problem: str) -> FileProblem:
    return FileProblem(path, problem, "remove it yourself, or give another name")
