"""What the publisher asks of a private step, whoever brings it: a mechanism, or a model above this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet.domain import Domain, Records
from discreet.domain._commonness import Commonness
from discreet.mechanisms import require_kept
from discreet.mechanisms._expansion import Expansion
from discreet.privacy import Guarantee, Relation

Frames = Iterator["pl.DataFrame"]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A private step, what follows it, and what is promised of it. All of it but the argument of ``run`` is public.

    Parameters
    ----------
    name, parameters
        What the certificate states of it, and what it is built again from.
    domain : Domain
        The one that the confidential table must be encoded with.
    run : callable
        ``run(x, rng=)`` takes the private step on a confidential table. What it returns is public under the guarantee.
    frames : callable
        ``frames(output, rng=)`` turns that into tables, each a stream of rows: public post-processing.
    guarantee : callable
        ``guarantee(relation, n=)``, for a table of ``n`` records.
    rows : callable
        ``rows(n)``: the numbers of rows that a table may have; the last is the number that is asked for.
    utility : callable
        ``utility(n)``: the certificate's claims about the share of the records that is not from the data.
    public_inputs : mapping
        The public records that it was made of, by name.
    records : int, optional
        The number of confidential records, where it was declared in public.
    counts : bool
        Whether it releases counts, not records.
    tables : int, optional
        How many tables it releases, into a folder; None for the one table of a file.
    protected : tuple of str
        The columns that the guarantee is about, where it is not about all.
    pure : callable, optional
        ``pure(relation)``: the epsilons, of all tables and of each, that the certificate states, at which delta is 0.
        Without it the budget chooses one.
    outcome : callable
        ``outcome(output, n)``: what the output itself tells about its use, as it stands in ``released``.
    require_utility : callable
        ``require_utility(n, like)`` refuses a release most of which would not be from the data.
    expanded : callable, optional
        ``expanded(output, rng=)`` says each record by its position, where records need not come one after the other.
    by_value : bool
        Whether what ``expanded`` counts can be divided by the values of a column.
    empty : polars.DataFrame, optional
        A table of no rows, where those that are released do not have the columns of the domain.
    randomness : str
        Where its secure randomness comes from, in words.
    keeps_declared : bool
        Whether what it releases always agrees with what the domain declares beside its columns.

    Raises
    ------
    ParameterError
        When it does not, and the domain declares something: whatever is released, or verified, is such a step.
    """

    name: str
    parameters: Mapping[str, Any]
    domain: Domain
    run: Callable[..., Any]
    frames: Callable[..., Iterator[Frames]]
    guarantee: Callable[..., Guarantee]
    rows: Callable[[int], range]
    utility: Callable[[int], dict[str, Any]]
    public_inputs: Mapping[str, Records] = field(default_factory=dict)
    records: int | None = None
    counts: bool = False
    tables: int | None = None
    protected: tuple[str, ...] = ()
    pure: Callable[[Relation], tuple[float, float]] | None = None
    outcome: Callable[[Any, int], Mapping[str, Any]] = lambda _output, _n: {}
    require_utility: Callable[[int, Commonness | None], None] = lambda _n, _like: None
    expanded: Callable[..., Expansion] | None = None
    by_value: bool = False
    empty: pl.DataFrame | None = None
    randomness: str = (
        "operating-system entropy, fresh for this release: ChaCha20 keyed with 256 bits of it, and for noise on counts "
        "OpenDP's own secure generator"
    )
    keeps_declared: bool = False

    def __post_init__(self) -> None:
        require_kept(self.name, self.domain, keeps=self.keeps_declared)

    def size(self, n: int) -> int | None:
        """Return how many records each table is to have; None for counts."""
        return None if self.counts else self.rows(n)[-1]

    def nothing(self) -> pl.DataFrame:
        """Return a table of no rows, with the names and types of those that are released."""
        if self.empty is not None:
            return self.empty
        return self.domain.decode(self.domain.draw_base(0, seeded(0)), rng=seeded(0))

    @property
    def columns(self) -> list[str]:
        """Names of the released columns."""
        return list(self.domain.names) if self.empty is None else self.empty.columns


@runtime_checkable
class Publishable(Protocol):
    """What :func:`publish` takes beside mechanisms: it becomes a step on the domain of the confidential table."""

    def step(self, domain: Domain, *, progress: Callable[..., None] | None = None) -> Step:
        """Return the step, which tells its progress, or refuse a domain that it does not fit: by public facts alone."""


ELSEWHERE = {
    "pseudo-posterior": "discreet.pseudo_posterior._rebuilt",
    "censored-posterior": "discreet.pseudo_posterior._rebuilt",
}
"""Steps of packages above this one, and the module whose ``rebuilt`` makes each from a certificate."""


def rebuilt_elsewhere(facts: Mapping[str, Any]) -> Step | None:
    """Return the step of a certificate, where it is one of a package above this one."""
    module = ELSEWHERE.get(facts["mechanism"]["name"])
    if module is None:
        return None
    step: Step = import_module(module).rebuilt(facts)
    return step
