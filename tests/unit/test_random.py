"""Secure generators stay in their process and are never copied; seeded ones repeat."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from discreet._core.random import ApproximateGenerator, SecureGenerator, public, secure, seeded
from discreet.errors import RandomnessError
from discreet.mechanisms.noise import DiscreteLaplace
from discreet.testing import assert_law
from discreet.testing.contract import sample_size_for_distance


def test_seeds_repeat_and_differ() -> None:
    assert seeded(5).integers(0, 2**62, size=8).tolist() == seeded(5).integers(0, 2**62, size=8).tolist()
    assert seeded(5).integers(0, 2**62, size=8).tolist() != seeded(6).integers(0, 2**62, size=8).tolist()
    assert seeded(5).seed == 5


@pytest.mark.parametrize("seed", [-1, 1.5, True, None, "7", np.int64(-3), np.float64(3)])
def test_odd_seeds_are_refused(seed: object) -> None:
    with pytest.raises(RandomnessError):
        seeded(seed)  # type: ignore[arg-type]


def test_secure_generators_are_fresh_chacha() -> None:
    one, two = secure(), secure()
    assert isinstance(one, SecureGenerator)
    assert type(one.bit_generator).__mro__[1].__name__ == "ChaCha"
    assert one.bit_generator.state["state"]["rounds"] == 20
    # equal with probability 2^-496
    assert one.integers(0, 2**62, size=8).tolist() != two.integers(0, 2**62, size=8).tolist()


def test_secure_draws_are_uniform() -> None:
    """1e-6 to fail a right generator; 1e-6 to pass one at total variation 0.05."""
    count = sample_size_for_distance(16, 0.05)
    assert_law(np.bincount(secure().integers(0, 16, size=count), minlength=16), np.full(16, 1 / 16), distance=0.05)


@pytest.mark.parametrize("act", [pickle.dumps, copy.copy, copy.deepcopy])
def test_secure_generators_are_neither_pickled_nor_copied(act: object) -> None:
    for generator in (secure(), secure().bit_generator):
        with pytest.raises(RandomnessError, match="cannot be pickled"):
            act(generator)  # type: ignore[operator]


FORKED = """
import os
import numpy as np
from discreet._core.random import secure
from discreet.errors import RandomnessError

generator = secure()
method, bits = generator.integers, generator.bit_generator
first = method(0, 2**62)
reading, writing = os.pipe()
child = os.fork()
drawn = [int(method(0, 2**62, dtype=np.uint64)), *map(int, bits.random_raw(3))]
try:
    generator.integers(10)
    drawn.append("drew")
except RandomnessError:
    drawn.append("refused")
if not child:
    os.write(writing, " ".join(map(str, drawn)).encode())
    os._exit(0)
os.waitpid(child, 0)
print(os.read(reading, 1000).decode())
print(*drawn)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_secure_generators_refuse_a_forked_child_and_what_was_taken_out_of_them_does_not_replay() -> None:
    """In an interpreter of its own, since libraries with threads warn of forks. Equal with probability below 2^-55."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    (*theirs, child), (*ours, parent) = (line.split() for line in done.stdout.splitlines())
    assert (child, parent) == ("refused", "drew")
    assert len(theirs) == len(ours) == 4
    assert not set(theirs) & set(ours)


def test_public_generators_follow_their_parent() -> None:
    assert public(seeded(1)).random() == public(seeded(1)).random()
    parent = seeded(1)
    assert public(parent).random() != public(parent).random()


def test_only_the_generator_of_a_forecast_selects_quick_draws() -> None:
    rng = secure()
    rng.approximate = True  # type: ignore[attr-defined]  # no attribute makes one of it
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DiscreteLaplace, "approximate", None)
        DiscreteLaplace().draw(1.0, 3, rng=rng)
        DiscreteLaplace().draw(1.0, 3, rng=seeded(0))
        with pytest.raises(TypeError):
            DiscreteLaplace().draw(1.0, 3, rng=ApproximateGenerator(0))
