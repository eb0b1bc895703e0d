"""Parameters are those that the kernel draws with: rounded to its grid when a mechanism is made."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet import verify
from discreet.cli.entry import run
from discreet.domain import Domain, Integer, Numeric, OpenLabels
from discreet.mechanisms import (
    REGISTRY,
    DirichletMultinomial,
    Mechanism,
    PitmanYor,
    RevealOrObscure,
    SmoothedHistogram,
    StabilisedPitmanYor,
    SubsampledRandomisedResponse,
    UrnHistogram,
)


def cells(k: int) -> Domain:
    return Domain(columns={"x": Integer(lower=0, upper=k - 1)})


LINE = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
TOWNS = Domain(columns={"town": OpenLabels()})
STABLE = {"records": 100, "scale": 2.0, "threshold": 30}
MIXTURES = (SmoothedHistogram, RevealOrObscure, SubsampledRandomisedResponse)


@given(mixing=st.floats(1e-12, 1.0))
@pytest.mark.parametrize("kind", MIXTURES)
def test_mixing_is_a_multiple_of_the_grid_and_never_less(kind: Any, mixing: float) -> None:
    made = kind(domain=cells(5), size=1, mixing=mixing)
    units = Fraction(made.mixing) * 2**32
    assert units == math.ceil(Fraction(mixing) * 2**32)
    assert replace(made) == made  # rounded once


@given(strength=st.floats(-0.5, 2.0**40), discount=st.floats(0.5, 1.0, exclude_max=True))
@pytest.mark.parametrize("kind", [PitmanYor, UrnHistogram])
def test_strength_and_discount_are_multiples_of_the_grid(kind: Any, strength: float, discount: float) -> None:
    if strength <= -discount:
        return
    made = kind(domain=LINE if kind is PitmanYor else cells(5), size=3, strength=strength, discount=discount)
    assert (Fraction(made.strength) * 2**20, Fraction(made.discount) * 2**20) == (
        made.strength_units, made.discount_units)  # fmt: skip
    assert made.strength >= strength
    assert abs(Fraction(made.discount) - Fraction(discount)) <= Fraction(1, 2**20)
    assert 0.0 <= made.discount < 1.0
    assert made.strength > -made.discount
    assert replace(made) == made


@given(strength=st.floats(0.0, 2.0**40), discount=st.floats(0.0, 1.0, exclude_max=True))
def test_those_of_a_stabilised_urn_too(strength: float, discount: float) -> None:
    made = StabilisedPitmanYor(domain=TOWNS, strength=strength, discount=discount, **STABLE)
    assert (Fraction(made.strength) * 2**20).denominator == (Fraction(made.discount) * 2**20).denominator == 1
    assert made.strength >= strength
    assert replace(made) == made


@given(prior=st.floats(1e-12, 1.0), k=st.sampled_from([2, 3, 1_000, 1 << 20, (1 << 20) + 1, 2_999_999, 1 << 40]))
def test_the_prior_gives_the_total_that_is_drawn_with(prior: float, k: int) -> None:
    if prior * k > 2**40:
        return
    made = DirichletMultinomial(domain=cells(k), size=3, prior=prior)
    exact = Fraction(made.strength_units, k * 2**20)
    assert exact * (1 - Fraction(1, 2**52)) <= Fraction(made.prior) <= exact
    again = replace(made)
    assert (again.prior, again.strength_units) == (made.prior, made.strength_units)
    asked = math.ceil(Fraction(prior) * 2**20) * k if k <= 1 << 20 else math.ceil(Fraction(prior) * k * 2**20)
    assert made.strength_units == asked


PRINTED: dict[str, tuple[Mechanism, str, float]] = {
    "dirichlet-multinomial": (DirichletMultinomial(domain=cells(3), size=3, prior=1e-9), "prior", 2.0**-20),
    "smoothed-histogram": (SmoothedHistogram(domain=cells(3), size=1, mixing=1e-12), "mixing", 2.0**-32),
    "pitman-yor": (PitmanYor(domain=LINE, size=2, strength=1e-9), "strength", 2.0**-20),
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_guarantee_is_that_of_the_number_that_is_printed(name: str) -> None:
    made, parameter, printed = PRINTED[name]
    assert made.parameters()[parameter] == printed
    again = REGISTRY[name].from_parameters(made.parameters(), domain=made.domain, records=10, size=made.size)  # type: ignore[attr-defined]
    assert again.guarantee(n=10).delta(1.0) == made.guarantee(n=10).delta(1.0)
    closed = {"dirichlet-multinomial": lambda: math.log1p(3 / printed),
              "smoothed-histogram": lambda: math.log1p((1 - printed) * 3 / (10 * printed)),
              "pitman-yor": lambda: None}[name]()  # fmt: skip
    if closed is not None:
        assert made.guarantee(n=10).epsilon(0.0) == pytest.approx(closed, rel=1e-12)
    else:
        assert made.guarantee(n=10).delta(1.0) == pytest.approx(2 / (printed + 10 + 2 - 1), rel=1e-12)


@pytest.mark.parametrize("asked", [
    "dirichlet-multinomial --size 3 --param cells=3 --param prior=1e-9",
    "smoothed-histogram --size 1 --param cells=3 --param mixing=1e-12",
    "dirichlet-process --size 2 --param strength=1e-9",
])  # fmt: skip
def test_the_command_prints_every_parameter_as_it_is_drawn_with(asked: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["privacy", *asked.split(), "--records", "10", "--epsilon", "1", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    kind = REGISTRY[answer["mechanism"]]
    assert answer["parameters"].keys() >= {name for name in kind.traits.free if name != "size"}
    pairs = [part for key, value in answer["parameters"].items() for part in ("--param", f"{key}={value}")]
    cells = ["--param", "cells=3"] if "cells" in asked else []
    again = ["privacy", answer["mechanism"], "--size", str(answer["size"]), "--records", "10", *cells, *pairs]
    assert run([*again, "--epsilon", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == answer


def test_a_certificate_that_names_another_number_than_was_drawn_with_has_an_erratum(tmp_path: Path) -> None:
    """Earlier versions wrote a prior as it was asked for; where the rounding is visible, ``verify`` says so."""
    golden = Path(__file__).parents[2] / "golden" / "0.2.0.dev0" / "dirichlet-multinomial-every-kind.certificate.json"
    facts = json.loads(golden.read_text())
    kept = {check.what: check for check in verify(golden)}["mechanism.parameters"]
    assert kept.agrees
    assert kept.claimed != kept.found
    facts["mechanism"]["parameters"]["prior"] = 1e-9
    (tmp_path / "small.json").write_text(json.dumps(facts))
    wrong = {check.what: check for check in verify(tmp_path / "small.json")}["mechanism.parameters"]
    assert not wrong.agrees
    assert wrong.found["prior"] > 1.0001e-9
    assert "rounded to its grid" in str(wrong.erratum)
