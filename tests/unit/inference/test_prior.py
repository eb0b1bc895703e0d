"""Priors of counts against lists of all tables, and counts that are followed in steps of several records."""

import itertools
import math
from functools import partial

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Domain, Integer
from discreet.inference import prior as prior_module
from discreet.inference import trees
from discreet.inference.mechanism_aware import latent_counts
from discreet.inference.prior import Lattice, Noise, Prior, log_prior, strength_at
from discreet.inference.samplers import SAMPLERS, CountDraws, ReleasedCounts, ReleasedRecords, near, noisy
from discreet.mechanisms import (
    DirichletMultinomial,
    HierarchicalHistogram,
    PerturbedHistogram,
    StabilityHistogram,
    nearest_probabilities,
)
from discreet.mechanisms.likelihood import NoisyTree
from discreet.privacy import Budget


def nested(base: np.ndarray, start: float) -> Prior:
    return Prior.nested(base, strength=partial(strength_at, start=start))


def tree_law(base, counts, start: float, wide: float = 2.0, growth: float = 4.0) -> float:
    """The logarithm of the prior of counts, split by split: beta-binomial laws, firmer or softer below a depth."""

    def rising(a: float, c: int) -> float:
        return math.lgamma(a + c) - math.lgamma(a)

    levels = [(np.array(base), np.array(counts))]
    while len(levels[-1][0]) > 1:
        half = np.arange(len(levels[-1][0])) // 2
        levels.append((np.bincount(half, levels[-1][0]), np.bincount(half, levels[-1][1]).astype(int)))
    log = 0.0
    for depth, (above, below) in enumerate(zip(levels[:0:-1], levels[-2::-1], strict=True)):
        strength = min(8.0, wide * growth ** max(0.0, depth - start))
        log += sum(math.lgamma(c + 1) - rising(strength, int(c)) for c in above[1])
        shares = below[0] / above[0][np.arange(len(below[0])) // 2]
        log += sum(rising(strength * a, int(c)) - math.lgamma(c + 1) for a, c in zip(shares, below[1], strict=True))
    return log


BASE, SEEN = np.array([0.1, 0.4, 0.2, 0.2, 0.1]), np.array([3.0, 0.0, 2.0, -1.0, 1.0])
EVERY = np.array([c for c in itertools.product(range(7), repeat=5) if sum(c) == 6])


def known(start: float) -> tuple[float, np.ndarray]:
    """How likely the noisy counts are under a prior, and the posterior of all tables of six records."""
    log = np.array([tree_law(BASE, c, start) for c in EVERY])
    assert np.exp(log).sum() == pytest.approx(1.0)
    weights = np.exp(log - np.abs(SEEN - EVERY).sum(axis=1) / 2.0)
    return float(weights.sum()), weights / weights.sum()


def far(draws: np.ndarray, weights: np.ndarray) -> bool:
    """Whether a moment is off by five standard errors: of ten, with rate 6e-7."""
    return any(
        (np.abs((draws**power).mean(axis=0) - weights @ EVERY**power) > 5.0 * (draws**power).std(axis=0) / 200.0).any()
        for power in (1, 2)
    )


def drawn_given(seen: np.ndarray, priors: list[Prior]) -> CountDraws:
    return CountDraws.draw(noisy(priors, 6, seen, Noise("laplace", 2.0)), 40_000, seeded(3))


@pytest.mark.parametrize("start", [0.0, 1.0, math.inf])
def test_counts_given_a_tree_prior_against_all_tables(start: float) -> None:
    assert not far(drawn_given(SEEN, [nested(BASE, start)]).counts, known(start)[1])
    for twin in (Prior.process(BASE), nested(BASE, 0.0 if start else math.inf)):
        assert far(drawn_given(SEEN, [twin]).counts, known(start)[1])


def test_the_release_tells_where_splits_become_firmer() -> None:
    """Draws are shared out as the priors foresee the noisy counts: the odds are those of all tables."""
    starts = (0.0, 1.0, math.inf)
    counted = drawn_given(SEEN, [nested(BASE, each) for each in starts])
    odds = np.array([known(each)[0] for each in starts])
    odds /= odds.sum()
    apart = np.abs(np.array(counted.numbers) / 40_000 - odds) / np.sqrt(odds * (1.0 - odds) / 40_000)
    assert apart.max() < 5.0  # three numbers: rate 2e-6
    assert np.abs(odds - 1.0 / 3.0).max() > 0.01  # so that draws in equal parts would be rejected
    assert not far(counted.counts, sum(p * known(each)[1] for p, each in zip(odds, starts, strict=True)))


@pytest.mark.parametrize(("records", "spread"), [(5000, 1.5), (200_000, 40.0)])
@pytest.mark.parametrize("start", [2.0, math.inf])
def test_smooth_and_heaped_columns_are_told_apart(start: float, records: int, spread: float) -> None:
    """Whatever the lattice: counts that were drawn from one prior are taken for its own."""
    base, rng = np.full(200, 1.0 / 200), seeded(7)
    held = rng.multinomial(records, nested(base, start).masses(np.zeros((1, 200)), rng)[0])
    seen = held + np.rint(rng.normal(0.0, spread, 200))
    starts = (2.0, math.inf)
    priors = [nested(base, each) for each in starts]
    counted = CountDraws.draw(noisy(priors, records, seen, Noise("gaussian", spread)), 100, rng)
    assert counted.numbers[starts.index(start)] > 90
    assert np.abs(counted.counts.sum(axis=1) - records).max() <= counted.step


def test_masses_given_counts_have_the_means_of_the_splits() -> None:
    prior, counts = Prior.nested(np.full(4, 0.25)), np.array([3.0, 1.0, 0.0, 2.0])
    draws = prior.masses(np.broadcast_to(counts, (40_000, 4)), seeded(4))
    left, within = 5.0 / 8.0, np.array([4.0 / 6.0, 2.0 / 6.0, 1.0 / 4.0, 3.0 / 4.0])
    exact = within * np.array([left, left, 1 - left, 1 - left])
    assert (np.abs(draws.mean(axis=0) - exact) < 5.0 * draws.std(axis=0) / 200.0).all()
    assert draws.sum(axis=1) == pytest.approx(1.0)


def test_withheld_cells_have_the_wider_prior() -> None:
    """Shares are uniform, but as likely near 0 and 1 as Jeffreys' law has it where a threshold hides cells."""
    domain = Domain(columns={"x": Integer(lower=1, upper=4)})
    for kind, wide in ((PerturbedHistogram, 2.0), (StabilityHistogram, 1.0)):
        mechanism = kind.calibrated(Budget(epsilon=1.0, delta=1e-6), domain=domain, n=400, size=None)
        seen = np.array([200.0, 100.0, 60.0, 40.0 if kind is PerturbedHistogram else np.nan])
        latent = latent_counts(mechanism, ReleasedCounts(400, seen), strength=None, draws=5, rng=seeded(1))
        assert [prior.strength(0) for prior in latent.priors] == [wide]
        assert latent.priors[0].layers[0].masses.tolist() == [wide / 2.0] * 4


FOUR = np.array([c for c in itertools.product(range(7), repeat=4) if sum(c) == 6])


def test_records_without_noise_choose_between_equal_and_softer_splits() -> None:
    """Dirichlet-multinomial records of four cells: all tables of six records listed, under both trees.

    With a uniform base the softer tree is the Dirichlet process of strength 1.
    """
    domain = Domain(columns={"x": Integer(lower=1, upper=4)})
    mechanism = DirichletMultinomial(domain=domain, size=8, prior=0.5)
    seen = np.array([3, 2, 1, 2])
    latent = latent_counts(mechanism, ReleasedRecords(6, seen), strength=None, draws=40_000, rng=seeded(5))
    assert [one.strength.keywords for one in latent.priors] == [  # type: ignore[attr-defined]
        {"start": math.inf, "wide": 1.0},
        {"start": 0.0, "wide": 1.0, "growth": 0.5},
    ]
    process = [sum(math.lgamma(0.25 + c) - math.lgamma(0.25) - math.lgamma(c + 1) for c in row) for row in FOUR]
    laws = [np.array([tree_law([0.25] * 4, row, 0.0, 1.0, growth) for row in FOUR]) for growth in (1.0, 0.5)]
    assert laws[1] == pytest.approx(np.array(process), abs=1e-9)
    assert [np.exp(law).sum() for law in laws] == pytest.approx([1.0, 1.0])
    likelihood = [
        sum(math.lgamma(0.5 + c + z) - math.lgamma(0.5 + c) for c, z in zip(row, seen, strict=True)) for row in FOUR
    ]
    weights = [np.exp(law + likelihood) for law in laws]
    odds = np.array([one.sum() for one in weights]) / sum(one.sum() for one in weights)
    drawn = np.array(latent.draws.numbers) / 40_000
    assert abs(drawn[0] - odds[0]) < 5.0 * math.sqrt(odds[0] * odds[1] / 40_000)  # rate 6e-7
    assert abs(odds[0] - 0.5) > 0.03  # so that equal shares would be rejected
    exact = sum(weights) / sum(one.sum() for one in weights)
    counts, alone = latent.draws.counts, weights[0] / weights[0].sum()
    spread = 5.0 * counts.std(axis=0) / 200.0
    assert (np.abs(counts.mean(axis=0) - exact @ FOUR) < spread).all()  # four numbers: rate 2e-6
    assert not (np.abs(alone @ FOUR - exact @ FOUR) < spread).all()  # one tree alone would be rejected


CELLS, SPREAD = 64, 60.0


@pytest.mark.parametrize("alpha", [1 / 256, 0.5, 1.0, 8.0])
@pytest.mark.parametrize("rate", [0.0, -1e-3, -0.05, -0.5])
@pytest.mark.parametrize("step", [2, 5, 8])
def test_a_step_holds_the_sum_of_its_counts(alpha: float, rate: float, step: int) -> None:
    multiples = np.array([0, 1, 2, 7, 31, 32, 33, 100]) * float(step)
    found = log_prior(alpha, multiples, step, rate)
    for at, one in zip(multiples, found, strict=True):
        counts = np.arange(max(0, int(at) - step // 2), int(at) + step - step // 2).astype(np.float64)
        whole = np.logaddexp.reduce(log_prior(alpha, counts) + rate * counts)
        assert one == pytest.approx(whole, abs=0.02 if rate == -0.5 else 2e-3)


def told(counts: np.ndarray, records: int, step: int) -> float:
    """Return by how much more a release speaks for the tree that becomes firmer than for the one that does not."""
    noise = Noise("gaussian", SPREAD)

    def log(start: float) -> float:
        prior = nested(np.full(CELLS, 1.0 / CELLS), start)
        lattice = Lattice(records, step, prior, records * nearest_probabilities(counts / records), noise.spread)
        return lattice.sums(counts.tolist(), lambda y: near(lattice, noise, y)).log

    return log(4) - log(math.inf)


def drawn(heaped: bool, records: int) -> np.ndarray:
    rng = np.random.default_rng(1)
    shares = rng.gamma(0.1, size=CELLS) if heaped else np.exp(-(np.linspace(-3, 3, CELLS) ** 2) / 2)
    return rng.multinomial(records, shares / shares.sum())


@pytest.mark.parametrize("heaped", [False, True])
def test_steps_tell_of_trees_what_single_records_tell(heaped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A split's law has to be one of rounded counts too: else each set that may be empty speaks for firmer trees."""
    records = 3000
    counts = np.round(drawn(heaped, records) + np.random.default_rng(2).normal(0, SPREAD, CELLS))
    exact = told(counts, records, 1)
    assert told(counts, records, 5) == pytest.approx(exact, abs=0.5)
    monkeypatch.setattr(prior_module, "_FEW", 0)
    assert told(counts, records, 5) > exact + 5.0


@pytest.mark.parametrize("heaped", [False, True])
def test_records_along_a_tree_tell_of_it_the_same_on_a_finer_lattice(
    heaped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = 3000
    domain = Domain(columns={"x": Integer(lower=1, upper=CELLS)})
    likelihood = HierarchicalHistogram(domain=domain, records=records, scale=SPREAD).likelihood()
    released = drawn(heaped, records)

    def told() -> float:
        _, firmer, one = Prior.along(likelihood.consistent.tree, np.full(CELLS, 1.0 / CELLS), firmer=0)
        made = [*SAMPLERS[NoisyTree](likelihood, (firmer, one), ReleasedRecords(records, released), seeded(1))]
        return made[0].log - made[1].log

    found = told()
    monkeypatch.setattr(trees, "_FEW", 0)
    assert abs(told() - found) > 2.0
    monkeypatch.undo()
    monkeypatch.setattr(trees, "_FINE", 24.0)
    assert found == pytest.approx(told(), abs=0.5)
