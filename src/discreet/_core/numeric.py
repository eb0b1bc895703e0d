"""Numerics of exact accounting: log-space probabilities, directed rounding, one-sided root finding."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.lazy import special

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Weights = Integers | Floats
Indices = npt.NDArray[np.intp]
Booleans = npt.NDArray[np.bool_]
Arrays = dict[str, npt.NDArray[Any]]  # by name


def row_numbers(rows: Integers) -> Integers:
    """Return the number of each row among the distinct rows, in ascending order of rows."""
    numbers = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:  # renumbered after each column, so that no product of many columns overflows
        codes = np.unique(column, return_inverse=True)[1]
        numbers = np.unique(numbers * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)[1]
    return numbers


# Which interval a ticket falls in: the exact search in cumulative weights that every sampler here ends with.
#
# A binary search per ticket misses the processor's cache at every step. A table of the answers at multiples of a power
# of two settles most tickets with one look; the rest are searched. Integers throughout, so the answer is the search's.

_FEW = 1 << 12
_MOST_BITS = 15
_CHUNK = 1 << 14  # tickets looked up together: what that takes stays near the processor
_UNSETTLED = -1


def locate(edges: Integers, tickets: Integers, *, below: int) -> Integers:
    """Return ``numpy.searchsorted(edges, tickets, side="right")``, sooner."""
    # edges, shape (j,): cumulative weights, not decreasing, at least 0; tickets, shape (count,): integers in [0,
    # below). Returns, shape (count,): number of the first interval whose edge exceeds the ticket, else j.
    if len(tickets) < _FEW or 4 * len(edges) > len(tickets):
        return np.searchsorted(edges, tickets, side="right").astype(np.int64, copy=False)
    shift = max(0, below.bit_length() - min(_MOST_BITS, len(tickets).bit_length() - 2))
    starts = (below >> shift) + 2
    # How many edges are at most k 2^shift, for each k: those whose quotient, rounded up, is at most k.
    passed = np.bincount(np.minimum(-(-edges >> shift), starts - 1), minlength=starts).cumsum()
    settled = np.where(passed[1:] == passed[:-1], passed[:-1], _UNSETTLED)
    places = np.empty(len(tickets), dtype=np.int64)
    for start in range(0, len(tickets), _CHUNK):
        chunk = tickets[start : start + _CHUNK]
        answers = settled[chunk >> shift]
        searched = np.flatnonzero(answers == _UNSETTLED)
        answers[searched] = np.searchsorted(edges, chunk[searched], side="right")
        places[start : start + _CHUNK] = answers
    return places


# Log-probabilities of the urn and binomial laws.
#
# Differences of log-gamma functions, taken by Stirling's series where the arguments are large, so that the absolute
# error is a few units in the last place of ``s log(a + s)`` for ``s`` draws, however large the mass ``a``; callers
# widen their result by :func:`log_error` so that a probability is never understated.

_LARGE = 16.0  # from here on the series below is exact to the last place


def log_rising(a: float | Floats, s: float | Floats) -> Any:
    """Return ``log((a)_s) = log(Gamma(a + s) / Gamma(a))``, the logarithm of the rising factorial, for ``a > 0``."""
    if np.ndim(a) == 0 and a >= _LARGE:
        return _log_rising_large(a, s)
    gammaln = special.gammaln
    rising = gammaln(a + s) - gammaln(a)
    if np.ndim(a) == 0:
        return rising
    return np.where(np.less(a, _LARGE), rising, _log_rising_large(np.maximum(a, _LARGE), s))


def _log_rising_large(a: float | Floats, s: float | Floats) -> Any:
    return (a - 0.5) * np.log1p(s / a) + s * (np.log(a + s) - 1.0) + (_tail(a + s) - _tail(a))


def _tail(x: Any) -> Any:
    """Return ``log Gamma(x) - ((x - 1/2) log x - x + log(2 pi)/2)`` for ``x >= 16``."""
    y = 1.0 / (x * x)
    return (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / x


def log_binomial(u: float | Floats, s: float | Floats) -> Any:
    """Return ``log(C(u, s))`` for ``0 <= s <= u``."""
    return log_rising(u - s + 1.0, s) - special.gammaln(s + 1.0)


def log_beta_binomial(s: float | Floats, u: float | Floats, a: float, b: float) -> Any:
    """Return ``log(C(u, s) (a)_s (b)_{u-s} / (a + b)_u)``: that ``s`` of ``u`` draws fall in an urn's first part."""
    return log_binomial(u, s) + log_rising(a, s) + log_rising(b, u - s) - log_rising(a + b, u)


