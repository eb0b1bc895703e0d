"""Whether released files are those of a certificate, and hold nothing that its domain does not have."""

from __future__ import annotations

import csv
import datetime
import hashlib
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from verify_certificate.arithmetic import AGREES, CANNOT, WRONG, Check


def files(document: dict[str, Any], data: Path | None) -> Iterator[Check]:
    """Compare the released file, or the tables of a folder, with their hashes, and text files with the domain."""
    released = document.get("released", document)
    for table in released.get("tables") or [released] if data else []:
        path = data / str(table["file"]) if data.is_dir() else data
        if table.get("sha256") is None or not path.is_file():
            yield Check("released.sha256", CANNOT, f"there is no file {path.name}, or no hash of it")
            continue
        with path.open("rb") as file:
            fits = hashlib.file_digest(file, "sha256").hexdigest() == table["sha256"]
        said = "as stated" if fits else "another file, or changed"
        yield Check("released.sha256", AGREES if fits else WRONG, f"{path.name}: {said}")
        if path.suffix == ".csv":
            yield from _texts(path, table, document)


def _texts(path: Path, table: dict[str, Any], document: dict[str, Any]) -> Iterator[Check]:
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = [row or [""] for row in csv.reader(file)]  # a null alone is an empty line
    fits = header == document["released"]["columns"]
    yield Check("released.columns", AGREES if fits else WRONG, f"{path.name}: {', '.join(header)}")
    fits = len(rows) == table["rows"]
    yield Check("released.rows", AGREES if fits else WRONG, f"{path.name}: {len(rows)} rows, stated {table['rows']}")
    for name, column in document["domain"]["columns"].items():
        bounds = [end for end in (f"{name}_from", f"{name}_to", name) if end in header]
        stray = sum(not _held(row[header.index(end)], column) for row in rows for end in bounds)
        said = f"{name}: {stray} of {len(rows)} values are outside" if stray else f"{name}: all values are within"
        yield Check("released values", WRONG if stray else AGREES, said)


SPANS = {
    "w": datetime.timedelta(weeks=1),
    "d": datetime.timedelta(days=1),
    "h": datetime.timedelta(hours=1),
    "m": datetime.timedelta(minutes=1),
    "s": datetime.timedelta(seconds=1),
    "ms": datetime.timedelta(milliseconds=1),
    "us": datetime.timedelta(microseconds=1),
}


def _span(text: str) -> datetime.timedelta:
    """Read a duration such as ``1d2h30m`` or ``-90s``."""
    parts = re.findall(r"(\d+)(ms|us|[wdhms])", text)
    if not parts or "".join(map("".join, parts)) != text.removeprefix("-"):
        raise ValueError(text)
    return sum((int(count) * SPANS[unit] for count, unit in parts), datetime.timedelta()) * (-1) ** text.startswith("-")


READ: dict[str, Callable[[Any], Any]] = {
    "integer": lambda text: int(str(text)),
    "numeric": lambda text: Fraction(str(text)),
    "decimal": lambda text: Fraction(str(text)),
    "date": lambda text: datetime.date.fromisoformat(str(text)),
    "datetime": lambda text: datetime.datetime.fromisoformat(str(text)),
    "duration": lambda text: _span(str(text)),
}


def _held(text: str, column: dict[str, Any]) -> bool:
    """Return whether a text is a value that the domain declares; open labels may be any."""
    kind = column["type"]
    if text == "":
        return column.get("nulls") == "category" or "" in column.get("categories", ())
    if kind in {"category", "boolean"}:
        return text in column.get("categories", ("true", "false"))
    if kind not in READ:
        return True
    if kind == "decimal" and len(text.partition(".")[2]) != column.get("digits", 0):
        return False
    try:
        low, value, high = map(READ[kind], (column["lower"], text, column["upper"]))
        stepped = kind in {"datetime", "duration"}
        return low <= value <= high and not (stepped and (value - low) % _span(column["step"]))
    except ValueError:
        return False
