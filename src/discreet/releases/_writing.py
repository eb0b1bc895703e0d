"""Writing records out: streamed, hashed, and under a temporary name until everything is whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.confidential import same_file
from discreet.errors import DiscreetError, FileProblem

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "certificate_path",
    "check_output",
    "file_sha256",
    "never_input",
    "replace_all",
    "temporary_beside",
    "write_frames",
    "write_text",
]


def check_output(out: str | os.PathLike[str], *, inputs: tuple[Any, ...]) -> Path:
    """Return the output path, once it is known to be writable and to overwrite no input.

    Parameters
    ----------
    out : path
        Ends in ``.parquet`` or ``.csv``.
    inputs : tuple
        Paths that were read; anything else is passed over.

    Raises
    ------
    FileProblem
        When the ending is another one, the folder is missing or not writable, or the output is an input.
    """
    path = Path(out)
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise FileProblem(out, "the format is not known by this ending", "end the name in .parquet or .csv")
    _check_writable(path)
    never_input(path, inputs)
    return path


def never_input(path: Path, inputs: tuple[Any, ...]) -> None:
    """Refuse to overwrite a file that was read.

    Raises
    ------
    FileProblem
        When ``path`` is one of the inputs.
    """
    for source in inputs:
        if isinstance(source, (str, os.PathLike)) and same_file(path, Path(source)):
            raise FileProblem(path, "the output is also an input", "give it another name")


def certificate_path(out: Path, certificate: str | os.PathLike[str] | None) -> Path:
    """Return where the certificate of a release goes: beside it by default."""
    return out.with_suffix(".certificate.json") if certificate is None else Path(certificate)


def _check_writable(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise FileProblem(path, f"the folder {str(folder)!r} does not exist", "create it first")
    if path.is_dir():
        raise FileProblem(path, "it is a folder", "give a file name")
    probe = temporary_beside(path)
    try:
        probe.touch(exist_ok=False)
        probe.unlink()
    except OSError as error:
        raise _writing_problem(path, error) from None


def temporary_beside(path: Path) -> Path:
    """Return an unused name in the same folder, so that a rename is atomic."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")


def write_frames(frames: Iterator[pl.DataFrame], schema: dict[str, Any], path: Path, *, format_of: Path) -> int:
    """Stream frames into ``path`` in the format of another name's ending; return the number of rows.

    Raises
    ------
    FileProblem
        When the disk is full or the file cannot be written; ``path`` is then removed.
    """
    rows = 0

    def counted() -> Iterator[pl.DataFrame]:
        nonlocal rows
        for frame in frames:
            rows += frame.height
            yield frame

    try:
        if format_of.suffix.lower() == ".parquet":
            _sink_parquet(counted(), schema, path)
        else:
            _write_csv(counted(), path)
        with path.open("rb+") as written:
            os.fsync(written.fileno())
    except BaseException as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        if isinstance(error, DiscreetError) or not isinstance(error, Exception):
            raise
        # The text of any other error could quote a value: only the system's own reason is repeated.
        raise _writing_problem(format_of, error) from None
    return rows


def _sink_parquet(frames: Iterator[pl.DataFrame], schema: dict[str, Any], path: Path) -> None:
    from polars.io.plugins import register_io_source

    failure: list[BaseException] = []

    def source(_columns: Any, _predicate: Any, _rows: Any, _batch: Any) -> Iterator[pl.DataFrame]:
        try:
            yield from frames
        except BaseException as error:
            failure.append(error)
            raise

    try:
        register_io_source(source, schema=schema).sink_parquet(path)
    except Exception:
        if failure:
            raise failure[0] from None
        raise


def _write_csv(frames: Iterator[pl.DataFrame], path: Path) -> None:
    import polars as pl

    # CSV has no durations: they are written as text such as 1h30m, which the domain reads back.
    durations = pl.selectors.duration().dt.to_string("polars").str.replace_all(" ", "").str.replace("µ", "u")
    with path.open("wb") as out:
        for i, frame in enumerate(frames):
            frame.with_columns(durations).write_csv(out, include_header=i == 0)


def write_text(text: str, path: Path, *, named: Path) -> None:
    """Write a small text file whole.

    Raises
    ------
    FileProblem
        When it cannot be written; ``path`` is then removed.
    """
    try:
        with path.open("w", encoding="utf-8") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
        raise _writing_problem(named, error) from None


def replace_all(moves: list[tuple[Path, Path]]) -> None:
    """Rename finished temporary files to their names, or remove them all."""
    done = 0
    try:
        for temporary, final in moves:
            os.replace(temporary, final)
            done += 1
    except OSError as error:
        raise _writing_problem(moves[done][1], error) from None
    finally:
        for temporary, _ in moves[done:]:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal.

    Raises
    ------
    FileProblem
        When it cannot be read.
    """
    try:
        with open(path, "rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:
        raise FileProblem(path, _reason(error, "it cannot be read"), "check the path and its permissions") from None


def _writing_problem(path: Path, error: BaseException) -> FileProblem:
    return FileProblem(
        path, _reason(error, "it cannot be written"), "free space or choose another place; nothing was left behind"
    )


def _reason(error: BaseException, otherwise: str) -> str:
    number = getattr(error, "errno", None)
    if isinstance(number, int):
        return f"{otherwise} ({os.strerror(number).lower()})"
    text = str(error).lower()
    for words in ("no space left on device", "file too large", "permission denied", "disk quota exceeded"):
        if words in text:
            return f"{otherwise} ({words})"
    return otherwise
