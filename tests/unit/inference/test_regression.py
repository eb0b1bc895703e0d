"""Regressions of each posterior draw, against weighted least squares and the score equations by hand."""

import re
import sys

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Boolean, Category, Date, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import MissingExtra, ParameterError
from discreet.inference import Posterior
from discreet.inference.models import regression

pytest.importorskip("formulaic")

STAFF = Domain(
    columns={
        "wage": Integer(lower=1, upper=4),
        "age": Integer(lower=20, upper=22),
        "sex": Category(categories=["f", "m", "x"]),
        "senior": Boolean(),
    }
)
SIZE = STAFF.size or 0
RECORDS = STAFF.unflat(np.arange(SIZE))
WAGE, AGE, SEX, SENIOR = (np.asarray(codes, dtype=np.float64) for codes in RECORDS.columns)
WAGE, AGE = WAGE + 1, AGE + 20


def on_cells(domain: Domain, draws: int = 3) -> tuple[Posterior, np.ndarray]:
    """Draws of the masses of all cells, and these."""
    size = domain.size or 0
    masses = seeded(3).dirichlet(np.ones(size), size=draws)
    return Posterior.of_arrays(domain, domain.unflat(np.arange(size)), masses), masses


def staff(draws: int = 12) -> tuple[Posterior, np.ndarray]:
    return on_cells(STAFF, draws)


def coefficients(posterior: Posterior, formula: str, kind: str | None = None) -> np.ndarray:
    return regression(posterior.domain, posterior.support, posterior._blocks(), formula, kind).draws


def least_squares(x: np.ndarray, y: np.ndarray, masses: np.ndarray) -> np.ndarray:
    roots = np.sqrt(masses)
    return np.array([np.linalg.lstsq(root[:, None] * x, root * y, rcond=None)[0] for root in roots])


def test_least_squares_of_each_draw() -> None:
    posterior, masses = staff()
    one = np.ones(SIZE)
    for formula, columns in {
        "wage ~ age + C(sex)": [one, AGE, SEX == 1, SEX == 2],
        "wage ~ age * senior": [one, AGE, SENIOR, AGE * SENIOR],
        "np.log(wage) ~ age + I(age**2)": [one, AGE, AGE**2],
        "wage ~ 0 + age": [AGE],
    }.items():
        outcome = np.log(WAGE) if "log" in formula else WAGE
        expected = least_squares(np.stack(columns, axis=1).astype(float), outcome, masses)
        assert coefficients(posterior, formula) == pytest.approx(expected, rel=1e-6, abs=1e-9), formula


def test_its_summary_is_that_of_the_draws() -> None:
    posterior, masses = staff(200)
    summary = posterior.regress("wage ~ age", level=0.5)
    expected = least_squares(np.stack([np.ones(SIZE), AGE], axis=1), WAGE, masses)
    assert [row.name for row in summary.rows] == ["Intercept", "age"]
    assert summary["age"].mean == pytest.approx(expected[:, 1].mean(), rel=1e-8)
    assert [summary["age"].lower, summary["age"].upper] == pytest.approx(np.quantile(expected[:, 1], [0.25, 0.75]))
    assert "linear projection of wage" in summary.notes[-1]


def test_logistic_regression_solves_its_score_equations() -> None:
    posterior, masses = staff()
    x = np.stack([np.ones(SIZE), AGE, SEX == 1, SEX == 2], axis=1).astype(float)
    found = coefficients(posterior, "senior ~ age + sex")
    for beta, mass in zip(found, masses, strict=True):
        residual = mass * (SENIOR - 1.0 / (1.0 + np.exp(-(x @ beta))))
        assert x.T @ residual == pytest.approx(np.zeros(4), abs=1e-9)


