"""Writing declarations as TOML."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from discreet._core.errors import DomainError
from discreet._core.text import with_article

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}


def write(spec: Mapping[str, Any]) -> str:
    """Write a domain's plain data as TOML: one table per column, and one per entry of a list."""
    lines: list[str] = []
    for name, part in spec.items():
        if name == "columns":
            for column, facts in part.items():
                lines += ["", f"[columns.{key(column)}]", *(f"{key(k)} = {value(v)}" for k, v in facts.items())]
        elif isinstance(part, list):
            for entry in part:
                lines += ["", f"[[{key(name)}]]", *(f"{key(k)} = {value(v)}" for k, v in entry.items())]
        else:
            lines += ["", f"[{key(name)}]", *(f"{key(k)} = {value(v)}" for k, v in part.items())]
    return "\n".join(lines[1:]) + "\n"


def key(name: str) -> str:
    """Write a key, quoted where it has to be."""
    return name if name and _BARE.issuperset(name) else _quoted(name)


def value(item: Any) -> str:
    """Write a value: text, truth value, number, date, datetime, list or inline table."""
    match item:
        case str():
            return _quoted(item)
        case bool():
            return "true" if item else "false"
        case int() | float():
            return repr(item)
        case dt.datetime() | dt.date():
            return item.isoformat()
        case Mapping():
            return "{" + ", ".join(f"{key(k)} = {value(v)}" for k, v in item.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(value(part) for part in item) + "]"
    raise DomainError(f"{with_article(type(item).__name__)} cannot be written as TOML")


def _quoted(text: str) -> str:
    return '"' + "".join(_ESCAPES.get(c) or (f"\\u{ord(c):04X}" if c < " " or c == "\x7f" else c) for c in text) + '"'
