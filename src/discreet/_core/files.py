"""The one place where files are written: a file, a set of files or a folder appears whole, or what was there stays.

Contents, ``.NAME.WRITE.part``, become ``.NAME.WRITE.ready``, the first file last. Once that one is ready a write can
only be finished, before only undone: docs/adr/0039-a-rename-is-the-commit.md.
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
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from discreet._core.errors import DiscreetError, FileProblem, ParameterError, Refused
from discreet._core.reading import file_sha256, reason, same_file


def canonical(path: Path) -> Path:
    """Return a name in its folder as it is without links; the name itself may be one."""
    try:
        return path.parent.resolve() / path.name
    except (OSError, RuntimeError, ValueError):
        return path.absolute()


def check_outputs(outputs: Sequence[Path], inputs: Iterable[Any]) -> None:
    """Refuse outputs that are no files, that are one another, or that are inputs, links included."""
    sources = [Path(source) for source in inputs if isinstance(source, (str, os.PathLike))]
    for place, path in enumerate(outputs):
        if "\0" in str(path) or not path.name:
            raise FileProblem(repr(str(path)), "it is not the name of a file", "give another name")
        if not path.parent.is_dir():
            raise FileProblem(path, f"the folder {str(path.parent)!r} does not exist", "create it first")
        if path.is_dir():
            raise FileProblem(path, "it is a folder", "give a file name")
        if path.exists() and not path.is_file():
            raise FileProblem(path, "it is not an ordinary file", "give another name")
        if any(map(partial(same_file, path), outputs[:place])):
            raise FileProblem(path, "it is the name of two outputs", "give each its own")
        for source in sources:
            if same_file(path, source) or same_file(beside(path, "lock"), source):
                raise FileProblem(path, "the output is also an input", "give it another name")


def check_writable(path: Path, room: int = 0, inputs: Iterable[Any] = ()) -> None:
    """Refuse an output within a folder that is read, or whose folder takes no file of ``room`` bytes."""
    for folder in [Path(source) for source in inputs if isinstance(source, (str, os.PathLike))]:
        if folder.is_dir() and folder.resolve() in path.resolve().parents:
            raise FileProblem(path, "it lies in the folder that is read", "write it elsewhere")
    probe = beside(path, f"{secrets.token_hex(6)}-{secrets.token_hex(6)}0", "part")  # as long as one that is ready
    with locked(canonical(path)), _undone(path), open(probe, "xb", opener=partial(os.open, mode=0o600)) as file:
        try:
            getattr(os, "posix_fallocate", lambda *_: None)(file.fileno(), 0, room + 2**16)  # macOS has none
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):  # others say that it cannot be asked
                raise
        finally:
            probe.unlink()


def writing_problem(path: Path, error: BaseException) -> FileProblem:
    """Return the error of a write that failed and left everything as it was; its text repeats no value."""
    problem = reason(error, "it cannot be written")
    return FileProblem(path, problem, "free space or choose another place. No file was changed")


@contextmanager
def _undone(path: Path, undo: Callable[[BaseException], Any] = lambda _: None) -> Iterator[None]:
    """Undo what an error interrupts, and say of one of the system that no file was changed."""
    try:
        yield
    except BaseException as error:
        undo(error)
        if not isinstance(error, OSError) or isinstance(error, DiscreetError):
            raise
        raise writing_problem(path, error) from None


def beside(path: Path, *parts: str) -> Path:
    """Return a hidden name beside another: of its lock, or of contents that wait for it."""
    return path.with_name(".".join(["", path.name, *parts]))


@contextmanager
def locked(*paths: Path) -> Iterator[None]:
    """Keep every other writer away from some names, until the process ends at the latest."""
    with ExitStack() as stack:
        for path in sorted(paths):
            stack.enter_context(_lock(path))
        yield


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Lock the file beside a name; a lock on one that the writer before has deleted meanwhile is none."""
    import fcntl

    name = beside(path, "lock")
    for _ in range(100):
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError:
            raise FileProblem(path, "its folder cannot be written", "check the folder and its permissions") from None
        with ExitStack() as stack:
            stack.callback(os.close, descriptor)
            status, live = os.fstat(descriptor), False
            if not stat.S_ISREG(status.st_mode) or status.st_size:
                raise FileProblem(name, "it is not an empty file, so it cannot be a lock", "move it away")
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                break
            except OSError:
                raise FileProblem(path, "it cannot be locked", "choose a folder whose file system has locks") from None
            with contextlib.suppress(FileNotFoundError):
                live = os.path.samestat(status, os.lstat(name))
            if live:
                try:
                    yield
                finally:
                    with contextlib.suppress(OSError):
                        name.unlink()
                return
    raise FileProblem(path, "another run is using it", "wait for that run, or give another name")


