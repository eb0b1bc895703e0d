"""What a mechanism reveals of this very table, against all its neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, integer, real
from discreet._core.lazy import special
from discreet._core.numeric import Booleans, Floats, Integers
from discreet._core.random import public, secure
from discreet._core.text import about, as_written, counted, rounded_down, rounded_up
from discreet.confidential import Confidential, open_confidential
from discreet.domain import Counts
from discreet.mechanisms import HeldMechanism, Mechanism
from discreet.papers import bnp24
from discreet.privacy import HeldTable, InstanceDelta, OpeningPair, UrnPair, instance_readings

BANNER = "CONFIDENTIAL: computed from the data. Do not publish"
"""How the text of every result of this package begins."""

_ITERATIONS = 10_000
_MOST_STEPS = 100_000_000  # openings followed, over all iterations


@sealed
class MonteCarlo(NamedTuple):
    """A proportion estimated by simulation.

    ``estimate``: share of the ``iterations``.
    ``lower``, ``upper``: Clopper-Pearson bounds: both hold with at least the ``confidence``, however few the events.
    """

    estimate: float
    lower: float
    upper: float
    iterations: int
    confidence: float


def clopper_pearson(events: int, iterations: int, *, confidence: float = 1.0 - 1e-6) -> MonteCarlo:
    """Return a proportion with bounds that hold at any sample size: no events never read as "0 +- 0"."""
    integer("events", events, least=0, most=integer("iterations", iterations, least=1))
    real("confidence", confidence, above=0, below=1)
    half = 0.5 * (1.0 - confidence)
    lower = float(lower_bounds(np.array(events), iterations, half))
    upper = 1.0 if events == iterations else float(special.betaincinv(events + 1, iterations - events, 1.0 - half))
    return MonteCarlo(events / iterations, lower, upper, iterations, confidence)


def lower_bounds(events: Integers, runs: int, chance: float) -> Floats:
    """Return numbers that the probabilities of events are below with this chance at most."""
    return np.where(events > 0, special.betaincinv(np.maximum(events, 1.0), runs - events + 1.0, chance), 0.0)


def simulate(
    table: HeldTable, reading: InstanceDelta, epsilon: float, *, iterations: int, rng: np.random.Generator
) -> MonteCarlo:
    """Draw releases and count how often the loss of a reading's change, of the papers' delta, exceeds epsilon."""
    # It checks T11's sums by another route, and reproduces tables made by simulation. The estimate stays confidential,
    # so that floating-point variates will do.
    pair = reading.pair
    if pair is None:
        mass = 1.0 - table.discount
        exceeds = rng.binomial(table.size, rng.beta(mass, table.total - mass, size=iterations)) > 0
    elif isinstance(pair, UrnPair):
        s, t = _draws(pair.size, (pair.a + 1.0, pair.b, pair.rest), iterations, rng)[:2]
        exceeds = np.log1p(s / pair.a) - np.log1p(t / pair.b) > epsilon
    else:
        exceeds = _opening(pair, reading.forward, epsilon, iterations, rng)
    return clopper_pearson(int(exceeds.sum()), len(exceeds))


def _draws(size: int, masses: Sequence[float], iterations: int, rng: np.random.Generator) -> list[Integers]:
    """Return the counts of an urn's cells, one array per cell."""
    gammas = rng.standard_gamma(np.tile(np.asarray(masses, dtype=np.float64), (iterations, 1)))
    return list(rng.multinomial(size, gammas / gammas.sum(axis=1, keepdims=True)).T)


def _opening(pair: OpeningPair, forward: bool, epsilon: float, iterations: int, rng: np.random.Generator) -> Booleans:
    """Simulate the draws of a pair whose tables hold different values."""
    masses = [pair.a + 1.0, pair.phi, pair.others]
    if not forward:
        masses = [pair.a, pair.phi + pair.discount, pair.others, 1.0 - pair.discount]
    opening = masses[1]
    expected = pair.size * opening / (pair.a + 1.0 + pair.phi + pair.others)
    if not pair.filtered and pair.discount > 0:
        iterations = min(iterations, max(100, round(_MOST_STEPS / (1.0 + expected))))
    s, dropped, *others = _draws(pair.size, masses, iterations, rng)
    if pair.filtered:
        from scipy.special import gammaln

        first, second = pair.phi, pair.phi + pair.discount
        grown = gammaln(second + dropped) - gammaln(second) - gammaln(first + dropped) + gammaln(first)
    else:
        grown = np.log1p(_opened(dropped, opening, pair.discount, rng) * pair.discount / pair.phi)
    loss = np.log1p(s / pair.a) - grown
    exceeds: Booleans = loss > epsilon if forward else (-loss > epsilon) | (others[1] > 0)
    return exceeds


