"""Defects planted in a new mechanism, each of which the checks of every registered mechanism reject.

The mechanism they are planted in is sound and passes; each twin changes one method.
"""

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from discreet._core.errors import choice
from discreet.domain import Counts, Domain, Records
from discreet.domain.records import Commonness
from discreet.errors import ParameterError
from discreet.mechanisms import CellCounts, Forecast, Mechanism, Traits
from discreet.mechanisms.noisy_counts import NoisyCounts, NoisyReading
from discreet.mechanisms.projections import PROJECTIONS, Clip, Projection
from discreet.mechanisms.reading import ColumnShares, Estimates, Reading
from discreet.privacy import Budget
from discreet.testing import check_mechanism, contract, facts
from discreet.testing.behaviour import (
    _ESTIMATE_RUNS,
    _MEAN,
    _SQUARE,
    check_declared,
    check_estimates,
    check_forecast,
    check_published_alike,
    check_share,
    check_state,
)
from discreet.testing.contract import CHECKS
from discreet.testing.facts import check_calibrated, check_cells_cost, check_frozen, check_parameters


@dataclass(frozen=True, kw_only=True)
class Sound(NoisyCounts):
    """A new mechanism without a defect: Laplace noise on the counts, clipped and normalised."""

    name: ClassVar[str] = "planted"

    noise: str = field(default="laplace", init=False)

    @property
    def projector(self) -> Projection:
        return Clip(self.cells, self.records)


def test_the_sound_mechanism_passes_every_check() -> None:
    check_mechanism(Sound)
    for check in facts.CHECKS:  # what it adds are fields
        check(Chosen)


# -- the facts --------------------------------------------------------------------------------------------------------


def test_a_mechanism_that_is_not_frozen_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="non-frozen"):

        @dataclass(kw_only=True)
        class NotFrozen(NoisyCounts):
            domain: Domain


class NotADataclass(Sound):
    """Fields of its own that are not fields."""

    extra: int = 3


@dataclass(frozen=True, kw_only=True)
class Settable(Sound):
    """Frozen in name only."""


Settable.__setattr__ = object.__setattr__  # type: ignore[method-assign,assignment]


@dataclass(frozen=True)
class Positional(Sound):
    """A field that may be given by place."""

    extra: int = 3


@dataclass(frozen=True, kw_only=True)
class Chosen(Sound):
    """Sound too, with the noise and the projection to choose from."""

    noise: str = "laplace"
    projection: str = "clip"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("projection", self.projection, PROJECTIONS)

    @property
    def projector(self) -> Projection:
        return PROJECTIONS[self.projection](self.cells, self.records)


def twin(base: type[Sound] = Sound, **methods: Any) -> type[Mechanism]:
    """Return a mechanism with a defect in it."""
    return dataclass(frozen=True, kw_only=True)(type("Twin", (base,), methods))


def stating(base: type[Sound] = Sound, **parameters: Any) -> type[Mechanism]:
    """Return a mechanism that states other parameters than its own."""
    return twin(base, parameters=lambda self: base.parameters(self) | parameters)


def forcing(base: type[Sound] = Sound, **parameters: Any) -> type[Mechanism]:
    """Return a mechanism that is calibrated at these parameters, whatever is asked for."""

    def calibrated(cls: Any, budget: Budget, **rest: Any) -> Sound:
        return super(base, cls).calibrated.__func__(cls, budget, **{**rest, **parameters})  # type: ignore[no-any-return]

    return twin(base, calibrated=classmethod(calibrated))


class IgnoresGroupOfAGivenScale(Sound):
    @classmethod
    def calibrated(cls, budget: Budget, *, group: int = 1, **rest: Any) -> Sound:
        return super().calibrated(budget, group=1 if "scale" in rest else group, **rest)


# -- the claims -------------------------------------------------------------------------------------------------------


def forecasting(**changes: Any) -> type[Mechanism]:
    """Return a mechanism that forecasts something else; without a share it disarms the refusal of poor utility."""

    def forecast(self: Sound, n: int, like: Commonness | None = None) -> Forecast:
        return replace(Sound.forecast(self, n), **changes)

    return twin(forecast=forecast)


