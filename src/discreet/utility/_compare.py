"""How far a release is from the confidential table, column by column.

Every number here is computed from confidential data, so it comes closed; one loudly named function opens it.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._random import public, secure
from discreet.confidential import Confidential
from discreet.confidential._column_values import column_values, row_values
from discreet.confidential._open import open_confidential
from discreet.domain import Boolean, Category, Column, Domain, OpenLabels
from discreet.errors import DataError, DomainError
from discreet.utility._distances import ks_distance, summary, total_variation, wasserstein_1d
from discreet.utility._measures import Measured, chosen, measured
from discreet.utility._rows import tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


__all__ = ["BANNER", "ColumnComparison", "Comparison", "compare", "reveal_to_custodian"]

BANNER = "CONFIDENTIAL: computed from the private data"
"""How the text of a comparison begins."""

_MOST_SHARES = 10
_IN_RELEASE = "in the release: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnComparison:
    """One column of the confidential table against the same column of the release. Confidential.

    Parameters
    ----------
    name, kind : str
        The column, and its declared type.
    metric : str
        What the distance is measured with, in words.
    wasserstein : float or None
        Wasserstein-1 distance between the values that are not null: in the column's own unit (days for dates, seconds
        for datetimes and durations), in ranks over ``K - 1`` for ordered categories, the total variation for unordered
        ones, nulls included there. None where a side holds nulls only.
    wasserstein_scaled : float or None
        The same, divided by ``upper - lower``: between 0 and 1 whatever the column.
    ks : float or None
        Kolmogorov-Smirnov distance; None for unordered columns.
    null_shares : tuple of float
        Share of nulls in the table and in the release.
    data, release : dict or None
        Summary of each side's values; None for columns without arithmetic.
    shares : dict of str to tuple of float, or None
        Share of each declared category in the table and in the release.
    """

    name: str
    kind: str
    metric: str
    wasserstein: float | None
    wasserstein_scaled: float | None
    ks: float | None
    null_shares: tuple[float, float]
    data: dict[str, float] | None = None
    release: dict[str, float] | None = None
    shares: dict[str, tuple[float, float]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A confidential table against a release. Confidential.

    Parameters
    ----------
    records : int
        Records of the confidential table.
    released : int
        Records of the release.
    columns : tuple of ColumnComparison
        One a column of the domain, in its order.
    measures : tuple of Measured
        The measures asked for, each beside its baselines.
    """

    records: int
    released: int
    columns: tuple[ColumnComparison, ...]
    measures: tuple[Measured, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data, marked ``"confidential": true``."""
        return {"confidential": True, "notice": BANNER, **asdict(self)}

    def __str__(self) -> str:
        lines = [BANNER, f"{self.records:,} confidential records, {self.released:,} released", ""]
        head = ("column", "W1", "W1 scaled", "KS", "nulls", "nulls released", "metric")
        rows = [
            (
                column.name,
                _number(column.wasserstein),
                _number(column.wasserstein_scaled),
                _number(column.ks),
                f"{column.null_shares[0]:.2%}",
                f"{column.null_shares[1]:.2%}",
                column.metric,
            )
            for column in self.columns
        ]
        lines += _table(head, rows)
        for column in self.columns:
            if column.data is not None and column.release is not None:
                lines += ["", f"{column.name} ({column.kind})"]
                sides = (("confidential", column.data), ("released", column.release))
                body = [(side, *(_shown(column.kind, *fact) for fact in facts.items())) for side, facts in sides]
                lines += _table(("", *column.data), body)
            if column.shares is not None:
                lines += ["", *_share_lines(column)]
        if self.measures:
            lines += ["", *_measure_lines(self.measures)]
        return "\n".join(lines)


def compare(
    data: Any,
    release: Any,
    domain: Domain,
    *,
    measures: str | Iterable[str] | None = None,
    holdout: Any = None,
    resamples: int = 100,
    rng: np.random.Generator | None = None,
) -> Confidential[Comparison]:
    """Compare a release with the confidential table it came from: column by column, and by the measures asked for.

    The table's own values are compared, not their cells: what discretisation loses counts. Values outside the bounds of
    a column that declares ``out_of_bounds = "clip"`` are clipped first, as in a release.

    Parameters
    ----------
    data : dataframe, str or path
        The confidential table; what :func:`~discreet.confidential.confidential` takes.
    release : dataframe, str or path
        The released table.
    domain : Domain
        Public. The columns it names are compared; others are left aside.
    measures : "all", str or iterable of str, optional
        Which measures to add, each beside what bootstrap samples of the confidential table reach: of ordered columns
        ``"w1"``, ``"ks"`` and ``"kde-l2"``; of all columns ``"tv"`` and ``"hellinger"``; of all columns together
        ``"transport"``, ``"marginals-2"``, ``"marginals-3"``, ``"correlation"`` and ``"pmse"``. None by default, all
        where there is a holdout.
    holdout : dataframe, str or path, optional
        Confidential records of the same population that the release was not made from. Never a part of ``data``.
    resamples : int
        How many bootstrap samples. They take most of the time: fewer for large tables, 0 for none.
    rng : numpy.random.Generator, optional
        Draws them; a fresh one by default.

    Returns
    -------
    Confidential of Comparison
        Closed, like everything computed from confidential data; :func:`reveal_to_custodian` opens it.

    Raises
    ------
    DataError
        If a table does not fit the domain. No message holds a value.
    FileProblem
        If a file cannot be read.
    ParameterError
        If there is no such measure.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Integer
    >>> ages = Domain(columns={"age": Integer(lower=0, upper=120)})
    >>> closed = compare(pl.DataFrame({"age": [30, 40]}), pl.DataFrame({"age": [31, 45]}), ages)
    >>> closed
    <confidential Comparison>
    >>> reveal_to_custodian(closed).columns[0].wasserstein
    3.0

    With a measure and its baseline:

    >>> closed = compare(
    ...     pl.DataFrame({"age": [30, 40]}), pl.DataFrame({"age": [31, 45]}), ages, measures="ks", resamples=10
    ... )
    >>> reveal_to_custodian(closed).measures[0].release
    0.5
    """
    if not isinstance(domain, Domain):
        raise DomainError(f"the domain is a Domain, such as Domain.read(path), not a {type(domain).__name__}")
    columns, sizes = [], (0, 0)
    for name, column in domain.columns.items():
        x = _Side.of(data, name, column)
        y = _released(release, name, column)
        columns.append(_compared(name, column, x, y))
        sizes = (x.size, y.size)
    wanted = chosen(("all" if holdout is not None else ()) if measures is None else measures)
    found: tuple[Measured, ...] = ()
    if wanted:
        sources = [(data, ""), (release, _IN_RELEASE)] + ([] if holdout is None else [(holdout, "in the holdout: ")])
        rows = tables(
            sources, domain, lambda table: open_confidential(row_values(table, domain.columns), caller=__name__)
        )
        found = measured(
            rows[0],
            rows[1],
            rows[2] if len(rows) > 2 else None,
            measures=wanted,
            resamples=resamples,
            rng=public(secure()) if rng is None else rng,
        )
    return Confidential(Comparison(records=sizes[0], released=sizes[1], columns=tuple(columns), measures=found))


def reveal_to_custodian(comparison: Confidential[Comparison]) -> Comparison:
    """Open a comparison, for the eyes of whoever may see the confidential table itself.

    Nothing protects what this returns: publishing it, or choosing among releases by it, spends privacy that no
    certificate accounts for.

    Parameters
    ----------
    comparison : Confidential of Comparison
        What :func:`compare` returned.

    Returns
    -------
    Comparison
        Readable; its text begins with "CONFIDENTIAL: computed from the private data".
    """
    return open_confidential(comparison, caller=__name__)


# -- one column -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One side of a column: coordinates (or codes, or labels) of the distinct values, nulls apart."""

    points: npt.NDArray[Any]
    frequencies: npt.NDArray[np.int64]
    nulls: int

    @property
    def size(self) -> int:
        return int(self.frequencies.sum()) + self.nulls

    @property
    def null_share(self) -> float:
        return self.nulls / self.size

    @classmethod
    def of(cls, table: Any, name: str, column: Column) -> _Side:
        values, frequencies = open_confidential(column_values(table, name, column), caller=__name__)
        # A release holds labels of the reserved namespace, so open labels are not encoded.
        codes = None if isinstance(column, OpenLabels) else column.encode(values, name=name)
        missing = values.is_null().to_numpy()
        if values.dtype.is_float():
            missing = missing | values.is_nan().fill_null(value=False).to_numpy()
        if missing.any() and not column.nullable:
            raise DataError(name, "holds a null or NaN", 'declare nulls = "category", or fill the nulls in beforehand')
        present = ~missing
        if codes is None:
            points = values.filter(present).to_numpy().astype(str)
        elif isinstance(column, (Boolean, Category)):
            points = codes[present]
        else:
            points = column.coordinates(values.filter(present))
        return cls(points=points, frequencies=frequencies[present], nulls=int(frequencies[missing].sum()))


def _released(release: Any, name: str, column: Column) -> _Side:
    try:
        return _Side.of(release, name, column)
    except DataError as problem:
        raise DataError(problem.column, _IN_RELEASE + problem.problem, problem.remedy) from None


def _compared(name: str, column: Column, x: _Side, y: _Side) -> ColumnComparison:
    shares = (x.null_share, y.null_share)
    ordered = isinstance(column, Category) and column.ordered
    if isinstance(column, (Boolean, Category, OpenLabels)) and not ordered:
        apart = _total_variation(x, y)
        return ColumnComparison(
            name=name,
            kind=column.kind,
            metric="0 or 1 (total variation)",
            wasserstein=apart,
            wasserstein_scaled=apart,
            ks=None,
            null_shares=shares,
            shares=_shares(column, x, y),
        )
    distance: float | None = None
    ks: float | None = None
    if len(x.points) and len(y.points):
        weights = {"x_weights": x.frequencies, "y_weights": y.frequencies}
        distance = wasserstein_1d(x.points, y.points, **weights)
        ks = ks_distance(x.points, y.points, **weights)
    scaled = None if distance is None else distance / (column.scale or 1.0)
    if ordered:
        return ColumnComparison(
            name=name,
            kind=column.kind,
            metric="rank / (K - 1)",
            wasserstein=scaled,
            wasserstein_scaled=scaled,
            ks=ks,
            null_shares=shares,
            shares=_shares(column, x, y),
        )
    return ColumnComparison(
        name=name,
        kind=column.kind,
        metric={"date": "days", "datetime": "seconds", "duration": "seconds"}.get(column.kind, "the column's unit"),
        wasserstein=distance,
        wasserstein_scaled=scaled,
        ks=ks,
        null_shares=shares,
        data=summary(x.points, x.frequencies) if len(x.points) else None,
        release=summary(y.points, y.frequencies) if len(y.points) else None,
    )


def _total_variation(x: _Side, y: _Side) -> float:
    """Count nulls as one more label."""
    _, place = np.unique(np.concatenate((x.points, y.points)), return_inverse=True)
    a, b = place[: len(x.points)], place[len(x.points) :]
    return total_variation(
        np.append(a, -1),
        np.append(b, -1),
        x_weights=np.append(x.frequencies, x.nulls),
        y_weights=np.append(y.frequencies, y.nulls),
    )


def _shares(column: Column, x: _Side, y: _Side) -> dict[str, tuple[float, float]] | None:
    if isinstance(column, Boolean):
        labels = ["false", "true"]
    elif isinstance(column, Category):
        labels = [str(label) for label in column.categories]
    else:
        return None
    tallies = []
    for side in (x, y):
        tally = np.zeros(len(labels))
        np.add.at(tally, side.points, side.frequencies)
        tallies.append((tally / side.size).tolist())
    return dict(zip(labels, zip(*tallies, strict=True), strict=True))


# -- text -------------------------------------------------------------------------------------------------------------


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}"


