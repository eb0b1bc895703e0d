"""The main job in one call: close the table, choose or calibrate a mechanism, publish."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from discreet import AddRemove, Checkpoint, Watch, wording
from discreet._core.errors import ParameterError
from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet._core.text import counted, counted_up, sentence
from discreet._core.writing import check_outputs
from discreet.confidential import Confidential, confidential, confidential_rows
from discreet.confidential.count import public_size, slots_of
from discreet.confidential.public import public_domain, public_table, refuse_same, with_public
from discreet.confidential.rows import Rows
from discreet.confidential.source import open_source, require_there
from discreet.domain import Counts, Domain
from discreet.domain.records import Commonness
from discreet.ledger import Ledger, Request, Run
from discreet.ledger.outlook import ledger_for
from discreet.mechanisms import REGISTRY, Mechanism, first_names, named, require_kept
from discreet.mechanisms.base import PartsMechanism, feasible, parameter_names, require_relation
from discreet.mechanisms.likelihood import no_posterior
from discreet.mechanisms.steps import checkpoint_state
from discreet.planner import plan
from discreet.planner.cells import chosen_cells, said_before, with_cells
from discreet.planner.options import with_sampling
from discreet.planner.predicted import common
from discreet.privacy import Budget
from discreet.releases import publish
from discreet.releases.content import delta_caveats, require_utility, utility_facts
from discreet.releases.parts import Partitions, Workers, no_folders
from discreet.releases.release import Release, place, require_whole_pair
from discreet.releases.writing import check_output

Path_ = str | os.PathLike[str]

_NO_PARAMETERS = {"budget", "cells", "group", "n"}
"""What a mechanism is calibrated with, besides its own parameters."""


def release(
    data: Any,
    domain: Domain | Path_,
    *,
    epsilon: float,
    delta: float = 0.0,
    relation: Literal["replacement"] | AddRemove = "replacement",
    unit: str | None = None,
    max_records: int | None = None,
    ignore_other_columns: bool = False,
    size: int | None = None,
    counts: bool = False,
    sampling: str | None = None,
    tables: int = 1,
    mechanism: str | None = None,
    reference: Any = None,
    checkpoint: Path_ | Checkpoint | None = None,
    out: Path_ | None = None,
    certificate: Path_ | None = None,
    accept: Collection[str] = (),
    accept_poor_utility: bool = False,
    records: int | None = None,
    ledger: Ledger | Path_ | None = None,
    part: str | None = None,
    partitions: int | None = None,
    partition_by: str | None = None,
    workers: Workers = 1,
    seed: int | None = None,
    watch: Watch = Watch(),  # frozen
    **parameters: Any,
) -> Release:
    """Release a synthetic table with an exact differential-privacy guarantee.

    There are three roads. Without ``mechanism`` the plan chooses one from public facts alone. With it, that mechanism
    is calibrated, and its own parameters may be given beside it. A mechanism that works in steps also takes a
    ``checkpoint``.

    Parameters
    ----------
    data : dataframe or path
        Confidential: pandas, Polars, PyArrow, DuckDB, Dask, PySpark, Ibis, a stream of
        Arrow batches, the path of a file or of a folder of Parquet files, or the address of a table or a query. See
        :func:`discreet.confidential.confidential`.
    domain : Domain or path
        Public facts about the columns, or the TOML file that declares them.
    epsilon, delta : float
        The budget. ``delta = 0`` asks for pure differential privacy.
    relation : "replacement" or AddRemove
        Between which tables the guarantee holds. ``marginals`` and ``private-evolution`` have theorems for
        :class:`AddRemove`.
    unit : str, optional
        Column that names the person, or other privacy unit, behind the rows. It needs ``max_records``.
    max_records : int, optional
        The most records that a unit keeps. The others are cut uniformly at random.
    ignore_other_columns : bool
        Whether ``data`` may have columns that the domain does not name. They are left out.
    size : int
        Number of records to release. Not needed for counts.
    counts : bool
        Release a table of the cells with their estimated counts and standard errors instead of records.
    sampling : {"iid", "stratified"}, optional
        How records are drawn from noisy counts: stratified by default, which costs no privacy and has less sampling
        error, or independently. The other mechanisms draw as their law demands.
    tables : int
        Number of tables to release, of ``size`` records each. Several are made by ``marginals``, which draws each from
        the posterior of what it measured, at no further privacy cost. ``out`` is then a folder.
    mechanism : str, optional
        Registry name. By default the mechanism with the least error predicted from public facts.
    reference : dataframe or path, optional
        A **public** table that this one is expected to look like, for the choice of the mechanism: see
        :func:`discreet.planner.plan`.
    checkpoint : path or Checkpoint, optional
        Where the steps of a mechanism that works in steps are kept.
    out : path, optional
        Write the records to this file instead of returning them: Parquet, CSV or Arrow, by its ending.
    certificate : path, optional
        Where to write the certificate. ``OUT.certificate.json`` by default.
    accept, accept_poor_utility
        See :func:`discreet.publish`.
    records : int, optional
        Public. The number of records of the table, where it is known beforehand. What cannot be met is then refused
        before the table is opened. A table that has another number is refused.
    ledger : Ledger or path, optional
        The ledger that pays for the release: see :class:`discreet.Ledger`. By default the one that the domain's file
        names in ``[ledger]``, else that of the environment variable DISCREET_LEDGER, else none.
    part : str, optional
        The name of this release in a plan that was declared in the ledger, which paid for it.
    partitions : int, optional
        Write one table as a folder of this many Parquet files. The folder ``out`` must not exist yet. If records follow
        from released counts, each file is made by itself, and memory depends on the size of one file.
    partition_by : str, optional
        A column of few declared values. Each value gets a folder ``COLUMN=value`` of ``partitions`` files, even if no
        record has it.
    workers : int or callable
        How many processes make the files, or a function like ``map`` of an engine whose machines share the folder of
        ``out``. Workers receive public values only.
    seed : int, optional
        For tests and studies: marks the release as not for publication.
    watch : Watch, optional
        Functions to call on the way.
    **parameters
        Parameters of ``mechanism`` that are given instead of solved for. Public points may be given as the path of a
        **public** table.

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
        When the ledger does not have enough left. The table was not opened.
    DiscreetError
        In its other subclasses, for bad input, infeasible and refused requests. Nothing is then written.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet import release
    >>> from discreet.domain import Domain, Integer
    >>> ages = pl.DataFrame({"age": [34, 35, 36, 37] * 5000})
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=99)})
    >>> synthetic = release(ages, domain, epsilon=1.0, delta=1e-9, size=1000)
    >>> synthetic.records.shape
    (1000, 1)
    >>> synthetic.certificate.delta <= 1e-9
    True
    """
    declared = public_domain(domain, data=data)
    refuse_same(data, reference, *parameters.values())
    rng = None if seed is None else seeded(seed)
    if mechanism is None and tables != 1:
        mechanism = next(name for name in first_names() if "tables" in parameter_names(named(name)))
    request = Request(
        budget=Budget(epsilon=epsilon, delta=delta),
        domain=declared,
        relation=relation,
        records=records,
        unit=unit,
        max_records=1 if unit is None or max_records is None else max_records,
        size=size,
        counts=counts,
        sampling=sampling,
        mechanism=mechanism,
        parameters=parameters if tables == 1 else {**parameters, "tables": tables},
        seeded=rng is not None,
        checkpoint=Checkpoint(checkpoint) if isinstance(checkpoint, (str, os.PathLike)) else checkpoint,
        part=part,
        watch=watch,
    )
    _require_complete(request)
    table = _Table(
        data=data,
        unit=unit,
        max_records=max_records,
        ignore_other_columns=ignore_other_columns,
        hides_size=isinstance(relation, AddRemove),
        in_parts=request.mechanism_type is not None and issubclass(request.mechanism_type, PartsMechanism),
        by_unit=bool(parameters.get("unit_votes")),
        rng=rng,
    )
    inputs = (data, domain, reference, *parameters.values())
    by_value = partition_by is not None
    divided = _divided(request, declared, out, Partitions.of(partitions, partition_by, workers))
    outputs, said = _checked_files(out, certificate, request, inputs=inputs, divided=divided)
    request = replace(request, out=outputs)
    _say(watch, said)

    table.check(declared)
    known = _known(declared, reference, request)
    made = None if known.n is None else _chosen(request, known, by_value=by_value)
    fitting = known if made is None else known.on(made[0].domain)
    if made is not None and known.n is not None:
        request.require_steps(made[0])
        if not accept_poor_utility:
            require_utility(made[0], known.n, size=request.size, like=common(fitting.reference, fitting.domain))
    keeper = ledger_for(ledger, domain)
    with _paid(keeper, request, None if made is None else made[0]) as run:
        held = _held(table, fitting)
        chosen, why = _chosen(request, held.known, by_value=by_value) if made is None else made
        if chosen.domain != held.known.domain:
            held = _held(table, known.on(chosen.domain))
        if chosen.domain != declared:
            why = ". ".join([*chosen_cells(declared, chosen.domain), why])
        closed = with_public(held.closed, chosen.public_inputs(), domain=chosen.domain)
        like, n = common(held.known.reference, chosen.domain), held.n
        request.require_steps(chosen)
        _say(watch, _announced(request, chosen, why, held.known, n, like))
        return publish(
            closed,
            chosen,
            size=request.size,
            budget=request.budget,
            relation=request.between.name,
            out=out,
            certificate=certificate,
            rng=rng,
            accept=accept,
            accept_poor_utility=accept_poor_utility,
            like=like,
            progress=watch.progress,
            form="counts" if counts else "records",
            info={
                **utility_facts(chosen, n, like),
                "mechanism": chosen.name,
                "why": why,
                "share_not_from_data": chosen.forecast(n, like).lost,
            },
            ledger=run,
            partitions=partitions,
            partition_by=partition_by,
            workers=workers,
        )


# -- what was asked for -----------------------------------------------------------------------------------------------


def _require_complete(request: Request) -> None:
    """Refuse a request that no mechanism, or not the one asked for, can meet: by public facts alone."""
    kind, parameters = request.mechanism_type, request.parameters
    if request.size is None and not request.counts:
        raise ParameterError(
            "the number of records to release is a public choice that costs privacy or utility. Write size=.... "
            "As many as the table has is a good start, and the plan compares others"
        )
    if request.several and (kind is None or "tables" not in parameter_names(kind)):
        names = [repr(name) for name, kind in REGISTRY.items() if "tables" in parameter_names(kind)]
        raise ParameterError(f"several tables come from {' or '.join(names)} alone. Take it, or leave tables out")
    if request.counts and request.several:
        raise ParameterError("counts are one table. For them leave tables out")
    if parameters and request.mechanism is None:
        raise ParameterError(
            f"unknown argument {sorted(parameters)[0]!r}. If it is a parameter of a mechanism, write mechanism=... as "
            "well"
        )
    if kind is None:
        if request.relation != "replacement":
            names = [name for name, kind in REGISTRY.items() if "add-remove" in kind.traits.relations]
            raise ParameterError(
                f"the plan chooses for replacement. For add/remove write mechanism=..., {' or '.join(names)}"
            )
        return
    if solved := sorted(_NO_PARAMETERS & set(parameters)):
        raise ParameterError(
            f"{solved[0]!r} is no parameter of {request.mechanism}: it follows from the table and other arguments. "
            "Leave it out"
        )
    if request.counts and not kind.forms.counts:
        raise ParameterError(f"{request.mechanism} releases records, not counts. Ask for records, and write size=...")
    require_relation(kind, request.between.name)


def _divided(request: Request, domain: Domain, out: Path_ | None, parts: Partitions | None) -> bool:
    """Return whether the release is to be in parts; refuse what cannot be, before anything is opened."""
    if parts is None:
        return False
    if out is None:
        raise ParameterError("a release in parts is a folder that must not exist yet. Write out=...")
    if request.several or request.counts:
        raise ParameterError("several tables, or counts, cannot be released in parts. Leave partitions out")
    if parts.by is not None:
        if request.mechanism_type is not None and not request.mechanism_type.forms.folders:
            raise no_folders(request.mechanism_type.name)
        parts.require_folders(domain)
    return True


def _checked_files(
    out: Path_ | None,
    certificate: Path_ | None,
    request: Request,
    *,
    inputs: tuple[Any, ...],
    divided: bool,
) -> tuple[tuple[Path, ...], list[str]]:
    """Return where the release goes, and say which files exist. Outputs that are inputs are refused."""
    lines: list[str] = []
    outputs: tuple[Path, ...] = ()
    checkpoint = request.checkpoint
    if (request.several or divided) and out is not None:
        outputs = place(out, certificate, several=request.several, parts=divided, inputs=inputs)[:1]
    elif out is not None:
        kept = None if checkpoint is None else checkpoint.path
        outputs = check_output(out, certificate, inputs=inputs, others=(kept,))
        require_whole_pair(*outputs)
        if os.path.exists(out):  # noqa: PTH110  # any kind of path
            lines.append(f"{out} exists and will be replaced. The earlier release spent privacy of its own")
    if checkpoint is not None:
        check_outputs([Path(checkpoint.path)], inputs)
        if done := checkpoint_state(checkpoint.path)[0]:
            lines.append(
                f"{checkpoint.path} holds {counted(done, 'step')}, taken as released. The file must be of this same "
                "table" + (". Where all are done, the table is not asked again" if checkpoint.redraw else "")
            )
    return outputs, lines


# -- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The confidential table, and how it is to be read."""

    data: Any = field(repr=False)
    unit: str | None
    max_records: int | None
    ignore_other_columns: bool
    hides_size: bool
    in_parts: bool
    by_unit: bool
    rng: np.random.Generator | None

    def check(self, domain: Domain) -> None:
        """Refuse what cannot be read, before it is opened."""
        slots_of(domain, self.unit, self.max_records, by_unit=self.by_unit)
        require_there(self.data)

    def closed(self, domain: Domain) -> Confidential[Counts] | Confidential[Rows]:
        """Count the table, or leave it where it is for a mechanism that can read it in parts."""
        shared: dict[str, Any] = {"ignore_other_columns": self.ignore_other_columns, "empty": self.hides_size}
        whole_rows = self.unit is None and self.max_records is None
        source = open_source(self.data)
        if self.in_parts and whole_rows and source.stays:
            return confidential_rows(source, domain, **shared)
        shared |= {"unit": self.unit, "max_records": self.max_records, "by_unit": self.by_unit}
        return confidential(source, domain, rng=self.rng, **shared)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is public about a table on a domain.

    ``n`` is the number of records, the declared one under add/remove; None until it was counted. ``group`` is how many
    of them a unit has at most. ``reference`` is a public table that this one is expected to look like.
    """

    domain: Domain
    n: int | None
    group: int
    reference: pl.DataFrame | None
    given: Any = field(repr=False)

    def on(self, domain: Domain) -> _Known:
        """Return the same on other cells, with the reference read for them."""
        if domain == self.domain:
            return self
        like = None if self.given is None else public_table(self.given, domain)
        return replace(self, domain=domain, reference=like)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The closed table, and what is public about it; ``n`` is known by now."""

    closed: Confidential[Counts] | Confidential[Rows]
    known: _Known
    n: int


