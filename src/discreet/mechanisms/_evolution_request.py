"""The parameters of an evolution that meet a budget: what is free is chosen, and the noise solved for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from discreet._core.random import seeded
from discreet.domain import Domain
from discreet.mechanisms._evolution_choice import NEAREST, STEPS, Choice, least_displaced
from discreet.mechanisms._noisy_counts import solve_scale
from discreet.mechanisms._stability import solve_threshold
from discreet.papers.pe25._theorem import theorem_alpha, theorem_population, usable_steps
from discreet.privacy import Budget
from discreet.privacy._guarantee import RelationName

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
