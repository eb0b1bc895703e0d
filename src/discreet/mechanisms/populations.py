"""The public facts of an evolution: its populations, what its API gives, and what votes amount to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from discreet._core.errors import ParameterError, choice, flag, integer, positive_size, real, unfit
from discreet._core.numeric import Floats, Integers
from discreet._core.text import counted
from discreet.domain import Domain, Parts, Records, Units
from discreet.evolution import API, NamedAPI, api_from
from discreet.mechanisms.base import CellCounts, Votes
from discreet.mechanisms.bounded_lipschitz import bounded_lipschitz_projection
from discreet.mechanisms.noise import law_named
from discreet.mechanisms.reading import BLOCK, SAMPLINGS, CellShares, ListedShares, Outcome, Reading, Sampling
from discreet.privacy import Code

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
    size, parts = domain.columns[by_label].size, given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, Sequence) or len(parts) != size:
        raise ParameterError(f"label_shares must be {size} numbers, one for each value of {by_label!r}")
    try:
        numbers = [float(part) if isinstance(part, str) else part for part in parts]
    except ValueError:
        raise unfit("label_shares", "numbers", given) from None
    shares = tuple(real("label_shares", number, least=0, most=1) for number in numbers)
    if abs(math.fsum(shares) - 1.0) > 1e-9:
        raise ParameterError("label_shares must add up to 1. Divide them by their sum")
    return shares


def label_groups(labels: Integers) -> Iterator[tuple[int, Integers]]:
    """Yield each label that is held, and the places of its records."""
    for label in np.unique(labels).tolist():
        yield label, np.flatnonzero(labels == label)


_LARGEST = 1e150  # coordinate: squared distances stay finite
_MOST_KEPT = 1 << 25  # coordinates of embedded records kept in memory


class Embedded:
    """A table's embedded records with frequencies, units and labels, part by part; kept where they fit into memory."""

    def __init__(self, facts: EvolutionFacts, x: Parts) -> None:
        self._facts, self._x = facts, x
        self._kept: list[Voters] | None = None

    def __iter__(self) -> Iterator[Voters]:
        from discreet.evolution import Voters

        if self._kept is not None:
            yield from self._kept
            return
        parts, values = [], 0
        for part in self._x.parts():
            owners = part.owners if isinstance(part, Units) else None
            labels = self._facts._labels(part.records)
            voters = Voters(embedded(self._facts._api, part.records), part.frequencies, owners, labels)
            yield voters
            values += voters.points.size
            if values <= _MOST_KEPT:
                parts.append(voters)
        if values <= _MOST_KEPT:
            self._kept = parts


def embedded(api: API, records: Records) -> Floats:
    """Embed confidential records, or raise ParameterError: what goes wrong may name values, and is not passed on."""
    try:
        points = np.asarray(api.embed(records), dtype=np.float64)
    except Exception:  # noqa: BLE001  # whatever a user's function raises
        points = np.empty(0)
    return finite_points(api, points, len(records))


def finite_points(api: API, points: Floats, rows: int) -> Floats:
    """Return where an API says that records lie. Raises ParameterError unless it is one finite point for each."""
    points = np.asarray(points)
    if points.ndim != 2 or len(points) != rows or not (np.abs(points) < _LARGEST).all():
        raise ParameterError(
            f"the embedding of the API {api.name!r} must give one row of finite numbers for each record. Try it on "
            "records that the API makes"
        )
    return points


def settled_api(source: Any, domain: Domain) -> API:
    """Return an API from an object, a name, or what a certificate says of one; refuse one of another domain."""
    if isinstance(source, str):
        source = {"name": source}
    if isinstance(source, Mapping):
        facts = {key: value for key, value in source.items() if key not in ("name", "variations_each")}
        api = api_from(str(source.get("name")), facts, domain)
        source = replace(api, each=source.get("variations_each")) if isinstance(api, NamedAPI) else api
    if not isinstance(source, API):
        raise unfit("api", "an API of discreet.evolution or the name of one", source)
    if source.domain != domain:
        raise ParameterError("the API's domain is not the mechanism's. Build it on the same declaration")
    return source


def check_fits(records: Records, domain: Domain, rows: int, what: str) -> Records:
    """Return what an API gave. Raises ParameterError unless it is so many records of the domain."""
    if len(records.columns) != len(domain.columns) or len(records) != rows:
        raise ParameterError(f"{what} of the API must give {counted(rows, 'record')} with the columns of the domain")
    for (name, column), codes in zip(domain.columns.items(), records.columns, strict=True):
        fits = codes.dtype == column.code_type and len(codes) == rows
        if fits and column.size is not None:
            cells = codes.astype(np.int64, copy=False)
            fits = bool(((cells >= 0) & (cells < column.size)).all())
        elif fits and codes.dtype == np.float64:
            fits = column.nullable or bool(np.isfinite(column.positions(codes)).all())
        elif fits and codes.dtype == object:
            fits = column.nullable or all(code is not None for code in codes)
        if not fits:
            raise ParameterError(f"column {name!r}: {what} of the API must give codes of the domain")
    return records


