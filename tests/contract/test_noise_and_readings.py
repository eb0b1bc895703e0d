"""The contract of every law of noise and every projection, and the mistakes that it catches.

A law is held against what it says of itself: everything follows from ``log_pmf`` and the enumeration of its values.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from inspect import isabstract, isclass
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from discreet._core.numeric import Floats, Integers
from discreet._core.random import secure, seeded
from discreet.domain import Domain, Integer, Records
from discreet.inference.prior import Prior
from discreet.inference.samplers import ReleasedCounts, ReleasedRecords, draw_counts
from discreet.mechanisms import PerturbedHistogram, noise, projections
from discreet.mechanisms.likelihood import known_likelihood
from discreet.mechanisms.noise import GAUSSIAN, LAPLACE, LAWS, DiscreteLaplace, ExactDraws, NoiseLaw
from discreet.mechanisms.noisy_counts import projection_error
from discreet.mechanisms.projections import PROJECTIONS, BoundedLipschitz, Clip, NumberedCells, Projection, Simplex
from discreet.privacy import Profile
from discreet.testing import assert_law, hockey_stick
from discreet.testing.contract import check_profile, sample_size, sample_size_for_distance
from discreet.testing.facts import small_domain

SCALES = (0.4, 1.3, 9.5)
EPSILONS = (0.0, 1e-4, 0.05, 0.3, math.log(2.0), 1.0, 2.0, 5.0)

# -- laws of noise ----------------------------------------------------------------------------------------------------


def masses(law: NoiseLaw, scale: float, reach: int) -> Floats:
    return np.exp(law.log_pmf(scale, np.arange(-reach, reach + 1)))


def check_sums_to_one(law: NoiseLaw) -> None:
    """Symmetric probabilities, all but 1e-14 of them within the stated reach."""
    for scale in SCALES:
        reach = law.reach(scale)
        p = masses(law, scale, 3 * reach)
        assert p.sum() == pytest.approx(1.0, abs=1e-11), "the law does not sum to one"
        np.testing.assert_allclose(p, p[::-1], rtol=1e-12, err_msg="the law is not symmetric")
        assert 2.0 * p[: 2 * reach].sum() <= 1e-14, "more than 1e-14 of the noise lies beyond its reach"


def check_moments(law: NoiseLaw) -> None:
    """At least the true moments, and at scales of a few records no more than 1 % above them."""
    for scale in SCALES:
        z = np.arange(-3 * law.reach(scale), 3 * law.reach(scale) + 1)
        p = masses(law, scale, 3 * law.reach(scale))
        for what, stated, true in (
            ("standard deviation", law.standard_deviation(scale), math.sqrt(p @ z**2)),
            ("mean absolute value", law.mean_absolute(scale), float(p @ np.abs(z))),
        ):
            assert stated >= true * (1.0 - 1e-9), f"the {what} is more than stated"
            assert scale < 5.0 or stated <= true * 1.01, f"the {what} is less than stated"


def check_draws(law: NoiseLaw) -> None:
    """Integers of the law from both exact samplers, and nearly of it, at a few records, from the approximate one.

    1e-6 to fail a right sampler; 1e-6 to pass one at total variation 0.1, or of a scale 10 % off on either side.
    """
    for scale in SCALES:
        far = 3 * law.reach(scale)
        right, *wrong = (pooled(masses(law, s, far), far) for s in (scale, 0.9 * scale, 1.1 * scale))
        count = max(sample_size_for_distance(len(right), 0.1), *(sample_size(right, w) for w in wrong))
        drawn = {"seeded": law.draw(scale, count, rng=seeded(6)), "OpenDP's": law.draw(scale, count, rng=secure())}
        if scale > 1.0:
            drawn["approximate"] = law.approximate(scale, count, rng=seeded(7))
        for source, z in drawn.items():
            assert z.shape == (count,), f"the {source} draws are not as many as asked for"
            assert z.dtype == np.int64, f"the {source} draws are no integers"
            seen = np.bincount(np.clip(z, -15, 15) + 15, minlength=31)
            try:
                assert_law(seen, right, distance=0.1)
            except AssertionError as error:
                raise AssertionError(f"the {source} draws have another law: {error}") from None
            live = seen > 0
            for w in wrong:
                assert (seen[live] * np.log(right[live] / w[live])).sum() > 0, f"the {source} draws have another scale"


def pooled(mass: Floats, middle: int) -> Floats:
    """Return the probabilities of -15 and below, each integer between, and 15 and above."""
    inner = mass[middle - 15 : middle + 16].copy()
    inner[0], inner[-1] = mass[: middle - 14].sum(), mass[middle + 15 :].sum()
    return np.maximum(inner, 1e-300)


def check_noise_profile(law: NoiseLaw) -> None:
    """No change of one or two records exceeds the profile; the one that it is of attains it where it is exact.

    Two records may leave one cell for two others, or two cells for two others: what counts of more than one cell
    promises must cover that too.
    """
    for scale in SCALES:
        for group, counts in ((1, 1), (1, 2), (2, 2), (3, 2)):
            profile = law.profile(scale, group=group, counts=counts)
            check_profile(profile)
            change = (group, -group)[:counts]
            require_dominates(law, scale, profile, change)
            if profile.exact:
                require_attained(law, scale, profile, change)
        if scale < 1.0:
            for change in ((2, -1, -1), (-2, 1, 1), (1, 1, -1, -1)):
                require_dominates(law, scale, law.profile(scale, group=2, counts=2), change)
            for change in ((3, -1, -2), (-3, 2, 1)):
                require_dominates(law, scale, law.profile(scale, group=3, counts=2), change)
            require_dominates(law, scale, law.profile(scale, group=1, counts=4), (1, -1, 1, -1))


def losses(law: NoiseLaw, scale: float, change: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return the log-probabilities of all noisy counts with and without a change of the counts."""
    z = np.arange(-law.reach(scale) - 2, law.reach(scale) + 3)
    p, q = np.zeros(1), np.zeros(1)
    for moved in change:
        p = np.add.outer(p, law.log_pmf(scale, z)).ravel()
        q = np.add.outer(q, law.log_pmf(scale, z - moved)).ravel()
    return p, q


