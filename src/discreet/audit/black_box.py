"""Whether samples from two neighbouring tables agree with a claim: a test of anything that can be run.

It knows no theorem and no law. On some runs it looks for the event that tells the two tables apart best, on others it
counts how often that event occurs, and compares exact bounds on the two probabilities with the claim.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import integer, real
from discreet.audit.guesses import POWER, clopper_pearson

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
        return sum(self.score(one) >= self.least for one in outputs)


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
        return _refutes(self.likely, self.unlikely, self.runs, self.event, self.error)

    @property
    def power(self) -> float:
        """The probability that this test refutes the claim for what was sampled here, of this event.

        It is a lower bound: both probabilities of the event are taken from where they are with 99 % confidence each.
        """
        low = clopper_pearson(self.likely, self.runs, confidence=2.0 * _SURE - 1.0).lower
        high = clopper_pearson(self.unlikely, self.runs, confidence=2.0 * _SURE - 1.0).upper
        return max(
            (_surely_refuted(low, high, *limits) for limits in _limits(high, self.runs, self.event, self.error)),
            default=0.0,
        )

    @property
    def detectable(self) -> float | None:
        """The least epsilon that would have been caught with power :data:`~discreet.audit.guesses.POWER`.

        It is that of a sampler under which the event is as likely as here on the one table, and on the other, but for
        delta, ``e^epsilon`` times as rare. How likely is known but for 1 % on each side: the worst of it is taken.
        Rounded up to one part in 100; None where no epsilon would have been caught, as the event is too rare.
        """
        found = clopper_pearson(self.likely, self.runs, confidence=2.0 * _SURE - 1.0)
        each = [_least_caught(likely, self.runs, self.event, self.error) for likely in (found.lower, found.upper)]
        return None if None in each else max(one for one in each if one is not None)

    @property
    def epsilon(self) -> float:
        """A lower bound on epsilon at the event's delta: above the true one with probability ``error`` at most."""
        low = clopper_pearson(self.likely, self.runs, confidence=1.0 - self.error / 2.0).lower
        high = clopper_pearson(self.unlikely, self.runs, confidence=1.0 - self.error / 2.0).upper
        return max(0.0, math.log((low - self.event.delta) / high)) if low > self.event.delta else 0.0


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
    """Test whether two samplers agree with a claim, with either of the two tables as the likely one.

    The probability that either finding is a false alarm is at most ``error``.

    Examples
    --------
    >>> from discreet._core.random import seeded
    >>> coin = lambda rng, runs: (rng.random(runs) < 0.5).tolist()
    >>> biased = lambda rng, runs: (rng.random(runs) < 0.75).tolist()
    >>> found = compared(biased, coin, lambda epsilon: 0.0 if epsilon >= 0.5 else 1.0, rng=seeded(1))
    >>> [one.caught for one in found]  # the odds of false are 2, and 2 > e^0.5
    [False, True]
    """
    runs = integer("runs", runs, least=100, most=10**8)
    error = real("error", error, above=0, below=1)
    train, choose, test = [(first(rng, runs), second(rng, runs)) for _ in range(3)]
    looked_at = features or {"the output": lambda one: one}
    found = []
    for x, y in ((0, 1), (1, 0)):
        sides = (train[x], train[y], choose[x], choose[y])
        scores = (score for name, of in looked_at.items() for score in _scores(name, of, *sides))
        event = max((_event(score, claim, epsilons) for score in scores), key=lambda pair: pair[0])[1]
        likely, unlikely = event.seen(test[x]), event.seen(test[y])
        found.append(Finding(event=event, likely=likely, unlikely=unlikely, runs=runs, error=error))
    return found[0], found[1]


# -- the test ---------------------------------------------------------------------------------------------------------


def _refutes(likely: int, unlikely: int, runs: int, event: Event, error: float) -> bool:
    """Return whether exact bounds on both probabilities, each with a quarter of the error, contradict the claim."""
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


