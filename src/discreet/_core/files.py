"""The one place where files are written: a file, a set of files or a folder appears whole, or what was there stays.

Contents are written beside their names, locked and synced, and a rename is the commit. One file or folder needs no
more. The files of a set are in order, the first a table, the next its certificate, and need several renames:

1. The contents, ``.NAME.WRITE.part``, become ``.NAME.WRITE.ready``, the first file last: where the first one is ready,
   all of them are complete and on the disk. Before that the write can only be undone, afterwards only be finished.
2. Who keeps a ledger is told. The entry is part of the names then, ``.NAME.WRITE-ENTRY.ready``, and after a failure
   the ledger alone knows whether they count.
3. The files get their names, the first one last: its rename completes the set.

Half of the digits of WRITE stand for the names of the set, so that what a dead write left is finished with those names
or not at all.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from discreet._core.errors import DiscreetError, FileProblem

OWN = "written by discreet"
"""What every page and picture says of itself, so that no other file is replaced by one."""

# Names: of outputs, and those beside them that a write uses.

_OURS = re.compile(
    r"\.(?P<name>.+)\.(?P<write>[0-9a-f]{12})(?:-(?P<entry>[^.]+))?\.(?P<kind>part|ready|promised)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class _Content:
    """A file beside its name, of a write that is under way or dead; a mark of an earlier version is one too."""

    path: Path
    final: Path
    write: str
    entry: str | None
    kind: str


def _contents(folder: Path, name: str = "") -> list[_Content]:
    """Return what is under way in a folder, to one name or to all of them."""
    found = []
    with contextlib.suppress(OSError, ValueError):
        for one in folder.iterdir():
            match = _OURS.fullmatch(one.name) if one.name.startswith(f".{name}") else None
            if match is not None and name in ("", match["name"]):
                entry = "" if match["kind"] == "promised" else match["entry"]
                found.append(_Content(one, folder / match["name"], match["write"], entry, match["kind"]))
    return found


def _waiting(final: Path) -> list[_Content]:
    """Return what waits for a name. Raises FileProblem where an earlier version left a record of a write."""
    _require_no_record(final)
    return [one for one in _contents(final.parent, final.name) if one.kind != "part"]


def _require_no_record(final: Path) -> None:
    if os.path.lexists(_record_of(final)):
        raise FileProblem(
            final,
            "an earlier version of discreet was interrupted while it wrote it",
            "run discreet verify --recover on the certificate with that version, or discreet ledger recover",
        )


def _record_of(path: Path) -> Path:
    """Return the name of the record that versions before kept while files were under way."""
    return path.with_name(f".{path.name}.pending")


def _beside(path: Path, write: str, kind: str) -> Path:
    return path.with_name(f".{path.name}.{write}.{kind}")


def _write_to(finals: Sequence[Path]) -> str:
    """Return the name of a new write."""
    return secrets.token_hex(3) + _set_of(finals)


def _set_of(finals: Sequence[Path]) -> str:
    """Return the digits that stand for a set: for the first name, and those of the others as seen from its folder."""
    others = sorted(os.path.relpath(one, finals[0].parent) for one in finals[1:])
    return hashlib.sha256("\0".join([finals[0].name, *others]).encode(errors="surrogateescape")).hexdigest()[:6]


def canonical(path: Path) -> Path:
    """Return a name in its folder as it is without links; the name itself may be one."""
    try:
        return path.parent.resolve() / path.name
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


def _lock_of(path: Path) -> Path:
    """Return the name of the file that is locked while ``path`` is written."""
    return path.with_name(f".{path.name}.lock")


def check_outputs(outputs: Sequence[Path], inputs: Iterable[Any]) -> None:
    """Refuse outputs that are no files, that are one another, or that are inputs, links included.

    Raises FileProblem when something would be overwritten that must not be.
    """
    read = [Path(source) for source in inputs if isinstance(source, (str, os.PathLike))]
    for place, path in enumerate(outputs):
        _check_name(path)
        if any(same_file(path, other) for other in outputs[:place]):
            raise FileProblem(path, "it is the name of two outputs", "give each its own")
        for name in (path, _lock_of(path)):
            if any(same_file(name, source) for source in read):
                raise FileProblem(path, "the output is also an input", "give it another name")


def _check_name(path: Path) -> None:
    if "\0" in str(path) or not path.name:
        raise FileProblem(repr(str(path)), "it is not the name of a file", "give another name")
    if not path.parent.is_dir():
        raise FileProblem(path, f"the folder {str(path.parent)!r} does not exist", "create it first")
    with contextlib.suppress(FileNotFoundError):
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise FileProblem(path, "it is a folder", "give a file name")
        if not stat.S_ISREG(kind):
            raise FileProblem(path, "it is not an ordinary file", "give another name")


def require_own(path: Path) -> None:
    """Refuse to replace a page or picture that does not say within that it is one of this package's.

    Raises FileProblem when a file has the name and does not.
    """
    if not os.path.lexists(path):
        return
    try:
        own = OWN.encode() in path.read_bytes()
    except OSError:
        own = False
    if not own:
        raise FileProblem(path, "it exists and was not written by discreet", "give another name, or move it away")


def check_writable(path: Path) -> None:
    """Refuse an output whose folder takes no new file. Raises FileProblem when it does not."""
    probe = _beside(path, f"{_write_to([path])}-{secrets.token_hex(6)}", "part")  # as long as a name beside it may be
    try:
        os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise writing_problem(path, error) from None


def same_file(a: Path, b: Path) -> bool:
    """Return whether two paths lead to one file, through links too."""
    try:
        return a.samefile(b)
    except (OSError, ValueError):
        pass
    try:
        return a.resolve() == b.resolve()
    except (OSError, ValueError, RuntimeError):  # a loop of links
        return False


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal. Raises FileProblem when it cannot be read."""
    try:
        with open(path, "rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    except OSError as error:
        raise FileProblem(path, _reason(error, "it cannot be read"), "check the path and its permissions") from None


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, where the file system can tell."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # a folder that may be written and not read
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


def writing_problem(path: Path, error: BaseException) -> FileProblem:
    """Return the error of a write that failed and left everything as it was; its text repeats no value."""
    return FileProblem(
        path, _reason(error, "it cannot be written"), "free space or choose another place. Nothing was changed"
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


# A lock against a second writer; the operating system lets go of it when a process ends.

_TRIES = 100


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep every other writer away from a name.

    Raises FileProblem when another run holds it, or the folder takes no lock.
    """
    name = _lock_of(path)
    descriptor = _taken(name, path)
    try:
        yield
    finally:
        try:
            with contextlib.suppress(OSError):
                name.unlink()
        finally:
            os.close(descriptor)


@contextmanager
def _all_locked(paths: Iterable[Path]) -> Iterator[None]:
    """Keep every other writer away from several names."""
    with ExitStack() as stack:
        for path in sorted(paths):
            stack.enter_context(locked(path))
        yield


def _taken(name: Path, path: Path) -> int:
    for _ in range(_TRIES):
        descriptor = _attempt(name, path)
        if descriptor is not None:
            return descriptor
    raise _busy(path)


def _attempt(name: Path, path: Path) -> int | None:
    """Return the locked file, or None where the writer before has deleted it meanwhile: a lock on that is none."""
    import fcntl

    flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, 0o666)
    except OSError:
        raise FileProblem(path, "its folder cannot be written", "check the folder and its permissions") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size:
            raise FileProblem(name, "it is not an empty file, so it cannot be a lock", "move it away")  # noqa: TRY301
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), os.lstat(name)):
                return descriptor
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise _busy(path) from None
        if isinstance(error, OSError) and not isinstance(error, FileProblem):
            raise FileProblem(path, "it cannot be locked", "choose a folder whose file system has locks") from None
        raise
    os.close(descriptor)
    return None


def _busy(path: Path) -> FileProblem:
    return FileProblem(path, "another run is using it", "wait for that run, or give another name")


# What a dead write left: finished where it was complete, else undone.


def require_settled(path: str | os.PathLike[str]) -> None:
    """Refuse to read a file that waits for its new content while another one of its set has its own.

    Raises FileProblem when it does.
    """
    given = Path(path)
    names = {canonical(given)}
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        names.add(canonical(given.resolve()))
    for name in names:
        for one in _waiting(name):
            if one.kind == "ready" and not _whole(one):
                raise _unsettled(given) if one.entry is None else _promised(given)


def _whole(content: _Content) -> bool:
    """Return whether a set is in one folder, and none of its files has its name yet."""
    names = {one.final for one in _contents(content.path.parent) if one.write == content.write}
    return any(content.write.endswith(_set_of([first, *names - {first}])) for first in names)


def recover(*paths: Path) -> None:
    """Finish what a dead write of a set left; the first file of a pair is found beside the second.

    Raises FileProblem when another run is writing it, it waits for a ledger, or something else has taken a name.
    """
    finals = [canonical(path) for path in paths]
    if len(finals) == 1:
        pairs = (([one.final, *finals], one.write) for one in _contents(finals[0].parent))
        finals = next((pair for pair, write in pairs if write.endswith(_set_of(pair))), finals)
    if any(map(_waiting, finals)):
        with _all_locked(finals):
            _settle(finals)


def _settle(finals: Sequence[Path]) -> None:
    """Finish or undo what dead writes of a set left, while its names are locked.

    Raises FileProblem when something waits for a ledger, or belongs to another set.
    """
    left = [one for final in finals for one in _waiting(final)]
    for one in left:
        if one.entry is not None:
            raise _promised(one.final)
        if not one.write.endswith(_set_of(finals)):
            raise _unsettled(one.final)
    for write in {one.write for one in left}:
        ready = [_beside(final, write, "ready") for final in finals]
        try:
            if os.path.lexists(ready[0]):
                _move_again(ready, finals, "discreet verify --recover")
            for incomplete in ready:
                _remove(incomplete)
        except FileProblem:
            raise
        except OSError:
            raise _unsettled(finals[0]) from None


def deliver(entry: str, placed: Mapping[str, Any]) -> bool:
    """Give what an entry committed its names, where it is at hand as it was; return whether it has them.

    Raises FileProblem when another run is writing there, or something else has taken a name.
    """
    folder = placed.get("folder")
    sets = [folder] if folder else [{**one, "files": {"": one["sha256"]}} for one in placed["files"]]
    finals = [Path(one["path"]) for one in sets]
    with _all_locked(finals):
        made = [_at_hand(final, one["write"], entry) for final, one in zip(finals, sets, strict=True)]
        found = [one if os.path.lexists(one) else final for one, final in zip(made, finals, strict=True)]
        whole = bool(sets) and all(_holds(place, one["files"]) for place, one in zip(found, sets, strict=True))
        if whole:
            _move_again(made, finals, "discreet ledger recover")
        for one, final in zip(sets, finals, strict=True):
            for left in (_at_hand(final, one["write"], entry), _beside(final, one["write"], "promised")):
                _remove(left)
    return whole


def _at_hand(final: Path, write: str, entry: str) -> Path:
    """Return where the content of an entry waits; an earlier version kept it beside a mark."""
    _require_no_record(final)
    ready = _beside(final, f"{write}-{entry}", "ready")
    return ready if os.path.lexists(ready) else _beside(final, write, "part")


def _holds(place: Path, files: Mapping[str, str]) -> bool:
    names = {name: place / name for name in files}
    return all(
        one.is_file() and not one.is_symlink() and file_sha256(one) == files[name] for name, one in names.items()
    )


def forsake(entry: str, paths: Iterable[Path]) -> None:
    """Remove what waits for an entry that was never committed. Raises FileProblem when a run is writing there."""
    for path in paths:
        for one in _waiting(path):
            marked = one.kind == "promised" and one.path.read_bytes() in (entry.encode(), b"")
            if one.entry == entry or marked:
                with locked(path):
                    _remove(one.path)


def _move_again(made: Sequence[Path], finals: Sequence[Path], command: str) -> None:
    """Go on with the renames of a dead write. Raises FileProblem where a name was taken after it died."""
    for one, final in zip(made, finals, strict=True):
        there = os.path.lexists(one) and os.path.lexists(final)
        if there and (one.is_dir() or os.lstat(final).st_ctime_ns > os.lstat(one).st_ctime_ns):
            raise FileProblem(
                final, "something else has taken its name since", f"move it away, then run {command} again"
            )
    _move(made, finals)


def _move(made: Sequence[Path], finals: Sequence[Path]) -> None:
    """Rename what was not renamed yet, the first file last."""
    for one, final in reversed(list(zip(made, finals, strict=True))):
        if os.path.lexists(one):
            os.replace(one, final)
        _sync(final.parent)


def _sweep(finals: Sequence[Path]) -> None:
    """Remove what dead writes left in the folders: of these names, which are locked, and of those nobody writes."""
    for folder in {final.parent for final in finals}:
        found = _contents(folder)
        kept = {one.write for one in found if one.kind != "part"}
        for one in found:
            if one.write in kept or os.path.lexists(_record_of(one.final)):
                continue
            lock = contextlib.nullcontext() if one.final in finals else locked(one.final)
            with contextlib.suppress(OSError), lock:
                _remove(one.path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _unsettled(path: Path) -> FileProblem:
    return FileProblem(
        path,
        "writing it and the files that go with it was interrupted, or is still under way",
        "wait for that run. If it died, run discreet verify --recover on the certificate, with --data where the table "
        "is in another folder",
    )


def _promised(path: Path) -> FileProblem:
    return FileProblem(
        path,
        "another run is writing this name, or died before its release was settled in the ledger",
        "wait for that run. If it died, run discreet ledger recover",
    )


# Writing.


@dataclass(frozen=True, slots=True)
class Keeper:
    """Who keeps books about a write, and is told of it before its names are given."""

    entry: str
    complete: Callable[[Mapping[str, Any]], None]


class _Write:
    """One write: where its contents are, and whether they have to stay there."""

    def __init__(self, paths: Sequence[Path], keeper: Keeper | None) -> None:
        self.finals = [canonical(path) for path in paths]
        self.name, self.keeper, self.kept = _write_to(self.finals), keeper, False
        self.made = self.parts = [_beside(final, self.name, "part") for final in self.finals]

    def commit(self, placed: Mapping[str, Any]) -> None:
        """Give complete contents their names. From the first one on it cannot be undone, so each rename is tried twice.

        Raises FileProblem when it is begun and cannot be finished.
        """
        if self.keeper is not None or len(self.finals) > 1:
            name = self.name if self.keeper is None else f"{self.name}-{self.keeper.entry}"
            self.made = [_beside(final, name, "ready") for final in self.finals]
            _move(self.parts, self.made)
        if self.keeper is not None:
            self.keeper.complete(placed)
            self.kept = True
        try:
            _move(self.made, self.finals)
        except BaseException as error:
            self.kept = self.kept or not os.path.lexists(self.made[-1])
            if not self.kept:
                raise
            try:
                _move(self.made, self.finals)
            except OSError:
                raise (self._problem() if os.path.lexists(self.made[0]) else _unconfirmed(self.finals[0])) from error
            if not isinstance(error, OSError):
                raise

    def discard(self, error: BaseException) -> None:
        """Remove the contents, the first file's first: without it the others are not complete.

        Raises FileProblem when one that is ready stays.
        """
        for one in [] if self.kept else [*self.made, *self.parts]:
            try:
                _remove(one)
            except OSError:
                if self.made is not self.parts:
                    raise self._problem() from error

    def _problem(self) -> FileProblem:
        return (_unsettled if self.keeper is None else _promised)(self.finals[0])


def _unconfirmed(path: Path) -> FileProblem:
    return FileProblem(
        path, "it was written, but the system does not confirm that its name is on disk", "check the disk"
    )


@contextmanager
def _begun(write: _Write, path: Path) -> Iterator[None]:
    """Settle and sweep the names of a write, and discard what an error leaves of it."""
    try:
        _settle(write.finals)
        _sweep(write.finals)
        yield
    except BaseException as error:
        write.discard(error)
        if not isinstance(error, OSError) or isinstance(error, DiscreetError):
            raise
        raise writing_problem(path, error) from None


@contextmanager
def together(
    *paths: Path,
    inputs: Iterable[Any] = (),
    private: bool = False,
    check: Callable[[], None] | None = None,
    held: bool = False,
    keeper: Keeper | None = None,
    hashes: Mapping[Path, str] | None = None,
) -> Iterator[list[BinaryIO]]:
    """Write files that appear all at once, when the block ends without an error; else what was there stays.

    Raises FileProblem when something cannot or must not be written, or another run is writing it.
    """
    check_outputs(paths, inputs)
    write = _Write(paths, keeper)
    with contextlib.nullcontext() if held else _all_locked(write.finals), _begun(write, paths[0]), ExitStack() as stack:
        if check is not None:
            check()
        places = list(zip(write.parts, write.finals, strict=True))
        files = [stack.enter_context(_fresh(part, final, private=private)) for part, final in places]
        yield files
        for final, file in zip(write.finals, files, strict=True):
            _complete(file, None if private else _mode(final))
        known = [(hashes or {}).get(path) for path in paths] if keeper is not None else []
        placed = [
            {"path": os.fspath(final), "sha256": sha256 or file_sha256(part), "write": write.name}
            for (part, final), sha256 in zip(places, known, strict=False)
        ]
        write.commit({"files": placed})


@contextmanager
def _fresh(part: Path, final: Path, *, private: bool) -> Iterator[BinaryIO]:
    """Open the temporary file of a name; nobody but its owner reads one that will be private or replace something."""
    mode = 0o600 if private or _mode(final) is not None else 0o666
    with open(part, "x+b", opener=partial(os.open, mode=mode)) as file:
        yield file


def _complete(file: BinaryIO, mode: int | None) -> None:
    file.flush()
    if mode is not None:
        os.fchmod(file.fileno(), mode)
    os.fsync(file.fileno())


def _mode(path: Path) -> int | None:
    """Return the permissions of a file that is replaced, None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return stat.S_IMODE(found.st_mode) & 0o777 if stat.S_ISREG(found.st_mode) else None


@contextmanager
def new_folder(path: Path, *, keeper: Keeper | None = None, folders: Iterable[str] = ()) -> Iterator[Path]:
    """Write a folder that appears whole, when the block ends without an error, or not at all.

    Raises FileProblem when something has the name, or it cannot be written.
    """
    write = _Write([path], keeper)
    (final,), (part,) = write.finals, write.parts
    with locked(final), _begun(write, path):
        for one in (part, *map(part.joinpath, folders)):
            one.mkdir()
        yield part
        if os.path.lexists(final):
            raise FileProblem(path, "it exists already", "name a folder that does not exist")
        names = _complete_names(part)
        for one in (*names, part):
            _sync(one)
        files = {str(one.relative_to(part)): file_sha256(one) for one in names if keeper is not None and one.is_file()}
        write.commit({"files": [], "folder": {"path": str(final), "write": write.name, "files": files}})


def _complete_names(folder: Path) -> list[Path]:
    """Remove drafts, which dead or slow attempts left; return everything else in a folder."""
    names = sorted(folder.rglob("*"))
    drafts = {one for one in names if _OURS.fullmatch(one.name)}
    for one in drafts:
        one.unlink(missing_ok=True)
    return [one for one in names if one not in drafts]


@contextmanager
def repeatable(path: Path) -> Iterator[BinaryIO]:
    """Write a file of which every attempt writes the same bytes, into a folder that has no name yet.

    Attempts need no lock, also from several machines: each writes under a name of its own, and the last one wins. What
    dead ones leave is removed by :func:`new_folder`.

    Raises FileProblem when it cannot be written.
    """
    draft = _beside(path, _write_to([path]), "part")
    try:
        with open(draft, "x+b") as file:
            yield file
            _complete(file, None)
        os.replace(draft, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
        if not isinstance(error, OSError) or isinstance(error, DiscreetError):
            raise
        raise writing_problem(path, error) from None


def own_folder(path: Path, *, private: bool) -> None:
    """Make a folder to write into where there is none; one that is private is its owner's alone.

    Raises FileProblem when it cannot be made.
    """
    try:
        path.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    except OSError as error:
        raise writing_problem(path, error) from None


def spill_folder() -> tuple[str, Callable[[], None]]:
    """Make a folder that is its owner's alone, for what a library cannot hold in memory; return what removes it too.

    Raises FileProblem when it cannot be made.
    """
    try:
        path = tempfile.mkdtemp(prefix="discreet-")
    except OSError as error:
        raise writing_problem(Path(tempfile.gettempdir()), error) from None
    return path, partial(shutil.rmtree, path, ignore_errors=True)


# Figures, which say within that they are this package's.

_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": OWN},
    "svg": {"Creator": OWN, "Date": None},
    "pdf": {"Creator": OWN},
}


def save_figure(figure: Any, out: str | os.PathLike[str], *, confidential: bool, **settings: Any) -> Path:
    """Write a Matplotlib figure as PNG, SVG or PDF, as its name ends.

    Raises FileProblem when the ending is another one, or it cannot be written.
    """
    path = Path(out)
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _METADATA:
        raise FileProblem(out, "the format is not known by this ending", "end the name in .png, .svg or .pdf")
    with together(path, private=confidential, check=lambda: require_own(path)) as (file,):
        figure.savefig(file, format=kind, metadata=_METADATA[kind], **settings)
    return path
