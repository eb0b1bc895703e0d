"""Dirichlet- and Pitman-Yor-process posteriors given released records.

Theory: docs/theory/posterior-from-a-release.md.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import integer, positive_size
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Records
from discreet.inference._line import Draws
from discreet.inference._posterior import Posterior
from discreet.inference._released import Released, read_release
from discreet.inference._urn.prior import Hyperprior, Prior, known_prior, learned_prior
from discreet.inference._urn.tail import TailPlan, tail_plan, tail_weights

_BLOCK = 2_000_000
_MOST_CELLS = 65_536
_NEW = 10**11  # labels from here on are in no release


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
    held = z.held if n is None else n
    if held is not None:
        positive_size("n", held)
    integer("draws", draws, least=1)
    theta, sigma = given_parameter(z, "strength", strength), given_parameter(z, "discount", discount)
    children = seeded(seed)
    if "learned" in (theta, sigma):
        prior = learned_prior(z, theta, sigma, draws=draws, hyperprior=hyperprior, rng=children)
    else:
        prior = known_prior(z, float(theta), float(sigma), draws=draws)
    notes = _notes(z, prior, held, theta, sigma)
    finite = z.domain.finite and (z.domain.size or 0) <= _MOST_CELLS
    sampler = _Cells(z, prior, held) if finite else _Values(z, prior, held, tolerance)
    block = max(1, min(draws, _BLOCK // sampler.width))
    starts = range(0, draws, block)
    seeds = children.integers(2**62, size=len(starts)).tolist()

    def make(index: int) -> Draws:
        rows = slice(starts[index], min(draws, starts[index] + block))
        return sampler.draw(prior.strength[rows], prior.discount[rows], seeded(seeds[index]))

    return Posterior(
        domain=z.domain,
        support=sampler.support,
        draws=draws,
        block=make,
        blocks=len(starts),
        notes=notes,
        facts={
            "strength": float(prior.strength.mean()),
            "discount": float(prior.discount.mean()),
            "released": z.size,
            "records": "unknown" if held is None else held,
            "truncated": sampler.left,
        },
    )


def given_parameter(z: Released, name: str, value: float | str | None) -> float | str:
    """Return a parameter as given, or the mechanism's own."""
    if value is not None:
        return value
    if z.urn is not None:
        return float(getattr(z.urn, name))
    if name == "discount" and z.certified:
        return 0.0
    raise ParameterError(f"the {name} of the prior is not known. Give a number, or 'learned'")


def _notes(z: Released, prior: Prior, held: int | None, theta: Any, sigma: Any) -> tuple[str, ...]:
    law = "Dirichlet" if float(prior.discount.max()) == 0.0 else "Pitman-Yor"
    learned = "learned" in (theta, sigma)
    numbers = ", its parameters learned from the release" if learned else f" of strength {float(prior.strength[0]):g}"
    if not learned and law == "Pitman-Yor":
        numbers += f" and discount {float(prior.discount[0]):g}"
    origin = f"drawn from {held:,} confidential ones that are independent draws of" if held else "a sample of"
    notes = [
        f"given {counted(z.size, 'released record')}, taken as {origin} the population, with a {law} process "
        f"prior{numbers}"
    ]
    if held is None:
        notes.append("right only where far fewer records were released than are held. Otherwise say how many are held")
    elif z.urn is None or (theta, sigma) != (z.urn.strength, z.urn.discount):
        notes.append(
            "the release is taken to have been drawn with this prior's own parameters, which is an approximation of "
            "the order m/n otherwise"
        )
    return tuple(notes)


class _Cells:
    """A finite domain: Dirichlet masses of all its cells."""

    def __init__(self, z: Released, prior: Prior, held: int | None) -> None:
        self.width, self.left, self._held = z.domain.size or 1, 0.0, held
        self.support = z.domain.unflat(np.arange(self.width))
        self._base = np.exp(z.domain.log_base(self.support))
        self._counts = np.zeros(self.width)
        self._counts[z.domain.flat(z.records)] = z.counts

    def draw(self, theta: Floats, sigma: Floats, rng: np.random.Generator) -> Draws:
        alpha = theta[:, None] * self._base
        masses = _normalised(rng.standard_gamma(alpha + self._counts))
        if self._held is not None:
            masses = _normalised(rng.standard_gamma(alpha + rng.multinomial(self._held, masses)))
        return Draws(masses)


class _Values:
    """A base measure without atoms (or too many cells): the released values and a tail drawn from the base measure."""

    def __init__(self, z: Released, prior: Prior, held: int | None, tolerance: float) -> None:
        self.support, self._counts, self._domain, self._held = z.records, z.counts, z.domain, held
        k, total = len(z.counts), z.size
        mass = float(((prior.strength + k * prior.discount) / (prior.strength + total)).max())
        most = float((prior.strength + k * prior.discount).max()), float(prior.discount.max())
        self._shown = tail_plan(*most, mass=mass, tolerance=tolerance)
        self.left = self._shown.left
        self._hidden: TailPlan | None = None
        if held is not None:
            # At most every confidential record has a value of its own.
            new = float((prior.strength + min(held, k + self._shown.sticks + self._shown.rest) * prior.discount).max())
            share = float((new / (prior.strength + held)).max())
            self._hidden = tail_plan(new, most[1], mass=min(1.0, share), tolerance=tolerance)
            self.left = max(self.left, self._hidden.left)
        self.width = k + sum(plan.sticks + plan.rest for plan in (self._shown, self._hidden) if plan)

    def draw(self, theta: Floats, sigma: Floats, rng: np.random.Generator) -> Draws:
        k = len(self._counts)
        strength = theta + k * sigma
        shown = _normalised(rng.standard_gamma(np.column_stack((self._counts - sigma[:, None], strength))))
        tail = tail_weights(strength, sigma, self._shown, rng)
        masses = np.concatenate((shown[:, :k], shown[:, k:] * tail), axis=1)
        own = [self._domain.draw_base(tail.size, rng, first=_NEW)]
        if self._held is not None and self._hidden is not None:
            counts = rng.multinomial(self._held, _normalised(masses))
            strength = theta + (counts > 0).sum(axis=1) * sigma
            shapes = np.where(counts > 0, counts - sigma[:, None], 0.0)
            kept = _normalised(rng.standard_gamma(np.column_stack((shapes, strength))))
            more = tail_weights(strength, sigma, self._hidden, rng)
            masses = np.concatenate((kept[:, :-1], kept[:, -1:] * more), axis=1)
            own.append(self._domain.draw_base(more.size, rng, first=_NEW + tail.size))
        rows = len(theta)
        columns = [
            np.concatenate([part.columns[at].reshape(rows, -1) for part in own], axis=1).ravel()
            for at in range(len(own[0].columns))
        ]
        return Draws(masses[:, :k], Records(columns=tuple(columns)), masses[:, k:])


def _normalised(gammas: Floats) -> Floats:
    return np.asarray(gammas / gammas.sum(axis=1, keepdims=True))