def _limits(rare: float, runs: int, event: Event, error: float) -> list[tuple[int, int, int]]:
    """Return pairs of counts that refute: at most so many of the unlikely table, at least so many of the likely one."""
    from scipy.special import bdtr, bdtrik

    found = []
    for share in _SHARES:
        never = bdtr(0.0, runs, rare) >= share  # where bdtrik is not a number
        most = 0 if never else min(runs, math.ceil(bdtrik(share, runs, rare)))
        least = _fewest(most, runs, event, error)
        if least is not None:
            found.append((most, least, runs))
    return found


def _surely_refuted(likely: float, unlikely: float, most: int, least: int, runs: int) -> float:
    """Return the probability that both counts are within their limits."""
    from scipy.special import bdtr, bdtrc

    return float(bdtr(most, runs, unlikely) * bdtrc(least - 1.0, runs, likely))


def _least_caught(likely: float, runs: int, event: Event, error: float) -> float | None:
    """Return the least epsilon caught by an event that is so likely on the one table: see :class:`Finding`."""

    def caught(hundredths: int) -> bool:
        rare = (likely - event.delta) * math.exp(-hundredths / 100.0)
        return any(_surely_refuted(likely, rare, *one) >= POWER for one in _limits(rare, runs, event, error))

    if likely <= event.delta or not caught(most := round(100.0 * _FURTHEST)):
        return None
    below = math.ceil(100.0 * event.epsilon) - 1
    while most - below > 1:
        middle = (below + most) // 2
        below, most = (below, middle) if caught(middle) else (middle, most)
    return most / 100.0


