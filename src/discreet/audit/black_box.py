"""Whether samples from two neighbouring tables agree with a claim: a test of anything that can be run.

Some runs choose the event that tells the tables apart best; others count it, with exact bounds on its probabilities.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import integer, real
from discreet._core.lazy import special
from discreet._core.numeric import Floats, least_integer
from discreet.audit.attacks import POWER
from discreet.audit.instance import clopper_pearson, lower_bounds

Sampler = Callable[[np.random.Generator, int], Sequence[Hashable]]
"""Returns the outputs of so many independent runs on one table: numbers, texts, or tuples of them."""

ERROR = 1e-3
_SURE = 0.99  # confidence with which each probability of a stated power is bounded
_SHARES = (0.9, 0.96, 0.99, 0.999)  # of the runs of the unlikely table that a stated power may count on
_TRIED = 200  # thresholds
_PRIOR = 1.0  # added to each count of an output: what was never seen is no evidence of a large ratio
_CHANCE, _TINY = 1e-5, 1e-12  # of each bound by which an event is chosen
_COMMON = 5  # times that a number must have been seen to be a value by itself; others are taken by their range
_RANGES = 32
_ELEMENTS = 32  # of a tuple that are looked at one by one
_FURTHEST = 40.0
_LARGEST = 2**1023  # whole numbers from here on are no doubles: values without a size


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What tells two tables apart: outputs with a score of at least a threshold.

    ``of``: what of an output the score is computed from.
    ``score``: of an output.
    ``least``: the threshold.
    ``epsilon``, ``delta``: the point of the claim that it is compared with.
    """

    of: str
    score: Callable[[Hashable], float]
    least: float
    epsilon: float
    delta: float

    def seen(self, outputs: Sequence[Hashable]) -> int:
        """Return how often it occurs."""
        return sum(self.score(output) >= self.least for output in outputs)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How one table compares with the other.

    ``event``: the event that was chosen on other runs.
    ``likely``, ``unlikely``: how often it occurred among ``runs`` of each table.
    ``runs``: of each table.
    ``error``: probability at most of a false alarm, over both directions.
    """

    event: Event
    likely: int
    unlikely: int
    runs: int
    error: float

    @property
    def caught(self) -> bool:
        """Whether the claim is refuted."""
        return self._refutes(self.likely, self.unlikely)

    @property
    def power(self) -> float:
        """The probability that this test refutes the claim for what was sampled here, of this event.

        It is a lower bound: both probabilities of the event are taken from where they are with 99 % confidence each.
        """
        low, high = self._bounds(self.likely, self.unlikely, confidence=2.0 * _SURE - 1.0)
        return max((_power(low, high, self.runs, *limits) for limits in self._limits(high)), default=0.0)

    @property
    def detectable(self) -> float | None:
        """The least epsilon that would have been caught with power :data:`~discreet.audit.attacks.POWER`.

        It is that of a sampler under which the event is as likely as here on the one table, and on the other, but for
        delta, ``e^epsilon`` times as rare. How likely is known but for 1 % on each side: the worst of it is taken.
        Rounded up to one part in 100; None where no epsilon would have been caught, as the event is too rare.
        """
        share = clopper_pearson(self.likely, self.runs, confidence=2.0 * _SURE - 1.0)
        worst = max(self._least_caught(share.lower), self._least_caught(share.upper))
        return None if math.isinf(worst) else worst

    @property
    def epsilon(self) -> float:
        """A lower bound on epsilon at the event's delta: above the true one with probability ``error`` at most."""
        low, high = self._bounds(self.likely, self.unlikely, confidence=1.0 - self.error / 2.0)
        return math.log(max(1.0, (low - self.event.delta) / high))

    def _bounds(self, likely: int, unlikely: int, *, confidence: float) -> tuple[float, float]:
        """Return a lower bound on the event's probability of the likely table, and an upper one of the unlikely."""
        low = clopper_pearson(likely, self.runs, confidence=confidence).lower
        return low, clopper_pearson(unlikely, self.runs, confidence=confidence).upper

    def _refutes(self, likely: int, unlikely: int) -> bool:
        """Return whether exact bounds on both probabilities, each with a quarter of the error, contradict the claim."""
        low, high = self._bounds(likely, unlikely, confidence=1.0 - self.error / 2.0)
        return low > math.exp(self.event.epsilon) * high + self.event.delta

    def _limits(self, rare: float) -> Iterator[tuple[int, int]]:
        """Yield counts that refute: at most so many of the unlikely table, and at least so many of the likely one."""
        for share in _SHARES:
            highest = 0  # where the event is so rare that bdtrik is not a number
            if special.bdtr(0.0, self.runs, rare) < share:
                highest = min(self.runs, math.ceil(special.bdtrik(share, self.runs, rare)))
            lowest = least_integer(partial(self._refutes, unlikely=highest), 0, self.runs)
            if lowest is not None:
                yield highest, lowest

    def _least_caught(self, likely: float) -> float:
        """Return the least epsilon caught by an event that is so likely on the one table; infinity where none is."""
        event = self.event

        def is_caught(hundredths: int) -> bool:
            rare = (likely - event.delta) * math.exp(-hundredths / 100.0)
            return any(_power(likely, rare, self.runs, *limits) >= POWER for limits in self._limits(rare))

        least = None
        if likely > event.delta:
            least = least_integer(is_caught, math.ceil(100.0 * event.epsilon), round(100.0 * _FURTHEST))
        return math.inf if least is None else least / 100.0


