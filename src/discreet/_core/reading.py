"""Reading small files that anybody may have written: domains, certificates, settings.

Nothing is believed before it is bounded: the bytes of a file before it is parsed, its nesting and the digits of its
numbers before anything is built from it, the columns and cells of a declaration before they are allocated. Whatever is
beyond a bound is refused like any other bad input.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import math
import os
import re
import signal
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from discreet._core.errors import DomainError, FileProblem, Refused, real
from discreet._core.text import as_written

MOST_BYTES = 2**24
"""Bytes of a domain, a certificate or another text that is parsed whole: 16 MiB."""

MOST_COLUMNS = 2**14
"""Columns of a declared table; an image of 64 by 64 pixels in three colours has 12,288."""

MOST_CELLS = 2**22
"""Cells that are cut and so held in memory, in all columns of a declaration together.

The values of an integer, a date or another column of exact points are not held, unless they are cut into cells.
"""

MOST_DIGITS = 40
"""Digits of a whole number."""

DEPTH = 32
"""Lists and tables inside one another."""

_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_MARKS |= dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16")  # UTF-32 begins with the first of them
_PART = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:{_PART}){{{DEPTH}}}")
_PARTS = re.compile(rf"(?:{_PART})+")
_NAME = re.compile(r"(?m)^ *(?:\[columns\.(.+)\]|([^\s{\[#=][^=\n]*?) *=)")


def bounded_text(path: str | os.PathLike[str], *, missing: str, remedy: str) -> str:
    """Return the text of a file of at most :data:`MOST_BYTES`: UTF-8, unless a byte order mark says otherwise."""
    # Raises FileProblem when there is no such file (missing says what to do), or it cannot be read (remedy).
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise FileProblem(path, "it cannot be read: there is no such file", missing) from None
    except (OSError, ValueError, TypeError):  # a NUL character in the path, or what is no path
        raise FileProblem(path, "it cannot be read", remedy) from None
    if len(raw) > MOST_BYTES:
        raise FileProblem(path, f"it has more than {MOST_BYTES:,} bytes", "give a smaller file")
    try:
        return raw.decode(encoding_of(raw))
    except UnicodeDecodeError:
        remedy = remedy if b"\0" in raw else "save it as UTF-8"
        raise FileProblem(path, "it cannot be read as UTF-8 text", remedy) from None


def encoding_of(head: bytes, otherwise: str = "utf-8") -> str:
    """Return the encoding that a byte order mark at the beginning of a file tells."""
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    return otherwise


def parsed_toml(text: str, *, what: str = "the domain") -> dict[str, Any]:
    """Parse TOML. Raises DomainError when it is not TOML, or beyond a bound of this module; it says what is wrong."""
    if len(text) > MOST_BYTES:
        raise DomainError(f"{what} has more than {MOST_BYTES:,} characters")
    if _LONG_KEY.search(text):  # the parser's time goes with the square of the parts of a key
        raise DomainError(f"{what} holds a key of more than {DEPTH} parts")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        remedy, names = "", [name for name in _NAME.findall(text) if not _PARTS.fullmatch("".join(name) + ".")]
        for head, key in names[:1]:
            quoted = json.dumps(head or key, ensure_ascii=False)
            remedy = ". Quote the name: " + (f"[columns.{quoted}]" if head else quoted)
        raise DomainError(f"{what} is not valid TOML: {problem}{remedy}") from None
    except RecursionError:
        raise DomainError(f"{what} is nested deeper than {DEPTH} tables") from None
    except (ValueError, OverflowError):  # a number of thousands of digits, a date that there is not
        raise DomainError(f"{what} is not valid TOML, since a number or a date is out of range") from None
    if excess := _beyond_bounds(document):
        raise DomainError(f"{what} {excess}")
    return document


def read_json(path: str | os.PathLike[str], *, remedy: str) -> dict[str, Any]:
    """Read a JSON object. Raises FileProblem when the file holds none, or is beyond a bound of this module."""
    # None is what names a key twice, or holds a number that is not finite or a text that is not Unicode.

    def finite(text: str) -> float:
        if not math.isfinite(number := float(text)):  # NaN, Infinity, or 1e999
            raise ValueError(text)
        return number

    def from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) != len(pairs):
            raise ValueError  # which of the two is meant?
        return dict(pairs)

    text = bounded_text(path, missing=remedy, remedy=remedy)
    try:
        document = json.loads(text, parse_float=finite, parse_constant=finite, object_pairs_hook=from_pairs)
    except (ValueError, RecursionError):
        raise FileProblem(path, "it is not JSON", remedy) from None
    if not isinstance(document, dict):
        raise FileProblem(path, "it is not a JSON object", remedy)
    if excess := _beyond_bounds(document):
        raise FileProblem(path, f"it {excess}", remedy)
    return document


def _beyond_bounds(document: Any) -> str | None:
    """Return what of a parsed document is beyond a bound, in words; None where nothing is."""
    level, depth = [document], 0
    while level:
        if depth > DEPTH:
            return f"is nested deeper than {DEPTH} lists and tables"
        parts: list[Any] = []
        for item in level:
            if isinstance(item, int) and abs(item) >= 10**MOST_DIGITS:
                return f"holds a number of more than {MOST_DIGITS} digits"
            if isinstance(item, str) and not item.isascii() and re.search("[\ud800-\udfff]", item):
                return "holds a text that is not valid Unicode"
            if isinstance(item, Mapping):
                parts += [*item, *item.values()]
            elif isinstance(item, list):
                parts += item
        level, depth = parts, depth + 1
    return None


def first_wrong(document: Any, shape: Mapping[str, Any], place: str) -> str | None:
    """Return the first field of a shape that is missing or of the wrong kind, with its place in front of it."""
    if not isinstance(document, Mapping):
        return place.rstrip(".") or "the document"
    for key, kinds in shape.items():
        where = f"{place}{key}"
        if key not in document:
            return where
        if isinstance(kinds, Mapping):
            if (wrong := first_wrong(document[key], kinds, f"{where}.")) is not None:
                return wrong
        elif not isinstance(document[key], kinds) or isinstance(document[key], bool):
            return where
    return None


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal. Raises FileProblem when it cannot be read."""
    try:
        with open(path, "rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:
        raise FileProblem(path, reason(error, "it cannot be read"), "check the path and its permissions") from None


def reason(error: BaseException, otherwise: str) -> str:
    """Return what is wrong, with the reason of the system where an error has one; no other text of it is repeated."""
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return f"{otherwise} ({os.strerror(number).lower()})"
    reasons = ("no space left on device", "file too large", "permission denied", "disk quota exceeded")
    return next((f"{otherwise} ({words})" for words in reasons if words in str(error).lower()), otherwise)


def same_file(a: Path, b: Path) -> bool:
    """Return whether two paths lead to one file, through links too."""
    with suppress(OSError, ValueError):
        return a.samefile(b)
    with suppress(OSError, ValueError, RuntimeError):  # a loop of links
        return a.resolve() == b.resolve()
    return False


SECONDS = 60.0
"""How long recomputing a certificate takes at most, unless more time is given."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Stop what is done in the block after some time. Raises Refused when time is up."""
    # Nothing is stopped outside of the main thread, without interval timers (Windows), or where one is running already.
    main_thread = threading.current_thread() is threading.main_thread()
    can_stop = main_thread and hasattr(signal, "setitimer") and signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    if real("seconds", seconds, above=0, infinite=True) > 1e6 or not can_stop:
        yield
        return

    class Late(BaseException):
        """Time is up; no handler of errors in between takes it for one of its own."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Late

    handler = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except Late:
        raise Refused(f"recomputing the claims takes longer than {as_written(seconds)} s. Allow more seconds") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, handler)
