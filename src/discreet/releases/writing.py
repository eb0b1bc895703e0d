"""Writing a release: what it may replace, and its tables, streamed into files that appear beside their certificate."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any, BinaryIO
from unicodedata import normalize
from zipfile import ZipFile

import numpy as np

from discreet._core import formats
from discreet._core.errors import DiscreetError, FileProblem, ParameterError
from discreet._core.files import check_outputs, check_writable, new_folder, recover, together, writing_problem
from discreet._core.formats import ENDINGS, PARQUET, Frames, format_of, pyarrow, with_ending
from discreet._core.lazy import pl
from discreet._core.random import seeded
from discreet._core.reading import file_sha256
from discreet._core.text import harmless
from discreet.domain import Column, Counts, Domain, Records, escaped_frame
from discreet.ledger import MOST_PARTS, Output, Run
from discreet.releases.certificate import FOLDER_CERTIFICATE, PARTS_CERTIFICATE, Certificate
from discreet.releases.facts import FileFacts

CERTIFICATE_KEY, IDENTITY_KEY, PROMISE_KEY = "discreet.certificate", "discreet.identity", "discreet.promise"
"""What a Parquet or Arrow file of a release says of itself: its certificate, whose release it is, what was promised."""

MANIFEST = "_manifest.json"
"""The file of a release in parts that lists them."""
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""What stands for a missing value in the name of a folder."""


def place(
    output: Output, *, several: bool, inputs: tuple[Any, ...], outputs: Sequence[Path] = (), room: int = 0
) -> tuple[Path, Path]:
    """Return where a release of ``room`` bytes and its certificate go: files or a new folder. Raises FileProblem."""
    out: Any = output.path
    path, parts = Path(out), output.partitions is not None
    written = path / f"table.{output.format or 'parquet'}" if several or parts else out
    if (form := format_of(written)) is None:
        raise FileProblem(written, "the format is not known by this ending", f"end the name in {ENDINGS}")
    if form.reader:
        remedy = f"end the name in {ENDINGS}. {form.kind} imports CSV"
        raise FileProblem(written, f"a file of {form.kind} is read, and not written", remedy)
    if form.kind == "arrow":
        pyarrow("writing an Arrow file")
    if several or parts:
        kinds = (FOLDER_CERTIFICATE, "a folder of tables"), (PARTS_CERTIFICATE, "a release in parts")
        name, content = kinds[parts]
        if output.certificate is not None:
            raise ParameterError(f"{content} holds its certificate. Leave out the certificate's name")
        if os.path.lexists(path):
            raise FileProblem(
                out, "it exists already", "name a folder that does not exist. Earlier tables spent their own budget"
            )
        if not path.absolute().parent.is_dir():
            raise FileProblem(out, "the folder above it does not exist", "create it first")
        recover(path)
        check_writable(path, room, inputs)
        return path, path / name
    if output.format is not None:
        raise ParameterError(f"a format is for tables in a folder. Leave it out, and end the name in {ENDINGS}")
    paths = path, certificate_path(path, output.certificate)
    check_outputs([*paths, *outputs], inputs)
    for file in paths:
        check_writable(file, room if file is path else 0, inputs)
    require_whole_pair(*paths)
    return paths


def certificate_path(out: Path, certificate: str | os.PathLike[str] | None) -> Path:
    """Return where the certificate of a release goes: beside it by default."""
    if certificate is None:
        return with_ending(out, ".certificate.json")
    return Path(certificate)


def require_whole_pair(path: Path, where: Path) -> None:
    """Refuse to replace anything but a table with its certificate, once a dead write is settled. Raises FileProblem."""
    recover(path, where)
    table, certificate, facts = os.path.lexists(path), os.path.lexists(where), None
    if certificate:
        with suppress(FileProblem, ParameterError):
            facts = Certificate.read(where).tables[0]
    if not (table or certificate) or (table and facts is not None and facts.sha256 == file_sha256(path)):
        return
    replaced = "and only a table with its certificate is replaced"
    wrong, problem = where, f"it exists without {path.name}, {replaced}"
    if not certificate:
        wrong, problem = path, f"it exists without {where.name}, {replaced}"
    elif facts is not None and facts.file not in (None, path.name):
        problem = f"it is the certificate of {harmless(str(facts.file))}, which cannot do without it"
    elif table:
        problem = "it exists and is not the certificate of a release"
        if facts is not None:
            problem = f"it exists and is not the certificate of {path.name}"
    raise FileProblem(wrong, problem, "give another name: out=... or out=Output(..., certificate=...)")


_SPECIAL = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(32)))
MOST_LABELS = 1000
_LONGEST = 200  # bytes of a name


