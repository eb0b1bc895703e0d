"""Candidates taken from a public table of the same kind."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from discreet._core.arrays import Floats
from discreet._core.errors import ParameterError
from discreet.domain import Records
from discreet.domain._metric import ground_embedding
from discreet.evolution._api import GroundAPI, in_blocks
from discreet.evolution._frames import to_records

_PAIRS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resampling(GroundAPI):
    r"""Records of a public table: every candidate is one of them, as it is.

    The distance is the domain's ground distance. ``random`` draws from the N public records with replacement. A record
    has one variation at each of the scales :math:`r = 4, 16, 64, \dots, N`: a public record drawn uniformly among the
    ``r`` nearest to it (the largest scale is a draw from all of them), so that the evolution may move by small and by
    large steps. Of equally near records it is undetermined which count.

    What is released is then a table of public records, in numbers that follow the confidential table. That is as good
    as the public table is rich: a confidential record unlike any public one has no near candidate.

    Parameters
    ----------
    domain : Domain
        Public; without open labels.
    table : polars.DataFrame or Records
        **Public**, of the domain's columns, with 2 rows at least: an earlier release, a published sample, an open data
        set. Its records appear in the release verbatim.

    Raises
    ------
    ParameterError
        When the table does not fit the domain.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet._core.random import seeded
    >>> from discreet.domain import Domain, Integer
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=99)})
    >>> api = Resampling(domain=domain, table=pl.DataFrame({"age": [20, 21, 22, 60, 61, 62, 90]}))
    >>> api.variations_each()
    3
    >>> near = api.variation(api.random(1, rng=seeded(0)), rng=seeded(1))
    >>> set(domain.decode(near, rng=seeded(0))["age"]) <= {20, 21, 22, 60, 61, 62, 90}
    True
    """

    name: ClassVar[str] = "resampling"
    quick: ClassVar[bool] = True
    table: Any = field(repr=False)
    _points: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        GroundAPI.__post_init__(self)
        given = self.table
        held = given if isinstance(given, Records) else to_records(given, self.domain, source="the public table")
        if len(held) < 2:
            raise ParameterError("the public table must have at least 2 rows")
        object.__setattr__(self, "table", held)
        object.__setattr__(self, "_points", ground_embedding(self.domain, held))

    @property
    def sizes(self) -> list[int]:
        """The neighbourhoods' sizes: powers of 4, and the whole table last."""
        total = len(self.table)
        return [*(4**level for level in range(1, math.ceil(math.log(total, 4) - 1e-9))), total]

    def variations_each(self) -> int:
        """Return one more than there are neighbourhoods."""
        return 1 + len(self.sizes)

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        """Draw from the public records with replacement."""
        drawn: Records = self.table.take(rng.integers(len(self.table), size=count))
        return drawn

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        """Draw among the nearest public records, at every scale; the same in every step."""
        from scipy.spatial.distance import cdist

        local = self.sizes[:-1]
        chosen = rng.integers(self.sizes, size=(len(records), len(self.sizes)))
        points = ground_embedding(self.domain, records)
        rows = max(1, _PAIRS // len(self.table))
        for first in range(0, len(points), rows) if local else ():
            block = slice(first, first + rows)
            distances = cdist(points[block], self._points, "cityblock")
            for ranks, line in zip(chosen[block, :-1], distances, strict=True):
                ranks[:] = np.argpartition(line, np.unique(ranks))[ranks]
        return in_blocks(records, [codes[chosen] for codes in self.table.columns])

    def sources(self) -> dict[str, Records]:
        """Return the public table."""
        return {"table": self.table}

    def parameters(self) -> dict[str, Any]:
        """Return how many public records there are, and a hash of their codes."""
        digest = hashlib.sha256()
        for codes in self.table.columns:
            digest.update(np.ascontiguousarray(codes).tobytes())
        return {"public_records": len(self.table), "sha256": digest.hexdigest()}
