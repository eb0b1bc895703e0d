"""Whether samples from two neighbouring tables agree with a claim: a test of anything that can be run.

It knows no theorem and no law. On some runs it looks for the event that tells the two tables apart best, on others it
counts how often that event occurs, and compares exact bounds on the two probabilities with the claim.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import integer, real
from discreet.audit._monte_carlo import clopper_pearson

Sampler = Callable[[np.random.Generator, int], Sequence[Hashable]]
"""Returns the outputs of so many independent runs on one table: numbers, texts, or tuples of them."""

ERROR = 1e-3
_SURE = 0.99  # confidence with which each probability of a stated power is bounded
_TRIED = 200  # thresholds
_PRIOR = 1.0  # added to each count of an output: what was never seen is no evidence of a large ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What tells two tables apart: outputs with a score of at least a threshold.

    ``score``: of an output.
    ``least``: the threshold.
    ``epsilon``, ``delta``: the point of the claim that it is compared with.
    """

    score: Callable[[Hashable], float]
    least: float
    epsilon: float
    delta: float

    def seen(self, outputs: Sequence[Hashable]) -> int:
        """Return how often it occurs."""
        return sum(self.score(one) >= self.least for one in outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one table compares with the other.

    ``event``: the event that was chosen on other runs.
    ``likely``, ``unlikely``: how often it occurred among ``runs`` of each table.
    ``runs``: of each table.
    ``error``: probability at most of a false alarm.
    """

    event: Event
    likely: int
    unlikely: int
    runs: int
    error: float

    @property
    def caught(self) -> bool:
        """Whether the claim is refuted."""
        return _refutes(self.likely, self.unlikely, self.runs, self.event, self.error)

    @property
    def power(self) -> float:
        """The probability that this test refutes the claim for what was sampled here, of this event.

        It is a lower bound: both probabilities of the event are taken from where they are with 99 % confidence each.
        """
        from scipy.special import bdtr, bdtrc, bdtrik

        low = clopper_pearson(self.likely, self.runs, confidence=2.0 * _SURE - 1.0).lower
        high = clopper_pearson(self.unlikely, self.runs, confidence=2.0 * _SURE - 1.0).upper
        best = 0.0
        for share in (0.9, 0.96, 0.99, 0.999):
            most = min(self.runs, math.ceil(bdtrik(share, self.runs, high)))
            least = _fewest(most, self.runs, self.event, self.error)
            if least is not None:
                best = max(best, float(bdtr(most, self.runs, high) * bdtrc(least - 1.0, self.runs, low)))
        return best


def examine(
    first: Sampler,
    second: Sampler,
    claim: Callable[[float], float],
    *,
    rng: np.random.Generator,
    runs: int = 10_000,
    error: float = ERROR,
    epsilons: Sequence[float] = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0),
) -> tuple[Finding, Finding]:
    """Test whether two samplers agree with a claim, in both directions.

    ``first``, ``second``: of two neighbouring tables; anything that can be run.
    ``claim``: the delta of the claim at an epsilon.
    ``rng``: of the runs.
    ``runs``: of each table; as many more are spent twice to choose an event and its threshold.
    ``error``: probability at most that either finding is a false alarm.
    ``epsilons``: at which the claim is compared.
    Returns: the findings with the first and with the second table as the likely one.

    Raises ParameterError when ``runs`` or ``error`` is out of range.

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> coin = lambda rng, runs: (rng.random(runs) < 0.5).tolist()
    >>> biased = lambda rng, runs: (rng.random(runs) < 0.75).tolist()
    >>> found = examine(biased, coin, lambda epsilon: 0.0 if epsilon >= 0.5 else 1.0, rng=seeded(1))
    >>> [one.caught for one in found]  # the odds of false are 2, and 2 > e^0.5
    [False, True]
    """
    integer("runs", runs, least=100, most=10**8)
    real("error", error, above=0, below=1)
    train, choose, test = [(first(rng, runs), second(rng, runs)) for _ in range(3)]
    found = []
    for x, y in ((0, 1), (1, 0)):
        scores = _scores(train[x], train[y])
        events = [_event(score, choose[x], choose[y], claim, epsilons) for score in scores]
        event = max(events, key=lambda pair: pair[0])[1]
        likely, unlikely = event.seen(test[x]), event.seen(test[y])
        found.append(Finding(event=event, likely=likely, unlikely=unlikely, runs=runs, error=error))
    return found[0], found[1]


def _refutes(likely: int, unlikely: int, runs: int, event: Event, error: float) -> bool:
    """Return whether exact bounds on both probabilities contradict the claim; each fails with a quarter of the error.

    There are two directions, and in each a lower and an upper bound.
    """
    low = clopper_pearson(likely, runs, confidence=1.0 - error / 2.0).lower
    high = clopper_pearson(unlikely, runs, confidence=1.0 - error / 2.0).upper
    return low > math.exp(event.epsilon) * high + event.delta


def _fewest(unlikely: int, runs: int, event: Event, error: float) -> int | None:
    """Return how often the event must occur under the likely table for the claim to be refuted."""
    if not _refutes(runs, unlikely, runs, event, error):
        return None
    below, least = -1, runs
    while least - below > 1:
        middle = (below + least) // 2
        if _refutes(middle, unlikely, runs, event, error):
            least = middle
        else:
            below = middle
    return least


def _scores(likely: Sequence[Hashable], unlikely: Sequence[Hashable]) -> list[Callable[[Hashable], float]]:
    """Return scores that grow with the ratio of the two laws: of whole outputs, and coordinate by coordinate."""
    whole = _ratios(likely, unlikely)
    found = [lambda one: whole.get(one, 0.0)]
    if all(_is_vector(one) for one in (*likely[:50], *unlikely[:50])):
        vectors, others = [list(map(_as_tuple, side)) for side in (likely, unlikely)]
        if len({len(one) for one in (*vectors, *others)}) == 1:
            each = [_ratios(one, other) for one, other in zip(zip(*vectors), zip(*others), strict=True)]  # noqa: B905
            found.append(lambda one: sum(part.get(v, 0.0) for part, v in zip(each, _as_tuple(one), strict=True)))
    return found


def _ratios(likely: Sequence[Any], unlikely: Sequence[Any]) -> dict[Any, float]:
    one, other = Counter(likely), Counter(unlikely)
    return {v: math.log(one[v] + _PRIOR) - math.log(other[v] + _PRIOR) for v in one.keys() | other.keys()}


def _is_vector(one: Hashable) -> bool:
    return isinstance(one, tuple) and len(one) > 1 and all(isinstance(v, Real) for v in one)


def _as_tuple(one: Any) -> tuple[Any, ...]:
    return tuple(one)


def _event(
    score: Callable[[Hashable], float],
    likely: Sequence[Hashable],
    unlikely: Sequence[Hashable],
    claim: Callable[[float], float],
    epsilons: Sequence[float],
) -> tuple[float, Event]:
    """Return the threshold and the epsilon at which a score refutes a claim most clearly, and how clearly."""
    runs = len(likely)
    one, other = (np.sort([score(v) for v in side]) for side in (likely, unlikely))
    levels = np.unique(np.concatenate((one, other)))
    levels = levels[:: -(-len(levels) // _TRIED)]
    p, q = (_share(side, levels) for side in (one, other))
    best = (-math.inf, Event(score=score, least=float(levels[0]), epsilon=0.0, delta=1.0))
    for epsilon in epsilons:
        delta = claim(epsilon)
        spread = np.sqrt(p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q) + (1 + math.exp(2 * epsilon)) / runs)
        clear = (p - math.exp(epsilon) * q - delta) / spread
        place = int(clear.argmax())
        if clear[place] > best[0]:
            event = Event(score=score, least=float(levels[place]), epsilon=epsilon, delta=delta)
            best = (float(clear[place]), event)
    return best


def _share(scores: Floats, levels: Floats) -> Floats:
    found: Floats = 1.0 - np.searchsorted(scores, levels, side="left") / len(scores)
    return found
