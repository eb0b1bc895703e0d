"""A release as catalogues describe it: Croissant and DCAT-AP, in JSON-LD. Public, from the certificate alone.

The promise is recomputed first, and nothing is described whose certificate is not confirmed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from discreet._core.checks import choice
from discreet._core.errors import FileProblem, ParameterError
from discreet._core.formats import format_of
from discreet._core.lazy import pl
from discreet._core.reading import first_wrong
from discreet._core.text import harmless, sentence
from discreet._core.version import __version__
from discreet._core.writing import OWN, check_outputs, file_sha256, require_own, together
from discreet.releases.certificate import FOLDER_CERTIFICATE, PARTS_CERTIFICATE, certificate_in
from discreet.releases.content import no_rows
from discreet.releases.manifest import MANIFEST
from discreet.releases.release import taken_for_sample
from discreet.releases.writing import certificate_path
from discreet.report.promise import Promise
from discreet.report.released import declared

TERMS = "urn:discreet:certificate:1#"
"""Where the terms of the promise come from: they are the fields of a certificate of version 1."""

_CROISSANT = "http://mlcommons.org/croissant/1.0"
_RAI = "http://mlcommons.org/croissant/RAI/1.0"
_IANA = "https://www.iana.org/assignments/media-types/"
_GZIP = "application/gzip"
_PARQUET, _CROISSANT_PARQUET = "application/vnd.apache.parquet", "application/x-parquet"
_UNVERIFIED: dict[str, Any] = {"created": (str,), "library": {"name": (str,), "version": (str,)}}
_KEYWORDS = ("synthetic data", "differential privacy")
_SEPARATED = {",": "text/csv", "\t": "text/tab-separated-values"}


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file of a release: its name beside the description, its media types (packed ones have two) and its hash."""

    name: str
    media: tuple[str, ...]
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """What a catalogue is told of a release.

    ``title``, ``url``, ``licence``, ``publisher``: as the publisher gives them, the address with a slash at its end.
    ``promise``: recomputed.
    ``files``: the released tables, or the manifest of a release in parts.
    ``certificate``: the file that states the promise.
    """

    title: str
    url: str | None
    licence: str | None
    publisher: str | None
    promise: Promise
    files: tuple[File, ...]
    certificate: File

    def at(self, name: str) -> str:
        """Return the address of a file: absolute where it is known, otherwise relative to the description."""
        return f"{self.url or ''}{quote(name)}"

    @property
    def created(self) -> str:
        """When it was made."""
        return harmless(self.promise.certificate.facts.created)

    @property
    def identifier(self) -> str | None:
        """A name of this release alone; seeded ones have none."""
        found = self.promise.certificate.identity
        return None if found is None else f"urn:discreet:release:{quote(str(found))}"

    @property
    def schema(self) -> dict[str, Any]:
        """Names and types of the released columns."""
        return dict(no_rows(self.promise.mechanism, self.promise.content).schema)

    @property
    def description(self) -> str:
        """What was released and what is promised, in words."""
        return harmless(
            f"{sentence(self.promise.certificate.summary)}. {self.promise.stated.facts.guarantee.statement}"
        )

    @property
    def limits(self) -> list[str]:
        """What a user of the release should know before anything else."""
        sample = taken_for_sample(self.promise.certificate)
        told = (self.promise.poor, None if sample is None else sentence(f"{sample}."), *self.promise.caveats)
        return [harmless(text) for text in (*told, *self.promise.verbatim) if text]

    @property
    def numbers(self) -> dict[str, Any]:
        """The promise for machines, as the certificate names it.

        Epsilon and delta are texts with all their digits: a reader of JSON-LD would round numbers, maybe down.
        """
        facts = self.promise.stated.facts
        stated = facts.guarantee
        return {
            "epsilon": _double(self.promise.epsilon),
            "delta": _double(self.promise.delta),
            "relation": facts.relation.name,
            "group": facts.relation.group,
            "records": facts.records,
            "kind": stated.kind,
            "theorem": stated.theorem,
            "exact": stated.exact,
            "mechanism": facts.mechanism.name,
            "statement": harmless(stated.statement),
            "randomness": harmless(facts.randomness),
        }


