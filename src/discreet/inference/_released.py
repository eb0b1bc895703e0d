"""A release as its analyst has it: a table or file, and a certificate or a domain."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core import parquet
from discreet._core.arrays import Floats
from discreet._core.boundary import quietly
from discreet._core.checks import unfit
from discreet._core.errors import DataError, FileProblem, ParameterError
from discreet._core.writing import file_sha256, require_settled
from discreet.domain import Domain, OpenLabels, Records
from discreet.domain._column import Column
from discreet.domain._spreadsheet import unescaped_frame
from discreet.mechanisms._evidence import ContinuedUrn
from discreet.releases import Certificate
from discreet.releases._mechanism_step import certified_mechanism
from discreet.releases._publish import Release

if TYPE_CHECKING:
    import polars as pl


def unreadable() -> DataError:
    return DataError(None, "the release cannot be read", "give the file that belongs to the certificate, unchanged")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Released:
    """The distinct records of a release, and the public facts that came with it.

    ``domain``: public.
    ``records``: the ``k`` distinct released records.
    ``counts``, shape (k,): how often each was released, or its weight.
    ``urn``: the urn that the release continues, where its certificate says so.
    ``certified``: whether there is a certificate.
    ``held``: number of confidential records.
    """

    domain: Domain
    records: Records
    counts: Floats
    urn: ContinuedUrn | None
    certified: bool
    held: int | None

    @property
    def size(self) -> float:
        """Number of released records, ``m``."""
        return float(self.counts.sum())


def read_certificate(release: Any, certificate: Any = None) -> Certificate:
    """Return the certificate of a release: the one given (also as a path), its own, or the file beside it.

    Raises
    ------
    ParameterError
        When there is none.
    FileProblem
        When it cannot be read.
    """
    if isinstance(certificate, Certificate):
        return certificate.whole()
    if isinstance(certificate, (str, os.PathLike)):
        return Certificate.read(certificate).whole()
    if isinstance(release, Release):
        return release.certificate
    if isinstance(release, (str, os.PathLike)):
        require_settled(release)
        beside = Path(release).with_suffix(".certificate.json")
        if beside.exists():
            return Certificate.read(beside).whole()
        raise FileProblem(release, f"its certificate {beside.name} is not beside it", "say where it is")
    raise ParameterError("give the certificate of the release, or the domain it was declared on")


def read_release(release: Any, facts: Any = None, *, weights: str | None = None) -> Released:
    """Read a release.

    ``release``: the released table; of a file, only its distinct rows come into memory.
    ``facts``: the certificate found with the release by default.
    ``weights``: column of positive weights: a row counts as that many records.

    Raises
    ------
    DataError
        When the table does not fit the domain.
    FileProblem
        When a file cannot be read, or is not the one that its certificate was written for.
    ParameterError
        When there is no certificate, or the release is of counts.
    """
    certificate = None if isinstance(facts, Domain) else read_certificate(release, facts)
    if certificate is not None and weights is None:
        _require_own(certificate, release)
    domain = facts if certificate is None else Domain.from_dict(certificate.facts["domain"])
    table = _distinct(release, domain, weights)
    codes = [_encoded(table[name], name, column) for name, column in domain.columns.items()]
    records, counts = _merged(codes, table["\0count"].to_numpy().astype(np.float64))
    evidence = None if certificate is None else certified_mechanism(certificate.facts).evidence()
    return Released(
        domain=domain,
        records=records,
        counts=counts,
        urn=evidence if isinstance(evidence, ContinuedUrn) else None,
        certified=certificate is not None,
        held=None if certificate is None else int(certificate.facts["records"]),
    )


def _require_own(certificate: Certificate, release: Any) -> None:
    """Refuse a file beside another file's certificate; one with weights is no longer the file that was released."""
    path = release.path if isinstance(release, Release) and release.records is None else release
    stated = certificate.facts["released"].get("sha256")
    if stated is not None and isinstance(path, (str, os.PathLike)) and stated != file_sha256(path):
        raise FileProblem(
            path,
            "it is not the file that its certificate was written for",
            "give the two that were written together, or read the file and give the table",
        )


def _distinct(release: Any, domain: Domain, weights: str | None) -> pl.DataFrame:
    """Return the distinct rows and how often each occurs (or their weight), counted where the table is."""
    import polars as pl

    lazy = _table(release)
    have = quietly(lambda: lazy.collect_schema().names(), unreadable())
    for name in [*domain.names, *([] if weights is None else [weights])]:
        if name not in have:
            hint = "this is a table of counts, not of records" if "standard_error" in have else "check the certificate"
            raise DataError(name, "is not in the release", hint)
    count = pl.len() if weights is None else pl.col(weights).cast(pl.Float64).sum()
    table = quietly(lambda: lazy.group_by(domain.names).agg(count.alias("\0count")).collect(), unreadable())
    values = table["\0count"]
    if not table.height or values.null_count() or not values.is_finite().all() or float(values.min()) <= 0:  # type: ignore[arg-type]
        raise DataError(weights, "the release has no rows, or weights that are not positive", "check the file")
    return table


def _table(release: Any) -> pl.LazyFrame:
    import narwhals as nw

    source = release
    if isinstance(release, Release):
        source = release.path if release.records is None else release.records
    if isinstance(source, (str, os.PathLike)):
        return _scanned(os.fspath(source))
    try:
        frame: Any = nw.from_native(source)
    except TypeError:
        raise unfit("a release", "a table or a file", source) from None
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    made: pl.DataFrame = frame.to_polars()
    return made.lazy()


def _scanned(path: str) -> pl.LazyFrame:
    import polars as pl

    require_settled(path)
    if not Path(path).is_file():
        raise FileProblem(path, "there is no such file", "check the path")
    if path.lower().endswith(".csv"):
        return quietly(lambda: unescaped_frame(pl.scan_csv(path, glob=False, infer_schema=False)), unreadable())
    return quietly(lambda: parquet.scanned(path), unreadable())


def _encoded(values: pl.Series, name: str, column: Column) -> Any:
    import polars as pl

    if isinstance(column, OpenLabels):  # released labels may be of the reserved namespace, which encoding refuses
        return np.array(values.cast(pl.String).to_list(), dtype=object)
    texts = values.dtype == pl.String and not column._accepts(pl.String())
    return column.encode(column.parse(values) if texts else values, name=name)


def _merged(codes: list[Any], counts: Floats) -> tuple[Records, Floats]:
    """Return distinct encoded records, in order: values of one cell are one record, whatever the order of the rows."""
    import polars as pl

    names = [str(i) for i in range(len(codes))]
    columns = {name: pl.Series(part, dtype=pl.String) if part.dtype == object else part
               for name, part in zip(names, codes, strict=True)}  # fmt: skip
    merged = pl.DataFrame({**columns, "count": counts}).group_by(names).agg(pl.col("count").sum()).sort(names)
    parts = tuple(
        np.array(merged[name].to_list(), dtype=object) if part.dtype == object else merged[name].to_numpy()
        for name, part in zip(names, codes, strict=True)
    )
    return Records(columns=parts), merged["count"].to_numpy().astype(np.float64)
