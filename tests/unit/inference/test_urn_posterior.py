"""Releases of urns: posteriors and what they do not show, by enumeration, closed forms and simulated worlds."""

import functools
import math
import time
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from discreet import Budget, release
from discreet._core.numeric import log_rising
from discreet._core.random import seeded
from discreet.domain import Boolean, Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import DataError, FileProblem, ParameterError
from discreet.inference import process_posterior, unseen
from discreet.inference.missing_mass import Urn, new_values_law
from discreet.inference.released import Released, read_release
from discreet.inference.urn import learned_parameters, log_partition, tail_plan, tail_weights
from discreet.mechanisms import PitmanYor

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})


def _rising(a: Fraction, s: int) -> Fraction:
    return math.prod((a + i for i in range(s)), start=Fraction(1))


def _table(counts: dict[float, int]) -> pl.DataFrame:
    return pl.DataFrame({"x": np.repeat(list(counts), list(counts.values()))})


# -- two cells: everything by enumeration ---------------------------------------------------------------------------


def _two_cells(a: Fraction, b: Fraction, n: int, m: int, s: int) -> tuple[float, float]:
    """Return mean and variance of p given that s of m releases are ones, summing over the confidential count."""
    masses, first, second = Fraction(0), Fraction(0), Fraction(0)
    for c in range(n + 1):
        held = math.comb(n, c) * _rising(a, c) * _rising(b, n - c) / _rising(a + b, n)
        drawn = math.comb(m, s) * _rising(a + c, s) * _rising(b + n - c, m - s) / _rising(a + b + n, m)
        masses += held * drawn
        total = a + b + n
        first += held * drawn * (a + c) / total
        second += held * drawn * (a + c) * (a + c + 1) / (total * (total + 1))
    return float(first / masses), float(second / masses - (first / masses) ** 2)


@pytest.mark.parametrize(("n", "m", "s"), [(4, 3, 1), (3, 6, 6), (6, 2, 0)])
def test_two_cells_follow_the_enumerated_posterior(n, m, s) -> None:
    domain = Domain(columns={"x": Boolean(base={"weights": [3, 1]})})
    table = pl.DataFrame({"x": [True] * s + [False] * (m - s)})
    mean, variance = _two_cells(Fraction(1, 2), Fraction(3, 2), n, m, s)
    draws = 40_000
    posterior = process_posterior(table, domain, strength=2.0, discount=0.0, n=n, draws=draws)
    found = posterior.evaluate("mean")
    # Six standard errors of a mean and of a variance (values lie in [0, 1]): a false alarm in 10^8.
    assert abs(found.mean() - mean) < 6 * math.sqrt(variance / draws)
    assert abs(found.var() - variance) < 6 / (4 * math.sqrt(draws))
    # The directing measure, which the paper takes for the population's distribution, is another law.
    directing = process_posterior(table, domain, strength=2.0, discount=0.0, draws=draws)
    paper = (0.5 + s) / (2 + m)
    assert abs(directing.evaluate("mean").mean() - paper) < 6 * 0.5 / math.sqrt(draws)
    assert abs(mean - paper) > 0.01


# -- closed forms ---------------------------------------------------------------------------------------------------


def _mean_by_urn(counts: list[int], theta: Fraction, sigma: Fraction, n: int) -> list[Fraction]:
    """Return E[p{l}] for the released values by following every way in which n confidential records can arise."""
    k = len(counts)

    def follow(urn: list[int], opened: int, held: list[int], left: int) -> list[Fraction]:
        if left == 0:
            total = theta + n
            return [(held[l] - sigma) / total if held[l] else Fraction(0) for l in range(k)]
        total = theta + sum(urn)
        out = [Fraction(0)] * k
        for l, size in enumerate(urn):
            more_urn, more_held = urn.copy(), held.copy()
            more_urn[l] += 1
            if l < k:
                more_held[l] += 1
            part = follow(more_urn, opened, more_held, left - 1)
            out = [o + (size - sigma) / total * p for o, p in zip(out, part, strict=True)]
        part = follow([*urn, 1], opened + 1, held, left - 1)
        return [o + (theta + len(urn) * sigma) / total * p for o, p in zip(out, part, strict=True)]

    return follow(list(counts), 0, [0] * k, n)


