"""The second program confirms what this library claims, and refuses what claims less."""

import ast
import copy
import importlib
import importlib.util
import json
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from mutants import CODED as CODED_FOLDER
from mutants import DATA, MUTATED, listed

import discreet
from discreet import Budget, Output, Unit
from discreet.domain import Domain, Integer
from discreet.mechanisms import REGISTRY
from discreet.releases import guarantee_of

HERE = Path(__file__).parent
PROGRAM = HERE.parents[1] / "tools" / "verify_certificate"
GOLDEN = sorted([*HERE.glob("*/*.certificate.json"), *HERE.glob("*/*/certificate.json")])
NEWEST = [path for path in GOLDEN if path.relative_to(HERE).parts[0] == "0.2.0.dev0"]
LONG = {"frozen-2/data-specific-reveal-or-obscure", "frozen-2/subsampled-randomised-response"}
"""Whose sums the second program does not attempt, or composes on a coarser grid than the library."""

KNOWN = {
    "0.1.0/censored-chain": "guarantee.kind",  # the erratum: a Markov chain was called unconditional
    "0.1.0/pitman-yor-mixing": "guarantee.statement",  # its sentence did not say that the kind is empirical
    "0.1.0/dirichlet-multinomial-unit": "guarantee.profile[5]",  # 2 % above what is exact
}


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


sys.path.insert(0, str(PROGRAM.parent))
MODULES = [importlib.import_module(f"verify_certificate.{path.stem}") for path in sorted(PROGRAM.glob("*.py"))]
claims = importlib.import_module("verify_certificate.claims")
program = SimpleNamespace(**{name: value for module in MODULES for name, value in vars(module).items()})
promised = claims.promise_of


@cache
def promised_once(facts: str) -> Any:
    return promised(json.loads(facts, parse_float=program.decimal.Decimal))


def remembered(document: dict[str, Any]) -> Any:
    """Return the promise of a certificate; twins that differ in numbers alone share it."""
    kept = {key: document[key] for key in document if key not in {"guarantee", "created", "released"}}
    return promised_once(json.dumps(kept, default=float, sort_keys=True))


@pytest.fixture(autouse=True)
def _remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "promise_of", remembered)


def name(path: Path) -> str:
    return str(path.relative_to(HERE)).removesuffix("/certificate.json").removesuffix(".certificate.json")


CODED = [path for path in GOLDEN if name(path).startswith(("frozen-2/", "frozen-3/")) and name(path) not in LONG]


def wrong(facts: dict[str, Any] | str, data: Path | None = None) -> dict[str, str]:
    text = facts if isinstance(facts, str) else json.dumps(facts)
    checks = program.verify(text, data)
    assert len(checks) >= 6 or any(check.status != program.AGREES for check in checks)
    return {check.what: check.status for check in checks if check.status != program.AGREES}


# -- what it is made of -----------------------------------------------------------------------------------------------


def test_it_shares_nothing_with_the_library_and_is_short() -> None:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in PROGRAM.glob("*.py")}
    lengths = [len(text.splitlines()) for text in texts.values()]
    assert max(lengths) <= 500
    assert sum(lengths) <= 1600
    imported = set()
    for node in [node for text in texts.values() for node in ast.walk(ast.parse(text))]:
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported - set(sys.stdlib_module_names) == {"mpmath", PROGRAM.name}
    assert not imported & {"importlib", "subprocess", "runpy", "ctypes"}
    assert not any("__import__" in text for text in texts.values())


def test_it_knows_every_mechanism() -> None:
    assert program.MECHANISMS.keys() == {*REGISTRY, "censored-posterior", "pseudo-posterior"}


