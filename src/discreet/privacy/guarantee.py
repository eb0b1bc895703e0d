"""What is promised: budget, neighbouring relation, guarantee."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from discreet import wording
from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import choice, integer, plain, real, unfit
from discreet._core.errors import BudgetError, GuaranteeKindError, ParameterError
from discreet._core.numeric import log_ratio
from discreet._core.text import as_written, counted, listing, paragraph, rounded_up, table
from discreet.privacy.profile import Profile, fallen_to, keeps_shape

Kind = Literal["unconditional", "instance", "asymptotic", "empirical"]
RelationName = Literal["replacement", "add-remove"]
_SHOWN = (0.1, 0.5, 1.0, 2.0, 4.0)  # epsilons, in a notebook


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """A privacy budget ``(epsilon, delta)``.

    Any real number of Python or NumPy is taken and kept as a float. One that no float is written as, such as
    ``Fraction(1, 3)``, is rounded down, so that never more is spent than was asked for. ``Decimal("0.1")`` is 0.1.

    Parameters
    ----------
    epsilon : float
        At least 0 and finite.
    delta : float
        In ``[0, 1)``; 0 (the default) asks for pure differential privacy.

    Raises
    ------
    BudgetError
        When either is outside its range.
    """

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        remedy = "Beyond 100 it promises nothing."
        epsilon = real("epsilon", self.epsilon, least=0, most=100, down=True, remedy=remedy, error=BudgetError)
        object.__setattr__(self, "epsilon", epsilon)
        object.__setattr__(self, "delta", real("delta", self.delta, least=0, below=1, down=True, error=BudgetError))
        if self.epsilon == 0 and self.delta == 0:
            raise BudgetError("epsilon and delta are both 0, which allows no release that depends on the data")

    def __str__(self) -> str:
        return f"epsilon {as_written(self.epsilon)}" + (f", delta {as_written(self.delta)}" if self.delta else "")


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """Which tables count as neighbours.

    Parameters
    ----------
    name : {"replacement", "add-remove"}
        Replacement: the same number of records, ``group`` of them changed arbitrarily.
    group : int
        Number of records that one privacy unit holds, 1 to 10,000.
    """

    name: RelationName = "replacement"
    group: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", choice("the relation", self.name, ("replacement", "add-remove")))
        object.__setattr__(self, "group", integer("group", self.group, least=1, most=10_000))


@sealed
@dataclass(frozen=True, slots=True)
class Unit:
    """The privacy unit behind the rows, such as a person: whom the guarantee is for.

    Parameters
    ----------
    column : str
        The column that names the unit of each row. Its values are not released; units that are have new ones.
    max_records : int
        The most records that a unit keeps, 1 to 10,000. The others are cut uniformly at random.

    Raises
    ------
    ParameterError
        When ``max_records`` is out of range.
    """

    column: str
    max_records: int

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise unfit("column", "the name of the column that names the unit", self.column)
        object.__setattr__(self, "max_records", integer("max_records", self.max_records, least=1, most=10_000))


@sealed
@dataclass(frozen=True, slots=True)
class Code:
    """An assumption, a caveat or an outcome by name: its text is the sentence that :mod:`discreet.wording` has for it.

    Parameters
    ----------
    name : str
        In small letters and hyphens. One that the library does not know is its own text.
    numbers : mapping, optional
        What the sentence says, as JSON values by name.
    """

    name: str
    numbers: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        try:
            numbers = json.loads(json.dumps(dict(self.numbers), default=plain))
        except (TypeError, ValueError, RecursionError):
            raise ParameterError("numbers of a code must be JSON values by name. Write plain ones") from None
        object.__setattr__(self, "numbers", numbers)

    def __str__(self) -> str:
        return wording.said(self.name, self.numbers)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON value."""
        return {"code": self.name, **self.numbers}


