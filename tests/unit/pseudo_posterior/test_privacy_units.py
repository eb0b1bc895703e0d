"""Units of several records: bounds are those of all records of a unit together, by enumeration and closed forms."""

import itertools
import json
import math

import numpy as np
import polars as pl
import pytest
from exact_laws import censored_law, errors_from, log_poisson

from discreet import release
from discreet._core.random import seeded
from discreet.audit.release import claimed
from discreet.confidential import confidential
from discreet.domain import Domain, Integer, Numeric
from discreet.errors import DomainError, ParameterError
from discreet.pseudo_posterior import CensoredPosterior, LinearWeights, PoissonMean, PseudoPosterior, synthesiser_for
from discreet.pseudo_posterior.censored import margin
from discreet.releases import Certificate, verify

pytestmark = pytest.mark.chains

THETAS = np.linspace(0.5, 6.0, 12)
VALUES = np.array([0.0, 1.0, 4.0])
LOGS = log_poisson(VALUES, THETAS[:, None])
BOUND = 6.0
HOUSES = np.repeat(np.arange(60), seeded(1).integers(1, 5, size=60))
COUNTS = seeded(2).poisson(20.0, size=len(HOUSES)).astype(float)


def law(units: list[tuple[int, ...]], each: bool) -> np.ndarray:
    """Return the posterior of a table of units, every record of which has a share of the bound, or all of it."""
    logs = [np.maximum(LOGS[:, v], -BOUND / (1 if each else len(unit))) for unit in units for v in unit]
    return censored_law(np.stack(logs, axis=1), bound=BOUND, log_prior=-0.5 * THETAS)


def test_the_bound_holds_for_all_neighbouring_units_and_not_where_each_record_has_it() -> None:
    pairs, other = list(itertools.combinations_with_replacement(range(3), 2)), (0, 1, 2)
    worst = {each: max(np.ptp(np.log(law([a, other], each) / law([b, other], each))) for a in pairs for b in pairs)
             for each in (False, True)}  # fmt: skip
    assert 1.2 * BOUND < worst[False] <= 2 * BOUND + 1e-9
    assert worst[True] > 2 * BOUND


def test_draws_on_a_grid_have_that_law() -> None:
    """Frequencies of 4,000 draws within 5 standard errors of the enumerated law, and not of that of records."""
    units = [(0, 2), (1, 2, 2), (2,)]
    columns = {
        "y": VALUES[[v for unit in units for v in unit]],
        "house": np.repeat([7, 3, 5], [len(unit) for unit in units]),
    }
    mechanism = CensoredPosterior(PoissonMean(column="y", shape=1.0, rate=0.5), bound=BOUND, unit="house",
                                  grid={"mean": THETAS}, tables=4000)  # fmt: skip
    drawn = mechanism.fit(columns, rng=seeded(3)).values["mean"]
    right, wrong = law(units, each=False), law(units, each=True)
    assert errors_from(right, THETAS, drawn) < 5 < errors_from(wrong, THETAS, drawn)


@pytest.mark.parametrize("bound", [2.0**-24, 1.0, 2.0**10])
def test_rounding_the_records_of_a_unit_stays_within_the_margin(bound) -> None:
    """The largest unit: half a unit of rounding per record, in nats and on both sides."""
    assert 2 * (2**14 / 2) * bound / 2**36 < margin(bound)


