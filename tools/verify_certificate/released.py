"""Whether released files are those of a certificate, and hold nothing that its domain does not have."""

import csv
import datetime
import hashlib
import re
import zoneinfo
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from verify_certificate.answers import AGREES, CANNOT, WRONG, Check


def files(document: dict[str, Any], data: Path | None) -> Iterator[Check]:
    """Compare the released file, or the tables of a folder, with their hashes, and text files with the domain."""
    released, domain, texts = document.get("released", document), document["domain"], dict[int, list[list[str]]]()
    tables = list(domain.get("tables", {}).values())
    kinds = [domain["columns"], *(one["columns"] for one in tables)]  # of the files of one draw
    kinds = kinds if "units" in domain else [{name: column for kind in kinds for name, column in kind.items()}]
    for place, table in enumerate(released.get("tables") or [released] if data else []):
        path = data / str(table["file"]) if data.is_dir() else data
        if table.get("sha256") is None or not path.is_file():
            yield Check("released.sha256", CANNOT, f"there is no file {path.name}, or no hash of it")
            continue
        with path.open("rb") as file:
            fits = hashlib.file_digest(file, "sha256").hexdigest() == table["sha256"]
        yield Check("released.sha256", AGREES if fits else WRONG, f"{path.name}: {'as stated' if fits else 'another'}")
        if path.suffix == ".csv":
            with path.open(encoding="utf-8", newline="") as file:
                texts[place] = [row or [""] for row in csv.reader(file)]  # a null alone is an empty line
            columns = kinds[place % len(kinds)]
            names = [tables[0]["unit"], *columns] if tables else released["columns"]
            yield from _values(path.name, texts[place], names, columns, table["rows"])
    draws = [range(place, place + len(kinds)) for place in texts if tables and place % len(kinds) == 0]
    for first, *others in [draw for draw in draws if {*draw} <= {*texts}]:
        own, *rows = (texts[place] for place in (first, *others))
        start = first // len(kinds) * document["size"] + 1
        names = sorted(str(unit) for unit in range(start, start + document["size"]))
        for table, its_rows in zip(tables, rows or [own], strict=True):
            yield from _units(own, its_rows, table, list(domain["columns"]), names)


def _values(name: str, texts: Any, names: list[str], columns: dict[str, Any], stated: int) -> Iterator[Check]:
    """Compare the columns, the number of rows and the values of a file with what is declared."""
    header, *rows = texts
    yield Check("released.columns", AGREES if header == names else WRONG, f"{name}: {', '.join(header)}")
    yield Check("released.rows", AGREES if len(rows) == stated else WRONG, f"{name}: {len(rows)} rows of {stated}")
    for key, column in columns.items():
        bounds = [end for end in (f"{key}_from", f"{key}_to", key) if end in header]
        stray = sum(not _held(row[header.index(end)], column) for row in rows for end in bounds)
        answer = AGREES if column["type"] in {*READ, "category", "boolean", "open_labels"} else CANNOT
        yield Check("released values", WRONG if stray else answer, f"{key}: {stray} of {len(rows)} values are outside")


def _units(own: Any, rows: Any, table: dict[str, Any], columns: list[str], stated: list[str]) -> Iterator[Check]:
    """Compare the rows of units with what one may have: one of the names, its own values, so many rows."""
    places = [own[0].index(name) for name in (table["unit"], *columns)]
    units = [tuple(row[place] for place in places) for row in own[1:]]
    names = [name for name, *_ in (dict.fromkeys(units) if own is rows else units)]  # each row has its unit's values
    key, most = [rows[0].index(table["unit"])], table["max_records"]
    if table.get("slots") in table["columns"]:  # of a panel, each value of this column is one slot
        key, most = [*key, rows[0].index(table["slots"])], 1
    held = Counter(tuple(row[place] for place in key) for row in rows[1:])
    wrong = [f"a unit has more than {most} rows of its kind"] * (max(held.values(), default=0) > most)
    wrong += ["rows have no unit"] * (not {name for name, *_ in held} <= {*names})
    wrong += ["units have other names, or several values of their own"] * (sorted(names) != stated)
    yield Check("released units", WRONG if wrong else AGREES, "; ".join(wrong) or f"{len(names)}, with all rows")


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
    **dict.fromkeys(("numeric", "decimal"), lambda text: Fraction(str(text))),
    "date": lambda text: datetime.date.fromisoformat(str(text)),
    "datetime": lambda text: datetime.datetime.fromisoformat(str(text)),
    "time": lambda text: datetime.datetime.fromisoformat(f"1900-01-01T{text}"),
    "duration": lambda text: span(str(text)),
}
SAME = {r"%[-_0]": "%", "%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%e": "%d", "%:z": "%z", r"%\.\d?f": ".%f"}


def _value(text: str, column: dict[str, Any]) -> Any:
    """Read a value in the notation of its column."""
    if column["type"] in {"numeric", "integer", "decimal"}:
        text = text.replace(column.get("prefix", ""), "", 1).removesuffix(column.get("suffix", ""))
        plain = text.replace(column.get("thousands") or " ", "").replace(column.get("decimal_mark", "."), ".")
        return READ[column["type"]](plain)
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
