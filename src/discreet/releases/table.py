"""Reading a released table back: of a file, nothing is read before it is asked for.

The certificate of a release in parts holds the SHA-256 of ``_manifest.json``, which holds that of every part. Names
that start with an underscore are passed over by whatever reads a folder of Parquet files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from discreet._core import formats
from discreet._core.boundary import quietly
from discreet._core.errors import DataError, FileProblem, ParameterError, unfit
from discreet._core.files import require_settled
from discreet._core.lazy import nw, pl
from discreet._core.numeric import Floats
from discreet._core.random import seeded
from discreet._core.reading import file_sha256, read_json
from discreet.confidential import scan_batches
from discreet.domain import Column, Domain, Records, unescaped_frame
from discreet.releases.certificate import PARTS_CERTIFICATE, Certificate
from discreet.releases.content import certified_contents, certified_mechanism, no_rows
from discreet.releases.facts import FileFacts
from discreet.releases.writing import IDENTITY_KEY, MANIFEST, NO_VALUE


def unreadable() -> DataError:
    return DataError(None, "the release cannot be read", "give the file that belongs to the certificate, unchanged")


def scanned(path: str | os.PathLike[str]) -> pl.LazyFrame:
    """Scan a released file; the columns of CSV are texts. Raises FileProblem or DataError when it cannot be read."""
    require_settled(path)
    if Path(path).is_dir():
        return scanned_parts(Path(path))
    if not Path(path).is_file():
        raise FileProblem(path, "there is no such file", "check the path")
    form = _format_of(path)
    scan = quietly(lambda: formats.scanned(path, form), unreadable())
    if form.texts:
        return quietly(lambda: unescaped_frame(scan), unreadable())
    return scan


def file_text(path: str | os.PathLike[str], key: str) -> str | None:
    """Return what a released Parquet or Arrow file says of itself under a key; CSV says nothing."""
    return quietly(lambda: formats.texts(path, _format_of(path)), unreadable()).get(key)


def typed(source: Any, certificate: Certificate, table: str = "") -> pl.DataFrame:
    """Return a released table, one of linked ones by its name: texts of CSV in the types that were released."""
    if not isinstance(source, (str, os.PathLike)):
        return as_polars(source)
    frame = quietly(scanned(source).collect, unreadable())
    if not (_format_of(source).texts or certificate.facts.released.partition_by is not None):
        return frame
    return quietly(lambda: _parsed(frame, certificate, table), unreadable())


def as_polars(source: Any) -> pl.DataFrame:
    """Return a dataframe of any library as Polars has it. Raises ParameterError when it is not one."""
    try:
        frame: Any = nw.from_native(source)
    except TypeError:
        raise unfit("a release", "a table or a file", source) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    table: pl.DataFrame = frame.to_polars()
    return table


def _format_of(path: str | os.PathLike[str]) -> formats.Format:
    """Return the format of a file; one without a known ending is taken for Parquet."""
    return formats.format_of(path) or formats.PARQUET


def _parsed(frame: pl.DataFrame, certificate: Certificate, table: str) -> pl.DataFrame:
    """Read texts as the types of the released columns."""
    domain = Domain.from_dict(certificate.facts.domain).row_domain
    schema = no_rows(certified_contents(certified_mechanism(certificate.facts), certificate.facts), table).schema
    parts = []
    for name, dtype in schema.items():
        values, bases = frame[name], map(name.removesuffix, ("", "_from", "_to"))  # of counts, the ends of cells
        column = next((domain.columns[base] for base in bases if base in domain.columns), None)
        if column is not None:
            values = column.read(values, name=name)
        parts.append(values.cast(dtype).alias(name))
    return pl.DataFrame(parts)


_REMEDY = "get the folder again, whole, from where it was released"


def parts_of(folder: Path, certificate: Certificate) -> dict[str, FileFacts]:
    """Return the parts that a certificate's manifest lists, by name. Raises FileProblem where it is another one's."""
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise FileProblem(folder, f"{MANIFEST} is missing from it", _REMEDY)
    if file_sha256(manifest) != certificate.tables[0].sha256:
        raise FileProblem(folder, f"{MANIFEST} is not the file that its certificate was written for", _REMEDY)
    facts = read_json(manifest, remedy=_REMEDY)
    listed = facts.get("parts")
    if facts.get("discreet_manifest") != 1 or not isinstance(listed, list) or not listed:
        raise FileProblem(folder, f"{MANIFEST} is not a manifest of version 1", "update discreet")
    try:
        files = [FileFacts.from_dict(entry) for entry in listed]
    except ParameterError:
        files = []
    names = [str(file.file or "") for file in files]  # of files in the folder, or in one folder below it
    hidden = any(_is_hidden(part) or not part for name in names for part in name.split("/"))
    odd = hidden or any(name.count("/") > 1 or set(name) & set("\0\\:") for name in names)
    if not files or odd or not all(file.sha256 for file in files):
        raise FileProblem(folder, f"{MANIFEST}: a field of its parts is missing or of the wrong kind", _REMEDY)
    parts = {str(file.file): file for file in files}
    if len(set(map(str.casefold, parts))) < len(files):
        raise FileProblem(folder, f"{MANIFEST} lists a part twice", _REMEDY)
    return parts


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def problems(folder: Path, parts: dict[str, FileFacts], certificate: Certificate) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each part, and of each file that is none, with what is wrong with it; None where nothing is."""
    contents = {part.sha256: f", but has the content of {name}" for name, part in parts.items()}
    for name, part in parts.items():
        yield name, _problem(folder / name, part, contents, certificate.identity)
    for name in sorted(_readable(folder) - set(parts)):
        remark = (folder / name).is_file() and contents.get(file_sha256(folder / name))
        yield name, f"it is not part of the release{remark or ''}"


