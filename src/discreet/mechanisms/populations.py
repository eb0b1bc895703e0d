"""The populations of an evolution: one, or one for each value of a public column; how large, and for how many steps.

A record then votes among the candidates of its own label. It votes as often as before, and where its votes go is still
a function of that record and of public candidates, so the guarantee is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import real, unfit
from discreet._core.errors import DiscreetError, ParameterError
from discreet._core.random import approximate, seeded
from discreet._core.text import counted
from discreet.domain import Counts, Domain, Parts, Records, Units, invented_records
from discreet.evolution import API, NamedAPI, api_from
from discreet.mechanisms.calibration import Search, least_scale, least_threshold
from discreet.papers import pe25

if TYPE_CHECKING:
    from discreet.evolution import Voters


_ROUNDS = 4  # of draws until each label has its members; those still missing get their label written over


def settled_shares(given: Any, domain: Domain, by_label: str | None) -> tuple[float, ...] | None:
    """Return the shares of labels as numbers; refuse those that are not of the few declared values of a column."""
    if by_label is None:
        if given is not None:
            raise ParameterError("label_shares needs the column of the labels. Write by_label=...")
        return None
    finite = [name for name, column in domain.columns.items() if column.finite]
    if by_label not in finite:
        raise unfit("by_label", f"a column with finitely many values ({', '.join(finite)})", by_label)
    if given is None:
        return None
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Sequence) or len(parts) != domain.columns[by_label].size:
        raise ParameterError(
            f"label_shares must be {domain.columns[by_label].size} numbers, one for each value of {by_label!r}"
        )
    try:
        numbers = [float(part) if isinstance(part, str) else part for part in parts]
    except ValueError:
        raise unfit("label_shares", "numbers", given) from None
    shares = tuple(real("label_shares", number, least=0, most=1) for number in numbers)
    if abs(math.fsum(shares) - 1.0) > 1e-9:
        raise ParameterError("label_shares must add up to 1. Divide them by their sum")
    return shares


@dataclass(frozen=True, slots=True)
class Populations:
    """Which labels there are, and what share of a release each has."""

    domain: Domain
    column: str | None  # of the labels; None for one population of all
    given: tuple[float, ...] | None  # the shares, where they are public; otherwise they are those of the noisy votes

    @property
    def count(self) -> int:
        """Number of populations."""
        return 1 if self.column is None else self.domain.columns[self.column].size or 1

    def labels(self, records: Records) -> Integers:
        """Return the label of each record."""
        if self.column is None:
            return np.zeros(len(records), dtype=np.int64)
        labels: Integers = np.asarray(records.columns[self._place], dtype=np.int64)
        return labels

    def sizes(self, population: int) -> Integers:
        """Return how many members each label has: as many as another, and one at least."""
        share, rest = divmod(population, self.count)
        sizes: Integers = np.maximum(1, share + (np.arange(self.count) < rest))
        return sizes

    def groups(self, labels: Integers) -> Iterator[tuple[int, Integers]]:
        """Yield each label that is held, and the places of its records."""
        for label in np.unique(labels).tolist():
            yield label, np.flatnonzero(labels == label)

    def labelled(self, records: Records, labels: Integers) -> Records:
        """Return the records with these labels, whatever they had."""
        if self.column is None:
            return records
        columns = list(records.columns)
        columns[self._place] = labels.astype(columns[self._place].dtype)
        return Records(columns=tuple(columns))

    def apart(self, points: Floats, labels: Integers) -> Floats:
        """Return points that are equal only where their labels are, too."""
        return points if self.column is None else np.column_stack((points, labels))

    def first(self, draw: Callable[[int], Records], population: int) -> Records:
        """Return the members to start from: draws of each label, as many as it has members."""
        if self.column is None:
            return draw(population)
        wanted, parts = self.sizes(population), []
        for _ in range(_ROUNDS):
            drawn = draw(int(wanted.sum()))
            labels = self.labels(drawn)
            taken = np.concatenate([places[: wanted[label]] for label, places in self.groups(labels)])
            parts.append(drawn.take(np.sort(taken)))
            wanted = wanted - np.bincount(labels[taken], minlength=self.count)
            if not wanted.any():
                return Records.concatenate(parts)
        drawn = draw(int(wanted.sum()))
        return Records.concatenate([*parts, self.labelled(drawn, np.repeat(np.arange(self.count), wanted))])

    def shares(self, votes: Integers, labels: Integers) -> Floats:
        """Return the share of each label: as given, or that of its noisy votes, where these add up to more than 0."""
        if self.count == 1:
            return np.ones(1)
        if self.given is not None:
            return np.array(self.given)
        totals = np.maximum(0.0, np.bincount(labels, weights=votes, minlength=self.count))
        return totals / totals.sum() if totals.any() else np.full(self.count, 1.0 / self.count)

    @property
    def _place(self) -> int:
        return list(self.domain.columns).index(str(self.column))


# What an evolution is given: an API and the records it makes, and the confidential records where it says they lie.

LARGEST = 1e150
"""Coordinate: squared distances stay finite."""

_MOST_KEPT = 1 << 25  # coordinates of embedded records kept in memory


class Embedded:
    """A table's embedded records with frequencies, units and labels, part by part; kept where they fit into memory."""

    def __init__(self, api: API, x: Parts, populations: Populations) -> None:
        self._api, self._x, self._populations = api, x, populations
        self._kept: list[Voters] | None = None

    def __iter__(self) -> Iterator[Voters]:
        from discreet.evolution import Voters

        if self._kept is not None:
            yield from self._kept
            return
        kept, values = [], 0
        for part in self._x.parts():
            owners = part.owners if isinstance(part, Units) else None
            labels = self._populations.labels(part.records)
            voters = Voters(embedded(self._api, part.records), part.frequencies, owners, labels)
            yield voters
            values += voters.points.size
            if values <= _MOST_KEPT:
                kept.append(voters)
        if values <= _MOST_KEPT:
            self._kept = kept


