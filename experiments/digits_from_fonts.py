"""Handwritten digits from a public simulator: fonts, drawn at 8 by 8 pixels, as the generator of Private Evolution.

It takes about a minute of one core. Needs scikit-learn (whose digits play the confidential table), matplotlib (whose
DejaVu fonts play the public simulator) and Pillow; nothing is downloaded.

scikit-learn's digits are bitmaps of 32 by 32, counted in blocks of 4 by 4: pixels from 0 to 16. The simulator draws the
same way, from a font of random face, size, slant and place. A variation turns, shears, scales, shifts and blots an
image, by a little or by much, or draws its digit anew. Parameters of the evolution were fixed beforehand on such
digits: a study, not a release.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from _harness import HERE, script, write

from discreet import Budget, release
from discreet._core.random import seeded
from discreet.domain import Category, Domain, Integer
from discreet.evolution import Callables, measured_property

RESULTS = HERE / "results" / "digits_from_fonts"
SIDE, BLOCK, TOP = 8, 4, 16
PIXELS = [f"pixel_{row}_{column}" for row in range(SIDE) for column in range(SIDE)]
DIGITS = Domain(
    columns={name: Integer(lower=0, upper=TOP) for name in PIXELS} | {"digit": Category(categories=list(range(10)))}
)
LABEL_DISTANCE = 2.0
"""How far apart equal images of different digits are; different images of one digit are 2 to 3 apart."""

FACES = ("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSerif", "DejaVuSerif-Italic", "DejaVuSansMono")


def font_digits(*, variations: int = 8) -> Callables:
    """Return the generator: fonts to start from, distortions as variations, pixels and label as the embedding."""
    return Callables(
        domain=DIGITS,
        label="digits from DejaVu fonts, version 1",
        generate=drawn,
        vary=distorted,
        embedding=pixels_and_label,
        diameter=float(np.hypot(np.sqrt(len(PIXELS)), LABEL_DISTANCE)),
        variations=variations,
    )


def drawn(count: int, seed: int) -> pl.DataFrame:
    rng = seeded(seed)
    digits = rng.integers(10, size=count)
    return table(np.stack([glyph(int(digit), rng) for digit in digits]), digits)


def glyph(digit: int, rng: np.random.Generator) -> np.ndarray:
    """Draw one digit as a bitmap of 32 by 32, and count its blocks."""
    from PIL import Image, ImageDraw

    side = SIDE * BLOCK
    canvas = Image.new("L", (2 * side, 2 * side))
    font = face(FACES[rng.integers(len(FACES))], int(rng.integers(34, 44)))
    ImageDraw.Draw(canvas).text((side, side), str(digit), fill=255, font=font, anchor="mm")
    canvas = canvas.rotate(rng.normal(0, 8), resample=Image.Resampling.BILINEAR)
    ink = np.asarray(canvas, dtype=np.float64) / 255
    down, right = (side // 2 + np.clip(np.rint(rng.normal(0, 1.5, 2)), -4, 4)).astype(int)
    bitmap = ink[down : down + side, right : right + side] > rng.uniform(0.2, 0.8)
    return bitmap.reshape(SIDE, BLOCK, SIDE, BLOCK).sum(axis=(1, 3))


@lru_cache(maxsize=256)
def face(name: str, size: int) -> object:
    import matplotlib as mpl
    from PIL import ImageFont

    return ImageFont.truetype(str(Path(mpl.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"), size)


def distorted(frame: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Distort each image at a scale of its own, or draw its digit anew."""
    from scipy.ndimage import affine_transform

    rng = seeded(seed)
    images, digits = frame.select(PIXELS).to_numpy().reshape(-1, SIDE, SIDE), frame["digit"].to_numpy()
    out = np.empty(images.shape)
    for place, image in enumerate(images):
        if rng.random() < 1 / 16:
            out[place] = glyph(int(digits[place]), rng)
            continue
        scale = 0.5 ** rng.integers(5)
        linear = np.eye(2) + rng.normal(0, 0.15 * scale, (2, 2))
        middle = (SIDE - 1) / 2
        shift = middle - linear @ [middle, middle] + rng.normal(0, 0.7 * scale, 2)
        moved = affine_transform(image.astype(np.float64), linear, offset=shift, order=1)
        out[place] = moved + blots(rng) * 6 * scale
    return table(out, digits)