def _problem(file: Path, part: FileFacts, contents: dict[str | None, str], identity: Any) -> str | None:
    if not file.is_file():
        return "it is missing from the folder"
    if (sha256 := file_sha256(file)) != part.sha256:
        return f"it is not the file that was written{contents.get(sha256, '')}"
    broken = FileProblem(file, "it is not a readable Parquet file", _REMEDY)
    metadata, rows = quietly(lambda: (formats.texts(file, formats.PARQUET), formats.parquet_rows(file)), broken)
    if metadata.get(IDENTITY_KEY) != identity:
        return "it is from another release than the certificate"
    if rows != part.rows:
        return "it has another number of rows than its list says"
    return None


def _readable(folder: Path) -> set[str]:
    """Return the names of all files, and links to folders, that any reader of the folder would take for parts."""
    readable = set()  # some readers pass over hidden names, others read every Parquet file; some follow links
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        subfolder = Path(place).relative_to(folder)
        hidden = any(map(_is_hidden, subfolder.parts))
        for name in [*names, *links]:
            if name in links or name.casefold().endswith(".parquet") or not (hidden or _is_hidden(name)):
                readable.add((subfolder / name).as_posix())
    return readable


def scanned_parts(folder: Path) -> pl.LazyFrame:
    """Scan the parts of a folder in order; columns in the names of folders are texts. Raises FileProblem."""
    if not (folder / PARTS_CERTIFICATE).is_file():
        raise FileProblem(folder, "it is a folder, but not a release in parts", "give the file of the release")
    certificate = Certificate.read(folder)
    broken = FileProblem(folder, "one of its parts cannot be read", _REMEDY)
    scans = []
    for name in parts_of(folder, certificate):
        scan = quietly(lambda file=folder / name: formats.scanned(file, formats.PARQUET), broken)  # type: ignore[misc]
        for key, _, value in (place.partition("=") for place in name.split("/")[:-1]):
            text = None if value == NO_VALUE else unquote(value)
            scan = scan.with_columns(pl.lit(text, pl.String).alias(unquote(key)))
        scans.append(scan)
    return pl.concat(scans).select(certificate.facts.released.columns)


def require_own(certificate: Certificate, path: Any) -> None:
    """Refuse a file beside another file's certificate; what is no path is passed over. Raises FileProblem."""
    if not isinstance(path, (str, os.PathLike)):
        return
    require_settled(path)
    if certificate.in_parts:
        for name, problem in problems(Path(path), parts_of(Path(path), certificate), certificate):
            if problem is not None:
                raise FileProblem(path, f"{name}: {problem}", _REMEDY)
        return
    pair = "give the two that were written together"
    for table in certificate.tables:
        file = Path(path) / Path(str(table.file)).name if certificate.several else Path(path)
        if not file.is_file():
            raise FileProblem(file, "there is no such file", "check the path")
        if table.sha256 not in (None, file_sha256(file)):
            remedy = f"{pair}, or read the file and give the table"
            raise FileProblem(file, "it is not the file that its certificate was written for", remedy)
        if file_text(file, IDENTITY_KEY) not in (None, certificate.identity):
            raise FileProblem(file, "it is from another release than the certificate", pair)


_COUNT = "count"


def released_counts(table: pl.DataFrame, domain: Domain) -> Floats:
    """Return the released counts of a finite domain, nan where a cell is not in the table. Raises DataError."""
    cells = domain.describe(domain.unflat(np.arange(domain.size or 0)), rng=seeded(0)).with_row_index("\0cell")
    names = cells.columns[1:]
    for name in (*names, _COUNT):
        if name not in table.columns:
            raise DataError(name, "is not in the released table of counts", "check that the certificate is its own")
    try:
        typed = table.with_columns([pl.col(name).cast(cells.schema[name]) for name in names])
        values = typed[_COUNT].cast(pl.Float64).to_numpy()
    except pl.exceptions.PolarsError:
        raise DataError(None, "the released counts have columns of other types", "check the certificate") from None
    place = typed.join(cells, on=names, how="left", nulls_equal=True, maintain_order="left")["\0cell"]
    if place.null_count() or place.n_unique() != len(place):
        raise DataError(None, "the released counts are not of the declared cells", "check the certificate")
    counts = np.full(len(cells), np.nan)
    counts[place.to_numpy()] = values
    return counts