_OURS = re.compile(r"\.(.+)\.([0-9a-f]{12})(?:-([^.]+))?\.(part|ready|(promised))", re.DOTALL)
_UNSETTLED = (
    "writing it and the files that go with it was interrupted, or is still under way",
    "wait for that run. If it died, run discreet verify --recover on the certificate and its data, which ends it",
)
_UNDELIVERED = (
    "another run is writing this name, or died before its release was settled in the ledger",
    "wait for that run. If it died, run discreet ledger recover",
)


class _Content(NamedTuple):
    """A file beside its name, of a write that is under way or dead; the mark of an entry in earlier versions too."""

    path: Path
    final: Path
    write: str
    entry: str | None
    kind: str

    @property
    def whole(self) -> bool:
        """Whether its set is in one folder, and no file of it has its name yet."""
        names = {content.final for content in _contents_of(self.path.parent) if content.write == self.write}
        return any(self.write.endswith(_set_of([name, *names - {name}])) for name in names)


def _contents_of(folder: Path) -> list[_Content]:
    """Return what is under way in a folder."""
    contents = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError, ValueError):
        for path in folder.iterdir():
            if match := _OURS.fullmatch(path.name):
                name, write, entry, kind, mark = match.groups()
                contents.append(_Content(path, folder / name, write, entry or mark, kind))
    return contents


def _contents_for(final: Path) -> list[_Content]:
    """Return what waits for a name. Raises FileProblem where an earlier version left the record of a write."""
    if os.path.lexists(beside(final, "pending")):
        remedy = "run discreet verify --recover on the certificate, or discreet ledger recover, with that version"
        raise FileProblem(final, "an earlier version of discreet was interrupted while it wrote it", remedy)
    return [content for content in _contents_of(final.parent) if content.final == final and content.kind != "part"]


def _set_of(finals: Sequence[Path]) -> str:
    """Return the digits that stand for a set: for the first name, and the others as seen from its folder."""
    companions = sorted([os.path.relpath(path, finals[0].parent) for path in finals[1:]])
    return hashlib.sha256("\0".join([finals[0].name, *companions]).encode(errors="surrogateescape")).hexdigest()[:6]


def require_settled(path: str | os.PathLike[str]) -> None:
    """Refuse to read a file that waits for its new content while another content of its set has its own."""
    names = {canonical(Path(path))}
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        names.add(canonical(Path(path).resolve()))
    for content in [content for name in names for content in _contents_for(name)]:
        if content.kind == "ready" and not content.whole:
            raise FileProblem(path, *(_UNSETTLED if content.entry is None else _UNDELIVERED))


def recover(*paths: Path) -> None:
    """Finish or undo what a dead write of a set left; the first file of a pair is found beside the second."""
    finals = [canonical(path) for path in paths]
    if len(finals) == 1:
        pairs = (([content.final, *finals], content.write) for content in _contents_of(finals[0].parent))
        finals = next((pair for pair, write in pairs if write.endswith(_set_of(pair))), finals)
    if any(map(_contents_for, finals)):
        with locked(*finals):
            _settle(finals)


def _settle(finals: Sequence[Path]) -> None:
    """Finish or undo what a dead write of a set left, while its names are locked; refuse what is another's."""
    contents = [content for final in finals for content in _contents_for(final)]
    for content in contents:
        if content.entry is not None:
            raise FileProblem(content.final, *_UNDELIVERED)
        if not content.write.endswith(_set_of(finals)):
            raise FileProblem(content.final, *_UNSETTLED)
    for write in {content.write for content in contents}:
        ready = [beside(final, write, "ready") for final in finals]
        if os.path.lexists(ready[0]):
            _go_on(ready, finals, _UNSETTLED)
        for incomplete in ready:
            _remove(incomplete)


def deliver(entry: str, placed: Mapping[str, Any]) -> bool:
    """Give what an entry committed its names, where it is at hand as it was; return whether it has them."""
    folder = placed.get("folder")
    items = [folder] if folder else [{**item, "files": {"": item["sha256"]}} for item in placed["files"]]
    finals, contents, complete = [Path(item["path"]) for item in items], [], bool(items)
    marks = [beside(final, item["write"], "promised") for final, item in zip(finals, items, strict=True)]
    with locked(*finals):
        for final, item in zip(finals, items, strict=True):
            waiting = {content.path for content in _contents_for(final)}
            ready = beside(final, f"{item['write']}-{entry}", "ready")
            # of an earlier version it is a part, beside a mark
            contents.append(ready if ready in waiting else beside(final, item["write"], "part"))
            place = contents[-1] if os.path.lexists(contents[-1]) else final
            hashes = {}
            for name in item["files"]:  # an error that does not tell whether it is there is raised
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    (place / name).stat()
                    hashes[name] = file_sha256(place / name)
            complete = complete and hashes == item["files"]
        if complete:
            _go_on(contents, finals, _UNDELIVERED)
        for path in (*contents, *marks):
            _remove(path)
    return complete


