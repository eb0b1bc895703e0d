"""Losses of pairs of columns in a release of ``marginals``, by its noisy tables alone: docs/theory/marginals.md."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from discreet._core.lazy import special
from discreet._core.numeric import Floats, Integers
from discreet._core.random import seeded
from discreet.domain import inner_half
from discreet.mechanisms.chosen_tables import OneWay, most_runs
from discreet.mechanisms.latent_classes import LatentClasses, Pair, PairTable, centred, nearest_table
from discreet.mechanisms.noise import GAUSSIAN
from discreet.mechanisms.wide_facts import HALF_FOLDED, USUAL, WideFacts, table_cost
from discreet.privacy import Code

if TYPE_CHECKING:
    from discreet.mechanisms.measured_tables import MeasuredTables

LEVEL = 0.95  # probability with which the bound on all pairs that were not measured holds
# The share of noise that a model fits in a large count: found on tables whose truth is known.
_OVERFIT, _LINKED, _MOST, _LARGEST = 20.0, 0.9, 0.95, 0.98
_INDEPENDENT, _DEPENDENT = 0.6, 3.0  # of that share, in a pair of independent columns, and what dependence adds
_SMALL = 1.5  # standard errors of noise: of such a count it is half
_UNSEEN = 0.25  # of an independent column's count, which a cell may have though noise hides it
_GUESSES = 0.5 * np.array([-1.5, -0.75, 0.0, 0.75, 1.5])  # logarithms of by how much it may be off
_MISFITS = np.concatenate(([0.0], np.geomspace(0.2, 20.0, 10)))  # of the model, in standard errors of noise
_CONTRADICTED, _NOISES, _LEAST_GAP = 1.0, 1.25, 0.06
_ERRORS, _LEAST_LOST = 3.0, 0.03  # standard errors of a covariance; of a correlation that a model misses
_ROUGH = 0.1  # share of an estimate that is part of its standard error


def pair_losses(measured: MeasuredTables, model: LatentClasses) -> list[tuple[float, float, Pair]]:
    """Estimate what a model loses of each measured pair, the largest loss first; with its standard error."""
    # A loss is the total variation of the model's table, on merged cells, from the confidential one.
    sizes, total = measured.choice.counts, measured.total
    pairs = {(i, j): table for (i, j), table in measured.excess.items() if min(sizes[i], sizes[j]) > 1}
    if not pairs:
        return []
    numbers = float(np.prod(np.array(sizes)[np.array(list(pairs))] - 1, axis=1).sum())
    usual = _OVERFIT / (_OVERFIT + numbers / float(np.array(sizes)[np.unique(list(pairs))].sum()))
    links = {(i, block.link.column) for block in model.blocks if block.link is not None for i in block.columns}
    losses = []
    tables = {pair: table for column in model.last.values() for pair, table in column.tables.items()}
    rest = [pair for pair in pairs if pair not in tables]
    tables |= zip(rest, model_tables(measured, model, rest), strict=True)
    for (i, j), noisy in pairs.items():
        expected, model_counts = measured.expected[i, j], total * tables[i, j] / measured.use.share((i, j))
        share = usual * (_INDEPENDENT + 0.5 * _DEPENDENT * float(np.abs(model_counts - expected).sum()) / total)
        if {(i, j), (j, i)} & links:
            share = max(share, _LINKED)
        free = (1.0 - 1.0 / sizes[i]) * (1.0 - 1.0 / sizes[j])  # of noise, what tables of one column do not tell
        residual = centred(noisy.excess + expected - model_counts)
        counts = np.maximum(model_counts, 0.0) + _UNSEEN * expected
        loss, error = _posterior(residual.ravel(), noisy.error.ravel(), counts.ravel(), min(_MOST, share), free)
        losses.append((min(1.0, loss / total), min(1.0, error / total), (i, j)))
    return sorted(losses, reverse=True)


def _posterior(residual: Floats, error: Floats, counts: Floats, share: float, free: float) -> tuple[float, float]:
    """Return mean and standard deviation of half the sum of the absolute errors of a model's counts."""
    # A residual is misfit and the noise that the model did not fit; the model's error is misfit and the noise that it
    # did. Priors: of the misfit's size flat on a grid, of the share of noise log-normal.
    size, noise = counts / (counts + _SMALL * error), free * error**2
    fitted_noise = np.minimum(_LARGEST, share * np.exp(_GUESSES))[:, None, None] * noise * size
    misfit = (_MISFITS**2)[None, :, None] * error**2 * size
    variance = misfit + noise - fitted_noise
    weight = -0.5 * free * (np.log(variance) + residual**2 / variance).sum(axis=-1) - 2.0 * _GUESSES[:, None] ** 2
    weight = np.exp(weight - weight.max())
    weight /= weight.sum()
    mean = misfit / variance * residual
    spread = misfit / variance * (noise - fitted_noise) + fitted_noise + 1e-12
    folded_mean = 2.0 * HALF_FOLDED * np.sqrt(spread) * np.exp(-0.5 * mean**2 / spread)
    folded_mean += mean * (1.0 - 2.0 * special.ndtr(-mean / np.sqrt(spread)))
    losses = 0.5 * folded_mean.sum(axis=-1)
    loss = float((weight * losses).sum())
    variances = 0.25 * (mean**2 + spread - folded_mean**2).sum(axis=-1) / free + (losses - loss) ** 2
    return loss, math.hypot(math.sqrt(float((weight * variances).sum())), _ROUGH * loss)


