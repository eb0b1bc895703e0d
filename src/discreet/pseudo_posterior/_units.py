"""Privacy units of several records: what they say of the parameters together is what a bound is about."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet._core.errors import DomainError, ParameterError
from discreet.domain import Domain
from discreet.pseudo_posterior._rows import Columns
from discreet.pseudo_posterior._synthesiser import Synthesiser

_MOST = 2**14


def check_unit(synthesiser: Synthesiser, column: str | None) -> None:
    """Refuse a unit that is synthesised: records could not be told apart by it."""
    if column in synthesiser.sensitive:
        raise ParameterError(
            f"column {column!r} cannot be synthesised and name the unit. Leave it out of the sensitive columns"
        )


def check_unit_declared(domain: Domain, column: str) -> None:
    """Refuse a declaration under which a record may have no unit: by public facts alone."""
    if domain.columns[column].nullable:
        raise DomainError(
            f"column {column!r}: every record needs a unit. Declare the column without nulls, and give every row its "
            "unit beforehand"
        )


def units_in(columns: Columns, column: str | None) -> npt.NDArray[np.int64] | None:
    """Return the number of each record's unit, from 0 on; confidential.

    Raises ParameterError when the table has no such column, or a unit has more than 2^14 records.
    """
    if column is None:
        return None
    if column not in columns:
        raise ParameterError(f"the table has no column {column!r} that names the unit")
    index = np.unique(np.asarray(columns[column]), return_inverse=True)[1].reshape(-1)
    if len(index) and int(np.bincount(index).max()) > _MOST:
        raise ParameterError(f"column {column!r}: a unit must have at most {_MOST} records")
    return np.asarray(index, dtype=np.int64)


def unit_caveats(column: str | None, *, same_number: bool = True) -> tuple[str, ...]:
    """Return what the bound is about, in words.

    ``same_number``: whether neighbours have as many records in the unit that they differ in.
    """
    if column is None:
        return ()
    return (
        f"the privacy unit is all records with one value of {column}: the bound is about them together, and each of "
        "them is protected as a part of the unit",
        *(("how many records each unit has is not protected",) * same_number),
    )
