"""Instance-level guarantees: what a release of *this* table reveals, against all its neighbours (theorem T11).

Why this file exists. Definition 2 of the Pitman-Yor paper asks for the inequality of differential privacy at one table
only, with all its neighbours. The result depends on the table, so it is confidential, and no certificate holds it.

Two deltas: the tight one, the largest hockey-stick divergence, and the papers', the largest probability that the loss
exceeds epsilon, which is larger. Two readings: the papers' (the release has the law of this table) and the definition
of Soria-Comas et al. (of either table).

For the tight delta the splitting lemma leaves a handful of changes: the rarest values are the worst. The papers' delta
has no such order, as it jumps with the integers: all distinct frequencies are searched, best bound first, and what
could not be searched within the work allowed is covered by its bound, labelled as one.
"""

from __future__ import annotations

import numpy as np

from discreet._core.checks import real
from discreet._core.errors import BudgetError
from discreet.privacy._held_table import HeldTable, Reading
from discreet.privacy._instance_event import Known, divergence, event_reading
from discreet.privacy._sampling_pairs import UrnPair


def instance_readings(table: HeldTable, epsilon: float) -> dict[str, dict[str, Reading]]:
    """Return both deltas of a table in both readings.

    Raises BudgetError when epsilon is not positive and finite.

    ``table``: confidential.
    ``epsilon``: positive.
    Returns: ``{"one-sided": {"tight": Reading, "event": Reading}, "two-sided": {..}}``. One-sided: the release has the
    law of this table (Definition 2 of the paper). Two-sided: of this table or of its neighbour (Soria-Comas et al.).
    ``tight`` is the hockey-stick delta, ``event`` the probability that the loss exceeds epsilon.

    Notes
    -----
    Theorem T11. Exact up to rounding, which only adds; where a sum or search would be too long, an upper bound,
    labelled ``exact=False``. An outcome whose loss equals epsilon up to rounding counts as exceeding it.

    References
    ----------
    PY26, Definition 2, Theorem 1, Corollary 1; BNP24, Proposition 4.2; Soria-Comas et al. (2017).

    Examples
    --------
    >>> table = HeldTable.pitman_yor(np.array([2, 3]), size=2, strength=1.0)
    >>> readings = instance_readings(table, 0.5)
    >>> round(readings["one-sided"]["tight"].delta, 12), round(readings["two-sided"]["tight"].delta, 12)
    (0.13125684031, 0.285714285714)
    """
    epsilon = real("epsilon", epsilon, above=0, most=700, error=BudgetError)
    known: Known = {}
    readings = {}
    for name, two_sided in (("one-sided", False), ("two-sided", True)):
        readings[name] = {
            "tight": _tight(table, epsilon, known, two_sided=two_sided),
            "event": event_reading(table, epsilon, known, two_sided=two_sided),
        }
    return readings


def _tight(table: HeldTable, epsilon: float, known: Known, *, two_sided: bool) -> Reading:
    """Return the largest divergence: by splitting, among the rarest values."""
    found = [table.exchange]
    for i, j in _lightest_pairs(table):
        pair = table.pair(i, j)
        words = f"a record moves from {table.value(i)} to {table.value(j)}"
        pairs = [pair] if not two_sided else [pair, UrnPair(size=pair.size, a=pair.b, b=pair.a, rest=pair.rest)]
        found += [Reading(p.delta(epsilon), p.exact, words, p) for p in pairs]
    for opening in table.openings(two_sided=two_sided):
        if opening.rarest:
            value = divergence(opening, epsilon, known)
            found.append(Reading(value.hockey_stick, value.exact, *opening.named))
    return max(found, key=lambda reading: reading.delta)


def _lightest_pairs(table: HeldTable) -> list[tuple[int, int]]:
    """Return the pairs that no other dominates: the lightest that can lose with the lightest that can gain."""
    losing, gaining = np.flatnonzero(table.losing)[:2].tolist(), np.flatnonzero(table.gaining)[:2].tolist()
    pairs = [(i, j) for i in losing for j in gaining if table.may_pair(i, j)]
    return [p for p in pairs if not any(q != p and q[0] <= p[0] and q[1] <= p[1] for q in pairs)]