def hidden_dependence(measured: MeasuredTables, *, exact: bool) -> float:
    """Return a bound on the share of the records that is elsewhere than in some table of independent columns."""
    # With probability LEVEL it holds for all pairs that were not measured: no noise of scores or total is so negative.
    choice, facts = measured.choice, measured.facts
    squared = facts.score_units or 1
    scale, tail = math.isqrt(squared) * facts.scale, 1.0 - LEVEL ** (1.0 / (len(facts.pairs) + (not exact)))
    reach = int(-scale * special.ndtri(tail)) - 1
    while math.exp(GAUSSIAN.log_below(scale, -reach)) > tail:
        reach += 1
    total = float(facts.records)
    if not exact:
        sums, units = np.array([table.total() for table in choice.one_way]).T
        least = float(sums @ units / units.sum()) + float(special.ndtri(tail)) * facts.scale / math.sqrt(units.sum())
        total = max(1.0, min(choice.total, least))
    bounds = [
        max(0.0, (score + reach) / squared) + max(0.0, float(choice.expected(*pair).sum()) - total)
        for pair, score in zip(facts.pairs, measured.scores.tolist(), strict=True)
        if pair not in measured.two_way
    ]
    return min(1.0, max(bounds, default=0.0) / total)


def moved_share(facts: WideFacts, i: int, n: int) -> float:
    """Return what share of the records noise moves in a column, or how far, on average over four draws of it."""
    shares = inner_half(list(facts.domain.measured_columns.values())[i], np.arange(facts.sizes[i]))
    shares = shares / shares.sum()
    counts, nodes = np.rint(n * shares).astype(np.int64), facts.nodes[i]
    if nodes is not None:
        counts = nodes.sums(counts)
    multiples, units = facts.multiples[i], float(facts.allocation.spread(USUAL)[i])
    error = facts.scale / (math.sqrt(units) * multiples)
    # normal variables that are the same with every version of NumPy: a certificate's share rests on them
    bits = seeded(0).bit_generator.random_raw(4 * facts.lengths[i]).reshape(4, -1)
    normal = special.ndtri(((bits >> np.uint64(11)) + 0.5) * 2.0**-53)
    noisy = [OneWay(counts + np.rint(error * noise), 1.0, nodes) for noise in normal]
    differences = np.array([table.shares(float(n)) - shares for table in noisy])
    if nodes is not None:
        return float(np.abs(np.cumsum(differences, axis=1)).mean())
    return float(0.5 * np.abs(differences).sum(axis=1).mean())


def visible_dependence(facts: WideFacts, n: int) -> float:
    """Return how strong a relation must be to be measured in half of the releases, as a share of ``n`` records."""
    # In a table in which as many pairs as there are columns are related, all by as much, and no others.
    columns, pairs, scale, allocation = len(facts.sizes), len(facts.pairs), facts.scale, facts.allocation
    runs = most_runs(n * math.sqrt(facts.units) / (scale * columns))
    cells = max(2.0, float(np.median(np.minimum(facts.sizes, runs))))
    cost, related = table_cost(cells, cells) ** (2.0 / 3.0), min(pairs, columns)
    costs = float((allocation.cost ** (2.0 / 3.0) * allocation.copies ** (1.0 / 3.0)).sum()) + related * cost
    least = 1.5 * scale * cost * math.sqrt(costs / facts.units)  # what a table must gain to be worth its noise
    part, noise = related / pairs, scale**2 / (facts.score_units or 1)
    scores = np.geomspace(1e-4 * n, n, 2_000)
    spread = part * (1.0 - part) * scores**2
    gains = scores * (part + (1.0 - part) * spread / (spread + noise))
    one_way = 2.0 * (scale / float(np.median(allocation.first))) ** 2 * float(np.median(facts.sizes)) / cells**3
    usual, expected = 2.0 * scale**2 * pairs / facts.units, n / cells**2
    lost = math.sqrt(expected * usual / (expected + usual) + one_way)
    scatter = cells**2 * min(HALF_FOLDED * lost, expected + HALF_FOLDED * math.sqrt(one_way))
    return min(1.0, (float(scores[gains >= least].min(initial=n)) + scatter) / n)


