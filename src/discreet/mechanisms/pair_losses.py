"""What a release of ``marginals`` loses of pairs of columns, by its noisy tables, and what it can show beforehand.

All of it is public. Theory: docs/theory/marginals.md, "What is lost".
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet.mechanisms.chosen_tables import most_runs
from discreet.mechanisms.latent_classes import LatentClasses, Pair, centred
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.wide_facts import HALF_FOLDED, WideFacts, table_cost

if TYPE_CHECKING:
    from discreet.mechanisms.measured_tables import MeasuredTables

LEVEL = 0.95
"""Probability with which the bound on all pairs that were not measured holds."""

# The share of a large count's noise that a model follows, found on tables whose truth is known (benchmarks).
_FOLLOWED, _LINKED, _MOST = 20.0, 0.9, 0.95
_INDEPENDENT, _DEPENDENT = 0.6, 3.0  # of it, in a pair of independent columns, and what dependence adds
_SMALL = 1.5  # standard errors of noise: cells below keep less of it
_GUESSES = 0.5 * np.array([-1.5, -0.75, 0.0, 0.75, 1.5])  # logarithms: how far off that share may be
_MISFITS = np.concatenate(([0.0], np.geomspace(0.2, 20.0, 10)))  # of the model, in standard errors of noise
_ROUGH = 0.07  # share of an estimate that is added to its standard error


class PairLoss(NamedTuple):
    """What share of the records is elsewhere in the model's table of two columns, estimated, on merged cells."""

    columns: Pair
    loss: float  # total variation from the confidential table
    error: float  # standard error


def pair_losses(measured: MeasuredTables, model: LatentClasses) -> list[PairLoss]:
    """Estimate what a model loses of each measured pair, the largest loss first."""
    # The noisy table less the model's is misfit and the noise that the model did not follow; its error is misfit and
    # the noise that it did. The posterior over both shares has a flat prior.
    tables, columns = _ModelTables(measured, model), {i for pair in measured.excess for i in pair}
    sizes = measured.choice.counts
    numbers = sum((sizes[i] - 1) * (sizes[j] - 1) for i, j in measured.excess)
    followed = _FOLLOWED / (_FOLLOWED + numbers / max(1, sum(sizes[i] for i in columns)))
    losses = []
    for (i, j), noisy in measured.excess.items():
        if min(sizes[i], sizes[j]) < 2:
            continue
        expected, modelled = measured.expected[i, j], measured.total * tables.pair(i, j)
        share = followed * (_INDEPENDENT + 0.5 * _DEPENDENT * np.abs(modelled - expected).sum() / measured.total)
        share = min(_MOST, max(share, _LINKED * tables.linked(i, j)))
        free = (1.0 - 1.0 / sizes[i]) * (1.0 - 1.0 / sizes[j])  # of noise, what tables of one column do not tell
        residual = centred(noisy.excess + expected - modelled)
        loss, error = _posterior(residual.ravel(), noisy.error.ravel(), modelled.ravel(), share, free)
        losses.append(PairLoss((i, j), min(1.0, loss / measured.total), error / measured.total))
    return sorted(losses, key=lambda pair: -pair.loss)


def _posterior(residual: Floats, error: Floats, modelled: Floats, share: float, free: float) -> tuple[float, float]:
    """Return mean and standard deviation of half the sum of the absolute errors of modelled counts."""
    from scipy.special import ndtr

    size = np.maximum(modelled, 0.0) / error
    size /= size + _SMALL
    noise = free * error**2
    followed = np.minimum(0.98, share * np.exp(_GUESSES))[:, None, None] * noise * size
    misfit = (_MISFITS**2)[None, :, None] * error**2 * size
    variance = misfit + noise - followed
    kept = misfit / variance
    fit = -0.5 * free * (np.log(variance) + residual**2 / variance).sum(axis=-1) - (2.0 * _GUESSES[:, None] ** 2)
    mean, spread = kept * residual, kept * (noise - followed) + followed + 1e-12
    deviation = np.sqrt(spread)
    folded = deviation * math.sqrt(2.0 / math.pi) * np.exp(-0.5 * mean**2 / spread)
    folded += mean * (1.0 - 2.0 * ndtr(-mean / deviation))
    losses = 0.5 * folded.sum(axis=-1)
    variances = 0.25 * (mean**2 + spread - folded**2).sum(axis=-1) / free
    weight = np.exp(fit - fit.max())
    weight /= weight.sum()
    loss = float((weight * losses).sum())
    return loss, math.sqrt(float((weight * (variances + (losses - loss) ** 2)).sum()) + (_ROUGH * loss) ** 2)


def hidden_dependence(measured: MeasuredTables, n: int | None) -> tuple[int, float]:
    """Return how many pairs were not measured, and the largest share of the records that any of them may hide.

    That is a bound on the total variation of each one's table, on merged cells, from some table of independent columns.
    With probability :data:`LEVEL` no score's noise, nor that of the total, is so far below zero that it fails.

    ``n``: number of records, where it is public.
    """
    from scipy.special import ndtri

    choice, facts = measured.choice, measured.facts
    squared, pairs = facts.score_units or 1, facts.pairs
    scale, level = math.isqrt(squared) * facts.scale, LEVEL ** (1.0 / (len(pairs) + (n is None)))
    reach = int(-scale * ndtri(1.0 - level)) - 1
    while math.exp(GAUSSIAN.log_below(scale, -reach)) > 1.0 - level:
        reach += 1
    sums, units = np.array([table.total() for table in choice.one_way]).T
    least = float(sums @ units / units.sum()) + float(ndtri(1.0 - level)) * facts.scale / math.sqrt(units.sum())
    least = float(n) if n is not None else max(1.0, min(choice.total, least))
    unmeasured = [
        max(0.0, (score + reach) / squared) + max(0.0, float(choice.expected(*pair).sum()) - least)
        for pair, score in zip(pairs, measured.scores.tolist(), strict=True)
        if pair not in measured.two_way
    ]
    return len(unmeasured), min(1.0, max(unmeasured, default=0.0) / least)


