"""Pages in headless Chromium: how they are opened, read, filled in and printed."""

import base64
import io
import json
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import pytest

HOSTILE = '"><img src=x onerror=document.title="owned">'
# Contrast of every text with what is painted behind it (WCAG 2.2, success criterion 1.4.3), computed in the page.
CONTRAST = """
const parse = (c) => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
const light = ([r, g, b]) => [r, g, b].map((v) => v / 255)
  .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (e) => { for (; e; e = e.parentElement) {
  const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
const found = [];
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const element = walk.currentNode.parentElement;
  if (!walk.currentNode.data.trim() || element.closest("script, title, desc")) continue;
  if (!element.getClientRects().length) continue;
  const style = getComputedStyle(element);
  const ink = parse(element.closest("svg") ? style.fill : style.color);
  const [a, b] = [light(ink), light(behind(element.closest("svg")?.parentElement ?? element))];
  found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), walk.currentNode.data.trim().slice(0, 40)]);
}
return found;
"""


def opened(chromium: Any, page: Path | str, *, scheme: str = "light", scripts: bool = True, width: int = 1200) -> Any:
    chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not scripts})
    chromium.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    chromium.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    chromium.get(page if isinstance(page, str) else page.as_uri())
    return chromium


def printed(chromium: Any) -> Any:
    """The page on paper, as pypdf reads it. A page that has not been painted yet cannot be printed: wait for frames."""
    pypdf = pytest.importorskip("pypdf", reason="pypdf is not installed")
    chromium.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    made = chromium.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    return pypdf.PdfReader(io.BytesIO(base64.b64decode(made["data"])))


def text(chromium: Any, name: str) -> str:
    return str(chromium.find_element("id", name).text)


def fill(chromium: Any, name: str, value: str) -> None:
    field = chromium.find_element("id", name)
    field.clear()
    field.send_keys(value)


def requested(chromium: Any) -> list[str]:
    """Return what pages asked for, beside what the browser's own start page still loads, where nothing went wrong."""
    messages = [json.loads(entry["message"])["message"] for entry in chromium.get_log("performance")]
    requests = [m["params"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [entry for entry in chromium.get_log("browser") if entry["level"] == "SEVERE"] == []
    return [r["request"]["url"] for r in requests if not r["documentURL"].startswith("chrome://")]


def axe() -> str:
    """Return the source of axe-core, which a package brings."""
    try:
        held = files("axe-playwright-python") or []
    except PackageNotFoundError:
        pytest.skip("axe-core is not installed (pip install --no-deps axe-playwright-python)")
    (path,) = (one for one in held if one.name == "axe.min.js")
    return path.read_text(encoding="utf-8")
