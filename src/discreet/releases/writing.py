"""Writing records out: streamed into an open file."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from discreet._core import arrow
from discreet._core.errors import DiscreetError, FileProblem
from discreet._core.files import check_outputs, check_writable, recover, writing_problem
from discreet._core.formats import ENDINGS, Format, format_of, with_ending
from discreet._core.lazy import pl
from discreet.domain import escaped_frame
from discreet.releases.certificate import Certificate

CERTIFICATE_KEY, IDENTITY_KEY, PROMISE_KEY = "discreet.certificate", "discreet.identity", "discreet.promise"
"""What a Parquet or Arrow file of a release says of itself: its certificate, whose release it is, what was promised."""


def metadata_of(document: Certificate, certificate: Path) -> dict[str, str]:
    """Return what a file of a release says of itself."""
    metadata = {CERTIFICATE_KEY: certificate.name, PROMISE_KEY: document.statement}
    if document.identity is not None:
        metadata[IDENTITY_KEY] = str(document.identity)
    return metadata


def check_output(
    out: str | os.PathLike[str],
    certificate: str | os.PathLike[str] | None = None,
    *,
    inputs: Iterable[Any],
    outputs: Iterable[Any] = (),
) -> tuple[Path, Path]:
    """Return where a release and its certificate go, once both are known to be writable and to overwrite no input.

    Raises FileProblem where they are not, or MissingExtra where PyArrow is not installed. What is no path is no input.
    """
    path = Path(out)
    form = format_of(path)
    if form is None:
        raise FileProblem(out, "the format is not known by this ending", f"end the name in {ENDINGS}")
    if form.kind == "arrow":
        arrow.pyarrow("writing an Arrow file")
    certificate_file = certificate_path(path, certificate)
    written = [Path(other) for other in outputs if isinstance(other, (str, os.PathLike))]
    check_outputs([path, certificate_file, *written], inputs)
    for file in (path, certificate_file):
        _require_apart(file, inputs)
        check_writable(file)
    return path, certificate_file


def _require_apart(path: Path, inputs: Iterable[Any]) -> None:
    """Refuse an output within a folder that is read. Raises FileProblem."""
    folders = [Path(source) for source in inputs if isinstance(source, (str, os.PathLike))]
    for folder in folders:
        if folder.is_dir() and folder.resolve() in path.resolve().parents:
            raise FileProblem(path, "it lies in the folder that is read", "write it elsewhere")


def certificate_path(out: Path, certificate: str | os.PathLike[str] | None) -> Path:
    """Return where the certificate of a release goes: beside it by default."""
    return with_ending(out, ".certificate.json") if certificate is None else Path(certificate)


def check_folder(out: str | os.PathLike[str], *, inputs: Iterable[Any]) -> Path:
    """Return where a folder of tables, or of parts, goes. Raises FileProblem where no new one can be there."""
    folder = Path(out)
    if os.path.lexists(folder):
        raise FileProblem(
            out, "it exists already", "name a folder that does not exist. Earlier tables spent their own budget"
        )
    if not folder.absolute().parent.is_dir():
        raise FileProblem(out, "the folder above it does not exist", "create it first")
    _require_apart(folder, inputs)
    recover(folder)
    check_writable(folder)
    return folder


def write_frames(
    frames: Iterator[pl.DataFrame],
    schema: dict[str, Any],
    file: BinaryIO,
    *,
    named: Path,
    metadata: Mapping[str, str] | None = None,
    separator: str | None = None,
) -> int:
    """Stream frames into an open file in the format of the name that it will have; return the number of rows.

    Parquet and Arrow files carry ``metadata``. Raises FileProblem when the file cannot be written.
    """
    rows = 0

    def counted() -> Iterator[pl.DataFrame]:
        nonlocal rows
        for frame in frames:
            rows += frame.height
            yield frame

    with _writing(named):
        form = format_of(named)
        if form is not None and form.texts:
            _write_csv(counted(), file, form, separator)
        elif form is not None and form.kind == "arrow":
            arrow.write(counted(), schema, file, metadata)
        else:
            _sink_parquet(counted(), schema, file, metadata)
        file.flush()
    return rows


def write_part(
    frames: Iterator[pl.DataFrame],
    schema: dict[str, Any],
    files: Mapping[Any, Path],
    *,
    by: str | None,
    named: Path,
    metadata: Mapping[str, str],
) -> None:
    """Stream frames into a new Parquet file, or into one for each value of a column, which the files leave out.

    ``files`` has all values, as they are stored. Raises FileProblem when a file cannot be written.
    """
    target: Any = next(iter(files.values()))
    if by is not None:
        key = pl.col(by).to_physical()
        target = pl.PartitionBy(
            "", key=key, include_key=False, file_path_provider=lambda at: files[at.partition_keys.item()]
        )
    with _writing(named):
        _sink_parquet(frames, schema, target, metadata)
        columns = {name: kind for name, kind in schema.items() if name != by}
        for file in files.values():
            if not file.exists():
                _sink_parquet(iter([]), columns, file, metadata)


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


def _sink_parquet(
    frames: Iterator[pl.DataFrame], schema: dict[str, Any], file: Any, metadata: Mapping[str, str] | None
) -> None:
    from polars.io.plugins import register_io_source

    failure: list[BaseException] = []

    def source(_columns: Any, _predicate: Any, _rows: Any, _batch: Any) -> Iterator[pl.DataFrame]:
        try:
            yield from frames
        except BaseException as error:
            failure.append(error)
            raise

    try:
        register_io_source(source, schema=schema).sink_parquet(
            file,
            compression_level=1,  # as small as the usual 3, to a percent, and quicker
            metadata=None if metadata is None else dict(metadata),
        )
    except Exception:
        if failure:
            raise failure[0] from None
        raise


def _write_csv(frames: Iterator[pl.DataFrame], file: BinaryIO, form: Format, separator: str | None) -> None:
    """Write records. A separator that is not that of the ending is told by names in quotes, by which it is read."""
    quoted = separator not in (None, form.separator)
    stream: Any = nullcontext(file)
    if form.compressed:  # neither a time nor a name: the same records are the same bytes
        stream = gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0)
    with stream as texts:
        for i, frame in enumerate(frames):
            table = durations_as_texts(escaped_frame(frame))
            if i == 0 and quoted:
                names = ('"' + name.replace('"', '""') + '"' for name in table.columns)
                texts.write((str(separator).join(names) + "\n").encode())
            table.write_csv(texts, include_header=i == 0 and not quoted, separator=separator or form.separator)


def durations_as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose durations are texts such as 1h30m, which the domain reads back."""
    durations = pl.selectors.duration().dt.to_string("polars").str.replace_all(" ", "").str.replace("µ", "u")
    return frame.with_columns(durations)
