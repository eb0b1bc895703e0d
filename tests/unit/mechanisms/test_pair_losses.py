"""What is lost of pairs of columns is estimated from noisy tables alone, and what was not measured is bounded."""

import json
import math
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from test_strong_pairs import model

from discreet import AddRemove, plan, read, release, verify
from discreet._core.random import ApproximateGenerator, seeded
from discreet.cli.entry import discreet as command
from discreet.domain import Category, Counts, Domain, Integer, Records
from discreet.mechanisms import Marginals, pair_losses
from discreet.mechanisms.chosen_tables import Merged
from discreet.mechanisms.latent_classes import Link
from discreet.mechanisms.measured_tables import MarginalsReading
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.pair_losses import LEVEL, hidden_dependence, model_tables, visible_dependence
from discreet.privacy import Budget
from discreet.releases import Certificate
from discreet.report import write_report
from discreet.wording import losses_of, lost_pairs


def test_the_tables_of_a_model_are_those_of_its_joint_law() -> None:
    """Four columns, two links in a row: by summing over all cells. Without the links they are off."""
    rng = seeded(1)
    mixture = model(rng, (4, 5, 3, 2))
    margins = [block.inside @ mixture.shares for block in mixture.blocks]
    wanted = {
        (i, j): np.outer(margins[i], margins[j]) * rng.gamma(0.3, size=(4, 5, 3)[i : j + 1])
        for i, j in ((0, 1), (1, 2))
    }
    linked = mixture.linked(wanted, [np.arange(len(margin)) for margin in margins])
    merged = [Merged(np.arange(size) // 2, (size + 1) // 2) for size in (4, 5, 3, 2)]
    alike = [Merged(np.arange(size), size) for size in (4, 5, 3, 2)]
    measured: Any = SimpleNamespace(choice=SimpleNamespace(merged=merged, fine=alike))
    joint = np.zeros((4, 5, 3, 2))
    blocks = {block.columns[0]: block for block in linked.blocks}
    for c, share in enumerate(linked.shares):
        for cells in product(*map(range, joint.shape)):
            mass = share
            for i, block in blocks.items():
                law = block.inside[:, c]
                if block.link is not None:
                    law = law * block.link.factors[cells[block.link.column]]
                mass *= law[cells[i]] / law.sum()
            joint[cells] += mass
    pairs = [(0, 1), (0, 2), (1, 2), (0, 3), (2, 3)]
    tables, plain = model_tables(measured, linked, pairs), model_tables(measured, mixture, pairs)
    for (i, j), linked_table, plain_table in zip(pairs, tables, plain, strict=True):
        table = joint.sum(axis=tuple({0, 1, 2, 3} - {i, j}))
        summed = np.zeros((merged[i].count, merged[j].count))
        np.add.at(summed, np.ix_(merged[i].cell_of, merged[j].cell_of), table)
        assert linked_table == pytest.approx(summed, abs=1e-12)
        assert (np.abs(plain_table - summed).max() > 0.01) == ((i, j) != (0, 3))


def test_independent_records_of_linked_columns_are_drawn_whatever_rounding_does() -> None:
    for seed in range(20):
        rng = seeded(seed)
        inside, factors = rng.dirichlet([0.02] * 4, size=30).T, rng.random((3, 4))
        link = Link(0, np.zeros(0, dtype=np.int64), factors, np.ones(30, dtype=bool))
        parents, classes = rng.integers(0, 3, 3000), rng.integers(0, 30, 3000)
        assert len(link.records(inside, parents, classes, stratified=False, rng=rng)) == 3000


@pytest.mark.parametrize("squared", [1, 9])
def test_the_bound_holds_for_all_scores_together_and_is_the_least_that_does(squared: int) -> None:
    """In exact probabilities; a bound for one score alone would fail in nearly all tables."""
    pairs, score, records, scale = 100, 700, 5000, 20.0
    choice = SimpleNamespace(expected=lambda i, j: np.array([[records]]))
    facts = SimpleNamespace(score_units=squared, pairs=[(0, j) for j in range(pairs)], scale=scale, records=records)
    measured: Any = SimpleNamespace(choice=choice, facts=facts, scores=np.full(pairs, score), two_way={(0, 1): None})
    share = hidden_dependence(measured, exact=True)
    reach = round(share * records * squared) - score

    def holds(reach: int) -> float:
        return float((1.0 - math.exp(GAUSSIAN.log_below(math.sqrt(squared) * scale, -reach))) ** pairs)

    assert holds(reach) >= LEVEL > holds(reach - 1)
    alone = next(k for k in range(1000) if GAUSSIAN.log_below(math.sqrt(squared) * scale, -k) <= math.log(1.0 - LEVEL))
    assert holds(alone) < 0.02


def related(seed: int, n: int, columns: int, pairs: int, strength: float) -> Counts:
    """Records of ordered columns of 8 values; the first columns are related to their neighbours in a ring."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 8, (columns, n))
    for j in range(1, pairs + 1):
        codes[j % columns] = np.where(rng.random(n) < strength, codes[j - 1], codes[j % columns])
    return Counts(records=Records(columns=tuple(codes)), frequencies=np.ones(n, dtype=np.int64))


def wide(columns: int) -> Domain:
    return Domain(columns={f"c{i}": Integer(lower=0, upper=7) for i in range(columns)})


def true_loss(reading: Any, table: np.ndarray, x: Counts, pair: tuple[int, int]) -> float:
    i, j = (reading.measured.choice.merged[k].cell_of[x.records.columns[k]] for k in pair)
    held = np.zeros_like(table)
    np.add.at(held, (i, j), 1.0 / x.n)
    return 0.5 * float(np.abs(held - table).sum())


def test_true_losses_lie_within_two_standard_errors() -> None:
    """Of 90 % of pairs; where noise counts as loss, of hardly any."""
    within: dict[str, list[bool]] = {"ours": [], "noise counted": []}
    for seed in range(6):
        x = related(seed, 4000, 8, 5, (0.2, 0.5, 0.9)[seed % 3])
        made = Marginals.calibrated(Budget(epsilon=(1.0, 3.0)[seed % 2], delta=1e-6), domain=wide(8), n=x.n)
        reading: Any = made.reading(made.kernel(x, rng=ApproximateGenerator(seed)), n=x.n)
        fitted = reading.measured.model(ApproximateGenerator(seed))
        losses = pair_losses.pair_losses(reading.measured, fitted)
        tables = model_tables(reading.measured, fitted, [pair for _, _, pair in losses])
        for (loss, error, pair), table in zip(losses, tables, strict=True):
            true, noisy = true_loss(reading, table, x, pair), reading.measured.two_way[pair][1] / x.n
            within["ours"].append(abs(true - loss) < 2.0 * error)
            raw = 0.5 * float(np.abs(noisy - table).sum())
            within["noise counted"].append(abs(true - raw) < 2.0 * error)
    shares = {name: float(np.mean(values)) for name, values in within.items()}
    assert shares["ours"] >= 0.9, shares
    assert shares["noise counted"] < 0.6, shares


def test_a_relation_of_the_strength_that_is_stated_is_measured_in_half_of_releases() -> None:
    n, columns, budget = 6000, 10, Budget(epsilon=1.0, delta=1e-6)
    made = Marginals.calibrated(budget, domain=wide(columns), n=n)
    stated = visible_dependence(made, n)
    assert made.forecast(n).visible_dependence == stated
    shares = []
    for factor in (0.4, 1.0, 1.7):
        measured = []
        for seed in range(4):
            x = related(seed, n, columns, columns, min(1.0, factor * stated / (1.0 - 1.0 / 8.0)))
            reading: Any = made.reading(made.kernel(x, rng=ApproximateGenerator(seed)), n=n)
            ring = [tuple(sorted((j, (j + 1) % columns))) for j in range(columns - 1)]
            measured += [pair in reading.measured.two_way for pair in ring]
        shares.append(float(np.mean(measured)))
    assert shares[0] < 0.35
    assert 0.15 < shares[1] < 0.9
    assert shares[2] > 0.9, shares
    weaker = Marginals.calibrated(Budget(epsilon=0.1, delta=1e-6), domain=wide(columns), n=n)
    assert visible_dependence(weaker, n) > stated > visible_dependence(made, 20 * n)


# -- what is said of them ---------------------------------------------------------------------------------------------

SAID = Domain(columns={name: Integer(lower=0, upper=7) for name in "abcde"} | {"t": Category(categories=list("xyz"))})
BUDGET = Budget(epsilon=0.5, delta=1e-6)


def people() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    codes = [*related(0, 3000, 5, 1, 0.9).records.columns, rng.integers(0, 3, 3000)]
    return pl.DataFrame(dict(zip(SAID.names, codes, strict=True))).with_columns(
        pl.col("t").replace_strict({0: "x", 1: "y", 2: "z"})
    )


def outcome(released: Any) -> dict[str, Any]:
    return {code.name: code.numbers for code in released.certificate.facts.released.outcome}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("losses")
    release(people(), SAID, BUDGET, size=3000, mechanism="marginals", out=folder / "r.parquet")
    people().write_parquet(folder / "held.parquet")
    return folder


def test_the_certificate_states_them_and_what_can_be_compared_is(folder: Path) -> None:
    released = read(folder / "r.parquet")
    numbers, file = outcome(released), folder / "r.certificate.json"
    losses, unmeasured = numbers["pair-losses"], numbers["unmeasured-pairs"]
    assert losses["losses"] == sorted(losses["losses"], reverse=True)
    assert len(losses["tables"]) + unmeasured["pairs"] == 15
    assert 0.0 < unmeasured["share"] <= 1.0
    assert "in other combinations of values" in str(released.certificate)
    assert all(check.agrees for check in verify(file, data=folder / "r.parquet"))
    second = [sys.executable, str(Path(__file__).parents[3] / "tools" / "verify_certificate"), str(file)]
    assert subprocess.run(second, check=False, capture_output=True).returncode == 0
    document = json.loads(file.read_text())
    places = {code["code"]: code for code in document["released"]["outcome"]}
    for code, name, value in (
        ("pair-losses", "tables", ["a*nobody", *losses["tables"][1:]]),
        ("pair-losses", "losses", [1.5, *losses["losses"][1:]]),
        ("pair-losses", "losses", losses["losses"][1:]),
        ("unmeasured-pairs", "pairs", 1),
    ):
        kept, places[code][name] = places[code][name], value
        wrong = [check.what for check in verify(Certificate.from_dict(document)) if not check.agrees]
        assert wrong == [f"released.outcome.{code}"]
        places[code][name] = kept


@pytest.mark.parametrize("options", [{"relation": AddRemove(records=3000)}, {"tables": 2}, {"size": None}])
def test_every_form_of_a_release_says_what_it_can(options: dict[str, Any]) -> None:
    facts = {"size": 3000, "mechanism": "marginals", **options}
    if facts.pop("size") is None:
        numbers = outcome(release(people(), SAID, BUDGET, counts=True, mechanism="marginals"))
        assert "pair-losses" not in numbers
    else:
        numbers = outcome(release(people(), SAID, BUDGET, size=3000, **facts))
        assert numbers["pair-losses"]["tables"]
    assert numbers["unmeasured-pairs"]["share"] > 0.0


def test_under_a_condition_no_loss_is_stated() -> None:
    released = release(people(), SAID, BUDGET, size=100, mechanism="marginals", given='t = "x"')
    assert "pair-losses" not in outcome(released)


def test_notes_name_a_pair_that_was_lost_where_it_is_asked_about() -> None:
    released = release(people(), SAID, BUDGET, size=3000, tables=3)
    codes = released.certificate.facts.released.outcome
    worst, loss, _ = losses_of(codes)[0]
    for columns in (worst.split("*"), ["a", "b"]):
        notes = released.regress(f"{columns[0]} ~ {columns[1]}").notes
        assert any("in other combinations of values" in note for note in notes) == bool(
            lost_pairs(codes, columns, unmeasured=False)
        )
    assert lost_pairs(codes, worst.split("*"), unmeasured=False) == [] or loss > 0.1


def test_commands_and_report_repeat_them(folder: Path) -> None:
    columns = [f'{name} = {{type = "integer", lower = 0, upper = 7}}' for name in "abcde"]
    labels = 't = {type = "category", categories = ["x", "y", "z"]}'
    (folder / "domain.toml").write_text("\n".join(["[columns]", *columns, labels]))
    files = [str(folder / name) for name in ("held.parquet", "r.parquet", "domain.toml")]
    asked = ["compare", *files[:2], "--domain", files[2]]
    said = CliRunner().invoke(command, [*asked, "--measures", "correlation", "--resamples", "2"])
    assert said.exit_code == 0, said.output
    assert "of columns that were not measured" in said.output
    plain = CliRunner().invoke(command, asked)
    assert "may hide" not in plain.output
    write_report(folder / "r.parquet", folder / "r.html")
    page = (folder / "r.html").read_text()
    tables = outcome(read(folder / "r.parquet"))["pair-losses"]["tables"]
    places = [page.index(f"<bdi>{table}</bdi>") for table in tables]
    assert places == sorted(places)
    assert "Only strong relations of two columns are kept. One that changes" in " ".join(
        plan(SAID, BUDGET, records=3000, mechanisms=["marginals"]).text.split()
    )


def test_what_was_fitted_for_the_losses_is_what_is_drawn() -> None:
    """The rows are those without losses, from the same generator."""
    made = Marginals.calibrated(BUDGET, domain=wide(5), n=3000)
    y = made.kernel(related(0, 3000, 5, 3, 0.8), rng=ApproximateGenerator(0))
    rows = []
    for asked in (False, True):
        reading, rng = made.reading(y, n=3000), seeded(4)
        assert isinstance(reading, MarginalsReading)
        if asked:
            reading.losses(made.guarantee(n=3000).relation, made.contents(3000), rng=rng)
        rows.append(np.stack(Records.concatenate(list(reading.draw(500, rng=rng))).columns))
    assert (rows[0] == rows[1]).all()
