"""What of a confidential table does not fit its declaration: everything at once, for the custodian alone.

A release refuses the first thing that does not fit. Here all columns are looked at before one is made. Whether values
fit is decided by the release's own encoding. Only where it refuses is it asked of each value what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from discreet._core.arrays import Booleans
from discreet._core.boundary import enclosed, quietly
from discreet._core.checks import integer
from discreet._core.errors import DataError
from discreet._core.lazy import pl
from discreet._core.text import aligned, counted, harmless, sentence
from discreet.confidential.closed import Confidential
from discreet.confidential.count import OTHER_COLUMNS, require_unit, wrong_names
from discreet.confidential.source import FREQUENCY, RESERVED, Source, Texts, open_source, parsed_column
from discreet.confidential.units import NO_UNIT, Holdings
from discreet.domain import Domain
from discreet.domain.column import Codes, Column, Misfit, missing_in
from discreet.domain.domain import require_domain
from discreet.privacy import Unit

BANNER = (
    "CONFIDENTIAL: values of the private data. Do not publish them, and declare nothing that is known from here only"
)
"""How the text of a check begins."""

_TRACKED = 1000  # distinct values per finding whose rows are counted: what memory holds
_LONGEST = 60  # characters of a value that are kept
_CONTRADICTION = "contradicts what is declared under impossible or implies"
_AS_THEY_ARE = "correct the rows if they are wrong: a release counts them as they are"


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
        cells = [("column", "what does not fit", "rows"), *map(_cells, self.findings)]
        shown = ["values (rows)", *(", ".join(map(str, finding.examples)) for finding in self.findings)]
        lines += ["", *(f"{line}  {last}".rstrip() for line, last in zip(aligned(cells, left=2), shown, strict=True))]
        lines += ["", "What to do:", *_remedies(self.findings)]
        return "\n".join([*lines, "", f"A release of this table would {'' if self.refused else 'not '}be refused."])


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
    wrong = list(wrong_names(source, domain, unit=unit, other_columns=other_columns))
    mixed: dict[str, DataError] = {}
    while True:
        scan = _Scan(source, domain, unit=column, leave_out=mixed, examples=examples)
        try:
            scan.run()
            break
        except DataError as problem:  # of a column whose values have no common type
            if problem.column is None or problem.column in mixed:
                raise
            mixed[problem.column] = problem
    for refusal, _ in wrong:
        scan.found.whole(refusal)
    for name, refusal in mixed.items():
        scan.mixed(data, name, refusal)
    if scan.names and not scan.rows:
        scan.found.whole(DataError(None, "has no rows", "a release needs at least one record"))
    units = None if unit is None else scan.unit_rows(unit.max_records)
    return TableCheck(
        rows=scan.rows if scan.names else None,
        findings=scan.found.findings([*domain.names, *([] if column is None else [column])]),
        units=units,
    )


class _Scan:
    """One pass over a table.

    ``leave_out``: columns that cannot be read.
    """

    def __init__(
        self, source: Source, domain: Domain, *, unit: str | None, leave_out: Iterable[str], examples: int
    ) -> None:
        self.source, self.domain = source, domain
        readable = {name for name in source.names if not name.startswith(RESERVED)} - set(leave_out)
        self.columns = {name: column for name, column in domain.columns.items() if name in readable}
        self.unit = unit if unit in readable else None
        self.names = list(dict.fromkeys([*self.columns, *([] if self.unit is None else [self.unit])]))
        self.holdings = None if self.unit is None else Holdings(self.unit)
        self.found = _Findings(examples)
        self.rows = 0

    def run(self) -> None:
        """Look at every row. Raises DataError where a column, or the table, cannot be read."""
        for batch in self.source.batches(self.names) if self.names else ():
            if batch.height == 0:
                continue
            times = batch[FREQUENCY].cast(pl.Int64) if FREQUENCY in batch.columns else _once(batch.height)
            self.rows += int(times.sum())
            judged = {name: self._column(batch[name], name, column, times) for name, column in self.columns.items()}
            self._contradictions(judged, times)
            self._hold(batch, times)

    def _column(self, raw: pl.Series, name: str, column: Column, times: pl.Series) -> _Judged:
        texts = self.source.texts if name in self.source.texts else None
        judged = _judged(raw, column, name=name, texts=texts)
        for misfit in judged.misfits:
            self.found.add((name,), misfit, [judged.values if misfit is not judged.unread else raw], times)
        return judged

    def _contradictions(self, judged: Mapping[str, _Judged], times: pl.Series) -> None:
        """Look for what the domain declares impossible, in rows whose values fit column by column."""
        for constraint in self.domain.constraints:
            names = [self.domain.names[place] for place in constraint.columns]
            if not set(names) <= set(judged):
                continue
            columns = {name: judged[name] for name in names}
            fits = np.logical_and.reduce([one.fits for one in columns.values()])
            codes = tuple(one.codes_where(fits, self.domain.columns[name]) for name, one in columns.items())
            where = np.zeros(len(times), dtype=np.bool_)
            where[fits] = ~constraint.allowed[codes]
            values = [one.values.alias(name) for name, one in columns.items()]
            self.found.add(names, Misfit(_CONTRADICTION, _AS_THEY_ARE, where), values, times, refused=False)

    def _hold(self, batch: pl.DataFrame, times: pl.Series) -> None:
        """Count the rows of units."""
        if self.holdings is None:
            return
        unit, held = self.holdings.unit, np.ones(batch.height, dtype=np.bool_)
        if batch[unit].dtype.base_type() is not pl.Object:
            held = ~missing_in(batch[unit]).to_numpy()
        self.found.add((unit,), Misfit(*NO_UNIT, ~held), [batch[unit]], times)
        try:
            self.holdings.add(batch.filter(held))
        except DataError as refusal:
            self.found.add((unit,), Misfit(refusal.problem, refusal.remedy, held), [batch[unit]], times)

    def mixed(self, data: Any, name: str, refusal: DataError) -> None:
        """Look at a column whose values have no common type, type by type."""
        column, before = self.domain.columns.get(name), len(self.found.lines)
        if column is not None and self.source.kind == "pandas":
            for values in _by_type(data[name], refusal):
                self._column(values, name, column, _once(len(values)))
        if len(self.found.lines) == before:
            self.found.whole(refusal)

    def unit_rows(self, slots: int) -> UnitRows | None:
        """Return how many rows units have; None where that cannot be told."""
        if self.holdings is None:
            return None
        try:
            held = self.holdings.held()
        except DataError as refusal:
            self.found.whole(refusal)
            return None
        over = held > slots
        return UnitRows(
            units=len(held), most=int(held.max(initial=0)), over=int(over.sum()), cut=int((held[over] - slots).sum())
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The values of a column in a batch.

    ``values``: as the declared type.
    ``codes``: of all of them; None where some do not fit.
    ``misfits``: what does not fit.
    ``unread``: which texts cannot be read.
    """

    values: pl.Series
    codes: Codes | None
    misfits: Sequence[Misfit] = ()
    unread: Misfit | None = None

    @property
    def fits(self) -> Booleans:
        """Which values fit."""
        fits = np.ones(len(self.values), dtype=np.bool_)
        for misfit in self.misfits:
            fits &= ~misfit.where
        return fits

    def codes_where(self, fits: Booleans, column: Column) -> Codes:
        """Return the codes of some of the values that fit."""
        return column.encode(self.values.filter(fits)) if self.codes is None else self.codes[fits]


