"""How many steps an evolution takes, and with how many candidates: what displaces records of invented tables least."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import DiscreetError
from discreet._core.random import seeded
from discreet.domain import Domain
from discreet.domain.records import invented_records
from discreet.mechanisms.noisy_counts import solve_scale
from discreet.mechanisms.stability import solve_threshold
from discreet.papers.pe25.theorem import theorem_alpha, theorem_population, usable_steps
from discreet.privacy import Budget
from discreet.privacy.guarantee import RelationName

STEPS = (0, 1, 2, 3, 4, 6, 8)
"""Numbers of steps that are tried, beside the theory's."""

_WORSE = 2  # numbers of steps in a row that are worse than the best: the others are not tried
_POWERS = (1.0, 8.0)  # of two invented tables: as wide as half the domain, and about a third as wide as that
_DRAWS = 6
_TOLD_APART = 64.0  # records that a prediction holds, in units of the noise of one step: more change no ranking
_HELD = 512
_SCALES = 10
NEAREST = 4
"""Votes of a record where its number is free: noise is then halved beside them, which pays more than blur costs."""

_SHARES = (0.25, 1.0)  # of the theory's population, beside half of it


class Choice(NamedTuple):
    """What is free in an evolution.

    ``steps``: number of votes.
    ``nearest``: none stands for one, or for the number asked for.
    ``variant``: none stands for the usual one, or the one asked for.
    ``share``: of the theory's population, where none is given.
    """

    steps: int
    nearest: int | None = None
    variant: str | None = None
    share: float = 0.5


def least_displaced(
    make: Callable[[Choice], Any], start: Choice, steps: Sequence[int], *, varied: bool, sized: bool
) -> Any:
    """Return the evolution of the least predicted displacement over a short list.

    ``make``: Solves for the noise.
    ``start``: what is settled; its number of steps does not count.
    ``steps``: numbers of steps, in the order in which they are tried.
    ``varied``, ``sized``: whether the variant and the population are free.

    Notes
    -----
    First the steps, with half the theory's population, until two in a row are worse than the best; then, at these, the
    variant, and all or a quarter of the population.
    """

    @cache
    def weighed(choice: Choice) -> float:
        try:
            return displacement(make(choice))
        except DiscreetError:  # too many candidates, too little budget for so many steps
            return math.inf

    best, worse = start._replace(steps=steps[0]), 0
    for count in steps[1:]:
        other = start._replace(steps=count)
        best, worse = (other, 0) if weighed(other) < weighed(best) else (best, worse + 1)
        if worse == _WORSE:
            break
    if varied and best.steps:
        best = min(best, best._replace(variant="practical"), key=weighed)
    if sized and best.steps:
        best = min(best, *(best._replace(share=share) for share in _SHARES), key=weighed)
    return make(best)


def displacement(mechanism: Any) -> float:
    """Return how far an evolution is predicted to displace the records of two invented tables, as a geometric mean.

    One table is as wide as the inner half of the domain, one about a third as wide: real ones are both, and more steps
    pay where they are narrow. Candidates and table are as many as a smaller table of the same noise has, so that the
    answer takes a fraction of a second whatever the number of records.
    """
    noise = mechanism.scale / math.sqrt(max(1, mechanism.steps) * mechanism.nearest)
    records = min(mechanism.records, math.ceil(_TOLD_APART * noise)) if mechanism.steps else _HELD
    shrunk = records / mechanism.records
    small = replace(mechanism, records=records, population=max(1, round(mechanism.population * min(1.0, shrunk))))
    logs = []
    for power in _POWERS:
        held = invented_records(mechanism.domain, power=power).take(np.arange(_HELD))
        points = small.embedded(held)
        moved = []
        for seed in range(_DRAWS):
            rng = seeded(seed)
            frequencies = rng.multinomial(records, np.full(_HELD, 1.0 / _HELD))
            candidates, shares = small.foreseen(held, frequencies, rng=rng)
            moved.append(_dyadic(small.embedded(candidates), shares, points, frequencies / records))
        logs.append(math.log(max(1e-300, float(np.mean(moved)))))
    return math.exp(sum(logs) / len(logs))


def _dyadic(x: Floats, x_share: Floats, y: Floats, y_share: Floats) -> float:
    """Return a tree distance between two measures: what has to move between boxes of each dyadic scale, times how far.

    The boxes start at a fixed place outside: of the order of the Wasserstein-1 distance in the largest coordinate.
    """
    low = np.minimum(x.min(axis=0), y.min(axis=0))
    side = float((np.maximum(x.max(axis=0), y.max(axis=0)) - low).max()) or 1.0
    start = low - side * seeded(0).random(x.shape[1])
    numbers = seeded(1).random(x.shape[1])  # a box is told by one number, all but surely its own
    both, mass = np.concatenate((x, y)) - start, np.concatenate((x_share, -y_share))
    total = 0.0
    for scale in range(_SCALES):
        width = 2.0 * side / 2.0**scale
        _, box = np.unique(np.floor(both / width) @ numbers, return_inverse=True)
        total += 0.25 * width * float(np.abs(np.bincount(box, weights=mass)).sum())
    return total


