"""The command as its users meet it: a real process, real files, exit statuses, and messages without data in them."""

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import answer, document

import discreet
from discreet.cli.entry import run
from discreet.confidential import confidential
from discreet.domain import Boolean, Domain, Integer, OpenLabels
from discreet.errors import ParameterError
from discreet.mechanisms import REGISTRY, Marginals, named
from discreet.privacy import Budget
from discreet.releases import Certificate

CANARY = 987_654  # a confidential value that no message may repeat
DOMAIN = """
[columns.income]
type = "numeric"
lower = 1
upper = 1000000
cells = 50
spacing = "log"

[columns.region]
type = "category"
categories = ["north", "south", "east"]
"""


def table(rows: int = 3000) -> pl.DataFrame:
    rng = np.random.default_rng(5)
    income = np.clip(rng.lognormal(10, 1, rows), 1, 1e6)
    return pl.DataFrame({"income": income, "region": rng.choice(["north", "south", "east"], rows)})


@pytest.fixture
def files(tmp_path: Path) -> Path:
    table().write_parquet(tmp_path / "data.parquet")
    (tmp_path / "domain.toml").write_text(DOMAIN)
    return tmp_path


def release_arguments(folder: Path, **changes: str | None) -> list[str]:
    options: dict[str, str | None] = {
        "domain": str(folder / "domain.toml"),
        "epsilon": "1",
        "delta": "1e-6",
        "size": "500",
        "out": str(folder / "out.parquet"),
        "mechanism": "perturbed-histogram",
    }
    data = changes.pop("data", None) or str(folder / "data.parquet")
    options |= changes
    flags = [part for key, value in options.items() if value is not None for part in (f"--{key}", value)]
    return ["release", data, *flags]


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    assert str(CANARY) not in captured.out + captured.err
    assert captured.err.startswith("discreet: ")
    return captured.err


def leftovers(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()} - {"data.parquet", "domain.toml"}


def test_release_verify_and_compare_in_real_processes(files: Path) -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-c", "from discreet.cli import main; main()", *arguments]
        return subprocess.run(program, capture_output=True, text=True, check=False, cwd=files)

    made = command(*release_arguments(files, mechanism=None), "--json")
    assert made.returncode == 0, made.stderr
    facts = json.loads(made.stdout)
    assert facts["rows"] == 500
    assert facts["guarantee"]["delta"] <= 1e-6
    assert 0 < facts["share_not_from_data"] < 0.2
    released = pl.read_parquet(files / "out.parquet")
    assert released.schema == table(3).schema
    assert released["income"].is_between(1, 1e6).all()
    assert leftovers(files) == {"out.parquet", "out.certificate.json"}

    checked = command("verify", "out.certificate.json", "--data", "out.parquet", "--json")
    assert checked.returncode == 0, checked.stdout
    assert json.loads(checked.stdout)["agrees"] is True

    compared = command("compare", "data.parquet", "out.parquet", "--domain", "domain.toml", "--json")
    assert compared.returncode == 0, compared.stderr
    assert json.loads(compared.stdout)["confidential"] is True


