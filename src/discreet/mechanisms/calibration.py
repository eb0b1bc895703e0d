"""Calibration: one search for the parameters of a mechanism that meet a budget, on the safe side of the optimum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from discreet._core.errors import Infeasible, ParameterError
from discreet._core.numeric import float_at_most, least_integer, least_real, written
from discreet._core.text import as_written, rounded_up
from discreet.mechanisms.noise import LAPLACE, LAWS, NoiseLaw, law_named
from discreet.privacy import AnyBudget, Budget, Guarantee, Profile, Relation, ThresholdedLaplace

if TYPE_CHECKING:
    from discreet.domain import Domain
    from discreet.mechanisms.base import Mechanism


@dataclass(frozen=True)
class Free:
    """A parameter that may be solved for, between two values; privacy improves with it where it is ``rising``."""

    name: str
    low: float
    high: float
    rising: bool = True  # the least value is the solution; else the greatest is, and values are above 0
    integer: bool = False
    relative: float = 1e-6  # how near to the optimum
    usual: float | None = None  # the value for which a refusal names a delta; by default the most private one

    def bound(self, value: float | None) -> dict[str, float]:
        """Return a value, if any, as what a refusal names: the parameter is to be at least, or at most, that."""
        if value is None:
            return {}
        return {f"{self.name} >=" if self.rising else f"{self.name} <=": value}

    def solution(self, excess: Callable[[Any], float]) -> Any:
        """Return the value of the least cost at which a monotone excess is at most 0, None where it is at none."""
        if self.integer and self.rising:
            return least_integer(lambda value: excess(value) <= 0, int(self.low), int(self.high))
        if self.integer:
            excluded = least_integer(lambda value: excess(value) > 0, int(self.low), int(self.high))
            if excluded is None:
                return int(self.high)
            return excluded - 1 if excluded > self.low else None
        if self.rising:
            return least_real(excess, self.low, self.high, relative=self.relative)

        def value_of(inverse: float) -> float:
            return min(self.high, max(self.low, 1.0 / inverse))

        low, high = 1.0 / self.high, 1.0 / self.low
        inverse = least_real(lambda u: excess(value_of(u)), low, high, relative=self.relative)
        return None if inverse is None else value_of(inverse)


SIZE = Free("size", 1, 10**10, rising=False, integer=True)  # where it costs privacy
THRESHOLD = Free("threshold", 2, 1 << 40, integer=True)  # the least noisy count that is released
SCALE = Free("scale", 2.0**-10, LAPLACE.largest_scale, relative=1e-9)  # of discrete Laplace noise


@dataclass(frozen=True, kw_only=True)
class Search:
    """A budget, and the parameters that are given of the mechanism that is to meet it."""

    mechanism_type: type[Mechanism]
    budget: AnyBudget
    domain: Domain
    n: int
    size: int | None
    relation: Relation
    parameters: dict[str, Any]

    def with_parameters(self, **values: Any) -> Search:
        """Return the search with further parameters given."""
        return replace(self, parameters={**self.parameters, **values})

    def mechanism(self, **values: Any) -> Any:
        """Return the mechanism at some values of its free parameters."""
        size = values.pop("size", self.size)
        parameters = {**self.parameters, **values}
        return self.mechanism_type.from_parameters(parameters, domain=self.domain, records=self.n, size=size)

    def guarantee(self, **values: Any) -> Guarantee:
        """Return what the mechanism at some values promises for the table."""
        guarantee: Guarantee = self.mechanism(**values).guarantee(self.relation, n=self.n)
        return guarantee


def threshold_excess(budget: AnyBudget, profile: Profile) -> float:
    """Return by what a profile is above a budget; a limit of an attacker leaves a billionth to labels of one record."""
    if isinstance(budget, Budget):
        return budget.excess(profile)
    return max(budget.excess(profile), Budget(epsilon=100.0, delta=1e-9).excess(profile))


def require_budget(guarantee: Guarantee, budget: AnyBudget, request: str, **nearest: float) -> None:
    """Raise Infeasible unless the guarantee meets the budget: with the one that it does meet, beside ``nearest``."""
    if not guarantee.meets(budget):
        raise Infeasible(request, nearest | budget.nearest(guarantee.profile))


def one_solution(search: Search, *free: Free, promise: Callable[[Any], Guarantee] | None = None) -> Any:
    """Return the mechanism whose free parameter that is not given is solved for: a size, where it is free, first."""
    # promise: a guarantee that is at least as pessimistic as the mechanism's, and quick.
    budget, parameters = search.budget, {**search.parameters, "size": search.size}
    unknown = [parameter for parameter in free if parameters.get(parameter.name) is None]
    if len(unknown) > 1:
        raise ParameterError(f"give a size or a {unknown[1].name}, since only one of the two can be solved for")

    def promised(parameter: Free, value: Any) -> Guarantee:
        mechanism = search.mechanism(**{parameter.name: value})
        return promise(mechanism) if promise else mechanism.guarantee(search.relation, n=search.n)

    def solution(parameter: Free) -> Any:
        return parameter.solution(lambda value: budget.excess(promised(parameter, value).profile))

    if not unknown:
        if not (guarantee := search.guarantee()).meets(budget):
            nearest: dict[str, float] = {}
            for parameter in free:
                if (value := solution(parameter)) is not None:
                    nearest |= parameter.bound(value)
            require_budget(guarantee, budget, _request_text(search, free), **nearest)
        return search.mechanism()
    (parameter,) = unknown
    if (value := solution(parameter)) is not None:
        return search.mechanism(**{parameter.name: value})
    usual = parameter.usual or (parameter.high if parameter.rising else parameter.low)
    guarantee, request = promised(parameter, usual), _request_text(search, free)
    if parameter.name == "size":
        require_budget(guarantee, budget, request)
    raise Infeasible(request, budget.nearest(guarantee.profile))


def _request_text(search: Search, free: Sequence[Free]) -> str:
    """Write the budget, and which of the parameters that may be free are given."""
    names = [parameter.name for parameter in free]
    size = f" at size {search.size}" if "size" in names and search.size is not None else ""
    values = [f" with {name} {as_written(search.parameters[name])}" for name in names if name in search.parameters]
    return "".join([str(search.budget), size, *values])


def least_scale(search: Search) -> Any:
    """Return the mechanism of the least scale, of the law with less mean absolute noise if none is given."""
    budget, scale, noise = search.budget, search.parameters.get("scale"), search.parameters.get("noise")
    field = search.mechanism_type.__dataclass_fields__["noise"]
    searches = [(str(field.default), search)]  # where the class fixes it
    if field.init:
        searches = [(name, search.with_parameters(noise=name)) for name in (LAWS if noise is None else (noise,))]
    if scale is not None:
        name, search = searches[0]
        if not (guarantee := search.guarantee()).meets(budget):
            least = scale_solution(law_named(name), budget, search.guarantee)
            request = f"{budget} with {name} noise of scale {as_written(scale)}"
            require_budget(guarantee, budget, request, **SCALE.bound(least))
        return search.mechanism()
    solutions = []
    for name, search in searches:
        if (least := scale_solution(law_named(name), budget, search.guarantee)) is not None:
            solutions.append((law_named(name).mean_absolute(least), search.mechanism(scale=least)))
    if not solutions:
        most = [search.guarantee(scale=law_named(name).largest_scale).profile for name, search in searches]
        nearest: dict[str, float] = {}
        for name, value in chain(*[budget.nearest(profile).items() for profile in most]):
            nearest[name] = min(value, nearest.get(name, math.inf))
        raise Infeasible(f"{budget} with {' or '.join(name for name, _ in searches)} noise", nearest)
    return min(solutions, key=itemgetter(0))[1]


def scale_solution(law: NoiseLaw, budget: AnyBudget, promise: Callable[..., Guarantee]) -> float | None:
    """Return the least scale of a law's noise with which what is promised meets the budget, if one does."""
    # A pure epsilon is a rational number divided by the scale: the least is the float next above a quotient.
    free = replace(SCALE, high=law.largest_scale)
    if not isinstance(budget, Budget) or budget.delta > 0.0:
        solution: float | None = free.solution(lambda scale: budget.excess(promise(scale=scale).profile))
        return solution
    if not law.pure:
        return None
    least = max(free.low, -float_at_most(-Fraction(promise(scale=1.0).profile.pure) / written(budget.epsilon)))
    return None if least > free.high else least


