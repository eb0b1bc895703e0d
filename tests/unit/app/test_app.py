"""The local page as a process of its own: who is answered, what it writes, and that it does what its commands do."""

import ast
import contextlib
import html
import json
import os
import re
import shlex
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import polars as pl
import pytest
from app_browser import Browser, closed, opened

from discreet import Budget, Ledger, Unit, release
from discreet.cli.entry import run
from discreet.domain import Domain, Integer

for package in ("starlette", "uvicorn", "jinja2"):
    pytest.importorskip(package)

HOSTILE = '<img src=x onerror=alert(1)> "&.csv'
COLUMNS = {"age": ("integer", {"lower": "18", "upper": "21"}), "sex": ("category", {"categories": "f\nm"})}
BUDGET = {"epsilon": "1", "delta": "1e-6", "size": "500"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("app")
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"age": rng.integers(18, 22, 3000), "sex": rng.choice(["f", "m"], 3000)})
    frame.write_csv(where / HOSTILE)
    return where


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Browser]:
    browser = opened(folder / HOSTILE)
    assert browser.ask("/home")[0] == 403  # before the exchange
    assert browser.ask("/enter", {"token": "guessed"})[0] == 403
    assert browser.enter() == 200
    assert "It is complete" in browser.ask("/declare", fields())[1]
    assert "made" in browser.finish("/ledger", {"dataset": "s", "epsilon": "3", "delta": "1e-5"})
    yield browser
    closed(browser)


def test_strangers_are_not_answered(page: Browser) -> None:
    """No cookie, a used token, another origin, another host's name, another site, and a cookie that is guessed."""
    stranger = Browser(page.process, page.port, page.token, base=page.base)
    assert stranger.ask("/home")[0] == 403
    assert stranger.enter() == 403  # the token was used
    assert stranger.cookie == ""
    stranger.cookie = f"discreet-{page.port}=guessed"
    assert stranger.ask("/home")[0] == 403
    assert page.ask("/home")[0] == 200
    for address in ("/home", "/declare", "/check", "/release", "/read/x"):
        assert stranger.ask(address)[0] == 403
        for host in ("evil.example", f"127.0.0.1:{page.port + 1}"):  # the first is DNS rebinding
            assert page.ask(address, Host=host)[0] == 403
        for site in ("cross-site", "same-site"):  # other ports of the machine are the same site
            assert page.ask(address, Sec_Fetch_Site=site)[0] == 403
    for origin in ("http://evil.example", "null", "", f"http://127.0.0.1:{page.port + 1}"):
        assert page.ask("/ledger", {"dataset": "x", "epsilon": "1", "delta": "0"}, Origin=origin)[0] == 403
    status, text, headers = stranger.ask("/")  # what everybody may see
    assert status == 200
    assert "csv" not in text
    assert headers["content-security-policy"].startswith("default-src 'none'")


def test_a_second_tab_has_the_cookie_and_it_is_out_of_reach(page: Browser) -> None:
    """Browsers send a cookie to all ports of a host: this one is for a path that no other server is asked for."""
    assert page.ask("/home", Sec_Fetch_Site="same-origin")[0] == 200
    assert re.match(rf"discreet-{page.port}=\S+; .*HttpOnly; Path=/[\w-]{{20,}}; SameSite=strict", page.given)


def test_the_token_is_in_no_argument_of_a_process(page: Browser) -> None:
    arguments = Path(f"/proc/{page.process.pid}/cmdline")
    if not arguments.exists():
        pytest.skip("processes are not files here")
    assert page.token not in arguments.read_text()
    assert page.cookie.partition("=")[2] not in Path(f"/proc/{page.process.pid}/environ").read_text()


