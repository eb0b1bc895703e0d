"""What the commands write: over nothing that is not theirs, and readers refuse what is half written."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from killed_writers import dying

import discreet
from discreet import Budget
from discreet._core.files import require_settled
from discreet.cli.entry import run
from discreet.errors import FileProblem
from discreet.inference import posterior
from discreet.releases import Certificate, verify

DOMAIN = '[columns.x]\ntype = "integer"\nlower = 0\nupper = 9\n'
TABLE = pl.DataFrame({"x": [i % 7 for i in range(2000)]})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    TABLE.write_csv("data.csv")
    TABLE.write_csv("ref.csv")
    TABLE.write_parquet("ref.parquet")
    Path("d.toml").write_text(DOMAIN)
    return tmp_path


def release(*more: str) -> int:
    quick = ["--epsilon", "1", "--delta", "1e-6", "--size", "50", "--mechanism", "dirichlet-multinomial"]
    return run(["release", "data.csv", "--domain", "d.toml", *quick, "--accept-poor-utility", *more])


def refusal(capsys: Any, *options: str) -> str:
    """Return what is said of a release that is refused."""
    capsys.readouterr()
    assert release(*options) == 2
    return str(capsys.readouterr().err)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


POINTS = ("--mechanism", "laplace-projection-sampler", "--param", "points=ref.csv")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--out", "ref.parquet", "--reference", "ref.parquet"), "also an input"),
        (("--out", "linked.csv", "--reference", "ref.csv"), "also an input"),
        (("--out", "ref.csv", *POINTS), "also an input"),
        (("--out", "data.csv"), "also an input"),
        (("--out", "x.csv", "--certificate", "d.toml"), "also an input"),
        (("--out", "x.csv", "--certificate", "x.csv"), "two outputs"),
        (("--out", "other.csv"), "exists without"),
        (("--out", "x.csv", "--certificate", "notes.json"), "exists without"),
        (("--out", "x.csv", "--mechanism", "private-evolution", "--checkpoint", "x.csv"), "two outputs"),
        (("--out", "x.csv", "--mechanism", "private-evolution", "--checkpoint", "ref.csv", "--reference", "ref.csv"),
         "also an input"),
        (("--out", "x.csv", "--mechanism", "private-evolution", "--checkpoint", "notes.json"), "not a checkpoint"),
        (("--out", "none/x.csv"), "does not exist"),
    ],
)  # fmt: skip
def test_no_release_overwrites_what_is_not_one(here: Path, options: tuple[str, ...], words: str, capsys: Any) -> None:
    Path("linked.csv").symlink_to("ref.csv")
    Path("other.csv").write_text("x\n1\n")
    Path("notes.json").write_text("{}")
    before = contents(here)
    assert words in refusal(capsys, *options)
    assert contents(here) == before


def test_only_a_whole_release_is_replaced(here: Path, capsys: Any) -> None:
    assert release("--out", "x.csv") == 0
    before = contents(here)
    assert "exists without" in refusal(capsys, "--out", "x.csv", "--certificate", "folderless.json")
    assert contents(here) == before
    assert release("--out", "x.csv") == 0
    assert contents(here)["x.csv"] != before["x.csv"]
    assert sorted(contents(here)) == sorted(before)
    Path("x.csv").write_text("x\n3\n")
    assert "is not the certificate of x.csv" in refusal(capsys, "--out", "x.csv")
    Path("x.certificate.json").write_text("{}")
    assert "is not the certificate of a release" in refusal(capsys, "--out", "x.csv")
    assert Path("x.csv").read_text() == "x\n3\n"
    assert Path("x.certificate.json").read_text() == "{}"


def test_a_name_that_is_taken_costs_no_release_its_certificate(here: Path, capsys: Any) -> None:
    """The remedy, followed, leaves the first release as it was. Before, it was to remove its certificate."""
    assert release("--out", "x.csv") == 0
    before = contents(here)
    for options in (("--out", "x.parquet"), ("--out", "y.csv", "--certificate", "x.certificate.json")):
        said = refusal(capsys, *options)
        assert "x.certificate.json: it is the certificate of x.csv, which cannot do without it" in said
        assert "Give another name: --out ... or --certificate ..." in said
        assert "emove" not in said
    Path("x.parquet").write_bytes(b"mine")
    assert "it is the certificate of x.csv" in refusal(capsys, "--out", "x.parquet")
    Path("x.parquet").unlink()
    assert release("--out", "y.parquet") == 0
    assert release("--out", "x.parquet", "--certificate", "other.json") == 0
    assert contents(here).items() >= before.items()
    assert run(["verify", "x.certificate.json", "--data", "x.csv"]) == 0
    made = discreet.release("data.csv", "d.toml", Budget(epsilon=1, delta=1e-6), size=50)
    with pytest.raises(
        FileProblem,
        match=r"certificate of x\.csv.*Give another name: out=\.\.\. or out=Output\(\.\.\., certificate=\.\.\.\)",
    ):
        made.write("x.arrow")


def test_a_pair_that_was_renamed_is_replaced(here: Path) -> None:
    """Its certificate has the earlier name, and the hash of this table."""
    assert release("--out", "x.csv") == 0
    for name in ("x.csv", "x.certificate.json"):
        Path(name).rename(name.replace("x", "y"))
    assert release("--out", "y.csv") == 0
    assert run(["verify", "y.certificate.json", "--data", "y.csv"]) == 0


def test_a_certificate_alone_is_not_to_be_removed(here: Path, capsys: Any) -> None:
    assert release("--out", "x.csv") == 0
    Path("x.csv").rename("elsewhere.csv")
    said = refusal(capsys, "--out", "x.csv")
    assert "x.certificate.json: it exists without x.csv" in said
    assert "emove" not in said


def left_half_written(names: int) -> None:
    """Write a release over one, and die when so many of its files have their names."""
    with dying(names, OSError()):
        assert release("--out", "x.csv") == 2


def test_every_reader_refuses_half_a_release_until_it_is_settled(here: Path, capsys: Any) -> None:
    assert release("--out", "x.csv") == 0
    left_half_written(1)
    assert "interrupted" in capsys.readouterr().err
    for reader in (
        ["verify", "x.certificate.json", "--data", "x.csv"],
        ["estimate", "x.csv", "--functional", "mean"],
        ["report", "x.csv", "--out", "r.html"],
        ["compare", "data.csv", "x.csv", "--domain", "d.toml"],
        ["release", "x.csv", "--domain", "d.toml", "--epsilon", "1", "--size", "9", "--out", "y.csv"],
        ["domain", "init", "x.csv"],
    ):
        assert run(reader) == 2, reader
        said = capsys.readouterr()
        assert not said.out
        assert "interrupted" in said.err
        assert "discreet verify --recover" in said.err
    with pytest.raises(FileProblem, match="interrupted"):
        posterior("x.csv")
    assert run(["verify", "x.certificate.json"]) == 0  # which is whole, and says nothing of the table before
    assert run(["verify", "--recover", "x.certificate.json", "--data", "x.csv"]) == 0
    assert run(["estimate", "x.csv", "--functional", "mean"]) == 0
    assert [path.name for path in here.glob(".*")] == []


def test_a_release_is_read_until_the_next_one_has_a_name(here: Path) -> None:
    assert release("--out", "x.csv") == 0
    before = contents(here)
    left_half_written(0)
    assert {name: before[name] for name in ("x.csv", "x.certificate.json")}.items() <= contents(here).items()
    assert run(["verify", "x.certificate.json", "--data", "x.csv"]) == 0
    assert run(["estimate", "x.csv", "--functional", "mean"]) == 0
    assert run(["verify", "--recover", "x.certificate.json"]) == 0
    assert run(["verify", "x.certificate.json", "--data", "x.csv"]) == 0
    assert contents(here)["x.csv"] != before["x.csv"]


def test_the_next_release_settles_half_of_one_first(here: Path) -> None:
    assert release("--out", "x.csv") == 0
    left_half_written(1)
    assert (
        release("--out", "x.csv", "--unit", "none", "--max-records", "1") == 2
    )  # its output waits for another request
    assert release("--out", "x.csv") == 0
    assert run(["verify", "x.certificate.json", "--data", "x.csv"]) == 0
    left_half_written(0)
    assert release("--out", "x.csv") == 0
    assert run(["verify", "x.certificate.json", "--data", "x.csv"]) == 0


def test_a_table_beside_another_ones_certificate_is_refused_without_a_record(here: Path, capsys: Any) -> None:
    assert release("--out", "x.csv") == 0
    assert release("--out", "y.csv") == 0
    assert run(["verify", "x.certificate.json", "--data", "y.csv"]) == 1
    assert run(["estimate", "y.csv", "--certificate", "x.certificate.json", "--functional", "mean"]) == 2
    assert "not the file that its certificate was written for" in capsys.readouterr().err
    assert run(["report", "y.csv", "--certificate", "x.certificate.json", "--out", "r.html"]) == 1


def test_a_full_disk_leaves_the_old_release(here: Path) -> None:
    assert release("--out", "x.csv") == 0
    before = contents(here)

    program = """if True:
        import resource, signal, sys
        from discreet.cli import main
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
        main(sys.argv[1:])"""
    for out in ("x.csv", "new.parquet"):
        done = subprocess.run(
            [sys.executable, "-c", program, "release", "data.csv", "--domain", "d.toml", "--epsilon", "1", "--delta",
             "1e-6", "--size", "500000", "--out", out, "--mechanism", "perturbed-histogram"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert "file too large" in done.stderr
        assert "run the same command again to go on" in done.stderr
        waiting = here / f".{out}.output"
        assert list(here.glob(".*")) == [waiting]
        waiting.unlink()
        assert contents(here) == before


def mode(name: str) -> int:
    return stat.S_IMODE(Path(name).stat().st_mode)


def test_who_may_read_what_was_written(here: Path) -> None:
    assert release("--out", "x.csv") == 0
    umask = os.umask(0)
    os.umask(umask)
    assert mode("x.csv") == mode("x.certificate.json") == 0o666 & ~umask
    Path("x.csv").chmod(0o600)
    assert release("--out", "x.csv") == 0
    assert mode("x.csv") == 0o600
    assert run(["report", "x.csv", "--out", "r.html"]) == 0
    assert mode("r.html") == 0o666 & ~umask
    for _ in range(2):
        assert run(["report", "x.csv", "--out", "r.html", "--data", "data.csv", "--resamples", "0"]) == 0
        assert mode("r.html") == 0o600


def test_a_page_or_picture_replaces_only_one_of_ours(here: Path, capsys: Any) -> None:
    from discreet.pseudo_posterior import violins

    assert release("--out", "x.csv") == 0
    Path("r.html").write_text("<html>mine</html>")
    assert run(["report", "x.csv", "--out", "r.html"]) == 2
    assert "not written by discreet" in capsys.readouterr().err
    assert run(["report", "x.csv", "--out", "x.html", "--data", "x.html"]) == 2
    for name in ("p.png", "p.svg", "p.pdf"):
        for confidential, expected in ((True, 0o600), (True, 0o600)):
            violins({"a": [1.0, 2.0]}, name, label="l", confidential=confidential)
            assert mode(name) == expected
        Path(name).write_bytes(b"mine")
        with pytest.raises(FileProblem, match="not written by discreet"):
            violins({"a": [1.0, 2.0]}, name, label="l")
        assert Path(name).read_bytes() == b"mine"
    with pytest.raises(FileProblem, match="ending"):
        violins({"a": [1.0, 2.0]}, "p.txt", label="l")


def test_the_demonstration_replaces_nothing_of_others(here: Path, capsys: Any) -> None:
    pytest.importorskip("statsmodels")
    before = contents(here)
    assert run(["demo", "--out", "."]) == 2
    assert "there is something in it.\nRemove it" in capsys.readouterr().err
    assert contents(here) == before
    assert run(["demo", "--out", "data.csv"]) == 2


def test_a_template_replaces_nothing(here: Path) -> None:
    before = contents(here)
    for out in ("d.toml", "data.csv", "none/x.toml", "."):
        assert run(["domain", "init", "data.csv", "--out", out]) == 2
    assert contents(here) == before
    assert run(["domain", "init", "data.csv", "--out", "new.toml"]) == 0


def test_a_finished_checkpoint_is_used_again_by_name_only(here: Path, capsys: Any) -> None:
    evolution = ("--mechanism", "private-evolution", "--param", "steps=1", "--param", "population=20", "--param",
                 "variant=practical", "--checkpoint", "steps", "--accept-poor-utility")  # fmt: skip
    assert release("--out", "x.csv", "--redraw") == 2
    Path("steps").write_text("mine")
    said = refusal(capsys, "--out", "x.csv", *evolution)
    assert "it is not a checkpoint" in said
    assert "taken" not in said
    Path("steps").unlink()
    assert release("--out", "x.csv", *evolution) == 0
    assert mode("steps") == 0o600
    TABLE.with_columns(x=8 - pl.col("x")).write_csv("data.csv")  # as many records, and others
    assert "no step would read the table" in refusal(capsys, "--out", "y.csv", *evolution)
    assert not Path("y.csv").exists()
    assert release("--out", "y.csv", "--redraw", *evolution) == 0
    said = capsys.readouterr().err
    assert "steps holds 1 step, taken as released" in said
    assert "the table is not asked again" in said
    stated = json.loads(Path("y.certificate.json").read_text())["released"]["outcome"]
    assert {"code": "votes-kept"} in stated


def test_in_python_too(here: Path) -> None:
    facts: dict[str, Any] = {"budget": Budget(epsilon=1, delta=1e-6), "size": 50}
    with pytest.raises(FileProblem, match="also an input"):
        discreet.release("data.csv", "d.toml", reference="ref.csv", out="ref.csv", **facts)
    made = discreet.release("data.csv", "d.toml", **facts)
    with pytest.raises(FileProblem, match="exists without"):
        made.write("ref.csv")
    for _ in range(2):
        made.write("x.csv")
    assert all(check.agrees for check in verify(Certificate.read("x.certificate.json"), data="x.csv"))
    require_settled("x.csv")
