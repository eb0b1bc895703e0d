"""What of a confidential table does not fit its declaration: everything at once, for the custodian alone.

A release refuses the first thing that does not fit. Here all columns are looked at before one is made. Whether values
fit is decided by the release's own encoding. Only where it refuses is it asked of each value what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import numpy as np

from discreet._core.arrays import Booleans
from discreet._core.boundary import enclosed, quietly, sealed
from discreet._core.checks import integer
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet._core.text import aligned, counted, harmless, sentence
from discreet.confidential.closed import Confidential
from discreet.confidential.count import OTHER_COLUMNS, require_unit, wrong_names
from discreet.confidential.source import FREQUENCY, RESERVED, Source, open_source, parsed_column
from discreet.confidential.units import NO_UNIT, Holdings
from discreet.domain import Column, Domain, Misfit, missing_in, require_domain
from discreet.privacy import Unit

BANNER = (
    "CONFIDENTIAL: values of the private data. Do not publish them, and declare nothing that is known from here only"
)
"""How the text of a check begins."""

_TRACKED = 1000  # distinct values per finding whose rows are counted: what memory holds
_LONGEST = 60  # characters of a value that are kept
_CONTRADICTION = "contradicts what is declared under impossible or implies"
_AS_THEY_ARE = "correct the rows if they are wrong: a release counts them as they are"


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A value that does not fit. Confidential.

    ``value``: as it is, or as a text; of several columns together one by name. Long texts are cut.
    ``rows``: how many rows have it.
    """

    value: Any
    rows: int

    def __str__(self) -> str:
        parts = self.value if isinstance(self.value, Mapping) else {"": self.value}
        said = [f"{name} = {_quoted(value)}" if name else _quoted(value) for name, value in parts.items()]
        return harmless(f"{', '.join(said)} ({self.rows:,})")


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that does not fit. Confidential.

    ``columns``: the columns concerned; none where it is the table as a whole.
    ``problem``, ``remedy``: what is wrong, and what to do about it.
    ``rows``: how many rows; None where it is about columns and not about rows.
    ``refused``: whether a release is refused for it.
    ``examples``: values that do not fit, the most frequent first.
    """

    columns: tuple[str, ...]
    problem: str
    remedy: str
    rows: int | None
    refused: bool
    examples: tuple[Example, ...] = ()


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRows:
    """How many rows privacy units have. Confidential.

    ``units``: how many units there are.
    ``most``: the most rows that one has.
    ``over``: how many units have more rows than slots.
    ``cut``: how many rows a release leaves out for that.
    """

    units: int
    most: int
    over: int
    cut: int

    def __str__(self) -> str:
        held = f"{counted(self.units, 'unit')} with at most {counted(self.most, 'row')} each"
        cut = f"{counted(self.cut, 'row')} of {counted(self.over, 'unit')} would be cut"
        return f"{held}: {cut}. Choose max_records from public knowledge, not from these numbers"


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """What of a confidential table does not fit its declaration. Confidential.

    Parameters
    ----------
    rows : int or None
        Number of rows; None where no declared column is in the table.
    findings : tuple of Finding
        All that does not fit, in the order of the domain's columns.
    units : UnitRows or None
        How many rows privacy units have; None without a unit, or where some rows have none.
    """

    rows: int | None
    findings: tuple[Finding, ...]
    units: UnitRows | None = None

    @property
    def fits(self) -> bool:
        """Whether everything fits."""
        return not self.findings

    @property
    def refused(self) -> bool:
        """Whether a release of the table is refused as it is."""
        return any(finding.refused for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, marked ``"confidential": true``."""
        return {"confidential": True, "notice": BANNER, "fits": self.fits, "refused": self.refused, **asdict(self)}

    def __str__(self) -> str:
        lines = [BANNER, *([] if self.rows is None else [counted(self.rows, "row")])]
        lines += [] if self.units is None else [str(self.units)]
        if self.fits:
            return "\n".join([*lines, "Everything fits the declaration."])
        cells = [("column", "what does not fit", "rows")]
        for finding in self.findings:
            rows = "-" if finding.rows is None else f"{finding.rows:,}"
            cells.append((harmless(", ".join(finding.columns)) or "the table", finding.problem, rows))
        shown = ["values (rows)", *(", ".join(map(str, finding.examples)) for finding in self.findings)]
        lines += ["", *(f"{line}  {last}".rstrip() for line, last in zip(aligned(cells, left=2), shown, strict=True))]
        lines += ["", "What to do:", *_remedies(self.findings)]
        return "\n".join([*lines, "", f"A release of this table would {'' if self.refused else 'not '}be refused."])


