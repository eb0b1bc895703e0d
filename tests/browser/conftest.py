"""Headless Chromium, one for all tests of pages, and the pages."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from opened_pages import HOSTILE

from discreet import Budget, Ledger, release
from discreet._core.random import seeded
from discreet.domain import Category, Domain, Integer
from discreet.ledger import Request
from discreet.planner import plan
from discreet.report import write_report
from discreet.report.ledger_page import write_ledger_report

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--window-size=1200,900"),
)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless browser that records every request."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="Selenium is not installed")
    from selenium.webdriver.chrome.service import Service

    binary, program = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if binary is None or program is None:
        pytest.skip("Chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(program))
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A public and a confidential report."""
    pytest.importorskip("jinja2")
    where = tmp_path_factory.mktemp("browser")
    draws = np.random.default_rng(8)
    frame = pl.DataFrame({"age": draws.integers(0, 90, 5000), HOSTILE: draws.choice(["a", HOSTILE], 5000)})
    domain = Domain(columns={"age": Integer(lower=0, upper=99, cells=25), HOSTILE: Category(categories=["a", HOSTILE])})
    release(frame, domain, Budget(epsilon=1), size=900, mechanism="perturbed-histogram", out=where / "z.csv")
    write_report(where / "z.csv", where / "public.html")
    write_report(where / "z.csv", where / "own.html", data=frame, resamples=5)
    return where


@pytest.fixture(scope="session")
def ledger_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jinja2")
    where = tmp_path_factory.mktemp("ledger")
    Ledger.create(where / "l.ledger", dataset=HOSTILE, epsilon=2.0, delta=1e-5)
    table = pl.DataFrame({"age": [34, 35, 36, 37] * 500})
    domain = Domain(columns={"age": Integer(lower=0, upper=99, out_of_bounds="clip")})
    with Ledger(where / "l.ledger") as ledger:
        for number in range(3):
            out = where / f"a-name-that-is-rather-long-for-a-column-of-a-table-{number}.csv"
            asked = {"size": 50, "mechanism": "perturbed-histogram", "accept": {"poor-utility"}}
            release(table, domain, Budget(epsilon=0.5, delta=1e-6), ledger=ledger, out=out, **asked)
        with pytest.raises(ZeroDivisionError), ledger.pay(Request(budget=Budget(epsilon=0.25))):
            raise ZeroDivisionError
        ledger.pay(Request(budget=Budget(epsilon=0.25)))
    write_ledger_report(Ledger(where / "l.ledger"), where / "page.html")
    return where / "page.html"


@pytest.fixture(scope="session")
def budget_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jinja2")
    where = tmp_path_factory.mktemp("budgets")
    domain = Domain(columns={"age": Integer(lower=0, upper=9), HOSTILE: Category(categories=["a", HOSTILE])})
    Ledger.create(where / "l.ledger", dataset=HOSTILE, epsilon=2.0, delta=1e-5).close()
    names = ["perturbed-histogram", "gaussian-smoothed-histogram", "smoothed-histogram"]
    asked = {"records": 2000, "size": 500, "largest_sizes": False, "mechanisms": names}
    made = plan(domain, Budget(epsilon=1.0, delta=1e-6), **asked)
    return made.write_page(where / "page.html", ledger=where / "l.ledger")


@pytest.fixture(scope="session")
def pairs_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with the predicted errors of pairs of columns, from a public table."""
    pytest.importorskip("jinja2")
    rng = seeded(0)
    age = rng.integers(0, 40, 300)
    columns = {"age": age, HOSTILE: age // 14, "c": age // 20, "d": rng.integers(0, 4, 300), "e": age % 2}
    upper = {"age": 999, "d": 999}  # so many cells together that nothing is predicted at a poor budget
    domain = Domain(
        columns={name: Integer(lower=0, upper=upper.get(name, int(codes.max()))) for name, codes in columns.items()}
    )
    asked = {"records": 1500, "largest_sizes": False, "mechanisms": ["marginals"], "units": 100}
    made = plan(domain, Budget(epsilon=1.0, delta=1e-6), reference=pl.DataFrame(columns), **asked)
    return made.write_page(tmp_path_factory.mktemp("pairs") / "page.html")


@pytest.fixture(params=["budget_page", "pairs_page"])
def planned(request: pytest.FixtureRequest) -> Path:
    """Each of the two pages of budgets."""
    return Path(request.getfixturevalue(request.param))


@pytest.fixture(params=["public.html", "own.html", "ledger_page", "budget_page", "pairs_page"])
def any_page(request: pytest.FixtureRequest) -> Path:
    """Each page that stands by itself."""
    name = request.param
    return Path(request.getfixturevalue("reports") / name if "." in name else request.getfixturevalue(name))