def forsake(entry: str, paths: Iterable[Path]) -> None:
    """Remove what waits for an entry that was never committed, and what dead writes left where it would have been."""
    finals = [canonical(path) for path in paths]
    for content in [content for final in finals for content in _contents_for(final)]:
        owner = content.entry
        if content.kind == "promised":
            owner = content.path.read_text(errors="replace") or entry
        if owner == entry:
            with locked(content.final):
                _remove(content.path)
    _sweep({final.parent for final in finals})


def _go_on(contents: Sequence[Path], finals: Sequence[Path], otherwise: tuple[str, str]) -> None:
    """Give contents of a dead write their names, but for names that something else has taken since."""
    for content, final in zip(contents, finals, strict=True):
        there = os.path.lexists(content) and os.path.lexists(final)
        if there and (content.is_dir() or os.lstat(final).st_ctime_ns > os.lstat(content).st_ctime_ns):
            raise FileProblem(final, "something else has taken its name since", f"move it away. Then {otherwise[1]}")
    try:
        _move(contents, finals)
    except OSError:
        raise FileProblem(finals[0], *otherwise) from None


def _move(contents: Sequence[Path], finals: Sequence[Path], *, every: bool = False) -> None:
    """Rename every file, or what was not renamed yet, the first file last."""
    for content, final in reversed(list(zip(contents, finals, strict=True))):
        if every or os.path.lexists(content):
            os.replace(content, final)
        _sync(final.parent)
    if not every:
        beside(finals[0], "output").unlink(missing_ok=True)  # of a kernel, whose release is there now


def _sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, where the file system can tell."""
    with contextlib.suppress(PermissionError):  # of a folder that may be written and not read
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            os.close(descriptor)


def _sweep(folders: Iterable[Path], *finals: Path) -> None:
    """Remove what dead writes left in folders: of these names, which are locked, and of those nobody writes."""
    for folder in folders:
        contents = _contents_of(folder)
        needed = {content.write for content in contents if content.kind != "part"}
        for content in contents:
            with contextlib.suppress(OSError):
                if content.write not in needed and not _contents_for(content.final):
                    with locked(*{content.final}.difference(finals)):
                        _remove(content.path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


class OnCommit(NamedTuple):
    """The entry of a ledger that a write is for, and what tells the ledger of it before its names are given."""

    entry: str
    complete: Callable[[Mapping[str, Any]], None]


class _Write:
    """One write: where its contents are, and whether they have to stay there."""

    def __init__(self, paths: Sequence[Path], on_commit: OnCommit | None = None) -> None:
        self.path, self.finals = paths[0], [canonical(path) for path in paths]
        self.name, self.on_commit, self.fixed = secrets.token_hex(3) + _set_of(self.finals), on_commit, False
        self.ready, self.problem = self.name, _UNSETTLED
        if on_commit is not None:
            self.ready, self.problem = f"{self.name}-{on_commit.entry}", _UNDELIVERED
        self.contents = self.parts = [beside(final, self.name, "part") for final in self.finals]

    @contextmanager
    def prepared(self, *, lock: bool = True) -> Iterator[None]:
        """Lock, settle and sweep the names, and discard what an error leaves."""
        with locked(*(self.finals if lock else ())), _undone(self.path, self.discard):
            _settle(self.finals)
            _sweep({final.parent for final in self.finals}, *self.finals)
            yield

    def commit(self, placed: Mapping[str, Any] | None = None) -> None:
        """Give complete contents their names; what is begun cannot be undone, so it is tried twice."""
        if self.on_commit is not None or len(self.finals) > 1:
            self.contents = [beside(final, self.ready, "ready") for final in self.finals]
            _move(self.parts, self.contents, every=True)
        if self.on_commit is not None and placed is not None:
            self.fixed = True  # most errors do not tell whether the ledger has it: recovery finds out
            try:
                self.on_commit.complete(placed)
            except (ParameterError, Refused):
                self.fixed = False
                raise
        try:
            _move(self.contents, self.finals)
        except BaseException as error:
            self.fixed = self.fixed or not os.path.lexists(self.contents[-1])
            if not self.fixed:
                raise
            try:
                _move(self.contents, self.finals)
            except OSError:
                self._fail(error)
            if not isinstance(error, OSError):
                raise

    def discard(self, error: BaseException) -> None:
        """Remove the contents, the first file's first: without it the others are not complete."""
        if self.fixed:
            return
        for path in (*self.contents, *self.parts):
            with contextlib.suppress(OSError):
                _remove(path)
        if self.contents is not self.parts and any(map(os.path.lexists, self.contents)):
            self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        """Say of contents that they can neither get their names nor be removed, or are not known to have them."""
        if any(map(os.path.lexists, self.contents)):
            raise FileProblem(self.finals[0], *self.problem) from error
        problem = "it was written, but the system does not confirm that its name is on disk"
        raise FileProblem(self.finals[0], problem, "check the disk") from error


