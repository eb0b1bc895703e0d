"""A mechanism as a step of the publisher: the one file of the publisher that asks a mechanism anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from discreet._core.checks import positive_size, unfit
from discreet._core.errors import Fault, ParameterError
from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet.domain import Counts, Domain
from discreet.domain._records import Units
from discreet.mechanisms import Mechanism, named
from discreet.mechanisms._base import Estimates, PartsMechanism
from discreet.mechanisms._drawn import DrawnMechanism
from discreet.mechanisms._expansion import Expansion
from discreet.privacy import Guarantee, Relation
from discreet.releases._step import ELSEWHERE, Frames, Publishable, Step, rebuilt_elsewhere
from discreet.releases._utility import require_utility

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
        return _step(given, released, progress, reading=given.twin(released))
    if isinstance(given, type) or not isinstance(given, Publishable):
        raise unfit("mechanism", "a Mechanism, a PseudoPosterior or a CensoredPosterior", given)
    if size is not None or counts:
        raise ParameterError(
            "size and form are for mechanisms, since a model has its own number of records. Leave them out"
        )
    if domain is None:
        raise ParameterError("the confidential table must be encoded with a domain. Use confidential(data, domain)")
    return given.step(domain, progress=progress)


def rebuilt(facts: Mapping[str, Any]) -> tuple[Step, Guarantee]:
    """Return the step of a certificate and its guarantee, from the public facts in it."""
    relation = Relation(name=facts["relation"]["name"], group=facts["relation"]["group"])
    if facts["unit"] is not None and facts["unit"]["max_records"] != relation.group:
        raise ParameterError("the certificate's unit and its relation must have the same number of records")
    step = rebuilt_elsewhere(facts)
    if step is not None:
        return step, step.guarantee(relation, n=facts["records"])
    mechanism = certified_mechanism(facts)
    guarantee = mechanism.guarantee_by(facts["guarantee"]["theorem"], relation, n=facts["records"])
    return _step(mechanism, facts["size"]), guarantee


def released_step(facts: Mapping[str, Any]) -> Step:
    """Return the step of a certificate."""
    step = rebuilt_elsewhere(facts)
    return _step(certified_mechanism(facts), facts["size"]) if step is None else step


def certified_mechanism(facts: Mapping[str, Any]) -> Mechanism:
    """Return the mechanism as the facts of a certificate state it.

    Raises ParameterError when there is none of that name, or its parameters are out of range.
    """
    name = facts["mechanism"]["name"]
    if name in ELSEWHERE:
        raise ParameterError(
            f"{name} releases tables drawn from a model, and no single posterior is known of them. Estimate from each "
            "table by itself, and combine the estimates with discreet.inference.combine"
        )
    return named(name).of(
        facts["mechanism"]["parameters"],
        domain=Domain.from_dict(facts["domain"]),
        records=facts["records"],
        size=facts["size"],
    )


def _step(
    mechanism: Mechanism,
    size: int | None,
    progress: Callable[..., None] | None = None,
    *,
    reading: Mechanism | None = None,
) -> Step:
    """Return the step that releases so many records, or counts.

    ``reading``: a twin of the mechanism, made before its kernel sees the table. All that follows the private step is
    asked of the twin, so that nothing which the kernel keeps on its own object is read.
    """
    reading = mechanism if reading is None else reading
    several = mechanism.several
    if size is None:
        if several:
            raise ParameterError("counts are one table. For them leave tables out")
        frames: Callable[..., Iterator[Frames]] = partial(_counted, reading)
        cells = mechanism.counted_cells
        rows = range(_MOST_ROWS) if cells is None else range(cells, cells + 1)
    else:
        frames, rows = partial(_drawn, reading, size, progress), range(0 if mechanism.random_size else size, size + 1)
    return Step(
        name=mechanism.name,
        parameters=mechanism.parameters(),
        domain=mechanism.domain,
        run=partial(_run, mechanism),
        frames=frames,
        guarantee=mechanism.guarantee,
        rows=lambda _n: rows,
        utility=partial(_utility, mechanism),
        public_inputs=mechanism.public_inputs(),
        records=mechanism.made_for,
        counts=size is None,
        tables=several,
        outcome=partial(_outcome, reading),
        require_utility=lambda n, like: require_utility(mechanism, n, size=size, like=like),
        expanded=partial(_expanded, reading, size) if size is not None and mechanism.by_position else None,
        by_value=mechanism.by_value,
        empty=_no_counts(reading) if size is None else None,
        keeps_declared=mechanism.keeps_declared,
    )


def _run(mechanism: Mechanism, x: Any, *, rng: np.random.Generator) -> Any:
    """Run the kernel; refuse a table in parts, or by units, that it cannot read."""
    by_unit = isinstance(mechanism, PartsMechanism) and mechanism.by_unit
    if isinstance(x, Units) != by_unit:
        raise ParameterError(
            "the table must be read by units for votes of units, and for nothing else. Write "
            "confidential(..., unit=..., max_records=..., by_unit=True) together with unit_votes=..."
        )
    if isinstance(x, Counts) or isinstance(mechanism, PartsMechanism):
        return mechanism.kernel(cast(Any, x), rng=rng)
    raise ParameterError(f"{mechanism.name} does not read a table in parts. Give it the counts of confidential()")


def _drawn(
    mechanism: Mechanism, size: int, progress: Callable[..., None] | None, output: Any, *, rng: np.random.Generator
) -> Iterator[Frames]:
    done = 0

    def decoded() -> Frames:
        nonlocal done
        for chunk in mechanism.finish(output, size=size, rng=rng):
            if not mechanism.domain.allowed(chunk).all():
                raise Fault("record declared impossible", mechanism.name)
            yield mechanism.domain.decode(chunk, rng=rng)
            done += len(chunk)
            if progress is not None:
                progress(done)

    for _ in range(mechanism.several or 1):
        yield decoded()


def _expanded(mechanism: Mechanism, size: int, output: Any, *, rng: np.random.Generator) -> Expansion:
    expansion = mechanism.expansion(output, size=size, rng=rng)
    if expansion is None:
        raise Fault("no expansion", mechanism.name)
    return expansion


def _counted(mechanism: Mechanism, output: Any, *, rng: np.random.Generator) -> Iterator[Frames]:
    yield iter([_table(mechanism, mechanism.estimates(output), rng)])


def _no_counts(mechanism: Mechanism) -> pl.DataFrame:
    """Return a table of no counts, or refuse them before anything is drawn."""
    if not mechanism.gives_counts():
        raise ParameterError(f"{mechanism.name} releases records, not counts. Ask for records")
    labels: dict[str, list[str | None]] | None = {name: [] for name in mechanism.count_labels} or None
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


def _outcome(mechanism: Mechanism, output: Any, n: int) -> Mapping[str, Any]:
    told = mechanism.outcome(output, n)
    if told is None:
        return {}
    return {"outcome": told.text, "share_from_data": told.share_from_data, **told.facts}


def _utility(mechanism: Mechanism, n: int) -> dict[str, Any]:
    """Say what share of the release was not going to be from the data, where a public fact says it."""
    words = mechanism.share_in_words(n)
    if mechanism.leaves_out:
        worst = "depends on the data; in the worst case, all"
        words = f"how many of the released records {mechanism.share_is_of} {worst}"
    return {
        "share_not_from_data": None if mechanism.leaves_out else mechanism.share_not_from_data(n),
        "share_at_most": mechanism.most_not_from_data(n),
        "share_in_words": words,
    }


def _size(mechanism: Mechanism, size: int | None) -> int:
    fixed = mechanism.size if isinstance(mechanism, DrawnMechanism) else None
    if fixed is None and size is None:
        raise ParameterError("the number of records to release is needed. Write size=...")
    if fixed is not None and size is not None and size != fixed:
        raise ParameterError(f"size must be {fixed:,}, for which the mechanism was made, got {size:,}")
    return size if fixed is None else fixed  # type: ignore[return-value]  # one of the two is given