def _known(domain: Domain, reference: Any, request: Request) -> _Known:
    """Say what is public before anything is opened."""
    like = None if reference is None else public_table(reference, domain)
    return _Known(domain=domain, n=request.declared, group=request.max_records, reference=like, given=reference)


def _held(table: _Table, known: _Known) -> _Held:
    """Close the table on a domain, together with the public table that it is expected to look like."""
    closed = table.closed(known.domain)
    like = {} if known.reference is None else {"reference": known.reference}
    closed = with_public(closed, like, domain=known.domain)
    n = known.n if table.hides_size and known.n is not None else public_size(closed)
    if known.n not in (None, n):
        raise ParameterError(
            f"records=... says {known.n:,}, and the table has {n:,}. Give the table's number, which is public under "
            "replacement, or leave it out"
        )
    return _Held(closed=closed, known=replace(known, n=n), n=n)


def _paid(ledger: Ledger | None, request: Request, made: Mechanism | None) -> Run:
    """Return the run of a request, paid for where there is a ledger."""
    if ledger is None:
        if request.part is not None:
            raise ParameterError(
                "a part of a plan is released with the ledger that it was declared in. Write ledger=..."
            )
        return Run.unpaid(request)
    if made is not None:
        guarantee = made.guarantee(request.between, n=request.declared or 0)  # it was declared
        feasible(guarantee, request.budget, f"{request.budget} with {made.name}")
    return ledger.pay(request, made)


