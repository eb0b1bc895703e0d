"""The two currencies of a ledger, both filters: docs/theory/filters.md.

Costs are finite decimals, compared exactly: a number that was asked for as it is written, a computed one rounded up to
twelve digits (a limit down).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, Self

from discreet import privacy
from discreet._core.errors import Infeasible, ParameterError
from discreet._core.numeric import above, below, written
from discreet._core.text import rounded_up
from discreet.privacy import Budget, Profile

_UP, _DOWN = Context(prec=12, rounding=ROUND_CEILING), Context(prec=12, rounding=ROUND_FLOOR)
_EXACT = Context(prec=4000)  # more digits than any cost has that is read
_DECIMAL = re.compile(r"[0-9]{1,400}(?:\.[0-9]{1,800})?(?:E-[0-9]{1,3})?")
_NOTHING = Fraction(0)
_CUT = Fraction(1, 10)


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of an entry, or a sum of costs: finite decimals of at least 0. The loss is epsilon, or rho in zcdp."""

    loss: Fraction = _NOTHING
    delta: Fraction = _NOTHING

    def __add__(self, cost: Cost) -> Cost:
        return Cost(self.loss + cost.loss, self.delta + cost.delta)

    def __sub__(self, cost: Cost) -> Cost:
        return Cost(self.loss - cost.loss, self.delta - cost.delta)

    def within(self, limit: Cost) -> bool:
        """Return whether neither part is above that of another cost: exactly, and equality is allowed."""
        return self.loss <= limit.loss and self.delta <= limit.delta

    def to_dict(self) -> dict[str, str]:
        """Return both as exact decimals, in text, such as 0.3 and 1E-9."""
        return {"loss": _text(self.loss), "delta": _text(self.delta)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return what was written by :meth:`to_dict`. Raises ParameterError when it is no such thing."""
        if set(values) != {"loss", "delta"}:
            raise ParameterError("a cost must have a loss and a delta, and nothing else")
        for text in values.values():
            if not isinstance(text, str) or _DECIMAL.fullmatch(text) is None:
                raise ParameterError("a cost must be a decimal of at least 0, in text")
        return cls(Fraction(values["loss"]), Fraction(values["delta"]))


def _text(value: Fraction) -> str:
    """Write a finite decimal of at least 0 with all its digits."""
    number = _EXACT.divide(Decimal(value.numerator), Decimal(value.denominator)).normalize(_EXACT)
    last_digit: Any = number.as_tuple().exponent
    return format(number, "E" if last_digit < -6 and number.adjusted() < -4 else "f")


def _rounded(value: float, context: Context) -> Fraction:
    """Return a number that was computed as a decimal of at most twelve digits."""
    return Fraction(context.create_decimal(repr(float(value))))


class Currency:
    """Sums of epsilon and of delta (Rogers, Roth, Ullman and Vadhan 2016, Theorem 3.6): in what a ledger counts."""

    name, loss = "sums", "epsilon"

    def words(self, cost: Cost) -> str:
        """Return a cost in words, rounded up."""
        loss = f"{self.loss} {rounded_up(float(cost.loss))}"
        return f"{loss} and delta {rounded_up(float(cost.delta))}" if cost.delta > 0 else loss

    def of_budget(self, budget: Budget) -> Cost:
        """Return what anything that meets a budget costs at most: known before it is known how the budget is met."""
        return Cost(written(budget.epsilon), written(budget.delta))

    def limit(self, total: Budget) -> Cost:
        """Return what all entries may cost. Raises BudgetError where that cannot be promised."""
        return self.of_budget(total)

    def of_profile(self, profile: Profile, *, budget: Budget, total: Budget) -> Cost:
        """Return a release's cost, never above its budget's. Raises Infeasible where the profile does not meet that."""
        if profile.delta(budget.epsilon) > budget.delta:
            raise Infeasible(str(budget), {})
        maximum = self.of_budget(budget)
        cost = self._exact(profile, maximum, budget, total)
        return cost if cost.within(maximum) else maximum

    def _exact(self, profile: Profile, maximum: Cost, budget: Budget, total: Budget) -> Cost:
        """Return the epsilon of the budget, and the profile's delta there."""
        return Cost(maximum.loss, _rounded(profile.delta(budget.epsilon), _UP))

    def worth(self, spent: Cost, total: Budget) -> tuple[float, float]:
        """Return a sum of costs as ``(epsilon, delta)``, rounded up."""
        return above(spent.loss), above(spent.delta)

    def left(self, spent: Cost, total: Budget) -> tuple[float, float]:
        """Return what is left, as ``(epsilon, delta)``: of the whole budget where nothing is spent."""
        remainder = self.limit(total) - spent
        return below(max(_NOTHING, remainder.loss)), below(max(_NOTHING, remainder.delta))


class ApproximateZCDP(Currency):
    """Sums of rho, and of delta, in approximate zCDP (Whitehouse, Ramdas, Rogers and Wu 2023, Theorem 1)."""

    name, loss = "zcdp", "rho"

    def limit(self, total: Budget) -> Cost:
        """Return the rho and the delta that convert to the budget."""
        rho, delta = privacy.zcdp_budget(total.epsilon, total.delta)
        return Cost(_rounded(rho, _DOWN), written(delta))

    def of_budget(self, budget: Budget) -> Cost:
        """Return what a bare (epsilon, delta) promise is worth: epsilon tanh(epsilon/2), and delta."""
        rho, _ = privacy.pair_as_zcdp(budget.epsilon, budget.delta)
        return Cost(_rounded(rho, _UP), written(budget.delta))

    def _exact(self, profile: Profile, maximum: Cost, budget: Budget, total: Budget) -> Cost:
        """Return the rho of the profile's bulk and the delta of its tail, never more than it was asked to meet."""
        # Delta may be lost as makes a tenth of the ledger's last as long as rho would, both as the square of epsilon.
        share = min(Fraction(1), (written(budget.epsilon) / written(total.epsilon)) ** 2)
        room = maximum.delta - written(profile.delta(math.inf))
        cut = below(max(_NOTHING, min(room, share * _CUT * self.limit(total).delta)))
        rho, delta = privacy.approximate_zcdp(profile, cut=cut)
        return Cost(_rounded(rho, _UP), _rounded(delta, _UP)) if rho < math.inf else maximum

    def worth(self, spent: Cost, total: Budget) -> tuple[float, float]:
        """Return the epsilon of what is spent, at the ledger's delta."""
        delta = written(total.delta) - spent.delta
        epsilon = privacy.zcdp_epsilon(above(spent.loss), below(delta)) if delta > 0 else math.inf
        return (min(epsilon, total.epsilon) if spent.within(self.limit(total)) else epsilon), total.delta

    def left(self, spent: Cost, total: Budget) -> tuple[float, float]:
        """Return the epsilon of what is left, at the ledger's delta; nothing where either part is used up."""
        limit = self.limit(total)
        remainder = limit - spent
        if remainder.loss <= 0 or remainder.delta < 0:
            return 0.0, total.delta
        epsilon = privacy.zcdp_epsilon(below(remainder.loss), below(written(total.delta) - limit.delta))
        return min(total.epsilon, epsilon), total.delta


CURRENCIES: Mapping[str, Currency] = {kind.name: kind() for kind in (Currency, ApproximateZCDP)}
"""By name; sums are the default of a ledger."""
