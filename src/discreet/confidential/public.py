"""The one gate of public inputs: what was declared public is not the confidential table.

A guarantee holds for public inputs that were fixed without looking at the table. Whether they were cannot be seen from
them. What can be seen, that one of them is the table itself, is refused here: the same object or file before any data
are opened, and the same rows once they are counted. Nothing less than equality is looked for: a refusal tells that the
tables are equal, and a measure of likeness would tell more.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from discreet._core.boundary import enclosed
from discreet._core.errors import DataError, NotPublic, ParameterError
from discreet._core.lazy import pl
from discreet._core.reading import same_file
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.opening import open_confidential
from discreet.confidential.source import Tally, require_names, texts_of
from discreet.confidential.tables import open_source
from discreet.domain import Counts, Domain, Parts, Records, first_codes

Closed = TypeVar("Closed", bound=Confidential[Any])


def refuse_same(data: Any, *inputs: Any) -> None:
    """Refuse public inputs that are the confidential table, the object or the file, unopened. Raises NotPublic."""
    if isinstance(data, Mapping):
        for part in data.values():
            refuse_same(part, *inputs)
    for public in inputs:
        paths = isinstance(public, (str, os.PathLike)) and isinstance(data, (str, os.PathLike))
        if public is not None and (public is data or (paths and same_file(Path(public), Path(data)))):
            raise NotPublic


def public_domain(domain: Domain | str | os.PathLike[str], *, data: Any) -> Domain:
    """Return the declared domain of a confidential table, read from its TOML file where it is a path."""
    # Raises NotPublic when the file is the confidential table, or ParameterError when it is neither.
    if not isinstance(domain, (Domain, str, os.PathLike)):
        raise ParameterError(f"domain must be a Domain or the path of its TOML file, got {type(domain).__name__}")
    refuse_same(data, domain)
    return domain if isinstance(domain, Domain) else Domain.read(domain)


@enclosed
def public_table(data: Any, domain: Domain) -> pl.DataFrame:
    """Return the declared columns of a public table. Raises DataError or FileProblem where it cannot be read."""
    from discreet.confidential.values import all_rows

    if domain.tables:
        raise ParameterError("a public table has records, and the domain is of units with several rows. Leave it out")
    source = open_source(data)
    require_names(source, domain.names, table="public table")
    frame = all_rows(source, domain.names)
    if not frame.height:
        raise DataError(None, "has no rows", "a public table needs at least one")
    typed = [column.read(texts_of(frame[name], column, source), name=name) for name, column in domain.columns.items()]
    return frame.with_columns(typed)


def with_public(closed: Closed, tables: Mapping[str, Any], *, domain: Domain) -> Closed:
    """Return a confidential table together with the hashes of what was declared public beside it."""
    # Two tables are equal where they hold the same encoded rows equally often, in any order; those before the cut of
    # units. Public points are a set. Raises NotPublic where one equals the table, or DataError.
    if not tables:
        return closed
    facts = closed.provenance or Provenance(frame_kind="polars", columns=domain.names, domain=domain)
    refuse_same(facts.path, *tables.values())
    value = open_confidential(closed, caller=__name__)
    rows: Any = value if facts.rows is None else open_confidential(facts.rows, caller=__name__)
    hashes = dict(facts.public)
    for name, table in tables.items():
        tally = Tally(domain)
        records = table if isinstance(table, Records) else domain.encode(public_table(table, domain))
        tally.add_records(first_codes(domain, records), None)
        public = tally.counts()
        if _equal(rows, public, domain, as_set=name == "points"):
            raise NotPublic
        hashes[name] = _sha256(public)
    return cast(Closed, Confidential(value, provenance=replace(facts, public=tuple(sorted(hashes.items())))))


@enclosed
def _equal(table: Parts, public: Counts, domain: Domain, *, as_set: bool) -> bool:
    """Return whether a confidential table, whole or in parts, has the rows of a public one, as often unless a set."""
    if not as_set and table.n != public.n:
        return False
    tally = Tally(domain)  # in the order of a public table, which is in memory and as large
    for part in table.parts():
        tally.add_records(first_codes(domain, part.records), part.frequencies)  # whatever the coins say
    counts = tally.counts()
    return (as_set or np.array_equal(counts.frequencies, public.frequencies)) and all(
        np.array_equal(codes, theirs, equal_nan=codes.dtype.kind == "f")
        for codes, theirs in zip(counts.records.columns, public.records.columns, strict=True)
    )


def _sha256(public: Counts) -> str:
    """Return the hash of a public table: of its distinct encoded rows in ascending order, and how often each occurs."""
    # Codes are little-endian numbers, with one zero and one NaN; texts are a JSON list.
    digest = hashlib.sha256()
    for codes in (*public.records.columns, public.frequencies):
        if codes.dtype.kind == "O":
            digest.update(json.dumps(codes.tolist()).encode())
        elif codes.dtype.kind == "f":
            numbers = codes.astype(np.float64) + 0.0
            digest.update(np.where(np.isnan(numbers), np.nan, numbers).astype("<f8").tobytes())
        else:
            digest.update(codes.astype("<i8").tobytes())
        digest.update(b"\n")
    return digest.hexdigest()
