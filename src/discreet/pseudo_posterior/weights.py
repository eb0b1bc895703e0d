r"""Weights of records from their risks: which records a synthesiser should hardly learn from.

The risk of a record is :math:`f_i=\max_s|\log p(x_i\mid\theta_s)|` over draws of the unweighted posterior (PP22,
section 3). A weighting turns risks into weights in [0, 1]; a record of infinite risk always gets 0. Every weight
of this module depends on other records too, through the draws at least: none of them is for the censored form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, real
from discreet._core.lazy import special
from discreet._core.numeric import Floats
from discreet.inference import effective_sample_size
from discreet.pseudo_posterior.likelihood import Columns, rows
from discreet.pseudo_posterior.sampler import PosteriorDraws, Sampler


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Risks:
    r"""What each record can contribute to the log-likelihood, over posterior draws. Confidential.

    ``least``, ``largest``, shape (n,): the extremes of :math:`\alpha_i\log p(x_i\mid\theta_s)` over the draws, nats.
    ``by_draw``, shape (draws,): the largest :math:`\alpha_i|\log p(x_i\mid\theta_s)|` of each draw, over the records.
    """

    least: Floats = field(repr=False)
    largest: Floats = field(repr=False)
    by_draw: Floats = field(repr=False, default_factory=lambda: np.empty(0))

    @classmethod
    def from_draws(cls, sampler: Sampler, draws: PosteriorDraws, weights: npt.ArrayLike = 1.0) -> Risks:
        """Measure the risks of records, or units, with their weights; 1 by default."""
        least, largest, by_draw = sampler.extremes(draws, weights)
        risks = cls(least=least, largest=largest).times(np.broadcast_to(np.asarray(weights), least.shape))
        return replace(risks, by_draw=by_draw)

    def times(self, weights: Floats) -> Risks:
        """Return the risks times the weights, without those by draw; a weight of 0 makes any risk 0."""
        with np.errstate(invalid="ignore"):  # of a zero times an infinite risk
            least, largest = (np.where(weights > 0, weights * side, 0.0) for side in (self.least, self.largest))
        return Risks(least=least, largest=largest)

    @property
    def by_record(self) -> Floats:
        """The Lipschitz bound of each record."""
        return np.maximum(np.abs(self.least), np.abs(self.largest))

    @property
    def lipschitz(self) -> float:
        """The largest of them, PP22's local bound: a maximum over draws, which grows with their number."""
        return float(self.by_record.max())

    def quantile(self, chains: int) -> tuple[float, float, float]:
        """Return the 95 % quantile over draws of the bound, and its 95 % limits by effective draws of the chains."""
        quantile = np.quantile(self.by_draw, 0.95, method="inverted_cdf")
        effective = effective_sample_size((self.by_draw <= quantile).reshape(chains, -1), ranked=False)
        levels = special.betaincinv(0.95 * effective + 1.0, 0.05 * effective + 1.0, (0.025, 0.975))
        low, high = np.quantile(self.by_draw, levels, method="inverted_cdf").tolist()
        return float(quantile), low, high

    @property
    def epsilon(self) -> float:
        r"""Local epsilon of one posterior draw, :math:`2(\max(0,\max\alpha_if)-\min(0,\min\alpha_if))`.

        Twice the Lipschitz bound where no density exceeds one, and at most four times it otherwise (T19).
        """
        return 2.0 * float(self.largest.max(initial=0.0) - self.least.min(initial=0.0))


@sealed
class Weighting(ABC):
    """How risks become weights."""

    @abstractmethod
    def _weights(self, risks: Floats, data: Columns) -> Floats:
        """Return weights, of which those outside [0, 1] will be clipped; risks are finite."""

    def tightened(self, factor: float) -> Weighting:
        """Return a weighting that gives less weight, by a factor in (0, 1]: what calibration solves for."""
        return self if factor == 1.0 else Scaled(weighting=self, factor=factor)

    def weights(self, risks: npt.ArrayLike, data: Columns) -> Floats:
        """Return one weight in [0, 1] per record, confidential; 0 where the risk is not finite.

        ``risks``, shape (n,): of each record, in nats; infinite or NaN where its likelihood was not finite.
        ``data``: the model's data. Raises ParameterError when a map does not give one finite number per record.
        """
        z = np.asarray(risks, dtype=np.float64)
        finite = np.isfinite(z)
        weights = np.zeros(len(z))
        if finite.any():
            numbers = np.asarray(self._weights(z[finite], rows(data, finite)), dtype=np.float64)
            if numbers.shape != (int(finite.sum()),) or not np.isfinite(numbers).all():
                raise ParameterError("the weighting must give one finite number per record. Check the map")
            weights[finite] = np.clip(numbers, 0.0, 1.0)
        return weights


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Unweighted(Weighting):
    """Every record counts in full: the synthesiser without protection, to compare with."""

    def _weights(self, risks: Floats, data: Columns) -> Floats:
        return np.ones(len(risks))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class LinearWeights(Weighting):
    r"""The linear map of PP22, equation (10): :math:`\alpha_i=c(1-\tilde f_i)+g`, clipped to [0, 1].

    :math:`\tilde f_i=(f_i-\min_jf_j)/(\max_jf_j-\min_jf_j)`, and 0 where all risks are equal.

    Parameters
    ----------
    c : float
        Scale, at least 0; below 1 it compresses the weights.
    g : float
        Shift, between -1 and 1; below 0 more records get weight 0.

    Examples
    --------
    >>> LinearWeights(c=0.7, g=-0.1).weights([2.0, 3.0, 6.0, np.inf], {}).round(3).tolist()
    [0.6, 0.425, 0.0, 0.0]
    """

    c: float = 1.0
    g: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "c", real("the scale c", self.c, least=0))
        object.__setattr__(self, "g", real("the shift g", self.g, least=-1, most=1))

    def _weights(self, risks: Floats, data: Columns) -> Floats:
        relative = (risks - risks.min()) / (np.ptp(risks) or 1.0)
        return np.asarray(self.c * (1.0 - relative) + self.g)

    def tightened(self, factor: float) -> Weighting:
        """Return it with c and g times the factor."""
        return replace(self, c=self.c * factor, g=self.g * factor)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class MappedWeights(Weighting):
    """A map of each risk by itself, falling from 1 at 0 to 0 at infinity (PP22, assumption 2).

    Parameters
    ----------
    function : callable
        Takes an array of risks and returns as many weights, such as :func:`reciprocal`.

    Examples
    --------
    >>> MappedWeights(function=reciprocal).weights([0.0, 1.0, 3.0], {}).tolist()
    [1.0, 0.5, 0.25]
    >>> MappedWeights(function=lambda z: z < 2.0).weights([1.0, 2.0], {}).tolist()  # a threshold
    [1.0, 0.0]
    """

    function: Callable[[Floats], npt.ArrayLike]

    def _weights(self, risks: Floats, data: Columns) -> Floats:
        return np.asarray(self.function(risks), dtype=np.float64)


