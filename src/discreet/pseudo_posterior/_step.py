"""A model as a step of the publisher: the confidential table as it is read, and its own tables as they are released.

The certificate is made from public facts alone: the target, never what was measured.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._text import as_written
from discreet.domain import Boolean, Category, Counts, Domain, Integer, Numeric, OpenLabels, Records
from discreet.domain._column import Column
from discreet.errors import DomainError, ParameterError
from discreet.evolution._metric import nearest_codes
from discreet.privacy import Guarantee, Relation
from discreet.pseudo_posterior._fit import Convergence, Progress
from discreet.pseudo_posterior._from_domain import sensitive_nulls
from discreet.pseudo_posterior._synthesis import check_draws, least_product
from discreet.pseudo_posterior._synthesiser import FromModel, Synthesiser
from discreet.releases._step import Publishable, Step

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ModelMechanism", "ModelStep", "check_columns"]


class ModelMechanism(Publishable):
    """What the two posteriors have in common: a synthesiser, chains, and tables that are published."""

    name: ClassVar[str]
    synthesiser: Any
    tables: int
    size: int | None = None
    grid: Any = None
    draws: int
    warm_up: int
    chains: int
    convergence: Convergence

    @abstractmethod
    def drawn(
        self, columns: Mapping[str, npt.NDArray[Any]], *, rng: np.random.Generator, progress: Progress | None
    ) -> list[dict[str, npt.NDArray[Any]]]:
        """Fit to a confidential table and draw the tables that are released."""

    @abstractmethod
    def own_parameters(self) -> dict[str, Any]:
        """Return what its guarantee depends on, beside the number of tables."""

    @abstractmethod
    def epsilon_each(self, relation: Relation) -> float:
        """Return the epsilon of one table."""

    @abstractmethod
    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:
        """Return what is promised for all tables together."""

    def step(self, domain: Domain) -> ModelStep:
        """Return what :func:`~discreet.publish` runs, or refuse a domain that the model does not fit.

        Parameters
        ----------
        domain : Domain
            Public: the one that the confidential table was encoded with. It must hold the synthesiser's columns and no
            others, none of them open labels, and no sensitive one with nulls. The model reads codes ``0, 1, ..`` of
            categories and booleans, of which a null is the last, and numbers in the unit of
            :meth:`~discreet.domain.Column.positions` of all others (days since 1970-01-01 for dates, seconds for
            datetimes and durations), of which a null is NaN.

        Raises
        ------
        DomainError
            When a column has open labels, or is sensitive and may hold nulls.
        ParameterError
            When the domain and the synthesiser do not name the same columns, or there are fewer draws than tables.
        """
        check_columns(domain, self.synthesiser)
        if self.grid is None:  # on a grid a draw is made for each table
            check_draws(self.tables, self.chains * self.draws)
        return ModelStep(mechanism=self, domain=domain)


@dataclass(frozen=True, kw_only=True)
class ModelStep(Step):
    """A posterior on a domain.

    Parameters
    ----------
    mechanism : PseudoPosterior or CensoredPosterior
        Public facts.
    domain : Domain
        The one of the confidential table: the synthesiser's columns and no others.
    stated : mapping, optional
        The parameters of the certificate that the step was built again from, which names its model and its chains.
    """

    randomness: ClassVar[str] = (
        "operating-system entropy, fresh for this release: ChaCha20 keyed with 256 bits of it; each Markov chain and "
        "each table of records runs on a 64-bit key of JAX's counter-based generator, drawn from the former"
    )
    mechanism: ModelMechanism
    domain: Domain
    stated: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:  # type: ignore[override]
        """The mechanism's."""
        return self.mechanism.name

    @property
    def tables(self) -> int:  # type: ignore[override]
        """The mechanism's."""
        return self.mechanism.tables

    @property
    def protected(self) -> tuple[str, ...]:  # type: ignore[override]
        """The sensitive columns, where others are published as they are."""
        synthesiser = self.mechanism.synthesiser
        return tuple(synthesiser.sensitive) if synthesiser.given else ()

    def run(self, x: Any, *, rng: np.random.Generator, progress: Callable[..., None] | None) -> Any:
        """Fit the model to the table and draw from it; the given columns of each table are its codes, as held."""
        if not isinstance(x, Counts):
            raise ParameterError("a model does not read a table in parts: give it the counts of confidential()")
        order = rng.permutation(x.n)
        codes = (np.repeat(column, x.frequencies)[order] for column in x.records.columns)
        held = dict(zip(self.domain.names, codes, strict=True))
        columns = {name: _numbers(self.domain.columns[name], column) for name, column in held.items()}
        given = {name: held[name] for name in self.mechanism.synthesiser.given}
        return [{**table, **given} for table in self.mechanism.drawn(columns, rng=rng, progress=progress)]

    def frames(
        self, output: Any, *, rng: np.random.Generator, progress: Callable[..., None] | None
    ) -> Iterator[Iterator[pl.DataFrame]]:
        """Yield each table with the declared names, order and types."""
        given = self.mechanism.synthesiser.given
        for table in output:
            codes = [
                table[name] if name in given else _codes(column, table[name], name, rng=rng)
                for name, column in self.domain.columns.items()
            ]
            yield iter([self.domain.decode(Records(columns=tuple(codes)), rng=rng)])

    def outcome(self, output: Any, n: int) -> Mapping[str, Any]:
        """Say which limits of convergence the chains met; what was measured of them is confidential."""
        return {} if self.mechanism.grid is not None else {"outcome": _met(_limits(self.mechanism.convergence))}

    def parameters(self) -> dict[str, Any]:
        """Return what is synthesised and how; a certificate that is read again names its model and its chains itself.

        What was measured of the chains is confidential; so is how long they became.
        """
        mechanism, synthesiser = self.mechanism, self.mechanism.synthesiser
        model = synthesiser.function.__name__ if isinstance(synthesiser, FromModel) else repr(synthesiser)
        chains = {
            "chains": mechanism.chains,
            "draws": mechanism.draws,
            "warm_up": mechanism.warm_up,
            "doublings": mechanism.convergence.doublings,
            "refused_beyond": _limits(mechanism.convergence),
        }
        return {
            "model": model if self.stated is None else self.stated["model"],
            "synthesised": list(synthesiser.sensitive),
            "published_exactly": list(synthesiser.given),
            "densities_at_most_one": synthesiser.log_density_at_most_zero,
            "tables": mechanism.tables,
            "chains": chains if self.stated is None else self.stated["chains"],
            **mechanism.own_parameters(),
        }

    def guarantee(self, relation: Relation, *, n: int) -> Guarantee:
        """Return the mechanism's."""
        return self.mechanism.guarantee(relation, n=n)

    def size(self, n: int) -> int:
        """Return how many records each table has: the mechanism's public number, or as many as are held."""
        return n if self.mechanism.size is None else self.mechanism.size

    def utility(self, n: int) -> dict[str, Any]:
        """Say that nothing is known beforehand: a model gives its own values wherever it does not fit."""
        return {
            "share_not_from_data": None,
            "share_at_most": 1.0,
            "share_in_words": "how near the tables come to the data depends on how well the model fits; no number "
            "tells beforehand",
        }

    def pure_epsilon(self, relation: Relation) -> float:
        """Return the epsilon of all tables together."""
        return least_product(self.mechanism.tables, self.epsilon_each(relation))

    def epsilon_each(self, relation: Relation) -> float:
        """Return the epsilon of one table."""
        return self.mechanism.epsilon_each(relation)


