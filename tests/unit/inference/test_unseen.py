"""Missing mass and unseen values: against exact recursions in fractions, enumeration, and closed forms at a million."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from discreet._core.numeric import log_rising
from discreet._core.random import seeded
from discreet.domain import Domain, Integer, Numeric
from discreet.errors import ParameterError
from discreet.inference import unseen
from discreet.inference.missing_mass import Urn, new_values_law
from discreet.inference.released import read_release

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
PARAMETERS = [(Fraction(1), Fraction(1, 2)), (Fraction(3), Fraction(0)), (Fraction(-1, 4), Fraction(4, 5))]


def _opened(seen: int, distinct: int, draws: int, theta: Fraction, sigma: Fraction) -> list[Fraction]:
    """Return the law of the number of values opened in some draws, one draw at a time."""
    law = [Fraction(1)] + [Fraction(0)] * draws
    for i in range(draws):
        total, following = theta + seen + i, [Fraction(0)] * (draws + 1)
        for j in range(i + 1):
            new = (theta + (distinct + j) * sigma) / total
            following[j] += law[j] * (1 - new)
            following[j + 1] += law[j] * new
        law = following
    return law


@pytest.mark.parametrize(("theta", "sigma"), PARAMETERS)
@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 6), (5, 3, 4), (30, 2, 90)])
def test_the_law_of_new_values(theta, sigma, m, k, n) -> None:
    law = new_values_law(n, seen=m, distinct=k, strength=float(theta), discount=float(sigma))
    exact = _opened(m, k, n, theta, sigma)
    full = np.zeros(n + 1)
    full[law.values.astype(int)] = law.masses
    assert np.allclose(full, [float(p) for p in exact], rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize(("theta", "sigma"), PARAMETERS)
def test_the_urn_estimate_is_the_mean_over_the_law(theta, sigma) -> None:
    m, k, n = 4, 2, 5
    table = pl.DataFrame({"x": [0.1, 0.1, 0.1, 0.7]})
    law = _opened(m, k, n, theta, sigma)
    exact = sum((p * (theta + sigma * (k + j)) for j, p in enumerate(law)), start=Fraction(0)) / (theta + n + m)
    found = unseen(table, UNIT, strength=float(theta), discount=float(sigma), n=n, of="discovery")
    assert found.estimate == pytest.approx(float(exact), rel=1e-9)
    assert found.lower <= found.estimate <= found.upper or sigma == 0


@pytest.mark.parametrize(("theta", "sigma"), PARAMETERS)
def test_the_population_estimate_by_enumeration(theta, sigma) -> None:
    n = 4

    def follow(urn: tuple[int, ...], held: frozenset[int], left: int) -> Fraction:
        """Return E[(theta + sigma K_n) / (theta + n)], following every way the confidential records can arise."""
        if left == 0:
            return (theta + sigma * len(held)) / (theta + n)
        total = theta + sum(urn)
        out = (theta + sigma * len(urn)) / total * follow((*urn, 1), held | {len(urn)}, left - 1)
        for l, size in enumerate(urn):
            more = tuple(s + (i == l) for i, s in enumerate(urn))
            out += (size - sigma) / total * follow(more, held | {l}, left - 1)
        return out

    table = pl.DataFrame({"x": [0.1, 0.1, 0.1, 0.7]})
    found = unseen(table, UNIT, of="mass", strength=float(theta), discount=float(sigma), n=n)
    assert found.estimate == pytest.approx(float(follow((3, 1), frozenset(), n)), rel=1e-9)
    assert found.conservative


def _seated(draws: int, theta: float, sigma: float, rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Return which value each draw of an urn has, and how often each value occurs."""
    seats: list[int] = []
    sizes: list[int] = []
    for _ in range(draws):
        masses = np.array([*(s - sigma for s in sizes), theta + sigma * len(sizes)])
        at = int(np.searchsorted(np.cumsum(masses)[:-1], rng.random() * masses.sum(), side="right"))
        sizes = [*sizes, 0] if at == len(sizes) else sizes
        sizes[at] += 1
        seats.append(at)
    return seats, sizes


