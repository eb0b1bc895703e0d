"""Of which mechanisms a posterior is known, and what they tell of the confidential counts."""

from __future__ import annotations

from discreet._core.errors import ParameterError
from discreet.mechanisms._evidence import (
    ContinuedUrn,
    DistinctRecords,
    DrawnByLeast,
    DrawnFromCounts,
    NearestBySquares,
    NearestCounts,
    NoisyCellCounts,
)
from discreet.mechanisms._mechanism import Mechanism

CellEvidence = DistinctRecords | DrawnByLeast | DrawnFromCounts | NearestBySquares | NearestCounts | NoisyCellCounts

MOST_CELLS = 65_536


def no_posterior(mechanism: Mechanism) -> str:
    """Return why releases of a mechanism have no posterior here, from public facts; empty where they have one."""
    evidence, name, cells = mechanism.evidence(), mechanism.name, mechanism.domain.size
    if isinstance(evidence, ContinuedUrn):
        return ""
    if evidence is None:
        return f"there is no mechanism-aware posterior for {name}, since {mechanism.no_evidence()}"
    if not getattr(evidence, "own_cells", True):
        return f"there is no mechanism-aware posterior for {name} around public points"
    if cells is None or cells > MOST_CELLS:
        return f"a mechanism-aware posterior needs a finite domain of at most {MOST_CELLS:,} cells"
    return ""


def known_evidence(mechanism: Mechanism) -> CellEvidence:
    """Return what a release by a mechanism says about the counts of the domain's cells.

    Raises ParameterError for mechanisms of which no posterior is known here, before anything is computed.
    """
    evidence, why = mechanism.evidence(), no_posterior(mechanism)
    if why or evidence is None or isinstance(evidence, ContinuedUrn):
        raise ParameterError(why or f"there is no mechanism-aware posterior for {mechanism.name}")
    return evidence
