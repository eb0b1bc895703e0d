"""Dirichlet- and Pitman-Yor-process posteriors given released records: docs/theory/posterior-from-a-release.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, integer, positive_size, real
from discreet._core.numeric import Floats, log_rising
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Records
from discreet.inference.line import Draws
from discreet.inference.population import Posterior
from discreet.inference.released import Released, read_release

# Strength and discount of a process prior: known, or learned from a release by its exchangeable partition probability.

Hyperprior = Callable[[Floats, Floats], Any]

_STRENGTHS, _DISCOUNTS = 600, 120
_SPAN = (-12.0, 18.0)  # of log(strength + discount)


class ProcessParameters(NamedTuple):
    """Strength and discount of each draw, shape (draws,): ``strength > -discount``, ``0 <= discount < 1``."""

    strength: Floats
    discount: Floats


def parameter_of(z: Released, name: str, value: float | str | None) -> float | str:
    """Return a parameter with the value that it was given, or the mechanism's own."""
    if value is not None:
        return value
    if z.urn is not None:
        return float(getattr(z.urn, name))
    if name == "discount" and z.n_held is not None:
        return 0.0
    raise ParameterError(f"the {name} of the prior is not known. Give a number, or 'learned'")


def _require_discount(z: Released, discount: float) -> None:
    if real("discount", discount, least=0, below=1) > 0.0 and z.domain.finite:
        raise ParameterError(
            "with a finite domain a discount above 0 has no closed form, since equal records need not share a table. "
            "Take discount 0"
        )


def log_partition(counts: npt.ArrayLike, strength: Floats, discount: Floats) -> Floats:
    """Return the log-probability (nats) of a partition under Pitman-Yor parameters: the exact EPPF."""
    sizes, times = np.unique(np.asarray(counts, dtype=np.float64), return_counts=True)
    k, m = float(times.sum()), float((sizes * times).sum())
    positive = discount > 0.0
    safe = np.where(positive, discount, 1.0)
    several = log_rising(np.where(positive, strength / safe + 1.0, 1.0), k - 1.0)
    opened = (k - 1.0) * np.log(np.where(positive, safe, np.where(strength > 0.0, strength, 1.0))) + several * positive
    levels, place = np.unique(discount, return_inverse=True)
    joined = np.zeros(len(levels))
    for size, number in zip(sizes, times, strict=True):
        joined += number * log_rising(1.0 - levels, size - 1.0)
    return np.asarray(opened - log_rising(strength + 1.0, m - 1.0) + joined[place].reshape(discount.shape))


def learned_parameters(
    z: Released,
    strength: float | str,
    discount: float | str,
    *,
    draws: int,
    hyperprior: Hyperprior | None,
    rng: np.random.Generator,
) -> ProcessParameters:
    """Draw parameters from their posterior given the release, on a grid, spread evenly within its cells."""
    if not np.array_equal(z.counts, np.rint(z.counts)):
        raise ParameterError("strength and discount are learned from whole records, not from weights")
    if discount == "learned" and not z.domain.finite:
        sigmas, step = (np.arange(_DISCOUNTS) + 0.5) / _DISCOUNTS, 1.0 / _DISCOUNTS
    else:
        only = 0.0 if discount == "learned" else float(discount)
        _require_discount(z, only)
        sigmas, step = np.array([only]), 0.0
    if strength == "learned":
        stretch = (_SPAN[1] - _SPAN[0]) / _STRENGTHS
        logs = _SPAN[0] + (np.arange(_STRENGTHS) + 0.5) * stretch
        sums, sigma = (part.ravel() for part in np.meshgrid(np.exp(logs), sigmas, indexing="ij"))
        theta = sums - sigma
    else:
        sigma, stretch = sigmas[float(strength) > -sigmas], 0.0
        theta = np.full(len(sigma), float(strength))
        if not len(sigma) or sigma.max() == 0.0:
            real("strength", float(strength), above=0.0 - sigmas[-1])
    if z.domain.finite:
        log = -log_rising(theta, z.size)
        for share, count in zip(np.exp(z.domain.log_base(z.records)), z.counts, strict=True):
            log = log + log_rising(theta * share, count)
    else:
        log = log_partition(z.counts, theta, sigma)
    if hyperprior is None:
        log = log - 2.0 * np.log1p(theta + sigma)
    else:
        log = log + np.asarray(hyperprior(theta, sigma), dtype=np.float64)
    if stretch:  # the grid is even in the logarithm of strength + discount
        log = log + np.log(theta + sigma)
    mass = np.exp(log - log.max())
    cells = rng.choice(len(mass), size=draws, p=mass / mass.sum())
    discounts = np.clip(sigma[cells] + step * (rng.random(draws) - 0.5), 0.0, 1.0 - 1e-9)
    totals = (theta + sigma)[cells] * np.exp(stretch * (rng.random(draws) - 0.5))
    return ProcessParameters(totals - discounts if stretch else theta[cells], discounts)


