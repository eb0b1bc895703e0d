"""Every mechanism's release has a posterior, or says before anything is drawn that it has none."""

import warnings
from typing import Any

import polars as pl
import pytest

from discreet import Budget, Watch, release
from discreet.domain import Domain, Integer, OpenLabels
from discreet.errors import ParameterError
from discreet.inference import Posterior
from discreet.inference.samplers import SAMPLERS
from discreet.mechanisms import REGISTRY, Marginals, PitmanYor, StabilisedPitmanYor, StabilityHistogram
from discreet.mechanisms.likelihood import ContinuedUrn, Likelihood, NoLikelihood, no_posterior
from discreet.planner import plan
from discreet.releases.release import Release

CELLS = Domain(columns={"x": Integer(lower=0, upper=3)})
BUDGET = Budget(epsilon=1.0, delta=0.05)
WITHOUT = {
    name
    for name, kind in REGISTRY.items()
    if isinstance(kind.calibrated(BUDGET, domain=CELLS, n=36, size=8).likelihood(), NoLikelihood)
}
"""Mechanisms of which no posterior is known here: docs/theory/mechanism-aware-posterior.md says why."""

LISTED = {"data-specific-reveal-or-obscure", "exponential-histogram", "subsampled-randomised-response"}
"""Mechanisms whose posteriors list all tables, of which a large one has too many."""


def released(name: str | None, said: list[str], **asked: Any) -> Release:
    table, watch = pl.DataFrame({"x": [0, 1, 1, 2, 2, 2] * 6}), Watch(announce=said.append)
    accept = {"empirical", "poor-utility", "weak-promise"}
    asked = {"size": None if asked.get("counts") else 8, "accept": accept, **asked}
    return release(table, CELLS, BUDGET, mechanism=name, seed=1, watch=watch, **asked)


@pytest.mark.parametrize("name", REGISTRY)
def test_a_release_has_a_posterior_or_says_before_that_it_has_none(name: str) -> None:
    said: list[str] = []
    made = released(name, said)
    told = [text for text in said if "gives no confidence intervals" in text]
    assert len(told) == (name in WITHOUT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if name not in WITHOUT:
            found = made.posterior(draws=50)
            assert isinstance(found, Posterior)
            assert 0.0 <= found.evaluate("mean").mean() <= 3.0
            return
        with pytest.raises(ParameterError) as error:
            made.posterior()
    assert str(error.value).split(".")[0] in told[0]


RELEASES = [
    ("laplace-projection-sampler", {"counts": True}),
    ("laplace-projection-sampler", {"sampling": "iid"}),
    ("laplace-projection-sampler", {"sampling": "stratified"}),
    ("signed-measure", {"counts": True}),
    ("signed-measure", {"sampling": "iid"}),
    ("signed-measure", {"sampling": "stratified"}),
    ("stabilised-pitman-yor", {"counts": True}),
    ("urn-histogram", {"discount": 0.5}),
    ("exponential-histogram", {"loss": "l2"}),
    ("exponential-histogram", {"loss": "hellinger"}),
    ("marginals", {"counts": True}),
    ("marginals", {"sampling": "iid"}),
]


@pytest.mark.parametrize(("name", "asked"), RELEASES)
def test_every_form_of_a_release_has_one(name: str, asked: dict[str, Any]) -> None:
    assert isinstance(released(name, [], **asked).posterior(draws=50), Posterior)


def test_several_columns_of_marginals_and_a_discount_have_none_and_say_what_to_do() -> None:
    two = Domain(columns={"x": Integer(lower=0, upper=3), "y": Integer(lower=0, upper=3)})
    assert no_posterior(Marginals(domain=two, records=99, scale=20.0, units=40), 99).endswith("cost no more than one")
    urn = StabilisedPitmanYor(domain=CELLS, records=99, scale=1.0, threshold=9, discount=0.2)
    assert no_posterior(urn, 99).endswith("Take discount 0")
    urn = StabilisedPitmanYor(domain=CELLS, records=10**6, scale=1.0, threshold=9)
    assert no_posterior(urn, 10**6).endswith("above 1,000,000. Take another mechanism")


def test_every_likelihood_of_counts_has_one_sampler() -> None:
    def below(kind: type[Likelihood]) -> set[type[Likelihood]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    ours = {kind for kind in below(Likelihood) if kind.__module__.startswith("discreet.")}
    assert {*SAMPLERS} == ours - {Likelihood, ContinuedUrn, NoLikelihood}


def test_what_nobody_can_list_has_no_posterior_and_a_urn_has() -> None:
    words = Domain(columns={"word": OpenLabels()})
    assert "finite domain" in no_posterior(StabilityHistogram(domain=words, scale=1.0, threshold=9), 99)
    assert no_posterior(PitmanYor(domain=words, size=3), 99) == ""


def test_the_plan_says_of_each_option_whether_it_has_one() -> None:
    made = plan(CELLS, Budget(epsilon=1.0, delta=1e-6), records=20_000, size=100, largest_sizes=False)
    known = {option.name: option.analysed for option in made.options if option.mechanism is not None}
    assert known
    assert {name for name, analysed in known.items() if not analysed} <= WITHOUT | LISTED
    assert not any(known.get(name) for name in LISTED)
    assert made.feasible[0].analysed
