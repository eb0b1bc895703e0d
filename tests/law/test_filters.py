"""Filters against adversaries: every tree of releases that the ledger allows, in rational numbers.

An adversary chooses each next release, and whether there is one, by the outcomes so far; the ledger's own decision says
which are allowed. The best tree is found by dynamic programming over transcripts: what follows an outcome depends on
the ratio of its probabilities under the two neighbours and on what was spent.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from discreet._core.numeric import LogRatio, written
from discreet.ledger.filters import CURRENCIES, Cost, Currency
from discreet.privacy import Budget, ConstantProfile, Profile

Law = tuple[tuple[Fraction, Fraction], ...]  # the probabilities of each outcome under two neighbours

ONE = Fraction(1)


def turned(law: Law) -> Law:
    return tuple((q, p) for p, q in law)


def beyond(law: Law, odds: Fraction) -> Fraction:
    """The divergence at e^epsilon = odds, in one order."""
    return sum((max(Fraction(0), p - odds * q) for p, q in law), Fraction(0))


def response(odds: Fraction) -> Law:
    """Randomised response with a loss of log(odds)."""
    right = odds / (1 + odds)
    return ((right, 1 - right), (1 - right, right))


def leak(chance: Fraction) -> Law:
    """Nothing, but everything with a chance."""
    return ((1 - chance, 1 - chance), (chance, Fraction(0)), (Fraction(0), chance))


def both(law: Law, chance: Fraction) -> Law:
    """A release that shows everything with a chance and is another one else."""
    return (*((p * (1 - chance), q * (1 - chance)) for p, q in law), (chance, Fraction(0)), (Fraction(0), chance))


def binomial(tosses: int) -> Law:
    """A count with the noise of fair tosses, against the count one higher."""
    chances = [Fraction(math.comb(tosses, i), 2**tosses) for i in range(tosses + 1)]
    return tuple(zip([*chances, Fraction(0)], [Fraction(0), *chances], strict=True))


def then(*laws: Law) -> Law:
    """Releases that do not depend on one another."""
    found: Law = ((ONE, ONE),)
    for law in laws:
        found = tuple((p * x, q * y) for p, q in found for x, y in law)
    return found


@dataclass(frozen=True)
class Finite(Profile):
    """The profile of a pair of finite laws, both orders."""

    law: Law

    @property
    def pure(self) -> float:
        ratios = [(p, q) for one in self.law for p, q in (one, one[::-1]) if p > 0]
        return math.inf if any(q == 0 for _, q in ratios) else log(max(p / q for p, q in ratios))

    def _delta(self, epsilon: float) -> float:
        odds = Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**15))
        return float(max(beyond(self.law, odds), beyond(turned(self.law), odds))) * (1 + 1e-15)


@dataclass(frozen=True)
class Move:
    """A release, and what it was asked to meet."""

    law: Law
    epsilon: float
    delta: float
    profile: Profile | None = None

    def cost(self, currency: Currency, whole: Budget) -> Cost:
        asked = Budget(epsilon=self.epsilon, delta=self.delta)
        return currency.of_profile(self.profile or Finite(self.law), budget=asked, total=whole)


def log(odds: Fraction) -> float:
    """The least float that, as it is written, is not below a logarithm."""
    return LogRatio(Fraction(odds)).ceiling()


def met(law: Law, epsilon: float) -> Move:
    """A release that is asked to meet what it meets at an epsilon."""
    profile = Finite(law)
    return Move(law, epsilon, profile.delta(epsilon), profile)


Payoff = Callable[[Fraction], Fraction]  # of the ratio of a transcript's probabilities, per unit under the second law


def best(
    moves: Sequence[Move],
    rounds: int,
    currency: Currency,
    whole: Budget,
    payoff: Payoff,
    infinite: Fraction,
    *,
    forgetful: bool = False,
):
    """Return what the best adversary within the ledger's limit has: the sum of payoffs over transcripts.

    ``infinite``: the payoff per unit under the first law where the second has none.
    ``forgetful``: the ledger looks at each release by itself.
    """
    limit = currency.limit(whole)
    priced = [(move.law, move.cost(currency, whole)) for move in moves]

    @cache
    def value(ratio: Fraction, spent: Cost, left: int) -> Fraction:
        found = payoff(ratio)
        if left == 0:
            return found
        for law, cost in priced:
            if not (cost if forgetful else spent + cost).within(limit):
                continue
            worth = Fraction(0)
            for p, q in law:
                if q == 0:
                    worth += ratio * p * infinite
                else:
                    worth += q * value(ratio * p / q, spent + cost, left - 1)
            found = max(found, worth)
        return found

    return value(ONE, Cost(), rounds)


def excess(odds: Fraction) -> Payoff:
    return lambda ratio: max(Fraction(0), ratio - odds)


def not_above_exp(epsilon: float) -> Fraction:
    """A rational number not above e^epsilon, by less than one part in 1e15."""
    return Fraction(math.exp(epsilon)) * (1 - Fraction(1, 10**15))


LOG2, LOG3, LOG4 = (log(Fraction(x)) for x in (2, 3, 4))
LOTTERY: Law = ((Fraction(1, 20), Fraction(1, 40)), (Fraction(19, 20), Fraction(39, 40)))
TENTH, SMALL = Fraction(1, 10), Fraction(1, 50)


def menu() -> list[Move]:
    """Releases of all kinds: pure, leaking, both, noise that has an end, and an outcome that is rare in one order."""
    return [
        met(response(Fraction(2)), LOG2),
        met(response(Fraction(3, 2)), log(Fraction(3, 2))),
        Move(leak(SMALL), 0.0, float(SMALL), ConstantProfile(value=float(SMALL))),
        Move(leak(TENTH), 0.0, float(TENTH), ConstantProfile(value=float(TENTH))),
        met(both(response(Fraction(2)), SMALL), LOG2),
        met(both(response(Fraction(4)), TENTH), LOG4),
        met(binomial(4), LOG2),
        met(binomial(4), LOG4),
        met(binomial(10), 0.5),
        met(LOTTERY, LOG2),
    ]


def both_orders(moves: Sequence[Move]) -> list[list[Move]]:
    """The same releases, whichever of the neighbours is told apart from the other."""
    return [list(moves), [Move(turned(m.law), m.epsilon, m.delta, m.profile or Finite(m.law)) for m in moves]]


@pytest.mark.parametrize(
    ("name", "epsilon", "delta", "reached"),
    [
        ("sums", LOG2, 0.0, 0.0), ("sums", LOG4, 0.0, 0.0), ("sums", LOG2, 0.02, 1.0), ("sums", LOG4, 0.1, 1.0),
        ("sums", 0.3, 0.2, 0.94), ("sums", 0.05, 0.12, 0.98), ("zcdp", LOG2, 0.02, 0.0), ("zcdp", LOG4, 0.1, 0.27),
        ("zcdp", 0.3, 0.2, 0.45), ("zcdp", 1.0, 0.3, 0.55), ("zcdp", 0.05, 0.12, 0.0),
    ],
)  # fmt: skip
def test_no_adversary_exceeds_the_budget_and_some_come_near(
    name: str, epsilon: float, delta: float, reached: float
) -> None:
    """In sums, some use all of delta. In zcdp that takes more rounds than can be listed: four come to half of it."""
    currency, whole = CURRENCIES[name], Budget(epsilon=epsilon, delta=delta)
    odds = not_above_exp(epsilon)
    found = max(best(moves, 4, currency, whole, excess(odds), ONE) for moves in both_orders(menu()))
    assert found <= written(delta) + Fraction(1, 10**12)  # what the odds were rounded down by
    assert found >= reached * written(delta)


def test_the_sum_of_pure_epsilons_is_attained() -> None:
    """Randomised response with odds 2, twice, has odds 4: nothing less than the sum would do."""
    whole = Budget(epsilon=2 * LOG2, delta=0.0)
    for moves in both_orders(menu()):
        sums = CURRENCIES["sums"]
        assert best(moves, 4, sums, whole, excess(Fraction(4)), ONE) == 0
        assert best(moves, 4, sums, whole, excess(4 - Fraction(1, 10**9)), ONE) > 0


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_the_sum_of_deltas_is_attained_but_for_its_square(parts: int) -> None:
    """Chances of a leak add up to ``1 - prod(1 - delta_i)``."""
    delta = Fraction(1, 100)
    move = Move(leak(delta / parts), 0.0, float(delta / parts), ConstantProfile(value=float(delta / parts)))
    whole = Budget(epsilon=LOG2, delta=float(delta))
    found = best([move, *menu()], parts, CURRENCIES["sums"], whole, excess(Fraction(2)), ONE)
    assert delta * (1 - delta) <= found <= delta


def test_both_parts_of_a_budget_are_attained_together() -> None:
    move = met(both(response(Fraction(4)), TENTH), LOG4)
    whole = Budget(epsilon=move.epsilon, delta=move.delta)
    found = best([move], 2, CURRENCIES["sums"], whole, excess(Fraction(4)), ONE)
    assert found == TENTH


@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_no_adversary_exceeds_the_divergence_of_zcdp(rounds: int) -> None:
    """The theorem itself: D_alpha <= rho alpha of all that happened, at alpha 2 and 3, where nothing leaks."""
    currency, whole = CURRENCIES["zcdp"], Budget(epsilon=1.5, delta=0.01)
    rho = float(currency.limit(whole).loss)
    pure = [*(met(response(odds), log(odds)) for odds in (Fraction(5, 4), Fraction(3, 2))), met(LOTTERY, LOG2)]
    for moves in both_orders(pure):
        for alpha in (2, 3):
            moment = best(moves, rounds, currency, whole, lambda ratio, a=alpha: ratio**a, ONE)
            assert math.log(moment) / (alpha - 1) <= rho * alpha * (1 + 1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-9), (1.0, 1e-5), (3.0, 1e-6)])
def test_a_ledger_in_zcdp_is_used_up_by_many_small_releases(epsilon: float, delta: float) -> None:
    """As many responses as the filter allows attain 90 % of its epsilon, in exact sums: the rest is the conversion."""
    currency, whole = CURRENCIES["zcdp"], Budget(epsilon=epsilon, delta=delta)
    small = epsilon / 200
    move = Move(response(Fraction(math.exp(small))), small, 0.0)
    limit, charge = currency.limit(whole), move.cost(currency, whole)
    assert charge.delta == 0
    exact = small * math.tanh(small / 2)
    assert exact * (1 - 1e-9) <= charge.loss <= exact * 1.01
    rounds = int(limit.loss / charge.loss)
    assert (Cost((rounds - 1) * charge.loss) + charge).within(limit)
    assert not (Cost(rounds * charge.loss) + charge).within(limit)
    wrong = np.arange(rounds + 1)
    losses = (rounds - 2 * wrong) * small
    chances = binom.pmf(wrong, rounds, 1 / (1 + math.exp(small)))
    attained = [float(chances @ np.maximum(0.0, -np.expm1(e - losses))) for e in (0.9 * epsilon, epsilon)]
    assert attained[1] <= delta < attained[0]


# -- what is no filter ------------------------------------------------------------------------------------------------


def composed(law: Law, odds: Fraction) -> Fraction:
    return max(beyond(law, odds), beyond(turned(law), odds))


def best_by_composition(laws: Sequence[Law], rounds: int, budget: Fraction, odds: Fraction) -> Fraction:
    """What the best adversary has where each path's exact composed profile has to stay within the budget."""

    @cache
    def fits(path: tuple[int, ...]) -> bool:
        return composed(then(*(laws[i] for i in path)), odds) <= budget

    def value(p: Fraction, q: Fraction, path: tuple[int, ...]) -> Fraction:
        found = max(Fraction(0), p - odds * q)
        if len(path) == rounds:
            return found
        for i, law in enumerate(laws):
            if fits(tuple(sorted((*path, i)))):
                found = max(found, sum(value(p * x, q * y, (*path, i)) for x, y in law))
        return found

    return value(ONE, ONE, ())


