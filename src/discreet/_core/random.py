"""The only maker of random generators, and exact draws with integers from them.

``secure()`` is what every publishable release uses: ChaCha20 keyed with 256 fresh bits from the operating system, one
key per release, handed to ``numpy.random.Generator`` without passing through ``SeedSequence`` (whose hashing is not
meant for keys). ``seeded()`` is for tests and studies: whatever it feeds is marked "seeded: not for publication".
"""

from __future__ import annotations

import functools
import math
import os
import secrets
import weakref
from typing import Any

import numpy as np

from discreet._core.errors import RandomnessError, integer
from discreet._core.numeric import Floats, Integers


def _refuse_copy(_: object) -> Any:
    raise RandomnessError("a secure generator cannot be pickled or copied. Call secure() where it is needed")


class SecureGenerator(np.random.Generator):
    """A generator that works in the process that made it, and nowhere else: no theorem covers common randomness."""

    # A forked child would repeat the parent's stream, and a pickled copy would replay it: both raise RandomnessError.
    # What was taken out before a fork (a method, the bit generator) draws from a new key in the child.

    _process: int

    def __init__(self) -> None:
        object.__setattr__(self, "_process", os.getpid())
        super().__init__(_keyed_generator()())

    def __getattribute__(self, name: str) -> Any:
        if object.__getattribute__(self, "_process") != os.getpid():
            raise RandomnessError("a secure generator was made in another process. Call secure() in this one")
        return super().__getattribute__(name)

    __reduce__ = _refuse_copy


@functools.cache
def _keyed_generator() -> type[Any]:
    """Return the class of ChaCha20 bit generators that get a new key in a forked child; it loads randomgen."""
    from randomgen import ChaCha

    alive: weakref.WeakSet[Any] = weakref.WeakSet()  # also what was taken out of a secure generator

    class SecureChaCha(ChaCha):  # type: ignore[misc,unused-ignore]
        state: Any

        def __init__(self) -> None:
            super().__init__(key=secrets.randbits(256), rounds=20)
            alive.add(self)

        __reduce__ = _refuse_copy

    def renew_all() -> None:
        for generator in list(alive):
            generator.state = SecureChaCha().state

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=renew_all)
    return SecureChaCha


class SeededGenerator(np.random.Generator):
    """A reproducible generator; a release that used one is never for publication."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self.seed = seed


class ApproximateGenerator(SeededGenerator):
    """With it, noise is drawn in floating point, for forecasts; it meets no confidential table."""


def secure() -> SecureGenerator:
    """Return a fresh ChaCha20 generator (20 rounds) keyed with 256 bits of operating-system entropy."""
    return SecureGenerator()


def fresh_identity() -> str:
    """Return 128 bits of operating-system entropy, and of no generator, as 32 hexadecimal digits: a unique name."""
    return secrets.token_hex(16)


def seeded(seed: int) -> SeededGenerator:
    """Return a reproducible generator for tests and studies, by any integer that is not negative."""
    return SeededGenerator(integer("seed", seed, least=0, error=RandomnessError))


def public(generator: np.random.Generator) -> np.random.Generator:
    """Return a fast generator for public post-processing, keyed by 128 bits of ``generator``."""
    # What it decides (the place of a record within its cell, the order of records) may be known to everybody without
    # any loss of privacy; it only has to be independent of the private step, which used other output of generator. In a
    # forecast, where nothing is private, it is the generator itself.
    if isinstance(generator, ApproximateGenerator):
        return generator
    return np.random.Generator(np.random.SFC64(generator.integers(0, 2**32, size=4, dtype=np.uint32).tolist()))


Key = tuple[int, int]
"""128 bits."""


def public_key(generator: np.random.Generator) -> Key:
    """Return 128 bits of a generator for public post-processing, for :func:`keyed`."""
    low, high = generator.integers(0, 2**64, size=2, dtype=np.uint64).tolist()
    return low, high


def keyed(key: Key, stream: int) -> np.random.Generator:
    """Return stream number ``stream`` of a key, for public post-processing: the same each time, in any process."""
    # The streams of Philox, a counter-based generator, are 2^192 blocks apart.
    return np.random.Generator(np.random.Philox(key=np.array(key, np.uint64), counter=[0, 0, 0, stream]))


# An exact draw from floating-point log-weights, however far apart: docs/theory/exponential-histogram.md, "Sampling".

_BITS = 36


def rounding(spread: float) -> float:
    """Return a bound on how far a drawn log-weight is from the one given, in nats, by the spread of the given ones."""
    # Half a unit of 2^36 at least, and the relative error of the spread's subtraction and division by log 2.
    return 2.0**-_BITS + 2.0**-50 * spread


def integer_weights(log_weights: Floats) -> tuple[Integers, Integers]:
    """Return integers of 37 bits and powers of two, ``w = mantissa 2^octave``, proportional to ``exp(log_weights)``."""
    bits = (log_weights - log_weights.max()) / math.log(2.0)
    octave = np.floor(bits)
    return np.rint(np.exp2(bits - octave + _BITS)).astype(np.int64), octave.astype(np.int64)


def draw_weighted(log_weights: Floats, *, rng: np.random.Generator) -> int:
    """Draw an index with probability proportional to ``exp(log_weights)``, each within :func:`rounding` of its own."""
    # log_weights, shape (count,): finite, at most 2^23 of them.
    mantissa, octave = integer_weights(log_weights)
    order = np.argsort(-octave, kind="stable")
    starts = np.flatnonzero(np.diff(octave[order], prepend=1))
    levels, sums = octave[order[starts]], np.add.reduceat(mantissa[order], starts)
    # At least the total, in units of the top level; a ticket beyond the total is drawn again.
    bound = math.ceil(np.ldexp(sums.astype(np.float64), levels).sum() * (1.0 + 1e-9)) + 1
    while True:
        ticket, reached, level = int(rng.integers(0, bound)), 0, 0
        for i, (weight, below) in enumerate(zip(sums.tolist(), levels.tolist(), strict=True)):
            bits = level - below
            more = int.from_bytes(rng.bytes(-(-bits // 8)), "little") >> (-bits % 8)
            ticket, reached, level = (ticket << bits) + more, (reached << bits) + weight, below
            if ticket < reached:
                members = order[starts[i] : starts[i + 1] if i + 1 < len(starts) else None]
                inside = ticket - (reached - weight)
                return int(members[np.searchsorted(np.cumsum(mantissa[members]), inside, side="right")])
