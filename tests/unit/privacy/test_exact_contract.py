"""What *exact* promises of a profile, at every epsilon, for the parameters that the kernel draws with.

``true <= delta <= 1.01 true`` where the true delta is at least 1e-300, 0 where it is 0, the pure epsilon likewise; an
epsilon is the decimal that it is written as. The truth is summed in 60 digits from the definition of the pair, or over
all tables of a small universe, in rational numbers: nothing of the library's formulas.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product

import mpmath as mp
import numpy as np
import pytest

from discreet._core.numeric import LogRatio, above, not_above, written
from discreet.domain import Domain, Integer, Numeric, OpenLabels
from discreet.mechanisms import (
    DataSpecificRevealOrObscure,
    DirichletMultinomial,
    HierarchicalHistogram,
    LaplaceProjectionSampler,
    Mechanism,
    PerturbedHistogram,
    PitmanYor,
    PrivateEvolution,
    RevealOrObscure,
    SignedMeasure,
    SmoothedHistogram,
    StabilityHistogram,
    SubsampledRandomisedResponse,
)
from discreet.privacy import (
    Budget,
    ConstantProfile,
    DiscreteLaplacePair,
    Guarantee,
    MixturePair,
    Profile,
    Relation,
    UrnPair,
)
from discreet.testing.contract import check_profile

DIGITS = 60


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mp.workdps(DIGITS):
        yield


Truth = Callable[[mp.mpf], mp.mpf]


def cells(k: int) -> Domain:
    return Domain(columns={"cell": Integer(lower=0, upper=k - 1)})


def real(value: float | Fraction) -> mp.mpf:
    exact = Fraction(value)
    return mp.mpf(exact.numerator) / exact.denominator


def hockey_stick(law: list[tuple[mp.mpf, mp.mpf]]) -> Truth:
    """Return the profile of a pair of laws, listed outcome by outcome: the larger of the two orders."""

    def delta(epsilon: mp.mpf) -> mp.mpf:
        e = mp.exp(epsilon)
        forward = mp.fsum(max(0, a - e * b) for a, b in law)
        backward = mp.fsum(max(0, b - e * a) for a, b in law)
        return max(forward, backward)

    return delta


def one_order(law: list[tuple[mp.mpf, mp.mpf]]) -> Truth:
    def delta(epsilon: mp.mpf) -> mp.mpf:
        e = mp.exp(epsilon)
        return mp.fsum(p - e * q for p, q in law if p > e * q)

    return delta


def urn(size: int, a: Fraction, b: Fraction, rest: Fraction) -> Truth:
    """Return ``DirMult(m; a+1, b, rest)`` against ``DirMult(m; a, b+1, rest)``, outcome by outcome."""

    def law(first: mp.mpf, second: mp.mpf, s: int, t: int) -> mp.mpf:
        others = mp.rf(real(rest), size - s - t)
        ways = mp.factorial(size) / mp.factorial(s) / mp.factorial(t) / mp.factorial(size - s - t)
        return ways * mp.rf(first, s) * mp.rf(second, t) * others / mp.rf(first + second + real(rest), size)

    x, y = real(a), real(b)
    outcomes = [(s, t) for s in range(size + 1) for t in range(size + 1 - s)]
    return one_order([(law(x + 1, y, s, t), law(x, y + 1, s, t)) for s, t in outcomes])


def mixture(size: int, base: Fraction, moved: Fraction) -> Truth:
    rest = 1 - 2 * base - moved

    def law(first: Fraction, second: Fraction, s: int, t: int) -> mp.mpf:
        ways = math.comb(size, s) * math.comb(size - s, t)
        return real(ways * first**s * second**t * rest ** (size - s - t))

    outcomes = [(s, t) for s in range(size + 1) for t in range(size + 1 - s)]
    return one_order([(law(base + moved, base, s, t), law(base, base + moved, s, t)) for s, t in outcomes])


def noise(kind: str, scale: float, reach: int) -> dict[int, mp.mpf]:
    beta = real(scale)
    around = range(-reach, reach + 1)
    weight = {z: mp.exp(-abs(z) / beta if kind == "laplace" else -(z * z) / (2 * beta**2)) for z in around}
    # all of the mass, of which the reach leaves some out under Laplace noise
    total = 1 / mp.tanh(1 / (2 * beta)) if kind == "laplace" else mp.fsum(weight.values())
    return {z: w / total for z, w in weight.items()}


def moved_counts(kind: str, scale: float, group: int, number: int, reach: int) -> Truth:
    """Return the profile of some counts that move by a group, from the law of one count's loss."""
    law = noise(kind, scale, reach)
    one: dict[Fraction, mp.mpf] = {}
    for z, mass in law.items():
        away = abs(z - group) - abs(z) if kind == "laplace" else Fraction((z - group) ** 2 - z * z, 2)
        loss = Fraction(away) / (Fraction(scale) if kind == "laplace" else Fraction(scale) ** 2)
        one[loss] = one.get(loss, mp.mpf(0)) + mass
    if kind == "laplace":  # beyond the reach the loss is the largest, or the least
        left = (1 - mp.fsum(law.values())) / 2
        one[Fraction(group) / Fraction(scale)] += left
        one[-Fraction(group) / Fraction(scale)] += left
    together = {Fraction(0): mp.mpf(1)}
    for _ in range(number):
        following: dict[Fraction, mp.mpf] = {}
        for (x, p), (y, q) in product(together.items(), one.items()):
            following[x + y] = following.get(x + y, mp.mpf(0)) + p * q
        together = following
    losses = [(real(loss), p) for loss, p in together.items()]
    return lambda epsilon: mp.fsum(p * -mp.expm1(epsilon - loss) for loss, p in losses if loss > epsilon)


