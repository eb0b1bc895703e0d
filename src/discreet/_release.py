"""The one door: a request, the mechanism that meets it, the payment, and the release."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from discreet import AddRemove, Output, Replacement, Watch, mechanisms, planner, releases, wording
from discreet._core.boundary import sealed
from discreet._core.errors import ParameterError, shown, unfit
from discreet._core.files import check_outputs, check_writable, locked
from discreet._core.random import secure, seeded
from discreet._core.text import counted, counted_up, sentence
from discreet.confidential import (
    Confidential,
    confidential,
    confidential_rows,
    open_declared,
    public_domain,
    public_size,
    public_table,
    refuse_same,
    require_unit,
    with_public,
)
from discreet.domain import Domain, escaped
from discreet.ledger import Ledger, PlannedRelease, Request, Run, ledger_for, reopened
from discreet.mechanisms import Mechanism, PartsMechanism
from discreet.privacy import AnyBudget, Unit
from discreet.releases import MechanismFamily, Offer, Release

Path_ = str | os.PathLike[str]

_MOVED = {
    "epsilon": "Budget(epsilon=...), the third argument",
    "delta": "Budget(epsilon=..., delta=...), the third argument",
    "max_records": "unit=Unit(..., max_records=...)",
    "ignore_other_columns": "accept={'other-columns'}",
    "accept_poor_utility": "accept={'poor-utility'}",
    "records": "relation=Replacement(records=...)",
    "part": "ledger=Ledger(...).part(...)",
    "rng": "seed=...",
    "form": "counts=True",
    "progress": "watch=Watch(progress=...)",
    "checkpoint": "out=Output(checkpoint=...)",
    **{name: f"out=Output(..., {name}=...)" for name in ("certificate", "partitions", "partition_by", "workers")},
}


@sealed
def release(
    data: Any,
    domain: Domain | Path_ | None = None,
    budget: AnyBudget | None = None,
    *,
    size: int | None = None,
    counts: bool = False,
    mechanism: str | Mechanism | MechanismFamily | None = None,
    relation: Replacement | AddRemove = Replacement(),  # frozen
    unit: Unit | None = None,
    reference: Any = None,
    out: Path_ | Output | None = None,
    ledger: Ledger | PlannedRelease | Path_ | None = None,
    accept: Collection[str] = (),
    seed: int | None = None,
    watch: Watch = Watch(),  # frozen
    **parameters: Any,
) -> Release:
    """Release a synthetic table with an exact differential-privacy guarantee.

    There are three roads. Without ``mechanism`` the plan chooses one from public facts alone. With a name, that
    mechanism is calibrated to the budget, and its own parameters may be given beside it. A mechanism that is calibrated
    already, or a model, runs as it is.

    Parameters
    ----------
    data : dataframe, path, mapping or Confidential
        Confidential: pandas, Polars, PyArrow, DuckDB, Dask, PySpark, Ibis, a stream of
        Arrow batches, the path of a file or of a folder of Parquet files, or the address of a table or a query; or what
        :func:`discreet.confidential.confidential` made of one, which lists them. Of a domain with ``units``, a mapping
        of both tables by their names, or a folder with one file or folder of each name.
    domain : Domain or path
        Public facts about the columns, or the TOML file that declares them. A table that is closed has its own.
    budget : Budget, Risk, Advantage or Success
        The most that the release may spend. ``delta = 0`` asks for pure differential privacy. The others say what the
        best attacker may reach, and the mechanism's own profile is calibrated to that. A mechanism that is given
        as an object has its own cost, and is refused where that is above a budget.
    size : int
        Number of records to release. Not needed for counts, nor for a mechanism that is made for a number.
    counts : bool
        Release a table of the cells with their estimated counts and standard errors instead of records.
    mechanism : str, Mechanism, PseudoPosterior or CensoredPosterior, optional
        Registry name, a mechanism on this domain, or a model. By default the mechanism with the least error predicted
        from public facts, among those that have the relation and release what is asked for; with a ``unit`` whose rows
        can be one record, ``marginals``, whatever is predicted of single rows.
    relation : Replacement or AddRemove
        Between which tables the guarantee holds, and the number of records, where it is declared. ``marginals`` and
        ``private-evolution`` have theorems for :class:`AddRemove`.
    unit : Unit, optional
        The person, or other privacy unit, behind the rows; by default each row is one. ``marginals`` releases units
        with all their rows, as of a table of units in the domain: numbers of records are then those of units. Where the
        domain or the request has what such tables lack, and by other mechanisms, rows are released by themselves.
    reference : dataframe or path, optional
        A **public** table that this one is expected to look like, for the choice of the mechanism: see
        :func:`discreet.planner.plan`.
    out : path or Output, optional
        Write the records to this file instead of returning them: Parquet, CSV or Arrow, by its ending.
        :class:`Output` says more: parts, checkpoint, another name of the certificate.
    ledger : Ledger, its part, or path, optional
        The ledger that pays for the release: see :class:`discreet.Ledger`; ``ledger.part(name)`` for a release of a
        plan that it has paid for. By default the one that the domain's file names in ``[ledger]``, else that of the
        environment variable DISCREET_LEDGER, else none.
    accept : collection of str
        What is accepted beyond the usual. ``"poor-utility"``: more than 20 % of the records are expected to carry
        nothing of the data, or not one record is expected. ``"weak-promise"``: a budget whose epsilon is above 10, or
        whose delta is above one in the number of records. ``"other-columns"``: the table has columns that the domain
        does not name, and they are left out. ``"asymptotic"`` and ``"empirical"``: a guarantee of this kind, of a
        pseudo-posterior and of a censored posterior that is not on a grid. ``"data-dependent-refusal"``: with a ledger,
        a value that does not fit forfeits the release, where ``out_of_bounds`` of its column is an error.
    seed : int, optional
        For tests and studies: marks the release as not for publication.
    watch : Watch, optional
        Functions to call on the way.
    **parameters
        Parameters of a mechanism that is named, given instead of solved for. Public points may be given as the path of
        a **public** table. ``tables``, the number of tables, chooses ``marginals``, which draws each from the posterior
        of what it measured, at no further privacy cost. ``sampling`` may be given without a name too: records are drawn
        from noisy counts stratified by default, which has less sampling error at no privacy cost, or ``"iid"``.
        ``outcome`` names one to three columns that the others are to predict, in place of the domain's.

    Returns
    -------
    Release
        Records as the kind of table that came in (Polars for files, a PyArrow table for streams), certificate and info.
        Several tables are a list.

    Raises
    ------
    NotPublic
        When ``reference``, ``domain`` or a public parameter is the confidential table.
    Refused
        When the ledger does not have enough left, and the table was not opened; or when the chains of a model did not
        converge.
    DiscreetError
        In its other subclasses, for bad input, infeasible and refused requests. Nothing is then written.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet import Budget, release
    >>> from discreet.domain import Domain, Integer
    >>> ages = pl.DataFrame({"age": [34, 35, 36, 37] * 5000})
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=99)})
    >>> synthetic = release(ages, domain, Budget(epsilon=1.0, delta=1e-9), size=1000)
    >>> synthetic.records.shape
    (1000, 1)
    >>> synthetic.certificate.delta <= 1e-9
    True
    """
    outcome = parameters.pop("outcome", None)
    names = mechanisms.parameter_names(mechanisms.named(mechanism)) if isinstance(mechanism, str) else ()
    planner.require_current([name for name in parameters if name not in names], _MOVED)
    refuse_same(data, reference, *parameters.values())
    base, unit = _domain_and_unit(data, domain, unit, outcome)
    calibrated = _calibrated(mechanism, base, parameters, watch)
    parameters = {name: value for name, value in parameters.items() if (name, value) != ("tables", 1)}  # as without it
    if mechanism is None and "tables" in parameters:
        kinds = map(mechanisms.named, mechanisms.first_names())
        mechanism = next(kind.name for kind in kinds if "tables" in mechanisms.parameter_names(kind))
    request = Request(
        budget=cast(Any, budget),
        domain=base,
        relation=_relation_of(data, calibrated, relation),
        unit=unit,
        size=size,
        counts=counts,
        mechanism=mechanism if isinstance(mechanism, str) else None,
        parameters=parameters,
        accept=frozenset({accept} if isinstance(accept, str) else accept),
        seeded=seed is not None,
        output=out if isinstance(out, Output) else Output(out),
        watch=watch,
    )
    request, notes = planner.with_units(
        request, calibrated, reference is not None, isinstance(data, Confidential), isinstance(ledger, PlannedRelease)
    )
    base = request.domain or base
    releases.require_promise(request, request.relation.records)
    if calibrated is None:
        planner.require_complete(request)
    else:  # a size that it does not release is refused before anything is opened
        releases.contents_of(calibrated, request.relation.records or 1, size=size, counts=counts)
    payer = ledger if isinstance(ledger, PlannedRelease) else ledger_for(ledger, domain)
    book: Any = getattr(payer, "ledger", payer)
    sources = data.values() if isinstance(data, Mapping) else [data]
    files, digest = request.kept_output(*sources, reference, book and book.dataset)
    waiting = releases.read_output(files[0], digest) if any(map(os.path.lexists, files)) else None
    request = _with_files(request, calibrated, inputs=(*sources, domain, reference, *parameters.values()))
    rng = secure() if seed is None else seeded(seed)
    read = _reader(data, request, calibrated, rng, opened=waiting is None)

    like = None if reference is None else public_table(reference, base)
    facts = planner.PublicFacts(domain=base, n=request.relation.records, reference=like)
    why, offer = "" if calibrated is None else f"{calibrated.name}: given", None
    if (n := facts.n) is not None:
        if calibrated is None:
            calibrated, why = planner.chosen_mechanism(request, facts)
        facts = replace(facts, domain=calibrated.domain)
        offer = releases.offer_of(calibrated, request, n, facts.commonness)
        budget = request.budget or releases.budget_of(offer.guarantee, request.attack and book)
        request = replace(request, budget=budget)
    progress = None if isinstance(mechanism, MechanismFamily) else watch.progress
    with (
        locked(*files),
        reopened(book, request, waiting[0].facts.ledger, files[0])
        if waiting
        else _paid(payer, request, calibrated) as run,
    ):
        if waiting is not None:
            return releases.go_on(run, calibrated, waiting, rng=rng, progress=progress)
        closed, facts = read(facts)
        if calibrated is None:
            calibrated, why = planner.chosen_mechanism(request, facts)
        if calibrated.domain != facts.domain:
            closed, facts = read(replace(facts, domain=calibrated.domain))
        closed = with_public(closed, mechanisms.public_inputs(calibrated), domain=calibrated.domain)
        offer = offer or releases.offer_of(calibrated, request, facts.n or 0, facts.commonness)
        why = ". ".join([*notes, *planner.chosen_cells(base, calibrated.domain), why])
        if watch.announce is not None:
            _announce(request, offer, why, facts, watch.announce)
        return releases.carry_out(
            run,
            closed,
            offer,
            rng=rng,
            progress=progress,
            output_file=(files[0], digest) if files else None,
            info={
                **releases.utility_facts(calibrated, offer.n, offer.forecast),
                "mechanism": calibrated.name,
                "why": why,
                "share_not_from_data": offer.forecast.lost,
            },
        )


def _domain_and_unit(data: Any, domain: Any, unit: Unit | None, outcome: Any) -> tuple[Domain, Unit | None]:
    """Return the declared domain and the privacy unit; a table that is closed was counted with its own."""
    if not isinstance(data, Confidential):
        if domain is None:
            raise ParameterError(
                "the domain is missing: what is public about the columns. Write release(data, domain, ...)"
            )
        base = public_domain(domain, data=data)
        return (base if outcome is None else replace(base, outcome=outcome)), unit
    if outcome is not None:
        raise ParameterError("the closed table was counted on a domain with its own outcome. Leave the outcome out")
    if (facts := data.provenance) is None or facts.domain is None:
        raise ParameterError("the confidential table must be encoded with a domain. Use confidential(data, domain)")
    if domain is not None and public_domain(domain, data=data) != facts.domain:
        raise ParameterError("the closed table was counted on another domain. Leave the domain out")
    if unit not in (None, facts.unit):
        raise ParameterError("the closed table was read with another unit. Leave the unit out")
    return facts.domain, facts.unit


def _relation_of(data: Any, calibrated: Mechanism | None, relation: Any) -> Any:
    """Return the relation. Under replacement a closed table's number of records is public, as is a mechanism's."""
    if not isinstance(relation, Replacement):
        return relation
    n = None
    if isinstance(data, Confidential):
        n = public_size(data)
        if relation.records is not None:
            _require_same_number(relation.records, n)
    elif calibrated is not None:
        n = mechanisms.declared(calibrated, "records")
    return Replacement(records=relation.records or n or None)


def _require_same_number(stated: int | None, n: int | None) -> None:
    if stated != n:
        raise ParameterError(
            f"relation=Replacement(records=...) says {stated:,}, and the table has {n:,}. Give the table's number, "
            "which is public under replacement, or leave it out"
        )


def _calibrated(mechanism: Any, domain: Domain, parameters: Mapping[str, Any], watch: Watch) -> Mechanism | None:
    """Return the mechanism that is given as an object, or is that of a model; None where one is to be calibrated."""
    if mechanism is None or isinstance(mechanism, str):
        return None
    if parameters:
        raise ParameterError(f"a mechanism that is given has its parameters. Leave {next(iter(parameters))!r} out")
    if isinstance(mechanism, MechanismFamily):
        return mechanism.on(domain, progress=watch.progress)
    if not isinstance(mechanism, Mechanism):
        raise unfit("mechanism", "a name, a Mechanism, a PseudoPosterior or a CensoredPosterior", mechanism)
    if mechanism.domain != domain:
        raise ParameterError("the mechanism was made for another domain than the table's. Give both the same")
    return mechanism


def _with_files(request: Request, calibrated: Mechanism | None, *, inputs: tuple[Any, ...]) -> Request:
    """Return the request with the files that it writes, once they are known to be writable and to be no inputs."""
    output, checkpoint, several = request.output, request.checkpoint, request.several
    if calibrated is not None:
        several = calibrated.contents(request.relation.records or 1).tables is not None
    several = several or (request.domain is not None and request.domain.units is not None)
    parts, announce = output.partitions is not None, request.watch.announce or (lambda _: None)
    releases.require_parts(output, request.domain, records=not (several or request.counts))
    files: tuple[Path, ...] = ()
    if output.path is not None:
        room = (request.size or 0) * len((request.domain or Domain(columns={})).names) // 8  # a field: about a bit
        others = [] if checkpoint is None else [Path(checkpoint.path)]
        files = releases.place(output, several=several, inputs=inputs, outputs=others, room=room)
        if several or parts:
            files = files[:1]
        elif files[0].exists():
            announce(f"{files[0]} exists and will be replaced. The earlier release spent privacy of its own")
    if checkpoint is not None:
        check_outputs([*files, Path(checkpoint.path)], inputs)
        check_writable(Path(checkpoint.path))
        if done := mechanisms.checkpoint_state(checkpoint.path)[0]:
            text = f"{checkpoint.path} holds {counted(done, 'step')}, taken as released"
            redraw = ". Where all are done, the table is not asked again" if checkpoint.redraw else ""
            announce(f"{text}. The file must be of this same table{redraw}")
    return replace(request, out=files)


def _reader(
    data: Any, request: Request, calibrated: Mechanism | None, rng: np.random.Generator, *, opened: bool
) -> Callable[[planner.PublicFacts], tuple[Confidential[Any], planner.PublicFacts]]:
    """Return what closes the confidential table; what cannot be read is refused before it is opened."""
    kind, records, source = request.mechanism_type, None, data
    if kind is not None:
        mechanisms.require_known(kind, planner.with_sampling(kind, request.parameters))
    if calibrated is not None:
        kind, records = type(calibrated), mechanisms.declared(calibrated, "records")
    in_parts = kind is not None and issubclass(kind, PartsMechanism)
    voted = isinstance(calibrated, PartsMechanism) and calibrated.by_unit
    by_unit = voted or bool(request.parameters.get("unit_votes"))
    if opened and not isinstance(data, Confidential):
        base = request.domain or Domain(columns={})
        require_unit(base, request.unit, by_unit=by_unit)
        source = open_declared(data, base, unit=request.unit, other_columns="other-columns" in request.accept)

    def closed(facts: planner.PublicFacts) -> tuple[Confidential[Any], planner.PublicFacts]:
        """Close the table on a domain, beside the public one that it is expected to look like; say what is public."""
        table, domain, added = source, facts.domain, isinstance(request.relation, AddRemove)
        if not isinstance(table, Confidential):
            shared: dict[str, Any] = {"accept": request.accept, "empty": added}
            if in_parts and not (request.unit or domain.tables) and table[""].stays:
                table = confidential_rows(table[""], domain, **shared)
            else:
                table = confidential(table, domain, unit=request.unit, by_unit=by_unit, rng=rng, **shared)
        elif getattr(table.provenance, "domain", None) != domain:
            raise ParameterError(
                "the closed table was counted on other cells than the mechanism needs. Give the table itself"
            )
        public = {} if facts.reference is None else {"reference": facts.reference}
        table = with_public(table, public, domain=domain)
        if added:  # the number was declared, and the table's is confidential
            return table, facts
        n = public_size(table)
        mechanisms.require_made_for(records, n)
        if facts.n is not None:
            _require_same_number(facts.n, n)
        return table, replace(facts, n=n)

    return closed


def _paid(ledger: Ledger | PlannedRelease | None, request: Request, calibrated: Mechanism | None) -> Run:
    """Return the run of a request, paid for where there is a ledger."""
    if ledger is None:
        return Run.unpaid(request)
    if request.relation.records is not None:
        return ledger.pay(request, calibrated)
    if calibrated is not None:
        request = replace(request, kind=calibrated.guarantee(request.between, n=1).kind)
    return ledger.pay(request)


def _announce(request: Request, offer: Offer, why: str, facts: planner.PublicFacts, announce: Any) -> None:
    """Say what was chosen and what it will do, before anything is drawn: from public facts alone."""
    mechanism, n, size = offer.mechanism, facts.n or 0, request.size
    announce(f"{why}. {sentence(wording.lost(offer.forecast))}")
    if mechanism.traits.random_size and size is not None:
        expected = counted_up(size * offer.forecast.released_share)
        announce(f"About {expected} of {counted(size, 'draw')} are expected to be released")
    if offer.contents.tables is None and (why_not := mechanisms.no_posterior(mechanism, n)):
        announce(f"This release gives no confidence intervals. {why_not}")
    if request.budget is not None:
        for caveat in releases.delta_caveats(request.budget.delta, n):
            announce(str(caveat))
    for name, column in mechanism.domain.columns.items():
        labels = [label for label in column.labels or () if isinstance(label, str) and escaped(label) != label]
        if labels and any(path.suffix == ".csv" for path in request.out):
            announce(
                f"labels of {name!r} that a spreadsheet would run as formulas get an apostrophe in the CSV file: "
                f"{', '.join(map(shown, labels[:3]))}. discreet drops it again, and a Parquet file has none"
            )
    for text in planner.said_before(mechanism, request, n=n, reference=facts.reference):
        announce(text)