@contextmanager
def together(
    *paths: Path,
    inputs: Iterable[Any] = (),
    private: bool = False,
    check: Callable[[], object] | None = None,
    lock: bool = True,
    on_commit: OnCommit | None = None,
    hashes: Mapping[Path, str] | None = None,
) -> Iterator[list[BinaryIO]]:
    """Write files that appear all at once, when the block ends without an error; else what was there stays."""
    check_outputs(paths, inputs)
    write = _Write(paths, on_commit)
    with write.prepared(lock=lock), ExitStack() as stack:
        if check is not None:
            check()
        modes: list[int | None] = []  # of the files that are replaced
        files: list[BinaryIO] = []
        for part, final in zip(write.parts, write.finals, strict=True):  # nobody but its owner reads one that replaces
            mode = None
            with contextlib.suppress(OSError):
                if not private and stat.S_ISREG(status := os.lstat(final).st_mode):
                    mode = stat.S_IMODE(status) & 0o777
            modes.append(mode)
            opener = partial(os.open, mode=0o666 if mode is None and not private else 0o600)
            files.append(stack.enter_context(open(part, "x+b", opener=opener)))
        yield files
        for file, mode in zip(files, modes, strict=True):
            file.flush()
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        if on_commit is None:
            write.commit()
            return
        sums = [(hashes or {}).get(path) or file_sha256(part) for path, part in zip(paths, write.parts, strict=True)]
        items = zip(map(str, write.finals), sums, strict=True)
        write.commit({"files": [{"path": path, "sha256": sha256, "write": write.name} for path, sha256 in items]})


@contextmanager
def new_folder(path: Path, *, on_commit: OnCommit | None = None, folders: Iterable[str] = ()) -> Iterator[Path]:
    """Write a folder that appears whole, when the block ends without an error, or not at all."""
    write = _Write([path], on_commit)
    (final,), (part,) = write.finals, write.parts
    with write.prepared():
        for place in (part, *map(part.joinpath, folders)):
            place.mkdir()
        yield part
        if os.path.lexists(final):
            raise FileProblem(path, "it exists already", "name a folder that does not exist")
        names = sorted(part.rglob("*"))
        for draft in {name for name in names if _OURS.fullmatch(name.name)}:  # of attempts that are dead, or too slow
            draft.unlink(missing_ok=True)
            names.remove(draft)
        for place in (*names, part):
            _sync(place)
        paid = [name for name in names if on_commit is not None and name.is_file()]
        files = {str(name.relative_to(part)): file_sha256(name) for name in paid}
        write.commit({"files": [], "folder": {"path": str(final), "write": write.name, "files": files}})


@contextmanager
def repeatable(*paths: Path) -> Iterator[list[Path]]:
    """Write files of which every attempt, on whatever machine, writes the same bytes, so that they need no lock."""
    drafts = [beside(path, secrets.token_hex(6), "part") for path in paths]
    with _undone(paths[0], lambda _: list(map(_remove, drafts))):
        yield drafts
        for draft, path in zip(drafts, paths, strict=True):
            _sync(draft)
            os.replace(draft, path)


def own_folder(path: Path, *, private: bool) -> None:
    """Make a folder to write into where there is none; one that is private is its owner's alone."""
    with _undone(path):
        path.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)


def spill_folder() -> tuple[str, Callable[[], None]]:
    """Make a folder that is its owner's alone, for what a library cannot hold in memory; return what removes it too."""
    with _undone(Path(tempfile.gettempdir())):
        path = tempfile.mkdtemp(prefix="discreet-")
        return path, partial(shutil.rmtree, path, ignore_errors=True)
