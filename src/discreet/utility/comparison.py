"""How far a release is from the confidential table, column by column.

Every number here is computed from confidential data, so it comes closed; one loudly named function opens it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import DataError, DiscreetError, FileProblem, ParameterError
from discreet._core.formats import with_ending
from discreet._core.numeric import Integers
from discreet._core.random import public, secure
from discreet._core.text import aligned, counted, harmless
from discreet.confidential import Confidential, linked_rows, open_confidential, row_values
from discreet.domain import Domain, Records, moment_text, require_domain
from discreet.evolution import API, closeness
from discreet.mechanisms import embedded, settled_api
from discreet.releases import Certificate, read_certificate
from discreet.utility.columns import IN_RELEASE, ColumnComparison, Reader, compare_column, problems_of, tables
from discreet.utility.disclosure import AttackRate, Disclosure, disclosures
from discreet.utility.measures import Measured, area_under_curve, compute_measures, parse_measures
from discreet.wording import CLOSENESS, lost_pairs

_MOST = 4_000  # distinct records of a table that are looked at
_NEIGHBOURS = 3
_MOST_LABELS = 32  # of a column that a classifier tells


def closeness_measures(
    sources: Sequence[tuple[Any, str]], api: API, read: Reader, *, rng: np.random.Generator
) -> tuple[Measured, ...]:
    """Return Fréchet distance, precision and recall of a release, and with a holdout theirs, and the area of labels."""
    samples, labelled = [], []
    for source, name in sources:
        with problems_of(name):
            frame, frequencies = read(source)
            records = api.domain.encode(frame.select(api.domain.names))
        rows = np.arange(len(records))
        if len(rows) > _MOST:
            rows = np.sort(rng.choice(rows, size=_MOST, replace=False, p=frequencies / frequencies.sum()))
            frequencies = np.ones_like(frequencies)
        labelled.append((records := records.take(rows), frequencies[rows]))
        points, places = np.unique(embedded(api, records), axis=0, return_inverse=True)
        shares = np.bincount(places.reshape(-1), weights=frequencies[rows])
        samples.append((points, shares / shares.sum()))
    neighbours = min(_NEIGHBOURS, *(len(points) - 1 for points, _ in samples))
    if neighbours < 1:
        raise DataError(None, "has a single point where the API says that records lie", "compare larger tables")
    values = [closeness(*sample, *samples[0], neighbours=neighbours, norm=api.norm)._asdict() for sample in samples[1:]]
    release, holdout = values if len(values) > 1 else (values[0], {})
    of = f"where the API {api.name!r} says that records lie"
    distances = (
        Measured(measure=name, of=of, release=value, bootstrap=None, holdout=holdout.get(name), how=CLOSENESS[name])
        for name, value in release.items()
    )
    return (*distances, *(_label_areas(api, labelled) if holdout else ()))


def _label_areas(api: API, samples: Sequence[tuple[Records, Integers]]) -> Iterator[Measured]:
    """Yield how well each column of labels of the holdout is told by what the release teaches, and the table."""
    for index, (name, column) in enumerate(api.domain.columns.items()):
        if column.on_a_line or not 2 <= (column.values or 0) <= _MOST_LABELS:
            continue
        sides = []
        for records, weights in samples:  # all are given one label, so that it does not show in where they lie
            columns = [*records.columns]
            labels, columns[index] = columns[index], np.zeros_like(columns[index])
            sides.append((embedded(api, Records(columns=tuple(columns))), labels, weights))
        table, release, holdout = sides
        if len(np.unique(holdout[1])) > 1:
            of, how = f"column {name!r} of held-back records", CLOSENESS["auc"]
            area, best = (area_under_curve(side, holdout) for side in (release, table))
            yield Measured(measure="auc", of=of, release=area, bootstrap=None, holdout=best, how=how)


BANNER = "CONFIDENTIAL: computed from the private data"
"""How the text of a comparison begins."""

_MOST_SHARES = 10
_BEGINS = ("", IN_RELEASE, "in the holdout: ")  # of messages about a table, a release and a holdout
_OF_SEVERAL = frozenset({"transport", "marginals-2", "marginals-3", "correlation", "pmse"})  # measures of columns


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A confidential table against a release. Confidential.

    ``records``: records of the confidential table.
    ``released``: records of the release.
    ``columns``: one per column of the domain, in its order.
    ``measures``: the measures asked for, each beside its baselines.
    ``disclosure``: what attacks on single records reach, where a sensitive column was named.
    ``notes``: where measures of several columns were asked for, what the certificate beside the release says was lost.
    ``tables``: of linked tables, which have no columns of their own here, the comparison of each by its name; and of
    both together: how far tables of one column of the units and one of their rows are apart.
    """

    records: int
    released: int
    columns: tuple[ColumnComparison, ...]
    measures: tuple[Measured, ...] = ()
    disclosure: tuple[Disclosure, ...] = ()
    notes: tuple[str, ...] = ()
    tables: Mapping[str, Comparison] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain data, marked ``"confidential": true``."""
        rates = [
            {**asdict(attack), "table": _rate(attack.table), "control": _rate(attack.control), "excess": attack.excess}
            for attack in self.disclosure
        ]
        parts = {name: part.to_dict() for name, part in self.tables.items()}
        return {"confidential": True, "notice": BANNER, **asdict(self), "disclosure": rates, "tables": parts}

    def __str__(self) -> str:
        if self.tables:
            parts = [["", name, *str(part).splitlines()[1:]] for name, part in self.tables.items()]
            return "\n".join([BANNER, *chain.from_iterable(parts), *(f"- {harmless(note)}" for note in self.notes)])
        lines = [BANNER, f"{counted(self.records, 'confidential record')}, {self.released:,} released"]
        rows: list[tuple[str, ...]] = [("column", "W1", "W1 scaled", "KS", "nulls", "nulls released", "metric")]
        for column in self.columns:
            distances = map(_number, (column.wasserstein, column.wasserstein_scaled, column.ks))
            nulls, released_nulls = (f"{share:.2%}" for share in column.null_shares)
            rows.append((column.name, *distances, nulls, released_nulls, column.metric))
        if self.columns:
            lines += ["", *aligned(rows)]
        for column in self.columns:
            if column.data is not None and column.release is not None:
                lines += ["", f"{column.name} ({column.kind})"]
                sides = (("confidential", column.data), ("released", column.release))
                body = [(side, *(_shown(column.kind, *fact) for fact in facts.items())) for side, facts in sides]
                lines += aligned([("", *column.data), *body])
            if column.shares is not None:
                lines += ["", *_share_lines(column, column.shares)]
        if self.measures:
            lines += ["", *_measure_lines(self.measures)]
        if self.disclosure:
            lines += ["", *_disclosure_lines(self.disclosure)]
        lines += [f"- {harmless(note)}" for note in self.notes]
        return "\n".join(lines)


@sealed
def compare(
    data: Any,
    release: Any,
    domain: Domain,
    *,
    measures: str | Iterable[str] | None = None,
    holdout: Any = None,
    sensitive: str | None = None,
    known: str | Iterable[str] | None = None,
    api: API | str | None = None,
    resamples: int = 100,
    rng: np.random.Generator | None = None,
) -> Confidential[Comparison]:
    """Compare a release with the confidential table it came from: column by column, and by the measures asked for.

    The table's own values are compared, not their cells: what discretisation loses counts. Values that do
    not fit are first moved as ``out_of_bounds`` declares, as in a release.

    Parameters
    ----------
    data : dataframe, str, path or mapping
        The confidential table; what :func:`~discreet.confidential.confidential` takes.
    release : dataframe, str, path or mapping
        The released table. Of linked tables, the folder or a mapping of both, of which the first draw is compared:
        table by table, with the number of rows of each unit, and tables of a column of each. Or one of them alone.
    domain : Domain
        Public. The columns it names are compared; others are left aside.
    measures : "all", str or iterable of str, optional
        Which measures to add, each beside what bootstrap samples of the confidential table reach: of ordered columns
        ``"w1"``, ``"ks"`` and ``"kde-l2"``; of all columns ``"tv"`` and ``"hellinger"``; of all columns together
        ``"transport"``, ``"marginals-2"``, ``"marginals-3"``, ``"correlation"`` and ``"pmse"``. None by default, all
        where there is a holdout.
    holdout : dataframe, str or path, optional
        Confidential records of the same population that the release was not made from. Never a part of ``data``.
    sensitive : str, optional
        A column to attack: how often is its value found for a record of which the known columns are known, by
        matching, by guessing from the nearest released records, and by descriptions that single a record out? Each
        rate stands beside that for the records of the holdout, of which the release tells nothing, with Wilson
        intervals. They are rates of attacks that were tried: the guarantee bounds those that were not.
    known : str or iterable of str, optional
        The columns that an intruder knows of a record; all but the sensitive one by default.
    api : API or str, optional
        A generator of an evolution, or the name of one: adds the Fréchet distance, precision and recall where it says
        that records lie, as :class:`Watch` shows them beside a public table. They have no bootstrap: the holdout says
        what a fresh sample reaches. With a holdout also ``"auc"``, for each column of 2 to 32 labels without an order:
        the area under the ROC curve with which a classifier that has learned from the release tells the labels of the
        holdout, beside that of one that has learned from the table. Of larger tables 4,000 records are looked at.
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
        If there is no such measure or column, or known columns are named without a sensitive one.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Integer
    >>> ages = Domain(columns={"age": Integer(lower=0, upper=120)})
    >>> from discreet.confidential import reveal_to_custodian
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
    require_domain(domain)
    rng = rng or public(secure())
    in_folder = isinstance(release, (str, os.PathLike)) and Path(release).is_dir()
    if domain.units is not None and (in_folder or isinstance(release, Mapping)):
        options: dict[str, Any] = {"known": known, "api": api, "resamples": resamples, "rng": rng}
        return _compare_linked(data, release, holdout, domain, measures=measures, sensitive=sensitive, **options)
    domain = _domain_of(release, domain)
    columns, records, released = zip(
        *(compare_column(data, release, name, column) for name, column in domain.columns.items()), strict=True
    )
    if measures is None:
        measures = "all" if holdout is not None and sensitive is None and api is None else ()
    names = parse_measures(measures)
    if known is not None and sensitive is None:
        raise ParameterError("known columns are of use with a sensitive one only. Name it in sensitive=")
    sources = [pair for pair in zip((data, release, holdout), _BEGINS, strict=True) if pair[0] is not None]
    read = _reader(domain)
    values: tuple[Measured, ...] = ()
    facts: dict[str, Any] = {"records": records[0], "released": released[0], "columns": columns}
    if names or sensitive is not None:
        rows = tables(sources, domain, read)
        if names:
            values = compute_measures(*rows, measures=names, resamples=resamples, rng=rng)
        if sensitive is not None:
            facts["disclosure"] = disclosures(*rows, sensitive=sensitive, known=known, rng=rng)
    if api is not None:
        values += closeness_measures(sources, settled_api(api, domain), read, rng=rng)
    if isinstance(release, (str, os.PathLike)) and _OF_SEVERAL.intersection(names):
        with suppress(DiscreetError):  # no certificate is beside it
            facts["notes"] = tuple(lost_pairs(read_certificate(release).facts.released.outcome, domain.names))
    return Confidential(Comparison(measures=values, **facts))


