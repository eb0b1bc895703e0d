r"""How many values the confidential records have that no released record shows, and how much mass nobody holds.

The release continues the urn of the confidential records, so both together are exchangeable, and the confidential
records given the release continue its urn. Theory: docs/theory/posterior-from-a-release.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import choice, integer, positive_size
from discreet._core.errors import ParameterError
from discreet._core.numeric import log_factorial_coefficient, log_rising
from discreet._core.random import seeded
from discreet._core.text import counted, percent_as_written
from discreet.inference._released import Released, read_release
from discreet.inference._urn.new_values import check_urn, law_of, new_values_law
from discreet.inference._urn.process import given_parameter

__all__ = ["Unseen", "given_fresh_values", "missing_mass", "unseen_categories"]

_HITS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """An estimate of something that a release does not show.

    Parameters
    ----------
    what : str
        What it is, in words.
    estimate : float
        Posterior mean.
    lower, upper : float
        Credible interval: equal-tailed, or wider where ``conservative``.
    level : float
        Its probability.
    conservative : bool
        Whether the interval holds with at least that probability instead of about it.
    confidential : bool
        Whether it was computed from a confidential number, so that it is confidential itself.
    """

    what: str
    estimate: float
    lower: float
    upper: float
    level: float
    conservative: bool = False
    confidential: bool = False

    def __str__(self) -> str:
        head = "CONFIDENTIAL: " if self.confidential else ""
        least = "at least " if self.conservative else ""
        interval = f"{percent_as_written(self.level)}: {self.lower:,.6g} to {self.upper:,.6g}"
        return f"{head}{self.what}: {self.estimate:,.6g} ({least}{interval})"


def unseen_categories(
    release: Any,
    facts: Any = None,
    *,
    strength: float | None = None,
    discount: float | None = None,
    n: int | None = None,
    level: float = 0.95,
) -> Unseen:
    """Return how many distinct values the confidential records have that the release does not show.

    Parameters
    ----------
    release, facts, strength, discount, n
        As for :func:`process_posterior`; nothing is learned here.
    level : float
        Probability of the interval.

    Returns
    -------
    Unseen
        From the release alone.
    """
    z, theta, sigma, n = _read(release, facts, strength, discount, n)
    law = new_values_law(n, seen=int(z.size), distinct=len(z.counts), strength=theta, discount=sigma)
    lower, upper = law.interval(level)
    what = f"distinct values among {counted(n, 'confidential record')} that the release does not show"
    return Unseen(what=what, estimate=law.mean, lower=lower, upper=upper, level=level)


def missing_mass(
    release: Any,
    facts: Any = None,
    *,
    strength: float | None = None,
    discount: float | None = None,
    n: int | None = None,
    level: float = 0.95,
    of: str = "population",
) -> Unseen:
    r"""Return the probability that the next record has a value that nobody has shown yet, from the release alone.

    Two questions that are easily taken for one. ``of="population"``: the next member of the *population* has a value
    that none of the ``n`` confidential records has, :math:`(\theta+\sigma K_n)/(\theta+n)` with :math:`K_n` their
    number of distinct values; its posterior mean uses :math:`E[K_n\mid z]=\sum_l(1-\pi_l)+E[K']`, and its interval adds
    up those of the two parts. ``of="urn"`` (BNP24, section 6.3): one more *released* record would have a value that
    neither the table nor the release has,

    .. math:: E=\frac{\theta+\sigma k}{\theta+n+m}\,\frac{(\theta+m+\sigma)_n}{(\theta+m)_n}.

    Parameters
    ----------
    release, facts, strength, discount, n
        As for :func:`process_posterior`; nothing is learned here.
    level : float
        Probability of the interval.
    of : {"population", "urn"}
        The question.

    Returns
    -------
    Unseen
        From the release alone.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Domain, Numeric
    >>> unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    >>> table = pl.DataFrame({"x": [0.25, 0.25, 0.75]})
    >>> print(missing_mass(table, unit, strength=1.0, discount=0.5, n=100, of="urn"))
    probability that one more released record is of a new value: 0.101041 (95%: 0.0384615 to 0.177885)
    """
    z, theta, sigma, n = _read(release, facts, strength, discount, n)
    m, k = int(z.size), len(z.counts)
    law = new_values_law(n, seen=m, distinct=k, strength=theta, discount=sigma)
    low, high = law.interval(level)
    if of == "urn":
        total = theta + n + m
        growth = math.exp(float(log_rising(theta + m + sigma, n) - log_rising(theta + m, n)))
        return Unseen(
            what="probability that one more released record is of a new value",
            estimate=(theta + sigma * k) / total * growth,
            lower=(theta + sigma * (k + low)) / total,
            upper=(theta + sigma * (k + high)) / total,
            level=level,
        )
    choice("of", of, ("population", "urn"))
    absent = np.exp(log_rising(theta + m - z.counts + sigma, n) - log_rising(theta + m, n))
    # The two parts of K_n, each at half the error; the released values that are held by simulation.
    half = (1.0 + level) / 2.0
    low, high = law.interval(half)
    shown = _held_values(z, theta, sigma, n)
    tail = (1.0 - half) / 2.0
    few, many = np.quantile(shown, [tail, 1.0 - tail], method="closest_observation")
    total = theta + n
    return Unseen(
        what="probability that the next member of the population has a value that no confidential record has",
        estimate=(theta + sigma * float((1.0 - absent).sum() + law.mean)) / total,
        lower=(theta + sigma * (low + float(few))) / total,
        upper=(theta + sigma * (high + float(many))) / total,
        level=level,
        conservative=True,
    )


def given_fresh_values(
    fresh: int, *, size: int, n: int, strength: float, discount: float, level: float = 0.95
) -> Unseen:
    r"""Return BNP24's estimate of the discovery probability, which conditions on a confidential number.

    Given that ``k`` of the distinct released values are held by no confidential record, which only the custodian knows,
    the number of distinct confidential values :math:`Y` has
    :math:`P(Y=j)\propto(\theta/\sigma+1)_{j+k-1}\,\mathscr C(n,j;\sigma)\,\mathscr C(m,k;\sigma,-n+j\sigma)`, and the
    next draw of the urn is new with probability :math:`(\theta+\sigma(k+Y))/(\theta+n+m)`.

    ``fresh``: **Confidential**: ``k``, the number of distinct released values that no confidential record has.
    ``size``, ``n``: ``m`` and ``n``.
    ``strength``, ``discount``: of the mechanism; ``0 <= discount < 1``.
    ``level``: probability of the interval.
    Returns: confidential, and marked so.

    References
    ----------
    BNP24, section 6.3.

    Examples
    --------
    >>> print(given_fresh_values(1, size=3, n=5, strength=1.0, discount=0.5))
    CONFIDENTIAL: probability that one more released record is of a new value: 0.352778 (95%: 0.222222 to 0.444444)
    """
    check_urn(size, max(fresh, 1), strength, discount)
    m, k = size, integer("fresh", fresh, least=0, most=size)
    positive_size("n", n)

    def log_mass(j: Floats) -> Floats:
        if discount > 0.0:
            opened = (j + k - 1.0) * math.log(discount) + log_rising(strength / discount + 1.0, j + k - 1.0)
        else:
            opened = (j + k - 1.0) * math.log(strength)
        held = log_factorial_coefficient(n, j, discount)
        return np.asarray(opened + held + log_factorial_coefficient(m, k, discount, -(n - j * discount)))

    law, _ = law_of(log_mass, 1, n)
    total = strength + n + m
    low, high = law.interval(level)
    return Unseen(
        what="probability that one more released record is of a new value",
        estimate=(strength + discount * (k + law.mean)) / total,
        lower=(strength + discount * (k + low)) / total,
        upper=(strength + discount * (k + high)) / total,
        level=level,
        confidential=True,
    )


def _held_values(z: Released, theta: float, sigma: float, n: int) -> Floats:
    """Draw how many of the released values are held by one of the confidential records."""
    rng, counts = seeded(0), np.append(z.counts - sigma, theta + len(z.counts) * sigma)
    found = np.zeros(_HITS)
    rows = max(1, 2_000_000 // len(counts))
    for start in range(0, _HITS, rows):
        size = min(rows, _HITS - start)
        gammas = rng.standard_gamma(np.broadcast_to(counts, (size, len(counts))))
        masses = gammas / gammas.sum(axis=1, keepdims=True)
        found[start : start + size] = (rng.multinomial(n, masses)[:, :-1] > 0).sum(axis=1)
    return found


def _read(
    release: Any, facts: Any, strength: float | None, discount: float | None, n: int | None
) -> tuple[Released, float, float, int]:
    z = read_release(release, facts)
    theta, sigma = float(given_parameter(z, "strength", strength)), float(given_parameter(z, "discount", discount))
    held = z.held if n is None else n
    if held is None:
        raise ParameterError("the number of confidential records is needed. Give it as n")
    positive_size("n", held)
    if z.domain.finite:
        raise ParameterError("a finite domain's values are all known, so there are no new ones to discover")
    check_urn(int(z.size), len(z.counts), theta, sigma)
    return z, theta, sigma, held
