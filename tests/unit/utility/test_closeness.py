"""Fréchet distance, precision and recall beside the confidential table: by loops, closed, and in a callback."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.linalg import sqrtm

import discreet
from discreet import Budget
from discreet._core.random import seeded
from discreet.confidential import Confidential, reveal_to_custodian
from discreet.domain import Category, Domain, Numeric, OpenLabels
from discreet.errors import DataError, ParameterError
from discreet.evolution import Box, Callables
from discreet.utility import compare

SQUARE = Domain(columns={"x": Numeric(lower=0.0, upper=1.0), "y": Numeric(lower=0.0, upper=1.0)})
CANARY = 0.424242171


def table(rows: int, seed: int, a: float = 2.0, b: float = 8.0) -> pl.DataFrame:
    return pl.DataFrame(seeded(seed).beta(a, b, (rows, 2)), schema=["x", "y"])


def found(data: Any, release: Any, **options: Any) -> dict[str, Any]:
    told = reveal_to_custodian(compare(data, release, SQUARE, rng=seeded(3), **options))
    return {one.measure: one for one in told.measures}


def among(points: Any, others: Any, neighbours: int) -> float:
    """Return the share of points that lie among others, point by point."""
    inside = 0
    for point in points:
        for other in others:
            reach = sorted(float(np.abs(other - one).sum()) for one in others)[neighbours]
            if float(np.abs(point - other).sum()) <= reach:
                inside += 1
                break
    return inside / len(points)


def by_loops(data: pl.DataFrame, release: pl.DataFrame) -> dict[str, float]:
    x, y = (frame.unique().to_numpy() for frame in (data, release))
    spreads = [np.cov(frame.to_numpy().T, bias=True) for frame in (data, release)]
    apart = data.to_numpy().mean(axis=0) - release.to_numpy().mean(axis=0)
    root = np.real(sqrtm(spreads[0] @ spreads[1]))
    return {"frechet": float(apart @ apart + np.trace(spreads[0] + spreads[1] - 2 * root)),
            "precision": among(y, x, 3), "recall": among(x, y, 3)}  # fmt: skip


def test_the_numbers_are_those_of_loops_over_records() -> None:
    data, release, control = table(40, 1), table(30, 2, 3.0, 5.0), table(25, 4)
    ours = found(data, release, holdout=control, api="table")
    assert list(ours) == ["frechet", "precision", "recall"]  # the holdout asks for no other measure
    for name, expected in by_loops(data, release).items():
        assert ours[name].release == pytest.approx(expected)
    for name, expected in by_loops(data, control).items():
        assert ours[name].holdout == pytest.approx(expected)
    assert ours["frechet"].bootstrap is None


def test_records_that_occur_several_times_count_as_often() -> None:
    """In the means, covariances and shares; a point lies among distinct others."""
    data, release = table(40, 1), table(20, 2)
    twice = pl.concat([release, release[:5], release[:5]])
    ours = found(data, twice, api="table")
    assert ours["frechet"].release == pytest.approx(by_loops(data, twice)["frechet"])
    assert ours["recall"].release == pytest.approx(by_loops(data, release)["recall"])


def test_copies_are_perfect_and_other_measures_stay() -> None:
    data = table(6000, 1)  # more than are looked at
    ours = found(data, data, api=Box(domain=SQUARE), measures="ks", resamples=2)
    assert ours["ks"].release == 0.0
    assert ours["frechet"].release < 1e-4
    assert min(ours["precision"].release, ours["recall"].release) > 0.95
    far = found(data, table(500, 2, 8.0, 2.0), api="table")
    assert far == found(data.reverse(), table(500, 2, 8.0, 2.0), api="table")  # a seed looks at the same records
    assert far["frechet"].release > 0.5
    assert max(far["precision"].release, far["recall"].release) < 0.3


def test_they_are_closed_and_a_function_that_fails_tells_no_value() -> None:
    def fails(frame: pl.DataFrame) -> Any:
        raise RuntimeError(str(frame.to_numpy().tolist()))

    data = table(30, 1).with_columns(x=pl.lit(CANARY))
    closed = compare(data, table(20, 2), SQUARE, api="table")
    assert isinstance(closed, Confidential)
    assert repr(closed) == "<confidential Comparison>"
    api = Callables(domain=SQUARE, label="fails", generate=table,
                    vary=lambda frame, seed: frame, embedding=fails, diameter=1.0)  # fmt: skip
    with pytest.raises(ParameterError, match="must give one row of finite numbers") as error:
        compare(data, table(20, 2), SQUARE, api=api)
    assert str(CANARY) not in str(error.value)
    assert error.value.__context__ is None


def test_what_cannot_be_compared_is_refused() -> None:
    other = Domain(columns={"x": Numeric(lower=0.0, upper=2.0)})
    with pytest.raises(ParameterError, match="domain is not the mechanism"):
        compare(table(9, 1), table(9, 2), SQUARE, api=Box(domain=other))
    with pytest.raises(DataError, match="a single point"):
        compare(table(9, 1), table(1, 2), SQUARE, api="table")


def test_a_callback_shows_the_custodian_that_steps_come_nearer() -> None:
    held, control, kept = table(4000, 1), table(500, 9), []
    loop: dict[str, Any] = {"mechanism": "private-evolution", "api": "box", "steps": 3, "population": 60}
    asked = {"size": 100, "seed": 2, "accept": {"poor-utility"}}

    def beside(step: Any) -> None:
        kept.append(compare(held, step.records(500), SQUARE, api="box", holdout=control, rng=seeded(1)))

    watch = discreet.Watch(evolved=beside)
    made = discreet.release(held, SQUARE, Budget(epsilon=2.0, delta=1e-6), watch=watch, **asked, **loop)
    frechet = [reveal_to_custodian(closed).measures[0] for closed in kept]
    assert [one.measure for one in frechet] == ["frechet"] * 3
    assert frechet[2].release < 0.5 * frechet[0].release
    assert frechet[0].holdout < frechet[0].release
    assert "frechet" not in str(made.certificate.to_dict())


WORDS = {
    "art": "paint brush canvas colour frame",
    "law": "court judge frame paper colour",
    "sea": "sail wind paper tide",
}
TEXTS = Domain(columns={"text": OpenLabels(), "kind": Category(categories=list(WORDS))})


def texts(rows: int, seed: int, words: int = 2) -> pl.DataFrame:
    rng = seeded(seed)
    kinds = rng.choice(list(WORDS), size=rows, p=[0.5, 0.3, 0.2])
    return pl.DataFrame({"text": [" ".join(rng.choice(WORDS[kind].split(), words)) for kind in kinds], "kind": kinds})


def letters(frame: pl.DataFrame) -> Any:
    """Return how often each letter occurs, and the label, which tells everything."""
    counted = [[text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in frame["text"]]
    return np.column_stack((counted, 100 * frame["kind"].cast(pl.Enum(list(WORDS))).to_physical().to_numpy()))


LETTERS = Callables(domain=TEXTS, label="letters", generate=texts,
                    vary=lambda frame, seed: frame, embedding=letters, diameter=300.0)  # fmt: skip


def areas(data: pl.DataFrame, release: pl.DataFrame, holdout: pl.DataFrame) -> Any:
    closed = compare(data, release, TEXTS, api=LETTERS, holdout=holdout, rng=seeded(3))
    (found,) = [one for one in reveal_to_custodian(closed).measures if one.measure == "auc"]
    assert found.of == "column 'kind' of held-back records"
    return found


def sklearn_area(taught: pl.DataFrame, asked: pl.DataFrame) -> float:
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    seen, other = (letters(frame)[:, :-1].astype(float) for frame in (taught, asked))
    centre = seen.mean(axis=0)
    length = np.sqrt(((seen - centre) ** 2).sum(axis=1).mean())
    found = []
    for kind in asked["kind"].unique():
        model = LogisticRegression(tol=1e-10, max_iter=10_000)
        model.fit((seen - centre) / length, (taught["kind"] == kind).to_numpy())
        found.append(
            roc_auc_score((asked["kind"] == kind).to_numpy(), model.decision_function((other - centre) / length))
        )
    return float(np.mean(found))


def test_labels_of_held_back_texts_are_told_as_well_as_sklearn_tells_them() -> None:
    """From the release, and beside it from the table; where the label itself lies is not looked at."""
    data, release, holdout = texts(300, 1), texts(200, 2, words=1), texts(400, 3)
    found = areas(data, release, holdout)
    assert found.release == pytest.approx(sklearn_area(release, holdout), abs=1e-6)
    assert found.holdout == pytest.approx(sklearn_area(data, holdout), abs=1e-6)
    assert 0.7 < found.release < found.holdout < 1.0
    assert found.bootstrap is None


def test_labels_that_say_nothing_of_the_texts_are_guessed() -> None:
    """Held-back labels of 1,000 texts, shuffled: an area is off by .1, five standard errors, once in a million."""
    data, release, holdout = texts(300, 1), texts(300, 2), texts(1000, 3)
    found = areas(data, release, holdout.with_columns(pl.col("kind").shuffle(seed=1)))
    assert abs(found.release - 0.5) < 0.1
    assert abs(found.holdout - 0.5) < 0.1


def test_a_label_that_was_never_released_is_guessed_at() -> None:
    data, holdout = texts(300, 1), texts(400, 3)
    release = texts(300, 2).with_columns(kind=pl.lit("art"))
    assert areas(data, release, holdout).release == 0.5


def test_without_a_holdout_or_with_one_label_held_back_there_is_no_area() -> None:
    data, release = texts(300, 1), texts(200, 2)
    alone = compare(data, release, TEXTS, api=LETTERS)
    same = compare(data, release, TEXTS, api=LETTERS, holdout=texts(200, 3).filter(kind="art"))
    for closed in (alone, same):
        assert [one.measure for one in reveal_to_custodian(closed).measures] == ["frechet", "precision", "recall"]
