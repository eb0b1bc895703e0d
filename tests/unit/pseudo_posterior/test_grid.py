"""Draws of the censored posterior on a grid: exact laws in rational arithmetic, between all neighbours; wrong twins."""

import itertools
import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from exact_laws import censored_law

from discreet._core.lazy import dist, numpyro
from discreet._core.random import integer_weights, seeded
from discreet.errors import ParameterError
from discreet.pseudo_posterior import CensoredPosterior, PoissonMean
from discreet.pseudo_posterior import censored as grid_module
from discreet.pseudo_posterior.censored import drawn_on_grid, grid_log_weights, margin, said

UNITS = 2**36


def probabilities(log_weights: np.ndarray) -> list[Fraction]:
    """Return the probabilities with which the sampler draws, as they are: from its integers."""
    mantissa, octave = integer_weights(log_weights)
    masses = [Fraction(int(m)) * Fraction(2) ** int(o) for m, o in zip(mantissa, octave, strict=True)]
    return [mass / sum(masses) for mass in masses]


def law(table: np.ndarray, log_prior: np.ndarray, bound: float, weights: float | np.ndarray = 1.0) -> list[Fraction]:
    return probabilities(grid_log_weights(said(table, weights, bound).sum(axis=1), log_prior, bound))


def largest_loss(p: list[Fraction], q: list[Fraction]) -> mpmath.mpf:
    with mpmath.workdps(60):
        ratios = [a / b for a, b in zip(p, q, strict=True)]
        losses = [abs(mpmath.log(mpmath.mpf(r.numerator)) - mpmath.log(mpmath.mpf(r.denominator))) for r in ratios]
        return max(losses)


def within(loss: mpmath.mpf, bound: float, times: int) -> bool:
    with mpmath.workdps(60):
        return bool(loss <= times * mpmath.mpf(bound))


LOGS = np.array([[0.0, -0.3, -1.7, -90.0, math.nan, 3.0], [-2.0, 0.0, -0.1, -0.5, -1.0, -math.inf],
                 [-80.0, -80.0, 0.0, -0.2, math.inf, -1e-9]])  # fmt: skip
PRIOR = np.array([0.0, -0.7, -3.0])


@pytest.mark.parametrize("bound", [2.0**-24, 0.7, 1024.0])
@pytest.mark.parametrize("weights", [np.ones(6), np.array([1.0, 0.3, 0.0, 1.0, 0.999, 0.5])], ids=["plain", "weighted"])
def test_no_neighbours_exceed_the_bound_with_all_rounding_counted(bound, weights) -> None:
    """Tables of two records of six kinds; every replacement, and every addition."""

    def law_of(*table):
        return law(LOGS[:, table], PRIOR, bound, weights[list(table)])

    replaced, added = [], []
    for x, y in itertools.combinations_with_replacement(range(6), 2):
        p = law_of(x, y)
        for v in range(6):
            replaced += [largest_loss(p, law_of(v, y)), largest_loss(p, law_of(x, v))]
            added.append(largest_loss(p, law_of(x, y, v)))
    assert within(max(replaced), bound, 2)
    assert within(max(added), bound, 1)


def test_the_bound_is_nearly_attained_and_without_the_margin_exceeded() -> None:
    """One record against the parameter of nearly all the prior's mass; the twin spends the whole bound on it."""
    bound, prior = 1.5, np.array([0.0, -16_000.0])
    x, y = np.array([[-bound], [0.0]]), np.array([[0.0], [-bound]])
    loss = largest_loss(law(x, prior, bound), law(y, prior, bound))
    assert within(loss, bound, 2)
    assert float(loss) > 2 * bound - 2.01 * margin(bound)

    totals = [said(table, 1.0, bound).sum(axis=1) for table in (x, y)]
    exceeded = False
    for shift in np.linspace(0.0, 1e-9, 41):  # of the prior: where rounding goes the wrong way
        twin = [probabilities(prior + np.array([0.0, shift]) + total * (bound / UNITS)) for total in totals]
        exceeded |= not within(largest_loss(*twin), bound, 2)
    assert exceeded


@pytest.mark.parametrize("seed", range(3))
def test_many_records_and_a_wide_prior_stay_within_the_margin(seed) -> None:
    """Large totals, where floating point rounds most: the exact law of two neighbours of 2^26 records."""
    rng, bound = seeded(seed), 3.0
    prior = np.concatenate(([0.0, -(2.0**14)], -rng.uniform(0, 2.0**14, size=40)))
    totals = -rng.integers(0, 2**62, size=42)
    totals[:2] = 0, -(2**62) + UNITS
    change = rng.integers(-UNITS, UNITS + 1, size=42)
    change[:4] = UNITS, -UNITS, UNITS, -UNITS
    other = np.clip(totals + change, -(2**62), 0)
    with mpmath.workdps(60):  # the exponents reach 10^8: too many digits for fractions

        def logs(total):
            mantissa, octave = integer_weights(grid_log_weights(total, prior, bound))
            each = [mpmath.ldexp(int(m), int(o)) for m, o in zip(mantissa, octave, strict=True)]
            unit = mpmath.mpf(bound - margin(bound)) / UNITS
            off = [mpmath.log(one) - mpmath.mpf(a) - unit * int(t)
                   for one, a, t in zip(each, prior, total, strict=True)]  # fmt: skip
            assert max(off) - min(off) <= margin(bound) / 2  # each within a quarter of the margin
            return [mpmath.log(one) - mpmath.log(sum(each)) for one in each]

        worst = max(abs(a - b) for a, b in zip(logs(totals), logs(other), strict=True))
        assert 0.9 * bound < worst <= 2 * mpmath.mpf(bound)


