"""Several tables: combining rules by hand and in worlds whose truth is known, estimates, and ranks of the truth."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from scipy.stats import binomtest

from discreet import Budget, read, release
from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.domain import Category, Counts, Domain, Integer
from discreet.errors import FileProblem, ParameterError
from discreet.inference import combine, posterior
from discreet.inference.several_tables import SeveralTables
from discreet.mechanisms import Marginals, measured_tables
from discreet.mechanisms.measured_tables import MeasuredTables
from discreet.releases.release import Release


def test_fully_synthetic_by_hand() -> None:
    # M = 3, q = 1, 2, 3: b = 1, (1 + 1/3) b = 4/3; u = 0.3: T = 4/3 - 0.3, nu = 2 (1 - 0.3 / (4/3))^2.
    made = combine([1.0, 2.0, 3.0], [0.2, 0.3, 0.4], kind="fully", level=0.9)
    assert (made.estimate, made.between) == (2.0, 1.0)
    assert made.variance == pytest.approx(4 / 3 - 0.3)
    assert made.degrees == pytest.approx(2 * (1 - 0.225) ** 2)
    reach = stats.t.ppf(0.95, made.degrees) * math.sqrt(made.variance)
    assert (made.lower, made.upper) == (pytest.approx(2 - reach), pytest.approx(2 + reach))


def test_fully_synthetic_where_the_variance_would_be_negative() -> None:
    made = combine([1.0, 1.1], [0.5, 0.5], kind="fully", size=200, n=100)
    assert made.adjusted
    assert made.variance == pytest.approx(1.0)
    assert made.upper - made.estimate == pytest.approx(stats.norm.ppf(0.975))
    less = combine([1.0, 1.1, 1.2], [0.0099] * 3, kind="fully", size=100, n=100)  # T = 0.0133 - 0.0099
    assert less.adjusted
    assert (less.variance, less.degrees) == (pytest.approx(0.0099), math.inf)


def test_partially_synthetic_by_hand() -> None:
    made = combine([1.0, 2.0, 3.0], [0.3, 0.3, 0.3], kind="partially")
    assert made.variance == pytest.approx(0.3 + 1 / 3)
    assert made.degrees == pytest.approx(2 * (1 + 0.3 * 3) ** 2)
    same = combine([2.0, 2.0], [0.25, 0.25], kind="partially")
    assert (same.degrees, same.upper - 2.0) == (math.inf, pytest.approx(0.5 * stats.norm.ppf(0.975)))


def test_the_urns_rule_by_hand() -> None:
    made = combine([0.5], [0.01], kind="urn", size=100, n=50)
    assert made.variance == pytest.approx(0.01 * (1 + 2 * 100 / 50))
    many = combine([0.5, 0.5], [0.01, 0.01], kind="urn", size=100, n=50)
    assert many.variance == pytest.approx(0.01 * (2 + 3 / 2))


def _worlds(tables: int, n: int, m: int, worlds: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return estimates and naive variances, (worlds, tables): Dirichlet-multinomial releases of a share of 0.3."""
    rng = seeded(seed)
    held = rng.binomial(n, 0.3, size=worlds)[:, None]
    p = rng.beta(0.5 + held, 0.5 + n - held, size=(worlds, tables))
    shares = rng.binomial(m, p) / m
    return shares, shares * (1 - shares) / m


# The share of 1,000 worlds that a 95 % interval covers has a standard deviation of 0.0069: the bounds are six of them.
@pytest.mark.parametrize("tables", [1, 5])
def test_the_urns_rule_covers(tables) -> None:
    q, u = _worlds(tables, 500, 500, 1000, 1)
    made = [combine(a, b, kind="urn", size=500, n=500) for a, b in zip(q, u, strict=True)]
    covered = np.mean([c.lower <= 0.3 <= c.upper for c in made])
    assert 0.95 - 0.042 < covered < 0.95 + 0.042
    naive = [combine(a[:1], b[:1], kind="urn", size=1, n=10**9) for a, b in zip(q, u, strict=True)]
    assert np.mean([c.lower <= 0.3 <= c.upper for c in naive]) < 0.80  # taken for a sample: 74 %


