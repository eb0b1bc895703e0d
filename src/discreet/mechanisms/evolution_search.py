"""What can be said of an evolution before it runs: how far it displaces records, and which parameters do least."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from discreet._core.errors import ParameterError
from discreet._core.random import seeded
from discreet.evolution import API
from discreet.mechanisms.calibration import Search, least_scale, least_threshold
from discreet.mechanisms.forecast import helpful
from discreet.mechanisms.noise import LAPLACE, law_named
from discreet.mechanisms.populations import MOST_CANDIDATES, EvolutionFacts
from discreet.papers import pe25

_CANDIDATES = {True: 64.0, False: 10.0}  # of a step, times the root of n over noise; fewer where an API takes long
_MOST_PER_RATIO = 3.0  # times n over noise
_MOST_STEPS = 10
_VOTES = ((3_000.0, 4), (12_000.0, 2), (math.inf, 1))  # of a record, up to so much n over noise
_NARROW = (600.0, 16), *_VOTES  # likewise, in one column or two
_LEAST_VOTES = 1.25  # in units of the noise: fewer are taken for noise
_DRAWS = 8  # times as many candidates where each cell is to be one
_MOST_PROJECTED = 1 << 15  # candidates per step where none are asked for: their nearest probabilities are exact
_NEAR = 0.1  # how far such variations lie, as a share of the diameter
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
    width = 0.0 if places == cells else 0.25 * places ** (-1.0 / d)  # none where each cell is a candidate
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
        noisy = noise / (votes + noise)  # votes of noise in a step; those for variations of what had votes are near it
        moved = noisy**facts.steps + _NEAR * sum(noisy**step for step in range(1, facts.steps))
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


def chosen_evolution(search: Search) -> Any:
    """Return an evolution that meets a budget: what is free follows from public numbers, its noise is solved for."""
    # The rule and what it was tried on: docs/theory/private-evolution.md, "Steps and population".
    n, domain, fixed = search.n, search.domain, search.parameters
    api: API = fixed["api"]
    if fixed.get("steps") == 0:
        return search.mechanism(**{"population": 1, "noise": "gaussian", "scale": 1.0, "threshold": 0} | fixed)
    gaussian = fixed.get("noise", "gaussian") == "gaussian"
    if {"steps", "population"} <= fixed.keys():
        return _solved(search)
    ratio = n / _of_one_vote(_solved(search.with_parameters(population=1, steps=1)), search)
    candidates = min(_CANDIDATES[api.quick] * math.sqrt(ratio), _MOST_PER_RATIO * ratio)
    columns, cells = len(domain.columns), domain.size or math.inf
    settings: dict[str, Any] = {"steps": max(2, min(2 * columns - 1, _MOST_STEPS))}
    if 2 * cells <= candidates:  # each cell becomes a candidate: a further step is more noise
        candidates, settings["steps"] = _DRAWS * max(candidates, cells * api.variations_each()), 1
    elif gaussian and api.quick and not {"nearest", "unit_votes"} & fixed.keys():
        all_votes = _NARROW if columns <= 2 else _VOTES
        settings["nearest"] = next(votes for most, votes in all_votes if ratio <= most)
    settings = {"population": max(1, round(candidates / api.variations_each()))} | settings | fixed
    if settings["steps"] > 1 and gaussian:
        settings.setdefault("variant", "practical")
    if "population" not in fixed:
        unprojected = settings["steps"] == 1 or settings.get("variant") == "practical"
        most = MOST_CANDIDATES if unprojected else _MOST_PROJECTED
        settings["population"] = max(1, min(settings["population"], most // api.variations_each()))
    evolution = _solved(search.with_parameters(**settings))
    if evolution.variant == "practical" and gaussian and "threshold" not in fixed:
        evolution = replace(evolution, threshold=round(_LEAST_VOTES * evolution.scale))
    return evolution


def _of_one_vote(evolution: Any, search: Search) -> float:
    """Return the scale that one step has with one vote, about."""
    votes = evolution.nearest
    if evolution.unit_votes:
        votes = min(evolution.unit_votes, votes * search.relation.group)
    return float(evolution.scale / math.sqrt(votes))


def with_scales(evolution: Any, search: Search) -> Any:
    """Return an evolution with the theorem's finest scale of a box or a ball."""
    sigma = min(0.5, _of_one_vote(evolution, search) / search.n)
    alpha = pe25.theorem_alpha(sigma, dimension=len(search.domain.columns), diameter=evolution.api.diameter)
    return replace(evolution, api=replace(evolution.api, alpha=alpha))


def _solved(search: Search) -> Any:
    if search.parameters.get("noise", "gaussian") == "laplace":
        return least_threshold(search, composed=search.parameters["steps"] > 1)
    return least_scale(search.with_parameters(noise="gaussian"))
