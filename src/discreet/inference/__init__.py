"""The public side: from a release and its certificate to conclusions, with intervals. No confidential data is read."""

from discreet.inference._diagnostics import effective_sample_size, r_hat
from discreet.inference._functional import Functional, functional
from discreet.inference._posterior import Band, Draws, Posterior
from discreet.inference._process import predictive_weights, process_posterior
from discreet.inference._summary import Estimate, Summary
from discreet.inference._unseen import Unseen, given_fresh_values, missing_mass, new_values_law, unseen_categories

__all__ = [
    "Band",
    "Draws",
    "Estimate",
    "Functional",
    "Posterior",
    "Summary",
    "Unseen",
    "effective_sample_size",
    "functional",
    "given_fresh_values",
    "missing_mass",
    "new_values_law",
    "predictive_weights",
    "process_posterior",
    "r_hat",
    "unseen_categories",
]
