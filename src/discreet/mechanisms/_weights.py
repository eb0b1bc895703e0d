"""An exact draw from floating-point log-weights, however far apart: integer weights, and integers from the generator.

A log-weight becomes an integer of 37 bits times a power of two. A ticket is compared with the weights from the largest
power of two downwards and gets more random bits only when a smaller power needs them, so that a weight of ``e^-100000``
is drawn with its own probability and not with probability zero.
"""

from __future__ import annotations

import math

import numpy as np

from discreet._core.arrays import Floats, Integers

_BITS = 36


def rounding(spread: float) -> float:
    """Return a bound on how far a drawn log-weight is from the one given, in nats.

    ``spread``: Difference of the largest and the least log-weight, at least 0.

    Notes
    -----
    Half a unit of ``2^36`` at least, and the relative error of the spread's subtraction and division by ``log 2``.
    """
    return 2.0**-_BITS + 2.0**-50 * spread


def integer_weights(log_weights: Floats) -> tuple[Integers, Integers]:
    """Return integers of 37 bits and powers of two, ``w = mantissa 2^octave``, proportional to ``exp(log_weights)``."""
    bits = (log_weights - log_weights.max()) / math.log(2.0)
    octave = np.floor(bits)
    return np.rint(np.exp2(bits - octave + _BITS)).astype(np.int64), octave.astype(np.int64)


def draw_weighted(log_weights: Floats, *, rng: np.random.Generator) -> int:
    """Draw an index with probability proportional to ``exp(log_weights)``, each within :func:`rounding` of the given.

    ``log_weights``, shape (count,): finite, at most 2^23 of them.
    ``rng``: source of uniform integers.
    """
    mantissa, octave = integer_weights(log_weights)
    order = np.argsort(-octave, kind="stable")
    starts = np.flatnonzero(np.diff(octave[order], prepend=1))
    levels = octave[order[starts]]
    sums = np.add.reduceat(mantissa[order], starts)
    # At least the total, in units of the top level; a ticket beyond the total is drawn again.
    bound = math.ceil(np.ldexp(sums.astype(np.float64), levels).sum() * (1.0 + 1e-9)) + 1
    while True:
        ticket, reached, level = int(rng.integers(0, bound)), 0, 0
        for i, (weight, below) in enumerate(zip(sums.tolist(), levels.tolist(), strict=True)):
            ticket = (ticket << (level - below)) + _random_bits(level - below, rng)
            reached, level = (reached << (level - below)) + weight, below
            if ticket < reached:
                members = order[starts[i] : starts[i + 1] if i + 1 < len(starts) else None]
                inside = ticket - (reached - weight)
                return int(members[np.searchsorted(np.cumsum(mantissa[members]), inside, side="right")])


def _random_bits(count: int, rng: np.random.Generator) -> int:
    return int.from_bytes(rng.bytes(-(-count // 8)), "little") >> (-count % 8)