@pytest.mark.parametrize(("theta", "sigma"), [(2.0, 0.0), (1.0, 0.4), (-0.2, 0.7)])
@pytest.mark.parametrize("n", [None, 4])
def test_draws_have_the_mean_of_all_ways(theta, sigma, n) -> None:
    counts = {0.1: 4, 0.3: 1, 0.8: 2}
    draws = 4000
    posterior = process_posterior(
        _table(counts), UNIT, strength=theta, discount=sigma, n=n, draws=draws, tolerance=1e-2
    )
    values = posterior.support.columns[0]
    order = np.array([counts[round(float(v), 6)] for v in values])
    if n is None:
        expected = (order - sigma) / (theta + order.sum())
    else:
        expected = np.array(_mean_by_urn(order.tolist(), Fraction(str(theta)), Fraction(str(sigma)), n), dtype=float)
    masses = np.concatenate([posterior.block(i).weights for i in range(posterior.blocks)])
    assert np.abs(masses.mean(axis=0) - expected).max() < 6 * 0.5 / math.sqrt(draws)
    mean = posterior.evaluate("mean")
    assert abs(mean.mean() - (expected @ values + (1.0 - expected.sum()) / 2)) < 6 * mean.std() / math.sqrt(draws)


def test_variance_of_a_mean_in_closed_form() -> None:
    counts, theta, sigma = np.array([4.0, 1.0, 2.0]), 1.0, 0.5
    values = np.array([0.1, 0.3, 0.8])
    total, strength = theta + counts.sum(), theta + 3 * sigma
    alpha = np.append(counts - sigma, strength)
    centre, spread = np.append(values, 0.5), np.append(np.zeros(3), (1 / 12) * (1 - sigma) / (strength + 1))
    mean = alpha @ centre / total
    square = alpha @ ((alpha + 1) * spread) / (total * (total + 1))  # E[R^2] Var Fraction(g)
    variance = (alpha @ centre**2 / total - mean**2) / (total + 1) + square
    posterior = process_posterior(
        _table({0.1: 4, 0.3: 1, 0.8: 2}), UNIT, strength=theta, discount=sigma, draws=20_000, tolerance=1e-2
    )
    found = posterior.evaluate("mean")
    assert abs(found.var() / variance - 1.0) < 6 * math.sqrt(2.5 / 20_000)


@pytest.mark.parametrize(("theta", "sigma"), [(0.5, 0.0), (30.0, 0.0), (1.0, 0.5), (400.0, 0.8), (-0.3, 0.5)])
def test_a_truncated_tail_keeps_two_moments(theta, sigma) -> None:
    plan = tail_plan(theta, sigma, mass=1.0, tolerance=1e-3)
    weights = tail_weights(np.full(4000, theta), np.full(4000, sigma), plan, seeded(1))
    assert np.allclose(weights.sum(axis=1), 1.0)
    # E[sum w^2] = (1 - sigma) / (theta + 1) is the probability that two draws of the process agree.
    squares = (weights**2).sum(axis=1)
    assert abs(squares.mean() - (1 - sigma) / (theta + 1)) < 6 * squares.std() / math.sqrt(4000) + plan.left**2


# -- worlds whose truth is known ------------------------------------------------------------------------------------


def _urn(counts: Counts | None, size: int, theta: float, sigma: float, seed: int) -> pl.DataFrame:
    """Return draws that continue an urn; from nothing when there are no counts."""
    rng = seeded(seed)
    if counts is None:
        first = UNIT.draw_base(1, rng)
        rest = _urn(Counts(records=first, frequencies=np.array([1])), size - 1, theta, sigma, seed + 1)
        return pl.concat([pl.DataFrame({"x": first.columns[0]}), rest])
    mechanism = PitmanYor(domain=UNIT, size=size, strength=theta, discount=sigma)
    drawn = Records.concatenate(list(mechanism.kernel(counts, rng=rng)))
    return pl.DataFrame({"x": drawn.columns[0]})


NAMES, WORLDS = ("mean", "q50", "P(>0.75)"), 200


@functools.cache
def _worlds(theta: float, sigma: float, n: int, m: int) -> list[tuple[list[float], pl.DataFrame]]:
    """Return functionals of a population, and what was released of a sample of it, for each of 200 worlds."""
    found = []
    for world in range(WORLDS):
        x = _urn(None, n, theta, sigma, 10_000 * world + 1)
        truth = process_posterior(x, UNIT, strength=theta, discount=sigma, draws=1, seed=world)
        values, frequencies = np.unique(x["x"].to_numpy(), return_counts=True)
        counts = Counts(records=Records(columns=(values,)), frequencies=frequencies)
        found.append(([truth.evaluate(name)[0] for name in NAMES], _urn(counts, m, theta, sigma, 10_000 * world + 5)))
    return found


