"""Figures 3 and 4 of PE25 on two sets of small images: does Private Evolution improve with n, and how many steps pay?

It takes about ten minutes, and needs scikit-learn, matplotlib, Pillow and, for garments, shared data.

* **digits**: scikit-learn's handwritten digits, 8 by 8, are private; fonts are the generator, as in
  ``digits_from_fonts.py``. Candidates are compared by pixels and label.
* **fashion**: pullovers and coats of Fashion-MNIST, halved to 14 by 14, are private. The generator knows the other
  eight classes: it starts at their images, and varies an image by adding a multiple of the difference of two images of
  one class, or by blending it with another image, or draws anew. Candidates are compared by the first 40 principal
  components of public images.

T is ``log(n epsilon)``, the paper's choice in this experiment, rounded up; ``2 log(n epsilon)``, that of its
simulations, is beside it. The error is a Frechet distance: that of normal distributions with the means and covariances
of two sets of images, in principal components **of public images** (fonts; the public classes), scaled by nothing. The
reference is a set of private-class images that is disjoint from the private table and does not change with n, so that
no trend comes from the reference. The release enters by its exact probabilities, so that none comes from its size.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from _harness import HERE, data, each_once, script, write
from digits_from_fonts import DIGITS, PIXELS, drawn, font_digits
from digits_from_fonts import table as digits_frame
from pe25_figures import Evolution, as_printed, student_band

from discreet._core.random import seeded
from discreet.domain import Domain, Integer, Records
from discreet.evolution import API
from discreet.evolution.api import in_blocks
from discreet.privacy import Budget

RESULTS = HERE / "results" / "pe25_images"
EPSILON, DELTA, SEED = 5.0, 1e-4, 34
RECORDS, STEPS, FIXED_N = (100, 200, 300, 400, 500, 600, 1200), (1, 2, 4, 8, 12, 16, 20), 300
SIDE, PRIVATE_CLASSES, COMPONENTS, SEEN, VARIATIONS = 14, (2, 4), 40, 20, 8
FASHION = Domain(columns={f"p{place}": Integer(lower=0, upper=255) for place in range(SIDE * SIDE)})


@dataclass(frozen=True, slots=True)
class Study:
    """Private images, a public generator, and the embedding that errors are measured in."""

    name: str
    api: API
    held: Records
    reference: Any
    seen: Callable[[Records], Any]
    runs: int


def components(images: Any, count: int) -> tuple[Any, Any]:
    """Return the mean and the first principal directions of public images."""
    centre = images.mean(axis=0)
    return centre, np.linalg.svd(images - centre, full_matrices=False)[2][:count]


def seen_by(public: Any, top: float) -> Callable[[Records], Any]:
    """Return the embedding of pixels on public components, pixels scaled to [0, 1]."""
    pixels = public.shape[1]
    centre, directions = components(public / top, SEEN)
    return lambda records: (np.stack(records.columns[:pixels], axis=1) / top - centre) @ directions.T


def digits() -> Study:
    from sklearn.datasets import load_digits

    found = load_digits()
    order = seeded(SEED).permutation(len(found.target))
    everything = DIGITS.encode(digits_frame(found.images[order], found.target[order]))
    seen = seen_by(drawn(2000, SEED).select(PIXELS).to_numpy(), 16.0)
    held, aside = everything.take(slice(1200)), everything.take(slice(1200, None))
    return Study("digits", font_digits(), held, seen(aside), seen, 4)


def fashion() -> Study:
    frame = data("fashion_mnist_t10k")
    pixels = np.stack(frame["pixels"].to_list()).reshape(-1, SIDE, 2, SIDE, 2).mean(axis=(2, 4)).reshape(len(frame), -1)
    labels = frame["label"].to_numpy()
    private = np.isin(labels, PRIVATE_CLASSES)
    confidential = seeded(SEED).permutation(np.rint(pixels[private]).astype(np.int64))
    public, classes = pixels[~private], labels[~private]
    seen = seen_by(public, 255.0)
    everything = Records(columns=tuple(confidential.T))
    held, aside = everything.take(slice(1200)), everything.take(slice(1200, None))
    by_class = [np.flatnonzero(classes == label) for label in np.unique(classes)]
    centre, directions = components(public / 255.0, COMPONENTS)
    api = Blends(domain=FASHION, public=public, by_class=by_class, centre=centre, directions=directions)
    return Study("fashion", api, held, seen(aside), seen, 12)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Blends(API):
    """Images that public ones span; compared by the principal components of public images."""

    name: ClassVar[str] = "blends"
    domain: Domain
    public: Any
    by_class: Any
    centre: Any
    directions: Any

    @property
    def norm(self) -> float:
        return 2.0

    @property
    def diameter(self) -> float:
        return float(SIDE)

    def variations_each(self) -> int:
        return 1 + VARIATIONS

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        return images(self.public[rng.integers(len(self.public), size=count)])

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        """Keep an image; add a share of a difference within a class, or go towards another image, or take that one."""
        points = np.repeat(np.stack(records.columns, axis=1).astype(np.float64), VARIATIONS, axis=0)
        share = 0.5 ** rng.integers(5, size=(len(points), 1))
        other = self.public[rng.integers(len(self.public), size=len(points))]
        kind = rng.integers(8, size=(len(points), 1))
        moved = np.where(kind < 4, points + share * self._differences(len(points), rng), points)
        moved = np.where(kind >= 4, points + 0.5 * share * (other - points), moved)
        moved = np.where(kind == 7, other, moved)
        return in_blocks(records, [line.reshape(-1, VARIATIONS) for line in images(moved).columns])

    def _differences(self, count: int, rng: np.random.Generator) -> Any:
        pairs = np.empty((2, count), dtype=np.int64)
        classes = rng.integers(len(self.by_class), size=count)
        for place, members in enumerate(self.by_class):
            here = classes == place
            pairs[:, here] = rng.choice(members, size=(2, int(here.sum())))
        return self.public[pairs[0]] - self.public[pairs[1]]

    def embed(self, records: Records) -> Any:
        return (np.stack(records.columns, axis=1) / 255.0 - self.centre) @ self.directions.T

    def parameters(self) -> dict[str, Any]:
        return {"label": "blends of eight classes of Fashion-MNIST, version 1"}


def images(points: Any) -> Records:
    return Records(columns=tuple(np.clip(np.rint(points), 0, 255).astype(np.int64).T))


def frechet(points: Any, reference: Any, weights: Any = None) -> float:
    r"""Return :math:`|m_1 - m_2|^2 + \mathrm{tr}(C_1 + C_2 - 2 (C_1^{1/2} C_2 C_1^{1/2})^{1/2})`."""
    share = np.full(len(points), 1 / len(points)) if weights is None else weights
    mean = share @ points
    first = (points - mean).T @ ((points - mean) * share[:, None])
    second = np.cov(reference.T, bias=True)
    values, vectors = np.linalg.eigh(first)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ second @ root), 0)).sum()
    between = float(((mean - reference.mean(axis=0)) ** 2).sum())
    return between + float(np.trace(first) + np.trace(second) - 2 * cross)


def made(study: Study, n: int, steps: int, **fixed: Any) -> Evolution:
    """Return the mechanism with the least noise for that many steps."""
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    return as_printed(budget, domain=study.api.domain, n=n, steps=steps, api=study.api, **fixed)


def errors(study: Study, mechanism: Evolution, rng: np.random.Generator) -> Any:
    """Return the Frechet distances of releases from tables drawn from the private images."""
    found = []
    for _ in range(study.runs):
        held = study.held.take(rng.permutation(len(study.held))[: mechanism.records])
        last = mechanism.kernel(each_once(held.columns), rng=rng)[-1]
        found.append(frechet(study.seen(last.candidates), study.reference, mechanism.probabilities(last)))
    return np.array(found)


def levels(study: Study, rng: np.random.Generator) -> list[tuple[str, Any]]:
    """Return the generator alone, and the best that any mechanism can hope for: other images of the same kind."""
    alone = [frechet(study.seen(study.api.random(2000, rng=rng)), study.reference) for _ in range(study.runs)]
    return [("no step", alone), ("private images", [frechet(study.seen(study.held), study.reference)])]


def measure(study: Study) -> Iterator[Any]:
    rng = seeded(SEED)

    def row(figure: int, series: str, n: int, mechanism: Evolution | None, found: Any) -> Any:
        facts = (mechanism.steps, mechanism.population, mechanism.scale) if mechanism else (0, 0, math.nan)
        return (study.name, figure, series, n, *facts, *student_band(found), len(found))

    for series, found in levels(study, rng):
        yield row(0, series, len(study.held), None, found)
    for n in RECORDS:
        subsets = [study.held.take(rng.permutation(len(study.held))[:n]) for _ in range(study.runs)]
        yield row(3, "private images", n, None, [frechet(study.seen(s), study.reference) for s in subsets])
        theory = made(study, n, math.ceil(math.log(n * EPSILON)))
        ways = {
            "practical, T = log(n eps)": theory,
            "practical, T = 2 log(n eps)": made(study, n, math.ceil(2 * math.log(n * EPSILON))),
            "projection, T = log(n eps)": replace(theory, variant="projection"),
        }
        for series, mechanism in ways.items():
            yield row(3, series, n, mechanism, errors(study, mechanism, rng))
        print(f"{study.name}: n = {n:,} done", flush=True)
    for steps in STEPS:
        theory = made(study, FIXED_N, steps)
        wide, projected = replace(theory, population=10 * theory.population), replace(theory, variant="projection")
        ways = {"practical": theory, "practical, ten times n_s": wide, "projection": projected}
        for series, mechanism in ways.items():
            yield row(4, series, FIXED_N, mechanism, errors(study, mechanism, rng))


STALE = {"figures_3_4.csv": "the same seeds draw other populations since; it takes about ten minutes"}


def slices() -> dict[str, Any]:
    return {"figures_3_4.csv": islice(measure(digits()), 4)}


@script(studies=({"digits": digits, "fashion": fashion}, ["digits"]))
def main(studies: list[str]) -> None:
    rows: list[Any] = []
    for name in studies:
        try:
            rows += measure(digits() if name == "digits" else fashion())
        except SystemExit as absent:
            print(absent)
    head = ("images", "figure", "series", "n", "steps", "population", "scale", "mean_frechet", "low_99", "high_99",
            "runs")  # fmt: skip
    write(RESULTS / "figures_3_4.csv", head, rows)
