"""Mechanism-aware posteriors against exact enumeration, through the mechanisms' own laws and a certificate."""

import functools
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import gammaln

from discreet import release
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.confidential import confidential
from discreet.domain import Counts, Domain, Integer, Numeric
from discreet.errors import DataError, ParameterError
from discreet.inference import posterior
from discreet.inference.mechanism_aware import mechanism_posterior, noisy_counts_posterior
from discreet.mechanisms import (
    DirichletMultinomial,
    GaussianSmoothedHistogram,
    HierarchicalHistogram,
    LaplaceProjectionSampler,
    PerturbedHistogram,
    PitmanYor,
    SignedMeasure,
    SmoothedHistogram,
    StabilityHistogram,
)
from discreet.releases import Certificate

STRENGTH = 1.5
DRAWS = 2000


def domain(cells):
    return Domain(columns={"x": Integer(lower=1, upper=cells, base={"weights": list(range(1, cells + 1))})})


def tables(k, n):
    return [c for c in itertools.product(range(n + 1), repeat=k) if sum(c) == n]


def counts_of(cells, c):
    held = np.flatnonzero(c)
    return Counts(records=cells.unflat(held), frequencies=np.array(c)[held])


def prior(cells):
    return STRENGTH * np.exp(cells.log_base(cells.unflat(np.arange(cells.size))))


def log_prior(alpha, c):
    return sum(math.lgamma(a + x) - math.lgamma(a) - math.lgamma(x + 1) for a, x in zip(alpha, c, strict=True))


def check(posterior, n, log_likelihood, within=0.0):
    """Means and second moments of the cells' probabilities: each is off by 5.5 standard errors with rate 4e-8.

    ``within``: what an approximate posterior may be off beyond that, in its own standard deviations.
    """
    assert posterior.facts["exact"] == (not within)
    alpha, every = prior(posterior.domain), tables(posterior.domain.size, n)
    log = np.array([log_prior(alpha, c) + log_likelihood(c) for c in every])
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    a, total = alpha + np.array(every), alpha.sum() + n
    first, second = weights @ a / total, weights @ (a * (a + 1)) / (total * (total + 1))
    draws = np.stack([posterior.evaluate(f"P(={j})") for j in range(1, len(alpha) + 1)], axis=1)
    for power, exact in ((1, first), (2, second)):
        error = (draws**power).std(axis=0) * (5.5 / math.sqrt(len(draws)) + within)
        assert (np.abs((draws**power).mean(axis=0) - exact) < error + 1e-9).all()


@pytest.mark.parametrize("wrong", [0.5, 2.0])
def test_the_check_rejects_a_wrong_scale(wrong):
    noisy = np.array([9.0, -3.0, 2.0])
    posterior = noisy_counts_posterior(
        noisy, domain=domain(3), n=8, noise="laplace", scale=1.0, strength=STRENGTH, draws=20_000
    )
    check(posterior, 8, lambda c: -np.abs(noisy - c).sum())
    with pytest.raises(AssertionError):
        check(posterior, 8, lambda c: -np.abs(noisy - c).sum() / wrong)


def released(mechanism, rows, **settings):
    table = confidential(pl.DataFrame({"x": rows}), mechanism.domain)
    return release(table, mechanism=mechanism, seed=11, accept={"poor-utility"}, **settings)


def drawn(release):
    return np.bincount(release.records["x"].to_numpy() - 1, minlength=release.domain.size)


def counted(release):
    return release.records["count"].to_numpy()


def law(mechanism, output):
    """The mechanism's own, as a function of the counts."""
    return lambda c: mechanism.log_prob(output, counts_of(mechanism.domain, c))


def fitted(release):
    return mechanism_posterior(release, strength=STRENGTH, draws=DRAWS)


ROWS = [1, 3, 3, 3]
NOISY = [
    {"noise": "laplace", "projection": "clip"},
    {"noise": "gaussian", "projection": "simplex"},
    {"noise": "laplace", "projection": "w1"},
    {"noise": "gaussian", "projection": "w1", "sampling": "stratified"},
]


