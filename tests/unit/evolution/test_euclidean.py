"""Boxes and balls: equation (1) by hand, projections by their inequality, uniform draws, the theorem's gain."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import gamma as gamma_function
from scipy.stats import beta, kstest, norm

from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric, Records
from discreet.domain.records import nearest_codes
from discreet.errors import ParameterError
from discreet.evolution import API, Ball, Box, Callables, Table
from discreet.evolution.api import NamedAPI, in_blocks, plain_norm, settled_norm
from discreet.evolution.table import api_from
from discreet.papers.pe25 import theorem_gamma

SIDE = Numeric(lower=-1, upper=1)
NORMS = [1.0, 2.0, math.inf]


def space(d: int, column: Numeric = SIDE) -> Domain:
    return Domain(columns={f"x{place}": column for place in range(d)})


def test_scales_are_those_of_equation_1() -> None:
    box = Box(domain=space(1), scaled=False, alpha=0.25)
    # D = 2: log2(D / alpha) = 3 scales; sqrt(pi) ((1 + log 2)^2 + log 2) = 6.309712...
    bracket = (1 + 0.6931471805599453) ** 2 + 0.6931471805599453
    assert box.diameter == 2.0
    assert box.variations_each() == 7
    assert box.scales == pytest.approx(np.array([0.25, 0.5, 1.0]) / (1.7724538509055159 * bracket), rel=1e-14)
    assert Box(domain=space(1), scaled=False, alpha=0.24).variations_each() == 9  # the logarithm is rounded up
    assert Box(domain=space(3), alpha=0.1).diameter == pytest.approx(math.sqrt(3))
    assert Box(domain=space(3), alpha=0.1, norm=1).diameter == 3
    assert Box(domain=space(3), alpha=0.1, norm=math.inf, scaled=False).diameter == 2
    assert Box(domain=space(2)).variations_each() == 17


def test_variations_have_the_standard_deviation_of_their_scale() -> None:
    box = Box(domain=space(2), scaled=False, alpha=0.01)
    middle = Records(columns=(np.zeros(4000), np.full(4000, 0.1)))
    blocks = box.embed(box.variation(middle, rng=seeded(0))).reshape(4000, -1, 2)
    assert np.all(blocks[:, 0] == [1.0, 1.1])  # the record itself; coordinates from the lower bound on
    for place, scale in enumerate(np.repeat(box.scales, 2), start=1):
        if scale > 0.1:
            continue  # clipped
        for line, centre in zip(blocks[:, place].T, (1.0, 1.1), strict=True):
            # A true law fails with probability 1e-6; one of 1.25 times the scale passes with less (4,000 draws).
            assert kstest((line - centre) / scale, norm.cdf).pvalue > 1e-6
            assert kstest((line - centre) / (1.25 * scale), norm.cdf).pvalue < 1e-6
    assert not np.allclose(blocks[:, 1], blocks[:, 2])  # the two of a scale are drawn apart


@pytest.mark.parametrize("p", NORMS)
def test_what_a_ball_gives_lies_in_it(p: float) -> None:
    ball = Ball(domain=space(3), norm=p, radius=0.5, centre=(0.5, -0.25, 0.0), alpha=0.02)
    near = ball.embed(ball.variation(ball.random(200, rng=seeded(1)), rng=seeded(2)))
    away = np.linalg.norm(near - np.array(ball.centre), ord=p, axis=1)
    assert away.max() <= 0.5 * (1 + 1e-12)
    assert (away > 0.4999999).mean() > 0.02  # some were projected
    assert np.all(np.abs(near) <= 1)


@pytest.mark.parametrize("p", NORMS)
def test_a_draw_from_a_ball_is_uniform(p: float) -> None:
    ball = Ball(domain=space(3), norm=p)
    points = ball.embed(ball.random(4000, rng=seeded(3)))
    lengths = np.linalg.norm(points, ord=p, axis=1)
    assert kstest(lengths, beta(3, 1).cdf).pvalue > 1e-6  # P(length <= r) = r^3
    assert kstest(lengths, beta(3.5, 1).cdf).pvalue < 1e-6
    # One coordinate of a uniform point: density (1 - |x|^p)^(2/p), by slices.
    if p == 2:
        assert kstest((points[:, 1] + 1) / 2, beta(2, 2).cdf).pvalue > 1e-6
    elif p == 1:
        assert kstest(np.abs(points[:, 1]), beta(1, 3).cdf).pvalue > 1e-6
    else:
        assert kstest(np.abs(points[:, 1]), beta(1, 1).cdf).pvalue > 1e-6


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(NORMS), st.lists(st.floats(-5, 5), min_size=1, max_size=5), st.floats(0.1, 1.0))
def test_a_projection_is_the_nearest_point(p: float, given_point: list[float], radius: float) -> None:
    d = len(given_point)
    ball = Ball(domain=space(d), norm=p, radius=radius, alpha=radius / 10)
    point = np.array(given_point)
    found = ball._project(point[None])[0]
    assert np.linalg.norm(found, ord=p) <= radius * (1 + 1e-12)
    # It is the projection onto a convex set if and only if <point - found, other - found> <= 0 for all others.
    if p == 1:
        corners = radius * np.concatenate([np.eye(d), -np.eye(d)])
    elif p == math.inf:
        corners = radius * (2 * ((np.arange(2**d)[:, None] >> np.arange(d)) & 1) - 1.0)
    else:
        length = np.linalg.norm(point - found)
        corners = ((point - found) / length * radius if length else found)[None]  # where the product is largest
    assert np.max((corners - found) @ (point - found)) <= 1e-9


def test_the_nearest_cell_is_found_on_a_column_of_any_size() -> None:
    huge = Integer(lower=-(2**50), upper=2**50)
    assert nearest_codes(huge, np.array([0.0, -(2.0**62), 2.0**62])).tolist() == [2**50, 0, 2**51]
    for column in (
        Integer(lower=3, upper=97, cells=7),
        Numeric(lower=1, upper=1000, cells=9, spacing="log"),
        Numeric(lower=0, upper=1, grid=[0.0, 0.5, 0.6, 1.0]),
        Date(lower="2020-01-01", upper="2020-03-01"),
        Category(categories=["s", "m", "l"], ordered=True),
    ):
        positions = column.positions(np.arange(column.values))
        asked = seeded(0).uniform(positions[0] - 5, positions[-1] + 5, 300)
        oracle = np.abs(asked[:, None] - positions).argmin(axis=1)
        assert nearest_codes(column, asked).tolist() == oracle.tolist()


def test_boxes_of_cells_give_cells() -> None:
    domain = Domain(columns={"pixel": Integer(lower=0, upper=16), "day": Date(lower="2020-01-01", upper="2020-12-31")})
    box = Box(domain=domain, alpha=0.05)
    near = box.variation(box.random(50, rng=seeded(4)), rng=seeded(5))
    for codes, column in zip(near.columns, domain.columns.values(), strict=True):
        assert codes.dtype == np.int64
        assert codes.min() >= 0
        assert codes.max() < column.size
    assert domain.encode(domain.decode(near, rng=seeded(0))).rows() == near.rows()
    assert box.embed(near).max() <= 1


def expected_nearest(distance: float, scales: np.ndarray, each: int = 2) -> float:
    """Return the expected distance of the nearest variation from a target, on an unbounded line, by quadrature."""

    def none_within(t: float) -> float:
        hit = norm.cdf((distance + t) / scales) - norm.cdf((distance - t) / scales)
        return float(np.prod((1 - hit) ** each))

    return quad(none_within, 0, distance, limit=200)[0]


@pytest.mark.parametrize("distance", [0.011, 0.02, 0.05, 0.1])
def test_the_gain_on_a_line_is_that_of_a_quadrature_and_above_the_theorem(distance: float) -> None:
    box = Box(domain=space(1), scaled=False, alpha=0.01)
    records = Records(columns=(np.zeros(20_000),))
    near = box.embed(box.variation(records, rng=seeded(6))).reshape(20_000, -1)
    nearest = np.abs(near - (1 + distance)).min(axis=1)
    exact = expected_nearest(distance, box.scales)
    error = nearest.std() / math.sqrt(len(nearest))
    assert abs(nearest.mean() - exact) < 5 * error  # a true law fails with probability 1e-6
    assert abs(nearest.mean() - expected_nearest(distance, box.scales, each=3)) > 5 * error
    assert abs(nearest.mean() - expected_nearest(distance, box.scales, each=1)) > 5 * error
    assert exact <= (1 - theorem_gamma(1)) * distance


@pytest.mark.parametrize("d", [1, 2, 3, 10, 100, 1000])
def test_the_bracket_of_gamma_bounds_the_larger_of_two_chi_squares(d: int) -> None:
    # Their expected difference is 4 Gamma((d + 1)/2) / (sqrt(pi) Gamma(d/2)).
    half = 2 * math.exp(math.lgamma((d + 1) / 2) - math.lgamma(d / 2)) / math.sqrt(math.pi)
    bracket = 1 / (8 * math.pi * theorem_gamma(d))
    assert d + half <= d + math.sqrt(d) <= bracket
    assert bracket == pytest.approx((math.sqrt(d) + math.log(2)) ** 2 + math.log(2))
    assert gamma_function(0.5) == pytest.approx(math.sqrt(math.pi))


def test_errors_name_the_column_and_the_remedy() -> None:
    with pytest.raises(ParameterError, match="column 'smokes': a box needs an order. Use"):
        Box(domain=Domain(columns={"smokes": Boolean()}))
    with pytest.raises(ParameterError, match="column 'x': a null has no place in a box"):
        Box(domain=Domain(columns={"x": Numeric(lower=0, upper=1, nulls="category")}))
    with pytest.raises(ParameterError, match="column 'n': a ball needs continuous columns"):
        Ball(domain=Domain(columns={"n": Integer(lower=0, upper=9)}))
    with pytest.raises(ParameterError, match="radius must be at most 1"):
        Ball(domain=space(2), radius=1.5)
    with pytest.raises(ParameterError, match="one finite number per column"):
        Ball(domain=space(2), centre=(0.0,))
    with pytest.raises(ParameterError, match="the box is a point"):
        Box(domain=Domain(columns={"x": Category(categories=["only"], ordered=True)}))
    for alpha in (0.0, -1.0, 5.0, 1e-30, True, math.nan):
        with pytest.raises(ParameterError, match="alpha must be"):
            Box(domain=space(1), alpha=alpha)
    with pytest.raises(ParameterError, match="scaled must be True or False"):
        Box(domain=space(1), scaled=1)


# -- the seam of Private Evolution: names, certificates, blocks -------------------------------------------------------

SQUARE = Domain(columns={"x": SIDE, "y": SIDE})


@pytest.mark.parametrize(
    "api",
    [
        Box(domain=SQUARE),
        Box(domain=SQUARE, norm=math.inf, scaled=False, alpha=0.3),
        Ball(domain=SQUARE, norm=1, radius=0.5, centre=(0.1, -0.2), alpha=0.01),
        Table(domain=SQUARE, levels=3, each=5, null_share=0.2),
    ],
)
def test_a_certificate_rebuilds_an_api_that_its_parameters_describe(api: API) -> None:
    stated = json.loads(json.dumps(api.parameters(), allow_nan=False))
    again = api_from(api.name, stated, SQUARE)
    assert again == api
    assert again.parameters() == api.parameters()
    one, other = (a.variation(a.random(4, rng=seeded(1)), rng=seeded(2)) for a in (api, again))
    assert one.rows() == other.rows()


def test_an_api_of_functions_comes_back_as_a_name_that_refuses_to_run() -> None:
    named = api_from("callables", {"label": "fonts", "norm": "inf"}, SQUARE)
    assert isinstance(named, NamedAPI)
    assert named.domain is SQUARE
    assert (named.name, named.parameters()) == ("callables", {"label": "fonts", "norm": "inf"})
    assert named == api_from("callables", {"norm": "inf", "label": "fonts"}, SQUARE)
    assert hash(named) == hash(api_from("callables", {"norm": "inf", "label": "fonts"}, SQUARE))
    records = Records(columns=(np.zeros(1), np.zeros(1)))
    for run in (
        lambda: named.norm,
        lambda: named.diameter,
        named.variations_each,
        lambda: named.random(1, rng=seeded(0)),
        lambda: named.variation(records, rng=seeded(0)),
        lambda: named.embed(records),
    ):
        with pytest.raises(ParameterError, match="'callables' is known by its parameters only"):
            run()


def test_parameters_that_are_unknown_or_missing_are_refused() -> None:
    with pytest.raises(ParameterError, match="unknown parameter 'colour'. The API box takes: norm, alpha, sc"):
        api_from("box", {"colour": 1}, SQUARE)
    with pytest.raises(ParameterError, match="cannot be rebuilt from these parameters alone"):
        Callables.from_parameters({"label": "fonts"}, SQUARE)


def test_norms_are_checked_and_written_as_json() -> None:
    assert [plain_norm(settled_norm(norm)) for norm in (1, 2.0, math.inf, "inf")] == [1, 2, "inf", "inf"]
    for wrong in (0, 3, True, "two", None, math.nan):
        with pytest.raises(ParameterError, match="norm must be 1, 2 or inf"):
            settled_norm(wrong)


def test_blocks_hold_the_record_first_in_every_kind_of_column() -> None:
    texts = np.array(["a", None], dtype=object)
    records = Records(columns=(np.array([1, 2]), np.array([0.5, np.nan]), texts))
    varied = [np.array([[3], [4]]), np.array([[0.25], [1.0]]), np.array([["b"], ["c"]], dtype=object)]
    rows = in_blocks(records, varied).rows()
    assert [row[0] for row in rows] == [1, 3, 2, 4]
    assert [row[2] for row in rows] == ["a", "b", None, "c"]
    assert math.isnan(rows[2][1])
    assert in_blocks(records, varied).columns[0].dtype == np.int64


def test_the_import_is_light() -> None:
    program = "import sys, discreet.evolution; print(*{'scipy', 'polars', 'torch', 'sklearn'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "\n"
