"""The main job in one call: count, choose, publish."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from discreet._checks import positive_size
from discreet._random import seeded
from discreet._text import counted, counted_up
from discreet._writing import check_outputs
from discreet.confidential import Confidential, confidential, confidential_rows, with_public
from discreet.confidential._count import public_size
from discreet.confidential._public import public_domain, public_table, refuse_same
from discreet.confidential._rows import Rows
from discreet.domain import Counts, Domain
from discreet.errors import ParameterError
from discreet.mechanisms import REGISTRY, Mechanism, named
from discreet.mechanisms._base import PartsMechanism, require_relation
from discreet.mechanisms._checkpoint import steps_held
from discreet.mechanisms._steps import SteppedMechanism
from discreet.planner import plan
from discreet.planner._cells import chosen_cells, with_cells
from discreet.planner._plan import with_sampling
from discreet.planner._predicted import common
from discreet.planner._steps import said_before
from discreet.privacy import Budget, Relation
from discreet.privacy._guarantee import RelationName
from discreet.releases import publish
from discreet.releases._promise import delta_caveats
from discreet.releases._publish import Release
from discreet.releases._replaced import require_whole_pair
from discreet.releases._writing import check_output

__all__ = ["release"]

_COUNTING = [name for name, kind in REGISTRY.items() if kind.gives_counts()]


def release(
    data: Any,
    domain: Domain | str | os.PathLike[str],
    *,
    epsilon: float,
    delta: float = 0.0,
    size: int | None = None,
    mechanism: str | None = None,
    out: str | os.PathLike[str] | None = None,
    certificate: str | os.PathLike[str] | None = None,
    unit: str | None = None,
    max_records: int | None = None,
    subset: bool = False,
    seed: int | None = None,
    accept: Collection[str] = (),
    accept_poor_utility: bool = False,
    progress: Callable[[int], None] | None = None,
    stepped: Callable[[int, int], None] | None = None,
    announce: Callable[[str], None] | None = None,
    counts: bool = False,
    sampling: str | None = None,
    reference: Any = None,
    relation: RelationName = "replacement",
    records: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    redraw: bool = False,
    **parameters: Any,
) -> Release:
    """Release a synthetic table with an exact differential-privacy guarantee.

    Parameters
    ----------
    data : dataframe or path
        Confidential: pandas, Polars, PyArrow, DuckDB, Dask, PySpark, Ibis, or a path to Parquet or CSV.
    domain : Domain or path
        Public facts about the columns, or the TOML file that declares them.
    epsilon, delta : float
        The budget; ``delta = 0`` asks for pure differential privacy.
    size : int
        Number of records to release; not needed for counts.
    mechanism : str, optional
        Registry name; by default the mechanism with the least error predicted from public facts alone.
    out, certificate : path, optional
        Stream the records to this file instead of returning them, and where to put the certificate.
    unit : str, optional
        Column that names the person (or other privacy unit) behind the rows.
    max_records : int, optional
        Rows a unit may have; the others are cut uniformly at random.
    subset : bool
        Whether ``data`` may have columns that the domain does not name; they are left out.
    seed : int, optional
        For tests and studies: marks the release as not for publication.
    accept, accept_poor_utility
        See :func:`discreet.publish`.
    progress : callable, optional
        Called with the number of records drawn so far.
    stepped : callable, optional
        Called after each step of a mechanism that works in steps, with how many are done and how many there are.
    announce : callable, optional
        Called with one public sentence that says what was chosen and why, before anything is drawn.
    counts : bool
        Release a table of the cells with their estimated counts and standard errors instead of records.
    sampling : {"iid", "stratified"}, optional
        How records are drawn from noisy counts: independently by default, or stratified, which costs no privacy and
        has less sampling error. The other mechanisms draw as they must.
    reference : dataframe or path, optional
        A **public** table that this one is expected to look like, for the choice of the mechanism: see
        :func:`discreet.planner.plan`.
    relation : {"replacement", "add-remove"}
        Between which tables the guarantee holds. Under add/remove the number of records is confidential: declare one,
        roughly right, as ``records``. Only ``private-evolution`` has a theorem for it.
    records : int, optional
        The number of records declared in public, for add/remove.
    checkpoint : path, optional
        For a mechanism that works in steps: the file that holds those released so far. Called again with the same
        arguments and table, a run that died goes on after them and pays for none twice.
    redraw : bool
        Take a checkpoint whose steps are all done and draw other records from the votes it holds: this table is then
        not asked at all. Without it a finished checkpoint is refused.
    **parameters
        Parameters of the mechanism that are given instead of solved for. Public points may be given as the path of a
        **public** table.

    Returns
    -------
    Release
        Records (pandas for pandas, Polars for Polars and files, else PyArrow), certificate and info.

    Raises
    ------
    NotPublic
        When ``reference``, ``domain`` or a public parameter is the confidential table.
    DiscreetError
        In its other subclasses, for bad input, infeasible and refused requests; nothing is then written.

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
    asked = _Asked(
        data=data,
        domain=declared,
        budget=Budget(epsilon=epsilon, delta=delta),
        size=size,
        mechanism=mechanism,
        parameters=parameters,
        counts=counts,
        sampling=sampling,
        relation=relation,
        records=records,
        unit=unit,
        max_records=max_records,
        subset=subset,
        rng=None if seed is None else seeded(seed),
    )
    asked.check()
    replaced = _checked_files(
        out, certificate, checkpoint, redraw=redraw, inputs=(data, domain, reference, *parameters.values())
    )
    asked.check_relation()
    if redraw and checkpoint is None:
        raise ParameterError("redraw takes the votes that a checkpoint holds: name it")
    if announce is not None:
        for line in replaced:
            announce(line)
    closed = asked.count(declared)
    public = {} if reference is None else {"reference": public_table(reference, declared)}
    closed = with_public(closed, public, domain=declared)
    n = public_size(closed) if records is None else positive_size("records", records)
    solved, why = asked.solve(n, group=closed.relation_group, reference=public.get("reference"))
    if solved.domain != declared:  # cells were chosen: count again on them
        closed = with_public(asked.count(solved.domain), public, domain=solved.domain)
        why = "; ".join([*chosen_cells(declared, solved.domain), why])
    closed = with_public(closed, solved.public_inputs(), domain=solved.domain)
    reference, group = public.get("reference"), closed.relation_group
    like = common(reference, solved.domain)
    if announce is not None:
        told = f"{why}; {solved.share_in_words(n, like)}"
        for line in _said(asked, solved, told, n=n, group=group, reference=reference):
            announce(line)
    return publish(
        closed,
        _observed(solved, stepped, checkpoint, redraw=redraw),
        size=size,
        budget=asked.budget,
        relation=relation,
        out=out,
        certificate=certificate,
        rng=asked.rng,
        accept=accept,
        accept_poor_utility=accept_poor_utility,
        like=like,
        progress=progress,
        form="counts" if counts else "records",
        info={"mechanism": solved.name, "why": why, "share_not_from_data": solved.share_not_from_data(n, like)},
    )


