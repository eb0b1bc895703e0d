"""Which files were released from under which names: a custodian's own notes, to notice one table under two names.

A file is known by an HMAC of its bytes under a key that never leaves these notes. A plain hash could be tested against
guesses of the table by whoever reads it; this one cannot without the key. The notes are confidential (mode 0600), they
are no part of a ledger, and nothing of them is exported.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
from pathlib import Path
from typing import Any

from discreet._core.errors import FileProblem
from discreet._core.reading import read_json
from discreet._core.writing import file_sha256, locked, together

_VERSION = 1


def also_named(notes: str | os.PathLike[str], data: str | os.PathLike[str], name: str) -> list[str]:
    """Note that a file goes by a name, and return the other names that it goes by.

    ``notes``: the custodian's own; made where there are none.
    ``data``: confidential.
    ``name``: of the data set.

    Raises FileProblem when one of the files cannot be read, or the notes are something else.
    """
    path = Path(notes)
    with locked(path):
        held = _read(path)
        mark = hmac.new(bytes.fromhex(held["key"]), bytes.fromhex(file_sha256(data)), "sha256").hexdigest()
        names = held["names"].setdefault(mark, [])
        if name not in names:
            names.append(name)
            with together(path, inputs=(data,), private=True, held=True) as (file,):
                file.write(json.dumps(held, indent=2).encode())
    return [other for other in names if other != name]


def _read(path: Path) -> dict[str, Any]:
    if not os.path.lexists(path):
        return {"discreet_fingerprints": _VERSION, "key": secrets.token_hex(32), "names": {}}
    found = read_json(path, remedy="name the notes that discreet keeps, or a file that does not exist")
    names, key = found.get("names"), found.get("key")
    texts = isinstance(names, dict) and all(isinstance(each, list) for each in names.values())
    if found.get("discreet_fingerprints") != _VERSION or not texts or not isinstance(key, str) or len(key) != 64:
        raise FileProblem(path, "it does not hold fingerprints", "name another file")
    return found
