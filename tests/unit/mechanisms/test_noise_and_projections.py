"""Discrete noise against the law written down; projections against general solvers."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from discreet._core.random import seeded
from discreet.domain import Counts, Domain, Integer, Records
from discreet.errors import ParameterError
from discreet.mechanisms import PerturbedHistogram
from discreet.mechanisms.noise import law_named
from discreet.mechanisms.projections import L1, W1, Clip, NumberedCells, Projection, Simplex
from discreet.testing import assert_law
from discreet.testing.contract import sample_size_for_distance

SCALES = [
    ("laplace", 0.3),
    ("laplace", 1.7),
    ("laplace", 12.25),
    ("gaussian", 0.4),
    ("gaussian", 1.3),
    ("gaussian", 9.5),
]


def written_out(noise: str, scale: float, reach: int) -> npt.NDArray[np.float64]:
    z = np.arange(-reach, reach + 1)
    weight = np.exp(-np.abs(z) / scale if noise == "laplace" else -(z**2) / (2 * scale**2))
    return np.asarray(weight / weight.sum())


@pytest.mark.parametrize(("noise", "scale"), [*SCALES, ("gaussian", 30.0), ("laplace", 200.0)])
def test_the_law_is_the_one_written_down(noise: Any, scale: float) -> None:
    reach = math.ceil(60 * scale)
    found = np.exp(law_named(noise).log_pmf(scale, np.arange(-reach, reach + 1)))
    np.testing.assert_allclose(found, written_out(noise, scale, reach), rtol=1e-10, atol=1e-300)


def test_a_scale_that_is_no_short_fraction() -> None:
    """0.1 is a fraction of 2^55: integers beyond 64 bits are drawn exactly."""
    drawn = law_named("gaussian").draw(0.1, 50, rng=seeded(1))
    assert np.abs(drawn).max() <= 2
    assert len(law_named("gaussian").draw(1 / 3, 50, rng=seeded(1))) == 50


# --- projections -------------------------------------------------------------------------------------------------


class At(NumberedCells):
    """Cells at given positions on a line, by default 0, 1, 2 and so on."""

    at: npt.NDArray[np.float64] | None = None

    def line(self) -> npt.NDArray[np.float64]:
        return np.arange(float(self.count)) if self.at is None else self.at


def projected(kind: type[Projection], counts: Any, total: int, at: Any = None) -> npt.NDArray[np.float64]:
    k = np.shape(counts)[-1]
    cells = At(Domain(columns={"cell": Integer(lower=0, upper=k - 1)}), k)
    object.__setattr__(cells, "at", at)
    return kind(cells, total).probabilities(np.asarray(counts))


noisy = st.lists(st.integers(-20, 30), min_size=2, max_size=7).map(lambda v: np.array(v, dtype=np.int64))


@settings(max_examples=60, deadline=None)
@given(counts=noisy, total=st.integers(1, 40))
def test_the_simplex_projection_is_nearest(counts: npt.NDArray[np.int64], total: int) -> None:
    p = projected(Simplex, counts, total)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1.0)
    v = counts / total
    # Optimal exactly when v - p is constant on the support of p and no larger elsewhere.
    tau = (v - p)[p > 0]
    assert np.ptp(tau) < 1e-9
    assert np.all(v[p == 0] <= tau.max() + 1e-9)
    solved = minimize(
        lambda q: ((q - v) ** 2).sum(),
        np.full(len(v), 1 / len(v)),
        bounds=[(0, 1)] * len(v),
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
        method="SLSQP",
    )
    assert ((p - v) ** 2).sum() <= solved.fun * (1 + 1e-6) + 1e-9


@settings(max_examples=100, deadline=None)
@given(counts=noisy, total=st.integers(1, 40))
def test_the_l1_projection_is_nearest_and_so_are_two_others(counts: npt.NDArray[np.int64], total: int) -> None:
    """Against a linear programme over (p, e): minimise the sum of e, e >= |p - v|, p on the simplex."""
    k, v = len(counts), counts / total
    p = projected(L1, counts, total)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1.0)
    eye = np.eye(k)
    solved = linprog(
        np.concatenate((np.zeros(k), np.ones(k))),
        A_ub=np.vstack((np.hstack((eye, -eye)), np.hstack((-eye, -eye)))),
        b_ub=np.concatenate((v, -v)),
        A_eq=np.concatenate((np.ones(k), np.zeros(k)))[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (2 * k),
    )
    assert solved.status == 0
    others = [projected(Simplex, counts, total), *([projected(Clip, counts, total)] if counts.max() > 0 else [])]
    for q in (p, *others):
        assert np.abs(q - v).sum() == pytest.approx(solved.fun, abs=1e-9)
    for count in counts:  # equal cells stay equal, and larger ones larger
        assert np.ptp(p[counts == count]) < 1e-12
    assert np.all(np.diff(p[np.argsort(counts, kind="stable")]) >= -1e-12)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([10, 5, 5], [0.5, 0.25, 0.25]),  # on the simplex already
        ([12, 7, 7], [0.5, 0.25, 0.25]),  # a surplus is taken from all alike
        ([8, 3, 3], [0.5, 0.25, 0.25]),  # a lack is given to all alike
        ([16, 2, 4, -2, 0, 0], [0.8, 0.0, 0.2, 0.0, 0.0, 0.0]),  # what clipping adds comes from the smallest
        ([17, 2, 2, -1, 0, 0], [0.85, 0.075, 0.075, 0.0, 0.0, 0.0]),  # equal cells bear it together
        ([-5, -5], [0.5, 0.5]),
    ],
)
def test_the_l1_projection_keeps_the_largest_shares(counts: list[int], expected: list[float]) -> None:
    np.testing.assert_allclose(projected(L1, counts, 20), expected, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(counts=noisy, total=st.integers(1, 40), data=st.data())
def test_the_w1_projection_is_nearest(counts: npt.NDArray[np.int64], total: int, data: st.DataObject) -> None:
    k = len(counts)
    gaps = np.array(data.draw(st.lists(st.integers(1, 9), min_size=k - 1, max_size=k - 1)), dtype=float)
    positions = np.concatenate(([0.0], np.cumsum(gaps)))
    p = projected(W1, counts, total, positions)
    assert p.min() >= 0
    assert p.sum() == pytest.approx(1.0)
    signed = np.cumsum(counts + (total - counts.sum()) / k)[:-1] / total  # tied to the public total
    found = float(gaps @ np.abs(np.cumsum(p)[:-1] - signed))
    # linear programme over (G, e): minimise gaps.e, e >= |G - F|, 0 <= G_1 <= .. <= 1
    d = k - 1
    eye, zero = np.eye(d), np.zeros((d, d))
    rows = [np.hstack((eye, -eye)), np.hstack((-eye, -eye))]
    bounds_right = [signed, -signed]
    if d > 1:
        order = eye[:-1] - eye[1:]
        rows.append(np.hstack((order, zero[:-1])))
        bounds_right.append(np.zeros(d - 1))
    solved = linprog(
        np.concatenate((np.zeros(d), gaps)),
        A_ub=np.vstack(rows),
        b_ub=np.concatenate(bounds_right),
        bounds=[(0, 1)] * d + [(0, None)] * d,
    )
    assert solved.status == 0
    assert found == pytest.approx(solved.fun, abs=1e-7)


def cells(k: int) -> Domain:
    return Domain(columns={"cell": Integer(lower=0, upper=k - 1)})


@pytest.mark.parametrize("projection", ["clip", "simplex", "w1"])
def test_records_follow_the_projected_probabilities(projection: Any) -> None:
    mechanism = PerturbedHistogram(domain=cells(6), records=50, scale=2.0, projection=projection)
    y = np.array([12, -3, 20, 0, 15, 1])
    p = mechanism.probabilities(y)
    count = sample_size_for_distance(6, 0.05)
    (drawn,) = Records.concatenate(mechanism.reading(y, n=50).draw(count, rng=seeded(2))).columns
    assert len(drawn) == count
    assert_law(np.bincount(drawn.astype(np.int64), minlength=6), p, distance=0.05)


def test_all_noise_negative_falls_back_on_the_base_measure() -> None:
    domain = Domain(columns={"cell": Integer(lower=0, upper=2, base={"weights": [1, 2, 5]})})
    mechanism = PerturbedHistogram(domain=domain, records=3, scale=1.0)
    np.testing.assert_allclose(mechanism.probabilities(np.array([-1, 0, -4])), [0.125, 0.25, 0.625])
    for projection in ("simplex", "w1"):
        p = PerturbedHistogram(domain=domain, records=3, scale=1.0, projection=projection).probabilities(  # type: ignore[arg-type]
            np.array([-1, 0, -4])
        )
        assert p.min() >= 0
        assert p.sum() == pytest.approx(1.0)


def test_the_number_of_records_must_be_the_declared_one() -> None:
    mechanism = PerturbedHistogram(domain=cells(3), records=4, scale=1.0)
    with pytest.raises(ParameterError, match="4 records"):
        mechanism.kernel(Counts.of_cells([0, 1]), rng=seeded(1))