def _observed(
    mechanism: Mechanism,
    stepped: Callable[[int, int], None] | None,
    checkpoint: str | os.PathLike[str] | None,
    *,
    redraw: bool,
) -> Mechanism:
    """Return a mechanism of several steps with its callback and its checkpoint; another one as it is."""
    if isinstance(mechanism, SteppedMechanism):
        return mechanism.observed(watch=stepped, checkpoint=checkpoint, redraw=redraw)
    if checkpoint is not None:
        raise ParameterError(f"{mechanism.name} takes one step: leave the checkpoint out")
    return mechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What was asked for, by the names of :func:`release`."""

    data: Any = field(repr=False)
    domain: Domain
    budget: Budget
    size: int | None
    mechanism: str | None
    parameters: Mapping[str, Any]
    counts: bool
    sampling: str | None
    relation: RelationName
    records: int | None
    unit: str | None
    max_records: int | None
    subset: bool
    rng: np.random.Generator | None

    @property
    def kind(self) -> type[Any] | None:
        """The mechanism's class; None where it is to be chosen."""
        return None if self.mechanism is None else named(self.mechanism)

    def check(self) -> None:
        """Refuse what contradicts itself."""
        if self.size is None and not self.counts:
            raise ParameterError(
                "give a size: how many records to release is a public choice that costs privacy or utility; as many as "
                "the table has is a good start, see the plan"
            )
        if self.parameters and self.mechanism is None:
            raise ParameterError(
                f"unknown argument {sorted(self.parameters)[0]!r}: parameters of a mechanism need mechanism=... beside "
                "them"
            )
        if self.counts and self.kind is not None and not self.kind.gives_counts():
            raise ParameterError(
                f"{self.mechanism} releases records, not counts: ask for records and give their number"
            )

    def check_relation(self) -> None:
        """Refuse a relation that does not exist, for which there is no theorem, or no number of records."""
        Relation(name=self.relation)
        if (self.relation == "replacement") is (self.records is not None):
            raise ParameterError(
                "add/remove needs records, a number declared in public; replacement counts them itself"
            )
        if self.kind is not None:
            require_relation(self.kind, self.relation)
        elif self.relation != "replacement":
            raise ParameterError("only private-evolution has a theorem for add/remove: ask for it by mechanism")

    def count(self, domain: Domain) -> Confidential[Counts] | Confidential[Rows]:
        """Count the table, or leave it where it is for a mechanism that can read a file in parts."""
        empty = self.relation != "replacement"
        whole_rows = self.unit is None and self.max_records is None
        if (
            whole_rows
            and self.kind is not None
            and issubclass(self.kind, PartsMechanism)
            and isinstance(self.data, (str, os.PathLike))
        ):
            return confidential_rows(self.data, domain, subset=self.subset, empty=empty)
        return confidential(
            self.data,
            domain,
            unit=self.unit,
            max_records=self.max_records,
            subset=self.subset,
            empty=empty,
            rng=self.rng,
        )

    def solve(self, n: int, *, group: int, reference: Any) -> tuple[Mechanism, str]:
        """Return the mechanism, calibrated, and why it is this one."""
        if self.kind is not None:
            return self._calibrated(self.kind, n, group=group)
        chosen = plan(
            self.domain,
            records=n,
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            size=self.size,
            group=group,
            largest_sizes=False,
            mechanisms=_COUNTING if self.counts else None,
            reference=reference,
            sampling=self.sampling,
        )
        return chosen.best, chosen.why

    def _calibrated(self, kind: type[Any], n: int, *, group: int) -> tuple[Mechanism, str]:
        given = with_sampling(kind, dict(self.parameters), self.sampling)
        if isinstance(given.get("points"), (str, os.PathLike)):
            given["points"] = public_table(os.fspath(given["points"]), self.domain)
        cut = self.domain
        if "points" not in given:
            cut = with_cells(self.domain, kind, n=n, budget=self.budget, size=self.size, group=group, **given)
        if self.relation != "replacement":
            given["relation"] = self.relation
        solved = kind.calibrated(self.budget, domain=cut, n=n, size=self.size, group=group, **given)
        why = f"{self.mechanism}: asked for"
        if self.sampling == "stratified" and not hasattr(kind, "sampling"):
            why += "; it draws records as its law demands, so that stratified has no effect"
        return solved, why