_UNCHANGED = "give the file that was released"


def released_columns(certificate: Certificate, table: str) -> list[str]:
    """Return the columns of a released table, by its name among linked ones."""
    facts = certificate.facts
    if not table:
        return list(facts.released.columns)
    return no_rows(certified_contents(certified_mechanism(facts), facts), table).columns


def misfits(data: Any, certificate: Certificate, table: str = "", rows: Any = None) -> dict[str, str]:
    """Return what of each column is not as declared, empty where all is; of counts, by both edges of their cells."""
    # table: one of linked ones. rows: those of the file, where they have their unit's own columns, too.
    # Counts whose texts name no single cell, and tables with other columns, are not looked at.
    contents = certified_contents(certified_mechanism(certificate.facts), certificate.facts)
    domain, columns = contents.domain, no_rows(contents, table)
    if table and rows is not None:
        columns = no_rows(contents, str(domain.units)).with_columns(columns)
    domain = domain.table_domains[table] if rows is None else domain.rows_of(table)
    declaration = domain.to_dict()
    for facts in declaration["columns"].values():
        facts.pop("out_of_bounds", None)  # no value that is released lies outside
    domain, schema = Domain.from_dict(declaration), columns.schema
    scan = scanned(data) if rows is None else rows
    if contents.labels or not set(schema) <= set(quietly(scan.collect_schema, unreadable())):
        return {}
    texts = set(schema) if _format_of(data).texts else {certificate.facts.released.partition_by}
    problems, records = dict.fromkeys(domain.names, ""), contents.size is not None
    if domain.constraints and records:
        problems["the rules"] = ""
    for batch in scan_batches(scan, list(schema), unreadable()):
        codes = []
        for name, column in domain.columns.items():
            places = [name] if name in schema else [f"{name}_from", f"{name}_to"]
            try:
                values = [_as_declared(batch[place], column, schema[place], place in texts) for place in places]
                codes.append(_cells_of(values, column))
            except DataError as error:
                problems[name] = error.problem
        if records and not any(problems.values()) and not domain.allowed(Records(columns=tuple(codes))).all():
            problems["the rules"] = "holds a record that is declared impossible"
    return problems


def _as_declared(values: pl.Series, column: Column, dtype: pl.DataType, text: bool) -> pl.Series:
    """Return released values as the declared type. Raises DataError where the file was written with another one."""
    if not text:
        if (dtype.is_numeric() or dtype.is_temporal()) and values.dtype != dtype:
            raise DataError(None, "holds values of another type", _UNCHANGED)
        return values
    parsed = column.read(values)
    if dtype.is_decimal() and (column.write(parsed.cast(dtype)).cast(pl.String) != values).any():
        raise DataError(None, "holds a text that a release does not write for its type", _UNCHANGED)
    return parsed


def _cells_of(values: Sequence[pl.Series], column: Column) -> npt.NDArray[Any]:
    """Return the cells of values, or of both edges of cells. Raises DataError where they are not the column's."""
    middle = values[0]
    if column.open:  # a release names new labels, which no confidential record may have
        labels: Any = column
        middle = middle.cast(pl.String).str.strip_prefix(labels.prefix)
    if len(values) > 1 and middle.dtype.is_float():
        middle = (middle + values[1]) / 2  # another machine may round an edge of a cell down
    codes, edges = column.encode(middle), None
    if column.finite:
        edges = column.interval(codes) or [column.decode(codes, rng=seeded(0))]
    if len(values) == 1 and column.kind in ("datetime", "duration", "time"):  # a cell holds several points of a step
        lattice: Any = column
        points = replace(lattice, base=None, cells=None)
        edges = [points.decode(points.encode(middle), rng=seeded(0))]
    if edges is not None and len(values) == len(edges) and not all(map(_are_equal, values, edges)):
        raise DataError(None, "holds what is neither a value nor an edge of a cell", _UNCHANGED)
    return codes


def _are_equal(values: pl.Series, edges: pl.Series) -> bool:
    """Compare values, numbers to a part of 1e-9."""
    released = values.cast(edges.dtype, strict=False)
    if edges.dtype.is_float():
        return bool(np.allclose(released.to_numpy(), edges.to_numpy(), rtol=1e-9, atol=0.0, equal_nan=True))
    return bool(released.eq_missing(edges).all())