def told_by(law: dict[int, mp.mpf], other: dict[int, mp.mpf]) -> list[tuple[mp.mpf, mp.mpf]]:
    """Return two laws on the same outcomes, those of equal likelihood ratio added up."""
    together: dict[str, tuple[mp.mpf, mp.mpf]] = {}
    for outcome in law | other:
        p, q = law.get(outcome, mp.mpf(0)), other.get(outcome, mp.mpf(0))
        ratio = "none" if q == 0 else mp.nstr(p / q, 45)
        before = together.get(ratio, (mp.mpf(0), mp.mpf(0)))
        together[ratio] = (before[0] + p, before[1] + q)
    return list(together.values())


def thresholded(scale: float, threshold: int) -> Truth:
    """Return the largest divergence of one replaced record: labels of 1 to threshold records lose it, or gain it."""
    beta = real(scale)
    r = mp.exp(-1 / beta)

    def below(count: int) -> mp.mpf:  # P(Z < count)
        return 1 - r**count / (1 + r) if count > 0 else r ** (1 - count) / (1 + r)

    def label(held: int) -> dict[int, mp.mpf]:
        """Return the law of what a label shows: nothing, or a noisy count; a long tail shows as one."""
        if held == 0:
            return {0: mp.mpf(1)}
        top = 4 * threshold
        law = {d: r ** abs(d - held) * (1 - r) / (1 + r) for d in range(threshold, top)}
        return {0: below(threshold - held), **law, top: 1 - below(top - held)}

    worst: list[Truth] = []
    most = 2 * threshold
    for losing, gaining in product(range(1, most), range(most)):
        if losing not in (1, 2, most - 1) or gaining not in (0, 1, most - 2):
            continue
        left, right = told_by(label(losing), label(losing - 1)), told_by(label(gaining), label(gaining + 1))
        worst.append(hockey_stick([(p * x, q * y) for p, q in left for x, y in right]))
    return lambda epsilon: max(delta(epsilon) for delta in worst)


def one_draw(n: int, k: int, schedule: np.ndarray) -> Truth:
    """Return the profile of one draw with a probability of a uniform cell for each smallest count: all tables."""
    tables = [t for t in product(range(n + 1), repeat=k) if sum(t) == n]
    law = {}
    for table in tables:
        q = Fraction(float(schedule[min(table)]))
        law[table] = [real(q / k + (1 - q) * c / n) for c in table]
    pairs = [
        one_order(list(zip(law[x], law[y], strict=True)))
        for x in tables
        for y in tables
        if sum(abs(a - b) for a, b in zip(x, y, strict=True)) == 2
    ]
    return lambda epsilon: max(delta(epsilon) for delta in pairs)


