"""What is promised: budget, neighbouring relation, guarantee."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, Self

from discreet import privacy, wording
from discreet._core.boundary import sealed
from discreet._core.errors import BudgetError, GuaranteeKindError, ParameterError, choice, integer, plain, real, unfit
from discreet._core.numeric import log_ratio
from discreet._core.text import as_written, counted, listing, paragraph, rounded_up, table
from discreet.privacy.profile import ConstantProfile, Profile, keeps_shape

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
        epsilon = f"epsilon {as_written(self.epsilon)}"
        return f"{epsilon}, delta {as_written(self.delta)}" if self.delta else epsilon

    def excess(self, profile: Profile) -> float:
        """Return by what log-ratio a profile is above the budget, in delta, or in epsilon where delta is 0."""
        if self.delta == 0.0:
            return log_ratio(profile.pure, self.epsilon)
        return log_ratio(profile.delta(self.epsilon), self.delta)

    @property
    def pure(self) -> bool:
        """Whether pure differential privacy is asked for."""
        return self.delta == 0.0

    def nearest(self, profile: Profile, parts: int = 1) -> dict[str, float]:
        """Return the numbers that a profile meets in its part, each enough by itself, as a refusal names them."""
        nearest = {}
        if (epsilon := profile.epsilon(self.delta / parts)) <= 100:  # a budget beyond is refused
            nearest["epsilon >="] = epsilon
        if (delta := parts * profile.delta(self.epsilon)) < 1:
            nearest["delta >="] = max(1e-12, delta)
        return nearest

    def part(self, parts: int) -> Budget:
        """Return what each of some parts may spend whose deltas add up."""
        return replace(self, delta=self.delta / parts)


class AttackBudget(ABC):
    """A limit on the best attacker, for all neighbours and tests: the first field. Further ones say of what."""

    pure = False  # a delta is allowed

    def __post_init__(self) -> None:
        for name, value in self.to_dict().items():
            object.__setattr__(self, name, real(name, value, above=0, below=1, down=True, error=BudgetError))
        if self.limit[1] <= self.guessing:
            raise BudgetError(f"{self} is reached without a release. Allow more")

    def __str__(self) -> str:
        return " at ".join([f"{name.replace('_', ' ')} {as_written(value)}" for name, value in self.to_dict().items()])

    @abstractmethod
    def reached(self, profile: Profile) -> float:
        """Return what the best attacker reaches against a profile at most, rounded up."""

    @property
    def guessing(self) -> float:
        """What an attacker reaches without a release."""
        return self.reached(ConstantProfile(value=0.0))

    @property
    def limit(self) -> tuple[str, float]:
        """The first field and its value."""
        return next(iter(self.to_dict().items()))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], place: str = "") -> AttackBudget:
        """Return the budget of some fields. Raises BudgetError where they are of none."""
        for kind in (privacy.Risk, privacy.Advantage, privacy.Success):
            if set(values) == {item.name for item in fields(kind)}:
                return kind(**values)
        names = "detection and false_alarms, or advantage, or success and prior"
        raise BudgetError(f"{place or 'an attack'} has other fields. Give {names}")

    def to_dict(self) -> dict[str, float]:
        """Return the fields as JSON values, the limit first."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def excess(self, profile: Profile) -> float:
        """Return by what log-ratio more is reached against a profile than may be."""
        return log_ratio(self.reached(profile), self.limit[1])

    def nearest(self, profile: Profile, parts: int = 1) -> dict[str, float]:
        """Return the limit that a profile meets in its part, as a refusal names it; nothing where that is none."""
        limit = self.guessing + parts * (self.reached(profile) - self.guessing)
        return {} if limit >= 1.0 else {f"{self.limit[0]} >=": limit}

    def part(self, parts: int) -> Self:
        """Return the budget less a hundredth of what it allows beyond guessing, which is for all other parts."""
        name, limit = self.limit
        return replace(self, **{name: limit - 0.01 * (limit - self.guessing)})  # type: ignore[type-var]


AnyBudget = Budget | AttackBudget


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

        ``chosen`` names what has to be chosen without looking at the data, such as "cells" and "noise".
        """
        if not profile.exact:
            caveats = (*caveats, Code("delta-is-bound"))
        assumptions = (Code("chosen-without-data", {"what": list(chosen)}),)
        facts: dict[str, Any] = {"theorem": theorem, "assumptions": assumptions, "caveats": caveats}
        return cls(relation=relation, n=n, profile=profile, kind="unconditional", **facts)

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

    def meets(self, budget: AnyBudget) -> bool:
        """Return whether the guarantee, as it is stated, is at least as strong as ``budget``."""
        if self.stated is None or isinstance(budget, AttackBudget):
            return budget.excess(self.profile) <= 0.0
        return self.stated[0] <= budget.epsilon


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
