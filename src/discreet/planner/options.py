"""One mechanism of a plan: calibrated, with the error that is predicted of it, or why it cannot be."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, cast

from discreet import mechanisms, wording
from discreet._core.boundary import sealed
from discreet._core.errors import DiscreetError, Refused
from discreet._core.numeric import least_integer
from discreet._core.text import about, as_written, counted
from discreet.domain import Domain
from discreet.ledger import Request
from discreet.mechanisms import Forecast, Mechanism, NoiseLaw, first_names, named
from discreet.planner.cells import calibrated, with_sampling
from discreet.planner.predicted import Progress, Reference, mean_lengths, predicted_errors, sampling_errors, summed
from discreet.privacy import AnyBudget, Guarantee, Relation, Unit
from discreet.releases import POOR_UTILITY, headline, weak_attack

_NOT_TRIED = "not tried out, which takes long for a wide table. Ask for it by name"
_CLOSE = 2.0  # times the least predicted error, up to which it is predicted again with all draws
_CHEAP = 16  # draws a prediction takes at most, from which on each of them is quick
_NEAR = 0.05  # of the least predicted error and of a sample's: that much more where a release can be analysed
_HOPELESS = 0.9  # share that is not from the data, from which on the error is not predicted where that takes long
_MANY_CELLS = 1 << 20
_PRECISION = 0.01  # of the largest size
_MOST_CARRIED = 1 << 40  # cells

UNIT = "UNIT"
"""Stands for the column of the privacy unit where a plan knows only how many records one has."""


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """A request with budget and number of records, what its predictions are about, and what is considered; public."""

    request: Request
    reference: Reference = field(default_factory=Reference)
    mechanisms: Sequence[str] | None = None  # names; None for all
    files: Mapping[str, str] = field(default_factory=dict)  # what was read from files: the domain, the reference
    unit: Unit | None = None  # as it was given, also where the request's domain has a table of units for it
    notes: Sequence[str] = ()  # what is said of that

    @property
    def domain(self) -> Domain:
        """The domain as it was declared."""
        return cast("Domain", self.request.domain)

    @property
    def budget(self) -> Any:
        """What may be spent: a budget, or what an attacker may reach."""
        return self.request.required_budget()

    @property
    def n(self) -> int:
        """The number of records of the table."""
        return cast("int", self.request.relation.records)

    @property
    def size(self) -> int:
        """The number of records released; by default as many as the table has."""
        return self.request.size or self.n

    @property
    def declares_more(self) -> bool:
        """Whether the domain declares what only some mechanisms keep."""
        return any((self.domain.constraints, self.domain.totals, self.domain.tables))

    def suits(self, name: str) -> bool:
        """Whether a mechanism is for tables of so many columns, or keeps what else is declared."""
        traits = named(name).traits
        return traits.keeps_declared if self.declares_more else len(self.domain.columns) >= traits.least_columns

    @property
    def sizes(self) -> dict[str, Any]:
        """What mechanisms are calibrated with."""
        return {"budget": self.budget, "n": self.n, "size": self.size, "group": self.request.group}

    @cached_property
    def without_privacy(self) -> float:
        """The W1 that a sample of as many records is predicted to have that is drawn from the table without privacy."""
        return summed(self.domain, self.errors_without_privacy)

    @cached_property
    def errors_without_privacy(self) -> dict[str, float]:
        """The error of each column of such a sample, in the column's unit."""
        return sampling_errors(self.domain, self.size, self.reference)