def test_the_law_is_the_censored_posterior_up_to_the_margin() -> None:
    exact = [float(f) for f in law(LOGS, PRIOR, 2.0)]
    np.testing.assert_allclose(exact, censored_law(LOGS, bound=2.0, log_prior=PRIOR), rtol=6 * margin(2.0))


def test_what_a_record_says_is_between_minus_the_bound_and_nothing() -> None:
    for bound in (2.0**-24, 1.0 / 3.0, 1e-3, 1024.0):
        units = said([[-math.inf, math.nan, math.inf, -bound, -2 * bound, 0.0, 5.0, -bound / 2]], np.ones(8), bound)
        assert units.tolist() == [[-UNITS, -UNITS, -UNITS, -UNITS, -UNITS, 0, 0, -UNITS // 2]]
    rng = seeded(1)
    logs, weights = -rng.exponential(3.0, size=(4, 1000)), rng.random(1000)
    units = said(logs, weights, 0.37)
    assert units.min() >= -UNITS
    assert units.max() <= 0


class Scripted:
    """A generator whose draws are all as large as they can be, so that the rarest outcome is reached."""

    def integers(self, low: int, high: int) -> int:
        return 2**36 if high > 2**36 else high - 1  # the first ticket beyond a weight of 1

    def bytes(self, count: int) -> bytes:
        return b"\x00" * count

    def random(self, size: int | None = None) -> Any:
        return np.nextafter(1.0, 0.0) if size is None else np.full(size, np.nextafter(1.0, 0.0))


def test_an_outcome_below_the_spacing_of_floating_point_can_be_drawn() -> None:
    """A mean of 8.11 has too little mass for a uniform number in floating point to get there, however large it is."""

    def model(data):
        mean = numpyro.sample("mean", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mean, 1.0).expand([len(data["y"])]), obs=data["y"])

    grid = np.array([0.0, 8.11])
    mechanism = CensoredPosterior(model, bound=2.0, sensitive=("y",), grid={"mean": grid})
    columns, at = {"y": np.array([0.0, -3.0, 0.0, 0.0, 0.0, 0.0])}, Scripted()
    logs = -0.5 * (columns["y"] - grid[:, None]) ** 2 - 0.5 * math.log(2 * math.pi)
    common, rare = law(logs, -0.5 * grid**2, 2.0)
    assert 0 < rare < Fraction(1, 2**54)
    assert mechanism.fit(columns, rng=at).values["mean"].tolist() == [8.11]
    twin = np.searchsorted(np.cumsum([float(common), float(rare)])[:-1], at.random(1), side="right")
    assert twin.tolist() == [0]


def test_the_grid_and_the_prior_are_checked() -> None:
    def fit(grid, bound=1.0):
        mechanism = CensoredPosterior(PoissonMean(column="y", shape=1.0, rate=0.1), bound=bound, grid=grid)
        return mechanism.fit({"y": np.array([1, 2, 3])}, rng=seeded(0))

    for grid, bound, message in (
        ({"other": [1.0]}, 1.0, "no values of site 'mean'"),
        ({"mean": [1.0], "other": [1.0]}, 1.0, "no latent site 'other'"),
        ({"mean": [1.0, 1e6]}, 1.0, "nats apart"),
        ({"mean": [1.0]}, 1e-9, "on a grid the bound"),
        ({"mean": [1.0]}, 1e6, "on a grid the bound"),
    ):
        with pytest.raises(ParameterError, match=message):
            fit(grid, bound)
    assert fit({"mean": [1.0]}).values["mean"].tolist() == [1.0]


def test_records_are_read_in_blocks_of_one_shape(monkeypatch) -> None:
    """However many there are, what a record says is the same; the draws then are, too."""
    model, data = PoissonMean(column="y", shape=1.0, rate=0.1), {"y": np.arange(11)}
    grid = {"mean": np.linspace(0.5, 12.0, 40)}

    def drawn():
        return drawn_on_grid(model, grid, data, np.ones(11), bound=0.3, draws=20, rng=seeded(3))["mean"]

    whole = drawn()
    monkeypatch.setattr(grid_module, "_BLOCK", 4)
    np.testing.assert_array_equal(drawn(), whole)
