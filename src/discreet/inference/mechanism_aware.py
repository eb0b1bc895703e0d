"""Mechanism-aware posteriors: of the population, given what a histogram mechanism released.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from discreet._core.arrays import Booleans, Floats, Indices
from discreet._core.boundary import quietly
from discreet._core.checks import choice, positive_size, real
from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted as counted_text
from discreet.domain import Domain, Records
from discreet.inference.bounds import Estimates, Hidden, Withheld, continuous_domain, halves, shapes
from discreet.inference.lattice import Counted
from discreet.inference.population import Posterior
from discreet.inference.prior import FIRMER, FIRMER_FOR_RECORDS, WIDE, WIDE_FOR_LITTLE, Noise, Prior
from discreet.inference.released import _table, analysed_mechanism, read_release
from discreet.inference.samplers import along, given_counts, given_records, noisy, sets_of
from discreet.inference.urn import process_posterior
from discreet.mechanisms import Mechanism
from discreet.mechanisms.likelihood import (
    MOST_CELLS,
    CellLikelihood,
    ContinuedUrn,
    DistinctRecords,
    DrawnByLeast,
    DrawnFromCounts,
    NoisyCellCounts,
    NoisyTree,
    ThresholdedCounts,
    known_likelihood,
)
from discreet.releases.reading import read_certificate
from discreet.releases.table import released_counts, unreadable

_MOST_NUMBERS = 1 << 28
_LEAST = 4  # leaves of a hidden set of a tree: in it a pair is known as poorly as a set of many
_PROCESS = (
    "within a cell, a Dirichlet process whose strength is the cell's part of the prior's: nothing was seen of it, so "
    "the values are the prior's, and a heap of them at round numbers is not foreseen"
)


class Told(NamedTuple):
    """What a release tells of the confidential counts, of the leaves for a tree.

    ``base``: shares of the cells in the base measure. ``leaf``: of each cell; none where there is no tree.
    ``strength``: of a Dirichlet process prior; none where the prior is a tree.
    ``withheld``: by which threshold cells were, and what was released of each.
    ``hidden``: which cells, or leaves, the release does not tell from empty ones.
    """

    domain: Domain
    counted: Counted
    priors: Sequence[Prior]
    base: Floats
    leaf: Indices | None
    made: dict[str, Any]
    strength: float | None
    withheld: tuple[ThresholdedCounts, Floats] | None = None
    hidden: Booleans | None = None


def mechanism_posterior(
    release: Any,
    certificate: Any = None,
    *,
    strength: float | None = None,
    draws: int = 1000,
    seed: int = 0,
    of: Literal["population", "table"] = "population",
    within: Literal["even", "process", "bounds"] = "bounds",
) -> Posterior:
    r"""Return the posterior of the population given the release of a histogram mechanism, noise and all.

    The model: :math:`p\sim DP(\theta, H)` on the domain's cells; the ``n`` confidential records are independent draws
    of ``p``; the mechanism of the certificate saw their counts :math:`C`. Given what was released, the counts of cells
    are independent but for their sum, and are drawn as that, without Markov chains, at a cost that does not depend on
    ``n``; given the counts, the cells' probabilities are :math:`\mathrm{Dirichlet}(\theta H + C)`. Where the likelihood
    is taken for something simpler, ``facts["exact"]`` is false and a note says what.

    Parameters
    ----------
    release : Release, dataframe or path
        Released records, or the released table of counts.
    certificate : Certificate or path of one, optional
        The one found with the release by default.
    strength : float, optional
        :math:`\theta`, the weight of the base measure in records; positive. It is the analyst's, not the mechanism's.
        By default the prior is a Pólya tree instead: the cells are halved again and again, and each time the
        shares of the halves are :math:`\mathrm{Beta}(\frac b2,\frac b2)` (with a base measure that is not uniform, in
        proportion to its shares). It is wide for sums of many cells: there ``b`` is 2, or 1 where a threshold
        withholds cells and for records that were drawn from the counts without noise (mixtures and urns).
        Whether it is firmer for neighbouring cells, and below which scale, is learned from the release; for
        records without noise also whether it is softer, like a Dirichlet process.
        For records of subsampled randomised response and of data-specific Reveal-or-Obscure the default is 1.
    draws : int
        Number of draws; they are independent.
    seed : int
        Everything here is public: a seed makes the numbers reproducible and does no harm.
    of : {"population", "table"}
        What is asked about: the distribution that the confidential records were drawn from, or these records
        themselves, whose intervals are shorter.
    within : {"bounds", "process", "even"}
        What is known of the values within a cell. Nothing: where a question cuts a cell, the interval holds wherever
        in its cell each value lies. Under the default prior it also holds if cells that the release does not tell from
        empty ones are empty. A prior: a Dirichlet process within each cell, for a single numeric column of
        intervals. All: mass is spread evenly over a cell, as the domain decodes it, which is too good for most columns.

    Returns
    -------
    Posterior
        Of the cells' probabilities, or (``within="process"``) of a distribution on the uncut column. ``facts`` states
        whether the posterior is exact, and in steps of how many records counts were followed; ``notes`` say what it
        assumes.

    Raises
    ------
    ParameterError
        When the mechanism has no such posterior here, or the domain has more than 65,536 cells.
    DataError, FileProblem
        When the release cannot be read.

    References
    ----------
    PY26, section 4.1 and Appendix C.1, which keeps all ``n`` confidential records as latent variables.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet.confidential import confidential
    >>> from discreet.domain import Domain, Integer
    >>> from discreet.mechanisms import PerturbedHistogram
    >>> from discreet import release
    >>> dice = Domain(columns={"eyes": Integer(lower=1, upper=6)})
    >>> rolls = confidential(pl.DataFrame({"eyes": [1, 2, 3, 4, 5, 6, 6, 6] * 100}), dice)
    >>> mechanism = PerturbedHistogram(domain=dice, records=800, scale=2.0, projection="simplex")
    >>> posterior = mechanism_posterior(release(rolls, mechanism=mechanism, size=400))
    >>> bool(0.25 < posterior.evaluate("P(=6)").mean() < 0.5)
    True
    """
    known = read_certificate(release, certificate)
    facts, mechanism = known.facts, analysed_mechanism(known)
    domain, rng = mechanism.domain, seeded(seed)
    likelihood = known_likelihood(mechanism)  # what cannot be done is refused before files are read
    _prior_masses(domain, 1.0 if strength is None else strength)
    _number(draws, domain)
    records, from_data = facts.size is not None, facts.released.share_from_data
    if not records:
        seen = released_counts(quietly(_table(release).collect, unreadable()), domain)
    elif isinstance(likelihood, ThresholdedCounts) and from_data == 0.0:  # none was kept: as a table of counts says it
        seen, records = np.full(domain.size or 0, np.nan), False
    else:
        released = read_release(release, known)
        seen = np.zeros(domain.size or 0)
        seen[domain.flat(released.records)] = released.counts
    return posterior_of_counts(
        mechanism, facts.records, seen, released=records, strength=strength, draws=draws,
        rng=rng, of=of, within=within, share=from_data,
    )  # fmt: skip


def posterior_of_counts(
    mechanism: Mechanism,
    records: int,
    seen: Floats,
    *,
    released: bool,
    strength: float | None,
    draws: int,
    rng: np.random.Generator,
    of: Literal["population", "table"] = "population",
    within: Literal["even", "process", "bounds"] = "bounds",
    share: float | None = None,
) -> Posterior:
    """Return the posterior given what was released of each cell; the rest as for :func:`counts_of`."""
    told = counts_of(mechanism, records, seen, released=released, strength=strength, draws=draws, rng=rng, share=share)
    return posterior_about(told, rng, of=of, within=within)


def counts_of(
    mechanism: Mechanism,
    records: int,
    seen: Floats,
    *,
    released: bool,
    strength: float | None,
    draws: int,
    rng: np.random.Generator,
    share: float | None = None,
) -> Told:
    """Return what is known of the confidential counts; the rest as for :func:`mechanism_posterior`.

    ``seen``, shape (cells,): released counts (nan: not in the table), or numbers of released records.
    ``share``: of the records that the released ones stand for, where the certificate tells it.
    """
    likelihood, domain = known_likelihood(mechanism), mechanism.domain
    base, wanted = _prior_masses(domain, 1.0), _number(draws, domain)
    tree = leaf = None
    if isinstance(likelihood, NoisyTree):
        tree = likelihood.consistent.tree
        leaf = tree.leaf_of(_all(domain)).astype(np.intp)
    told = _at(leaf, seen)
    masses = _at(leaf, base)
    withheld = likelihood if isinstance(likelihood, ThresholdedCounts) else None
    if strength is None and isinstance(likelihood, (DistinctRecords, DrawnByLeast)):
        strength = 1.0  # one posterior knows no trees, the other takes seconds with them
    few = isinstance(likelihood, DrawnFromCounts)  # records without noise show little of the counts
    firmer = FIRMER_FOR_RECORDS if released else FIRMER
    priors: Sequence[Prior]
    if strength is not None:
        priors = [Prior(strength * masses)]
    elif tree is not None:
        priors = along(tree, masses, firmer=firmer)
    else:
        wide = WIDE_FOR_LITTLE if withheld or few else WIDE
        priors = Prior.learned(masses, firmer=firmer, wide=wide, softer=few)
    if released:
        kept = None if share is None else round(share * records)
        counted = given_records(likelihood, priors, records, np.rint(told).astype(np.int64), wanted, rng, kept=kept)
    else:
        counted = given_counts(likelihood, priors, records, told, wanted, rng)
    made = {"mechanism": mechanism.name, "records": records}
    by_threshold = None if withheld is None else (withheld, seen)
    hidden = _hidden(likelihood, told, records, released) if strength is None else None
    return Told(domain, counted, priors, base, leaf, made, strength, by_threshold, hidden)


def _hidden(likelihood: CellLikelihood, told: Floats, records: int, released: bool) -> Booleans | None:
    """Return which cells, or leaves, noise does not let the release tell from empty ones."""
    if not isinstance(likelihood, NoisyCellCounts) or isinstance(likelihood, ThresholdedCounts):
        return None
    each = records / max(1.0, float(told.sum())) if released else 0.0
    known = each * told if released else told + (records - told.sum()) / len(told)
    noise, stratified = likelihood.law.standard_deviation(likelihood.scale), likelihood.sampling == "stratified"
    about = partial(Estimates, noise=noise, each=each, stratified=stratified)
    if not isinstance(likelihood, NoisyTree):
        return about(known, sets=halves(len(told))).hidden()
    tree, found = likelihood.consistent.tree, np.empty(len(told), dtype=bool)
    order = tree.in_order()
    sets = sets_of(tree, order, {*likelihood.consistent.measured[:-1]})
    found[order] = about(known[order], sets=sets, least=_LEAST).hidden()
    return found


def noisy_counts_posterior(
    counts: Sequence[float] | Floats,
    *,
    domain: Domain,
    n: int,
    noise: str | Callable[[Floats], Floats],
    scale: float,
    strength: float | None = None,
    draws: int = 1000,
    seed: int = 0,
    of: Literal["population", "table"] = "population",
    within: Literal["even", "process", "bounds"] = "bounds",
) -> Posterior:
    r"""Return the posterior of the population given noisy counts of all cells, by whatever tool they were released.

    Parameters
    ----------
    counts : sequence of float, shape (cells,)
        Noisy counts, cell by cell in the order of :meth:`Domain.unflat <discreet.domain.Domain.unflat>`; not clipped,
        not normalised.
    domain : Domain
        Public and finite.
    n : int
        Number of records counted, without noise.
    noise : {"laplace", "gaussian"} or callable
        The noise's law: :math:`e^{-|z|/b}` or :math:`e^{-z^2/(2 b^2)}` with ``b`` the scale, on whole numbers or not,
        or a function that returns the logarithm of its probability (or density), up to a constant, for an array.
    scale : float
        In records; of a function's law about its standard deviation.
    strength, draws, seed, of, within
        As for :func:`mechanism_posterior`.

    Returns
    -------
    Posterior
        As for :func:`mechanism_posterior`.

    Raises
    ------
    ParameterError
        When a number is out of range.

    Examples
    --------
    >>> from discreet.domain import Domain, Integer
    >>> dice = Domain(columns={"eyes": Integer(lower=1, upper=6)})
    >>> noisy = [12.3, 9.1, 11.8, 8.2, -1.4, 20.9]
    >>> posterior = noisy_counts_posterior(noisy, domain=dice, n=60, noise="laplace", scale=2.0)
    >>> bool(3.0 < posterior.evaluate("mean").mean() < 3.8)
    True
    """
    base, n, rng = _prior_masses(domain, 1.0), positive_size("n", n), seeded(seed)
    given = np.asarray(counts, dtype=np.float64)
    if given.shape != base.shape or not np.isfinite(given).all():
        raise ParameterError(f"give one finite noisy count for each cell, {len(base):,} in all")
    law = Noise(noise, float(scale))
    priors = Prior.learned(base, firmer=FIRMER) if strength is None else [Prior(_prior_masses(domain, strength))]
    counted = noisy(priors, n, given, law, _number(draws, domain), rng)
    known = given + (n - given.sum()) / len(given)
    hidden = Estimates(known, law.spread, halves(len(base))).hidden() if strength is None else None
    made = {"mechanism": "noisy counts", "records": n}
    return posterior_about(
        Told(domain, counted, priors, base, None, made, strength, None, hidden), rng, of=of, within=within
    )


def _prior_masses(domain: Domain, strength: float) -> Floats:
    cells = domain.size
    if cells is None or cells > MOST_CELLS:
        raise ParameterError(f"a mechanism-aware posterior needs a finite domain of at most {MOST_CELLS:,} cells")
    return np.asarray(real("strength", strength, above=0, most=1e9) * np.exp(domain.log_base(_all(domain))))


def _all(domain: Domain) -> Any:
    return domain.unflat(np.arange(domain.size or 0))


def _at(leaf: Indices | None, numbers: Floats) -> Floats:
    """Return the sums over leaves, where cells lie in leaves."""
    return numbers if leaf is None else np.asarray(np.bincount(leaf, weights=numbers), dtype=np.float64)


def _number(draws: int, domain: Domain) -> int:
    wanted, cells = positive_size("draws", draws), domain.size or 1
    if 2 * wanted * cells > _MOST_NUMBERS:
        raise ParameterError(
            f"{counted_text(wanted, 'draw')} of {counted_text(cells, 'cell')} do not fit in memory. Ask for fewer draws"
        )
    return wanted


def posterior_about(told: Told, rng: np.random.Generator, *, of: str, within: str) -> Posterior:
    """Return the posterior of the population, or of the table, given what is known of its counts."""
    domain, counted, priors, base, leaf, made, strength, by_threshold, hidden = told
    choice("within", within, ("bounds", "process", "even"))
    target = continuous_domain(domain) if within == "process" else domain
    about = {**made, "strength": strength, "of": of}
    alpha = base * (about["strength"] or 1.0)  # within sets of which nothing is known but the sum
    masses = counted.counts
    if choice("of", of, ("population", "table")) == "population":
        parts = np.split(masses, np.cumsum(counted.drawn)[:-1])
        masses = np.concatenate([prior.masses(part, rng) for prior, part in zip(priors, parts, strict=True)])
    masses = masses / masses.sum(axis=1, keepdims=True)
    if leaf is not None:  # within a leaf nothing was seen: the shares are the prior's
        gammas = np.maximum(rng.standard_gamma(np.broadcast_to(alpha, (len(masses), len(alpha)))), 1e-300)
        sums = np.stack([np.bincount(leaf, weights=row) for row in gammas])
        masses = masses[:, leaf] * gammas / sums[:, leaf]
    support, own, own_weights = _all(domain), None, None
    untold: Withheld | Hidden | None = None
    if by_threshold is not None:
        untold = Withheld.below(*by_threshold, made["records"], population=of == "population")
    elif hidden is not None and hidden.any():
        untold = Hidden(hidden if leaf is None else hidden[leaf])
    if within != "bounds":
        untold = None
    if within == "process":
        own, own_weights = shapes(domain, alpha, masses, rng)
        support, masses = Records(columns=(np.empty(0),)), np.empty((len(masses), 0))
    records = counted_text(about["records"], "record")
    return Posterior.of_arrays(
        target,
        support,
        masses,
        own=own,
        own_weights=own_weights,
        notes=(
            f"given what {about['mechanism']} released about {records}, taken as independent draws of the population, "
            + _said(about["strength"]),
            *(["about these records themselves, not the population"] if about["of"] == "table" else []),
            *([_PROCESS] if within == "process" else []),
            *([untold.said(masses)] if untold is not None else []),
            *([f"approximate, not exact: {counted.approximation}"] if counted.approximation else []),
        ),
        facts={**about, "exact": not counted.approximation, "step": counted.step},
        bounds=within == "bounds",
        untold=untold,
    )


def _said(strength: float | None) -> str:
    if strength is not None:
        return f"with a Dirichlet process prior of strength {strength:g}"
    return (
        "with a prior that halves the cells again and again, each time with Beta shares: wide for sums of many cells, "
        "and for neighbouring cells as narrow as the release suggests"
    )


# The posterior that fits the mechanism of a release.


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
    if not isinstance(analysed_mechanism(known).likelihood(), ContinuedUrn):
        return mechanism_posterior(release, known, strength=strength, draws=draws, seed=seed, of=of, within=within)
    if choice("of", of, ("population", "table")) == "table":
        raise ParameterError("the release of an urn has a posterior of the population only. Leave out of = 'table'")
    if choice("within", within, ("bounds", "process", "even")) == "process":
        raise ParameterError("the release of an urn has no process within cells. Take within = 'bounds'")
    found = process_posterior(release, known, strength=strength, draws=draws, seed=seed)
    return replace(found, bounds=within == "bounds")