def embedded(api: API, records: Records) -> Floats:
    """Embed confidential records, or raise ParameterError: what goes wrong may name values, and is not passed on."""
    try:
        points = np.asarray(api.embed(records), dtype=np.float64)
    except Exception:  # noqa: BLE001  # whatever a user's function raises
        points = np.empty(0)
    if points.ndim != 2 or len(points) != len(records) or not (np.abs(points) < LARGEST).all():
        raise ParameterError(
            f"the embedding of the API {api.name!r} did not give one row of finite numbers for each record of the "
            "table. Try it on records that the API makes"
        )
    return points


def settled_api(given: Any, domain: Domain) -> API:
    """Return an API from an object, a name, or what a certificate says of one; refuse one of another domain."""
    if isinstance(given, str):
        given = {"name": given}
    if isinstance(given, Mapping):
        stated = {key: value for key, value in given.items() if key not in ("name", "variations_each")}
        made, each = api_from(str(given.get("name")), stated, domain), given.get("variations_each")
        given = replace(made, each=each) if isinstance(made, NamedAPI) else made
    if not isinstance(given, API):
        raise unfit("api", "an API of discreet.evolution or the name of one", given)
    if given.domain != domain:
        raise ParameterError("the API's domain is not the mechanism's. Build it on the same declaration")
    return given


def check_fits(records: Records, domain: Domain, rows: int, what: str) -> None:
    """Refuse what an API gave that is not as many records of the domain, before any noise is drawn for it."""
    if len(records.columns) != len(domain.columns) or len(records) != rows:
        raise ParameterError(
            f"{what} of the API must give {counted(rows, 'record')} with a column for each of the domain's"
        )
    for (name, column), codes in zip(domain.columns.items(), records.columns, strict=True):
        fits = codes.dtype == column._code_type and len(codes) == rows
        if fits and column.size is not None:
            cells = codes.astype(np.int64, copy=False)
            fits = bool(((cells >= 0) & (cells < column.size)).all())
        elif fits and codes.dtype == np.float64:
            at = column.positions(codes)
            fits = bool(column.nullable or np.isfinite(at).all())
        if not fits:
            raise ParameterError(f"column {name!r}: {what} of the API must give codes of the domain")


