"""Mechanism-aware posteriors: of the population, given what a histogram mechanism released.

Theory: docs/theory/mechanism-aware-posterior.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet._core.arrays import Floats, Indices
from discreet._core.boundary import quietly
from discreet._core.checks import choice, positive_size, real
from discreet._core.errors import DataError, ParameterError
from discreet._core.random import seeded
from discreet._core.text import counted as counted_text
from discreet.domain import Domain, Records
from discreet.inference._counts import Counted, given_counts, given_records, known_evidence, noisy
from discreet.inference._noise import Noise
from discreet.inference._posterior import Posterior
from discreet.inference._released import _table, read_release
from discreet.inference._within import continuous_domain, shapes
from discreet.mechanisms._evidence import NoisyTree, ThresholdedCounts
from discreet.releases import Certificate
from discreet.releases._mechanism_step import certified_mechanism
from discreet.releases._read import read_certificate
from discreet.releases._table import unreadable

if TYPE_CHECKING:
    import polars as pl

_MOST_CELLS = 65_536
_MOST_NUMBERS = 1 << 28
_COUNT, _ERROR = "count", "standard_error"


def mechanism_posterior(
    release: Any,
    certificate: Any = None,
    *,
    strength: float = 1.0,
    draws: int = 1000,
    seed: int = 0,
    of: Literal["population", "table"] = "population",
    within: Literal["even", "process"] = "even",
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
    strength : float
        :math:`\theta`, the weight of the base measure in records; positive. It is the analyst's, not the mechanism's.
    draws : int
        Number of draws; they are independent.
    seed : int
        Everything here is public: a seed makes the numbers reproducible and does no harm.
    of : {"population", "table"}
        What is asked about: the distribution that the confidential records were drawn from, or these records
        themselves, whose intervals are shorter.
    within : {"even", "process"}
        Where cells are intervals: mass spread evenly over a cell, as the domain decodes it; or a Dirichlet process
        within each cell too, of which nothing was seen, so that intervals say what is not known about it.

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
    >>> from discreet.releases import publish
    >>> dice = Domain(columns={"eyes": Integer(lower=1, upper=6)})
    >>> rolls = confidential(pl.DataFrame({"eyes": [1, 2, 3, 4, 5, 6, 6, 6] * 100}), dice)
    >>> mechanism = PerturbedHistogram(domain=dice, records=800, scale=2.0, projection="simplex")
    >>> posterior = mechanism_posterior(publish(rolls, mechanism, size=400))
    >>> bool(0.25 < posterior.evaluate("P(=6)").mean() < 0.5)
    True
    """
    known = read_certificate(release, certificate)
    facts, mechanism = known.facts, certified_mechanism(known.facts)
    domain, records = mechanism.domain, int(facts["records"])
    evidence, rng = known_evidence(mechanism), seeded(seed)
    alpha, wanted = _prior_masses(domain, strength), _number(draws, domain)
    leaf = None
    if isinstance(evidence, NoisyTree):
        leaf = evidence.consistent.tree.leaf_of(_all(domain)).astype(np.intp)
    if facts["size"] is None:
        counts = _at(leaf, _read_counts(release, domain))
        counted = given_counts(evidence, _at(leaf, alpha), records, counts, wanted, rng)
    elif isinstance(evidence, ThresholdedCounts) and facts["released"].get("share_from_data") == 0.0:
        counted = given_counts(evidence, alpha, records, np.full(len(alpha), np.nan), wanted, rng)  # none was kept
    else:
        released = read_release(release, Certificate(facts=facts))
        drawn = np.zeros(len(alpha))
        drawn[domain.flat(released.records)] = released.counts
        reached = np.rint(_at(leaf, drawn)).astype(np.int64)
        counted = given_records(evidence, _at(leaf, alpha), records, reached, wanted, rng)
    about = {"mechanism": mechanism.name, "records": records, "strength": strength, "of": of}
    return _posterior(domain, counted, alpha, leaf, rng, within=within, about=about)


def noisy_counts_posterior(
    counts: Sequence[float] | Floats,
    *,
    domain: Domain,
    n: int,
    noise: str | Callable[[Floats], Floats],
    scale: float,
    strength: float = 1.0,
    draws: int = 1000,
    seed: int = 0,
    of: Literal["population", "table"] = "population",
    within: Literal["even", "process"] = "even",
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
    alpha, n, rng = _prior_masses(domain, strength), positive_size("n", n), seeded(seed)
    given = np.asarray(counts, dtype=np.float64)
    if given.shape != alpha.shape or not np.isfinite(given).all():
        raise ParameterError(f"give one finite noisy count for each cell, {len(alpha):,} in all")
    counted = noisy(alpha, n, given, Noise(noise, float(scale)), _number(draws, domain), rng)
    about = {"mechanism": "noisy counts", "records": n, "strength": strength, "of": of}
    return _posterior(domain, counted, alpha, None, rng, within=within, about=about)


def _prior_masses(domain: Domain, strength: float) -> Floats:
    cells = domain.size
    if cells is None or cells > _MOST_CELLS:
        raise ParameterError(f"a mechanism-aware posterior needs a finite domain of at most {_MOST_CELLS:,} cells")
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


def _posterior(
    domain: Domain,
    counted: Counted,
    alpha: Floats,
    leaf: Indices | None,
    rng: np.random.Generator,
    *,
    within: str,
    about: dict[str, Any],
) -> Posterior:
    target = continuous_domain(domain) if choice("within", within, ("even", "process")) == "process" else domain
    masses = counted.counts
    if choice("of", about["of"], ("population", "table")) == "population":
        masses = rng.standard_gamma(_at(leaf, alpha) + masses)
    masses = masses / masses.sum(axis=1, keepdims=True)
    if leaf is not None:  # within a leaf nothing was seen: the shares are the prior's
        gammas = np.maximum(rng.standard_gamma(np.broadcast_to(alpha, (len(masses), len(alpha)))), 1e-300)
        sums = np.stack([np.bincount(leaf, weights=row) for row in gammas])
        masses = masses[:, leaf] * gammas / sums[:, leaf]
    support, own, own_weights = _all(domain), None, None
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
            f"with a Dirichlet process prior of strength {about['strength']:g}",
            *(["about these records themselves, not the population"] if about["of"] == "table" else []),
            *([f"approximate, not exact: {counted.approximation}"] if counted.approximation else []),
        ),
        facts={**about, "exact": not counted.approximation, "step": counted.step},
    )


def _read_counts(release: Any, domain: Domain) -> Floats:
    """Return the released counts, cell by cell; nan where a cell is not in the table.

    Raises DataError when the table does not fit the domain.
    """
    import polars as pl

    table: pl.DataFrame = quietly(_table(release).collect, unreadable())
    cells = domain.describe(_all(domain), rng=seeded(0)).with_row_index("\0cell")
    names = cells.columns[1:]
    for name in (*names, _COUNT):
        if name not in table.columns:
            raise DataError(name, "is not in the released table of counts", "check that the certificate is its own")
    try:
        typed = table.with_columns([pl.col(name).cast(cells.schema[name]) for name in names])
    except pl.exceptions.PolarsError:
        raise DataError(None, "the released counts have columns of other types", "check the certificate") from None
    joined = typed.join(cells, on=names, how="left", nulls_equal=True)
    found = joined["\0cell"]
    if found.null_count() or found.n_unique() != len(found):
        raise DataError(None, "the released counts are not of the declared cells", "check the certificate")
    counts = np.full(len(cells), np.nan)
    counts[found.to_numpy()] = joined[_COUNT].cast(pl.Float64).to_numpy()
    return counts
