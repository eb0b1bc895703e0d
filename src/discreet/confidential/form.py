"""The form of a file: what its first bytes say that it is, and whether each row of CSV has the fields of its header.

CSV is read in full for that, before anything is counted or paid for, in blocks of whole records. What is wrong is told
with its line, never with a content: a line says something of one record, so it is for the custodian's terminal alone.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.errors import FileProblem
from discreet._core.formats import ENDINGS, Format, heading, is_utf8, unpacked, with_ending
from discreet._core.reading import encoding_of
from discreet._core.text import counted

_BLOCK, _LONGEST = 2**20, 2**26  # bytes of a block, and beyond that, until its quotes are closed
_LF, _CR, _QUOTE = b'\n\r"'
_SEPARATORS = {",": "commas", "\t": "tabs"}

_OTHER, _DATABASE = "save its table as CSV or give a dataframe", "give the address of its table: {}:///FILE?table=NAME"
_KINDS = {  # first bytes: what they say, what to do where the ending says something else, and the format that is read
    b"\x1f\x8b": ("packed by gzip", "end its name in .csv.gz if it is CSV", "csv"),
    b"PAR1\x15": ("a Parquet file", "end its name in .parquet", "parquet"),
    b"ARROW1\0\0": ("an Arrow file", "end its name in .arrow", "arrow"),
    b"SQLite format 3\0": ("an SQLite database", _DATABASE.format("sqlite"), ""),
    b"DUCK": ("a DuckDB database", _DATABASE.format("duckdb"), ""),
    b"PK\3\4": ("an Excel file or another archive", _OTHER, ""),
    b"\xd0\xcf\x11\xe0": ("an Excel file of an old version", _OTHER, ""),
    b"<stata_dta>": ("a Stata file", _OTHER, ""),
    b"$FL2@": ("an SPSS file", _OTHER, ""),
    b"%PDF": ("a PDF file", _OTHER, ""),
    **dict.fromkeys((b"<html", b"<!DOC", b"<?xml"), ("a web page or XML", _OTHER, "")),
    **dict.fromkeys((b'{"', b'[{"'), ("JSON", _OTHER, "")),
}


def require_kind(text: str, path: Path, form: Format | None) -> Format:
    """Return the format of a file's ending. Raises FileProblem where there is none, or the content is of another."""
    with path.open("rb") as file:
        head = file.read(16)
    start = b"DUCK" if head[8:12] == b"DUCK" else next(filter(head.startswith, _KINDS), b"")
    kind, remedy, readable = _KINDS.get(start, ("not packed by gzip", "leave .gz out of its name", ""))
    is_packed = form is not None and form.compressed
    if (start and (form is None or form.kind != readable)) or is_packed != (readable == "csv"):
        raise FileProblem(text, f"its content is {kind}, whatever its name says", remedy)
    if form is None:
        raise FileProblem(text, "the format is not known by this ending", f"give a file in {ENDINGS}")
    return form


def csv_form(text: str, path: Path, form: Format) -> tuple[list[str], list[int]]:
    """Return the header of a CSV file, and the numbers of rows that are empty lines. Reads all of it.

    Raises FileProblem where a row has not the fields of the header, or is no text. Columns without a name are left
    aside: a first one is an index, and last ones are separators that end every line.
    """
    state = path.stat()
    return _form(text, path, form, (state.st_ino, state.st_size, state.st_mtime_ns))


@lru_cache(maxsize=8)
def _form(text: str, path: Path, form: Format, _version: object) -> tuple[list[str], list[int]]:
    encoding, separator, names, line = heading(path, form)
    words, width, row, blank = _SEPARATORS.get(separator, repr(separator)), len(names), -1, []
    if not any(names):
        raise FileProblem(text, "has no line with the names of its columns", "put one first")
    if width == 1 and ({",", ";", "\t"} - {separator}).intersection(names[0]):
        remedy = f"name its separator, or save it with {words}"
        raise FileProblem(text, f"its fields are not separated by {words}", remedy)
    last = max(place for place, name in enumerate(names) if name)
    nulls = width == 1 and with_ending(path, ".certificate.json").exists()  # a release has empty lines for them
    for part in _blocks(path, form, encoding, line):
        block = _Block(part, ord(separator), width)
        if (problem := block.text_problem() or block.problem(header=row < 0, nulls=nulls)) is not None:
            place, problem_text, remedy = problem
            raise FileProblem(text, f"line {line + part.count(_LF, 0, place) + 1} {problem_text}", remedy)
        if "" in names[1:last] or not block.ends_in(width - 1 - last):
            problem_text = f"column {names.index('', 1) + 1} has no name in its first line"
            remedy = "name it there. If that line is a record, put one with the names above it"
            raise FileProblem(text, problem_text, remedy)
        blank += (row + np.flatnonzero(block.blank)).tolist()
        row, line = row + len(block.blank), line + int(np.count_nonzero(block.bytes == _LF))
    return names, [] if nulls else blank


