"""What a page on the web, another user, or a file that a stranger wrote could try with the local page."""

import contextlib
import http.client
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import polars as pl
import pytest
from app_browser import Browser, closed, opened

from discreet import Ledger

for package in ("starlette", "uvicorn", "jinja2"):
    pytest.importorskip(package)

HOSTILE = '<img src=x onerror=alert(1)> "&'
FORM = {"0.type": "integer", "0.lower": "0", "0.upper": "9", "1.type": "category", "1.categories": f"a\n{HOSTILE}"}
ASKED = {"epsilon": "1", "delta": "1e-6", "size": "50", "seed": "1"}
LEDGER = {"dataset": HOSTILE, "epsilon": "3", "delta": "1e-5"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("attacked") / "own"
    where.mkdir()
    rng = np.random.default_rng(2)
    columns = {HOSTILE: rng.integers(0, 10, 4000), "label": rng.choice(["a", HOSTILE], 4000)}
    pl.DataFrame(columns).write_csv(where / "t.csv")
    return where


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Browser]:
    browser = opened(folder / "t.csv")
    assert browser.enter() == 200
    assert "It is complete" in browser.ask("/declare", FORM)[1]
    yield browser
    closed(browser)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.parent.rglob("*"))


def spoken(page: Browser, request: str) -> str:
    """Send bytes as they are, with the cookie of the page, and return the first line of the answer."""
    with socket.create_connection(("127.0.0.1", page.port), timeout=60) as connection:
        connection.sendall(request.replace("\n", "\r\n").encode())
        return connection.makefile("rb").readline().decode().strip()


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", None])
def test_a_form_of_another_site_changes_nothing(page: Browser, folder: Path, kind: str, origin: str | None) -> None:
    """Forms that browsers send without asking first, with the cookie, as if it were not for its own pages alone."""
    before = names(folder)
    headers = {"Cookie": page.cookie, "Content-Type": kind} | ({"Origin": origin} if origin else {})
    for address, fields in (("/ledger", LEDGER), ("/release", {**ASKED, "out": "x"}), ("/declare", FORM)):
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", page.port, timeout=60)) as connection:
            connection.request("POST", page.base + address, urlencode(fields), headers)
            assert connection.getresponse().status == 403
    assert names(folder) == before


def test_other_methods_and_other_ways_to_write_a_host_are_refused(page: Browser) -> None:
    own = f"Host: 127.0.0.1:{page.port}\nCookie: {page.cookie}\n"
    assert spoken(page, f"GET {page.base}/home HTTP/1.1\n{own}\n").endswith("200 OK")
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert spoken(page, f"{method} {page.base}/home HTTP/1.1\n{own}\n").split()[1] in ("403", "405")
    for hosts in (
        "Host: evil.example",
        f"Host: 127.0.0.1:{page.port}.evil.example",
        f"Host: localhost.evil.example:{page.port}",
        f"Host: evil.example\nHost: 127.0.0.1:{page.port}",
        "Host:",
    ):
        asked = f"GET {page.base}/home HTTP/1.1\n{hosts}\nCookie: {page.cookie}\n\n"
        assert spoken(page, asked).split()[1] in ("400", "403")
    absolute = f"GET http://evil.example{page.base}/home HTTP/1.1\nHost: evil.example\nCookie: {page.cookie}\n\n"
    assert spoken(page, absolute).split()[1] in ("400", "403", "404")
    forwarded = f"GET {page.base}/home HTTP/1.1\nHost: evil.example\nX-Forwarded-Host: 127.0.0.1:{page.port}\n"
    assert spoken(page, f"{forwarded}Cookie: {page.cookie}\n\n").split()[1] == "403"


def test_whoever_has_no_cookie_cannot_send_much(page: Browser) -> None:
    """The exchange of the token is open to everybody: a kibibyte of it is read, however it is sent."""
    own = f"Host: 127.0.0.1:{page.port}\nOrigin: http://127.0.0.1:{page.port}\n"
    token = "token=" + "x" * 2000
    length = f"POST /enter HTTP/1.1\n{own}Content-Length: {len(token)}\n\n{token}"
    assert spoken(page, length).split()[1] == "413"
    chunk = f"{len(token):x}\n{token}\n0\n\n"
    assert spoken(page, f"POST /enter HTTP/1.1\n{own}Transfer-Encoding: chunked\n\n{chunk}").split()[1] == "413"
    for token in ("", "x", page.token, f"{page.token}x", "\N{SNOWMAN}", "token=" * 9):
        stranger = Browser(page.process, page.port, token)
        assert stranger.enter() == 403
        assert stranger.cookie == ""