def _compare_linked(
    data: Any, release: Any, holdout: Any, domain: Domain, *, sensitive: str | None, **options: Any
) -> Confidential[Comparison]:
    """Compare linked tables: each by itself, units with their number of rows, and then one column of each together."""
    outcome: Any = ()
    if not isinstance(release, Mapping):
        with suppress(FileProblem):  # a folder without a certificate is not from here, and has one file of each name
            certificate = Certificate.read(release)
            files, outcome = certificate.tables, certificate.facts.released.outcome
            names = zip(domain.table_domains, files, strict=False)
            release = {name: Path(release) / Path(str(table.file)).name for name, table in names}
    sides = {}
    for (key, side), where in zip({"data": data, "release": release, "holdout": holdout}.items(), _BEGINS, strict=True):
        if side is not None:
            with problems_of(where):
                sides[key] = open_confidential(linked_rows(side, domain), caller=__name__)
    (units, unit_domain), *rows = domain.table_domains.items()
    numbers = [f"number of {name}" for name, _ in rows]
    number = {name: column for name, column in domain.columns.items() if name in numbers}
    domains = {units: Domain(columns={**unit_domain.columns, **number}), **dict(rows)}
    attacked = next((name for name in domains if sensitive in domains[name].names), units)
    attacks = {attacked: {"sensitive": sensitive, "known": options.pop("known")}}
    parts = dict[str, Comparison]()
    for name, part in domains.items():
        sides_of_part: dict[str, Any] = {role: side[name] for role, side in sides.items()}
        closed = compare(domain=part, **sides_of_part, **options, **attacks.get(name, {}))
        parts[name] = open_confidential(closed, caller=__name__)
    for name, _ in rows:
        part = domain.rows_of(name)
        joined = tables([(side[name], "") for side in sides.values()], part, _reader(part))
        pairs = [replace(side, unit_columns=len(unit_domain.names)) for side in joined]
        values = compute_measures(*pairs, measures=["marginals-2"], resamples=options["resamples"], rng=options["rng"])
        sizes: dict[str, Any] = {"records": pairs[0].size, "released": pairs[1].size}
        parts[f"{units} and {name}"] = Comparison(columns=(), measures=values, **sizes)
    sizes = {"records": parts[units].records, "released": parts[units].released}
    return Confidential(Comparison(columns=(), tables=parts, notes=tuple(lost_pairs(outcome, domain.names)), **sizes))