def test_the_fully_synthetic_rule_covers() -> None:
    q, u = _worlds(20, 500, 500, 1000, 2)
    made = [combine(a, b, kind="fully", size=500, n=500) for a, b in zip(q, u, strict=True)]
    covered = np.mean([c.lower <= 0.3 <= c.upper for c in made])
    assert covered > 0.95 - 0.042  # conservative with few tables


def test_the_partially_synthetic_rule_covers() -> None:
    # Half of each table is confidential records as they are, half is drawn anew from the posterior given all of them.
    rng, n, tables = seeded(3), 1000, 5
    x = rng.binomial(1, 0.3, size=(1000, n))
    held = x.sum(axis=1)[:, None]
    p = rng.beta(0.5 + held, 0.5 + n - held, size=(1000, tables))
    shares = (x[:, : n // 2].sum(axis=1)[:, None] + rng.binomial(n // 2, p)) / n
    made = [combine(a, b, kind="partially") for a, b in zip(shares, shares * (1 - shares) / n, strict=True)]
    assert np.mean([c.lower <= 0.3 <= c.upper for c in made]) > 0.95 - 0.042


@pytest.mark.parametrize(
    "wrong",
    [
        {"estimates": [1.0], "variances": [0.1], "kind": "fully"},
        {"estimates": [1.0], "variances": [0.1], "kind": "urn"},
        {"estimates": [1.0, 2.0], "variances": [0.1], "kind": "fully"},
        {"estimates": [1.0, 2.0], "variances": [0.1, -0.1], "kind": "fully"},
        {"estimates": [1.0, 2.0], "variances": [0.1, 0.1], "kind": "other"},
    ],
)
def test_what_cannot_be_combined_is_refused(wrong) -> None:
    with pytest.raises(ParameterError):
        combine(wrong["estimates"], wrong["variances"], kind=wrong["kind"])


COLUMNS = Domain(
    columns={"x": Integer(lower=0, upper=9), "y": Category(categories=["a", "b"]), "z": Integer(lower=0, upper=9)}
)
ROWS, SEVERAL = 800, 4


@pytest.fixture(scope="module")
def data() -> pl.DataFrame:
    rng = np.random.default_rng(0)
    x = np.minimum(9, rng.poisson(3.0, 3000))
    return pl.DataFrame(
        {"x": x, "y": np.where(rng.random(3000) < 0.3, "a", "b"), "z": np.clip(x + rng.integers(-1, 2, 3000), 0, 9)}
    )


@pytest.fixture(scope="module")
def released(data: pl.DataFrame) -> Release:
    return release(
        data, COLUMNS, Budget(epsilon=3.0, delta=1e-6), size=ROWS, mechanism="marginals", tables=SEVERAL, seed=1
    )


def test_means_and_shares_are_those_of_each_table_combined(released: Release) -> None:
    tables = released.records
    found = released.estimate(["mean", "P(>4)"], column="x")
    means = [float(table["x"].mean()) for table in tables]
    wanted = combine(means, [float(t["x"].var(ddof=0)) / ROWS for t in tables], kind="fully", size=ROWS, n=3000)
    assert found["mean"].mean == pytest.approx(wanted.estimate)
    assert (found["mean"].lower, found["mean"].upper) == (pytest.approx(wanted.lower), pytest.approx(wanted.upper))
    above = np.array([float((table["x"] > 4).mean()) for table in tables])
    wanted = combine(above, above * (1 - above) / ROWS, kind="fully", size=ROWS, n=3000)
    assert found["P(>4)"].lower == pytest.approx(max(0.0, wanted.lower))
    assert "Raghunathan, Reiter and Rubin" in found.notes[0]
    assert found["mean"].effective_draws == SEVERAL
    label = released.estimate(["P(=a)"], column="y")["P(=a)"]
    assert label.mean == pytest.approx(float(np.mean([(table["y"] == "a").mean() for table in tables])))


def test_a_bootstrap_gives_the_variance_that_the_formula_does(released: Release) -> None:
    def mean_of_x(values: Any, weights: Any) -> Any:
        return (values * weights).sum(axis=1)

    by_formula = released.estimate(["mean"], column="x")["mean"]
    resampled = released.estimate([mean_of_x], column="x")["mean_of_x"]
    assert resampled.mean == pytest.approx(by_formula.mean)
    # The mean variance of 400 resamples is within 25 % of its formula; how much of the whole it is, follows from sd.
    within = float(np.mean([float(table["x"].var()) / ROWS for table in released.records]))
    assert abs(resampled.sd**2 - by_formula.sd**2) < 0.25 * within


def test_functions_of_several_columns(released: Release) -> None:
    def slope(columns: Any, weights: Any) -> Any:
        x, z = columns["x"], columns["z"]
        centre = (weights * x).sum(axis=1, keepdims=True)
        return (weights * (x - centre) * z).sum(axis=1) / (weights * (x - centre) ** 2).sum(axis=1)

    found = released.estimate([slope])["slope"]
    each = [np.polyfit(table["x"].to_numpy(), table["z"].to_numpy(), 1)[0] for table in released.records]
    assert found.mean == pytest.approx(float(np.mean(each)))
    assert abs(found.mean - 0.95) < 0.1


def test_groups_are_those_of_each_table_combined(released: Release) -> None:
    found = released.estimate(["mean", "P(>4)"], column="x", by="y")
    assert [(row.group, row.name) for row in found.rows] == [
        ("a", "mean"), ("a", "P(>4)"), ("b", "mean"), ("b", "P(>4)")
    ]  # fmt: skip
    for row in found.rows:
        parts = [table.filter(pl.col("y") == row.group)["x"] for table in released.records]
        values = [part if row.name == "mean" else (part > 4) for part in parts]
        assert row.mean == pytest.approx(float(np.mean([value.mean() for value in values])))
        assert row.share == pytest.approx(float(np.mean([len(part) / ROWS for part in parts])))
        within = [float(value.cast(pl.Float64).var(ddof=0)) / len(value) for value in values]
        wanted = combine([float(v.mean()) for v in values], within, kind="fully", size=ROWS, n=3000)
        assert row.sd**2 == pytest.approx(wanted.variance, abs=0.4 * wanted.within)  # of 100 resamples in each table


def test_a_function_without_a_number_is_refused(released: Release) -> None:
    with pytest.raises(ParameterError, match="one finite estimate"):
        released.estimate([lambda values, weights: np.full(len(weights), np.nan)], column="x")


def test_a_regression_is_that_of_each_table_combined(released: Release) -> None:
    pytest.importorskip("formulaic")
    found = released.regress("z ~ x + C(y)")
    each, within = [], []
    for table in released.records:
        design = np.column_stack([np.ones(ROWS), table["x"], table["y"] == "b"])
        bread = np.linalg.inv(design.T @ design)
        each.append(bread @ design.T @ table["z"].to_numpy())
        pulls = design * (table["z"].to_numpy() - design @ each[-1])[:, None]
        within.append(np.diag(bread @ (pulls.T @ pulls) @ bread))
    assert [row.name for row in found.rows] == ["Intercept", "x", "C(y)[T.b]"]
    for row, estimates, variances in zip(found.rows, np.transpose(each), np.transpose(within), strict=True):
        wanted = combine(estimates, variances, kind="fully", size=ROWS, n=3000)
        assert row.mean == pytest.approx(wanted.estimate)
        assert row.sd**2 == pytest.approx(wanted.variance, abs=0.6 * wanted.within)  # of 25 resamples in each table
    assert released.regress("y ~ x").rows[1].name == "x"  # logistic
    with pytest.raises(ParameterError, match="no column"):
        released.regress("z ~ w")


def test_progress_is_told_table_by_table(released: Release) -> None:
    told: list[tuple[int, int]] = []
    count = len(released.certificate.tables)
    released.estimate(["mean"], column="x", progress=lambda *each: told.append(each))
    released.regress("x ~ y", progress=lambda *each: told.append(each))
    assert told == 2 * [(done, count) for done in range(1, count + 1)]


def stating(made: Release, **released: Any) -> Release:
    return replace(made, certificate=made.certificate.releasing(**released))


def test_what_was_not_measured_is_said(data: pl.DataFrame) -> None:
    pytest.importorskip("formulaic")
    asked = {"budget": Budget(epsilon=3.0, delta=1e-6), "size": ROWS, "mechanism": "marginals", "tables": 2, "seed": 1}
    made = release(data, COLUMNS, workload=["x*z"], **asked)
    assert made.certificate.to_dict()["released"]["pairs_measured"] == [["x", "z"]]
    assert made.estimate(["mean"], column="x").rows[0].codes == ()
    assert made.estimate(["mean"], column="x", by="z").rows[0].codes == ()
    found = made.estimate(["mean"], column="x", by="y")
    (code,) = found.rows[0].codes
    assert (code.name, code.numbers["columns"]) == ("unmeasured-pair", ["x", "y"])
    assert any(note.startswith("(!) mean: the columns x, y were not measured together") for note in found.notes)
    assert "mean (!)" in str(found)
    assert found.to_dict()["estimates"][0]["codes"] == [code.to_dict()]
    (row, *_) = made.regress("x ~ z + C(y)").rows
    assert [code.numbers["columns"] for code in row.codes] == [["x", "y"], ["y", "z"]]
    made = stating(made, pairs_measured=[["x", "y"], ["x", "z"], ["y", "z"]])
    assert any("nothing but their pairs links them" in note for note in made.regress("x ~ z + C(y)").notes)
    made = stating(made, pairs_measured=None)  # as earlier versions wrote it
    assert "where their tables of two columns were measured" in made.estimate(["mean"], column="x", by="y").notes[1]


def test_a_folder_and_the_command(
    data: pl.DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data.write_parquet(tmp_path / "data.parquet")
    (tmp_path / "d.toml").write_text(COLUMNS.to_toml())
    out = str(tmp_path / "tables")
    asked = [str(tmp_path / "data.parquet"), "--domain", str(tmp_path / "d.toml"), "--epsilon", "3", "--delta", "1e-6"]
    asked = ["release", *asked, "--size", "800", "--mechanism", "marginals", "--tables", "3", "--seed", "1"]
    assert run([*asked, "--out", out]) == 0
    assert "wrote 3 tables of 800 records" in capsys.readouterr().out
    assert run(["verify", out]) == 0
    assert run(["report", out, "--out", str(tmp_path / "report.html")]) == 0
    assert "3 tables of" in (tmp_path / "report.html").read_text()
    capsys.readouterr()
    assert run(["estimate", out, "--column", "x", "--functional", "mean,sd,q50,P(>4)"]) == 0
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines()[1:5]] == ["mean", "sd", "q50", "P(>4)"]
    assert "3 tables of 800 records" in text
    assert run(["estimate", out, "--column", "x", "--by", "y", "--functional", "mean"]) == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[1:3]] == [["a", "mean"], ["b", "mean"]]
    for given in (["--of", "table"], ["--strength", "2"], ["--seed", "1"]):  # which would change nothing
        assert run(["estimate", out, "--column", "x", "--functional", "mean", *given]) == 2
        assert f"has no {given[0]}.\nLeave it out" in capsys.readouterr().err
    monkeypatch.setenv("DISCREET_PROGRESS", "lines")
    assert run(["regress", out, "x ~ y"]) == 0
    assert capsys.readouterr().err.splitlines() == [f"progress {done} 3" for done in (1, 2, 3)]
    table = pl.read_parquet(tmp_path / "tables" / "table-01.parquet")
    table.head(700).write_parquet(tmp_path / "tables" / "table-01.parquet")
    with pytest.raises(FileProblem, match="not the file that its certificate was written for"):
        read(out).estimate(["mean"], column="x")


def test_one_table_has_no_intervals(data: pl.DataFrame, released: Release) -> None:
    one = release(data, COLUMNS, Budget(epsilon=3.0, delta=1e-6), size=100, mechanism="marginals", seed=1)
    with pytest.raises(ParameterError, match="several tables"):
        SeveralTables(one, 0.95)
    with pytest.raises(ParameterError, match="to release several"):
        posterior(one)
    with pytest.raises(ParameterError, match="no column"):
        released.estimate(["mean"], column="w")


SHAPE = (3, 3)
DOMAIN = Domain(columns={name: Integer(lower=1, upper=size) for name, size in zip("ab", SHAPE, strict=True)})
TABLES = 4
NOISE_RULES, SAMPLING_RULES = (30_000, 0.03, 26), (500, 20.0, 46)
"""Numbers of records held, epsilons, and worlds: what of the first two the posterior's width is nearly all of."""
FALSE_ALARM = 1e-4
"""Of a test of three statistics, together."""


def statistics(counts: np.ndarray) -> list[float]:
    """Return a mean, the share of a pair and a slope: what the measured tables identify."""
    p = counts / counts.sum()
    a, b = np.arange(3), np.arange(3)
    centred = a - p.sum(axis=1) @ a
    return [float(p.sum(axis=1) @ a), float(p[0, 2]), float(centred @ p @ b / (p.sum(axis=1) @ centred**2))]


def cells_of(chunks: Iterator[Any]) -> np.ndarray:
    cells = np.concatenate([DOMAIN.flat(part) for part in chunks])
    return np.bincount(cells, minlength=DOMAIN.size or 0).reshape(SHAPE)


def least_p(records: int, epsilon: float, worlds: int) -> float:
    """Return three times the least p-value of the truth being first or last as often as each of five tables is."""
    rng, size, ends = seeded(15), max(5000, records), []
    made = Marginals.calibrated(Budget(epsilon=epsilon, delta=1e-6), domain=DOMAIN, n=records, tables=TABLES)
    for _ in range(worlds):
        shares = rng.dirichlet(np.full(DOMAIN.size or 0, 2.0))
        held = rng.multinomial(records, shares)
        some = np.flatnonzero(held)
        y = made.kernel(Counts(records=DOMAIN.unflat(some), frequencies=held[some]), rng=rng)
        tables = np.array([statistics(cells_of(made.reading(y, n=records).draw(size, rng=rng))) for _ in range(TABLES)])
        truth = statistics(rng.multinomial(size, shares).reshape(SHAPE))
        ends.append(np.isin((tables < truth).sum(axis=0), (0, TABLES)))
    share = 2.0 / (TABLES + 1)
    return min(3.0 * float(binomtest(int(each), worlds, share).pvalue) for each in np.sum(ends, axis=0))


@pytest.mark.parametrize("world", [NOISE_RULES, SAMPLING_RULES])
def test_ranks_are_uniform(world: tuple[int, float, int]) -> None:
    assert least_p(*world) > FALSE_ALARM


def test_ranks_are_not_where_noise_is_taken_for_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeasuredTables, "posterior_draw", lambda self, _rng: self)
    assert least_p(*NOISE_RULES) < FALSE_ALARM


def test_ranks_are_not_where_the_table_is_taken_for_the_population(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_tables.reading, "copies", lambda _n, size, _rng: iter([np.ones(size, dtype=np.int64)]))
    assert least_p(*SAMPLING_RULES) < FALSE_ALARM