def levels(profile: Profile) -> list[float]:
    return [*EPSILONS, *(share * profile.pure for share in (0.5, 0.9) if profile.pure < math.inf)]


def require_dominates(law: NoiseLaw, scale: float, profile: Profile, change: tuple[int, ...]) -> None:
    p, q = losses(law, scale, change)
    true, claimed = hockey_stick(p, q, levels(profile)), [profile.delta(e) for e in levels(profile)]
    assert np.all(true <= np.array(claimed) * (1.0 + 1e-10) + 1e-13), f"a change of {change} exceeds the profile"
    assert float((p - q).max()) <= profile.pure * (1.0 + 1e-12), f"a change of {change} exceeds the pure epsilon"


def require_attained(law: NoiseLaw, scale: float, profile: Profile, change: tuple[int, ...]) -> None:
    p, q = losses(law, scale, change)
    true, claimed = hockey_stick(p, q, levels(profile)), np.array([profile.delta(e) for e in levels(profile)])
    assert np.all(claimed <= true * (1.0 + 1e-8) + 1e-12), f"called exact, but a change of {change} stays below it"
    pure = profile.pure
    assert pure == math.inf or float((p - q).max()) >= pure * (1.0 - 1e-9), "the pure epsilon is not attained"


def check_pure(law: NoiseLaw) -> None:
    """``pure`` says whether the profile has a pure epsilon, which calibration divides by the scale."""
    for scale in SCALES:
        assert law.pure == (law.profile(scale, group=1, counts=2).pure < math.inf), "pure is not what the profile says"
    if law.pure:
        one, two = (law.profile(scale, group=1, counts=2).pure for scale in (1.0, 2.0))
        assert two == pytest.approx(one / 2.0, rel=1e-12), "the pure epsilon is not inversely proportional to the scale"


def check_range(law: NoiseLaw) -> None:
    """Everything can be computed at the least and the largest scale, and grows with it."""
    scales = (2.0**-10, *SCALES, 1e3, law.largest_scale)
    for scale in scales:
        assert np.isfinite(law.log_pmf(scale, np.array([0]))).all()
        assert 0.0 <= law.profile(scale, group=1, counts=2).delta(1.0) <= 1.0
        for rng in (seeded(1), secure()):
            assert np.abs(law.draw(scale, 3, rng=rng)).max() <= 2 * law.reach(scale), "a draw is further than its reach"
    for less, more in pairwise(scales):
        for grows in (law.standard_deviation, law.mean_absolute, law.reach):
            assert grows(less) <= grows(more), "more scale is less noise"
        for epsilon in (0.01, 1.0):
            deltas = [law.profile(scale, group=1, counts=2).delta(epsilon) for scale in (less, more)]
            assert deltas[0] >= deltas[1], "more noise promises less"


LAW_CHECKS = (check_sums_to_one, check_moments, check_draws, check_noise_profile, check_pure, check_range)


