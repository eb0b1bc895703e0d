"""What both posteriors share: survey weights and units of records, checked chains, and the form of their promise."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.checks import integer, plain, real
from discreet._core.errors import DomainError, ParameterError
from discreet.domain import Decimal, Domain, Integer, Numeric
from discreet.privacy import BoundedRangeProfile, Code, Guarantee, Relation, power
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.sampler import AS_LONG_AS_ASKED, Convergence, PosteriorDraws, Sampler
from discreet.pseudo_posterior.synthesiser import FromModel, Synthesiser
from discreet.releases import MechanismFamily

_MOST_RECORDS = 2**14


def least_product(count: int, value: float) -> float:
    """Return the least float that is not below ``count * value``.

    Examples
    --------
    >>> least_product(2, 0.5), least_product(3, 0.1) > 0.3
    (1.0, True)
    """
    product = count * value
    exact = math.isinf(product) or Fraction(product) >= count * Fraction(value)
    return product if exact else math.nextafter(product, math.inf)


class ModelPosterior(MechanismFamily):
    """A posterior over a synthesiser: each of its draws gives a table."""

    __slots__ = ()

    synthesiser: Any
    sensitive: tuple[str, ...]
    given: tuple[str, ...]
    survey_weight: str | None
    survey_mean: float | None
    unit: str | None
    tables: int
    size: int | None = None
    grid: Mapping[str, npt.ArrayLike] | None = None
    draws: int
    warm_up: int
    chains: int
    convergence: Convergence

    @abstractmethod
    def guarantee(self, relation: Relation | None = None, *, n: int) -> Guarantee:
        """Return what is promised."""

    @abstractmethod
    def epsilon_each(self, relation: Relation) -> float:
        """Return the epsilon of one table."""

    @property
    def published_exactly(self) -> tuple[str, ...]:
        """The columns that are published as they are: those given, and with them the survey weights."""
        given: tuple[str, ...] = self.synthesiser.given
        if not given or self.survey_weight is None or self.survey_weight in given:
            return given
        return (*given, self.survey_weight)

    def check_domain(self, domain: Domain) -> None:
        """Refuse a declaration by which a survey weight could be missing or negative, or a record have no unit."""
        if self.survey_weight is not None:
            declared = domain.columns[self.survey_weight]
            if not isinstance(declared, (Numeric, Integer, Decimal)) or declared.nullable:
                raise DomainError(
                    f"column {self.survey_weight!r}: survey weights must be a numeric, integer or decimal column "
                    "without nulls. Declare it so, or leave out survey_weight"
                )
            if float(declared.lower) < 0.0:
                raise DomainError(
                    f"column {self.survey_weight!r}: survey weights are at least 0. Declare lower = 0, and as upper "
                    "the largest that the design can give"
                )
        if self.unit is not None and domain.columns[self.unit].nullable:
            raise DomainError(
                f"column {self.unit!r}: every record needs a unit. Declare the column without nulls, and give every "
                "row its unit beforehand"
            )

    def _settle(self) -> None:
        """Make the fields plain values, and refuse columns that cannot have two roles."""
        model = self.synthesiser
        if not isinstance(model, Synthesiser):
            if not callable(model) or not self.sensitive:
                raise ParameterError("give a synthesiser, or a NumPyro model and the names of its sensitive columns")
            model = FromModel(function=model, columns=tuple(self.sensitive), others=tuple(self.given))
        object.__setattr__(self, "synthesiser", model)
        object.__setattr__(self, "tables", integer("tables", self.tables, least=1))
        for name in ("draws", "warm_up", "chains"):
            object.__setattr__(self, name, plain(getattr(self, name)))
        if (self.survey_weight is None) != (self.survey_mean is None):
            raise ParameterError(
                "survey weights need their column and the public number that they are divided by. Write "
                "survey_weight=... and survey_mean=... (the size of the population over that of the sample)"
            )
        if self.survey_mean is not None:
            object.__setattr__(self, "survey_mean", real("survey_mean", self.survey_mean, above=0))
        for column, role in ((self.survey_weight, "be the survey weight"), (self.unit, "name the unit")):
            if column in model.sensitive:
                raise ParameterError(
                    f"column {column!r} cannot be synthesised and {role}. Leave it out of the sensitive columns"
                )

    def _survey_weights(self, columns: Columns) -> Floats | None:
        """Return the survey weight of each record, finite and at least 0, over the public mean; confidential."""
        if self.survey_weight is None or self.survey_mean is None:
            return None
        if self.survey_weight not in columns:
            raise ParameterError(
                f"the table has no column {self.survey_weight!r} of survey weights. Name one of its columns: "
                "survey_weight=..."
            )
        weights = np.asarray(columns[self.survey_weight], dtype=np.float64)
        if not (np.isfinite(weights) & (weights >= 0.0)).all():
            raise ParameterError(
                f"column {self.survey_weight!r}: survey weights must be finite and at least 0. Correct them, or leave "
                "out survey_weight"
            )
        return np.asarray(weights / self.survey_mean)

    def _units(self, columns: Columns) -> npt.NDArray[np.int64] | None:
        """Return the number of each record's unit, from 0 on, with at most 2^14 records in each; confidential."""
        if self.unit is None:
            return None
        if self.unit not in columns:
            raise ParameterError(
                f"the table has no column {self.unit!r} that names the unit. Name one of its columns: unit=..."
            )
        units = np.unique(np.asarray(columns[self.unit]), return_inverse=True)[1].reshape(-1)
        if len(units) and int(np.bincount(units).max()) > _MOST_RECORDS:
            raise ParameterError(
                f"column {self.unit!r}: a unit may have at most {_MOST_RECORDS:,} records. Cut its records beforehand"
            )
        return np.asarray(units, dtype=np.int64)

    def _draw(
        self,
        sampler: Sampler,
        weights: Floats,
        *,
        rng: np.random.Generator,
        check: bool,
        start: PosteriorDraws | None = None,
    ) -> PosteriorDraws:
        """Draw from the posterior; with ``check``, refuse chains that did not converge."""
        draws = sampler.draw(weights, rng=rng, start=start, until=self.convergence if check else AS_LONG_AS_ASKED)
        if check:
            draws.require(self.convergence)
        return draws

    def _promise(
        self,
        relation: Relation,
        n: int,
        *,
        kind: str,
        theorem: str,
        assumptions: tuple[Code, ...],
        caveats: tuple[Code, ...],
        units: tuple[str, ...] = ("unit-sizes",),
    ) -> Guarantee:
        """Return the guarantee of all tables: of an interval of length epsilon for the loss of each.

        ``units``: caveats where the records of a unit are bounded together.
        """
        each = self.epsilon_each(relation)
        several = (Code("epsilon-each", {"epsilon": each, "tables": self.tables}),) * (self.tables > 1)
        together: tuple[Code, ...] = ()
        if self.unit is not None:
            together = (Code("unit-together", {"column": self.unit}), *map(Code, units))
        partial: tuple[Code, ...] = ()
        if exact := self.published_exactly:
            protected = list(self.synthesiser.sensitive)
            partial = (Code("protected-alone", {"protected": protected, "exact": list(exact)}),)
        return Guarantee(
            relation=relation,
            n=n,
            profile=power(BoundedRangeProfile(spread=each), self.tables),
            kind=kind,  # type: ignore[arg-type]
            theorem=theorem,
            assumptions=assumptions,
            caveats=(caveats[0], *several, *caveats[1:], *together, *partial),
            stated=(least_product(self.tables, each), each),
            protected=self.synthesiser.sensitive if self.synthesiser.given else (),
        )
