"""Reading a released table back: of a file, nothing is read before it is asked for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from discreet._core import formats
from discreet._core.arrays import Floats
from discreet._core.boundary import quietly
from discreet._core.checks import unfit
from discreet._core.errors import DataError, FileProblem
from discreet._core.files import require_settled
from discreet._core.lazy import nw, pl
from discreet._core.random import seeded
from discreet.domain import Column, Domain, unescaped_frame
from discreet.releases.certificate import Certificate
from discreet.releases.content import certified_contents, certified_mechanism, no_rows
from discreet.releases.manifest import scanned_parts


def unreadable() -> DataError:
    return DataError(None, "the release cannot be read", "give the file that belongs to the certificate, unchanged")


def scanned(path: str | os.PathLike[str]) -> pl.LazyFrame:
    """Scan a released file; the columns of CSV are texts. Raises FileProblem or DataError when it cannot be read."""
    require_settled(path)
    if Path(path).is_dir():
        return scanned_parts(Path(path))
    if not Path(path).is_file():
        raise FileProblem(path, "there is no such file", "check the path")
    form = _form(path)
    scan = quietly(lambda: formats.scanned(path, form), unreadable())
    return quietly(lambda: unescaped_frame(scan), unreadable()) if form.texts else scan


def told(path: str | os.PathLike[str], key: str) -> str | None:
    """Return what a released Parquet or Arrow file says of itself under a key; CSV says nothing."""
    return quietly(lambda: formats.texts(path, _form(path)), unreadable()).get(key)


def typed(source: Any, certificate: Certificate) -> pl.DataFrame:
    """Return a released table: texts of CSV in the types that were released."""
    if not isinstance(source, (str, os.PathLike)):
        return as_polars(source)
    frame = quietly(scanned(source).collect, unreadable())
    folders = certificate.facts.released.partition_by is not None
    return quietly(lambda: _parsed(frame, certificate), unreadable()) if _form(source).texts or folders else frame


def as_polars(source: Any) -> pl.DataFrame:
    """Return a dataframe of any library as Polars has it. Raises ParameterError when it is none."""
    try:
        frame: Any = nw.from_native(source)
    except TypeError:
        raise unfit("a release", "a table or a file", source) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    made: pl.DataFrame = frame.to_polars()
    return made


def _form(path: str | os.PathLike[str]) -> formats.Format:
    """Return the format of a file; one without a known ending is taken for Parquet."""
    return formats.format_of(path) or formats.PARQUET


def _parsed(frame: pl.DataFrame, certificate: Certificate) -> pl.DataFrame:
    """Read texts as the types of the released columns."""
    domain = Domain.from_dict(certificate.facts.domain)
    mechanism = certified_mechanism(certificate.facts)
    schema = no_rows(certified_contents(mechanism, certificate.facts)).schema
    parts = []
    for name, dtype in schema.items():
        texts, column = frame[name], _column(domain, name)
        reads = column is not None and not column._accepts(pl.String())
        reads = reads and texts.dtype == pl.String
        parts.append((column.parse(texts) if reads else texts).cast(dtype).alias(name))  # type: ignore[union-attr]
    return pl.DataFrame(parts)


def _column(domain: Domain, name: str) -> Column | None:
    """Return the declared column that a released one belongs to: of counts, also as the ends of its cells."""
    for ending in ("", "_from", "_to"):
        if name.endswith(ending) and (found := domain.columns.get(name.removesuffix(ending))) is not None:
            return found
    return None


# Reading a released table of counts: cell by cell of its domain.

_COUNT = "count"


def released_counts(table: pl.DataFrame, domain: Domain) -> Floats:
    """Return the released counts, cell by cell; nan where a cell is not in the table.

    ``domain``: finite.

    Raises DataError when the table does not fit the domain.
    """
    everything = domain.unflat(np.arange(domain.size or 0))
    cells = domain.describe(everything, rng=seeded(0)).with_row_index("\0cell")
    names = cells.columns[1:]
    for name in (*names, _COUNT):
        if name not in table.columns:
            raise DataError(name, "is not in the released table of counts", "check that the certificate is its own")
    try:
        typed = table.with_columns([pl.col(name).cast(cells.schema[name]) for name in names])
        found = typed[_COUNT].cast(pl.Float64).to_numpy()
    except pl.exceptions.PolarsError:
        raise DataError(None, "the released counts have columns of other types", "check the certificate") from None
    place = typed.join(cells, on=names, how="left", nulls_equal=True, maintain_order="left")["\0cell"]
    if place.null_count() or place.n_unique() != len(place):
        raise DataError(None, "the released counts are not of the declared cells", "check the certificate")
    counts = np.full(len(cells), np.nan)
    counts[place.to_numpy()] = found
    return counts