@pytest.mark.parametrize("check", LAW_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("law", LAWS.values(), ids=lambda law: law.name)
def test_every_law_of_noise(law: NoiseLaw, check: Callable[[NoiseLaw], None]) -> None:
    """A right sampler fails with probability at most 1e-6 each, 2e-5 in all."""
    check(law)


@pytest.mark.parametrize(("file", "base", "registered"), [
    (noise, NoiseLaw, {name: type(law) for name, law in LAWS.items()}),
    (projections, Projection, PROJECTIONS),
])  # fmt: skip
def test_what_is_in_the_file_is_registered_under_a_name_of_its_own(
    file: ModuleType, base: type[Any], registered: dict[str, type[Any]]
) -> None:
    """A class without its line is left out; a name that is taken would replace another."""
    members = [member for member in vars(file).values() if isclass(member)]
    found = {member for member in members if issubclass(member, base) and not isabstract(member)}
    assert found == set(registered.values())
    assert all(kind.name == name for name, kind in registered.items())


def planted(base: type[NoiseLaw] = DiscreteLaplace, **methods: Any) -> NoiseLaw:
    """Return a law of noise with a mistake in it."""
    made: NoiseLaw = type("Planted", (base,), methods)()
    return made


class Heavier(DiscreteLaplace):
    """Half of the noise has twice the scale, with the profile of the lesser scale: an upper bound called exact."""

    def log_pmf(self, scale: float, z: Any) -> Floats:
        return np.logaddexp(super().log_pmf(scale, z), super().log_pmf(2.0 * scale, z)) - math.log(2.0)


def exact_off(self: Any, scale: Fraction, draws: ExactDraws) -> int:
    return LAPLACE._exact(scale * Fraction(5, 4), draws)


def one_sided(self: Any, scale: Fraction, draws: ExactDraws) -> int:
    return abs(LAPLACE._exact(scale, draws))


def floored(self: Any, scale: float, count: int, *, rng: np.random.Generator) -> Integers:
    return np.floor(rng.laplace(0.0, scale, size=count)).astype(np.int64)


LAW_TWINS: list[tuple[NoiseLaw, Callable[[NoiseLaw], None], str]] = [
    (planted(log_pmf=lambda s, b, z: LAPLACE.log_pmf(b, z) + 0.01), check_sums_to_one, "sum to one"),
    (planted(log_pmf=lambda s, b, z: LAPLACE.log_pmf(b, np.asarray(z) - 1)), check_sums_to_one, "symmetric"),
    (planted(reach=lambda s, b: math.ceil(17.0 * b) + 1), check_sums_to_one, "beyond its reach"),
    (planted(standard_deviation=lambda s, b: b), check_moments, "standard deviation is more"),
    (planted(standard_deviation=lambda s, b: 2.0 * b), check_moments, "standard deviation is less"),
    (planted(mean_absolute=lambda s, b: 0.5 * LAPLACE.mean_absolute(b)), check_moments, "absolute value is more"),
    (planted(mean_absolute=LAPLACE.standard_deviation.__func__), check_moments, "absolute value is less"),  # type: ignore[attr-defined]
    (planted(log_pmf=lambda s, b, z: LAPLACE.log_pmf(1.25 * b, z)), check_draws, "seeded draws"),
    (planted(_exact=exact_off), check_draws, "seeded draws have another law"),
    (planted(_exact=one_sided), check_draws, "seeded draws have another law"),
    (planted(_secure=lambda s, b, n: LAPLACE._secure(0.8 * b, n)), check_draws, "OpenDP's draws have another law"),
    (planted(_secure=lambda s, b, n: LAPLACE._secure(b, 1)), check_draws, "as many"),
    (planted(approximate=floored), check_draws, "approximate draws have another law"),
    (planted(approximate=lambda s, b, n, rng: rng.laplace(0.0, b, size=n)), check_draws, "no integers"),
    (planted(profile=lambda s, b, group, counts: LAPLACE.profile(1.01 * b, group=group, counts=counts)),
     check_noise_profile, "exceeds"),
    (planted(profile=lambda s, b, group, counts: LAPLACE.profile(0.99 * b, group=group, counts=counts)),
     check_noise_profile, "called exact"),
    (planted(profile=lambda s, b, group, counts: LAPLACE.profile(b, group=1, counts=counts)),
     check_noise_profile, r"\(2, -2\) exceeds"),
    (planted(profile=lambda s, b, group, counts: LAPLACE.profile(b, group=group, counts=2)),
     check_noise_profile, "called exact"),
    (planted(profile=lambda s, b, group, counts: LAPLACE.profile(b, group=group, counts=min(counts, 2))),
     check_noise_profile, r"\(1, -1, 1, -1\) exceeds"),
    (planted(Heavier), check_noise_profile, "called exact"),
    (planted(pure=False), check_pure, "pure is not"),
    (planted(type(GAUSSIAN), pure=True), check_pure, "pure is not"),
    (planted(reach=lambda s, b: 5), check_range, "further than"),
]  # fmt: skip


@pytest.mark.parametrize(("law", "check", "says"), LAW_TWINS)
def test_a_mistake_in_a_law_is_caught(law: NoiseLaw, check: Callable[[NoiseLaw], None], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        check(law)


# -- projections ------------------------------------------------------------------------------------------------------

TOTAL = 20
LINE = Domain(columns={"cell": Integer(lower=0, upper=6)})
SQUARE = Domain(columns={"a": Integer(lower=0, upper=2), "b": Integer(lower=0, upper=1)})


def noisy_rows(k: int) -> Integers:
    """Return rows of noisy counts: random ones, and those where there is little to go by."""
    one = np.eye(k, dtype=np.int64)[0]
    odd = [0 * one, 0 * one - 1, 1 - one, 5 * one, -5 * one, 10**12 * one - 10**6, np.arange(k) - k, np.full(k, 4)]
    return np.concatenate((seeded(8).integers(-5, 9, size=(20, k)), np.array(odd)))


def made(kind: type[Projection]) -> list[tuple[Projection, NumberedCells]]:
    """Return the projection on the cells that it suits."""
    cells = [NumberedCells(domain, domain.size or 0) for domain in (LINE, SQUARE)]
    return [(kind(each, TOTAL), each) for each in cells if kind.unsuited(each) is None]


def by_rows(projection: Projection) -> bool:
    """Whether rows are projected at once: all but a transport in several dimensions."""
    return not isinstance(projection, BoundedLipschitz) or (
        projection.cells.line() is not None and projection.cells.coordinates == 1
    )


def read(projection: Projection, rows: Integers) -> Floats:
    if by_rows(projection):
        return projection.probabilities(rows)
    return np.array([projection.probabilities(row) for row in rows])


def check_probabilities(kind: type[Projection]) -> None:
    """Rows of probabilities, whatever the noisy counts; these stay as they are."""
    for projection, cells in made(kind):
        rows = noisy_rows(cells.count)
        before = rows.copy()
        p = read(projection, rows)
        np.testing.assert_array_equal(rows, before, err_msg="the noisy counts are changed in place")
        assert p.shape == rows.shape, "the probabilities are of another shape"
        assert p.dtype == np.float64, "the probabilities are no floats"
        assert np.all(p >= 0.0), "a probability is negative, or none at all"
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12, err_msg="the probabilities do not sum to one")


def check_rows(kind: type[Projection]) -> None:
    """Each row by itself: what one release says does not depend on others that are read beside it."""
    for projection, cells in made(kind):
        rows = noisy_rows(cells.count)
        alone = [projection.probabilities(row) for row in rows]
        np.testing.assert_allclose(read(projection, rows), alone, atol=1e-14, err_msg="rows depend on one another")


def check_exact_counts(kind: type[Projection]) -> None:
    """Counts without noise give their own shares."""
    for projection, cells in made(kind):
        rows = seeded(9).multinomial(TOTAL, np.full(cells.count, 1.0 / cells.count), size=20)
        rows[0] = TOTAL * np.eye(cells.count)[0]
        np.testing.assert_allclose(read(projection, rows), rows / TOTAL, atol=1e-9, err_msg="exact counts are changed")


def check_stated_error(kind: type[Projection]) -> None:
    """The mean total variation is within the bound that mechanisms state; three standard errors are far below it."""
    rng = seeded(8)
    for projection, cells in made(kind):
        few = 400 if by_rows(projection) else 20
        for held in (TOTAL * np.eye(cells.count, dtype=np.int64)[0], seeded(2).permutation(cells.count)):
            reading = replace(projection, total=int(held.sum()))
            for law in LAWS.values():
                moved = law.approximate(1.0, few * cells.count, rng=rng).reshape(few, cells.count)
                apart = 0.5 * np.abs(read(reading, held + moved) - held / reading.total).sum(axis=1)
                bound = projection_error(law, 1.0, cells=cells.count, total=reading.total)
                assert apart.mean() - 3.0 * apart.std() / math.sqrt(few) <= bound, "it errs by more than is stated"


PROJECTION_CHECKS = (check_probabilities, check_rows, check_exact_counts, check_stated_error)


@pytest.mark.parametrize("check", PROJECTION_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", PROJECTIONS.values(), ids=lambda kind: kind.name)
def test_every_projection(kind: type[Projection], check: Callable[[type[Projection]], None]) -> None:
    assert made(kind), "it suits neither a line nor a square of cells"
    check(kind)


@pytest.mark.parametrize("name", PROJECTIONS)
def test_every_projection_can_be_asked_for(name: str) -> None:
    mechanism = PerturbedHistogram(domain=LINE, records=TOTAL, scale=2.0, projection=name)
    assert type(mechanism.projector) is PROJECTIONS[name]
    assert (
        PerturbedHistogram.from_parameters(mechanism.parameters(), domain=LINE, records=TOTAL, size=None) == mechanism
    )


def misread(read: Callable[[Projection, Integers], Any], base: type[Projection] = Clip) -> type[Projection]:
    """Return a projection with a mistake in it."""
    return type("Misread", (base,), {"probabilities": read})


def positive(y: Integers) -> Integers:
    return np.maximum(y, 0)


def in_place(self: Projection, y: Integers) -> Floats:
    np.maximum(y, 0, out=y)
    return Clip(self.cells, self.total).probabilities(y)


def right(self: Projection, y: Integers) -> Floats:
    return Clip(self.cells, self.total).probabilities(y)


PROJECTION_TWINS: list[tuple[type[Projection], Callable[[type[Projection]], None], str]] = [
    (misread(lambda s, y: y / s.total), check_probabilities, "negative"),
    (misread(lambda s, y: positive(y) / s.total), check_probabilities, "sum to one"),
    (misread(lambda s, y: positive(y) / positive(y).sum(axis=-1, keepdims=True)), check_probabilities, "none"),
    (misread(lambda s, y: positive(y) / max(1, positive(y).sum())), check_probabilities, "sum to one"),
    (misread(in_place), check_probabilities, "in place"),
    (misread(lambda s, y: right(s, y)[..., :-1]), check_probabilities, "shape"),
    (misread(lambda s, y: right(s, y).astype(np.float32)), check_probabilities, "floats"),
    (misread(lambda s, y: right(s, y - np.min(y, initial=0))), check_rows, "depend on one another"),
    (misread(lambda s, y: right(s, y)[..., ::-1]), check_exact_counts, "exact counts"),
    (misread(lambda s, y: right(s, y - 1)), check_exact_counts, "exact counts"),
    (misread(lambda s, y: 0.9 * right(s, y) + 0.1 / y.shape[-1]), check_exact_counts, "exact counts"),
    (misread(lambda s, y: Simplex(s.cells, 2 * s.total).probabilities(y), Simplex), check_exact_counts, "exact counts"),
    (misread(lambda s, y: np.roll(np.eye(y.shape[-1])[np.argmin(y, axis=-1)], 1)), check_stated_error, "errs"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "check", "says"), PROJECTION_TWINS)
def test_a_mistake_in_a_projection_is_caught(
    kind: type[Projection], check: Callable[[type[Projection]], None], says: str
) -> None:
    with np.errstate(all="ignore"), pytest.raises(AssertionError, match=says):
        check(kind)


# -- what follows from them -------------------------------------------------------------------------------------------

CHOSEN = [*(("laplace", name) for name in PROJECTIONS), *((name, "clip") for name in LAWS if name != "laplace")]


@pytest.mark.parametrize("sampling", ["iid", "stratified"])
@pytest.mark.parametrize(("law", "projection"), CHOSEN)
def test_what_was_released_has_a_posterior(law: str, projection: str, sampling: Any) -> None:
    """Given records and given counts. That it is the right one is shown by enumeration."""
    held = np.array([180, 0, 120, 100])
    mechanism = PerturbedHistogram(
        domain=small_domain(4), records=400, scale=1.0, noise=law, projection=projection, sampling=sampling
    )
    noisy = held + LAWS[law].draw(1.0, 4, rng=seeded(5))
    released = Records.concatenate(mechanism.reading(noisy, n=400).draw(100, rng=seeded(6))).columns[0].astype(np.int64)
    likelihood, prior, rng = known_likelihood(mechanism, 400), Prior.process(np.full(4, 0.25)), seeded(7)
    drawn = np.bincount(released, minlength=4)
    for counts in (
        draw_counts(likelihood, [prior], ReleasedRecords(400, drawn), 200, rng).counts,
        draw_counts(likelihood, [prior], ReleasedCounts(400, noisy.astype(np.float64)), 200, rng).counts,
    ):
        assert (counts.sum(axis=1) == 400).all()
        assert np.abs(counts.mean(axis=0) - held).max() < 60  # a hundred records have 5 % of them as standard error
        assert counts.std(axis=0)[0] > 0.1
