"""A release: its records and its certificate as one object, to write, and to draw conclusions from."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from discreet._core.boundary import sealed
from discreet._core.errors import FileProblem, MissingExtra, ParameterError, ReleaseTakenForSample
from discreet._core.files import new_folder, recover, together
from discreet._core.reading import file_sha256
from discreet._core.text import counted, harmless, paragraph, sentence
from discreet.domain import Domain
from discreet.ledger import Request, Run
from discreet.mechanisms import REGISTRY
from discreet.releases.certificate import FOLDER_CERTIFICATE, PARTS_CERTIFICATE, Certificate
from discreet.releases.content import Frames, certified_mechanism
from discreet.releases.facts import FileFacts
from discreet.releases.table import as_polars, typed
from discreet.releases.writing import (
    check_folder,
    check_output,
    metadata_of,
    write_frames,
)

# What is wrong with taking released records for a sample: a standard error made so is too small, by a known factor.

_VISIBLE = 1.025


def taken_for_sample(certificate: Certificate) -> ReleaseTakenForSample | None:
    """Return the warning that goes with released records; None where a standard error would not be visibly too small.

    It is public, and None of a mechanism that is not registered here: the factor follows from public facts.
    """
    facts, released = certificate.facts, certificate.tables[0].rows
    if certificate.several or facts.size is None or not released or not facts.records:
        return None
    if facts.mechanism.name not in REGISTRY:
        return None
    mechanism = certified_mechanism(facts)
    likelihood, cells = mechanism.likelihood(), mechanism.domain.size or 0
    factor = math.sqrt(likelihood.mean_variance(released / facts.records, cells / facts.records))
    remedy = "Take intervals from estimate or regress, which know how the records were made"
    warning = ReleaseTakenForSample(released, facts.records, remedy, factor=factor)
    return warning if factor > _VISIBLE else None


# What a release may replace: another release, whole.


def require_whole_pair(path: Path, where: Path) -> None:
    """Refuse to replace anything but a table with its own certificate, once a dead write is settled.

    Raises FileProblem.
    """
    recover(path, where)
    table, certificate = os.path.lexists(path), os.path.lexists(where)
    if not certificate:
        if table:
            raise _foreign(path, f"it exists without {where.name}, and only a table with its certificate is replaced")
        return
    try:
        facts = Certificate.read(where).tables[0]
    except (FileProblem, ParameterError):
        facts = None
    if table and facts is not None and facts.sha256 == file_sha256(path):
        return
    if facts is not None and isinstance(facts.file, str) and facts.file != path.name:
        raise _foreign(where, f"it is the certificate of {harmless(facts.file)}, which cannot be verified without it")
    if not table:
        raise _foreign(where, f"it exists without {path.name}, and only a table with its certificate is replaced")
    raise _foreign(where, f"it exists and is not the certificate of {'a release' if facts is None else path.name}")


def _foreign(path: Path, problem: str) -> FileProblem:
    return FileProblem(path, problem, "give another name: out=... or out=Output(..., certificate=...)")


_ANALYSIS = "discreet.inference"  # which stands above this package: loaded by name, when a release is analysed
_SEVERAL = "discreet.inference.several_tables"


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Release:
    """Public tables, one or several, what was promised about them, and what follows from them about the population.

    Parameters
    ----------
    records : dataframe, list of dataframe or None
        The released records, as the kind of table that came in: of pandas for pandas, a relation of the same connection
        for DuckDB, Polars for files. A list of tables from a model. None when they are in files.
    certificate : Certificate
        What was promised.
    info : dict
        Public facts about the run: who chose the mechanism and why.
    path, certificate_path : Path or None
        Where they are; the path of several tables, and of a release in parts, is their folder.
    """

    records: Any
    certificate: Certificate
    info: dict[str, Any]
    path: Path | None = None
    certificate_path: Path | None = None
    _cache: dict[str, Any] = field(default_factory=dict, init=False, compare=False)

    # -- what was released ----------------------------------------------------------------------------------------

    @property
    def domain(self) -> Domain:
        """The declared domain, as the certificate has it."""
        return Domain.from_dict(self.certificate.facts.domain)

    @property
    def promise(self) -> str:
        """What was promised, in one plain sentence."""
        return self.certificate.statement

    def table(self) -> Any:
        r"""Return the released table as a Polars dataframe; a list of several tables from a model.

        **The records are no sample of the population**: they were drawn from ``n`` confidential ones, most mechanisms
        with noise. :math:`s/\sqrt m` computed from ``m`` of them is not a standard error, however large ``m`` is. Take
        intervals from :meth:`estimate` and :meth:`regress`.

        Raises
        ------
        FileProblem, DataError
            When a file cannot be read.

        Warns
        -----
        ReleaseTakenForSample
            Once per object, where such a standard error would be visibly too small: it says by what factor, at least.
        """
        return self._tables()

    def to_pandas(self) -> Any:
        """Return the released table as a pandas dataframe; a list of several tables. See :meth:`table`.

        Raises
        ------
        MissingExtra
            When pandas or PyArrow is not installed.
        """
        try:
            import pandas  # noqa: F401
            import pyarrow  # noqa: F401
        except ImportError:
            raise MissingExtra("a pandas dataframe needs pandas and PyArrow", "pandas") from None
        tables = self._tables()
        return [table.to_pandas() for table in tables] if isinstance(tables, list) else tables.to_pandas()

    # -- what follows from it -------------------------------------------------------------------------------------

    def posterior(self, **options: Any) -> Any:
        """Return the posterior of the population given the release: see :func:`discreet.inference.posterior`.

        Parameters
        ----------
        **options
            Its ``strength``, ``draws``, ``seed``, ``of`` and ``within``. Without any, the posterior is computed once
            and kept with the release; with some, each time.

        Returns
        -------
        Posterior
            Draws of the population's distribution.

        Raises
        ------
        ParameterError
            When the mechanism has no posterior.
        """
        if options:
            return import_module(_ANALYSIS).posterior(self, **options)
        if "posterior" not in self._cache:
            self._cache["posterior"] = import_module(_ANALYSIS).posterior(self)
        return self._cache["posterior"]

    def estimate(
        self,
        functionals: Sequence[str | Callable[[Any, Any], Any]],
        *,
        column: str | None = None,
        by: str | None = None,
        level: float = 0.95,
    ) -> Any:
        """Return numbers of the population with credible intervals: the ``summary`` of :meth:`posterior`.

        Of several tables from a posterior, the estimates of each are combined by the rule for fully synthetic tables
        (:func:`discreet.inference.combine`): what depends on more than the measured tables of one and two columns rests
        on conditional independence, which no interval covers. A note says where that is so.

        Parameters
        ----------
        functionals : sequence of str or callable
            Such as "mean", "q25", "P(>1000)", or functions of values and weights.
        column : str, optional
            The column that they are about; the only one by default.
        by : str, optional
            A column of groups: one row per group and functional, of the distribution of ``column`` within it.
        level : float
            Probability of the intervals.

        Returns
        -------
        Summary
            Which prints as a table.

        Raises
        ------
        ParameterError
            When a column or a functional is unknown, or the mechanism has no posterior.
        """
        if self.certificate.several:
            return import_module(_SEVERAL).estimate_tables(self, functionals, column=column, by=by, level=level)
        return self.posterior().summary(functionals, column=column, by=by, level=level)

    def regress(self, formula: str, *, kind: Literal["linear", "logistic"] | None = None, level: float = 0.95) -> Any:
        """Return the coefficients of a regression in the population, with intervals: ``regress`` of :meth:`posterior`.

        Of several tables, each is analysed by itself, as for :meth:`estimate`. A note names the pairs of columns that
        were not measured.

        Parameters
        ----------
        formula : str
            Such as "wage ~ age + C(sex)". It is code: take none from a stranger.
        kind : {"linear", "logistic"}, optional
            By default logistic where the outcome has two values, true and false or two categories.
        level : float
            Probability of the intervals.

        Returns
        -------
        Summary
            A row per coefficient.
        """
        if self.certificate.several:
            return import_module(_SEVERAL).regress_tables(self, formula, kind=kind, level=level)
        return self.posterior().regress(formula, kind=kind, level=level)

    # -- as files -------------------------------------------------------------------------------------------------

    def write(self, out: str | os.PathLike[str], *, certificate: str | os.PathLike[str] | None = None) -> Release:
        """Write the records to a file in the format of its ending, the certificate beside it; several to a new folder.

        All of it appears, or nothing. Raises FileProblem when something cannot be written, or would replace something
        else than a release with its certificate.
        """
        if self.records is None:
            raise FileProblem(out, f"this release was written to {self.path}", "copy that file and its certificate")
        several = self.certificate.several
        frames = [as_polars(records) for records in (self.records if several else [self.records])]
        paths = place(out, certificate, several=several, inputs=())
        tables = (iter([frame]) for frame in frames)
        run = Run.unpaid(Request())  # what it cost was paid when it was made
        document = write(tables, dict(frames[0].schema), self.certificate, paths, inputs=(), run=run)
        return replace(self, certificate=document, path=paths[0], certificate_path=paths[1])

    # -- as text --------------------------------------------------------------------------------------------------

    def __str__(self) -> str:
        tables = self.certificate.tables
        several = f"{counted(len(tables), 'table')} of " if self.certificate.several else ""
        return f"{several}{counted(tables[0].rows, 'released record')}\n{self.certificate}"

    def __repr__(self) -> str:
        where = "" if self.path is None else f" in {self.path}"
        columns = ", ".join(map(str, self.certificate.facts.released.columns))
        return f"<Release{harmless(where)}: {harmless(self.certificate.summary)}; columns {harmless(columns)}>"

    def _repr_html_(self) -> str:
        records = self.records[0] if isinstance(self.records, list) else self.records
        table = getattr(records, "_repr_html_", lambda: "")() or ""
        notes = [f"In {self.path}."] if self.path else []
        if "why" in self.info:
            notes.append(self.info["why"])
        if (warning := taken_for_sample(self.certificate)) is not None:
            notes.append(sentence(f"{warning}."))
        return f"{self.certificate._repr_html_()}{paragraph(*notes)}{table}"

    # -- inside ---------------------------------------------------------------------------------------------------

    @property
    def _source(self) -> Any:
        """The records, or the file or folder that they are in."""
        return self.path if self.records is None else self.records

    def _tables(self) -> Any:
        """Return what :meth:`table` does, and warn once of what its records are not."""
        sample = taken_for_sample(self.certificate)
        if sample is not None and "warned" not in self._cache:
            self._cache["warned"] = True
            warnings.warn(sample, stacklevel=4)
        if not self.certificate.several:
            return typed(self._source, self.certificate)
        if self.records is not None:
            return [typed(table, self.certificate) for table in self.records]
        folder = Path(str(self.path))
        return [typed(folder / Path(str(table.file)).name, self.certificate) for table in self.certificate.tables]


def place(
    out: str | os.PathLike[str],
    certificate: str | os.PathLike[str] | None,
    *,
    several: bool,
    inputs: tuple[Any, ...],
    parts: bool = False,
) -> tuple[Path, Path]:
    """Return where a release and its certificate go: a file beside another, or a folder that holds all.

    What cannot be written, or holds something else, is refused.
    """
    if not several and not parts:
        paths = check_output(out, certificate, inputs=inputs)
        require_whole_pair(*paths)
        return paths
    if certificate is not None:
        content = "a release in parts" if parts else "a folder of tables"
        raise ParameterError(f"{content} holds its certificate. Leave out the certificate's name")
    folder = check_folder(out, inputs=inputs)
    return folder, folder / (PARTS_CERTIFICATE if parts else FOLDER_CERTIFICATE)


def write(
    tables: Iterator[Frames],
    schema: dict[str, Any],
    document: Certificate,
    paths: tuple[Path, Path],
    *,
    inputs: tuple[Any, ...],
    run: Run,
    separator: str | None = None,
) -> Certificate:
    """Write everything at once, to be committed by the run; return the certificate with what was written."""
    if document.several:
        return _write_folder(tables, schema, document, paths[0], run)
    hashes: dict[Path, str] = {}
    on_commit, check = run.on_commit(lambda: document.paid_for), partial(require_whole_pair, *paths)
    with together(*paths, inputs=inputs, check=check, on_commit=on_commit, hashes=hashes) as (table, certificate):
        metadata = metadata_of(document, paths[1])
        rows = write_frames(next(tables), schema, table, named=paths[0], metadata=metadata, separator=separator)
        hashes[paths[0]] = file_sha256(Path(table.name))
        document = document.releasing(tables=[FileFacts(file=paths[0].name, rows=rows, sha256=hashes[paths[0]])])
        certificate.write(document.to_json().encode())
    run.deliver()
    return document


def _write_folder(
    tables: Iterator[Frames], schema: dict[str, Any], document: Certificate, folder: Path, run: Run
) -> Certificate:
    files, metadata = [], metadata_of(document, folder / FOLDER_CERTIFICATE)
    with new_folder(folder, on_commit=run.on_commit(lambda: document.paid_for)) as draft:
        for number, frames in enumerate(tables, start=1):
            path = draft / f"table-{number:02}.parquet"
            hashes: dict[Path, str] = {}
            with together(path, hashes=hashes) as (file,):
                rows = write_frames(frames, schema, file, named=folder / path.name, metadata=metadata)
                hashes[path] = file_sha256(Path(file.name))
            files.append(FileFacts(file=path.name, rows=rows, sha256=hashes[path]))
        document = document.releasing(tables=files)
        with together(draft / FOLDER_CERTIFICATE) as (file,):
            file.write(document.to_json().encode())
    run.deliver()
    return document
