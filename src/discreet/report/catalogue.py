"""What catalogues are told of a release whose certificate is confirmed: Croissant 1.0 and DCAT-AP 3.0. Public."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import quote

from discreet import wording
from discreet._core.errors import FileProblem, ParameterError, choice
from discreet._core.files import check_outputs
from discreet._core.formats import Format, format_of
from discreet._core.page import OWN, FilePath, filled, write_own
from discreet._core.reading import file_sha256
from discreet._core.text import harmless, sentence
from discreet.releases import MANIFEST, no_rows, taken_for_sample
from discreet.report.promise import Promise, pair_of
from discreet.report.released import declared

_ADDRESS = re.compile(r"(?ai)https?://([!$-.0-;=@-Z_a-z~]+|\[[\da-f:.]+](:\d*)?)([/?#][!#-;=?-[\]_a-z~]*)?")


def describe(
    release: FilePath,
    standard: str,
    *,
    certificate: FilePath | None = None,
    title: str | None = None,
    url: str | None = None,
    licence: str | None = None,
    publisher: str | None = None,
) -> dict[str, Any]:
    """Return the description of a release as a JSON-LD document, if its certificate is confirmed."""
    # Without url, the address of the folder that will hold the release, addresses are relative.
    choice("as", standard, ("croissant", "dcat"))
    path, where = pair_of(release, certificate)
    promise = Promise.read(where, data=path)
    if promise.disagreements:
        raise FileProblem(where, "its claims are not confirmed", "run discreet verify to see which claim is wrong")
    for name, text in (("url", url), ("license", licence)):
        if text is not None and not _ADDRESS.fullmatch(text):
            raise ParameterError(f"{name} must be an address that starts with https:// or http://, got {text!r}")
    address = url and url.rstrip("/") + "/"
    values = {"url": address, "dataset": address or "#dataset", "licence": licence, "publisher": publisher}
    values |= {"title": title or path.name.partition(".")[0] or path.name, "writer": f"{OWN} {version('discreet')}"}
    form = json.loads(Path(__file__).with_name("standards").joinpath(f"{standard}.json").read_text("utf-8"))
    return dict(filled(form, values | _release_values(path, where, promise)))


def write_description(release: FilePath, out: FilePath, document: dict[str, Any], *, inputs: tuple[Any, ...]) -> None:
    """Write a description. Raises FileProblem when it cannot be written, or would replace something else."""
    path = Path(out)
    check_outputs([path], (pair_of(release, None)[0], *inputs))
    write_own(path, as_text(document), inputs=inputs)


def as_text(document: dict[str, Any]) -> str:
    """Return a description as JSON that can stand in the source of a web page, whatever its texts hold."""
    escapes = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&"})
    return json.dumps(document, indent=2, allow_nan=False).translate(escapes) + "\n"


def _release_values(path: Path, where: Path, promise: Promise) -> dict[str, Any]:
    """Return what is known of a release: its promise, its files and its columns."""
    certificate, sample, page = promise.certificate, taken_for_sample(promise.certificate), _file(where, path)
    notes = (promise.stated.poor, sample and sentence(f"{sample}."), *promise.caveats, *promise.verbatim)
    limits = [harmless(text) for text in notes if text]
    values: dict[str, Any] = {"promise": promise, "kind": wording.KINDS[promise.guarantee.kind]}
    values |= {name: repr(float(getattr(promise, name))) for name in ("epsilon", "delta")}
    values |= {"limits": limits, "sentences": " ".join(["", *limits]), "summary": sentence(certificate.summary)}
    values["identity"] = certificate.identity and f"urn:discreet:release:{quote(str(certificate.identity))}"
    files = [path]
    if certificate.in_parts:
        files = [path / MANIFEST]
    elif path.is_dir():
        files = [path / Path(str(table.file)).name for table in certificate.tables]
    tables = [_file(file, path) for file in files]
    if len(tables) == 1:
        tables[0]["set"] = "records"
    values |= {"tables": tables, "whole": tables, "folders": [], "files": [*tables, page], "page": page["name"]}
    key = None
    if certificate.in_parts:
        values |= {"whole": [], "folders": [{"name": f"{path.name}/"}]}
        key = certificate.facts.released.partition_by
    rows = declared(promise.mechanism.domain.row_domain)
    words = {name: "; ".join(filter(None, (kind, note))) for name, kind, _, note in rows}
    if (unit := certificate.facts.unit) is not None:
        words.setdefault(
            unit.column, f"names the unit: a number, the same in all of its rows, {unit.max_records} at most"
        )
    values |= {"unit": unit, "size": certificate.facts.size}
    columns: list[dict[str, Any]] = [
        {"column": name, "words": words.get(name), "type": _type(dtype)}
        | ({"inside": None, "property": "fullpath"} if name == key else {"inside": name, "property": None})
        for part in certificate.table_names
        for name, dtype in no_rows(promise.contents, part).schema.items()
        if part in ("", promise.contents.domain.units) or name != promise.contents.domain.unit
    ]
    for table, part in zip(tables, cycle(certificate.table_names), strict=False):
        names = no_rows(promise.contents, part).columns
        table["columns"] = [column for column in columns if column["column"] in names]
    return values | {"columns": columns}


def _file(path: Path, release: Path) -> dict[str, Any]:
    """Return a file by its name beside the description, its media types and its hash."""
    form, name = format_of(path) or Format(kind="", media="application/json"), path.name
    if path.parent == release:
        name = f"{release.name}/{name}"
    media, packed = form.media, "application/gzip" if form.compressed else None
    encoding = "application/x-parquet" if media.endswith("parquet") else list(filter(None, (media, packed)))
    facts = {"name": name, "set": Path(name).stem, "sha256": file_sha256(path), "bytes": path.stat().st_size}
    return facts | {"media": media, "packed": packed, "encoding": encoding}


def _type(dtype: Any) -> str:
    if dtype.is_numeric():
        return "sc:Integer" if dtype.is_integer() else "sc:Float"
    kinds = {"Boolean": "Boolean", "Date": "Date", "Datetime": "DateTime"}
    return "sc:" + kinds.get(str(dtype.base_type()), "Text")