def compared(
    first: Sampler,
    second: Sampler,
    claim: Callable[[float], float],
    *,
    rng: np.random.Generator,
    runs: int = 10_000,
    error: float = ERROR,
    epsilons: Sequence[float] = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0),
    features: Mapping[str, Callable[[Any], Hashable]] | None = None,
) -> tuple[Finding, Finding]:
    """Test whether two samplers agree with a claim: with probability ``error`` at most, a finding is a false alarm."""
    runs = integer("runs", runs, least=100, most=10**8)
    error = real("error", error, above=0, below=1)
    train, choose, test = [(first(rng, runs), second(rng, runs)) for _ in range(3)]
    features = features or {"the output": lambda output: output}

    def finding(x: int, y: int) -> Finding:
        sides = (train[x], train[y], choose[x], choose[y])
        scores = (score for name, feature in features.items() for score in _feature_scores(name, feature, *sides))
        event = max((_nearest_event(score, claim, epsilons) for score in scores), key=lambda pair: pair[0])[1]
        return Finding(event=event, likely=event.seen(test[x]), unlikely=event.seen(test[y]), runs=runs, error=error)

    return finding(0, 1), finding(1, 0)


def _power(likely: float, unlikely: float, runs: int, highest: int, lowest: int) -> float:
    """Return the probability that both counts are within their limits."""
    return float(special.bdtr(highest, runs, unlikely) * special.bdtrc(lowest - 1.0, runs, likely))


