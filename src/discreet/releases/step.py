"""What the publisher asks of a private step, whoever brings it: a mechanism, or a model above this package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import numpy as np

from discreet import wording
from discreet._core.checks import positive_size, unfit
from discreet._core.errors import Fault, ParameterError, PoorUtility
from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet.domain import Domain, Records
from discreet.domain.records import Commonness
from discreet.mechanisms import Mechanism, first_names, named, require_kept
from discreet.mechanisms.base import declared, twin_of
from discreet.mechanisms.mechanism import DrawnMechanism
from discreet.mechanisms.reading import Estimates, Expansion, Reading
from discreet.privacy import Guarantee, Relation
from discreet.releases.facts import CertificateFacts

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
    reading : callable
        ``reading(output, n=)``: what the output is read as, made once for a release.
    frames : callable
        ``frames(reading, rng=)`` turns that into tables, each a stream of rows: public post-processing.
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
        ``outcome(reading)``: what the output itself tells about its use, as it stands in ``released``.
    require_utility : callable
        ``require_utility(n, like)`` refuses a release most of which would not be from the data.
    expansion : callable
        ``expansion(reading, rng=)`` says each record by its position; None where records come one after the other.
    folders : bool
        Whether what that counts can be divided by the values of a column.
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
    reading: Callable[..., Any] = lambda output, *, n: output  # noqa: ARG005
    outcome: Callable[[Any], Mapping[str, Any]] = lambda _reading: {}
    require_utility: Callable[[int, Commonness | None], None] = lambda _n, _like: None
    expansion: Callable[..., Expansion | None] = lambda _reading, *, rng: None  # noqa: ARG005
    folders: bool = False
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
    "pseudo-posterior": "discreet.pseudo_posterior.rebuilt",
    "censored-posterior": "discreet.pseudo_posterior.rebuilt",
}
"""Steps of packages above this one, and the module whose ``rebuilt`` makes each from a certificate."""


def rebuilt_elsewhere(facts: CertificateFacts) -> Step | None:
    """Return the step of a certificate, where it is one of a package above this one."""
    module = ELSEWHERE.get(facts.mechanism.name)
    if module is None:
        return None
    step: Step = import_module(module).rebuilt(
        facts.mechanism.name, facts.mechanism.parameters, Domain.from_dict(facts.domain)
    )
    return step


# The gate of utility: what share of a release is not from the data, and what would help.

POOR_UTILITY = 0.2
"""Above this share of records that carry nothing of the data, a release must be asked for explicitly."""


def require_utility(mechanism: Mechanism, n: int, *, size: int | None, like: Commonness | None = None) -> None:
    """Refuse a release most of which would not be from the data, from public facts alone.

    Raises PoorUtility when more than 20 % of the records are expected to carry nothing of the data, or when not one
    record is expected at all; it says what would help this mechanism.
    """
    forecast = mechanism.forecast(n, like)
    if forecast.lost > POOR_UTILITY:
        raise PoorUtility(poor_utility(mechanism, n, like))
    if size is not None and (expected := size * forecast.released_share) < 1.0:
        raise PoorUtility(wording.no_records(expected, size))


def poor_utility(mechanism: Mechanism, n: int, like: Commonness | None = None) -> str:
    """Return why a release that is mostly not from the data is refused, and what would help this mechanism."""
    least, width = mechanism.traits.least_columns, len(mechanism.domain.columns)
    wide = [name for name in first_names() if least == 1 < named(name).traits.least_columns <= width]
    return wording.poor_utility(mechanism.forecast(n, like), POOR_UTILITY, wide=wide)


# A mechanism as a step of the publisher: the one file of the publisher that asks a mechanism anything.

_MOST_ROWS = 1 << 62


def step_of(
    given: Mechanism | Publishable,
    domain: Domain | None,
    *,
    size: int | None,
    counts: bool,
    progress: Callable[..., None] | None,
) -> Step:
    """Return the step of what is published on a domain. Raises ParameterError when they do not fit together."""
    if isinstance(given, Mechanism):
        if domain != given.domain:
            raise ParameterError("the mechanism's domain must be the one that the confidential table was encoded with")
        released = None if counts else positive_size("size", _size(given, size))
        return _step(given, released, progress, twin=twin_of(given, released))
    if isinstance(given, type) or not isinstance(given, Publishable):
        raise unfit("mechanism", "a Mechanism, a PseudoPosterior or a CensoredPosterior", given)
    if size is not None or counts:
        raise ParameterError(
            "size and form are for mechanisms, since a model has its own number of records. Leave them out"
        )
    if domain is None:
        raise ParameterError("the confidential table must be encoded with a domain. Use confidential(data, domain)")
    return given.step(domain, progress=progress)


def rebuilt(facts: CertificateFacts) -> tuple[Step, Guarantee]:
    """Return the step of a certificate and its guarantee, from the public facts in it."""
    relation = Relation(name=facts.relation.name, group=facts.relation.group)
    if facts.unit is not None and facts.unit.max_records != relation.group:
        raise ParameterError("the certificate's unit and its relation must have the same number of records")
    step = rebuilt_elsewhere(facts)
    if step is not None:
        return step, step.guarantee(relation, n=facts.records)
    mechanism = certified_mechanism(facts)
    from discreet.mechanisms.pitman_yor import guarantee_named

    guarantee = guarantee_named(mechanism, facts.guarantee.theorem, relation, n=facts.records)
    return _step(mechanism, facts.size), guarantee


def released_step(facts: CertificateFacts) -> Step:
    """Return the step of a certificate."""
    step = rebuilt_elsewhere(facts)
    return _step(certified_mechanism(facts), facts.size) if step is None else step


def certified_mechanism(facts: CertificateFacts) -> Mechanism:
    """Return the mechanism as the facts of a certificate state it.

    Raises ParameterError when there is none of that name, or its parameters are out of range.
    """
    name = facts.mechanism.name
    if name in ELSEWHERE:
        raise ParameterError(
            f"{name} releases tables drawn from a model, and no single posterior is known of them. Estimate from each "
            "table by itself, and combine the estimates with discreet.inference.combine"
        )
    return named(name).of(
        facts.mechanism.parameters,
        domain=Domain.from_dict(facts.domain),
        records=facts.records,
        size=facts.size,
    )


def _step(
    mechanism: Mechanism,
    size: int | None,
    progress: Callable[..., None] | None = None,
    *,
    twin: Mechanism | None = None,
) -> Step:
    """Return the step that releases so many records, or counts.

    ``twin``: of the mechanism, made before its kernel sees the table. It reads what the private step gives, so that
    nothing which the kernel keeps on its own object is read.
    """
    twin = mechanism if twin is None else twin
    tables = mechanism.forms.tables
    if size is None:
        if tables:
            raise ParameterError("counts are one table. For them leave tables out")
        frames: Callable[..., Iterator[Frames]] = partial(_counted, twin)
        counts, _ = mechanism.count_table()
        rows = range(_MOST_ROWS) if counts is None else range(counts, counts + 1)
    else:
        frames = partial(_drawn, twin, size, progress)
        rows = range(0 if mechanism.traits.random_size else size, size + 1)
    return Step(
        name=mechanism.name,
        parameters=mechanism.parameters(),
        domain=mechanism.domain,
        run=mechanism.kernel,
        frames=frames,
        guarantee=mechanism.guarantee,
        rows=lambda _n: rows,
        utility=partial(_utility, mechanism),
        public_inputs=mechanism.public_inputs(),
        records=declared(mechanism, "records"),
        counts=size is None,
        tables=tables,
        reading=twin.reading,
        outcome=_outcome,
        require_utility=lambda n, like: require_utility(mechanism, n, size=size, like=like),
        expansion=partial(_expansion, size or 0),
        folders=mechanism.forms.folders,
        empty=_no_counts(twin) if size is None else None,
        keeps_declared=mechanism.traits.keeps_declared,
    )


def _drawn(
    mechanism: Mechanism, size: int, progress: Callable[..., None] | None, reading: Reading, *, rng: np.random.Generator
) -> Iterator[Frames]:
    done = 0

    def decoded() -> Frames:
        nonlocal done
        for chunk in reading.draw(size, rng=rng):
            if not mechanism.domain.allowed(chunk).all():
                raise Fault("record declared impossible", mechanism.name)
            yield mechanism.domain.decode(chunk, rng=rng)
            done += len(chunk)
            if progress is not None:
                progress(done)

    for _ in range(mechanism.forms.tables or 1):
        yield decoded()


def _expansion(size: int, reading: Reading, *, rng: np.random.Generator) -> Expansion | None:
    shares = reading.cell_shares(rng=rng)
    return None if shares is None else Expansion.drawn(shares, size, rng=rng)


def _counted(mechanism: Mechanism, reading: Reading, *, rng: np.random.Generator) -> Iterator[Frames]:
    estimates = reading.estimates()
    if estimates is None:
        raise Fault("no counts", mechanism.name)
    yield iter([_table(mechanism, estimates, rng)])


def _no_counts(mechanism: Mechanism) -> pl.DataFrame:
    """Return a table of no counts, or refuse them before anything is drawn."""
    if not mechanism.forms.counts:
        raise ParameterError(f"{mechanism.name} releases records, not counts. Ask for records")
    labels: dict[str, list[str | None]] | None = {name: [] for name in mechanism.count_table()[1]} or None
    none = Estimates(mechanism.domain.draw_base(0, seeded(0)), np.empty(0), np.empty(0), labels)
    return _table(mechanism, none, seeded(0))


def _table(mechanism: Mechanism, estimates: Estimates, rng: np.random.Generator) -> pl.DataFrame:
    if estimates.labels is None:
        described = mechanism.domain.describe(estimates.records, rng=rng)
    else:
        described = pl.DataFrame(estimates.labels, schema=dict.fromkeys(estimates.labels, pl.String))
    for name in ("count", "standard_error"):
        if name in described.columns:
            raise ParameterError(f"column {name!r} has the name of a column of counts. Rename it")
    return described.with_columns(
        pl.Series("count", estimates.counts), pl.Series("standard_error", estimates.standard_errors)
    )


def _outcome(reading: Reading) -> Mapping[str, Any]:
    told = reading.outcome()
    if told is None:
        return {}
    return {"outcome": told.text, "share_from_data": told.share_from_data, **told.facts}


def _utility(mechanism: Mechanism, n: int) -> dict[str, Any]:
    """Say what share of the release was not going to be from the data, where a public fact says it."""
    forecast, unknown = mechanism.forecast(n), mechanism.traits.leaves_out
    return {
        "share_not_from_data": None if unknown else forecast.lost,
        "share_at_most": forecast.lost_at_most,
        "share_in_words": wording.lost(forecast, unknown=unknown),
    }


def _size(mechanism: Mechanism, size: int | None) -> int:
    fixed = mechanism.size if isinstance(mechanism, DrawnMechanism) else None
    if fixed is None and size is None:
        raise ParameterError("the number of records to release is needed. Write size=...")
    if fixed is not None and size is not None and size != fixed:
        raise ParameterError(f"size must be {fixed:,}, for which the mechanism was made, got {size:,}")
    return size if fixed is None else fixed  # type: ignore[return-value]  # one of the two is given
