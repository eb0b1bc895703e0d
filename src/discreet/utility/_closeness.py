"""How near a release is to the confidential table where an API of an evolution says that records lie. Confidential."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import DataError
from discreet.evolution import API
from discreet.evolution._closeness import closeness
from discreet.mechanisms._evolution_inputs import embedded
from discreet.utility._measures import Measured
from discreet.utility._rows import Reader

_MOST = 4_000  # distinct records of a table that are looked at
_NEIGHBOURS = 3

_HOW = {
    "frechet": "squared Fréchet distance of two normal laws with their means and covariances",
    "precision": "share of the records that lie among those of the table, 1 is best",
    "recall": "share of the table's records that lie among them, 1 is best",
}


def near(
    sources: Sequence[tuple[Any, str]], api: API, read: Reader, *, rng: np.random.Generator
) -> tuple[Measured, ...]:
    """Return Fréchet distance, precision and recall of a release, and those of a holdout where there is one.

    ``sources``: the confidential table, the release and the holdout, each with what a message about it begins with.
    ``api``: whose embedding says where records lie.
    ``read``: gives the distinct rows of a table and their frequencies.
    ``rng``: chooses the records that are looked at in larger tables.
    """
    (table, own), *others = [_points(source, what, api, read, rng) for source, what in sources]
    neighbours = min(_NEIGHBOURS, *(len(points) - 1 for points, _ in [(table, own), *others]))
    if neighbours < 1:
        raise DataError(None, "has a single point where the API says that records lie", "compare larger tables")
    found = [
        closeness(points, shares, table, own, neighbours=neighbours, norm=api.norm)._asdict()
        for points, shares in others
    ]
    of = f"where the API {api.name!r} says that records lie"
    return tuple(
        Measured(
            measure=name,
            of=of,
            release=found[0][name],
            bootstrap=None,
            holdout=found[1][name] if len(found) > 1 else None,
            how=how,
        )
        for name, how in _HOW.items()
    )


def _points(source: Any, what: str, api: API, read: Reader, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Return the distinct points of a table and the share of each."""
    try:
        frame, frequencies = read(source)
        records = api.domain.encode(frame.select(api.domain.names))
    except DataError as problem:
        raise DataError(problem.column, what + problem.problem, problem.remedy) from None
    rows = np.arange(len(records))
    if len(rows) > _MOST:
        rows = np.sort(rng.choice(rows, size=_MOST, replace=False, p=frequencies / frequencies.sum()))
        frequencies = np.ones_like(frequencies)
    points, where = np.unique(embedded(api, records.take(rows)), axis=0, return_inverse=True)
    shares = np.bincount(where.reshape(-1), weights=frequencies[rows])
    return points, shares / shares.sum()