# The part of a Pitman-Yor process that no released value shows, as finitely many values drawn from the base measure:
# sticks, and values with Dirichlet weights for what they leave ("The tail" in docs/theory/posterior-from-a-release.md).

_MOST_STICKS = 256
_MOST_REST = 1024


class TailPlan(NamedTuple):
    """How a tail is cut off: after ``T`` sticks, with the rest on ``M`` values."""

    sticks: int
    rest: int
    left: float  # expected mass, of the whole distribution, of which only the first two moments are exact


def tail_plan(strength: float, discount: float, *, mass: float, tolerance: float) -> TailPlan:
    """Choose the number of sticks of a tail, of share ``mass``, after which less than ``tolerance`` is left, or 256."""
    steps = np.arange(1, _MOST_STICKS + 1)
    masses_left = mass * np.cumprod((strength + steps * discount) / (strength + 1.0 + (steps - 1) * discount))
    enough = np.flatnonzero(masses_left <= tolerance)
    if mass <= tolerance:
        return TailPlan(0, 1, mass)
    if len(enough):
        return TailPlan(int(enough[0]) + 1, 1, float(masses_left[enough[0]]))
    spread = (1.0 - discount) / (strength + _MOST_STICKS * discount + 1.0)
    return TailPlan(_MOST_STICKS, int(min(_MOST_REST, np.ceil(2.0 / spread))), float(masses_left[-1]))


def tail_weights(strength: Floats, discount: Floats, plan: TailPlan, rng: np.random.Generator) -> Floats:
    """Draw the weights of a tail, shape (D, plan.sticks + plan.rest), which sum to one in each row."""
    theta, sigma = strength[:, None], discount[:, None]
    a = rng.standard_gamma(np.broadcast_to(1.0 - sigma, (len(theta), plan.sticks)))
    b = rng.standard_gamma(theta + np.arange(1, plan.sticks + 1) * sigma)
    broken = a / np.maximum(a + b, np.finfo(float).tiny)
    unbroken = np.concatenate((np.ones_like(theta), np.cumprod(1.0 - broken, axis=1)), axis=1)
    spread = (1.0 - sigma) / (theta + plan.sticks * sigma + 1.0)
    room = plan.rest * spread - 1.0  # with too few values for the variance, equal weights come nearest
    parameter = np.where(room > 1e-6, (1.0 - spread) / np.maximum(room, 1e-6), 1e6)
    rest = rng.standard_gamma(np.broadcast_to(parameter, (len(theta), plan.rest)))
    total = rest.sum(axis=1, keepdims=True)
    rest = np.where(total > 0.0, rest / np.where(total > 0.0, total, 1.0), 1.0 / plan.rest)
    return np.concatenate((unbroken[:, :-1] * broken, unbroken[:, -1:] * rest), axis=1)


_BLOCK = 2_000_000
_MOST_CELLS = 65_536
_NEW = 10**11  # labels from here on are in no release