def test_risks_weights_and_bound_are_those_of_units() -> None:
    mechanism = PseudoPosterior(PoissonMean(column="y"), weighting=LinearWeights(c=0.5, g=0.3), unit="house")
    fitted = mechanism.fit({"y": COUNTS, "house": HOUSES}, rng=seeded(4))

    def together(draws, weights):
        ends = np.quantile(draws.values["mean"], np.linspace(0, 1, 4001))[:, None]  # every draw
        logs = log_poisson(COUNTS, ends)
        sums = np.stack([logs[:, unit == HOUSES].sum(axis=1) for unit in range(60)], axis=1)
        return np.abs(weights * sums).max(axis=0)

    risks = together(fitted.unweighted, 1.0)
    assert fitted.risks.by_record == pytest.approx(risks, rel=2e-4)
    relative = (risks - risks.min()) / np.ptp(risks)
    assert fitted.weights == pytest.approx(0.5 * (1 - relative) + 0.3, abs=2e-4)
    assert fitted.lipschitz == pytest.approx(together(fitted.draws, fitted.weights).max(), rel=2e-4)
    alpha, mean = fitted.weights[HOUSES], fitted.draws.values["mean"]
    shape, rate = 0.01 + alpha @ COUNTS, 0.0001 + alpha.sum()
    assert abs(mean.mean() - shape / rate) < 5 * math.sqrt(shape) / rate / math.sqrt(len(mean))
    records = (alpha * np.abs(log_poisson(COUNTS, mean[0]))).max()
    assert fitted.lipschitz > 1.5 * records  # what a twin states that takes the worst record for the worst unit


def test_a_target_is_met_by_units() -> None:
    mechanism = PseudoPosterior(PoissonMean(column="y"), target_epsilon=8.0, unit="house")
    fitted = mechanism.calibrated_fit({"y": COUNTS, "house": HOUSES}, rng=seeded(5))
    assert 0.8 * 8.0 <= 1.1 * fitted.epsilon <= 8.0
    promise = mechanism.guarantee(n=100_000)
    assert any("raised by 1.1 " in str(text).replace(",", " ") for text in promise.assumptions)
    assert any("all records with one value of house together" in str(text) for text in promise.caveats)


def test_the_column_of_units_is_not_released(tmp_path) -> None:
    domain = Domain(columns={"house": Integer(lower=0, upper=99), "y": Integer(lower=0, upper=99),
                             "w": Numeric(lower=0, upper=10)})  # fmt: skip
    held = pl.DataFrame({"house": HOUSES, "y": COUNTS.astype(int), "w": np.full(len(HOUSES), 2.0)})
    model = synthesiser_for(domain, ("y",), model="poisson", unit="house", survey_weight="w")
    mechanism = CensoredPosterior(model, bound=1.0, unit="house", survey_weight="w", survey_mean=2.0,
                                  grid={"mean": np.linspace(5.0, 40.0, 50)})  # fmt: skip
    folder = release(confidential(held, domain), mechanism=mechanism, out=tmp_path / "out").path
    assert pl.read_parquet(folder / "table-01.parquet").columns == ["y"]
    facts = json.loads((folder / "certificate.json").read_text())
    assert facts["mechanism"]["parameters"]["unit"] == "house"
    with pytest.raises(ParameterError, match="a model's claim about units cannot be audited"):
        claimed(tmp_path / "out")
    assert facts["guarantee"]["epsilon"] == 2.0
    statement = Certificate.read(folder).statement
    assert "which of two sets of values the records with one value of house have detects" in statement
    assert all(check.agrees for check in verify(folder))


def test_declarations_of_units_that_do_not_fit_are_refused() -> None:
    model = PoissonMean(column="y")
    for make in (lambda: PseudoPosterior(model, unit="y"), lambda: CensoredPosterior(model, bound=1.0, unit="y")):
        with pytest.raises(ParameterError, match="cannot be synthesised and name the unit"):
            make()
    mechanism = PseudoPosterior(model, target_epsilon=5.0, unit="house")
    with pytest.raises(ParameterError, match="no column 'house'"):
        mechanism.fit({"y": COUNTS}, rng=seeded(0))
    nulls = Integer(lower=0, upper=9, nulls="category")
    with pytest.raises(DomainError, match="every record needs a unit"):
        mechanism.on(Domain(columns={"y": Integer(lower=0, upper=9), "house": nulls}))
    with pytest.raises(ParameterError, match="at most 16,384 records"):
        mechanism.fit({"y": np.ones(16385), "house": np.ones(16385)}, rng=seeded(0))
