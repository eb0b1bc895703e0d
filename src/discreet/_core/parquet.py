"""A Parquet file, whose counts are looked at before a reader sets memory aside for them.

A reader that takes a page at its word asks for as much memory as a damaged header claims, and the process ends where
there is not so much. The headers are few: one per page of about a megabyte.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from discreet._core.lazy import pl

_DEPTH = 16


def scanned(path: str | PathLike[str]) -> pl.LazyFrame:
    """Scan a Parquet file whose headers agree with one another.

    Raises Exception of some kind, if the file cannot be read; for `quietly`.
    """
    with _mapped(path) as data:
        for group in _footer(data).get(4, []):
            for chunk in group[1]:
                _require_sound(data, chunk[3])
    return pl.scan_parquet(Path(path), glob=False)


def rows(path: str | PathLike[str]) -> int:
    """Return the number of rows that a Parquet file says it has.

    Raises Exception of some kind, if the file cannot be read; for `quietly`.
    """
    with _mapped(path) as data:
        return int(_footer(data)[3])


def texts(path: str | PathLike[str]) -> dict[str, str]:
    """Return what a Parquet file says of itself: the texts of its key-value metadata, by key.

    Raises Exception of some kind, if the file cannot be read; for `quietly`.
    """
    with _mapped(path) as data:
        pairs = _footer(data).get(5, [])
        return {pair[1].decode(): pair.get(2, b"").decode() for pair in pairs}


@contextmanager
def _mapped(path: str | PathLike[str]) -> Iterator[mmap.mmap]:
    with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _footer(data: mmap.mmap) -> dict[int, Any]:
    length = int.from_bytes(data[-8:-4], "little")
    return _Thrift(data, len(data) - 8 - length).struct()


def _require_sound(data: mmap.mmap, chunk: dict[int, Any]) -> None:
    """Refuse a chunk of a column whose pages do not hold the number of values that the footer counts."""
    place, left = chunk.get(11) or chunk[9], chunk[5]
    while left > 0:
        thrift = _Thrift(data, place)
        page = thrift.struct()
        place = thrift.place + page[3]
        dictionary, values = page.get(7, {1: 0}), page.get(5) or page.get(8) or {1: 0}
        left -= values[1]
        if min(page[2], page[3], *_integers(values), *_integers(dictionary)) < 0 or dictionary[1] > len(data):
            raise ValueError("a page's header cannot be true")
    if left != 0:
        raise ValueError("the pages do not hold the values that the footer counts")


def _integers(fields: dict[int, Any]) -> list[int]:
    return [value for value in fields.values() if isinstance(value, int)]


class _Thrift:
    """Reads structures of Thrift's compact protocol, as Parquet writes its headers: field numbers to values."""

    def __init__(self, data: mmap.mmap, place: int) -> None:
        if not 0 <= place < len(data):
            raise ValueError("a header lies outside the file")
        self.data, self.place, self.depth = data, place, 0

    def struct(self) -> dict[int, Any]:
        fields, number = {}, 0
        while (head := self.byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self.integer()
            fields[number] = self.value(head & 15)
        return fields

    def value(self, kind: int) -> Any:
        if kind in (1, 2):  # a truth value is its own type
            return kind == 1
        if kind in (4, 5, 6):
            return self.integer()
        if kind in (9, 12):
            self.depth += 1
            if self.depth > _DEPTH:
                raise ValueError("a header is nested too deeply")
            value = self.items() if kind == 9 else self.struct()
            self.depth -= 1
            return value
        length = {3: 1, 7: 8}[kind] if kind != 8 else self.natural()
        return self.taken(length)

    def items(self) -> list[Any]:
        head = self.byte()
        length = head >> 4 if head >> 4 < 15 else self.natural()
        kind = head & 15
        return [self.value(3 if kind in (1, 2) else kind) for _ in range(length)]

    def taken(self, length: int) -> bytes:
        self.place += length
        if self.place > len(self.data):
            raise ValueError("a header ends outside the file")
        return self.data[self.place - length : self.place]

    def byte(self) -> int:
        if self.place >= len(self.data):
            raise ValueError("a header ends outside the file")
        self.place += 1
        return self.data[self.place - 1]

    def natural(self) -> int:
        value = shift = 0
        while (byte := self.byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("an integer is too long")
        return value | byte << shift

    def integer(self) -> int:
        value = self.natural()
        return value >> 1 ^ -(value & 1)