@sealed
def check_table(
    data: Any,
    domain: Domain,
    *,
    unit: Unit | None = None,
    accept: Collection[str] = (),
    examples: int = 5,
) -> Confidential[TableCheck]:
    """Look for everything in a confidential table that does not fit the declared domain.

    A release is refused for the first value that does not fit, and names no value. This names all of them, of all
    columns, before a release is made. Memory holds a part of the table at a time, as for :func:`confidential_rows`.

    Parameters
    ----------
    data : dataframe, str or path
        Confidential; as for :func:`confidential`.
    domain : Domain
        Public.
    unit : Unit, optional
        As for :func:`confidential`. It is then counted, too, how many rows would be cut.
    accept : collection of str
        ``{"other-columns"}``: the table may have columns that the domain does not name.
    examples : int
        How many values to name per finding, the most frequent of the first 1,000; 0 for counts alone.

    Returns
    -------
    Confidential of TableCheck
        Closed; :func:`reveal_to_custodian` opens it. ``refused`` is false exactly where :func:`confidential` takes the
        table. Combinations that the domain declares impossible are found, but not refused.

    Raises
    ------
    DataError
        If it is no table, or cannot be read.
    FileProblem
        If a file cannot be read.
    DomainError, ParameterError
        If the request contradicts the domain.

    Notes
    -----
    Correct rows one by one, by a rule that looks at that row alone. What is known of the data from here only must not
    enter the declaration: it would be a release without a guarantee.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.confidential import reveal_to_custodian
    >>> from discreet.domain import Integer
    >>> ages = Domain(columns={"age": Integer(lower=0, upper=120)})
    >>> found = reveal_to_custodian(check_table(pl.DataFrame({"age": [31, 999, None, 999]}), ages))
    >>> [(one.problem, one.rows) for one in found.findings]
    [('holds a null', 1), ('a value lies above the declared upper bound', 2)]
    >>> found.findings[1].examples
    (Example(value=999, rows=2),)
    """
    require_domain(domain)
    require_unit(domain, unit)
    integer("examples", examples, least=0)
    return Confidential(_checked(data, domain, unit=unit, other_columns=OTHER_COLUMNS in accept, examples=examples))


@enclosed
def _checked(data: Any, domain: Domain, *, unit: Unit | None, other_columns: bool, examples: int) -> TableCheck:
    source, column = open_source(data), None if unit is None else unit.column
    refusals = [refusal for refusal, _ in wrong_names(source, domain, unit=unit, other_columns=other_columns)]
    unreadable: dict[str, DataError] = {}
    while True:
        scan = _Scan(source, domain, unit=column, leave_out=unreadable, examples=examples)
        try:
            scan.run()
            break
        except DataError as problem:  # of a column whose values have no common type
            if problem.column is None or problem.column in unreadable:
                raise
            unreadable[problem.column] = problem
    for refusal in [*refusals, *unreadable.values()]:
        scan.whole(refusal)
    if scan.names and not scan.rows:
        scan.whole(DataError(None, "has no rows", "a release needs at least one record"))
    units = None if unit is None else scan.unit_rows(unit.max_records)
    return TableCheck(rows=scan.rows if scan.names else None, findings=scan.findings(), units=units)