# The parameters of an evolution that meet a budget: what is free is chosen, and the noise solved for.

MOST_CANDIDATES = 1 << 22
"""Of a step."""

_MOST_PROJECTED = 1 << 15  # candidates per step where none are asked for: their nearest probabilities are exact
_MOST_COORDINATES = 64  # up to which steps are chosen by trying them out


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of an evolution: ``kind`` is its class, ``own`` the parameters that are fixed."""

    kind: Any

    budget: Budget
    domain: Domain
    n: int
    group: int
    relation: RelationName
    scale: float | None
    threshold: int | None
    named: bool
    own: dict[str, Any]

    def chosen(self) -> Any:
        """Return the evolution with what is free chosen."""
        steps, population = self.own.get("steps"), self.own.get("population")
        theory = usable_steps(self.n, self.budget.epsilon)
        varied = "variant" not in self.own and self.own.get("noise", "gaussian") == "gaussian"
        api = self.own["api"]
        quick = api.quick and api.embed(api.random(1, rng=seeded(0))).shape[1] <= _MOST_COORDINATES
        if not quick or self.own.get("variant") == "theoretical" or None not in (steps, population):
            return self.solved(Choice(theory if steps is None else steps, share=1.0))
        self.solved(Choice(1), population=1)._require_solver()
        if steps is None and self.domain.size is not None:
            once = self.solved(Choice(1, share=1.0))
            if self.domain.size <= once.candidates:  # each cell is a candidate: more steps are more noise
                return once
        listed = sorted({*STEPS, theory}) if steps is None else [steps]
        voting = self.own.get("noise", "gaussian") == "gaussian" and not {"nearest", "unit_votes"} & self.own.keys()
        start = Choice(0, nearest=NEAREST if voting else None)
        return least_displaced(self.solved, start, listed, varied=varied, sized=population is None)

    def solved(self, choice: Choice, population: int | None = None) -> Any:
        """Return an evolution with some choices made, its noise solved for."""
        needed = (choice.steps, choice.nearest)
        if needed not in self._noise_for:
            self._noise_for[needed] = self._with_noise(*needed)
        solved, population = self._noise_for[needed], self.own.get("population", population)
        if choice.variant is not None:
            solved = replace(solved, variant=choice.variant)
        if choice.steps == 0:
            return replace(solved, population=population or 1)
        return self._populated(solved, population, choice.share)

    @cached_property
    def _noise_for(self) -> dict[tuple[int, int | None], Any]:
        """Evolutions by their numbers of steps and votes: the noise that these need, which nothing else changes."""
        return {}

    def _with_noise(self, steps: int, nearest: int | None) -> Any:
        """Return an evolution of a population of one, its noise solved for."""
        own: dict[str, Any] = {**self.own, "steps": steps, "population": 1}
        own |= {} if nearest is None else {"nearest": nearest}
        noise = own.pop("noise", "gaussian")
        shared: dict[str, Any] = {"n": self.n, "group": self.group, "scale": self.scale, "relation": self.relation}

        def make(kind: Any, value: float, least: int = 0) -> Any:
            return self.kind(domain=self.domain, records=self.n, scale=value, noise=kind, threshold=least, **own)

        if steps == 0:
            return make("gaussian", 1.0)
        if noise == "laplace":
            return solve_threshold(
                lambda value, least: make("laplace", value, least),
                self.budget,
                threshold=self.threshold,
                composed=steps > 1,
                **shared,
            )
        return replace(solve_scale(make, self.budget, laws=(noise,), **shared), threshold=self.threshold or 0)

    def _populated(self, solved: Any, population: int | None, share: float) -> Any:
        """Return an evolution with the theorem's finest scale and population where they are not given."""
        each = min(solved.unit_votes, solved.nearest * self.group) if solved.unit_votes else solved.nearest
        sigma, d = solved.scale / (self.n * math.sqrt(each)), len(self.domain.columns)  # as for one vote
        if self.named and hasattr(solved.api, "alpha"):
            api = solved.api
            alpha = theorem_alpha(min(sigma, 0.5), dimension=d, diameter=api.diameter)
            solved = replace(solved, api=replace(api, alpha=alpha))
        if population is None:
            each = solved._api.variations_each()
            population = round(share * theorem_population(sigma, dimension=d, variations=each))
            most = _MOST_PROJECTED if solved.variant == "projection" else MOST_CANDIDATES
            population = max(1, min(population, most // each))
        return replace(solved, population=population)