@sealed
@dataclass(frozen=True, kw_only=True)
class Option:
    """One mechanism calibrated to the budget, or why it cannot be.

    Parameters
    ----------
    name : str
        Registry name.
    comparison : PlanRequest
        What it was calibrated for.
    mechanism : Mechanism or None
        Calibrated; None where the budget or the domain rules it out.
    refused : str or None
        Why, in words.
    extra : str or None
        The extra of this package that it needs and that is not installed.
    forecast : Forecast or None
        What is known of its releases beforehand, for tables like the reference.
    w1 : float or None
        Predicted Wasserstein-1 distance to the confidential table, in the column's unit for a single numeric or
        temporal column, else on the scaled ground metric.
    errors : mapping of str to float, or None
        That of each column, in its own unit: what ``w1`` is the sum of.
    fixed : mapping
        Parameters that were given.
    sized : bool
        Whether :attr:`largest_size` was asked for.
    """

    name: str
    comparison: PlanRequest = field(repr=False)
    mechanism: Mechanism | None = None
    refused: str | None = None
    extra: str | None = None
    forecast: Forecast | None = field(default=None, repr=False)
    w1: float | None = None
    errors: Mapping[str, float] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict, repr=False)
    sized: bool = field(default=False, repr=False)

    @property
    def share_not_from_data(self) -> float | None:
        """Share of the released records that carries nothing of the data, as forecast."""
        return None if self.forecast is None else self.forecast.lost

    @property
    def poor(self) -> bool:
        """Whether a release would be refused as mostly not from the data."""
        return (self.share_not_from_data or 0.0) > POOR_UTILITY

    @property
    def last_resort(self) -> bool:
        """Whether it is only chosen where nothing else would do."""
        # Records are confidential ones; or, without a reference, rare ones are left out: an invented table has none.
        traits = named(self.name).traits
        return traits.verbatim or (traits.leaves_out and self.comparison.reference.table is None)

    @property
    def analysed(self) -> bool:
        """Whether :func:`discreet.inference.posterior` knows how its releases depend on the table."""
        return self.mechanism is not None and not mechanisms.no_posterior(self.mechanism, self.comparison.n)

    @property
    def times_sampling(self) -> float | None:
        """The predicted W1 in units of that of a sample of the same size without privacy."""
        if self.w1 is None or not (sample := self.comparison.without_privacy) > 0.0:
            return None
        return self.w1 / sample

    @cached_property
    def guarantee(self) -> Guarantee | None:
        """What the mechanism promises; None where there is none."""
        if self.mechanism is None:
            return None
        return self.mechanism.guarantee(self.comparison.request.between, n=self.comparison.n)

    @cached_property
    def epsilon(self) -> float | None:
        """The budget's; where that says what an attacker may reach, what the mechanism costs."""
        return None if self.guarantee is None else headline(self.guarantee, self.comparison.request.budget)

    @cached_property
    def delta(self) -> float | None:
        """The exact guarantee at this epsilon."""
        return None if self.guarantee is None else self.guarantee.delta(self.epsilon or 0.0)

    @property
    def caveats(self) -> tuple[str, ...]:
        """What the guarantee does not promise."""
        return () if self.guarantee is None else tuple(map(str, self.guarantee.caveats))

    @cached_property
    def largest_size(self) -> int | None:
        """The most records of which a fifth at most are not from the data, to 1 % below; None where not asked for."""
        return _largest_size(self, self.mechanism) if self.mechanism is not None and self.sized else None

    @property
    def wider_range(self) -> list[str]:
        """How long the interval of a single column's mean is, and how long with a range twice as wide."""
        comparison = self.comparison
        kinds = [column.kind in ("integer", "numeric") for column in comparison.domain.columns.values()]
        if (
            kinds != [True]
            or comparison.domain.tables
            or not (self.analysed and self.forecast and self.forecast.stratified)
        ):
            return []
        mechanism = cast("Mechanism", self.mechanism)
        lengths = mean_lengths(mechanism, comparison.reference, n=comparison.n, size=comparison.size)
        pairs = ({"once": about(once), "twice": about(twice)} for once, twice in pairwise(lengths))
        return [wording.said("mean-interval", numbers) for numbers in pairs]

    def to_dict(self) -> dict[str, Any]:
        """Return the option as JSON values."""
        forecast, names = self.forecast, ("refused", "extra", "epsilon", "delta", "largest_size", "share_not_from_data")
        return {
            "mechanism": self.name,
            "parameters": self.mechanism and self.mechanism.parameters(),
            **{name: getattr(self, name) for name in names},
            "share_at_most": forecast and forecast.lost_at_most,
            "share_in_words": forecast and wording.lost(forecast),
            "predicted_w1": self.w1,
            "predicted_errors": None if self.errors is None else dict(self.errors),
            "times_sampling": self.times_sampling,
            "posterior": self.analysed,
            "caveats": list(self.caveats),
        }