def describe(
    release: str | os.PathLike[str],
    form: str,
    *,
    certificate: str | os.PathLike[str] | None = None,
    title: str | None = None,
    url: str | None = None,
    licence: str | None = None,
    publisher: str | None = None,
) -> dict[str, Any]:
    """Return the description of a release as a JSON-LD document.

    ``release``: the released file, or the folder of a release in parts or of several tables.
    ``form``: croissant or dcat.
    ``title``: by default the name of the file.
    ``url``: the address of the folder that will hold the release. Without it, addresses are relative.
    ``licence``: the address of the licence.

    Raises FileProblem when the release cannot be read or its certificate is not confirmed, ParameterError when an
    address is none.
    """
    make: Callable[[Described], dict[str, Any]] = {"croissant": croissant, "dcat": dcat}[
        choice("as", form, ("croissant", "dcat"))
    ]
    path = _release(release)
    where = certificate_in(path) if path.is_dir() and certificate is None else certificate_path(path, certificate)
    promise = Promise.read(where, data=path)
    if promise.disagreements:
        raise FileProblem(where, "its claims are not confirmed", "run discreet verify to see which claim is wrong")
    if (wrong := first_wrong(promise.certificate.to_dict(), _UNVERIFIED, "")) is not None:
        raise FileProblem(where, f"its field {wrong} is missing or of the wrong kind", "give the file that was written")
    address = _address("url", url)
    return make(
        Described(
            title=harmless(title or path.name.partition(".")[0] or path.name),
            url=None if address is None else address.rstrip("/") + "/",
            licence=_address("license", licence),
            publisher=None if publisher is None else harmless(publisher),
            promise=promise,
            files=tuple(_files(path, promise)),
            certificate=_file(where, where.relative_to(path.parent).as_posix() if path.is_dir() else where.name),
        )
    )


def write_description(
    release: str | os.PathLike[str], out: str | os.PathLike[str], document: dict[str, Any], *, inputs: tuple[Any, ...]
) -> None:
    """Write a description. Raises FileProblem when it cannot be written, or would replace something else."""
    path = Path(out)
    check_outputs([path], (_release(release), *inputs))
    with together(path, inputs=inputs, check=lambda: require_own(path)) as (file,):
        file.write(as_text(document).encode())


