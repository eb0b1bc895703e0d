"""Examining a mechanism on the confidential table itself; what is found stays confidential."""

from discreet._boundary import seal
from discreet.audit._instance import BANNER, InstanceGuarantee, instance_guarantee
from discreet.audit._monte_carlo import MonteCarlo, clopper_pearson
from discreet.audit._paper_choices import PaperChoices, paper_choices
from discreet.confidential import reveal_to_custodian

__all__ = [
    "BANNER",
    "InstanceGuarantee",
    "MonteCarlo",
    "PaperChoices",
    "clopper_pearson",
    "instance_guarantee",
    "paper_choices",
    "reveal_to_custodian",
]

seal(globals())
