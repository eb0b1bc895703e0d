"""Intervals stay in the range of what they are about, and are the same when they are asked for again."""

import contextlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget, release
from discreet.cli.entry import run
from discreet.domain import Boolean, Domain, Integer
from discreet.errors import Infeasible, ParameterError
from discreet.inference import noisy_counts_posterior
from discreet.inference.population import Posterior
from discreet.mechanisms import REGISTRY

ASKED = ["sd", "variance", "P(<=1)", "P(>1)", "P(=0)", "P(0..3)", "mean"]
CELLS = Domain(columns={"x": Integer(lower=0, upper=3)})
TABLES = {"one cell": [2] * 60, "ends": [0, 3] * 30, "all": [0, 1, 2, 3] * 15}
COUNTED = {"perturbed-histogram", "hierarchical-histogram", "stability-histogram", "signed-measure"}


def outside(rows: Any) -> list[str]:
    """The numbers whose interval leaves the range of a share, of a spread or of the column's values."""
    most = {"sd": 1.5, "variance": 2.25, "mean": 3.0, "q5": 3.0, "q99": 3.0}
    return [row.name for row in rows if not (0.0 <= row.lower <= row.upper <= most.get(row.name, 1.0) + 1e-9)]


@pytest.mark.parametrize("values", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("name", REGISTRY)
def test_intervals_of_every_mechanism_stay_in_range(name: str, values: list[int]) -> None:
    table, options = pl.DataFrame({"x": values}), {"accept": {"empirical", "poor-utility", "weak-promise"}, "seed": 3}
    for counts in (False, True)[: 1 + (name in COUNTED)]:
        asked: dict[str, Any] = {"counts": True} if counts else {"size": 6}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                made = release(table, CELLS, Budget(epsilon=0.5, delta=0.05), mechanism=name, **asked, **options)
            except Infeasible:
                continue
            for of in ("population", "table"):
                with contextlib.suppress(ParameterError):  # where there is none of this kind
                    assert outside(made.posterior(draws=60, of=of).summary(ASKED).rows) == []


def test_counts_that_are_all_zero_have_intervals_in_range() -> None:
    for noise in ("laplace", "gaussian"):
        draws = noisy_counts_posterior([0.0] * 4, domain=CELLS, n=20, noise=noise, scale=5.0, draws=200)
        assert outside(draws.summary(ASKED).rows) == []


def test_several_tables_keep_every_number_in_range() -> None:
    """Tables of one value but for one: the rule's normal interval goes beyond what can be, and is cut there."""
    table = pl.DataFrame({"x": [3] * 299 + [0], "g": [True, False] * 150})
    domain = Domain(columns={"x": Integer(lower=0, upper=3), "g": Boolean()})
    options = {"mechanism": "marginals", "tables": 3, "size": 300, "seed": 1, "accept": {"poor-utility"}}
    made = release(table, domain, Budget(epsilon=8.0, delta=1e-3), **options)
    asked = [*ASKED, "q5", "q99"]
    for by in (None, "g"):
        rows = made.estimate(asked, column="x", by=by, level=0.999999).rows
        assert outside(rows) == []
        assert {row.upper for row in rows if row.name == "mean"} == {3.0}  # cut: the normal interval goes beyond


def test_an_estimate_is_the_same_when_asked_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "made.parquet"
    table = pl.DataFrame({"x": [0, 1, 2, 2, 3] * 60})
    release(table, CELLS, Budget(epsilon=1.0, delta=1e-3), mechanism="hierarchical-histogram", size=99, out=out)
    found = [str(discreet.read(out).estimate(ASKED)) for _ in range(2)]
    assert found[0] == found[1]
    texts = []
    for _ in range(2):
        run(["estimate", str(out), "--functional", "mean,sd", "--json"])
        texts.append(json.loads(capsys.readouterr().out))
    assert texts[0] == texts[1]
    other = discreet.read(out).posterior(seed=1).summary(ASKED)
    assert str(other) != found[0]  # so that the comparison can tell draws apart


def test_zero_and_one_say_that_they_are_linear_and_logistic_is_one_word_away() -> None:
    domain = Domain(columns={"y": Integer(lower=0, upper=1), "x": Boolean()})
    posterior = Posterior.of_arrays(domain, domain.unflat(np.arange(4)), [[0.3, 0.1, 0.2, 0.4], [0.2, 0.2, 0.3, 0.3]])
    linear, logistic = posterior.regress("y ~ x"), posterior.regress("y ~ x", kind="logistic")
    assert "y has two values" in linear.notes[0]
    assert "kind='logistic'" in linear.notes[0]
    assert "log-odds of y" in logistic.notes[0]
    assert logistic.rows[0].mean == pytest.approx(np.log([0.2 / 0.3, 0.3 / 0.2]).mean())
    said = posterior.regress("x ~ y", kind="linear")
    assert "x has two values" in said.notes[0]
    assert "log-odds of x = true" in posterior.regress("x ~ y").notes[0]
    three = Domain(columns={"y": Integer(lower=5, upper=6), "x": Boolean()})
    other = Posterior.of_arrays(three, three.unflat(np.arange(4)), [[0.3, 0.1, 0.2, 0.4]])
    assert not any("two values" in note for note in other.regress("y ~ x").notes)  # logistic would be refused
