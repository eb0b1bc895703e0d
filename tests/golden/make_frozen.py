"""Write down what the library does today: ``python tests/golden/make_frozen.py``, again only where it is to change.

Into ``frozen``: the rows of seeded releases (a digest and the first rows, or a file with its certificate of schema 1),
the numbers of plans, and what follows from the released files. ``make_frozen.py certificates`` writes into ``frozen-2``
the certificates of schema 2 of the same releases, and nothing else. ``make_frozen.py changed NAME ..`` writes releases
whose rows are others from now on into ``frozen-3``, with their certificates; earlier files stay. ``make_frozen.py new``
adds what is not there, of a new mechanism for instance, to all of these, and leaves the rest as it is.
``test_frozen.py`` computes all of it anew. Whoever writes a part again says in the changelog what changed, and why.
Public names only, so that it outlives moves of private modules.
"""

import datetime
import hashlib
import json
import shutil
import sys
from collections.abc import Callable
from decimal import Decimal as Exact
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl

import discreet
import discreet.errors
from discreet import Budget, Unit, inference
from discreet.confidential import confidential
from discreet.domain import Boolean, Category, Date, Decimal, Domain, Duration, Integer, Numeric, OpenLabels
from discreet.mechanisms import REGISTRY
from discreet.pseudo_posterior import CensoredPosterior, Convergence, PoissonMean, PseudoPosterior

FROZEN = Path(__file__).parent / "frozen"
CERTIFICATES = Path(__file__).parent / "frozen-2"
CHANGED = Path(__file__).parent / "frozen-3"
ROWS = 400
DRAWN_WITH = ("numpy", "scipy", "randomgen", "opendp")
"""What seeded rows depend on besides the library."""

INCOMES = Numeric(lower=1, upper=1e6, cells=8, spacing="log")
CELLS = Domain(columns={"income": INCOMES})
LINE = Domain(columns={"income": Numeric(lower=1, upper=1e6)})
PLANE = Domain(columns={"x": Numeric(lower=0, upper=1), "y": Numeric(lower=0, upper=1)})
TOWNS = Domain(columns={"town": OpenLabels(nulls="category")})
VISITS = Domain(columns={"visits": Integer(lower=0, upper=3, nulls="category")})
PURCHASES = Domain(columns={"purchases": Integer(lower=0, upper=500)})
SEX = Domain(columns={"sex": Category(categories=["female", "male", "other"])})
PAIR = Domain(columns={"age": Integer(lower=0, upper=99, cells=10), "sex": SEX.columns["sex"]})
WIDE = Domain(
    columns={
        "income": Numeric(lower=1, upper=1e6, cells=4, spacing="log", nulls="category"),
        "age": Integer(lower=0, upper=99, cells=4),
        "member": Boolean(),
        "born": Date(lower="1900-01-01", upper="1999-12-31", cells=2),
        "lasted": Duration(lower="0s", upper="1h", step="1m", cells=2),
        "price": Decimal(lower="0", upper="99.99", digits=2, cells=2),
        "sex": SEX.columns["sex"],
    }
)
OPEN_WIDE = Domain(columns={**TOWNS.columns, **VISITS.columns, "member": Boolean()})
URNS = ("pitman-yor", "dirichlet-process", "urn-histogram")
LABELS = ("stability-histogram", "stabilised-pitman-yor")
COUNTS = tuple(name for name, kind in REGISTRY.items() if kind.traits.counts)


def table(domain: Domain) -> pl.DataFrame:
    """Make up a table, by arithmetic alone."""
    row = np.arange(ROWS)
    uneven = (row * 37 % 101) / 101.0  # in [0, 1), every value about as often
    pairs = list(enumerate(uneven))
    columns: dict[str, Any] = {
        "income": [None if domain == WIDE and i % 50 == 49 else round(float(5e4 * u**2 + 900), 2) for i, u in pairs],
        "x": uneven**2,
        "y": (row * 29 % 97) / 97.0,
        "town": [None if i % 80 == 79 else f"town {i**2 // 30_000}" for i in range(ROWS)],
        "visits": [None if i % 40 == 39 else i * i % 7 % 4 for i in range(ROWS)],
        "purchases": 80 + row * 7 % 41,
        "age": (18 + 70 * uneven**1.5).astype(int),
        "member": row % 3 == 0,
        "born": [datetime.date(1930, 1, 1) + datetime.timedelta(days=int(25_000 * u)) for u in uneven],
        "lasted": [datetime.timedelta(minutes=int(40 * u)) for u in uneven],
        "price": [Exact(int(6_000 * u)) / 100 for u in uneven],
        "sex": ["female" if i % 9 < 5 else "male" if i % 9 < 8 else "other" for i in range(ROWS)],
    }
    return pl.DataFrame({name: columns[name] for name in domain.columns})


