"""The public side: from a release and its certificate to conclusions, with intervals. No confidential data is read."""

from discreet.inference._diagnostics import effective_sample_size, r_hat
from discreet.inference._functional import Functional, functional
from discreet.inference._posterior import Band, Draws, Posterior
from discreet.inference._process import predictive_weights, process_posterior
from discreet.inference._summary import Estimate, Summary

__all__ = [
    "Band",
    "Draws",
    "Estimate",
    "Functional",
    "Posterior",
    "Summary",
    "effective_sample_size",
    "functional",
    "predictive_weights",
    "process_posterior",
    "r_hat",
]
