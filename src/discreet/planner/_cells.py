"""Cells for continuous columns that declare none: from bounds, number of records and budget alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from discreet._text import about
from discreet.domain import Domain, Numeric
from discreet.mechanisms import Mechanism

__all__ = ["chosen_cells", "with_cells"]

_LOG_RATIO = 100.0


def with_cells(domain: Domain, kind: type[Mechanism], *, n: int, epsilon: float) -> Domain:
    """Return the domain with cells for every continuous numeric column, where the mechanism needs them.

    Other columns stay as declared.

    Parameters
    ----------
    domain : Domain
        Public.
    kind : type of Mechanism
        Says how many cells it wants (:meth:`~discreet.mechanisms.Mechanism.cells_wanted`).
    n : int
        Number of records, public.
    epsilon : float
        The budget.

    Returns
    -------
    Domain
        Log-spaced cells where ``lower > 0`` and ``upper/lower >= 100``, linear ones elsewhere.

    Notes
    -----
    Columns with a base measure of their own keep it and stay continuous.
    """
    chosen = [c for c in domain.columns.values() if isinstance(c, Numeric) and not c.finite and c.base is None]
    if not chosen or not kind.needs_cells:
        return domain
    cells = kind.cells_wanted(n=n, epsilon=epsilon, columns=len(domain.columns))
    columns = {
        name: replace(column, cells=cells, spacing=_spacing(column)) if column in chosen else column
        for name, column in domain.columns.items()
    }
    return Domain(columns=columns, metric_weights=domain.metric_weights)


def chosen_cells(declared: Domain, used: Domain) -> list[str]:
    """Return one sentence for each column whose cells were chosen rather than declared."""
    return [
        f"column {name!r}: {column.cells} {column.spacing}-spaced cells, the widest "
        f"{about(np.diff(column.edges).max(), 4)} "
        "wide, chosen from its bounds, the number of records and epsilon; where in its cell a released value lies is "
        "not from the data, so declare cells yourself if this is too coarse"
        for name, column in used.columns.items()
        if isinstance(column, Numeric) and column != declared.columns[name]
    ]


def _spacing(column: Numeric) -> str:
    return "log" if column.lower > 0 and column.upper / column.lower >= _LOG_RATIO else "linear"