def dirichlet_tables(size: int, alpha: Fraction, k: int, n: int, group: int) -> Truth:
    """Return the profile over all tables that differ in a group, in rational numbers."""
    outcomes = [c for c in product(range(size + 1), repeat=k) if sum(c) == size]

    def rising(x: Fraction, times: int) -> Fraction:
        return math.prod((x + i for i in range(times)), start=Fraction(1))

    def law(table: tuple[int, ...]) -> list[mp.mpf]:
        total = rising(k * alpha + n, size)
        found = []
        for c in outcomes:
            ways = math.factorial(size) // math.prod(map(math.factorial, c))
            parts = math.prod(rising(alpha + x, d) for x, d in zip(table, c, strict=True))
            found.append(real(ways * parts / total))
        return found

    tables = [t for t in product(range(n + 1), repeat=k) if sum(t) == n]
    laws = {t: law(t) for t in tables}
    pairs = [
        hockey_stick(list(zip(laws[x], laws[y], strict=True)))
        for x in tables
        if list(x) == sorted(x)  # up to the order of cells: the other table is then any
        for y in tables
        if 0 < sum(max(0, a - b) for a, b in zip(x, y, strict=True)) <= group
    ]
    return lambda epsilon: max(delta(epsilon) for delta in pairs)


def epsilons(pure: float) -> Iterator[float]:
    """Yield epsilons of all sizes, and those next to the pure one."""
    yield from (0.0, 1e-12, 1e-6, 0.01, 0.1, 0.2, 0.3, 0.5, math.log(2), 0.7, 1.0, 2.0, 4.0, 29.9, 30.1, 100.0, 750.0)
    if pure < math.inf:
        yield from (pure * share for share in (0.1, 1 / 3, 0.5, 0.9, 0.99, 1 - 1e-6, 1 - 1e-9, 1 - 1e-11, 1 - 1e-13))
        near = pure
        for _ in range(3):
            near = math.nextafter(near, 0.0)
            yield near
        yield pure
        yield math.nextafter(pure, math.inf)


def holds(profile: Profile, truth: Truth) -> None:
    assert profile.exact
    check_profile(profile)
    for epsilon in epsilons(profile.pure):
        true, found = truth(mp.mpf(repr(epsilon))), mp.mpf(profile.delta(epsilon))
        if epsilon >= profile.pure:
            assert found == 0
            assert true < mp.mpf(10) ** (15 - DIGITS)  # 0 but for the digits
            continue
        assert found >= true, (epsilon, found, true)
        if true >= mp.mpf(10) ** -300:
            assert found <= true * mp.mpf("1.01"), (epsilon, found / true, true)


def of(mechanism: Mechanism, n: int, group: int = 1) -> Profile:
    return mechanism.guarantee(Relation(group=group), n=n).profile


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(("prior", "n", "k"), [(0.5, 3, 3), (1e-9, 3, 3), (1e-12, 1, 4), (0.1, 10**6, 5), (40, 2, 3)])
def test_the_urn(size: int, prior: float, n: int, k: int) -> None:
    alpha = Fraction(math.ceil(Fraction(prior) * 2**20), 2**20)  # what the kernel draws with
    profile = of(DirichletMultinomial(domain=cells(k), size=size, prior=prior), n)
    holds(profile, urn(size, alpha, alpha, n + (k - 2) * alpha - 1))
    true = mp.log(1 + size / real(alpha))
    assert true <= mp.mpf(repr(profile.pure)) <= true * (1 + mp.mpf("1e-15"))


@pytest.mark.parametrize(
    ("a", "b", "rest"),
    [
        (a, b, (0.0, 1e-9, 1e3)[(i + j) % 3])
        for i, a in enumerate((1e-18, 1e-12, 1e-8, 1e-4, 1.0, 300.0))
        for j, b in enumerate((1e-18, 1e-9, 0.3, 1000.0))
    ],
)
def test_urns_with_masses_of_all_sizes(a: float, b: float, rest: float) -> None:
    for size in (1, 6):
        holds(UrnPair(size=size, a=a, b=b, rest=rest), urn(size, Fraction(a), Fraction(b), Fraction(rest)))