@dataclass(slots=True, kw_only=True)
class _Line:
    """A finding while rows are still looked at: ``examples`` are values, and the rows of a bounded number of them."""

    remedy: str
    refused: bool
    rows: int | None = None
    examples: Counter[tuple[Any, ...]] = field(default_factory=Counter)

    def finding(self, columns: tuple[str, ...], problem: str, *, most: int) -> Finding:
        """Return it with its most frequent examples, which a null or NaN is none of."""
        counts = sorted(self.examples.items(), key=lambda item: (-item[1], str(item[0])))
        values = [(key, rows) for key, rows in counts if key not in ((None,), ("nan",))][:most]
        examples = [
            Example(value=key[0] if len(key) == 1 else dict(zip(columns, key, strict=True)), rows=rows)
            for key, rows in values
        ]
        return Finding(
            columns=columns,
            problem=problem,
            remedy=self.remedy,
            rows=self.rows,
            refused=self.refused,
            examples=tuple(examples),
        )


class _Scan:
    """One pass over a table, but for the columns of ``leave_out``, which cannot be read."""

    def __init__(
        self, source: Source, domain: Domain, *, unit: str | None, leave_out: Collection[str], examples: int
    ) -> None:
        self.source, self.domain, self.examples = source, domain, examples
        readable = {name for name in source.names if not name.startswith(RESERVED)} - set(leave_out)
        self.order = list(dict.fromkeys([*domain.names, *([] if unit is None else [unit])]))
        self.names = [name for name in self.order if name in readable]
        self.holdings = Holdings(unit) if unit in readable and unit is not None else None
        self.rows = 0
        self.lines: dict[tuple[tuple[str, ...], str], _Line] = {}

    def run(self) -> None:
        """Look at every row. Raises DataError where a column, or the table, cannot be read."""
        for batch in self.source.batches(self.names) if self.names else ():
            if batch.height == 0:
                continue
            times = pl.repeat(1, batch.height, dtype=pl.Int64(), eager=True)
            if FREQUENCY in batch.columns:
                times = batch[FREQUENCY].cast(pl.Int64)
            self.rows += int(times.sum())
            declared = [name for name in self.names if name in self.domain.columns]
            self._contradictions({name: self._column(name, batch[name], times) for name in declared}, times)
            self._hold(batch, times)

    def _column(self, name: str, raw: pl.Series, times: pl.Series) -> tuple[pl.Series, Booleans]:
        """Encode a column as a release does; return its values as the declared type, and which of them fit.

        Types that no declaration takes are refused before anything is computed from their values.
        """
        column, whole = self.domain.columns[name], np.ones(len(raw), dtype=np.bool_)
        values, unread = raw, Misfit("", "", ~whole)
        try:
            if (texts := self.source.texts) and name in texts:
                parsed = partial(parsed_column, raw, column, decimal_comma=texts.decimal_comma)
                values, unread = quietly(parsed, column._unreadable(name))
            else:
                column.encode(raw.clear(), name=name)
        except DataError as refusal:
            self.add((name,), Misfit(refusal.problem, refusal.remedy, whole), [raw], times)
            return raw, ~whole
        self.add((name,), unread, [raw], times)
        fits = ~unread.where
        try:
            column.encode(values.filter(fits), name=name)
        except DataError as refusal:
            for misfit in _reasons(values, fits, column, refusal):
                self.add((name,), misfit, [values], times)
                fits = fits & ~misfit.where
        return values, fits

    def _contradictions(self, columns: Mapping[str, tuple[pl.Series, Booleans]], times: pl.Series) -> None:
        """Look for what the domain declares impossible, in rows whose values fit column by column."""
        for constraint in self.domain.constraints:
            names = [self.domain.names[place] for place in constraint.columns]
            if not set(names) <= set(columns):
                continue
            where = np.logical_and.reduce([columns[name][1] for name in names])
            codes = tuple(self.domain.columns[name].encode(columns[name][0].filter(where)) for name in names)
            where[where] = ~constraint.allowed[codes]
            values = [columns[name][0] for name in names]
            self.add(names, Misfit(_CONTRADICTION, _AS_THEY_ARE, where), values, times, refused=False)

    def _hold(self, batch: pl.DataFrame, times: pl.Series) -> None:
        """Count the rows of units."""
        if self.holdings is None:
            return
        unit, known = self.holdings.unit, np.ones(batch.height, dtype=np.bool_)
        if batch[unit].dtype.base_type() is not pl.Object:
            known = ~missing_in(batch[unit]).to_numpy()
        self.add((unit,), Misfit(*NO_UNIT, ~known), [batch[unit]], times)
        try:
            self.holdings.add(batch.filter(known))
        except DataError as refusal:
            self.add((unit,), Misfit(refusal.problem, refusal.remedy, known), [batch[unit]], times)

    def unit_rows(self, slots: int) -> UnitRows | None:
        """Return how many rows units have; None where that cannot be told."""
        try:
            rows = None if self.holdings is None else self.holdings.held()
        except DataError as refusal:
            self.whole(refusal)
            return None
        if rows is None:
            return None
        cut = rows[rows > slots] - slots
        return UnitRows(units=len(rows), most=int(rows.max(initial=0)), over=len(cut), cut=int(cut.sum()))

    def whole(self, refusal: DataError) -> None:
        """Add what is wrong with a column, or the table, as a whole."""
        columns = () if refusal.column is None else (refusal.column,)
        self.lines.setdefault((columns, refusal.problem), _Line(remedy=refusal.remedy, refused=True))

    def add(
        self, names: Sequence[str], misfit: Misfit, values: Sequence[pl.Series], times: pl.Series, refused: bool = True
    ) -> None:
        """Add what is wrong with some rows of a batch, whose values and frequencies are given whole."""
        if not misfit.where.any():
            return
        line = self.lines.setdefault((tuple(names), misfit.problem), _Line(remedy=misfit.remedy, refused=refused))
        rows = times.filter(misfit.where)
        line.rows = (line.rows or 0) + int(rows.sum())
        textless = {pl.Object, pl.Binary, pl.Unknown}
        if not self.examples or any(v.dtype.is_nested() or v.dtype.base_type() in textless for v in values):
            return
        frame = pl.DataFrame([series.filter(misfit.where).alias(str(place)) for place, series in enumerate(values)])
        counts = frame.with_columns(rows.alias(FREQUENCY)).group_by(frame.columns).agg(pl.col(FREQUENCY).sum())
        for *example, count in counts.top_k(_TRACKED, by=FREQUENCY).iter_rows():
            key = tuple(map(_plain, example))
            if key in line.examples or len(line.examples) < _TRACKED:
                line.examples[key] += count

    def findings(self) -> tuple[Finding, ...]:
        """Return what was found: by columns of the domain, then by others, then by several columns."""
        place = {name: index for index, name in enumerate(self.order)}
        keys = sorted(self.lines, key=lambda key: (len(key[0]), [place.get(name, len(place)) for name in key[0]]))
        return tuple(self.lines[key].finding(*key, most=self.examples) for key in keys)


def _reasons(values: pl.Series, among: Booleans, column: Column, refusal: DataError) -> Iterator[Misfit]:
    """Yield why some values are refused; values that are refused for a reason unknown keep the first one."""
    rest = among.copy()
    reasons: list[Misfit] = []
    with contextlib.suppress(DataError):
        reasons = quietly(lambda: column.misfits(values.filter(among)), refusal)
    for misfit in reasons:
        where = np.zeros(len(values), dtype=np.bool_)
        where[among] = misfit.where
        rest &= ~where
        yield misfit._replace(where=where)
    try:
        column.encode(values.filter(rest), name=refusal.column)
    except DataError:
        yield Misfit(refusal.problem, refusal.remedy, rest)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; long texts are cut."""
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _remedies(findings: Sequence[Finding]) -> list[str]:
    """Return each remedy once, with the columns that it is for."""
    columns: dict[str, dict[str, None]] = {}
    for finding in findings:
        columns.setdefault(finding.remedy, {}).update(dict.fromkeys(finding.columns))
    lines = {f"- {sentence(remedy)}": harmless(", ".join(names)) for remedy, names in columns.items()}
    return [f"{line}: {names}" if names else line for line, names in lines.items()]
