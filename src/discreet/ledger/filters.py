"""What may be added up: the two currencies of a ledger, and when the next release is allowed.

Both are *filters*: what each release costs may be chosen by looking at the releases before, and so may whether there is
a next one; as long as the sums stay within a limit that was fixed beforehand, all releases together keep the ledger's
``(epsilon, delta)``. Theorems, proofs and what is no filter: docs/theory/filters.md.

Costs are finite decimals, added and compared exactly: ten times 0.1 is 1. What was *asked* for counts as the decimal
that it is written as; what is *computed* is rounded up to twelve digits, and a limit that is computed down.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from fractions import Fraction
from typing import Any, ClassVar, Self

from discreet._core.errors import Infeasible, ParameterError
from discreet._core.numeric import above, below, written
from discreet.privacy import Budget, Profile, approximate_zcdp, pair_as_zcdp, zcdp_budget, zcdp_epsilon

_UP, _DOWN = Context(prec=12, rounding=ROUND_CEILING), Context(prec=12, rounding=ROUND_FLOOR)
_DECIMAL = re.compile(r"[0-9]{1,400}(?:\.[0-9]{1,800})?(?:E-[0-9]{1,3})?")
_CUT = Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one entry costs, or a sum of these.

    ``loss``: epsilon in sums, rho in zcdp; a finite decimal of at least 0.
    ``delta``: the same.
    """

    loss: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.loss + other.loss, self.delta + other.delta)

    def __sub__(self, other: Cost) -> Cost:
        """Return what is left of a sum without one of its terms."""
        return Cost(self.loss - other.loss, self.delta - other.delta)

    def within(self, other: Cost) -> bool:
        """Return whether neither part is above that of another cost: exactly, and equality is allowed."""
        return self.loss <= other.loss and self.delta <= other.delta

    def to_dict(self) -> dict[str, str]:
        """Return both as exact decimals, in text.

        Examples
        --------
        >>> (Cost(Fraction(1, 10), Fraction(1, 10**9)) + Cost(Fraction(1, 5))).to_dict()
        {'loss': '0.3', 'delta': '1E-9'}
        """
        return {"loss": _text(self.loss), "delta": _text(self.delta)}

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return what was written by :meth:`to_dict`. Raises ParameterError when it is no such thing."""
        if set(values) != {"loss", "delta"}:
            raise ParameterError("a cost must have a loss and a delta, and nothing else")
        return cls(_number(values["loss"]), _number(values["delta"]))


def _text(value: Fraction) -> str:
    """Write a finite decimal of at least 0 with all its digits."""
    left, twos, fives = value.denominator, 0, 0
    while left % 2 == 0:
        left, twos = left // 2, twos + 1
    while left % 5 == 0:
        left, fives = left // 5, fives + 1
    places = max(twos, fives)
    digits = value.numerator * 10**places // value.denominator
    text = str(digits)
    if places > 6 and len(text) < places - 3:  # below a thousandth
        return f"{text[0]}{'.' if text[1:] else ''}{text[1:]}E-{places - len(text) + 1}"
    text = text.rjust(places + 1, "0")
    return f"{text[:-places]}.{text[-places:]}" if places else text


def _number(text: Any) -> Fraction:
    if not isinstance(text, str) or _DECIMAL.fullmatch(text) is None:
        raise ParameterError("a cost must be a decimal of at least 0, in text")
    return Fraction(text)


def _rounded(value: float, to: Context) -> Fraction:
    """Return a number that was computed as a decimal of at most twelve digits."""
    return Fraction(to.create_decimal(repr(float(value))))


class Currency(ABC):
    """In what a ledger counts: chosen when it is made, once and for all.

    Attributes
    ----------
    name : str
        As it is written in a ledger.
    """

    name: ClassVar[str]

    @abstractmethod
    def limit(self, whole: Budget) -> Cost:
        """Return what all entries together may cost, rounded down, so that they keep the budget of the ledger.

        Raises BudgetError when the currency cannot promise that budget.
        """

    @abstractmethod
    def of_budget(self, asked: Budget) -> Cost:
        """Return what anything that meets a budget costs at most: known before it is known how the budget is met."""

    @abstractmethod
    def of_profile(self, profile: Profile, *, asked: Budget, whole: Budget) -> Cost:
        """Return what a release costs, from its profile; never more than the budget that it was asked to meet.

        ``profile``: of the guarantee, for both orders of each pair of neighbours.
        ``asked``: the budget of the release, which the profile meets.
        ``whole``: the budget of the ledger.

        Raises Infeasible when the profile does not meet the budget.
        """

    def allows(self, spent: Cost, cost: Cost, limit: Cost) -> bool:
        """Return whether one more entry stays within the limit: exactly, and equality is allowed."""
        return (spent + cost).within(limit)

    @abstractmethod
    def worth(self, spent: Cost, whole: Budget) -> tuple[float, float]:
        """Return a sum of costs as ``(epsilon, delta)``, rounded up."""

    @abstractmethod
    def left(self, spent: Cost, whole: Budget) -> tuple[float, float]:
        """Return what is left, as ``(epsilon, delta)``: of the whole budget where nothing is spent."""


class Sums(Currency):
    """Sums of epsilon, and of delta (Rogers, Roth, Ullman and Vadhan 2016, Theorem 3.6)."""

    name = "sums"

    def limit(self, whole: Budget) -> Cost:
        """Return the budget itself."""
        return self.of_budget(whole)

    def of_budget(self, asked: Budget) -> Cost:
        """Return the budget, as the decimals that it is written as."""
        return Cost(written(asked.epsilon), written(asked.delta))

    def of_profile(self, profile: Profile, *, asked: Budget, whole: Budget) -> Cost:
        """Return the epsilon that was asked for, and the profile's delta there."""
        _require_met(profile, asked)
        most = self.of_budget(asked)
        return Cost(most.loss, min(most.delta, _rounded(profile.delta(asked.epsilon), _UP)))

    def worth(self, spent: Cost, whole: Budget) -> tuple[float, float]:
        """Return the sums."""
        return above(spent.loss), above(spent.delta)

    def left(self, spent: Cost, whole: Budget) -> tuple[float, float]:
        """Return the budget less the sums."""
        rest = self.limit(whole) - spent
        return below(max(Fraction(0), rest.loss)), below(max(Fraction(0), rest.delta))


