"""The posterior's functionals and groups, against a plain computation of each draw on its own."""

import warnings

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import ParameterError
from discreet.inference import Posterior
from discreet.inference.functionals import functional
from discreet.inference.population import Draws
from discreet.inference.summary import effective_sample_size, r_hat

UNIT = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
DICE = Integer(lower=1, upper=3)


def on_cells(column, masses, **options) -> Posterior:
    """The posterior of a column's cells, or of those of a domain, with these masses."""
    domain = column if isinstance(column, Domain) else Domain(columns={"x": column})
    return Posterior.of_arrays(domain, domain.unflat(np.arange(domain.size)), masses, **options)


def _random(draws=7, shared=5, own=3, *, ties=True):
    rng = seeded(1)
    values = np.round(rng.random(shared), 1) if ties else rng.random(shared)
    others = np.round(rng.random((draws, own)), 1)
    masses = rng.dirichlet(np.ones(shared + own), size=draws)
    posterior = Posterior.of_arrays(
        UNIT,
        Records(columns=(values,)),
        masses[:, :shared],
        own=Records(columns=(others.ravel(),)),
        own_weights=masses[:, shared:],
    )
    points = np.concatenate((np.broadcast_to(values, (draws, shared)), others), axis=1)
    return posterior, points, masses


def _arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # version 0 announces version 1 once a day
        return pytest.importorskip("arviz")


def _quantile(values, weights, q):
    order = np.argsort(values, kind="stable")
    return values[order][np.searchsorted(np.cumsum(weights[order]), q - 1e-12)]


def test_single_values_against_each_draw_alone() -> None:
    posterior, points, masses = _random()
    mean = (points * masses).sum(axis=1)
    assert np.allclose(posterior.evaluate("mean"), mean)
    variance = (points**2 * masses).sum(axis=1) - mean**2
    assert np.allclose(posterior.evaluate("variance"), variance)
    assert np.allclose(posterior.evaluate("sd"), np.sqrt(variance))
    for q in (0.05, 0.25, 0.5, 0.9):
        expected = [_quantile(v, w, q) for v, w in zip(points, masses, strict=True)]
        assert posterior.evaluate(f"q{100 * q:g}").tolist() == expected
    for name, holds in {
        "P(>0.5)": points > 0.5,
        "P(>=0.5)": points >= 0.5,
        "P(<0.5)": points < 0.5,
        "P(<=0.5)": points <= 0.5,
        "P(=0.5)": points == 0.5,
        "P(0.2..0.5)": (points >= 0.2) & (points <= 0.5),
    }.items():
        assert np.allclose(posterior.evaluate(name), (holds * masses).sum(axis=1)), name


def test_a_users_function_sees_values_and_masses() -> None:
    posterior, points, masses = _random()
    both = posterior.evaluate(lambda values, weights: (values**3 * weights).sum(axis=1))
    assert np.allclose(both, (points**3 * masses).sum(axis=1))


