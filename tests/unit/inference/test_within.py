"""What a cell does not tell: bounds against all ways to place a cell's mass, by hand and by listing."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Category, Date, Domain, Integer, Numeric
from discreet.inference import Posterior
from discreet.inference.mechanism_aware import latent_counts
from discreet.inference.prior import Noise, Prior
from discreet.inference.samplers import CountDraws, ReleasedCounts, ReleasedRecords, noisy
from discreet.mechanisms import DirichletMultinomial, PerturbedHistogram, StabilityHistogram
from discreet.privacy import Budget

MASSES = [[0.2, 0.5, 0.3]]
ASKED = ["mean", "q50", "P(>12)", "P(>=12)", "P(<12)", "P(<=12)", "P(5..20)", "P(=12)"]


def bounded(column, masses=MASSES):
    domain = Domain(columns={"x": column})
    return Posterior.of_arrays(domain, domain.unflat(np.arange(domain.size)), masses, bounds=True)


def test_bounds_by_hand() -> None:
    """Cells 0 to 10, 10 to 20, 20 to 30 with masses .2, .5, .3; the least value above is 20 for values below 30."""
    rows = bounded(Numeric(lower=0, upper=30, cells=3)).summary(ASKED)
    ends = {row.name: (row.lower, row.upper) for row in rows.rows}
    assert ends["mean"] == pytest.approx((11.0, 21.0))
    assert ends["q50"] == pytest.approx((10.0, 20.0))
    assert ends["P(>12)"] == ends["P(>=12)"] == pytest.approx((0.3, 0.8))
    assert ends["P(<12)"] == ends["P(<=12)"] == pytest.approx((0.2, 0.7))
    assert ends["P(5..20)"] == pytest.approx((0.5, 1.0))
    assert ends["P(=12)"] == pytest.approx((0.0, 0.5))
    assert all(row.bounds for row in rows.rows)
    assert rows["mean"].mean == pytest.approx(0.2 * 5 + 0.5 * 15 + 0.3 * 25)
    assert "bounds: the interval allows for what the release does not tell" in str(rows)
    assert all(row["bounds"] for row in rows.to_dict()["estimates"])


def test_an_edge_belongs_to_the_cell_above() -> None:
    rows = bounded(Numeric(lower=0, upper=30, cells=3)).summary(["P(>=10)", "P(<10)", "P(>10)", "P(<=30)"])
    assert [row.bounds for row in rows.rows] == [False, False, True, False]
    assert (rows["P(>=10)"].lower, rows["P(>=10)"].upper) == pytest.approx((0.8, 0.8))
    assert (rows["P(>10)"].lower, rows["P(>10)"].upper) == pytest.approx((0.3, 0.8))


def listed(cells, masses, number, steps=4):
    """The least and greatest number over distributions that put a quarter of a cell's mass at each of four values."""
    ways = [list(itertools.combinations_with_replacement(values, steps)) for values in cells]
    found = [
        number(np.concatenate([np.array(way) for way in chosen]), np.repeat(masses, steps) / steps)
        for chosen in itertools.product(*ways)
    ]
    return min(found), max(found)


def test_integers_in_groups_against_all_ways() -> None:
    cells, masses = [(0, 1, 2), (3, 4, 5), (6, 7, 8)], np.array([0.3, 0.5, 0.2])
    posterior = bounded(Integer(lower=0, upper=8, cells=3), [masses])
    exact = {
        "mean": lambda v, w: v @ w,
        "P(>4)": lambda v, w: w[v > 4].sum(),
        "P(4..6)": lambda v, w: w[(v >= 4) & (v <= 6)].sum(),
        "P(4..4)": lambda v, w: w[v == 4].sum(),
        "P(<=5)": lambda v, w: w[v <= 5].sum(),
    }
    for row in posterior.summary(list(exact)).rows:
        assert (row.lower, row.upper) == pytest.approx(listed(cells, masses, exact[row.name])), row.name
    assert not posterior.summary(["P(<=5)"]).rows[0].bounds
    for row in posterior.summary(["variance", "sd"]).rows:  # of any values between the ends: outer bounds
        low, high = listed(cells, masses, lambda v, w: v**2 @ w - (v @ w) ** 2)
        power = 1.0 if row.name == "variance" else 0.5
        assert row.lower <= low**power + 1e-9
        assert high**power - 1e-9 <= row.upper <= high**power * 1.01