# -- the choice of an event -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratio:
    """Log-ratios of two laws, estimated: of a value where it is common, of the range that it is in where it is not."""

    known: dict[Hashable, float]
    edges: list[float]
    ranges: list[float]

    @classmethod
    def of(cls, likely: Sequence[Any], unlikely: Sequence[Any]) -> _Ratio:
        """Estimate the ratios."""
        one, other = Counter(likely), Counter(unlikely)
        common = {v for v in one.keys() | other.keys() if not _is_number(v) or one[v] + other[v] >= _COMMON}
        known = {v: math.log(one[v] + _PRIOR) - math.log(other[v] + _PRIOR) for v in common}
        rare = [np.array([v for v in side if v not in common], dtype=np.float64) for side in (likely, unlikely)]
        pooled = np.concatenate(rare)
        if len(pooled) == 0:
            return cls(known=known, edges=[], ranges=[0.0])
        cuts = np.linspace(0.0, 1.0, max(2, min(_RANGES, len(pooled) // 20)) + 1)[1:-1]
        edges = np.unique(np.quantile(pooled, cuts, method="lower"))
        counts = [np.bincount(np.searchsorted(edges, side, side="right"), minlength=len(edges) + 1) for side in rare]
        ranges = np.log(counts[0] + _PRIOR) - np.log(counts[1] + _PRIOR)
        return cls(known=known, edges=edges.tolist(), ranges=ranges.tolist())

    def __call__(self, value: Any) -> float:
        found = self.known.get(value)
        if found is not None:
            return found
        return self.ranges[bisect.bisect_right(self.edges, value)] if self.edges and _is_number(value) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Score:
    """Something that grows with the ratio of the two laws, and its values in the runs that a threshold is chosen by."""

    name: str
    score: Callable[[Any], float]
    likely: Floats
    unlikely: Floats


def _scores(name: str, of: Callable[[Any], Any], *sides: Sequence[Any]) -> Iterator[_Score]:
    """Yield scores of a feature as a whole, and element by element."""
    values = [list(map(of, side)) for side in sides]
    yield from _of_values(name, of, *values)
    if not all(isinstance(one, tuple) for side in values for one in side):
        return
    flat = [[_elements(one) for one in side] for side in values]
    lengths = {len(one) for side in flat for one in side}
    if len(lengths) > 1:
        long = [[len(one) for one in side] for side in flat]
        yield from _of_values(f"the length of {name}", lambda one: len(_elements(of(one))), *long)
    if (shortest := min(lengths)) < 2:
        return
    columns = [[[one[place] for one in side] for place in range(shortest)] for side in flat]
    ratios = [_Ratio.of(*pair) for pair in zip(*columns[:2], strict=True)]

    def together(one: tuple[Any, ...]) -> float:
        return sum(ratio(value) for ratio, value in zip(ratios, one, strict=False))

    chosen = [np.sort([together(one) for one in side]) for side in flat[2:]]
    yield _Score(name=f"the elements of {name}", score=lambda one: together(_elements(of(one))),
                 likely=chosen[0], unlikely=chosen[1])  # fmt: skip
    for place in range(min(shortest, _ELEMENTS)):
        yield from _of_values(f"element {place} of {name}", _Element(of, place), *(side[place] for side in columns))


def _of_values(name: str, of: Callable[[Any], Any], *sides: Sequence[Any]) -> Iterator[_Score]:
    """Yield the score by the ratio of values, and where there are many numbers the two by their size."""
    ratio = _Ratio.of(*sides[:2])
    readings: list[Callable[[Any], float]] = [ratio]
    if ratio.edges:
        readings += [lambda value: _size(value, 1.0), lambda value: _size(value, -1.0)]
    for reading in readings:
        likely, unlikely = (np.sort([reading(value) for value in side]) for side in sides[2:])
        yield _Score(name=name, score=_Reading(of, reading), likely=likely, unlikely=unlikely)


@dataclass(frozen=True, slots=True)
class _Reading:
    of: Callable[[Any], Any]
    reading: Callable[[Any], float]

    def __call__(self, one: Any) -> float:
        return self.reading(self.of(one))


@dataclass(frozen=True, slots=True)
class _Element:
    of: Callable[[Any], Any]
    place: int

    def __call__(self, one: Any) -> Any:
        found = _elements(self.of(one))
        return found[self.place] if len(found) > self.place else None


def _elements(value: Any) -> tuple[Any, ...]:
    """Return what stands in a tuple, and in the tuples in it."""
    if not isinstance(value, tuple):
        return (value,)
    if not any(isinstance(part, tuple) for part in value):
        return value
    return tuple(leaf for part in value for leaf in _elements(part))


def _size(value: Any, sign: float) -> float:
    return sign * float(value) if _is_number(value) else -math.inf


def _is_number(value: Any) -> bool:
    if isinstance(value, (int, np.integer)):
        return abs(int(value)) < _LARGEST
    return isinstance(value, float) and not math.isnan(value)


def _event(found: _Score, claim: Callable[[float], float], epsilons: Sequence[float]) -> tuple[float, Event]:
    """Return the threshold and the epsilon at which a score comes nearest to refuting a claim, and how near.

    By bounds, as the test does: of events that keep the claim equally well it takes a common one, which says most.
    """
    runs = len(found.likely)
    levels = np.unique(np.concatenate((found.likely, found.unlikely)))
    levels = levels[:: -(-len(levels) // _TRIED)]
    low = _lower(_counts(found.likely, levels), runs)
    high = 1.0 - _lower(runs - _counts(found.unlikely, levels), runs)
    best = (-math.inf, 0, 0.0, 1.0)
    for epsilon in epsilons:
        delta = claim(epsilon)
        near = np.log(np.maximum(low - delta, _TINY) / high) - epsilon
        place = int(near.argmax())
        best = max(best, (float(near[place]), place, epsilon, delta))
    nearest, place, epsilon, delta = best
    return nearest, Event(of=found.name, score=found.score, least=float(levels[place]), epsilon=epsilon, delta=delta)


def _counts(scores: Floats, levels: Floats) -> Floats:
    """Return how many of sorted scores are at least each level."""
    found: Floats = len(scores) - np.searchsorted(scores, levels, side="left").astype(np.float64)
    return found


def _lower(events: Floats, runs: int) -> Floats:
    """Return lower bounds on probabilities, a little below those of the test itself."""
    from scipy.special import betaincinv

    found: Floats = np.where(events > 0, betaincinv(np.maximum(events, 1.0), runs - events + 1.0, _CHANCE), 0.0)
    return found