def test_its_sums_agree_with_each_other() -> None:
    """Every shortcut against the long way: Lemma 6, normal tails, ranges of losses."""
    mpf, exp = program.mpf, program.exp
    a, b, rest, m = mpf(2) / 3, mpf(3) / 2, mpf(40), 70
    cells = [program.masses(a + 1, a, m), program.masses(b, b + 1, m), program.masses(rest, rest, m)]
    scale = program.math.factorial(m) / program.mpmath.rf(a + b + 1 + rest, m)
    listed = program.Pair(program.draws(cells, m, scale, scale))
    short = program.urn_pair(m, a, b, rest)
    for epsilon in (mpf(0), mpf("0.3"), mpf(1), mpf(3)):
        assert abs(short(epsilon) / listed(epsilon) - 1) < mpf(10) ** -25
    multinomial = []
    for s in range(13):
        for t in range(13 - s):
            ways = program.math.comb(12, s) * program.math.comb(12 - s, t)
            common = ways * mpf("0.05") ** t * mpf("0.8") ** (12 - s - t)
            multinomial.append((common * mpf("0.15") ** s, common * mpf("0.05") ** s * 3**t))
    mixed = program.mixture_pair(12, mpf("0.05"), mpf("0.1"))
    assert abs(mixed(mpf(1)) / program.Pair(multinomial)(mpf(1)) - 1) < mpf(10) ** -25
    for least in (1, 70, 700, 2400):
        far = program.gaussian_tail(least, mpf(65))
        terms = [exp(-(mpf(w) ** 2) / (2 * mpf(65) ** 2)) for w in range(least, least + 1500)]
        line = mpf(65) * program.mpmath.sqrt(2 * program.mpmath.pi)
        assert abs(far * line / program.mpmath.fsum(terms) - 1) < mpf(10) ** -25
    small = program.gaussian(program.Fraction(5, 2), 1, 3)  # this scale is convolved
    smooth = 1 - 2 * program.gaussian_tail(2, mpf(5) / 2 * program.mpmath.sqrt(3))
    assert abs(small(0) - smooth) < mpf(10) ** -20
    one = program.ranged(mpf(2), 1, mpf("0.5"))
    assert abs(one - (1 - exp(mpf("-0.75"))) ** 2 / (1 - exp(mpf(-2)))) < mpf(10) ** -40
    density = exp(mpf(-1)) / (2 * (1 - exp(mpf(-2))))  # of T10's pair, at both ends of its range times e^(-1)
    two = program.mpmath.quad(
        lambda l: density * exp(l / 2) * _any_order(program, mpf("0.5") - l), [-2, mpf("-1.5"), mpf("0.5"), 2]
    )
    assert abs(program.ranged(mpf(2), 2, mpf("0.5")) - two) < mpf(10) ** -15


def _any_order(program: SimpleNamespace, epsilon: Any) -> Any:
    forward = program.ranged(program.mpf(2), 1, abs(epsilon))
    return forward if epsilon >= 0 else 1 - program.exp(epsilon) + program.exp(epsilon) * forward


# -- what it confirms --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", GOLDEN, ids=name)
def test_it_confirms_certificates_of_every_version(path: Path) -> None:
    found = wrong(path.read_text(encoding="utf-8"))
    if name(path) in LONG:
        assert program.CANNOT in found.values()
    else:
        assert set(found) == ({KNOWN[name(path)]} if name(path) in KNOWN else set())


golden = load(HERE / "make_golden.py", "make_golden")
LARGER = {"budget": Budget(epsilon=3.0, delta=1e-4), "size": 90}
FRESH: dict[str, dict[str, Any]] = dict.fromkeys(REGISTRY, LARGER) | {
    "marginals": {"budget": Budget(epsilon=3.0, delta=1e-4)},
    "pitman-yor-discount": {"budget": Budget(epsilon=1.0, delta=0.3), "size": 40},
    "pitman-yor": {"budget": Budget(epsilon=1.0, delta=0.3), "size": 40},
    "dirichlet-process": {"budget": Budget(epsilon=1.0, delta=0.3), "size": 40},
    "urn-histogram": {"budget": Budget(epsilon=1.0, delta=0.3), "size": 40},
    "private-evolution": {},
    "subsampled-randomised-response": {"budget": Budget(epsilon=3.0, delta=1e-6), "size": 30},
    "perturbed-histogram-gaussian": {"budget": Budget(epsilon=20.0, delta=1e-3)},
    "data-specific-reveal-or-obscure": {"budget": Budget(epsilon=2.0, delta=1e-6), "size": 3},
    "exponential-histogram": {"budget": Budget(epsilon=2.0, delta=1e-6), "loss": "hellinger", "size": 10},
    "hierarchical-histogram-pure": {"levels": (1, 2, 3)},
    "dirichlet-multinomial-unit": {"budget": Budget(epsilon=3.0, delta=1e-6), "size": 12},
}


