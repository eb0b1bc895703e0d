"""What can be said of an evolution before it runs: how far it displaces records, and which parameters do least."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.random import ApproximateGenerator, seeded
from discreet.domain import Counts, invented_records
from discreet.evolution import API
from discreet.mechanisms.calibration import Search, least_scale, least_threshold
from discreet.mechanisms.forecast import helpful
from discreet.mechanisms.noise import LAPLACE, law_named
from discreet.mechanisms.populations import MOST_CANDIDATES, EvolutionFacts
from discreet.papers import pe25

_STEPS = (0, 1, 2, 3, 4, 6, 8)  # that are tried, beside the theory's
_NEAREST = 4  # votes of a record where it is free: noise is then halved beside them, which pays more than blur costs
_SHARES = (0.25, 1.0)  # of the theory's population, beside half of it
_WORSE = 2  # numbers of steps in a row that are worse than the best: the others are not tried
_MOST_PROJECTED = 1 << 15  # candidates per step where none are asked for: their nearest probabilities are exact
_MOST_COORDINATES = 64  # up to which steps are chosen by trying them out
_POWERS = (1.0, 8.0)  # of two invented tables: as wide as half the domain, and about a third as wide as that
_DRAWS = 6
_TOLD_APART = 64.0  # records that a prediction holds, in units of the noise of one step: more change no ranking
_HELD = 512
_SCALES = 10
_BASE_DRAWS = 4096  # records that an invented table of continuous columns holds
_MOST_JUDGED = 1 << 14  # candidates up to which a step's work is counted
_MOST_WORK = 1 << 31  # distances of a prediction's step, times columns


def predicted_loss(facts: EvolutionFacts, n: int) -> float:
    """Return how far records are displaced on average by noise and candidates, as a share of the domain's diameter."""
    if not facts.steps:
        return 1.0
    cells, d = facts.domain.size, len(facts.domain.columns)
    candidates = min(facts.candidates, cells or facts.candidates)
    nearest = min(facts.nearest, candidates)  # among so many a record's votes are spread
    places = candidates / nearest
    width = 0.25 * places ** (-1.0 / d)
    if places == cells:  # each cell is a candidate
        width = 0.0
    votes = n * (1 if facts.unit_votes else nearest)
    deviation = law_named(facts.noise).standard_deviation(facts.scale)
    if facts.noise == "laplace":
        of_one = max(1, round(votes / candidates))
        share = -math.expm1(LAPLACE.log_below(facts.scale, facts.threshold - of_one))
        moved = 1.0 - share * max(0.0, 1.0 - 0.5 * LAPLACE.mean_absolute(facts.scale) / of_one)
    elif facts.variant == "projection":
        scales = np.arange(1, max(1, math.ceil(math.log2(max(2, candidates)) / d)) + 1)
        nodes = 2.0 ** np.minimum(d * scales, math.log2(candidates))
        misplaced = deviation / votes * np.sqrt(candidates * nodes / (2.0 * math.pi))
        by_scale = 2.0**-scales * np.minimum(1.0, misplaced)
        if d == 1:
            moved = math.sqrt(4.0 / 3.0 * float((by_scale * by_scale).sum()))
        else:  # the share of columns in which parts of a scale differ
            moved = float(by_scale.sum()) / (2.0 - 2.0 ** (1 - d))
    else:
        least = max(0.5, float(facts.threshold)) / deviation
        noise = candidates * deviation * math.exp(-0.5 * least * least) / math.sqrt(2.0 * math.pi)
        moved = noise / (votes + noise)
    return float(min(1.0, moved + width))


def is_slow(facts: EvolutionFacts) -> bool:
    """Return whether a prediction takes minutes: with an own model, or many distinct records to embed."""
    api: Any = facts.api
    if not api.quick:
        return True
    records = min(facts.records, facts.domain.size or _BASE_DRAWS)
    coordinates = api.embed(api.random(1, rng=seeded(0))).shape[1]
    return bool(records * min(facts.candidates, _MOST_JUDGED) * coordinates > _MOST_WORK)