def _ranks(theta: float, sigma: float, n: int, m: int, *, known: bool) -> dict[str, np.ndarray]:
    """Return, per functional, the rank of the truth among 19 posterior draws in each world."""
    ranks: dict[str, list[int]] = {name: [] for name in NAMES}
    ties, held = seeded(99), n if known else None
    for world, (truths, z) in enumerate(_worlds(theta, sigma, n, m)):
        posterior = process_posterior(z, UNIT, strength=theta, discount=sigma, n=held, draws=19, seed=world + 7)
        for name, true in zip(NAMES, truths, strict=True):
            found = posterior.evaluate(name)
            below, equal = int((found < true).sum()), int((found == true).sum())  # a median is often a shared value
            ranks[name].append(below + int(ties.integers(equal + 1)))
    return {name: np.array(found) for name, found in ranks.items()}


def _uneven(ranks: np.ndarray) -> float:
    """Return the chi-square statistic of ranks 0..19 against the uniform law, in standard deviations."""
    counts = np.bincount(ranks, minlength=20)
    expected = len(ranks) / 20
    return float((((counts - expected) ** 2 / expected).sum() - 19) / math.sqrt(38))


@pytest.mark.parametrize(("theta", "sigma"), [(1.0, 0.0), pytest.param(1.0, 0.4, marks=pytest.mark.exhaustive)])
def test_the_truth_ranks_evenly_among_the_draws(theta, sigma) -> None:
    # Chi-square on 19 degrees of freedom: 6 standard deviations above its mean has probability 4e-7.
    for name, ranks in _ranks(theta, sigma, 20, 20, known=True).items():
        assert _uneven(ranks) < 6, name


def test_taking_the_release_for_a_sample_is_overconfident() -> None:
    # The paper's posterior at m = n: the truth falls outside the draws far too often.
    ranks = _ranks(1.0, 0.0, 20, 20, known=False)
    assert _uneven(ranks["mean"]) > 6
    outside = np.isin(ranks["mean"], (0, 19)).mean()
    assert outside > 0.15  # 0.10 if it were right


# -- parameters learned ---------------------------------------------------------------------------------------------


def test_partition_probabilities_sum_to_one() -> None:
    theta, sigma = np.array([0.7]), np.array([0.3])
    shapes = {(4,): 1, (3, 1): 4, (2, 2): 3, (2, 1, 1): 6, (1, 1, 1, 1): 1}
    total = sum(times * math.exp(log_partition(shape, theta, sigma)[0]) for shape, times in shapes.items())
    assert total == pytest.approx(1.0, rel=1e-12)


def test_learned_parameters_rank_evenly() -> None:
    rng, ranks = seeded(11), {"strength": [], "discount": []}
    for world in range(150):
        u, sigma = rng.random(), rng.random()
        theta = u / (1.0 - u) - sigma
        _, sizes = _seated(40, theta, sigma, rng)
        values = Records(columns=(np.linspace(0.0, 1.0, len(sizes)),))
        z = Released(domain=UNIT, records=values, counts=np.array(sizes, dtype=np.float64), urn=None, n_held=None)
        prior = learned_parameters(z, "learned", "learned", draws=19, hyperprior=None, rng=seeded(world))
        ranks["strength"].append(int((prior.strength < theta).sum()))
        ranks["discount"].append(int((prior.discount < sigma).sum()))
    for found in ranks.values():
        assert _uneven(np.array(found)) < 6


def test_learning_one_of_the_two() -> None:
    table = _table({0.1: 5, 0.2: 1, 0.4: 1, 0.9: 3})
    one = process_posterior(table, UNIT, strength="learned", discount=0.0, draws=300)
    other = process_posterior(table, UNIT, strength=1.0, discount="learned", draws=300)
    assert one.facts["discount"] == 0.0
    assert one.facts["strength"] > 0.0
    assert 0.0 < other.facts["discount"] < 1.0
    sharp = process_posterior(table, UNIT, strength="learned", discount=0.0, draws=300,
                              hyperprior=lambda theta, _: -0.5 * ((np.log(theta) - 3.0) / 0.01) ** 2)  # fmt: skip
    assert sharp.facts["strength"] == pytest.approx(math.exp(3.0), rel=0.05)
    finite = Domain(columns={"x": Integer(lower=0, upper=9)})
    learned = process_posterior(pl.DataFrame({"x": [0, 0, 1, 5]}), finite, strength="learned", discount=0.0)
    assert learned.facts["strength"] > 0.0


