"""Examining mechanisms: one of anybody's by its outputs, and what one reveals of the confidential table itself."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet.audit.density import DensityRatio, density_ratio
    from discreet.audit.instance import InstanceGuarantee, MonteCarlo, instance_guarantee, paper_choices
    from discreet.audit.mechanism import Examination, examine, examined
    from discreet.audit.pipeline import audit_pipeline
    from discreet.audit.release import audit_release, claimed, split

__all__ = ["density_ratio", "examine", "instance_guarantee"]

__getattr__, __dir__ = door(__name__)
