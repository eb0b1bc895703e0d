"""The contract of every mechanism, as plain functions that raise AssertionError.

Four checks take a mechanism on a universe that is small enough to enumerate: its law sums to one; its kernel follows
the law, and not a tilted one; no pair of neighbours exceeds its guarantee, and some pair attains it where it is said to
be exact; a broken twin is caught. :data:`CHECKS` take the class alone, so that whatever is registered is checked.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from discreet._core.errors import LawNotAvailable, ParameterError
from discreet._core.numeric import Floats, Integers
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Counts, Records
from discreet.mechanisms import Mechanism, compositions
from discreet.privacy import Budget, Profile, Relation, RelationName, keeps_shape
from discreet.testing import behaviour, facts
from discreet.testing.enumeration import Law, enumerate_law, hockey_stick, neighbouring_pairs, outcome_of, table_of
from discreet.testing.facts import RATE, small_domain, small_mechanism

EPSILONS = (0.0, 1e-4, 0.01, 0.1, 0.3, 0.6931471805599453, 1.0, 1.6, 2.5, 4.0)
"""Where guarantees are checked unless told otherwise."""

_ROUNDING = 1e-11  # relative; brute force and theorem are both accurate to about 1e-13

# The number of samples is derived from the rates at which a right sampler fails and a wrong one passes. Against named
# alternatives the sum of log(p/q) over N samples has the wrong sign with probability at most (sum sqrt(p q))^N
# (Chernoff). Against everything at a distance the empirical law of N samples on K outcomes is further than t in L1 from
# the truth with probability at most 2^K e^(-N t^2/2) (Weissman et al., 2003).


def sample_size(p: npt.ArrayLike, q: npt.ArrayLike, *, rate: float = RATE) -> int:
    """Return how many samples tell law ``p`` from law ``q``, each error being of probability at most ``rate``."""
    affinity = float(np.sqrt(np.asarray(p, dtype=np.float64) * np.asarray(q, dtype=np.float64)).sum())
    if affinity >= 1.0 - 1e-12:
        raise ParameterError("the two laws are the same, so no number of samples tells them apart")
    return 1 if affinity <= 0.0 else math.ceil(math.log(rate) / math.log(affinity))


def sample_size_for_distance(outcomes: int, distance: float, *, rate: float = RATE) -> int:
    """Return how many samples reject every law at total variation ``distance`` or more from the right one."""
    return math.ceil(2.0 * (outcomes * math.log(2.0) - math.log(rate)) / distance**2)


def assert_law(observed: npt.ArrayLike, law: npt.ArrayLike, *, distance: float, rate: float = RATE) -> None:
    """Assert that samples follow a law, against every law at total variation ``distance`` or more from it.

    Parameters
    ----------
    observed : array_like of int, shape (outcomes,)
        How often each outcome was seen, at least :func:`sample_size_for_distance` in total.
    law : array_like of float, shape (outcomes,)
        Probabilities.
    distance : float
        Effect size.
    rate : float
        A right sampler fails, and a wrong one passes, with probability at most this.

    Raises
    ------
    AssertionError
        When the samples lie nearer to some such law.
    ParameterError
        When there are too few samples for the rate.

    Examples
    --------
    >>> assert_law([2400, 2600], [0.5, 0.5], distance=0.1)
    """
    counts, p = np.asarray(observed, dtype=np.float64), np.asarray(law, dtype=np.float64)
    total = counts.sum()
    if total < sample_size_for_distance(len(p), distance, rate=rate):
        raise ParameterError(f"{total:.0f} samples are too few for distance {distance:g} at rate {rate:g}")
    differences = np.abs(counts / total - p)
    variation, worst = 0.5 * float(differences.sum()), int(np.argmax(differences))
    # The allowance is half of distance: the law sampled is that near to what was seen, but for the stated rate.
    assert variation < distance / 2.0, (
        f"the samples are at total variation {variation:.4f} from the law, more than {distance / 2.0:.4f}; "
        f"outcome {worst} was seen {counts[worst]:.0f} times and expected {total * p[worst]:.1f} times"
    )


def brute_force_profile(
    mechanism: Mechanism,
    *,
    n: int,
    values: Records | None = None,
    group: int = 1,
    relation: RelationName = "replacement",
    epsilons: npt.ArrayLike = EPSILONS,
) -> Floats:
    """Return the largest divergence over every pair of neighbouring tables of a small universe.

    Parameters
    ----------
    mechanism : Mechanism
        With a small domain and size.
    n : int
        Number of records of a table; the smaller one where records are added or removed.
    values : Records, optional
        The records that tables may hold; all cells of a finite domain by default. Without atoms in the base measure,
        ``n + group`` of them are every universe there is.
    group : int
        Number of records that may be replaced, added or removed.
    relation : {"replacement", "add-remove"}
        What makes tables neighbours.
    epsilons : array_like of float, shape (E,)
        Where to evaluate it.

    Returns
    -------
    ndarray of float64, shape (E,)

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=2)})
    >>> mechanism = SmoothedHistogram(domain=cells, size=1, mixing=0.5)
    >>> brute_force_profile(mechanism, n=2, epsilons=[0.0]).round(12).tolist()
    [0.25]
    """
    if values is None:
        values = mechanism.domain.unflat(np.arange(cast(int, mechanism.domain.size)))
    counts, left, right = neighbouring_pairs(n, len(values), group=group, relation=relation)
    tables = [Counts(records=values.take(np.flatnonzero(row)), frequencies=row[row > 0]) for row in counts]
    if mechanism.domain.finite:
        log_mass = enumerate_law(mechanism, *tables).log_mass
        return np.asarray(hockey_stick(log_mass[left], log_mass[right], epsilons).max(axis=0))
    # Without atoms the outcomes depend on the pair: what x does not hold, it cannot release.
    profile = np.zeros(np.size(epsilons))
    for i, j in zip(left.tolist(), right.tolist(), strict=True):
        law = enumerate_law(mechanism, tables[i], tables[j]).log_mass
        profile = np.maximum(profile, hockey_stick(law[0], law[1], epsilons))
    return profile


def check_law_sums_to_one(mechanism: Mechanism, *tables: Counts) -> None:
    """Assert that the probabilities of all releases of each table add up to one.

    Raises
    ------
    AssertionError
        When they do not.

    Examples
    --------
    >>> from discreet.domain import Domain, Numeric
    >>> from discreet.mechanisms import PitmanYor
    >>> unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    >>> check_law_sums_to_one(PitmanYor(domain=unit, size=3, discount=0.25), Counts.of_cells([0.5, 0.5, 0.75]))
    """
    for x in tables:
        law = enumerate_law(mechanism, x)
        total = float(law.mass.sum())
        assert abs(total - 1.0) <= 1e-10 + law.neglected, f"the law of {mechanism.name} sums to {total!r}"


def check_kernel_follows_law(
    mechanism: Mechanism,
    x: Counts,
    *,
    alternatives: Sequence[Mechanism],
    kernel: Mechanism | None = None,
    distance: float = 0.1,
    seed: int = 0,
) -> None:
    """Assert that the kernel follows the law, rather than those of the alternatives or any law at a distance.

    Each of the ``len(alternatives) + 1`` tests rejects a right kernel, or accepts a wrong one, with probability 1e-6.

    Parameters
    ----------
    mechanism : Mechanism
        Whose law it is.
    x : Counts
        A small table.
    alternatives : sequence of Mechanism
        The same mechanism with a parameter off by some effect size, on both sides.
    kernel : Mechanism, optional
        Whose kernel it is, when it is a twin's.
    distance : float
        Total variation from which any other law is rejected.
    seed : int
        Of the samples.

    Raises
    ------
    AssertionError
        When it does not.
    """
    law = enumerate_law(mechanism, x)
    rng = seeded(seed)

    def seen(count: int) -> Integers:
        """Return how often each outcome of the law, and none of them, is released."""
        releases = ((kernel or mechanism).kernel(x, rng=rng) for _ in range(count))
        places = [law.number.get(outcome_of(mechanism, release, x), len(law.outcomes)) for release in releases]
        return np.bincount(np.array(places, dtype=np.int64), minlength=len(law.outcomes) + 1)

    def masses(other: Law) -> Floats:
        """Return the probability of each outcome of the law, and of none of them."""
        listed = {outcome: other.mass[0, i] for outcome, i in other.number.items()}
        mass = np.array([listed.get(outcome, 0.0) for outcome in law.outcomes])
        return np.append(mass, max(0.0, 1.0 - float(mass.sum())) if law.neglected else 0.0)

    right = masses(law)
    wrong = [masses(enumerate_law(alternative, x)) for alternative in alternatives]
    count = max((sample_size(right, mass) for mass in wrong), default=0)
    counts = seen(count)
    positive = counts > 0
    assert (right[positive] > 0.0).all(), "an outcome was seen that has probability zero"
    for i, mass in enumerate(wrong):
        with np.errstate(divide="ignore"):
            evidence = float((counts[positive] * (np.log(right[positive]) - np.log(mass[positive]))).sum())
        assert evidence > 0.0, f"{count} samples are {-evidence:.1f} nats likelier under alternative {i} than the law"
    # Rare outcomes are pooled, rarest first, until at most 64 remain: the number of samples grows with the outcomes.
    pool = np.empty(len(right), dtype=np.int64)
    pool[np.argsort(-right, kind="stable")] = np.minimum(np.arange(len(right)), 63)
    pooled = np.bincount(pool, weights=right)
    counts = np.bincount(pool, weights=seen(sample_size_for_distance(len(pooled), distance)))
    assert_law(counts, pooled, distance=distance)


def check_guarantee(
    mechanism: Mechanism,
    *,
    n: int,
    values: Records | None = None,
    group: int = 1,
    relation: RelationName = "replacement",
    epsilons: Sequence[float] = EPSILONS,
) -> None:
    """Assert that no pair of neighbours exceeds the guarantee, and that some attain it where it is called exact.

    Parameters
    ----------
    mechanism : Mechanism
        Whose guarantee it is.
    n, values, group, relation, epsilons
        As for :func:`brute_force_profile`. Where numbers of records differ, the guarantee for each has to hold.

    Raises
    ------
    AssertionError
        When it does, naming the epsilon.
    """
    neighbours, most = Relation(name=relation, group=group), n if relation == "replacement" else n + group
    guarantees = [mechanism.guarantee(neighbours, n=number) for number in range(n, most + 1)]
    brute = brute_force_profile(mechanism, n=n, values=values, group=group, relation=relation, epsilons=epsilons)
    for epsilon, true in zip(epsilons, brute.tolist(), strict=True):
        claimed = min(guarantee.delta(epsilon) for guarantee in guarantees)
        assert true <= claimed * (1.0 + _ROUNDING) + 1e-14, (
            f"{mechanism.name}: neighbours of {counted(n, 'record')} have delta {true:.12g} at epsilon {epsilon:g}, "
            f"more than the {claimed:.12g} that {guarantees[0].theorem} promises"
        )
        if guarantees[0].exact and claimed > 1e-290:
            assert true >= claimed * (1.0 - 1e-9) - 1e-13, (
                f"{mechanism.name}: {guarantees[0].theorem} is called exact at epsilon {epsilon:g} with delta "
                f"{claimed:.12g}, but no neighbours of {counted(n, 'record')} have more than {true:.12g}"
            )


def check_profile(profile: Profile) -> None:
    """Assert that a profile is in [0, 1], largest at 0, 0 from its pure epsilon on, and has its shape where exact."""
    pure = profile.pure
    points = {*EPSILONS, 6.0, 10.0, 20.0, 29.9, 30.1, 60.0, 200.0, 699.0}
    if pure < math.inf:
        points |= {share * pure for share in (1e-6, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0 - 1e-4, 1.0 - 1e-8)}
    levels = sorted(epsilon for epsilon in points if epsilon < pure)
    deltas = [profile.delta(epsilon) for epsilon in levels]
    assert all(0.0 < delta <= 1.0 for delta in deltas), "delta is 0 below the pure epsilon, or not a probability"
    assert pure == math.inf or profile.delta(pure) == 0.0, "delta is above 0 at the pure epsilon"
    assert max(deltas, default=0.0) <= profile.delta(0.0) * (1.0 + 1e-9), "delta is larger than at epsilon 0"
    assert not profile.exact or keeps_shape(profile, levels), "an exact profile rises, or is not convex in e^epsilon"


def check_twin_is_caught(
    mechanism: Mechanism,
    twin: Mechanism,
    *,
    n: int,
    values: Records | None = None,
    epsilons: Sequence[float] = EPSILONS,
) -> None:
    """Assert that :func:`check_guarantee` refutes the guarantee of ``mechanism`` for the law of a broken ``twin``.

    Raises
    ------
    AssertionError
        When the twin passes.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from discreet.domain import Domain, Integer
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> cells = Domain(columns={"cell": Integer(lower=0, upper=2)})
    >>> mechanism = SmoothedHistogram(domain=cells, size=2, mixing=0.25)
    >>> check_twin_is_caught(mechanism, replace(mechanism, mixing=0.25 - 2**-32), n=2)
    """
    brute = brute_force_profile(twin, n=n, values=values, epsilons=epsilons)
    guarantee = mechanism.guarantee(n=n)
    claims = np.array([guarantee.delta(epsilon) for epsilon in epsilons])
    caught = (brute > claims * (1.0 + _ROUNDING) + 1e-14).any()
    assert caught, f"a broken twin of {mechanism.name} stays within the guarantee at every epsilon checked"


_BUDGET = Budget(epsilon=2.0, delta=0.05)  # of what is small enough to list: two records on two cells
_RECORDS, _SIZE = 2, 2
_TINY_EPSILONS = (0.0, 0.1, 0.5, 1.0, 1.6, 2.0, 2.5)
_FACTORS = (0.95, 0.9, 0.8, 0.6, 0.3)
_MOST_SAMPLES = 30_000
_TABLE, _RUNS = (12, 8, 4, 0), 10_000


_tiny = partial(small_mechanism, budget=_BUDGET, domain=small_domain(2), n=_RECORDS, size=_SIZE)


# Each of these returns whether it looked: there are laws that cannot be listed, and outputs of another kind.


def check_promise(kind: type[Mechanism]) -> bool:
    """Assert that no neighbours exceed the guarantee, under each relation that is claimed, in units of 1 and 2."""
    looked = False
    for relation in kind.traits.relations:
        for group in (1, 2):
            mechanism = _tiny(kind, relation=relation, group=group)
            with contextlib.suppress(LawNotAvailable):
                check_guarantee(mechanism, n=_RECORDS, group=group, relation=relation, epsilons=_TINY_EPSILONS)
                looked = True
    return looked


def check_law(kind: type[Mechanism]) -> bool:
    """Assert that the kernel follows the mechanism's own law, and not that of other values of its free parameters."""
    # Both records of the table are in one cell. Of each number that calibration solves for, 0.95 times its value is
    # told apart or, where that takes more than 30,000 outputs, the first of 0.9, 0.8, 0.6 and 0.3 times it that does
    # not. So is every law at total variation 0.1. A right kernel fails, and a wrong one passes, with probability at
    # most 1e-6 per law.
    mechanism, x = _tiny(kind), table_of(np.array([_RECORDS, 0]))
    numbers = [name for name in kind.traits.free if isinstance(getattr(mechanism, name), float)]
    with contextlib.suppress(LawNotAvailable):
        others = [_distinguishable(mechanism, name, x) for name in numbers]
        check_kernel_follows_law(mechanism, x, alternatives=[other for other in others if other is not None])
        return True
    return False


