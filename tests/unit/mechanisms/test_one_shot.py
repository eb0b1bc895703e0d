"""The seam carries a mechanism that looks like none of the registry: tables and scores in one vector of noise.

One-way tables get noise. A score for each pair of columns, made from the *released* one-way tables, gets noise too. The
pairs with the largest noisy scores are measured, as many as were fixed beforehand. Records are read from the tree of
columns that these pairs make. It needs no method and no flag that the seam does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

import numpy as np

from discreet import release
from discreet._core.random import seeded
from discreet.confidential import confidential
from discreet.domain import Counts, Domain, Integer, Records
from discreet.domain.records import Commonness
from discreet.mechanisms import Forecast, Mechanism, Traits
from discreet.mechanisms.base import NEIGHBOURS, CellCounts, require_relation
from discreet.mechanisms.calibration import Search, least_scale
from discreet.mechanisms.noise import GAUSSIAN, law_named
from discreet.mechanisms.reading import Reading
from discreet.privacy import Budget, Guarantee, Relation

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class OneShot(Mechanism):
    """Noisy one-way tables, noisy scores, one pair measured on each rung."""

    name: ClassVar[str] = "one-shot"
    traits: ClassVar[Traits] = Traits(free=("scale",))

    domain: Domain
    records: int
    scale: float
    noise: str = "gaussian"
    rungs: int = 1

    @property
    def _sizes(self) -> list[int]:
        return [int(column.size or 0) for column in self.domain.columns.values()]

    @property
    def _pairs(self) -> list[Pair]:
        return list(combinations(range(len(self._sizes)), 2))

    def _table(self, x: Counts, columns: tuple[int, ...]) -> CellCounts:
        shape = tuple(self._sizes[c] for c in columns)
        place = np.ravel_multi_index(tuple(x.records.columns[c] for c in columns), shape)
        return np.bincount(place, weights=x.frequencies, minlength=int(np.prod(shape))).astype(np.int64)

    def _scores(self, ones: list[CellCounts], x: Counts) -> CellCounts:
        """Return how far each pair's counts exceed what released one-way counts would make them, in whole records."""
        scores = []
        for a, b in self._pairs:
            expected = np.rint(np.outer(ones[a].clip(0), ones[b].clip(0)).ravel() / self.records).astype(np.int64)
            scores.append(int(np.maximum(0, self._table(x, (a, b)) - expected).sum()))
        return np.array(scores, dtype=np.int64)

    def _split(self, y: CellCounts) -> tuple[list[CellCounts], CellCounts, list[CellCounts]]:
        ends = np.cumsum([*self._sizes, len(self._pairs)])
        *ones, scores, rest = np.split(y, ends)
        chosen = self._chosen(scores)
        return ones, scores, np.split(rest, np.cumsum([self._sizes[a] * self._sizes[b] for a, b in chosen])[:-1])

    def _chosen(self, scores: CellCounts) -> list[Pair]:
        order = np.argsort(-scores, kind="stable")[: self.rungs]
        return [self._pairs[i] for i in order]

    def _stages(self, y: CellCounts | None, x: Counts, rng: Any) -> tuple[CellCounts, float]:
        """Draw the output (``y`` is None), or return the log-probability of one: the law is that of the draws."""
        law, parts, total = law_named(self.noise), [], 0.0
        given = None if y is None else list(np.split(y, np.cumsum([*self._sizes, len(self._pairs)])))

        def stage(exact: CellCounts, seen: CellCounts | None) -> CellCounts:
            nonlocal total
            out = exact + law.draw(self.scale, len(exact), rng=rng) if seen is None else seen
            total += float(law.log_pmf(self.scale, out - exact).sum())
            parts.append(out)
            return out

        ones = [stage(self._table(x, (c,)), None if given is None else given[c]) for c in range(len(self._sizes))]
        scores = stage(self._scores(ones, x), None if given is None else given[len(ones)])
        measured = None if y is None else self._split(y)[2]
        for rung, pair in enumerate(self._chosen(scores)):
            stage(self._table(x, pair), None if measured is None else measured[rung])
        return np.concatenate(parts), total

    def kernel(self, x: Counts, *, rng: np.random.Generator) -> CellCounts:
        return self._stages(None, x, rng)[0]

    def log_prob(self, y: CellCounts, x: Counts) -> float:
        return self._stages(np.asarray(y), x, None)[1]

    def guarantee(self, relation: Relation = NEIGHBOURS, *, n: int) -> Guarantee:
        require_relation(self, relation.name)
        counts = 2 * len(self._sizes) + len(self._pairs) + 2 * self.rungs
        profile = law_named(self.noise).profile(self.scale, group=min(relation.group, n), counts=counts)
        return Guarantee.proved(
            profile, relation=relation, n=n, theorem="a sketch", chosen=("number-of-pairs",), caveats=()
        )

    def reading(self, y: CellCounts, *, n: int) -> Reading:
        return OneShotReading(self, y)

    def forecast(self, n: int, like: Commonness | None = None) -> Forecast:
        return Forecast(
            lost=min(1.0, self.scale * sum(self._sizes) / n),
            lost_is="prediction",
            lost_to="are moved by noise",
            remedies=("cells", "epsilon"),
        )

    @classmethod
    def _solution(cls, search: Search) -> Any:
        return least_scale(search.with_parameters(noise=GAUSSIAN.name))


