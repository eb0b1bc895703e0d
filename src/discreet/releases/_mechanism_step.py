"""A mechanism as a step of the publisher: the one file of the publisher that asks a mechanism anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from discreet._checks import positive_size
from discreet._random import seeded
from discreet.domain import Counts, Domain, Records
from discreet.domain._commonness import Commonness
from discreet.errors import ParameterError
from discreet.mechanisms import Mechanism, named
from discreet.mechanisms._base import Estimates, PartsMechanism, require_relation
from discreet.mechanisms._drawn import DrawnMechanism
from discreet.privacy import Guarantee, Relation
from discreet.releases._step import Publishable, Step, rebuilt_elsewhere
from discreet.releases._utility import require_utility

if TYPE_CHECKING:
    import polars as pl

__all__ = ["MechanismStep", "rebuilt", "step_of"]


@dataclass(frozen=True, kw_only=True)
class MechanismStep(Step):
    """A mechanism, and what is asked of it.

    Parameters
    ----------
    mechanism : Mechanism
        Public facts only.
    records : int or None
        Number of records to release; None for counts.
    """

    mechanism: Mechanism
    records: int | None

    @classmethod
    def of(cls, mechanism: Mechanism, *, size: int | None, form: Literal["records", "counts"]) -> MechanismStep:
        """Return the step, or refuse a size or a form that the mechanism does not have."""
        if form == "records":
            return cls(mechanism=mechanism, records=positive_size("size", _size(mechanism, size)))
        if not mechanism.gives_counts():
            raise ParameterError(f"{mechanism.name} releases records, not counts: ask for records")
        step = cls(mechanism=mechanism, records=None)
        for name in ("count", "standard_error"):
            if name in mechanism.domain.describe(_no_records(mechanism.domain), rng=seeded(0)).columns:
                raise ParameterError(f"column {name!r} has the name of a column of counts; rename it")
        return step

    @property
    def name(self) -> str:  # type: ignore[override]
        """Registry name."""
        return self.mechanism.name

    @property
    def domain(self) -> Domain:  # type: ignore[override]
        """The mechanism's."""
        return self.mechanism.domain

    def run(self, x: Any, *, rng: np.random.Generator, progress: Callable[..., None] | None) -> Any:
        """Run the kernel; refuse a table in parts that it cannot read."""
        if isinstance(x, Counts) or isinstance(self.mechanism, PartsMechanism):
            return self.mechanism.kernel(x, rng=rng)
        raise ParameterError(f"{self.name} does not read a table in parts: give it the counts of confidential()")

    def frames(
        self, output: Any, *, rng: np.random.Generator, progress: Callable[..., None] | None
    ) -> Iterator[Iterator[pl.DataFrame]]:
        """Yield the one table: records in chunks, or the estimates whole."""
        if self.records is None:
            yield iter([self._counts(self.mechanism.estimates(output), rng)])
        else:
            yield self._decoded(self.mechanism.finish(output, size=self.records, rng=rng), rng, progress)

    def outcome(self, output: Any, n: int) -> Mapping[str, Any]:
        """Return what the output tells about its use."""
        told = self.mechanism.outcome(output, n)
        return {} if told is None else {"outcome": told.text, "share_from_data": told.share_from_data}

    def parameters(self) -> dict[str, Any]:
        """Return the mechanism's."""
        return self.mechanism.parameters()

    def guarantee(self, relation: Relation, *, n: int) -> Guarantee:
        """Return the mechanism's."""
        return self.mechanism.guarantee(relation, n=n)

    def size(self, n: int) -> int | None:
        """Return the number of records that was asked for."""
        return self.records

    def utility(self, n: int) -> dict[str, Any]:
        """Return what the mechanism says of itself."""
        words = self.mechanism.share_in_words(n)
        if self.mechanism.leaves_out:
            worst = "depends on the data; in the worst case, all"
            words = f"how many of the released records {self.mechanism.share_is_of} {worst}"
        return {
            "share_not_from_data": None if self.mechanism.leaves_out else self.mechanism.share_not_from_data(n),
            "share_at_most": self.mechanism.most_not_from_data(n),
            "share_in_words": words,
        }

    def declared(self, relation: Relation) -> int | None:
        """Return the number of records that the mechanism was made for."""
        require_relation(self.mechanism, relation.name)
        return self.mechanism.made_for

    def require_utility(self, n: int, like: Commonness | None) -> None:
        """Refuse a release most of which would not be from the data."""
        require_utility(self.mechanism, n, size=self.records, like=like)

    def public_inputs(self) -> Mapping[str, Records]:
        """Return the mechanism's."""
        return self.mechanism.public_inputs()

    def fits(self, rows: int, n: int) -> bool:
        """Return whether so many rows may have come: one per cell of counts, at most the size where it is random."""
        if self.records is None:  # counts, of all cells or of the labels that were kept
            return not self.mechanism.needs_cells or rows == self.mechanism._cells
        return 0 <= rows <= self.records if self.mechanism.random_size else rows == self.records

    def empty(self) -> pl.DataFrame:
        """Return a table of no rows."""
        nothing = Estimates(_no_records(self.domain), np.empty(0), np.empty(0))
        return super().empty() if self.records is not None else self._counts(nothing, seeded(0))

    @property
    def columns(self) -> list[str]:
        """Names of the released columns."""
        return super().columns if self.records is not None else self.empty().columns

    def _counts(self, estimates: Estimates, rng: np.random.Generator) -> pl.DataFrame:
        import polars as pl

        described = self.domain.describe(estimates.records, rng=rng)
        return described.with_columns(
            pl.Series("count", estimates.counts), pl.Series("standard_error", estimates.standard_errors)
        )

    def _decoded(
        self, chunks: Iterator[Records], rng: np.random.Generator, progress: Callable[..., None] | None
    ) -> Iterator[pl.DataFrame]:
        done = 0
        for chunk in chunks:
            yield self.domain.decode(chunk, rng=rng)
            done += len(chunk)
            if progress is not None:
                progress(done)