# -- rows of seeded releases ------------------------------------------------------------------------------------------


def releases() -> dict[str, dict[str, Any]]:
    """Return what each release is asked for, by its name."""
    asked: dict[str, dict[str, Any]] = {}
    for name in REGISTRY:
        domain = LINE if name in URNS else TOWNS if name in LABELS else PLANE if name == "private-evolution" else CELLS
        asked[name] = {"mechanism": name, "domain": domain, "budget": Budget(epsilon=1.0, delta=1e-6), "size": 200}
        if name in URNS:  # values appear verbatim: delta is of the order of size over records
            asked[name] |= {"budget": Budget(epsilon=1.0, delta=0.1), "size": 5}
        if name == "private-evolution":
            asked[name] |= {"budget": Budget(epsilon=2.0, delta=1e-6), "size": 20, "population": 10, "steps": 2}
        persons = TOWNS if name in LABELS else VISITS
        asked[f"{name}-unit"] = {**asked[name], "domain": persons, "unit": Unit("person", max_records=2)}
        if name in COUNTS:
            asked[f"{name}-counts"] = {**asked[name], "counts": True, "size": None}

    def also(name: str, like: str, **changes: Any) -> None:
        asked[name] = {**asked[like], **changes}

    hidden = {"relation": discreet.AddRemove(records=ROWS)}
    also("marginals-wide", "marginals", domain=WIDE, size=300)
    also("marginals-wide-tables", "marginals-wide", tables=3, size=100)
    also("marginals-wide-workload", "marginals-wide", workload="age*sex,income", given='sex = "female"')
    also("marginals-add-remove", "marginals-wide", **hidden)
    also("marginals-open-labels", "marginals", domain=OPEN_WIDE, budget=Budget(epsilon=4.0, delta=1e-6))
    also("marginals-open-labels-add-remove", "marginals-open-labels", **hidden)
    also("private-evolution-add-remove", "private-evolution", **hidden)
    also("private-evolution-laplace", "private-evolution", noise="laplace", variant="practical")
    also("perturbed-histogram-independent", "perturbed-histogram", sampling="iid")
    also("perturbed-histogram-gaussian", "perturbed-histogram", noise="gaussian")
    also("perturbed-histogram-pair", "perturbed-histogram", domain=PAIR)
    also("perturbed-histogram-labels", "perturbed-histogram", domain=SEX)
    also("hierarchical-histogram-pure", "hierarchical-histogram", noise="laplace", budget=Budget(epsilon=1.0))
    also("dirichlet-multinomial-wide", "dirichlet-multinomial", domain=WIDE, budget=Budget(epsilon=4.0, delta=1e-6))
    also("pitman-yor-mixing", "pitman-yor", sampler="mixing", accept={"empirical"})
    also("planned", "perturbed-histogram", mechanism=None)
    also("planned-pair", "planned", domain=PAIR)
    return asked


def written() -> list[str]:
    """Return the names of those that go to a file too, which is kept: estimates are frozen from it."""
    return [name for name in releases() if not name.endswith(("-unit", "-independent", "-laplace"))]


