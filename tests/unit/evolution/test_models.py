"""Image and language models: tiny ones, with random weights, built on the spot. Skipped where torch is missing."""

import json
import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from discreet._core.random import seeded
from discreet.domain import Boolean, Domain, Integer, Numeric, OpenLabels, Records
from discreet.errors import ParameterError
from discreet.evolution import ContinuedTexts, DiffusionImages, MaskedTexts
from discreet.evolution.api import NamedAPI
from discreet.evolution.models import _ModelAPI
from discreet.evolution.table import api_from

SIDE = 8
PIXELS = Domain(columns={f"pixel_{place}": Integer(lower=0, upper=16) for place in range(SIDE * SIDE)})
TEXTS = Domain(columns={"text": OpenLabels()})
WORDS = ["the", "cat", "dog", "sat", "ran", "on", "a", "mat", "fast", "slow", "red", "blue", "big", "small"]


@dataclass(frozen=True, kw_only=True)
class Degrees(_ModelAPI):
    """Varies a record to the degree it is varied by."""

    degrees: tuple[float, ...]
    shrink: float
    batch: int = 1
    embedding = diameter = random = embed = facts = None

    def __post_init__(self) -> None:
        self._settle()

    def _variation(self, records: Records, degree: float, seed: int) -> Records:
        return Records(columns=(np.full(len(records), degree),))


def test_degrees_shrink_geometrically() -> None:
    def varied(degrees: tuple[float, ...], shrink: float, step: int, steps: int) -> list[float]:
        api = Degrees(degrees=degrees, shrink=shrink)
        start = Records(columns=(np.zeros(1),))
        return api.variation(start, rng=seeded(0), step=step, steps=steps).columns[0].tolist()[1:]

    assert varied((1, 0.5), 1.0, 1, 2) == [1.0, 0.5]
    assert varied((0.8, 0.4), 0.25, 0, 1) == [0.8, 0.4]
    assert varied((0.8, 0.4), 0.25, 2, 3) == pytest.approx([0.2, 0.1])
    for degrees, shrink in (((), 1.0), ((0.0,), 1.0), ((1.5,), 1.0), ((0.5,), 0.0), ((0.5,), 2.0), ((True,), 1.0)):
        with pytest.raises(ParameterError, match="(degrees|shrink) must"):
            Degrees(degrees=degrees, shrink=shrink)


def test_without_torch_the_extra_is_named() -> None:
    if find_spec("torch") is not None:
        pytest.skip("torch is installed")
    with pytest.raises(ParameterError, match=r"pip install 'discreet\[evolution\]'"):
        DiffusionImages(domain=PIXELS, label="none", model=None, scheduler=None, shape=(8, 8, 1))


def diffusion(**changed: Any) -> Any:
    pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)
    diffusers = pytest.importorskip("diffusers", reason="diffusers is not installed", exc_type=ImportError)
    import torch

    torch.manual_seed(0)
    model = diffusers.UNet2DModel(
        sample_size=SIDE,
        in_channels=1,
        out_channels=1,
        layers_per_block=1,
        block_out_channels=(8, 8),
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    ).eval()
    kind = changed.pop("scheduler", "DDIMScheduler")
    scheduler = getattr(diffusers, kind)(num_train_timesteps=100)
    given = {"label": "tiny", "model": model, "scheduler": scheduler, "shape": (SIDE, SIDE, 1), "inference_steps": 8}
    return DiffusionImages(domain=PIXELS, **{**given, **changed})


@pytest.mark.evolution
@pytest.mark.parametrize("scheduler", ["DDIMScheduler", "DDPMScheduler"])
def test_images_are_drawn_and_varied_by_degree(scheduler: str) -> None:
    api = diffusion(scheduler=scheduler, degrees=(0.9, 0.1), batch=3)
    start = api.random(5, rng=seeded(1))
    assert start.rows() == api.random(5, rng=seeded(1)).rows() != api.random(5, rng=seeded(2)).rows()
    near = api.variation(start, rng=seeded(3), step=0, steps=1)
    assert near.rows() == api.variation(start, rng=seeded(3), step=0, steps=1).rows()
    assert len(near) == 5 * api.variations_each() == 15
    assert near.take(slice(None, None, 3)).rows() == start.rows()
    for codes in near.columns:
        assert codes.dtype == np.int64
        assert 0 <= codes.min() <= codes.max() <= 16
    points = api.embed(near).reshape(5, 3, 64)
    far, close = (np.linalg.norm(points[:, place] - points[:, 0], axis=1) for place in (1, 2))
    assert np.all(close < far)
    assert np.linalg.norm(points.reshape(15, -1), axis=1).max() <= api.diameter == 8.0
    # Smaller in the last step than in the first.
    late = api.embed(api.variation(start, rng=seeded(3), step=9, steps=10)).reshape(5, 3, 64)
    assert np.linalg.norm(late[:, 1] - late[:, 0], axis=1).mean() < far.mean()