def _distinguishable(mechanism: Mechanism, name: str, x: Counts) -> Mechanism | None:
    """Return the mechanism with a parameter as near to its own as can be told apart."""
    for factor in _FACTORS:
        with contextlib.suppress(ParameterError):  # no such value, or the same law
            other = replace(mechanism, **{name: factor * getattr(mechanism, name)})
            laws = [enumerate_law(one, x) for one in (mechanism, other)]
            masses = [dict(zip(law.outcomes, law.mass[0], strict=True)) for law in laws]
            outcomes = [outcome for outcome in masses[0] if outcome in masses[1]]
            if sample_size(*([mass[outcome] for outcome in outcomes] for mass in masses)) <= _MOST_SAMPLES:
                return other
    return None


def check_exposure(kind: type[Mechanism]) -> bool:
    """Assert that noisy counts are the true ones no more often than by the law."""
    # Of 10,000 outputs for a table of 24 records on four cells. A right kernel fails with probability at most 1e-6; one
    # that gives the table itself once in 500 times passes with probability at most 1e-3, if its law hardly ever does.
    mechanism, x, rng = small_mechanism(kind), table_of(np.array(_TABLE)), seeded(0)
    output: Any = mechanism.kernel(x, rng=rng)
    true: Any = np.array(_TABLE) if isinstance(output, np.ndarray) else x
    if type(output) is not type(true) or np.shape(output) != np.shape(true):
        return False  # records, or counts of something else
    expected = outcome_of(mechanism, true, x)
    number = sum(outcome_of(mechanism, mechanism.kernel(x, rng=rng), x) == expected for _ in range(_RUNS))
    likely = binom.isf(RATE, _RUNS, math.exp(mechanism.log_prob(true, x)))
    assert number <= likely, (
        f"the kernel of {kind.__name__} gave the true counts in {number} of {_RUNS:,} outputs. By its law it would "
        f"in at most {likely:.0f}"
    )
    return True


