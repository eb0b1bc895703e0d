"""What may be published is a function of public facts and of the kernel's output, whatever the table was.

Each form of a release is run as a command, with a ledger, on tables of which any two differ in their last record. The
kernel reads the table and gives the output of a public one, and all chance is fixed. Then another release of the data
set is made, and every byte that may be published is compared: released files, certificates, pages, what commands print,
and the export of the ledger. A value that does not fit is no exception: it is encoded as the domain declares. Only on a
domain that refuses it the release is not there, which cannot be hidden. Nothing else may tell it.
"""

import datetime
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import click
import numpy as np
import pytest

from discreet import Ledger
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.domain import Counts
from discreet.ledger import Run, events
from discreet.ledger.filters import Cost
from discreet.ledger.statement import Statement
from discreet.mechanisms import REGISTRY, PerturbedHistogram, PrivateEvolution
from discreet.releases import publication

pytest.importorskip("jinja2")

DOMAIN = """
[columns.age]
type = "integer"
lower = 0
upper = 99
cells = 10
out_of_bounds = "clip"

[columns.town]
type = "category"
categories = ["a", "b", "c"]
nulls = "category"
out_of_bounds = "other"
"""
STRICT = re.sub("out_of_bounds.*", "", DOMAIN)
STUDY = """
[[release]]
name = "one"
domain = "domain.toml"
records = 60
size = 40
mechanism = "perturbed-histogram"
parameters = {noise = "gaussian"}
"""
ROWS = [(number * 7 % 100, "abc"[number % 3]) for number in range(60)]
FITTING = [(3, "a"), (97, "c"), (3, "b"), (99, "a"), (3, "")]
"""The last record of a table: other values, another label, and a null, which nobody else has."""
UNFIT = [(100, "a"), (10**30, "a"), ("", "a"), ("three", "a"), (3, "d")]
"""Outside the bounds, far outside, a null that is not declared, no number, an unknown label: found while counting."""

PERTURBED = "--mechanism perturbed-histogram"
FORMS = {
    "records": f"{PERTURBED} --size 40",
    "declared": f"{PERTURBED} --size 40 --records 60",
    "add-remove": "--mechanism marginals --relation add-remove --records 60 --size 40",
    "counts": f"{PERTURBED} --counts",
    "tree": "--mechanism hierarchical-histogram --size 40",
    "draws": "--mechanism smoothed-histogram --size 40",
    "wide": "--mechanism marginals --size 40",
    "tables": "--mechanism marginals --tables 3 --size 40",
    "JSON": f"{PERTURBED} --size 40 --json",
    "partitions": f"{PERTURBED} --size 40 --partitions 2 --partition-by town",
    "evolution": "--mechanism private-evolution --records 60 --size 40 --param steps=2 --param population=20 "
    "--param variant=practical",
    "plan": f"{PERTURBED} --param noise=gaussian --records 60 --size 40 --part one",
    "refusing": f"{PERTURBED} --size 40 --accept data-dependent-refusal",
}
"""The forms of a release. After the first three, and after a refusal, another release of the data set is made."""
RELEASE = "--domain domain.toml --ledger l.sqlite --accept-poor-utility"
BUDGET = "--epsilon 1 --delta 1e-5"
INPUTS = ("data.csv", "other.csv", "domain.toml", "l.sqlite", "study.toml")

HEAD = re.compile(rb'"head": "[0-9a-f]{64}"')
"""The hash of the ledger in a later certificate: of all events before, and each has a salt that nobody can guess."""
KERNEL = PerturbedHistogram.kernel

Bytes = dict[str, bytes]