def _checked_files(
    out: str | os.PathLike[str] | None,
    certificate: str | os.PathLike[str] | None,
    checkpoint: str | os.PathLike[str] | None,
    *,
    redraw: bool,
    inputs: tuple[Any, ...],
) -> list[str]:
    """Refuse outputs that are inputs, and say which files exist."""
    lines = []
    if out is not None:
        require_whole_pair(*check_output(out, certificate, inputs=inputs, others=(checkpoint,)))
        if os.path.exists(out):  # noqa: PTH110  # any kind of path
            lines.append(f"{out} exists and will be replaced; the earlier release spent privacy of its own")
    if checkpoint is not None:
        check_outputs([Path(checkpoint)], inputs)
        if held := steps_held(checkpoint):
            lines.append(
                f"{checkpoint} holds {counted(held, 'step')}: taken as released, and must be of this same table"
                + ("; where all are done, the table is not asked again" if redraw else "")
            )
    return lines


def _said(asked: _Asked, solved: Mechanism, why: str, *, n: int, group: int, reference: Any) -> Iterator[str]:
    """Say what was chosen and what it will do, before anything is drawn: from public facts alone."""
    yield why
    if solved.random_size and asked.size is not None:
        expected = counted_up(asked.size * solved.share_released(n))
        yield f"of {counted(asked.size, 'draw')} about {expected} are expected to be released"
    yield from delta_caveats(asked.budget.delta, n)
    yield from said_before(solved, asked.budget, n=n, size=asked.size, group=group, reference=reference)
