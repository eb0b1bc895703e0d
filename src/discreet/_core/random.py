"""The only maker of random generators.

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
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Integers
from discreet._core.checks import integer
from discreet._core.errors import RandomnessError


class SecureGenerator(np.random.Generator):
    """A generator that works in the process that made it, and nowhere else.

    A forked child would repeat the parent's stream, and a pickled copy would replay it: two releases with common
    randomness are not covered by any theorem here. Both raise :class:`~discreet.errors.RandomnessError`. What was taken
    out of the generator before a fork (a method, the bit generator) draws from a new key in the child.
    """

    _process: int

    def __init__(self) -> None:
        object.__setattr__(self, "_process", os.getpid())
        super().__init__(_keyed_generator()())

    def __getattribute__(self, name: str) -> Any:
        if object.__getattribute__(self, "_process") != os.getpid():
            raise RandomnessError("a secure generator was made in another process. Call secure() in this one")
        return super().__getattribute__(name)

    def __reduce__(self) -> Any:
        raise RandomnessError("a secure generator cannot be pickled or copied. Call secure() where it is needed")


_alive: weakref.WeakSet[Any] = weakref.WeakSet()
"""The bit generators of all secure generators, and of what was taken out of them."""


@functools.cache
def _keyed_generator() -> type[Any]:
    """Return the class of ChaCha20 bit generators that get a new key in a forked child; it loads randomgen."""
    from randomgen import ChaCha

    class SecureChaCha(ChaCha):  # type: ignore[misc,unused-ignore]
        state: Any

        def __init__(self) -> None:
            super().__init__(key=secrets.randbits(256), rounds=20)
            _alive.add(self)

        def __reduce__(self) -> Any:
            raise RandomnessError("a secure generator cannot be pickled or copied. Call secure() where it is needed")

        def renew(self) -> None:
            self.state = SecureChaCha().state

    return SecureChaCha


def _renew_all() -> None:
    for generator in list(_alive):
        generator.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


class SeededGenerator(np.random.Generator):
    """A reproducible generator; a release that used one is never for publication."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self.seed = seed


def secure() -> SecureGenerator:
    """Return a fresh ChaCha20 generator (20 rounds) keyed with 256 bits of operating-system entropy."""
    return SecureGenerator()


def fresh_identity() -> str:
    """Return 128 bits of operating-system entropy as 32 hexadecimal digits: a name that nothing else has.

    It depends on no data and on no generator.
    """
    return secrets.token_hex(16)


def seeded(seed: int) -> SeededGenerator:
    """Return a reproducible generator for tests and studies.

    ``seed``: any non-negative integer.

    Examples
    --------
    >>> int(seeded(1).integers(10)) == int(seeded(1).integers(10))
    True
    """
    return SeededGenerator(integer("seed", seed, least=0, error=RandomnessError))


def public(generator: np.random.Generator) -> np.random.Generator:
    """Return a fast generator for public post-processing, keyed by 128 bits of ``generator``.

    What it decides (the place of a record within its cell, the order of records) may be known to everybody without any
    loss of privacy; it only has to be independent of the private step, which used other output of ``generator``.
    """
    return np.random.Generator(np.random.SFC64(generator.integers(0, 2**32, size=4, dtype=np.uint32).tolist()))


Key = tuple[int, int]
"""128 bits."""


def public_key(generator: np.random.Generator) -> Key:
    """Return 128 bits of a generator for public post-processing: the key of what follows by position."""
    first, second = generator.integers(0, 2**64, size=2, dtype=np.uint64).tolist()
    return first, second


def keyed(key: Key, stream: int) -> np.random.Generator:
    """Return stream number ``stream`` of a key, for public post-processing: the same each time, in any process.

    The streams of Philox, a counter-based generator, are 2^192 blocks apart.
    """
    return np.random.Generator(np.random.Philox(key=np.array(key, np.uint64), counter=[0, 0, 0, stream]))


# A permutation of 0 .. size-1 from a key, computed at any place by itself: a Feistel network with cycle walking.
#
# A place below ``high * low`` is a pair of numbers, one below ``high``, one below ``low``. Each round adds to one of
# them, modulo its range, a number that a table holds for the other one. A round can be undone, whatever the table, so
# all rounds together are a permutation of the pairs. A pair beyond the last place is sent on until it is one of the
# places: on a cycle that begins at a place it comes to one. The tables, of about ``sqrt(size)`` numbers, are drawn from
# the key.

ROUNDS = 8


@dataclass(frozen=True, eq=False)
class Permutation:
    """A permutation of ``size`` places.

    ``high``, ``low``: ranges of the two numbers that a place consists of.
    ``tables``: of the rounds: even ones change the first number, odd ones the second.
    """

    size: int
    high: int
    low: int
    tables: tuple[Integers, ...]

    @classmethod
    def keyed(cls, size: int, key: Key) -> Permutation:
        """Return the permutation of a key; stream 0 of the key is used up."""
        high = math.isqrt(max(size, 1) - 1) + 1
        low = -(-max(size, 1) // high)
        rng = keyed(key, 0)
        ranges = [(high, low), (low, high)]
        return cls(size, high, low, tuple(rng.integers(0, a, size=b) for a, b in ranges * (ROUNDS // 2)))

    def at(self, places: Integers) -> Integers:
        """Return where places go."""
        found = self._sent(places)
        while len(beyond := np.flatnonzero(found >= self.size)):
            found[beyond] = self._sent(found[beyond])
        return found

    def _sent(self, places: Integers) -> Integers:
        first, second = np.divmod(places, self.low)
        for number, table in enumerate(self.tables):
            if number % 2 == 0:
                first += table[second]
                first -= self.high * (first >= self.high)
            else:
                second += table[first]
                second -= self.low * (second >= self.low)
        return np.asarray(first * self.low + second)
