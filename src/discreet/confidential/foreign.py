"""Files of SPSS, Stata, SAS and Excel, each read by a kept library of the extra ``foreign``.

Those libraries can end the process on a damaged file, as no reader of Python's own can. So another process reads each
file in full first. That is the check of its form, too, before anything is counted or paid for.

Values of SPSS, Stata and SAS have types: numbers, texts, dates, moments, times of day and lengths of time, the last
four by their format. What a program calls missing is a null, and so is an empty text. The cells of a workbook have a
type each, so its columns are texts, like those of CSV.
"""

from __future__ import annotations

import codecs
import datetime as dt
import json
import os
import re
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from discreet._core.boundary import quietly
from discreet._core.errors import FileProblem, MissingExtra
from discreet._core.formats import Format
from discreet._core.lazy import pl
from discreet.confidential.source import BATCH, TYPED, Source, text_source
from discreet.domain import Column, span_text, unescaped

_DAY = 86_400_000  # milliseconds, in which all times are counted here
_SPSS, _SIXTIES = dt.date(1582, 10, 14), dt.date(1960, 1, 1)
_CLOCKS = {  # by program: where its times begin, and the milliseconds of 1 as a date, and as a moment or a time
    "SPSS": (_SPSS, 1000, 1000),
    "Stata": (_SIXTIES, _DAY, 1),
    "SAS": (_SIXTIES, _DAY, 1000),
}
_KINDS = {  # by program: how the formats of a kind of column begin
    "SPSS": {
        "datetime": r"DATETIME|YMDHMS",
        "date": r"[AEJS]?DATE|MOYR|QYR|WKYR",
        "duration": r"DTIME",
        "time": r"M?TIME",
        "integer": r"[FN]\d+(\.0)?$",
    },
    "Stata": {"time": r"%-?tcHH", "datetime": r"%-?tc", "date": r"%-?t?d"},
    "SAS": {
        "datetime": r"DATETIME|(DATE|MDY)AM|NLDATM|DT(DA|MO|WK|YE)|..?8601D[TNZ]",
        "date": r"DATE|(NL|WORD|WEEK)DAT|[DM]+YY|MONYY|YY[MQW]|JUL|..?8601DA",
        "time": r"TIME|TOD|HHMM|MMSS|HOUR|..?8601T[MZ]",
    },
}
_WHOLE = 1e15  # below which a whole number of Excel has all its digits
_REACH = 2.0**62 / 1000  # milliseconds that can be counted in microseconds


def open_foreign(text: str, path: Path, form: Format) -> Source:
    """Look at the names and types of a file. Raises MissingExtra without its library, FileProblem for its form."""
    module = form.reader.partition(".")[0]
    if find_spec(module) is None:
        raise MissingExtra(f"reading {form.kind} files needs {module.replace('_', '-')}", "foreign")
    remedy = "give the complete file, without a password"
    if form.kind == "Excel":
        remedy += ", and no cell far from its table"
    broken = FileProblem(text, f"is not a readable {form.kind} file", remedy)
    path, state = path.resolve(), quietly(path.stat, broken)
    version = state.st_ino, state.st_size, state.st_mtime_ns
    if problem := quietly(partial(_form_problem, path, form, version), broken):
        raise FileProblem(text, *problem)
    if form.kind == "Excel":
        return quietly(partial(_of_workbook, text, path, form, version), broken)
    return quietly(partial(_of_variables, text, path, form, broken), broken)


