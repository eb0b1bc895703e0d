"""Groups of a posterior, against each draw's conditional distribution by hand."""

from __future__ import annotations

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import ParameterError
from discreet.inference import Posterior

PAY = Domain(columns={"wage": Integer(lower=1, upper=3), "sex": Category(categories=["f", "m"], nulls="category")})
WAGES = np.array([1.0, 2.0, 3.0])


def pay(draws: int = 40, *, chains: int = 0) -> tuple[Posterior, np.ndarray]:
    masses = seeded(1).dirichlet(np.ones(9), size=draws)
    return Posterior.of_arrays(PAY, PAY.unflat(np.arange(9)), masses, chains=chains), masses.reshape(draws, 3, 3)


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
    posterior = Posterior.of_arrays(domain, domain.unflat(np.arange(16)), np.full((1, 16), 1 / 16))
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
    posterior = Posterior.of_arrays(domain, domain.unflat(np.arange(4)), [[0.5, 0.0, 0.5, 0.0], [0.25] * 4])
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


def test_wrong_requests() -> None:
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
