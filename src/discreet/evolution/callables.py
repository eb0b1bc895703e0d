"""A generator made of the user's own functions: a simulator, an image model, a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import integer, real, unfit
from discreet._core.errors import MissingExtra, ParameterError
from discreet._core.lazy import Lazy, pl
from discreet._core.random import seeded
from discreet.domain import Domain, Records
from discreet.evolution.api import API, in_blocks, new_seed, plain_norm, settled_norm, to_records

model2vec = Lazy("model2vec")
"""Ready embeddings of texts: static vectors of words, loaded when a model is named."""


def text_column(domain: Domain, remedy: str) -> str:
    """Return the name of the column of texts. Raises ParameterError unless it is the only column of a domain."""
    (name, column), *columns = domain.columns.items()
    if columns or not column.open or column.nullable:
        raise ParameterError(f"column {name!r}: texts must be the only column, of open labels without nulls. {remedy}")
    return name


def settled_embedding(given: Any, domain: Domain) -> Callable[[Any], npt.ArrayLike]:
    """Return an embedding as a function: one that was given, or that of a model named by its folder or its name."""
    if callable(given):
        return cast("Callable[[Any], npt.ArrayLike]", given)
    if not isinstance(given, str) or not given:
        raise unfit("embedding", "a function, or the name or folder of a model of model2vec", given)
    name = text_column(domain, "Give a function")
    if find_spec("model2vec") is None:
        raise MissingExtra("the embedding of a model by its name needs model2vec", "embeddings")
    try:
        model = model2vec.StaticModel.from_pretrained(given, force_download=False)
    except Exception as problem:  # whatever the hub, the file or the network is
        raise ParameterError(
            "the model of the embedding cannot be loaded. Give the folder of a model of model2vec, or its name on "
            "Hugging Face where it can be reached"
        ) from problem

    def embedding(rows: Any) -> Floats:
        """Return the direction of the mean vector of each text's words; 0 where it has none that the model knows."""
        texts: Sequence[str] = rows if isinstance(rows, list) else rows[name].to_list()
        vectors = np.asarray(model.encode(texts, normalize=False, use_multiprocessing=False), dtype=np.float64)
        lengths = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
        return np.asarray(vectors / np.where(lengths > 0.0, lengths, 1.0))

    return embedding


