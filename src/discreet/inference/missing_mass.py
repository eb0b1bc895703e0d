"""What a release of an urn does not show: values, mass that nobody holds, and the process that both come from.

The release continues the urn of the confidential records, so both together are exchangeable, and the confidential
records given the release continue its urn. Theory: docs/theory/posterior-from-a-release.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.boundary import sealed
from discreet._core.checks import choice, integer, positive_size, real
from discreet._core.errors import ParameterError
from discreet._core.numeric import log_factorial_coefficient, log_rising
from discreet._core.random import seeded
from discreet._core.text import counted, percent_as_written
from discreet.inference.released import Released, read_release
from discreet.inference.urn import given_parameter, learned_prior

# The law of the number of new values in further draws of a Pitman-Yor urn.

_LISTED = 4096
_DEEP = 45.0  # nats below the mode at which a law is cut off


class CountLaw(NamedTuple):
    """The law of a count, on all its values or on equally spaced ones, which stand for those around them too."""

    values: Floats
    masses: Floats

    @property
    def mean(self) -> float:
        """Its mean."""
        return float(self.values @ self.masses)

    def interval(self, level: float) -> tuple[float, float]:
        """Return the equal-tailed interval."""
        tail = (1.0 - level) / 2.0
        reached = np.cumsum(self.masses)
        last = len(reached) - 1
        return tuple(float(self.values[min(int(np.searchsorted(reached, q)), last)]) for q in (tail, 1.0 - tail))  # type: ignore[return-value]


def new_values_law(draws: int, *, seen: int, distinct: int, strength: float, discount: float = 0.0) -> CountLaw:
    r"""Return the law of the number of new values in further draws of a Pitman-Yor urn.

    After ``m`` draws with ``k`` distinct values, the number of values first seen in the next ``n`` draws is ``j`` with
    probability

    .. math:: \frac{\prod_{i=k}^{k+j-1}(\theta+i\sigma)}{(\theta+m)_n}\,
       \frac{\mathscr C(n,j;\sigma,-(m-k\sigma))}{\sigma^j} .

    ``draws`` is ``n``; ``seen`` and ``distinct`` are ``m`` and ``k``.

    References
    ----------
    Lijoi, Mena and Prünster (2007), equation (4); BNP24, section 6.3.

    Examples
    --------
    >>> law = new_values_law(1, seen=4, distinct=2, strength=1.0, discount=0.5)
    >>> law.masses.round(12).tolist()  # the next draw is new with probability (1 + 2/2) / 5
    [0.6, 0.4]
    """
    check_urn(seen, distinct, strength, discount)

    def log_mass(j: Floats) -> Floats:
        if discount > 0.0:
            opened = j * math.log(discount) + log_rising(strength / discount + distinct, j)
        else:
            opened = j * math.log(strength)
        counted = log_factorial_coefficient(draws, j, discount, -(seen - distinct * discount))
        return np.asarray(opened + counted - log_rising(strength + seen, draws))

    law, total = law_of(log_mass, 0, draws)
    if not abs(total - 1.0) < 1e-3:
        raise ArithmeticError("the law of the number of new values does not sum to one")
    return law


def law_of(log_mass: Callable[[Floats], Floats], least: int, most: int) -> tuple[CountLaw, float]:
    """Return a law from its log-masses, and their sum: on all integers of its window, or on 4,096 spread evenly."""
    low, high = least, most
    for _ in range(40):  # narrow down to where the mass is; it has one mode
        if high - low < _LISTED:
            break
        spread = np.concatenate((np.linspace(low, high, 200), low + np.geomspace(1.0, high - low, 100)))
        at = np.unique(np.clip(np.rint(spread), low, high))
        values = log_mass(at)
        kept = np.flatnonzero(values > values.max() - _DEEP)
        narrower = int(at[max(kept[0] - 1, 0)]), int(at[min(kept[-1] + 1, len(at) - 1)])
        if narrower[1] - narrower[0] > 0.9 * (high - low):
            break
        low, high = narrower
    at = np.unique(np.rint(np.linspace(low, high, min(high - low + 1, _LISTED))))
    values = log_mass(at)
    reach = np.gradient(at) if len(at) > 1 else np.ones(1)  # how many integers each stands for
    top = float(values.max())
    masses = np.exp(values - top) * reach
    return CountLaw(at, masses / masses.sum()), float(masses.sum() * math.exp(min(top, 700.0)))


def check_urn(seen: int, distinct: int, strength: float, discount: float) -> None:
    """Refuse parameters and counts that no urn has. Raises ParameterError when one is out of range."""
    real("strength", strength, above=0.0 - real("discount", discount, least=0, below=1))
    integer("distinct", distinct, least=1, most=positive_size("size", seen))


ASKED = ("values", "mass", "discovery", "strength", "discount")
_HITS, _LEARNED = 4000, 20_000
_FEW = 1000  # values that are simulated one by one
_SURE = 0.99


@sealed
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
    rests_on : str
        What was taken for granted.
    """

    what: str
    estimate: float
    lower: float
    upper: float
    level: float
    conservative: bool = False
    confidential: bool = False
    rests_on: str = ""

    def __str__(self) -> str:
        head = "CONFIDENTIAL: " if self.confidential else ""
        least = "at least " if self.conservative else ""
        interval = f"{percent_as_written(self.level)}: {self.lower:,.6g} to {self.upper:,.6g}"
        return f"{head}{self.what}: {self.estimate:,.6g} ({least}{interval})"


