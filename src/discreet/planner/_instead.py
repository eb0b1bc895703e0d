"""What to do instead where a table has too many cells: how many a budget carries, and which columns have no more."""

from __future__ import annotations

from discreet._core.errors import DiscreetError
from discreet._core.numeric import least_integer
from discreet._core.text import counted, percent
from discreet.domain import Domain
from discreet.mechanisms._noisy_counts import BareNoise, projection_error, solve_scale
from discreet.mechanisms.noise import LAWS, law_named
from discreet.privacy import Budget
from discreet.releases._utility import POOR_UTILITY

_MOST = 1 << 40
_NAMED = 6  # columns


def carried_cells(n: int, budget: Budget, group: int = 1) -> int:
    """Return the most cells that independent noise leaves at most a fifth of the records out of place in.

    ``n``: number of records, public.
    ``budget``: what may be spent.
    ``group``: records a privacy unit holds.
    Returns: 0 where the budget allows no noise of any scale.

    Examples
    --------
    >>> carried_cells(10_000, Budget(epsilon=1.0, delta=1e-6))
    2018
    """
    try:
        noisy = solve_scale(BareNoise, budget, n=n, group=group, laws=tuple(LAWS), scale=None)
    except DiscreetError:
        return 0

    def too_many(cells: int) -> bool:
        return projection_error(law_named(noisy.noise), noisy.scale, cells=cells, total=n) > POOR_UTILITY

    beyond = least_integer(too_many, 1, _MOST)
    return _MOST if beyond is None else beyond - 1


def fewer_cells(domain: Domain, n: int, budget: Budget, group: int = 1) -> str | None:
    """Say how many cells would do and which columns have no more together; None where cells are not what is wrong."""
    most = carried_cells(n, budget, group)
    if domain.size is not None and domain.size <= most:
        return None
    if most < 2:
        return f"{budget} is too little for {counted(n, 'record')}, whatever the cells. Allow a larger epsilon or delta"
    return (
        f"{counted(n, 'record')} at {budget} can support about {most:,} cells in all. With more, "
        f"noise puts more than {percent(POOR_UTILITY, 0)} of the records out of place. {_within(domain, most)}"
    )


def _within(domain: Domain, most: int) -> str:
    """Return the columns of the fewest cells that have no more together."""
    finite = [(column.size, name) for name, column in domain.columns.items() if column.size is not None]
    sizes = sorted(finite, key=lambda pair: pair[0])
    kept, cells = [], 1
    for size, name in sizes:
        if cells * size > most:
            break
        kept.append(name)
        cells *= size
    if not kept:
        return "Declare fewer cells, or coarser labels"
    some = ", ".join(map(repr, kept[:_NAMED])) + (", ..." if len(kept) > _NAMED else "")
    alone = "alone has" if len(kept) == 1 else "together have"
    return f"Release fewer columns ({some} {alone} {cells:,}), or declare fewer cells"
