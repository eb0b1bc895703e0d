"""What is read from a checkpoint is what was written, or it is refused: never with another error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from discreet._core.random import secure
from discreet.domain import Category, Counts, Domain, Numeric, OpenLabels, Records
from discreet.errors import FileProblem
from discreet.evolution import Callables
from discreet.mechanisms import REGISTRY
from discreet.mechanisms.base import Votes
from discreet.mechanisms.steps import StepsFile, _digest, steps_taken

DOMAIN = Domain(columns={"x": Numeric(lower=0.0, upper=1.0), "c": Category(categories=["a", "b", "c"])})
TABLE = Counts(
    records=Records(columns=(np.array([0.25, 0.75]), np.array([0, 2]))), frequencies=np.array([30, 70])
)  # fmt: skip


def evolution(**parameters: Any) -> Any:
    given = {"records": 100, "scale": 2.0, "steps": 3, "population": 4, "variant": "practical", **parameters}
    return REGISTRY["private-evolution"](domain=DOMAIN, **given)


def taken(mechanism: Any, path: Path, **watch: Any) -> Any:
    return steps_taken(mechanism, TABLE, rng=secure(), file=StepsFile(path, mechanism), **watch)


class Died(Exception):
    pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the checkpoint of a run that died after two of three steps."""

    def dies(done: int, _: int) -> None:
        if done == 2:
            raise Died

    with pytest.raises(Died):
        taken(evolution(), tmp_path / "steps", stepped=dies)
    return tmp_path / "steps"


def resumed(path: Path, **parameters: Any) -> Any:
    return taken(evolution(**parameters), path)


def test_every_changed_byte_is_noticed(path: Path) -> None:
    whole = path.read_bytes()
    draws = np.random.default_rng(seed := 20260101)
    places = draws.choice(len(whole), size=300, replace=False)
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= int(draws.integers(1, 256))
        path.write_bytes(changed)
        with pytest.raises(FileProblem):
            resumed(path)
        assert path.read_bytes() == changed, seed
    for part in (whole[:-1], whole + b"\0", whole[:100], b"", b"\n", b"{}\n", b"[" * 10**5, whole * 2):
        path.write_bytes(part)
        with pytest.raises(FileProblem, match="not a checkpoint"):
            resumed(path)
    path.write_bytes(whole)
    assert len(resumed(path)) == 3


def rewritten(path: Path, change: Any) -> None:
    """Change a checkpoint as one who knows the format does: with a digest of what it now holds."""
    whole = path.read_bytes()
    line, _, body = whole.partition(b"\n")
    head = json.loads(line)
    body = change(head, bytearray(body)) or body
    head["digest"] = _digest(head.get("run", ""), head["steps"], bytes(body))
    path.write_bytes(json.dumps(head).encode() + b"\n" + bytes(body))


def replaced(place: int, number: bytes) -> Any:
    def change(_: Any, body: bytearray) -> bytearray:
        body[place : place + 8] = number
        return body

    return change


def at(head: dict[str, Any], column: int) -> int:
    """Return where the first step's votes (0) or a column of its candidates (1, 2) begin."""
    rows = head["steps"][0]["rows"]
    return 8 * rows * column


def odd(what: str) -> Any:
    def change(head: dict[str, Any], body: bytearray) -> bytearray | None:
        step = head["steps"][0]
        if what == "votes of -2^62":
            return replaced(0, (-(1 << 62)).to_bytes(8, "little", signed=True))(head, body)
        if what == "a place that is NaN":
            return replaced(at(head, 1), np.float64(np.nan).tobytes())(head, body)
        if what == "an infinite place":
            return replaced(at(head, 1), np.float64(np.inf).tobytes())(head, body)
        if what == "a category that is none":
            return replaced(at(head, 2), (7).to_bytes(8, "little"))(head, body)
        if what == "a kind that is none":
            step["columns"][0][0] = "O"
        elif what == "numbers for labels":
            step["columns"][0][0] = "i"
        elif what == "rows below 0":
            step["rows"] = -3
        elif what == "rows that are true":
            step["rows"] = True
        elif what == "rows in words":
            step["rows"] = "12"
        elif what == "rows without end":
            step["rows"] = 1 << 62
        elif what == "no columns":
            step["columns"] = []
        elif what == "nine steps":
            head["steps"] = (head["steps"] * 5)[:9]
            return (body * 5)[: 9 * len(body) // 2]
        elif what == "steps that are a number":
            head["steps"] = 3
        elif what == "another run":
            head["run"] = "0" * 64
        elif what == "a later version":
            head["discreet_checkpoint"] = 3
        elif what == "no run":
            del head["run"]
        return None

    return change


@pytest.mark.parametrize(
    "what",
    ["votes of -2^62", "a place that is NaN", "an infinite place", "a category that is none", "a kind that is none",
     "numbers for labels", "rows below 0", "rows that are true", "rows in words", "rows without end", "no columns",
     "nine steps", "steps that are a number", "another run", "a later version", "no run"],
)  # fmt: skip
def test_a_digest_alone_makes_no_step(path: Path, what: str) -> None:
    rewritten(path, odd(what))
    before = path.read_bytes()
    with pytest.raises(FileProblem):
        resumed(path)
    assert path.read_bytes() == before


def test_the_public_facts_are_in_the_digest(path: Path) -> None:
    for other in ({"steps": 4}, {"scale": 2.5}, {"records": 101}, {"population": 5}, {"sampling": "iid"}):
        with pytest.raises(FileProblem, match="another mechanism or domain"):
            resumed(path, **other)


def test_votes_below_the_threshold_are_none_of_a_run_with_one(tmp_path: Path) -> None:
    mechanism = evolution(noise="laplace", threshold=5)
    step = Votes(Records(columns=(np.array([0.5]), np.array([1]))), np.array([7]))
    assert mechanism.could_release(step)
    assert not mechanism.could_release(step._replace(votes=np.array([4])))
    assert not mechanism.could_release(Votes(Records(columns=()), np.array([7])))
    labels = Domain(columns={"w": OpenLabels()})
    words = REGISTRY["private-evolution"](
        domain=labels, records=9, scale=2.0, steps=1, population=2, noise="laplace", threshold=3, api=_api(labels)
    )
    for label, fits in (("a", True), (None, False)):
        assert words.could_release(Votes(Records(columns=(np.array([label], dtype=object),)), np.array([7]))) is fits


def _api(domain: Domain) -> Any:
    def some(count: int, _: int) -> pl.DataFrame:
        return pl.DataFrame({"w": [f"word {i}" for i in range(count)]})

    def same(frame: pl.DataFrame, _: int) -> pl.DataFrame:
        return frame

    def lengths(frame: pl.DataFrame) -> Any:
        return frame["w"].str.len_chars().to_numpy().astype(float)[:, None]

    return Callables(
        domain=domain, label="words", generate=some, vary=same, embedding=lengths, diameter=9.0, variations=1
    )


def test_a_finished_checkpoint_is_taken_only_where_asked(tmp_path: Path) -> None:
    step = Votes(Records(columns=(np.array([0.5]), np.array([1]))), np.array([7]))
    kept = StepsFile(tmp_path / "x", evolution(steps=1))
    kept.write([step])
    with pytest.raises(FileProblem, match="no step would read the table"):
        kept.steps()
    assert len(kept.steps(redraw=True)) == 1