def released_cells(measured: MeasuredTables, pairs: Sequence[Pair]) -> Integers:
    """Return which cell of a column follows from each cell of another: the largest of their released tables' sum."""
    choice, tables, masses, groups = measured.choice, list[Floats](), list[Floats](), list[Integers]()
    for source, target in pairs:
        pair = min(source, target), max(source, target)
        cells = dict(zip(pair, choice.cells(pair), strict=True))
        table = measured.noisy.get(pair, choice.expected(*pair))
        if source > target:
            table = table.T
        shares = {i: measured.one_way[i].shares(measured.total) for i in pair}
        by_cell = table[np.ix_(cells[source].cell_of, cells[target].cell_of)]
        tables.append(by_cell * cells[source].within(shares[source])[:, None])
        masses.append(shares[target])
        groups.append(cells[target].cell_of)
    # of cells that are merged in all tables, the one with the largest share
    group_of, mass = np.unique(groups, axis=1, return_inverse=True)[1].ravel(), np.sum(masses, axis=0)
    largest = np.sort([np.where(group_of == group, mass, -1.0).argmax() for group in range(group_of.max() + 1)])
    return np.asarray(largest[np.sum(tables, axis=0)[:, largest].argmax(axis=1)])


def pair_codes(tables: MeasuredTables, measured: Sequence[Pair], *, several: bool) -> Iterator[Code]:
    """Say which two-way tables were measured, and of several released tables which of those are mostly noise."""

    def names(measured: Sequence[tuple[int, ...]]) -> list[str]:
        return ["*".join(tables.facts.domain.names[i] for i in columns) for columns in sorted(measured)]

    pairs = tables.choice.candidates
    numbers = {"measured": len(measured), "pairs": len(pairs)}
    if not pairs:
        yield Code("one-column")
    elif not measured:
        yield Code("no-pair-measured")
    elif len(pairs) == 1:
        yield Code("only-pair-measured")
    elif not several:
        yield Code("pairs-measured", numbers)
    else:
        yield Code("named-pairs-measured", {**numbers, "tables": names(measured)})
        pair_tables = [table for table in tables.tables() if len(table.columns) == 2]
        # below the standard error of their noise are the counts of more than a third of the cells
        faint = [table.columns for table in pair_tables if float((table.counts < table.errors).mean()) > 1.0 / 3.0]
        if faint:
            yield Code("faint-tables", {"tables": names(faint)})


def model_tables(measured: MeasuredTables, model: LatentClasses, pairs: Iterable[Pair]) -> Iterator[Floats]:
    """Yield the tables of pairs of columns that a model's records have on average, on merged cells, as shares."""
    blocks = {i: block for block in model.blocks for i in block.columns}
    cells: dict[int, Integers] = {}  # of each column, that of each cell of its block
    paths: dict[int, list[int]] = {}  # of each column: it, the one that it is drawn given, and so on
    masses: dict[int, Floats] = {}  # of a block's cells and each class
    for i, block in blocks.items():
        cells[i], paths[i], masses[i] = block.codes[block.columns.index(i)], [i], block.inside * model.shares
        if (link := block.link) is not None:  # of a column that is drawn before
            paths[i] += paths[link.column]
            shares = masses[link.column] / np.maximum(link.factors @ block.inside, 1e-300)
            masses[i] = np.where(link.present, block.inside * (link.factors.T @ shares), masses[i])
    for source, target, cell_of in model.dependencies:
        blocks[target], paths[target], masses[target] = blocks[source], paths[source], masses[source]
        cells[target] = cell_of[cells[source]]
    levels = measured.choice.merged
    merging = {i: np.eye(levels[i].count)[levels[i].cell_of[cells[i]]] for i in blocks}  # to merged cells
    for i, j in pairs:
        common = [column for column in paths[i] if column in paths[j]]
        if blocks[i] is blocks[j]:
            yield merging[i].T @ (masses[i].sum(axis=1)[:, None] * merging[j])
        elif not common:
            yield merging[i].T @ masses[i] / model.shares @ (merging[j].T @ masses[j]).T
        else:
            table = np.zeros((merging[i].shape[1], merging[j].shape[1]))
            for c, mass in enumerate(masses[common[0]].T):
                sides = [merging[i], merging[j]]
                for place, column in enumerate((i, j)):
                    for child in paths[column][: paths[column].index(common[0])]:
                        step = blocks[child].link.factors * blocks[child].inside[:, c]  # type: ignore[union-attr]
                        sides[place] = step / np.maximum(step.sum(axis=1, keepdims=True), 1e-300) @ sides[place]
                table += (sides[0] * mass[:, None]).T @ sides[1]
            yield table