_CHECKED_RECORDS = 4


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Callables(API):
    """An API made of three functions on frames.

    The functions are given and give frames of the domain's columns, in values, not codes. What they give is checked
    against the domain. They are called with a seed below 2**32, and have to give the same for the same seed: then a
    seeded run can be repeated.

    **The embedding is called with one row at a time**, because the guarantee rests on its being a function of each row
    alone, to the last bit: products of matrices round a row differently in batches of different sizes. It must not keep
    anything between calls, nor draw at random; a model has to be in inference mode. ``random`` embeds some of its
    records twice, and refuses an embedding that differs; that is a check on public records, not a proof.

    Parameters
    ----------
    domain : Domain
        Public. Cells hold one value each, so that a record is what the functions are shown.
    label : str
        What the functions are, for the certificate, such as "digits from fonts, version 3".
    generate : callable
        ``generate(count, seed)`` gives a frame of ``count`` records to start from.
    vary : callable
        ``vary(frame, seed)`` gives a frame whose row i is a variation of row i. It is called once for each of the
        variations, with different seeds.
    embedding : callable or str
        ``embedding(frame)`` gives an array of shape (rows, d), finite. For a domain of one column of texts it may be
        the folder or the name of a model of the library model2vec (extra ``embeddings``): the direction of the mean
        vector of a text's words, no two of which are farther apart than 2.
    diameter : float
        Upper bound on the distance of two embeddings, public.
    variations : int
        Variations of a record besides itself, 1 to 256.
    norm : {1, 2, inf}
        Norm of the difference of two embeddings.

    Raises
    ------
    ParameterError
        When a parameter is out of range, or cells hold several values.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Numeric
    >>> domain = Domain(columns={"x": Numeric(lower=0, upper=1)})
    >>> api = Callables(
    ...     domain=domain,
    ...     label="uniform numbers",
    ...     generate=lambda count, seed: pl.DataFrame({"x": seeded(seed).random(count)}),
    ...     vary=lambda frame, seed: frame.select((pl.col("x") + seeded(seed).normal(0, 0.1)).clip(0, 1)),
    ...     embedding=lambda frame: frame.to_numpy(),
    ...     diameter=1.0,
    ... )
    >>> start = api.random(3, rng=seeded(0))
    >>> len(api.variation(start, rng=seeded(1)))
    9
    """

    name: ClassVar[str] = "callables"
    domain: Domain
    label: str
    generate: Callable[[int, int], Any]
    vary: Callable[[pl.DataFrame, int], Any]
    embedding: Callable[[pl.DataFrame], npt.ArrayLike] | str
    diameter: float
    variations: int = 2
    norm: float = 2.0

    def __post_init__(self) -> None:
        if not isinstance(self.label, str) or not self.label:
            raise ParameterError("label must say in words what the functions are, for the certificate")
        for name in ("generate", "vary"):
            if not callable(getattr(self, name)):
                raise unfit(name, "a function", getattr(self, name))
        object.__setattr__(self, "embedding", settled_embedding(self.embedding, self.domain))
        for name, column in self.domain.columns.items():
            if column.finite and column.interval(np.zeros(1, dtype=np.int64)) is not None:  # a value would be drawn
                raise ParameterError(
                    f"column {name!r}: its cells hold several values, and the API {self.name} works on values. Declare "
                    'within = "midpoint", a grid or a step, or leave cells out'
                )
        object.__setattr__(self, "variations", integer("variations", self.variations, least=1, most=256))
        object.__setattr__(self, "norm", settled_norm(self.norm))
        object.__setattr__(self, "diameter", real("diameter", self.diameter, above=0))

    def variations_each(self) -> int:
        """Return ``1 + variations``."""
        return 1 + self.variations

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Call ``generate`` for 4 records at least, and check the embedding on some of what it gives.

        Raises ParameterError when that does not fit the domain, or the embedding of a row changes from call to call.
        """
        rows = max(count, _CHECKED_RECORDS)
        records = to_records(self.generate(rows, new_seed(rng)), self.domain, source="what generate gave", rows=rows)
        sample = records.take(slice(_CHECKED_RECORDS))
        points, repeated = self.embed(sample), self.embed(sample.take(np.arange(len(sample))[::-1]))[::-1]
        if not np.array_equal(points, repeated):
            raise ParameterError(
                "the embedding of a row is not the same each time, which would break the guarantee. It must not draw "
                "at random, nor keep anything from one call to the next"
            )
        return records.take(slice(count))

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        """Call ``vary`` once for each variation. Raises ParameterError when what it gives does not fit the domain."""
        frame = self._frame(records)
        parts = [
            to_records(self.vary(frame, new_seed(rng)), self.domain, source="what vary gave", rows=len(records))
            for _ in range(self.variations)
        ]
        return in_blocks(records, [np.stack(codes, axis=1) for codes in zip(*(p.columns for p in parts), strict=True)])

    def embed(self, records: Records) -> Floats:
        """Call ``embedding``. Raises ParameterError when it fails, or does not give a row of finite numbers per record.

        Errors do not repeat what it was given, nor its own error, which may hold values.
        """
        embedding = cast("Callable[[pl.DataFrame], npt.ArrayLike]", self.embedding)
        return checked_points(embedding, self._frame(records))

    def parameters(self) -> dict[str, Any]:
        """Return label, variations, norm and diameter."""
        norm = plain_norm(self.norm)
        return {"label": self.label, "variations": self.variations, "diameter": self.diameter, "norm": norm}

    def _frame(self, records: Records) -> pl.DataFrame:
        """Return records as values; cells hold one value each, so nothing is drawn."""
        return self.domain.decode(records, rng=seeded(0))


def checked_points(embedding: Callable[[Any], npt.ArrayLike], rows: Any) -> Floats:
    """Embed rows that may be confidential one by one, and check what comes back; no error holds a trace of the rows."""
    if len(rows) == 0:
        return np.empty((0, 0))
    points = None
    try:
        # One row per call: a product of matrices rounds a row differently in batches of different sizes, and where the
        # number of distinct records changes, thousands of votes of records that did not change would move.
        points = np.concatenate([np.asarray(embedding(rows[i : i + 1]), dtype=np.float64) for i in range(len(rows))])
    except (MemoryError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # noqa: BLE001, S110 - whatever it is, it may quote the rows
        pass
    if points is None:
        raise ParameterError("the embedding failed. Try it on a public frame (decode what random gives) to see why")
    if points.ndim != 2 or len(points) != len(rows) or not np.isfinite(points).all():
        raise ParameterError("the embedding must give an array of finite numbers, one row per record")
    return points