@sealed
def unseen(
    release: Any,
    facts: Any = None,
    *,
    of: str = "values",
    strength: float | None = None,
    discount: float | None = None,
    n: int | None = None,
    level: float = 0.95,
) -> Unseen:
    r"""Return something that records of an urn do not show: values, mass, or the process that they come from.

    Parameters
    ----------
    release, facts, n
        As for :func:`process_posterior`.
    of : {"values", "mass", "discovery", "strength", "discount"}
        - ``"values"``: how many distinct values the confidential records have that the release does not show.
        - ``"mass"``, the missing mass: the probability that the next member of the *population* has a value that none
          of the ``n`` confidential records has, :math:`(\theta+\sigma K_n)/(\theta+n)` with :math:`K_n` their number
          of distinct values. Its posterior mean uses :math:`E[K_n\mid z]=\sum_l(1-\pi_l)+E[K']`, and its interval
          adds up those of the two parts.
        - ``"discovery"``, BNP24's discovery probability: that one more *released* record has a value that neither the
          table nor the release has, :math:`E=\frac{\theta+\sigma k}{\theta+n+m}\,
          \frac{(\theta+m+\sigma)_n}{(\theta+m)_n}`.
        - ``"strength"``, ``"discount"``: those of the process that the population comes from, learned from the release.
    strength, discount : float, optional
        Those of the process. By default the mechanism's own; where one of them is asked for, what is not given is
        learned.
    level : float
        Probability of the interval.

    Returns
    -------
    Unseen
        From the release alone.

    Raises
    ------
    ParameterError
        When the release is not of an urn, or the domain is finite (its values are all known), or a number is missing or
        out of range.
    DataError, FileProblem
        When the release cannot be read.

    References
    ----------
    BNP24, sections 6.1 and 6.3; PY26, section 4.1; Lijoi, Mena and Prünster (2007).

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Domain, Numeric
    >>> unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    >>> table = pl.DataFrame({"x": [0.25, 0.25, 0.75]})
    >>> print(unseen(table, unit, of="discovery", strength=1.0, discount=0.5, n=100))
    probability that one more released record is of a new value: 0.101041 (95%: 0.0384615 to 0.177885)
    """
    choice("of", of, ASKED)
    return of_read(_of_an_urn(release, facts), of, strength=strength, discount=discount, n=n, level=level)


def _of_an_urn(release: Any, facts: Any) -> Released:
    """Read records of an urn: those of any other mechanism are no draws of a process, whatever they show."""
    z = read_release(release, facts)
    if z.n_held is not None and z.urn is None:
        raise ParameterError(
            "only a release that continues the urn of its table tells what it does not show. The certificate names "
            "another mechanism"
        )
    return z


