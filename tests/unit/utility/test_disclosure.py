"""Attacks on single records of a release: against loops over records, and on releases that tell all or nothing."""

import math
from collections import Counter
from typing import Any

import polars as pl
import pytest
from scipy.stats import binomtest

from discreet._core.random import seeded
from discreet.confidential import reveal_to_custodian
from discreet.domain import Category, Domain, Integer
from discreet.errors import ParameterError
from discreet.utility import compare
from discreet.utility.disclosure import AttackRate, Disclosure

LETTERS = ["a", "b", "c", "d"]
DOMAIN = Domain(columns={"age": Integer(lower=0, upper=9), "ward": Category(categories=LETTERS),
                         "ill": Category(categories=["no", "yes", "unclear"])})  # fmt: skip


def table(rows: int, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    return pl.DataFrame({"age": rng.integers(0, 10, rows), "ward": rng.choice(LETTERS, rows),
                         "ill": rng.choice(["no", "yes", "unclear"], rows, p=[0.6, 0.3, 0.1])})  # fmt: skip


def found(data: Any, release: Any, control: Any = None, **options: Any) -> dict[str, Disclosure]:
    told = compare(data, release, DOMAIN, holdout=control, sensitive="ill", rng=seeded(3), **options)
    return {one.attack: one for one in reveal_to_custodian(told).disclosure}


def by_loops(data: pl.DataFrame, release: pl.DataFrame, known: list[str]) -> dict[str, float]:
    """Return the rates of the attacks, record by record."""
    held: dict[Any, list[str]] = {}
    for row in release.iter_rows(named=True):
        held.setdefault(tuple(row[k] for k in known), []).append(row["ill"])
    alone = rightly = 0
    expected = blindly = 0.0
    common = Counter(release["ill"]).most_common(1)[0][0]
    for row in data.iter_rows(named=True):
        matches = held.get(tuple(row[k] for k in known), [])
        alone += len(matches) == 1
        rightly += matches == [row["ill"]]
        expected += matches.count(row["ill"]) / len(matches) if matches else 0.0
        blindly += row["ill"] == common
    n = data.height
    return {"matched alone": alone / n, "matched rightly": rightly / n, "matched wrongly": 1 - rightly / alone,
            "expected match": expected / n, "guessed blindly": blindly / n}  # fmt: skip


@pytest.mark.parametrize("known", [["age", "ward"], ["age"]])
def test_rates_are_those_of_loops_over_records(known: list[str]) -> None:
    data, release, control = table(60, 1), table(25, 2), table(40, 4)
    ours = found(data, release, control, known=known)
    for side, records in (("table", data), ("control", control)):
        for name, rate in by_loops(records, release, known).items():
            assert getattr(ours[name], side).rate == pytest.approx(rate, nan_ok=True)


def guess_by_loops(row: dict[str, Any], release: pl.DataFrame) -> set[str]:
    """Return the commonest values among the nearest released records."""
    apart = [abs(row["age"] - other["age"]) / 20 + (row["ward"] != other["ward"])
             for other in release.iter_rows(named=True)]  # fmt: skip
    nearest = Counter(ill for ill, d in zip(release["ill"], apart, strict=True) if d <= min(apart) + 1e-9)
    return {ill for ill, count in nearest.items() if count == max(nearest.values())}


def test_guesses_are_those_of_the_nearest_records() -> None:
    data, release = table(80, 5), table(15, 6)
    guesses = [guess_by_loops(row, release) for row in data.iter_rows(named=True)]
    sure = sum(guess == {ill} for guess, ill in zip(guesses, data["ill"], strict=True))
    possible = sum(ill in guess for guess, ill in zip(guesses, data["ill"], strict=True))
    assert sure <= found(data, release)["guessed"].table.right <= possible
    assert sure > 0


def test_a_copy_tells_about_the_table_and_not_about_the_control() -> None:
    rng = seeded(8)
    wide = Domain(columns={f"c{i}": Integer(lower=0, upper=9) for i in range(5)})
    data, control = (pl.DataFrame({f"c{i}": rng.integers(0, 10, 400) for i in range(5)}) for _ in range(2))
    told = compare(data, data, wide, holdout=control, sensitive="c4", rng=rng)
    copied = {one.attack: one for one in reveal_to_custodian(told).disclosure}
    for name, least in (("guessed", 0.9), ("expected match", 0.9), ("matched rightly", 0.9), ("singled out", 0.99)):
        assert copied[name].table.rate > least
        assert copied[name].excess[1] > 0.3, name


def test_a_release_of_other_records_tells_nothing_of_the_table() -> None:
    """Of 300 intervals of the excess, each of 95 %, at most 30 leave out 0: probability below 0.001."""
    outside = 0
    for seed in range(50):
        data, release, control = (table(150, 100 + 3 * seed + k) for k in range(3))
        ours = found(data, release, control)
        for name in ("matched alone", "matched rightly", "expected match", "guessed", "guessed blindly", "singled out"):
            excess = ours[name].excess
            outside += not excess[1] <= 0.0 <= excess[2]
    assert outside <= 30


def test_intervals_are_wilsons() -> None:
    for right, tries in ((0, 10), (3, 10), (10, 10), (41, 977)):
        theirs = binomtest(right, tries).proportion_ci(0.95, method="wilson")
        assert AttackRate(right=right, tries=tries).interval == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert AttackRate(right=0, tries=0).interval == (0.0, 1.0)
    assert math.isnan(AttackRate(right=0, tries=0).rate)


def test_a_release_without_matches_has_nothing_to_be_wrong_about() -> None:
    data = pl.DataFrame({"age": [1, 1], "ward": ["a", "a"], "ill": ["no", "yes"]})
    release = pl.DataFrame({"age": [7, 7], "ward": ["b", "b"], "ill": ["no", "no"]})
    ours = found(data, release)
    assert ours["matched wrongly"].table.tries == 0
    assert ours["matched wrongly"].excess is None
    plain = reveal_to_custodian(compare(data, release, DOMAIN, sensitive="ill")).to_dict()["disclosure"]
    assert next(one for one in plain if one["attack"] == "matched wrongly")["table"]["rate"] is None


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sensitive": "sick"}, "sensitive"),
        ({"sensitive": "ill", "known": ["height"]}, "known"),
        ({"sensitive": "ill", "known": ["ill"]}, "besides the sensitive one"),
        ({"sensitive": "ill", "known": []}, "besides the sensitive one"),
        ({"known": ["age"]}, "sensitive="),
    ],
)
def test_what_cannot_be_attacked_is_refused(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        compare(table(9, 1), table(9, 2), DOMAIN, **asked)


def test_the_text_has_every_attack_with_its_control() -> None:
    told = compare(table(60, 1), table(60, 2), DOMAIN, sensitive="ill", holdout=table(30, 3), rng=seeded(1))
    text = str(reveal_to_custodian(told))
    assert text.splitlines()[0].startswith("CONFIDENTIAL")
    assert "singled out" in text
    assert "What no attack can reach is what the guarantee says." in text