def _judged(raw: pl.Series, column: Column, *, name: str, texts: Texts | None) -> _Judged:
    """Encode a column as a release does; where that is refused, find out why.

    Types that no declaration takes are refused before anything is computed from their values.
    """
    fits = np.ones(len(raw), dtype=np.bool_)
    try:
        if texts is None:
            column.encode(raw.clear(), name=name)
        nothing = Misfit("", "", ~fits)
        values, unread = raw, nothing
        if texts is not None:
            values, unread = quietly(
                lambda: parsed_column(raw, column, decimal_comma=texts.decimal_comma), column._unreadable(name)
            )
    except DataError as refusal:
        return _Judged(values=raw, codes=None, misfits=[Misfit(refusal.problem, refusal.remedy, fits)])
    fits &= ~unread.where
    try:
        codes = column.encode(values.filter(fits), name=name)
        return _Judged(values=values, codes=codes if fits.all() else None, misfits=[unread], unread=unread)
    except DataError as refusal:
        found = list(_explained(values, fits, column, refusal))
        return _Judged(values=values, codes=None, misfits=[unread, *found], unread=unread)


def _explained(values: pl.Series, among: Booleans, column: Column, refusal: DataError) -> Iterator[Misfit]:
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


def _by_type(column: Iterable[Any], refusal: DataError) -> Iterator[pl.Series]:
    """Yield the values of a column of Python objects type by type. Raises the refusal where one type cannot be read."""
    kinds: dict[str, list[Any]] = {}
    for value in column:
        kinds.setdefault(type(value).__name__, []).append(value)
    for kind, values in kinds.items():
        if kind in ("NoneType", "NAType", "NaTType"):
            yield pl.repeat(None, len(values), dtype=pl.Null(), eager=True)
        else:
            yield quietly(lambda values=values: pl.Series(values), refusal)  # type: ignore[misc]