def _reader(domain: Domain) -> Reader:
    return lambda table: open_confidential(row_values(table, domain.columns), caller=__name__)


def _domain_of(release: Any, domain: Domain) -> Domain:
    """Return the domain of the rows of a released table: of linked ones, by the name of its file."""
    file = with_ending(Path(release), "").name if isinstance(release, (str, os.PathLike)) else ""
    names = file, re.sub(r"-\d+$", "", file)  # of several draws
    name = next((each_name for each_name in names if each_name in domain.table_domains), "")
    if domain.units is not None and name not in domain.table_domains:
        raise ParameterError(
            "one of linked tables is compared with the released file of its name. Give this, a mapping of all tables, "
            "or its domain: domain.table_domains[NAME]"
        )
    return domain.table_domains.get(name) or domain.row_domain


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.6g}"


def _shown(kind: str, key: str, value: float) -> str:
    """Write a summary's number: dates and datetimes as such, except their standard deviation."""
    moment = "" if key == "sd" else moment_text(kind, value)
    return moment or f"{value:,.6g}"


def _measure_lines(measures: Sequence[Measured]) -> list[str]:
    """Write the measures as a table, and once each how they are computed."""
    rows = [("measure", "release", "bootstrap", "95 % of them", "holdout", "of")]
    for value in measures:
        mean, interval = "-", "-"
        if value.bootstrap is not None:
            mean, low, high = map(_number, value.bootstrap)
            interval = f"{low} to {high}"
        rows.append((value.measure, _number(value.release), mean, interval, _number(value.holdout), value.of))
    title = "Measures, beside those of bootstrap samples of the confidential table, of the release's size"
    return [title, *aligned(rows), *dict.fromkeys(f"  {value.measure}: {value.how}" for value in measures)]


