"""Writing records out: streamed into an open file."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from discreet._core import arrow
from discreet._core.errors import DiscreetError, FileProblem
from discreet._core.files import check_outputs, check_writable, recover, writing_problem
from discreet._core.formats import ENDINGS, Format, format_of, with_ending
from discreet._core.lazy import pl
from discreet.domain import escaped_frame

CERTIFICATE_KEY, IDENTITY_KEY, PROMISE_KEY = "discreet.certificate", "discreet.identity", "discreet.promise"
"""What a Parquet or Arrow file of a release says of itself: its certificate, whose release it is, what was promised."""


def check_output(
    out: str | os.PathLike[str],
    certificate: str | os.PathLike[str] | None = None,
    *,
    inputs: Iterable[Any],
    others: Iterable[Any] = (),
) -> tuple[Path, Path]:
    """Return where a release and its certificate go, once both are known to be writable and to overwrite no input.

    Raises FileProblem when the ending is another one, a folder is missing or not writable, two of all these are one
    file, or one lies in a folder that is read; or MissingExtra when PyArrow is needed and not installed.

    ``out``: Has the ending of a file of a table.
    ``certificate``: ``OUT.certificate.json`` by default.
    ``inputs``: paths that were read; anything that is no path is passed over.
    ``others``: paths of other outputs.
    """
    path = Path(out)
    form = format_of(path)
    if form is None:
        raise FileProblem(out, "the format is not known by this ending", f"end the name in {ENDINGS}")
    if form.kind == "arrow":
        arrow.pyarrow("writing an Arrow file")
    where = certificate_path(path, certificate)
    written = [Path(other) for other in others if isinstance(other, (str, os.PathLike))]
    check_outputs([path, where, *written], inputs)
    for one in (path, where):
        _require_apart(one, inputs)
        check_writable(one)
    return path, where


def _require_apart(path: Path, inputs: Iterable[Any]) -> None:
    """Refuse an output within a folder that is read. Raises FileProblem."""
    read = [Path(one) for one in inputs if isinstance(one, (str, os.PathLike))]
    if any(folder.is_dir() and folder.resolve() in path.resolve().parents for folder in read):
        raise FileProblem(path, "it lies in the folder that is read", "write it elsewhere")


def certificate_path(out: Path, certificate: str | os.PathLike[str] | None) -> Path:
    """Return where the certificate of a release goes: beside it by default."""
    return with_ending(out, ".certificate.json") if certificate is None else Path(certificate)


def check_folder(out: str | os.PathLike[str], *, inputs: Iterable[Any]) -> Path:
    """Return where a folder of tables, or of parts, goes.

    Raises FileProblem when something has its name, it would lie in a folder that is read, or the folder above it does
    not exist or takes no new one.
    """
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
    """Stream frames into an open file in the format of a name's ending; return the number of rows.

    Raises FileProblem when the disk is full or the file cannot be written.

    ``frames``: the records.
    ``schema``: their columns and types.
    ``file``: Open for writing.
    ``named``: the name it will have.
    ``metadata``: texts for a Parquet or Arrow file to carry, by key; CSV has no place for them.
    ``separator``: of the fields of CSV, where it is not that of the ending.
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

    Raises FileProblem when the disk is full or a file cannot be written.

    ``files``: by all values, as numbers where they are stored as such; also those that no frame has.
    """
    target: Any = next(iter(files.values()))
    if by is not None:
        key = pl.col(by).to_physical()
        target = pl.PartitionBy(
            "", key=key, include_key=False, file_path_provider=lambda at: files[at.partition_keys.item()]
        )
    with _writing(named):
        _sink_parquet(frames, schema, target, metadata)
        held = {name: kind for name, kind in schema.items() if name != by}
        for file in files.values():
            if not file.exists():
                _sink_parquet(iter([]), held, file, metadata)


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
    if not form.compressed:
        _write_texts(frames, file, form, separator)
        return
    # Neither a time nor a name: the same records are the same bytes.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as packed:
        _write_texts(frames, packed, form, separator)


def _write_texts(frames: Iterator[pl.DataFrame], file: Any, form: Format, separator: str | None) -> None:
    """Write records. A separator that is not that of the ending is told by names in quotes, by which it is read."""
    told = separator not in (None, form.separator)
    for i, frame in enumerate(frames):
        written = durations_as_texts(escaped_frame(frame))
        if i == 0 and told:
            names = ('"' + name.replace('"', '""') + '"' for name in written.columns)
            file.write((str(separator).join(names) + "\n").encode())
        written.write_csv(file, include_header=i == 0 and not told, separator=separator or form.separator)


def durations_as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table whose durations are texts such as 1h30m, which the domain reads back."""
    durations = pl.selectors.duration().dt.to_string("polars").str.replace_all(" ", "").str.replace("µ", "u")
    return frame.with_columns(durations)
