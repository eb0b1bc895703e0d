"""Examining mechanisms: one of anybody's by its outputs, and what one reveals of the confidential table itself."""

from discreet._core.boundary import seal
from discreet.audit._examine import Examination, examine
from discreet.audit._instance import InstanceGuarantee, instance_guarantee
from discreet.audit._monte_carlo import MonteCarlo

__all__ = ["examine", "instance_guarantee"]

seal(globals(), Examination, InstanceGuarantee, MonteCarlo)
