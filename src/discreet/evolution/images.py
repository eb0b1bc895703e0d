"""Images: a diffusion model draws them, and varies one by adding noise part of the way and taking it off again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import integer, real
from discreet._core.errors import ParameterError
from discreet._core.lazy import torch
from discreet.domain import Domain, Records
from discreet.evolution.api import in_blocks, new_seed
from discreet.evolution.callables import ModelAPI, checked_points, degrees_at, inference, needed, settled_degrees
from discreet.evolution.euclidean import Box


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DiffusionImages(ModelAPI):
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
        needed("torch", "diffusers")
        shape = tuple(integer("shape", side, least=1, most=10**5) for side in self.shape)
        if len(shape) != 3 or prod(shape) != len(self.domain.columns):
            raise ParameterError(
                "shape must be height, width and channels, whose product is the number of columns, "
                f"{len(self.domain.columns)}"
            )
        box = Box(domain=self.domain)
        if self.embedding is not None and self.diameter is None:
            raise ParameterError(
                "an embedding needs its diameter. Give a public upper bound on the distance of two images"
            )
        values = {
            "inference_steps": integer("inference_steps", self.inference_steps, least=1, most=10**4),
            "batch": integer("batch", self.batch, least=1, most=10**6),
            "shape": shape,
            "degrees": settled_degrees(self.degrees, self.shrink),
            "diameter": box.diameter if self.diameter is None else real("diameter", self.diameter, above=0),
            "_box": box,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Draw images from noise."""
        height, width, channels = self.shape
        return self._records(self._denoised(np.zeros((count, channels, height, width)), 1.0, new_seed(rng)))

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        """Add noise part of the way, and take it off again."""
        images = 2 * self._images(records).transpose(0, 3, 1, 2) - 1
        degrees = degrees_at(self.degrees, self.shrink, step, steps)
        parts = [self._records(self._denoised(images, degree, new_seed(rng))) for degree in degrees]
        columns = zip(*(part.columns for part in parts), strict=True)
        return in_blocks(records, [np.stack(column, axis=1) for column in columns])

    def embed(self, records: Records) -> Floats:
        """Return the scaled pixels, or the embedding of the images.

        Raises
        ------
        ParameterError
            When the embedding fails, or gives something else than finite numbers, one row per image.
        """
        if self.embedding is None:
            return self._box.embed(records)
        return checked_points(self.embedding, self._images(records))

    def parameters(self) -> dict[str, Any]:
        """Return what is not a function or a model."""
        facts = {name: getattr(self, name) for name in ("label", "inference_steps", "shrink", "diameter")}
        facts |= {"shape": list(self.shape), "degrees": list(self.degrees)}
        return {**facts, "own_embedding": self.embedding is not None}

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
        with inference(seed):
            for start in range(0, len(images), self.batch):
                block = slice(start, start + self.batch)
                sample = torch.randn(images[block].shape).to(weights)
                if degree < 1:
                    clean = torch.from_numpy(images[block]).to(weights)
                    sample = self.scheduler.add_noise(clean, sample, times[:1].repeat(len(clean)))
                for time in times:
                    noise = self.model(sample, time).sample
                    sample = self.scheduler.step(noise, time, sample).prev_sample
                denoised[block] = sample.double().cpu().numpy()
        return denoised
