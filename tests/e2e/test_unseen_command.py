"""``discreet unseen``: what a release of an urn tells of values that it does not have."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from commands import answer, document

from discreet.cli.entry import run
from discreet.inference import unseen

CONTINUOUS = '[columns.x]\ntype = "numeric"\nlower = 0\nupper = 1\n'
FINITE = '[columns.x]\ntype = "integer"\nlower = 0\nupper = 9\n'


def released(folder: Path, values: np.ndarray, domain: str, *options: str) -> str:
    """Release 200 records through the command; the data are deleted afterwards."""
    pl.DataFrame({"x": values}).write_parquet(folder / "data.parquet")
    (folder / "d.toml").write_text(domain)
    out = str(folder / "z.csv")
    asked = ["release", str(folder / "data.parquet"), "--domain", str(folder / "d.toml"), "--epsilon", "1", "--delta",
             "0.1", "--size", "200", "--seed", "1", "--out", out, "--accept-weak-promise", *options]  # fmt: skip
    assert run(asked) == 0
    (folder / "data.parquet").unlink()
    return out


def urn(n: int, strength: float, discount: float) -> np.ndarray:
    """Draw from a Pitman-Yor process."""
    rng = np.random.default_rng(3)
    values: list[float] = []
    distinct = 0
    for i in range(n):
        new = rng.random() * (strength + i) < strength + discount * distinct
        # An old value in proportion to its frequency less the discount: a record that is not its first, or in part.
        while not new:
            at = int(rng.integers(i))
            if values.index(values[at]) != at or rng.random() < 1 - discount:
                break
        values.append(rng.random() if new else values[at])
        distinct += new
    return np.array(values)


URN = ("--mechanism", "pitman-yor", "--param", "strength=4", "--param", "discount=0.25")


def test_what_is_not_shown_with_what_it_rests_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = urn(2000, 4.0, 0.25)
    out = released(tmp_path, values, CONTINUOUS, *URN)
    found = document(capsys, "unseen", out)
    hidden = found["unseen"]
    assert list(found) == ["released", "level", "unseen", "notes"]
    assert list(hidden) == ["values", "mass", "discovery", "strength", "discount"]
    assert found["notes"] == []
    for of, facts in hidden.items():
        one = unseen(out, of=of)
        assert (facts["estimate"], facts["lower"], facts["upper"]) == (one.estimate, one.lower, one.upper)
        assert facts["rests_on"]
    number = len(set(values.tolist()) - set(pl.read_csv(out)["x"].to_list()))
    for of, true in (("values", number), ("strength", 4.0), ("discount", 0.25)):
        assert hidden[of]["lower"] <= true <= hidden[of]["upper"]
    lines = answer(capsys, "unseen", out, "--level", 0.5).splitlines()
    assert lines[0].startswith("values: distinct values among 2,000 confidential records that the release does not")
    assert "(50%: " in lines[0]
    assert "(at least 50%: " in lines[1]
    rests_on = dict.fromkeys(facts["rests_on"] for facts in hidden.values())
    assert [line for line in lines if line.startswith("- ")] == [f"- {text}" for text in rests_on]


def test_records_that_are_not_of_that_process_are_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred values, equally frequent: an urn of strength 4 would have given far fewer."""
    out = released(tmp_path, np.arange(2000) % 100 / 100, CONTINUOUS, *URN)
    (note,) = document(capsys, "unseen", out)["notes"]
    assert "do not look like draws" in note
    assert note in answer(capsys, "unseen", out)


def test_a_finite_domain_has_nothing_unseen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = released(tmp_path, np.arange(2000) % 10, FINITE, "--mechanism", "dirichlet-process", "--param", "strength=1")
    found = document(capsys, "unseen", out)
    assert list(found["unseen"]) == ["strength"]
    assert "finite" in found["notes"][0]


def test_only_an_urn_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = released(tmp_path, np.arange(2000) % 10, FINITE, "--mechanism", "perturbed-histogram")
    assert "continues the urn" in answer(capsys, "unseen", out, status=2)
    answer(capsys, "unseen", out, "--level", 95, status=2)
    answer(capsys, "unseen", tmp_path / "none.csv", status=2)
    (tmp_path / "z.certificate.json").unlink()
    assert "certificate" in answer(capsys, "unseen", out, status=2)