def as_text(document: dict[str, Any]) -> str:
    """Return a description as JSON that can stand in the source of a web page, whatever its texts hold."""
    text = json.dumps(document, indent=2, allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text + "\n"


# -- the two forms --------------------------------------------------------------------------------------------------


def croissant(of: Described) -> dict[str, Any]:
    """Return a description in Croissant 1.0, with the fields of its vocabulary for responsible AI."""
    agent = None if of.publisher is None else {"@type": "sc:Organization", "name": of.publisher}
    parts = of.promise.certificate.in_parts
    sets = {file.name: "records" if len(of.files) == 1 else Path(file.name).stem for file in of.files}
    distribution = [
        {
            "@type": "cr:FileObject",
            "@id": quote(file.name),
            "name": file.name,
            "contentUrl": of.at(file.name),
            "contentSize": f"{file.bytes} B",
            "encodingFormat": _CROISSANT_PARQUET if file.media == (_PARQUET,) else list(file.media),
            "sha256": file.sha256,
        }
        for file in (*of.files, of.certificate)
    ]
    if parts:
        folder = of.files[0].name.rpartition("/")[0]
        distribution.append(
            {
                "@type": "cr:FileSet",
                "@id": "parts",
                "name": "parts",
                "encodingFormat": _CROISSANT_PARQUET,
                "includes": f"{folder}/**/*.parquet",
            }
        )
    return _without_none(
        {
            "@context": _croissant_context(),
            "@type": "sc:Dataset",
            "conformsTo": [_CROISSANT, _RAI],
            "name": of.title,
            "description": of.description,
            "url": of.url,
            "license": of.licence,
            "creator": agent,
            "publisher": agent,
            "datePublished": of.created,
            "identifier": of.identifier,
            "keywords": list(_KEYWORDS),
            "isLiveDataset": False,
            "rai:dataCollection": _how(of),
            "rai:dataCollectionType": ["Synthetic"],
            "rai:dataLimitations": of.limits,
            "rai:personalSensitiveInformation": [harmless(of.promise.stated.facts.guarantee.statement)],
            "promise": of.numbers,
            "writer": f"{OWN} {__version__}",
            "distribution": distribution,
            "recordSet": [_record_set(of, file.name, sets[file.name]) for file in of.files],
        }
    )


def dcat(of: Described) -> dict[str, Any]:
    """Return a description in DCAT-AP 3.0."""
    page = of.at(of.certificate.name)
    return _without_none(
        {
            "@context": _DCAT_CONTEXT,
            "@id": of.url or "#dataset",
            "@type": "dcat:Dataset",
            "dct:title": _english(of.title),
            "dct:description": _english(" ".join([of.description, *of.limits])),
            "dct:identifier": of.identifier,
            "dct:issued": {"@type": "xsd:dateTime", "@value": of.created},
            "dct:publisher": None
            if of.publisher is None
            else {"@id": f"{of.url or ''}#publisher", "@type": "foaf:Agent", "foaf:name": of.publisher},
            "dct:provenance": {"@type": "dct:ProvenanceStatement", "rdfs:label": _english(_how(of))},
            "dcat:keyword": [_english(word) for word in _KEYWORDS],
            "foaf:page": {"@id": page, "@type": "foaf:Document"},
            "discreet:promise": {f"discreet:{name}": value for name, value in of.numbers.items()},
            "discreet:writer": f"{OWN} {__version__}",
            "dcat:distribution": [_distribution(of, file) for file in of.files],
        }
    )


def _how(of: Described) -> str:
    library, name = of.promise.certificate.facts.library, of.promise.certificate.facts.mechanism.name
    made = f"Synthetic: made from a confidential table by the mechanism {name} of {library.name} "
    told = f"{library.version}. {of.promise.kind} Recompute it with discreet verify from {of.certificate.name}."
    return harmless(made + told)


def _record_set(of: Described, file: str, name: str) -> dict[str, Any]:
    facts = declared(of.promise.mechanism.domain)
    words = {column: harmless(f"{kind}; {rest}" if rest else kind) for column, kind, _, rest in facts}
    folders = of.promise.certificate.facts.released.partition_by if of.promise.certificate.in_parts else None
    fields = []
    for column, dtype in of.schema.items():
        source: dict[str, Any] = {"fileObject": {"@id": quote(file)}, "extract": {"column": column}}
        if of.promise.certificate.in_parts:
            source = {"fileSet": {"@id": "parts"}, "extract": {"column": column}}
            if column == folders:
                source["extract"] = {"fileProperty": "fullpath"}
                source["transform"] = {"regex": ".*=([^/=]*)/[^/]*$"}
        fields.append(
            {
                "@type": "cr:Field",
                "@id": f"{quote(name)}/{quote(column, safe='')}",
                "name": column,
                "description": words.get(column),
                "dataType": _type(dtype),
                "source": source,
            }
        )
    return {"@type": "cr:RecordSet", "@id": quote(name), "name": name, "field": fields}


def _type(dtype: Any) -> str:
    if dtype.is_integer():
        return "sc:Integer"
    if dtype.is_numeric():
        return "sc:Float"
    return {pl.Boolean: "sc:Boolean", pl.Date: "sc:Date", pl.Datetime: "sc:DateTime"}.get(dtype.base_type(), "sc:Text")


def _distribution(of: Described, file: File) -> dict[str, Any]:
    parts = of.promise.certificate.in_parts
    folder = file.name.rpartition("/")[0] + "/"
    media = _PARQUET if parts else file.media[0]
    return {
        "@type": "dcat:Distribution",
        "dct:title": _english(folder if parts else file.name),
        "dcat:accessURL": {"@id": of.at(folder if parts else file.name), "@type": "rdfs:Resource"},
        "dcat:downloadURL": None if parts else {"@id": of.at(file.name), "@type": "rdfs:Resource"},
        "dcat:mediaType": {"@id": f"{_IANA}{media}", "@type": "dct:MediaType"},
        "dcat:compressFormat": {"@id": f"{_IANA}{_GZIP}", "@type": "dct:MediaType"} if _GZIP in file.media else None,
        "dcat:byteSize": None if parts else {"@type": "xsd:nonNegativeInteger", "@value": str(file.bytes)},
        "dct:license": None if of.licence is None else {"@id": of.licence, "@type": "dct:LicenseDocument"},
        "spdx:checksum": None
        if parts
        else {
            "@type": "spdx:Checksum",
            "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256", "@type": "spdx:ChecksumAlgorithm"},
            "spdx:checksumValue": {"@type": "xsd:hexBinary", "@value": file.sha256},
        },
    }


