"""A confidential table that stays where it is: read and encoded in parts, as often as a mechanism needs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import enclosed_parts, sealed
from discreet._core.errors import DataError
from discreet.confidential.cells import EngineFailed, attempted_parts
from discreet.confidential.closed import Confidential, Provenance
from discreet.confidential.count import OTHER_COLUMNS, check_names, encoded
from discreet.confidential.source import FREQUENCY, Source, cells_of, declared_batches, open_source
from discreet.domain import Counts, Domain, Records, require_domain


@sealed
class Rows:
    """Encoded rows, a part at a time. Confidential.

    Raises DataError when a row does not fit the domain: the whole table is read once.

    Parameters
    ----------
    source : Source
        The table.
    domain : Domain
        Public.
    """

    def __init__(self, source: Source, domain: Domain) -> None:
        self._source, self._domain = source, domain
        self._n: int | None = None
        self._cells = cells_of(source, domain.columns)
        try:
            self._n = sum(part.n for part in self.parts())
        except EngineFailed:
            self._cells = None
            self._n = sum(part.n for part in self.parts())

    @property
    def n(self) -> int:
        """Number of rows: public under the replacement relation."""
        return self._n or 0

    @enclosed_parts
    def parts(self) -> Iterator[Counts]:
        """Yield the rows' encoded records.

        Raises DataError when the table has other rows than when it was read first.
        """
        seen = 0
        for records, frequencies in self._encoded():
            part = Counts(
                records=records, frequencies=np.ones(len(records), np.int64) if frequencies is None else frequencies
            )
            seen += part.n
            yield part
        if self._n is not None and seen != self._n:
            raise DataError(None, "changed while it was read", "keep the table as it is until the release is written")

    def _encoded(self) -> Iterator[tuple[Records, npt.NDArray[np.int64] | None]]:
        """Yield records and their frequencies, which the engine found if it can."""
        cells = self._cells
        if cells is None:
            for batch in declared_batches(self._source, self._domain.columns):
                if batch.height:
                    yield encoded(batch, self._domain, texts=self._source.texts)
            return
        for frame in attempted_parts(cells.batches):
            if frame.height:
                yield cells.records(frame), frame[FREQUENCY].to_numpy() if FREQUENCY in frame.columns else None


@sealed
def confidential_rows(
    data: Any, domain: Domain, *, accept: Collection[str] = (), empty: bool = False
) -> Confidential[Rows]:
    """Wrap a confidential table to be read in parts, for mechanisms that can (``reads_parts``).

    Memory then holds one part at a time, so the number of records is bounded by the disk.

    Parameters
    ----------
    data : dataframe, str or path
        Confidential; as for :func:`confidential`.
    domain : Domain
        Public. Every column it names has to be in the table.
    accept, empty : optional
        As for :func:`confidential`.

    Returns
    -------
    Confidential of Rows

    Raises
    ------
    DataError
        If the table does not fit the domain. No message holds a value of the table.
    FileProblem
        If a file cannot be read.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.domain import Integer
    >>> confidential_rows(pl.DataFrame({"age": [31, 45, 31]}), Domain(columns={"age": Integer(lower=0, upper=120)}))
    <confidential Rows>
    """
    require_domain(domain)
    source = open_source(data)
    check_names(source, domain, unit=None, other_columns=OTHER_COLUMNS in accept)
    rows = Rows(source, domain)
    if rows.n == 0 and not empty:
        raise DataError(None, "has no rows", "a release needs at least one record")
    provenance = Provenance(
        frame_kind=source.kind, columns=domain.names, domain=domain, path=source.path, returned=source.returned
    )
    return Confidential(rows, provenance=provenance)