def blots(rng: np.random.Generator) -> np.ndarray:
    """Return smooth noise of standard deviation about 1."""
    from scipy.ndimage import gaussian_filter

    return gaussian_filter(rng.standard_normal((SIDE, SIDE)), sigma=0.7, mode="nearest") * 2.2


def pixels_and_label(frame: pl.DataFrame) -> np.ndarray:
    """Return pixels scaled to [0, 1], and a corner of a simplex for the label."""
    corners = np.eye(10)[frame["digit"].to_numpy()] * LABEL_DISTANCE / np.sqrt(2)
    return np.concatenate([frame.select(PIXELS).to_numpy() / TOP, corners], axis=1)


def table(images: np.ndarray, digits: np.ndarray) -> pl.DataFrame:
    whole = np.clip(np.rint(images), 0, TOP).astype(np.int64).reshape(len(images), -1)
    return pl.DataFrame(whole, schema=PIXELS).with_columns(digit=pl.Series(digits))


def handwritten() -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return scikit-learn's digits: 1,297 as the confidential table, 500 set aside."""
    from sklearn.datasets import load_digits

    found = load_digits()
    order = seeded(0).permutation(len(found.target))
    whole = table(found.images[order], found.target[order])
    return whole[:-500], whole[-500:]


def accuracy(trained_on: pl.DataFrame, tested_on: pl.DataFrame) -> float:
    """Return the share of digits that the nearest of the training images gets right."""
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(n_neighbors=1)
    model.fit(trained_on.select(PIXELS).to_numpy(), trained_on["digit"].to_numpy())
    return float(model.score(tested_on.select(PIXELS).to_numpy(), tested_on["digit"].to_numpy()))


def evolved(confidential: pl.DataFrame, epsilon: float, seed: int) -> pl.DataFrame:
    """Release 2,000 digits, delta 1e-4. Seeded, so for study only."""
    how: dict[str, Any] = {"variant": "practical", "steps": 6, "population": 100, "threshold": 3}
    how |= {"mechanism": "private-evolution", "api": font_digits(), "accept": {"poor-utility"}}
    return release(confidential, DIGITS, Budget(epsilon=epsilon, delta=1e-4), size=2000, seed=seed, **how).records


def shown(kind: str, digits: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield the first two images of each digit: rows of a data file."""
    for digit in range(10):
        chosen = digits.filter(pl.col("digit") == digit).select(PIXELS).head(2)
        yield from ((kind, digit, place, *pixels) for place, pixels in enumerate(chosen.iter_rows()))


WITHOUT_SLICE = {"digits.csv": "pixels of a font differ with the version of the program that renders it"}


@script(pairs=(1000, 30), releases=(10, 1))
def main(pairs: int, releases: int) -> None:
    """Print what the generator does, and what its digits are worth before any confidential record has voted."""
    api = font_digits()
    confidential, aside = handwritten()
    print("Approaching digits of the fonts (public):")
    print(measured_property(api, api.random(200, rng=seeded(1)), rng=seeded(2), pairs=pairs, steps=20))
    print("\nApproaching handwritten digits (confidential, were they not published):")
    targets = DIGITS.encode(confidential)
    print(measured_property(api, targets, rng=seeded(3), pairs=pairs, steps=20))
    fonts = drawn(2000, 4)
    evolution = evolved(confidential, 10.0, 0)
    head = ("kind", "digit", "place", *PIXELS)
    write(RESULTS / "digits.csv", head, [*shown("fonts", fonts), *shown("evolved, epsilon 10", evolution)])
    print("\nShare of 500 handwritten digits that their nearest neighbour names correctly:")
    print(f"  among 2,000 digits of the fonts      {accuracy(fonts, aside):.3f}")
    print(f"  among {confidential.height:,} handwritten digits      {accuracy(confidential, aside):.3f}")
    for epsilon in (5.0, 10.0, 20.0):
        shares = [accuracy(evolved(confidential, epsilon, seed), aside) for seed in range(releases)]
        print(f"  among 2,000 evolved, epsilon {epsilon:<4g}    {np.mean(shares):.3f}", end=" ")
        print(f"({releases} releases: {min(shares):.3f} to {max(shares):.3f})")