class ApproximateZCDP(Currency):
    """Sums of rho, and of delta, in approximate zCDP (Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1).

    What is spent or left is told in epsilon at the ledger's delta.
    """

    name = "zcdp"

    def limit(self, whole: Budget) -> Cost:
        """Return the rho and the delta that convert to the budget."""
        rho, delta = zcdp_budget(whole.epsilon, whole.delta)
        return Cost(_rounded(rho, _DOWN), written(delta))

    def of_budget(self, asked: Budget) -> Cost:
        """Return what a bare (epsilon, delta) promise is worth: epsilon tanh(epsilon/2), and delta."""
        rho, _ = pair_as_zcdp(asked.epsilon, asked.delta)
        return Cost(_rounded(rho, _UP), written(asked.delta))

    def of_profile(self, profile: Profile, *, asked: Budget, whole: Budget) -> Cost:
        """Return the rho of the profile's bulk and the delta of its tail.

        A release may lose as much delta as makes a tenth of the ledger's last as long as its rho would if both went
        with the square of epsilon, and never more than it was asked to meet.
        """
        _require_met(profile, asked)
        most = self.of_budget(asked)
        share = min(Fraction(1), (written(asked.epsilon) / written(whole.epsilon)) ** 2)
        room = most.delta - written(profile.delta(math.inf))
        cut = below(max(Fraction(0), min(room, share * _CUT * self.limit(whole).delta)))
        rho, delta = approximate_zcdp(profile, cut=cut)
        if not rho < math.inf:
            return most
        found = Cost(_rounded(rho, _UP), _rounded(delta, _UP))
        return found if found.within(most) else most

    def worth(self, spent: Cost, whole: Budget) -> tuple[float, float]:
        """Return the epsilon of what is spent, at the ledger's delta."""
        rest = written(whole.delta) - spent.delta
        found = zcdp_epsilon(above(spent.loss), below(rest)) if rest > 0 else math.inf
        return (min(found, whole.epsilon) if spent.within(self.limit(whole)) else found), whole.delta

    def left(self, spent: Cost, whole: Budget) -> tuple[float, float]:
        """Return the epsilon of what is left, at the ledger's delta; nothing where either part is used up."""
        limit = self.limit(whole)
        rest = limit - spent
        if rest.loss <= 0 or rest.delta < 0:
            return 0.0, whole.delta
        found = zcdp_epsilon(below(rest.loss), below(written(whole.delta) - limit.delta))
        return min(whole.epsilon, found), whole.delta


def _require_met(profile: Profile, asked: Budget) -> None:
    if profile.delta(asked.epsilon) > asked.delta:
        raise Infeasible(str(asked), {})


CURRENCIES: Mapping[str, Currency] = {kind.name: kind() for kind in (Sums, ApproximateZCDP)}
"""By name; sums are the default of a ledger."""