@pytest.mark.parametrize(("a", "b"), [(1e-9, 1e-9), (1e-12, 0.5), (2.0**-20, 2.0**-20), (3.0, 1e-10)])
def test_urns_far_into_their_tail(a: float, b: float) -> None:
    """Deltas down to 1e-300: two dozen draws in cells that hold one part in 1e12."""
    profile, truth = UrnPair(size=40, a=a, b=b, rest=1e12), urn(40, Fraction(a), Fraction(b), Fraction(10**12))
    for draws in (1, 2, 7, 16, 25):  # next to the losses, and between them
        for share in (-1e-9, 0.0, 1e-9, 0.3):
            epsilon = math.log1p((draws + share) / a)
            true, found = truth(mp.mpf(repr(epsilon))), mp.mpf(profile.delta(epsilon))
            assert found >= true, epsilon
            assert true < mp.mpf(10) ** -300 or found <= true * mp.mpf("1.01"), (epsilon, found / true, true)


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize(
    ("mixing", "n", "k", "group"), [(0.5, 3, 3, 1), (1e-12, 3, 3, 2), (0.999999999, 10, 4, 1), (0.01, 10**10, 300, 1)]
)
def test_the_mixture(size: int, mixing: float, n: int, k: int, group: int) -> None:
    q = Fraction(math.ceil(Fraction(mixing) * 2**32), 2**32)
    for kind in (SmoothedHistogram, RevealOrObscure):
        profile = of(kind(domain=cells(k), size=size, mixing=mixing), n, group)
        holds(profile, mixture(size, q / k, group * (1 - q) / n))
    if size == 1:
        same = of(SubsampledRandomisedResponse(domain=cells(k), size=1, mixing=mixing), n, group)
        holds(same, mixture(1, q / k, group * (1 - q) / n))


@pytest.mark.parametrize(("base", "moved"), [(1e-15, 0.3), (0.2, 1e-15), (1e-9, 1e-9), (0.25, 0.5)])
def test_mixtures_of_all_sizes(base: float, moved: float) -> None:
    for size in (1, 7):
        holds(MixturePair(size=size, base=base, moved=moved), mixture(size, Fraction(base), Fraction(moved)))


@pytest.mark.parametrize("scale", [0.01, 0.5, 2.0, 20.0, 6.67, 1e6])
@pytest.mark.parametrize("group", [1, 3])
def test_laplace_noise(scale: float, group: int) -> None:
    reach = max(2 * group + 2, 4)
    truth = moved_counts("laplace", scale, group, 2, reach)
    for mechanism in (
        PerturbedHistogram(domain=cells(4), records=9, scale=scale, noise="laplace"),
        LaplaceProjectionSampler(domain=cells(4), records=9, scale=scale),
        SignedMeasure(domain=cells(4), records=9, scale=scale, noise="laplace"),
    ):
        holds(of(mechanism, 9, group), truth)
    deeper = HierarchicalHistogram(domain=cells(8), records=9, scale=scale, noise="laplace")
    holds(of(deeper, 9, group), moved_counts("laplace", scale, group, 6, reach))


@pytest.mark.parametrize(("scale", "reach"), [(0.1, 30), (0.5, 40), (2.0, 80)])
@pytest.mark.parametrize("group", [1, 2])
def test_gaussian_noise(scale: float, reach: int, group: int) -> None:
    profile = of(PerturbedHistogram(domain=cells(4), records=9, scale=scale, noise="gaussian"), 9, group)
    holds(profile, moved_counts("gaussian", scale, group, 2, reach))


@pytest.mark.parametrize(("scale", "threshold"), [(2.0, 9), (2.0, 30), (0.5, 25), (6.67, 12)])
def test_thresholds(scale: float, threshold: int) -> None:
    profile = of(StabilityHistogram(domain=Domain(columns={"w": OpenLabels()}), scale=scale, threshold=threshold), 500)
    holds(profile, thresholded(scale, threshold))