@pytest.mark.parametrize("column", [Numeric(lower=0.0, upper=8.0, cells=4), Integer(lower=0, upper=15, cells=4)])
def test_cells_spread_their_mass(column) -> None:
    masses = seeded(2).dirichlet(np.ones(4), size=6)
    posterior = on_cells(column, masses)
    # The oracle: every cell as a great many single values (all sixteen of the integers).
    points = np.arange(16.0) if column.kind == "integer" else (np.arange(80_000) + 0.5) / 10_000
    fine = np.repeat(masses, len(points) // 4, axis=1) / (len(points) // 4)
    close = 1e-12 if column.kind == "integer" else 2e-4
    mean = fine @ points
    assert np.allclose(posterior.evaluate("mean"), mean, atol=close)
    assert np.allclose(posterior.evaluate("variance"), fine @ points**2 - mean**2, atol=10 * close)
    for a in (0, 3, 4, 7, 15):
        assert np.allclose(posterior.evaluate(f"P(<={a})"), fine @ (points <= a), atol=close)
    for q in (0.1, 0.5, 0.77):
        expected = [_quantile(points, row, q) for row in fine]
        assert np.allclose(posterior.evaluate(f"q{100 * q:g}"), expected, atol=2 * close)


def test_nulls_are_left_out() -> None:
    posterior = on_cells(Integer(lower=0, upper=2, nulls="category"), [[0.1, 0.2, 0.2, 0.5]])
    assert posterior.evaluate("mean") == pytest.approx([1.2])
    assert posterior.evaluate("q50").tolist() == [1.0]


def test_labels_dates_and_booleans() -> None:
    domain = Domain(
        columns={
            "colour": Category(categories=["red", "blue"]),
            "size": Category(categories=["s", "m", "l"], ordered=True),
            "smokes": Boolean(),
            "day": Date(lower="2020-01-01", upper="2020-12-31"),
        }
    )
    table = pl.DataFrame({"colour": ["red", "blue"], "size": ["m", "l"], "smokes": [True, False]})
    records = domain.encode(table.with_columns(day=pl.Series(["2020-02-01", "2020-03-01"]).str.to_date()))
    posterior = Posterior.of_arrays(domain, records, [[0.25, 0.75]])
    assert posterior.evaluate("P(=red)", column="colour") == pytest.approx([0.25])
    assert posterior.evaluate("P(>m)", column="size") == pytest.approx([0.75])
    assert posterior.evaluate("mean", column="smokes") == pytest.approx([0.25])
    assert posterior.evaluate("P(>2020-02-15)", column="day") == pytest.approx([0.75])
    assert "2020-03-01" in str(posterior.summary(["q50"], column="day"))
    joint = posterior.evaluate(lambda values, weights: (weights * (values["colour"] == "blue")).sum(axis=1))
    assert joint == pytest.approx([0.75])
    for wrong in ("mean", "q50", "P(>red)", "P(=green)"):
        with pytest.raises(ParameterError):
            posterior.evaluate(wrong, column="colour")
    with pytest.raises(ParameterError, match="name the column"):
        posterior.evaluate("mean")


def test_open_labels_have_shares() -> None:
    domain = Domain(columns={"town": OpenLabels(prefix="new_")})
    records = Records(columns=(np.array(["a", "b"], dtype=object),))
    own = Records(columns=(np.array(["a", "c"], dtype=object),))
    posterior = Posterior.of_arrays(domain, records, [[0.2, 0.3]], own=own, own_weights=[[0.4, 0.1]])
    assert posterior.evaluate("P(=a)") == pytest.approx([0.6])
    assert posterior.evaluate("P(=z)") == pytest.approx([0.0])


def test_blocks_change_nothing() -> None:
    posterior, _, _ = _random(draws=8)
    whole = posterior.block(0)
    own = whole.own.columns[0].reshape(8, -1)

    def part(i):
        rows = slice(2 * i, 2 * i + 2)
        return Draws(whole.weights[rows], Records(columns=(own[rows].ravel(),)), whole.own_weights[rows])

    parts = Posterior(domain=UNIT, support=posterior.support, draws=8, block=part, blocks=4)
    for name in ("mean", "q50", "P(>0.3)"):
        assert np.allclose(parts.evaluate(name), posterior.evaluate(name))
    for one, other in zip(parts.summary(["mean", "q50"]).rows, posterior.summary(["mean", "q50"]).rows, strict=True):
        assert (one.name, one.effective_draws) == (other.name, other.effective_draws)
        assert (one.mean, one.sd, one.lower, one.upper) == pytest.approx(
            (other.mean, other.sd, other.lower, other.upper)
        )


def test_summary_counts_effective_draws_of_chains() -> None:
    masses = seeded(3).dirichlet(np.ones(3), size=4000)
    row = on_cells(DICE, masses).summary(["mean"])["mean"]
    assert (row.effective_draws, row.r_hat) == (4000.0, None)
    # A Dirichlet(1,1,1) mean has mean 2 and variance (2/3)/4; six standard errors.
    assert row.mean == pytest.approx(2.0, abs=6 * np.sqrt(1 / 6 / 4000))
    assert row.sd == pytest.approx(np.sqrt(1 / 6), rel=0.1)
    sticky = on_cells(DICE, np.repeat(masses[:400], 10, axis=0), chains=4)
    stuck = sticky.summary(["mean"])["mean"]
    assert 200 < stuck.effective_draws < 800
    assert 0.99 < stuck.r_hat < 1.05


def test_cdf_bands_hold_pointwise_and_as_a_whole() -> None:
    masses = seeded(4).dirichlet(np.ones(5), size=5000)
    posterior = on_cells(Integer(lower=0, upper=4), masses)
    band = posterior.cdf([-1, 0, 1, 2, 3, 4], level=0.9)
    paths = np.cumsum(masses, axis=1)
    inside = ((paths >= band.simultaneous_lower[1:] - 1e-12) & (paths <= band.simultaneous_upper[1:] + 1e-12)).all(
        axis=1
    )
    assert 0.9 <= inside.mean() < 0.91
    assert ((paths[:, 1] >= band.lower[2]) & (paths[:, 1] <= band.upper[2])).mean() == pytest.approx(0.9, abs=2e-3)
    assert (band.mean[0], band.mean[-1]) == (0.0, pytest.approx(1.0))


def test_predictive_tables_share_one_draw() -> None:
    posterior = on_cells(Integer(lower=0, upper=1), [[1.0, 0.0], [0.0, 1.0]])
    tables = posterior.predictive(5, seed=1, datasets=40)
    assert all(table["x"].n_unique() == 1 for table in tables)
    assert {table["x"][0] for table in tables} == {0, 1}


def test_inference_data_has_chains_and_draws() -> None:
    _arviz()
    masses = seeded(5).dirichlet(np.ones(3), size=20)
    posterior = on_cells(DICE, masses, chains=4, notes=("a note",))
    data = posterior.to_inference_data(["mean", "P(>1)"])
    assert dict(data.posterior["mean"].sizes) == {"chain": 4, "draw": 5}
    assert np.allclose(data.posterior["mean"].values.ravel(), posterior.evaluate("mean"))


@pytest.mark.parametrize("wrong", ["median", "q0", "q100", "P(3..1)", "P(>x)", "P()", "P(5)"])
def test_unknown_functionals_are_named(wrong) -> None:
    with pytest.raises(ParameterError):
        functional(wrong, Integer(lower=0, upper=9))


def test_wrong_arrays_are_refused() -> None:
    for wrong in ({"masses": [[0.5, 0.5, 0.5]]}, {"masses": [[0.5, 0.5, 0.0]], "own_weights": [[0.0]]}):
        with pytest.raises(ParameterError):
            on_cells(DICE, **wrong)


@pytest.mark.parametrize("correlation", [-0.7, 0.0, 0.5, 0.95])
@pytest.mark.parametrize(("chains", "draws"), [(2, 8), (2, 25), (4, 101), (4, 500)])
def test_diagnostics_agree_with_arviz(chains: int, draws: int, correlation: float) -> None:
    arviz = _arviz()
    noise = seeded(6).standard_normal((chains, draws))
    x = np.zeros_like(noise)
    for t in range(1, draws):
        x[:, t] = correlation * x[:, t - 1] + noise[:, t]
    for values in (x, np.round(x), np.exp(3.0 * x), x + np.arange(chains)[:, None]):
        assert effective_sample_size(values) == pytest.approx(float(arviz.ess(values, method="bulk")), rel=1e-9)
        mean = effective_sample_size(values, ranked=False)
        assert mean == pytest.approx(float(arviz.ess(values, method="mean")), rel=1e-9)
        assert r_hat(values) == pytest.approx(float(arviz.rhat(values, method="rank")), rel=1e-9)


PAY = Domain(columns={"wage": Integer(lower=1, upper=3), "sex": Category(categories=["f", "m"], nulls="category")})
WAGES = np.array([1.0, 2.0, 3.0])


def pay(draws: int = 40, *, chains: int = 0) -> tuple[Posterior, np.ndarray]:
    masses = seeded(1).dirichlet(np.ones(9), size=draws)
    return on_cells(PAY, masses, chains=chains), masses.reshape(draws, 3, 3)


def test_each_group_is_the_conditional_distribution_of_each_draw() -> None:
    posterior, masses = pay(chains=4)
    found = posterior.summary(["mean", "P(>1)", lambda v, w: (v * w).max(axis=1)], column="wage", by="sex", level=0.8)
    assert [row.group for row in found.rows] == ["f"] * 3 + ["m"] * 3 + ["null"] * 3
    for at, group in enumerate(["f", "m", "null"]):
        share = masses[:, :, at].sum(axis=1)
        given = masses[:, :, at] / share[:, None]
        for name, by_hand in {
            "mean": given @ WAGES,
            "P(>1)": given[:, 1:].sum(axis=1),
            "<lambda>": (given * WAGES).max(axis=1),
        }.items():
            row = found[name, group]
            lower, upper = np.quantile(by_hand, [0.1, 0.9])
            expected = [by_hand.mean(), by_hand.std(ddof=1), lower, upper, share.mean()]
            assert [row.mean, row.sd, row.lower, row.upper, row.share] == pytest.approx(expected, rel=1e-12)
        view = posterior.given("sex", None if group == "null" else group)
        assert view.evaluate("q50", column="wage").tolist() == [
            WAGES[np.searchsorted(np.cumsum(row), 0.5 - 1e-12)] for row in given
        ]
    assert found.by == "sex"
    assert found.to_dict()["by"] == "sex"
    assert [line.split()[:2] for line in str(found).splitlines()[1:]] == [[row.group, row.name] for row in found.rows]


def test_groups_of_draws_with_values_of_their_own() -> None:
    """The weight of a group is that of the shared records and of each draw's own."""
    domain = Domain(columns={"x": Numeric(lower=0, upper=1), "flag": Boolean()})
    support = Records(columns=(np.array([0.1, 0.2, 0.3]), np.array([0, 1, 1])))
    own = Records(columns=(np.array([0.5, 0.6, 0.7, 0.8]), np.array([1, 0, 0, 0])))
    posterior = Posterior.of_arrays(
        domain, support, [[0.1, 0.2, 0.3], [0.4, 0.1, 0.1]], own=own, own_weights=[[0.2, 0.2], [0.3, 0.1]]
    )
    found = posterior.given("flag", True).evaluate("mean", column="x")
    assert found.tolist() == pytest.approx([(0.2 * 0.2 + 0.3 * 0.3 + 0.2 * 0.5) / 0.7, (0.1 * 0.2 + 0.1 * 0.3) / 0.2])
    rows = posterior.summary(["mean"], column="x", by="flag").rows
    assert rows[1].mean == pytest.approx(found.mean())
    assert rows[0].share == pytest.approx((0.3 + 0.8) / 2)


def test_cells_make_groups_and_say_from_where_to_where() -> None:
    domain = Domain(columns={
        "income": Numeric(lower=0, upper=10, cells=2), "age": Integer(lower=0, upper=9, cells=2),
        "born": Date(lower="2000-01-01", upper="2000-01-02"), "done": Boolean(),
    })  # fmt: skip
    posterior = on_cells(domain, np.full((1, 16), 1 / 16))
    labels = {by: [row.group for row in posterior.summary(["mean"], column="age", by=by).rows] for by in domain.names}
    assert labels == {
        "income": ["0 to 5", "5 to 10"],
        "age": ["0 to 4", "5 to 9"],
        "born": ["2000-01-01", "2000-01-02"],
        "done": ["false", "true"],
    }
    assert posterior.given("income", 7.5).evaluate("P(<=5)", column="income").tolist() == [0.0]


# -- groups of nobody -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", ["mean", "sd", "q50", "P(>1)", "P(=1)"])
def test_a_group_without_mass_has_no_numbers(asked: str) -> None:
    """Two draws of three give nobody sex m; no record of the support is null."""
    support = PAY.unflat(np.array([0, 1, 3]))  # wage 1: f and m; wage 2: f
    posterior = Posterior.of_arrays(PAY, support, [[0.5, 0.0, 0.5], [0.4, 0.2, 0.4], [1.0, 0.0, 0.0]])
    found = posterior.given("sex", "m").evaluate(asked, column="wage")
    assert np.isnan(found).tolist() == [True, False, True]
    assert np.isnan(posterior.given("sex", None).evaluate(asked, column="wage")).all()
    summary = posterior.summary([asked], column="wage", by="sex")
    assert summary[asked, "m"].mean == found[1]
    assert summary[asked, "m"].effective_draws == 1
    assert np.isnan(summary[asked, "null"].mean)
    assert summary.to_dict()["estimates"][2]["mean"] is None
    assert "m (0.0667), null (0)" in summary.notes[-1]
    assert "f (" not in summary.notes[-1]


def test_cells_without_mass_have_no_quantile_either() -> None:
    domain = Domain(columns={"x": Numeric(lower=0, upper=1, cells=2), "flag": Boolean()})
    posterior = on_cells(domain, [[0.5, 0.0, 0.5, 0.0], [0.25] * 4])
    found = posterior.given("flag", True).evaluate("q50", column="x")
    assert np.isnan(found).tolist() == [True, False]
    assert found[1] == pytest.approx(0.5)


def test_a_share_near_zero_is_named_and_a_small_one_that_is_sure_is_not() -> None:
    rng = seeded(2)
    counts = np.array([3000.0, 20.0, 0.1])  # of f, m and null, all of wage 1
    posterior = Posterior.of_arrays(PAY, PAY.unflat(np.arange(3)), rng.dirichlet(counts, size=2000))
    (note,) = posterior.summary(["mean"], column="wage", by="sex").notes
    assert "null (" in note
    assert "m (" not in note


def test_wrong_groups() -> None:
    posterior, _ = pay()
    with pytest.raises(ParameterError, match="no column 'age'"):
        posterior.summary(["mean"], column="wage", by="age")
    with pytest.raises(ParameterError, match="no column 'age'"):
        posterior.given("age", 3)
    with pytest.raises(ParameterError, match="'sex' is not a declared value"):
        posterior.given("sex", "x")
    with pytest.raises(ParameterError, match="name the column"):
        posterior.summary(["mean"], by="sex")
    with pytest.raises(ParameterError, match="at least one functional"):
        posterior.summary([], column="wage", by="sex")
    for column in (Numeric(lower=0, upper=1), OpenLabels(), Integer(lower=0, upper=1000)):
        domain = Domain(columns={"x": Integer(lower=0, upper=1), "y": column})
        other = Posterior.of_arrays(domain, domain.draw_base(1, seeded(0)), [[1.0]])
        with pytest.raises(ParameterError, match="'y' does not make groups"):
            other.summary(["mean"], column="x", by="y")