def test_intervals_hold_the_truth() -> None:
    # 120 worlds; a 90 % interval misses more than 34 of them with probability below 1e-7 if it is right.
    theta, sigma, n, m, missed = 2.0, 0.6, 100, 40, {"unseen": 0, "urn": 0, "population": 0}
    rng = seeded(3)
    for _ in range(120):
        seats, sizes = _seated(n + m, theta, sigma, rng)
        x, z = set(seats[:n]), seats[n:]
        table = pl.DataFrame({"x": np.array(z) / (n + m)})
        facts = {"strength": theta, "discount": sigma, "n": n, "level": 0.9}
        truths = {
            "unseen": (len(x - set(z)), unseen(table, UNIT, **facts)),
            "urn": ((theta + sigma * len(sizes)) / (theta + n + m), unseen(table, UNIT, of="discovery", **facts)),
            "population": ((theta + sigma * len(x)) / (theta + n), unseen(table, UNIT, of="mass", **facts)),
        }
        for name, (truth, found) in truths.items():
            missed[name] += not found.lower - 1e-12 <= truth <= found.upper + 1e-12
    assert max(missed.values()) <= 34
    assert missed["unseen"] >= 1  # intervals of everything would miss nothing
    assert missed["population"] <= missed["urn"] + 5


@pytest.mark.parametrize(
    ("theta", "sigma", "m", "k"),
    [(1.0, 0.5, 10**6, 1500), (1.0, 0.9, 10**6, 200_000), (10.0, 0.0, 100, 20), (1.0, 0.1, 100, 5)],
)
def test_a_million_confidential_records(theta, sigma, m, k) -> None:
    n = 10**6
    law = new_values_law(n, seen=m, distinct=k, strength=theta, discount=sigma)
    if sigma:
        growth = math.expm1(float(log_rising(theta + m + sigma, n) - log_rising(theta + m, n)))
        mean = (k + theta / sigma) * growth
    else:
        mean = float((theta / (theta + m + np.arange(n))).sum())
    assert law.mean == pytest.approx(mean, rel=1e-6)
    low, high = law.interval(0.95)
    assert low < mean < high


def test_questions_without_an_answer_are_refused() -> None:
    table = pl.DataFrame({"x": [0, 1]})
    finite = Domain(columns={"x": Integer(lower=0, upper=9)})
    for wrong in (
        lambda: unseen(table, finite, strength=1.0, discount=0.0, n=5),
        lambda: unseen(table, UNIT, strength=1.0, discount=0.0),
        lambda: unseen(table, UNIT, strength=1.0, discount=0.0, n=5, of="everything"),
        lambda: new_values_law(3, seen=2, distinct=3, strength=1.0),
        lambda: new_values_law(3, seen=2, distinct=1, strength=-0.5, discount=0.2),
        lambda: new_values_law(3, seen=2, distinct=1, strength=1.0, discount=1.0),
        lambda: unseen(table, UNIT, of="strength", strength=1.0),
        lambda: unseen(table, finite, of="discount"),
        lambda: unseen(table, UNIT, strength=1.0, discount=0.0, n=5, level=95),
    ):
        with pytest.raises(ParameterError):
            wrong()


@pytest.mark.parametrize(("theta", "sigma"), [(5.0, 0.0), (5.0, 0.5)])
def test_intervals_of_learned_parameters_hold_them(theta, sigma) -> None:
    """60 urns: a 90 % interval of the strength, given the discount, misses more than 20 with probability below 1e-6."""
    rng, missed = seeded(4), 0
    for _ in range(60):
        _, sizes = _seated(300, theta, sigma, rng)
        table = pl.DataFrame({"x": np.repeat(np.arange(len(sizes)) / 1000, sizes)})
        found = unseen(table, UNIT, of="strength", discount=sigma, level=0.9)
        assert found.lower < found.estimate < found.upper
        missed += not found.lower <= theta <= found.upper
    assert 1 <= missed <= 20


@pytest.mark.parametrize(("theta", "sigma"), [(50.0, 0.0), (5.0, 0.6)])
def test_many_values_have_the_interval_of_their_simulation(theta, sigma) -> None:
    """Quantiles of 4,000 simulated numbers are off by 6 % of a standard deviation; both are rounded to whole values."""
    sizes = np.concatenate([np.full(900, 1), np.full(300, 2), np.arange(3, 60)])
    table = pl.DataFrame({"x": np.repeat(np.arange(len(sizes)) / 10_000, sizes)})
    urn = Urn.from_release(read_release(table, UNIT), theta, sigma, 5_000)
    for level in (0.5, 0.95):
        few, many = urn.simulated_shown(level)
        low, high = urn.normal_shown(level)
        assert low < high
        assert max(abs(few - low), abs(many - high)) <= 2 + 0.15 * (high - low) / 2


def test_a_large_release_takes_seconds() -> None:
    rng = seeded(5)
    values = np.concatenate([np.arange(100_000), np.minimum(rng.zipf(1.5, size=900_000), 100_000) - 1])
    table = pl.DataFrame({"x": values / 10**6})
    before = time.process_time()
    found = unseen(table, UNIT, of="mass", strength=5.0, discount=0.5, n=10**7)
    assert found.lower < found.estimate < found.upper
    assert time.process_time() - before < 20.0