@pytest.mark.parametrize(("n", "k"), [(1, 2), (5, 2), (4, 3), (3, 4)])
@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 20.0])
def test_one_draw_of_a_schedule(n: int, k: int, epsilon: float) -> None:
    mechanism = DataSpecificRevealOrObscure(domain=cells(k), size=1, draw_epsilon=epsilon)
    holds(of(mechanism, n), one_draw(n, k, mechanism.probabilities(n)))


@pytest.mark.parametrize(
    ("prior", "size", "k", "n", "group"),
    [(0.05, 1, 7, 3, 3), (1.0, 1, 7, 3, 3), (0.05, 3, 5, 3, 2), (1.0, 3, 5, 3, 2)]
    + [pytest.param(prior, 2, 7, 3, 3, marks=pytest.mark.exhaustive) for prior in (0.01, 0.05, 1.0)],
)
def test_groups_of_the_urn(prior: float, size: int, k: int, n: int, group: int) -> None:
    alpha = Fraction(math.ceil(Fraction(prior) * 2**20), 2**20)
    profile = of(DirichletMultinomial(domain=cells(k), size=size, prior=prior), n, group)
    holds(profile, dirichlet_tables(size, alpha, k, n, group))


def test_the_chain_that_was_stated_for_a_group() -> None:
    profile = of(DirichletMultinomial(domain=cells(7), size=1, prior=1.0), 3, group=3)
    assert profile.pure == pytest.approx(math.log(4))  # the chain's is 3 log 2 = 2.079
    large = of(DirichletMultinomial(domain=cells(300), size=1000, prior=1e-9), 10_000, group=3)
    assert large.delta(30.1) <= large.delta(29.9)