def likelihood_ratio(likely: Sequence[Any], unlikely: Sequence[Any]) -> tuple[Callable[[Any], float], bool]:
    """Estimate log-ratios of two laws: of common values one by one, and of ranges of the others if there are any."""
    n, m = Counter(likely), Counter(unlikely)
    values = {v for v in n.keys() | m.keys() if not _is_number(v) or n[v] + m[v] >= _COMMON}
    common = {v: math.log(n[v] + _PRIOR) - math.log(m[v] + _PRIOR) for v in values}
    rare = [np.array([v for v in side if v not in values], dtype=np.float64) for side in (likely, unlikely)]
    pooled, edges, ranges = np.concatenate(rare), list[float](), [0.0]
    if len(pooled):
        cuts = np.linspace(0.0, 1.0, max(2, min(_RANGES, len(pooled) // 20)) + 1)[1:-1]
        edges = np.unique(np.quantile(pooled, cuts, method="lower")).tolist()
        counts = [np.bincount(np.searchsorted(edges, side, side="right"), minlength=len(edges) + 1) for side in rare]
        ranges = (np.log(counts[0] + _PRIOR) - np.log(counts[1] + _PRIOR)).tolist()

    def ratio(value: Any) -> float:
        """Return the log-ratio of a value; 0 for one that was never seen."""
        if value in common:
            return common[value]
        return ranges[bisect.bisect_right(edges, value)] if edges and _is_number(value) else 0.0

    return ratio, len(edges) > 0


@dataclass(frozen=True, slots=True)
class _Score:
    """Something that grows with the ratio of the two laws, and its values in the runs that a threshold is chosen by."""

    name: str
    score: Callable[[Any], float]
    likely: Floats
    unlikely: Floats


def _feature_scores(name: str, feature: Callable[[Any], Any], *sides: Sequence[Any]) -> Iterator[_Score]:
    """Yield scores of a feature as a whole, and element by element."""
    values = [list(map(feature, side)) for side in sides]
    yield from _value_scores(name, feature, *values)
    if not all(isinstance(value, tuple) for side in values for value in side):
        return
    flat = [[_leaves(value) for value in side] for side in values]
    lengths = [[len(elements) for elements in side] for side in flat]
    shortest, longest = min(map(min, lengths)), max(map(max, lengths))
    if shortest < longest:
        yield from _value_scores(f"the length of {name}", lambda output: len(_leaves(feature(output))), *lengths)
    if shortest < 2:
        return
    columns = [[[elements[place] for elements in side] for place in range(shortest)] for side in flat]
    ratios = [likelihood_ratio(*pair)[0] for pair in zip(*columns[:2], strict=True)]

    def joint_ratio(elements: tuple[Any, ...]) -> float:
        return sum(ratio(element) for ratio, element in zip(ratios, elements, strict=False))

    likely, unlikely = (np.sort([joint_ratio(elements) for elements in side]) for side in flat[2:])
    yield _Score(f"the elements of {name}", lambda output: joint_ratio(_leaves(feature(output))), likely, unlikely)
    for place in range(min(shortest, _ELEMENTS)):
        yield from _value_scores(
            f"element {place} of {name}",
            lambda output, place=place: next(iter(_leaves(feature(output))[place : place + 1]), None),  # type: ignore[misc]
            *(side[place] for side in columns),
        )


def _value_scores(name: str, feature: Callable[[Any], Any], *sides: Sequence[Any]) -> Iterator[_Score]:
    """Yield the score by the ratio of values, and where there are many numbers the two by their size."""
    ratio, has_ranges = likelihood_ratio(*sides[:2])
    scores = [ratio]
    if has_ranges:
        scores += [partial(_size, 1.0), partial(_size, -1.0)]
    for score in scores:
        likely, unlikely = (np.sort([score(value) for value in side]) for side in sides[2:])
        yield _Score(name, lambda output, score=score: score(feature(output)), likely, unlikely)  # type: ignore[misc]


def _leaves(value: Any) -> tuple[Any, ...]:
    """Return what stands in a tuple, and in the tuples in it."""
    if not isinstance(value, tuple):
        return (value,)
    if not any(isinstance(part, tuple) for part in value):
        return value
    return tuple(leaf for part in value for leaf in _leaves(part))


def _size(sign: float, value: Any) -> float:
    return sign * float(value) if _is_number(value) else -math.inf


def _is_number(value: Any) -> bool:
    if isinstance(value, (int, np.integer)):
        return abs(int(value)) < _LARGEST
    return isinstance(value, float) and not math.isnan(value)


def _nearest_event(score: _Score, claim: Callable[[float], float], epsilons: Sequence[float]) -> tuple[float, Event]:
    """Return how near a score comes to refuting a claim, and the event with which it does."""
    # By bounds, as the test does: of events that keep the claim equally well it takes a common one, which says most.
    runs = len(score.likely)
    levels = np.unique(np.concatenate((score.likely, score.unlikely)))
    levels = levels[:: -(-len(levels) // _TRIED)]
    low = lower_bounds(runs - np.searchsorted(score.likely, levels, side="left"), runs, _CHANCE)
    high = 1.0 - lower_bounds(np.searchsorted(score.unlikely, levels, side="left"), runs, _CHANCE)
    best = (-math.inf, 0, 0.0, 1.0)
    for epsilon in epsilons:
        delta = claim(epsilon)
        excess = np.log(np.maximum(low - delta, _TINY) / high) - epsilon
        place = int(excess.argmax())
        best = max(best, (float(excess[place]), place, epsilon, delta))
    nearest, place, epsilon, delta = best
    return nearest, Event(of=score.name, score=score.score, least=float(levels[place]), epsilon=epsilon, delta=delta)
