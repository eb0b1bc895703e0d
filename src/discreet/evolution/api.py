"""What Private Evolution asks of a data generator: random records, variations of records, and where records lie."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NoReturn, Self, cast

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import unfit
from discreet._core.errors import DataError, ParameterError
from discreet._core.lazy import pl
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
        if any(item.default is item.default_factory for name, item in arguments.items() if name not in parameters):
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
    """Draw a seed that every library takes: below 2**32, less what is added for blocks."""
    return int(rng.integers(2**32 - 2**24))


def settled_norm(norm: Any) -> float:
    """Return a norm as a number. Raises ParameterError unless it is 1, 2 or infinity (the text "inf" in JSON)."""
    if norm not in (1, 2, math.inf, "inf") or isinstance(norm, bool):
        raise unfit("norm", "1, 2 or inf", norm)
    return float(norm)


def plain_norm(norm: float) -> Any:
    """Return a norm as a JSON value, which has no infinity."""
    return "inf" if math.isinf(norm) else int(norm)


# Public frames, which users or their functions give, as records of a domain.


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
