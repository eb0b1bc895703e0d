"""``discreet unseen`` and ``discreet paper``: the analyses of the papers as commands."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from discreet.cli.entry import run
from discreet.inference import unseen
from discreet.papers.py26 import dirichlet_process_rate, largest_size_theorem_2

CONTINUOUS = '[columns.x]\ntype = "numeric"\nlower = 0\nupper = 1\n'
FINITE = '[columns.x]\ntype = "integer"\nlower = 0\nupper = 9\n'


def released(folder: Path, values: np.ndarray, domain: str, *options: str) -> str:
    """Release 200 records through the command; the data are deleted afterwards."""
    pl.DataFrame({"x": values}).write_parquet(folder / "data.parquet")
    (folder / "d.toml").write_text(domain)
    out = str(folder / "z.csv")
    asked = ["release", str(folder / "data.parquet"), "--domain", str(folder / "d.toml"), "--epsilon", "1", "--delta",
             "0.1", "--size", "200", "--seed", "1", "--out", out, *options]  # fmt: skip
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
    capsys.readouterr()
    assert run(["unseen", out, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document) == ["released", "level", "unseen", "notes"]
    assert list(document["unseen"]) == ["values", "mass", "discovery", "strength", "discount"]
    assert document["notes"] == []
    for of, found in document["unseen"].items():
        one = unseen(out, of=of)
        assert (found["estimate"], found["lower"], found["upper"]) == (one.estimate, one.lower, one.upper)
        assert found["rests_on"]
    kept = set(pl.read_csv(out)["x"].to_list())
    hidden = document["unseen"]["values"]
    assert hidden["lower"] <= len(set(values.tolist()) - kept) <= hidden["upper"]
    assert document["unseen"]["strength"]["lower"] < 4.0 < document["unseen"]["strength"]["upper"]
    assert document["unseen"]["discount"]["lower"] < 0.25 < document["unseen"]["discount"]["upper"]
    assert run(["unseen", out, "--level", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(
        "values: distinct values among 2,000 confidential records that the release does not show:"
    )
    assert "(50%: " in lines[0]
    assert "(at least 50%: " in lines[1]
    assert [line for line in lines if line.startswith("- ")] == [
        f"- {text}" for text in dict.fromkeys(one["rests_on"] for one in document["unseen"].values())
    ]


def test_records_that_are_not_of_that_process_are_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred values, equally frequent: an urn of strength 4 would have given far fewer."""
    out = released(tmp_path, np.arange(2000) % 100 / 100, CONTINUOUS, *URN)
    capsys.readouterr()
    assert run(["unseen", out, "--json"]) == 0
    (note,) = json.loads(capsys.readouterr().out)["notes"]
    assert "do not look like draws" in note
    assert run(["unseen", out]) == 0
    assert note in capsys.readouterr().out


def test_a_finite_domain_has_nothing_unseen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = released(tmp_path, np.arange(2000) % 10, FINITE, "--mechanism", "dirichlet-process", "--param", "strength=1")
    capsys.readouterr()
    assert run(["unseen", out, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert list(document["unseen"]) == ["strength"]
    assert "finite" in document["notes"][0]


def test_only_an_urn_is_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = released(tmp_path, np.arange(2000) % 10, FINITE, "--mechanism", "perturbed-histogram")
    assert run(["unseen", out]) == 2
    assert "continues the urn" in capsys.readouterr().err
    assert run(["unseen", out, "--level", "95"]) == 2
    assert run(["unseen", str(tmp_path / "none.csv")]) == 2
    (tmp_path / "z.certificate.json").unlink()
    assert run(["unseen", out]) == 2
    assert "certificate" in capsys.readouterr().err


def test_every_question_of_the_papers_has_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    numbers = {"epsilon": 0.5, "delta": 1e-3, "n": 10_000, "m": 100, "d": 2, "size": 10, "strength": 2, "cells": 9,
               "accuracy": 0.2, "moment": 3, "diameter": 2}  # fmt: skip
    assert run(["paper", "--json"]) == 0
    questions = json.loads(capsys.readouterr().out)["questions"]
    assert {"theorem-2-size", "rate-values", "records-reveal-or-obscure", "records-as-published"} <= set(questions)
    assert run(["paper"]) == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == list(questions)
    for name, asked in questions.items():
        given = with_numbers(**{number: numbers[number] for number in asked})
        assert run(["paper", name, *given, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert document["given"] == {number: numbers[number] for number in asked}
        assert math.isfinite(document["value"])
        assert run(["paper", name, *given]) == 0
        assert capsys.readouterr().out == f"{document['means']}\n- {document['rests_on']}\n"
        assert "{}" not in document["means"]
        assert document["means"].endswith(".")


def test_the_numbers_are_those_of_the_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    budget = ["--param", "epsilon=0.5", "--param", "delta=1e-5", "--param", "strength=1", "--param", "n=11918162"]
    assert run(["paper", "theorem-2-size", *budget]) == 0
    assert "at most 38 records" in capsys.readouterr().out
    assert largest_size_theorem_2(0.5, 1e-5, n=11_918_162, strength=1) == 38
    assert run(["paper", "rate-values", "--param", "n=9", "--param", "m=5", "--param", "d=1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == dirichlet_process_rate(9, 5, 1)
    published = ["--param", "epsilon=0.1", "--param", "accuracy=0.18", "--param", "cells=9"]
    assert run(["paper", "records-as-published", *published]) == 0
    assert "1,000 records" in capsys.readouterr().out  # computed as 1000.0000000000001


def with_numbers(**numbers: float) -> list[str]:
    return [part for name, value in numbers.items() for part in ("--param", f"{name}={value}")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rate"], "question must be one of"),
        (["rate-values", "--param", "n=5"], "Give m and d too"),
        (["rate-sample", "--param", "n=5", "--param", "d=1", "--param", "m=3"], "does not ask for m"),
        (["rate-sample", "--param", "n=5", "--param", "n=6", "--param", "d=1"], "given twice"),
        (["rate-sample", "--param", "n=0", "--param", "d=1"], "n must be"),
        (["rate-sample", "--param", "n=many", "--param", "d=1"], "n must be"),
        (["rate-sample", "--param", "n=5", "--param", "d=1.5"], "d must be"),
        (["records-as-published", *with_numbers(epsilon=1e-300, accuracy=1e-300, cells=9)], "beyond"),
        (["records-reveal-or-obscure", *with_numbers(epsilon=1e-12, accuracy=5e-324, cells=9)], "beyond"),
        (["records-laplace-projection-sampler", *with_numbers(epsilon=5e-324, accuracy=0.1, cells=9)], "epsilon must"),
        (["rate-sample", "--param", "n=5", "--param", "d=1", "--param", "published=1"], "does not ask for published"),
    ],
)
def test_a_question_without_an_answer_is_told_why(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["paper", *arguments]) == 2
    assert told in capsys.readouterr().err
