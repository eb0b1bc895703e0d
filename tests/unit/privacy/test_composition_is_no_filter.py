"""What composition is not: a rule for when to stop. The counterexample of the theory page, in rational numbers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest

from discreet.privacy import ConstantProfile, Profile, compose
from discreet.wording import SHOWS

ROOT = Path(__file__).parents[3]
Law = list[tuple[Fraction, Fraction]]  # the probabilities of each outcome under two neighbours

E = 3  # e^epsilon


def delta(law: Law) -> Fraction:
    """Return the divergence at e^epsilon = 3, the larger of both orders."""
    return max(sum((max(Fraction(0), p - E * q) for p, q in order), Fraction(0)) for order in (law, turned(law)))


def turned(law: Law) -> Law:
    return [(q, p) for p, q in law]


def then(first: Law, *following: Law) -> Law:
    """Return the law of a release, and of one that is chosen by its outcome."""
    return [(p * x, q * y) for (p, q), law in zip(first, following, strict=True) for x, y in law]


@dataclass(frozen=True)
class Finite(Profile):
    """The profile of a pair of finite laws."""

    law: tuple[tuple[Fraction, Fraction], ...]

    @property
    def exact(self) -> bool:
        return True

    def _delta(self, epsilon: float) -> float:
        e = math.exp(epsilon)
        orders = (list(self.law), turned(list(self.law)))
        return max(sum(max(0.0, float(p) - e * float(q)) for p, q in order) for order in orders)


RESPONSE: Law = [(Fraction(3, 4), Fraction(1, 4)), (Fraction(1, 4), Fraction(3, 4))]  # loss +- log 3


def revealed(chance: Fraction) -> Law:
    """Nothing, but everything with a chance: what ConstantProfile is."""
    return [(1 - chance, 1 - chance), (chance, Fraction(0)), (Fraction(0), chance)]


@pytest.mark.parametrize(
    ("first", "exceeds"),
    [
        ([(Fraction(11, 20), Fraction(9, 20)), (Fraction(9, 20), Fraction(11, 20))], Fraction(145, 100)),
        ([(Fraction(1, 20), Fraction(1, 40)), (Fraction(19, 20), Fraction(39, 40))], Fraction(195, 100)),
    ],
)
def test_a_second_release_chosen_by_the_first_exceeds_what_every_path_composes_to(
    first: Law, exceeds: Fraction
) -> None:
    budget = delta(then(first, RESPONSE, RESPONSE))
    chance = revealed(budget)
    # Whatever the first release shows, what was spent composes to the budget, in both orders ..
    assert delta(then(first, chance, chance)) == budget
    # .. and yet the choice spends more: the response after one outcome, the other release after the other.
    adaptive = delta(then(first, RESPONSE, chance))
    assert adaptive == exceeds * budget
    # The library composes each path rightly, and neither is a bound on the choice.
    profile = Finite(tuple(first))
    for second in (Finite(tuple(RESPONSE)), ConstantProfile(value=float(budget))):
        composed = compose([profile, second]).delta(math.log(E))
        assert float(budget) * (1 - 1e-9) <= composed <= float(budget) * 1.01
        assert composed < float(adaptive)


def test_no_sentence_says_that_composition_may_be_used_to_stop() -> None:
    condition = re.compile(r"fixed\s+before")
    assert condition.search(compose.__doc__ or "")
    for name in (
        "docs/guarantee.md",
        "docs/theory/sampling-is-noise.md",
        "docs/known-limits.md",
        "src/discreet/report/page/report.html",
    ):
        assert condition.search((ROOT / name).read_text(encoding="utf-8")), name
    assert condition.search(SHOWS)
    for path in [*(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py"), ROOT / "README.md"]:
        assert "any adaptive order" not in path.read_text(encoding="utf-8"), path