# -- three roads to a mechanism ---------------------------------------------------------------------------------------


def _chosen(asked: Request, known: _Known, *, by_value: bool) -> tuple[Mechanism, str]:
    """Return the mechanism, from public facts alone, and why it is this one.

    ``by_value``: whether its records are to be divided by the values of a column.
    """
    n, kind = known.n or 0, asked.mechanism_type  # n was declared or counted
    return _by_plan(asked, known, n, by_value=by_value) if kind is None else _by_name(asked, kind, known, n)


def _by_plan(asked: Request, held: _Known, n: int, *, by_value: bool) -> tuple[Mechanism, str]:
    """Return the mechanism that the plan chooses from public facts, and why."""
    able = (lambda forms: forms.folders) if by_value else (lambda forms: forms.counts) if asked.counts else None
    chosen = plan(
        held.domain,
        records=n,
        epsilon=asked.budget.epsilon,
        delta=asked.budget.delta,
        size=asked.size,
        group=held.group,
        largest_sizes=False,
        mechanisms=None if able is None else [name for name in first_names() if able(named(name).forms)],
        reference=held.reference,
        sampling=asked.sampling,
    )
    return chosen.best, chosen.why


def _by_name(asked: Request, kind: type[Any], held: _Known, n: int) -> tuple[Mechanism, str]:
    """Return the mechanism asked for, calibrated with the parameters that are given, and what to know of it."""
    require_kept(kind.name, held.domain, keeps=kind.traits.keeps_declared)
    given = with_sampling(kind, dict(asked.parameters), asked.sampling)
    if isinstance(given.get("points"), (str, os.PathLike)):
        given["points"] = public_table(os.fspath(given["points"]), held.domain)
    cut = held.domain
    if "points" not in given:
        cut = with_cells(held.domain, kind, n=n, budget=asked.budget, size=asked.size, group=held.group, **given)
    if asked.between.name == "add-remove":
        given["relation"] = asked.between.name
    made = kind.calibrated(asked.budget, domain=cut, n=n, size=asked.size, group=held.group, **given)
    why = f"{asked.mechanism}: {('asked for', 'draws several tables')[asked.several]}"
    if asked.sampling == "stratified" and not made.forecast(n).stratified:
        why += ". It draws records as its law demands, so that stratified has no effect"
    return made, why


def _say(watch: Watch, sentences: Iterable[str]) -> None:
    """Announce each sentence; they are not made where nobody listens."""
    if watch.announce is not None:
        for sentence in sentences:
            watch.announce(sentence)


def _announced(
    asked: Request, chosen: Mechanism, why: str, held: _Known, n: int, like: Commonness | None
) -> Iterator[str]:
    """Say what was chosen and what it will do, before anything is drawn: from public facts alone."""
    forecast = chosen.forecast(n, like)
    yield f"{why}. {sentence(wording.lost(forecast))}"
    if chosen.traits.random_size and asked.size is not None:
        expected = counted_up(asked.size * forecast.released_share)
        yield f"about {expected} of {counted(asked.size, 'draw')} are expected to be released"
    if not asked.several and (why_not := no_posterior(chosen)):
        yield f"estimate will give no intervals from this release: {why_not}"
    yield from map(str, delta_caveats(asked.budget.delta, n))
    yield from said_before(chosen, asked.budget, n=n, size=asked.size, group=held.group, reference=held.reference)