def released(asked: dict[str, Any], out: Path | None = None) -> Any:
    """Make one release."""
    data = table(asked["domain"])
    if "unit" in asked:
        data = data.with_columns(person=pl.int_range(ROWS) // 2)
    accept = {"poor-utility", "weak-promise", *asked.get("accept", ())}
    return discreet.release(data, seed=2024, out=out, **{**asked, "accept": accept})


def place(folder: Path, name: str) -> Path:
    """Return where a release is written: several tables into a folder."""
    return folder / (name if name.endswith("-tables") else f"{name}.csv")


def models() -> dict[str, Callable[[], Any]]:
    """Return the models whose tables are released; a chain takes its time."""
    purchases = PoissonMean(column="purchases")
    short = {"draws": 200, "warm_up": 200, "chains": 2}
    loose = Convergence(r_hat=float("inf"), effective=5.0, divergent=0.5)
    grid = {"mean": np.linspace(1.0, 300.0, 300)}
    return {
        "censored-grid": lambda: CensoredPosterior(purchases, bound=0.5, tables=2, grid=grid),
        "pseudo-posterior": lambda: PseudoPosterior(
            purchases, target_epsilon=6.0, tables=2, convergence=loose, **short
        ),
    }


def released_by_model(name: str) -> Any:
    """Make the tables of a model."""
    closed = confidential(table(PURCHASES), PURCHASES)
    return discreet.release(closed, mechanism=models()[name](), accept={"asymptotic", "empirical"}, seed=2024)


def rows_of(made: Any) -> dict[str, Any]:
    """Return the digest of the rows that were released, to twelve digits, and the first of them."""
    tables = made.records if isinstance(made.records, list) else [made.records]
    text = repr([(list(one.columns), list(map(str, one.dtypes)), [*map(_line, one.rows())]) for one in tables])
    return {
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "rows": [len(one) for one in tables],
        "first": [_line(row) for row in tables[0].head(3).rows()],
    }


def _line(row: tuple[Any, ...]) -> str:
    return ",".join(f"{value:.12g}" if isinstance(value, float) else str(value) for value in row)


def certified(path: Path) -> dict[str, Any]:
    """Return what a certificate says, less what differs from run to run or with the version."""
    facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return {key: value for key, value in facts.items() if key not in {"library", "created", "identity", "released"}}


# -- numbers of plans -------------------------------------------------------------------------------------------------


def plans() -> dict[str, dict[str, Any]]:
    """Return what each plan is asked for, by its name."""
    asked = {"records": 20_000, "budget": Budget(epsilon=1.0, delta=1e-9), "largest_sizes": False}
    looser = Budget(epsilon=1.0, delta=1e-6)
    return {
        "income": {**asked, "domain": CELLS, "largest_sizes": True},
        "line": {**asked, "domain": LINE, "records": 1_000},
        "categories": {**asked, "domain": SEX, "budget": Budget(epsilon=0.5, delta=1e-6)},
        "open-labels": {**asked, "domain": TOWNS, "budget": looser, "largest_sizes": True},
        "pair": {**asked, "domain": PAIR, "size": 5_000},
        "plane": {**asked, "domain": PLANE, "records": 400, "budget": looser},
        "wide": {**asked, "domain": WIDE, "records": 50_000, "largest_sizes": True},
        "wide-open-labels": {**asked, "domain": OPEN_WIDE, "budget": looser},
        "unit": {**asked, "domain": CELLS, "unit": Unit("person", max_records=3)},
        "pure": {**asked, "domain": CELLS, "budget": Budget(epsilon=1.0), "largest_sizes": True},
        "add-remove": {**asked, "domain": WIDE, "mechanisms": ["marginals"], "relation": "add-remove"},
        "counts": {**asked, "domain": VISITS, "mechanisms": list(COUNTS), "largest_sizes": True},
        "reference": {**asked, "domain": CELLS, "reference": table(CELLS)},
        "independent": {**asked, "domain": CELLS, "sampling": "iid"},
    }


def numbers_of(plan: Any) -> dict[str, Any]:
    """Return the numbers of a plan and the order of its options, without its sentences."""
    facts = plan.to_dict()
    facts["options"] = [
        {key: value for key, value in one.items() if key not in {"share_in_words", "caveats"}}
        | {"refused": one["refused"] is not None}
        for one in facts["options"]
    ]
    return {key: value for key, value in facts.items() if key not in {"verdict", "notes"}}


# -- what follows from a release --------------------------------------------------------------------------------------

ASKED = {
    "income": ["mean", "q25", "q50", "P(>10000)"],
    "x": ["mean", "q50"],
    "visits": ["mean", "P(=2)"],
    "age": ["mean", "q25", "P(>=65)"],
    "sex": ["P(=female)"],
    "town": ["P(=town 1)"],
}


def estimates(folder: Path, name: str) -> dict[str, Any]:
    """Return estimates from a release that is kept, or the class of the error where it has none."""
    kept = discreet.read(place(folder, name))
    column = kept.domain.names[0]
    questions: dict[str, Callable[[], Any]] = {"population": lambda: kept.estimate(ASKED[column], column=column)}
    if "sex" in kept.domain.columns and column != "sex":
        questions["by sex"] = lambda: kept.estimate(["mean"], column=column, by="sex")
    if kept.domain == CELLS:
        options = {"draws": 200, "seed": 7, "of": "table", "within": "even"}
        questions["table"] = lambda: inference.posterior(kept, **options).summary(ASKED[column])
    return {question: _rows(answer) for question, answer in questions.items()}


def _rows(answer: Callable[[], Any]) -> Any:
    try:
        found = answer().to_dict()["estimates"]
    except discreet.errors.DiscreetError as error:
        return type(error).__name__
    return [{key: one[key] for key in ("name", "group", "mean", "sd", "lower", "upper")} for one in found]


# -- all of it ---------------------------------------------------------------------------------------------------------


def drawn_with() -> dict[str, str]:
    """Return the versions of what seeded rows depend on besides the library."""
    return {name: version(name) for name in DRAWN_WITH}


def make(folder: Path) -> None:
    """Write everything anew."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "releases").mkdir(parents=True)
    rows = {name: rows_of(released(asked)) for name, asked in releases().items()}
    rows |= {name: rows_of(released_by_model(name)) for name in models()}
    for name in written():
        released(releases()[name], place(folder / "releases", name))
    _write(folder / "rows.json", {"drawn_with": drawn_with(), "rows": rows})
    _write(folder / "plans.json", {name: numbers_of(discreet.plan(**asked)) for name, asked in plans().items()})
    _write(folder / "estimates.json", {name: estimates(folder / "releases", name) for name in written()})


def make_certificates(folder: Path) -> None:
    """Write the certificates of the releases that are kept."""
    shutil.rmtree(folder, ignore_errors=True)
    with TemporaryDirectory() as made:
        for name in written():
            released(releases()[name], place(Path(made), name))
        shutil.copytree(made, folder, ignore=shutil.ignore_patterns("*.csv", "*.parquet"))


def make_changed(names: list[str]) -> None:
    """Write some releases whose rows changed, and the rows of those that go to no file."""
    CHANGED.mkdir(exist_ok=True)
    kept = _read(FROZEN / "rows.json")
    for name in names:
        kept["rows"][name] = rows_of(released(releases()[name]))
        if name in written():
            shutil.rmtree(CHANGED / name, ignore_errors=True)
            for path in CHANGED.glob(f"{name}.*"):
                path.unlink()
            released(releases()[name], place(CHANGED, name))
    _write(FROZEN / "rows.json", kept)


def make_new() -> None:
    """Add the releases that are not there, their estimates, and the mechanisms that are not in a plan."""
    rows, plans_kept, known = [_read(FROZEN / f"{name}.json") for name in ("rows", "plans", "estimates")]
    for name in releases().keys() - rows["rows"].keys():
        rows["rows"][name] = rows_of(released(releases()[name]))
        if name in written():
            released(releases()[name], place(FROZEN / "releases", name))
            for path in (FROZEN / "releases").glob(f"{name}.certificate.json"):
                shutil.copy(path, CERTIFICATES)
            known[name] = estimates(FROZEN / "releases", name)
    for name, asked in plans().items():
        kept = {option["mechanism"]: option for option in plans_kept[name]["options"]}
        found = numbers_of(discreet.plan(**asked))["options"]
        plans_kept[name]["options"] = [kept.get(option["mechanism"], option) for option in found]
    for name, facts in {"rows": rows, "plans": plans_kept, "estimates": known}.items():
        _write(FROZEN / f"{name}.json", facts)


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _write(path: Path, facts: dict[str, Any]) -> None:
    path.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["certificates"]:
        make_certificates(CERTIFICATES)
    elif sys.argv[1:2] == ["changed"]:
        make_changed(sys.argv[2:])
    elif sys.argv[1:] == ["new"]:
        make_new()
    else:
        make(FROZEN)