def least_threshold(search: Search, *, composed: bool = False) -> Any:
    """Return the mechanism of the least scale of Laplace noise that any threshold allows, and the least threshold."""
    # composed: whether the guarantee is that of several releases: what scale and threshold cost then adds up.
    budget = search.budget
    if budget.pure:
        raise Infeasible(
            f"{budget} with undeclared labels at delta 0 (give a delta above 0, such as 1e-9, since a label that "
            "only one record holds could never be released otherwise, nor, one record at a time, any other)",
            {},
        )
    # With the bound for large groups, and over several releases, the two parts of delta add up: each gets half.
    parts = 1 + (composed or min(search.relation.group, search.n) > ThresholdedLaplace.largest_exact)
    part = budget.part(parts)
    highest = search.with_parameters(threshold=THRESHOLD.high)
    least = SCALE.solution(lambda scale: part.excess(highest.guarantee(scale=scale).profile))
    if least is None:
        nearest = budget.nearest(highest.guarantee(scale=SCALE.high).profile, parts)
        raise Infeasible(f"{budget} with noise of any scale", nearest)
    if search.parameters.get("scale") is None:
        search = search.with_parameters(scale=least)
    enough = THRESHOLD.solution(lambda t: threshold_excess(budget, search.guarantee(threshold=t).profile))
    if search.parameters.get("threshold") is None:
        search = search.with_parameters(threshold=enough or THRESHOLD.high)
    guarantee, scale, threshold = search.guarantee(), search.parameters["scale"], search.parameters["threshold"]
    nearest = THRESHOLD.bound(enough) or SCALE.bound(least)
    request = f"{budget} with scale {rounded_up(scale, 6)} and threshold {threshold:,}"
    require_budget(guarantee, budget, request, **nearest)
    return search.mechanism()