def check_columns(domain: Domain, synthesiser: Synthesiser) -> None:
    """Refuse a domain that does not fit the synthesiser: by public facts alone."""
    wanted = {*synthesiser.sensitive, *synthesiser.given}
    if wanted != set(domain.names):
        odd = sorted(wanted ^ set(domain.names))[0]
        raise ParameterError(f"column {odd!r}: the domain and the synthesiser must name the same columns")
    for name, column in domain.columns.items():
        if isinstance(column, OpenLabels):
            raise DomainError(f"column {name!r}: a model has no open labels; declare it as a category, or leave it out")
        if column.nullable and name in synthesiser.sensitive:
            raise sensitive_nulls(name)


def _numbers(column: Column, codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return what a model reads: codes of categories; values (or the middles of cells) of all others, null as NaN."""
    if isinstance(column, (Boolean, Category)):
        return np.asarray(codes)
    return np.asarray(column.positions(codes), dtype=np.float64)


def _codes(column: Column, values: npt.NDArray[Any], name: str, *, rng: np.random.Generator) -> npt.NDArray[Any]:
    """Return the codes of synthetic values: those outside the bounds go to them, and all to the nearest point."""
    import polars as pl

    if isinstance(column, (Boolean, Category)):
        return np.asarray(values, dtype=np.int64)
    numbers = np.nan_to_num(np.asarray(values, dtype=np.float64))
    if isinstance(column, Numeric):
        return column.encode(pl.Series(np.clip(numbers, column.lower, column.upper)), name=name)
    # Every point as a cell of its own, to find the nearest; then the cell that holds it.
    finest: dict[str, Any] = {"base": None, "cells": None}
    if isinstance(column, Integer):
        finest["spacing"] = "linear"
    points = replace(column, **finest)
    return column.encode(points.decode(nearest_codes(points, numbers), rng=rng), name=name)


def _limits(convergence: Convergence) -> dict[str, float | None]:
    """Return the limits of convergence that were asked for, None for one that is infinite: it never refuses."""
    limits = {name: float(getattr(convergence, name)) for name in ("r_hat", "effective", "divergent")}
    return {name: value if math.isfinite(value) else None for name, value in limits.items()}


def _met(limits: Mapping[str, float | None]) -> str:
    """Say in words which limits the chains met; others would have been refused."""
    forms = {
        "r_hat": "R-hat at most {}",
        "effective": "at least {} effective draws per chain",
        "divergent": "a share of divergent transitions of at most {}",
    }
    met = [form.format(as_written(limit)) for name, form in forms.items() if (limit := limits[name]) is not None]
    if not met:
        return "the Markov chains were not checked: no limit of convergence was set"
    return f"the Markov chains met the limits of convergence: {', '.join(met)}"