@pytest.mark.parametrize(
    ("first", "factor"), [(response(Fraction(11, 9)), Fraction(145, 100)), (LOTTERY, Fraction(195, 100))]
)
def test_stopping_by_the_composed_profile_is_exceeded_and_both_filters_are_not(first: Law, factor: Fraction) -> None:
    """Each path composes, exactly, to the budget at most; and the whole has nearly twice its delta."""
    odds = Fraction(3)
    budget = composed(then(first, response(odds)), odds)
    laws = [first, response(odds), leak(budget)]
    assert best_by_composition(laws, 2, budget, odds) >= factor * budget

    # The same releases, as the ledger charges them, under the same budget.
    whole = Budget(epsilon=LOG3, delta=float(budget))
    moves = [
        met(first, Finite(first).pure),
        met(response(odds), LOG3),
        Move(leak(budget), 0.0, float(budget), ConstantProfile(value=float(budget))),
    ]
    for currency, order in product(CURRENCIES.values(), both_orders(moves)):
        assert best(order, 4, currency, whole, excess(odds), ONE) <= written(whole.delta)


@pytest.mark.parametrize(("name", "epsilon", "delta"), [("sums", LOG2, 0.02), ("zcdp", LOG4, 0.1)])
def test_a_filter_that_forgets_is_caught(name: str, epsilon: float, delta: float) -> None:
    """The enumeration sees a ledger that looks at each release by itself."""
    whole, payoff = Budget(epsilon=epsilon, delta=delta), excess(not_above_exp(epsilon))
    found = best(menu(), 3, CURRENCIES[name], whole, payoff, ONE, forgetful=True)
    assert found > Fraction(14, 10) * written(delta)