def _once(height: int) -> pl.Series:
    return pl.repeat(1, height, dtype=pl.Int64(), eager=True)


@dataclass(slots=True, kw_only=True)
class _Line:
    """A finding while rows are still looked at."""

    columns: tuple[str, ...]
    remedy: str
    refused: bool
    rows: int | None = None
    examples: dict[Any, int] = field(default_factory=dict)


class _Findings:
    """What was found, and the rows of a bounded number of values each."""

    def __init__(self, examples: int) -> None:
        self.examples = examples
        self.lines: dict[tuple[tuple[str, ...], str], _Line] = {}

    def whole(self, refusal: DataError) -> None:
        """Add what is wrong with a column, or the table, as a whole."""
        columns = () if refusal.column is None else (refusal.column,)
        self._line(columns, refusal.problem, refusal.remedy, refused=True)

    def add(
        self,
        columns: Sequence[str],
        misfit: Misfit,
        values: Sequence[pl.Series],
        times: pl.Series,
        *,
        refused: bool = True,
    ) -> None:
        """Add what is wrong with some rows of a batch; nothing where it is with none.

        ``values``: of the columns, in the whole batch.
        ``times``: how often each row occurs.
        """
        if not misfit.where.any():
            return
        line = self._line(tuple(columns), misfit.problem, misfit.remedy, refused=refused)
        rows = times.filter(misfit.where)
        line.rows = (line.rows or 0) + int(rows.sum())
        if self.examples and all(_has_text(one.dtype) for one in values):
            frame = pl.DataFrame([one.filter(misfit.where).alias(str(place)) for place, one in enumerate(values)])
            each = frame.with_columns(rows.alias(FREQUENCY)).group_by(frame.columns).agg(pl.col(FREQUENCY).sum())
            for *found, count in each.top_k(_TRACKED, by=FREQUENCY).iter_rows():
                key = tuple(map(_plain, found))
                if key in line.examples or len(line.examples) < _TRACKED:
                    line.examples[key] = line.examples.get(key, 0) + count

    def _line(self, columns: tuple[str, ...], problem: str, remedy: str, *, refused: bool) -> _Line:
        return self.lines.setdefault((columns, problem), _Line(columns=columns, remedy=remedy, refused=refused))

    def findings(self, order: Sequence[str]) -> tuple[Finding, ...]:
        """Return what was found: by columns in this order, then by others, then by several columns."""
        place = {name: index for index, name in enumerate(order)}

        def where(columns: tuple[str, ...]) -> tuple[int, list[int]]:
            return len(columns), [place.get(name, len(place)) for name in columns]

        lines = sorted(self.lines.items(), key=lambda item: where(item[0][0]))
        return tuple(
            Finding(
                columns=columns,
                problem=problem,
                remedy=line.remedy,
                rows=line.rows,
                refused=line.refused,
                examples=tuple(self._examples(line)),
            )
            for (columns, problem), line in lines
        )

    def _examples(self, line: _Line) -> Iterator[Example]:
        told = [(key, rows) for key, rows in line.examples.items() if key not in ((None,), ("nan",))]
        for key, rows in sorted(told, key=lambda item: (-item[1], str(item[0])))[: self.examples]:
            yield Example(value=key[0] if len(key) == 1 else dict(zip(line.columns, key, strict=True)), rows=rows)


def _has_text(dtype: pl.DataType) -> bool:
    return not (dtype.is_nested() or dtype.base_type() in {pl.Object, pl.Binary, pl.Unknown})


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; long texts are cut."""
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


# -- text -------------------------------------------------------------------------------------------------------------


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cells(finding: Finding) -> tuple[str, str, str]:
    where = harmless(", ".join(finding.columns)) or "the table"
    return where, finding.problem, "-" if finding.rows is None else f"{finding.rows:,}"


def _remedies(findings: Sequence[Finding]) -> list[str]:
    """Return each remedy once, with the columns that it is for."""
    of: dict[str, dict[str, None]] = {}
    for finding in findings:
        of.setdefault(finding.remedy, {}).update(dict.fromkeys(finding.columns))
    return [
        f"- {sentence(remedy)}" + (f": {harmless(', '.join(columns))}" if columns else "")
        for remedy, columns in of.items()
    ]
