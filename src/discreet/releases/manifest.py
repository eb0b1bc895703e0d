"""A release in parts: a folder of Parquet files, the list of them with their hashes, and the certificate of that list.

The certificate holds the SHA-256 of ``_manifest.json``, which holds that of every part. Names that start with an
underscore are passed over by whatever reads a folder of Parquet files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize
from urllib.parse import unquote

from discreet._core import formats
from discreet._core.boundary import quietly
from discreet._core.errors import FileProblem, ParameterError
from discreet._core.lazy import pl
from discreet._core.reading import file_sha256, first_wrong, read_json
from discreet._core.text import counted
from discreet.domain import Domain
from discreet.releases.certificate import PARTS_CERTIFICATE, Certificate
from discreet.releases.writing import IDENTITY_KEY, durations_as_texts

# The names of folders that hold the value of a column: ``COLUMN=value``, escaped as Hive does.

_NULL = "__HIVE_DEFAULT_PARTITION__"
_SPECIAL = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(32)))
MOST_LABELS = 1000
_LONGEST = 200  # bytes of a name


def folders_of(domain: Domain, name: str) -> dict[Any, str]:
    """Return the name of the folder of each value of a declared column, as it is stored. Raises ParameterError."""
    column = domain.columns.get(name)
    if column is None:
        raise ParameterError(f"partition_by must be a declared column, got {name!r}")
    if name.startswith((".", "_")):
        raise ParameterError(
            f"partition_by: programs ignore folders whose names begin like {name!r}. Rename the column"
        )
    cells = column.size
    if cells is None or cells > MOST_LABELS:
        had = "any number of values" if cells is None else counted(cells, "cell")
        raise ParameterError(
            f"partition_by must be a column of at most {MOST_LABELS:,} values, but {name!r} has {had}. "
            "Name another column"
        )
    import numpy as np

    from discreet._core.random import seeded

    codes = np.arange(cells)
    if len(domain.columns) == 1:
        raise ParameterError(
            f"partition_by: {name!r} is the only column, and its files would have none. Leave partition_by out"
        )
    if column.interval(codes) is not None:
        raise ParameterError(
            f"partition_by must be a column of single values, but {name!r} has cells that hold several values. "
            "Name another column"
        )
    values = column.decode(codes, rng=seeded(0)).alias(name).to_frame()
    texts = durations_as_texts(values)[name].cast(pl.String).to_list()
    folders = [f"{escaped(name)}={_NULL if text is None else escaped(text)}" for text in texts]
    reserved = any(text in ("", _NULL) for text in texts)
    # File systems exist that tell neither capitals nor ways of composing a letter apart.
    alike = {normalize("NFC", normalize("NFC", folder).casefold()) for folder in folders}
    if reserved or len(alike) < len(folders):
        raise ParameterError(
            f"partition_by: values of {name!r} cannot be told apart as names of folders. Name another column"
        )
    if any(len(folder.encode()) > _LONGEST for folder in folders):
        raise ParameterError(
            f"partition_by: a value of {name!r} is too long for the name of a folder. Name another column"
        )
    return dict(zip(values[name].to_physical(), folders, strict=True))


def escaped(text: str) -> str:
    """Return a text with every character percent-encoded that Hive encodes in names.

    Examples
    --------
    >>> escaped("a/b=c")
    'a%2Fb%3Dc'
    """
    return "".join(f"%{ord(character):02X}" if character in _SPECIAL else character for character in text)


MANIFEST = "_manifest.json"
_VERSION = 1
_PART: dict[str, Any] = {"file": (str,), "rows": (int,), "sha256": (str,)}
_REMEDY = "get the folder again, whole, from where it was released"


@dataclass(frozen=True, slots=True)
class Part:
    """One file of a release in parts: its name in the folder, its number of rows and its SHA-256."""

    file: str
    rows: int
    sha256: str


def manifest(parts: list[Part], partition_by: str | None) -> bytes:
    """Return the text of a manifest."""
    facts = {"discreet_manifest": _VERSION, "partition_by": partition_by, "parts": list(map(asdict, parts))}
    return (json.dumps(facts, indent=1) + "\n").encode()


def parts_of(folder: Path, certificate: Certificate) -> list[Part]:
    """Return the parts that a certificate's manifest lists. Raises FileProblem where it is that of another one."""
    file = folder / MANIFEST
    if not file.is_file():
        raise FileProblem(folder, f"{MANIFEST} is missing from it", _REMEDY)
    if file_sha256(file) != certificate.tables[0].sha256:
        raise FileProblem(folder, f"{MANIFEST} is not the file that its certificate was written for", _REMEDY)
    facts = read_json(file, remedy=_REMEDY)
    listed = facts.get("parts")
    if facts.get("discreet_manifest") != _VERSION or not isinstance(listed, list) or not listed:
        raise FileProblem(folder, f"{MANIFEST} is not a manifest of version {_VERSION}", "update discreet")
    parts = []
    for place, entry in enumerate(listed):
        if (wrong := first_wrong(entry, _PART, f"parts[{place}].")) is not None or not _within(entry["file"]):
            raise FileProblem(folder, f"{MANIFEST}: {wrong or 'a name'} is missing or of the wrong kind", _REMEDY)
        parts.append(Part(entry["file"], entry["rows"], entry["sha256"]))
    if len({part.file.casefold() for part in parts}) < len(parts):
        raise FileProblem(folder, f"{MANIFEST} lists a part twice", _REMEDY)
    return parts


