"""Files that a ledger was told of: they get their names, or are known to be lost, and nobody sweeps them away."""

import errno
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from killed_writers import dying

from discreet._core.files import OnCommit, deliver, forsake, new_folder, recover, require_settled, together
from discreet.errors import FileProblem, Refused


class Told:
    """A book that keeps what it is told."""

    def __init__(self) -> None:
        self.placed: Mapping[str, Any] = {}
        self.on_commit = OnCommit("entry", self.tell)

    def tell(self, placed: Mapping[str, Any]) -> None:
        self.placed = placed


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def dead_pair(folder: Path, names: int = 0) -> Mapping[str, Any]:
    """Leave a pair as a run does that died when its ledger was told, and before both files had their names."""
    told = Told()
    pair = together(folder / "a", folder / "b", on_commit=told.on_commit)
    with pytest.raises(KeyboardInterrupt), dying(names, KeyboardInterrupt(), removing=True), pair as (a, b):
        a.write(b"table")
        b.write(b"certificate")
    return told.placed


@pytest.mark.parametrize("names", [0, 1])
def test_what_was_promised_is_not_swept_and_gets_its_names(tmp_path, names) -> None:
    placed = dead_pair(tmp_path, names)
    with together(tmp_path / "other") as (file,):  # sweeps the folder
        file.write(b"x")
    for taken in ([tmp_path / "a"], [tmp_path / "a", tmp_path / "b"]):
        with pytest.raises(FileProblem, match="discreet ledger recover"), together(*taken):
            pass
        with pytest.raises(FileProblem, match="discreet ledger recover"):
            recover(*taken)
    if names:
        with pytest.raises(FileProblem, match="discreet ledger recover"):
            require_settled(tmp_path / "a")
    assert deliver("entry", placed)
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"table", b"certificate"]
    assert deliver("entry", placed)  # a second time it finds them
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "other"]


def test_an_old_pair_stays_until_the_new_one_is_delivered(tmp_path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"old")
    placed = dead_pair(tmp_path)
    for name in "ab":
        require_settled(tmp_path / name)
        assert (tmp_path / name).read_bytes() == b"old"
    assert deliver("entry", placed)
    assert (tmp_path / "a").read_bytes() == b"table"


def test_what_is_gone_is_lost_and_leaves_nothing(tmp_path) -> None:
    placed = dead_pair(tmp_path)
    next(tmp_path.glob(".a.*.ready")).write_bytes(b"spoilt")
    assert not deliver("entry", placed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["iterdir", "stat"])
def test_an_error_that_says_nothing_of_what_is_there_loses_nothing(tmp_path, monkeypatch, what) -> None:
    placed = dead_pair(tmp_path)

    def failing(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(Path, what, failing)
        with pytest.raises(OSError, match="many open files"):
            deliver("entry", placed)
    assert deliver("entry", placed)
    assert (tmp_path / "a").read_bytes() == b"table"


def test_contents_that_vanish_before_their_names_are_no_success(tmp_path) -> None:
    with pytest.raises(FileProblem), together(tmp_path / "a", tmp_path / "b") as (a, _):
        a.write(b"table")
        next(tmp_path.glob(".a.*.part")).unlink()
    assert list(tmp_path.iterdir()) == []


def test_something_else_of_that_name_is_left_alone(tmp_path) -> None:
    placed = dead_pair(tmp_path)
    (ready,) = tmp_path.glob(".a.*.ready")
    while True:  # until the file system's clock goes on
        (tmp_path / "a").write_bytes(b"mine")
        if (tmp_path / "a").stat().st_ctime_ns > ready.stat().st_ctime_ns:
            break
    with pytest.raises(FileProblem, match="taken its name"):
        deliver("entry", placed)
    assert (tmp_path / "a").read_bytes() == b"mine"
    (tmp_path / "a").unlink()
    assert deliver("entry", placed)
    assert (tmp_path / "a").read_bytes() == b"table"


def test_only_its_own_entry_gives_a_promise_up(tmp_path) -> None:
    dead_pair(tmp_path)
    names = [tmp_path / "a", tmp_path / "b"]
    forsake("another", names)
    assert len(list(tmp_path.glob(".*.ready"))) == 2
    forsake("entry", names)
    assert list(tmp_path.iterdir()) == []


def test_a_book_that_refuses_leaves_what_was_there(tmp_path) -> None:
    def refusing(_: object) -> None:
        raise Refused("not enough is left")

    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(Refused), together(tmp_path / "a", on_commit=OnCommit("entry", refusing)) as (file,):
        file.write(b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_what_a_book_may_have_committed_stays_for_its_recovery(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with (
        pytest.raises(KeyboardInterrupt),
        together(tmp_path / "a", on_commit=OnCommit("entry", interrupted)) as (file,),
    ):
        file.write(b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert len(list(tmp_path.glob(".a.*-entry.ready"))) == 1
    with pytest.raises(FileProblem, match="discreet ledger recover"), together(tmp_path / "a") as (file,):
        pass
    forsake("entry", [tmp_path / "a"])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def dead_folder(final: Path) -> Mapping[str, Any]:
    told = Told()
    folder = new_folder(final, on_commit=told.on_commit)
    with pytest.raises(KeyboardInterrupt), dying(0, KeyboardInterrupt(), removing=True), folder as part:
        (part / "table").write_bytes(b"table")
    return told.placed


def test_a_promised_folder_gets_its_name(tmp_path) -> None:
    placed = dead_folder(tmp_path / "out")
    with pytest.raises(FileProblem, match="discreet ledger recover"), new_folder(tmp_path / "out"):
        pass
    (tmp_path / "out").mkdir()
    with pytest.raises(FileProblem, match="taken its name"):
        deliver("entry", placed)
    (tmp_path / "out").rmdir()
    assert deliver("entry", placed)
    assert deliver("entry", placed)
    assert (tmp_path / "out" / "table").read_bytes() == b"table"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_promised_folder_that_was_spoilt_is_lost(tmp_path) -> None:
    placed = dead_folder(tmp_path / "out")
    next(tmp_path.glob(".out.*.ready")).joinpath("table").write_bytes(b"spoilt")
    assert not deliver("entry", placed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("committed", [True, False])
def test_what_an_earlier_version_promised_is_kept_or_given_up(tmp_path, committed) -> None:
    """Its contents waited under their first names, each with a mark beside it that holds the entry."""
    out, part, mark = (tmp_path / name for name in ("a", ".a.0123456789ab.part", ".a.0123456789ab.promised"))
    part.write_bytes(b"table")
    mark.write_bytes(b"entry")
    with pytest.raises(FileProblem, match="discreet ledger recover"), together(out):
        pass
    with together(tmp_path / "other") as (file,):  # sweeps the folder
        file.write(b"x")
    if committed:
        sha256 = hashlib.sha256(b"table").hexdigest()
        placed = {"files": [{"path": str(out), "sha256": sha256, "replaces": None, "write": "0123456789ab"}]}
        assert deliver("entry", placed)
    else:
        forsake("another", [out])
        assert mark.exists()
        forsake("entry", [out])
        with together(out) as (file,):
            file.write(b"table")
    assert out.read_bytes() == b"table"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "other"]
