"""From a closed table to a release: the offer, the run that opens the table, and the files."""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discreet import mechanisms, wording
from discreet._core.errors import DiscreetWarning, PoorUtility, Refused, RelationNotSupported
from discreet._core.formats import DelimitedFile, Frames
from discreet._core.lazy import pl
from discreet._core.random import SecureGenerator, fresh_identity, public
from discreet.confidential import Confidential, Provenance
from discreet.domain import Commonness, Domain
from discreet.ledger import Request, Run
from discreet.mechanisms import Contents, Forecast, Mechanism
from discreet.privacy import Budget, Code, Guarantee, require_kind
from discreet.releases import content
from discreet.releases import facts as fields
from discreet.releases.certificate import FOLDER_CERTIFICATE, PARTS_CERTIFICATE, SCHEMA, Certificate
from discreet.releases.content import Progress
from discreet.releases.facts import CertificateFacts, FileFacts
from discreet.releases.release import Release
from discreet.releases.writing import require_parts, save_output, write


class Offer(NamedTuple):
    """A mechanism, and what it gives for a request of ``n`` records: ``contents`` under ``guarantee``. Public."""

    mechanism: Mechanism
    n: int
    contents: Contents
    guarantee: Guarantee
    forecast: Forecast
    parameters: dict[str, Any]


def offer_of(mechanism: Mechanism, request: Request, n: int, profile: Commonness | None = None) -> Offer:
    """Return what a mechanism offers for a request of a table of ``n`` records, by public facts alone."""
    # Raises GuaranteeKindError, Infeasible, PoorUtility or ParameterError where that is not what was asked for.
    request.require_steps(type(mechanism))
    require_promise(request, n)
    made_for = mechanisms.declared(mechanism, "records")
    if made_for is None and request.between.name != "replacement":
        raise RelationNotSupported(mechanism.name, "add-remove", "it must declare a number of records in public")
    mechanisms.require_made_for(made_for, n)
    contents = content.contents_of(mechanism, n, size=request.size, counts=request.counts)
    require_parts(request.output, mechanism.domain, records=contents.tables is None and contents.size is not None)
    guarantee = mechanism.guarantee(request.between, n=n)
    require_kind(guarantee, request.accept)
    if (budget := request.attack or request.budget) is not None:
        mechanisms.require_budget(guarantee, budget, f"{budget} with {mechanism.name} {mechanism.parameters()}")
    if why := weak_attack(request, guarantee):
        raise Refused(why)
    forecast = mechanism.forecast(n, profile)
    if "poor-utility" not in request.accept:
        if forecast.lost > content.POOR_UTILITY:
            raise PoorUtility(content.poor_utility(forecast, mechanism))
        if contents.size is not None and (expected := contents.size * forecast.released_share) < 1.0:
            raise PoorUtility(wording.no_records(expected, contents.size))
    return Offer(mechanism, n, contents, guarantee, forecast, mechanism.parameters())


def require_promise(request: Request, n: int | None) -> None:
    """Refuse a budget that promises next to nothing, of ``n`` records where that is known. Raises Refused."""
    if request.budget is None or "weak-promise" in request.accept:
        return
    if why := wording.weak_promise(request.budget, n, content.LARGEST_EPSILON):
        raise Refused(why)


def weak_attack(request: Request, guarantee: Guarantee) -> str:
    """Return why what limits an attacker enough promises next to nothing besides; nothing of what promises more."""
    if request.attack is None or "weak-promise" in request.accept:
        return ""
    return wording.weak_promise(budget_of(guarantee), guarantee.n, content.LARGEST_EPSILON, wanted=str(request.attack))


def budget_of(guarantee: Guarantee, ledger: Any = None) -> Budget:
    """Return the budget that a guarantee meets, where none was asked for: of a tenth of the delta that a ledger has."""
    # None has an epsilon above 100. What promises less is released as it is, and its certificate states delta there.
    delta = 1e-9
    if ledger is not None:
        delta = min(delta, 0.1 * ledger.status().left["delta"])
    epsilon = content.headline(guarantee, None, delta)
    return Budget(epsilon=min(100.0, epsilon), delta=0.0 if guarantee.stated else guarantee.delta(epsilon))