def _opened(draws: Integers, opening: float, discount: float, rng: np.random.Generator) -> Integers:
    """Return how many values are opened by given numbers of draws of new values."""
    opened = np.zeros(len(draws), dtype=np.int64)
    if discount == 0.0:
        return opened
    order = np.argsort(-draws)
    longest = draws[order]
    for i in range(int(draws.max(initial=0))):
        live = int(np.searchsorted(-longest, -i, side="left"))  # those with more than i draws
        opened[:live] += rng.random(live) < (opening + opened[:live] * discount) / (opening + i)
    return opened[np.argsort(order)]


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceGuarantee:
    """What a mechanism promises at one table only. Confidential.

    ``mechanism``: its registry name.
    ``epsilon``: at which the deltas are.
    ``unconditional``: the mechanism's own delta, for every table: the only one here that is public.
    ``readings``: by side, "one-sided" or "two-sided", and name, "tight" or "event": the delta, and the change that has
    it.
    ``monte_carlo``: estimate of the papers' delta, the one-sided probability that the loss exceeds epsilon, for the
    worst change.
    """

    kind: ClassVar[str] = "instance"
    theorem: ClassVar[str] = "T11"

    mechanism: str
    epsilon: float
    unconditional: float
    readings: dict[str, dict[str, InstanceDelta]]
    monte_carlo: MonteCarlo

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, marked ``"confidential": true``."""
        facts = {name: getattr(self, name) for name in ("kind", "theorem", "mechanism", "epsilon")}
        readings = {
            side: {name: {"delta": r.delta, "exact": r.exact, "change": r.change} for name, r in deltas.items()}
            for side, deltas in self.readings.items()
        }
        facts |= {"unconditional_delta": self.unconditional, "readings": readings}
        return {"confidential": True, "notice": BANNER, **facts, "monte_carlo": self.monte_carlo._asdict()}

    def __str__(self) -> str:
        head = f"{self.mechanism} at epsilon {as_written(self.epsilon)}, this table against all its neighbours:"
        lines = [BANNER, head]
        kinds = {"tight": "hockey-stick delta", "event": "probability that the loss exceeds epsilon"}
        for side, deltas in self.readings.items():
            for name, reading in deltas.items():
                delta = ("" if reading.exact else "at most ") + rounded_up(reading.delta, 6)
                lines.append(f"  {side}, {kinds[name]}: {delta} ({reading.change})")
        simulated = self.monte_carlo
        lines += [
            f"  the one-sided probability by simulation: {about(simulated.estimate, 6)}, between "
            f"{rounded_down(simulated.lower, 6)} and {rounded_up(simulated.upper, 6)} "
            f"({counted(simulated.iterations, 'release')})",
            f"For every table: delta {rounded_up(self.unconditional, 6)}. Only this number is public and a guarantee.",
        ]
        return "\n".join(lines)


@sealed
def instance_guarantee(
    confidential: Confidential[Counts],
    mechanism: Mechanism,
    *,
    epsilon: float,
    n: int | None = None,
    iterations: int = _ITERATIONS,
    rng: np.random.Generator | None = None,
) -> Confidential[InstanceGuarantee]:
    """Compute the instance-level deltas of a release of this table.

    Parameters
    ----------
    confidential : Confidential of Counts
        The table.
    mechanism : Mechanism
        Of the urn family: ``pitman-yor``, ``dirichlet-process``, ``dirichlet-multinomial`` or ``urn-histogram``.
    epsilon : float
        Positive.
    n : int, optional
        The public number of records that the caller states; it has to be the table's.
    iterations : int
        Releases that the Monte Carlo estimate simulates.
    rng : numpy.random.Generator, optional
        Of the simulation; a fresh one by default.

    Returns
    -------
    Confidential of InstanceGuarantee
        Closed; :func:`reveal_to_custodian` opens it. It never enters a certificate, and :func:`~discreet.release`
        refuses its kind whatever the caller accepts.

    Raises
    ------
    ParameterError
        For other mechanisms, for a discount above 0 on a finite domain, for tables counted by a privacy unit of several
        records, and for more than 2^20 cells of unequal weight.
    BudgetError
        When epsilon is not positive and finite.

    Notes
    -----
    Theorem T11, for the law of the kernel, in which strength and discount are multiples of 2^-20.

    References
    ----------
    PY26, Definition 2 and Theorem 1; BNP24, Proposition 4.2.

    Examples
    --------
    >>> from discreet.confidential import confidential
    >>> from discreet.mechanisms import PitmanYor
    >>> from discreet.domain import Domain, Numeric
    >>> import polars as pl
    >>> unit = Domain(columns={"x": Numeric(lower=0.0, upper=1.0)})
    >>> table = confidential(pl.DataFrame({"x": [0.25, 0.25, 0.5, 0.5, 0.5]}), unit)
    >>> closed = instance_guarantee(table, PitmanYor(domain=unit, size=2), epsilon=0.5)
    >>> closed
    <confidential InstanceGuarantee>
    """
    if confidential.relation_group > 1:
        raise ParameterError(
            "instance-level guarantees are for one record, and this table was counted with a multi-record privacy unit"
        )
    if confidential.provenance is not None and confidential.provenance.domain != mechanism.domain:
        raise ParameterError("the mechanism's domain is not the one the confidential table was encoded with")
    integer("iterations", iterations, least=1)
    x = open_confidential(confidential, caller=__name__)
    if n is not None and n != x.n:  # the number is public under replacement
        raise ParameterError(f"the table has {counted(x.n, 'record')}, got {n:,}")
    if not isinstance(mechanism, HeldMechanism):
        raise ParameterError(f"{mechanism.name} has no instance-level deltas. Only mechanisms that are urns have them")
    table = mechanism.held_table(x)
    readings = instance_readings(table, epsilon)
    event, rng = readings["one-sided"]["event"], rng or public(secure())
    simulated = simulate(table, event, epsilon, iterations=iterations, rng=rng)
    delta = mechanism.guarantee(n=x.n).delta(epsilon)
    facts: dict[str, Any] = {"mechanism": mechanism.name, "epsilon": float(epsilon), "unconditional": delta}
    return Confidential(InstanceGuarantee(**facts, readings=readings, monte_carlo=simulated))


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperChoices:
    """What the thesis, which counts singletons twice, would have chosen for this table. Confidential."""

    strength: float
    singletons: int
    doubled_records: int
    least_prior: float | None = None  # None where no epsilon and size were given
    largest_prior: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, marked ``"confidential": true``; an infinite strength is None."""
        strength = None if math.isinf(self.strength) else self.strength
        return {"confidential": True, "notice": BANNER, **asdict(self), "strength": strength}

    def __str__(self) -> str:
        lines = [BANNER, f"empirical-Bayes strength {about(self.strength, 6)}"]
        lines.append(f"values held once: {self.singletons:,} (doubling them makes {self.doubled_records:,} records)")
        if self.least_prior is not None and self.largest_prior is not None:
            priors = f"{about(self.least_prior, 6)} to {about(self.largest_prior, 6)}"
            lines.append(f"data-dependent priors of held cells: {priors}")
        warning = "A release with parameters chosen this way has no guarantee. Choose them before looking at the data."
        return "\n".join([*lines, warning])


def paper_choices(
    confidential: Confidential[Counts], *, epsilon: float | None = None, size: int | None = None
) -> Confidential[PaperChoices]:
    """Compute what the thesis would have chosen by looking at the data; closed, for the custodian (BNP24, 7.1, 7.2)."""
    x, priors = open_confidential(confidential, caller=__name__), {}
    if epsilon is not None and size is not None:
        masses = bnp24.dirichlet_multinomial_thesis(x.frequencies, epsilon, size=size)
        priors = {"least_prior": float(masses.min()), "largest_prior": float(masses.max())}
    strength, singletons = bnp24.empirical_bayes_strength(x.n, x.distinct), int((x.frequencies == 1).sum())
    doubled = x.n + singletons
    return Confidential(PaperChoices(strength=strength, singletons=singletons, doubled_records=doubled, **priors))
