"""Candidates of a generator, voted for by the records: docs/theory/private-evolution.md (T16)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from discreet import privacy
from discreet._core.boundary import sealed
from discreet._core.errors import MissingExtra, ParameterError, positive_size
from discreet._core.numeric import Floats
from discreet._core.random import public, seeded
from discreet.domain import Commonness, Parts, Records
from discreet.evolution import EvolvedStep
from discreet.mechanisms import populations
from discreet.mechanisms.base import NEIGHBOURS, CellCounts, KernelOutput, SteppedMechanism, Votes
from discreet.mechanisms.bounded_lipschitz import transport_available
from discreet.mechanisms.calibration import Search
from discreet.mechanisms.evolution_search import chosen_evolution, is_slow, predicted_loss, remedies, with_scales
from discreet.mechanisms.forecast import Forecast, Traits
from discreet.mechanisms.likelihood import NoLikelihood
from discreet.mechanisms.noise import GAUSSIAN, LAPLACE, law_named
from discreet.mechanisms.populations import EvolutionFacts, EvolutionReading, finite_points
from discreet.mechanisms.reading import Reading, draw_cells
from discreet.privacy import Code, ConstantProfile, Guarantee, Profile, Relation

if TYPE_CHECKING:
    from discreet.evolution import Voters

_MOST_PREDICTED = 1 << 11  # candidates of a step in a prediction


@sealed
@dataclass(frozen=True, kw_only=True)
class PrivateEvolution(EvolutionFacts, SteppedMechanism):
    r"""Let every confidential record vote for its nearest candidate, release noisy votes, vary the winners, repeat.

    Parameters
    ----------
    domain : Domain
        Public. Continuous columns need no cells.
    records : int
        Number of records by which votes are divided, public: ``n`` under replacement, a declared number under
        add/remove.
    scale : float
        Of the noise of every vote count, in records: ``P(z)`` is proportional to ``e^(-z^2/(2 scale^2))`` (gaussian) or
        ``e^(-|z|/scale)`` (laplace). The paper's ``sigma`` is ``scale / records``.
    steps : int
        Number ``T`` of votes; 0 releases draws of the API, which cost nothing.
    population : int
        Number ``n_s`` of records that candidates are made of in each step.
    noise : {"gaussian", "laplace"}
        ``gaussian`` on the votes of all candidates; ``laplace`` on those of candidates that have votes, released where
        they reach the threshold (Proposition 4.1).
    threshold : int
        ``gaussian``: noisy votes below it count as none in the practical and theoretical variants, post-processing.
        ``laplace``: the least noisy number of votes that is released, at least 2; privacy rests on it.
    variant : {"projection", "practical", "theoretical"}
        What noisy votes are turned into: the nearest probabilities in bounded-Lipschitz distance (Algorithm 2);
        positive ones, renormalised (Algorithm 3); multiples of ``multiplicity``, without sampling (Algorithm 1).
    nearest : int
        Number of candidates that a record votes for, once each: the nearest ones. More than one needs Gaussian noise.
    unit_votes : int
        Above 0, privacy units vote instead of records: each gives one vote to each of at most so many candidates, those
        that most of its records are nearest to. Noise then depends on this number, not on how many records a unit has.
        Needs Gaussian noise, and a table that is read by units.
    by_label : str, optional
        A column with finitely many values, such as a class. Each of its values then has a population of its own, all
        of them as large, whose members keep it. A record votes among the candidates of its own value. Privacy is the
        same. Not with ``unit_votes`` nor in the theoretical variant.
    label_shares : sequence of float, optional
        Public shares of these values in the release, in the order of the domain, adding up to 1. By default those of
        the last step's noisy votes.
    lookahead : bool
        Whether a candidate stands where its variations lie on average, instead of where it lies itself.
    multiplicity : int
        ``B`` of the theoretical variant: copies are made in lots of it.
    sampling : {"iid", "stratified"}
        How the next population and the released records are drawn from the probabilities: independently, as in the
        paper, or systematically in the order of the candidates, which has less sampling error and costs no privacy.
    api : API or str or mapping
        Generator of candidates, and metric. A name stands for the API with its default parameters on the domain.

    Raises
    ------
    ParameterError
        When a parameter is out of range.

    Notes
    -----
    A record's vote is a function of that record and of public candidates (the API must embed each record by itself), so
    a replaced record moves its ``k`` votes per step, and an added or removed one changes ``k`` counts. Guarantee
    (theorem T16), for all steps together however the candidates were chosen: Gaussian noise gives the exact profile of
    ``2 k T`` (replacement) or ``k T`` (add/remove) counts that change by ``g``, without a composition theorem; where
    units vote, ``k`` is their number of votes and ``g`` is 1. Laplace noise with a threshold composes the profile of
    T8, an upper bound. Equal candidates are merged before the vote: all votes would go to the first of them, and the
    others would be noise alone.

    Releases draw noise with OpenDP's exact samplers, so floating point costs nothing.

    ``calibrated`` solves for the least scale, and takes what is free by a rule of public numbers: of n over the noise
    of one step with one vote, ``r``, and of the columns, ``d``. There are ``max(2, min(2 d - 1, 10))`` steps of
    ``min(64 sqrt(r), 3 r)`` candidates (10 in place of 64 for an API that takes long), and a record votes for 4 of
    them, for 2 or 1 above r = 3,000 or 12,000, for 16 below r = 600 in one or two columns. The variant is practical,
    and fewer votes than 1.25 times the scale count as none. One step is projected, and is taken where a finite domain
    has less than half as many cells as that has candidates. Parameters that are given stay; with both steps and
    population given, a record has one vote. A box or a ball asked for by name has the theorem's finest scale ``alpha =
    D sigma^(1/max(d, 2))`` for the noise found.

    References
    ----------
    PE25, Algorithms 1 to 4, Theorem 4.1, Proposition 4.1; Lin, Gopi, Kulkarni, Nori and Yekhanin (2024).

    Examples
    --------
    >>> from discreet.domain import Domain, Numeric
    >>> square = Domain(columns={"x": Numeric(lower=0.0, upper=1.0), "y": Numeric(lower=0.0, upper=1.0)})
    >>> evolution = PrivateEvolution(domain=square, records=5000, scale=20.0, steps=6, population=50, api="box")
    >>> f"{evolution.guarantee(n=5000).delta(1.0):.3g}"
    '1.81e-10'
    """

    name: ClassVar[str] = "private-evolution"
    traits: ClassVar[Traits] = Traits(
        free=("scale",),
        relations=("replacement", "add-remove"),
        needs_cells=False,
        cells_cost=False,
        tried_out=True,
        one_step_instead="hierarchical-histogram",
    )

    @property
    def by_unit(self) -> bool:
        """Whether units vote."""
        return self.unit_votes > 0

    def further(self, x: Parts, released: list[Votes], *, rng: np.random.Generator) -> Iterator[Votes]:
        """Take the steps that are left: of each, distinct candidates and their noisy votes.

        ``x`` is read in parts, once per step where it is larger than memory (``Rows``).

        Raises
        ------
        ParameterError
            When the API gives something else than records of the domain: before the votes of that step.
        """
        self._require_solver()
        draws, table = public(rng), populations.Embedded(self, x)
        for step in range(len(released), self.steps):
            candidates = self._candidates(released, rng=draws)
            yield Votes(candidates, self._noisy(self._votes(table, candidates, step), rng))

    def _require_solver(self) -> None:
        """Raise MissingExtra when votes would have to be projected by POT, which is not installed."""
        if self.variant == "projection" and self.noise == "gaussian" and self.steps and not transport_available():
            request = f"the projection variant of {self.name} needs POT, variant=practical does not"
            raise MissingExtra(request, "transport")

    def _candidates(self, released: list[Votes], *, rng: np.random.Generator) -> Records:
        """Return the next step's distinct candidates: public post-processing of the steps before."""
        members = self._members(released[-1], rng) if released else self._first(rng)
        varied = self._varied(members, rng, len(released))
        labels = np.repeat(self._labels(members), self._api.variations_each())
        varied = self._labelled(varied, labels)
        points = finite_points(self._api, self._api.embed(varied), len(varied))
        _, places = np.unique(np.column_stack((points, labels)), axis=0, return_index=True)
        return varied.take(np.sort(places))

    def _varied(self, records: Records, rng: np.random.Generator, step: int) -> Records:
        varied = self._api.variation(records, rng=rng, step=step, steps=self.steps)
        return populations.check_fits(varied, self.domain, len(records) * self._api.variations_each(), "variation")

    def _members(self, step: Votes, rng: np.random.Generator) -> Records:
        """Return the next population, drawn from a step's votes."""
        weights = self.probabilities(step)
        if self.variant == "theoretical":  # copies, not draws; at most twice as many as records
            total = min(2 * self.records, int(np.rint(self._weights(step.votes).sum())) or len(weights))
            places = list(draw_cells(weights, total, sampling="stratified", rng=rng))
        else:
            places, sizes = [], self._sizes()
            for label, group in populations.label_groups(self._labels(step.candidates)):
                shares = weights[group]
                if not shares.any():  # a label may have none
                    shares = np.ones(len(group))
                chunks = draw_cells(shares, int(sizes[label]), sampling=self.sampling, rng=rng)
                places += [group[chunk] for chunk in chunks]
        return step.candidates.take(np.sort(np.concatenate(places)))

    def _votes(self, table: Iterable[Voters], candidates: Records, step: int) -> CellCounts:
        """Return how many votes each candidate gets, a function of table and candidates alone. Confidential."""
        from discreet.evolution import NearestCandidates, votes

        points = self._ahead(candidates, step) if self.lookahead else self._api.embed(candidates)
        groups = list(populations.label_groups(self._labels(candidates)))
        searches = [NearestCandidates(points[group], norm=self._api.norm) for _, group in groups]
        counts = np.zeros(len(candidates), dtype=np.int64)
        for voters in table:
            for (label, group), search in zip(groups, searches, strict=True):
                counts[group] += votes([voters.of_label(label)], search, nearest=self.nearest, of_unit=self.unit_votes)
        return counts

    def _ahead(self, candidates: Records, step: int) -> Floats:
        """Return where the variations of each candidate lie on average."""
        # The same for the same candidates, so that votes are a function of the table and of what is released.
        varied, count = self._varied(candidates, seeded(step), step), self._api.variations_each()
        points = finite_points(self._api, self._api.embed(varied), len(varied)).reshape(len(candidates), count, -1)
        return np.asarray(points[:, min(1, count - 1) :].mean(axis=1))

    def _noisy(self, counts: CellCounts, rng: np.random.Generator) -> CellCounts:
        if self.noise == "gaussian":
            return counts + GAUSSIAN.draw(self.scale, len(counts), rng=rng)
        places = np.flatnonzero(counts)
        noisy = counts[places] + LAPLACE.draw(self.scale, len(places), rng=rng)
        released = np.zeros_like(counts)
        released[places] = np.where(noisy >= self.threshold, noisy, 0)
        return released

    def shown(self, number: int, step: Votes) -> EvolvedStep:
        """Return what a step released as it is shown: public post-processing."""
        return EvolvedStep(
            number=number,
            of=self.steps,
            candidates=self.domain.decode(step.candidates, rng=seeded(0)),
            votes=step.votes,
            shares=self.probabilities(step),
            _encoded=step.candidates,
            _api=self._api,
        )

    def could_release(self, step: Votes) -> bool:
        """Return whether a step is one that some run could release, by its candidates and votes alone."""
        rows = len(step.votes)
        try:
            populations.check_fits(step.candidates, self.domain, rows, "a step")
        except ParameterError:
            return False
        votes = self.noise == "gaussian" or bool(((step.votes == 0) | (step.votes >= self.threshold)).all())
        return votes and 0 < rows <= self.candidates

    def reading(self, y: Sequence[Votes], *, n: int) -> Reading:
        """Return records drawn from the last step's votes, or from the API where there is no step."""
        return EvolutionReading(self, [Votes(*step) for step in y])

    def likelihood(self) -> NoLikelihood:
        """Return none: the candidates, for which records voted, are not released."""
        return NoLikelihood(
            reason="its records are drawn from candidates, and those of which none was drawn are not released, so it "
            "is not known which candidates the table's records could vote for. Take another mechanism for intervals"
        )

    def log_prob(self, y: KernelOutput, x: Parts) -> float:
        """Return the log-probability of the noisy votes of all steps, given the candidates of each.

        The law of the candidates given the steps before does not depend on the table: it cancels in every ratio.
        """
        table, total = populations.Embedded(self, x), 0.0
        for step, (candidates, noisy) in enumerate(cast("list[Votes]", y)):
            exact = self._votes(table, candidates, step)
            if self.noise == "gaussian":
                total += float(GAUSSIAN.log_pmf(self.scale, noisy - exact).sum())
                continue
            held = exact > 0
            if noisy[~held].any():
                return -math.inf
            total += LAPLACE.log_thresholded(self.scale, exact[held], noisy[held], self.threshold)
        return total

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        """Return theorem T16 for a table of ``n`` records, under replacement or add/remove."""
        n = positive_size("n", n)
        replaced = relation.name == "replacement"
        group = min(relation.group, n) if replaced else relation.group
        profile: Profile = ConstantProfile(value=0.0)
        if self.steps and self.noise == "gaussian":
            votes = self.nearest
            if self.unit_votes:
                votes, group = min(self.unit_votes, votes * relation.group), 1
            # An API may give records that always vote alike, or few candidates; an added record votes once at least.
            tight, counts = not replaced and votes == 1, self.steps * votes * (1 + replaced)
            profile = privacy.DiscreteGaussianPair(scale=self.scale, group=group, counts=counts, tight=tight)
        elif self.steps:
            facts: dict[str, Any] = {"scale": self.scale, "threshold": self.threshold, "group": group}
            step = privacy.ThresholdedLaplace(**facts, replaced=replaced, tight=False)
            profile = privacy.power(step, self.steps)
        caveat = Code("no-step")
        if self.steps:
            caveat = Code("equal-votes", {"voters": "units" if self.unit_votes else "records"})
        chosen = ("api", "number-of-steps", "population", "noise")
        caveats = (caveat, Code("api-without-data"), Code("free-draws", {"noisy": "votes"}))
        promised = Guarantee.proved(profile, relation=relation, n=n, theorem="T16", chosen=chosen, caveats=caveats)
        return replace(promised, assumptions=(*promised.assumptions, Code("record-votes-alone")))

    def announcement(self) -> Code:
        """Return the steps, the population and the noise."""
        api = self._api.name
        if not self.steps:
            return Code("api-alone", {"api": api})
        numbers = {"steps": self.steps, "candidates": self.candidates, "population": self.population, "api": api}
        numbers |= {"noise": self.noise, "scale": self.scale, "variant": self.variant, "nearest": self.nearest}
        return Code("steps", numbers | {"threshold": self.threshold, "units": self.unit_votes, "label": self.by_label})

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        r"""Return how far records are displaced on average, as a share of the domain's diameter: a prediction.

        As if candidates were spread evenly, ``V`` distinct ones, and shared the votes alike. Noise: where votes are
        clipped, the share that positive noise would have if no candidate had votes,
        ``V E[Z 1(Z >= H)] / (n + V E[Z 1(Z >= H)])``; where they are released above a threshold, the share that is not,
        and noise in the others; where they are projected, noise moves mass between neighbours: on dyadic scales, what
        has to move times how far, summed (in one column, the root of the sum of squares). Candidates: each is a quarter
        of its part's width from the records it stands for, ``V^(-1/d) / 4``.
        """
        # at most 2,048 candidates, whose noise is so much larger that it moves as much in all; records vote
        share = min(1.0, max(1, _MOST_PREDICTED // self._api.variations_each()) / self.population)
        louder = math.sqrt(share) if self.noise == "gaussian" else 1.0  # a threshold keeps its noise
        scale = min(self.scale / louder, law_named(self.noise).largest_scale)
        population = max(1, round(share * self.population))
        return Forecast(
            stand_in=replace(self, population=population, scale=scale, unit_votes=0),
            lost=predicted_loss(self, n),
            lost_is="prediction",
            lost_to="displacement to candidates",
            remedies=remedies(self, n),
            stratified=self.sampling == "stratified",
            draws=2,
            slow=is_slow(self),
        )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters under their public names; how votes are cast only where it is not the usual way."""
        api = {"name": self._api.name, "variations_each": self._api.variations_each(), **self._api.parameters()}
        usual = {"nearest": 1, "unit_votes": 0, "by_label": None, "label_shares": None, "lookahead": False}
        stated = {name: value for name, value in super().parameters().items() if usual.get(name, ...) != value}
        return {**stated, "api": api}

    @classmethod
    def _solution(cls, search: Search) -> Any:
        """Solve for the least scale; take what is free with the least predicted displacement."""
        parameters = {name: value for name, value in search.parameters.items() if value is not None}
        api = populations.settled_api(parameters.get("api", "table"), search.domain)
        evolution = chosen_evolution(replace(search, parameters={**parameters, "api": api}))
        if isinstance(parameters.get("api"), str) and hasattr(api, "alpha") and evolution.steps:
            evolution = with_scales(evolution, search)
        evolution._require_solver()
        return evolution
