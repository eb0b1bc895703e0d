"""Contents of a release, asked of a mechanism and of the reading of its output: tables, rows, and what they tell."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from discreet import mechanisms, wording
from discreet._core.errors import Fault, ParameterError, positive_size
from discreet._core.formats import Frames
from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet.domain import Domain, Records
from discreet.mechanisms import Contents, Estimates, Forecast, Mechanism, Reading
from discreet.privacy import AttackBudget, Budget, Code, Guarantee, Relation
from discreet.releases.facts import CertificateFacts, GuaranteeFacts, UnitFacts

Progress = Callable[..., None] | None


class MechanismFamily(ABC):
    """Mechanisms of one kind, one for each domain: :meth:`on` gives the mechanism on a domain."""

    __slots__ = ()

    @abstractmethod
    def on(self, domain: Domain, *, progress: Callable[..., None] | None = None) -> Mechanism:
        """Return the mechanism on the domain of the confidential table, or refuse one that it does not fit."""
        # By public facts alone. The kernel calls progress with how far it has come, in public numbers.


def contents_of(mechanism: Mechanism, n: int, *, size: int | None, counts: bool = False) -> Contents:
    """Return what a release of ``n`` records holds, where so many records, or counts, are asked for."""
    # Raises ParameterError when the mechanism does not release that, or does not keep what its domain declares.
    mechanisms.require_kept(mechanism.name, mechanism.domain, keeps=mechanism.traits.keeps_declared)
    contents = mechanism.contents(n, counts=counts)
    if counts:
        if contents.tables:
            raise ParameterError("counts are one table. For them leave tables out")
        if not mechanism.traits.counts:
            raise ParameterError(f"{mechanism.name} releases records, not counts. Ask for records")
        contents = replace(contents, size=None)
        return replace(contents, columns=no_rows(contents).columns)
    if (number := contents.size) is None:
        if size is None:
            raise ParameterError("the number of records to release is needed. Write size=...")
        number = positive_size("size", size)
    elif size not in (None, number):
        raise ParameterError(f"size must be {number:,}, for which the mechanism was made, got {size:,}")
    fewest, most = 0 if contents.domain.units is not None or mechanism.traits.random_size else number, number
    columns = list(contents.domain.row_domain.names)
    if contents.domain.unit is not None:
        slots = [table.number for table in contents.domain.row_tables.values()]
        most, columns = number * max(slots), [contents.domain.unit, *columns]
    return replace(contents, size=number, rows=range(fewest, most + 1), columns=columns)


def certified_mechanism(facts: CertificateFacts) -> Mechanism:
    """Return the mechanism that a certificate states. Raises ParameterError of an unknown name, or its parameters."""
    return mechanisms.certified_type(facts.mechanism.name).from_parameters(
        facts.mechanism.parameters, domain=Domain.from_dict(facts.domain), records=facts.records, size=facts.size
    )


def as_json(domain: Domain) -> Any:
    """Return a domain's declaration as JSON values: dates and times in ISO form, which ``from_dict`` reads back."""
    return json.loads(json.dumps(domain.to_dict(), default=lambda date: date.isoformat()))


def certified_contents(mechanism: Mechanism, facts: CertificateFacts) -> Contents:
    """Return what the release of a certificate holds: counts where neither it nor the mechanism has a size."""
    size = mechanism.contents(facts.records).size or facts.size
    return contents_of(mechanism, facts.records, size=size, counts=size is None)


def certified_release(facts: CertificateFacts) -> tuple[Mechanism, Contents, Guarantee]:
    """Return the mechanism of a certificate, what it released, and what the theorem that is named promises."""
    relation = Relation(name=facts.relation.name, group=facts.relation.group)
    mechanism = certified_mechanism(facts)
    domain = mechanism.domain
    unit = None if domain.unit is None else UnitFacts(column=domain.unit, max_records=domain.max_records)
    if unit is not None and (facts.unit != unit or relation.group > 1):
        raise ParameterError("the certificate's unit must be that of its domain, and all of its rows one record")
    if unit is None and facts.unit is not None and facts.unit.max_records != relation.group:
        raise ParameterError("the certificate's unit and its relation must have the same number of records")
    guarantee = mechanisms.guarantee_named(mechanism, facts.guarantee.theorem, relation, n=facts.records)
    return mechanism, certified_contents(mechanism, facts), guarantee


def no_rows(contents: Contents, table: str = "") -> pl.DataFrame:
    """Return a table of no rows, with the names and types of those that are released; of several, all without one."""
    domain = contents.domain
    nothing = domain.draw_base(0, seeded(0))
    if contents.size is not None:
        return domain.decode(nothing, rng=seeded(0), table=table)
    labels: dict[str, list[str | None]] | None = {name: [] for name in contents.labels} or None
    return _counts(domain, Estimates(nothing, np.empty(0), np.empty(0), labels), seeded(0))