@pytest.mark.parametrize(
    ("kind", "facts"), [(PerturbedHistogram, NOISY[0]), (PerturbedHistogram, NOISY[1]), (SignedMeasure, {})]
)
def test_counts_of_flat_histograms(kind, facts):
    mechanism = kind(domain=domain(3), records=4, scale=0.9, **facts)
    release = released(mechanism, ROWS, counts=True)
    check(fitted(release), 4, law(mechanism, counted(release).astype(int)))


def noises(mechanism, exact, c, width):
    """All vectors of noise within ``width`` that are not next to impossible, and their probabilities.

    Each number has the same noise: what it is, the mechanism's own law tells, and that law is compared with it.
    """
    exact, each = np.array(exact), np.arange(-width, width + 1)
    most = law(mechanism, exact)(c)
    moved = [law(mechanism, np.append(exact[0] + d, exact[1:]))(c) for d in each]
    one = np.array(moved) - most * (1.0 - 1.0 / len(exact))
    every = np.array(list(itertools.product(each, repeat=len(exact))))
    logs = one[every + width].sum(axis=1)
    for d, log in zip(every[:: len(every) // 9], logs[:: len(every) // 9], strict=True):
        assert law(mechanism, exact + d)(c) == pytest.approx(log)
    likely = logs > most - 10.0
    return every[likely], np.exp(logs[likely])


def through_noise(mechanism, z, width):
    """``log P(z | C)``: the noisy counts within ``width`` of the counts are summed over, by the mechanism's own law."""
    every, weights = noises(mechanism, [2, 1, 1], [2, 1, 1], width)

    @functools.cache
    def given(*y):
        p = mechanism.probabilities(np.array(y))
        if mechanism.sampling == "iid":
            return math.prod(p**z)
        # the offsets at which systematic draws give these sums: a fine grid of them
        u = (np.arange(400) + 0.5) / 400
        sums = np.ceil(z.sum() * np.cumsum(p)[:-1, None] - u - 1e-12)
        return (np.maximum(sums, 0) == np.cumsum(z)[:-1, None]).all(axis=0).mean()

    def likelihood(c):
        total = weights @ [given(*y) for y in (every + np.array(c)).tolist()]
        return math.log(total) if total else -math.inf

    return likelihood


@pytest.mark.parametrize("facts", NOISY, ids=["clip", "simplex", "w1", "stratified"])
def test_records_of_a_perturbed_histogram(facts):
    mechanism = PerturbedHistogram(domain=domain(3), records=4, scale=0.7, **facts)
    release = released(mechanism, ROWS, size=5)
    width = 7 if facts["noise"] == "laplace" else 4
    exact = facts["projection"] == "clip" and mechanism.sampling == "iid"
    check(fitted(release), 4, through_noise(mechanism, drawn(release), width), 0.0 if exact else 0.25)


@pytest.mark.parametrize("kind", [GaussianSmoothedHistogram, LaplaceProjectionSampler, SignedMeasure])
def test_records_of_other_noisy_histograms(kind):
    mechanism = kind(domain=domain(3), records=4, scale=0.6)
    release = released(mechanism, ROWS, size=4)
    posterior = fitted(release)
    check(posterior, 4, through_noise(mechanism, drawn(release), 5), 0.0 if posterior.facts["exact"] else 0.25)


def test_counts_of_a_hierarchical_histogram():
    """The consistent counts are all that the noisy counts say about the table: the oracle uses the noisy counts."""
    cells = domain(4)
    mechanism = HierarchicalHistogram(domain=cells, records=5, scale=1.1, noise="gaussian")
    release = released(mechanism, [1, 3, 3, 4, 4], counts=True)
    y = mechanism.kernel(counts_of(cells, [1, 0, 2, 2]), rng=seeded(11))
    assert np.allclose(mechanism.reading(y, n=5).estimates().counts, counted(release))
    check(fitted(release), 5, law(mechanism, y))


def test_counts_of_a_laplace_tree_are_taken_as_normal_and_say_so():
    mechanism = HierarchicalHistogram(domain=domain(4), records=5, scale=1.1, noise="laplace")
    release = released(mechanism, [1, 3, 3, 4, 4], counts=True)
    posterior = fitted(release)
    assert posterior.notes[-1].startswith("approximate, not exact: laplace noise")
    variance = 0.5 / math.sinh(0.5 / 1.1) ** 2

    def likelihood(c):
        error = counted(release) - c
        nodes = np.array([error[:2].sum(), error[2:].sum(), *error])
        return -(nodes**2).sum() / (2 * variance)

    check(posterior, 5, likelihood, within=1e-9)


def test_records_of_a_hierarchical_histogram():
    mechanism = HierarchicalHistogram(domain=domain(3), records=3, scale=0.6, noise="gaussian")
    release = released(mechanism, [1, 3, 3], size=3)

    def exact(c):
        return mechanism._counts(counts_of(mechanism.domain, c))

    every, weights = noises(mechanism, exact([1, 1, 1]), [1, 1, 1], 2)

    def likelihood(c):
        given = [math.prod(mechanism.probabilities(y) ** drawn(release)) for y in exact(c) + every]
        return math.log(weights @ given)

    check(fitted(release), 3, likelihood, within=0.25)


def test_counts_of_a_stability_histogram():
    cells = domain(4)
    mechanism = StabilityHistogram(domain=cells, scale=1.0, threshold=3)
    release = released(mechanism, [1, 2, 2, 2, 2, 2, 4], counts=True)
    kept = Counts(records=cells.encode(release.records), frequencies=counted(release).astype(int))
    check(fitted(release), 7, law(mechanism, kept))


def test_records_of_a_stability_histogram():
    cells = domain(3)
    mechanism = StabilityHistogram(domain=cells, scale=0.8, threshold=2, sampling="iid")
    release = released(mechanism, [2, 2, 3, 3, 3, 1], size=3)
    kept = np.array([0, *range(2, 16)])  # of a cell, whose law is that of a table with no other one

    def log_law(y, c):
        return law(mechanism, counts_of(cells, y))(c)

    each = np.exp([[log_law([y, 0, 0], [count, 0, 0]) for y in kept] for count in range(7)])
    assert math.exp(log_law([4, 0, 2], [3, 1, 2])) == pytest.approx(each[3, 3] * each[1, 0] * each[2, 1])
    every = np.array(list(itertools.product(range(len(kept)), repeat=3)))
    y = kept[every].astype(float)
    y[~y.any(axis=1)] = prior(cells)
    shares = np.prod((y / y.sum(axis=1, keepdims=True)) ** drawn(release), axis=1)

    def likelihood(c):
        total = shares @ np.prod([each[count, every[:, cell]] for cell, count in enumerate(c)], axis=0)
        return math.log(total) if total else -math.inf

    check(fitted(release), 6, likelihood)


def test_records_where_no_label_was_kept():
    """They come from the base measure: what is known is that no count reached the threshold."""
    mechanism = StabilityHistogram(domain=domain(3), scale=0.5, threshold=9)
    release = released(mechanism, [1, 2, 3, 3], size=5)
    assert release.certificate.to_dict()["released"]["share_from_data"] == 0.0
    check(fitted(release), 4, law(mechanism, counts_of(mechanism.domain, [0, 0, 0])))


@pytest.mark.parametrize(
    "mechanism",
    [
        SmoothedHistogram(domain=domain(3), size=6, mixing=0.3),
        DirichletMultinomial(domain=domain(3), size=6, prior=0.7),
    ],
    ids=["smoothed", "dirichlet-multinomial"],
)
def test_records_drawn_from_the_counts(mechanism):
    release = released(mechanism, [1, 1, 3, 3, 3])
    check(fitted(release), 5, law(mechanism, mechanism.domain.encode(release.records)))


@pytest.mark.parametrize("noise", ["laplace", "gaussian", lambda z: -(np.abs(z) ** 1.5)])
def test_noisy_counts_of_other_tools(noise):
    noisy = np.array([1.7, -0.4, 2.2])
    posterior = noisy_counts_posterior(
        noisy, domain=domain(3), n=4, noise=noise, scale=1.3, strength=STRENGTH, draws=DRAWS
    )
    log = {"laplace": lambda z: -np.abs(z) / 1.3, "gaussian": lambda z: -(z**2) / (2 * 1.69)}.get(noise, noise)
    check(posterior, 4, lambda c: float(log(noisy - np.array(c)).sum()))


def test_any_number_of_records():
    for n in (10**4, 10**8):
        noisy = np.array([0.1, 0.2, 0.3, 0.15, 0.25]) * n
        posterior = noisy_counts_posterior(noisy, domain=domain(5), n=n, noise="laplace", scale=2.0, draws=500)
        assert np.allclose(posterior.evaluate("P(=3)").mean(), 0.3, atol=0.01)


def test_intervals_of_the_table_are_those_of_its_counts():
    """Of the table itself nothing but the noise is unknown: its counts, which are whole."""
    cells, n = domain(3), 40
    noisy = [12.0, 3.0, 25.0]
    asked = {"domain": cells, "n": n, "noise": "gaussian", "scale": 1.0, "strength": STRENGTH, "draws": DRAWS}
    table = noisy_counts_posterior(noisy, **asked, of="table").evaluate("P(=3)")
    population = noisy_counts_posterior(noisy, **asked).evaluate("P(=3)")
    assert np.allclose(table * n, np.rint(table * n))
    assert table.std() < 0.4 * population.std()
    log = {c: log_prior(prior(cells), c) - ((np.array(noisy) - c) ** 2).sum() / 2 for c in tables(3, n)}
    weights = np.exp(np.array(list(log.values())) - max(log.values()))
    exact = weights @ np.array([c[2] for c in log]) / weights.sum()
    assert abs(table.mean() * n - exact) < 5.5 * table.std() * n / math.sqrt(DRAWS)


def test_counts_that_are_followed_in_steps():
    """With noise of 96 records counts are followed in steps of 8; one by one they have the same moments."""
    n, noisy = 1500, np.array([500.0, 20.0, 980.0])
    posterior = noisy_counts_posterior(
        noisy, domain=domain(3), n=n, noise="gaussian", scale=96.0, strength=STRENGTH, draws=20_000, of="table"
    )
    assert posterior.facts["step"] == 8
    first, second = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    third = n - first - second
    log = np.where(third >= 0, 0.0, -np.inf)
    for y, a, c in zip(noisy, prior(domain(3)), (first, second, np.maximum(third, 0)), strict=True):
        log += gammaln(a + c) - gammaln(c + 1.0) - (y - c) ** 2 / (2 * 96.0**2)
    weights = np.exp(log - log.max())
    for value, counts in ((1, first), (2, second)):
        found = posterior.evaluate(f"P(={value})") * n
        for power in (1, 2):
            exact = float((weights * counts.astype(float) ** power).sum() / weights.sum())
            assert abs((found**power).mean() - exact) < 5.5 * (found**power).std() / math.sqrt(20_000) + 0.002 * exact


@pytest.mark.parametrize("model", ["pseudo-posterior", "censored-grid"])
@pytest.mark.parametrize("asked", [posterior, mechanism_posterior])
def test_tables_of_a_model_are_to_be_combined(model, asked):
    folder = Path(__file__).parents[2] / "golden" / "0.2.0.dev0" / model
    with pytest.raises(ParameterError, match="and combine the estimates with discreet.inference.combine"):
        asked(pl.DataFrame({"x": [1]}), Certificate.read(folder / "certificate.json"))


def test_what_cannot_be_conditioned_on_is_refused():
    cells = domain(4)
    urn = PitmanYor(domain=cells, size=3, strength=1.0)
    with pytest.raises(ParameterError, match="no mechanism-aware posterior for pitman-yor"):
        mechanism_posterior(released(urn, [1, 2, 3]))
    around = SignedMeasure(domain=cells, records=3, scale=1.0, points=pl.DataFrame({"x": [1, 4]}))
    with pytest.raises(ParameterError, match="for signed-measure around public points"):
        mechanism_posterior(released(around, [1, 2, 3], size=2))
    perturbed = PerturbedHistogram(domain=cells, records=5, scale=1.1)
    counts = released(perturbed, [1, 3, 3, 4, 4], counts=True)
    with pytest.raises(ParameterError, match="lacks cells"):
        mechanism_posterior(counts.records.head(3), counts.certificate)
    with pytest.raises(DataError, match="is not in the released table of counts"):
        mechanism_posterior(counts.records.drop("count"), counts.certificate)
    with pytest.raises(ParameterError, match="strength"):
        mechanism_posterior(counts, strength=0.0)
    with pytest.raises(ParameterError, match="finite noisy count"):
        noisy_counts_posterior([1.0], domain=cells, n=5, noise="laplace", scale=1.0)


def test_cells_within_a_leaf_keep_their_prior(recwarn):
    wide = Domain(columns={"x": Integer(lower=1, upper=8)})
    mechanism = HierarchicalHistogram(domain=wide, records=50, scale=1.0, noise="gaussian", levels=1)
    release = released(mechanism, [1] * 40 + [8] * 10, counts=True)
    posterior = mechanism_posterior(release, strength=8.0, draws=800)
    low = posterior.evaluate("P(<=4)")
    share = posterior.evaluate("P(=1)") / low
    assert abs(share.mean() - 0.25) < 5.5 * share.std() / math.sqrt(800)
    assert abs(share.var() - 0.25 * 0.75 / 5) < 0.01
    assert low.mean() > 0.7
    assert not recwarn.list


def test_shapes_within_cells_are_draws_of_the_prior():
    """The mean of a Dirichlet process of mass a on a cell of length h has variance h^2 / (12 (a + 1))."""
    cells = Domain(columns={"x": Numeric(lower=0, upper=1, cells=2)})
    posterior = noisy_counts_posterior(
        [1000.0, 0.0], domain=cells, n=1000, noise="laplace", scale=0.05, strength=1.0, draws=2000, within="process"
    )
    means = posterior.evaluate(lambda v, w: (v * w * (v < 0.5)).sum(axis=1) / (w * (v < 0.5)).sum(axis=1))
    assert abs(means.mean() - 0.25) < 5.5 * means.std() / math.sqrt(2000)
    exact = 0.25 / (12 * 1.5)
    spread = (means - 0.25) ** 2
    assert abs(spread.mean() - exact) < 5.5 * spread.std() / math.sqrt(2000)
    with pytest.raises(ParameterError, match="a single numeric column of intervals"):
        noisy_counts_posterior([1, 2, 3], domain=domain(3), n=6, noise="laplace", scale=1.0, within="process")


@pytest.mark.parametrize("kind", [PerturbedHistogram, HierarchicalHistogram])
@pytest.mark.parametrize("counts", [False, True])
def test_progress_is_told_prior_by_prior_and_once(
    kind: type, counts: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = Domain(columns={"x": Integer(lower=1, upper=64)})
    table = pl.DataFrame({"x": np.arange(5000) % 50 + 1})
    options: dict[str, Any] = {"counts": True} if counts else {"size": 5000}
    out = tmp_path / "released.parquet"
    made = release(table, domain, mechanism=kind(domain=domain, records=5000, scale=3.0), seed=1, out=out, **options)
    told: list[tuple[int, int]] = []
    first = made.estimate(["mean"], progress=lambda *each: told.append(each))
    steps = told[0][1]
    assert steps >= 2
    assert told == [(done, steps) for done in range(1, steps + 1)]
    assert made.estimate(["mean"], progress=lambda *each: told.append(each)) == first  # the posterior is kept
    assert len(told) == steps
    assert made.posterior(seed=0).summary(["mean"]) == first
    monkeypatch.setenv("DISCREET_PROGRESS", "lines")
    capsys.readouterr()
    assert run(["estimate", str(out), "--functional", "mean"]) == 0
    assert capsys.readouterr().err.splitlines() == [f"progress {done} {steps}" for done in range(1, steps + 1)]