def test_one_group_has_the_log_odds_of_its_shares() -> None:
    posterior, masses = staff()
    found = coefficients(posterior, "senior ~ C(sex)")
    odds = np.stack([(masses * SENIOR * (k == SEX)).sum(1) / (masses * (1 - SENIOR) * (k == SEX)).sum(1)
                     for k in range(3)], axis=1)  # fmt: skip
    expected = np.log(odds) - np.array([0, 1, 1]) * np.log(odds[:, :1])
    assert found == pytest.approx(expected, abs=1e-7)
    two = posterior.regress("senior ~ age")
    assert "log-odds of senior = true" in two.notes[-1]
    assert "linear projection of senior = true" in posterior.regress("senior ~ age", kind="linear").notes[-1]


def test_an_outcome_of_two_categories_is_the_second_one() -> None:
    domain = Domain(
        columns={"sex": Category(categories=["f", "m"], nulls="category"), "age": Integer(lower=0, upper=1)}
    )
    masses = np.array([[0.1, 0.2, 0.3, 0.1, 0.2, 0.1]])
    posterior = Posterior.of_arrays(domain, domain.unflat(np.arange(6)), masses)
    summary = posterior.regress("sex ~ age")
    assert summary["Intercept"].mean == pytest.approx(np.log(0.3 / 0.1))
    assert summary["age"].mean == pytest.approx(np.log(0.1 / 0.2) - np.log(3.0))
    assert "log-odds of sex = m" in summary.notes[-1]


def test_records_with_a_null_are_left_out() -> None:
    domain = Domain(columns={
        "wage": Integer(lower=1, upper=3, nulls="category"), "age": Integer(lower=0, upper=2, nulls="category"),
        "sex": Category(categories=["f", "m"], nulls="category"),
    })  # fmt: skip
    posterior, masses = on_cells(domain)
    wage, age, sex = (np.asarray(codes, dtype=float) for codes in posterior.support.columns)
    held = (wage < 3) & (age < 3) & (sex < 2)
    x = np.stack([np.ones(len(age)), age, sex], axis=1)[held]
    expected = least_squares(x, wage[held] + 1, masses[:, held])
    assert coefficients(posterior, "wage ~ age + sex") == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("shared", [6, 0])
