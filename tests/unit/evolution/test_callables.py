"""User functions: what they give is checked, their seeds repeat, and records are embedded one by one."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.random import seeded
from discreet.domain import Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import ParameterError
from discreet.evolution import Callables

DOMAIN = Domain(columns={"x": Numeric(lower=0, upper=1), "n": Integer(lower=0, upper=9)})


def generate(count: int, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    return pl.DataFrame({"x": rng.random(count), "n": rng.integers(10, size=count)})


def vary(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    return frame.with_columns((pl.col("x") + pl.Series(seeded(seed).normal(0, 0.1, frame.height))).clip(0, 1))


def embedding(frame: pl.DataFrame) -> np.ndarray:
    return frame.to_numpy() / [1, 9]


def api(**changed: Any) -> Callables:
    given = {"label": "test", "generate": generate, "vary": vary, "embedding": embedding, "diameter": 2.0}
    return Callables(domain=DOMAIN, **{**given, **changed})


def test_functions_are_called_with_values_and_seeds_that_repeat() -> None:
    made = api(variations=3)
    start = made.random(5, rng=seeded(1))
    assert start.rows() == made.random(5, rng=seeded(1)).rows() != made.random(5, rng=seeded(2)).rows()
    near = made.variation(start, rng=seeded(3))
    assert near.rows() == made.variation(start, rng=seeded(3)).rows()
    assert len(near) == 20
    assert near.take(slice(None, None, 4)).rows() == start.rows()
    assert np.array_equal(near.columns[1], np.repeat(start.columns[1], 4))
    assert len(set(near.columns[0].tolist())) == 20  # every variation has a seed of its own
    assert made.embed(start).tolist() == np.stack([start.columns[0], start.columns[1] / 9], axis=1).tolist()


def test_mappings_of_columns_will_do() -> None:
    made = api(generate=lambda count, seed: {"x": [0.5] * count, "n": [3] * count})
    assert made.random(2, rng=seeded(0)).rows() == [(0.5, 3), (0.5, 3)]


def test_texts_are_one_column_of_open_labels() -> None:
    made = Callables(
        domain=Domain(columns={"text": OpenLabels()}),
        label="words",
        generate=lambda count, seed: {"text": ["one", "three"] * (count // 2)},
        vary=lambda frame, seed: frame.select(pl.col("text") + "!"),
        embedding=lambda frame: frame["text"].str.len_chars().to_numpy()[:, None],
        diameter=10.0,
        variations=1,
    )
    near = made.variation(made.random(2, rng=seeded(0)), rng=seeded(1))
    assert [row[0] for row in near.rows()] == ["one", "one!", "three", "three!"]
    assert made.embed(near).tolist() == [[3], [4], [5], [6]]


def test_records_are_embedded_one_by_one() -> None:
    """A product of matrices rounds a row differently in other company: then one record would move many votes."""
    heights = []

    def seen(frame: pl.DataFrame) -> Any:
        heights.append(frame.height)
        return embedding(frame)

    made = api(embedding=seen)
    made.embed(made.random(9, rng=seeded(0)))
    assert set(heights) == {1}


def test_an_embedding_that_keeps_or_draws_anything_is_refused_before_any_confidential_record() -> None:
    calls: list[int] = []

    def counted(frame: pl.DataFrame) -> Any:
        calls.append(1)
        return embedding(frame) + len(calls)

    with pytest.raises(ParameterError, match="not the same each time"):
        api(embedding=counted).random(3, rng=seeded(0))
    with pytest.raises(ParameterError, match="one row per record"):
        api(embedding=lambda frame: np.ones((2, 2))).random(1, rng=seeded(0))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda count, seed: generate(count, seed).drop("n"), "what generate gave lacks column 'n'"),
        (lambda count, seed: generate(count + 1, seed), "must have 7 rows, got 8"),
        (
            lambda count, seed: generate(count, seed).with_columns(pl.col("x") * 9 + 1),
            "column 'x': a value lies outside",
        ),
        (lambda count, seed: generate(count, seed).with_columns(n=pl.lit("a")), "column 'n': holds String values"),
        (lambda count, seed: 3.5, "what generate gave is not a table"),
    ],
)
def test_what_functions_give_is_checked(wrong: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        api(generate=wrong).random(7, rng=seeded(0))
    varied = api(vary=lambda frame, seed: wrong(7, seed))
    with pytest.raises(ParameterError, match=message.replace("generate", "vary")):
        varied.variation(varied.random(7, rng=seeded(0)), rng=seeded(1))


SECRET = 0.123456789


@pytest.mark.parametrize(
    "wrong",
    [
        lambda frame: frame.select(pl.col("x").cast(pl.String)).to_numpy().astype(int),
        lambda frame: [row["absent_field"] for row in frame.iter_rows(named=True)],
        lambda frame: (_ for _ in ()).throw(RuntimeError(f"look: {frame['x'].to_list()}")),
        lambda frame: frame["x"].to_numpy(),
        lambda frame: np.full((frame.height, 1), np.nan),
        lambda frame: embedding(frame)[:-1],
    ],
)
def test_errors_of_the_embedding_hold_nothing_confidential(wrong: Any) -> None:
    made = api(embedding=wrong)
    confidential = Records(columns=(np.array([SECRET, 0.5]), np.array([1, 2])))
    with pytest.raises(ParameterError, match="the embedding") as caught:
        made.embed(confidential)
    shown = "".join(traceback.format_exception(caught.value))
    assert "0.1234" not in shown
    assert "absent_field" not in shown
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_wrong_parameters_are_refused() -> None:
    wide = Domain(columns={"x": Numeric(lower=0, upper=1, cells=10)})
    with pytest.raises(ParameterError, match="column 'x': its cells hold several values"):
        Callables(domain=wide, label="a", generate=generate, vary=vary, embedding=embedding, diameter=1.0)
    middle = Domain(columns={"x": Numeric(lower=0, upper=1, cells=10, within="midpoint")})
    Callables(domain=middle, label="a", generate=generate, vary=vary, embedding=embedding, diameter=1.0)
    for name, value in {"label": "", "vary": None, "diameter": 0.0, "variations": 0, "norm": 3}.items():
        with pytest.raises(ParameterError, match=name):
            api(**{name: value})