class Clock(datetime.datetime):
    """Stands still: when a release was made, and so how long the one before took, cannot be hidden."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Self:
        return cls(2026, 1, 1, tzinfo=tz)


def of_a_public_table(kernel: Any) -> Any:
    """Return a kernel that reads its table, and gives the output of a public one."""

    def output(self: Any, x: Any, *, rng: np.random.Generator) -> Any:
        read = kernel(self, x, rng=seeded(1))
        if isinstance(read, Iterator):
            list(read)
        frequencies = np.bincount(np.arange(60) % self.domain.size)
        public = Counts(records=self.domain.unflat(np.arange(frequencies.size)), frequencies=frequencies)
        return kernel(self, public, rng=seeded(0))

    return output


STEPS = PrivateEvolution.further


def steps_of_a_public_table(self: PrivateEvolution, x: Any, released: Any, *, rng: np.random.Generator) -> Any:
    return of_a_public_table(lambda self, x, *, rng: STEPS(self, x, released, rng=rng))(self, x, rng=rng)


class Custodian:
    """Runs commands in one folder, with all chance and the clock fixed, and collects what may be published."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys, self.chance = folder, capsys, np.random.Generator(np.random.PCG64())
        self.reports = False  # whether the second release is reported on beside the ledger: it takes long
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setattr(secrets, "randbits", lambda bits: int.from_bytes(self.chance.bytes(bits // 8), "little"))
        monkeypatch.setattr(secrets, "token_hex", lambda size: self.chance.bytes(size).hex())
        for module in (events, publication):
            monkeypatch.setattr(module, "datetime", SimpleNamespace(datetime=Clock, UTC=datetime.UTC))
        for mechanism in set(REGISTRY.values()):
            monkeypatch.setattr(mechanism, "kernel", of_a_public_table(mechanism.kernel))
        monkeypatch.setattr(PrivateEvolution, "further", steps_of_a_public_table)

    def command(self, text: str, statuses: tuple[int, ...] = (0,)) -> tuple[int, bytes]:
        """Return the status of a command, and what it prints; its chance is its own, whatever ran before."""
        self.chance = np.random.Generator(np.random.PCG64([*text.encode()]))
        status, printed = run(text.split()), self.capsys.readouterr()
        assert status in statuses, printed.err
        return status, (printed.out + printed.err).encode()

    def files(self) -> Bytes:
        """Return what is there, but for the inputs and the ledger, which are the custodian's."""
        paths = {path.relative_to(self.folder).as_posix(): path for path in sorted(self.folder.rglob("*"))}
        shown = {name: path for name, path in paths.items() if path.is_file() and name not in INPUTS}
        return {name: HEAD.sub(b"", path.read_bytes()) for name, path in shown.items()}

    def published(self, record: tuple[Any, Any], form: str) -> tuple[Bytes, Bytes]:
        """Return what is published of a release, nothing where it was refused, and of all that comes after it."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        os.chdir(self.folder)
        for name, last in (("data.csv", record), ("other.csv", (5, "b"))):
            lines = ["age,town", *(f"{age},{town}" for age, town in [*ROWS[:-1], last]), ""]
            Path(name).write_text("\n".join(lines))
        Path("domain.toml").write_text(STRICT if "--accept " in form else DOMAIN)
        Path("study.toml").write_text(STUDY)
        suffix = "" if "--tables" in form or "--partitions" in form else ".csv"
        relation, budget = "--relation add-remove" * ("--relation" in form), BUDGET
        self.command(f"ledger init l.sqlite --dataset d --epsilon 3 --delta 1e-3 {relation}")
        if "--part " in form:
            self.command(f"plan --together study.toml {BUDGET} --out plan.json")
            _, options = self.command("ledger declare l.sqlite plan.json")
            budget = re.search("--epsilon .* --delta [^ ]*", options.decode())[0]  # type: ignore[index]
        status, printed = self.command(f"release data.csv --out out{suffix} {RELEASE} {budget} {form}", (0, 2))
        own = self.files()  # where it was refused, what it left behind
        if status == 0:
            own["release"] = printed
            certificate = next(name for name in own if name.endswith("certificate.json"))
            for command in (f"verify {certificate}", f"describe out{suffix} --as croissant"):
                own[command] = self.command(command)[1]
        commands = ["ledger export l.sqlite --out export.json", "ledger export l.sqlite --out export.csv"]
        commands += ["ledger report l.sqlite --out ledger.html"]
        if form in list(FORMS.values())[:3] or "--accept " in form:
            commands.insert(0, f"release other.csv --out second.csv {RELEASE} {BUDGET} {form}")
        if self.reports:
            commands.append("report second.csv --ledger l.sqlite --out second.html")
        later = {command: self.command(command)[1] for command in commands}
        return own, later | {name: text for name, text in self.files().items() if name not in own}


@pytest.fixture
def custodian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Custodian:
    return Custodian(tmp_path / "data", monkeypatch, capsys)


def leaks(custodian: Custodian, form: str, records: list[tuple[Any, Any]]) -> set[str]:
    """Return the names of what differs where the last record does, and of what is there of a refused release."""
    own, later = custodian.published(records[0], FORMS[form])
    assert {"release", "export.json", "export.csv", "ledger.html"} < own.keys() | later.keys()
    names: set[str] = set()
    for record in records[1:]:
        own_too, later_too = custodian.published(record, FORMS[form])
        gone = form == "refusing" and record in UNFIT
        pairs = [(later, later_too), ({} if gone else own, own_too)]
        names.update(key for one, two in pairs for key in one.keys() | two.keys() if one.get(key) != two.get(key))
    return names


SOME = [FITTING[0], FITTING[1], FITTING[-1], UNFIT[0], ("three", "d")]
"""Of each kind one, and a record of which neither value fits."""


@pytest.mark.parametrize(
    ("form", "records"),
    [*((form, SOME) for form in FORMS if form not in ("records", "refusing")),
     *((form, [*FITTING, *UNFIT]) for form in ("records", "refusing")),
     *(pytest.param(form, [*FITTING, *UNFIT], marks=pytest.mark.exhaustive) for form in FORMS)],
)  # fmt: skip
def test_one_record_changes_no_byte(form: str, records: list[tuple[Any, Any]], custodian: Custodian) -> None:
    """What equals the first table's is equal for any two of them."""
    assert leaks(custodian, form, records) == set()


def test_one_record_changes_no_report(custodian: Custodian) -> None:
    custodian.reports = True
    assert leaks(custodian, "records", [FITTING[0], FITTING[1], UNFIT[0]]) == set()


# Twins, each of which gives away in one place whether a table was refused, or what it holds.

Twin = Callable[[pytest.MonkeyPatch], None]


def statement(change: Callable[[Statement, Ledger], Statement]) -> Twin:
    """Return a twin whose public view of a ledger is changed with what the custodian alone sees of it."""

    def twin(monkeypatch: pytest.MonkeyPatch) -> None:
        honest = Statement.from_ledger
        monkeypatch.setattr(Statement, "from_ledger", lambda ledger: change(honest(ledger), ledger))

    return twin


def status(**facts: Callable[[Ledger], Any]) -> Twin:
    return statement(
        lambda public, ledger: replace(
            public, status={**public.status, **{key: fact(ledger) for key, fact in facts.items()}}
        )
    )


def entries(**facts: Callable[[dict[str, Any]], Any]) -> Twin:
    """Return a twin whose entries show what their COMMITTED or FORFEITED events say."""

    def change(public: Statement, ledger: Ledger) -> Statement:
        ends = {event["entry"]: event for event in ledger.log() if event["state"] in ("COMMITTED", "FORFEITED")}
        shown = [replace(one, **{key: fact(ends[one.name]) for key, fact in facts.items()}) for one in public.entries]
        return replace(public, entries=shown)

    return statement(change)


def printed(public: Statement, ledger: Ledger) -> Statement:
    click.echo(ledger.status())
    return public


def telling(self: PerturbedHistogram, x: Counts, *, rng: np.random.Generator) -> Any:
    """Say on standard output what is in the table; what is released is public."""
    click.echo(str(self.domain.flat(x.records) @ x.frequencies))
    return of_a_public_table(KERNEL)(self, x, rng=rng)


def leaving(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a file where a run is forfeited."""
    honest = Run.__exit__

    def left(self: Run, kind: Any, *rest: Any) -> None:
        if kind is not None:
            Path(".out.csv.part").touch()
        honest(self, kind, *rest)

    monkeypatch.setattr(Run, "__exit__", left)


TWINS: dict[str, tuple[Twin, str]] = {
    "state": (entries(state=lambda end: {"COMMITTED": "paid", "FORFEITED": "void"}[end["state"]]), "export.json"),
    "cost": (entries(cost=lambda end: Cost.from_dict(end["cost"])), "export.csv"),
    "records": (entries(request=lambda end: end["facts"]), "export.csv"),
    "time": (entries(reserved=lambda end: end["state"]), "ledger.html"),
    "spent": (status(spent=lambda ledger: ledger.status().spent), "export.json"),
    "left": (status(left=lambda ledger: ledger.status().left), "export.json"),
    "number": (status(counts=lambda ledger: {"paid": len(ledger.log()), "void": 0}), "ledger.html"),
    "hash": (status(created=lambda ledger: ledger.status().head), "ledger.html"),
    "printed": (statement(printed), "ledger export l.sqlite --out export.json"),
    "files": (leaving, ".out.csv.part"),
}


@pytest.mark.parametrize("place", TWINS)
def test_a_twin_that_tells_of_a_refusal_is_caught(
    place: str, custodian: Custodian, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin, name = TWINS[place]
    twin(monkeypatch)
    assert name in leaks(custodian, "refusing", [FITTING[0], UNFIT[0]])


@pytest.mark.parametrize(
    ("output", "name"), [(telling, "release"), (KERNEL, "out.csv"), (KERNEL, "out.certificate.json")]
)
def test_a_twin_that_tells_of_a_record_is_caught(
    output: Callable[..., Any], name: str, custodian: Custodian, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PerturbedHistogram, "kernel", output)
    assert name in leaks(custodian, "counts", FITTING[:2])
