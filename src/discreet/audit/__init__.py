"""Examining mechanisms: one of anybody's by its outputs, and what one reveals of the confidential table itself."""

from discreet._core.boundary import seal
from discreet.audit.examination import Examination, examine
from discreet.audit.guesses import MonteCarlo
from discreet.audit.instance import InstanceGuarantee, instance_guarantee

__all__ = ["examine", "instance_guarantee"]

seal(globals(), Examination, InstanceGuarantee, MonteCarlo)
