"""What is wrong with taking released records for a sample: a standard error made so is too small, by a known factor."""

from __future__ import annotations

import math

from discreet._core.warnings import ReleaseTakenForSample
from discreet.mechanisms import REGISTRY
from discreet.mechanisms._evidence import ContinuedUrn, Evidence, NoisyCellCounts
from discreet.releases._certificate import Certificate
from discreet.releases._mechanism_step import certified_mechanism

_VISIBLE = 1.025


def taken_for_sample(certificate: Certificate) -> ReleaseTakenForSample | None:
    """Return the warning that goes with released records; None where a standard error would not be visibly too small.

    Of a mechanism that is not registered here nothing is known, so nothing is said.

    It is public: the factor follows from the numbers of records and the mechanism's parameters.
    """
    facts, released = certificate.whole().facts, certificate.tables[0]["rows"]
    if certificate.several or facts["size"] is None or not released or not facts["records"]:
        return None
    if facts["mechanism"]["name"] not in REGISTRY:
        return None
    mechanism = certified_mechanism(facts)
    factor = math.sqrt(_variance(mechanism.evidence(), released, facts["records"], mechanism.domain.size))
    remedy = "Take intervals from estimate or regress, which know how the records were made"
    made = ReleaseTakenForSample(released, facts["records"], remedy, factor=factor)
    return made if factor > _VISIBLE else None


def _variance(evidence: Evidence | None, released: int, held: int, cells: int | None) -> float:
    r"""Return about the variance of a mean of ``m`` released records, in units of a sample's, :math:`s^2/m`.

    Of an urn that holds ``n`` records :math:`1+2m/n`; of independent draws from a function of their counts
    :math:`1+m/n`. Of noisy counts of ``k`` cells with variance ``v``, :math:`(m/n)(1+vk/n)`, as of a population as wide
    as the domain, and 1 more where the draws are independent rather than stratified.
    """
    share = released / held
    if isinstance(evidence, ContinuedUrn):
        return 1.0 + 2.0 * share
    if not isinstance(evidence, NoisyCellCounts):
        return 1.0 + share
    noise = evidence.law.standard_deviation(evidence.scale) ** 2 * (cells or 0) / held
    return share * (1.0 + noise) + (evidence.sampling == "iid")
