"""Check a built site: no page loads anything from another server, links lead somewhere, headings have a level.

Run ``python docs/check_site.py docs/_build/html``. Links that a reader may follow elsewhere are left alone.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "modulepreload", "manifest"}
IN_CSS = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


class Page(HTMLParser):
    """What a page loads, what it links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.levelless = 0
        self.anchors = {""}
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Take in one element."""
        found = {name: value or "" for name, value in attributes}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        self._in_style = tag == "style"
        self.levelless += found.get("role") == "heading" and "aria-level" not in found
        self.loads += in_css(found.get("style", ""))
        self.loads += [found[name] for name in ("src", "poster", "data") if name in found and tag != "input"]
        self.loads += [part.split()[0] for part in found.get("srcset", "").split(",") if part.split()]
        if tag == "link" and LOADED & set(found.get("rel", "").split()):
            self.loads.append(found.get("href", ""))
        elif tag in {"use", "image"}:
            self.loads += [found[name] for name in ("href", "xlink:href") if name in found]
        elif tag in {"a", "area"} and "href" in found:
            self.links.append(found["href"])

    def handle_data(self, data: str) -> None:
        """Take in a style sheet that is part of the page."""
        if self._in_style:
            self.loads += in_css(data)

    def handle_endtag(self, tag: str) -> None:
        """End a style sheet."""
        self._in_style = False


def in_css(text: str) -> list[str]:
    """Return what a style sheet loads."""
    return [first or second for first, second in IN_CSS.findall(text)]


def outside(address: str) -> bool:
    """Whether loading an address asks another server."""
    return bool(urlsplit(address).netloc) or urlsplit(address).scheme not in {"", "data", "javascript"}


def problems(root: Path) -> list[str]:
    """Return what is wrong with a site, a sentence each."""
    root = root.resolve()
    files = {path for path in root.rglob("*") if path.is_file()}
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in sorted(files) if path.suffix == ".html"}
    found = []
    for path, page in pages.items():
        wrong = [*wrongly_loaded(root, path, page.loads, files), *wrongly_linked(root, path, page.links, files, pages)]
        wrong += ["has a heading without a level (aria-level)"] * bool(page.levelless)
        found += [f"{path.relative_to(root)} {problem}" for problem in wrong]
    for path in sorted(path for path in files if path.suffix == ".css"):
        loads = in_css(path.read_text(encoding="utf-8"))
        found += [f"{path.relative_to(root)} {problem}" for problem in wrongly_loaded(root, path, loads, files)]
    return found


def wrongly_loaded(root: Path, path: Path, addresses: list[str], files: set[Path]) -> Iterator[str]:
    """Yield what is loaded from another server, and what is not there."""
    for address in addresses:
        if outside(address):
            yield f"loads {address} from another server"
        elif not address.startswith(("data:", "javascript:", "#")) and target(path, address, root) not in files:
            yield f"loads {address}, which is not there"


def wrongly_linked(
    root: Path, path: Path, addresses: list[str], files: set[Path], pages: dict[Path, Page]
) -> Iterator[str]:
    """Yield links inside the site that lead nowhere."""
    for address in addresses:
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        to = target(path, address, root)
        if to not in files:
            yield f"links to {address}, which is not there"
        elif to in pages and unquote(parts.fragment) not in pages[to].anchors:
            yield f"links to {address}, an anchor that is not there"


def target(path: Path, address: str, root: Path) -> Path:
    """Return the file that an address on a page leads to."""
    named = unquote(urlsplit(address).path)
    to = (root / named[1:] if named.startswith("/") else path.parent / named).resolve() if named else path
    return to / "index.html" if to.is_dir() else to


def main() -> None:
    """Check the site that is named."""
    root = Path(sys.argv[1])
    if not (root / "index.html").exists():
        raise SystemExit(f"there is no site in {root}. Build it: python -m nox -s docs")
    if found := problems(root):
        raise SystemExit("\n".join(found))
    print(f"{len(list(root.rglob('*.html')))} pages load nothing from elsewhere, and their links lead somewhere")


if __name__ == "__main__":
    main()