# -- releases as analysts have them ---------------------------------------------------------------------------------


def test_a_written_release_states_its_own_parameters(tmp_path) -> None:
    data = pl.DataFrame({"x": np.round(seeded(1).random(2000), 2)})
    asked = {
        "size": 100,
        "mechanism": "pitman-yor",
        "strength": 50.0,
        "seed": 1,
        "accept": {"poor-utility", "weak-promise"},
    }
    made = release(data, UNIT, Budget(epsilon=1.0, delta=0.1), **asked)
    written = made.write(tmp_path / "z.csv")
    from_file = process_posterior(written.path, draws=200)
    from_memory = process_posterior(made, draws=200)
    assert from_file.facts == from_memory.facts
    assert from_file.evaluate("mean").tolist() == from_memory.evaluate("mean").tolist()
    assert from_file.facts["records"] == 2000
    assert from_file.facts["strength"] == 50.0
    low, high = (from_file.summary(["mean"])["mean"].lower, from_file.summary(["mean"])["mean"].upper)
    assert 0.3 < low < 0.5 < high < 0.7
    with pytest.raises(FileProblem, match="certificate"):
        process_posterior(written.path.rename(tmp_path / "other.csv"))


def test_weights_and_several_columns() -> None:
    domain = Domain(columns={"x": Numeric(lower=0.0, upper=1.0), "town": OpenLabels(prefix="new_"), "b": Boolean()})
    plain = pl.DataFrame({"x": [0.5, 0.5, 0.2], "town": ["a", "a", "new_1"], "b": [True, True, False]})
    weighted = pl.DataFrame({"x": [0.5, 0.2], "town": ["a", "new_1"], "b": [True, False], "w": [2.0, 1.0]})
    one = process_posterior(plain, domain, strength=1.0, discount=0.0, draws=4000, seed=3)
    two = process_posterior(weighted, domain, strength=1.0, discount=0.0, draws=4000, seed=3, weights="w")
    for posterior in (one, two):
        assert posterior.evaluate("P(=a)", column="town").mean() == pytest.approx(0.5, abs=0.03)
        assert posterior.evaluate("mean", column="b").mean() == pytest.approx(0.625, abs=0.03)
        both = posterior.evaluate(lambda v, w: (w * (v["town"] == "a") * v["x"]).sum(axis=1))
        assert both.mean() == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize(
    "wrong",
    [
        {"strength": None},
        {"strength": -0.1},
        {"strength": 1.0, "discount": 1.0},
        {"strength": 1.0, "discount": 0.0, "draws": 0},
        {"strength": 1.0, "discount": 0.0, "n": 0},
        {"strength": "learned", "discount": 0.0, "weights": "w"},
    ],
)
def test_wrong_parameters_are_refused(wrong) -> None:
    table = pl.DataFrame({"x": [0.5, 0.2], "w": [0.5, 1.0]})
    with pytest.raises(ParameterError):
        process_posterior(table, UNIT, **{"discount": 0.0, **wrong})


def test_wrong_tables_are_refused() -> None:
    with pytest.raises(DataError):
        process_posterior(pl.DataFrame({"y": [0.5]}), UNIT, strength=1.0, discount=0.0)
    with pytest.raises(DataError):
        process_posterior(pl.DataFrame({"x": [0.5, 1.5]}), UNIT, strength=1.0, discount=0.0)
    with pytest.raises(DataError, match="weights"):
        process_posterior(pl.DataFrame({"x": [0.5], "w": [-1.0]}), UNIT, strength=1.0, discount=0.0, weights="w")
    finite = Domain(columns={"x": Integer(lower=0, upper=9)})
    with pytest.raises(ParameterError, match="finite"):
        process_posterior(pl.DataFrame({"x": [1]}), finite, strength=1.0, discount=0.5)


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
    # 80 worlds; a 90 % interval misses more than 25 of them with probability below 1e-7 if it is right.
    theta, sigma, n, m, missed = 2.0, 0.6, 100, 40, {"unseen": 0, "urn": 0, "population": 0}
    rng = seeded(3)
    for _ in range(80):
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
    assert max(missed.values()) <= 25
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
