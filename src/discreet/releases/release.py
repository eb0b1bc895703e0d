"""A release: its records and its certificate as one object, to write, and to draw conclusions from."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

from discreet import releases, wording
from discreet._core.boundary import sealed
from discreet._core.errors import DataError, FileProblem, MissingExtra, ParameterError, ReleaseTakenForSample
from discreet._core.files import require_settled
from discreet._core.text import counted, harmless, paragraph, sentence
from discreet.domain import Domain
from discreet.ledger import Output, Request, Run
from discreet.mechanisms import REGISTRY, parameter_names
from discreet.releases.certificate import Certificate, certificate_in
from discreet.releases.content import Progress, certified_mechanism
from discreet.releases.writing import CERTIFICATE_KEY, certificate_path, place, write

_VISIBLE = 1.025  # by what factor a standard error is too small that takes released records for a sample


def taken_for_sample(certificate: Certificate) -> ReleaseTakenForSample | None:
    """Return the warning that goes with released records; None where no standard error would be visibly too small."""
    # It is public, and None of a mechanism that is not registered here: the factor follows from public facts.
    facts, released = certificate.facts, certificate.tables[0].rows
    if facts.unit is not None and facts.relation.group == 1:  # units, not their rows
        released = facts.size or 0
    registered = facts.mechanism.name in REGISTRY and not facts.mechanism.parameters.get("tables")
    if not registered or facts.size is None or not released or not facts.records:
        return None
    mechanism = certified_mechanism(facts)
    likelihood, cells = mechanism.likelihood(), mechanism.domain.size or 0
    factor = math.sqrt(likelihood.mean_variance(released / facts.records, cells / facts.records))
    remedy = "intervals-by-estimate"
    if likelihood.obstacle(mechanism, facts.records):
        remedy = "intervals-of-several" if "tables" in parameter_names(type(mechanism)) else "intervals-of-others"
    warning = ReleaseTakenForSample(released, facts.records, wording.single(remedy), factor=factor)
    return warning if factor > _VISIBLE else None


Law = Literal["linear", "logistic"]
_File = str | os.PathLike[str]
_ANALYSIS = "discreet.inference"  # which stands above this package: loaded by name, when a release is analysed
_SEVERAL = "discreet.inference.several_tables"


@sealed
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Release:
    """Public tables, one or several, what was promised about them, and what follows from them about the population.

    Parameters
    ----------
    records : dataframe, list or dict of dataframe, or None
        The released records, as the kind of table that came in: of pandas for pandas, a relation of the same connection
        for DuckDB, Polars for files. Linked ones are named, and several draws are a list. None when they are in files.
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

    @property
    def domain(self) -> Domain:
        """The declared domain, as the certificate has it."""
        return Domain.from_dict(self.certificate.facts.domain)

    @property
    def tables(self) -> dict[str, Any]:
        """The released tables by name; ``"records"`` where the domain has no ``units``. Draws of a table are a list."""
        tables = self.records
        if tables is None:
            tables = self._read_tables()
        if "units" not in self.certificate.facts.domain:
            return {"records": tables}
        if isinstance(tables, list):
            return {name: [draw[name] for draw in tables] for name in self.certificate.table_names}
        return tables  # type: ignore[no-any-return]

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
        return self._read_tables()

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
        return self.certificate.grouped([table.to_pandas() for table in _listed(self._read_tables())])

    def posterior(self, **options: Any) -> Any:
        """Return the posterior of the population given the release: see :func:`discreet.inference.posterior`.

        Parameters
        ----------
        **options
            Its ``strength``, ``draws``, ``seed``, ``of``, ``within`` and ``progress``. Without any but the last, the
            posterior is computed once and kept with the release; with some, each time.

        Returns
        -------
        Posterior
            Draws of the population's distribution.

        Raises
        ------
        ParameterError
            When the mechanism has no posterior.
        """
        progress = options.pop("progress", None)
        if options:
            return import_module(_ANALYSIS).posterior(self, progress=progress, **options)
        if "posterior" not in self._cache:
            self._cache["posterior"] = import_module(_ANALYSIS).posterior(self, progress=progress)
        return self._cache["posterior"]

    def estimate(
        self,
        functionals: Sequence[str | Callable[[Any, Any], Any]],
        *,
        column: str | None = None,
        by: str | None = None,
        level: float = 0.95,
        progress: Progress = None,
    ) -> Any:
        r"""Return numbers of the population with credible intervals: the ``summary`` of :meth:`posterior`.

        Of several tables from a posterior, the estimates of each are combined by the rule for fully synthetic tables
        (:func:`discreet.inference.combine`): what depends on more than the measured tables of one and two columns rests
        on conditional independence, which no interval covers. A note says where that is so.

        Of tables of units a question that names a column of the rows is about rows, each of which counts once, and all
        rows of a unit vary together: of a mean :math:`\bar y` of :math:`N` rows :math:`y_{ui}`, the variance within a
        table is about :math:`N^{-2}\sum_u\bigl(\sum_i(y_{ui}-\bar y)\bigr)^2` (Cochran, 1977, chapter 9A), and that
        of every number is taken from samples of units with all of their rows (Cameron, Gelbach and Miller, 2008). All
        other questions, about a unit's own columns and ``number of NAME`` (not of a panel), are about units. ``n`` and
        ``m`` of the rule are numbers of units.

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
        progress : callable, optional
            Called with how many steps are done, and how many there are: of several tables, one for each that is
            analysed; of a table, the steps of its posterior, where that is not kept yet.

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
            return import_module(_SEVERAL).estimate_tables(self, functionals, column, by, level, progress)
        return self.posterior(progress=progress).summary(functionals, column=column, by=by, level=level)

    def regress(self, formula: str, *, kind: Law | None = None, level: float = 0.95, progress: Progress = None) -> Any:
        """Return the coefficients of a regression in the population, with intervals: ``regress`` of :meth:`posterior`.

        Of several tables, each is analysed by itself, as for :meth:`estimate`; of tables of units, with the unit as the
        cluster. Codes beside a number name the pairs of columns that were not measured.

        Parameters
        ----------
        formula : str
            Such as "wage ~ age + C(sex)". It is code: take none from a stranger.
        kind : {"linear", "logistic"}, optional
            By default logistic where the outcome has two values, true and false or two categories, else linear, also
            for the numbers 0 and 1. Notes say which it is.
        level, progress
            As for :meth:`estimate`.

        Returns
        -------
        Summary
            A row per coefficient.
        """
        if self.certificate.several:
            return import_module(_SEVERAL).regress_tables(self, formula, kind, level, progress)
        return self.posterior(progress=progress).regress(formula, kind=kind, level=level)

    def write(self, out: _File, *, format: str | None = None, certificate: _File | None = None) -> Release:  # noqa: A002
        """Write the records to a file in the format of its ending, the certificate beside it; several to a new folder.

        All of it appears, or nothing. ``format`` is that of the tables in a folder, as for :class:`Output`. Raises
        FileProblem when something cannot be written, or would replace something else than a release with its
        certificate.
        """
        if self.records is None:
            raise FileProblem(out, f"this release was written to {self.path}", "copy that file and its certificate")
        frames = [releases.as_polars(table) for table in _listed(self.records)]
        paths = place(Output(out, format=format, certificate=certificate), several=self.certificate.several, inputs=())
        tables = (iter([frame]) for frame in frames)
        run = Run.unpaid(Request())  # what it cost was paid when it was made
        schemas = [dict(frame.schema) for frame in frames]
        document = write(tables, schemas, self.certificate, paths, inputs=(), run=run, form=format)
        return replace(self, certificate=document, path=paths[0], certificate_path=paths[1])

    def __str__(self) -> str:
        tables = self.certificate.tables
        several = f"{counted(len(tables), 'table')} of " if self.certificate.several else ""
        head = f"{several}{counted(tables[0].rows, 'released record')}"
        if "units" in self.certificate.facts.domain:
            head = self.certificate.summary.partition(" from ")[0]
        return f"{head}\n{self.certificate}"

    def __repr__(self) -> str:
        where = "" if self.path is None else f" in {self.path}"
        columns = ", ".join(map(str, self.certificate.facts.released.columns))
        return f"<Release{harmless(where)}: {harmless(self.certificate.summary)}; columns {harmless(columns)}>"

    def _repr_html_(self) -> str:
        records = self.records[0] if isinstance(self.records, list) else self.records
        try:
            table = getattr(records, "_repr_html_", lambda: "")() or ""
        except ImportError:  # Dask draws its own with Jinja
            table = paragraph(*repr(records).splitlines())
        notes = [] if self.path is None else [f"In {self.path}."]
        if "why" in self.info:
            notes.append(self.info["why"])
        if (warning := taken_for_sample(self.certificate)) is not None:
            notes.append(sentence(f"{warning}."))
        return f"{self.certificate._repr_html_()}{paragraph(*notes)}{table}"

    @property
    def _source(self) -> Any:
        """The records, or the file or folder that they are in."""
        return self.path if self.records is None else self.records

    def _read_tables(self) -> Any:
        """Return what :meth:`table` does, and warn once of what its records are not."""
        sample = taken_for_sample(self.certificate)
        if sample is not None and "warned" not in self._cache:
            self._cache["warned"] = True
            warnings.warn(sample, stacklevel=4)
        tables = zip(self._sources, cycle(self.certificate.table_names), strict=False)
        return self.certificate.grouped([releases.typed(table, self.certificate, name) for table, name in tables])

    @property
    def _sources(self) -> list[Any]:
        """The tables, one after the other, or the files or folder that they are in."""
        if self.records is None and self.certificate.several:
            return [Path(str(self.path)) / Path(str(table.file)).name for table in self.certificate.tables]
        return _listed(self._source)


def _listed(records: Any) -> list[Any]:
    """Return the tables of a release, one after the other."""
    match records:
        case dict():
            return [*records.values()]
        case list():
            return [table for draw in records for table in _listed(draw)]
    return [records]


@sealed
def read(release: Any, certificate: Certificate | str | os.PathLike[str] | None = None) -> Release:
    """Read a released table and its certificate as one object, once they are known to belong together.

    A file is not loaded: only its hash is computed, and that of every part of a release in parts. A Parquet or Arrow
    file and its certificate hold the same random identity; two that differ are refused. CSV has no place for one, and
    is known by its hash alone.

    Parameters
    ----------
    release : path or dataframe
        The released file, the folder of a release in parts or of several tables, or the whole table as a dataframe.
        Public.
    certificate : path or Certificate, optional
        Its certificate: by default the file beside it, ``RELEASE.certificate.json`` or the name that the file
        gives. A dataframe needs it.

    Returns
    -------
    Release
        To estimate from: see its methods.

    Raises
    ------
    FileProblem
        When a file cannot be read, or is not the one that its certificate was written for.
    DataError, ParameterError
        When a dataframe has other columns or another number of rows than its certificate says, or has none.

    Examples
    --------
    >>> import polars as pl
    >>> import discreet
    >>> from discreet.domain import Domain, Integer
    >>> dice = Domain(columns={"eyes": Integer(lower=1, upper=6)})
    >>> rolls = pl.DataFrame({"eyes": [1, 2, 3, 4, 5, 6, 6, 6] * 100})
    >>> made = discreet.release(rolls, dice, discreet.Budget(epsilon=1.0), size=400)
    >>> released = discreet.read(made.records, made.certificate)
    >>> share = released.estimate(["P(=6)"])["P(=6)"]
    >>> share.lower < 0.375 < share.upper
    True
    """
    where = None
    if not isinstance(release, (str, os.PathLike)):
        document = read_certificate(release, certificate)
        _require_whole(release, document)
        return Release(records=release, certificate=document, info={})
    path = Path(release)
    if path.is_dir():
        if certificate is not None:
            raise ParameterError("a folder of tables, or of parts, holds its certificate. Leave out the certificate")
        where, document = certificate_in(path), Certificate.read(path)
    else:
        if not isinstance(certificate, Certificate):
            certificate = where = _beside(path, certificate)
        document = read_certificate(path, certificate)
        if document.several or document.in_parts:
            folder = "release in parts" if document.in_parts else "folder of tables"
            raise FileProblem(path, f"its certificate is that of a {folder}", "give the folder")
    releases.require_own(document, path)
    return Release(records=None, certificate=document, info={}, path=path, certificate_path=where)


def read_certificate(release: Any, certificate: Any = None) -> Certificate:
    """Return the certificate of a release: the one given (also as a path), its own, or the file beside it."""
    # Raises ParameterError when there is none, FileProblem when it cannot be read.
    if isinstance(certificate, Certificate):
        return certificate
    if isinstance(certificate, (str, os.PathLike)):
        return Certificate.read(certificate)
    if isinstance(release, Release):
        return release.certificate
    if isinstance(release, (str, os.PathLike)):
        return Certificate.read(_beside(Path(release), None))
    raise ParameterError("give the certificate of the release, or the domain it was declared on")


def _beside(path: Path, certificate: str | os.PathLike[str] | None) -> Path:
    """Return where the certificate of a file is: where it is said to be, beside it, or where the file says."""
    where = certificate_path(path, certificate)
    if certificate is not None:
        return where
    require_settled(path)
    if not where.exists() and path.is_file() and (name := releases.file_text(path, CERTIFICATE_KEY)) is not None:
        where = path.with_name(Path(name).name)
    if not where.exists() and not path.exists():
        raise FileProblem(path, "there is no such file", "check the path")
    if not where.exists():
        raise FileProblem(path, f"its certificate {where.name} is not beside it", "say where it is")
    return where


def _require_whole(table: Any, certificate: Certificate) -> None:
    """Refuse a dataframe that is not the whole release: a selection of it has another law."""
    if certificate.several:
        raise ParameterError("this certificate is that of a folder of tables. Give the folder")
    frame, rows = releases.as_polars(table), certificate.tables[0].rows
    if missing := [name for name in certificate.facts.released.columns if name not in frame.columns]:
        raise DataError(str(missing[0]), "is not in the release", "give the certificate that was written with it")
    if rows not in (None, frame.height):
        problem = f"it has {counted(frame.height, 'row')}, and its certificate is of {rows:,}"
        raise DataError(None, problem, "give the whole release, since a selection of it has another law")