# -- another process ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _form_problem(path: Path, form: Format, _version: object) -> list[str]:
    """Return what is wrong with the form of a file, and what to do; raises where a process ends in reading it."""
    program = f"from {__name__} import tell_problem; tell_problem()"
    command = [sys.executable, "-P", "-c", program, str(path), json.dumps(asdict(form))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    reader = subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: S603 - this Python
    answer: list[str] = json.loads(reader.stdout)
    return answer


def tell_problem() -> None:
    """Read a file in full, in a process of its own, and write what is wrong with its form to standard output."""
    answer: list[str]
    path, form, answer = Path(sys.argv[1]), Format(**json.loads(sys.argv[2])), []
    try:
        if form.kind == "Excel":
            _cells(path, form, None)
        else:
            for _ in _row_parts(path, form, None):
                pass
    except FileProblem as problem:
        answer = [problem.problem, problem.remedy]
    print(json.dumps(answer))  # noqa: T201


# -- SPSS, Stata and SAS -----------------------------------------------------------------------------------------------


def _read(path: Path, form: Format, **options: Any) -> tuple[pl.DataFrame, Any]:
    """Return rows of a file and what it says of itself. Raises FileProblem where its texts are in another encoding."""
    reader = getattr(import_module("pyreadstat"), form.reader.partition(".")[2])
    options |= {"output_format": "polars", "disable_datetime_conversion": True}
    if form.encoding:
        options["encoding"] = codecs.lookup(form.encoding).name  # which other libraries know, too
    try:
        frame, facts = reader(str(path), **options)
    except Exception as problem:
        if isinstance(problem, UnicodeDecodeError) or "encoding" in str(problem):
            remedy = "name its encoding, often latin-1 or cp1252"
            raise FileProblem(path, "holds text that is not in the encoding that it states", remedy) from None
        raise
    return frame, facts


def _row_parts(path: Path, form: Format, columns: Sequence[str] | None) -> Iterator[pl.DataFrame]:
    """Yield the rows of a file, as they are stored."""
    start, height = 0, BATCH
    while height == BATCH:
        frame, _ = _read(path, form, usecols=columns, row_offset=start, row_limit=BATCH)
        start, height = start + BATCH, frame.height
        yield frame


def _of_variables(text: str, path: Path, form: Format, broken: FileProblem) -> Source:
    options = {"metadataonly": True}
    if form.kind == "SPSS":
        options["user_missing"] = True  # so that it tells which codes are missing
    _, facts = _read(path, form, **options)
    kinds = {name: _kind(facts, name, form.kind) for name in facts.column_names}
    stored = {"s": pl.String(), "i": pl.Int64(), "d": pl.Float64(), "f": pl.Float64()}  # string, int8, double, float
    types = {name: stored[facts.readstat_variable_types[name][0]] for name in kinds}

    def typed(frame: pl.DataFrame, columns: Collection[str]) -> pl.DataFrame:
        parts = [frame[name].cast(types[name]) for name in columns]
        return pl.DataFrame([_as_kind(part, kinds[part.name], form.kind) for part in parts])

    def batches(columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        parts = _row_parts(path, form, list(columns))
        while (part := quietly(partial(next, parts, None), broken)) is not None:
            yield quietly(partial(typed, part, columns), broken)

    labels = {name: _labels_of(facts, name) for name in facts.variable_value_labels}
    return Source(
        kind=form.kind.lower(),
        path=text,
        stays=True,
        names=tuple(kinds),
        types=lambda: kinds,
        empty_frame=partial(typed, pl.DataFrame(schema=types)),
        batches=batches,
        labels=labels,
        convert=partial(_labelled, labels),
    )


def _kind(facts: Any, name: str, program: str) -> str:
    """Return the kind of column that usually declares a variable."""
    stored = facts.readstat_variable_types[name]
    if stored == "string":
        return "string"
    written = facts.original_variable_types[name] or ""
    usual = "integer" if stored.startswith("int") else "numeric"
    return next((kind for kind, form in _KINDS[program].items() if re.match(form, written)), usual)


def _as_kind(values: pl.Series, kind: str, program: str) -> pl.Series:
    """Return stored values as texts, numbers or times. Moments are told to a millisecond."""
    if kind == "string":
        return values.set(values == "", None)
    if kind in ("integer", "numeric"):
        return values
    origin, day, unit = _CLOCKS[program]
    number, days = values.cast(pl.Float64).fill_nan(None), (origin - dt.date(1970, 1, 1)).days
    if kind == "date":
        number = (number * day / _DAY).floor() + days  # of whole days, each of the three is exact
        return number.clip(-(2.0**31), 2.0**31 - 1).cast(pl.Int32).cast(pl.Date)
    length = (number * unit).round().clip(-_REACH, _REACH)
    if kind == "time":
        if program == "Stata":  # which has moments, written without their day
            length = length % _DAY
        length = length.set((length < 0) | (length >= _DAY), None)
        return (length.cast(pl.Int64) * 1_000_000).cast(pl.Time)
    if kind == "duration":
        return (length.cast(pl.Int64) * 1000).cast(pl.Duration("us"))
    moment = (length + float(days * _DAY)).clip(-_REACH, _REACH)
    return (moment.cast(pl.Int64) * 1000).cast(pl.Datetime("us"))


def _labels_of(facts: Any, name: str) -> dict[str, str]:
    """Return the labels of a variable's values, those that are missing left out."""
    labels, ranges = facts.variable_value_labels[name], facts.missing_ranges.get(name, ())
    textual = facts.readstat_variable_types[name] == "string"
    codes = [code for code in labels if isinstance(code, str) == textual]  # .a of Stata is the text "a"
    codes = [code for code in codes if not any(part["lo"] <= code <= part["hi"] for part in ranges)]
    texts = pl.Series([str(code) for code in codes], dtype=pl.String).str.strip_suffix(".0")
    return {text: labels[code] for text, code in zip(texts, codes, strict=True) if labels[code]}


def _labelled(labels: Mapping[str, Mapping[str, str]], values: pl.Series, column: Column) -> pl.Series:
    """Return codes as those of their labels that a column declares, and else as texts."""
    if values.name not in labels or not column.textual:
        return values
    declared = {code: label for code, label in labels[values.name].items() if label in column.words}
    texts = values.cast(pl.String)
    return (texts.str.strip_suffix(".0") if values.dtype.is_float() else texts).replace(declared)


# -- Excel -------------------------------------------------------------------------------------------------------------


def _of_workbook(text: str, path: Path, form: Format, version: object) -> Source:
    frame = _cells(path, form, version)
    types = dict.fromkeys(frame.columns, "unknown")
    return text_source(
        "csv", text, types, lambda columns: frame[list(columns)].iter_slices(BATCH), convert=_in_notation
    )


def _in_notation(values: pl.Series, column: Column) -> pl.Series:
    """Return cells as a column reads texts: numbers and times of the workbook in its notation."""
    typed = values.str.starts_with(TYPED)
    if not typed.any():
        return values
    texts = written = values.str.strip_prefix(TYPED)
    notation: Any = column
    if "decimal_mark" in column.notation:
        written = texts.str.replace(".", notation.decimal_mark, literal=True)
    if "format" in column.notation:
        times = replace(notation, format=None).parse(texts)
        if getattr(column, "time_zone", None) is not None:
            times = times.dt.convert_time_zone(notation.time_zone)
        written = pl.select(pl.coalesce(times.dt.to_string(notation.format), texts)).to_series()
    return pl.select(pl.when(typed).then(written).otherwise(values).alias(values.name)).to_series()


@lru_cache(maxsize=1)
def _cells(path: Path, form: Format, _version: object) -> pl.DataFrame:
    """Return the cells of a sheet as texts, by the names in its first row. Raises FileProblem for its form."""
    refuse = partial(FileProblem, path)
    sheet = _open_sheet(import_module("python_calamine").CalamineWorkbook.from_path(str(path)), form, refuse)
    rows = [[_cell_text(cell) for cell in row] for row in sheet.iter_rows()]
    filled = [number for number, row in enumerate(rows, start=1) if any(row)]
    if not filled:
        raise refuse("has no table on its sheet", "name another sheet, or give a file with a table")
    if sheet.merged_cell_ranges:
        problem = f"row {sheet.merged_cell_ranges[0][0][0] + 1} has merged cells"
        raise refuse(problem, "unmerge them, and leave no rows above the names of the columns")
    top, *records = filled
    names = [(name or "").removeprefix(TYPED) for name in rows[top - 1]]
    if len(names) > 1 and sum(map(bool, names)) == 1 and records and sum(map(bool, rows[records[0] - 1])) > 1:
        raise refuse(f"row {top} has one cell, and those below it more", "save it without rows above the names")
    if len(names) == 1 and len(records) < filled[-1] - top:
        gap = min({*range(top, filled[-1])} - {*filled})
        raise refuse(
            f"row {gap} is empty, which in a table of one column could be a null",
            "delete the row. If it stands for a null, save the table as Parquet",
        )
    columns = list(zip(*(rows[number - 1] for number in records), strict=True)) or [()] * len(names)
    for place, (name, values) in enumerate(zip(names, columns, strict=True)):
        if not name and place and any(values):  # a first one is an index, and others may be empty
            raise refuse(
                f"column {place + 1} has no name in row {top}",
                "name it there. If that row is a record, put one with the names above it",
            )
    named = [(unescaped(name), values) for name, values in zip(names, columns, strict=True) if name]
    if len(dict(named)) < len(named):
        raise refuse(f"row {top} has the same name twice", "give every column its own name")
    return pl.DataFrame([pl.Series(name, values, dtype=pl.String) for name, values in named])


def _open_sheet(workbook: Any, form: Format, refuse: Any) -> Any:
    """Return the sheet that is named, or the only one that is visible and not empty."""
    if form.sheet is not None and form.sheet not in workbook.sheet_names:
        known = ", ".join(map(repr, workbook.sheet_names))
        raise refuse(f"has no sheet {form.sheet!r}", f"name one of its sheets: {known}")
    shown = [facts.name for facts in workbook.sheets_metadata if str(facts.visible).endswith("Visible")]
    names = shown if form.sheet is None else [form.sheet]
    sheets = {name: workbook.get_sheet_by_name(name) for name in names}
    filled = {name: sheet for name, sheet in sheets.items() if sheet.end is not None}
    if not filled:
        raise refuse("has no table on a visible sheet", "give a file with a table, or name a hidden sheet")
    if len(filled) > 1:
        remedy = "name one by the option sheet, or save it as a workbook of its own"
        raise refuse(f"has {len(filled)} sheets: {', '.join(map(repr, filled))}", remedy)
    return next(iter(filled.values()))


def _cell_text(cell: Any) -> str | None:
    """Return a cell as CSV would have it; what is empty, or an error of a formula, is a null."""
    match cell:
        case str():
            return cell or None
        case bool():
            return str(cell).lower()
        case float():
            return str(int(cell)) if cell.is_integer() and abs(cell) < _WHOLE else f"{TYPED}{cell!r}"
        case dt.timedelta():
            return span_text(cell)
        case dt.datetime():
            return TYPED + cell.isoformat(" ")
    return f"{TYPED}{cell}"