@dataclass(frozen=True, eq=False)
class OneShotReading(Reading):
    mechanism: OneShot
    y: CellCounts

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw the first column, then each measured pair's other column given the one that is there."""
        sizes = self.mechanism._sizes
        ones, scores, measured = self.mechanism._split(self.y)
        columns: dict[int, Any] = {}
        tables = [
            (pair, table.clip(0).reshape(sizes[pair[0]], sizes[pair[1]]) + 1e-9)
            for pair, table in zip(self.mechanism._chosen(scores), measured, strict=True)
        ]
        for (a, b), table in tables:
            if a not in columns:
                columns[a] = rng.choice(sizes[a], size=size, p=table.sum(axis=1) / table.sum())
            if b not in columns:
                rows = table / table.sum(axis=1, keepdims=True)
                columns[b] = (rng.random((size, 1)) > rows.cumsum(axis=1)[columns[a]]).sum(axis=1)
        for c, one in enumerate(ones):
            weights = one.clip(0) + 1e-9
            columns.setdefault(c, rng.choice(sizes[c], size=size, p=weights / weights.sum()))
        yield Records(columns=tuple(columns[c].astype(np.int64) for c in range(len(ones))))


def columns(*sizes: int) -> Domain:
    return Domain(columns={f"c{i}": Integer(lower=0, upper=size - 1) for i, size in enumerate(sizes)})


THREE = columns(2, 3, 2)


def held(cells: Any) -> Counts:
    found, frequencies = np.unique(cells, return_counts=True)
    return Counts(records=THREE.unflat(found), frequencies=frequencies)


def test_the_kernel_follows_its_law() -> None:
    """A law ratio: with the noise of one stage off by a factor, the mean log-probability moves by many errors."""
    mechanism = OneShot(domain=THREE, records=60, scale=3.0)
    x = held(seeded(1).integers(0, 12, size=60))
    draws = [mechanism.kernel(x, rng=seeded(seed)) for seed in range(400)]
    found = np.array([mechanism.log_prob(y, x) for y in draws])
    entries = sum(mechanism._sizes) + 3 + np.array([len(y) - sum(mechanism._sizes) - 3 for y in draws])
    entropy = 0.5 * np.log(2 * np.pi * np.e * 9.0)  # of each entry, to 1e-12 at this scale
    apart = found + entropy * entries
    assert abs(apart.mean()) < 4.5 * apart.std() / 20.0
    wrong = OneShot(domain=THREE, records=60, scale=3.0 * 1.6)
    assert abs(np.mean([wrong.log_prob(y, x) for y in draws] + entropy * entries)) > 9.0 * apart.std() / 20.0


def test_the_promise_holds_for_neighbours_and_half_of_it_does_not() -> None:
    """The hockey-stick divergence of two neighbours, estimated from the law; 4.5 standard errors."""
    mechanism = OneShot(domain=THREE, records=60, scale=3.0)
    cells = np.array([0] * 30 + [11] * 30)
    x, neighbour = held(cells), held([*cells[:-1], 0])
    draws = [mechanism.kernel(x, rng=seeded(seed)) for seed in range(700)]
    loss = np.array([mechanism.log_prob(y, x) - mechanism.log_prob(y, neighbour) for y in draws])
    for epsilon in (0.0, 0.5, 1.0):
        terms = np.maximum(0.0, -np.expm1(epsilon - loss))
        error = 4.5 * terms.std() / len(terms) ** 0.5
        assert terms.mean() - error <= mechanism.guarantee(n=60).delta(epsilon)
        quiet = OneShot(domain=THREE, records=60, scale=9.0).guarantee(n=60)
        assert terms.mean() - error > quiet.delta(epsilon)


def test_a_release_of_it_is_published_and_keeps_what_it_measured() -> None:
    import polars as pl

    rng = seeded(5)
    first = rng.integers(0, 2, size=20_000)
    table = pl.DataFrame(
        {"c0": first, "c1": (first + (rng.random(20_000) < 0.1)) % 3, "c2": rng.integers(0, 2, 20_000)}
    )
    budget = Budget(epsilon=1.0, delta=1e-6)
    mechanism = OneShot.calibrated(budget, domain=THREE, n=20_000)
    made = release(confidential(table, THREE), mechanism=mechanism, size=20_000, budget=budget, seed=2).records
    share = table.group_by("c0", "c1").len().join(made.group_by("c0", "c1").len(), on=["c0", "c1"], suffix="_made")
    assert (
        share["len"].cast(int) - share["len_made"].cast(int)
    ).abs().max() < 500  # the dependent pair was chosen, and kept


def test_no_method_and_no_flag_is_new() -> None:
    public = {name for name in vars(OneShot) if not name.startswith("_")}
    parameters = {"records", "scale", "noise", "rungs"}
    known = {name for kind in OneShot.__mro__[1:] for name in (*vars(kind), *vars(kind).get("__annotations__", ()))}
    assert public <= known | parameters