def carry_out(
    run: Run,
    confidential: Confidential[Any] | None,
    offer: Offer,
    *,
    rng: np.random.Generator,
    progress: Progress = None,
    info: dict[str, Any] | None = None,
    output_file: tuple[Path, str] | None = None,
    waiting: tuple[Certificate, Any] | None = None,
) -> Release:
    """Run a mechanism on confidential data once, by a run that is entered, and return what may be published."""
    # output_file: where the kernel's output waits until it is written, with the digest of its request. waiting: that of
    # a run that died; no table is opened.
    # Raises Refused when the chains of a model did not converge, or FileProblem when the output cannot be written.
    mechanism, contents, request = offer.mechanism, offer.contents, run.request
    if mechanism.parameters() != offer.parameters:
        raise Refused("the mechanism was changed after it was looked at. Nothing is released. Make another one instead")
    facts = getattr(confidential, "provenance", None) or Provenance(frame_kind="polars", columns=())
    twin = mechanisms.twin_of(mechanism, contents.size)  # before the kernel sees the table: nothing it keeps is read
    if waiting is not None:
        document, output = waiting
    elif confidential is not None:
        document = _promised(run, offer, facts, seeded=not isinstance(rng, SecureGenerator))
        document.to_json()  # what cannot be written is found before anything is drawn
        run.assign(mechanism, n=offer.n)
        output = run.execute(confidential, rng=rng)
        if output_file is not None and not request.seeded:
            output = save_output(*output_file, output, document, run)
    reading = twin.reading(output, n=offer.n)
    draws = public(rng)
    outcome = reading.outcome() or mechanisms.Outcome(())
    codes = [*outcome.codes, *reading.losses(offer.guarantee.relation, contents, rng=draws)]
    if request.checkpoint is not None:
        codes.append(Code("votes-kept"))
    document = document.releasing(outcome=codes, share_from_data=outcome.share_from_data, **outcome.facts)
    tables = content.released_frames(twin, contents, reading, rng=draws, progress=progress)
    if not request.out:
        records, document = _in_memory(tables, document, facts, twin.domain)
        run.commit(document.paid_for)
        run.deliver()
        return Release(records=records, certificate=document, info=info or {})
    path, out = request.out[0], request.output
    if out.partitions is not None:
        from discreet.releases.parts import write_parts

        where = path / PARTS_CERTIFICATE
        document = write_parts(twin, contents, reading, document, rng=draws, run=run, progress=progress)
    else:
        where = path / FOLDER_CERTIFICATE if document.several else request.out[1]
        separator = out.path.separator if isinstance(out.path, DelimitedFile) else None
        schemas = [dict(content.no_rows(contents, name).schema) for name in twin.domain.table_domains]
        options: dict[str, Any] = {"form": out.format, "separator": separator}
        document = write(tables, schemas, document, (path, where), inputs=(facts.path,), run=run, **options)
    run.deliver()
    return Release(records=None, certificate=document, info=info or {}, path=path, certificate_path=where)


def go_on(run: Run, mechanism: Mechanism | None, waiting: tuple[Certificate, Any], **options: Any) -> Release:
    """Write the output of a run that died. ``mechanism``: where it is known without the table, which is not opened."""
    facts = waiting[0].facts
    why = f"drawn and paid for by a run that died ({facts.created})"
    request = replace(run.request, accept=run.request.accept | {"poor-utility"})  # it was looked at with a reference
    offer = offer_of(mechanism or content.certified_mechanism(facts), request, facts.records)
    info = {**content.utility_facts(offer.mechanism, offer.n), "mechanism": offer.mechanism.name, "why": why}
    if run.request.watch.announce is not None:
        run.request.watch.announce(why)
    return carry_out(run, None, offer, waiting=waiting, info=info, **options)


def _promised(run: Run, offer: Offer, facts: Provenance, *, seeded: bool) -> Certificate:
    """Return the certificate of a release before the private step: ``released`` is completed by what is released."""
    mechanism, guarantee, request = offer.mechanism, offer.guarantee, run.request
    relation, unit, randomness = guarantee.relation, request.column, mechanism.traits.randomness
    epsilon = content.headline(guarantee, request.budget)
    if seeded:
        randomness = "seeded"
    elif facts.seeded:
        randomness = "seeded-cut"
    promised = CertificateFacts(
        discreet_certificate=SCHEMA,
        library=fields.LibraryFacts(name="discreet", version=version("discreet")),
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        identity=None if seeded else fresh_identity(),  # a seeded release is the same, byte for byte
        mechanism=fields.MechanismFacts(name=mechanism.name, parameters=mechanism.parameters()),
        domain=content.as_json(mechanism.domain),
        records=guarantee.n,
        size=offer.contents.size,
        relation=fields.RelationFacts(name=relation.name, group=relation.group),
        unit=fields.UnitFacts(column=unit, max_records=request.covered.group) if unit else None,
        public_inputs=dict(facts.public),
        guarantee=content.promise(mechanism, guarantee, epsilon, unit=unit, attack=request.attack),
        randomness=randomness,
        released=fields.ReleasedFacts(columns=list(offer.contents.columns), tables=[]),
        ledger=None if (stamp := run.stamp) is None else fields.LedgerFacts(**stamp),
    )
    return Certificate(facts=promised, forecast=content.utility_facts(mechanism, guarantee.n))


def _in_memory(
    tables: Iterator[Frames], document: Certificate, facts: Provenance, domain: Domain
) -> tuple[Any, Certificate]:
    """Return tables as the kind that came in, and the certificate that says how many rows they have."""
    # Nothing that a table's library says may lose what was paid for.
    polars = [pl.concat(list(frames)) for frames in tables]
    document = document.releasing(tables=[FileFacts(file=None, rows=table.height, sha256=None) for table in polars])
    records: list[Any] = polars
    if facts.returned is not None:
        try:
            parts = cycle(domain.table_domains.values())
            records = [facts.returned(table, part) for table, part in zip(polars, parts, strict=False)]
        except Exception:  # noqa: BLE001  # a session that has ended, a disk that is full, a version that differs
            message = f"{facts.frame_kind} did not take the released table, which is a Polars table instead"
            warnings.warn(DiscreetWarning(message), stacklevel=2)
    return document.grouped(records) if document.several else records[0], document
