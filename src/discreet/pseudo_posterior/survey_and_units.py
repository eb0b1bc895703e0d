"""Survey weights and privacy units of records: what each says of the parameters."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet._core.arrays import Floats
from discreet._core.checks import real
from discreet._core.errors import DomainError, ParameterError
from discreet.domain import Decimal, Domain, Integer, Numeric
from discreet.privacy import Code
from discreet.pseudo_posterior.likelihood import Columns
from discreet.pseudo_posterior.synthesiser import Synthesiser

# Survey weights of records: what a record says of the parameters counts in proportion to its weight.


def check_survey(synthesiser: Synthesiser, column: str | None, mean: float | None) -> float | None:
    """Check the declaration of survey weights, and return the mean."""
    if (column is None) != (mean is None):
        raise ParameterError(
            "survey weights need their column and the public number that they are divided by. Write "
            "survey_weight=... and survey_mean=... (the size of the population over that of the sample)"
        )
    if column is None or mean is None:
        return None
    mean = real("survey_mean", mean, above=0)
    if column in synthesiser.sensitive:
        raise ParameterError(
            f"column {column!r} cannot be synthesised and be the survey weight. Leave it out of the sensitive columns"
        )
    return mean


def survey_weights(columns: Columns, column: str | None, mean: float | None) -> Floats | None:
    """Return the survey weight, finite and at least 0, of each record over the public mean; confidential."""
    if column is None or mean is None:
        return None
    if column not in columns:
        raise ParameterError(f"the table has no column {column!r} of survey weights")
    held = np.asarray(columns[column], dtype=np.float64)
    if not (np.isfinite(held) & (held >= 0.0)).all():
        raise ParameterError(f"column {column!r}: survey weights must be finite and at least 0")
    return np.asarray(held / mean)


def check_declared(domain: Domain, column: str) -> None:
    """Refuse a declaration under which a survey weight could be missing or below 0: by public facts alone."""
    declared = domain.columns[column]
    if not isinstance(declared, (Numeric, Integer, Decimal)) or declared.nullable:
        raise DomainError(
            f"column {column!r}: survey weights must be a numeric, integer or decimal column without nulls. Declare it "
            "so, or leave out survey_weight"
        )
    if float(declared.lower) < 0.0:
        raise DomainError(
            f"column {column!r}: survey weights are at least 0. Declare lower = 0, and as upper the largest that the "
            "design can give"
        )


# Privacy units of several records: what they say of the parameters together is what a bound is about.

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
    """Return the number of each record's unit, from 0 on, with at most 2^14 records in each; confidential."""
    if column is None:
        return None
    if column not in columns:
        raise ParameterError(f"the table has no column {column!r} that names the unit")
    index = np.unique(np.asarray(columns[column]), return_inverse=True)[1].reshape(-1)
    if len(index) and int(np.bincount(index).max()) > _MOST:
        raise ParameterError(f"column {column!r}: a unit must have at most {_MOST} records")
    return np.asarray(index, dtype=np.int64)


def unit_caveats(column: str | None, *, same_number: bool = True) -> tuple[Code, ...]:
    """Return what the bound is about, where neighbours have as many records in the unit that they differ in or not."""
    if column is None:
        return ()
    return Code("unit-together", {"column": column}), *((Code("unit-sizes"),) * same_number)