MOST_CANDIDATES = 1 << 22
"""Of a step."""

_MOST_STEPS = 256
_MOST_CAST = 64  # votes of a record or a unit
_MOST_CHANGED = 1024  # of a record in all steps


@dataclass(frozen=True, kw_only=True)
class EvolutionFacts:
    """The public facts of an evolution. Parameters: see PrivateEvolution."""

    domain: Domain
    records: int
    scale: float
    steps: int
    population: int
    noise: Literal["gaussian", "laplace"] = "gaussian"
    threshold: int = 0
    variant: Literal["projection", "practical", "theoretical"] = "projection"
    nearest: int = 1
    unit_votes: int = 0
    by_label: str | None = None
    label_shares: Sequence[float] | str | None = None
    lookahead: bool = False
    multiplicity: int = 1
    sampling: Sampling = SAMPLINGS[0]
    api: API | str | Mapping[str, Any] = "table"

    def __post_init__(self) -> None:
        object.__setattr__(self, "api", settled_api(self.api, self.domain))
        for name, least, most in (
            ("steps", 0, _MOST_STEPS),
            ("population", 1, MOST_CANDIDATES),
            ("threshold", 2 if self.noise == "laplace" else 0, 1 << 40),
            ("multiplicity", 1, 1 << 40),
            ("nearest", 1, _MOST_CAST),
            ("unit_votes", 0, _MOST_CAST),
        ):
            object.__setattr__(self, name, integer(name, getattr(self, name), least=least, most=most))
        object.__setattr__(self, "records", positive_size("records", self.records))
        object.__setattr__(self, "scale", law_named(self.noise).checked(self.scale))
        choice("variant", self.variant, ("projection", "practical", "theoretical"))
        choice("sampling", self.sampling, SAMPLINGS)
        flag("lookahead", self.lookahead)
        object.__setattr__(self, "label_shares", settled_shares(self.label_shares, self.domain, self.by_label))
        if self.by_label is not None and (self.unit_votes or self.variant == "theoretical"):
            raise ParameterError(
                "by_label cannot be combined with votes of units, nor with the theoretical variant. Leave it out"
            )
        if self.noise != "gaussian" and (self.nearest, self.unit_votes) != (1, 0):
            raise ParameterError("nearest and unit_votes need gaussian noise. Write noise='gaussian'")
        if self.steps * max(self.nearest, self.unit_votes) > _MOST_CHANGED:
            raise ParameterError(f"steps times votes must be at most {_MOST_CHANGED:,}. Take fewer of either")
        if self.candidates > MOST_CANDIDATES:
            raise ParameterError(
                f"a step must have at most {MOST_CANDIDATES:,} candidates, got {self.candidates:,}. Take a smaller "
                "population"
            )

    @property
    def _api(self) -> API:
        return cast(API, self.api)

    @property
    def candidates(self) -> int:
        """Number of candidates per step, those that turn out equal included."""
        members = 2 * self.records if self.variant == "theoretical" else self._sizes().sum()
        return int(members) * self._api.variations_each()

    def probabilities(self, step: Votes) -> Floats:
        """Return the candidates' probabilities that records are drawn with: public post-processing of noisy votes."""
        labels = self._labels(step.candidates)
        shares, probabilities = self._shares(step.votes, labels), np.zeros(len(labels))
        for label, group in label_groups(labels):
            probabilities[group] = shares[label] * self._within(step.candidates.take(group), step.votes[group])
        return probabilities

    @property
    def _label_count(self) -> int:
        return 1 if self.by_label is None else self.domain.columns[self.by_label].size or 1

    def _labels(self, records: Records) -> Integers:
        """Return the label of each record; 0 where all are of one population."""
        if self.by_label is None:
            return np.zeros(len(records), dtype=np.int64)
        return np.asarray(records.columns[self.domain.names.index(self.by_label)], dtype=np.int64)

    def _labelled(self, records: Records, labels: Integers) -> Records:
        """Return the records with these labels, whatever they had."""
        if self.by_label is None:
            return records
        columns, place = list(records.columns), self.domain.names.index(self.by_label)
        columns[place] = labels.astype(columns[place].dtype)
        return Records(columns=tuple(columns))

    def _sizes(self) -> Integers:
        """Return how many members each label has: as many as another, and one at least."""
        size, remainder = divmod(self.population, self._label_count)
        return np.asarray(np.maximum(1, size + (np.arange(self._label_count) < remainder)))

    def _random(self, count: int, rng: np.random.Generator) -> Records:
        return check_fits(self._api.random(count, rng=rng), self.domain, count, "random")

    def _first(self, rng: np.random.Generator) -> Records:
        """Return the members to start from: draws of each label, as many as it has members."""
        if self.variant == "theoretical":
            return self._random(self.records, rng)
        missing, parts = self._sizes(), []
        for _ in range(_ROUNDS):
            records = self._random(int(missing.sum()), rng)
            labels = self._labels(records)
            members = np.concatenate([places[: missing[label]] for label, places in label_groups(labels)])
            parts.append(records.take(np.sort(members)))
            missing = missing - np.bincount(labels[members], minlength=len(missing))
            if not missing.any():
                return Records.concatenate(parts)
        records = self._random(int(missing.sum()), rng)
        return Records.concatenate([*parts, self._labelled(records, np.repeat(np.arange(len(missing)), missing))])

    def _shares(self, votes: Integers, labels: Integers) -> Floats:
        """Return the share of each label: the public one, or that of its noisy votes where these add up to above 0."""
        if self.label_shares is not None:
            return np.array(self.label_shares)
        totals = np.maximum(0.0, np.bincount(labels, weights=votes, minlength=self._label_count))
        if not totals.any():
            return np.full(len(totals), 1.0 / len(totals))
        return np.asarray(totals / totals.sum())

    def _within(self, candidates: Records, noisy: CellCounts) -> Floats:
        if self.variant != "projection":
            weights = self._weights(noisy)
            if not weights.any():
                weights = np.ones(len(weights))
            return np.asarray(weights / weights.sum())
        masses = self._measure(noisy)
        if masses.min() >= 0.0:  # its nearest probabilities are proportional to it
            return np.asarray(masses / masses.sum())
        points, norm = self._api.embed(candidates), self._api.norm
        widest = float(np.linalg.norm(np.ptp(points, axis=0), ord=norm))  # whatever a user's API says
        diameter = max(self._api.diameter, widest)
        return bounded_lipschitz_projection(masses, points, diameter=diameter, norm=norm).probabilities

    def _weights(self, noisy: CellCounts) -> Floats:
        """Return the votes that count, as numbers of copies where the variant makes copies."""
        weights = np.maximum(0.0, np.where(noisy >= self.threshold, noisy, 0.0))
        if self.variant == "theoretical":
            return np.asarray(np.rint(weights / self.multiplicity) * self.multiplicity)
        return np.asarray(weights)

    def _measure(self, noisy: CellCounts) -> Floats:
        """Return noisy votes as a signed measure, shifted onto the number of records or, where far from it, divided."""
        total, count = int(noisy.sum()), len(noisy)
        if self.noise == "laplace":
            return np.asarray(noisy if total else np.ones(count), dtype=np.float64)
        cast_votes = self.records * (1 if self.unit_votes else min(self.nearest, count))
        # A unit may give fewer votes, and how many records a label has is not known.
        unknown = min(self.unit_votes, count) > 1 or self.by_label is not None
        if total > 0 and (unknown or abs(total - cast_votes) > max(1.0, 6.0 * self.scale * math.sqrt(count))):
            return np.asarray(noisy / total, dtype=np.float64)
        return np.asarray((noisy + (cast_votes - total) / count) / cast_votes, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class EvolutionReading(Reading):
    """Records drawn from the last step's votes, or from the API where there is no step."""

    facts: EvolutionFacts
    y: Sequence[Votes]

    def draw(self, size: int, *, rng: np.random.Generator) -> Iterator[Records]:
        """Draw ``size`` records, in chunks."""
        shares = self.cell_shares(rng=rng)
        if shares is not None:
            return shares.draw(size, rng=rng)
        return (self.facts._api.random(min(BLOCK, size - start), rng=rng) for start in range(0, size, BLOCK))

    def cell_shares(self, *, rng: np.random.Generator) -> CellShares | None:
        """Return the shares of the candidates; without a step the API draws one record after the other."""
        if not self.y:
            return None
        facts, last = self.facts, self.y[-1]
        sampling: Sampling = facts.sampling
        if facts.variant == "theoretical":
            sampling = "stratified"
        return ListedShares(facts.probabilities(last), sampling, last.candidates.take)

    def outcome(self) -> Outcome | None:
        """Return whether the last step's votes were all lost to noise: no candidate's count, so all are as likely."""
        facts = self.facts
        if not self.y or (facts.variant == "projection" and facts.noise == "gaussian"):
            return None
        votes = self.y[-1].votes
        if (votes if facts.variant == "projection" else facts._weights(votes)).any():
            return None
        return Outcome((Code("no-votes-kept"),), 0.0)
