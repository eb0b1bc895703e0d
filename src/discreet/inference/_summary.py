"""What a posterior says about some numbers, as a table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.display import listing, table
from discreet._core.text import about, aligned, percent_as_written
from discreet.domain._temporal import moment_text
from discreet.inference._diagnostics import effective_sample_size, r_hat

_SAME = 1e-12  # difference of two computations of one number


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """The posterior of one number.

    ``name``: the functional, as it was asked for.
    ``mean``, ``sd``: Posterior mean and standard deviation.
    ``lower``, ``upper``: Equal-tailed credible interval.
    ``effective_draws``: Independent draws that the posterior draws are worth.
    ``r_hat``: whether the chains agree (1: they do); None for independent draws.
    ``unit``: "value" where the number is a value of the column, "length" where it is a difference of two, else
    "number".
    ``group``: which group it is about; None where it is about all.
    ``share``: posterior mean of the group's share of the population.
    ``bounds``: whether the interval allows for more than the draws, as where the question cuts a cell.
    """

    name: str
    mean: float
    sd: float
    lower: float
    upper: float
    effective_draws: float
    r_hat: float | None = None
    unit: str = "number"
    group: str | None = None
    share: float | None = None
    bounds: bool = False


def estimated(name: str, found: Floats, *, level: float, chains: int, **about: Any) -> Estimate:
    """Return the posterior of one number from its draws, chain after chain; those that are NaN do not have it.

    ``found``, shape (draws, 1) or (draws, 3): the number, and the least and the greatest that it may be.
    """
    draws = found[:, 0]
    kept = ~np.isnan(draws)
    held, least, most = found[kept, 0], found[kept, -2 % found.shape[1]], found[kept, -1]
    bounds = not np.allclose(least, most, rtol=_SAME, atol=_SAME)
    ends = (least, most) if bounds else (held, held)
    tails = ((1.0 - level) / 2.0, (1.0 + level) / 2.0)
    lower, upper = map(np.quantile, ends, tails) if len(held) else (math.nan, math.nan)
    chained = None
    if chains and len(held):
        chained = np.where(np.isnan(draws), held.mean(), draws).reshape(chains, -1)
    return Estimate(
        name=name,
        mean=float(held.mean()) if len(held) else math.nan,
        sd=float(held.std(ddof=1)) if len(held) > 1 else math.nan,
        lower=float(lower),
        upper=float(upper),
        effective_draws=float(len(held)) if chained is None else effective_sample_size(chained),
        r_hat=None if chained is None else r_hat(chained),
        bounds=bounds,
        **about,
    )


def bounded(rows: Iterable[Estimate]) -> tuple[str, ...]:
    """Say which numbers have bounds."""
    names = list(dict.fromkeys(row.name for row in rows if row.bounds))
    if not names:
        return ()
    return (
        "bounds: the interval allows for what the release does not tell, such as where in its cell each value lies: "
        f"{', '.join(names)}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Posteriors of some numbers, a row each; also its own text.

    Parameters
    ----------
    rows : tuple of Estimate
        In the order asked for, group by group.
    level : float
        Probability of the intervals.
    kind : str
        Kind of the column ("date" and "datetime" are written as such), or "" where there is none.
    notes : tuple of str
        What the posterior assumes.
    by : str
        The column of groups, or "" where there is none.
    """

    rows: tuple[Estimate, ...]
    level: float
    kind: str = ""
    notes: tuple[str, ...] = ()
    by: str = ""

    def __getitem__(self, name: str | tuple[str, str]) -> Estimate:
        wanted = (name, None) if isinstance(name, str) else name
        for row in self.rows:
            if (row.name, row.group) == wanted:
                return row
        raise KeyError(name)

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values; a number that no draw has is None."""
        rows = [{key: _plain(value) for key, value in asdict(row).items()} for row in self.rows]
        return {"level": self.level, "by": self.by or None, "estimates": rows, "notes": list(self.notes)}

    def plot(self) -> list[Any]:
        """Draw each number as a point and its interval as a line: a panel per unit, or per functional of groups.

        Needs the extra ``report``.

        Returns
        -------
        list of matplotlib.axes.Axes
            One per panel, in one figure.

        Raises
        ------
        MissingExtra
            When matplotlib is not installed.
        """
        from discreet.inference._plots import forest

        return forest(self)

    def __str__(self) -> str:
        left = 2 if self.by else 1
        return "\n".join([*aligned(self._cells(), left=left), *(f"- {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        return table(head, body) + listing(self.notes)

    def _cells(self) -> list[tuple[str, ...]]:
        """Return the table as texts, its header first."""
        group = (self.by,) if self.by else ()
        share = ("share",) if self.by else ()
        lines = [(*group, "", *share, "mean", "sd", f"{percent_as_written(self.level)} from", "to", "effective draws")]
        for row in self.rows:
            named = (str(row.group), row.name, about(row.share or 0.0)) if self.by else (row.name,)
            numbers = (self._text(row, row.mean), self._text(row, row.sd, length=True), self._text(row, row.lower),
                       self._text(row, row.upper), f"{row.effective_draws:,.0f}")  # fmt: skip
            lines.append((*named, *numbers))
        return lines

    def _text(self, row: Estimate, value: float, *, length: bool = False) -> str:
        if length or row.unit != "value" or self.kind not in ("date", "datetime") or math.isnan(value):
            return f"{value:,.6g}"
        return moment_text(self.kind, value, sep=" ")


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
