"""The density-ratio check of BNP24 by the law itself: what releases of random tables tell of their neighbours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from discreet._core.boundary import sealed
from discreet._core.errors import BudgetError, ParameterError, integer, real
from discreet._core.numeric import Floats
from discreet._core.random import seeded
from discreet.audit.black_box import ERROR
from discreet.audit.instance import clopper_pearson
from discreet.domain import Counts, Records
from discreet.mechanisms import Mechanism


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class DensityRatio:
    """What releases of random tables show of a promise.

    ``epsilon``, ``promised``: the epsilon, and the delta that is promised at it.
    ``largest``: the largest logarithm of a finite ratio. ``larger``, ``infinite``: shares of the ratios that are above
    ``exp(epsilon)``, and that are infinite.
    ``delta``, ``at_least``: estimate for the worst pair of tables, and a lower bound on the true delta, which is above
    it with probability ``error`` at most.
    ``rejected``: whether that is more than is promised.
    """

    epsilon: float
    promised: float
    largest: float
    larger: float
    infinite: float
    delta: float
    at_least: float
    error: float
    rejected: bool


@sealed
def density_ratio(
    mechanism: Mechanism,
    *,
    records: int,
    epsilon: float,
    tables: int = 20,
    releases: int = 50,
    neighbours: int = 10,
    error: float = ERROR,
    seed: int = 0,
) -> DensityRatio:
    r"""Look for a delta above the promised one in ratios of densities (Algorithm 2 of BNP24).

    For random tables :math:`x`, releases :math:`z` of each, and neighbours :math:`y` with one record replaced, it lists
    :math:`\log q(z\mid x)-\log q(z\mid y)` by the mechanism's own law. It is infinite where :math:`z` has a value that
    :math:`x` holds and :math:`y` does not, though the thesis compares densities there. For each pair

    .. math:: \mathrm{E}_{z\sim q(\cdot\mid x)}\Bigl[\Bigl(1-e^\varepsilon\frac{q(z\mid y)}{q(z\mid x)}\Bigr)_+\Bigr]
        \le\delta(\varepsilon),

    so that fresh releases of the pair that looked worst give a lower bound on delta.

    Parameters
    ----------
    mechanism : Mechanism
        One whose law has a closed form.
    records : int
        Of each table.
    epsilon : float
        At least 0: where the promise is looked at.
    tables, releases, neighbours : int
        Tables, releases of each, and neighbours of each.
    error : float
        Probability at most of rejecting a promise that holds.
    seed : int
        Of tables and releases. They are invented: the result is public.

    Raises
    ------
    BudgetError, ParameterError
        When a number is out of range, or no two tables of the domain differ.
    LawNotAvailable
        When the mechanism's law has no closed form.

    Notes
    -----
    It can refute a promise and never prove one: the worst tables may not have been drawn, and what is rarer than one in
    all releases is not seen. ``mechanism.guarantee(n=records)`` has the exact delta, and
    :func:`discreet.testing.brute_force_profile` lists all neighbours of small tables.

    References
    ----------
    BNP24, Algorithm 2; docs/theory/instance-level.md.

    Examples
    --------
    Theorem T1 promises 1/4 of this Dirichlet process at every epsilon, and no less is true:

    >>> from discreet.domain import Domain, Numeric
    >>> from discreet.mechanisms import PitmanYor
    >>> unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    >>> check = density_ratio(PitmanYor(domain=unit, size=2), records=6, epsilon=1.0)
    >>> round(check.promised, 12), 0.2 < check.at_least < check.promised, check.rejected
    (0.25, True, False)
    """
    epsilon = real("epsilon", epsilon, least=0, most=100, error=BudgetError)
    error = real("error", error, above=0, below=0.5)
    records, tables = integer("records", records, least=1), integer("tables", tables, least=1)
    releases, neighbours = integer("releases", releases, least=1), integer("neighbours", neighbours, least=1)
    rng, promised = seeded(seed), mechanism.guarantee(n=records).delta(epsilon)
    columns: list[tuple[Floats, Counts, Counts]] = []
    for _ in range(tables):
        x, changed = random_tables(mechanism, records, neighbours, rng)
        ratios = log_ratios(mechanism, x, changed, releases, rng)
        columns += [(column, x, y) for column, y in zip(ratios.T, changed, strict=True)]
    if not columns:
        raise ParameterError("no two tables of this domain differ. Declare at least two cells")

    def excess(logs: Floats) -> Floats:
        return np.asarray(-np.expm1(np.minimum(0.0, epsilon - logs)))

    _, x, y = max(columns, key=lambda pair: float(excess(pair[0]).mean()))
    shares = excess(log_ratios(mechanism, x, [y], releases * tables, rng))
    events = int((rng.random(shares.shape) < shares).sum())  # each an event of this probability: bounds are exact
    at_least = clopper_pearson(events, shares.size, confidence=1.0 - 2.0 * error).lower
    logs = np.concatenate([column for column, _, _ in columns])
    largest = float(logs.max(initial=-np.inf, where=np.isfinite(logs)))
    larger, infinite = float((logs > epsilon + 1e-9).mean()), float(np.isinf(logs).mean())
    facts: dict[str, Any] = {"epsilon": epsilon, "promised": promised, "delta": float(shares.mean()), "error": error}
    bounds: dict[str, Any] = {"at_least": at_least, "rejected": at_least > promised * (1.0 + 1e-9)}
    return DensityRatio(**facts, largest=largest, larger=larger, infinite=infinite, **bounds)


def random_tables(mechanism: Mechanism, records: int, neighbours: int, rng: Generator) -> tuple[Counts, list[Counts]]:
    """Draw a table of a random number of distinct values, and tables in which one is replaced, by a new one or not."""
    values = mechanism.domain.draw_base(records + 1, rng)
    if mechanism.domain.finite:
        values = mechanism.domain.unflat(rng.permutation(np.unique(mechanism.domain.flat(values))))
    distinct = int(rng.integers(1, min(records, len(values)) + 1))
    counts = np.zeros(len(values), dtype=np.int64)
    counts[:distinct] = 1 + rng.multinomial(records - distinct, rng.dirichlet(np.ones(distinct)))
    source, target = rng.integers(distinct, size=(2, neighbours))
    target = np.where(rng.random(neighbours) < 0.5, target, distinct % len(values))
    step = np.eye(len(values), dtype=np.int64)
    changes = sorted({(a, b) for a, b in zip(source.tolist(), target.tolist(), strict=True) if a != b})
    rows = [counts, *(counts - step[a] + step[b] for a, b in changes)]
    x, *changed = [Counts(records=values.take(np.flatnonzero(row)), frequencies=row[row > 0]) for row in rows]
    return x, changed


def log_ratios(mechanism: Mechanism, x: Counts, neighbours: Sequence[Counts], releases: int, rng: Generator) -> Floats:
    """Return logarithms of the ratios, (releases, neighbours)."""
    values = [set(table.records.rows()) for table in (x, *neighbours)]
    logs = np.empty((releases, len(values)))
    for place in range(releases):
        release: Any = mechanism.kernel(x, rng=rng)
        if isinstance(release, Iterator):
            release = Records.concatenate(release)
        logs[place] = [mechanism.log_prob(release, table) for table in (x, *neighbours)]
        if isinstance(release, Records) and not mechanism.domain.finite:
            repeated = values[0].intersection(release.rows())
            logs[place, [not repeated <= row for row in values]] = -np.inf
    return logs[:, :1] - logs[:, 1:]
