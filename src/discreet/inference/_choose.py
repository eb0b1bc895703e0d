"""The posterior that fits the mechanism of a release."""

from __future__ import annotations

from typing import Any

from discreet.inference._mechanism_aware import mechanism_posterior
from discreet.inference._posterior import Posterior
from discreet.inference._urn.process import process_posterior
from discreet.mechanisms._evidence import ContinuedUrn
from discreet.releases._mechanism_step import certified_mechanism
from discreet.releases._read import read_certificate


def posterior(
    release: Any,
    certificate: Any = None,
    *,
    strength: float | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> Posterior:
    """Return the posterior of the population given a release, by the mechanism that its certificate names.

    Releases of the Pitman-Yor urn have a :func:`process_posterior`, with the mechanism's own strength; those of
    histograms the mechanism-aware one, which takes the noise into account.

    Parameters
    ----------
    release : Release, dataframe or path
        The released table.
    certificate : Certificate or path, optional
        The one found with the release by default.
    strength : float, optional
        Weight of the prior, in records; for an urn the mechanism's own by default, else 1.
    draws : int
        Number of independent draws that the result is worth.
    seed : int
        Everything here is public.

    Returns
    -------
    Posterior
        With ``facts`` and ``notes`` that say what it assumes.

    Raises
    ------
    ParameterError
        When the mechanism has no posterior here.
    DataError, FileProblem
        When the release or its certificate cannot be read.
    """
    known = read_certificate(release, certificate)
    if isinstance(certified_mechanism(known.facts).evidence(), ContinuedUrn):
        return process_posterior(release, known, strength=strength, draws=draws, seed=seed)
    weight = 1.0 if strength is None else strength
    return mechanism_posterior(release, known, strength=weight, draws=draws, seed=seed)