def log_error(draws: float, total: float) -> float:
    """Return a bound on the absolute error of the log-probabilities of ``draws`` draws among masses of ``total``."""
    return float(64 * np.finfo(float).eps * (1.0 + draws * (1.0 + math.log(total + draws + 2.0))))


# Numbers compared exactly: a float as the shortest decimal that reads back as it, which is what Python, JSON and TOML
# show, and logarithms of rational numbers. So every comparison with a pure epsilon is made, without a margin.

_DIGITS = Context(prec=120, Emax=10**9, Emin=-(10**9))
_DOUBT = Decimal(1).scaleb(-90)  # relative: far more than the rounding of a logarithm of 120 digits


def written(value: float) -> Fraction:
    """Return the decimal that a float is written as, exactly: 0.1 is one tenth."""
    return Fraction(repr(float(value)))


def not_above(value: float) -> float:
    """Return the float itself, or its lower neighbour where its binary value exceeds the decimal it is written as."""
    return float_at_most(Decimal(repr(value)))


def float_at_most(exact: Fraction | Decimal) -> float:
    """Return the largest float that is at most a number."""
    nearest = float(exact)
    if nearest > exact:
        return math.nextafter(nearest, -math.inf)
    return nearest


def above(value: Fraction) -> float:
    """Return the least float whose written decimal is at least a number: 0.10000000000000002 for 0.1 + 1e-30."""
    try:
        number = float(value)
    except OverflowError:
        return math.inf
    while written(number) < value:
        number = math.nextafter(number, math.inf)
    while written(lower := math.nextafter(number, -math.inf)) >= value:
        number = lower
    return number


def below(value: Fraction) -> float:
    """Return the largest float whose written decimal is at most a number."""
    number = above(value)
    return number if written(number) == value else math.nextafter(number, -math.inf)


@dataclass(frozen=True, slots=True)
class LogRatio:
    """The number ``times * log(ratio)``, ``ratio >= 1``: the largest loss of a mechanism of rational probabilities."""

    ratio: Fraction
    times: int = 1

    def ceiling(self) -> float:
        """Return the least float whose written decimal is not below the number."""
        return _ceiling(self.ratio, self.times)

    def minus(self, epsilon: Fraction) -> float:
        """Return the number less ``epsilon``, rounded up to a float; 0 where ``epsilon`` is not smaller."""
        exact = _logarithm(self.ratio, self.times)
        difference = _DIGITS.subtract(exact, _decimal(epsilon))
        difference = _DIGITS.add(difference, _DIGITS.multiply(exact, _DOUBT))
        return math.nextafter(float(difference), math.inf) if difference > 0 else 0.0


def _decimal(value: Fraction) -> Decimal:
    return _DIGITS.divide(Decimal(value.numerator), Decimal(value.denominator))


@lru_cache(maxsize=4096)
def _logarithm(ratio: Fraction, times: int) -> Decimal:
    return _DIGITS.multiply(_DIGITS.ln(_decimal(ratio)), Decimal(times))


@lru_cache(maxsize=4096)
def _ceiling(ratio: Fraction, times: int) -> float:
    if ratio == 1:
        return 0.0
    exact = _logarithm(ratio, times)
    least = _DIGITS.add(exact, _DIGITS.multiply(exact, _DOUBT))  # irrational: no decimal lies within the doubt
    return above(Fraction(least))


# Rounding and root finding that can only err on the stated side.


def up(value: float, ulps: int = 4) -> float:
    """Round a non-negative number up by a few units in the last place; zero and infinity stay."""
    if value == 0.0 or math.isinf(value):
        return value
    for _ in range(ulps):
        value = math.nextafter(value, math.inf)
    return value


def log_ratio(value: float, target: float) -> float:
    """Return ``log(value / target)`` for ``value >= 0``, ``target > 0``: above 0 exactly where the value is above."""
    size = abs(math.log(value) - math.log(target)) if 0.0 < value < math.inf else max(value, 750.0)
    return math.copysign(max(size, 1e-300), value - target) if value != target else 0.0