def test_variances_by_hand() -> None:
    """Two cells 0 to 1 and 1 to 2 of one half each: all at 1, or all at the outer ends."""
    row = bounded(Numeric(lower=0, upper=2, cells=2), [[0.5, 0.5]]).summary(["variance"]).rows[0]
    assert (row.lower, row.upper) == pytest.approx((0.0, 1.0), abs=1e-9)


def test_what_cuts_no_cell_has_the_plain_interval() -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=4, cells=4), "sex": Category(categories=["a", "b"])})
    masses = seeded(1).dirichlet(np.ones(8), size=400)
    support = domain.unflat(np.arange(8))
    plain, bounds = (Posterior.of_arrays(domain, support, masses, bounds=flag) for flag in (False, True))
    asked = ["P(>=2)", "P(<3)"]
    assert bounds.summary(asked, column="x") == plain.summary(asked, column="x")
    assert bounds.summary(["P(=a)"], column="sex") == plain.summary(["P(=a)"], column="sex")
    wide = bounds.summary(["q50"], column="x", by="sex")
    narrow = plain.summary(["q50"], column="x", by="sex")
    for one, other in zip(wide.rows, narrow.rows, strict=True):
        assert one.bounds
        assert one.lower < other.lower < other.upper < one.upper
        assert one.mean == other.mean


def test_dates_in_groups_and_distribution_functions() -> None:
    posterior = bounded(Date(lower="2024-01-01", upper="2024-01-10", cells=2), [[0.4, 0.6]])
    rows = posterior.summary(["P(<=2024-01-03)", "P(<=2024-01-05)"])
    assert (rows.rows[0].lower, rows.rows[0].upper) == pytest.approx((0.0, 0.4))
    assert not rows.rows[1].bounds
    first = float(posterior.domain.columns["x"].ends(np.arange(2))[0][0])
    band = posterior.cdf([first, first + 4])
    assert band.lower.tolist() == pytest.approx([0.0, 0.4])
    assert band.upper.tolist() == pytest.approx([0.4, 0.4])


def test_even_mass_is_caught_by_a_heap() -> None:
    """A column whose values are all 12: the interval of evenly spread mass misses, the bounds do not."""
    domain = Domain(columns={"x": Numeric(lower=0, upper=30, cells=3)})
    masses = seeded(2).dirichlet([1.0, 1000.0, 1.0], size=400)
    for bounds in (False, True):
        posterior = Posterior.of_arrays(domain, domain.unflat(np.arange(3)), masses, bounds=bounds)
        row = posterior.summary(["P(>11)"]).rows[0]
        assert (row.lower <= 1.0 - 1e-3 <= row.upper) == bounds


# -- the prior ------------------------------------------------------------------------------------------------------


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
    assert not far(drawn_given(SEEN, [Prior.nested(BASE, start=start)]).counts, known(start)[1])
    for twin in (Prior.process(BASE), Prior.nested(BASE, start=0.0 if start else math.inf)):
        assert far(drawn_given(SEEN, [twin]).counts, known(start)[1])


def test_the_release_tells_where_splits_become_firmer() -> None:
    """Draws are shared out as the priors foresee the noisy counts: the odds are those of all tables."""
    starts = (0.0, 1.0, math.inf)
    counted = drawn_given(SEEN, [Prior.nested(BASE, start=each) for each in starts])
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
    held = rng.multinomial(records, Prior.nested(base, start=start).masses(np.zeros((1, 200)), rng)[0])
    seen = held + np.rint(rng.normal(0.0, spread, 200))
    starts = (2.0, math.inf)
    priors = [Prior.nested(base, start=each) for each in starts]
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
        assert [prior.wide for prior in latent.priors] == [wide]
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
    assert [(one.wide, one.growth) for one in latent.priors] == [(1.0, 4.0), (1.0, 0.5)]
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