def of_read(
    z: Released, of: str, *, strength: float | None = None, discount: float | None = None, n: int | None = None,
    level: float = 0.95,
) -> Unseen:  # fmt: skip
    """Return one answer, of a release that is read already."""
    real("level", level, above=0, below=1)
    if of in ("strength", "discount"):
        return _learned(z, of, {"strength": strength, "discount": discount}, level)
    urn = _Urn.from_release(z, strength, discount, n)
    return {"values": _values, "mass": _mass, "discovery": _discovery}[of](urn, level)


def all_unseen(release: Any, facts: Any = None, *, level: float = 0.95) -> tuple[dict[str, Unseen], tuple[str, ...]]:
    """Return every answer that a release has, by the name that :func:`unseen` gives it, and what to know first."""
    z = _of_an_urn(release, facts)
    if z.domain.finite:
        notes = ("the domain is finite, so its values are all known and the discount is 0",)
        return {"strength": of_read(z, "strength", level=level)}, notes
    return {of: of_read(z, of, level=level) for of in ASKED}, _misfit(z)


class _Urn(NamedTuple):
    """Records of an urn, and what is known of it. ``n``: number of confidential records."""

    z: Released
    theta: float
    sigma: float
    n: int

    @classmethod
    def from_release(cls, z: Released, strength: float | None, discount: float | None, n: int | None) -> _Urn:
        theta, sigma = (float(given_parameter(z, *pair)) for pair in (("strength", strength), ("discount", discount)))
        records = z.n_held if n is None else n
        if records is None:
            raise ParameterError("the number of confidential records is needed. Give it as n")
        positive_size("n", records)
        if z.domain.finite:
            raise ParameterError("a finite domain's values are all known, so there are no new ones to discover")
        check_urn(int(z.size), len(z.counts), theta, sigma)
        return cls(z, theta, sigma, records)

    @property
    def m(self) -> int:
        return int(self.z.size)

    @property
    def k(self) -> int:
        return len(self.z.counts)

    @property
    def law(self) -> CountLaw:
        """Of the number of distinct confidential values that the release does not show."""
        return new_values_law(self.n, seen=self.m, distinct=self.k, strength=self.theta, discount=self.sigma)

    def answer(self, what: str, estimate: float, ends: tuple[float, float], level: float, **more: Any) -> Unseen:
        """Return an estimate that rests on the urn's process."""
        law = f"Dirichlet process of strength {self.theta:g}"
        if self.sigma:
            law = f"Pitman-Yor process of strength {self.theta:g} and discount {self.sigma:g}"
        rests_on = (
            f"{counted(self.n, 'confidential record')}, taken as draws of a population from a {law}, whose urn "
            f"{counted(self.m, 'released record')} continue{'s' if self.m == 1 else ''}. If the population is of "
            "another kind, this may be far off"
        )
        lower, upper = ends
        return Unseen(what=what, estimate=estimate, lower=lower, upper=upper, level=level, rests_on=rests_on, **more)


def _values(urn: _Urn, level: float) -> Unseen:
    what = f"distinct values among {counted(urn.n, 'confidential record')} that the release does not show"
    return urn.answer(what, urn.law.mean, urn.law.interval(level), level)


def _discovery(urn: _Urn, level: float) -> Unseen:
    _, theta, sigma, n = urn
    total = theta + n + urn.m
    growth = math.exp(float(log_rising(theta + urn.m + sigma, n) - log_rising(theta + urn.m, n)))
    low, high = ((theta + sigma * (urn.k + count)) / total for count in urn.law.interval(level))
    what = "probability that one more released record is of a new value"
    return urn.answer(what, (theta + sigma * urn.k) / total * growth, (low, high), level)


def _mass(urn: _Urn, level: float) -> Unseen:
    z, theta, sigma, n = urn
    law, half = urn.law, (1.0 + level) / 2.0  # the two parts of K_n have intervals, each at half the error
    absent = np.exp(log_rising(theta + urn.m - z.counts + sigma, n) - log_rising(theta + urn.m, n))
    shown = _held_few(urn, half) if urn.k <= _FEW else _held_many(urn, half)
    low, high = ((theta + sigma * sum(ends)) / (theta + n) for ends in zip(law.interval(half), shown, strict=True))
    what = "probability that the next member of the population has a value that no confidential record has"
    mean = (theta + sigma * float((1.0 - absent).sum() + law.mean)) / (theta + n)
    return urn.answer(what, mean, (low, high), level, conservative=True)


