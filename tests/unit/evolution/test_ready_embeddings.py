"""Embeddings of texts by the name of a model: a tiny one, built on the spot. Parts need model2vec."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import discreet
from discreet import Budget
from discreet._core.random import seeded
from discreet.domain import Category, Domain, Integer, OpenLabels
from discreet.errors import MissingExtra, ParameterError
from discreet.evolution import Callables

TEXTS = Domain(columns={"text": OpenLabels()})
WORDS = ["lamp", "light", "dark", "bin", "waste", "rubbish", "music", "noise", "bar"]


def generate(count: int, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    return pl.DataFrame({"text": [" ".join(rng.choice(WORDS, 2)) for _ in range(count)]})


def vary(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    return pl.DataFrame({"text": [f"{text.split(' ')[0]} {rng.choice(WORDS)}" for text in frame["text"]]})


def texts(embedding: Any, domain: Domain = TEXTS) -> Callables:
    return Callables(domain=domain, label="two words", generate=generate, vary=vary, embedding=embedding, diameter=2.0)


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
