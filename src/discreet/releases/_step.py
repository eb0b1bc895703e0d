"""What the publisher asks of a private step, whoever brings it: a mechanism, or a model above this package."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from discreet._random import seeded
from discreet.domain import Domain, Records
from discreet.domain._commonness import Commonness
from discreet.errors import ParameterError
from discreet.privacy import Guarantee, Relation

if TYPE_CHECKING:
    import numpy as np
    import polars as pl

__all__ = ["Publishable", "Step", "rebuilt_elsewhere"]


class Publishable(ABC):
    """What :func:`publish` takes beside mechanisms: it becomes a step on the domain of the confidential table."""

    @abstractmethod
    def step(self, domain: Domain) -> Step:
        """Return the step, or refuse a domain that it does not fit: by public facts alone."""


class Step(Publishable):
    """A private step, what follows it, and what is promised of it. All of it but the argument of ``run`` is public.

    Attributes
    ----------
    name : str
        As in the certificate, from which the step is built again by this name.
    domain : Domain
        The one that the confidential table must be encoded with.
    tables : int or None
        How many tables it releases, into a folder; None for the one table of a file.
    protected : tuple of str
        The columns that the guarantee is about, where it is not about all.
    pure_epsilon : float or None
        The epsilon that the certificate states, at which delta is 0; None where a budget may choose another.
    randomness : str
        Where its secure randomness comes from, in words; the publisher's own by default.
    """

    name: str
    domain: Domain
    tables: int | None = None
    protected: tuple[str, ...] = ()
    randomness: ClassVar[str] = (
        "operating-system entropy, fresh for this release: ChaCha20 keyed with 256 bits of it, and for noise on counts "
        "OpenDP's own secure generator"
    )

    def step(self, domain: Domain) -> Step:
        """Return the step itself, if the domain is its own."""
        if domain != self.domain:
            raise ParameterError("the domain must be the one that the confidential table was encoded with")
        return self

    # -- what is done with the table --------------------------------------------------------------------------------

    @abstractmethod
    def run(self, x: Any, *, rng: np.random.Generator, progress: Callable[..., None] | None) -> Any:
        """Take the private step on a confidential table; what it returns is public under the guarantee."""

    @abstractmethod
    def frames(
        self, output: Any, *, rng: np.random.Generator, progress: Callable[..., None] | None
    ) -> Iterator[Iterator[pl.DataFrame]]:
        """Turn the output into tables, each a stream of rows: public post-processing."""

    def outcome(self, output: Any, n: int) -> Mapping[str, Any]:
        """Return what the output itself tells about its use, as ``outcome`` and ``share_from_data``."""
        return {}

    # -- what is public beforehand ----------------------------------------------------------------------------------

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, as JSON values, from which the step is built again."""

    @abstractmethod
    def guarantee(self, relation: Relation, *, n: int) -> Guarantee:
        """Return what is promised for a table of ``n`` records."""

    @abstractmethod
    def size(self, n: int) -> int | None:
        """Return how many records each table is to have; None for counts of cells."""

    @abstractmethod
    def utility(self, n: int) -> dict[str, Any]:
        """Return what share of the records is not from the data: three claims of the certificate's guarantee."""

    def pure_epsilon(self, relation: Relation) -> float | None:
        """Return the epsilon that the certificate states, at which delta is 0; None where a budget may choose it."""
        return None

    def epsilon_each(self, relation: Relation) -> float | None:
        """Return the epsilon of each of several tables; None where there is one."""
        return None

    def declared(self, relation: Relation) -> int | None:
        """Return the number of records declared in public; None where the table says it.

        Raises
        ------
        ParameterError
            When the table must not say it, and there is none.
        """
        if relation.name != "replacement":
            raise ParameterError(f"{self.name} cannot be published under {relation.name}")
        return None

    def require_utility(self, n: int, like: Commonness | None) -> None:
        """Refuse a release most of which would not be from the data, where that is known beforehand."""

    def public_inputs(self) -> Mapping[str, Records]:
        """Return the public records that the step was made of, by name."""
        return {}

    def fits(self, rows: int, n: int) -> bool:
        """Return whether a table may have so many rows."""
        return rows == self.size(n)

    def empty(self) -> pl.DataFrame:
        """Return a table of no rows, with the names and types of those that are released."""
        return self.domain.decode(self.domain.draw_base(0, seeded(0)), rng=seeded(0))

    @property
    def columns(self) -> list[str]:
        """Names of the released columns."""
        return list(self.domain.names)


_ELSEWHERE = {
    "pseudo-posterior": "discreet.pseudo_posterior._rebuilt",
    "censored-posterior": "discreet.pseudo_posterior._rebuilt",
}
"""Steps of packages above this one, and the module whose ``rebuilt`` makes each from a certificate."""


def rebuilt_elsewhere(facts: Mapping[str, Any]) -> Step | None:
    """Return the step of a certificate, where it is one of a package above this one."""
    module = _ELSEWHERE.get(facts["mechanism"]["name"])
    if module is None:
        return None
    step: Step = import_module(module).rebuilt(facts)
    return step