def released_frames(
    mechanism: Mechanism, contents: Contents, reading: Reading, *, rng: np.random.Generator, progress: Progress = None
) -> Iterator[Frames]:
    """Yield the released tables, each a stream of frames: public post-processing of the reading of a twin."""
    if contents.size is None:
        estimates = reading.estimates()
        if estimates is None:
            raise Fault("no counts", mechanism.name)
        yield iter([_counts(mechanism.domain, estimates, rng)])
        return
    names = contents.domain.table_domains
    for table in range(contents.tables or 1):
        chunks, number = reading.draw(contents.size, rng=rng), table * contents.size
        records: Any = chunks
        if len(names) > 1:  # of the same units
            records = list(chunks)
        for name in names:
            facts: dict[str, Any] = {"source": mechanism.name, "number": number, "table": name}
            yield decoded(contents.domain, iter(records), rng=rng, progress=progress, **facts)


def decoded(
    domain: Domain,
    chunks: Iterator[Records],
    *,
    rng: np.random.Generator,
    source: str,
    progress: Progress = None,
    number: int = 0,
    table: str = "",
) -> Frames:
    """Yield records as frames, after a number of earlier ones. Raises Fault at one that is declared impossible."""
    for chunk in chunks:
        if not domain.allowed(chunk).all():
            raise Fault("record declared impossible", source)
        yield domain.decode(chunk, rng=rng, first=number + 1, table=table)
        number += len(chunk)
        if progress is not None:
            progress(number)


def _counts(domain: Domain, estimates: Estimates, rng: np.random.Generator) -> pl.DataFrame:
    if estimates.labels is None:
        described = domain.describe(estimates.records, rng=rng)
    else:
        described = pl.DataFrame(estimates.labels, schema=dict.fromkeys(estimates.labels, pl.String))
    counts = {"count": estimates.counts, "standard_error": estimates.standard_errors}
    for name in counts:
        if name in described.columns:
            raise ParameterError(f"column {name!r} has the name of a column of counts. Rename it")
    return described.with_columns(*(pl.Series(name, values) for name, values in counts.items()))


def utility_facts(mechanism: Mechanism, n: int, forecast: Forecast | None = None) -> dict[str, Any]:
    """Say what share of the release was not going to be from the data, where a public fact says it."""
    forecast, unknown = forecast or mechanism.forecast(n), mechanism.traits.leaves_out
    return {
        "share_not_from_data": None if unknown or math.isnan(forecast.lost) else forecast.lost,
        "share_at_most": forecast.lost_at_most,
        "share_in_words": wording.lost(forecast, unknown=unknown),
    }


SEEDED = ("seeded", "seeded-cut")
"""What a certificate says of randomness where a seed was used."""

_PROFILE_EPSILONS = (0.01, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def headline(guarantee: Guarantee, budget: Budget | None, delta: float = 1e-9) -> float:
    """Return the epsilon that is stated, or the budget's, or the lowest at a delta, or where that has its floor."""
    if guarantee.stated is not None:
        return guarantee.stated[0]
    if budget is not None:
        return budget.epsilon
    return guarantee.epsilon(min(1.0, max(delta, guarantee.delta(math.inf) * (1 + 1e-6))))


def promise(
    mechanism: Mechanism, guarantee: Guarantee, epsilon: float, *, unit: object, attack: AttackBudget | None
) -> GuaranteeFacts:
    """Return the ``guarantee`` of a certificate at an epsilon, or at the guarantee's own, with its profile."""
    delta, epsilon_each = guarantee.delta(epsilon), None
    if guarantee.stated is not None:
        delta, (epsilon, epsilon_each) = 0.0, guarantee.stated
    caveats = list(guarantee.caveats)
    if unit is not None and not (mechanism.domain.tables or mechanism.parameters().get("unit_votes")):
        caveats.append(Code("unused-slots"))
    caveats += delta_caveats(delta, guarantee.n)
    if epsilon > LARGEST_EPSILON:
        caveats.append(Code("epsilon-large", {"limit": 10}))
    return GuaranteeFacts(
        epsilon=epsilon,
        delta=delta,
        epsilon_each=epsilon_each,
        attack=attack,
        profile=[[e, guarantee.delta(e)] for e in _PROFILE_EPSILONS],
        **{**guarantee.to_dict(), "assumptions": list(guarantee.assumptions), "caveats": caveats},
    )


def delta_caveats(delta: float, n: int) -> list[Code]:
    """Say what a delta allows that is not far below one in the number of records; nothing of one that is."""
    return [Code("delta-large", {"records": delta * n})] if delta * n > 0.1 else []


LARGEST_EPSILON = 10.0
"""Above this epsilon a release must be asked for explicitly."""


POOR_UTILITY = 0.2
"""Above this share of records that carry nothing of the data, a release must be asked for explicitly."""


def poor_utility(forecast: Forecast, mechanism: Mechanism, tried: Sequence[str] | None = None) -> str:
    """Return why a release that is mostly not from the data is refused, and what helps: what was tried, or may."""
    least, width = mechanism.traits.least_columns, len(mechanism.domain.columns)
    traits = {name: mechanisms.named(name).traits for name in mechanisms.first_names() if least == 1 and tried is None}
    wide = [name for name, t in traits.items() if 1 < t.least_columns <= width <= t.most_columns]
    return wording.poor_utility(forecast, POOR_UTILITY, wide=wide, tried=tried or ())