def _shown(kind: str, key: str, value: float) -> str:
    """Write a summary's number: dates and datetimes as such, except their standard deviation."""
    if key == "sd" or kind not in ("date", "datetime"):
        return f"{value:,.6g}"
    seconds = value * 86_400 if kind == "date" else value
    moment = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=seconds)
    return moment.date().isoformat() if kind == "date" else moment.replace(tzinfo=None).isoformat(timespec="seconds")


def _measure_lines(measures: Sequence[Measured]) -> list[str]:
    """Write the measures as a table, and once each how they are computed."""
    head = ("measure", "release", "bootstrap", "95 % of them", "holdout", "of")
    rows = []
    for one in measures:
        mean, low, high = one.bootstrap or (None, None, None)
        spread = "-" if one.bootstrap is None else f"{_number(low)} to {_number(high)}"
        rows.append((one.measure, _number(one.release), _number(mean), spread, _number(one.holdout), one.of))
    how = dict.fromkeys(f"  {one.measure}: {one.how}" for one in measures)
    return [
        "Measures, beside what bootstrap samples of the confidential table reach at the size of the release",
        *_table(head, rows),
        *how,
    ]


def _share_lines(column: ColumnComparison) -> list[str]:
    assert column.shares is not None
    largest = sorted(column.shares.items(), key=lambda item: -abs(item[1][0] - item[1][1]))[:_MOST_SHARES]
    title = f"{column.name} ({column.kind})"
    if len(column.shares) > _MOST_SHARES:
        title += f", the {_MOST_SHARES} of {len(column.shares)} categories that differ most"
    rows = [(label, f"{a:.3%}", f"{b:.3%}") for label, (a, b) in largest]
    return [title, *_table(("", "confidential", "released"), rows)]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the first column to the left, the others to the right."""
    widths = [max(map(len, cells)) for cells in zip(head, *rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in (head, *rows)
    ]
