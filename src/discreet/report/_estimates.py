"""What a release tells of the population, in pictures with intervals: from the release and its certificate alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.text import about, percent_as_written
from discreet.domain import Boolean, Numeric
from discreet.domain._temporal import moment_text
from discreet.inference import posterior
from discreet.inference._functional import needs_order
from discreet.inference._plots import jumps, points
from discreet.inference._posterior import Posterior
from discreet.inference._summary import Estimate, bounded
from discreet.mechanisms._known import no_posterior
from discreet.releases._mechanism_step import certified_mechanism
from discreet.report._charts import Chart, band_chart, forest_chart
from discreet.report._promise import Promise
from discreet.report._released import MOST_COLUMNS

LEVEL = 0.95
_DRAWS = 400
_MOST_CELLS = 1_000  # a posterior of more takes seconds
_ASKED = ("mean", "q25", "q50", "q75")
_MOST_GROUPS, _MOST_WAYS = 12, 3

_Rows = tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsPicture:
    """The mean of an ordered column in each group, as the page shows it.

    ``by``: the column of groups.
    ``chart``: the means with their intervals.
    ``rows``: the group, the posterior mean, and the ends of the interval.
    """

    by: str
    chart: Chart
    rows: _Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatePicture:
    """One ordered column of the population, as the page shows it.

    ``name``: the column.
    ``chart``: its distribution function, with an interval at each value and a band for the whole curve.
    ``rows``: some numbers: name, posterior mean, and the ends of the interval.
    ``groups``: its mean by each of some columns of categories.
    """

    name: str
    chart: Chart
    rows: _Rows
    groups: tuple[GroupsPicture, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimates:
    """What a report says of the population.

    ``pictures``: of ordered columns.
    ``notes``: what the intervals assume.
    ``without``: why there are none, as a sentence; empty where there are.
    """

    pictures: tuple[EstimatePicture, ...] = ()
    notes: tuple[str, ...] = ()
    without: str = ""

    @classmethod
    def of(cls, promise: Promise, release: Path) -> Estimates:
        """Return what a release tells, if its certificate is confirmed and it takes no longer than a report may."""
        if why := _without(promise):
            return cls(without=why)
        try:
            found = posterior(release, promise.certificate, draws=_DRAWS)
        except DiscreetError:  # the release does not fit what a posterior needs: the page says so elsewhere
            return cls(without="The release could not be read for them.")
        names = [name for name in found.domain.names if _ordered(found, name)][:MOST_COLUMNS]
        if not names:
            return cls(without="No column has an order; discreet estimate gives the shares of categories.")
        told = [_told(found, name) for name in names]
        notes = dict.fromkeys(note for _, notes in told for note in notes)
        return cls(pictures=tuple(picture for picture, _ in told), notes=tuple(notes))


def _without(promise: Promise) -> str:
    """Return why there are no intervals, as a sentence; empty where there are."""
    if promise.disagreements:
        return "Claims of the certificate were not confirmed."
    if promise.certificate.several:
        return "Numbers from several tables are combined: see discreet estimate."
    try:
        mechanism = certified_mechanism(promise.certificate.facts)
    except ParameterError:
        return "They are not known of tables from a model."
    if why := no_posterior(mechanism):
        return f"{why[0].upper()}{why[1:]}."
    if (mechanism.domain.size or 0) > _MOST_CELLS:
        return f"They take longer than a report where there are more than {_MOST_CELLS:,} cells: see discreet estimate."
    return ""


def _ordered(found: Posterior, name: str) -> bool:
    try:
        needs_order(found.domain.columns[name])
    except ParameterError:
        return False
    return not isinstance(found.domain.columns[name], Boolean)


def _groups(found: Posterior) -> list[str]:
    """Return columns of few categories or truth values."""
    few = [name for name, column in found.domain.columns.items() if 1 < (column.size or 0) <= _MOST_GROUPS]
    return [name for name in few if not _ordered(found, name)][:_MOST_WAYS]


def _told(found: Posterior, name: str) -> tuple[EstimatePicture, list[str]]:
    column = found.domain.columns[name]
    at = points(found, name)
    band = found.cdf(at, column=name, level=LEVEL)
    logarithmic = isinstance(column, Numeric) and column.spacing == "log" and at[0] > 0.0
    level = percent_as_written(LEVEL)

    def text(value: float) -> str:
        return moment_text(column.kind, value, sep=" ") if column.kind in ("date", "datetime") else about(value, 6)

    def place(value: float) -> str:
        return text(10.0**value if logarithmic else value)

    where, curves = np.log10(at) if logarithmic else at, np.array(band[1:])
    if jumps(found, name):  # flat up to the next value
        where, curves = np.repeat(where, 2)[1:], np.repeat(curves, 2, axis=1)[:, :-1]
    summary = found.summary(_ASKED, column=name, level=LEVEL)
    by_group = [found.summary(["mean"], column=name, by=by, level=LEVEL) for by in _groups(found)]
    picture = EstimatePicture(
        name=name,
        chart=band_chart(name, where, curves, text=place, level=level),
        rows=tuple((row.name, *_numbers(row, text)) for row in summary.rows),
        groups=tuple(
            GroupsPicture(
                by=str(one.by),
                chart=forest_chart(f"Mean of {name} by {one.by} in the population", rows, text=text, level=level),
                rows=tuple((str(row.group), *_numbers(row, text)) for row in one.rows),
            )
            for one in by_group
            if (rows := [(str(row.group), *each) for row in one.rows if np.isfinite(each := _ends(row)).all()])
        ),
    )
    of_groups = [note for one in by_group for note in one.notes if note not in bounded(one.rows)]  # said of all before
    return picture, [*summary.notes, *of_groups]


def _numbers(row: Estimate, text: Callable[[float], str]) -> tuple[str, str, str]:
    mean, lower, upper = (text(each) if np.isfinite(each) else "-" for each in _ends(row))
    return mean, lower, upper


def _ends(row: Estimate) -> tuple[float, float, float]:
    return row.mean, row.lower, row.upper
