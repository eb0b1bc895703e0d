"""What tables of a frontier tell of single records: against compare, on copies and on fresh records, and by command."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.cli.entry import run
from discreet.confidential import reveal_to_custodian
from discreet.domain import Category, Domain, Integer, Numeric
from discreet.errors import ParameterError
from discreet.pseudo_posterior import LinearWeights, PseudoPosterior, Unweighted, risk_frontier
from discreet.pseudo_posterior.regressions import CategoricalShares
from discreet.pseudo_posterior.risk_frontier import Attack, attack_of, held_columns
from discreet.pseudo_posterior.synthesiser import FromModel, Synthesiser
from discreet.utility import compare
from discreet.utility.disclosure import AttackRate, Disclosure, mean_attacks

pytestmark = pytest.mark.chains

DOMAIN = Domain(columns={"ward": Category(categories=["a", "b", "c"]), "age": Integer(lower=0, upper=90),
                         "income": Numeric(lower=0, upper=100, cells=20, nulls="category")})  # fmt: skip
FITTED = Domain(columns={"ward": DOMAIN.columns["ward"], "income": Integer(lower=0, upper=60)})


def people(rows: int, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    income = [None if x < 4 else float(x) for x in rng.integers(0, 100, rows)]
    return pl.DataFrame({"ward": rng.choice(["a", "b", "c"], rows), "age": rng.integers(0, 91, rows), "income": income})


def attacked(**options: Any) -> Attack:
    model = FromModel(function=lambda _: None, sensitive=("ward",), given=("age", "income"))
    facts: dict[str, Any] = {"column": "ward", "known": None, "holdout": people(150, 2), "rng": seeded(5), **options}
    return attack_of(model, held_columns(people(200, 1), DOMAIN), DOMAIN, **facts)


@pytest.mark.parametrize("known", [None, ["age"]])
def test_rates_are_those_of_compare(known: Any) -> None:
    release = people(180, 3)
    ours = attacked(known=known)([held_columns(release, DOMAIN)], seeded(7))
    closed = compare(
        people(200, 1), release, DOMAIN, holdout=people(150, 2), sensitive="ward", known=known, resamples=0
    )
    told = reveal_to_custodian(closed).disclosure
    assert [one.attack for one in ours] == [one.attack for one in told]
    for own, other in zip(ours[:-1], told[:-1], strict=True):  # the last, singling out, draws its descriptions
        assert (own.table.tries, own.control.tries) == (other.table.tries, other.control.tries)
        assert (own.table.right, own.control.right) == pytest.approx((other.table.right, other.control.right))


def test_copies_are_told_from_fresh_records() -> None:
    copies, fresh = (
        {one.attack: one for one in attacked()([held_columns(table, DOMAIN)], seeded(7))}
        for table in (people(200, 1), people(200, 9))
    )
    assert copies["guessed"].excess[1] > 0.3  # the interval's lower end
    assert copies["matched rightly"].excess[1] > 0.3
    low, high = fresh["guessed"].excess[1:]
    assert low < 0.0 < high


def test_the_mean_of_tables_keeps_the_number_of_tries_of_one() -> None:
    def found(*rates: tuple[int, int]) -> tuple[Disclosure, ...]:
        table, control = (AttackRate(right=right, tries=tries) for right, tries in rates)
        return (Disclosure(attack="guessed", of="ward", table=table, control=control, how=""),)

    (mean,) = mean_attacks([found((10, 100), (0, 0)), found((30, 100), (1, 4))])
    assert (mean.table.rate, mean.table.tries) == (pytest.approx(0.2), 100)
    assert (mean.control.rate, mean.control.tries) == (pytest.approx(0.25), 2)


@pytest.mark.parametrize(
    ("options", "told"),
    [({"known": ["ward"]}, "besides the sensitive one"), ({"known": ["moon"]}, "known must be one of"),
     ({"column": "moon"}, "sensitive must be one of")],
)  # fmt: skip
def test_what_cannot_be_attacked_is_told_before_anything_is_fitted(options: Any, told: str) -> None:
    with pytest.raises(ParameterError, match=told):
        attacked(**options)


# -- by command -------------------------------------------------------------------------------------------------------


def wards(rows: int, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    ward = rng.integers(0, 3, rows)
    income = rng.poisson(np.array([5, 15, 30])[ward])
    return pl.DataFrame({"ward": np.array(["a", "b", "c"])[ward], "income": income})


@pytest.fixture
def of_income(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    wards(150, 1).write_parquet(tmp_path / "data.parquet")
    wards(100, 2).write_parquet(tmp_path / "holdout.parquet")
    (tmp_path / "d.toml").write_text(FITTED.to_toml())
    monkeypatch.chdir(tmp_path)
    return ["synthesize", "data.parquet", "--domain", "d.toml", "--sensitive", "income", "--model", "linear"]


def test_the_command_shows_the_frontier_and_releases_nothing(
    of_income: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(risk_frontier, "LADDER", {"unweighted": Unweighted(), "c = 0.5": LinearWeights(c=0.5)})
    asked = [*of_income, "--frontier", "f", "--holdout", "holdout.parquet", "--draws", "400", "--warm-up", "200",
             "--chains", "2"]  # fmt: skip
    assert run(asked) == 0
    said = capsys.readouterr().out
    assert said.startswith("CONFIDENTIAL: computed from the private data")
    assert "after income" in said
    assert re.search("bound of 95 % of draws +95 % interval +largest +effective draws", said)
    rows = [line.split("  ") for line in said.splitlines() if line.startswith(("guessed  ", "expected match"))]
    assert len(rows) == 4
    assert {path.name for path in Path("f").iterdir()} == {"points.json", "frontier.html"}
    assert {oct(path.stat().st_mode)[-3:] for path in Path("f").iterdir()} == {"600"}
    page = Path("f", "frontier.html").read_text()
    assert "CONFIDENTIAL" in page
    assert "What the tables tell of single records" in page
    assert sorted(path.name for path in Path().iterdir()) == ["d.toml", "data.parquet", "f", "holdout.parquet"]
    assert run(asked) == 2
    assert "it holds other files" in capsys.readouterr().err
    assert run([*asked, "--json", "--frontier", "g"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["confidential"] is True
    assert [point["label"] for point in told["points"]] == ["unweighted", "c = 0.5"]
    assert told["points"][0]["disclosure"][0]["control"]["tries"] == 100
    assert all(point["effective"] >= 400 for point in told["points"])


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (["--frontier", "f", "--out", "o"], "--frontier takes the place of --out"),
        (["--frontier", "f", "--target-epsilon", "3"], "give exactly one of"),
        (["--target-epsilon", "3", "--out", "o", "--holdout", "holdout.parquet"], "of use with --frontier only"),
        (["--target-epsilon", "3"], "Write --out"),
        (["--frontier", "f", "--ledger", "l"], "nothing is paid"),
        (["--frontier", "f", "--known", "income"], "besides the sensitive one"),
        (["--frontier", "f", "--holdout", "none.parquet"], "none.parquet"),
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_is_written(
    of_income: list[str], more: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*of_income, *more]) == 2
    assert told in capsys.readouterr().err
    assert not Path("f").exists()
    assert not Path("o").exists()


def test_one_column_alone_has_nothing_to_be_attacked_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would be known of a record, so the frontier is shown without attacks."""
    monkeypatch.setattr(risk_frontier, "LADDER", {"unweighted": Unweighted()})
    only = Domain(columns={"ward": DOMAIN.columns["ward"]})
    shares: Synthesiser = CategoricalShares(column="ward", categories=3)
    mechanism = PseudoPosterior(shares, draws=200, warm_up=100, chains=2)
    points = risk_frontier.ladder(people(60, 1).select("ward"), only, mechanism, folder=tmp_path / "f", known=None,
                            holdout=None, seed=0)  # fmt: skip
    assert list(points[0].statistics) == ["share of a", "share of b", "share of c"]
    assert points[0].disclosure == ()
    assert "Attacks" not in risk_frontier.ladder_text(points)
    assert 'id="attack"' not in Path(tmp_path, "f", "frontier.html").read_text()