Codes = tuple[Code, ...]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """What a mechanism promises for one release.

    Parameters
    ----------
    relation : Relation
        Between which tables.
    n : int
        Number of records, public under replacement.
    profile : Profile
        The privacy profile, or an upper bound on it.
    kind : {"unconditional", "instance", "asymptotic", "empirical"}
        ``unconditional``: for every pair of neighbours. Only this kind may be published without the caller writing
        that they accept less.
    theorem : str
        The theorem's id in the theory pages.
    assumptions, caveats : tuple of Code
        What it rests on, and what it does not promise.
    stated : tuple of float, optional
        The epsilons at which delta is 0, of all tables and of each, where a theorem proves these numbers themselves. A
        certificate then states them, and a ledger charges them, whatever the profile rounds to.
    protected : tuple of str
        The columns that it is about, where it is not about all.
    """

    relation: Relation
    n: int
    profile: Profile
    kind: Kind
    theorem: str
    assumptions: Codes = ()
    caveats: Codes = ()
    stated: tuple[float, float] | None = None
    protected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.stated is not None and self.stated[0] < self.profile.pure * (1.0 - 1e-9):
            raise ParameterError("the epsilon that is stated is below that of the profile. Leave it out")

    @classmethod
    def proved(
        cls, profile: Profile, *, relation: Relation, n: int, theorem: str, chosen: Sequence[str], caveats: Codes = ()
    ) -> Self:
        """Return the unconditional guarantee of a theorem; it says of itself whether delta is an upper bound.

        Parameters
        ----------
        profile, relation, n, theorem
            As for the class.
        chosen : sequence of str
            What has to be chosen without looking at the data, such as "cells" and "noise".
        caveats : tuple of Code
            What it does not promise.
        """
        bound = () if profile.exact else (Code("delta-is-bound"),)
        codes = (Code("chosen-without-data", {"what": list(chosen)}),), (*caveats, *bound)
        words: dict[str, Any] = {"theorem": theorem, "assumptions": codes[0], "caveats": codes[1]}
        return cls(relation=relation, n=n, profile=profile, kind="unconditional", **words)

    @property
    def exact(self) -> bool:
        """Whether the profile is the mechanism's own, rather than an upper bound: it says so, and has its shape."""
        return self.profile.exact and keeps_shape(self.profile)

    def delta(self, epsilon: float) -> float:
        """Return the delta at ``epsilon``, never below the truth."""
        return self.profile.delta(epsilon)

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon found with ``delta(epsilon) <= delta``, never below the truth."""
        return self.profile.epsilon(delta)

    def to_dict(self) -> dict[str, Any]:
        """Return what does not depend on a budget, as JSON values; an infinite pure epsilon is None."""
        pure = self.profile.pure
        facts = {"pure_epsilon": pure if math.isfinite(pure) else None, "kind": self.kind, "theorem": self.theorem}
        codes = {name: [code.to_dict() for code in getattr(self, name)] for name in ("assumptions", "caveats")}
        return {**facts, "exact": self.exact, **codes}

    def _repr_html_(self) -> str:
        group, n = counted(self.relation.group, "record"), counted(self.n, "record")
        text = paragraph(f"{self.kind}, by {self.theorem}: {self.relation.name} of {group}, {n}")
        deltas = [(as_written(e), rounded_up(self.delta(e))) for e in _SHOWN]
        assumptions = [f"it assumes: {code}" for code in self.assumptions]
        return text + table(("epsilon", "delta"), deltas) + listing([*assumptions, *map(str, self.caveats)])

    def meets(self, budget: Budget) -> bool:
        """Return whether the guarantee, as it is stated, is at least as strong as ``budget``."""
        return self._excess(budget) <= 0.0 if self.stated is None else self.stated[0] <= budget.epsilon

    def _excess(self, budget: Budget) -> float:
        """Return by what log-ratio the guarantee is above a budget, in delta, or in epsilon where delta is 0."""
        if budget.delta == 0.0:
            return log_ratio(self.profile.pure, budget.epsilon)
        return log_ratio(self.delta(budget.epsilon), budget.delta)


def require_kind(guarantee: Guarantee, accept: frozenset[str]) -> None:
    """Raise GuaranteeKindError unless a guarantee is unconditional, or of an accepted kind; never ``instance``."""
    if guarantee.kind == "instance":
        raise GuaranteeKindError(
            "an instance-level guarantee is computed from the data. It is as confidential as they are, and no "
            "certificate can hold it"
        )
    if guarantee.kind != "unconditional" and guarantee.kind not in accept:
        raise GuaranteeKindError(
            f"the guarantee is {guarantee.kind}, not unconditional: {'; '.join(map(str, guarantee.assumptions))}. "
            f"To publish it all the same, write accept={{{guarantee.kind!r}}}"
        )


LEVELS = (
    *(1e-4, 2e-4, 5e-4, 0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05),
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
)
"""False-alarm rates that a report lists."""

_FURTHEST = -math.log(LEVELS[0])  # beyond, e^eps times the least level is above 1
_SMALLEST = 1e-15


@dataclass(frozen=True, slots=True, kw_only=True)
class TradeOff:
    """Lower bound on the trade-off function of a profile: docs/how-to/read-the-report.md. Each delta is rounded up."""

    epsilons: Floats
    deltas: Floats

    @classmethod
    def from_profile(cls, profile: Profile, *, upto: float = 1.0, among: float = 0.0) -> Self:
        """Take some 150 points of a profile, ``among`` one of them, for a picture that goes ``upto`` an epsilon."""
        # Beyond where delta is negligible, and where e^eps times the least level exceeds 1, nothing is gained.
        top = min(profile.pure, _FURTHEST, 1.05 * _end(profile))
        shown = min(profile.pure, upto)
        steep = shown * (1.0 - np.geomspace(1e-9, 0.1, 12))  # a profile falls steeply where it ends
        parts = (np.geomspace(1e-4, 1.0, 25) * top, np.linspace(0.0, top, 75), np.linspace(0.0, shown, 40), steep)
        epsilons = np.unique(np.concatenate(([among], *parts)))
        return cls(epsilons=epsilons, deltas=profile.deltas(epsilons))

    def power(self, level: Floats) -> Floats:
        """Return an upper bound on the power of every test with these false-alarm rates."""
        alpha = np.asarray(level, dtype=np.float64)[:, None]
        above = np.exp(np.minimum(self.epsilons, 700.0)) * alpha + self.deltas  # beyond 700 any level gives 1
        below = 1.0 - np.exp(-self.epsilons) * (1.0 - self.deltas - alpha)
        # The last factor covers the rounding of these few operations.
        return np.asarray(np.clip(np.minimum(above, below).min(axis=1) * (1.0 + 1e-12), alpha[:, 0], 1.0))

    def points(self, *, upto: float) -> list[tuple[float, float]]:
        """Return the points of the profile for a picture; those where delta is 0 are left out."""
        both = zip(self.epsilons.tolist(), self.deltas.tolist(), strict=True)
        return [(epsilon, delta) for epsilon, delta in both if delta > 0.0 and epsilon <= upto]


def against_guessing(level: float, power: float) -> str:
    """Say how much better than guessing a power is at a false-alarm rate."""
    if power >= 0.999:
        return "No protection is promised at this rate."
    if power <= 1.05 * level:
        return "That is hardly better than guessing."
    return f"That is at most {rounded_up(power / level)} times as often as by guessing."


def furthest(profile: Profile, headline: float) -> float:
    """Return how far a picture of a profile goes: to where delta falls no more, the headline epsilon always within."""
    return max(1.3 * headline, min(1.05 * _end(profile), 5.0 * headline), 1e-3)


def _end(profile: Profile) -> float:
    """Return about where delta becomes negligible, or falls no more."""
    return fallen_to(profile, max(_SMALLEST, 1.5 * profile.delta(min(0.999 * profile.pure, 700.0))), relative=0.01)