def folders_of(domain: Domain, name: str) -> dict[Any, str]:
    """Return the name of the folder of each value of a declared column, as it is stored. Raises ParameterError."""
    column = domain.columns.get(name)
    if column is None:
        raise ParameterError(f"partition_by must be a declared column, got {name!r}")
    cells, problem = column.size or 0, None
    if name.startswith((".", "_")):
        problem = f"programs ignore folders whose names begin like {name!r}"
    elif not 0 < cells <= MOST_LABELS:
        problem = f"{name!r} has more than {MOST_LABELS:,} values"
    elif len(domain.columns) == 1:
        problem = f"{name!r} is the only column, and its files would have no columns"
    elif column.interval(np.arange(cells)) is not None:
        problem = f"{name!r} has cells that hold several values"
    if problem is not None:
        raise ParameterError(f"partition_by: {problem}. Name another column")
    values = column.decode(np.arange(cells), rng=seeded(0))
    texts = column.write(values).cast(pl.String).to_list()
    folders = [f"{escaped(name)}={NO_VALUE if text is None else escaped(text)}" for text in texts]
    # File systems exist that tell neither capitals nor ways of composing a letter apart.
    alike = {normalize("NFC", normalize("NFC", folder).casefold()) for folder in folders}
    if {"", NO_VALUE}.intersection(texts) or len(alike) < len(folders):
        problem = f"values of {name!r} cannot be told apart as names of folders"
    elif max(len(folder.encode()) for folder in folders) > _LONGEST:
        problem = f"a value of {name!r} is too long for the name of a folder"
    if problem is not None:
        raise ParameterError(f"partition_by: {problem}. Name another column")
    return dict(zip(values.to_physical(), folders, strict=True))


def escaped(text: str) -> str:
    """Return a text with every character percent-encoded that Hive encodes in names: a%2Fb for a/b."""
    return text.translate({ord(character): f"%{ord(character):02X}" for character in _SPECIAL})


def require_parts(output: Output, domain: Domain | None, *, records: bool) -> None:
    """Refuse parts of anything but ``records``, and folders that cannot be named. Raises ParameterError."""
    if output.partitions is None:
        return
    if not records or (domain is not None and domain.tables):
        raise ParameterError("units, counts and several tables cannot be released in parts. Leave partitions out")
    if output.partition_by is None or domain is None:
        return
    folders, count = len(folders_of(domain, output.partition_by)), output.partitions
    if folders * count > MOST_PARTS:
        raise ParameterError(
            f"{folders:,} values with {count:,} parts each are more than {MOST_PARTS:,} files. Ask for fewer partitions"
        )


# A kernel's output waits beside the name of its release until that is written: where a run dies, the next one goes on.


def save_output(file: Path, digest: str, output: Any, document: Certificate, run: Run) -> Any:
    """Save a kernel's output with what is certified so far, and the digest of its request; return the output."""
    none_yet = FileFacts(file=None, rows=0, sha256=None)
    values = {"request": digest, "certificate": document.releasing(tables=[none_yet]).to_dict(), "output": output}
    with together(file, private=True, lock=False) as (draft,):
        with ZipFile(draft, "w") as archive:
            archive.writestr("output.json", json.dumps(values, default=partial(_packed, archive)))
        draft.flush()
        run.note_output(file, Path(draft.name))
    if isinstance(output, Iterator):
        return read_output(file, digest)[1]
    return output


