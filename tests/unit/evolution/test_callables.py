"""User functions: what they give is checked, seeds repeat, records are embedded one by one; models by their names."""

import sys
import traceback
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet._core.random import seeded
from discreet.domain import Category, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import MissingExtra, ParameterError
from discreet.evolution import Callables

DOMAIN = Domain(columns={"x": Numeric(lower=0, upper=1), "n": Integer(lower=0, upper=9)})
TEXTS = Domain(columns={"text": OpenLabels()})


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
        domain=TEXTS,
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
        (lambda count, seed: generate(count, seed).with_columns(n=pl.lit("a")), "column 'n': values are not"),
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
        lambda frame: sys.exit(f"look: {frame['x'].to_list()}"),
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


# -- embeddings of texts by the name of a model: a tiny one, built on the spot ----------------------------------------

WORDS = ["lamp", "light", "dark", "bin", "waste", "rubbish", "music", "noise", "bar"]


def two_words(count: int, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    return pl.DataFrame({"text": [" ".join(rng.choice(WORDS, 2)) for _ in range(count)]})


def other_word(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    return pl.DataFrame({"text": [f"{text.split(' ')[0]} {rng.choice(WORDS)}" for text in frame["text"]]})


def texts(embedding: Any, domain: Domain = TEXTS) -> Callables:
    functions: dict[str, Any] = {"generate": two_words, "vary": other_word, "embedding": embedding}
    return Callables(domain=domain, label="two words", diameter=2.0, **functions)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of ten words, in three groups: words of a group point the same way."""
    model2vec = pytest.importorskip("model2vec")
    tokenizers = pytest.importorskip("tokenizers")
    known = {"[UNK]": 0, **{word: place for place, word in enumerate(WORDS, 1)}}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    rng = seeded(0)
    vectors = np.concatenate([np.zeros((1, 8)), np.repeat(rng.normal(size=(3, 8)), 3, axis=0)])
    vectors[1:] += rng.normal(0, 0.1, (9, 8))
    place = tmp_path_factory.mktemp("model") / "words"
    model2vec.StaticModel(vectors.astype(np.float32), tokenizer).save_pretrained(str(place))
    return str(place)


@pytest.mark.evolution
def test_texts_of_like_words_are_near_and_each_is_embedded_by_itself(folder: str) -> None:
    api = texts(folder)
    frame = pl.DataFrame({"text": ["lamp dark", "light light", "rubbish bin", "zebra", ""]})
    points = api.embed(TEXTS.encode(frame))
    assert points.shape == (5, 8)
    assert np.linalg.norm(points, axis=1) == pytest.approx([1, 1, 1, 0, 0])
    assert np.linalg.norm(points[0] - points[1]) < 0.3 < np.linalg.norm(points[0] - points[2]) <= 2.0
    alone = [api.embed(TEXTS.encode(frame[place : place + 1])) for place in range(5)]
    assert np.array_equal(points, np.concatenate(alone))
    assert folder not in str(api.parameters())  # where the model lies is nobody's business


@pytest.mark.evolution
def test_an_evolution_with_it(folder: str) -> None:
    """Nearly all messages are about light: so are the released ones."""
    rng = seeded(3)
    held = pl.DataFrame({"text": [" ".join(rng.choice(WORDS[:3], 2)) for _ in range(2000)]})
    loop: dict[str, Any] = {"api": texts(folder), "steps": 2, "population": 20, "variant": "practical", "threshold": 30}
    asked = {"mechanism": "private-evolution", "size": 200, "seed": 4, "accept": {"poor-utility"}}
    made = discreet.release(held, TEXTS, Budget(epsilon=2.0, delta=1e-6), **asked, **loop)
    words = made.records["text"].str.split(" ").explode()
    assert words.is_in(WORDS[:3]).mean() > 0.8  # of random texts a third


@pytest.mark.evolution
def test_a_model_that_is_not_there_is_refused(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ParameterError, match="cannot be loaded. Give the folder"):
        texts(str(tmp_path / "none"))


def test_without_the_library_the_extra_is_named() -> None:
    if find_spec("model2vec") is not None:
        pytest.skip("model2vec is installed")
    with pytest.raises(MissingExtra, match=r"discreet\[embeddings\]"):
        texts("minishlab/potion-base-8M")


@pytest.mark.parametrize("given", [3, None, ""])
def test_what_is_no_embedding_is_refused(given: Any) -> None:
    with pytest.raises(ParameterError, match="embedding must be a function, or the name or folder of a model"):
        texts(given)


@pytest.mark.parametrize("domain", [
    Domain(columns={"text": OpenLabels(), "age": Integer(lower=0, upper=9)}),
    Domain(columns={"text": Category(categories=["a", "b"])}),
    Domain(columns={"text": OpenLabels(nulls="category")}),
])  # fmt: skip
def test_a_model_by_its_name_is_for_texts_alone(domain: Domain) -> None:
    with pytest.raises(ParameterError, match="must be the only column, of open labels without nulls. Give a function"):
        texts("words", domain)
