"""The crossing: what :func:`publish` returns is public under a guarantee although it opened the table.

It is the only one. Who else opens confidential values, and what for, is the closed list in ``confidential/opening.py``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from discreet._core.errors import DiscreetWarning, ParameterError, Refused, RelationNotSupported
from discreet._core.formats import DelimitedFile
from discreet._core.lazy import pl
from discreet._core.random import SecureGenerator, public, secure
from discreet._core.writing import canonical
from discreet.confidential import Confidential
from discreet.confidential.closed import Provenance
from discreet.confidential.count import public_size
from discreet.confidential.opening import open_confidential
from discreet.confidential.public import with_public
from discreet.confidential.rows import Rows
from discreet.domain import Counts, Domain
from discreet.domain.records import Commonness
from discreet.ledger import Ledger
from discreet.ledger.payment import Held, Payment, hash_of
from discreet.mechanisms import Mechanism
from discreet.mechanisms.base import feasible, require_made_for
from discreet.mechanisms.steps import SteppedMechanism
from discreet.privacy import Budget, Guarantee, Relation
from discreet.privacy.guarantee import RelationName, require_kind
from discreet.releases.certificate import Certificate
from discreet.releases.parts import Partitions, Workers, write_parts
from discreet.releases.release import Release, carried, place, write
from discreet.releases.step import Frames, Publishable, Step, step_of


def publish(
    confidential: Confidential[Counts] | Confidential[Rows],
    mechanism: Mechanism | Publishable,
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
    ledger: Ledger | Payment | None = None,
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
        Public facts only. The domain of a mechanism must be the one the data was encoded with. A model says in its
        ``step`` which domains it fits; a pseudo-posterior needs its ``target_epsilon``.
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
    ledger : Ledger or Payment, optional
        Pays for the release, which is refused where not enough is left. A payment that was reserved and opened before
        the table was read (:meth:`discreet.Ledger.reserve`) pays whatever happens since.
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
    step = step_of(
        _continuing(mechanism, ledger.checkpoint) if isinstance(ledger, Payment) else mechanism,
        getattr(confidential.provenance, "domain", None),
        size=size,
        counts=form == "counts",
        progress=progress,
    )
    confidential = with_public(confidential, step.public_inputs, domain=step.domain)
    facts = confidential.provenance or Provenance(frame_kind="polars", columns=())
    generator = secure() if rng is None else rng
    inputs, several = (facts.path,), step.tables is not None
    paths = None
    if divided is not None:
        divided.require_fit(step)
        if out is None:
            raise ParameterError("a release in parts is a folder that must not exist yet. Write out=...")
    if out is not None:
        paths = place(out, certificate, several=several, inputs=inputs, parts=divided is not None)
    between = Relation(name=relation, group=facts.max_records)
    guarantee = step.guarantee(between, n=_public_number(confidential, step, between))
    require_kind(guarantee, frozenset(accept))
    if budget is not None:
        feasible(guarantee, budget, f"{budget} with {step.name} {step.parameters}")
    if not accept_poor_utility:
        step.require_utility(guarantee.n, like)
    marks = {"seeded": not isinstance(generator, SecureGenerator), "seeded_cut": facts.seeded}
    document = Certificate.of(
        step, guarantee, budget=budget, unit=facts.unit, public_inputs=dict(facts.public), **marks
    )
    document.to_json()  # what cannot be written is found before anything is drawn
    closed: Confidential[Any] = confidential
    seeded = any(marks.values())
    with _paid(ledger, budget, document, guarantee, step, unit=facts.unit, seeded=seeded, out=paths) as payment:
        if payment is not None:
            document = document.paid(payment.stamp)
        output = step.run(open_confidential(closed, caller=__name__), rng=generator)
        reading = step.reading(output, n=guarantee.n)
        document = document.releasing(**step.outcome(reading))
        if paths is not None and divided is not None:
            document = write_parts(
                step,
                reading,
                document,
                paths[0],
                divided,
                rng=public(generator),
                carried=carried(document, paths[1]),
                payment=payment,
                progress=progress,
            )
            return Release(
                records=None, certificate=document, info=info or {}, path=paths[0], certificate_path=paths[1]
            )
        tables = step.frames(reading, rng=public(generator))
        if paths is not None:
            separator = out.separator if isinstance(out, DelimitedFile) else None
            schema = dict(step.nothing().schema)
            document = write(tables, schema, document, paths, inputs=inputs, payment=payment, separator=separator)
            return Release(
                records=None, certificate=document, info=info or {}, path=paths[0], certificate_path=paths[1]
            )
        records, document = _in_memory(tables, document, facts, step.domain)
        if payment is not None:
            payment.commit(document.paid_for)
            payment.delivered()
        return Release(records=records, certificate=document, info=info or {})


def _continuing(mechanism: Mechanism | Publishable, held: Held | None) -> Mechanism | Publishable:
    """Return the mechanism, bound to the checkpoint that its payment was made for. Raises Refused when it has another.

    A payment for a run that goes on from a checkpoint is for the steps that are not in it, so nothing else may run.
    """
    if held is None:
        return mechanism
    path = mechanism.checkpoint if isinstance(mechanism, SteppedMechanism) else None
    if path is not None and os.fspath(canonical(Path(path))) == held.path:
        return cast("Mechanism", cast("SteppedMechanism", mechanism).paid_from(held.steps, held.sha256))
    raise Refused(f"the payment is for a run with the checkpoint {held.path}. Release the mechanism that keeps it")


@contextmanager
def _paid(
    ledger: Ledger | Payment | None,
    budget: Budget | None,
    document: Certificate,
    guarantee: Guarantee,
    step: Step,
    *,
    unit: str | None,
    seeded: bool,
    out: tuple[Path, Path] | None,
) -> Iterator[Payment | None]:
    """Give the opened payment for a release, once what it costs is known and allowed; None where nobody keeps books."""
    if ledger is None:
        yield None
        return
    stated = document.facts["guarantee"]
    asked = Budget(epsilon=stated["epsilon"], delta=stated["delta"]) if budget is None else budget
    mechanism = {"name": step.name, "parameters": step.parameters}
    cells = hash_of(step.domain)
    made = {"mechanism": mechanism, "size": step.size(guarantee.n), "records": guarantee.n, "cells": cells}
    own = step.pure is not None
    if isinstance(ledger, Payment):
        ledger.due(guarantee, asked, unit=unit, made=made, seeded=seeded, as_stated=own)
        yield ledger
        return
    reserved = ledger.reserve(
        epsilon=asked.epsilon,
        delta=asked.delta,
        guarantee=None if own else guarantee,
        kind=guarantee.kind,
        relation=guarantee.relation.name,
        unit=unit,
        max_records=guarantee.relation.group,
        seeded=seeded,
        domain=step.domain,
        out=out or (),
    )
    with reserved as payment:
        payment.due(guarantee, asked, unit=unit, made=made, as_stated=own)
        yield payment.open()


def _public_number(confidential: Confidential[Any], step: Step, relation: Relation) -> int:
    """Return the number of records that a certificate holds: the true one under replacement, public by definition."""
    if relation.name != "replacement":
        if step.records is None:
            raise RelationNotSupported(step.name, relation.name, "it must declare a number of records in public")
        return step.records
    n = public_size(confidential)
    require_made_for(step.records, n)
    return n


def _in_memory(
    tables: Iterator[Frames], document: Certificate, facts: Provenance, domain: Domain
) -> tuple[Any, Certificate]:
    """Return tables as they are given to the caller, and the certificate that says how many rows they have."""
    whole = [pl.concat(list(frames)) for frames in tables]
    document = document.holding([{"file": None, "rows": table.height, "sha256": None} for table in whole])
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