def remedies(facts: EvolutionFacts, n: int) -> tuple[str, ...]:
    """Return what would lower that share: fewer steps, a smaller or a larger population, fewer columns, budget."""
    if not facts.steps:
        return ("more steps",)
    steps, population, lost = facts.steps, facts.population, predicted_loss(facts, n)
    tried: dict[str, dict[str, Any]] = {
        "fewer steps": {"steps": steps // 2, "scale": facts.scale / math.sqrt(2.0)},  # about what they cost
        "smaller population": {"population": population // 2},
        "larger population": {"population": 2 * population},
    }
    better = []
    for remedy, values in tried.items():
        try:
            variant = replace(facts, **values)
        except ParameterError:
            continue
        if variant.steps and predicted_loss(variant, n) < lost:
            better.append(remedy)
    return (*better, *helpful(facts.domain, "columns", "epsilon", "delta"))


def _displacement(facts: EvolutionFacts) -> float:
    """Return how far an evolution displaces the records of two invented tables, as a geometric mean."""
    # One is as wide as the inner half of the domain, one about a third as wide: real ones are both, and more steps pay
    # where they are narrow. Candidates and table are as many as a smaller table of the same noise has, so that the
    # answer takes a fraction of a second whatever the number of records.
    records = _HELD
    if facts.steps:
        noise = facts.scale / math.sqrt(facts.steps * facts.nearest)
        records = min(facts.records, math.ceil(_TOLD_APART * noise))
    population = max(1, round(facts.population * min(1.0, records / facts.records)))
    small: Any = replace(facts, records=records, population=population)
    voting = replace(small, unit_votes=0)
    logs = []
    for power in _POWERS:
        table = invented_records(facts.domain, power=power).take(np.arange(_HELD))
        points = small.api.embed(table)
        moved = []
        for seed in range(_DRAWS):
            rng = ApproximateGenerator(seed)
            frequencies = rng.multinomial(records, np.full(_HELD, 1.0 / _HELD))
            steps = voting.kernel(Counts(records=table, frequencies=frequencies), rng=rng)
            if steps:
                candidates, shares = steps[-1].candidates, small.probabilities(steps[-1])
            else:
                candidates, shares = small.api.random(_BASE_DRAWS, rng=rng), np.full(_BASE_DRAWS, 1.0 / _BASE_DRAWS)
            moved.append(_dyadic(small.api.embed(candidates), shares, points, frequencies / records))
        logs.append(math.log(max(1e-300, float(np.mean(moved)))))
    return math.exp(sum(logs) / len(logs))


def _dyadic(x: Floats, x_share: Floats, y: Floats, y_share: Floats) -> float:
    """Return a tree distance between two measures: what has to move between boxes of dyadic scales, times how far."""
    low = np.minimum(x.min(axis=0), y.min(axis=0))
    side = float((np.maximum(x.max(axis=0), y.max(axis=0)) - low).max()) or 1.0
    start = low - side * seeded(0).random(x.shape[1])
    numbers = seeded(1).random(x.shape[1])  # a box is told by one number, all but surely its own
    points, mass = np.concatenate((x, y)) - start, np.concatenate((x_share, -y_share))
    total = 0.0
    for scale in range(_SCALES):
        width = 2.0 * side / 2.0**scale
        _, box = np.unique(np.floor(points / width) @ numbers, return_inverse=True)
        total += 0.25 * width * float(np.abs(np.bincount(box, weights=mass)).sum())
    return total


class _Choice(NamedTuple):
    """Settings that are free in an evolution: None is 1 or the number asked for, or the usual or the one asked for."""

    steps: int
    nearest: int | None = None
    variant: str | None = None
    share: float = 0.5  # of the theory's population, where none is given


class EvolutionSearch:
    """The search for parameters of an evolution that meet a budget: what is free is chosen, the noise solved for."""

    def __init__(self, search: Search, *, named: bool) -> None:
        self._search, self._named = search, named
        self._with_noise = cache(self._solved)  # noise depends on the numbers of steps and votes alone

    def solution(self) -> Any:
        """Return the evolution with what is free chosen."""
        n, domain, fixed = self._search.n, self._search.domain, self._search.parameters
        steps, population = fixed.get("steps"), fixed.get("population")
        usual = pe25.usable_steps(n, getattr(self._search.budget, "epsilon", 1.0))
        numbers = {*_STEPS, usual}
        if steps is not None:
            usual, numbers = steps, {steps}
        api: API = fixed["api"]
        quick = api.quick and api.embed(api.random(1, rng=seeded(0))).shape[1] <= _MOST_COORDINATES
        if not quick or fixed.get("variant") == "theoretical" or None not in (steps, population):
            return self._evolution(_Choice(usual, share=1.0))
        self._evolution(_Choice(1), population=1)._require_solver()
        if steps is None and domain.size is not None:
            once = self._evolution(_Choice(1, share=1.0))
            if domain.size <= once.candidates:  # each cell is a candidate: more steps are more noise
                return once
        return self._least_displaced(*sorted(numbers))

    def _least_displaced(self, first: int, *steps: int) -> Any:
        """Return the evolution of the least displacement: first the steps are chosen, then variant and population."""
        fixed = self._search.parameters
        gaussian = fixed.get("noise", "gaussian") == "gaussian"
        best, worse = _Choice(first), 0
        if gaussian and not {"nearest", "unit_votes"} & fixed.keys():
            best = best._replace(nearest=_NEAREST)

        @cache
        def weight(choice: _Choice) -> float:
            try:
                return _displacement(self._evolution(choice))
            except DiscreetError:  # too many candidates, too little budget for so many steps
                return math.inf

        for count in steps:  # with half the theory's population, until two in a row are worse than the best
            choice = best._replace(steps=count)
            best, worse = (choice, 0) if weight(choice) < weight(best) else (best, worse + 1)
            if worse == _WORSE:
                break
        if best.steps and gaussian and "variant" not in fixed:
            best = min(best, best._replace(variant="practical"), key=weight)
        if best.steps and fixed.get("population") is None:
            best = min(best, *(best._replace(share=share) for share in _SHARES), key=weight)
        return self._evolution(best)

    def _evolution(self, choice: _Choice, population: int | None = None) -> Any:
        """Return an evolution with some choices made, its noise solved for."""
        evolution = self._with_noise(choice.steps, choice.nearest)
        population = self._search.parameters.get("population", population)
        if choice.variant is not None:
            evolution = replace(evolution, variant=choice.variant)
        if choice.steps == 0:
            return replace(evolution, population=population or 1)
        n, group, d = self._search.n, self._search.relation.group, len(self._search.domain.columns)
        votes = evolution.nearest
        if evolution.unit_votes:
            votes = min(evolution.unit_votes, evolution.nearest * group)
        sigma = evolution.scale / (n * math.sqrt(votes))  # as for one vote
        if self._named and hasattr(evolution.api, "alpha"):
            alpha = pe25.theorem_alpha(min(sigma, 0.5), dimension=d, diameter=evolution.api.diameter)
            evolution = replace(evolution, api=replace(evolution.api, alpha=alpha))
        if population is None:
            variations = evolution.api.variations_each()
            population = round(choice.share * pe25.theorem_population(sigma, dimension=d, variations=variations))
            most = _MOST_PROJECTED if evolution.variant == "projection" else MOST_CANDIDATES
            population = max(1, min(population, most // variations))
        return replace(evolution, population=population)

    def _solved(self, steps: int, nearest: int | None) -> Any:
        """Return an evolution of a population of one, its noise solved for."""
        search = self._search.with_parameters(steps=steps, population=1)
        if nearest is not None:
            search = search.with_parameters(nearest=nearest)
        if steps == 0:
            return search.mechanism(noise="gaussian", scale=1.0, threshold=0)
        noise = self._search.parameters.get("noise", "gaussian")
        if noise == "laplace":
            return least_threshold(search, composed=steps > 1)
        return least_scale(search.with_parameters(noise=noise))
