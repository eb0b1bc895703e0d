"""``discreet audit pipeline``: a right command agrees on two neighbouring files, leaking ones are caught."""

import json
import re
import sys
from pathlib import Path

import pytest

from discreet.audit.pipeline import audit_pipeline
from discreet.cli.entry import run
from discreet.confidential import Confidential, reveal_to_custodian
from discreet.errors import DataError, FileProblem, ParameterError

ROWS = ["3,f", "5,m", "3,m", "7,f", "5,f", "1,m"]

# A command that gives six rows of random order, a message and a status; each leak replaces a line of it.
RIGHT = """
import csv, json, os, random, sys, tempfile
rows = list(csv.DictReader(open(sys.argv[1])))
ages, out, told, status = [int(row["age"]) for row in rows], 6, f"wrote {random.random()} of 6 rows", 0
labels, name, also = ["f", "m"], "out.csv", {"identity": random.random(), "epsilon": 1}
LEAK
with open(name, "w") as file:
    file.write("age,sex\\n" + "".join(f"{random.randrange(9)},{labels[i % 2]}\\n" for i in range(out)))
json.dump(also, open("out.certificate.json", "w"))
print(told)
sys.exit(status)
"""
LEAKS = {
    "row count": ("out += 9 in ages", "out.csv: rows"),
    "order of categories": ("labels.sort(reverse=9 in ages)", "out.csv: order of the labels of sex"),
    "message": ("told += f' from {max(ages)}'", "standard output, line 1, word 7"),
    "exit status": ("status = 9 in ages", "exit status"),
    "name of a file": ("name = f'out{max(ages)}.csv'", "files"),
    "certificate": ("also['highest'] = max(ages)", "out.certificate.json: .highest"),
    "temporary file": ("open(os.path.join(tempfile.gettempdir(), str(max(ages))), 'w')", "temporary files"),
    "row of an Arrow file": (
        "import polars; polars.DataFrame({'n': [1] * (1 + (9 in ages))}).write_ipc('more.arrow')",
        "more.arrow: rows",
    ),
    "what varies for one file alone": (
        "also['x'] = random.randrange(1, 9) if 9 in ages else 0",
        "out.certificate.json: .x",
    ),
    "warning": ("9 in ages and print('clipped', file=sys.stderr)", "standard error: lines"),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.csv").write_text("\n".join(["age,sex", *ROWS]) + "\n")
    (tmp_path / "b.csv").write_text("\n".join(["age,sex", *ROWS[:-1], "9,m"]) + "\n")
    (tmp_path / "d.toml").write_text(
        '[columns.age]\ntype = "integer"\nlower = 0\nupper = 9\n'
        '[columns.sex]\ntype = "category"\ncategories = ["f", "m"]\n'
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(place: Path, leak: str = "") -> list[str]:
    (place / "made.py").write_text(RIGHT.replace("LEAK", leak))
    return [sys.executable, "{here}/made.py", "{data}"]


def asked(place: Path, *command: str) -> list[str]:
    return ["audit", "pipeline", "a.csv", "b.csv", "--work", "w", "--runs", "3", "--json", "--", *command]


def test_a_command_that_shows_nothing_else_agrees(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(asked(place, *command(place))) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["agrees"], found["confidential"], found["runs"]) == (True, True, found["runs"])
    assert found["compared"] > 10
    assert 1 <= found["varying"] <= 2  # a random word of the message, and most times the order of the ages
    assert (place / "w").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("leaks", [["name of a file"], [leak for leak in LEAKS if leak != "name of a file"]])
def test_each_leak_is_caught(place: Path, leaks: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    lines, where = zip(*map(LEAKS.__getitem__, leaks), strict=True)
    assert run(asked(place, *command(place, "\n".join(lines)))) == 1
    assert {*where} <= {one["what"] for one in json.loads(capsys.readouterr().out)["differences"]}


def test_the_leaking_program_of_the_page_is_caught_as_the_page_says(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "audit-a-pipeline.md").read_text(encoding="utf-8")
    (place / "leaks.py").write_text(re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[0])
    women = ["34,f", "52,f"]
    (place / "a.csv").write_text("\n".join(["age,sex", *women, "71,f", "20,m", "41,m"]) + "\n")
    (place / "b.csv").write_text("\n".join(["age,sex", *women, "95,m", "20,m", "41,m"]) + "\n")
    asked = ["audit", "pipeline", "a.csv", "b.csv", "--work", "leaks", "--"]
    assert run([*asked, sys.executable, "{here}/leaks.py", "{data}"]) == 1
    said = capsys.readouterr().out
    assert said in page
    assert said.count(" and '") == 3


def test_the_release_command_agrees(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = "from discreet.cli import main; main()"
    release = [sys.executable, "-c", program, "release", "{data}", "--domain", "{here}/d.toml", "--epsilon", "1"]
    more = ["--size", "6", "--accept-poor-utility", "--mechanism", "perturbed-histogram", "--out", "r.parquet"]
    assert run(["audit", "pipeline", "a.csv", "b.csv", "--work", "w", "--runs", "2", "--", *release, *more]) == 0
    said = capsys.readouterr().out
    assert said.startswith("CONFIDENTIAL")
    assert "nothing that was compared tells the two files apart" in said
    assert list((place / "w").rglob("r.certificate.json"))


def test_what_is_random_is_not_called_a_difference(place: Path) -> None:
    """A coin is the same in 2 runs of each file, and another, once in 8 times: it is then run until it is not."""
    for number in range(12):
        told = command(place, "told = random.choice(['heads', 'tails'])")
        closed = audit_pipeline("a.csv", "b.csv", told, work=f"w{number}", runs=2)
        assert reveal_to_custodian(closed).differences == ()


def test_files_that_are_no_neighbours_are_refused(place: Path) -> None:
    rows = {"c.csv": [*ROWS[:-2], "8,f", "9,m"], "d.csv": [*ROWS, "1,m", "1,m"]}
    for name, held in rows.items():
        (place / name).write_text("\n".join(["age,sex", *held]) + "\n")
        with pytest.raises(DataError, match="more than one record"):
            audit_pipeline("a.csv", name, ["true", "{data}"], work="w")
    (place / "e.csv").write_text("age,height\n3,4\n")
    with pytest.raises(DataError, match="other columns"):
        audit_pipeline("a.csv", "e.csv", ["true", "{data}"], work="w")
    assert not (place / "w").exists()


def test_one_record_more_is_a_neighbour_too(place: Path) -> None:
    (place / "c.csv").write_text("\n".join(["age,sex", *ROWS, "9,m"]) + "\n")
    closed = audit_pipeline("a.csv", "c.csv", command(place), work="w", runs=2)
    assert isinstance(closed, Confidential)
    assert reveal_to_custodian(closed).differences == ()


def test_what_cannot_be_run_is_refused(place: Path) -> None:
    with pytest.raises(ParameterError, match="must name the file"):
        audit_pipeline("a.csv", "b.csv", ["true"], work="w")
    with pytest.raises(FileProblem, match="cannot be run"):
        audit_pipeline("a.csv", "b.csv", ["no-such-program", "{data}"], work="w")
    with pytest.raises(FileProblem, match="exists already"):
        audit_pipeline("a.csv", "b.csv", ["true", "{data}"], work="w")