def least_integer(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the least integer in ``[low, high]`` where a monotone condition holds, or None."""
    # holds is false up to some point and true from there on. The returned value was itself tested. The search gallops
    # from low, so it costs about twice the logarithm of the distance to the answer.
    step, below = 1, low - 1
    while (candidate := min(below + step, high)) <= high and not holds(candidate):
        if candidate == high:
            return None
        below, step = candidate, 2 * step
    return below + 1 + bisect_left(range(below + 1, candidate), True, key=holds)


def least_value(function: Callable[[float], float], low: float, high: float, steps: int) -> tuple[float, float]:
    """Return the least value seen of a function with one valley, and where: by golden-section search."""

    def seen(place: float) -> tuple[float, float]:
        return function(place), place

    golden = (math.sqrt(5.0) - 1.0) / 2.0
    best, lower, upper = map(seen, (low, high - golden * (high - low), low + golden * (high - low)))
    for _ in range(steps):
        best = min(best, lower, upper)
        if lower <= upper:
            high, upper = upper[1], lower
            lower = seen(high - golden * (high - low))
        else:
            low, lower = lower[1], upper
            upper = seen(low + golden * (high - low))
    return min(best, lower, upper)


def least_real(
    excess: Callable[[float], float], low: float, high: float, *, relative: float = 1e-10, absolute: float = 0.0
) -> float | None:
    """Return a real in ``[low, high]``, within a relative distance of the least, at which an excess is at most 0."""
    # excess is above 0 up to some point and at most 0 from there on; the returned value was itself tried, so it errs
    # upwards only. None where it is above 0 at high. Chandrupatla's method (1997), on the logarithmic scale where low
    # is above 0: about a dozen tries where the excess is smooth, and never many more than bisection takes.
    if (above := excess(low)) <= 0:
        return low
    if not (below := excess(high)) <= 0:
        return None
    into, back = (math.log, math.exp) if low > 0 else (float, float)
    # The newest point, one with the other sign, and the one before: where they are, and what the excess is there.
    (a, at_a), (b, at_b) = (into(low), above), (into(high), below)
    c, at_c, share = a, at_a, 0.5
    while high - low > (allowed := max(relative * high, absolute)):
        point = back(a + share * (b - a))
        if not low < point < high and not low < (point := back(0.5 * (a + b))) < high:
            break
        value = excess(point)
        if value <= 0:
            high = point
        else:
            low = point
        if (value <= 0) == (at_a <= 0):
            c, at_c = a, at_a
        else:
            (c, at_c), (b, at_b) = (b, at_b), (a, at_a)
        a, at_a = into(point), value
        share = _interpolated((a, b, c), (at_a, at_b, at_c))
        least = 0.5 * allowed / (high - low)
        share = min(1.0 - least, max(least, share)) if least < 0.5 else 0.5
    return high


def _interpolated(points: tuple[float, float, float], values: tuple[float, float, float]) -> float:
    """Return how far from the first to the second of three points their inverse parabola is 0; half where it is bad."""
    (a, b, c), (f, g, h) = points, values
    if not (math.isfinite(f) and math.isfinite(g) and math.isfinite(h)) or h in (f, g):
        return 0.5
    place, value = (a - b) / (c - b), (f - g) / (h - g)
    if not (value * value < place and (1.0 - value) ** 2 < 1.0 - place):
        return 0.5
    return f / (g - f) * h / (g - h) + (c - a) / (b - a) * f / (h - f) * g / (h - g)


def isotonic(values: Floats, weights: Floats) -> Floats:
    r"""Return a non-decreasing ``G`` that minimises :math:`\sum_i w_i |G_i - F_i|`, with weights of at least 0."""
    # Shapes (.., k) and (k,). Whether G reaches a threshold is a regression of 0 and 1, solved by the least prefix sum
    # of signed weights; and the solutions of growing thresholds can be taken nested. So the rank of each value of G is
    # found bit by bit, for all points of all rows at once: the points of a row that agree so far are neighbours.
    k = values.shape[-1]
    if not values.size:
        return values
    order = np.argsort(values, axis=-1, kind="stable")
    rank = np.empty(values.shape, np.int64)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(k), values.shape), axis=-1)
    flat, heights = rank.ravel(), np.broadcast_to(weights, values.shape).ravel()
    starts = np.arange(0, values.size, k)
    least = np.zeros(len(starts), np.int64)
    step = 1 << max(0, (k - 1).bit_length() - 1)
    while step:
        lengths = np.diff(starts, append=values.size)
        sums = np.cumsum(np.where(flat >= np.repeat(least + step, lengths), heights, -heights))
        initial = np.concatenate(([0.0], sums[starts[1:] - 1]))
        lowest = np.minimum.reduceat(sums, starts)
        places = np.flatnonzero(sums == np.repeat(lowest, lengths))
        cut = np.where(lowest < initial, places[np.searchsorted(places, starts)] + 1, starts)
        pairs = np.stack((starts, cut), axis=1).ravel()
        wide = np.stack((cut, starts + lengths), axis=1).ravel() > pairs
        starts = pairs[wide]
        least = np.stack((least, least + step), axis=1).ravel()[wide]
        step >>= 1
    ranks = np.minimum(np.repeat(least, np.diff(starts, append=values.size)), k - 1).reshape(values.shape)
    return np.asarray(np.take_along_axis(np.take_along_axis(values, order, axis=-1), ranks, axis=-1))


_STEPS, _CLOSE, _DEPENDENT = 50, 1e-9, 1e-14


def solved(gram: Floats, right: Floats) -> Floats:
    """Return the solution of normal equations. Raises LinAlgError where they hardly determine it."""
    if not np.isfinite(gram).all() or np.linalg.cond(gram) > 1.0 / _DEPENDENT:
        raise np.linalg.LinAlgError
    return np.asarray(np.linalg.solve(gram, right), dtype=np.float64)


def logistic_coefficients(x: Floats, y: Floats, weights: Floats, ridge: float | Floats = 0.0) -> Floats:
    """Return logistic coefficients by Newton's method with halved steps; NaN where there is no finite optimum."""

    def loss(beta: Floats) -> float:
        line = x @ beta
        return float(weights @ (np.logaddexp(0.0, line) - y * line) + 0.5 * (ridge * beta) @ beta)

    beta, penalty = np.zeros(x.shape[1]), np.diag(np.broadcast_to(ridge, x.shape[1]))
    for _ in range(_STEPS):
        mean, least = 1.0 / (1.0 + np.exp(-np.clip(x @ beta, -500.0, 500.0))), loss(beta)
        slope = x.T @ (weights * (y - mean)) - ridge * beta
        step = solved((x.T * (weights * mean * (1.0 - mean))) @ x + penalty, slope)
        while loss(beta + step) > least + _CLOSE * abs(least) and np.abs(step).max() > _CLOSE:
            step = step / 2
        beta = beta + step
        if np.abs(step).max() <= _CLOSE * (1.0 + np.abs(beta).max()):
            return beta
    return np.full(x.shape[1], np.nan)


# Generalised factorial coefficients, which count how draws of a Pitman-Yor process fall into new values: how they are
# computed, and with which error, is in docs/theory/posterior-from-a-release.md, "The coefficients".

_NEAR = 64  # n - j up to which the power series is summed
_REACH, _POINTS = 6.0, 320
_ROWS = 4096


def log_factorial_coefficient(n: int, j: npt.ArrayLike, discount: float, noncentral: npt.ArrayLike = 0.0) -> Floats:
    r"""Return :math:`\log\bigl(\mathscr C(n,j;\sigma,\gamma)/\sigma^j\bigr)`; its limit where the discount is 0."""
    # n: up to 1e7 or so; j: from 0 to n; discount: sigma, in [0, 1); noncentral: gamma, at most 0, broadcast against j.
    blocks, gamma = np.broadcast_arrays(np.asarray(j, dtype=np.float64), np.asarray(noncentral, dtype=np.float64))
    shape, blocks, gamma = blocks.shape, blocks.ravel(), gamma.ravel()
    out = np.full(blocks.shape, -np.inf)
    small = (n - blocks <= _NEAR) & (blocks <= n)
    if small.any():
        out[small] = _series(n, blocks[small], discount, gamma[small])
    empty = ~small & (blocks == 0) & (gamma < 0.0)
    out[empty] = log_rising(-gamma[empty], float(n))
    large = np.flatnonzero(~small & (blocks >= 1) & (blocks <= n))
    for start in range(0, len(large), _ROWS):
        rows = large[start : start + _ROWS]
        out[rows] = _saddle(n, blocks[rows], discount, gamma[rows])
    return out.reshape(shape)


def _series(n: int, j: Floats, sigma: float, gamma: Floats) -> Floats:
    """Return the coefficient of ``t^(n-j)`` in ``(1-t)^gamma (g/t)^j`` as the exponential of a power series."""
    steps = np.arange(1.0, _NEAR + 1.0)
    ratio = np.cumprod((steps - sigma) / (steps + 1.0))  # g(1-t)/t = sum ratio_i t^i
    logs = np.zeros(_NEAR + 1)
    for i in range(1, _NEAR + 1):  # the logarithm of a series, from a' = a (log a)'
        logs[i] = ratio[i - 1] - sum(q * logs[q] * ratio[i - q - 1] for q in range(1, i)) / i
    # Scaled by r^i, so that nothing overflows: |gamma|^i / i! is the largest term.
    scale = 1.0 / np.maximum(1.0, j - gamma)
    powers = np.cumprod(np.broadcast_to(scale[:, None], (len(j), _NEAR)), axis=1)
    terms = (-gamma[:, None] + j[:, None] * steps * logs[1:]) * powers
    out = np.zeros((len(j), _NEAR + 1))
    out[:, 0] = 1.0
    for i in range(1, _NEAR + 1):
        out[:, i] = (terms[:, :i] * out[:, i - 1 :: -1][:, :i]).sum(axis=1) / i
    place = (n - j).astype(np.int64)
    with np.errstate(divide="ignore"):
        coefficient = np.log(out[np.arange(len(j)), place])
    return np.asarray(coefficient - place * np.log(scale) + special.gammaln(n + 1.0) - special.gammaln(j + 1.0))


def _saddle(n: int, j: Floats, sigma: float, gamma: Floats) -> Floats:
    """Integrate along the parabola through the saddle point; ``x`` is the logit of ``u_0``."""

    def slope(x: Floats) -> Floats:
        """Return ``u`` times the derivative of ``gamma log u + j log g - (n + 1) log(1 - u)``; it increases."""
        log_u = -np.logaddexp(0.0, -x)
        drift = -np.exp(sigma * log_u) * sigma / -np.expm1(sigma * log_u) if sigma > 0.0 else 1.0 / log_u
        return np.asarray(gamma + j * drift + (n + 1.0) * np.exp(x))

    low, high = np.full(j.shape, -690.0), np.full(j.shape, 40.0)
    for _ in range(80):
        middle = (low + high) / 2
        above = slope(middle) > 0.0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    x = (low + high) / 2
    log_u, log_rest = -np.logaddexp(0.0, -x), -np.logaddexp(0.0, x)
    bend = (slope(x + 1e-4) - slope(x - 1e-4)) / 2e-4 / np.exp(log_rest)
    width = (0.5 / np.sqrt(bend))[:, None]
    y = np.arange(_POINTS) * (_REACH / _POINTS)
    v = width * np.sinh(y)
    step = width * np.cosh(y) * (_REACH / _POINTS)
    step[:, 0] /= 2.0
    half = np.log1p(1j * v)
    turn = 2.0 * half  # log(u / u_0)
    log_share = np.log1p(-np.exp(x)[:, None] * (2j * v - v * v))  # log((1 - u) / (1 - u_0))
    if sigma > 0.0:
        power = np.exp(sigma * log_u)
        grown = np.log1p(-(power / -np.expm1(sigma * log_u))[:, None] * np.expm1(sigma * turn))
        at_saddle = np.log(-np.expm1(sigma * log_u) / sigma)
    else:
        grown = np.log1p(turn / log_u[:, None])
        at_saddle = np.log(-log_u)
    exponent = -(n + 1.0) * log_share + gamma[:, None] * turn + j[:, None] * grown + half
    integral = (2.0 / np.pi) * (np.exp(exponent).real * step).sum(axis=1)
    peak = -(n + 1.0) * log_rest + gamma * log_u + j * at_saddle + log_u
    return np.asarray(peak + np.log(integral) + special.gammaln(n + 1.0) - special.gammaln(j + 1.0))
