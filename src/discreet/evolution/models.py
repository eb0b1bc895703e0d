"""Public models as generators: a diffusion model of images, and language models of texts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import takewhile
from math import prod
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, integer, real
from discreet._core.lazy import torch
from discreet._core.numeric import Floats
from discreet.domain import Domain, Records
from discreet.evolution.api import API, checked_points, in_blocks, new_seed, settled_embedding, text_column
from discreet.evolution.table import Box


@contextmanager
def _inference(seed: int) -> Iterator[None]:
    """Run a model without gradients, with torch's own draws seeded; its state is as before afterwards."""
    with torch.inference_mode(), torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


class _ModelAPI(API):
    """A model that varies a record at several degrees, which shrink geometrically from the first step to the last."""

    norm: ClassVar[float] = 2.0
    facts: ClassVar[tuple[str, ...]]
    degrees: Sequence[float]
    shrink: float
    batch: int
    embedding: Any

    def _settle(self, *packages: str, **values: Any) -> None:
        """Check what every model has, and set it with what was checked besides."""
        for package in packages:
            if find_spec(package) is None:
                raise ParameterError(f"this needs {package}. Install it: pip install 'discreet[evolution]'")
        real("shrink", self.shrink, above=0, most=1)
        if not len(self.degrees):
            raise ParameterError("degrees must hold at least one number, one per variation")
        values["degrees"] = tuple(real("each of degrees", degree, above=0, most=1) for degree in self.degrees)
        values["batch"] = integer("batch", self.batch, least=1, most=10**6)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def variations_each(self) -> int:
        return 1 + len(self.degrees)

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        factor = self.shrink ** (step / max(1, steps - 1))  # geometrically from the first step to the last
        parts = [self._variation(records, degree * factor, new_seed(rng)) for degree in self.degrees]
        columns = zip(*(part.columns for part in parts), strict=True)
        return in_blocks(records, [np.stack(column, axis=1) for column in columns])

    @abstractmethod
    def _variation(self, records: Records, degree: float, seed: int) -> Records:
        """Return one variation of each record."""

    def parameters(self) -> dict[str, Any]:
        """Return what is not a function or a model."""
        facts = {name: getattr(self, name) for name in (*self.facts, "degrees")}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}
        return {**plain, "own_embedding": self.embedding is not None}


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiffusionImages(_ModelAPI):
    r"""Images of an unconditional diffusion model of the library diffusers (extra ``evolution``).

    ``random`` draws images from noise. A variation of degree q adds noise up to the share q of the schedule, and
    denoises from there: near 0 the image hardly changes, at 1 it is drawn anew. There is one variation for each of
    ``degrees``; from the first step of the evolution to the last they shrink by the factor ``shrink``, geometrically.

    The distance is the Euclidean one of the pixels, each scaled to [0, 1], or of an ``embedding`` of the image, such as
    the features of a network in inference mode. **It has to be a function of each image alone**, see
    :class:`Callables`. The model and its weights have to be public: trained on confidential images, they would be a
    release without protection.

    Parameters
    ----------
    domain : Domain
        Public. One ordered column a pixel and channel, without nulls: by rows, then columns, then channels.
    label : str
        Which model it is, for the certificate.
    model : torch.nn.Module
        ``model(images, timestep).sample`` is the predicted noise, as ``diffusers.UNet2DModel`` gives it.
    scheduler : diffusers scheduler
        Such as ``DDIMScheduler`` or ``DDPMScheduler``; images are between -1 and 1.
    shape : tuple of int
        Height, width and channels of an image.
    inference_steps : int
        Steps of the schedule from pure noise to an image.
    degrees : sequence of float
        Degrees of the variations in the first step, in (0, 1].
    shrink : float
        Factor of the degrees from the first to the last step, in (0, 1].
    embedding : callable, optional
        ``embedding(images)`` gives an array of shape (images, d); images are float64 in [0, 1], of shape (images,
        height, width, channels).
    diameter : float, optional
        Upper bound on the distance of two embeddings; needed with ``embedding``.
    batch : int
        Images the model works on at a time.

    Raises
    ------
    ParameterError
        When torch is not installed, the columns are not the pixels of the shape, or a parameter is out of range.

    References
    ----------
    Lin, Gopi, Kulkarni, Nori and Yekhanin (2024), for diffusion models in Private Evolution; PE25 section 6, for
    variations of several degrees in every step.
    """

    name: ClassVar[str] = "diffusion-images"
    facts: ClassVar[tuple[str, ...]] = ("label", "inference_steps", "shrink", "diameter", "shape")
    domain: Domain
    label: str
    model: Any = field(repr=False)
    scheduler: Any = field(repr=False)
    shape: tuple[int, int, int]
    inference_steps: int = 50
    degrees: Sequence[float] = (0.8, 0.6, 0.4, 0.2)
    shrink: float = 0.5
    embedding: Callable[[Floats], npt.ArrayLike] | None = None
    diameter: float = None  # type: ignore[assignment]  # None stands for that of the pixels
    batch: int = 64
    _box: Box = field(init=False, repr=False)

    def __post_init__(self) -> None:
        shape = tuple(integer("shape", side, least=1, most=10**5) for side in self.shape)
        if len(shape) != 3 or prod(shape) != len(self.domain.columns):
            raise ParameterError(
                "shape must be height, width and channels, whose product is the number of columns, "
                f"{len(self.domain.columns)}"
            )
        if self.embedding is not None and self.diameter is None:
            raise ParameterError("an embedding needs its diameter. Give a public bound on the distance of two images")
        box = Box(domain=self.domain)
        diameter = box.diameter if self.diameter is None else real("diameter", self.diameter, above=0)
        inference_steps = integer("inference_steps", self.inference_steps, least=1, most=10**4)
        self._settle("torch", "diffusers", shape=shape, diameter=diameter, inference_steps=inference_steps, _box=box)

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Draw images from noise."""
        height, width, channels = self.shape
        return self._records(self._denoised(np.zeros((count, channels, height, width)), 1.0, new_seed(rng)))

    def _variation(self, records: Records, degree: float, seed: int) -> Records:
        """Add noise part of the way, and take it off again."""
        return self._records(self._denoised(2 * self._images(records).transpose(0, 3, 1, 2) - 1, degree, seed))

    def embed(self, records: Records) -> Floats:
        """Return the scaled pixels, or the embedding of the images.

        Raises ParameterError when that fails, or gives something else than finite numbers, one row per image.
        """
        if self.embedding is None:
            return self._box.embed(records)
        return checked_points(self.embedding, self._images(records))

    def _images(self, records: Records) -> Floats:
        """Return pixels in [0, 1], of shape (images, height, width, channels)."""
        return (self._box.embed(records) / self._box.sides).reshape(-1, *self.shape)

    def _records(self, images: Floats) -> Records:
        """Return the records nearest to images between -1 and 1, of shape (images, channels, height, width)."""
        pixels = (images.transpose(0, 2, 3, 1).reshape(len(images), -1) + 1) / 2 * self._box.sides
        return Records(columns=tuple(self._box._codes(self._box._project(pixels))))

    def _denoised(self, images: Floats, degree: float, seed: int) -> Floats:
        """Add noise up to a share of the schedule, and denoise from there; from pure noise at 1."""
        weights = next(self.model.parameters())
        self.scheduler.set_timesteps(self.inference_steps)
        times = self.scheduler.timesteps[-max(1, round(degree * self.inference_steps)) :]
        denoised = np.empty_like(images)
        with _inference(seed):
            for start in range(0, len(images), self.batch):
                block = slice(start, start + self.batch)
                sample = torch.randn(images[block].shape).to(weights)
                if degree < 1:
                    clean = torch.from_numpy(images[block]).to(weights)
                    sample = self.scheduler.add_noise(clean, sample, times[:1].repeat(len(clean)))
                for time in times:
                    sample = self.scheduler.step(self.model(sample, time).sample, time, sample).prev_sample
                denoised[block] = sample.double().cpu().numpy()
        return denoised


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Texts(_ModelAPI):
    """Texts of a language model: one column of open labels."""

    facts: ClassVar[tuple[str, ...]] = ("label", "tokens", "shrink", "temperature", "diameter")
    domain: Domain
    label: str
    model: Any = field(repr=False)
    tokenizer: Any = field(repr=False)
    tokens: int = 64
    degrees: Sequence[float] = (0.6, 0.4, 0.2)
    shrink: float = 0.5
    temperature: float = 1.0
    embedding: Callable[[list[str]], npt.ArrayLike] | str | None = None
    diameter: float = 2.0
    batch: int = 16

    def __post_init__(self) -> None:
        text_column(self.domain, "Declare one column of open labels")
        embedding = None if self.embedding is None else settled_embedding(self.embedding, self.domain)
        self._settle(
            "torch",
            "transformers",
            embedding=embedding,
            tokens=integer("tokens", self.tokens, least=2, most=10**5),
            temperature=real("temperature", self.temperature, above=0),
            diameter=real("diameter", self.diameter, above=0),
        )

    def _variation(self, records: Records, degree: float, seed: int) -> Records:
        texts = [self._ids(text)[: self.tokens] for text in records.columns[0].tolist()]
        return self._in_batches(partial(self._varied, degree=degree), texts, seed)

    def embed(self, records: Records) -> Floats:
        """Return directions of mean word embeddings of texts, or their ``embedding``: finite, one row per text."""
        embedding = cast("Callable[[list[str]], npt.ArrayLike]", self.embedding or self._mean_words)
        return checked_points(embedding, records.columns[0].tolist())

    @abstractmethod
    def _varied(self, texts: list[list[int]], seed: int, *, degree: float) -> list[list[int]]:
        """Return one variation of each text, as tokens without special ones."""

    def _in_batches(
        self, model: Callable[[list[list[int]], int], list[list[int]]], texts: list[list[int]], seed: int
    ) -> Records:
        """Return what a model makes of texts, a batch at a time, as text without the column's reserved prefix."""
        (column,) = self.domain.columns.values()
        batches = (texts[start : start + self.batch] for start in range(0, len(texts), self.batch))
        tokens = [ids for place, batch in enumerate(batches) for ids in model(batch, seed + place)]
        labels, decode = np.empty(len(tokens), dtype=object), partial(self.tokenizer.decode, skip_special_tokens=True)
        labels[:] = [decode(ids).removeprefix(column.prefix) for ids in tokens]  # type: ignore[attr-defined]
        return Records(columns=(labels,))

    def _mean_words(self, texts: list[str]) -> Floats:
        """Average the model's word embeddings over each text alone, and scale the mean to length 1."""
        words = self.model.get_input_embeddings().weight.detach()
        directions = np.zeros((len(texts), words.shape[1]))
        for row, text in enumerate(texts):
            if ids := self._ids(text):
                mean = words[ids].double().mean(dim=0).cpu().numpy()
                directions[row] = mean / max(float(np.linalg.norm(mean)), 1e-300)
        return directions

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _padded(self, texts: list[list[int]], *, left: bool) -> tuple[Any, Any]:
        """Return a batch of tokens and its attention mask."""
        ids = np.full((len(texts), max(map(len, texts))), self.tokenizer.pad_token_id or 0)
        mask = np.zeros_like(ids)
        for row, text in enumerate(texts):
            place = slice(ids.shape[1] - len(text), None) if left else slice(len(text))
            ids[row, place], mask[row, place] = text, 1
        device = next(self.model.parameters()).device
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MaskedTexts(_Texts):
    """Texts of a masked language model of the library transformers (extra ``evolution``).

    A variation of degree q masks the share q of a text's tokens, chosen at random (one at least), and has the model
    draw them anew, half of the masks at a time. ``random`` draws texts of ``tokens`` tokens from masks alone. There is
    one variation for each of ``degrees``; from the first step to the last they shrink by the factor ``shrink``.

    The distance is the Euclidean one between the directions of the texts' mean word embeddings, or between the vectors
    of an ``embedding``, such as a sentence transformer. **It has to be a function of each text alone**, see
    :class:`Callables`. The model has to be public.

    Parameters
    ----------
    domain : Domain
        Public. One column of open labels, without nulls.
    model, tokenizer : transformers model and tokenizer
        Such as ``BertForMaskedLM``, in inference mode.
    tokens : int
        Length of random texts; longer texts are varied in their first tokens, and cut there.
    temperature : float
        Of the draws.
    embedding : callable or str, optional
        ``embedding(texts)`` gives an array of shape (texts, d); or the folder or the name of a model of the library
        model2vec (extra ``embeddings``), as for :class:`Callables`.
    diameter : float
        Upper bound on the distance of two embeddings; 2 for directions.
    label, degrees, shrink, batch
        As for :class:`DiffusionImages`.

    Raises
    ------
    ParameterError
        When torch is not installed, the domain is not one column of texts, or a parameter is out of range.
    """

    name: ClassVar[str] = "masked-texts"

    def __post_init__(self) -> None:
        _Texts.__post_init__(self)
        if None in (self.tokenizer.mask_token_id, self.tokenizer.cls_token_id, self.tokenizer.sep_token_id):
            raise ParameterError("the tokenizer has no mask, start or end token. Use ContinuedTexts for a causal model")

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Draw texts from masks alone."""
        masks = [[self.tokenizer.mask_token_id] * self.tokens for _ in range(count)]
        return self._in_batches(partial(self._varied, degree=1.0), masks, new_seed(rng))

    def _varied(self, texts: list[list[int]], seed: int, *, degree: float) -> list[list[int]]:
        start, end = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        ids, present = self._padded([[start, *text, end] for text in texts], left=False)
        masked = torch.zeros_like(ids, dtype=torch.bool)
        with _inference(seed):
            for row, text in enumerate(texts):
                order = torch.randperm(len(text))[: max(1, round(degree * len(text)))]
                masked[row, 1 + order.to(ids.device)] = True
            ids[masked] = self.tokenizer.mask_token_id
            while masked.any():
                rows, places = masked.nonzero(as_tuple=True)
                turn = torch.randperm(len(rows))[: (len(rows) + 1) // 2].to(ids.device)
                rows, places = rows[turn], places[turn]
                logits = self.model(input_ids=ids, attention_mask=present).logits[rows, places].double().cpu()
                logits[:, self.tokenizer.all_special_ids] = -torch.inf
                drawn = torch.multinomial(torch.softmax(logits / self.temperature, dim=1), 1)
                ids[rows, places] = drawn[:, 0].to(ids.device)
                masked[rows, places] = False
        return [row[1 : 1 + len(text)].tolist() for row, text in zip(ids, texts, strict=True)]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ContinuedTexts(_Texts):
    """Texts of a causal language model of the library transformers (extra ``evolution``).

    ``random`` continues a prompt drawn from ``prompts``. A variation of degree q cuts the last share q of a text's
    tokens off (one at least, and one stays at least), and has the model go on from there, until it ends the text or
    ``tokens`` is reached.

    Parameters
    ----------
    prompts : sequence of str
        Public beginnings of texts; random texts begin with one of them.
    tokens : int
        Most tokens of a text.
    domain, label, model, tokenizer, degrees, shrink, temperature, embedding, diameter, batch
        As for :class:`MaskedTexts`; the model such as ``GPT2LMHeadModel``.

    Raises
    ------
    ParameterError
        When torch is not installed, the domain is not one column of texts, or a parameter is out of range.
    """

    name: ClassVar[str] = "continued-texts"
    prompts: Sequence[str] = ()

    def __post_init__(self) -> None:
        _Texts.__post_init__(self)
        if not self.prompts or isinstance(self.prompts, str):
            raise ParameterError("prompts must be a list of at least one public beginning")
        lengths = [len(self._ids(prompt)) for prompt in self.prompts]
        if min(lengths) < 1 or max(lengths) >= self.tokens:
            raise ParameterError("prompts must have at least one token, and fewer than tokens")
        if self.tokenizer.eos_token_id is None:
            raise ParameterError("the tokenizer has no end token. Set its eos_token")
        object.__setattr__(self, "prompts", tuple(self.prompts))

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Continue prompts."""
        prompts = [self._ids(self.prompts[place]) for place in rng.integers(len(self.prompts), size=count)]
        return self._in_batches(self._continued, prompts, new_seed(rng))

    def parameters(self) -> dict[str, Any]:
        """Return what is not a function or a model."""
        return {**_Texts.parameters(self), "prompts": list(self.prompts)}

    def sources(self) -> dict[str, Records]:
        """Return the prompts."""
        return {"prompts": Records(columns=(np.array(self.prompts, dtype=object),))}

    def _varied(self, texts: list[list[int]], seed: int, *, degree: float) -> list[list[int]]:
        return self._continued([ids[: max(1, len(ids) - max(1, round(degree * len(ids))))] for ids in texts], seed)

    def _continued(self, starts: list[list[int]], seed: int) -> list[list[int]]:
        end = self.tokenizer.eos_token_id
        starts = [ids or [end] for ids in starts]
        ids, present = self._padded(starts, left=True)
        with _inference(seed):
            texts = self.model.generate(
                input_ids=ids,
                attention_mask=present,
                do_sample=True,
                temperature=self.temperature,
                top_k=0,
                max_new_tokens=self.tokens - min(map(len, starts)),
                eos_token_id=end,
                pad_token_id=end,
            )
        continued = []
        for start, text in zip(starts, texts, strict=True):
            continuation = list(takewhile(lambda token: token != end, text[ids.shape[1] :].tolist()))
            continued.append((start + continuation)[: self.tokens])
        return continued
