"""From a closed table to a release: a certificate, a run that opens the table, and files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np

from discreet._core.errors import DiscreetWarning, ParameterError, Refused, RelationNotSupported
from discreet._core.formats import DelimitedFile
from discreet._core.lazy import pl
from discreet._core.random import SecureGenerator, public, secure
from discreet.confidential import Confidential
from discreet.confidential.closed import Provenance
from discreet.confidential.count import public_size
from discreet.confidential.public import with_public
from discreet.confidential.rows import Rows
from discreet.domain import Counts, Domain
from discreet.domain.records import Commonness
from discreet.ledger import AddRemove, Ledger, Request, Run
from discreet.mechanisms import Mechanism, Reading
from discreet.mechanisms.base import declared, feasible, require_made_for, twin_of
from discreet.privacy import Budget, Code, Relation
from discreet.privacy.guarantee import RelationName, require_kind
from discreet.releases.certificate import Certificate
from discreet.releases.content import (
    Frames,
    MechanismFamily,
    content_of,
    mechanism_on,
    no_rows,
    outcome_facts,
    released_frames,
    require_utility,
)
from discreet.releases.facts import FileFacts
from discreet.releases.parts import Partitions, Workers, write_parts
from discreet.releases.release import Release, carried, place, write


def publish(
    confidential: Confidential[Counts] | Confidential[Rows],
    mechanism: Mechanism | MechanismFamily,
    *,
    size: int | None = None,
    budget: Budget | None = None,
    relation: RelationName = "replacement",
    out: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    rng: np.random.Generator | None = None,
    accept: Collection[str] = (),
    accept_poor_utility: bool = False,
    like: Commonness | None = None,
    progress: Callable[..., None] | None = None,
    info: dict[str, Any] | None = None,
    form: Literal["records", "counts"] = "records",
    ledger: Ledger | Run | None = None,
    partitions: int | None = None,
    partition_by: str | None = None,
    workers: Workers = 1,
) -> Release:
    """Run a mechanism, or a model, on confidential data once, and return what may be published.

    Parameters
    ----------
    confidential : Confidential of Counts or Rows
        Confidential, as given by :func:`discreet.confidential.confidential`, or in parts by
        :func:`discreet.confidential.confidential_rows` for mechanisms that read it so.
    mechanism : Mechanism, PseudoPosterior or CensoredPosterior
        Public facts only. The domain of a mechanism must be the one the data was encoded with. A posterior becomes a
        mechanism on that domain by its ``on``, which says what fits; a pseudo-posterior needs its ``target_epsilon``.
    size : int, optional
        Number of records to release; needed where the mechanism does not fix it.
    budget : Budget, optional
        When given, a guarantee that does not meet it is refused, and the certificate of a mechanism states it.
    relation : {"replacement", "add-remove"}
        Between which tables the guarantee is to hold. Under add/remove the number of records is confidential: the
        mechanism's own ``records``, declared in public, takes its place in the certificate.
    out : path, optional
        Stream the records to this file instead of returning them: Parquet, CSV or Arrow, by its ending (``.parquet``,
        ``.csv.gz``, ``.feather``, ...). The tables of a model go to a folder of this name, which must not exist:
        ``table-01.parquet`` and so on, and ``certificate.json``.
    certificate : path, optional
        Where to write the certificate; ``OUT.certificate.json`` by default.
    rng : numpy.random.Generator, optional
        None (the default) makes a fresh secure generator. Any other generator marks the release "seeded: not for
        publication" for good; so does another one that cut the rows of units.
    accept : collection of str
        Kinds of guarantee accepted beside ``unconditional``: a pseudo-posterior needs ``{"asymptotic"}``, a censored
        posterior that is not on a grid ``{"empirical"}``.
    accept_poor_utility : bool
        Release even where more than 20 % of the records are expected to carry nothing of the data, or where not one
        record is expected.
    like : Commonness, optional
        How common the records of tables like this one are, for those expectations; by default those of an invented one.
    progress : callable, optional
        Called with the number of records drawn so far, a public number; for a model, with how many draws each chain of
        the current fit has made, and how many it is to make.
    info : dict, optional
        Public facts about the run to keep with the release.
    form : {"records", "counts"}
        Records, or a table of the cells (or labels) with their estimated ``count`` and its ``standard_error``, both in
        records, for the mechanisms that release noisy counts. Its certificate is the same promise.
    ledger : Ledger or Run, optional
        Pays for the release, which is refused where not enough is left. A run that was paid for and entered before the
        table was read (:meth:`discreet.Ledger.pay`) releases what was paid for, and nothing else.
    partitions, partition_by, workers : optional
        See :func:`discreet.release`.

    Returns
    -------
    Release
        Records and certificate.

    Raises
    ------
    GuaranteeKindError, Infeasible, PoorUtility
        When the request is refused; nothing was drawn.
    Refused
        When the chains of a model did not converge, or its target was not met. That this happened depends on the data.
    FileProblem
        When the output cannot be written, or would replace something else than a release with its certificate; what
        was there is then as it was.
    DomainError, ParameterError
        When size, domain and mechanism do not fit together.
    NotPublic
        When what the mechanism was made of is the confidential table.
    """
    divided = Partitions.of(partitions, partition_by, workers)
    facts = confidential.provenance or Provenance(frame_kind="polars", columns=())
    counts, per_record = form == "counts", progress if isinstance(mechanism, Mechanism) else None
    mechanism = mechanism_on(mechanism, facts.domain, size=size, counts=counts, progress=progress)
    confidential = with_public(confidential, mechanism.public_inputs(), domain=mechanism.domain)
    facts = confidential.provenance or facts
    generator = secure() if rng is None else rng
    inputs = (facts.path,)
    paths = None
    if divided is not None:
        divided.require_fit(mechanism, counts=counts)
        if out is None:
            raise ParameterError("a release in parts is a folder that must not exist yet. Write out=...")
    if out is not None:
        several = mechanism.forms.tables is not None
        paths = place(out, certificate, several=several, inputs=inputs, parts=divided is not None)
    between = Relation(name=relation, group=facts.max_records)
    n = _public_number(confidential, mechanism, between)
    content, guarantee = content_of(mechanism, n, size=size, counts=counts), mechanism.guarantee(between, n=n)
    require_kind(guarantee, frozenset(accept))
    if budget is not None:
        feasible(guarantee, budget, f"{budget} with {mechanism.name} {mechanism.parameters()}")
    if not accept_poor_utility:
        require_utility(mechanism, n, size=content.size, like=like)
    marks = {"seeded": not isinstance(generator, SecureGenerator), "seeded_cut": facts.seeded}
    document = Certificate.of(
        mechanism, content, guarantee, budget=budget, unit=facts.unit, public_inputs=dict(facts.public), **marks
    )
    document.to_json()  # what cannot be written is found before anything is drawn
    stated = document.facts.guarantee
    request = Request(
        budget=budget or Budget(epsilon=min(100.0, stated.epsilon), delta=stated.delta),  # beyond, it is no budget
        domain=mechanism.domain,
        relation=AddRemove(records=n) if relation == "add-remove" else "replacement",
        records=(n or None) if relation == "replacement" else None,  # a model may be drawn from its prior
        unit=facts.unit,
        max_records=facts.max_records,
        size=content.size,
        counts=counts,
        seeded=any(marks.values()),
        out=paths or (),
    )
    twin = twin_of(mechanism, content.size)  # made before the kernel sees the table, so that nothing it keeps is read
    with _run_of(ledger, request, mechanism) as run:
        run.assign(mechanism, n=n)
        if run.stamp is not None:
            document = document.paid(run.stamp)
        output = run.execute(confidential, rng=generator)
        reading = twin.reading(output, n=n)
        document = document.releasing(**_outcome(reading, run.request))
        rng = public(generator)
        tables = released_frames(twin, content, reading, rng=rng, progress=per_record)
        if paths is None:
            records, document = _in_memory(tables, document, facts, twin.domain)
            run.commit(document.paid_for)
            run.delivered()
            return Release(records=records, certificate=document, info=info or {})
        if divided is not None:
            document = write_parts(
                twin, content, reading, document, paths[0], divided,
                rng=rng, carried=carried(document, paths[1]), run=run, progress=progress,
            )  # fmt: skip
        else:
            separator = out.separator if isinstance(out, DelimitedFile) else None
            schema = dict(no_rows(twin, content).schema)
            document = write(tables, schema, document, paths, inputs=inputs, run=run, separator=separator)
        return Release(records=None, certificate=document, info=info or {}, path=paths[0], certificate_path=paths[1])


def _run_of(ledger: Ledger | Run | None, request: Request, mechanism: Mechanism) -> AbstractContextManager[Run]:
    """Return the run of a request; one that was paid for already is in its own block, and must be for such a table."""
    if isinstance(ledger, Run):
        if request.between != ledger.request.between:
            raise Refused("another relation or max_records was paid for. Pay for the one of this release")
        return nullcontext(ledger)
    return Run.unpaid(request) if ledger is None else ledger.pay(request, mechanism)


def _outcome(reading: Reading, request: Request) -> dict[str, Any]:
    """Return what the output tells about its use, and that it was kept where others may draw from it."""
    told = dict(outcome_facts(reading))
    if request.checkpoint is not None:
        told = {"share_from_data": None, **told, "outcome": [*told.get("outcome", []), Code("votes-kept")]}
    return told


def _public_number(confidential: Confidential[Any], mechanism: Mechanism, relation: Relation) -> int:
    """Return the number of records that a certificate holds: the true one under replacement, public by definition."""
    if relation.name != "replacement":
        if (records := declared(mechanism, "records")) is None:
            raise RelationNotSupported(mechanism.name, relation.name, "it must declare a number of records in public")
        return records
    n = public_size(confidential)
    require_made_for(declared(mechanism, "records"), n)
    return n


def _in_memory(
    tables: Iterator[Frames], document: Certificate, facts: Provenance, domain: Domain
) -> tuple[Any, Certificate]:
    """Return tables as they are given to the caller, and the certificate that says how many rows they have."""
    whole = [pl.concat(list(frames)) for frames in tables]
    document = document.holding([FileFacts(file=None, rows=table.height, sha256=None) for table in whole])
    records = [_returned(table, facts, domain) for table in whole]
    return records if document.several else records[0], document


def _returned(table: pl.DataFrame, facts: Provenance, domain: Domain) -> Any:
    """Return a table as the kind of table that came in. Nothing that its library says may lose what was paid for."""
    if facts.returned is None:
        return table
    try:
        return facts.returned(table, domain)
    except Exception:  # noqa: BLE001  # a session that has ended, a disk that is full, a version that differs
        said = f"{facts.frame_kind} did not take the released table, which is a Polars table instead"
        warnings.warn(DiscreetWarning(said), stacklevel=2)
        return table
