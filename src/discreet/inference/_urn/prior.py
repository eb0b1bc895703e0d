r"""Strength and discount of a process prior: known, or learned from a release.

The likelihood of ``m`` records with ``k`` distinct values and frequencies :math:`m_l` is the exchangeable partition
probability function :math:`\frac{\prod_{i=1}^{k-1}(\theta+i\sigma)}{(\theta+1)_{m-1}}\prod_l(1-\sigma)_{m_l-1}`; on a
finite domain, with :math:`\sigma=0`, it is :math:`\prod_l(\theta H(l))_{m_l}/(\theta)_m`. It is evaluated on a grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.checks import real
from discreet._core.errors import ParameterError
from discreet._core.numeric import log_rising
from discreet.inference._released import Released

Hyperprior = Callable[[Floats, Floats], Any]

_STRENGTHS, _DISCOUNTS = 600, 120
_SPAN = (-12.0, 18.0)  # of log(strength + discount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prior:
    """Strength and discount of each draw.

    ``strength``, ``discount``, shape (draws,): ``strength > -discount``, ``0 <= discount < 1``.
    """

    strength: Floats
    discount: Floats


def known_prior(z: Released, strength: float, discount: float, *, draws: int) -> Prior:
    """Return the same parameters for every draw.

    Raises ParameterError when they are out of range, or the discount is above 0 on a finite domain.
    """
    _check(z, discount)
    real("strength", strength, above=0.0 - discount)
    if discount > 0.0 and float(z.counts.min()) <= discount:
        raise ParameterError("with a discount above 0 every distinct record must weigh more than the discount")
    return Prior(strength=np.full(draws, strength), discount=np.full(draws, discount))


def _check(z: Released, discount: float) -> None:
    if real("discount", discount, least=0, below=1) > 0.0 and z.domain.finite:
        raise ParameterError(
            "with a finite domain a discount above 0 has no closed form, since equal records need not share a table. "
            "Take discount 0"
        )


def log_partition(counts: npt.ArrayLike, strength: Floats, discount: Floats) -> Floats:
    """Return the log-probability (nats) of a partition under Pitman-Yor parameters, up to nothing: the exact EPPF.

    ``counts``, shape (k,): frequencies.
    ``strength``, ``discount``: of one shape, ``strength > -discount``.

    Examples
    --------
    >>> round(float(np.exp(log_partition([1, 1], np.array([1.0]), np.array([0.5]))[0])), 12)
    0.75
    """
    sizes, times = np.unique(np.asarray(counts, dtype=np.float64), return_counts=True)
    k, m = float(times.sum()), float((sizes * times).sum())
    theta, sigma = np.asarray(strength, dtype=np.float64), np.asarray(discount, dtype=np.float64)
    safe = np.where(sigma > 0.0, sigma, 1.0)
    opened = np.where(
        sigma > 0.0,
        (k - 1.0) * np.log(safe) + log_rising(np.where(sigma > 0.0, theta / safe + 1.0, 1.0), k - 1.0),
        (k - 1.0) * np.log(np.where(theta > 0.0, theta, 1.0)),
    )
    total = opened - log_rising(theta + 1.0, m - 1.0)
    levels, place = np.unique(sigma, return_inverse=True)
    within = np.zeros(len(levels))
    for size, number in zip(sizes, times, strict=True):
        within += number * log_rising(1.0 - levels, size - 1.0)
    return np.asarray(total + within[place].reshape(sigma.shape), dtype=np.float64)


def learned_prior(
    z: Released,
    strength: float | str,
    discount: float | str,
    *,
    draws: int,
    hyperprior: Hyperprior | None,
    rng: np.random.Generator,
) -> Prior:
    """Draw parameters from their posterior given the release, on a grid, spread evenly within its cells.

    Raises ParameterError when weights are not whole numbers, or a parameter that is given is out of range.
    """
    if not np.array_equal(z.counts, np.rint(z.counts)):
        raise ParameterError("strength and discount are learned from whole records, not from weights")
    width = (_SPAN[1] - _SPAN[0]) / _STRENGTHS
    if discount == "learned" and not z.domain.finite:
        sigmas, step = (np.arange(_DISCOUNTS) + 0.5) / _DISCOUNTS, 1.0 / _DISCOUNTS
    else:
        only = 0.0 if discount == "learned" else float(discount)
        _check(z, only)
        sigmas, step = np.array([only]), 0.0
    if strength == "learned":
        logs = _SPAN[0] + (np.arange(_STRENGTHS) + 0.5) * width
        sums, sigma = (part.ravel() for part in np.meshgrid(np.exp(logs), sigmas, indexing="ij"))
        theta, stretch = sums - sigma, width
    else:
        sigma, stretch = sigmas[float(strength) > -sigmas], 0.0
        theta = np.full(len(sigma), float(strength))
        if not len(sigma) or sigma.max() == 0.0:
            real("strength", float(strength), above=0.0 - sigmas[-1])
    log = _likelihood(z, theta, sigma)
    if hyperprior is not None:
        log = log + np.asarray(hyperprior(theta, sigma), dtype=np.float64)
    else:
        log = log - 2.0 * np.log1p(theta + sigma)
    log = log + (np.log(theta + sigma) if stretch else 0.0)  # the grid is even in the logarithm of strength + discount
    mass = np.exp(log - log.max())
    picked = rng.choice(len(mass), size=draws, p=mass / mass.sum())
    found = np.clip(sigma[picked] + step * (rng.random(draws) - 0.5), 0.0, 1.0 - 1e-9)
    shown = (theta + sigma)[picked] * np.exp(stretch * (rng.random(draws) - 0.5))
    return Prior(strength=shown - found if stretch else theta[picked], discount=found)


def _likelihood(z: Released, theta: Floats, sigma: Floats) -> Floats:
    if not z.domain.finite:
        return log_partition(z.counts, theta, sigma)
    base = np.exp(z.domain.log_base(z.records))
    total = -log_rising(theta, z.size)
    for share, count in zip(base, z.counts, strict=True):
        total = total + log_rising(theta * share, count)
    return np.asarray(total, dtype=np.float64)
