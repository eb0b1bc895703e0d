"""What is checked of every mechanism on two cells, where all it can release is listed: its promise and its kernel.

The mechanism is calibrated, with its own ``calibrated``, for two records and a budget that needs little noise. One
whose outputs cannot be listed is passed over: it needs universes of its own for
:func:`~discreet.testing.check_guarantee`. All checks take the class and raise AssertionError.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import binom

from discreet._core.errors import LawNotAvailable, ParameterError
from discreet._core.random import seeded
from discreet.domain import Counts
from discreet.mechanisms import Mechanism
from discreet.privacy import Budget, RelationName
from discreet.testing.contract import check_guarantee, check_kernel_follows_law
from discreet.testing.enumeration import enumerate_law, outcome_of, table_of
from discreet.testing.facts import small_domain, small_mechanism
from discreet.testing.statistics import RATE, sample_size

_BUDGET = Budget(epsilon=2.0, delta=0.05)
_RECORDS, _SIZE = 2, 2
_EPSILONS = (0.0, 0.1, 0.5, 1.0, 1.6, 2.0, 2.5)
_FACTORS = (0.95, 0.9, 0.8, 0.6, 0.3)
_MOST_SAMPLES = 60_000
_TABLE, _RUNS = (12, 8, 4, 0), 10_000


def _tiny(kind: type[Mechanism], relation: RelationName = "replacement", group: int = 1) -> Mechanism:
    named = {} if relation == "replacement" else {"relation": relation}
    return kind.calibrated(_BUDGET, domain=small_domain(2), n=_RECORDS, size=_SIZE, group=group, **named)


def check_promise(kind: type[Mechanism]) -> None:
    """Assert that no neighbours exceed the guarantee, under each relation that is claimed, in units of 1 and 2."""
    for relation in kind.traits.relations:
        for group in (1, 2):
            mechanism = _tiny(kind, relation, group)
            with contextlib.suppress(LawNotAvailable):
                check_guarantee(mechanism, n=_RECORDS, group=group, relation=relation, epsilons=_EPSILONS)


def check_law(kind: type[Mechanism]) -> None:
    """Assert that the kernel follows the mechanism's own law, and not that of other values of its free parameters.

    Both records of the table are in one cell. Of each number that calibration solves for, 0.95 times its value is told
    apart or, where that takes more than 60,000 outputs, the first of 0.9, 0.8, 0.6 and 0.3 times it that does not. So
    is every law at total variation 0.1. A right kernel fails, and a wrong one passes, with probability at most 1e-6
    per law.
    """
    mechanism, x = _tiny(kind), table_of(np.array([_RECORDS, 0]))
    numbers = [name for name in kind.traits.free if isinstance(getattr(mechanism, name), float)]
    with contextlib.suppress(LawNotAvailable):
        others = [_distinguishable(mechanism, name, x) for name in numbers]
        check_kernel_follows_law(mechanism, x, alternatives=[other for other in others if other is not None])


def _distinguishable(mechanism: Mechanism, name: str, x: Counts) -> Mechanism | None:
    """Return the mechanism with a parameter as near to its own as can be told apart."""
    for factor in _FACTORS:
        with contextlib.suppress(ParameterError):  # no such value, or the same law
            other = replace(mechanism, **{name: factor * getattr(mechanism, name)})
            laws = [enumerate_law(one, x) for one in (mechanism, other)]
            masses = [dict(zip(law.outcomes, law.mass[0], strict=True)) for law in laws]
            outcomes = [outcome for outcome in masses[0] if outcome in masses[1]]
            if sample_size(*([mass[outcome] for outcome in outcomes] for mass in masses)) <= _MOST_SAMPLES:
                return other
    return None


def check_exposure(kind: type[Mechanism]) -> None:
    """Assert that noisy counts are the true ones no more often than by the law.

    Of 10,000 outputs for a table of 24 records on four cells. A right kernel fails with probability at most 1e-6; one
    that gives the table itself once in 500 times passes with probability at most 1e-3, if its law hardly ever does.
    """
    mechanism, x, rng = small_mechanism(kind), table_of(np.array(_TABLE)), seeded(0)
    output: Any = mechanism.kernel(x, rng=rng)
    true: Any = np.array(_TABLE) if isinstance(output, np.ndarray) else x
    if type(output) is not type(true) or np.shape(output) != np.shape(true):
        return  # records, or counts of something else
    expected = outcome_of(mechanism, true, x)
    number = sum(outcome_of(mechanism, mechanism.kernel(x, rng=rng), x) == expected for _ in range(_RUNS))
    likely = binom.isf(RATE, _RUNS, math.exp(mechanism.log_prob(true, x)))
    assert number <= likely, (
        f"the kernel of {kind.__name__} gave the true counts in {number} of {_RUNS:,} outputs, and by its law in at "
        f"most {likely:.0f}"
    )