@pytest.mark.evolution
def test_a_schedule_started_from_the_middle_adds_its_noise_and_no_other() -> None:
    """With a model that predicts the noise itself, DDIM takes off exactly what was added."""
    api = diffusion(degrees=(0.5,))
    import torch

    noises: list[Any] = []
    add = api.scheduler.add_noise

    class Oracle(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

        def forward(self, images: Any, timestep: Any) -> Any:
            return SimpleNamespace(sample=noises[-1])

    api.scheduler.add_noise = lambda clean, noise, times: noises.append(noise) or add(clean, noise, times)
    object.__setattr__(api, "model", Oracle())
    codes = seeded(4).integers(17, size=(6, 64))
    start = Records(columns=tuple(codes.T))
    near = api.variation(start, rng=seeded(5))
    assert len(noises) == 1
    assert near.take(slice(1, None, 2)).rows() == start.rows()


@pytest.mark.evolution
def test_an_own_embedding_sees_images() -> None:
    shapes = []

    def brightness(images: np.ndarray) -> np.ndarray:
        shapes.append(images.shape)
        return images.mean(axis=(1, 2))

    api = diffusion(embedding=brightness, diameter=1.0)
    codes = np.zeros((2, 64), dtype=np.int64)
    codes[1] = 16
    assert api.embed(Records(columns=tuple(codes.T))).tolist() == [[0.0], [1.0]]
    assert shapes == [(1, SIDE, SIDE, 1)] * 2
    stated = json.loads(json.dumps(api.parameters(), allow_nan=False))
    named = api_from("diffusion-images", stated, PIXELS)
    assert isinstance(named, NamedAPI)
    assert named.parameters() == api.parameters()
    with pytest.raises(ParameterError, match="needs its diameter"):
        diffusion(embedding=brightness)
    with pytest.raises(ParameterError, match="number of columns, 64"):
        diffusion(shape=(SIDE, SIDE, 3))


def tokenizer(folder: Path) -> Any:
    pytest.importorskip("torch", reason="torch is not installed", exc_type=ImportError)
    transformers = pytest.importorskip("transformers", reason="transformers is not installed", exc_type=ImportError)
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = folder / "vocabulary.json"
    vocabulary.write_text(json.dumps({word: place for place, word in enumerate(special + WORDS)}), encoding="utf-8")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = Tokenizer(WordLevel(json.loads(vocabulary.read_text(encoding="utf-8")), unk_token="[UNK]"))
    words.pre_tokenizer = Whitespace()
    names = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="[SEP]", **dict(zip(names, special, strict=True))
    )


def masked(folder: Path, **changed: Any) -> Any:
    words = tokenizer(folder)
    import torch
    import transformers

    torch.manual_seed(0)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=32, **size)
    given = {"label": "tiny", "model": transformers.BertForMaskedLM(config).eval(), "tokenizer": words, "tokens": 8}
    return MaskedTexts(domain=TEXTS, **{**given, **changed})


def continued(folder: Path, **changed: Any) -> Any:
    words = tokenizer(folder)
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=len(words), n_positions=32, n_embd=16, n_layer=1, n_head=2)
    given = {"label": "tiny", "model": transformers.GPT2LMHeadModel(config).eval(), "tokenizer": words, "tokens": 10}
    return ContinuedTexts(domain=TEXTS, **{**given, "prompts": ["the cat", "a"], **changed})


def changed_words(one: str, other: str) -> int:
    return sum(a != b for a, b in zip(one.split(), other.split(), strict=True))


