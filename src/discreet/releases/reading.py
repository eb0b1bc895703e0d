"""The analyst's door: a released table and its certificate as one object, once they are known to belong together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from discreet._core.boundary import sealed
from discreet._core.errors import DataError, FileProblem, ParameterError
from discreet._core.files import require_settled
from discreet._core.reading import file_sha256
from discreet._core.text import counted
from discreet.releases.certificate import Certificate, certificate_in
from discreet.releases.manifest import require_parts
from discreet.releases.release import Release
from discreet.releases.table import as_polars, told
from discreet.releases.writing import CERTIFICATE_KEY, IDENTITY_KEY, certificate_path


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
    if not isinstance(release, (str, os.PathLike)):
        known = read_certificate(release, certificate)
        _require_whole(release, known)
        return Release(records=release, certificate=known, info={})
    path = Path(release)
    if path.is_dir():
        return _folder(path, certificate)
    where = None if isinstance(certificate, Certificate) else _beside(path, certificate)
    known = read_certificate(path, certificate if where is None else where)
    if known.several or known.in_parts:
        folder = "release in parts" if known.in_parts else "folder of tables"
        raise FileProblem(path, f"its certificate is that of a {folder}", "give the folder")
    require_own(known, path)
    return Release(records=None, certificate=known, info={}, path=path, certificate_path=where)


def read_certificate(release: Any, certificate: Any = None) -> Certificate:
    """Return the certificate of a release: the one given (also as a path), its own, or the file beside it.

    Raises
    ------
    ParameterError
        When there is none.
    FileProblem
        When it cannot be read.
    """
    if isinstance(certificate, Certificate):
        return certificate
    if isinstance(certificate, (str, os.PathLike)):
        return Certificate.read(certificate)
    if isinstance(release, Release):
        return release.certificate
    if isinstance(release, (str, os.PathLike)):
        return Certificate.read(_beside(Path(release), None))
    raise ParameterError("give the certificate of the release, or the domain it was declared on")


def require_own(certificate: Certificate, path: Any) -> None:
    """Refuse a file beside another file's certificate; what is no path is passed over.

    Raises FileProblem when the random identities in the two differ, or the file is not the one that was written.
    """
    if not isinstance(path, (str, os.PathLike)):
        return
    require_settled(path)
    if certificate.in_parts:
        require_parts(Path(path), certificate)
        return
    for table in certificate.tables:
        file = Path(path) / Path(str(table.file)).name if certificate.several else Path(path)
        _require_hash(file, table.sha256)
        if told(file, IDENTITY_KEY) not in (None, certificate.identity):
            raise FileProblem(
                file, "it is from another release than the certificate", "give the two that were written together"
            )


def _require_hash(file: Path, stated: Any) -> None:
    if not file.is_file():
        raise FileProblem(file, "there is no such file", "check the path")
    if stated is not None and stated != file_sha256(file):
        raise FileProblem(
            file,
            "it is not the file that its certificate was written for",
            "give the two that were written together, or read the file and give the table",
        )


def _beside(path: Path, certificate: str | os.PathLike[str] | None) -> Path:
    """Return where the certificate of a file is: where it is said to be, beside it, or where the file says."""
    where = certificate_path(path, certificate)
    if certificate is not None:
        return where
    require_settled(path)
    if not where.exists() and path.is_file():
        named = told(path, CERTIFICATE_KEY)
        where = where if named is None else path.with_name(Path(named).name)
    if not where.exists() and not path.exists():
        raise FileProblem(path, "there is no such file", "check the path")
    if not where.exists():
        raise FileProblem(path, f"its certificate {where.name} is not beside it", "say where it is")
    return where


def _folder(path: Path, certificate: Any) -> Release:
    if certificate is not None:
        raise ParameterError("a folder of tables, or of parts, holds its certificate. Leave out the certificate")
    known = Certificate.read(path)
    require_own(known, path)
    return Release(records=None, certificate=known, info={}, path=path, certificate_path=certificate_in(path))


def _require_whole(table: Any, certificate: Certificate) -> None:
    """Refuse a dataframe that is not the whole release: a selection of it has another law."""
    if certificate.several:
        raise ParameterError("this certificate is that of a folder of tables. Give the folder")
    frame, stated = as_polars(table), certificate.tables[0]
    columns = certificate.facts.released.columns
    if missing := [name for name in columns if name not in frame.columns]:
        raise DataError(str(missing[0]), "is not in the release", "give the certificate that was written with it")
    if stated.rows not in (None, frame.height):
        raise DataError(
            None,
            f"it has {counted(frame.height, 'row')}, and its certificate is of {stated.rows:,}",
            "give the whole release, since a selection of it has another law",
        )
