"""Columns of open labels: which labels are kept is released first, and from then on such a column is a category.

Its cells are the labels that were kept, and one cell for all other labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from discreet.domain import Category, Counts, Domain, OpenLabels, Records
from discreet.domain._records import Parts
from discreet.mechanisms._base import KeptLabels
from discreet.mechanisms.noise import GAUSSIAN


def open_columns(domain: Domain) -> list[int]:
    """Return the numbers of the columns of open labels."""
    return [i for i, column in enumerate(domain.columns.values()) if isinstance(column, OpenLabels)]


# -- the private step ---------------------------------------------------------------------------------------------


def held_labels(x: Parts, columns: Sequence[int]) -> list[dict[str, int]]:
    """Return how many records hold each label of some columns: confidential. A null is no label.

    Labels are in ascending order, which does not depend on that of the records.
    """
    held: list[dict[str, int]] = [{} for _ in columns]
    for part in x.parts():
        for found, i in zip(held, columns, strict=True):
            for label, count in zip(part.records.columns[i].tolist(), part.frequencies.tolist(), strict=True):
                if label is not None:
                    found[label] = found.get(label, 0) + count
    return [dict(sorted(found.items())) for found in held]


def keep(held: Mapping[str, int], *, q: int, scale: float, threshold: int, rng: np.random.Generator) -> KeptLabels:
    """Return the labels whose noisy counts reach a threshold, in ascending order, and these counts.

    ``held``: confidential.
    ``q``: counts are multiplied by ``q^2``, and have noise of ``q`` times the scale.
    ``scale``: of the noise of one unit.
    ``threshold``: in records.
    """
    noisy = q * q * np.array(list(held.values()), dtype=np.int64) + GAUSSIAN.draw(q * scale, len(held), rng=rng)
    kept = np.flatnonzero(noisy >= q * q * threshold)
    labels = list(held)
    return KeptLabels(tuple(labels[i] for i in kept.tolist()), noisy[kept])


def log_kept(y: KeptLabels, held: Mapping[str, int], *, q: int, scale: float, threshold: int) -> float:
    """Return the log-probability of the labels that are kept and of their noisy counts."""
    least = q * q * threshold
    released = dict(zip(y.labels, y.counts.tolist(), strict=True))
    if not released.keys() <= held.keys() or any(noisy < least for noisy in released.values()):
        return -np.inf
    noise = [released[label] - q * q * held[label] for label in y.labels]
    left_out = {count for label, count in held.items() if label not in released}
    below = {count: GAUSSIAN.log_below(q * scale, least - q * q * count) for count in left_out}
    rest = sum(below[count] for label, count in held.items() if label not in released)
    return float(GAUSSIAN.log_pmf(q * scale, np.array(noise, dtype=np.int64)).sum()) + rest


@dataclass(frozen=True, eq=False)
class Coded:
    """A table in parts whose open columns are coded by the labels that were kept. Confidential.

    ``x``: the table.
    ``closed``: the domain that :func:`closed_domain` made.
    ``columns``: numbers of its columns that are open.
    """

    x: Parts
    closed: Domain
    columns: Sequence[int]

    @property
    def n(self) -> int:
        """Number of records."""
        return self.x.n

    def parts(self) -> Iterator[Counts]:
        """Yield the parts of the table."""
        closed = list(self.closed.columns.values())
        for part in self.x.parts():
            columns = list(part.records.columns)
            for i in self.columns:
                column = closed[i]
                assert isinstance(column, Category)  # made of open labels
                place: dict[str | None, int] = {label: code for code, label in enumerate(column.categories)}
                other = len(place) - 1
                place[None] = len(column.categories)
                codes = [place.get(label, other) for label in columns[i].tolist()]
                columns[i] = np.array(codes, dtype=np.int64)
            yield Counts(records=Records(columns=tuple(columns)), frequencies=part.frequencies)


# -- what is public -----------------------------------------------------------------------------------------------


def closed_domain(domain: Domain, kept: Sequence[KeptLabels], *, most: int) -> Domain:
    """Return the domain with a category for each open column: the labels that were kept, and one for all others.

    The latter is named by the reserved prefix, which no label has. A null stays one.

    ``most``: cells of a column. Of more labels, the commonest are taken.
    """
    columns = dict(domain.columns)
    for i, each in zip(open_columns(domain), kept, strict=True):
        column = columns[domain.names[i]]
        assert isinstance(column, OpenLabels)
        commonest = np.sort(np.argsort(-each.counts, kind="stable")[: most - 2])
        labels = [each.labels[place] for place in commonest.tolist()]
        columns[domain.names[i]] = Category(categories=[*labels, f"{column.prefix}*"], nulls=column.nulls)
    return replace(domain, columns=columns)


def labelled(
    chunks: Iterator[Records], domain: Domain, closed: Domain, rng: np.random.Generator, *, first_new: int = 1
) -> Iterator[Records]:
    """Return records with their labels. One whose label was not kept gets a new one, of the reserved namespace.

    ``first_new``: number of the first new label of each column.
    """
    places = open_columns(domain)
    first = dict.fromkeys(places, first_new)
    wide, narrow = list(domain.columns.values()), list(closed.columns.values())
    for chunk in chunks:
        columns = list(chunk.columns)
        for i in places:
            category = narrow[i]
            assert isinstance(category, Category)
            labels = np.array([*category.categories, None], dtype=object)[columns[i].astype(np.int64)]
            others = np.flatnonzero(columns[i] == len(category.categories) - 1)
            labels[others] = wide[i].draw(len(others), rng, first=first[i])
            first[i] += len(others)
            columns[i] = labels
        yield Records(columns=tuple(columns))
