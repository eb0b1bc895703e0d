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
import numpy.typing as npt

from discreet._core.boundary import enclosed
from discreet._core.errors import DataError, NotPublic, ParameterError
from discreet._core.lazy import pl
from discreet._core.reading import same_file
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.count import Tally
from discreet.confidential.opening import open_confidential
from discreet.confidential.source import FREQUENCY, open_source, parsed, require_names
from discreet.domain import Counts, Domain, Parts, Records

Closed = TypeVar("Closed", bound=Confidential[Any])


def refuse_same(data: Any, *given: Any) -> None:
    """Refuse public inputs that are the confidential table: the same object, or the same file. Nothing is opened.

    Raises NotPublic when one of them is ``data``, through links too.

    ``data``: confidential.
    ``*given``: what is declared public; whatever is neither ``data`` nor a path is passed over.
    """
    for one in given:
        if one is None:
            continue
        paths = isinstance(one, (str, os.PathLike)) and isinstance(data, (str, os.PathLike))
        if one is data or (paths and same_file(Path(one), Path(data))):
            raise NotPublic


def public_domain(given: Domain | str | os.PathLike[str], *, data: Any) -> Domain:
    """Return the declared domain of a confidential table, read from its TOML file where it is a path.

    ``given``: public.
    ``data``: confidential: the domain's file is not this one.

    Raises NotPublic when the file is the confidential table, or ParameterError when it is neither.
    """
    if not isinstance(given, (Domain, str, os.PathLike)):
        raise ParameterError(f"domain must be a Domain or the path of its TOML file, got {type(given).__name__}")
    refuse_same(data, given)
    return given if isinstance(given, Domain) else Domain.read(given)


@enclosed
def public_table(data: Any, domain: Domain) -> pl.DataFrame:
    """Return the declared columns of a table that is public, as a Polars frame.

    ``data``: public; what :func:`~discreet.confidential.confidential` takes.
    ``domain``: the columns wanted; others are left aside.

    Raises DataError when a column is missing or its texts cannot be read, or FileProblem when a file cannot be read.
    """
    source = open_source(data)
    require_names(source, domain.names, table="public table")
    batches = list(source.batches(list(domain.names)))
    if not sum(batch.height for batch in batches):
        raise DataError(None, "has no rows", "a public table needs at least one")
    frame = pl.concat(batches, how="vertical_relaxed")
    if FREQUENCY in frame.columns:  # grouped where the table is
        frame = frame.select(pl.exclude(FREQUENCY).repeat_by(FREQUENCY)).explode(list(domain.names))
    return parsed(frame, domain.columns, source.texts)


def with_public(closed: Closed, given: Mapping[str, Any], *, domain: Domain) -> Closed:
    """Return a confidential table together with the hashes of what was declared public beside it.

    Two tables are equal where they hold the same rows equally often: their order, index and physical types do not
    count. Rows are compared as the domain encodes them. Where units were cut, it is the rows before the cut. Public
    points are a set: those of a table are its distinct rows.

    ``closed``: confidential.
    ``given``: public tables by name.
    ``domain``: the one that ``closed`` was encoded with.
    Returns: the same value; ``provenance.public`` holds the name and the SHA-256 of each.

    Raises NotPublic when one of them is the confidential table, or DataError when one does not fit the domain.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.confidential import confidential
    >>> from discreet.domain import Integer
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=120)})
    >>> ages = confidential(pl.DataFrame({"age": [31, 45, 31]}), domain)
    >>> last_year = pl.DataFrame({"age": [30, 44, 30]})
    >>> with_public(ages, {"reference": last_year}, domain=domain).provenance.public[0][0]
    'reference'
    """
    if not given:
        return closed
    facts = closed.provenance or Provenance(frame_kind="polars", columns=domain.names, domain=domain)
    refuse_same(facts.path, *given.values())
    value = open_confidential(closed, caller=__name__)
    held: Any = value if facts.rows is None else open_confidential(facts.rows, caller=__name__)
    hashes = dict(facts.public)
    for name, table in given.items():
        public = _public_counts(table, domain)
        if _equal(held, public, domain, as_set=name == "points"):
            raise NotPublic
        hashes[name] = _sha256(public)
    return cast(Closed, Confidential(value, provenance=replace(facts, public=tuple(sorted(hashes.items())))))


def _public_counts(table: Any, domain: Domain) -> Counts:
    """Count a public table's rows."""
    records = table if isinstance(table, Records) else domain.encode(public_table(table, domain))
    tally = Tally(domain)
    tally.add_records(records, None)
    return tally.counts()


@enclosed
def _equal(held: Parts, public: Counts, domain: Domain, *, as_set: bool) -> bool:
    """Return whether a confidential table, whole or in parts, has the rows of a public one, as often unless a set."""
    if not as_set and held.n != public.n:
        return False
    counts = _gathered(held, domain)
    return (as_set or np.array_equal(counts.frequencies, public.frequencies)) and all(
        np.array_equal(mine, theirs, equal_nan=mine.dtype.kind == "f")
        for mine, theirs in zip(counts.records.columns, public.records.columns, strict=True)
    )


def _gathered(held: Parts, domain: Domain) -> Counts:
    """Count a confidential table's rows in the order of a public one, which is in memory and as large."""
    tally = Tally(domain)
    for part in held.parts():
        tally.add_records(part.records, part.frequencies)
    return tally.counts()


def _sha256(public: Counts) -> str:
    """Return the hash of a public table: of its distinct encoded rows in ascending order, and how often each occurs."""
    digest = hashlib.sha256()
    for codes in (*public.records.columns, public.frequencies):
        digest.update(_bytes(codes))
        digest.update(b"\n")
    return digest.hexdigest()


def _bytes(codes: npt.NDArray[Any]) -> bytes:
    """Return codes as little-endian numbers, with one zero and one NaN, and texts as a JSON list."""
    if codes.dtype.kind == "O":
        return json.dumps(codes.tolist()).encode()
    if codes.dtype.kind == "f":
        codes = np.where(np.isnan(codes), np.nan, codes + 0.0)
    return codes.astype(codes.dtype.newbyteorder("<")).tobytes()