def _blocks(path: Path, form: Format, encoding: str, skip: int) -> Iterator[bytes]:
    """Yield whole records as UTF-8, after some lines at the beginning."""
    with unpacked(path, form) as file:
        lines: Any = file  # of UTF-8 left as they are, so that a wrong byte is found where it stands
        if not is_utf8(encoding):
            lines = io.TextIOWrapper(file, encoding, newline="\n")
        elif encoding_of(file.read(3)) != "utf-8-sig":
            file.seek(0)
        for _ in range(skip):
            lines.readline()
        while text := lines.read(_BLOCK):
            texts, size = [text, lines.readline()], 0
            quote = '"' if isinstance(text, str) else b'"'
            odd = (text.count(quote) + texts[1].count(quote)) % 2
            while odd and size < _LONGEST and (text := lines.readline()):
                texts.append(text)
                odd, size = (odd + text.count(quote)) % 2, size + len(text)
            block = text[:0].join(texts)
            block = block.encode() if isinstance(block, str) else block
            yield block if block.endswith(b"\n") else block + b"\n"


class _Block:
    """Records of a CSV file, each up to its line feed; ``blank`` says which are empty lines."""

    def __init__(self, part: bytes, separator: int, width: int) -> None:
        self.part, self.separator, self.width = part, separator, width
        self.bytes = data = np.frombuffer(part, np.uint8)
        marks, self.quotes = (data == separator) | (data == _LF), np.flatnonzero(data == _QUOTE)
        if len(self.quotes):
            inside = np.bitwise_xor.accumulate((data == _QUOTE).view(np.uint8)).view(np.bool_)
            self.inner = np.flatnonzero(marks & inside)
            marks &= ~inside
        places = np.flatnonzero(marks)
        ends = np.flatnonzero(data[places] == _LF)
        self.fields, self.ends = np.diff(ends, prepend=-1), places[ends]
        self.stops = self.ends - (data[self.ends - 1] == _CR)
        self.blank = data[self.stops - 1] == _LF

    def text_problem(self) -> tuple[int, str, str] | None:
        """Return the place of the first byte that is no text, or quote that encloses no field, and what to do."""
        try:
            if not self.part.isascii():
                self.part.decode()
        except UnicodeDecodeError as error:
            before = self.part[self.part.rfind(b"\n", 0, error.start) + 1 : error.start]
            problem = f"holds a byte that is not UTF-8, in field {before.count(self.separator) + 1}"
            return error.start, problem, "save it as UTF-8 or name its encoding, often latin-1 or cp1252"
        if not len(self.quotes):
            return None
        end, beside = len(self.bytes) - 1, np.zeros(256, dtype=np.bool_)
        beside[[self.separator, _LF, _QUOTE]] = True
        first, last = self.quotes[::2], np.append(self.quotes[1::2], end)[: (len(self.quotes) + 1) // 2]
        whole = beside[self.bytes[first - 1]]
        beside[_CR] = True
        wrong = whole & ~beside[self.bytes[np.minimum(last + 1, end)]] | (last == end)  # or is never closed
        stray = ~whole  # quotes within a field, which may hold neither separators nor line feeds
        wrong[stray] |= np.searchsorted(self.inner, last[stray]) > np.searchsorted(self.inner, first[stray])
        if not wrong.any():
            return None
        remedy = "put the whole field in quotes, and double each quote within it"
        return int(first[wrong][0]), "has a quote that does not enclose a field", remedy

    def ends_in(self, count: int) -> bool:
        """Return whether every record ends in some separators."""
        stops = self.stops[~self.blank]
        return all((self.bytes[stops - place] == self.separator).all() for place in range(1, count + 1))

    def problem(self, *, header: bool, nulls: bool) -> tuple[int, str, str] | None:
        """Return the place of the first line that is no record, and what to do. Lines of blanks become empty ones."""
        width, rows = self.width, self.fields[1:][~self.blank[1:]]
        if header and self.fields[0] != width:
            return 0, "ends in a carriage return without a line feed", "save the file with line feeds"
        if header and len(rows) > 1 and rows[0] != width and (rows == rows[0]).all():
            problem = f"has {counted(width, 'field')} and those below it {rows[0]}"
            return 0, problem, "save it without lines above the names of the columns, and with a name for each"
        if width == 1 and self.blank.any() and not nulls:
            remedy = "save the file without it. If it stands for a null, save the table as Parquet"
            return int(self.ends[self.blank][0]), "is empty, which in a file of one column could be a null", remedy
        for record in np.flatnonzero((self.fields != width) & ~self.blank).tolist():
            start = int(self.ends[record - 1]) + 1 if record else 0
            if self.part[start : self.ends[record]].strip():
                problem = f"has {counted(int(self.fields[record]), 'field')} and the header {width}"
                return start, problem, "complete it if it is cut, and put values that hold a separator in quotes"
            self.blank[record] = True
        return None
