"""A plan as text, no wider than the terminal (or ``COLUMNS``)."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Sequence

_PIPED = 100
_NARROWEST = 40

Row = Sequence[str]


def shown_options(head: str, header: Row, rows: Sequence[Row], notes: Sequence[str]) -> str:
    """Write options as a table whose last column stands below each row, and what was refused as sentences.

    What was refused for the same reason stands in one sentence.

    ``head``: the first line.
    ``header``: names of the columns; the first is that of the option, the last that of what is wrapped.
    ``rows``: the cells; a row without anything between the first and the last was refused, and the last says why.
    ``notes``: Sentences that follow.
    """
    width = _width()
    table = [row for row in rows if any(row[1:-1])]
    lines = _wrapped(head, width)
    if table:
        widths = [max(len(row[i]) for row in (header, *table)) for i in range(len(header) - 1)]
        beside = ["  ".join(map(str.ljust, row[:-1], widths)).rstrip() for row in (header, *table)]
        fits = max(map(len, beside)) <= width
        for row, line in zip((header, *table), beside, strict=True):
            lines += [line] if fits else _stacked(header, row, width)
            lines += [] if row is header else _wrapped(row[-1], width, "    ")
    refused: dict[str, list[str]] = {}
    for row in rows:
        if not any(row[1:-1]):
            refused.setdefault(row[-1], []).append(row[0])
    for why, names in refused.items():
        lines += _wrapped(f"{', '.join(names)}: {why}", width)
    for note in notes:
        lines += _wrapped(note, width)
    return "\n".join(lines)


def wrapped(sentences: Sequence[str]) -> list[str]:
    """Return the lines of sentences, each begun on a new one."""
    return [line for sentence in sentences for line in _wrapped(sentence, _width())]


def _width() -> int:
    return max(_NARROWEST, shutil.get_terminal_size((_PIPED, 24)).columns)


def _stacked(header: Row, row: Row, width: int) -> list[str]:
    """Return a row too long for a line as its name and what the others are, in words."""
    if row is header:
        return []
    facts = [f"{name} {cell}" for name, cell in zip(header[1:-1], row[1:-1], strict=True) if cell]
    return [row[0], *_wrapped(", ".join(facts), width, "    ")]


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    after = indent + "  "
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=after, break_on_hyphens=False)
