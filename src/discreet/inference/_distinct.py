r"""The confidential counts given distinct records, of which some were replaced by uniform cells: exact draws.

Which released records are the table's own is not known. With the probability ``q`` of a replacement, ``k`` cells and
``Z_j`` released records of a cell, the numbers ``K_j`` of own ones have, under a prior of the population ``p``,

.. math:: P(K \mid Z) \propto E\Bigl[\prod_j p_j^{K_j}\Bigr] \prod_j \binom{Z_j}{K_j} \Bigl(\frac{(1-q)k}q\Bigr)^{K_j},

a product over cells and over the number of all own records. They are records of the table; the others of it are further
draws of the population.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet.inference._prior import Prior, log_prior
from discreet.inference._sums import Law, Level, Sums, nothing


def given_distinct(
    mixing: float, prior: Prior, records: int, drawn: Integers, draws: int, rng: np.random.Generator
) -> Floats:
    """Draw the counts of ``records`` confidential records, a row each.

    ``mixing``: probability that a released record is a uniform cell.
    ``drawn``, shape (k,): released records of each cell.
    """
    own = np.zeros((draws, len(drawn)), dtype=np.int64) if mixing >= 1.0 else _own(mixing, prior, drawn, draws, rng)
    others = rng.multinomial(records - own.sum(axis=1), prior.masses(own.astype(np.float64), rng))
    return np.asarray(own + others, dtype=np.float64)


def _own(mixing: float, prior: Prior, drawn: Integers, draws: int, rng: np.random.Generator) -> Integers:
    """Draw how many released records of each cell are the table's own."""
    from scipy.special import gammaln

    size, strength = int(drawn.sum()), float((prior.levels[-1].masses if prior.levels else prior.alpha).sum())
    odds = math.log((1.0 - mixing) * len(drawn) / mixing)
    each = math.log(strength + (1.0 - mixing) * size)  # taken off every record: it changes no draw, only precision

    def law(alpha: float, z: int) -> Law:
        k = np.arange(z + 1.0)
        return Law.of(0, log_prior(alpha, k) + gammaln(z + 1.0) - gammaln(z - k + 1.0) + (odds - each) * k)

    kinds = {pair: law(*pair) for pair in zip(prior.alpha.tolist(), drawn.tolist(), strict=True)}
    laws = [kinds[pair] for pair in zip(prior.alpha.tolist(), drawn.tolist(), strict=True)]
    replaced = np.arange(size + 1.0)
    rest = Law.of(0, gammaln(strength) - gammaln(strength + size - replaced) - each * replaced)
    levels = [
        Level(np.append(level.of, len(level.masses)), [*(_weight(a, level.strength) for a in level.masses), nothing])
        for level in prior.levels
    ]
    return Sums([*laws, rest], size, levels).draw(draws, rng)[:, :-1]


def _weight(mass: float, strength: float) -> Callable[[Integers], Floats]:
    def weight(numbers: Integers) -> Floats:
        counts = numbers.astype(np.float64)
        return log_prior(mass, counts) - log_prior(strength, counts)

    return weight