@pytest.mark.evolution
def test_masked_texts_change_the_share_of_words_that_was_masked(tmp_path: Path) -> None:
    api = masked(tmp_path, degrees=(1.0, 0.25), shrink=0.5, batch=4)
    start = api.random(10, rng=seeded(1))
    texts = start.columns[0].tolist()
    assert (
        texts == api.random(10, rng=seeded(1)).columns[0].tolist() != api.random(10, rng=seeded(2)).columns[0].tolist()
    )
    assert all(len(text.split()) == 8 and set(text.split()) <= set(WORDS) for text in texts)
    near = api.variation(start, rng=seeded(3)).columns[0].reshape(10, 3)
    assert near[:, 0].tolist() == texts
    assert max(changed_words(*pair) for pair in near[:, [0, 2]].tolist()) <= 2  # a quarter of eight
    assert min(changed_words(*pair) for pair in near[:, [0, 1]].tolist()) >= 3
    late = api.variation(start, rng=seeded(3), step=1, steps=2).columns[0].reshape(10, 3)
    assert max(changed_words(*pair) for pair in late[:, [0, 2]].tolist()) <= 1
    assert near.tolist() == api.variation(start, rng=seeded(3)).columns[0].reshape(10, 3).tolist()


@pytest.mark.evolution
def test_texts_of_any_length_are_varied(tmp_path: Path) -> None:
    texts = np.empty(4, dtype=object)
    texts[:] = ["", "the", "the cat sat on a mat " * 4, "unheard words"]
    for api in (masked(tmp_path), continued(tmp_path)):
        near = api.variation(Records(columns=(texts,)), rng=seeded(4)).columns[0].reshape(4, -1)
        assert near[:, 0].tolist() == texts.tolist()
        assert all(isinstance(text, str) and len(text.split()) <= api.tokens for text in near[:, 1:].ravel())
        assert np.isfinite(api.embed(Records(columns=(near.ravel(),)))).all()


@pytest.mark.evolution
def test_continued_texts_keep_their_beginning(tmp_path: Path) -> None:
    api = continued(tmp_path, degrees=(0.5,), batch=3)
    start = api.random(10, rng=seeded(5))
    texts = start.columns[0].tolist()
    assert texts == api.random(10, rng=seeded(5)).columns[0].tolist()
    assert all(text.startswith(("the cat", "a")) and len(text.split()) <= 10 for text in texts)
    assert len(set(texts)) > 5
    near = api.variation(start, rng=seeded(6)).columns[0].reshape(10, 2)
    for text, varied in near.tolist():
        words = text.split()
        kept = max(1, len(words) - max(1, round(0.5 * len(words))))
        assert varied.split()[:kept] == words[:kept]
    assert near.tolist() == api.variation(start, rng=seeded(6)).columns[0].reshape(10, 2).tolist()
    assert (near[:, 0] != near[:, 1]).sum() > 5


@pytest.mark.evolution
def test_a_text_is_embedded_alone(tmp_path: Path) -> None:
    api = masked(tmp_path)
    texts = np.empty(3, dtype=object)
    texts[:] = ["the cat", "the cat sat on a mat", ""]
    points = api.embed(Records(columns=(texts,)))
    for row in range(3):
        assert np.array_equal(api.embed(Records(columns=(texts[row : row + 1],)))[0], points[row])
    words = api.model.get_input_embeddings().weight.detach().double().numpy()
    mean = words[api.tokenizer.convert_tokens_to_ids(["the", "cat"])].mean(axis=0)
    assert points[0] == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)
    assert np.linalg.norm(points, axis=1) == pytest.approx([1, 1, 0])
    assert api.diameter == 2.0


@pytest.mark.evolution
def test_domains_and_tokenizers_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    words = tokenizer(tmp_path)
    for domain in (
        Domain(columns={"flag": Boolean()}),
        Domain(columns={"text": OpenLabels(), "x": Numeric(lower=0, upper=1)}),
        Domain(columns={"text": OpenLabels(nulls="category")}),
    ):
        with pytest.raises(ParameterError, match="texts must be the only column"):
            MaskedTexts(domain=domain, label="tiny", model=None, tokenizer=words)
    with pytest.raises(ParameterError, match="temperature"):
        masked(tmp_path, temperature=0.0)
    with pytest.raises(ParameterError, match="prompts must be a list"):
        continued(tmp_path, prompts="the")
    with pytest.raises(ParameterError, match="fewer than tokens"):
        continued(tmp_path, prompts=["the cat"], tokens=2)
    words.mask_token = None
    with pytest.raises(ParameterError, match="no mask, start or end token"):
        MaskedTexts(domain=TEXTS, label="tiny", model=None, tokenizer=words)
    assert math.isclose(masked(tmp_path).temperature, 1.0)
