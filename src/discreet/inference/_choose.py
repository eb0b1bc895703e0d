"""The posterior that fits the mechanism of a release."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from discreet._core.checks import choice
from discreet._core.errors import ParameterError
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
    of: Literal["population", "table"] = "population",
    within: Literal["even", "process", "bounds"] = "bounds",
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
        Weight of the prior, in records; for an urn the mechanism's own by default; else the
        prior is then a Pólya tree: see :func:`mechanism_posterior`.
    draws : int
        Number of independent draws that the result is worth.
    seed : int
        Everything here is public.
    of : {"population", "table"}
        What is asked about: the distribution that the confidential records were drawn from, or these records
        themselves. An urn's release has the first only.
    within : {"bounds", "process", "even"}
        What is known of the values within a cell: see :func:`mechanism_posterior`. By default nothing, so intervals
        hold for real columns, whose values lie in heaps. An urn's release has no "process".

    Returns
    -------
    Posterior
        With ``facts`` and ``notes`` that say what it assumes.

    Raises
    ------
    ParameterError
        When the mechanism has no posterior here, or none of this kind.
    DataError, FileProblem
        When the release or its certificate cannot be read.
    """
    known = read_certificate(release, certificate)
    if not isinstance(certified_mechanism(known.facts).evidence(), ContinuedUrn):
        return mechanism_posterior(release, known, strength=strength, draws=draws, seed=seed, of=of, within=within)
    if choice("of", of, ("population", "table")) == "table":
        raise ParameterError("the release of an urn has a posterior of the population only. Leave out of = 'table'")
    if choice("within", within, ("bounds", "process", "even")) == "process":
        raise ParameterError("the release of an urn has no process within cells. Take within = 'bounds'")
    found = process_posterior(release, known, strength=strength, draws=draws, seed=seed)
    return replace(found, bounds=within == "bounds")
