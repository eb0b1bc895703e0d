"""Numbers, lists and tables in words, and what a notebook shows."""

from __future__ import annotations

import html
import math
import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from functools import partial
from io import StringIO
from typing import Any

# Numbers as text, rounded to the side on which what is written still holds: the one place that formats them.
#
# A number is taken as the decimal that it is written as, as everywhere: 0.1 is one tenth, and is written 0.1.


def _rounded(value: float, digits: int = 3, *, rounding: str) -> str:
    """Write a number with so many significant digits."""
    exact = Decimal(repr(float(value)))
    if not exact.is_finite() or exact == 0:
        return f"{float(value):g}"
    quantum = Decimal(1).scaleb(exact.adjusted() - digits + 1)
    return f"{float(exact.quantize(quantum, rounding=rounding)):.{digits}g}"


rounded_up = partial(_rounded, rounding=ROUND_CEILING)
"""Writes a number never below its value: 7.802e-10 as 7.81e-10."""
rounded_down = partial(_rounded, rounding=ROUND_FLOOR)
"""Writes a number never above its value."""


def about(value: float, digits: int = 3) -> str:
    """Write the nearest number with ``digits`` significant digits: for what is an estimate and no promise."""
    return _rounded(value, digits, rounding=ROUND_HALF_EVEN)


def as_written(value: float) -> str:
    """Write all digits of a number that was given: the shortest decimal that reads back as it."""
    return repr(float(value)).removesuffix(".0")


def counted(number: float, noun: str, plural: str | None = None) -> str:
    """Write a number of things, with the noun in the form that the number demands: 1 step, 20,190 records."""
    digits = f"{number:,}" if isinstance(number, int) else f"{number:,.10g}"
    return f"{digits} {noun if number == 1 else plural or noun + 's'}"


def counted_up(value: float) -> str:
    """Write an expected number of records with six significant digits, never below its value: 1,234.51."""
    return f"{float(rounded_up(value, 6)):,.6g}"


def percent(share: float, places: int = 2) -> str:
    """Write a share as a percentage, never below its value: 0.01000001 as 1.01%."""
    if not math.isfinite(share):
        return f"{share}%"
    return f"{(100 * Decimal(repr(float(share)))).quantize(Decimal(1).scaleb(-places), rounding=ROUND_CEILING)}%"


def percent_as_written(share: float) -> str:
    """Write a share that was given as a percentage, with all its digits: 0.9995 as 99.95%."""
    return f"{(100 * Decimal(repr(float(share)))).normalize():f}%"


_ENDS = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\u2028\u2029"


def harmless(text: str, *, lines: bool = False) -> str:
    """Write what a terminal would obey rather than show as an escape, but for ends of ``lines``."""
    # Control, format and unpaired characters.
    safe = "\n\t" if lines else ""
    return "".join([c if c.isprintable() or c in safe or (c.isspace() and c not in _ENDS) else escape(c) for c in text])


def escape(character: str) -> str:
    """Write a character as Python, JSON and TOML read it."""
    return f"\\u{ord(character):04x}" if ord(character) < 0x10000 else f"\\U{ord(character):08x}"


def comma_items(text: str) -> list[str]:
    """Return what stands between commas, each without blanks around it, or as it is within double quotes."""
    items = re.findall(r'\s*(?:"((?:[^"]|"")*)"\s*|([^,]*?)\s*)(?:,|\Z)', text)[:-1]
    return [quoted.replace('""', '"') or plain for quoted, plain in items]


def item_text(value: Any) -> str:
    """Return a value of a parameter as one text; items of a list as :func:`comma_items` takes them apart."""
    if not isinstance(value, (list, tuple)):
        return as_written(value) if isinstance(value, float) else str(value)
    texts = [str(item).replace('"', '""') for item in value]
    return ",".join(f'"{text}"' if re.search(r'[",]|^\s|\s$', text) else text for text in texts)


def listed(value: Any) -> list[Any]:
    """Return a list or tuple as a list, and anything else as a list of it."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def sentence(text: str) -> str:
    """Return a text with a capital letter first, to follow another sentence."""
    return text[:1].upper() + text[1:]


def sentences_of(text: str) -> list[str]:
    """Return the sentences of a message: what is wrong, and on a line of its own each, what to do about it."""
    text = re.sub(r"""(?<!\w)(['"]).+?\1(?!\w)""", lambda name: name[0].replace(" ", "\0"), text)  # names in quotes
    return [part.replace("\0", " ") for part in re.split(r"(?<=[^\s.]\.) (?=[A-Z])", text)]


def lines_of(sentences: Iterable[str], indent: str = "") -> list[str]:
    """Return the lines of sentences, each begun on a new one, no wider than the terminal: 100 columns in a file."""
    columns = max(40, shutil.get_terminal_size((100, 24)).columns)
    wrapper = textwrap.TextWrapper(columns, indent, indent + "  ", break_on_hyphens=False)
    return [line for text in sentences for line in wrapper.wrap(text)]


def full_sentence(text: str) -> str:
    """Return a text with a capital letter first and a full stop last."""
    return f"{sentence(text).rstrip('.')}."


def with_article(noun: str) -> str:
    """Return ``a noun`` or ``an noun``, by its first letter."""
    return ("an " if noun[:1].lower() in "aeio" else "a ") + noun


_WIDEST = 1 << 20  # characters of a line of a table


def aligned(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Return rows of cells as lines, as wide as a terminal shows them: first columns to the left, others right."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for place in range(len(rows[0])):
        grid.add_column(justify="left" if place < left else "right", no_wrap=True)
    for row in rows:
        grid.add_row(*(Text(harmless(cell)) for cell in row))
    lines = Console(width=_WIDEST, file=StringIO()).render_lines(grid, pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


# How public objects show themselves in a notebook: short HTML, every text in it escaped.


def paragraph(*lines: str, strong: bool = False) -> str:
    """Return a paragraph of lines; nothing of none."""
    text = "<br>".join(map(_as_html, lines))
    if text and strong:
        text = f"<b>{text}</b>"
    return f"<p>{text}</p>" if text else ""


def alarm(text: str) -> str:
    """Return a paragraph that has to be seen first."""
    return f'<p style="color:#b3001e"><b>{_as_html(text)}</b></p>'


def listing(items: Iterable[str]) -> str:
    """Return a list; nothing of no items."""
    inside = "".join(f"<li>{_as_html(item)}</li>" for item in items)
    return f"<ul>{inside}</ul>" if inside else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    head = "".join(f"<th>{_as_html(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{_as_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _as_html(text: str) -> str:
    return html.escape(harmless(text, lines=True))