def numbers_of(budget: AnyBudget) -> dict[str, float]:
    """Return the numbers of a budget by their names."""
    return asdict(cast("Any", budget))


def private_step(mechanism: Mechanism) -> tuple[Any, ...]:
    """Return a private step's law and the fields that it depends on: equal where only what is read is different."""
    names = [item.name for item in fields(mechanism) if item.compare and item.metadata != mechanisms.READING_ONLY]
    values = {name: getattr(mechanism, name) for name in names}
    return type(mechanism).log_prob, {name: value for name, value in values.items() if value is not None}


def compared(comparison: PlanRequest, *, sized: bool, progress: Progress = None) -> tuple[Option, ...]:
    """Return an option for each mechanism of a request, best first."""
    names = first_names() if comparison.mechanisms is None else list(comparison.mechanisms)
    options: list[Option] = []
    wide = False  # whether one that is good for a table of many columns was found
    for name in names:
        traits, parameters = named(name).traits, with_sampling(named(name), comparison.request.parameters)
        if wide and traits.tried_out and not comparison.declares_more:
            option = Option(name=name, comparison=comparison, refused=_NOT_TRIED)
        else:
            option = considered(name, comparison, parameters, sized=sized)
        options.append(option)
        good = option.mechanism is not None and not option.poor
        wide = wide or (comparison.mechanisms is None and traits.least_columns > 1 and good)
        if progress is not None:
            progress(len(options), len(names))
    close = _CLOSE * min((option.w1 for option in options if option.w1 is not None), default=0.0)
    for place, option in enumerate(options):  # a contender is predicted from all draws, where they take no time
        cheap = option.forecast is not None and option.forecast.draws >= _CHEAP
        if cheap and option.w1 is not None and option.w1 <= close:
            options[place] = predicted(option)
    return _ranked(options)


def _ranked(options: Sequence[Option]) -> tuple[Option, ...]:
    """Return the options, best first: by predicted error, but one near the best that can be analysed goes first."""
    enough = any(not (option.mechanism is None or option.poor or option.last_resort) for option in options)

    def group(option: Option) -> tuple[bool, bool, bool]:
        return option.mechanism is None, option.poor, enough and option.last_resort

    def order(option: Option) -> tuple[Any, ...]:
        return *group(option), rank(option), 0.0 if option.w1 is not None else option.share_not_from_data or 0.0

    if not options:
        return ()
    leader, *followers = sorted(options, key=order)
    if leader.w1 is None or leader.analysed:
        return leader, *followers
    most = (1.0 + _NEAR) * leader.w1 + _NEAR * leader.comparison.without_privacy
    rivals = [o for o in followers if o.w1 is not None and o.w1 <= most and o.analysed and group(o) == group(leader)]
    return tuple(sorted([leader, *followers], key=lambda option: option is not next(iter(rivals), leader)))


def rank(option: Option) -> float:
    """Return a prediction to three digits: those that agree in them are ties, and the registry's order decides."""
    return math.inf if option.w1 is None else float(about(option.w1, 3))