def check_likelihood(kind: type[Mechanism]) -> bool:
    """Assert that the likelihood, of which intervals are made, is the law at small tables, up to a factor."""
    n, cells = 4, 2
    mechanism = _tiny(kind, n=n)
    likelihood, counts = mechanism.likelihood(), compositions(n, cells)
    rng, x = seeded(0), table_of(np.array([3, 1]))
    for _ in range(20):
        output: Any = mechanism.kernel(x, rng=rng)
        if isinstance(output, Iterator):
            output = Records.concatenate(output)
        logs = likelihood.log_densities(mechanism.domain, output, counts)
        if logs is None:
            return False
        law = np.array([mechanism.log_prob(output, table_of(row)) for row in counts])
        possible = law > -math.inf
        with np.errstate(invalid="ignore"):  # where the likelihood says that the output is impossible
            difference = float(np.nan_to_num(np.ptp(logs[possible] - law[possible]), nan=math.inf))
        agrees = difference <= 1e-8 and bool((logs[~possible] == -math.inf).all())
        assert agrees, (
            f"{kind.__name__}.likelihood() is not the law of its kernel: from one table of {counted(n, 'record')} to "
            f"another, its logarithm changes by up to {difference:.3g} more than that of log_prob"
        )
    return True


_ON_TWO_CELLS = (check_promise, check_law, check_exposure, check_likelihood)
CHECKS: tuple[Callable[[type[Mechanism]], bool | None], ...]
CHECKS = (*facts.CHECKS, *behaviour.KERNEL_CHECKS, *_ON_TWO_CELLS, *behaviour.CHECKS)
"""What holds for every mechanism, checked on its class alone."""


