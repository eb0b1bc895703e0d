"""Optimal transport of mixed records: against a linear program; and the sliced distance below it."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import linprog

from discreet._core.random import seeded
from discreet.domain import Category, Domain, Numeric, Records
from discreet.errors import ParameterError
from discreet.utility import sliced_wasserstein, transport, transport_distance, wasserstein_1d

pytest.importorskip("ot")


def _far(a: Any, b: Any, ordered: Any, weights: Any, norm: str) -> float:
    """The distance of two records, column by column, as the documentation states it."""
    parts = []
    for s, t, o, w in zip(a, b, ordered, weights, strict=True):
        if np.isnan(s) or np.isnan(t):
            parts.append(w * float(np.isnan(s) != np.isnan(t)))
        else:
            parts.append(w * (abs(s - t) if o else float(s != t)))
    return float(sum(parts)) if norm == "sum" else float(np.sqrt(sum(part * part for part in parts)))


def _brute(x: Any, y: Any, p: Any, q: Any, ordered: Any, weights: Any, norm: str) -> float:
    """The transport problem as a dense linear program: every record on its own, nothing joined or removed."""
    a, b = len(x), len(y)
    costs = [_far(x[i], y[j], ordered, weights, norm) for i in range(a) for j in range(b)]
    rows = [[float(k // b == i) for k in range(a * b)] for i in range(a)]
    columns = [[float(k % b == j) for k in range(a * b)] for j in range(b)]
    margins = np.concatenate((p / p.sum(), q / q.sum()))
    found = linprog(costs, A_eq=np.array(rows + columns)[1:], b_eq=margins[1:], method="highs")
    assert found.success
    return float(found.fun)


def _mixed(rng: np.random.Generator, count: int, *, nulls: bool = True) -> npt.NDArray[np.float64]:
    points = np.column_stack((rng.integers(0, 4, count) / 4, rng.random(count).round(1), rng.integers(0, 3, count)))
    if nulls:
        points[rng.random(points.shape) < 0.2] = np.nan
    return points


@pytest.mark.parametrize("norm", ["sum", "euclidean"])
@pytest.mark.parametrize("seed", range(15))
def test_equals_the_linear_program(seed: int, norm: Any) -> None:
    """Mixed columns, nulls, duplicates within and across the samples, whole and fractional weights."""
    rng = seeded(seed)
    a, b = rng.integers(1, 9, size=2)
    x, y = _mixed(rng, a), _mixed(rng, b)
    p, q = rng.integers(1, 4, a), rng.integers(1, 4, b) if seed % 2 else rng.random(b) + 0.1
    ordered, weights = np.array([True, True, False]), np.array([1.0, 0.5, 2.0])
    found = transport_distance(x, y, x_weights=p, y_weights=q, ordered=ordered, column_weights=weights, norm=norm)
    assert found == pytest.approx(_brute(x, y, p, q, ordered, weights, norm), abs=1e-9)
    back = transport_distance(y, x, x_weights=q, y_weights=p, ordered=ordered, column_weights=weights, norm=norm)
    assert back == pytest.approx(found, abs=1e-12)


def test_in_one_dimension_it_is_the_distance_on_the_line() -> None:
    rng = seeded(3)
    x, y, p = rng.random(50).round(1), rng.random(60).round(1), rng.integers(0, 5, 50)
    assert transport_distance(x[:, None], y[:, None], x_weights=p) == pytest.approx(
        wasserstein_1d(x, y, x_weights=p), abs=1e-12
    )


def test_the_metric_is_the_domains_ground_distance() -> None:
    domain = Domain(
        columns={
            "age": Numeric(lower=0, upper=80, cells=16, within="midpoint", nulls="category"),
            "ward": Category(categories=("a", "b", "c")),
        },
        metric_weights={"age": 3.0, "ward": 0.5},
    )
    rng = seeded(4)
    a, b = (Records(columns=(rng.integers(0, 17, 30), rng.integers(0, 3, 30))) for _ in range(2))
    rows = [
        np.column_stack((domain.columns["age"].positions(side.columns[0]) / 80.0, side.columns[1])) for side in (a, b)
    ]
    metric = transport._Metric.parse(2, [True, False], [3.0, 0.5], "sum")
    assert np.diag(metric.costs(*rows)) == pytest.approx(domain.distance(a, b), abs=1e-12)


def test_common_mass_stays_and_nothing_is_left_to_solve() -> None:
    """Two tables of many thousand records that differ in three: no cost matrix of all pairs is made."""
    x = seeded(5).random((20_000, 3))
    y = x.copy()
    y[:3, 0] += [0.5, 0.25, 0.125]
    found = transport_distance(x, y[::-1], pairs=9)
    assert found == pytest.approx(0.875 / 20_000, rel=1e-9)
    assert transport_distance(x, x[::-1]) == 0.0
    with pytest.raises(ParameterError, match="pairs of points"):
        transport_distance(x, y, pairs=8)


def test_sliced_is_a_lower_bound_and_a_mean_over_directions() -> None:
    """In the plane a translation by v has SW1 = E |<u, v>| = 2 |v| / pi; the interval below errs once in 1e9."""
    rng = seeded(6)
    x = rng.normal(size=(200, 2))
    moved = sliced_wasserstein(x, x + np.array([3.0, 4.0]), rng=rng, directions=2000)
    assert moved.value == pytest.approx(10 / np.pi, abs=6.1 * moved.standard_error)
    assert moved.directions == 2000
    for seed in range(20):
        rng = seeded(seed)
        one, other = _mixed(rng, 30), _mixed(rng, 40)
        options = {"ordered": [True, True, False], "column_weights": [1.0, 0.5, 2.0]}
        sliced = sliced_wasserstein(one, other, rng=rng, directions=20, **options)
        assert 0 < sliced.value <= transport_distance(one, other, norm="euclidean", **options) + 1e-12
        assert sliced_wasserstein(one, one[::-1], rng=rng, **options).value == 0.0


@pytest.mark.parametrize("distance", [transport_distance, lambda *a, **k: sliced_wasserstein(*a, rng=seeded(0), **k)])
def test_refuses_what_is_no_sample_of_records(distance: Any) -> None:
    for bad in ([1.0, 2.0], np.zeros((0, 2)), [[np.inf, 0.0]]):
        with pytest.raises(ParameterError, match="at least one record"):
            distance(bad, [[0.0, 0.0]])
    with pytest.raises(ParameterError, match="same columns"):
        distance([[0.0]], [[0.0, 1.0]])
    with pytest.raises(ParameterError, match="one entry per column"):
        distance([[0.0]], [[0.0]], ordered=[True, False])
    with pytest.raises(ParameterError, match="column weights"):
        distance([[0.0]], [[0.0]], column_weights=[-1.0])
    with pytest.raises(ParameterError, match="weights of y"):
        distance([[0.0]], [[0.0]], y_weights=[-1.0])
    with pytest.raises(ParameterError, match="at most 2 apart"):
        distance([[0.0], [9.0]], [[np.nan]])
    with pytest.raises(ParameterError, match="norm must be"):
        transport_distance([[0.0]], [[0.0]], norm="other")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="directions must be an integer of at least 2"):
        sliced_wasserstein([[0.0]], [[0.0]], rng=seeded(0), directions=1)


def test_without_the_solver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "transport_available", lambda: False)
    with pytest.raises(ParameterError, match=r"pip install 'discreet\[transport\]'"):
        transport_distance([[0.0]], [[1.0]])
    assert transport_distance([[0.0]], [[0.0]]) == 0.0
