"""The public side: from a release and its certificate to conclusions, with intervals. No confidential data is read."""

from typing import TYPE_CHECKING

from discreet._core.lazy import door

if TYPE_CHECKING:
    from discreet._core.errors import ReleaseTakenForSample
    from discreet.inference.combining import Combined, combine
    from discreet.inference.functionals import Functional, groups_of, known_functionals
    from discreet.inference.line import Draws
    from discreet.inference.mechanism_aware import mechanism_posterior, noisy_counts_posterior, of_records, posterior
    from discreet.inference.missing_mass import Unseen, all_unseen, unseen
    from discreet.inference.models import Fit, NotConverged, fit
    from discreet.inference.population import Posterior
    from discreet.inference.summary import Band, Estimate, Summary, bounded, effective_sample_size, points, r_hat
    from discreet.inference.urn import process_posterior

__all__ = [
    "NotConverged", "Posterior", "ReleaseTakenForSample", "combine", "fit", "mechanism_posterior",
    "noisy_counts_posterior", "posterior", "process_posterior", "unseen",
]  # fmt: skip

__getattr__, __dir__ = door(__name__)