@pytest.mark.parametrize("strength", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize(("size", "n", "group"), [(1, 1, 1), (3, 2, 2), (3, 10, 10), (10, 100, 3), (200, 50, 3)])
def test_the_dirichlet_process(strength: float, size: int, n: int, group: int) -> None:
    unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    theta = Fraction(math.ceil(Fraction(strength) * 2**20), 2**20)
    held = math.prod(1 - Fraction(group) / (theta + n + i) for i in range(size))
    holds(of(PitmanYor(domain=unit, size=size, strength=strength), n, group), lambda epsilon: real(1 - held))


# --- the papers' pure case, and the decimal -------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 1.0, 1.6, 2.0, 0.01, 3.3, 1e-3])
@pytest.mark.parametrize("group", [1, 3])
def test_the_papers_scale_meets_its_pure_epsilon_exactly(epsilon: float, group: int) -> None:
    """Laplace noise of scale ``2 g / epsilon``: the least float that is not below it, and no margin."""
    exact = 2 * group / Fraction(repr(epsilon))
    least = float(exact) if Fraction(float(exact)) >= exact else math.nextafter(float(exact), math.inf)
    for kind in (PerturbedHistogram, LaplaceProjectionSampler, SignedMeasure):
        facts = {} if kind is LaplaceProjectionSampler else {"noise": "laplace"}
        budget = Budget(epsilon=epsilon)
        found = kind.calibrated(budget, domain=cells(4), n=50, group=group, **facts)
        assert found.scale == least
        assert found.guarantee(Relation(group=group), n=50).meets(budget)
        given = kind.calibrated(budget, domain=cells(4), n=50, group=group, scale=least, **facts)
        assert given.scale == least
    below = math.nextafter(least, 0.0)
    assert DiscreteLaplacePair(scale=below, group=group).pure > epsilon
    assert DiscreteLaplacePair(scale=below, group=group).delta(epsilon) > 0.0
    assert DiscreteLaplacePair(scale=least, group=group).delta(epsilon) == 0.0


def test_an_epsilon_is_the_decimal_that_it_is_written_as() -> None:
    pair = DiscreteLaplacePair(scale=10.0, group=3)  # pure 6/10, whose float lies below it
    assert Fraction(0.6) < Fraction(6, 10)
    assert pair.pure == 0.6
    assert pair.delta(0.6) == pair.delta(Fraction(6, 10)) == 0.0
    assert pair.delta(Fraction(6, 10) - Fraction(1, 10**30)) > 0.0
    assert pair.delta(math.nextafter(0.6, 0.0)) > 0.0


def test_numbers_are_compared_exactly() -> None:
    assert written(0.1) == Fraction(1, 10)
    assert not_above(0.1) < 0.1
    assert not_above(0.5) == 0.5
    assert above(Fraction(1, 10)) == 0.1
    assert above(Fraction(10**400)) == math.inf
    assert LogRatio(Fraction(1)).ceiling() == 0.0
    for ratio, times in ((Fraction(3, 2), 1), (1 + Fraction(1, 10**18), 10**9), (Fraction(10**30), 7)):
        true = times * mp.log(real(ratio))
        found = LogRatio(ratio, times).ceiling()
        assert mp.mpf(repr(math.nextafter(found, 0.0))) < true <= mp.mpf(repr(found))
        left = LogRatio(ratio, times).minus(written(math.nextafter(found, 0.0)))
        true_left = true - mp.mpf(repr(math.nextafter(found, 0.0)))
        assert true_left <= mp.mpf(left) <= true_left * (1 + mp.mpf("1e-15"))
        assert LogRatio(ratio, times).minus(written(found)) == 0.0


# --- the shape, over the registry -----------------------------------------------------------------------------------


def registry(largest: int = 10**6) -> Iterator[tuple[Mechanism, int]]:
    words, unit = Domain(columns={"w": OpenLabels()}), Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    for k, n in ((2, 5), (3, 1), (3, 40), (300, 10**6), (5, 10**8)):
        for size, weight in ((1, 1e-12), (7, 1e-3), (1000, 0.4), (10**6, 30.0)):
            if size > largest:
                continue
            yield DirichletMultinomial(domain=cells(k), size=size, prior=weight), n
            yield SmoothedHistogram(domain=cells(k), size=size, mixing=min(weight, 1.0)), n
            yield PitmanYor(domain=unit, size=size, strength=weight), n
            if size <= n:
                yield SubsampledRandomisedResponse(domain=cells(k), size=size, mixing=min(weight, 1.0)), n
        for scale in (2.0**-10, 0.1, 1.0, 37.5, 1e6):
            yield PerturbedHistogram(domain=cells(k), records=n, scale=scale, noise="laplace"), n
            yield PerturbedHistogram(domain=cells(k), records=n, scale=scale, noise="gaussian"), n
            yield StabilityHistogram(domain=words, scale=scale, threshold=40), n
        yield DataSpecificRevealOrObscure(domain=cells(k), size=1, draw_epsilon=0.3), min(n, 10**6)
        yield HierarchicalHistogram(domain=cells(k), records=n, scale=3.0, noise="gaussian"), n
    yield PrivateEvolution(domain=unit, records=100, scale=5.0, steps=3, population=10), 100


def test_every_profile_of_the_registry_has_its_shape() -> None:
    for mechanism, n in registry(largest=7):
        for group in (1, 2, *((40,) if n <= 40 else ())):
            check_profile(of(mechanism, n, group))


@pytest.mark.exhaustive
def test_every_profile_of_large_releases_and_groups_has_its_shape() -> None:
    """Sums and chains of many terms: about twenty minutes."""
    for mechanism, n in registry():
        for group in (1, 2, 3, 40):
            check_profile(of(mechanism, n, group))


class Rising(ConstantProfile):
    """A twin of an exact profile, whose delta rises above an epsilon."""

    def _delta(self, epsilon: float) -> float:
        return self.value if epsilon < 1.0 else 2.0 * self.value


class Bent(ConstantProfile):
    """A twin whose delta falls in one place: not convex."""

    def _delta(self, epsilon: float) -> float:
        return self.value if epsilon < 1.0 else 0.5 * self.value


@pytest.mark.parametrize("twin", [Rising, Bent])
def test_what_breaks_the_shape_is_not_stated_as_exact(twin: type[ConstantProfile]) -> None:
    right, wrong = ConstantProfile(value=0.1), twin(value=0.1)
    promised = [
        Guarantee.proved(profile, relation=Relation(), n=9, theorem="T1", chosen=("nothing",))
        for profile in (right, wrong)
    ]
    assert [guarantee.exact for guarantee in promised] == [True, False]
    assert [guarantee.to_dict()["exact"] for guarantee in promised] == [True, False]
    check_profile(right)
    with pytest.raises(AssertionError, match="convex|larger"):
        check_profile(wrong)
