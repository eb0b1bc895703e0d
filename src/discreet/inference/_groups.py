"""Groups of a column: each draw's distribution given that a record is in one, and how each is named."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.random import seeded
from discreet._core.text import about, percent_as_written
from discreet.domain import Domain, Records
from discreet.inference._line import Draws

_MOST_GROUPS = 1000
_NEAR_ZERO = 0.1


class Group(NamedTuple):
    """One value, or cell, of a column: ``label``, ``code``, and ``at``, the column's place in the domain."""

    label: str
    code: Any
    at: int


def groups_of(domain: Domain, by: str) -> list[Group]:
    """Return the groups of a column, in the order of its codes, that of nulls last.

    Raises ParameterError when there is no such column, or it has too many values or no cells.
    """
    if by not in domain.columns:
        raise ParameterError(f"there is no column {by!r}. The columns are: {', '.join(domain.names)}")
    column = domain.columns[by]
    if column.size is None or column.size > _MOST_GROUPS:
        raise ParameterError(
            f"column {by!r} does not make groups: it must have cells, categories or truth values, at most "
            f"{_MOST_GROUPS:,} of them"
        )
    codes = np.arange(column.size)
    alone = Domain(columns={by: column})
    ends = alone.describe(Records(columns=(codes,)), rng=seeded(0)).rows()
    at = domain.names.index(by)
    return [Group(" to ".join(map(_text, dict.fromkeys(row))), code, at) for code, row in enumerate(ends)]


def code_of(domain: Domain, name: str, value: Any) -> Group:
    """Return the group that a value is in. Raises ParameterError when it is no value of the column."""
    if name not in domain.columns:
        raise ParameterError(f"there is no column {name!r}. The columns are: {', '.join(domain.names)}")
    try:
        (code,) = domain.columns[name].encode([value]).tolist()
    except DiscreetError:
        raise ParameterError(f"what is given for {name!r} is not a declared value of the column") from None
    return Group(_text(value), code, domain.names.index(name))


def restricted(group: Group, support: Records, draws: Draws) -> tuple[Draws, Floats]:
    """Return draws given a group, on what :func:`kept_in` keeps of the support, and each draw's mass of it.

    A draw without mass there has no such distribution: its weights are NaN.
    """
    kept, own_weights = kept_in(group, support), draws.own_weights
    weights = draws.weights[:, kept] * (support.columns[group.at][kept] == group.code)
    if draws.own is not None:
        inside = np.asarray(draws.own.columns[group.at] == group.code).reshape(own_weights.shape)
        own_weights = np.where(inside, own_weights, 0.0)
    mass = weights.sum(axis=1) + own_weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Draws(weights / mass[:, None], draws.own, own_weights / mass[:, None]), mass


def kept_in(group: Group, support: Records) -> Any:
    """Return which records of the support are in a group; one, which gets no weight, where there is none."""
    kept = np.asarray(support.columns[group.at] == group.code)
    return kept if kept.any() else np.arange(len(kept)) < 1


def near_zero(groups: list[Group], masses: Floats, by: str, level: float) -> tuple[str, ...]:
    """Say which groups have a share that cannot be told from zero: its interval reaches below a tenth of its mean.

    ``masses``, shape (draws, groups): their shares.
    """
    mean, lower = masses.mean(axis=0), np.quantile(masses, (1.0 - level) / 2.0, axis=0)
    named = [f"{group.label} ({about(float(share))})" for group, share, least in zip(groups, mean, lower, strict=True)
             if least <= _NEAR_ZERO * share]  # fmt: skip
    if not named:
        return ()
    return (
        f"the release does not tell whether anybody is in these groups of {by}, of a share near zero (posterior mean; "
        f"the {percent_as_written(level)} interval reaches below a tenth of it). What is said of them is mostly the "
        f"prior's: {', '.join(named)}",
    )


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