def test_draws_with_values_of_their_own_and_blocks(shared: int) -> None:
    domain = Domain(columns={"y": Numeric(lower=0, upper=1), "x": Numeric(lower=0, upper=1), "flag": Boolean()})
    rng = seeded(5)

    def records(size: int) -> Records:
        return Records(columns=(rng.random(size), rng.random(size), rng.integers(0, 2, size)))

    support, own, masses = records(shared), [records(3 * 6) for _ in range(2)], rng.dirichlet(np.ones(shared + 6), 6)
    blocks = [Posterior.of_arrays(domain, support, part[:, :shared], own=one, own_weights=part[:, shared:]).block(0)
              for part, one in zip(np.split(masses, 2), own, strict=True)]  # fmt: skip
    posterior = Posterior(domain=domain, support=support, draws=6, block=lambda i: blocks[i], blocks=2)
    found = coefficients(posterior, "y ~ x + C(flag)")
    for draw in range(6):
        part = [codes.reshape(3, 6)[draw % 3] for codes in own[draw // 3].columns]
        y, x, flag = (np.concatenate((a, b)) for a, b in zip(support.columns, part, strict=True))
        expected = least_squares(np.stack([np.ones(len(y)), x, flag], axis=1), y, masses[draw : draw + 1])
        assert found[draw] == pytest.approx(expected[0], abs=1e-9)


def test_cells_enter_by_their_middles_and_a_note_says_which() -> None:
    domain = Domain(columns={"wage": Numeric(lower=0, upper=40, cells=4), "age": Integer(lower=0, upper=9, cells=2),
                             "day": Date(lower="2000-01-01", upper="2000-01-03")})  # fmt: skip
    posterior, masses = on_cells(domain)
    wage, age, _ = posterior.support.columns
    x = np.stack([np.ones(len(age)), np.where(age == 0, 2.0, 7.0)], axis=1)
    expected = least_squares(x, 10.0 * wage + 5.0, masses)
    assert coefficients(posterior, "wage ~ age") == pytest.approx(expected, abs=1e-9)
    assert posterior.regress("wage ~ age").notes[-1].endswith("age, wage")
    assert posterior.regress("wage ~ day").notes[-1].endswith(": wage")
    assert "middles" not in " ".join(staff()[0].regress("wage ~ age").notes)


@pytest.mark.parametrize(
    ("wage", "sex"), [("c.d", "P(>3)"), ("a,b", "quoted_column_1"), ("log(wage)", "gr\u00f6\u00dfe x")]
)
def test_any_name_may_be_quoted(wage: str, sex: str) -> None:
    """A dot, a comma or a parenthesis in a quoted name was read as syntax."""
    plain, masses = staff()
    columns = dict(zip([wage, "age", sex, "senior"], STAFF.columns.values(), strict=True))
    odd = Posterior.of_arrays(Domain(columns=columns), RECORDS, masses)
    expected = plain.regress("senior ~ wage + C(sex) + age")
    rows = odd.regress(f"senior ~ `{wage}` + C(`{sex}`) + age").rows
    names = {"wage": wage, "C(sex)[T.m]": f"C({sex})[T.m]", "C(sex)[T.x]": f"C({sex})[T.x]"}
    wanted = {names.get(row.name, row.name): row.mean for row in expected.rows}
    assert {row.name: row.mean for row in rows} == pytest.approx(wanted, rel=1e-9)
    expected = plain.regress("wage ~ age")
    assert odd.regress(f"`{wage}` ~ age").rows[1].mean == pytest.approx(expected.rows[1].mean, rel=1e-9)


def test_dates_and_large_numbers_lose_no_digits() -> None:
    """Days since 1970 and their squares: the normal equations alone would lose all digits of the curvature."""
    domain = Domain(columns={"y": Integer(lower=0, upper=3), "day": Date(lower="2020-01-01", upper="2020-01-10")})
    posterior, masses = on_cells(domain)
    found = coefficients(posterior, "y ~ day + C(day > 18265)")
    y, day = (codes.astype(float) for codes in posterior.support.columns)
    expected = least_squares(np.stack([np.ones(len(day)), day, day > 3], axis=1), y, masses)
    assert found[:, 1:] == pytest.approx(expected[:, 1:], rel=1e-6)


def test_a_draw_without_an_answer_is_left_out_and_counted() -> None:
    posterior, masses = staff(3)
    masses = masses.copy()
    masses[1, SEX == 2] = 0.0
    masses[1] /= masses[1].sum()
    other = Posterior.of_arrays(STAFF, RECORDS, masses)
    found = coefficients(other, "wage ~ C(sex)")
    assert np.isnan(found).any(axis=1).tolist() == [False, True, False]
    summary = other.regress("wage ~ C(sex)")
    assert "1 draw of 3 have no coefficients" in summary.notes[-1]
    assert summary["Intercept"].mean == pytest.approx(found[[0, 2], 0].mean())
    separated = masses.copy()
    separated[2, (SENIOR == 1) & (SEX == 1)] = 0.0
    separated[2] /= separated[2].sum()
    found = coefficients(Posterior.of_arrays(STAFF, RECORDS, separated), "senior ~ C(sex)")
    assert np.isnan(found).any(axis=1).tolist() == [False, True, True]


def test_a_label_that_no_record_has_is_no_coefficient() -> None:
    posterior, masses = staff()
    kept = SEX != 1
    part = Posterior.of_arrays(STAFF, Records(columns=tuple(codes[kept] for codes in RECORDS.columns)),
                               masses[:, kept] / masses[:, kept].sum(axis=1, keepdims=True))  # fmt: skip
    assert [row.name for row in part.regress("wage ~ C(sex)").rows] == ["Intercept", "C(sex)[T.x]"]
    assert part.regress("wage ~ C(sex)")["Intercept"].mean == pytest.approx(
        posterior.given("sex", "f").evaluate("mean", column="wage").mean()
    )


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("wage ~ size", "there is no column 'size'"),
        ("wage", "has no outcome"),
        ("age + wage", "has no outcome"),
        ("wage ~ (age", "cannot be used"),
        ("wage ~ np.nothing(age)", "'np.nothing' is neither a column nor anything else that a formula may use"),
        ("wage ~ age + I(2 * age)", re.escape("'I(2 * age)' is not determined")),
        ("wage + age ~ sex", "one column of numbers"),
        ("sex ~ age", "one column of numbers"),
        ("np.log(age - 20) ~ wage", "is not finite"),
        ("wage ~ town", "open labels"),
    ],
)
def test_wrong_formulas(formula: str, said: str) -> None:
    domain = Domain(columns={**STAFF.columns, "town": OpenLabels()})
    towns = np.array(["a"] * SIZE, dtype=object)
    posterior = Posterior.of_arrays(domain, Records(columns=(*RECORDS.columns, towns)), np.full((1, SIZE), 1 / SIZE))
    with pytest.raises(ParameterError, match=said):
        posterior.regress(formula)


