"""Whether released files are those of a certificate, and hold nothing that its domain does not have."""

from __future__ import annotations

import csv
import datetime
import hashlib
import re
import zoneinfo
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


UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds", "ms": "milliseconds"}
SPANS = {short: datetime.timedelta(**{unit: 1}) for short, unit in {**UNITS, "us": "microseconds"}.items()}


def span(text: str) -> datetime.timedelta:
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
    "time": lambda text: datetime.datetime.fromisoformat(f"1900-01-01T{text}"),
    "duration": lambda text: span(str(text)),
}
SAME = {r"%[-_0]": "%", "%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%e": "%d", "%:z": "%z", r"%\.\d?f": ".%f"}


def _value(text: str, column: dict[str, Any]) -> Any:
    """Read a value in the notation of its column."""
    if column["type"] in {"numeric", "integer", "decimal"}:
        text = text.replace(column.get("prefix", ""), "", 1).replace(column.get("thousands") or " ", "")
        return READ[column["type"]](text.replace(column.get("decimal_mark", "."), "."))
    if "format" not in column:
        return READ[column["type"]](text)
    form = column["format"]
    for pattern, same in SAME.items():
        form = re.sub(pattern, same, form)
    moment = datetime.datetime.strptime(text, form)  # noqa: DTZ007
    if moment.tzinfo is None and "time_zone" in column:
        moment = moment.replace(tzinfo=zoneinfo.ZoneInfo(column["time_zone"]))
    return moment.date() if column["type"] == "date" else moment


def _held(text: str, column: dict[str, Any]) -> bool:
    """Return whether a text is a value that the domain declares; open labels may be any."""
    kind, null = column["type"], [*column.get("null_values", ()), ""][0]
    if text == null:
        return column.get("nulls") == "category" or null in column.get("categories", ())
    if kind in {"category", "boolean"}:
        return text in column.get("categories", (column.get("true", "true"), column.get("false", "false")))
    if kind not in READ or text in column.get("censored", ()):
        return True
    if kind == "decimal" and len(text.partition(column.get("decimal_mark", "."))[2]) != column.get("digits", 0):
        return False
    try:
        ends = column.get("lower", "00:00:00"), column.get("upper", "23:59:59.999999")
        (low, high), value = map(READ[kind], ends), _value(text, column)
        stepped = kind in {"datetime", "duration", "time"}
        return low <= value <= high and not (stepped and (value - low) % span(column["step"]))
    except ValueError:
        return False
