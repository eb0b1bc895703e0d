"""Survey weights of records: what a record says of the parameters counts in proportion to its weight."""

from __future__ import annotations

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.checks import real
from discreet._core.errors import DomainError, ParameterError
from discreet.domain import Decimal, Domain, Integer, Numeric
from discreet.pseudo_posterior._rows import Columns
from discreet.pseudo_posterior._synthesiser import Synthesiser

PUBLIC_MEAN = (
    "survey_mean was chosen without looking at the data, and the survey weight of a record does not change when "
    "another record is replaced"
)


def check_survey(synthesiser: Synthesiser, column: str | None, mean: float | None) -> float | None:
    """Check the declaration of survey weights, and return the mean.

    Raises ParameterError when one of the two is missing, the column is synthesised, or the mean is not above 0.
    """
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
    """Return the survey weight of each record over the public mean; confidential.

    Raises ParameterError when the table has no such column, or it holds anything but finite numbers of at least 0.
    """
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
