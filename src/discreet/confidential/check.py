"""What of a confidential table does not fit its declaration: everything at once, for the custodian alone.

A release refuses the first thing that does not fit. Here all columns are looked at before one is made. Whether values
fit is decided by the release's own encoding. Only where it refuses is it asked of each value what is wrong.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core.boundary import enclosed, quietly, sealed
from discreet._core.errors import DataError, DiscreetError, FileProblem, integer
from discreet._core.lazy import pl
from discreet._core.numeric import Booleans
from discreet._core.text import counted, harmless, sentence
from discreet.confidential.closed import Confidential
from discreet.confidential.count import OTHER_COLUMNS, require_unit
from discreet.confidential.hints import column_hints, heap_hint, pair_hints, plain_value
from discreet.confidential.source import FREQUENCY, RESERVED, Source, merge, texts_of, unit_of, wrong_names
from discreet.confidential.tables import open_declared, open_source
from discreet.confidential.units import NO_UNIT, Holdings
from discreet.domain import Column, Domain, Misfit, missing_in, require_domain
from discreet.privacy import Unit

BANNER = (
    "CONFIDENTIAL: values of the private data. Do not publish them, and declare nothing that is known from here only"
)
"""How the text of a check begins."""

_TRACKED = 1000  # distinct values per finding whose rows are counted: what memory holds
_FATES = {
    "clip": "a release takes the nearest, else null or the lower bound",
    "null": "a release takes each for a null",
    "other": 'a release takes each for the label "other"',
}
"""What becomes of values that do not fit, by ``out_of_bounds``."""
_MOVED = "correct the rows if they are wrong: a release moves each to a record that the rules allow"
_BROKEN = "contradicts a rule of the domain", _MOVED
_ORPHANS, _REPEATED = "names a unit that has no row of its own", "names a unit that has another row of its own"
_LEFT_OUT = "correct them if they are wrong: a release leaves them out"
_LOST = "its difference is clipped, or from a null", "widen the bounds if that is usual, else correct the rows"


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
        text = json.dumps(self.value, ensure_ascii=False)
        if isinstance(self.value, Mapping):
            text = ", ".join(f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in self.value.items())
        return harmless(f"{text} ({self.rows:,})")


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class TableFinding:
    """One thing that does not fit. Confidential.

    ``columns``: the columns concerned; none where it is the table as a whole.
    ``problem``, ``remedy``: what is wrong, and what to do about it.
    ``rows``: how many rows; None where it is about columns and not about rows.
    ``refused``: whether a release is refused for it.
    ``examples``: values that do not fit, the most frequent first.
    ``unlisted``: how many more values there are, as far as they were counted.
    """

    columns: tuple[str, ...]
    problem: str
    remedy: str
    rows: int | None
    refused: bool
    examples: tuple[Example, ...] = ()
    unlisted: int = 0

    def __str__(self) -> str:
        rows = "" if self.rows is None else f" ({counted(self.rows, 'row')})"
        more = [counted(self.unlisted, "other value")] if self.unlisted else []
        shown = f": {', '.join([*map(str, self.examples), *more])}" if self.examples else ""
        return f"{sentence(self.problem)}{rows}{shown}. {sentence(self.remedy)}"


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
        units = f"{counted(self.units, 'unit')} with at most {counted(self.most, 'row')} each"
        cut = f"{counted(self.cut, 'row')} of {counted(self.over, 'unit')} would be cut"
        return f"{units}: {cut}. Choose max_records from public knowledge, not from these numbers"


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """What of a confidential table does not fit its declaration. Confidential.

    ``rows``: how many rows; None where no declared column is in the table.
    ``findings``: all that does not fit, in the order of the domain's columns.
    ``units``: how many rows privacy units have, of several tables by name; None without a unit, or where some rows have
    none.
    ``hints``: what is worth a look, by column, as far as the first 262,144 rows tell: what looks like an identifier or
    tells of a person, one thing that two columns code, one value only, codes of what is missing, dates in order, and
    heaped values, of which no other one is named than a bound or 0. Each says what to write.
    """

    rows: int | None
    findings: tuple[TableFinding, ...]
    units: UnitRows | Mapping[str, UnitRows | None] | None = None
    hints: Mapping[str, str] = field(default_factory=dict)

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
        if isinstance(self.units, Mapping):
            lines += [f"{harmless(name)}: {units}" for name, units in self.units.items() if units is not None]
        elif self.units is not None:
            lines.append(str(self.units))
        hints = ["", "Worth a look:"] if self.hints else []
        hints += [f"{harmless(name)}: {text}" for name, text in self.hints.items()]
        if self.fits:
            return "\n".join([*lines, "Everything fits the declaration.", *hints])
        entries: dict[tuple[str, ...], tuple[dict[str, None], dict[str, None]]] = {}  # names, and sentences about them
        for finding in self.findings:  # columns that are wrong as a whole have one line together
            key = finding.columns if finding.rows is not None else (finding.problem, finding.remedy)
            names, sentences = entries.setdefault(key, ({}, {}))
            names |= dict.fromkeys(finding.columns)
            sentences[str(finding)] = None
        lines.append("")
        for names, sentences in entries.values():
            text = ". ".join(sentences)
            lines.append(f"{harmless(', '.join(names)) or 'the table'}: {text[:1].lower()}{text[1:]}")
        verdict = "would be refused"
        if not self.refused:
            verdict = "would take what does not fit as said above, and is not refused"
        return "\n".join([*lines, "", f"A release of this table {verdict}.", *hints])


@sealed
def check_table(
    data: Any, domain: Domain, *, unit: Unit | None = None, accept: Collection[str] = (), examples: int = 5
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
        How many values to name per finding, the most frequent of the first 1,000; 0 for counts alone. An error then
        does not name the file of a folder either.

    Returns
    -------
    Confidential of TableCheck
        Closed; :func:`reveal_to_custodian` opens it. ``refused`` is false exactly where :func:`confidential` takes the
        table. Values that are moved as ``out_of_bounds`` declares are found, but not refused, and so are combinations
        that the domain declares impossible.

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
    require_unit(domain, unit, by_unit=unit is not None)
    integer("examples", examples, least=0)
    try:
        return Confidential(_checked(data, domain, unit=unit, other_columns=OTHER_COLUMNS in accept, examples=examples))
    except FileProblem as problem:
        if examples and isinstance(data, (str, PathLike)) and (file := _failed_file(Path(data))):
            problem.problem, problem.remedy = f"{problem.problem}: {file}", problem.remedy.partition(". ")[0]
        raise


@enclosed
def _checked(data: Any, domain: Domain, *, unit: Unit | None, other_columns: bool, examples: int) -> TableCheck:
    sources, unit, scans = open_declared(data, domain, refused=""), unit_of(domain, unit), list[_Scan]()
    for name, part in domain.table_domains.items():
        unit = unit_of(domain, unit, name)
        names = part.names if unit is None else tuple(dict.fromkeys([*part.names, unit.column]))
        refusals = wrong_names(sources[name], names, other_columns=other_columns)
        unreadable: dict[str, DataError] = {}
        while True:
            scan = _Scan(sources[name], part, [name for name in names if name not in unreadable], unit, examples)
            try:
                scan.run()
                break
            except DataError as problem:  # of a column whose values have no common type
                if problem.column is None or problem.column in unreadable:
                    raise
                unreadable[problem.column] = problem
        for refusal in [*refusals, *unreadable.values()]:
            scan.add_whole(refusal)
        scans.append(scan)
    if scans[0].names and not scans[0].rows:
        scans[0].add_whole(DataError(None, "has no rows", "a release needs at least one record"))
    linked = int(domain.units is not None)
    units = [scan.unit_rows(*scans[:linked], count_repeated=scan is scans[linked]) for scan in scans[linked:]]
    findings = tuple(finding for scan in scans for finding in scan.findings(domain.row_domain.names))
    if not all(scan.names for scan in scans):
        return TableCheck(rows=None, findings=findings)
    for scan in scans:
        if scan.source.cells is None and scan.source.kind != "database":
            scan.look_at_others()
    texts_of_columns = [(name, texts) for scan in scans for name, texts in scan.hints.items() if texts]
    hints = {name: ". ".join([texts[0], *map(sentence, texts[1:])]) for name, texts in texts_of_columns}
    by_table = dict(zip(domain.row_tables, units, strict=True)) if len(units) > 1 else units[0]
    return TableCheck(rows=sum(scan.rows for scan in scans), findings=findings, units=by_table, hints=hints)


def _failed_file(folder: Path) -> str:
    """Return the first file of a folder that is no Parquet file like the first, without values of partitions."""
    original: Any = None
    for file in sorted(path for path in folder.rglob("[!._]*") if not path.is_dir()):
        with contextlib.suppress(DiscreetError):
            source = open_source(file)
            deque(source.batches(source.names), maxlen=0)
            if source.kind == "parquet" and source.empty_frame is not None:
                schema = source.empty_frame(sorted(source.names)).schema
                original = original or schema
                if schema == original:
                    continue
        return re.sub("=[^/]*/", "=.../", str(file.relative_to(folder)))
    return ""


@dataclass(slots=True)
class _FindingCounts:
    """A finding while rows are still looked at: ``examples`` are values, and the rows of a bounded number of them."""

    remedy: str
    refused: bool
    rows: int | None = None
    examples: Counter[tuple[Any, ...]] = field(default_factory=Counter)


class _Scan:
    """One pass over those of some columns that are in a table."""

    def __init__(self, source: Source, domain: Domain, names: Sequence[str], unit: Unit | None, examples: int) -> None:
        self.source, self.domain, self.unit, self.examples = source, domain, unit, examples
        self.names = [name for name in names if name in source.names and not name.startswith(RESERVED)]
        self.declared = [name for name in self.names if name in domain.columns]
        self.holdings = Holdings(unit.column) if unit is not None and unit.column in self.names else None
        self.rows = 0
        self.lines: dict[tuple[tuple[str, ...], str], _FindingCounts] = {}
        self.hints: defaultdict[str, list[str]] = defaultdict(list)

    def run(self) -> None:
        """Look at every row. Raises DataError where a column, or the table, cannot be read."""
        for batch in self.source.batches(self.names) if self.names else ():
            if batch.height == 0:
                continue
            once = pl.repeat(1, batch.height, dtype=pl.Int64(), eager=True)
            times = batch.get_column(FREQUENCY, default=once).cast(pl.Int64)
            self.rows += int(times.sum())
            columns = {name: self._column(name, batch[name], times) for name in self.declared}
            self._contradictions(columns, times)
            if self.rows == times.sum():
                self._look(columns, times)
            if self.holdings is not None:
                self._hold(batch, self.holdings, times)

    def _look(self, columns: Mapping[str, tuple[pl.Series, Booleans]], times: pl.Series) -> None:
        """Look for what may be overlooked in a batch."""
        for name, (values, fits) in columns.items():
            column, rows = self.domain.columns[name], times.filter(fits)
            typed = column.read(values.filter(fits), name=name)
            if self.unit is None or name != self.unit.column:
                self.hints[name] += column_hints(name, column, typed, rows)
            self.hints[name] += heap_hint(column, typed, rows)
        together = np.logical_and.reduce([fits for _, fits in columns.values()])
        typed_columns = {name: self.domain.columns[name].read(columns[name][0].filter(together)) for name in columns}
        for name, text in pair_hints(self.domain, typed_columns):
            self.hints[name].append(text)

    def look_at_others(self) -> None:
        """Look for persons in columns that are not declared, as far as they can be read."""
        known = {*self.domain.names, self.unit and self.unit.column}
        others = [name for name in self.source.names if name not in known and not name.startswith(RESERVED)]
        with contextlib.suppress(DiscreetError):
            for values in next(iter(self.source.batches(others)), pl.DataFrame()) if others else ():
                times = pl.repeat(1, len(values), dtype=pl.Int64(), eager=True)
                self.hints[values.name] += column_hints(values.name, None, values, times)

    def _column(self, name: str, raw: pl.Series, times: pl.Series) -> tuple[pl.Series, Booleans]:
        """Encode a column as a release does; return its values as the declared type, and which of them fit."""
        # Types that no declaration takes are refused before anything is computed from their values.
        column, fits = self.domain.columns[name], np.ones(len(raw), dtype=np.bool_)
        problem, refused = column._unreadable(name), column.out_of_bounds == "error"
        try:
            if name not in self.source.texts:
                column.encode(texts_of(raw.clear(), column, self.source), name=name)
            values = quietly(partial(texts_of, raw, column, self.source), problem)
        except DataError as refusal:
            self.add((name,), Misfit(refusal.problem, refusal.remedy, fits), [raw], times)
            return raw, ~fits
        try:
            column.encode(values, name=name)
            if refused:
                return values, fits
        except DataError as refusal:
            problem = refusal
        for misfit in _misfits_of(values, column, problem):
            if (fate := _FATES.get(column.out_of_bounds)) and "out_of_bounds" not in (remedy := misfit.remedy):
                fate = f"{remedy}. Otherwise {fate}"
            self.add((name,), misfit._replace(remedy=fate or misfit.remedy), [values], times, refused)
            fits &= ~misfit.where
        return values, fits | (not refused)

    def _contradictions(self, columns: Mapping[str, tuple[pl.Series, Booleans]], times: pl.Series) -> None:
        """Look for what the domain declares impossible, in rows whose values fit column by column."""
        domain, rules = self.domain, list[Any]()
        rules += [(one.columns, lambda codes, one=one: ~one.allowed[codes], *_BROKEN) for one in domain.constraints]
        rules += [(difference.columns, difference.lost, *_LOST) for difference in domain.differences]
        for places, broken, problem, remedy in rules:
            names = [domain.names[place] for place in places]
            if not set(names) <= set(columns):
                continue
            where = np.logical_and.reduce([columns[name][1] for name in names])
            codes = tuple(domain.columns[name].encode(columns[name][0].filter(where)) for name in names)
            where[where] = broken(codes)
            values = [columns[name][0] for name in names]
            self.add(names, Misfit(problem, remedy, where), values, times, refused=False)

    def _hold(self, batch: pl.DataFrame, holdings: Holdings, times: pl.Series) -> None:
        """Count the rows of units."""
        units = batch[holdings.unit]
        named = ~missing_in(units).to_numpy()
        self.add((holdings.unit,), Misfit(*NO_UNIT, ~named), [units], times)
        try:
            holdings.add(batch.filter(named))
        except DataError as refusal:
            self.add((holdings.unit,), Misfit(refusal.problem, refusal.remedy, named), [units], times)

    def unit_rows(self, units: _Scan | None = None, *, count_repeated: bool = True) -> UnitRows | None:
        """Return how many rows units have, which another table may name; None where that cannot be told."""
        if self.holdings is None or self.unit is None:
            return None
        lost = [0, 0]
        try:
            rows, slots = self.holdings.held(), self.unit.max_records
            if units is not None and units.holdings is not None:
                rows, *lost = self.holdings.held_by(units.holdings)
        except DataError as refusal:
            self.add_whole(refusal)
            return None
        for problem, count in zip((_ORPHANS, _REPEATED), lost, strict=True):
            if count and (count_repeated or problem == _ORPHANS):
                self.lines[(self.unit.column,), problem] = _FindingCounts(_LEFT_OUT, refused=False, rows=count)
        cut = rows[rows > slots] - slots
        return UnitRows(units=len(rows), most=int(rows.max(initial=0)), over=len(cut), cut=int(cut.sum()))

    def add_whole(self, refusal: DataError) -> None:
        """Add what is wrong with a column, or the table, as a whole."""
        columns = () if refusal.column is None else (refusal.column,)
        self.lines.setdefault((columns, refusal.problem), _FindingCounts(remedy=refusal.remedy, refused=True))

    def add(
        self, names: Sequence[str], misfit: Misfit, values: Sequence[pl.Series], times: pl.Series, refused: bool = True
    ) -> None:
        """Add what is wrong with some rows of a batch, whose values and frequencies are given whole."""
        if not misfit.where.any():
            return
        line = self.lines.setdefault((tuple(names), misfit.problem), _FindingCounts(misfit.remedy, refused))
        rows = times.filter(misfit.where)
        line.rows = (line.rows or 0) + int(rows.sum())
        textless = {pl.Object, pl.Binary, pl.Unknown}
        if not self.examples or any(v.dtype.is_nested() or v.dtype.base_type() in textless for v in values):
            return
        frame = pl.DataFrame([series.filter(misfit.where).alias(str(place)) for place, series in enumerate(values)])
        counts = merge([frame.with_columns(rows.alias(FREQUENCY))])
        for *example, count in counts.top_k(_TRACKED, by=FREQUENCY).iter_rows():
            key = tuple(map(plain_value, example))
            if key in line.examples or len(line.examples) < _TRACKED:
                line.examples[key] += count

    def findings(self, names: Sequence[str]) -> Iterator[TableFinding]:
        """Yield what was found, in the order of the names, with its most frequent examples but nulls and NaN."""
        places = {name: place for place, name in enumerate(names)}
        order = {key: (len(key[0]), [places.get(name, len(names)) for name in key[0]]) for key in self.lines}
        for (columns, problem), line in sorted(self.lines.items(), key=lambda item: order[item[0]]):
            values = sorted(line.examples.items(), key=lambda item: (-item[1], str(item[0])))
            examples = [
                Example(value=dict(zip(columns, key, strict=True)) if len(key) > 1 else key[0], rows=rows)
                for key, rows in values
                if key not in ((None,), ("nan",))
            ]
            facts: dict[str, Any] = {"remedy": line.remedy, "rows": line.rows, "refused": line.refused}
            facts |= {"examples": tuple(examples[: self.examples]), "unlisted": len(examples[self.examples :])}
            yield TableFinding(columns=columns, problem=problem, **facts)


def _misfits_of(values: pl.Series, column: Column, refusal: DataError) -> Iterator[Misfit]:
    """Yield why some values are refused; values that are refused for a reason unknown keep the first one."""
    unexplained = np.ones(len(values), dtype=np.bool_)
    with contextlib.suppress(DataError):
        for misfit in quietly(partial(column.misfits, values), refusal):
            unexplained &= ~misfit.where
            yield misfit
    try:
        column.encode(values.filter(unexplained), name=refusal.column)
    except DataError:
        yield Misfit(refusal.problem, refusal.remedy, unexplained)
