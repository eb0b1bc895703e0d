"""One entry point for every check: ``nox -s tests`` and so on; ``nox`` alone runs what continuous integration runs."""

from __future__ import annotations

import tomllib
from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "architecture", "tests", "docs"]
nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "venv"

GROUPS: dict[str, list[str]] = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff's rules and its formatting."""
    session.install(*GROUPS["lint"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict."""
    session.install("-e", ".", *GROUPS["lint"], *GROUPS["test"])
    session.run("mypy")


@nox.session
def architecture(session: nox.Session) -> None:
    """Imports go one way."""
    session.install("-e", ".", *GROUPS["lint"])
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """The test-suite, with doctests, and coverage of what the guarantee rests on."""
    session.install("-e", ".[pandas,demo,report,transport,bayes]", *GROUPS["test"])
    arguments = session.posargs or ["-n", "auto", "--cov", "--cov-report="]
    session.run("pytest", *arguments)
    if not session.posargs:
        session.run("coverage", "report", "--include=*/privacy/*,*/releases/*,*/confidential/*", "--fail-under=90")


@nox.session
def engines(session: nox.Session) -> None:
    """The other dataframe engines: skips with a message where Java or a package is missing."""
    session.install("-e", ".[pandas,duckdb,dask,ibis,spark]", *GROUPS["test"])
    session.run("pytest", "-m", "engines", "tests/engines")


@nox.session
def evolution(session: nox.Session) -> None:
    """Private Evolution with image and language models: skips with a message where torch is missing."""
    session.install("-e", ".[evolution]", *GROUPS["test"])
    session.run("pytest", "-m", "evolution", "tests/unit/evolution")


@nox.session
def browser(session: nox.Session) -> None:
    """The report in headless Chromium: skips with a message where Chromium is missing."""
    session.install("-e", ".[report]", *GROUPS["test"], *GROUPS["browser"])
    session.run("pytest", "-m", "browser", "tests/browser")


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation, warnings as errors."""
    session.install("-e", ".", *GROUPS["docs"])
    session.run("sphinx-build", "-W", "-b", "html", "docs", "docs/_build/html")


@nox.session
def demo(session: nox.Session) -> None:
    """The main job on real data that comes with a package."""
    session.install(".[demo]")
    session.run("discreet", "demo", *session.posargs)