@sealed
def process_posterior(
    release: Any,
    facts: Any = None,
    *,
    strength: float | Literal["learned"] | None = None,
    discount: float | Literal["learned"] | None = None,
    n: int | None = None,
    draws: int = 1000,
    seed: int = 0,
    weights: str | None = None,
    hyperprior: Hyperprior | None = None,
    tolerance: float = 1e-6,
) -> Posterior:
    r"""Return the posterior of the population given records released by a Pitman-Yor urn.

    The model: :math:`p\sim PY(\sigma,\theta,H)`; the ``n`` confidential records are independent draws of ``p``; the
    ``m`` released ones continue their urn. Each draw is made in two exact steps. First the confidential records given
    the release: :math:`(W_1..W_k,R)\sim\mathrm{Dir}(m_1-\sigma,..,m_k-\sigma,\theta+k\sigma)` and
    :math:`F\sim PY(\sigma,\theta+k\sigma,H)`, then counts :math:`\mathrm{Multinomial}(n,(W,RF))`. Then ``p`` given
    those counts, in the same way. With ``n`` unknown the first step's measure is returned: the limit of large
    ``n``, and the posterior that PY26 writes down, whose intervals are too short by about
    :math:`\sqrt{1+2m/n}` otherwise.

    Parameters
    ----------
    release : Release, dataframe or path
        The released table.
    facts : Certificate, path of one, or Domain, optional
        The certificate found with the release by default. A certificate states strength, discount and ``records``.
    strength : float or "learned", optional
        :math:`\theta`, above ``-discount``; the mechanism's by default.
    discount : float or "learned", optional
        :math:`\sigma` in ``[0, 1)``; the mechanism's by default. Above 0 the base measure must not be finite.
    n : int, optional
        The number of confidential records; the certificate's by default.
    draws : int
        Number of independent draws.
    seed : int
        Everything here is public: a seed makes the numbers reproducible and does no harm.
    weights : str, optional
        Column of positive weights: a row counts as that many records.
    hyperprior : callable, optional
        ``f(strength, discount)``, the log-density of the prior where one is learned (arrays in, array out). By default
        ``u = (strength + discount) / (1 + strength + discount)`` and the discount are uniform on (0, 1).
    tolerance : float
        Expected mass that a truncated tail may leave to moments-matched values; ``facts`` state what was left.

    Returns
    -------
    Posterior
        Independent draws.

    Raises
    ------
    ParameterError
        When strength or discount are missing or out of range.
    DataError, FileProblem
        When the release cannot be read.

    References
    ----------
    Pitman (1996), Corollary 20; PY26, Proposition 1 and section 4.1; BNP24, section 6.1.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Domain, Numeric
    >>> unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    >>> table = pl.DataFrame({"x": [0.25, 0.25, 0.75, 0.5]})
    >>> posterior = process_posterior(table, unit, strength=1.0, discount=0.0, draws=500)
    >>> 0.3 < posterior.summary(["mean"])["mean"].mean < 0.6
    True
    """
    z = read_release(release, facts, weights=weights)
    records = z.n_held if n is None else positive_size("n", n)
    integer("draws", draws, least=1)
    theta, sigma = parameter_of(z, "strength", strength), parameter_of(z, "discount", discount)
    rng = seeded(seed)
    if "learned" in (theta, sigma):
        parameters = learned_parameters(z, theta, sigma, draws=draws, hyperprior=hyperprior, rng=rng)
    else:
        _require_discount(z, float(sigma))
        real("strength", float(theta), above=0.0 - float(sigma))
        if float(sigma) > 0.0 and float(z.counts.min()) <= float(sigma):
            raise ParameterError("with a discount above 0 every distinct record must weigh more than the discount")
        parameters = ProcessParameters(np.full(draws, float(theta)), np.full(draws, float(sigma)))
    sampler: _Cells | _Values
    if z.domain.finite and (z.domain.size or 0) <= _MOST_CELLS:
        sampler = _Cells(z, records)
    else:
        sampler = _Values(z, parameters, records, tolerance)
    block = max(1, min(draws, _BLOCK // sampler.width))
    starts = range(0, draws, block)
    seeds = rng.integers(2**62, size=len(starts)).tolist()

    def draw(index: int) -> Draws:
        rows = slice(starts[index], starts[index] + block)
        return sampler.draw(parameters.strength[rows], parameters.discount[rows], seeded(seeds[index]))

    numbers: dict[str, Any] = {name: float(values.mean()) for name, values in parameters._asdict().items()}
    numbers |= {"released": z.size, "records": "unknown" if records is None else records, "truncated": sampler.left}
    words: dict[str, Any] = {"notes": _notes(z, parameters, records, theta, sigma), "facts": numbers}
    sampled: dict[str, Any] = {"support": sampler.support, "draws": draws, "block": draw, "blocks": len(starts)}
    return Posterior(domain=z.domain, **sampled, **words)


def _notes(
    z: Released, parameters: ProcessParameters, records: int | None, theta: float | str, sigma: float | str
) -> tuple[str, ...]:
    law, numbers, cautions = "Pitman-Yor", f" of strength {parameters.strength[0]:g}", []
    if parameters.discount.max() == 0.0:
        law = "Dirichlet"
    else:
        numbers += f" and discount {parameters.discount[0]:g}"
    if "learned" in (theta, sigma):
        numbers = ", its parameters learned from the release"
    origin = f"drawn from {records or 0:,} confidential ones that are independent draws of"
    if records is None:
        origin = "a sample of"
        cautions = ["right only where far fewer records were released than are held. Otherwise say how many are held"]
    elif z.urn is None or (theta, sigma) != (z.urn.strength, z.urn.discount):
        cautions = [
            "the release is taken to have been drawn with this prior's own parameters, which is an approximation of "
            "the order m/n otherwise"
        ]
    model = f"taken as {origin} the population, with a {law} process prior{numbers}"
    return (f"given {counted(z.size, 'released record')}, {model}", *cautions)


class _Cells:
    """A finite domain: Dirichlet masses of all its cells."""

    def __init__(self, z: Released, records: int | None) -> None:
        self.width, self.left, self._records = z.domain.size or 1, 0.0, records
        self.support = z.domain.unflat(np.arange(self.width))
        self._base = np.exp(z.domain.log_base(self.support))
        self._counts = np.zeros(self.width)
        self._counts[z.domain.flat(z.records)] = z.counts

    def draw(self, theta: Floats, _sigma: Floats, rng: np.random.Generator) -> Draws:
        alpha = theta[:, None] * self._base
        masses = _normalised(rng.standard_gamma(alpha + self._counts))
        if self._records is not None:
            masses = _normalised(rng.standard_gamma(alpha + rng.multinomial(self._records, masses)))
        return Draws(masses)


class _Values:
    """A base measure without atoms (or too many cells): the released values and a tail drawn from the base measure."""

    def __init__(self, z: Released, parameters: ProcessParameters, records: int | None, tolerance: float) -> None:
        self.support, self._counts, self._domain, self._records = z.records, z.counts, z.domain, records
        k, (strength, discount) = len(z.counts), parameters
        most = float((strength + k * discount).max()), float(discount.max())
        share = float(((strength + k * discount) / (strength + z.size)).max())
        self._plans = [tail_plan(*most, mass=share, tolerance=tolerance)]
        if records is not None:  # at most every confidential record has a value of its own
            values = min(records, k + self._plans[0].sticks + self._plans[0].rest)
            new = float((strength + values * discount).max())
            share = min(1.0, float((new / (strength + records)).max()))
            self._plans.append(tail_plan(new, most[1], mass=share, tolerance=tolerance))
        self.left = max(plan.left for plan in self._plans)
        self.width = k + sum(plan.sticks + plan.rest for plan in self._plans)

    def draw(self, theta: Floats, sigma: Floats, rng: np.random.Generator) -> Draws:
        counts, masses, label = self._counts, np.empty(0), _NEW
        parts: list[Records] = []
        for plan in self._plans:  # given the release, and then given the confidential records
            if parts:
                counts = rng.multinomial(self._records or 0, _normalised(masses)).astype(np.float64)
            strength = theta + (counts > 0).sum(axis=-1) * sigma
            shapes = np.where(counts > 0, counts - sigma[:, None], 0.0)
            shown = _normalised(rng.standard_gamma(np.column_stack((shapes, strength))))
            tail = tail_weights(strength, sigma, plan, rng)
            masses = np.concatenate((shown[:, :-1], shown[:, -1:] * tail), axis=1)
            parts.append(self._domain.draw_base(tail.size, rng, first=label))
            label += tail.size
        rows, k = len(theta), len(self._counts)
        columns = zip(*(part.columns for part in parts), strict=True)
        own = [np.concatenate([codes.reshape(rows, -1) for codes in column], axis=1).ravel() for column in columns]
        return Draws(masses[:, :k], Records(columns=tuple(own)), masses[:, k:])


def _normalised(gammas: Floats) -> Floats:
    return np.asarray(gammas / gammas.sum(axis=1, keepdims=True))
