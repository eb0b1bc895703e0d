"""The populations of an evolution: one, or one for each value of a public column, such as a class.

A record then votes among the candidates of its own label. It votes as often as before, and where its votes go is still
a function of that record and of public candidates, so the guarantee is the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._core.arrays import Floats, Integers
from discreet._core.checks import real, unfit
from discreet._core.errors import ParameterError
from discreet._core.text import counted
from discreet.domain import Domain, Records
from discreet.domain.records import Parts, Units
from discreet.evolution import API
from discreet.evolution.api import NamedAPI
from discreet.evolution.table import api_from

if TYPE_CHECKING:
    from discreet.evolution.neighbours import Voters


_ROUNDS = 4  # of draws until each label has its members; those still missing get their label written over


def settled_shares(given: Any, domain: Domain, by_label: str | None) -> tuple[float, ...] | None:
    """Return the shares of labels as numbers.

    Raises ParameterError when the column is not one of a few declared values, or the shares are not theirs.
    """
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
    """Which labels there are, and what share of a release each has.

    ``domain``: public.
    ``column``: of the labels; None for one population of all.
    ``given``: the shares, where they are public; otherwise they are those of the noisy votes.
    """

    domain: Domain
    column: str | None
    given: tuple[float, ...] | None

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
        """Return the members to start from: draws of each label, as many as it has members.

        ``draw``: gives so many records.
        """
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
        from discreet.evolution.neighbours import Voters

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
    """Embed confidential records; what goes wrong may name their values, and is not passed on.

    Raises ParameterError when the embedding fails, or does not give finite numbers for each.
    """
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
    """Return an API from an object, a name, or what a certificate says of one.

    Raises ParameterError when it is of another domain or none at all.
    """
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
    """Check what an API gave, before any noise is drawn for it.

    Raises ParameterError when it is not as many records of the domain.
    """
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
