"""Examining a mechanism on the confidential table itself; what is found stays confidential."""

from discreet._core.boundary import seal
from discreet.audit._instance import InstanceGuarantee, instance_guarantee
from discreet.audit._monte_carlo import MonteCarlo
from discreet.audit._paper_choices import PaperChoices, paper_choices

__all__ = ["instance_guarantee", "paper_choices"]

seal(globals(), InstanceGuarantee, MonteCarlo, PaperChoices)
