"""The folder that a page works in: a confidential file, its declaration, its ledger, and what was released of it.

A second visit finds all of them by their names: beside ``survey.csv`` these are ``survey.toml`` and ``survey.ledger``,
and every release has a certificate. A confidential folder is one table in parts, or several tables of one domain.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet._core.errors import DiscreetError, FileProblem, ParameterError
from discreet._core.formats import READABLE, format_of
from discreet._core.reading import bounded_text
from discreet.confidential import open_source
from discreet.domain import Domain
from discreet.ledger import Ledger, loss_texts
from discreet.releases import Certificate, certificate_in, read

_CERTIFICATE = ".certificate.json"


@dataclass(frozen=True, slots=True)
class ReleasedFile:
    """A release that is in the folder. Public."""

    path: Path
    certificate: Certificate
    certificate_path: Path

    @property
    def name(self) -> str:
        """The name of the file, or of its folder."""
        return self.path.name


class Workspace:
    """What a page is about: ``data``, a confidential file or folder, or ``released``, a release alone."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        place = Path(path).absolute()
        if not place.exists():
            raise FileProblem(path, "there is no such file", "check the path")
        self.folder, self.released = place.parent, _release_at(place)
        self.data, self.tables = None, dict[str, Path]()
        if self.released is None:
            self.data, self.tables = place, _tables_at(place)
        self.several = len(self.tables) > 1
        if self.data is not None and not self.several and "" not in self.tables:
            problem = "it is neither a table nor a release"
            raise FileProblem(path, problem, f"give a file that ends in {READABLE}, or a folder of several tables")

    @property
    def domain_file(self) -> Path:
        """Where the declaration is, or will be."""
        return self.beside(".toml")

    @property
    def ledger_file(self) -> Path:
        """Where the ledger is, or will be."""
        return self.beside(".ledger")

    def beside(self, ending: str) -> Path:
        """Return the name of a file that goes with the data."""
        if self.data is None:
            raise ParameterError("this page is about a release, and has no data")
        return self.data.with_name(self.data.name.partition(".")[0] + ending)

    def declaration(self) -> str:
        """Return the text of the declaration; empty where there is none."""
        if not self.domain_file.exists():
            return ""
        return bounded_text(self.domain_file, missing="declare the columns", remedy="check that it is a text")

    def domain(self) -> Domain | None:
        """Return the declared domain; None where it is not complete."""
        with contextlib.suppress(DiscreetError):
            return Domain.from_toml(self.declaration())
        return None

    def ledger(self) -> dict[str, Any] | None:
        """Return the status of the ledger; None where there is none."""
        if not self.ledger_file.exists():
            return None
        with Ledger(self.ledger_file) as book:
            status = book.status()
            unit = {key: str(status.covers[key]) for key in ("unit", "max_records") if status.covers["unit"]}
            facts = {"name": self.ledger_file.name, "dataset": book.dataset, "text": str(status)}
            return {**facts, "covers": unit, "left": loss_texts(status.to_dict())["left"]}

    def releases(self) -> list[ReleasedFile]:
        """Return the releases in the folder, by name; files that are links are left aside."""
        found = {}
        for entry in sorted(self.folder.iterdir()):
            if entry.is_symlink() or not (entry.is_dir() or entry.name.endswith(_CERTIFICATE)):
                continue
            release = _release_of(entry)
            if release is not None and not release.path.is_symlink() and release.path != self.data:
                found[release.path] = release
        return [*found.values()]

    def release(self, name: str) -> ReleasedFile:
        """Return a release of the folder. Raises FileProblem where there is none of this name."""
        for release in [self.released] if self.released is not None else self.releases():
            if release.name == name:
                return release
        raise FileProblem(name, "is no release of this folder", "choose one of the list")

    def output(self, name: str, ending: str = "") -> str:
        """Return the name of a release, with an ending unless it has one. Raises ParameterError for a path."""
        if not name or name != Path(name).name or name.startswith(("-", ".")):
            raise ParameterError("the name of a release must have no folder in it. Write a name such as synthetic")
        if not ending or format_of(name) is not None:
            return name
        return f"{name}.{ending}"


def _tables_at(place: Path) -> dict[str, Path]:
    """Return the tables at a place, by name; one has none. Links in a folder are left aside, and no row is read."""
    if not place.is_dir() and format_of(place) is None:
        return {}
    if not place.is_dir():
        return {"": place}
    with contextlib.suppress(DiscreetError):
        if open_source(place).names:  # a folder of Parquet files
            return {"": place}
    files = [file for file in sorted(place.iterdir()) if file.is_file() and not file.is_symlink()]
    return {file.name.partition(".")[0]: file for file in files if format_of(file) is not None}


def _release_of(entry: Path) -> ReleasedFile | None:
    """Return the release that a folder is, or that a certificate is of; None where it is neither."""
    with contextlib.suppress(DiscreetError, OSError, ValueError):  # whoever wrote it
        if entry.is_dir() and certificate_in(entry).is_file():
            return ReleasedFile(entry, Certificate.read(entry), certificate_in(entry))
        if not entry.is_file():  # a pipe would wait for ever
            return None
        certificate = Certificate.read(entry)
        path = entry.with_name(Path(str(certificate.tables[0].file)).name)
        if path.is_file():
            return ReleasedFile(path, certificate, entry)
    return None


def _release_at(place: Path) -> ReleasedFile | None:
    """Return the release at a place, a file or a folder; None where it has no certificate."""
    if place.is_dir() or place.name.endswith(_CERTIFICATE):
        return _release_of(place)
    with contextlib.suppress(DiscreetError, OSError):
        release = read(place)
        return ReleasedFile(place, release.certificate, release.certificate_path or place)
    return None
