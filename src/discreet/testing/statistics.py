r"""Statistical assertions with stated error rates: how often they fail a right sampler and pass a wrong one.

The number of samples is derived from both. *Against named alternatives* the sum of ``log(p/q)`` over ``N`` samples has
the wrong sign with probability at most :math:`(\sum\sqrt{p\,q})^N` (Chernoff). *Against everything at a distance* the
empirical law of ``N`` samples on ``K`` outcomes is further than ``t`` in L1 from the truth with probability at most
:math:`2^K e^{-N t^2/2}` (Weissman et al., 2003).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from discreet._core.errors import ParameterError

RATE = 1e-6
"""False-fail and false-pass rate of every test here unless told otherwise."""


def sample_size(p: npt.ArrayLike, q: npt.ArrayLike, *, rate: float = RATE) -> int:
    """Return how many samples tell law ``p`` from law ``q``, each error being of probability at most ``rate``."""
    affinity = float(np.sqrt(np.asarray(p, dtype=np.float64) * np.asarray(q, dtype=np.float64)).sum())
    if affinity >= 1.0 - 1e-12:
        raise ParameterError("the two laws are the same, so no number of samples tells them apart")
    return 1 if affinity <= 0.0 else math.ceil(math.log(rate) / math.log(affinity))


def sample_size_for_distance(outcomes: int, distance: float, *, rate: float = RATE) -> int:
    """Return how many samples reject every law at total variation ``distance`` or more from the right one."""
    return math.ceil(2.0 * (outcomes * math.log(2.0) - math.log(rate)) / distance**2)


def assert_law(observed: npt.ArrayLike, law: npt.ArrayLike, *, distance: float, rate: float = RATE) -> None:
    """Assert that samples follow a law, against every law at total variation ``distance`` or more from it.

    Parameters
    ----------
    observed : array_like of int, shape (outcomes,)
        How often each outcome was seen, at least :func:`sample_size_for_distance` in total.
    law : array_like of float, shape (outcomes,)
        Probabilities.
    distance : float
        Effect size.
    rate : float
        A right sampler fails, and a wrong one passes, with probability at most this.

    Raises
    ------
    AssertionError
        When the samples lie nearer to some such law.
    ParameterError
        When there are too few samples for the rate.

    Examples
    --------
    >>> assert_law([2400, 2600], [0.5, 0.5], distance=0.1)
    """
    counts, p = np.asarray(observed, dtype=np.float64), np.asarray(law, dtype=np.float64)
    total = counts.sum()
    if total < sample_size_for_distance(len(p), distance, rate=rate):
        raise ParameterError(f"{total:.0f} samples are too few for distance {distance:g} at rate {rate:g}")
    differences = np.abs(counts / total - p)
    variation, worst = 0.5 * float(differences.sum()), int(np.argmax(differences))
    # The allowance t/2 is half the effect size: the truth is within t/2 of what was seen but for the stated rate.
    assert variation < distance / 2.0, (
        f"the samples are at total variation {variation:.4f} from the law, more than {distance / 2.0:.4f}; "
        f"outcome {worst} was seen {counts[worst]:.0f} times and expected {total * p[worst]:.1f} times"
    )


def assert_prefers(
    sample: Callable[[], int], right: npt.ArrayLike, wrong: Sequence[npt.ArrayLike], *, rate: float = RATE
) -> int:
    """Assert that samples follow one law, and none of some others; return how many were taken."""
    p = np.asarray(right, dtype=np.float64)
    alternatives = [np.asarray(q, dtype=np.float64) for q in wrong]
    count = max(sample_size(p, q, rate=rate) for q in alternatives)
    counts = np.bincount([sample() for _ in range(count)], minlength=len(p))
    positive = counts > 0
    assert (p[positive] > 0.0).all(), "an outcome was seen that has probability zero"
    for i, q in enumerate(alternatives):
        with np.errstate(divide="ignore"):
            evidence = float((counts[positive] * (np.log(p[positive]) - np.log(q[positive]))).sum())
        assert evidence > 0.0, f"{count} samples are {-evidence:.1f} nats likelier under alternative {i} than the law"
    return count
