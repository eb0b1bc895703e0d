"""What a release of an urn does not show: values, mass that nobody holds, and the process that both come from.

Table and release are exchangeable: docs/theory/posterior-from-a-release.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, choice, integer, positive_size, real
from discreet._core.numeric import Floats, log_factorial_coefficient, log_rising
from discreet._core.random import seeded
from discreet._core.text import counted, percent_as_written
from discreet.inference.released import Released, read_release
from discreet.inference.urn import learned_parameters, parameter_of

ASKED = ("values", "mass", "discovery", "strength", "discount")
_LISTED = 4096  # numbers of values that stand for all
_DEEP = 45.0  # nats below the mode at which a law is cut off
_SIMULATED, _LEARNED = 4000, 20_000  # draws
_FEW = 1000  # values that are simulated one by one
_SURE = 0.99


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """An estimate of something that a release does not show.

    ``what``: what it is, in words.
    ``estimate``: posterior mean.
    ``lower``, ``upper``: credible interval, equal-tailed, or wider where ``conservative``.
    ``level``: its probability.
    ``conservative``: whether the interval holds with at least that probability instead of about it.
    ``rests_on``: what was taken for granted.
    """

    what: str
    estimate: float
    lower: float
    upper: float
    level: float
    conservative: bool = False
    rests_on: str = ""

    def __str__(self) -> str:
        least = "at least " if self.conservative else ""
        interval = f"{percent_as_written(self.level)}: {self.lower:,.6g} to {self.upper:,.6g}"
        return f"{self.what}: {self.estimate:,.6g} ({least}{interval})"


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
    return _answer(_read(release, facts), of, level, n, strength=strength, discount=discount)


def all_unseen(release: Any, facts: Any = None, *, level: float = 0.95) -> tuple[dict[str, Unseen], tuple[str, ...]]:
    """Return every answer that a release has, by the name that :func:`unseen` gives it, and what to know first."""
    z = _read(release, facts)
    if z.domain.finite:
        note = "the domain is finite, so its values are all known and the discount is 0"
        return {"strength": _answer(z, "strength", level)}, (note,)
    answers = {of: _answer(z, of, level) for of in ASKED}
    if z.urn is None:
        return answers, ()
    learned = _answer(z, "strength", _SURE, discount=z.urn.discount)
    note = (
        f"the released records do not look like draws of their urn's own process: at its discount {z.urn.discount:g} "
        f"they tell a strength of {learned.lower:.3g} to {learned.upper:.3g} ({percent_as_written(_SURE)}) instead of "
        f"{z.urn.strength:g}. Do not rely on values, mass and discovery"
    )
    return answers, () if learned.lower <= z.urn.strength <= learned.upper else (note,)


def _read(release: Any, facts: Any) -> Released:
    """Read records of an urn: those of any other mechanism are no draws of a process, whatever they show."""
    z = read_release(release, facts)
    if z.n_held is not None and z.urn is None:
        raise ParameterError(
            "only a release that continues the urn of its table tells what it does not show. The certificate names "
            "another mechanism"
        )
    return z


def _answer(z: Released, of: str, level: float, n: int | None = None, **parameters: float | None) -> Unseen:
    real("level", level, above=0, below=1)
    parameters = dict.fromkeys(("strength", "discount")) | parameters
    if of in parameters:
        return _learned(z, of, parameters, level)
    return Urn.from_release(z, parameters["strength"], parameters["discount"], n).answer(of, level)


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
        reached = np.searchsorted(np.cumsum(self.masses), ((1.0 - level) / 2.0, (1.0 + level) / 2.0))
        low, high = self.values[np.minimum(reached, len(self.values) - 1)].tolist()
        return low, high


def new_values_law(draws: int, *, seen: int, distinct: int, strength: float, discount: float = 0.0) -> CountLaw:
    r"""Return the law of the number of new values in further draws of an urn (Lijoi, Mena and Prünster 2007, (4))."""
    real("strength", strength, above=0.0 - real("discount", discount, least=0, below=1))
    integer("distinct", distinct, least=1, most=positive_size("size", seen))

    def log_mass(j: Floats) -> Floats:
        if discount > 0.0:
            opened = j * math.log(discount) + log_rising(strength / discount + distinct, j)
        else:
            opened = j * math.log(strength)
        coefficient = log_factorial_coefficient(draws, j, discount, -(seen - distinct * discount))
        return np.asarray(opened + coefficient - log_rising(strength + seen, draws))

    low, high = 0, draws
    while high - low >= _LISTED:  # narrow down to where the mass is; the law has one mode
        spread = np.concatenate((np.linspace(low, high, 200), low + np.geomspace(1.0, high - low, 100)))
        values = np.unique(np.clip(np.rint(spread), low, high))
        logs = log_mass(values)
        window = np.flatnonzero(logs > logs.max() - _DEEP)
        narrower = int(values[max(window[0] - 1, 0)]), int(values[min(window[-1] + 1, len(values) - 1)])
        if narrower[1] - narrower[0] > 0.9 * (high - low):
            break
        low, high = narrower
    values = np.unique(np.rint(np.linspace(low, high, min(high - low + 1, _LISTED))))
    masses = np.exp(log_mass(values)) * (np.gradient(values) if len(values) > 1 else 1.0)  # numbers each stands for
    if not abs(masses.sum() - 1.0) < 1e-3:
        raise ArithmeticError("the law of the number of new values does not sum to one")
    return CountLaw(values, masses / masses.sum())


class Urn(NamedTuple):
    """Records of an urn, and the process of it. ``n``: number of confidential records."""

    z: Released
    theta: float
    sigma: float
    n: int

    @classmethod
    def from_release(cls, z: Released, strength: float | None, discount: float | None, n: int | None) -> Urn:
        """Return the records with these parameters, or the mechanism's own."""
        theta, sigma = (float(parameter_of(z, *pair)) for pair in (("strength", strength), ("discount", discount)))
        records = z.n_held if n is None else n
        if records is None:
            raise ParameterError("the number of confidential records is needed. Give it as n")
        if z.domain.finite:
            raise ParameterError("a finite domain's values are all known, so there are no new ones to discover")
        return cls(z, theta, sigma, positive_size("n", records))

    def answer(self, of: str, level: float) -> Unseen:
        """Return the number of values, the missing mass, or the discovery probability."""
        z, theta, sigma, n = self
        m, k = int(z.size), len(z.counts)
        law = new_values_law(n, seen=m, distinct=k, strength=theta, discount=sigma)
        records = counted(n, "confidential record")
        if of == "values":
            quantity = f"distinct values among {records} that the release does not show"
            mean, (low, high) = law.mean, law.interval(level)
        elif of == "discovery":
            quantity = "probability that one more released record is of a new value"
            growth = math.exp(float(log_rising(theta + m + sigma, n) - log_rising(theta + m, n)))
            mean = (theta + sigma * k) / (theta + n + m) * growth
            low, high = ((theta + sigma * (k + count)) / (theta + n + m) for count in law.interval(level))
        else:
            quantity = "probability that the next member of the population has a value that no confidential record has"
            absent = np.exp(log_rising(theta + m - z.counts + sigma, n) - log_rising(theta + m, n))
            mean = (theta + sigma * float((1.0 - absent).sum() + law.mean)) / (theta + n)
            half = (1.0 + level) / 2.0  # the two parts have intervals, each at half the error
            shown = self.simulated_shown(half) if k <= _FEW else self.normal_shown(half)
            sums = map(sum, zip(law.interval(half), shown, strict=True))
            low, high = ((theta + sigma * total) / (theta + n) for total in sums)
        process = f"Dirichlet process of strength {theta:g}"
        if sigma:
            process = f"Pitman-Yor process of strength {theta:g} and discount {sigma:g}"
        origin = (
            f"{records}, taken as draws of a population from a {process}, whose urn is "
            f"continued by {counted(m, 'released record')}. If the population is of another kind, this may be far off"
        )
        return Unseen(
            what=quantity, estimate=mean, lower=low, upper=high, level=level, conservative=of == "mass", rests_on=origin
        )

    def simulated_shown(self, level: float) -> tuple[float, float]:
        """Return an interval for how many of the released values a confidential record has, by simulation."""
        z, theta, sigma, n = self
        rng, alpha = seeded(0), np.append(z.counts - sigma, theta + len(z.counts) * sigma)
        numbers, rows = [], max(1, 2_000_000 // len(alpha))
        for start in range(0, _SIMULATED, rows):
            gammas = rng.standard_gamma(np.broadcast_to(alpha, (min(rows, _SIMULATED - start), len(alpha))))
            counts = rng.multinomial(n, gammas / gammas.sum(axis=1, keepdims=True))
            numbers.append((counts[:, :-1] > 0).sum(axis=1))
        tail = (1.0 - level) / 2.0
        low, high = np.quantile(np.concatenate(numbers), [tail, 1.0 - tail], method="closest_observation")
        return float(low), float(high)

    def normal_shown(self, level: float) -> tuple[float, float]:
        """Return that interval as of a normal law with the exact mean and variance: there are many indicators."""
        sizes, times = np.unique(self.z.counts, return_counts=True)
        total = self.theta + self.z.size + self.sigma
        log_total = log_rising(self.theta + self.z.size, self.n)
        log_absent = log_rising(total - sizes, self.n) - log_total  # of the probability that no record has a value
        log_pair = log_rising(total + self.sigma - sizes[:, None] - sizes, self.n) - log_total
        log_product = log_absent[:, None] + log_absent
        covariance = np.exp(log_product) * np.expm1(log_pair - log_product)  # of two indicators
        absent = np.exp(log_absent)
        variance = times @ covariance @ times + float(times @ (absent * (1.0 - absent) - np.diag(covariance)))
        reach = NormalDist().inv_cdf((1.0 + level) / 2.0) * math.sqrt(max(0.0, variance))
        mean = float(times @ (1.0 - absent))
        return max(0.0, math.floor(mean - reach)), min(float(len(self.z.counts)), math.ceil(mean + reach))


def _learned(z: Released, of: str, parameters: dict[str, float | None], level: float) -> Unseen:
    """Return strength or discount from their posterior, on a grid; a parameter with a number keeps it."""
    if parameters[of] is not None:
        raise ParameterError(f"the {of} is asked for, so it must not be given")
    if of == "discount" and z.domain.finite:
        raise ParameterError("with a finite domain the discount is 0")
    theta, sigma = ("learned" if value is None else value for value in parameters.values())
    draws = learned_parameters(z, theta, sigma, draws=_LEARNED, hyperprior=None, rng=seeded(0))._asdict()[of]
    lower, upper = np.quantile(draws, [(1.0 - level) / 2.0, (1.0 + level) / 2.0]).tolist()
    urn = z.urn and f". That urn has strength {z.urn.strength:g} and discount {z.urn.discount:g}"
    origin = (
        f"{counted(z.size, 'released record')}, taken as draws of that process, which is exact where the urn of the "
        "release has its strength and discount, and an approximation of the order m/n otherwise. The prior is uniform "
        f"in the discount and in (strength + discount) / (1 + strength + discount){urn or ''}"
    )
    quantity, mean = f"{of} of the process that the population comes from", float(draws.mean())
    return Unseen(what=quantity, estimate=mean, lower=lower, upper=upper, level=level, rests_on=origin)