# -- parts of both --------------------------------------------------------------------------------------------------


def _release(release: str | os.PathLike[str]) -> Path:
    path = Path(release)
    return path.parent if path.name in (FOLDER_CERTIFICATE, PARTS_CERTIFICATE) else path


def _files(path: Path, promise: Promise) -> Iterator[File]:
    """Yield the released tables, or the manifest of a release in parts."""
    if promise.certificate.in_parts:
        yield _file(path / MANIFEST, f"{path.name}/{MANIFEST}")
    elif promise.certificate.several:
        for table in promise.certificate.tables:
            name = Path(str(table.file)).name
            yield _file(path / name, f"{path.name}/{name}")
    else:
        yield _file(path, path.name)


def _file(path: Path, name: str) -> File:
    form = format_of(path)
    media: tuple[str, ...] = ("application/json",)
    if form is not None and form.texts:
        media = (_SEPARATED[form.separator], *([_GZIP] if form.compressed else []))
    elif form is not None:
        media = (_PARQUET if form.kind == "parquet" else "application/vnd.apache.arrow.file",)
    return File(name=name, media=media, sha256=file_sha256(path), bytes=path.stat().st_size)


def _address(name: str, text: str | None) -> str | None:
    """Return an address of the web as it was given. Raises ParameterError when it is none."""
    if text is None:
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    plain = text.isascii() and text.isprintable() and not set(text) & set(' "<>\\^`{|}')
    if parts.scheme not in ("http", "https") or not parts.netloc or not plain:
        raise ParameterError(f"{name} must be an address that starts with https:// or http://, got {text!r}")
    return text


def _double(value: float) -> dict[str, str]:
    return {"@type": "http://www.w3.org/2001/XMLSchema#double", "@value": repr(float(value))}


def _english(text: str) -> dict[str, str]:
    return {"@language": "en", "@value": harmless(text)}


def _without_none(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without the fields that have no value, at any depth."""

    def kept(value: Any) -> Any:
        if isinstance(value, dict):
            return _without_none(value)
        return [kept(one) for one in value] if isinstance(value, list) else value

    return {key: kept(value) for key, value in document.items() if value is not None}


_DCAT_CONTEXT = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "discreet": TERMS,
    "foaf": "http://xmlns.com/foaf/0.1/",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "spdx": "http://spdx.org/rdf/terms#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def _croissant_context() -> dict[str, Any]:
    """Return the context that Croissant 1.0 prescribes, and our two terms."""
    own = {
        name: f"cr:{name}"
        for name in (
            *("citeAs", "column", "equivalentProperty", "extract", "field", "fileProperty", "fileObject", "fileSet"),
            *("format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField", "path", "recordSet"),
            *("references", "regex", "repeated", "replace", "samplingRate", "separator", "source", "subField"),
            "transform",
        )
    }
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
        **own,
        "promise": {"@id": f"{TERMS}promise", "@context": {"@vocab": TERMS}},
        "writer": f"{TERMS}writer",
    }
