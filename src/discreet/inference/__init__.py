"""The public side: from a release and its certificate to conclusions, with intervals. No confidential data is read."""

from discreet._core.boundary import seal
from discreet._core.warnings import ReleaseTakenForSample
from discreet.inference._choose import posterior
from discreet.inference._combine import Combined, combine
from discreet.inference._fit import Fit, fit
from discreet.inference._functional import Functional
from discreet.inference._line import Draws
from discreet.inference._mechanism_aware import mechanism_posterior, noisy_counts_posterior
from discreet.inference._posterior import Band, Posterior
from discreet.inference._summary import Estimate, Summary
from discreet.inference._urn.process import process_posterior
from discreet.inference._urn.unseen import Unseen, unseen
from discreet.inference._warnings import NotConverged

__all__ = [
    "NotConverged",
    "Posterior",
    "ReleaseTakenForSample",
    "combine",
    "fit",
    "mechanism_posterior",
    "noisy_counts_posterior",
    "posterior",
    "process_posterior",
    "unseen",
]

seal(globals(), Band, Combined, Draws, Estimate, Fit, Functional, Summary, Unseen)