def check_mechanism(kind: type[Mechanism]) -> tuple[str, ...]:
    """Assert :data:`CHECKS` of a mechanism, given as its class, which is made by its own ``calibrated``.

    Its fields and parameters; its calibration; that its kernel draws from its generator alone, leaves no trace and
    takes every table; on two cells, that no neighbours exceed the guarantee, under each relation that is claimed, that
    the kernel follows the law, and that the likelihood agrees with it; its share, forecast, estimates and publications.

    What it cannot see: a defect beyond the small tables that are tried, in outputs that cannot be listed (those of
    several columns or of steps), or rarer than one in a thousand. Universes of a mechanism's own are for
    :func:`check_law_sums_to_one`, :func:`check_kernel_follows_law`, :func:`check_guarantee` and
    :func:`check_twin_is_caught`.

    Returns
    -------
    tuple of str
        The checks that had nothing to look at: outputs that cannot be listed, that are no noisy counts, or whose
        likelihood is not written for tables. They say nothing about this mechanism.

    Raises
    ------
    AssertionError
        At the first check that fails.

    Examples
    --------
    >>> from discreet.mechanisms import SmoothedHistogram
    >>> check_mechanism(SmoothedHistogram)
    ('check_exposure',)
    """
    return tuple(check.__name__ for check in CHECKS if check(kind) is False)