def step_of(
    given: Mechanism | Publishable, domain: Domain | None, *, size: int | None, form: Literal["records", "counts"]
) -> Step:
    """Return the step of what is published on a domain.

    Raises
    ------
    ParameterError
        When they do not fit together.
    """
    if isinstance(given, Mechanism):
        if domain != given.domain:
            raise ParameterError("the mechanism's domain must be the one that the confidential table was encoded with")
        return MechanismStep.of(given, size=size, form=form)
    if size is not None or form != "records":
        raise ParameterError("size and form are for mechanisms; a model has its own number of records")
    if domain is None:
        raise ParameterError("the confidential table must be encoded with a domain: use confidential(data, domain)")
    return given.step(domain)


def rebuilt(facts: Mapping[str, Any]) -> tuple[Step, Guarantee]:
    """Return the step of a certificate and its guarantee, from the public facts in it."""
    relation = Relation(name=facts["relation"]["name"], group=facts["relation"]["group"])
    if facts["unit"] is not None and facts["unit"]["max_records"] != relation.group:
        raise ParameterError("the certificate's unit and its relation must have the same number of records")
    step = rebuilt_elsewhere(facts)
    if step is None:
        mechanism = named(facts["mechanism"]["name"]).of(
            facts["mechanism"]["parameters"],
            domain=Domain.from_dict(facts["domain"]),
            records=facts["records"],
            size=facts["size"],
        )
        step = MechanismStep(mechanism=mechanism, records=facts["size"])
    return step, step.guarantee(relation, n=facts["records"])


def _size(mechanism: Mechanism, size: int | None) -> int:
    fixed = mechanism.size if isinstance(mechanism, DrawnMechanism) else None
    if fixed is None and size is None:
        raise ParameterError("give the number of records to release as size")
    if fixed is not None and size is not None and size != fixed:
        raise ParameterError(f"size must be {fixed}, for which the mechanism was made, got {size}")
    return size if fixed is None else fixed  # type: ignore[return-value]  # one of the two is given


def _no_records(domain: Domain) -> Records:
    """Return zero records of the right kinds."""
    return domain.draw_base(0, seeded(0))
