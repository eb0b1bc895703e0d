"""The public side: from a release and its certificate to conclusions, with intervals. No confidential data is read."""

from discreet._boundary import seal
from discreet.inference._choose import posterior
from discreet.inference._combine import Combined, combine
from discreet.inference._diagnostics import effective_sample_size, r_hat
from discreet.inference._fit import Fit, fit
from discreet.inference._functional import Functional, functional
from discreet.inference._mechanism_aware import mechanism_posterior, noisy_counts_posterior
from discreet.inference._posterior import Band, Draws, Posterior
from discreet.inference._summary import Estimate, Summary
from discreet.inference._urn.new_values import CountLaw, new_values_law
from discreet.inference._urn.process import predictive_weights, process_posterior
from discreet.inference._urn.unseen import Unseen, given_fresh_values, missing_mass, unseen_categories
from discreet.inference._warnings import DiscreetWarning, NotConverged, ReleaseTakenForSample

__all__ = [
    "Band",
    "Combined",
    "CountLaw",
    "DiscreetWarning",
    "Draws",
    "Estimate",
    "Fit",
    "Functional",
    "NotConverged",
    "Posterior",
    "ReleaseTakenForSample",
    "Summary",
    "Unseen",
    "combine",
    "effective_sample_size",
    "fit",
    "functional",
    "given_fresh_values",
    "mechanism_posterior",
    "missing_mass",
    "new_values_law",
    "noisy_counts_posterior",
    "posterior",
    "predictive_weights",
    "process_posterior",
    "r_hat",
    "unseen_categories",
]

seal(globals())
