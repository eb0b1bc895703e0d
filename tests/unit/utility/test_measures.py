"""Every measure of compare() against a direct computation, and the baselines beside it."""

import datetime as dt
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import pearsonr
from scipy.stats.contingency import association

from discreet._core.random import seeded
from discreet.confidential import reveal_to_custodian
from discreet.domain import Boolean, Category, Date, Datetime, Decimal, Domain, Duration, Integer, Numeric, OpenLabels
from discreet.errors import DataError, ParameterError
from discreet.utility import columns as columns_module
from discreet.utility import (
    compare,
    hellinger,
    kde_l2,
    ks_distance,
    pmse,
    total_variation,
    transport_distance,
    wasserstein_1d,
)
from discreet.utility import measures as module
from discreet.utility.measures import MEASURES, _marginals

DOMAIN = Domain(
    columns={
        "x": Numeric(lower=0, upper=10, nulls="category"),
        "age": Integer(lower=0, upper=99),
        "ward": Category(categories=("a", "b", "c")),
        "job": OpenLabels(),
    },
    metric_weights={"age": 2.0},
)
SINGLE = Domain(columns={"age": Integer(lower=0, upper=99)})


def _table(seed: int, count: int, shift: float = 0.0) -> pl.DataFrame:
    rng = seeded(seed)
    age = np.clip(rng.normal(40 + shift, 15, count).round(), 0, 99).astype(int)
    x = np.clip(age / 15 + rng.normal(0, 1, count), 0, 10)
    return pl.DataFrame(
        {
            "x": [None if gone else value for gone, value in zip(rng.random(count) < 0.1, x, strict=True)],
            "age": age,
            "ward": np.array(["a", "b", "c"])[np.clip(age // 30 + rng.integers(0, 2, count), 0, 2)],
            "job": [f"job {k}" for k in rng.integers(0, 5, count)],
        }
    )


def _measured(*tables: Any, domain: Domain = DOMAIN, **options: Any) -> dict[tuple[str, str], Any]:
    options = {"resamples": 0, "measures": "all", "rng": seeded(1)} | options
    comparison = reveal_to_custodian(compare(tables[0], tables[1], domain, **options))
    return {(one.measure, one.of): one for one in comparison.measures}


DATA, RELEASE = _table(1, 300), _table(2, 200, shift=6)


def test_columns_against_the_functions() -> None:
    found = _measured(DATA, RELEASE)
    ages = DATA["age"] / 99.0, RELEASE["age"] / 99.0
    known = DATA["x"].drop_nulls() / 10.0, RELEASE["x"].drop_nulls() / 10.0
    for name, function in {"w1": wasserstein_1d, "ks": ks_distance, "kde-l2": kde_l2}.items():
        assert found[name, "age"].release == pytest.approx(function(*ages), rel=1e-9)
        assert found[name, "x"].release == pytest.approx(function(*known), rel=1e-9)
        assert (name, "ward") not in found
    for name, function in {"tv": total_variation, "hellinger": hellinger}.items():
        for column in ("ward", "job"):
            assert found[name, column].release == pytest.approx(function(DATA[column], RELEASE[column]), rel=1e-9)
        ranges = [frame["age"].to_numpy() * 20 // 100 for frame in (DATA, RELEASE)]
        assert found[name, "age"].release == pytest.approx(function(*ranges), rel=1e-9)
        ranges = [(frame["x"] * 2).fill_null(-1).floor().clip(-1, 19).to_numpy() for frame in (DATA, RELEASE)]
        assert found[name, "x"].release == pytest.approx(function(*ranges), rel=1e-9)


def test_all_columns_against_the_functions() -> None:
    pytest.importorskip("ot")
    found = _measured(DATA, RELEASE)
    jobs = {label: code for code, label in enumerate(sorted({*DATA["job"], *RELEASE["job"]}))}
    rows = [
        np.column_stack(
            (
                frame["x"].cast(pl.Float64).fill_null(float("nan")) / 10.0,
                frame["age"] / 99.0,
                frame["ward"].replace_strict({"a": 0, "b": 1, "c": 2}),
                frame["job"].replace_strict(jobs),
            )
        )
        for frame in (DATA, RELEASE)
    ]
    direct = transport_distance(*rows, ordered=[True, True, False, False], column_weights=[1.0, 2.0, 1.0, 1.0])
    assert found["transport", "all columns"].release == pytest.approx(direct, rel=1e-9)
    assert "exact" in found["transport", "all columns"].how
    assert 0 < found["pmse", "all columns"].release < 0.24


def test_marginals_and_correlations() -> None:
    columns = ["age", "ward", "job"]
    domain = Domain(columns={name: DOMAIN.columns[name] for name in columns})
    found = _measured(DATA, RELEASE, domain=domain)
    texts = [frame.with_columns(pl.col("age") * 20 // 100).cast(pl.String) for frame in (DATA, RELEASE)]
    pairs = [("age", "ward"), ("age", "job"), ("ward", "job")]
    direct = [
        total_variation(*(frame.select(pl.concat_str(pair, separator="|")).to_series() for frame in texts))
        for pair in pairs
    ]
    assert found["marginals-2", "3 marginals of 2 columns, mean"].release == pytest.approx(np.mean(direct))
    assert found["marginals-2", "3 marginals of 2 columns, largest"].release == pytest.approx(max(direct))
    assert found["marginals-3", "1 marginal of 3 columns, mean"].release >= max(direct) - 1e-12

    def eta(frame: pl.DataFrame, label: str) -> float:
        age = frame["age"].to_numpy().astype(float)
        between = [(age[frame[label].to_numpy() == c].mean() - age.mean()) ** 2 for c in frame[label]]
        return float(np.sqrt(np.mean(between) / age.var()))

    gaps = [abs(eta(DATA, label) - eta(RELEASE, label)) for label in ("ward", "job")]
    tables = [frame.pivot("job", index="ward", values="age", aggregate_function="len").drop("ward").fill_null(0)
              for frame in (DATA, RELEASE)]  # fmt: skip
    gaps.append(abs(np.subtract(*(association(table.to_numpy(), method="cramer") for table in tables))))
    assert found["correlation", "3 pairs of columns, mean"].release == pytest.approx(np.mean(gaps), rel=1e-9)
    assert found["correlation", "3 pairs of columns, largest"].release == pytest.approx(max(gaps), rel=1e-9)


def test_correlation_of_ordered_columns_is_pearsons() -> None:
    domain = Domain(columns={name: DOMAIN.columns[name] for name in ("x", "age")})
    found = _measured(DATA, RELEASE, domain=domain)
    r = [pearsonr(*(frame.drop_nulls()[name] for name in ("x", "age"))).statistic for frame in (DATA, RELEASE)]
    assert found["correlation", "1 pair of columns, mean"].release == pytest.approx(abs(r[0] - r[1]), rel=1e-9)


def test_a_table_is_at_distance_zero_of_itself_in_any_order() -> None:
    for one in _measured(DATA, DATA.sample(fraction=1.0, shuffle=True, seed=3)).values():
        assert one.release == pytest.approx(0, abs=1e-7), one.measure


def test_bootstrap_is_the_same_measure_of_resampled_records() -> None:
    """300 samples of 50 records from a fair coin: W1 = |p - 1/2|, mean sqrt(2 / (pi 200)) within 6 standard errors."""
    coin = Domain(columns={"age": Integer(lower=0, upper=1)})
    data, release = pl.DataFrame({"age": [0, 1] * 500}), pl.DataFrame({"age": [0, 1] * 25})
    found = _measured(data, release, domain=coin, measures="w1", resamples=300)["w1", "age"]
    mean, low, high = found.bootstrap
    deviation = 0.5 / np.sqrt(50)
    assert found.release == 0.0
    assert mean == pytest.approx(deviation * np.sqrt(2 / np.pi), abs=6 * deviation * np.sqrt((1 - 2 / np.pi) / 300))
    assert low <= 0.02
    assert high == pytest.approx(2.24 * deviation, abs=0.04)


def test_holdout_is_measured_like_a_release_and_asks_for_all_measures() -> None:
    held = _table(5, 250)
    beside = _measured(DATA, RELEASE, holdout=held, measures=None)
    alone = _measured(DATA, held)
    assert {name for name, _ in beside} == set(MEASURES)
    for key, one in beside.items():
        assert one.holdout == pytest.approx(alone[key].release, rel=1e-9, abs=1e-12)
        assert one.bootstrap is None
    with pytest.raises(DataError, match="in the holdout: a value lies outside"):
        compare(DATA, RELEASE, DOMAIN, holdout=held.with_columns(age=pl.lit(500)))


def test_large_tables_are_sliced_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = _measured(DATA, RELEASE, measures="transport")["transport", "all columns"]
    monkeypatch.setattr(module, "_PAIRS", 100)
    sliced = _measured(DATA, RELEASE, measures="transport", resamples=2)["transport", "all columns"]
    assert sliced.how.startswith("sliced W1 over 100 directions, at most W1")
    assert 0 < sliced.release < exact.release


def test_one_column_has_no_measures_of_pairs() -> None:
    found = _measured(DATA, RELEASE, domain=SINGLE)
    assert {name for name, _ in found} == {"w1", "ks", "tv", "hellinger", "kde-l2", "pmse"}


def test_nothing_but_nulls_has_no_distance_on_the_line() -> None:
    gone = RELEASE.with_columns(x=pl.lit(None, dtype=pl.Float64))
    found = _measured(DATA, gone)
    assert ("w1", "x") not in found
    assert found["tv", "x"].release > 0.5


def test_every_kind_of_column_has_every_measure() -> None:
    """Dates, times, durations, decimals, booleans, ordered categories, clipped and null values."""
    start = dt.datetime.fromisoformat("2024-01-01T00:00")
    domain = Domain(
        columns={
            "day": Date(lower="2024-01-01", upper="2024-03-31"),
            "moment": Datetime(lower="2024-01-01", upper="2024-03-31", step="1h", nulls="category"),
            "stay": Duration(lower="0s", upper="100m", step="1m"),
            "price": Decimal(lower="0", upper="99.99", digits=2),
            "ill": Boolean(nulls="category"),
            "level": Category(categories=("lo", "mid", "hi"), ordered=True),
            "x": Numeric(lower=0, upper=50, out_of_bounds="clip"),
            "cell": Numeric(lower=0, upper=100, cells=40, out_of_bounds="clip"),
        }
    )

    def table(seed: int) -> pl.DataFrame:
        k = seeded(seed).integers(0, 90, 60)
        return pl.DataFrame(
            {
                "day": [start.date() + dt.timedelta(days=int(i)) for i in k],
                "moment": [None if i % 7 == 0 else start + dt.timedelta(days=int(i)) for i in k],
                "stay": [dt.timedelta(minutes=int(i)) for i in k],
                "price": pl.Series([f"{i}.25" for i in k]).cast(pl.Decimal(10, 2)),
                "ill": [None if i % 5 == 0 else bool(i % 2) for i in k],
                "level": [("lo", "mid", "hi")[i % 3] for i in k],
                "x": k.astype(float),
                "cell": k * 2.0,
            }
        )

    found = _measured(table(1), table(2), domain=domain, resamples=2)
    assert {name for name, _ in found} == set(MEASURES)
    assert {of for name, of in found if name == "w1"} == set(domain.names) - {"ill"}
    assert all(0 < one.release < np.inf for one in found.values())
    assert found["w1", "stay"].release == pytest.approx(found["w1", "day"].release * 90 / 100, rel=1e-9)
    assert found["tv", "cell"].how.startswith("labels; ordered columns in at most 20")


def test_a_constant_column_has_no_density() -> None:
    same, other = pl.DataFrame({"age": [5, 5]}), pl.DataFrame({"age": [6, 7]})
    found = _measured(same, other, domain=SINGLE, resamples=2)
    assert ("kde-l2", "age") not in found
    assert found["w1", "age"].release == pytest.approx(1.5 / 99)


def test_many_columns_of_many_labels_are_numbered_when_a_product_would_not_fit() -> None:
    """Eight open columns of 1000 labels: 10^24 combinations."""
    rng = seeded(7)
    domain = Domain(columns={f"c{i}": OpenLabels() for i in range(8)})
    tables = [
        pl.DataFrame({f"c{i}": [f"l{k}" for k in rng.integers(0, 1000, 1500)] for i in range(8)}) for _ in range(2)
    ]
    rows = columns_module.tables(
        [(table, "") for table in tables], domain, lambda t: (t, np.ones(t.height, dtype=np.int64))
    )
    assert set(_marginals(8)(*rows).values()) == {1.0}
    assert set(_marginals(8)(rows[0], rows[0]).values()) == {0.0}


def test_text_and_plain_data_show_every_number() -> None:
    comparison = reveal_to_custodian(compare(DATA, RELEASE, DOMAIN, measures=["ks", "tv"], resamples=3))
    text = str(comparison)
    assert "Measures, beside those of bootstrap samples" in text
    assert "  ks: nulls left out" in text
    plain = comparison.to_dict()["measures"]
    assert [one["measure"] for one in plain] == ["ks"] * 2 + ["tv"] * 4
    assert reveal_to_custodian(compare(DATA, RELEASE, DOMAIN)).measures == ()


def test_refuses_unknown_measures_and_numbers() -> None:
    with pytest.raises(ParameterError, match="unknown measure 'w2'. The measures are: all, w1"):
        compare(DATA, RELEASE, DOMAIN, measures="w2")
    for resamples in (-1, True, 1.5):
        with pytest.raises(ParameterError, match="resamples"):
            compare(DATA, RELEASE, DOMAIN, measures="ks", resamples=resamples)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_scikit_learn(seed: int) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = seeded(seed)
    x, y = rng.normal(size=(60, 3)), rng.normal(0.4, 1.3, size=(90, 3))
    p, q = rng.integers(1, 5, 60), rng.integers(1, 5, 90)
    features, labels, weights = np.concatenate((x, y)), np.repeat((0, 1), (60, 90)), np.concatenate((p, q))
    centred = features - np.average(features, axis=0, weights=weights)
    centred /= np.sqrt(np.average(centred**2, axis=0, weights=weights))
    model = linear_model.LogisticRegression(C=1e6 / weights.sum(), tol=1e-12, max_iter=10_000)
    fitted = model.fit(centred, labels, sample_weight=weights).predict_proba(centred)[:, 1]
    oracle = np.average((fitted - q.sum() / weights.sum()) ** 2, weights=weights)
    assert pmse(x, y, x_weights=p, y_weights=q) == pytest.approx(oracle, rel=1e-6)


def test_its_mean_without_difference() -> None:
    """x and y of one law, c = 1/2, 3 features: the mean is near k c (1 - c) / N of two samples.

    N pMSE / (c (1 - c)) is close to chi-squared with 3 degrees of freedom, divided by 1: mean 3, standard deviation
    sqrt(6) a run. 200 runs: the mean lies within 6 standard errors but for one time in 1e8, and 5 % for the
    approximation.
    """
    rng = seeded(6)
    runs = [400 * pmse(rng.normal(size=(200, 3)), rng.normal(size=(200, 3))) / 0.25 for _ in range(200)]
    assert np.mean(runs) == pytest.approx(3, abs=6 * np.sqrt(6 / 200) + 0.15)


def test_ends_of_its_range() -> None:
    rng = seeded(7)
    x = rng.normal(size=(50, 2))
    assert pmse(x, x) == pytest.approx(0, abs=1e-15)
    assert pmse(x, x + 100) == pytest.approx(0.25, rel=1e-2)
    assert pmse(x, np.tile(x, (3, 1)) + 100) == pytest.approx(0.75 * 0.25, rel=1e-2)
    assert pmse(np.ones((5, 1)), np.ones((7, 1))) == pytest.approx(0, abs=1e-15)
    assert pmse(np.zeros((5, 0)), np.zeros((7, 0))) == pytest.approx(0, abs=1e-15)
    collinear = np.column_stack((x, x))
    assert pmse(collinear, collinear[:10]) == pytest.approx(pmse(x, x[:10]), rel=1e-3)


def test_weights_stand_for_repetitions() -> None:
    rng = seeded(8)
    x, y, p = rng.normal(size=(20, 2)), rng.normal(1, 1, size=(30, 2)), rng.integers(0, 4, 20)
    assert pmse(x, y, x_weights=p) == pytest.approx(pmse(np.repeat(x, p, axis=0), y), rel=1e-9)


def test_refuses_what_are_no_tables() -> None:
    for bad in (np.zeros(3), np.zeros((0, 2)), np.zeros((3, 1))):
        with pytest.raises(ParameterError, match="same features"):
            pmse(bad, np.zeros((3, 2)))