# How many steps an evolution takes, and with how many candidates: what displaces records of invented tables least.

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
    """Settings that are free in an evolution: None is 1 or the number asked for, or the usual or the one asked for."""

    steps: int
    nearest: int | None = None
    variant: str | None = None
    share: float = 0.5  # of the theory's population, where none is given


def least_displaced(
    make: Callable[[Choice], Any], start: Choice, steps: Sequence[int], *, varied: bool, sized: bool
) -> Any:
    """Return the evolution of the least predicted displacement: first the steps, then variant and population if free.

    Steps are tried with half the theory's population until two in a row are worse than the best.
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
            rng = approximate(seed)
            frequencies = rng.multinomial(records, np.full(_HELD, 1.0 / _HELD))
            candidates, shares = small.evolved(Counts(records=held, frequencies=frequencies), rng=rng)
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


@dataclass(frozen=True)
class EvolutionSearch:
    """The search for the parameters of an evolution that meet a budget.

    ``named``: whether the API was asked for by name.
    """

    search: Search
    named: bool

    def solution(self) -> Any:
        """Return the evolution with what is free chosen."""
        n, domain, own = self.search.n, self.search.domain, self.search.parameters
        steps, population, api = own.get("steps"), own.get("population"), own["api"]
        theory = pe25.usable_steps(n, self.search.budget.epsilon)
        gaussian = own.get("noise", "gaussian") == "gaussian"
        quick = api.quick and api.embed(api.random(1, rng=seeded(0))).shape[1] <= _MOST_COORDINATES
        if not quick or own.get("variant") == "theoretical" or None not in (steps, population):
            return self.solved(Choice(theory if steps is None else steps, share=1.0))
        self.solved(Choice(1), population=1)._require_solver()
        if steps is None and domain.size is not None:
            once = self.solved(Choice(1, share=1.0))
            if domain.size <= once.candidates:  # each cell is a candidate: more steps are more noise
                return once
        listed = sorted({*STEPS, theory}) if steps is None else [steps]
        voting = gaussian and not {"nearest", "unit_votes"} & own.keys()
        start, varied = Choice(0, nearest=NEAREST if voting else None), gaussian and "variant" not in own
        return least_displaced(self.solved, start, listed, varied=varied, sized=population is None)

    def solved(self, choice: Choice, population: int | None = None) -> Any:
        """Return an evolution with some choices made, its noise solved for."""
        needed = (choice.steps, choice.nearest)
        if needed not in self._noise_for:
            self._noise_for[needed] = self._with_noise(*needed)
        solved, population = self._noise_for[needed], self.search.parameters.get("population", population)
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
        votes = {} if nearest is None else {"nearest": nearest}
        search = self.search.with_parameters(steps=steps, population=1, **votes)
        if steps == 0:
            return search.mechanism(noise="gaussian", scale=1.0, threshold=0)
        noise = self.search.parameters.get("noise", "gaussian")
        if noise == "laplace":
            return least_threshold(search, composed=steps > 1)
        return least_scale(search.with_parameters(noise=noise))

    def _populated(self, solved: Any, population: int | None, share: float) -> Any:
        """Return an evolution with the theorem's finest scale and population where they are not given."""
        n, group, d = self.search.n, self.search.relation.group, len(self.search.domain.columns)
        each = min(solved.unit_votes, solved.nearest * group) if solved.unit_votes else solved.nearest
        sigma = solved.scale / (n * math.sqrt(each))  # as for one vote
        if self.named and hasattr(solved.api, "alpha"):
            api = solved.api
            alpha = pe25.theorem_alpha(min(sigma, 0.5), dimension=d, diameter=api.diameter)
            solved = replace(solved, api=replace(api, alpha=alpha))
        if population is None:
            each = solved._api.variations_each()
            population = round(share * pe25.theorem_population(sigma, dimension=d, variations=each))
            most = _MOST_PROJECTED if solved.variant == "projection" else MOST_CANDIDATES
            population = max(1, min(population, most // each))
        return replace(solved, population=population)