def _packed(archive: ZipFile, value: Any) -> Any:
    """Return a part of an output that JSON does not know; numbers become members of an archive."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        name = f"{len(archive.namelist())}.npy"
        with archive.open(name, "w", force_zip64=True) as member:
            np.lib.format.write_array(member, value, allow_pickle=False)
        return {":numbers": name}
    if isinstance(value, Iterator):  # one chunk after the other
        return {":chunks": [json.dumps(chunk, default=partial(_packed, archive)) for chunk in value]}
    if isinstance(value, np.ndarray):
        return {":labels": value.tolist()}
    return {f":{name}": getattr(value, name) for name in value.__dataclass_fields__}


def read_output(file: Path, digest: str) -> tuple[Certificate, Any]:
    """Return what is certified so far of the output that waits in a file, and the output. Raises FileProblem."""
    try:
        archive = ZipFile(file)
        values = json.loads(archive.read("output.json"), object_hook=partial(_unpacked, archive))
        document = Certificate.from_dict(values["certificate"] if archive.testzip() is None else {})
    except Exception:  # noqa: BLE001  # a reader of files that were changed fails in many ways
        raise FileProblem(file, "it holds no output of a kernel, or was changed", "move it away") from None
    if values["request"] != digest:
        remedy = "run that command again, which costs nothing, or move the file away, which gives that release up"
        raise FileProblem(file, "the output of another request waits in it to be written", remedy)
    return document, values["output"]


def _unpacked(archive: ZipFile, value: dict[str, Any]) -> Any:
    """Return a part of an output from JSON values and the members of an archive."""
    match value:
        case {":numbers": str(name)}:
            return np.lib.format.read_array(archive.open(name), allow_pickle=False)
        case {":chunks": list(texts)}:
            return (json.loads(text, object_hook=partial(_unpacked, archive)) for text in texts)
        case {":labels": list(labels)}:
            return np.array(labels, dtype=object)
        case {":columns": list(columns)}:
            return Records(columns=tuple(columns))
        case {":records": records, ":frequencies": frequencies}:
            return Counts(records=records, frequencies=frequencies)
    return value


def metadata_of(document: Certificate, certificate: Path) -> dict[str, str]:
    """Return what a file of a release says of itself."""
    metadata = {CERTIFICATE_KEY: certificate.name, PROMISE_KEY: document.statement}
    if document.identity is not None:
        metadata[IDENTITY_KEY] = str(document.identity)
    return metadata


def write(
    tables: Iterator[Frames],
    schemas: Sequence[dict[str, Any]],
    document: Certificate,
    paths: tuple[Path, Path],
    *,
    inputs: tuple[Any, ...],
    run: Run,
    form: str | None = None,
    separator: str | None = None,
) -> Certificate:
    """Write everything at once, to be committed by the run; return the certificate with what was written."""
    # form: the ending of each file in a folder
    path, certificate = paths
    columns = Domain.from_dict(document.facts.domain).row_domain.columns
    ends = {f"{name}{end}": column for name, column in columns.items() for end in ("_from", "_to")}
    options: dict[str, Any] = {"metadata": metadata_of(document, certificate), "columns": {**ends, **columns}}
    paid_for: dict[str, Any] = {}  # complete before the commit
    on_commit = run.on_commit(partial(run.commit, paid_for))
    if document.several:
        files = []
        with new_folder(path, on_commit=on_commit) as draft:
            names = (f"{name}.{form or 'parquet'}" for name in document.file_names())
            for name, schema, frames in zip(names, cycle(schemas), tables, strict=False):
                with together(draft / name) as (table,):
                    files.append(write_table(frames, schema, table, named=path / name, **options))
            document = document.releasing(tables=files)
            paid_for |= document.paid_for
            with together(draft / certificate.name) as (file,):
                file.write(document.to_json().encode())
    else:
        hashes: dict[Path, str] = {}
        check = partial(require_whole_pair, *paths)
        with together(*paths, inputs=inputs, check=check, on_commit=on_commit, hashes=hashes) as (table, file):
            facts = write_table(next(tables), schemas[0], table, named=path, separator=separator, **options)
            hashes[path] = str(facts.sha256)
            document = document.releasing(tables=[facts])
            paid_for |= document.paid_for
            file.write(document.to_json().encode())
    return document


def write_table(
    frames: Frames,
    schema: dict[str, Any],
    file: BinaryIO,
    *,
    named: Path,
    metadata: Mapping[str, str] | None = None,
    columns: Mapping[str, Column] | None = None,
    separator: str | None = None,
) -> FileFacts:
    """Stream frames into an open file, in CSV as some columns declare; return what is stated. Raises FileProblem."""
    rows, form, declared = 0, format_of(named) or PARQUET, columns or {}

    def stream() -> Frames:
        nonlocal rows
        for frame in frames:
            rows, table = rows + frame.height, frame
            if form.texts:
                table = escaped_frame(frame)
                for name, values in zip(frame.columns, table, strict=True):
                    if (column := declared.get(name)) is not None:  # numbers are no formulas
                        plain = frame[name] if column.kind in ("numeric", "integer", "decimal") else values
                        table = table.with_columns(column.write(plain).alias(values.name))
            yield table

    with _writing(named):
        formats.write(stream(), schema, file, form, metadata, separator)
        file.flush()
    return FileFacts(file=named.name, rows=rows, sha256=file_sha256(Path(file.name)))


def write_part(
    frames: Frames,
    schema: dict[str, Any],
    files: Mapping[Any, Path],
    *,
    by: str | None,
    named: Path,
    metadata: Mapping[str, str],
) -> None:
    """Stream frames into a new Parquet file, or into one for each stored value of a column. Raises FileProblem."""
    target: Any = next(iter(files.values()))
    if by is not None:
        key = pl.col(by).to_physical()
        target = pl.PartitionBy(
            "", key=key, include_key=False, file_path_provider=lambda at: files[at.partition_keys.item()]
        )
    with _writing(named):
        formats.write(frames, schema, target, PARQUET, metadata)
        columns = {name: kind for name, kind in schema.items() if name != by}
        for file in files.values():
            if not file.exists():
                formats.write(iter([]), columns, file, PARQUET, metadata)


@contextmanager
def _writing(named: Path) -> Iterator[None]:
    """Raise an error of the writing of a file as a FileProblem."""
    try:
        yield
    except Exception as error:
        if isinstance(error, DiscreetError):
            raise
        # The text of any other error could quote a value: only the system's own reason is repeated.
        raise writing_problem(named, error) from None