def fresh(which: str, folder: Path, **changes: Any) -> tuple[str, Path]:
    asked = golden.releases()[which] | changes
    data = golden.table(asked["domain"])
    if "unit" in asked:
        data = data.with_columns(person=golden.pl.int_range(len(data)) // asked["unit"].max_records)
    out = folder / "released.csv"
    asked["accept"] = {"poor-utility", "weak-promise", *asked.get("accept", ())}
    discreet.release(data, out=Output(out, certificate=folder / "c.json"), **asked)
    return (folder / "c.json").read_text(encoding="utf-8"), out


@pytest.mark.parametrize(
    ("limit", "name"),
    [(discreet.Risk(detection=0.05, false_alarms=0.01), "smoothed-histogram"),
     (discreet.Risk(detection=0.05, false_alarms=0.01), "exponential-histogram"),
     (discreet.Risk(detection=0.56, false_alarms=0.5), "perturbed-histogram"),
     (discreet.Advantage(0.05), "perturbed-histogram"), (discreet.Success(0.62, prior=0.4), "smoothed-histogram")],
    ids=str,
)  # fmt: skip
def test_it_computes_what_an_attacker_reaches(limit: Any, name: str) -> None:
    cells = Domain(columns={"cell": Integer(lower=0, upper=19)})
    table = golden.pl.DataFrame({"cell": [1, 2, 3, 4] * 250})
    accept = {"poor-utility", "weak-promise"}
    made = discreet.release(table, cells, limit, size=50, mechanism=name, accept=accept, seed=1)
    document = made.certificate.to_dict()
    assert not wrong(json.dumps(document))
    reached = limit.reached(guarantee_of(made.certificate).profile)
    for field, value in {limit.limit[0]: reached * (1 - 1e-5), "other": 0.5}.items():
        lowered = copy.deepcopy(document)
        lowered["guarantee"]["attack"][field] = value
        assert "guarantee.attack" in wrong(json.dumps(lowered))


@pytest.mark.parametrize("which", FRESH)
def test_it_confirms_a_fresh_release_and_its_file(which: str, tmp_path: Path) -> None:
    text, out = fresh(which, tmp_path, **FRESH[which])
    assert not wrong(text, out)
    out.write_bytes(out.read_bytes() + b"\n")
    assert wrong(text, out)["released.sha256"] == program.WRONG


@pytest.mark.parametrize(
    "facts",
    [{"nearest": 3}, {"unit": Unit("person", max_records=3), "nearest": 2},
     {"unit": Unit("person", max_records=3), "unit_votes": 2}],
)  # fmt: skip
def test_it_confirms_several_votes_and_refuses_more(facts: dict[str, Any], tmp_path: Path) -> None:
    which = "private-evolution-unit" if "unit" in facts else "private-evolution"
    text, out = fresh(which, tmp_path, variant="practical", **facts)
    assert not wrong(text, out)
    voted = "unit_votes" if "unit_votes" in facts else "nearest"
    assert wrong(changed(json.loads(text), **{voted: facts[voted] + 1}))


def test_it_confirms_a_population_for_each_label(tmp_path: Path) -> None:
    text, out = fresh("private-evolution", tmp_path, domain=golden.EVERY_KIND, by_label="sex", variant="practical")
    assert json.loads(text)["mechanism"]["parameters"]["by_label"] == "sex"
    assert not wrong(text, out)


@pytest.mark.exhaustive
@pytest.mark.parametrize("epsilon", [0.1, 0.7, 6.0])
@pytest.mark.parametrize("which", [f"{mechanism}{form}" for mechanism in REGISTRY for form in ("", "-unit")])
def test_it_confirms_fresh_releases_of_many_budgets(which: str, epsilon: float, tmp_path: Path) -> None:
    budget = replace(golden.releases()[which]["budget"], epsilon=epsilon)
    text, out = fresh(which, tmp_path, budget=budget)
    dotted = which == "data-specific-reveal-or-obscure"  # composed on a grid that may be coarser than the library's
    assert set(wrong(text, out).values()) <= ({program.CANNOT} if dotted else set())


def test_as_a_command(tmp_path: Path) -> None:
    path = HERE / "0.1.0" / "dirichlet-multinomial-seeded.certificate.json"
    call = [sys.executable, "-I", str(PROGRAM)]
    answer = subprocess.run(
        [*call, str(path), "--data", str(path.with_name("dirichlet-multinomial-seeded.csv"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (answer.returncode, answer.stderr) == (0, "")
    assert "released.sha256" in answer.stdout
    facts = json.loads(path.read_text(encoding="utf-8"))
    for status, change in ((1, {"records": 300}), (2, {"mechanism": {"name": "new", "parameters": {}}})):
        (tmp_path / "c.json").write_text(json.dumps(facts | change), encoding="utf-8")
        answer = subprocess.run([*call, str(tmp_path / "c.json")], capture_output=True, text=True, check=False)
        assert answer.returncode == status, answer.stdout
    (tmp_path / "c.json").write_text("no certificate", encoding="utf-8")
    assert subprocess.run([*call, str(tmp_path / "c.json")], capture_output=True, check=False).returncode == 3


# -- what it refuses ---------------------------------------------------------------------------------------------------


def below(stated: float, true: Any, attained: bool) -> float:
    """Return a number a thousandth below what is stated; of a bound with slack, below what is proved."""
    return stated * 0.999 if attained else min(stated, float(true)) * 0.999


OF_CODED = {name(path).partition("/")[2] for path in CODED}


@pytest.mark.parametrize(
    "path", CODED + [path for path in NEWEST if name(path).partition("/")[2] not in OF_CODED], ids=name
)
def test_it_refuses_smaller_numbers(path: Path) -> None:
    facts = json.loads(path.read_text(encoding="utf-8"))
    guarantee, promise = facts["guarantee"], remembered(facts)
    twins = {}

    def twin(what: str) -> dict[str, Any]:
        twins[what] = copy.deepcopy(facts)
        return twins[what]["guarantee"]

    if "statement" in guarantee:
        twin("guarantee.statement")["epsilon"] *= 0.999
    for i, caveat in enumerate(guarantee["caveats"]):
        if isinstance(caveat, dict) and caveat["code"] == "single-label":
            twin("guarantee.caveats")["caveats"][i]["probability"] *= 0.999
    if guarantee["delta"]:
        true = promise.delta(program.exact(program.decimal.Decimal(str(guarantee["epsilon"]))))
        twin("guarantee.delta")["delta"] = below(guarantee["delta"], true, guarantee["exact"])
    if guarantee["pure_epsilon"] is not None:
        lowered = below(guarantee["pure_epsilon"], promise.pure, guarantee["exact"])
        twin("guarantee.pure_epsilon")["pure_epsilon"] = lowered
    for i, (epsilon, delta) in enumerate(guarantee["profile"]):
        true = promise.delta(program.exact(program.decimal.Decimal(str(epsilon))))
        if true > 1e-290:
            twin(f"guarantee.profile[{i}]")["profile"][i][1] = below(delta, true, guarantee["exact"])
    for what, changed in twins.items():
        found = wrong(changed)
        assert {program.LESS, program.WRONG} & set(found.values()), what
        assert what in found or what == "guarantee.statement", (what, found)


def changed(facts: dict[str, Any], **parameters: float) -> dict[str, Any]:
    twin = copy.deepcopy(facts)
    twin["mechanism"]["parameters"] |= parameters
    return twin


QUICKER = {"data-specific-reveal-or-obscure-unit", "marginals-open-labels"}
SINGLE = [
    path
    for path in NEWEST
    if name(path).partition("/")[2] in {*REGISTRY, *QUICKER} - {"data-specific-reveal-or-obscure"}
]
DRAWN = {"T1", "T2", "T4", "T5", "T7", "T12", "T13"}  # where the number of records enters


@pytest.mark.parametrize("path", SINGLE, ids=name)
def test_it_refuses_other_facts(path: Path) -> None:
    facts = json.loads(path.read_text(encoding="utf-8"))
    parameters, theorem = facts["mechanism"]["parameters"], facts["guarantee"]["theorem"]
    less_private = {"scale": 0.999, "prior": 0.99, "mixing": 0.99, "draw_epsilon": 1.01, "pure_epsilon": 1.01}
    for key, factor in less_private.items():
        if key in parameters and (key != "mixing" or theorem in DRAWN):  # elsewhere it acts on noisy counts
            assert wrong(changed(facts, **{key: parameters[key] * factor})), key
    if "scale" in parameters and parameters["scale"] % (1 / 1024) == 0:
        assert wrong(changed(facts, scale=parameters["scale"] - 1 / 1024))
    if "threshold" in parameters:
        assert wrong(changed(facts, threshold=parameters["threshold"] - 1)) or parameters["threshold"] == 0
    if "steps" in parameters:
        assert wrong(changed(facts, steps=3))
    if "units" in parameters:
        assert wrong(changed(facts, units=parameters["units"] + 1))
    if theorem in DRAWN:
        assert wrong(facts | {"records": 300})
        assert theorem == "T7" or wrong(facts | {"size": facts["size"] + 1})
    exact = copy.deepcopy(facts)
    exact["guarantee"]["exact"] = True
    assert bool(wrong(exact)) == (not facts["guarantee"]["exact"])
    grouped = copy.deepcopy(facts)
    grouped["relation"]["group"] *= 2
    if facts["unit"]:
        assert "guarantee.statement" in wrong(grouped)
        return
    said = grouped["guarantee"]["statement"].replace(
        "values one record has", "sets of records one unit of up to 2 records has"
    )
    grouped["guarantee"]["statement"] = said
    assert program.LESS in wrong(grouped).values()


@pytest.mark.parametrize("which", ["marginals-unit", "dirichlet-multinomial-unit", "perturbed-histogram-unit"])
def test_it_refuses_a_group_that_was_dropped(which: str) -> None:
    facts = json.loads((HERE / "0.2.0.dev0" / f"{which}.certificate.json").read_text(encoding="utf-8"))
    facts["relation"]["group"] = 1
    assert "guarantee.statement" in wrong(facts)


@pytest.mark.parametrize("which", ["pseudo-posterior", "censored-chain", "pitman-yor-mixing"])
def test_it_refuses_a_kind_that_was_raised(which: str) -> None:
    (path,) = (path for path in NEWEST if name(path).endswith(f"/{which}"))
    facts = json.loads(path.read_text(encoding="utf-8"))
    facts["guarantee"]["kind"] = "unconditional"
    assert wrong(facts)["guarantee.kind"] == program.WRONG


def test_it_refuses_what_no_theorem_covers() -> None:
    facts = json.loads((HERE / "0.2.0.dev0" / "perturbed-histogram.certificate.json").read_text(encoding="utf-8"))
    facts["relation"]["name"] = "add-remove"
    assert program.WRONG in wrong(facts).values()
    facts = json.loads((HERE / "0.2.0.dev0" / "data-specific-reveal-or-obscure.certificate.json").read_text("utf-8"))
    assert program.WRONG in wrong(changed(facts, schedule="published")).values()


def test_it_leaves_the_pairs_of_an_outcome_out_of_the_scores(tmp_path: Path) -> None:
    """Without the outcome there are more scores than are paid; columns that there are not are none."""
    domain = golden.releases()["marginals-every-kind"]["domain"]
    first, second, *_ = domain.names
    for workload in ({}, {"workload": f"{second}"}, {"workload": f"{second}*{domain.names[-1]}, {first}"}):
        asked = {"domain": replace(domain, outcome=first), "mechanism": "marginals", **FRESH["marginals"], **workload}
        text, out = fresh("marginals-every-kind", tmp_path, **asked)
        assert not wrong(text, out)
        assert all(check.agrees for check in discreet.verify(tmp_path / "c.json", data=out))
        for outcome in ([], ["none"], [first, first]):
            facts = json.loads(text)
            facts["domain"]["outcome"] = outcome
            assert wrong(facts)


def test_it_reads_the_items_of_a_workload_as_they_stand() -> None:
    facts = SimpleNamespace(columns=dict.fromkeys(["a,b", "c", "d", "e"]), outcome=["d"])
    for workload, pairs, fewer in ((["a,b"], 2, 1), (["a,b*c", "d"], 1, 0), ("c, d*e", 2, 1), (None, 3, 2)):
        facts.parameters = {"workload": workload}
        for facts.determines, number in (([], pairs), ([["c", "a,b"]], fewer), ([["d", "e"]], pairs)):
            assert program.pairs_of(facts) == number


def test_it_says_what_it_cannot_check() -> None:
    facts = json.loads((HERE / "0.2.0.dev0" / "pitman-yor-discount.certificate.json").read_text(encoding="utf-8"))
    found = wrong(changed(facts | {"size": 2000}))
    assert set(found.values()) == {program.CANNOT}
    del facts["guarantee"]["kind"]
    assert set(wrong(facts).values()) == {program.CANNOT}


def test_it_says_that_it_does_not_know_a_type_of_columns() -> None:
    document = json.loads((CODED_FOLDER / "marginals-add-remove.certificate.json").read_text(encoding="utf-8"))
    for facts in ({"type": "quarter"}, {"type": "quarter", "cells": 4}):
        document["domain"]["columns"]["age"] |= facts
        checks = program.verify(json.dumps(document), DATA / "marginals-add-remove.csv")
        unsure = [check for check in checks if check.status != program.AGREES]
        assert {(check.what, check.status) for check in unsure} == {
            ("guarantee", program.CANNOT),
            ("released values", program.CANNOT),
        }
        assert {check.detail for check in unsure if check.what == "guarantee"} == {
            "how many cells a column of type 'quarter' has"
        }
        assert [check.detail.partition(":")[0] for check in unsure if check.what == "released values"] == ["age"]


# -- what is stated, and what is checked -------------------------------------------------------------------------------


@pytest.mark.parametrize("which", MUTATED)
def test_no_certificate_with_a_false_value_is_confirmed(which: str) -> None:
    document, data, false = listed(which)
    assert not wrong(document, data)
    confirmed = [at for at, one in false if not wrong(one, data)]
    assert set(confirmed) <= {("guarantee", "exact")}  # not to call a promise exact is to promise less


@pytest.mark.parametrize(("column", "fact", "value"), [
    ("age", "upper", 40), ("age", "lower", 30), ("income", "upper", 5_000.0), ("born", "upper", "1960-01-01"),
    ("price", "digits", 1), ("sex", "categories", ["female", "male"]), ("sex", "categories", ["f", "m", "o"]),
])  # fmt: skip
def test_a_domain_that_the_released_file_contradicts_is_refused(column: str, fact: str, value: Any) -> None:
    document = json.loads((CODED_FOLDER / "marginals-add-remove.certificate.json").read_text(encoding="utf-8"))
    document["domain"]["columns"][column][fact] = value
    assert wrong(document, DATA / "marginals-add-remove.csv")["released values"] == program.WRONG