@pytest.mark.parametrize(
    "part",
    ["I(age * __import__('os').mkdir('x'))", "{open('x', 'w')}", "I([w for w in age])", "I((lambda: age)())",
     "age.__class__", "I(age.tofile('x'))", "np.load('x')", "np.random.rand(3)", "lag(age)", "I(print)",
     "C(sex, contr.os('x'))", "(age.x).y(1)", "I(f'{age}')", "I((w := age))"],
)  # fmt: skip
def test_a_formula_runs_no_code(part: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    posterior, _ = staff(2)
    for formula in (f"wage ~ {part}", f"{part} ~ wage"):
        with pytest.raises(ParameterError):
            posterior.regress(formula)
    assert list(tmp_path.iterdir()) == []


def test_other_wrong_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    posterior, _ = staff(2)
    with pytest.raises(ParameterError, match="must be 0 or 1"):
        posterior.regress("wage ~ age", kind="logistic")
    with pytest.raises(ParameterError, match="kind"):
        posterior.regress("wage ~ age", kind="probit")
    with pytest.raises(ParameterError, match="level"):
        posterior.regress("wage ~ age", level=2)
    monkeypatch.setitem(sys.modules, "formulaic", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'discreet[formula]'")):
        posterior.regress("wage ~ age")


def test_records_with_the_label_of_what_is_not_declared_are_left_out() -> None:
    """Coefficients are those of a domain without that label, at the masses of its cells, also behind a function."""
    open_ended = Domain(
        columns={
            "wage": Integer(lower=1, upper=4),
            "sex": Category(categories=["f", "m", "x"], out_of_bounds="other"),
            "rich": Category(categories=["no", "yes"], out_of_bounds="other"),
        }
    )
    plain = Domain(
        columns={
            "wage": Integer(lower=1, upper=4),
            "sex": Category(categories=["f", "m", "x"]),
            "rich": Category(categories=["no", "yes"]),
        }
    )
    posterior, masses = on_cells(open_ended)
    records = open_ended.unflat(np.arange(open_ended.size or 0))
    fit = (np.asarray(records.columns[1]) < 3) & (np.asarray(records.columns[2]) < 2)
    held = Records(columns=tuple(np.asarray(codes)[fit] for codes in records.columns))
    shares = masses[:, fit] / masses[:, fit].sum(axis=1, keepdims=True)
    alone = Posterior.of_arrays(plain, held, shares)
    for formula in ("rich ~ wage + sex", "I(rich == 'yes') ~ wage + sex", "wage ~ sex + rich"):
        assert coefficients(posterior, formula) == pytest.approx(coefficients(alone, formula), rel=1e-6)
    found = regression(open_ended, posterior.support, posterior._blocks(), "rich ~ wage + sex", None)
    assert "records with 'other', which stands for values not declared, are left out: rich, sex" in found.notes
    assert "log-odds of rich = yes" in found.notes[0]