def considered(name: str, comparison: PlanRequest, fixed: dict[str, Any], *, sized: bool) -> Option:
    """Calibrate a mechanism and predict its error with a few draws of its noise, or say why not."""
    if comparison.mechanisms is None and not (comparison.declares_more or comparison.suits(name)):
        why = f"is for tables of {named(name).traits.least_columns} columns or more. Ask for it by name"
        return Option(name=name, comparison=comparison, refused=why)
    try:
        mechanism = calibrated(name, comparison.domain, fixed, **comparison.sizes)
    except DiscreetError as error:
        if fixed.keys() - {"sampling"} and not isinstance(error, Refused):
            raise
        why, extra = str(error).removeprefix(f"{name} "), getattr(error, "extra", None)
        return Option(name=name, comparison=comparison, refused=why, extra=extra)
    domain = mechanism.domain
    forecast = mechanism.forecast(comparison.n, comparison.reference.commonness(domain))
    wide, expected = (domain.size or 0) > _MANY_CELLS, comparison.size * forecast.released_share
    option = Option(name=name, comparison=comparison, mechanism=mechanism, forecast=forecast, fixed=fixed, sized=sized)
    if forecast.lost >= _HOPELESS and wide:
        refused = wording.lost(forecast)
    elif forecast.slow:
        refused = "its error would take minutes to predict. Ask for it by name"
    elif expected < 1.0:
        refused = f"{about(expected, 2)} of {counted(comparison.size, 'draw')} would be released within the budget"
    else:
        refused = weak_attack(comparison.request, cast("Guarantee", option.guarantee))
    if refused:
        return Option(name=name, comparison=comparison, refused=refused)
    if option.poor and wide:  # its error takes seconds to predict, and it would be refused
        return option
    return predicted(option, max(2, forecast.draws // 8))


def predicted(option: Option, draws: float = math.inf) -> Option:
    """Return an option with its error predicted from at most so many draws of the noise."""
    comparison, mechanism = option.comparison, option.mechanism
    if mechanism is None:
        return option
    n, size, reference = comparison.n, comparison.size, comparison.reference
    errors = predicted_errors(mechanism, n=n, size=size, reference=reference, draws=draws)
    return replace(option, w1=summed(mechanism.domain, errors), errors=errors)


def _largest_size(option: Option, mechanism: Mechanism) -> int:
    """Return, to within 1 % below, the most records within the budget of which a fifth are not from the data."""
    # Between a number that fits and one that does not, the next is where the odds of that share would be reached if
    # they grew by a power of the number, as those of a prior do.
    comparison = option.comparison
    profile = comparison.reference.commonness(mechanism.domain)

    def odds(size: int) -> float:
        sizes = {**comparison.sizes, "size": size}
        try:
            larger = type(mechanism).calibrated(domain=mechanism.domain, **sizes, **option.fixed)
        except DiscreetError:  # too many for the budget, or for the mechanism at all
            return math.inf
        share = larger.forecast(comparison.n, profile).lost
        return share / (1.0 - share) if share < 1.0 else math.inf

    limit, maximum = POOR_UTILITY / (1.0 - POOR_UTILITY), min(10**10, 100 * comparison.n)
    if (high_odds := odds(maximum)) <= limit:
        return maximum
    if all(item.name != "size" for item in fields(mechanism)) or (low_odds := odds(1)) > limit:
        return 0  # any number is too many
    low, high, tries = 1, maximum, 0
    while high - low > max(1.0, _PRECISION * low):
        middle = math.isqrt(low * high) if high > 4 * low else (low + high) // 2
        if tries % 3 and 0.0 < low_odds < limit < high_odds < math.inf:
            power = math.log(limit / low_odds) / math.log(high_odds / low_odds)
            guess = low * (high / low) ** power
            middle = round(guess * (1.0 + (_PRECISION / 3.0 if tries % 3 == 2 else -_PRECISION / 3.0)))
        middle = min(max(middle, low + 1), high - 1)
        middle_odds, tries = odds(middle), tries + 1
        if middle_odds > limit:
            high, high_odds = middle, middle_odds
        else:
            low, low_odds = middle, middle_odds
    return low


def carried_cells(n: int, budget: AnyBudget, group: int = 1) -> int:
    """Return the most cells, or 0, of which noise within a budget puts at most a fifth of ``n`` records elsewhere."""
    scales: list[tuple[float, float, NoiseLaw]] = []
    for law in mechanisms.LAWS.values():

        def promise(scale: float, law: NoiseLaw = law) -> Guarantee:
            profile = law.profile(scale, group=min(group, n), counts=2)
            return Guarantee.proved(profile, relation=Relation(group=group), n=n, theorem="T6", chosen=("noise",))

        if (scale := mechanisms.scale_solution(law, budget, promise)) is not None:
            scales.append((law.mean_absolute(scale), scale, law))
    if not scales:
        return 0
    _, scale, law = min(scales, key=lambda entry: entry[0])
    error = partial(mechanisms.projection_error, law, scale, total=n)
    fewest = least_integer(lambda cells: error(cells=cells) > POOR_UTILITY, 1, _MOST_CARRIED)
    return _MOST_CARRIED if fewest is None else fewest - 1


def fewer_cells(comparison: PlanRequest) -> str | None:
    """Say how many cells would do; None where cells are not what is wrong."""
    domain, n, budget = comparison.domain, comparison.n, comparison.budget
    most = carried_cells(n, budget, comparison.request.group)
    if domain.size is not None and domain.size <= most:
        return None
    if most < 2:
        return f"{budget} is too little for {counted(n, 'record')}, whatever the cells. Allow a larger one"
    together = ", all columns counted together" if len(domain.columns) > 1 else ""
    return f"{counted(n, 'record')} at {budget} support about {most:,} cells{together}. Declare fewer"


_EPSILONS = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0)  # that are tried where one is too little
_DELTA = 1e-9  # likewise, in place of 0
_MOST_LEFT_OUT = 8  # columns


def tried_remedies(comparison: PlanRequest, options: Sequence[Option]) -> list[str]:
    """Return sentences, each with a change that a plan of its own finds to be enough; none where none was found."""
    # Mechanisms whose calibration tries many settings out are left aside, and so are tables with a reference; with
    # declared relations, which name columns, none is left out.
    columns, budget = comparison.domain.columns, comparison.budget
    if comparison.reference.table is not None or comparison.request.attack is not None:
        return []
    quick = [option.name for option in options if not named(option.name).traits.tried_out]

    def enough(**changes: Any) -> bool:
        trial = replace(comparison, request=replace(comparison.request, **changes))
        options = compared(replace(trial, mechanisms=list(filter(trial.suits, quick))), sized=False)
        return any(option.mechanism is not None and not option.poor for option in options)

    outcome = comparison.domain.outcome
    costly = [name for name in columns if name not in outcome]
    costly.sort(key=lambda name: columns[name].size or math.inf, reverse=True)

    def without(count: int) -> Domain:
        rest = {name: column for name, column in columns.items() if name not in costly[:count]}
        return Domain(columns=rest, outcome=outcome)

    traits = [named(name).traits for name in quick]
    widest = max((trait.most_columns for trait in traits if trait.least_columns > 1), default=len(columns))
    if (excess := len(columns) - int(widest)) > _MOST_LEFT_OUT:
        if comparison.declares_more or not enough(domain=without(excess)):
            return []
        return [f"With the {excess:,} columns of most cells left out, {budget} is enough for the other {widest}"]
    if budget.pure and enough(budget=replace(budget, delta=_DELTA)):
        return [f"With delta {as_written(_DELTA)}, epsilon {as_written(budget.epsilon)} is enough"]
    found, epsilons = [], [epsilon for epsilon in _EPSILONS if epsilon > budget.epsilon]
    most = len(epsilons) - 1
    place = least_integer(lambda i: i >= 0 and enough(budget=replace(budget, epsilon=epsilons[i])), 0, most)
    if place is not None:
        found.append(f"With all columns, epsilon {as_written(epsilons[place])} is enough")
    if comparison.declares_more:
        return found
    most = min(_MOST_LEFT_OUT, len(columns) - 1, len(costly))
    if (count := least_integer(lambda i: enough(domain=without(i)), 1, most)) is not None:
        names = " and ".join(filter(None, [", ".join(map(repr, costly[: count - 1])), repr(costly[count - 1])]))
        found.append(f"With {names} left out, epsilon {as_written(budget.epsilon)} is enough")
    return found