def test_every_form_refuses_a_body_that_is_too_large(page: Browser, folder: Path) -> None:
    before, body = names(folder), {"out": "y" * 2**21, "dataset": "d", "epsilon": "1", "0.lower": "1"}
    for address in ("/declare", "/declare/check", "/plan", "/release", "/ledger", "/read/t/report"):
        assert page.ask(address, body)[0] in (404, 413)
    assert page.ask("/home")[0] == 200
    assert names(folder) == before


def test_the_name_of_a_release_leads_nowhere(page: Browser, folder: Path) -> None:
    before = names(folder)
    for out in ("../x", "../x.parquet", "a/b", "..", "/tmp/x", "/etc/x.parquet", ".hidden.parquet", "--seed", ""):
        status, text, _ = page.ask("/release", {**ASKED, "out": out})
        assert (status, "no folder in it" in text) == (400, True)
    assert names(folder) == before


def test_no_other_field_is_a_path(page: Browser, folder: Path) -> None:
    """The format is one of a list, and of ledger, table and declaration the names are fixed."""
    hidden = {"ledger": "../l.ledger", "data": "/etc/passwd", "domain": "../d.toml", "certificate": "../c"}
    asked = {**ASKED, **hidden, "out": "first", "format": "x/../../second", "unit": HOSTILE, "max_records": "3"}
    shown = page.ask("/release", {**asked, "show": "1"})[1]
    assert "release t.csv --domain t.toml" in shown
    assert "--out first.parquet" in shown
    assert not any(text in shown for text in ("second", "l.ledger", "passwd", "d.toml", "--certificate", "--unit"))
    page.finish("/ledger", {**LEDGER, "place": "../l.ledger", "ledger": "../l.ledger", "out": "../l.ledger"})
    assert (folder / "t.ledger").exists()
    assert not (folder.parent / "l.ledger").exists()
    for name in ("first%00", "..", ".", "t.csv", "t.toml", "t.ledger", "%2Fetc%2Fpasswd", "..%2Fown%2Ft.csv"):
        assert page.ask(f"/read/{name}")[0] == 404
    assert page.ask("/jobs/999")[0] == 404


def test_names_of_columns_labels_and_data_sets_are_text(page: Browser) -> None:
    assert "wrote 50 records" in page.finish("/release", {**ASKED, "out": "named"})
    for address in ("/home", "/declare", "/check", "/plan", "/release", "/read/named.parquet"):
        text = page.ask(address)[1]
        assert "<img" not in text
    assert "&lt;img src=x" in text  # of the column, in the forms of a reader
    answer = page.finish("/read/named.parquet/question", {"functional": HOSTILE, "column": HOSTILE, "by": HOSTILE})
    assert "<img" not in answer
    assert "<img" not in page.finish("/read/named.parquet/verify", {})


def test_links_are_not_written_through(page: Browser, folder: Path) -> None:
    """A declaration, a file and a folder that are links to elsewhere: what is there stays as it is."""
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept.toml").write_text("kept")
    (elsewhere / "kept.parquet").write_text("kept")
    (folder / "several").symlink_to(elsewhere)
    (folder / "linked.parquet").symlink_to(elsewhere / "kept.parquet")
    page.finish("/release", {**ASKED, "out": "several", "tables": "2"})
    page.finish("/release", {**ASKED, "out": "linked"})
    assert page.ask("/read/linked.parquet")[0] == 404
    declaration = (folder / "t.toml").read_text()
    (folder / "t.toml").unlink()
    (folder / "t.toml").symlink_to(elsewhere / "kept.toml")
    page.ask("/declare", FORM)
    assert sorted(path.name for path in elsewhere.iterdir()) == ["kept.parquet", "kept.toml"]
    assert {path.read_text() for path in elsewhere.iterdir()} == {"kept"}
    (folder / "t.toml").unlink()
    (folder / "t.toml").write_text(declaration)


def test_a_second_tab_pays_what_it_asks_for_and_no_more(page: Browser, folder: Path) -> None:
    """Two releases at once from one ledger: each is paid, and the third does not fit."""
    if not (folder / "t.ledger").exists():
        page.finish("/ledger", LEDGER)
    asked = {"epsilon": "1.4", "delta": "1e-6", "size": "50", "seed": ""}
    jobs = [page.ask("/release", {**asked, "out": f"tab{number}"}) for number in range(2)]
    assert [status for status, _, _ in jobs] == [303, 303]
    third = page.finish("/release", {**asked, "out": "tab2"})
    for _, _, headers in jobs:
        while 'data-running="yes"' in page.ask(headers["location"])[1]:
            time.sleep(0.1)
    texts = [page.ask(headers["location"])[1] for _, _, headers in jobs]
    with Ledger(folder / "t.ledger") as book:
        spent = book.status().spent["epsilon"]
    made = sum('id="made"' in text for text in [*texts, third])
    assert (made, spent) == (2, 2.8)