def read_as(kind: type[NoisyReading]) -> type[Mechanism]:
    def reading(self: Sound, y: CellCounts, *, n: int) -> Reading:
        return kind(self, y)

    return twin(reading=reading)


class AtTheOtherEnd(NoisyReading):
    """All of the records, where the mechanism keeps some of the table."""

    def column_shares(self, *, rng: np.random.Generator) -> list[ColumnShares]:
        return [(np.array([self.mechanism.cells.count - 1]), np.ones(1))]


class MoreThanAll(NoisyReading):
    def column_shares(self, *, rng: np.random.Generator) -> list[ColumnShares]:
        return [(codes, 1.1 * shares) for codes, shares in super().column_shares(rng=rng) or ()]


def noisy(bias: float, factor: float) -> type[Mechanism]:
    """Return a mechanism under inherited estimates, with counts and noise multiplied by other numbers."""

    def kernel(self: Sound, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        counts = self._counts(x)
        return np.rint(bias * counts + factor * (Sound.kernel(self, x, rng=rng) - counts)).astype(np.int64)

    return twin(kernel=kernel)


# -- what is public ---------------------------------------------------------------------------------------------------


class NamesACell(Sound):
    """An error that quotes the table."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        if x.distinct == 1:
            raise ParameterError(f"all records are in cell {x.records.columns[0][0]}")
        return super().kernel(x, rng=rng)


class ChainsACell(Sound):
    """An error whose own text is constant, chained to one that quotes the table."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        try:
            return {}[x.records.columns[0].tolist()[0]]  # type: ignore[no-any-return]
        except KeyError:
            raise ParameterError("it cannot be done")  # noqa: B904  # the defect


class WarnsOfATable(Sound):
    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        if x.distinct == 1:
            warnings.warn("the table is degenerate", stacklevel=2)
        return super().kernel(x, rng=rng)


class ReleasesFewer(Sound):
    """Fewer records where few cells are held."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> Any:
        return super().kernel(x, rng=rng), x.distinct

    def reading(self, y: Any, *, n: int) -> Reading:
        noisy, distinct = y
        return Fewer(super().reading(noisy, n=n), distinct)


@dataclass(frozen=True)
class Fewer(Reading):
    whole: Reading
    most: int

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        return self.whole.draw(min(size, self.most), rng=rng)

    def estimates(self) -> Estimates | None:
        return self.whole.estimates()


class RemembersTheTable(Sound):
    """A parameter that the kernel changes."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        object.__setattr__(self, "scale", float(self.scale + x.distinct))
        return super().kernel(x, rng=rng)


class KeepsOnItsClass(Sound):
    """A class that has seen the table."""

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        type(self).seen = x
        return super().kernel(x, rng=rng)


class ForgetsTheImpossible(Sound):
    """Says that it keeps what the domain declares, and follows the table."""

    traits: ClassVar[Traits] = replace(Sound.traits, keeps_declared=True)


class _Sometimes:
    """Traits by which the class does not keep what is declared, and what it makes does, which the publisher asks."""

    def __get__(self, mechanism: Any, kind: Any) -> Traits:
        return replace(Sound.traits, keeps_declared=mechanism is not None)


class SlipsThrough(Sound):
    """Is released although its class does not say that it keeps what is declared, and releases the last cell alone."""

    traits: ClassVar[Any] = _Sometimes()

    def reading(self, y: Any, *, n: int) -> Reading:
        return LastCell(self.domain)


@dataclass(frozen=True)
class LastCell(Reading):
    domain: Domain

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        yield self.domain.unflat(np.full(size, (self.domain.size or 1) - 1))


class QuieterBeyondTwoCells(Sound):
    """The second half of the cells gets half of the noise, and its traits say that the cells cost nothing."""

    def guarantee(self, relation: Any = None, *, n: int) -> Any:
        guarantee = super().guarantee(n=n) if relation is None else super().guarantee(relation, n=n)
        scale = self.scale if self.domain.size == 2 else self.scale / 2.0
        return replace(guarantee, profile=self.law.profile(scale, group=guarantee.relation.group, counts=2))


@pytest.mark.parametrize(("planted", "check", "says"), [
    (NotADataclass, check_frozen, "not a dataclass of its own"),
    (Settable, check_frozen, "can be set"),
    (Positional, check_frozen, "positional"),
    (twin(parameters=lambda self: {"scale": self.scale}), check_parameters, "leaves out 'sampling'"),
    (stating(sampling="stratified"), check_parameters, "sampling 'iid' comes back from parameters.* as 'stratified'"),
    (twin(parameters=lambda self: {"scale": round(self.scale, 3), "sampling": self.sampling}), check_parameters,
     "comes back"),
    (forcing(group=1), check_calibrated, "solved for.* exceeds .* unit of 2"),
    (IgnoresGroupOfAGivenScale, check_calibrated, "given .* exceeds .* unit of 2"),
    (stating(Chosen, noise="gaussian"), check_parameters, "noise '.*' comes back"),
    (stating(Chosen, projection="clip"), check_parameters, "projection '.*' comes back"),
    (forcing(Chosen, noise="gaussian"), check_calibrated, "does not keep noise='laplace'"),
    (forcing(Chosen, projection="clip"), check_calibrated, "does not keep projection='simplex'"),
    (forcing(sampling="stratified"), check_calibrated, "does not keep sampling='iid'"),
    (QuieterBeyondTwoCells, check_cells_cost, "its guarantee depends on the number of cells"),
    (forecasting(lost=0.0), check_share, "states that 0.0% of its records are not from the data"),
    (forecasting(lost=0.0, rest="base"), check_forecast, "displace the records .* by 0.0%"),
    (forecasting(released_share=0.3), check_forecast, "30.0% of the records .* released"),
    (read_as(AtTheOtherEnd), check_forecast, "displace the records .* by 100.0%"),
    (read_as(MoreThanAll), check_forecast, "sum to more than one"),
    (noisy(0.975, 0.667), check_estimates, "biased"),
    (noisy(1.0, 0.6), check_estimates, "other standard errors"),
    (noisy(1.0, 1.6), check_estimates, "other standard errors"),
    (NamesACell, check_published_alike, "told apart .* raised"),
    (ChainsACell, check_published_alike, "told apart .* raised"),
    (WarnsOfATable, check_published_alike, "told apart .* warnings"),
    (ReleasesFewer, check_published_alike, "told apart"),
    (RemembersTheTable, check_published_alike, "told apart .* certificate"),
    (KeepsOnItsClass, check_state, "changed 'seen' of KeepsOnItsClass"),
    (ForgetsTheImpossible, check_declared, "does not release a domain with impossible records"),
    (SlipsThrough, check_declared, "releases a domain although it does not keep"),
])  # fmt: skip
def test_a_planted_defect_is_rejected(planted: type[Mechanism], check: Callable[..., None], says: str) -> None:
    assert check in CHECKS
    with pytest.raises(AssertionError, match=says):
        check(planted)


def test_every_check_of_the_contract_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr(contract, "CHECKS", [made.append] * 3)
    check_mechanism(Sound)
    assert made == [Sound] * 3


def test_the_stated_rates_of_the_simulation_of_estimates() -> None:
    """The bounds in the docstring of ``check_estimates``, for noise with the tails of Laplace's, of variance 1."""
    runs, rate = _ESTIMATE_RUNS, math.sqrt(2.0)
    tilt = np.linspace(1e-3, 1.4, 3000)
    mean = math.exp((-runs * (tilt * _MEAN + np.log1p(-(tilt**2) / 2))).min())
    above = 1.0
    for cut in np.linspace(10.0, 40.0, 31):  # values beyond the cut are left to a union bound
        values = np.linspace(0.0, cut, 4001)
        density = rate * np.exp(-rate * values)
        for tilt_of_square in np.linspace(0.005, 1.2 * rate / cut, 60):
            moment = np.trapezoid(np.exp(tilt_of_square * values**2) * density, values) + math.exp(-rate * cut)
            exponent = runs * (math.log(moment) - tilt_of_square * (1.0 + _SQUARE))
            above = min(above, runs * math.exp(-rate * cut) + math.exp(min(0.0, exponent)))
    below = math.exp(-runs * _SQUARE**2 / 12.0)
    assert mean <= 5.2e-8
    assert above + below <= 7.3e-8
    assert 4 * (2 * mean + above + below) <= 1e-6