def _within(name: str) -> bool:
    """Return whether a name is that of a Parquet file in a folder, or in one folder below it, on any system."""
    places = name.split("/")
    return len(places) <= 2 and all(part and not _hidden(part) for part in places) and not set(name) & set("\0\\:")


def problems(folder: Path, parts: list[Part], certificate: Certificate) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each part, and of each file that is none, with what is wrong with it; None where nothing is."""
    files = {part.sha256: part.file for part in parts}
    for part in parts:
        yield part.file, _problem(folder / part.file, part, files, certificate.identity)
    for name in sorted(_readable(folder) - {part.file for part in parts}):
        copied = files.get(file_sha256(folder / name)) if (folder / name).is_file() else None
        yield name, "it is not part of the release" + ("" if copied is None else f", but a copy of {copied}")


def _problem(file: Path, part: Part, files: dict[str, str], identity: Any) -> str | None:
    if not file.is_file():
        return "it is missing from the folder"
    if (sha256 := file_sha256(file)) != part.sha256:
        copied = files.get(sha256)
        return "it is not the file that was written" + ("" if copied is None else f", but holds {copied}")
    broken = FileProblem(file, "it is not a readable Parquet file", _REMEDY)
    metadata, rows = quietly(lambda: (formats.texts(file, formats.PARQUET), formats.parquet_rows(file)), broken)
    if metadata.get(IDENTITY_KEY) != identity:
        return "it is from another release than the certificate"
    return None if rows == part.rows else "it has another number of rows than its list says"


def _readable(folder: Path) -> set[str]:
    """Return the names of all files, and links to folders, that any reader of the folder would take for parts."""
    readable = set()  # some readers pass over hidden names, others read every Parquet file; some follow links
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        subfolder = Path(place).relative_to(folder)
        hidden = any(map(_hidden, subfolder.parts))
        for name in [*names, *links]:
            if name in links or name.casefold().endswith(".parquet") or not (hidden or _hidden(name)):
                readable.add((subfolder / name).as_posix())
    return readable


def _hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def require_parts(folder: Path, certificate: Certificate) -> None:
    """Refuse a folder that is not, part by part, what its certificate was written for. Raises FileProblem."""
    for name, problem in problems(folder, parts_of(folder, certificate), certificate):
        if problem is not None:
            raise FileProblem(folder, f"{name}: {problem}", _REMEDY)


def scanned_parts(folder: Path) -> pl.LazyFrame:
    """Scan the parts of a folder in order; columns in the names of folders are texts. Raises FileProblem."""
    if not (folder / PARTS_CERTIFICATE).is_file():
        raise FileProblem(folder, "it is a folder, but not a release in parts", "give the file of the release")
    certificate = Certificate.read(folder)
    broken = FileProblem(folder, "one of its parts cannot be read", _REMEDY)
    scans = []
    for part in parts_of(folder, certificate):
        scan = quietly(lambda file=folder / part.file: formats.scanned(file, formats.PARQUET), broken)  # type: ignore[misc]
        for key, _, value in (folder.partition("=") for folder in part.file.split("/")[:-1]):
            text = None if value == _NULL else unquote(value)
            scan = scan.with_columns(pl.lit(text, pl.String).alias(unquote(key)))
        scans.append(scan)
    return pl.concat(scans).select(certificate.facts.released.columns)
