"""What a release by marginals is worth: predictions, dependent columns, and poor budgets."""

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.random import seeded
from discreet.domain import Category, Counts, Domain, Integer, Records
from discreet.mechanisms import Marginals
from discreet.planner.predicted import Reference, predicted_w1
from discreet.privacy import Budget

Table = npt.NDArray[np.int64]
SIZES = (30, 12, 5, 2, 8, 60)


def domain() -> Domain:
    columns: dict[str, Any] = {f"c{i}": Integer(lower=0, upper=size - 1) for i, size in enumerate(SIZES)}
    return Domain(columns={**columns, "c4": Category(categories=[f"l{j}" for j in range(SIZES[4])])})


def drawn(n: int, seed: int) -> Table:
    """Columns that depend on each other through a class that no column holds."""
    rng = seeded(seed)
    hidden = rng.integers(0, 4, n)
    return np.stack([np.minimum(size - 1, rng.poisson(size * (1 + hidden) / 9.0)) for size in SIZES])


def released(table: Table, epsilon: float, seed: int, workload: tuple[str, ...] | None = None) -> Table:
    n = table.shape[1]
    made = Marginals.calibrated(Budget(epsilon=epsilon, delta=1e-6), domain=domain(), n=n, workload=workload)
    x = Counts(records=Records(columns=tuple(table)), frequencies=np.ones(n, dtype=np.int64))
    rng = seeded(seed)
    drawn = made.reading(made.kernel(x, rng=rng), n=n).draw(n, rng=rng)
    return np.stack(Records.concatenate(drawn).columns).astype(np.int64)


def two_way(one: Table, other: Table) -> float:
    """Mean total variation of the tables of two columns."""
    found = []
    for i, j in combinations(range(len(SIZES)), 2):
        shares = [np.bincount(t[i] * SIZES[j] + t[j], minlength=SIZES[i] * SIZES[j]) / t.shape[1] for t in (one, other)]
        found.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(found))


def test_dependent_columns_stay_dependent() -> None:
    """At a third of the error of columns without noise that are shuffled; without two-way tables, not at half."""
    table = drawn(20_000, 0)
    shuffled = np.stack([seeded(i).permutation(column) for i, column in enumerate(table)])
    error = two_way(table, released(table, 1.0, 1))
    assert error < two_way(table, shuffled) / 3.0
    assert two_way(table, released(table, 1.0, 1, workload=())) > two_way(table, shuffled) / 2.0


def test_a_poor_budget_is_not_spent_on_noise() -> None:
    """Over ten releases, within two standard errors of what independent columns would have, or better."""
    table = drawn(400, 2)
    apart = np.array(
        [
            two_way(table, released(table, 0.2, seed)) - two_way(table, released(table, 0.2, seed, workload=()))
            for seed in range(10)
        ]
    )
    assert apart.mean() < 2.0 * apart.std(ddof=1) / len(apart) ** 0.5


def test_the_predicted_error_is_near_what_is_measured() -> None:
    """Within a factor of 1.5, given a reference of the same law."""
    n = 20_000
    table, wide = drawn(n, 3), domain()
    reference = wide.decode(Records(columns=tuple(drawn(n, 4))), rng=seeded(0))
    for epsilon in (0.2, 1.0):
        made = Marginals.calibrated(Budget(epsilon=epsilon, delta=1e-6), domain=wide, n=n)
        predicted = predicted_w1(made, n=n, size=n, reference=Reference.from_data(reference, wide))
        measured = []
        for seed in range(3):
            out = released(table, epsilon, seed)
            each = []
            for i, (size, column) in enumerate(zip(SIZES, wide.columns.values(), strict=True)):
                apart = (np.bincount(table[i], minlength=size) - np.bincount(out[i], minlength=size)) / n
                line = not isinstance(column, Category)
                each.append(np.abs(np.cumsum(apart)).sum() / (size - 1) if line else 0.5 * float(np.abs(apart).sum()))
            measured.append(sum(each))
        assert 1 / 1.5 < predicted / np.mean(measured) < 1.5
