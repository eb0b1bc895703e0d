"""What Private Evolution asks of a data generator: random records, variations of records, and where records lie."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.util import find_spec
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import DataError, MissingExtra, ParameterError, integer, real, unfit
from discreet._core.lazy import Lazy, pl
from discreet._core.numeric import Floats
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Domain, Records, ground_diameter, ground_embedding, refuse_open_labels

METRICS = {1.0: "cityblock", 2.0: "euclidean", math.inf: "chebyshev"}
"""SciPy's name of each norm of a difference."""


@sealed
class API(ABC):
    r"""A generator of records that never sees the confidential table, and the metric in which records are compared.

    Subclasses are frozen dataclasses of public facts. Private Evolution calls ``random`` once and ``variation`` in
    every step, on records that are public by then; confidential records are only ever passed to :meth:`embed`.

    The distance of two records is :math:`\rho(x, y) = \lVert e(x) - e(y) \rVert` with ``e`` the embedding. Privacy
    needs one thing of it: **the embedding of a record is a function of that record alone**, never of the other records
    it is embedded with. Then one replaced record moves one vote. Nothing else about an API affects the guarantee;
    everything about it affects utility.

    Attributes
    ----------
    name : str
        Name in certificates and for :func:`api_from`.
    quick : bool
        Whether candidates take next to no time, so that a release can be predicted by running the API.
    domain : Domain
        What ``random`` and ``variation`` give are records of this domain, encoded.
    """

    name: ClassVar[str]
    quick: ClassVar[bool] = False
    domain: Domain

    @property
    @abstractmethod
    def norm(self) -> float:
        """Norm of the difference of two embeddings: 1.0, 2.0 or infinity."""

    @property
    @abstractmethod
    def diameter(self) -> float:
        """Upper bound ``D`` on the distance of two records that the API gives. Public."""

    @abstractmethod
    def variations_each(self) -> int:
        """Return how many candidates :meth:`variation` makes of a record, the record itself included."""

    @abstractmethod
    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Draw records to start from.

        Parameters
        ----------
        count : int
            How many, at least 1.
        rng : numpy.random.Generator
            Source of the draws; independent of the noise that protects the confidential table.
        """

    @abstractmethod
    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        """Return ``variations_each()`` candidates near each record, in one block per record, the record itself first.

        Parameters
        ----------
        records : Records
            Public: drawn by :meth:`random`, or chosen under the guarantee.
        rng : numpy.random.Generator
            As for :meth:`random`.
        step, steps : int
            The step of the evolution, ``0 .. steps-1``, and how many there are: for variations that shrink.
        """

    @abstractmethod
    def embed(self, records: Records) -> Floats:
        """Return where encoded records lie, confidential ones too: finite coordinates, shape (len(records), d).

        Each row depends on its own record alone.
        """

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the public facts as JSON values, without the domain: what the certificate records."""

    def sources(self) -> dict[str, Records]:
        """Return the public records that the API was made of, by name: a release refuses the confidential table there.

        An API of your own that holds a table has to return it here; one made of functions alone has none.
        """
        return {}

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], domain: Domain) -> Self:
        """Build the API from what :meth:`parameters` returns.

        Raises ParameterError when a parameter is missing, unknown or out of range.
        """
        arguments = {item.name: item for item in fields(cast("Any", cls)) if item.init and item.name != "domain"}
        if unknown := sorted(parameters.keys() - arguments.keys()):
            raise ParameterError(f"unknown parameter {unknown[0]!r}. The API {cls.name} takes: {', '.join(arguments)}")
        missing = [item for name, item in arguments.items() if name not in parameters]
        if any(item.default is item.default_factory is MISSING for item in missing):
            raise ParameterError(
                f"the API {cls.name} cannot be rebuilt from these parameters alone. Build it with what it was made of"
            )
        norm = {"norm": math.inf} if parameters.get("norm") == "inf" else {}
        return cast("Self", cast("Any", cls)(domain=domain, **{**parameters, **norm}))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroundAPI(API):
    """An API over records of any kind but open labels, whose distance is the domain's ground distance."""

    norm: ClassVar[float] = 1.0  # the ground distance is a sum over columns

    domain: Domain

    def __post_init__(self) -> None:
        refuse_open_labels(self.domain, self.name)

    @property
    def diameter(self) -> float:
        """Sum of the columns' weights in the ground distance."""
        return ground_diameter(self.domain)

    def embed(self, records: Records) -> Floats:
        """Return coordinates whose L1 distance is the ground distance."""
        return ground_embedding(self.domain, records)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedAPI(API):
    """An API known by name and parameters only, as a certificate records it: it describes, and refuses to run."""

    # A guarantee never depends on the API, so a certificate can be verified without its functions, models or data.

    domain: Domain
    name: str  # type: ignore[misc]  # of the API it stands for, so not the same for all instances
    stated: str
    each: int | None = None

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ParameterError(
            f"the API {self.name!r} is known by its parameters only, and cannot run. Build it again with the "
            "functions, model or public table it was made of"
        )

    norm = diameter = property(_refuse)
    random = variation = embed = _refuse

    def variations_each(self) -> int:
        """Return the number as it was recorded."""
        return self._refuse() if self.each is None else self.each

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as they were recorded."""
        return dict(json.loads(self.stated))


def in_blocks(records: Records, varied: Sequence[npt.NDArray[Any]]) -> Records:
    """Put each record and its variations, arrays of shape (len(records), variations), side by side, itself first."""
    parts = zip(records.columns, varied, strict=True)
    return Records(columns=tuple(np.concatenate((codes[:, None], near), axis=1).reshape(-1) for codes, near in parts))


def new_seed(rng: np.random.Generator) -> int:
    """Draw a seed that every library takes, with room below 2**32 for the number of a block."""
    return int(rng.integers(2**32 - 2**24))


def settled_norm(norm: Any) -> float:
    """Return a norm as a number. Raises ParameterError unless it is 1, 2 or infinity (the text "inf" in JSON)."""
    if norm not in (1, 2, math.inf, "inf") or isinstance(norm, bool):
        raise unfit("norm", "1, 2 or inf", norm)
    return float(norm)


def plain_norm(norm: float) -> Any:
    """Return a norm as a JSON value, which has no infinity."""
    return "inf" if math.isinf(norm) else int(norm)


def to_records(frame: Any, domain: Domain, *, source: str, rows: int | None = None) -> Records:
    """Encode a public frame that ``source`` gave. Raises ParameterError naming the column and the remedy."""
    try:
        table = frame if isinstance(frame, pl.DataFrame) else pl.DataFrame(frame)
    except Exception as problem:  # whatever the frame is
        raise ParameterError(f"{source} is not a table. Give a polars.DataFrame, or a mapping of columns") from problem
    if missing := [name for name in domain.names if name not in table.columns]:
        have = ", ".join(map(repr, table.columns))
        raise ParameterError(f"{source} lacks column {missing[0]!r}. Its columns are: {have}")
    if rows is not None and table.height != rows:
        raise ParameterError(f"{source} must have {counted(rows, 'row')}, got {table.height:,}")
    try:
        return domain.encode(table)
    except DataError as problem:
        raise ParameterError(f"{source} must keep to the declared facts: {problem}") from problem


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
        return checked_points(cast("Callable[[pl.DataFrame], npt.ArrayLike]", self.embedding), self._frame(records))

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
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException:  # noqa: BLE001, S110 - whatever it is, it may quote the rows
        pass
    if points is None:
        raise ParameterError("the embedding failed. Try it on a public frame (decode what random gives) to see why")
    if points.ndim != 2 or len(points) != len(rows) or not np.isfinite(points).all():
        raise ParameterError("the embedding must give an array of finite numbers, one row per record")
    return points