@sealed
def reciprocal(risks: Floats) -> Floats:
    """Return ``1 / (1 + z)``."""
    return np.asarray(1.0 / (1.0 + risks))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialWeights(Weighting):
    r"""The exponential mechanism with the log-likelihood as utility: one weight :math:`\varepsilon/(2\Delta)` for all.

    :math:`\Delta=\max_if_i`: PP22, equation (13). The local epsilon that is aimed at, of one table, is above 0.
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", real("epsilon", self.epsilon, above=0))

    def _weights(self, risks: Floats, data: Columns) -> Floats:
        return np.full(len(risks), self.epsilon / max(2.0 * float(risks.max()), self.epsilon))


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class CountWeights(Weighting):
    """Weights from isolation (Hu, Savitsky and Williams): one minus the share of records outside a radius.

    Among the records that agree with record i on every array of the model's data that is ``known``, the share whose
    ``column`` is further than ``radius`` from the record's own is the chance that an intruder who guesses one of them
    misses; the more isolated a record, the smaller its weight. An assumption about intruders, not a bound on anything.
    ``c``, ``g``: scale and shift, as for :class:`LinearWeights`.

    Examples
    --------
    >>> weighting = CountWeights(column="y", radius=1.0)
    >>> weighting.weights(np.zeros(4), {"y": np.array([0.0, 0.5, 1.0, 9.0])}).tolist()
    [0.75, 0.75, 0.75, 0.25]
    """

    column: str
    radius: float
    known: tuple[str, ...] = ()
    c: float = 1.0
    g: float = 0.0

    def _weights(self, risks: Floats, data: Columns) -> Floats:
        for name in (self.column, *self.known):
            if name not in data or data[name].ndim != 1:
                raise ParameterError(f"the model's data has no array {name!r} of one number per record")
        value = np.asarray(data[self.column], dtype=np.float64)
        known = np.stack([np.zeros(len(value)), *(data[name] for name in self.known)])
        groups = np.unique(known, axis=1, return_inverse=True)[1].reshape(-1)
        inside = np.empty(len(value))
        for group in np.unique(groups):
            members = groups == group
            ordered = np.sort(value[members])
            end = np.searchsorted(ordered, value[members] + self.radius, side="right")
            start = np.searchsorted(ordered, value[members] - self.radius, side="left")
            inside[members] = (end - start) / len(ordered)
        return self.c * inside + self.g


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Truncated(Weighting):
    r"""Another weighting with the weights of records dropped whose weighted risk exceeds a bound (PP22, section 4.4).

    A record with :math:`\alpha_if_i>M` gets weight 0.

    Parameters
    ----------
    weighting : Weighting
        What makes the weights.
    most : float
        The bound M in nats, above 0.

    Examples
    --------
    >>> Truncated(weighting=LinearWeights(), most=1.5).weights([1.0, 2.0, 4.0], {}).round(3).tolist()
    [1.0, 0.667, 0.0]
    """

    weighting: Weighting
    most: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "most", real("the bound M", self.most, above=0))

    def _weights(self, risks: Floats, data: Columns) -> Floats:
        weights = self.weighting.weights(risks, data)
        return np.where(weights * risks > self.most, 0.0, weights)

    def tightened(self, factor: float) -> Weighting:
        """Return it with a smaller bound M."""
        return replace(self, most=self.most * factor)


@sealed
@dataclass(frozen=True, slots=True, kw_only=True)
class Scaled(Weighting):
    """Another weighting times one factor in [0, 1], as calibration leaves it."""

    weighting: Weighting
    factor: float

    def _weights(self, risks: Floats, data: Columns) -> Floats:
        return self.factor * self.weighting.weights(risks, data)