def clear_covariance(
    measured: MeasuredTables, pair: Pair, table: PairTable, margins: tuple[Floats, Floats], errors: float
) -> tuple[Floats, float]:
    """Return the covariance of two columns as an orthonormal row, and a unit of it as correlation; or no row."""
    # There is one where the columns are ordered or have two cells, and the covariance is so many standard errors large.
    (a, b), counts = table.excess.shape, measured.choice.counts
    level = measured.values[(a, b) != (counts[pair[0]], counts[pair[1]])]
    rows, sizes = [level[i][0] for i in pair], [len(level[i]) for i in pair]
    lengths = float(np.linalg.norm(rows[0]) * np.linalg.norm(rows[1]))
    if lengths > 0.0 and (sizes[0] == 1 or a == 2) and (sizes[1] == 1 or b == 2) and a * b > 4:
        covariance = np.outer(*rows).ravel() / lengths
        error = math.sqrt(float(covariance**2 @ np.broadcast_to(table.error, (a, b)).ravel() ** 2))
        if abs(float(covariance @ table.excess.ravel())) > errors * error:
            variances = [float(side @ row**2 - (side @ row) ** 2) for row, side in zip(rows, margins, strict=True)]
            return covariance[None], lengths / math.sqrt(max(math.prod(variances), 1e-300))
    return np.empty((0, a * b)), 0.0


def strong_pairs(measured: MeasuredTables, model: LatentClasses, rng: np.random.Generator) -> dict[Pair, Floats]:
    """Return tables of pairs that a model misses by more than noise, the clearest first and without circles."""
    # Each is the nearest table without negative counts, on fine cells. A pair is missed by the share of the records
    # that is elsewhere, or by its correlation, which a few records of long tails can decide. What noise does to the
    # share is found by adding noise once more. Columns that are constrained, published or asked for are drawn by the
    # model alone.
    choice, total, missed, strong = measured.choice, measured.total, [], dict[Pair, Floats]()
    free = {block.columns[0]: block for block in model.blocks if block.within is not None}
    shares = measured.column_shares()
    for pair, q in choice.pairs:
        if not free.keys() >= set(pair):
            continue
        used = measured.use.share(pair)
        modelled = (free[pair[0]].inside * model.shares) @ free[pair[1]].inside.T / used
        if pair not in choice.clear:
            modelled = choice.summed(pair, modelled)
        runs, masses = [choice.merged[i] for i in pair], [measured.fine_shares[i] for i in pair]
        sides = zip(runs, masses, choice.cells(pair), measured.margins[pair], strict=True)
        a, b = [cells.sums(side[run.cell_of] * run.within(mass)) for run, mass, cells, side in sides]
        error = measured.facts.scale / q / total / used
        excess = centred(measured.noisy[pair] / total / used - np.outer(a, b))
        noisy = np.outer(a, b) + excess
        covariance, unit = clear_covariance(measured, pair, PairTable(excess, np.array(error)), (a, b), _ERRORS)
        lost = unit * (float(np.abs(covariance @ (noisy - modelled).ravel()).sum()) - _ERRORS * error)
        if lost < _LEAST_LOST and float(((noisy - modelled) ** 2).mean()) < _CONTRADICTED * error**2:
            continue
        table = nearest_table(noisy, a, b, covariance)
        noisier = nearest_table(table + centred(error * rng.normal(size=table.shape)), a, b, covariance[:0])
        noise, gap = (0.5 * float(np.abs(other - table).sum()) for other in (noisier, modelled))
        gains = [lost] if lost >= _LEAST_LOST else []
        gains += [gap - _NOISES * noise] if gap > max(_NOISES * noise, _LEAST_GAP) else []
        if gains:
            missed.append((-max(gains), pair, table))
    tree = list(range(len(shares)))  # of each column, the least column that it is linked with
    for _, (i, j), table in sorted(missed, key=itemgetter(0)):
        last = not measured.last.isdisjoint((i, j))  # which is in no circle
        if last or tree[i] != tree[j]:
            if not last:
                tree = [tree[i] if root == tree[j] else root for root in tree]
            strong[i, j] = table
            if (i, j) not in choice.clear:
                fine = choice.fine
                groups = [choice.merged[k].grouping(fine[k]) for k in (i, j)]
                parts = [cells.within(fine[k].sums(shares[k])) for k, cells in zip((i, j), groups, strict=True)]
                strong[i, j] = table[np.ix_(*[cells.cell_of for cells in groups])] * np.outer(*parts)
    return strong