def test_a_browser_outside_comes_by_either_name(tmp_path: Path) -> None:
    """The terminal tells the address where no browser is found (WSL, a tunnel), and one elsewhere uses it."""
    pl.DataFrame({"age": [1, 2, 3]}).write_csv(tmp_path / "t.csv")
    nothing = {"PATH": str(tmp_path), "BROWSER": "", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    browser = opened(tmp_path / "t.csv", "--json", **nothing)
    try:
        for name, other in (("localhost", "127.0.0.1"), ("127.0.0.1", "localhost")):
            browser.headers = {"Host": f"{name}:{browser.port}", "Origin": f"http://{name}:{browser.port}"}
            assert browser.ask("/")[0] == 200
            assert browser.cookie or browser.enter() == 200  # the token is good for one exchange
            assert browser.ask("/home")[0] == 200
            assert browser.ask("/declare", {"0.type": "integer", "0.lower": "1", "0.upper": "9"})[0] == 200
            for origin in (f"http://{other}:{browser.port}", f"http://{name}:{browser.port + 1}"):
                assert browser.ask("/declare", {"0.type": "integer"}, Origin=origin)[0] == 403
            status, text, _ = browser.ask("/home", Host=f"{name}:{browser.port + 1}")  # a tunnel from another port
            assert (status, f"with the port {browser.port}" in text) == (403, True)
    finally:
        closed(browser)


def test_a_browser_is_opened_without_the_token_and_never_waited_for(tmp_path: Path) -> None:
    """What it is given is a file that its owner alone can read; the page answers while it runs."""
    pl.DataFrame({"age": [1, 2, 3]}).write_csv(tmp_path / "t.csv")
    told, program = tmp_path / "told", tmp_path / "browser"
    program.write_text(
        f'#!/bin/sh\nexec 2>/dev/null >{told}\nstat -c %a "${{1#file://}}"\necho "$@"\n'
        f"until [ -e {tmp_path}/ended ]; do sleep 0.1; done\n"
    )
    program.chmod(0o700)
    browser = opened(tmp_path / "t.csv", "--json", BROWSER=f"{program} %s")
    try:
        assert browser.ask("/")[0] == 200
        for _ in range(100):
            if told.exists() and told.read_text().count("\n") == 2:
                break
            time.sleep(0.1)
        assert re.fullmatch(r"600\nfile://\S+/open.html\n", told.read_text())
        assert browser.enter() == 200
    finally:
        (tmp_path / "ended").touch()
        closed(browser)


def test_names_are_text(page: Browser) -> None:
    for address in ("/home", "/declare", "/check", "/plan", "/release"):
        text = page.ask(address)[1]
        assert "<img" not in text
        assert "&lt;img src=x" in text


def fields() -> dict[str, str]:
    found = {}
    for place, (kind, facts) in enumerate(COLUMNS.values()):
        found[f"{place}.type"] = kind
        found |= {f"{place}.{key}": text for key, text in facts.items()}
    return found


def test_a_declaration_is_checked_as_it_is_typed(page: Browser) -> None:
    status, text, _ = page.ask("/declare/check", fields())
    assert status == 200
    assert json.loads(text)["verdict"] == "Complete."
    assert json.loads(text)["states"] == [["", False], ["", False]]
    wrong = fields() | {"0.lower": "99"}
    assert "lower must be below upper" in page.ask("/declare/check", wrong)[1]
    missing = {key: text for key, text in fields().items() if key != "1.categories"}
    found = json.loads(page.ask("/declare/check", missing)[1])
    assert found["states"] == [["", False], ["Say its list of categories.", False]]
    assert found["verdict"] == "Columns to complete: 1."
    assert "not valid TOML" in page.ask("/declare/check", fields() | {"rules": "order = ["})[1]
    assert "Leave it out of the rules" in page.ask("/declare/check", fields() | {"rules": "[columns.x]"})[1]


def test_from_a_file_to_a_report(page: Browser, folder: Path) -> None:
    """What the page does is what its commands do: the same bytes, and a ledger that says what was paid."""
    (declaration,) = folder.glob("*.toml")
    domain = Domain.read(declaration)
    assert domain.columns["age"].to_dict()["out_of_bounds"] == "clip"
    assert page.ask("/declare")[1].count("selected") >= 2  # a second visit finds it

    checked = page.finish("/check", {})
    assert "Everything fits the declaration" in checked
    assert "for you alone" in checked
    assert "print(reveal_to_custodian(check_table(" in checked  # the job is shown with its Python

    asked = {**BUDGET, "out": "trial.parquet", "seed": "7"}
    shown = page.ask("/release", {**asked, "show": "1"})[1]
    command = re.search(r'<pre tabindex="0" id="command">(.*?)</pre>', shown, re.DOTALL)
    assert command is not None
    assert not (folder / "trial.parquet").exists()
    assert "wrote 500 records" in page.finish("/release", asked)
    assert "spent: epsilon 0" in page.ask("/home")[1]

    arguments = shlex.split(html.unescape(command[1]))[1:]
    arguments[arguments.index("trial.parquet")] = "again.parquet"
    with contextlib.chdir(folder):
        assert run(arguments) == 0
    assert pl.read_parquet(folder / "again.parquet").equals(pl.read_parquet(folder / "trial.parquet"))
    made = page.finish("/release", {**BUDGET, "out": "synthetic"})  # Parquet by default
    rows = dict(re.findall(r'<tr><th scope="row">(\w+)</th><td>(.*?)</td>', made))
    assert rows["Released"].startswith("500 records, by ")
    assert "synthetic.parquet</bdi>" in rows["Where"]
    assert rows["Paid"].startswith("epsilon 1, delta ")
    assert rows["Left"].startswith("epsilon 2, delta ")
    assert made.index('<th scope="row">Promised') < made.index("<details>")
    assert made.index("<details>") < made.index("wrote 500 records")  # the long text is folded
    assert "spent: epsilon 1" in page.ask("/home")[1]

    read = page.ask("/read/synthetic.parquet")
    assert read[0] == 200
    assert "What was promised" in read[1]
    answer = page.finish("/read/synthetic.parquet/question", {"functional": "mean", "column": "age", "by": ""})
    assert "95% from" in answer
    assert "discreet estimate synthetic.parquet --column age --functional mean" in answer
    assert 'role="alert"' in page.finish("/read/synthetic.parquet/question", {"functional": "mean", "column": "x"})
    assert page.ask("/read/synthetic.parquet?answer=x")[0] == 404
    assert "claims agree" in page.finish("/read/synthetic.parquet/verify", {})
    text = page.finish("/read/synthetic.parquet/report", {})
    assert "Confidential: for you alone" not in text
    frame = re.search(r'src="(/[^"#]*/jobs/\d+/page)', text)
    assert frame is not None
    status, report, headers = page.ask(frame[1])
    assert (status, "Privacy report" in report) == (200, True)
    assert "frame-ancestors 'self'" in headers["content-security-policy"]


_TABLES = (("several", ".gz"), ("s", ""), ("t", ""))


def value_of(page: str, name: str) -> str:
    """Return what a field of a form begins with."""
    found = re.search(rf'name="{name}"[^>]* value="([^"]*)"', page)
    assert found is not None
    return found[1]


def test_a_release_begins_with_what_was_planned(page: Browser) -> None:
    """And with what a release was asked for before: but a seed, which would make the next one a trial."""
    assert page.ask("/plan", {"records": "3000", "epsilon": "0.5", "delta": "1e-7", "size": ""})[0] == 303
    form = page.ask("/release?epsilon=0.7")[1]
    assert [value_of(form, name) for name in ("epsilon", "delta", "size")] == ["0.7", "1e-7", "3000"]
    assert value_of(page.ask("/plan")[1], "records") == "3000"
    page.ask("/release", {**BUDGET, "size": "20", "out": "x", "seed": "3", "format": "tsv", "show": "1"})
    form = page.ask("/release")[1]
    assert [value_of(form, name) for name in ("size", "seed", "tables")] == ["20", "", "1"]
    assert '<option value="tsv" selected>' in form


def test_the_format_is_chosen_and_no_name_is_used_twice(page: Browser, folder: Path) -> None:
    """A file has the ending of its format, and a folder's tables have it."""
    (folder / "synthetic.json").write_text("{}")
    name = value_of(page.ask("/release")[1], "out")
    assert name == "synthetic-2"
    asked = {**BUDGET, "size": "30", "seed": "3"}
    assert "wrote 30 records" in page.finish("/release", {**asked, "out": name, "format": "csv"})
    assert len((folder / f"{name}.csv").read_text().splitlines()) == 31
    made = page.finish("/release", {**asked, "out": "several", "format": "csv.gz", "tables": "3"})
    assert "3 tables of 30 records" in made
    assert "Do not publish it." in made
    assert len([*(folder / "several").glob("*.csv.gz")]) == 3
    shown = page.ask("/release", {**asked, "out": "s", "format": "csv", "tables": "3", "show": "1"})[1]
    found = [re.search(rf'id="{name}">(.*?)</pre>', shown, re.DOTALL) for name in ("command", "python")]
    command, python = (html.unescape(one[1]) for one in found if one is not None)
    assert "--out s --out-format csv" in command
    with contextlib.chdir(folder):
        assert run(shlex.split(command)[1:]) == 0
        exec(compile(ast.parse(python.replace('"s"', '"t"')), "shown", "exec"), {})
    tables = [pl.read_csv(folder / name / f"table-02.csv{ending}") for name, ending in _TABLES]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    assert value_of(page.ask("/release")[1], "out") == "synthetic-3"


def begun(where: Path, unit: Unit | None = None, **environment: str) -> Browser:
    """Open a page about ages that are declared, beside a ledger that was made in a shell."""
    columns = {"age": np.arange(2000) % 4 + 18} | ({} if unit is None else {"id": np.arange(2000) // 2})
    pl.DataFrame(columns).write_csv(where / "t.csv")
    domain = Domain(columns={"age": Integer(lower=18, upper=21, out_of_bounds="clip")})
    (where / "t.toml").write_text(domain.to_toml())
    Ledger.create(where / "t.ledger", dataset="d", epsilon=3.0, delta=1e-5, unit=unit).close()
    browser = opened(where / "t.csv", **environment)
    assert browser.enter() == 200
    return browser


def test_a_ledger_of_persons_says_who_is_protected(tmp_path: Path) -> None:
    """The rows are not joined by the declaration: the release asks for the ledger's unit, unasked."""
    browser = begun(tmp_path, Unit("id", max_records=2))
    try:
        assert "with at most 2 rows, as the ledger covers" in browser.ask("/release")[1]
        shown = browser.ask("/release", {**BUDGET, "out": "x", "show": "1"})[1]
        assert "--unit id --max-records 2" in shown
        assert "discreet.Unit(&#34;id&#34;, max_records=2)" in shown
        assert 'id="made"' in browser.finish("/release", {**BUDGET, "out": "x", "other-columns": "1"})
    finally:
        closed(browser)


def test_what_is_too_much_or_wrong_is_refused_in_a_sentence(page: Browser) -> None:
    assert page.ask("/release", {**BUDGET, "epsilon": "much", "out": "x.parquet"})[0] == 400
    assert page.ask("/plan", {"records": "many", "epsilon": "1"})[0] == 400
    assert "not allow" in page.finish("/release", {**BUDGET, "epsilon": "9", "out": "dear.parquet"})


def test_it_ends_with_its_last_window(tmp_path: Path) -> None:
    """A window is an open stream. With one of two closed it answers, and a while after the last one it has ended."""
    pl.DataFrame({"age": [1, 2, 3]}).write_csv(tmp_path / "t.csv")
    short = "import discreet.app.server as server; server._LONELY, server._BEAT = 2.0, 0.2; "
    browser = opened(tmp_path / "t.csv", before=short)
    try:
        assert browser.enter() == 200
        asked = (
            f"GET {browser.base}/alive HTTP/1.1\r\nHost: 127.0.0.1:{browser.port}\r\nCookie: {browser.cookie}\r\n\r\n"
        )
        windows = [socket.create_connection(("127.0.0.1", browser.port), timeout=60) for _ in range(2)]
        for window in windows:
            window.sendall(asked.encode())
            assert window.recv(12) == b"HTTP/1.1 200"
        windows[0].close()
        time.sleep(3)
        assert browser.ask("/home")[0] == 200
        windows[1].close()
        out, _ = browser.process.communicate(timeout=60)
        assert browser.process.returncode == 0
        assert "The page has ended." in out
    finally:
        browser.process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_it_leaves_nothing_and_spends_nothing_however_it_ends(tmp_path: Path, number: int) -> None:
    """A release that just began, and a page with numbers of the table: neither outlives the server."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    browser = begun(tmp_path, TMPDIR=str(scratch))
    assert browser.ask("/release", {**BUDGET, "out": "x.parquet"})[0] == 303
    browser.process.send_signal(number)
    browser.process.communicate(timeout=30)
    assert list(scratch.iterdir()) == []
    for _ in range(100):
        with Ledger(tmp_path / "t.ledger") as book:
            states = {event["state"] for event in book.log() if event["entry"]}
        if states <= {"released", "forfeited", "cancelled"}:
            break
        time.sleep(0.1)
    assert (tmp_path / "x.parquet").exists() or "forfeited" not in states


def test_a_ledger_of_no_number_is_refused_on_the_page_of_releases(page: Browser) -> None:
    status, text, *_ = page.ask("/ledger", {"dataset": "x", "epsilon": "one", "delta": "0"})
    assert status == 400
    assert "epsilon must be a number" in text


def test_a_command_that_cannot_start_has_ended(page: Browser) -> None:
    for name in ("a\0b", "x" * 200_000):
        assert "could not be started" in page.finish("/ledger", {"dataset": name, "epsilon": "1", "delta": "0"})


def test_a_certificate_of_a_stranger_disables_nothing(page: Browser, folder: Path) -> None:
    domain = Domain(columns={"age": Integer(lower=0, upper=9)})
    table = pl.DataFrame({"age": [1, 2, 3, 4] * 500})
    release(table, domain, Budget(epsilon=1.0), size=9, mechanism="perturbed-histogram", out=folder / "p.parquet")
    text = (folder / "p.certificate.json").read_text()
    for number, name in enumerate(["", "/", ".", "..", HOSTILE]):
        (folder / f"q{number}.certificate.json").write_text(text.replace('"p.parquet"', json.dumps(name)))
    os.mkfifo(folder / "f.certificate.json")
    status, listed, _ = page.ask("/home")
    assert status == 200
    assert "p.parquet" in listed
    assert page.ask(f"/read/{quote(HOSTILE, safe='')}")[0] == 404  # the table itself is no release
    for path in folder.glob("[qf]*.certificate.json"):
        path.unlink()


def test_a_cancelled_release_costs_what_the_ledger_says(tmp_path: Path) -> None:
    """Cancelled before it was paid, nothing is spent and nothing is written; the page goes on."""
    browser = begun(tmp_path)
    try:
        _, _, headers = browser.ask("/release", {**BUDGET, "out": "x.parquet"})
        job = headers["location"]
        assert browser.ask(f"{job}/cancel", {})[0] == 303
        for _ in range(300):
            if 'data-running="no"' in (text := browser.ask(job)[1]):
                break
            time.sleep(0.1)
        assert "It ended with status" in text
        assert not (tmp_path / "x.parquet").exists()
        assert "spent: epsilon 0" in browser.ask("/home")[1]
    finally:
        closed(browser)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.csv", "t.ledger", "t.toml"]


def test_a_release_alone_is_read_without_the_steps(tmp_path: Path) -> None:
    domain = Domain(columns={"age": Integer(lower=0, upper=9)})
    table = pl.DataFrame({"age": [1, 2, 3, 4] * 500})
    for name in ("one.parquet", "two.parquet"):
        release(table, domain, Budget(epsilon=1.0), size=50, mechanism="perturbed-histogram", out=tmp_path / name)
    browser = opened(tmp_path / "one.parquet")
    try:
        assert browser.enter() == 200
        status, _, headers = browser.ask("/home")
        assert (status, headers["location"]) == (303, f"{browser.base}/read/one.parquet")
        text = browser.ask("/read/one.parquet")[1]
        assert "Beside the confidential table" not in text
        assert "Declare" not in text
        assert browser.ask("/declare")[0] == 404
        assert browser.ask("/read/two.parquet")[0] == 404  # the page is about one release
    finally:
        closed(browser)


def test_what_is_neither_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notes.txt").write_text("x")
    assert run(["app", str(tmp_path / "notes.txt")]) == 2
    assert "neither a table nor a release" in capsys.readouterr().err
    assert run(["app", str(tmp_path / "none.csv")]) == 2
    assert "no such file" in capsys.readouterr().err
