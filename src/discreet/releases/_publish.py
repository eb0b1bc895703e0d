"""The crossing of releases: what :func:`publish` returns is public under a guarantee although it opened the table.

Tables from models cross in ``pseudo_posterior/_publish.py``. Who else opens confidential values, and what for, is the
closed list in ``confidential/_open.py``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from discreet._checks import positive_size
from discreet._random import SecureGenerator, public, secure, seeded
from discreet._text import counted
from discreet._writing import together
from discreet.confidential import Confidential, with_public
from discreet.confidential._frames import to_frame_kind
from discreet.confidential._open import open_confidential
from discreet.confidential._rows import Rows
from discreet.confidential._wrapper import Provenance
from discreet.domain import Counts, Domain, Records
from discreet.domain._commonness import Commonness
from discreet.errors import FileProblem, ParameterError
from discreet.mechanisms import Mechanism, Output
from discreet.mechanisms._base import Estimates, PartsMechanism, feasible, require_relation
from discreet.privacy import Budget, Relation
from discreet.privacy._guarantee import RelationName, require_kind
from discreet.releases._certificate import Certificate
from discreet.releases._replaced import require_whole_pair
from discreet.releases._utility import require_utility
from discreet.releases._writing import CERTIFICATE_KEY, PROMISE_KEY, check_output, write_frames

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Release", "publish"]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Release:
    """A public table and what was promised about it.

    Parameters
    ----------
    records : dataframe or None
        The released records: pandas for pandas, Polars for Polars and files, PyArrow for everything else; None
        when they were written to a file.
    certificate : Certificate
        What was promised.
    info : dict
        Public facts about the run: who chose the mechanism and why.
    path, certificate_path : Path or None
        Where they were written.
    """

    records: Any
    certificate: Certificate
    info: dict[str, Any]
    path: Path | None = None
    certificate_path: Path | None = None

    def write(self, out: str | os.PathLike[str], *, certificate: str | os.PathLike[str] | None = None) -> Release:
        """Write the records to Parquet or CSV, and the certificate beside them; both or neither appear.

        Raises
        ------
        FileProblem
            When either cannot be written, or would replace something else than a release with its certificate.
        """
        if self.records is None:
            raise FileProblem(out, f"this release was written to {self.path}", "copy that file and its certificate")
        import narwhals as nw

        frame = nw.from_native(self.records).to_polars()
        path, where = check_output(out, certificate, inputs=())
        written = _write(iter([frame]), dict(frame.schema), self.certificate, (path, where), inputs=())
        return replace(self, certificate=written, path=path, certificate_path=where)

    def __str__(self) -> str:
        rows = self.certificate.facts["released"]["rows"]
        return f"{counted(rows, 'released record')}\n{self.certificate}"

    def __repr__(self) -> str:
        return f"<Release: {self.certificate.summary}>"

    def _repr_html_(self) -> str:
        import html

        table = getattr(self.records, "_repr_html_", lambda: "")()
        why = f"<p>{html.escape(self.info['why'])}</p>" if "why" in self.info else ""
        return f"{self.certificate._repr_html_()}{why}{table}"


def publish(
    confidential: Confidential[Counts] | Confidential[Rows],
    mechanism: Mechanism,
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
    progress: Callable[[int], None] | None = None,
    info: dict[str, Any] | None = None,
    form: Literal["records", "counts"] = "records",
) -> Release:
    """Run a mechanism on confidential data once, and return what may be published.

    Parameters
    ----------
    confidential : Confidential of Counts or Rows
        Confidential, as given by :func:`discreet.confidential.confidential`, or in parts by
        :func:`discreet.confidential.confidential_rows` for mechanisms that read it so.
    mechanism : Mechanism
        Public facts only. Its domain must be the one the data was encoded with.
    size : int, optional
        Number of records to release; needed where the mechanism does not fix it.
    budget : Budget, optional
        When given, a guarantee that does not meet it is refused, and the certificate states it.
    relation : {"replacement", "add-remove"}
        Between which tables the guarantee is to hold. Under add/remove the number of records is confidential: the
        mechanism's own ``records``, declared in public, takes its place in the certificate.
    out : path, optional
        Stream the records to this Parquet or CSV file instead of returning them.
    certificate : path, optional
        Where to write the certificate; ``OUT.certificate.json`` by default.
    rng : numpy.random.Generator, optional
        None (the default) makes a fresh secure generator. Any other generator marks the release "seeded: not for
        publication" for good; so does another one that cut the rows of units.
    accept : collection of str
        Kinds of guarantee accepted beside ``unconditional``.
    accept_poor_utility : bool
        Release even where more than 20 % of the records are expected to carry nothing of the data, or where not one
        record is expected.
    like : Commonness, optional
        How common the records of tables like this one are, for those expectations; by default those of an invented one.
    progress : callable, optional
        Called with the number of records drawn so far, a public number.
    info : dict, optional
        Public facts about the run to keep with the release.
    form : {"records", "counts"}
        Records, or a table of the cells (or labels) with their estimated ``count`` and its ``standard_error``, both in
        records, for the mechanisms that release noisy counts. Its certificate is the same promise.

    Returns
    -------
    Release
        Records and certificate.

    Raises
    ------
    GuaranteeKindError, Infeasible, PoorUtility
        When the request is refused; nothing was drawn.
    FileProblem
        When the output cannot be written, or would replace something else than a release with its certificate; what
        was there is then as it was.
    ParameterError
        When size, domain or mechanism do not fit together.
    NotPublic
        When what the mechanism was made of is the confidential table.
    """
    facts = confidential.provenance or Provenance(frame_kind="polars", columns=mechanism.domain.names)
    if facts.domain != mechanism.domain:
        raise ParameterError("the mechanism's domain is not the one the confidential table was encoded with")
    confidential = with_public(confidential, mechanism.public_inputs(), domain=mechanism.domain)
    facts = confidential.provenance or facts
    generator = secure() if rng is None else rng
    paths = None if out is None else check_output(out, certificate, inputs=(facts.path,))
    if paths is not None:
        require_whole_pair(*paths)
    schema = {} if form == "records" else _counts_columns(mechanism)
    x: Counts | Rows = open_confidential(cast("Confidential[Any]", confidential), caller=__name__)
    private_step = _private_step(mechanism, x)
    n = _public_number(x.n, mechanism, relation)
    size = positive_size("size", _size(mechanism, size)) if form == "records" else None
    guarantee = mechanism.guarantee(Relation(name=relation, group=facts.max_records), n=n)
    require_kind(guarantee, frozenset(accept))
    if budget is not None:
        feasible(guarantee, budget, f"{budget} with {mechanism.name} {mechanism.parameters()}")
    if not accept_poor_utility:
        require_utility(mechanism, n, size=size, like=like)
    document = Certificate.of(
        mechanism=mechanism,
        guarantee=guarantee,
        budget=budget,
        size=size,
        unit=facts.unit,
        seeded=not isinstance(generator, SecureGenerator),
        seeded_cut=facts.seeded,
        public_inputs=dict(facts.public),
        columns=list(schema or mechanism.domain.names),
    )
    document.to_json()  # what cannot be written is found before anything is drawn
    output = private_step(rng=generator)
    if (outcome := mechanism.outcome(output, n)) is not None:
        document = document.with_outcome(outcome)
    free = public(generator)
    if size is None:
        frames = iter([_counts_table(mechanism, mechanism.estimates(output), free)])
    else:
        frames = _decoded(mechanism, mechanism.finish(output, size=size, rng=free), free, progress)
        schema = dict(mechanism.domain.decode(_no_records(mechanism.domain), rng=free).schema)
    if paths is None:
        import polars as pl

        table = pl.concat(list(frames))
        records = to_frame_kind(table, facts.frame_kind)
        return Release(records=records, certificate=document.with_rows(table.height), info=info or {})
    written = _write(frames, schema, document, paths, inputs=(facts.path,))
    return Release(records=None, certificate=written, info=info or {}, path=paths[0], certificate_path=paths[1])


def _private_step(mechanism: Mechanism, x: Counts | Rows) -> Callable[..., Output]:
    """Return the kernel on a table, to be given its generator; refuse a table in parts that it cannot read."""
    if isinstance(x, Counts):
        return partial(mechanism.kernel, x)
    if isinstance(mechanism, PartsMechanism):
        return partial(mechanism.kernel, x)
    raise ParameterError(f"{mechanism.name} does not read a table in parts: give it the counts of confidential()")


def _public_number(n: int, mechanism: Mechanism, relation: RelationName) -> int:
    """Return the number of records that a certificate holds: the true one under replacement, public by definition."""
    require_relation(mechanism, relation)
    declared: Any = getattr(mechanism, "records", None)
    if relation != "replacement":
        return int(declared)
    if declared not in (None, n):
        raise ParameterError(f"the mechanism was made for {counted(declared, 'record')}, the table has {n}")
    return n


def _size(mechanism: Mechanism, size: int | None) -> int:
    fixed: int | None = getattr(mechanism, "size", None)
    if fixed is None and size is None:
        raise ParameterError("give the number of records to release as size")
    if fixed is not None and size is not None and size != fixed:
        raise ParameterError(f"the mechanism was made for {counted(fixed, 'record')}, not {size:,}")
    return fixed if size is None else size  # type: ignore[return-value]


def _no_records(domain: Domain) -> Records:
    """Return zero records of the right kinds."""
    return domain.draw_base(0, seeded(0))


def _counts_columns(mechanism: Mechanism) -> dict[str, Any]:
    """Return the columns of a table of counts, or refuse it before anything is drawn."""
    if not mechanism.gives_counts():
        raise ParameterError(f"{mechanism.name} releases records, not counts: ask for records")
    nothing = Estimates(_no_records(mechanism.domain), np.empty(0), np.empty(0))
    return dict(_counts_table(mechanism, nothing, seeded(0)).schema)


def _counts_table(mechanism: Mechanism, estimates: Estimates, rng: np.random.Generator) -> pl.DataFrame:
    import polars as pl

    described = mechanism.domain.describe(estimates.records, rng=rng)
    for name in ("count", "standard_error"):
        if name in described.columns:
            raise ParameterError(f"column {name!r} has the name of a column of counts; rename it")
    return described.with_columns(
        pl.Series("count", estimates.counts), pl.Series("standard_error", estimates.standard_errors)
    )


def _decoded(
    mechanism: Mechanism,
    chunks: Iterator[Records],
    rng: np.random.Generator,
    progress: Callable[[int], None] | None,
) -> Iterator[pl.DataFrame]:
    done = 0
    for chunk in chunks:
        yield mechanism.domain.decode(chunk, rng=rng)
        done += len(chunk)
        if progress is not None:
            progress(done)


def _write(
    frames: Iterator[pl.DataFrame],
    schema: dict[str, Any],
    document: Certificate,
    paths: tuple[Path, Path],
    *,
    inputs: tuple[Any, ...],
) -> Certificate:
    with together(*paths, inputs=inputs, check=lambda: require_whole_pair(*paths)) as (table, certificate):
        carried = {CERTIFICATE_KEY: paths[1].name, PROMISE_KEY: document.facts["guarantee"]["statement"]}
        rows = write_frames(frames, schema, table, named=paths[0], metadata=carried)
        written = document.with_rows(rows).for_file(Path(table.name), named=paths[0])
        certificate.write(written.to_json().encode())
    return written