def _learned(z: Released, of: str, given: dict[str, float | None], level: float) -> Unseen:
    """Return strength or discount from their posterior, on a grid; what is given is kept."""
    if given[of] is not None:
        raise ParameterError(f"the {of} is asked for, so it must not be given")
    if of == "discount" and z.domain.finite:
        raise ParameterError("with a finite domain the discount is 0")
    theta, sigma = ("learned" if value is None else value for value in given.values())
    prior = learned_prior(z, theta, sigma, draws=_LEARNED, hyperprior=None, rng=seeded(0))
    draws: Floats = getattr(prior, of)
    lower, upper = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    own = z.urn and f". That urn has strength {z.urn.strength:g} and discount {z.urn.discount:g}"
    return Unseen(
        what=f"{of} of the process that the population comes from",
        estimate=float(draws.mean()),
        lower=float(lower),
        upper=float(upper),
        level=level,
        rests_on=(
            f"{counted(z.size, 'released record')}, taken as draws of that process, which is exact where the urn of "
            "the release has its strength and discount, and an approximation of the order m/n otherwise. The prior is "
            f"uniform in the discount and in (strength + discount) / (1 + strength + discount){own or ''}"
        ),
    )


def _misfit(z: Released) -> tuple[str, ...]:
    """Return a note where the records do not look like draws of their urn's own process."""
    if z.urn is None:
        return ()
    learned = of_read(z, "strength", discount=z.urn.discount, level=_SURE)
    if learned.lower <= z.urn.strength <= learned.upper:
        return ()
    return (
        f"the released records do not look like draws of their urn's own process: at its discount {z.urn.discount:g} "
        f"they tell a strength of {learned.lower:.3g} to {learned.upper:.3g} ({percent_as_written(_SURE)}) instead of "
        f"{z.urn.strength:g}. Do not rely on values, mass and discovery",
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
    ``size``: ``m``. Returns: confidential, and marked so.

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
    estimate, lower, upper = (
        (strength + discount * (k + count)) / (strength + n + m) for count in (law.mean, *law.interval(level))
    )
    return Unseen(
        what="probability that one more released record is of a new value",
        estimate=estimate,
        lower=lower,
        upper=upper,
        level=level,
        confidential=True,
    )


def _held_few(urn: _Urn, level: float) -> tuple[float, float]:
    """Return an interval for how many of the released values are held by a confidential record, by simulation."""
    z, theta, sigma, n = urn
    rng, counts = seeded(0), np.append(z.counts - sigma, theta + len(z.counts) * sigma)
    held = np.zeros(_HITS)
    rows = max(1, 2_000_000 // len(counts))
    for start in range(0, _HITS, rows):
        size = min(rows, _HITS - start)
        gammas = rng.standard_gamma(np.broadcast_to(counts, (size, len(counts))))
        masses = gammas / gammas.sum(axis=1, keepdims=True)
        held[start : start + size] = (rng.multinomial(n, masses)[:, :-1] > 0).sum(axis=1)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(held, [tail, 1.0 - tail], method="closest_observation")
    return float(low), float(high)


def _held_many(urn: _Urn, level: float) -> tuple[float, float]:
    """Return that interval from the exact mean and variance, as those of a normal law: there are many indicators."""
    sizes, times = np.unique(urn.z.counts, return_counts=True)
    total, log_total = urn.theta + urn.m + urn.sigma, log_rising(urn.theta + urn.m, urn.n)
    log_absent = log_rising(total - sizes, urn.n) - log_total  # of the probability that no record holds a value
    log_pair = log_rising(total + urn.sigma - sizes[:, None] - sizes, urn.n) - log_total
    log_product = log_absent[:, None] + log_absent
    covariance = np.exp(log_product) * np.expm1(log_pair - log_absent[:, None] - log_absent)  # of two indicators
    absent = np.exp(log_absent)
    variance = times @ covariance @ times + float(times @ (absent * (1.0 - absent) - np.diag(covariance)))
    reach = NormalDist().inv_cdf((1.0 + level) / 2.0) * math.sqrt(max(0.0, variance))
    mean = float(times @ (1.0 - absent))
    return max(0.0, math.floor(mean - reach)), min(float(urn.k), math.ceil(mean + reach))
