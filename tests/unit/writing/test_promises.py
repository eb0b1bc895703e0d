"""Files that a ledger was told of: they get their names, or are known to be lost, and nobody sweeps them away."""

from __future__ import annotations

from pathlib import Path

import pytest

from discreet._core.writing import Keeper, Move, break_promises, keep_folder, keep_promise, new_folder, together
from discreet.errors import FileProblem


class Told:
    """A book that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[object] = []
        self.keeper = Keeper("entry", self.tell)

    def tell(self, *said: object) -> None:
        self.said = list(said)


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def dead_pair(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Move]:
    """Leave a pair as a run does that died when its ledger was told, and before the files had their names."""
    told = Told()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("discreet._core.writing.file_sets.commit", interrupted)
        with together(folder / "a", folder / "b", keeper=told.keeper) as (a, b):
            a.write(b"table")
            b.write(b"certificate")
    (moves,) = told.said
    assert isinstance(moves, list)
    return moves


def test_what_was_promised_is_not_swept_and_gets_its_names(tmp_path, monkeypatch) -> None:
    moves = dead_pair(tmp_path, monkeypatch)
    with together(tmp_path / "other") as (file,):  # sweeps the folder
        file.write(b"x")
    for taken in ("a", "b"):
        with pytest.raises(FileProblem, match="discreet ledger recover"), together(tmp_path / taken):
            pass
    assert keep_promise(moves)
    assert [(tmp_path / name).read_bytes() for name in "ab"] == [b"table", b"certificate"]
    assert keep_promise(moves)  # a second time it finds them
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "other"]


def test_what_is_gone_is_lost_and_leaves_nothing(tmp_path, monkeypatch) -> None:
    moves = dead_pair(tmp_path, monkeypatch)
    moves[0].new.write_bytes(b"spoilt")
    assert not keep_promise(moves)
    assert list(tmp_path.iterdir()) == []


def test_something_else_of_that_name_is_left_alone(tmp_path, monkeypatch) -> None:
    moves = dead_pair(tmp_path, monkeypatch)
    (tmp_path / "a").write_bytes(b"mine")
    with pytest.raises(FileProblem, match="taken its name"):
        keep_promise(moves)
    assert (tmp_path / "a").read_bytes() == b"mine"
    (tmp_path / "a").unlink()
    assert keep_promise(moves)
    assert (tmp_path / "a").read_bytes() == b"table"


def test_a_promise_is_broken_for_its_own_entry_alone(tmp_path, monkeypatch) -> None:
    moves = dead_pair(tmp_path, monkeypatch)
    names = [tmp_path / "a", tmp_path / "b"]
    break_promises(names, "another")
    assert moves[0].new.exists()
    break_promises(names, "entry")
    assert list(tmp_path.iterdir()) == []


def test_a_book_that_refuses_leaves_what_was_there(tmp_path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), together(tmp_path / "a", keeper=Keeper("entry", interrupted)) as (file,):
        file.write(b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def dead_folder(final: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str, dict[str, str]]:
    told = Told()
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path, "rename", interrupted)
        with new_folder(final, keeper=told.keeper) as part:
            (part / "table").write_bytes(b"table")
    path, write, files = told.said
    assert isinstance(path, Path)
    assert isinstance(write, str)
    assert isinstance(files, dict)
    return path, write, files


def test_a_promised_folder_gets_its_name(tmp_path, monkeypatch) -> None:
    held = dead_folder(tmp_path / "out", monkeypatch)
    with pytest.raises(FileProblem, match="discreet ledger recover"), new_folder(tmp_path / "out"):
        pass
    (tmp_path / "out").mkdir()
    with pytest.raises(FileProblem, match="taken its name"):
        keep_folder(*held)
    (tmp_path / "out").rmdir()
    assert keep_folder(*held)
    assert keep_folder(*held)
    assert (tmp_path / "out" / "table").read_bytes() == b"table"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_promised_folder_that_was_spoilt_is_lost(tmp_path, monkeypatch) -> None:
    path, write, files = dead_folder(tmp_path / "out", monkeypatch)
    next(tmp_path.glob(".out.*.part")).joinpath("table").write_bytes(b"spoilt")
    assert not keep_folder(path, write, files)
    assert not (tmp_path / "out").exists()
