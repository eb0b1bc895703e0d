"""The small universes of these tests: cells, labels, tables given by their counts, an evolution that can be listed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet.domain import Counts, Domain, Integer, OpenLabels, Records
from discreet.domain.records import Units
from discreet.evolution import API
from discreet.mechanisms import PrivateEvolution
from discreet.mechanisms.base import Outputs, Votes, listed
from discreet.mechanisms.noise import law_named

Floats = npt.NDArray[np.float64]
WORDS = Domain(columns={"word": OpenLabels()})


def line(cells: int) -> Domain:
    return Domain(columns={"cell": Integer(lower=0, upper=cells - 1)})


def words(held: Mapping[str, int]) -> Counts:
    column = np.array(list(held), dtype=object)
    return Counts(records=Records(columns=(column,)), frequencies=np.array(list(held.values()), dtype=np.int64))


def table_on(domain: Domain, counts: npt.ArrayLike) -> Counts:
    """Return the table that holds the first cells of a finite domain so many times."""
    held = np.asarray(counts, dtype=np.int64)
    return Counts(records=domain.unflat(np.flatnonzero(held)), frequencies=held[held > 0])


# -- an evolution whose every output can be listed: all cells are candidates in every step ----------------------------

VOTES: dict[tuple[Any, ...], npt.NDArray[np.int64]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything(API):
    """Whatever the population, all cells are candidates."""

    name: ClassVar[str] = "everything"
    domain: Domain

    @property
    def norm(self) -> float:
        return 2.0

    @property
    def diameter(self) -> float:
        return float((self.domain.size or 1) - 1)

    def variations_each(self) -> int:
        return self.domain.size or 1

    def random(self, count: int, *, rng: np.random.Generator) -> Records:
        return self.domain.unflat(np.zeros(count, dtype=np.int64))

    def variation(self, records: Records, *, rng: np.random.Generator, step: int = 0, steps: int = 1) -> Records:
        return self.domain.unflat(np.tile(np.arange(self.variations_each()), len(records)))

    def embed(self, records: Records) -> Floats:
        return np.asarray(records.columns[0], dtype=np.float64)[:, None]

    def parameters(self) -> dict[str, Any]:
        return {}


class Listed(PrivateEvolution):
    """An evolution over all cells, with outputs that can be listed. Votes are counted once per table."""

    __slots__ = ()

    def _votes(self, table: Any, candidates: Records, step: int) -> npt.NDArray[np.int64]:
        held = table._x
        owners = held.owners.tolist() if isinstance(held, Units) else []
        key = (*held.records.rows(), *held.frequencies.tolist(), *owners, -1, *candidates.rows())
        key = (*key, type(self), self.nearest, self.unit_votes, self.lookahead, step)
        if key not in VOTES:
            VOTES[key] = self.votes_anew(table, candidates, step)
        return VOTES[key]

    def votes_anew(self, table: Any, candidates: Records, step: int) -> npt.NDArray[np.int64]:
        return PrivateEvolution._votes(self, table, candidates, step)

    def outputs(self, *tables: Counts) -> Outputs:
        cells = self.domain.size or 1
        reach = law_named(self.noise).reach(self.scale)
        most = max(x.n if isinstance(x, Units) else int(x.frequencies.max()) for x in tables) + reach + 1
        one = range(-reach, most) if self.noise == "gaussian" else [0, *range(self.threshold, most)]
        everything = self.domain.unflat(np.arange(cells))
        values = [
            [Votes(everything, np.array(step)) for step in zip(*[iter(votes)] * cells, strict=True)]
            for votes in listed(*[one] * (cells * self.steps))
        ]
        return Outputs(values, 1e-13 * cells * self.steps)