def test_compare_with_measures_and_a_holdout(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(files / "data.parquet")
    arguments = ["compare", data, data, "--domain", str(files / "domain.toml")]
    asked = [*arguments, "--measures", "tv, marginals-2", "--holdout", data, "--resamples", "5"]
    measures = document(capsys, *asked)["measures"]
    assert {one["measure"] for one in measures} == {"tv", "marginals-2"}
    assert all(one["release"] == one["holdout"] == 0.0 < one["bootstrap"][0] for one in measures)
    assert "Measures, beside" in answer(capsys, *arguments, "--measures", "tv", "--resamples", "0")
    assert "unknown measure 'nonsense'" in answer(capsys, *arguments, "--measures", "nonsense", status=2)


@pytest.mark.parametrize(("place", "mechanism"), [*enumerate(sorted({*REGISTRY} - {"private-evolution"}))])
def test_every_mechanism_releases_a_file(files: Path, place: int, mechanism: str) -> None:
    """To one format or the other: the writer knows no mechanism."""
    ending = ["parquet", "csv"][place % 2]
    out = str(files / f"out.{ending}")
    delta = "0.01" if named(mechanism).traits.verbatim else "1e-6"
    asked = release_arguments(files, mechanism=mechanism, out=out, delta=delta, size="5")
    assert run([*asked, "--accept-weak-promise"]) == 0
    read = pl.read_csv(out) if ending == "csv" else pl.read_parquet(out)
    assert read.width == 2
    assert len(read) == 5 or named(mechanism).traits.random_size
    assert run(["verify", str(files / "out.certificate.json"), "--data", out]) == 0


def test_a_seeded_release_repeats_and_says_so_for_good(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frames = []
    for name in ("a", "b"):
        out = files / f"{name}.parquet"
        assert run(release_arguments(files, seed="7", out=str(out))) == 0
        frames.append(pl.read_parquet(out))
        certificate = json.loads((files / f"{name}.certificate.json").read_text())
        assert certificate["randomness"] == "seeded"
        assert Certificate.from_dict(certificate).statement.startswith("Seeded run, not for publication")
    assert frames[0].equals(frames[1])
    assert "do not publish" in capsys.readouterr().err
    assert run(release_arguments(files, out=str(files / "c.parquet"), certificate=str(files / "promise.json"))) == 0
    assert not pl.read_parquet(files / "c.parquet").equals(frames[0])
    assert leftovers(files) >= {"c.parquet", "promise.json"}
    assert "c.certificate.json" not in leftovers(files)


@pytest.mark.parametrize(
    ("arguments", "delta"),
    [
        ("dirichlet-process --records 11918162 --size 119 --param strength=1 --epsilon 0.5", 119 / 11918281),
        (
            "pitman-yor --records 11918162 --size 119 --param strength=1 --param discount=0.5 --epsilon 3",
            0.5 * 119 / 11918281,  # beyond log(2) what is left is that a value held once is drawn
        ),
        (
            "dirichlet-multinomial --records 11918162 --size 12000000 --param prior=5 --param cells=300 --epsilon 2",
            4.45e-9,
        ),
        (
            "smoothed-histogram --records 11918162 --size 12000000 --param mixing=0.01 --param cells=300 --epsilon 0.5",
            8.85e-15,
        ),
    ],
)
def test_privacy_gives_the_check_values(arguments: str, delta: float, capsys: pytest.CaptureFixture[str]) -> None:
    facts = document(capsys, "privacy", *arguments.split())
    assert math.isclose(facts["delta"], delta, rel_tol=2e-3)
    assert facts["kind"] == "unconditional"
    assert facts["caveats"]
    assert facts["theorem"] in {"T1", "T4", "T5", "T21"}


def test_privacy_converts_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    base = "privacy smoothed-histogram --records 1000 --size 500 --param mixing=0.2 --param cells=10"
    epsilon = document(capsys, *base.split(), "--delta", "1e-6")["epsilon"]
    assert document(capsys, *base.split(), "--epsilon", epsilon)["delta"] <= 1e-6


def test_every_release_of_a_non_atomic_domain_says_how_many_records_are_verbatim(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = "privacy pitman-yor --records 1000 --size 10 --param strength=1 --epsilon 1"
    caveats = " ".join(document(capsys, *asked.split())["caveats"])
    assert "verbatim" in caveats
    assert "9.99001" in caveats  # 10 * 1000 / 1001


@pytest.mark.parametrize(
    ("arguments", "solved"),
    [
        ("dirichlet-multinomial --param cells=30 --size 1000", "prior"),
        ("dirichlet-multinomial --param cells=30 --param prior=3", "size"),
        ("smoothed-histogram --param cells=30 --size 1000", "mixing"),
        ("smoothed-histogram --param cells=30 --param mixing=0.1", "size"),
        ("perturbed-histogram --param noise=gaussian", "scale"),
        ("dirichlet-process --param strength=1", "size"),
        ("dirichlet-process --size 10", "strength"),
    ],
)
def test_calibrate_solves_for_the_one_free_parameter(
    arguments: str, solved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    budget = ["--records", "10000", "--epsilon", "1", "--delta", "0.001"]
    facts = document(capsys, "calibrate", *arguments.split(), *budget)
    assert list(facts["solved"]) == [solved]
    assert facts["delta"] <= 0.001
    parameters = {**facts["parameters"], "cells": 30}
    if "dirichlet-process" in arguments or "perturbed" in arguments:
        del parameters["cells"]
    pairs = [part for key, value in parameters.items() for part in ("--param", f"{key}={value}")]
    size = [] if facts["size"] is None else ["--size", facts["size"]]
    stated = document(capsys, "privacy", facts["mechanism"], "--records", 10000, *size, *pairs, "--epsilon", 1)
    assert math.isclose(stated["delta"], facts["delta"], rel_tol=1e-9)


def test_epsilon_0_is_stated_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["perturbed-histogram", "--records", "100", "--epsilon", "0", "--delta", "0.01", "--param", "cells=3"]
    facts = document(capsys, "calibrate", *asked)
    assert facts["epsilon"] == 0.0
    assert 0.0 < facts["delta"] <= 0.01


def test_of_a_domain_a_guarantee_is_stated_and_solved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of several columns, one of them open, as a release has it; and of cells that the domain says."""
    domain = Domain(columns={"town": OpenLabels(), "age": Integer(lower=0, upper=99), "member": Boolean()})
    file = tmp_path / "domain.toml"
    file.write_text(domain.to_toml())
    budget = Budget(epsilon=1.0, delta=1e-6)
    for relation in ("replacement", "add-remove"):
        asked = ["marginals", "--domain", str(file), "--records", "9000", "--relation", relation, "--epsilon", "1"]
        facts = document(capsys, "calibrate", *asked, "--delta", "1e-6")
        made = Marginals.calibrated(budget, domain=domain, n=9000, relation=relation)
        assert facts["parameters"] == made.parameters()
        assert {"threshold", "label_units"} <= facts["parameters"].keys()
        pairs = [part for key, value in facts["parameters"].items() for part in ("--param", f"{key}={value}")]
        assert document(capsys, "privacy", *asked, *pairs)["delta"] == facts["delta"] <= 1e-6
    file.write_text(Domain(columns={"age": Integer(lower=0, upper=99)}).to_toml())
    asked = "privacy dirichlet-multinomial --records 100 --size 10 --param prior=0.5 --epsilon 1 --json"
    of_file, cells = ["--domain", file], ["--param", "cells=100"]
    assert answer(capsys, *asked.split(), *of_file) == answer(capsys, *asked.split(), *cells)
    assert "It comes from the domain" in answer(capsys, *asked.split(), *of_file, *cells, status=2)


def test_a_guarantee_is_stated_for_add_remove_where_there_is_a_theorem(capsys: pytest.CaptureFixture[str]) -> None:
    scales = {}
    for relation in ("replacement", "add-remove"):
        asked = ["private-evolution", "--records", "10000", "--relation", relation, "--param", "steps=4"]
        budget = ["--param", "variant=practical", "--epsilon", "1", "--delta", "1e-6"]
        facts = document(capsys, "calibrate", *asked, *budget)
        scales[relation] = facts["solved"]["scale"]
        given = ["--param", f"scale={scales[relation]}", "--param", "population=100", "--delta", "1e-6"]
        given += ["--param", f"nearest={facts['parameters']['nearest']}"]
        found = document(capsys, "privacy", *asked, *given)
        assert (facts["relation"], found["relation"]) == (relation, relation)
        assert found["epsilon"] == pytest.approx(1.0, abs=1e-6)
    # T counts that move by one in place of 2T: the noise may be smaller by the square root of two
    assert scales["replacement"] / scales["add-remove"] == pytest.approx(2**0.5, rel=1e-3)
    lacking = "privacy private-evolution --records 99 --epsilon 1 --param scale=9"
    assert "private-evolution needs --param steps=..." in answer(capsys, *lacking.split(), status=2)
    asked = "privacy dirichlet-process --records 9 --size 1 --param strength=9 --epsilon 1 --relation add-remove"
    assert "no theorem for the add-remove relation" in answer(capsys, *asked.split(), status=2)


def test_plan_reads_no_data_and_lists_every_mechanism(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ["plan", "--domain", str(files / "domain.toml"), "--records", "3000", "--epsilon", "1", "--delta", "1e-6"]
    planned = document(capsys, *base, "--size", "500")
    assert {o["mechanism"] for o in planned["options"]} == set(REGISTRY) - {"pitman-yor"}
    chosen = next(o for o in planned["options"] if o["mechanism"] == planned["chosen"])
    feasible = [o for o in planned["options"] if o["parameters"] is not None]
    assert chosen["predicted_w1"] == min(o["predicted_w1"] for o in feasible)
    assert all(o["delta"] <= 1e-6 for o in feasible)


def test_domain_init_writes_a_template_that_asks(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = files / "template.toml"
    assert run(["domain", "init", str(files / "data.parquet"), "--out", str(out)]) == 0
    assert "income" in out.read_text()
    capsys.readouterr()
    assert run(release_arguments(files, domain=str(out))) == 2
    assert "income" in complaint(capsys)
    assert run(["domain", "init", str(files / "data.parquet"), "--out", str(out)]) == 2  # never overwritten


def test_verify_finds_what_was_changed(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(release_arguments(files, mechanism="dirichlet-multinomial", size="50")) == 0
    certificate = files / "out.certificate.json"
    whole = json.loads(certificate.read_text())
    for change in (  # those that no false value in tests/golden stands for
        lambda c: c["guarantee"].update(kind="instance"),
        lambda c: c["domain"]["columns"]["income"].update(cells=10),
        lambda c: c.update(records=30_000_000),
        lambda c: c.pop("domain"),
    ):
        changed = json.loads(json.dumps(whole))
        change(changed)
        certificate.write_text(json.dumps(changed))
        answer(capsys, "verify", certificate, status=1)
    certificate.write_text(json.dumps(whole))
    answer(capsys, "verify", certificate)
    released = files / "out.parquet"
    pl.read_parquet(released).head(49).write_parquet(released)
    said = answer(capsys, "verify", certificate, "--data", released, status=1)
    assert "sha256" in said
    assert "rows" in said


BAD_VALUES = {
    "out of bounds": pl.Series("income", [float(CANARY) * 100] * 40),
    "NaN": pl.Series("income", [math.nan] + [float(CANARY)] * 39),
    "infinity": pl.Series("income", [math.inf] + [float(CANARY)] * 39),
    "null": pl.Series("income", [None] + [float(CANARY)] * 39),
    "wrong type": pl.Series("income", [f"x{CANARY}"] * 40),
    "not declared": pl.Series("region", [f"west{CANARY}"] * 40),
}


@pytest.mark.parametrize("problem", BAD_VALUES)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_bad_values_name_the_column_and_never_the_value(
    files: Path, problem: str, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data, values = files / f"bad.{ending}", BAD_VALUES[problem]
    frame = table(40).with_columns(values)
    (frame.write_csv if ending == "csv" else frame.write_parquet)(data)
    assert run(release_arguments(files, data=str(data))) == 2
    assert values.name in complaint(capsys)
    assert leftovers(files) == {data.name}


def test_unreadable_inputs(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (files / "data.parquet").read_bytes()
    cases = {
        "empty.parquet": b"",
        "empty.csv": b"",
        "header.csv": b"income,region\n",
        "truncated.parquet": whole[: len(whole) // 2],
        "tail.parquet": whole[len(whole) // 2 :],
        "noise.parquet": bytes(range(256)) * 20,
        "duplicate.csv": f"income,region,income\n1,north,{CANARY}\n".encode(),
        "wrong.csv": f"wage,region\n{CANARY},north\n".encode(),
        "extra.csv": f"income,region,name\n10,north,n{CANARY}\n".encode(),
        "binary.csv": b"\xff\xfe\x00\x01" * 50,
    }
    for name, content in cases.items():
        (files / name).write_bytes(content)
    for name in (*cases, "missing.parquet", ""):  # the last is the folder
        assert run(release_arguments(files, data=str(files / name))) == 2, name
        complaint(capsys)
    assert leftovers(files) == set(cases)


def test_extra_columns_may_be_left_out_on_request(files: Path) -> None:
    table().with_columns(name=pl.lit("someone")).write_parquet(files / "extra.parquet")
    arguments = release_arguments(files, data=str(files / "extra.parquet"))
    assert run(arguments) == 2
    assert run([*arguments, "--ignore-other-columns"]) == 0
    assert pl.read_parquet(files / "out.parquet").columns == ["income", "region"]


def test_one_row_is_refused_for_poor_utility_and_possible_on_request(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.DataFrame({"income": [float(CANARY)], "region": ["north"]}).write_parquet(files / "one.parquet")
    arguments = release_arguments(files, data=str(files / "one.parquet"), size="10")
    assert run(arguments) == 3
    assert "More than 20% is refused" in complaint(capsys)
    assert run([*arguments, "--accept-poor-utility"]) == 0


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"size": "0"}, 2),
        ({"size": None}, 2),
        ({"size": "many"}, 2),
        ({"epsilon": "-1"}, 2),
        ({"epsilon": "nan"}, 2),
        ({"epsilon": "0", "delta": "0"}, 2),
        ({"delta": "1"}, 2),
        ({"mechanism": "no-such"}, 2),
        ({"mechanism": "dirichlet-process", "delta": "1e-9"}, 3),
        ({"mechanism": "dirichlet-multinomial", "epsilon": "0.001", "delta": "0"}, 3),
        ({"mechanism": "dirichlet-multinomial", "param": "prior=0.001"}, 3),
        ({"mechanism": "dirichlet-multinomial", "param": "priors=1"}, 2),
        ({"mechanism": "dirichlet-multinomial", "param": "prior"}, 2),
        ({"out": "no/such/folder/out.parquet"}, 2),
        ({"out": "/proc/out.parquet"}, 2),
        ({"out": "out.xlsx"}, 2),
        ({"domain": "no-such.toml"}, 2),
    ],
)
def test_bad_requests_leave_nothing_behind(
    files: Path, changes: dict[str, str | None], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(release_arguments(files, **changes)) == status
    text = capsys.readouterr().err
    assert [line[:10] for line in text.splitlines()].count("discreet: ") == 1
    assert leftovers(files) == set()


@pytest.mark.parametrize(
    "arguments",
    [
        "privacy dirichlet-process --records 10 --size 5 --param strength=1 --epsilon inf",
        "privacy dirichlet-process --records 10 --size 5 --param strength=1 --param size=6 --epsilon 1",
        "privacy dirichlet-process --records 10 --size 5 --param strength=nan --epsilon 1",
        "privacy pitman-yor --records 10 --size 5 --param discount=-1 --param strength=abc --epsilon 1",
        "privacy pitman-yor --records 10 --size 5 --param discount=-1e-320 --param strength=1 --epsilon 1",
        "privacy perturbed-histogram --records 10 --param scale=1 --param group=2.5 --epsilon 1",
        f"privacy dirichlet-multinomial --records 10 --size 5 --param cells=3 --param prior=1{'0' * 400} --epsilon 1",
        "calibrate dirichlet-multinomial --records 10 --size 5 --param cells=3 --param domain=3 --epsilon 1",
    ],
)  # fmt: skip
def test_odd_parameters_are_bad_input(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments.split()) == 2
    complaint(capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        "--records 12000000 --size 12000000 --param cells=1000000 --epsilon 1 --delta 1e-9",
        "--records 10000000000 --size 10000000000 --param cells=300 --epsilon 1 --delta 1e-9",
        "--records 2064734 --size 10000 --param cells=1000 --epsilon 1e-6 --delta 1e-9",
    ],
)
def test_what_is_feasible_is_found(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert document(capsys, "calibrate", "dirichlet-multinomial", *arguments.split())["delta"] <= 1e-9


def test_hostile_certificates_disagree_or_are_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(release_arguments(files)) == 0
    path = files / "out.certificate.json"
    whole = json.loads(path.read_text())
    for text in (
        json.dumps(whole).replace('"delta": ', '"delta": NaN, "was": ', 1),
        "[" * 200_000,
        json.dumps(whole | {"relation": {"name": "replacement", "group": 10**10}}),
        json.dumps(whole | {"guarantee": whole["guarantee"] | {"caveats": [{"code": "\ud800"}]}}),
        json.dumps(whole | {"shows": "It proves everything."}),
    ):
        path.write_text(text)
        assert run(["verify", str(path), "--json"]) in {1, 2}
        assert "Traceback" not in capsys.readouterr().err


def test_faults_of_the_program_show_their_kind_and_not_their_text(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"while reading {CANARY}")

    monkeypatch.setattr("discreet.release", broken)
    assert run(release_arguments(files)) == 4
    assert "RuntimeError" in complaint(capsys)


def test_under_add_remove_the_plan_chooses_among_those_that_have_it(files: Path) -> None:
    assert run([*release_arguments(files, mechanism=None), "--relation", "add-remove", "--records", "3000"]) == 0
    facts = json.loads((files / "out.certificate.json").read_text())
    assert facts["relation"]["name"] == "add-remove"
    assert facts["records"] == 3000
    assert facts["mechanism"]["name"] in {"marginals", "private-evolution"}


def test_an_outcome_is_declared_in_the_file_or_asked_for(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The option goes before the file, also in a plan, and an output that is the domain's file is refused."""
    given = [*release_arguments(files, mechanism="marginals"), "--param", "units=40"]
    for declared, asked, outcome in (("", [], None), ('outcome = "region"', [], ["region"]),
                                     ('outcome = "region"', ["income", "region"], ["income", "region"])):  # fmt: skip
        (files / "domain.toml").write_text(declared + DOMAIN)
        options = [part for name in asked for part in ("--outcome", name)]
        assert run([*given, *options]) == 0
        facts = json.loads((files / "out.certificate.json").read_text())
        assert facts["domain"].get("outcome") == outcome
        assert run(["verify", str(files / "out.certificate.json")]) == 0
    plan = ["plan", "--domain", str(files / "domain.toml"), "--records", "3000", "--epsilon", "1", "--delta", "1e-6"]
    planned = document(capsys, *plan, "--outcome", "income")
    assert {o["mechanism"] for o in planned["options"]} == set(REGISTRY) - {"pitman-yor"}
    assert run([*given, "--outcome", "wage"]) == 2
    assert "outcome names 'wage', which is not a column of the domain" in complaint(capsys)
    domain = str(files / "domain.toml")
    assert run([*given, "--certificate", domain, "--outcome", "income"]) != 0
    assert (files / "domain.toml").read_text() == 'outcome = "region"' + DOMAIN
    closed = confidential(table(), Domain.read(domain))
    asked = {"budget": Budget(epsilon=1.0, delta=1e-6), "size": 500, "mechanism": "marginals"}
    with pytest.raises(ParameterError, match="Leave the outcome out"):
        discreet.release(closed, outcome="income", **asked)
    result = discreet.release(closed, **asked)
    assert result.certificate.facts.domain["outcome"] == ["region"]


def test_options_that_belong_together(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, said in (
        (["--relation", "add-remove"], "Write --records ..."),
        (["--relation", "add-remove", "--records", "0"], "records must be an integer from 1"),
        (["--redraw"], "Name it with --checkpoint"),
        (["--mechanism", "perturbed-histogram", "--param", "group=2"], "'group' is no parameter of"),
    ):
        assert run([*release_arguments(files, mechanism=None), *options]) == 2
        assert said in complaint(capsys)
        assert leftovers(files) == set()


def test_the_remedy_of_a_refusal_has_a_line_of_its_own(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = release_arguments(files, epsilon="20")
    assert run(asked) == 3
    problem, remedy = capsys.readouterr().err.splitlines()
    assert problem.startswith("discreet: epsilon 20 promises next to nothing: ")
    assert remedy.startswith("Take an epsilon of at most 10, or accept a weak promise")
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert run(asked) == 3
    narrow = "".join(capsys.readouterr().err.partition("discreet: ")[1:])  # after what a bar of progress draws
    assert narrow.split() == f"{problem} {remedy}".split()
    assert max(map(len, narrow.splitlines())) <= 50


def test_a_category_that_is_not_declared_is_withheld_on_purpose(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.toml").write_text('columns = {a = {type = "category", categories = ["x"]}}')
    (tmp_path / "t.csv").write_text("a,b\nx,1\nsecret,2\n")
    table = [str(tmp_path / "t.csv"), "--domain", str(tmp_path / "d.toml"), "--ignore-other-columns"]
    assert run(["release", *table, "--epsilon", "1", "--size", "2", "--out", str(tmp_path / "o.csv")]) == 2
    said = capsys.readouterr().err
    assert "secret" not in said
    assert "Messages never show a value of a table" in said
    assert "To see it, run discreet domain check" in said
    assert run(["domain", "check", *table]) == 1
    assert '"secret"' in capsys.readouterr().out
