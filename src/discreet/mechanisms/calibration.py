"""Calibration: one search for the parameters of a mechanism that meet a budget, on the safe side of the optimum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from discreet._core.errors import Infeasible, ParameterError
from discreet._core.numeric import least_integer, least_real, written
from discreet._core.text import as_written, rounded_up
from discreet.mechanisms.noise import LAPLACE, LAWS, NoiseLaw, law_named
from discreet.privacy import Budget, Guarantee, Relation
from discreet.privacy.noise import ThresholdedLaplace

if TYPE_CHECKING:
    from discreet.domain import Domain
    from discreet.mechanisms.base import Mechanism


@dataclass(frozen=True)
class Free:
    """A parameter that may be solved for: between which values, and how near to the optimum relatively.

    Privacy improves with the value where it is ``rising``, so that the least is the solution; else the greatest is, and
    values are above 0. ``usual``: the value for which a refusal names a delta; by default the most private one.
    """

    name: str
    low: float
    high: float
    rising: bool = True
    integer: bool = False
    relative: float = 1e-6
    usual: float | None = None

    def solution(self, excess: Callable[[Any], float]) -> Any:
        """Return the value of the least cost at which a monotone excess is at most 0, None where it is at none."""
        if self.integer and self.rising:
            return least_integer(lambda value: excess(value) <= 0, int(self.low), int(self.high))
        if self.integer:
            beyond = least_integer(lambda value: excess(value) > 0, int(self.low), int(self.high))
            return self.high if beyond is None else beyond - 1 if beyond > self.low else None
        if self.rising:
            return least_real(excess, self.low, self.high, relative=self.relative)

        def value_of(inverse: float) -> float:
            return min(self.high, max(self.low, 1.0 / inverse))

        low, high = 1.0 / self.high, 1.0 / self.low
        inverse = least_real(lambda u: excess(value_of(u)), low, high, relative=self.relative)
        return None if inverse is None else value_of(inverse)


SIZE = Free("size", 1, 10**10, rising=False, integer=True)
"""The number of records released, where it costs privacy."""

THRESHOLD = Free("threshold", 2, 1 << 40, integer=True)
"""The least noisy count that is released."""


SCALE = Free("scale", 2.0**-10, LAPLACE.largest_scale, relative=1e-9)
"""The scale of discrete Laplace noise."""


@dataclass(frozen=True, kw_only=True)
class Search:
    """A budget, and the parameters that are given of the mechanism that is to meet it."""

    mechanism_type: type[Mechanism]
    budget: Budget
    domain: Domain
    n: int
    size: int | None
    relation: Relation
    parameters: dict[str, Any]

    def with_parameters(self, **values: Any) -> Search:
        """Return the search with further parameters given."""
        return replace(self, parameters={**self.parameters, **values})

    def mechanism(self, *, size: int | None = None, **values: Any) -> Any:
        """Return the mechanism at some values of its free parameters."""
        return self.mechanism_type.from_parameters(
            {**self.parameters, **values},
            domain=self.domain,
            records=self.n,
            size=self.size if size is None else size,
        )

    def guarantee(self, **values: Any) -> Guarantee:
        """Return what the mechanism at some values promises for the table."""
        guarantee: Guarantee = self.mechanism(**values).guarantee(self.relation, n=self.n)
        return guarantee


def require_budget(guarantee: Guarantee, budget: Budget, request: str, **nearest: float) -> None:
    """Raise :class:`~discreet.errors.Infeasible` unless the guarantee meets the budget.

    Raises Infeasible with the budget that the guarantee does meet, beside ``nearest``.
    """
    if guarantee.meets(budget):
        return
    numbers: dict[str, float] = dict(nearest)
    epsilon = guarantee.epsilon(budget.delta)
    if epsilon <= 100:  # a budget beyond is refused
        numbers["epsilon >="] = epsilon
    if (delta := guarantee.delta(budget.epsilon)) < 1:
        numbers["delta >="] = delta
    raise Infeasible(request, numbers)


def one_solution(search: Search, *free: Free, promise: Callable[[Any], Guarantee] | None = None) -> Any:
    """Return the mechanism whose one free parameter that is not given is solved for: a size, where it is free, first.

    ``promise``: a guarantee that is at least as pessimistic as the mechanism's, and quick.

    Raises Infeasible with the nearest numbers that meet the budget, and ParameterError when neither of two is given.
    """
    budget = search.budget
    values = {**search.parameters, "size": search.size}
    given = {parameter.name: values[parameter.name] for parameter in free if values.get(parameter.name) is not None}
    unknown = [parameter for parameter in free if parameter.name not in given]
    if len(unknown) > 1:
        raise ParameterError(f"give a size or a {unknown[1].name}, since only one of the two can be solved for")

    def promised(parameter: Free, value: Any) -> Guarantee:
        values = {parameter.name: value}
        return search.guarantee(**values) if promise is None else promise(search.mechanism(**values))

    def solution(parameter: Free) -> Any:
        return parameter.solution(lambda value: promised(parameter, value)._excess(budget))

    if not unknown:
        if not (guarantee := search.guarantee()).meets(budget):
            solutions = [(parameter, solution(parameter)) for parameter in free]
            nearest = {f"{p.name} {'>=' if p.rising else '<='}": value for p, value in solutions if value is not None}
            require_budget(guarantee, budget, _asked(budget, given), **nearest)
        return search.mechanism()
    sought = unknown[0]
    if (value := solution(sought)) is not None:
        return search.mechanism(**{sought.name: value})
    private = promised(sought, sought.usual or (sought.high if sought.rising else sought.low))
    if len(free) == 1 or sought.name == "size":
        require_budget(private, budget, _asked(budget, given))
    raise Infeasible(_asked(budget, given), {"delta >=": private.delta(budget.epsilon)})


def _asked(budget: Budget, given: dict[str, Any]) -> str:
    """Write what was asked for: the budget, a size and a value."""
    parts = (f"at size {v}" if name == "size" else f"with {name} {as_written(v)}" for name, v in given.items())
    return " ".join((str(budget), *parts))


def least_scale(search: Search) -> Any:
    """Return the mechanism of the least scale of its noise, of the law with less mean absolute noise if none is given.

    Raises Infeasible with the nearest numbers that meet the budget.
    """
    budget, scale, noise = search.budget, search.parameters.get("scale"), search.parameters.get("noise")
    field = search.mechanism_type.__dataclass_fields__["noise"]
    searches = [(str(field.default), search)]  # where the class fixes it
    if field.init:
        searches = [(name, search.with_parameters(noise=name)) for name in (LAWS if noise is None else (noise,))]
    if scale is not None:
        name, own = searches[0]
        if not (guarantee := own.guarantee()).meets(budget):
            least = _scale_solution(own, law_named(name))
            nearest = {} if least is None else {"scale >=": least}
            require_budget(guarantee, budget, f"{budget} with {name} noise of scale {as_written(scale)}", **nearest)
        return own.mechanism()
    solutions = []
    for name, own in searches:
        law = law_named(name)
        if (least := _scale_solution(own, law)) is not None:
            solutions.append((law.mean_absolute(least), own.mechanism(scale=least)))
    if not solutions:
        most = [own.guarantee(scale=law_named(name).largest_scale) for name, own in searches]
        nearest = {"delta >=": max(1e-12, min(guarantee.delta(budget.epsilon) for guarantee in most))}
        if math.isfinite(epsilon := min(guarantee.epsilon(budget.delta) for guarantee in most)):
            nearest["epsilon >="] = epsilon
        raise Infeasible(f"{budget} with {' or '.join(name for name, _ in searches)} noise", nearest)
    return min(solutions, key=itemgetter(0))[1]


def _scale_solution(search: Search, law: NoiseLaw) -> float | None:
    """Return the least scale of a law's noise that meets the budget, if one does.

    A pure epsilon is a rational number divided by the scale. The least scale is then the float next above a quotient,
    by its binary value, with which the kernel draws.
    """
    free, budget = replace(SCALE, high=law.largest_scale), search.budget
    if budget.delta > 0.0:
        least: float | None = free.solution(lambda scale: search.guarantee(scale=scale)._excess(budget))
        return least
    if not law.pure:
        return None
    pure = Fraction(search.guarantee(scale=1.0).profile.pure)
    exact = pure / written(budget.epsilon) if budget.epsilon > 0.0 else Fraction(2**60 if pure else 0)
    nearest = float(exact)
    least = max(free.low, nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf))
    return least if least <= free.high else None


def least_threshold(search: Search, *, composed: bool = False) -> Any:
    """Return the mechanism of the least scale of Laplace noise that any threshold allows, and of the least threshold.

    Raises Infeasible with the nearest numbers that meet the budget.

    ``composed``: whether the guarantee is that of several releases: what the scale and the threshold cost then adds up.
    """
    budget, scale, threshold = search.budget, search.parameters.get("scale"), search.parameters.get("threshold")
    if budget.delta == 0.0:
        raise Infeasible(
            f"{budget} with undeclared labels at delta 0 (give a delta above 0, such as 1e-9, since a label that "
            "only one record holds could never be released otherwise, nor, one record at a time, any other)",
            {},
        )

    # With the bound for large groups, and over several releases, the two parts of delta add up: each gets half.
    several = composed or min(search.relation.group, search.n) > ThresholdedLaplace.largest_exact
    parts = 2.0 if several else 1.0
    share = Budget(epsilon=budget.epsilon, delta=budget.delta / parts)
    free = search.with_parameters(threshold=THRESHOLD.high)
    least = SCALE.solution(lambda b: free.guarantee(scale=b)._excess(share))
    if least is None:
        delta = parts * free.guarantee(scale=SCALE.high).delta(budget.epsilon)
        raise Infeasible(f"{budget} with noise of any scale", {"delta >=": delta})
    noise = least if scale is None else scale
    enough = THRESHOLD.solution(lambda t: search.guarantee(scale=noise, threshold=t)._excess(budget))
    nearest = {"scale >=": least} if enough is None else {"threshold >=": enough}
    chosen = (enough or THRESHOLD.high) if threshold is None else threshold
    guarantee = search.guarantee(scale=noise, threshold=chosen)
    require_budget(guarantee, budget, f"{budget} with scale {rounded_up(noise, 6)} and threshold {chosen:,}", **nearest)
    return search.mechanism(scale=noise, threshold=chosen)