def _rate(rate: AttackRate | None) -> dict[str, Any] | None:
    """Return a rate as plain data; where nothing could be tried it is null."""
    if rate is None:
        return None
    return {"rate": rate.rate if rate.tries else None, "interval": rate.interval, "tries": rate.tries}


def _disclosure_lines(attacks: Sequence[Disclosure]) -> list[str]:
    """Write the attacks as a table, and what each does."""
    head = ("attack", "of", "table", "95 % interval", "control", "95 % interval", "excess", "95 % interval")
    return [
        "Attacks on single records, on those of the table and on those of the control",
        *aligned([head, *map(disclosure_cells, attacks)]),
        *(f"  {attack.attack}: {attack.how}" for attack in attacks),
        "  These attacks were tried. What no attack can reach is what the guarantee says.",
    ]


def disclosure_cells(attack: Disclosure) -> tuple[str, ...]:
    """Return an attack as texts: its name, its column, and three rates with their intervals."""
    cells = [attack.attack, attack.of]
    for rate in (attack.table, attack.control):
        if rate is not None and rate.tries:
            cells += [f"{rate.rate:.1%}", "{:.1%} to {:.1%}".format(*rate.interval)]
        else:
            cells += ["-", "-"]
    if attack.excess is None:
        return (*cells, "-", "-")
    difference, low, high = attack.excess
    return (*cells, f"{difference:+.1%}", f"{low:+.1%} to {high:+.1%}")


def _share_lines(column: ColumnComparison, shares: dict[str, tuple[float, float]]) -> list[str]:
    largest = sorted(shares.items(), key=lambda item: -abs(item[1][0] - item[1][1]))[:_MOST_SHARES]
    title = f"{column.name} ({column.kind})"
    if len(shares) > _MOST_SHARES:
        title += f", the {_MOST_SHARES} of {len(shares)} categories that differ most"
    rows = [(label, f"{a:.3%}", f"{b:.3%}") for label, (a, b) in largest]
    return [title, *aligned([("", "confidential", "released"), *rows])]