def visible_dependence(facts: WideFacts, n: int) -> float:
    """Return how strong a relation must be to be measured in half of the releases, as a share of ``n`` records.

    In a table in which as many pairs as there are columns are related, all by as much, and no others. By public facts:
    columns stand for one of the median size.
    """
    columns, pairs, scale = len(facts.sizes), max(1, len(facts.pairs)), facts.scale
    bins = most_runs(n * math.sqrt(facts.units) / (scale * columns))
    cells = max(2.0, float(np.median(np.minimum(facts.sizes, bins))))
    related, allocation = min(pairs, columns), facts.allocation
    cost = table_cost(cells, cells) ** (2.0 / 3.0)
    costs = float((allocation.cost ** (2.0 / 3.0) * allocation.copies ** (1.0 / 3.0)).sum()) + related * cost
    worth = 1.5 * scale * cost * math.sqrt(costs / facts.units)  # what the least table must gain
    part, noise = related / pairs, scale**2 / (facts.score_units or 1)
    scores = np.geomspace(1e-4 * n, n, 2_000)
    spread = part * (1.0 - part) * scores**2
    shrunk = spread / (spread + noise) if part < 1.0 else np.ones_like(scores)
    clear = scores[scores * (part + shrunk * (1.0 - part)) >= worth]
    q = float(np.median(allocation.first))
    one_way = 2.0 * (scale / q) ** 2 * float(np.median(facts.sizes)) / cells**3
    usual, expected = 2.0 * scale**2 * pairs / facts.units, n / cells**2
    lost = math.sqrt(expected * usual / (expected + usual) + one_way)
    scatter = cells**2 * min(HALF_FOLDED * lost, expected + HALF_FOLDED * math.sqrt(one_way))
    return min(1.0, (float(clear[0]) + scatter) / n) if len(clear) else 1.0


class _ModelTables:
    """The tables of two columns that a model's records have on average, on merged cells, as shares."""

    def __init__(self, measured: MeasuredTables, model: LatentClasses) -> None:
        self._choice, self._shares = measured.choice, model.shares
        self._blocks = {i: block for block in model.blocks for i in block.columns}
        self._masses: dict[int, Floats] = {}

    def linked(self, i: int, j: int) -> bool:
        """Return whether one of the columns is drawn given the other."""
        return i in self._above(j)[1:2] or j in self._above(i)[1:2]

    def pair(self, i: int, j: int) -> Floats:
        """Return the table of two columns."""
        a, b = self._merging(i), self._merging(j)
        block = self._blocks[i]
        if block is self._blocks[j]:
            return a @ ((block.inside @ self._shares)[:, None] * b.T)
        tops = [column for column in self._above(i) if column in self._above(j)]
        if not tops:
            return np.asarray(a @ (self._mass(i) / self._shares) @ (b @ self._mass(j)).T)
        mass, table = self._mass(tops[0]), np.zeros((len(a), len(b)))
        for c in range(len(self._shares)):
            first, second = a @ self._given(i, tops[0], c).T, b @ self._given(j, tops[0], c).T
            table += (first * mass[:, c]) @ second.T
        return table

    def _above(self, column: int) -> list[int]:
        """Return a column, the one that it is drawn given, and so on."""
        link = self._blocks[column].link
        return [column, *([] if link is None else self._above(link.column))]

    def _merging(self, column: int) -> Floats:
        """Return which merged cell each cell of a block is in, shape (merged cells, cells)."""
        block, merged = self._blocks[column], self._choice.merged[column]
        cells = block.codes[block.columns.index(column)]
        if block.within is not None:
            merged = merged.grouping(self._choice.fine[column])
        return np.asarray(np.arange(merged.count)[:, None] == merged.cell_of[cells], dtype=np.float64)

    def _mass(self, column: int) -> Floats:
        """Return the share of records that has each cell of a column's block and each class."""
        if column not in self._masses:
            block = self._blocks[column]
            mass = block.inside * self._shares
            if block.link is not None:
                factors, parents = block.link.factors, self._mass(block.link.column)
                mass = block.inside * (factors.T @ (parents / np.maximum(factors @ block.inside, 1e-300)))
            self._masses[column] = mass
        return self._masses[column]

    def _given(self, column: int, top: int, c: int) -> Floats:
        """Return the probabilities of a column's cells given each cell of one above it, in a class."""
        block = self._blocks[column]
        if column == top or block.link is None:
            return np.eye(len(block.inside))
        step = block.link.factors * block.inside[:, c]
        step /= np.maximum(step.sum(axis=1, keepdims=True), 1e-300)
        return np.asarray(self._given(block.link.column, top, c) @ step)
