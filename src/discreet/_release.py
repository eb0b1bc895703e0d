"""The main job in one call: count, choose, publish."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from discreet._random import seeded
from discreet.confidential import Confidential, Rows, confidential, confidential_rows, public_size, public_table
from discreet.domain import Counts, Domain
from discreet.errors import ParameterError
from discreet.mechanisms import REGISTRY, named
from discreet.mechanisms._base import positive_size, require_relation
from discreet.planner import chosen_cells, plan, said_before, with_cells, with_sampling
from discreet.privacy import Budget, RelationName
from discreet.releases import Release, publish
from discreet.releases._certificate import delta_caveats
from discreet.releases._writing import certificate_path, check_output, never_input

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
        arguments, a run that died goes on after them and pays for none twice.
    **parameters
        Parameters of the mechanism that are given instead of solved for. Public points may be given as the path of a
        **public** table.

    Returns
    -------
    Release
        Records (the kind of dataframe that came in), certificate and info.

    Raises
    ------
    DiscreetError
        In its subclasses, for bad input, infeasible and refused requests; nothing is then written.

    Examples
    --------
    >>> import polars as pl
    >>> from discreet import Domain, Integer, release
    >>> ages = pl.DataFrame({"age": [34, 35, 36, 37] * 5000})
    >>> domain = Domain(columns={"age": Integer(lower=0, upper=99)})
    >>> synthetic = release(ages, domain, epsilon=1.0, delta=1e-9, size=1000)
    >>> synthetic.records.shape
    (1000, 1)
    >>> synthetic.certificate.delta <= 1e-9
    True
    """
    if not isinstance(domain, (Domain, str, os.PathLike)):
        raise ParameterError(f"the domain is a Domain or the path of its TOML file, not a {type(domain).__name__}")
    declared = domain if isinstance(domain, Domain) else Domain.read(domain)
    budget = Budget(epsilon=epsilon, delta=delta)
    rng = None if seed is None else seeded(seed)
    if size is None and not counts:
        raise ParameterError(
            "give a size: how many records to release is a public choice that costs privacy or utility; as many as the "
            "table has is a good start, see the plan"
        )
    if parameters and mechanism is None:
        raise ParameterError(
            f"unknown argument {sorted(parameters)[0]!r}: parameters of a mechanism need mechanism=... beside them"
        )
    if mechanism is not None and not named(mechanism).gives_counts() and counts:
        raise ParameterError(f"{mechanism} releases records, not counts: ask for records and give their number")
    if out is not None:
        never_input(certificate_path(check_output(out, inputs=(data, domain)), certificate), (data, domain))
        if announce is not None and os.path.exists(out):  # noqa: PTH110  # any kind of path
            announce(f"{out} exists and will be replaced; the earlier release spent privacy of its own")
    if (relation == "replacement") is (records is not None):
        raise ParameterError("add/remove needs records, a number declared in public; replacement counts them itself")
    if mechanism is None and relation != "replacement":
        raise ParameterError("only private-evolution has a theorem for add/remove: ask for it by mechanism")
    if mechanism is not None:
        require_relation(named(mechanism), relation)
    if checkpoint is not None:
        never_input(Path(checkpoint), (data, domain, out))
        if announce is not None and os.path.exists(checkpoint):  # noqa: PTH110  # any kind of path
            announce(f"{checkpoint} exists: its steps are taken as they are, and have to be of this same table")
    rows = unit is None and max_records is None and isinstance(data, (str, os.PathLike))
    closed: Confidential[Counts] | Confidential[Rows]
    if mechanism is not None and named(mechanism).reads_parts and rows:
        closed = confidential_rows(data, declared, subset=subset, empty=relation != "replacement")
    else:
        closed = confidential(
            data,
            declared,
            unit=unit,
            max_records=max_records,
            subset=subset,
            empty=relation != "replacement",
            rng=rng,
        )
    n = public_size(closed) if records is None else positive_size("records", records)
    if mechanism is None:
        chosen = plan(
            declared,
            records=n,
            epsilon=epsilon,
            delta=delta,
            size=size,
            group=closed.relation_group,
            largest_sizes=False,
            mechanisms=_COUNTING if counts else None,
            reference=reference,
            sampling=sampling,
        )
        solved, why = chosen.best, chosen.why
    else:
        kind = named(mechanism)
        given = with_sampling(kind, parameters, sampling)
        if isinstance(given.get("points"), (str, os.PathLike)):
            given["points"] = public_table(os.fspath(given["points"]), declared)
        used = declared if "points" in given else with_cells(declared, kind, n=n, epsilon=epsilon)
        if relation != "replacement":
            given["relation"] = relation
        solved = kind.calibrated(budget, domain=used, n=n, size=size, group=closed.relation_group, **given)
        why = f"{mechanism}: asked for"
        if sampling == "stratified" and not hasattr(kind, "sampling"):
            why += "; it draws records as its law demands, so that stratified has no effect"
    if solved.domain != declared:  # cells were chosen: count again on them
        closed = confidential(data, solved.domain, unit=unit, max_records=max_records, subset=subset, rng=rng)
        why = "; ".join([*chosen_cells(declared, solved.domain), why])
    share = solved.share_not_from_data(n)
    if announce is not None:
        rare = ", besides what stands in for rare records, of which only the data tell how many" * solved.leaves_out
        announce(f"{why}; about {share:.2%} of the records are expected to come from prior or noise alone{rare}")
        if solved.random_size and size is not None:
            announce(f"of {size:,} draws at most about {size * solved.share_released(n):,.3g} will be released")
        steps = said_before(solved, budget, n=n, size=size, group=closed.relation_group, reference=reference)
        for line in (*delta_caveats(delta, n), *steps):
            announce(line)
    solved = solved.observed(watch=stepped, checkpoint=checkpoint)
    return publish(
        closed,
        solved,
        size=size,
        budget=budget,
        relation=relation,
        out=out,
        certificate=certificate,
        rng=rng,
        accept=accept,
        accept_poor_utility=accept_poor_utility,
        progress=progress,
        form="counts" if counts else "records",
        info={"mechanism": solved.name, "why": why, "share_not_from_data": share},
    )
