"""How public objects show themselves in a notebook: short HTML, every text in it escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from discreet._core.text import harmless


def paragraph(*lines: str, strong: bool = False) -> str:
    """Return a paragraph of lines; nothing of none.

    Examples
    --------
    >>> paragraph("1 < 2", "a & b")
    '<p>1 &lt; 2<br>a &amp; b</p>'
    """
    text = "<br>".join(map(_text, lines))
    return f"<p><b>{text}</b></p>" if text and strong else f"<p>{text}</p>" if text else ""


def alarm(text: str) -> str:
    """Return a paragraph that has to be seen first."""
    return f'<p style="color:#b3001e"><b>{_text(text)}</b></p>'


def listing(items: Iterable[str]) -> str:
    """Return a list; nothing of no items.

    Examples
    --------
    >>> listing(["x"]), listing([])
    ('<ul><li>x</li></ul>', '')
    """
    inside = "".join(f"<li>{_text(item)}</li>" for item in items)
    return f"<ul>{inside}</ul>" if inside else ""


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table.

    Examples
    --------
    >>> table(["a"], [["<b>"]])
    '<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{_text(name)}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(text: str) -> str:
    return html.escape(harmless(text, lines=True))
