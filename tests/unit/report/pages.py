"""A page as a reader meets it: its elements with their attributes, its text, and whether it can be followed by ear."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

from discreet.report import write_report

VOID = {"meta", "link", "br", "img", "input", "hr"}


class Page(HTMLParser):
    """Elements with their attributes, and text, of a page that is well-formed."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = source
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in {"script", "style"}:
            self.text.append(data)

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.text))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def require_structure(self) -> None:
        """Its headings, tables and charts have names and an order, and every reference leads somewhere."""
        tags = [tag for tag, _ in self.elements]
        assert self.all("html") == [{"lang": "en"}]
        assert tags.count("main") == tags.count("h1") == 1
        levels = [int(tag[1]) for tag in tags if re.fullmatch("h[1-6]", tag)]
        assert levels[0] == 1
        assert all(b - a <= 1 for a, b in pairwise(levels))
        ids = [attributes["id"] for _, attributes in self.elements if "id" in attributes]
        assert len(ids) == len(set(ids))
        for _, attributes in self.elements:
            for name in ("aria-labelledby", "for"):
                assert set((attributes.get(name) or "").split()) <= set(ids)
            if (attributes.get("href") or "").startswith("#"):
                assert str(attributes["href"])[1:] in ids
        assert tags.count("table") == tags.count("caption") > 3
        assert all(attributes.get("scope") in {"col", "row"} for attributes in self.all("th"))
        for chart in self.all("svg"):
            assert chart["class"] == "bar" or (chart["role"] == "img" and chart["aria-labelledby"])

    def require_loads_nothing(self, scripts: int) -> None:
        """It runs so many scripts, all its own, and loads nothing."""
        text = re.sub(r"<script>.*?</script>", "", self.source, flags=re.DOTALL)
        assert not re.search(r"(?i)https?://|url\(|@import|//[a-z]", text)
        for tag, attributes in self.elements:
            assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
            assert not {"src", "style", "srcset", "action"} & set(attributes)
            assert not [name for name in attributes if name.startswith("on")]
        policy = str(self.all("meta")[1]["content"])
        assert policy.startswith("default-src 'none'; script-src " + ("'sha256-" if scripts else "'none'"))
        assert "unsafe" not in policy
        assert len(self.all("script")) == scripts


def reported(release: Path, out: Path, **options: Any) -> Page:
    """Write a report, and return its page."""
    return Page(write_report(release, out, **options).path.read_text(encoding="utf-8"))
