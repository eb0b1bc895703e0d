"""Mechanism-aware posteriors of the population, given a histogram: docs/theory/mechanism-aware-posterior.md."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from discreet import wording
from discreet._core.boundary import quietly, sealed
from discreet._core.errors import ParameterError, choice, positive_size, real
from discreet._core.numeric import Booleans, Floats, Indices
from discreet._core.random import seeded
from discreet._core.text import counted
from discreet.domain import Domain, Numeric, Records
from discreet.inference import samplers
from discreet.inference.bounds import UnseenCells, hidden, shapes
from discreet.inference.line import CellSets
from discreet.inference.population import Posterior
from discreet.inference.prior import FIRMER, FIRMER_FOR_RECORDS, WIDE, WIDE_FOR_LITTLE, Noise, Prior
from discreet.inference.released import analysed_mechanism, read_release, released_table
from discreet.inference.trees import WHOLE, Splits, level_sums
from discreet.inference.urn import process_posterior
from discreet.mechanisms import MOST_CELLS, Mechanism, Tree, known_likelihood
from discreet.mechanisms import likelihood as likelihoods
from discreet.releases import Certificate, read_certificate, released_counts, unreadable

_MOST_NUMBERS, _MOST_SETS = 1 << 28, 1 << 13
_LEAST, _LEAST_MASS, _LEAST_MOMENT = 1e-12, 2.0**-10, 2.0**-17  # of a node that is divided: share, and times width
_PROCESS = (
    "within a cell, a Dirichlet process whose strength is the cell's part of the prior's: nothing was seen of it, so "
    "the values are the prior's, and a heap of them at round numbers is not foreseen"
)
_TREE = (
    "with a prior that halves the cells again and again, each time with Beta shares: wide for sums of many cells, and "
    "for neighbouring cells as narrow as the release suggests"
)


class LatentCounts(NamedTuple):
    """The confidential counts given a release, of the leaves for a tree."""

    domain: Domain
    draws: samplers.CountDraws
    priors: Sequence[Prior]
    base: Floats  # shares of the cells in the base measure
    leaf: Indices | None  # of each cell; none where there is no tree
    source: str  # what released something about ``n`` records
    n: int
    strength: float | None  # of a Dirichlet process prior; none where the prior is a tree
    unseen: UnseenCells | None = None  # cells that the release tells nothing of
    sets: CellSets | None = None  # where the counts are those of sets of cells


@sealed
def mechanism_posterior(
    release: Any,
    certificate: Any = None,
    *,
    strength: float | None = None,
    draws: int = 1000,
    seed: int = 0,
    of: Literal["population", "table"] = "population",
    within: Literal["even", "process", "bounds"] = "bounds",
    progress: samplers.Progress = None,
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
        proportion to its shares). For sums of many cells ``b`` is 2, or 1 where a threshold withholds cells and for
        records that were drawn from the counts without noise (mixtures and urns); whether the prior is firmer for
        neighbouring cells, or there softer, like a Dirichlet process, is learned from the release.
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
    progress : callable, optional
        Called with how many steps are done, and how many there are: one for each prior, and one for all draws.

    Returns
    -------
    Posterior
        Of the cells' probabilities, or (``within="process"``) of a distribution on the uncut column. ``facts`` states
        whether the posterior is exact, and in steps of how many records counts were followed; ``notes`` say what it
        assumes.

    Raises
    ------
    ParameterError
        When the mechanism has no such posterior here, or the domain has more than 65,536 cells (1,048,576 on a tree).
        The posteriors of the exponential histogram, data-specific Reveal-or-Obscure and subsampled randomised response
        list all tables, of which there may be 32,768.
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
    certificate = read_certificate(release, certificate)
    mechanism, rng = analysed_mechanism(certificate), seeded(seed)
    likelihood: Any = known_likelihood(mechanism, certificate.facts.records)  # refused before files are read
    _check_options(mechanism.domain, strength, draws, likelihood.tree)
    observation = _cells(release, certificate, mechanism)
    latent = latent_counts(mechanism, observation, strength=strength, draws=draws, rng=rng, progress=progress)
    population = population_posterior(latent, rng, of=of, within=within)
    if progress is not None:
        progress(len(latent.priors) + 1, len(latent.priors) + 1)
    return population


def of_records(mechanism: Mechanism, n: int, numbers: Indices, draws: int, rng: np.random.Generator) -> Posterior:
    """Return the posterior given how many records of each cell a mechanism released."""
    latent = latent_counts(mechanism, samplers.ReleasedRecords(n, numbers), strength=None, draws=draws, rng=rng)
    return population_posterior(latent, rng, of="population", within="bounds")


def _cells(release: Any, certificate: Certificate, mechanism: Mechanism) -> samplers.Observation:
    """Return what was released of each cell."""
    facts, domain = certificate.facts, mechanism.domain
    n, share = facts.records, facts.released.share_from_data
    if facts.size is None:
        table_of_counts = quietly(released_table(release).collect, unreadable())
        return samplers.ReleasedCounts(n, released_counts(table_of_counts, domain))
    if mechanism.likelihood().withholds and share == 0.0:  # no count was kept: as a table of counts says it
        return samplers.ReleasedCounts(n, np.full(domain.size or 0, np.nan))
    table = read_release(release, certificate)
    numbers = np.zeros(domain.size or 0, dtype=np.int64)
    numbers[domain.flat(table.records)] = np.rint(table.counts)
    return samplers.ReleasedRecords(n, numbers, None if share is None else round(share * n))


def latent_counts(
    mechanism: Mechanism,
    release: samplers.Observation,
    *,
    strength: float | None,
    draws: int,
    rng: np.random.Generator,
    progress: samplers.Progress = None,
) -> LatentCounts:
    """Draw the confidential counts given what was released of each cell; the rest as for mechanism_posterior."""
    likelihood: Any = known_likelihood(mechanism, release.n)
    domain = mechanism.domain
    base = masses = _base_masses(domain)
    tree, leaf, firmer, sets, starts, unseen = likelihood.tree, None, FIRMER, None, None, None
    if tree is not None:
        leaf = tree.leaf_of(domain.unflat(np.arange(len(base)))).astype(np.intp)
        masses = np.asarray(np.bincount(leaf, weights=base), dtype=np.float64)
        values = np.bincount(leaf, weights=release.values).astype(release.values.dtype)
        release = replace(release, values=values)
    if isinstance(release, samplers.ReleasedRecords):
        firmer = FIRMER_FOR_RECORDS
    if likelihood.withholds:
        unseen = UnseenCells.withheld(likelihood, release)
    elif strength is None and likelihood.noise:
        stratified, consistent = likelihood.sampling == "stratified", likelihood.consistent
        unseen = hidden(release, likelihood.noise, stratified=stratified, consistent=consistent)
    if unseen is not None and leaf is not None:
        unseen = unseen.part(leaf)
    if leaf is not None and _is_condensed(domain, tree):
        shares, splits = _condensed(likelihood, release)
        starts = np.searchsorted(splits.leaf, np.arange(len(splits.evidence)))
        sets, within = splits.leaf[leaf], (shares / masses)[leaf] * base
        sets = CellSets(sets, within / np.bincount(sets, weights=within)[sets])
        masses = np.add.reduceat(masses, starts)
        release = replace(release, values=splits.evidence, splits=replace(splits, leaf=np.arange(len(starts))))
    if strength is not None:
        priors = [Prior.process(strength * masses)]
    elif tree is not None and leaf is not None:
        priors = Prior.along(tree, masses, firmer=firmer, starts=starts, atoms=_atoms(domain, leaf, starts))
    else:
        wide = WIDE_FOR_LITTLE if likelihood.withholds or not likelihood.noise else WIDE
        priors = Prior.learned(masses, firmer=firmer, wide=wide, softer=not likelihood.noise)
    counts = samplers.draw_counts(likelihood, priors, release, draws, rng, progress)
    return LatentCounts(domain, counts, priors, base, leaf, mechanism.name, release.n, strength, unseen, sets)


def _atoms(domain: Domain, leaf: Indices, starts: Indices | None) -> Booleans | None:
    """Return which leaves, or sets of them that begin at ``starts``, hold an atom of the only column, if it has any."""
    column = next(iter(domain.columns.values()))
    atoms = getattr(column, "atoms", ())
    if len(domain.columns) > 1 or not atoms:
        return None
    leaves = np.isin(np.arange(leaf.max() + 1), leaf[column.encode(list(atoms))])
    if starts is None:
        return leaves
    return np.logical_or.reduceat(leaves, starts)


def _is_condensed(domain: Domain, tree: Tree | None) -> bool:
    """Return whether only so much of a tree is drawn as matters to numbers of its only column."""
    column, *others = domain.columns.values()
    return tree is not None and not others and column.on_a_line and tree.nodes(tree.depth) > WHOLE


def _condensed(likelihood: likelihoods.NoisyTree, release: Any) -> tuple[Floats, Splits]:
    """Return about the share of each leaf, and the splits down to nodes within which nothing moves a number."""
    reading, scale = likelihood.consistent, likelihood.noise
    shares = reading.expected(release.values * (release.n / release.values.sum()), scale) + _LEAST
    even = np.full(len(shares), 1.0 / len(shares))
    levels = zip(level_sums(reading.tree, shares), level_sums(reading.tree, even), strict=True)
    opened = [(mass > _LEAST_MASS) | (mass * width > _LEAST_MOMENT) for mass, width in levels]
    return shares, samplers.splits_given(likelihood, release, opened)


def _check_options(domain: Domain, strength: float | None, draws: int, tree: Tree | None = None) -> None:
    cells = sets = domain.size or 0
    if _is_condensed(domain, tree):
        sets = min(cells, _MOST_SETS)
    if 2 * positive_size("draws", draws) * sets > _MOST_NUMBERS:
        raise ParameterError(f"{draws:,} draws of {cells:,} cells do not fit in memory. Ask for fewer draws")
    if strength is not None:
        real("strength", strength, above=0, most=1e9)


def _base_masses(domain: Domain) -> Floats:
    return np.exp(domain.log_base(domain.unflat(np.arange(domain.size or 0))))


@sealed
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
    if domain.size is None or domain.size > MOST_CELLS:
        raise ParameterError(f"a mechanism-aware posterior needs a finite domain of at most {MOST_CELLS:,} cells")
    _check_options(domain, strength, draws)
    base, n, rng = _base_masses(domain), positive_size("n", n), seeded(seed)
    values, law = np.asarray(counts, dtype=np.float64), Noise(noise, float(scale))
    if values.shape != base.shape or not np.isfinite(values).all():
        raise ParameterError(f"give one finite noisy count for each cell, {len(base):,} in all")
    if strength is None:
        priors, unseen = Prior.learned(base, firmer=FIRMER), hidden(samplers.ReleasedCounts(n, values), law.spread)
    else:
        priors, unseen = [Prior.process(strength * base)], None
    latent = samplers.CountDraws.draw(samplers.noisy(priors, n, values, law), draws, rng)
    source = LatentCounts(domain, latent, priors, base, None, "noisy counts", n, strength, unseen)
    return population_posterior(source, rng, of=of, within=within)


def population_posterior(latent: LatentCounts, rng: np.random.Generator, *, of: str, within: str) -> Posterior:
    """Return the posterior of the population, or of the table, given its latent counts."""
    choice("within", within, ("bounds", "process", "even"))
    domain, draws, strength, n = latent.domain, latent.draws, latent.strength, latent.n
    alpha = latent.base * (strength or 1.0)  # within sets of which nothing is known but the sum
    prior = _TREE if strength is None else f"with a Dirichlet process prior of strength {strength:g}"
    notes = [
        f"given what {latent.source} released about {counted(n, 'record')}, taken as independent draws of the "
        f"population, {prior}"
    ]
    masses, unseen = draws.counts, latent.unseen if within == "bounds" else None
    if choice("of", of, ("population", "table")) == "population":
        parts = zip(latent.priors, np.split(masses, np.cumsum(draws.numbers)[:-1]), strict=True)
        masses = np.concatenate([prior.masses(part, rng) for prior, part in parts])
        unseen = unseen and unseen.of_population(n)
    else:
        notes.append("about these records themselves, not the population")
    masses = masses / masses.sum(axis=1, keepdims=True)
    sets, expected = latent.sets, masses
    if sets is not None and within == "process":
        masses, sets = masses[:, sets.set_of] * sets.shares, None
    elif sets is not None:
        expected = (masses.mean(axis=0)[sets.set_of] * sets.shares)[None]
        notes.append(wording.SETS_OF_CELLS.format(len(masses[0]), len(alpha)))
    elif latent.leaf is not None:  # within a leaf nothing was seen: the shares are the prior's
        expected = masses = samplers.divided(masses, latent.leaf, alpha, rng)
    target, support, own, own_weights = domain, domain.unflat(np.arange(len(alpha))), None, None
    if within == "process":
        notes.append(_PROCESS)
        target = _without_cells(domain)
        own, own_weights = shapes(domain, alpha, masses, rng)
        support, masses = Records(columns=(np.empty(0),)), np.empty((len(masses), 0))
    if domain.coin_columns:
        notes.append(wording.said("coins-split", {}))
    if unseen is not None:
        notes.append(unseen.message(expected))
    if draws.approximation:
        notes.append(f"approximate, not exact: {draws.approximation}")
    facts = {"mechanism": latent.source, "records": n, "strength": strength, "of": of}
    facts |= {"exact": not draws.approximation, "step": draws.step}
    options = {"notes": tuple(notes), "facts": facts, "bounds": within == "bounds", "unseen": unseen}
    if sets is not None:
        return Posterior.from_sets(target, support, sets, masses, **options)
    return Posterior.of_arrays(target, support, masses, own=own, own_weights=own_weights, **options)


def _without_cells(domain: Domain) -> Domain:
    """Return the domain of the only column, not cut into cells."""
    column: Any = next(iter(domain.columns.values()))
    intervals = isinstance(column, Numeric) and column.cells is not None and column.step is None
    plain = intervals and not (column.nullable or column.coin) and column.dtype in ("float64", "float32")
    if len(domain.columns) != 1 or not plain:
        raise ParameterError("shapes within cells need a single numeric column of intervals, without step or nulls")
    return Domain(columns={domain.names[0]: Numeric(lower=column.lower, upper=column.upper)})


@sealed
def posterior(
    release: Any,
    certificate: Any = None,
    *,
    strength: float | None = None,
    draws: int = 1000,
    seed: int = 0,
    of: Literal["population", "table"] = "population",
    within: Literal["even", "process", "bounds"] = "bounds",
    progress: samplers.Progress = None,
) -> Posterior:
    """Return the posterior of the population given a release, by the mechanism that its certificate names.

    Releases of the Pitman-Yor urn have a :func:`process_posterior`, with the mechanism's own strength by default; those
    of histograms the :func:`mechanism_posterior`, which takes the noise into account.

    Parameters
    ----------
    release, certificate, draws, seed, progress
        As for :func:`mechanism_posterior`; the draws of an urn are independent too, and of them no progress is told.
    strength : float, optional
        Weight of the prior, in records: by default the urn's own, or a Pólya tree for a prior.
    of : {"population", "table"}
        What is asked about: see :func:`mechanism_posterior`. An urn's release has the first only.
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
    certificate = read_certificate(release, certificate)
    options: dict[str, Any] = {"strength": strength, "draws": draws, "seed": seed}
    if analysed_mechanism(certificate).likelihood().urn is None:
        return mechanism_posterior(release, certificate, of=of, within=within, progress=progress, **options)
    if choice("of", of, ("population", "table")) == "table":
        raise ParameterError("the release of an urn has a posterior of the population only. Leave out of = 'table'")
    if choice("within", within, ("bounds", "process", "even")) == "process":
        raise ParameterError("the release of an urn has no process within cells. Take within = 'bounds'")
    return replace(process_posterior(release, certificate, **options), bounds=within == "bounds")
